/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - what the page is told, as JSON. See state.h.
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_TOLD = 256, EVENTS_OF_LOCK = 32 };

void write_state(FILE *out, const struct about *about, uint64_t number, const struct look *look, const struct history *history) {
    struct json_options options = {.history = history};
    char *head = NULL;
    size_t length;
    FILE *keys = open_memstream(&head, &length);

    if (keys == NULL)
        return;
    fprintf(keys, "\"look\":%" PRIu64 ",\"server\":{\"version\":\"%s\",\"host\":", number, pawl_version());
    json_string(keys, about->host);
    fprintf(keys, ",\"break\":\"%s\",\"interval_ms\":%" PRId64 ",\"started_ms\":%" PRId64 "},", about->breaks, about->interval_ms,
            about->started_ms);
    fclose(keys);
    options.head = head;
    json_look(out, look, &options);
    free(head);
}

/* ---- differences ---------------------------------------------------------------------------------------------------------- */

/* One pass over both looks for each list: what changed, what is gone, what changes hands. */
struct pass {
    FILE *out;
    const struct place *place;
    const struct look *before, *look;
    const struct json_options *options;
    const char *separator;
};

static bool is_here(const struct pass *pass, const struct lock_seen *lock) {
    return lock != NULL && strcmp(lock->place->url, pass->place->url) == 0;
}

static enum lock_change change(const struct pass *pass, const struct lock_seen *before, const struct lock_seen *now) {
    return before != NULL ? lock_changed(before, pass->before->time_ms, now, pass->look->time_ms) : CHANGE_OTHER;
}

static void tell_changed(const struct lock_seen *before, const struct lock_seen *now, void *data) {
    struct pass *pass = data;

    if (!is_here(pass, now) || change(pass, before, now) != CHANGE_OTHER)
        return;
    fputs(pass->separator, pass->out);
    json_lock(pass->out, now, pass->options);
    pass->separator = ",";
}

static void tell_gone(const struct lock_seen *before, const struct lock_seen *now, void *data) {
    struct pass *pass = data;

    if (!is_here(pass, before) || now != NULL)
        return;
    fputs(pass->separator, pass->out);
    json_string(pass->out, before->name);
    pass->separator = ",";
}

/* What is left to each holder: with thousands of locks that are held for long nothing else happens. */
static void tell_lease(const struct lock_seen *before, const struct lock_seen *now, void *data) {
    struct pass *pass = data;

    if (!is_here(pass, now) || change(pass, before, now) != CHANGE_LEASE)
        return;
    fputs(pass->separator, pass->out);
    json_string(pass->out, now->name);
    for (size_t i = 0; i < now->holders; i++) {
        int64_t left_ms = now->entries[i].remaining_ms;

        fputs(i > 0 ? "," : ":[", pass->out);
        if (left_ms >= 0 && left_ms != PAWL_FOREVER)
            fprintf(pass->out, "%" PRId64, left_ms);
        else
            fputs("null", pass->out);
    }
    fputc(']', pass->out);
    pass->separator = ",";
}

static void write_rates(FILE *out, const struct place *place, const struct history *history) {
    const char *separator = "";

    fputc('{', out);
    for (size_t i = 0; i < place->count; i++) {
        double rate = hand_off_rate(history_of(history, place->url, place->locks[i].name));

        if (rate <= 0)
            continue;
        fputs(separator, out);
        json_string(out, place->locks[i].name);
        fprintf(out, ":%.3g", rate);
        separator = ",";
    }
    fputc('}', out);
}

static void write_list(struct pass *pass, const char *beginning, pair_fn *tell, const char *end) {
    fputs(beginning, pass->out);
    pass->separator = "";
    look_compare(pass->before, pass->look, tell, pass);
    fputs(end, pass->out);
}

/* A place that could not be seen before is told as a whole: what went meanwhile is in no list. */
static void write_place(struct pass *pass, bool whole) {
    fputs("{\"url\":", pass->out);
    json_string(pass->out, pass->place->url);
    fprintf(pass->out, ",\"took_ms\":%.3f,\"whole\":%s,\"error\":", pass->place->took_ms, whole ? "true" : "false");
    if (pass->place->code != 0)
        json_string(pass->out, pass->place->error);
    else
        fputs("null", pass->out);
    write_list(pass, ",\"changed\":[", tell_changed, "]");
    write_list(pass, ",\"gone\":[", tell_gone, "]");
    write_list(pass, ",\"leases\":{", tell_lease, "}");
    fputs(",\"rates\":", pass->out);
    write_rates(pass->out, pass->place, pass->options->history);
    fputc('}', pass->out);
}

static bool same_findings(const struct look *left, const struct look *right) {
    for (size_t i = 0; i < left->count; i++) {
        const struct findings *a = &left->places[i].findings, *b = &right->places[i].findings;

        if (a->count != b->count)
            return false;
        for (size_t j = 0; j < a->count; j++)
            if (a->items[j].severity != b->items[j].severity || strcmp(a->items[j].what, b->items[j].what) != 0)
                return false;
    }
    return true;
}

static void write_events(FILE *out, const struct history *history, uint64_t heard) {
    const struct event *events[EVENTS_TOLD];
    size_t count = history_events(history, NULL, NULL, events, EVENTS_TOLD);

    while (count > 0 && events[count - 1]->number <= heard)
        count--;
    json_events(out, events, count);
}

void write_difference(FILE *out, uint64_t number, const struct look *before, const struct look *look, const struct history *history,
                      uint64_t heard) {
    struct json_options options = {.history = history};

    fprintf(out, "id: %" PRIu64 "\nevent: state\ndata: {\"look\":%" PRIu64 ",\"time_ms\":%" PRId64 ",\"places\":[", number, number,
            look->time_ms);
    for (size_t i = 0; i < look->count; i++) {
        struct pass pass = {.out = out, .place = &look->places[i], .before = before, .look = look, .options = &options};

        fputs(i > 0 ? "," : "", out);
        write_place(&pass, before->places[i].code != 0 && look->places[i].code == 0);
    }
    fputs("],\"deadlocks\":", out);
    json_deadlocks(out, look);
    fputs(",\"events\":", out);
    write_events(out, history, heard);
    if (!same_findings(before, look)) {
        fputs(",\"findings\":", out);
        json_findings(out, look);
    }
    fputs("}\n\n", out);
}

/* ---- one lock ------------------------------------------------------------------------------------------------------------- */

void write_lock(FILE *out, const struct look *look, const char *name, const struct history *history) {
    const struct place *place = &look->places[0];
    struct json_options options = {.history = history, .raw = true};
    const struct lock_past *past = history != NULL ? history_of(history, place->url, name) : NULL;
    const struct event *events[EVENTS_OF_LOCK];
    size_t count = history != NULL ? history_events(history, place->url, name, events, EVENTS_OF_LOCK) : 0;
    double rate = hand_off_rate(past);

    fputs("{\"seen\":", out);
    json_place(out, look, place, &options);
    fprintf(out, rate < 0 ? ",\"rate\":null" : ",\"rate\":%.3g", rate);
    fputs(",\"holds\":", out);
    json_holds(out, past);
    fputs(",\"events\":", out);
    json_events(out, events, count);
    fputc('}', out);
}
