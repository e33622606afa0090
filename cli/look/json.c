/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - looks as JSON. docs/status-json.md is the contract: keys are added, never changed.
 *
 * Tokens are strings: they have 64 bits, and most readers of JSON keep 53 of a number. What is not known is null, never 0 or "".
 */
#include "json.h"

#include <inttypes.h>

enum { FORMAT = 1 };

static void print_known_string(FILE *out, const char *key, const char *text) {
    fprintf(out, ",\"%s\":", key);
    if (text[0] == '\0')
        fputs("null", out);
    else
        json_string(out, text);
}

static void print_known_number(FILE *out, const char *key, bool known, int64_t number) {
    if (known)
        fprintf(out, ",\"%s\":%" PRId64, key, number);
    else
        fprintf(out, ",\"%s\":null", key);
}

static void print_flag(FILE *out, const char *key, const struct pawl_entry *entry, unsigned flag) {
    fprintf(out, ",\"%s\":%s", key, entry->flags & flag ? "true" : "false");
}

static void print_entry(FILE *out, const struct pawl_entry *entry, bool raw) {
    fprintf(out, "{\"position\":%u,\"mode\":\"%s\"", entry->position, mode_name(entry->mode));
    print_known_number(out, "permits", entry->kind == PAWL_SEMAPHORE, entry->permits);
    if (entry->token != 0)
        fprintf(out, ",\"token\":\"%" PRIu64 "\"", entry->token);
    else
        fputs(",\"token\":null", out);
    print_known_string(out, "host", entry->host);
    print_known_number(out, "pid", entry->pid != 0, entry->pid);
    print_known_string(out, "command", entry->command);
    print_known_string(out, "label", entry->label);
    print_known_number(out, "since_ms", entry->since_ms != 0, entry->since_ms);
    print_known_number(out, "remaining_ms", entry->remaining_ms >= 0 && entry->remaining_ms != PAWL_FOREVER, entry->remaining_ms);
    print_flag(out, "broken", entry, PAWL_ENTRY_BROKEN);
    print_flag(out, "stopped", entry, PAWL_ENTRY_STOPPED);
    print_flag(out, "foreign", entry, PAWL_ENTRY_FOREIGN);
    print_flag(out, "keeps", entry, PAWL_ENTRY_KEEPS);
    print_known_string(out, "agent", entry->agent);
    print_known_string(out, "around", entry->around);
    print_known_string(out, "claim", entry->claim);
    print_known_number(out, "lease_ms", entry->lease_ms >= 0 && entry->lease_ms != PAWL_FOREVER, entry->lease_ms);
    print_known_number(out, "turns", entry->turns != 0, (int64_t)entry->turns);
    if (raw)
        print_known_string(out, "raw", entry->raw);
    fputc('}', out);
}

static void print_entries(FILE *out, const struct pawl_entry *entries, size_t count, bool waiters, bool raw) {
    const char *separator = "";

    for (size_t i = 0; i < count; i++) {
        if (is_waiter(&entries[i]) != waiters)
            continue;
        fputs(separator, out);
        print_entry(out, &entries[i], raw);
        separator = ",";
    }
}

void json_lock(FILE *out, const struct lock_seen *lock, const struct json_options *options) {
    const struct pawl_entry *entries = lock->entries;
    size_t count = lock->holders + lock->waiters;

    fputs("{\"name\":", out);
    json_string(out, lock->name);
    fprintf(out, ",\"kind\":\"%s\"", kind_name(entries[0].kind));
    print_known_number(out, "limit", entries[0].kind == PAWL_SEMAPHORE, entries[0].limit);
    fprintf(out, ",\"state\":\"%s\",\"cycle\":%s", state_name(lock->state), lock->in_cycle ? "true" : "false");
    if (options->history != NULL) {
        double rate = hand_off_rate(history_of(options->history, lock->place->url, lock->name));

        fprintf(out, rate < 0 ? ",\"rate\":null" : ",\"rate\":%.3g", rate);
    }
    fputs(",\"holders\":[", out);
    print_entries(out, entries, count, false, options->raw);
    fputs("],\"waiters\":[", out);
    print_entries(out, entries, count, true, options->raw);
    fputs("]}", out);
}

void json_place(FILE *out, const struct look *look, const struct place *place, const struct json_options *options) {
    fprintf(out, "{\"format\":%d,\"time_ms\":%" PRId64 ",\"url\":", FORMAT, look->time_ms);
    json_string(out, place->url);
    print_known_string(out, "engine", place->engine);
    print_known_number(out, "lease_ms", place->lease_ms != PAWL_FOREVER, place->lease_ms);
    fprintf(out, ",\"notice_ms\":%" PRId64 ",\"took_ms\":%.3f", place->notice_ms, place->took_ms);
    print_known_string(out, "error", place->error);
    fputs(",\"locks\":[", out);
    for (size_t i = 0; i < place->count; i++) {
        if (i > 0)
            fputc(',', out);
        json_lock(out, &place->locks[i], options);
    }
    fputs("]}", out);
}

/* ---- what is found in looks ----------------------------------------------------------------------------------------------- */

/* Who waits, for what, and who is in the way. */
static void print_step(FILE *out, const struct edge *edge) {
    fprintf(out, "{\"kind\":\"%s\",\"url\":", edge_name(edge->kind));
    json_string(out, edge->lock->place->url);
    fputs(",\"lock\":", out);
    json_string(out, edge->lock->name);
    fputs(",\"waiter\":", out);
    print_entry(out, edge->waiter, false);
    fputs(",\"blocker\":", out);
    print_entry(out, edge->blocker, false);
    fputc('}', out);
}

void json_deadlocks(FILE *out, const struct look *look) {
    const struct graph *graph = &look->graph;

    fputc('[', out);
    for (size_t i = 0; i < graph->cycle_count; i++) {
        fputs(i > 0 ? ",{\"likely\":true,\"steps\":[" : "{\"likely\":true,\"steps\":[", out);
        for (size_t j = 0; j < graph->cycles[i].count; j++) {
            if (j > 0)
                fputc(',', out);
            print_step(out, &graph->edges[graph->cycles[i].edges[j]]);
        }
        fputs("]}", out);
    }
    fputc(']', out);
}

static void print_agent(FILE *out, const struct agent *agent) {
    const struct pawl_entry *entry = agent->entry;

    fprintf(out, "{\"holds\":%zu,\"waits\":%zu,\"stuck\":%s", agent->holds, agent->waits, agent->stuck ? "true" : "false");
    print_known_string(out, "agent", entry->agent);
    print_known_string(out, "host", entry->host);
    print_known_number(out, "pid", entry->pid != 0, entry->pid);
    print_known_string(out, "command", entry->command);
    print_known_string(out, "label", entry->label);
    fputc('}', out);
}

static void print_edge(FILE *out, const struct edge *edge, int64_t time_ms) {
    int64_t waited = is_waiter(edge->waiter) ? age_ms(edge->waiter, time_ms) : -1;

    fprintf(out, "{\"from\":%zu,\"to\":%zu,\"kind\":\"%s\",\"url\":", edge->from, edge->to, edge_name(edge->kind));
    json_string(out, edge->lock->place->url);
    fputs(",\"lock\":", out);
    json_string(out, edge->lock->name);
    if (edge->kind == EDGE_HARD)
        fprintf(out, ",\"token\":\"%" PRIu64 "\"", edge->blocker->token);
    else
        fputs(",\"token\":null", out);
    print_known_number(out, "waited_ms", waited >= 0, waited);
    fprintf(out, ",\"cycle\":%s}", edge->in_cycle ? "true" : "false");
}

void json_graph(FILE *out, const struct look *look) {
    const struct graph *graph = &look->graph;

    fprintf(out, "{\"format\":%d,\"time_ms\":%" PRId64 ",\"agents\":[", FORMAT, look->time_ms);
    for (size_t i = 0; i < graph->agent_count; i++) {
        fputs(i > 0 ? "," : "", out);
        print_agent(out, &graph->agents[i]);
    }
    fputs("],\"edges\":[", out);
    for (size_t i = 0; i < graph->edge_count; i++) {
        fputs(i > 0 ? "," : "", out);
        print_edge(out, &graph->edges[i], look->time_ms);
    }
    fputs("],\"deadlocks\":", out);
    json_deadlocks(out, look);
    fputc('}', out);
}

void json_events(FILE *out, const struct event *const events[], size_t count) {
    fputc('[', out);
    for (size_t i = 0; i < count; i++) {
        const struct event *event = events[i];

        fprintf(out, "%s{\"number\":%" PRIu64 ",\"time_ms\":%" PRId64 ",\"kind\":\"%s\",\"url\":", i > 0 ? "," : "", event->number,
                event->time_ms, event_name(event->kind));
        json_string(out, event->url);
        print_known_string(out, "lock", event->lock);
        print_known_string(out, "what", event->what);
        if (event->token != 0)
            fprintf(out, ",\"token\":\"%" PRIu64 "\"", event->token);
        else
            fputs(",\"token\":null", out);
        print_known_number(out, "ms", event->ms >= 0, event->ms);
        fputc('}', out);
    }
    fputc(']', out);
}

void json_findings(FILE *out, const struct look *look) {
    static const char *const severities[] = {
        [PAWL_FINDING_GOOD] = "good", [PAWL_FINDING_UNKNOWN] = "unknown", [PAWL_FINDING_WARNING] = "warning"};
    const char *separator = "";

    fputc('[', out);
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < look->places[i].findings.count; j++) {
            const struct pawl_finding *finding = &look->places[i].findings.items[j];

            fprintf(out, "%s{\"severity\":\"%s\",\"url\":", separator, severities[finding->severity]);
            json_string(out, look->places[i].url);
            print_known_string(out, "what", finding->what);
            print_known_string(out, "advice", finding->advice);
            fputc('}', out);
            separator = ",";
        }
    fputc(']', out);
}

void json_holds(FILE *out, const struct lock_past *past) {
    fputc('[', out);
    for (size_t i = 0; past != NULL && i < past->hold_count; i++) {
        const struct hold_seen *hold = &past->holds[i];

        fprintf(out, "%s{\"token\":\"%" PRIu64 "\",\"from_ms\":%" PRId64, i > 0 ? "," : "", hold->token, hold->from_ms);
        print_known_number(out, "to_ms", hold->to_ms != 0, hold->to_ms);
        print_known_string(out, "end", hold->to_ms != 0 ? event_name(hold->end) : "");
        print_known_string(out, "who", hold->who);
        fputc('}', out);
    }
    fputc(']', out);
}

void json_look(FILE *out, const struct look *look, const struct json_options *options) {
    enum { EVENTS_SHOWN = 256 };
    const struct event *events[EVENTS_SHOWN];
    size_t count = options->history != NULL ? history_events(options->history, NULL, NULL, events, EVENTS_SHOWN) : 0;

    fprintf(out, "{%s\"format\":%d,\"time_ms\":%" PRId64 ",\"places\":[", options->head != NULL ? options->head : "", FORMAT,
            look->time_ms);
    for (size_t i = 0; i < look->count; i++) {
        if (i > 0)
            fputc(',', out);
        json_place(out, look, &look->places[i], options);
    }
    fputs("],\"deadlocks\":", out);
    json_deadlocks(out, look);
    fputs(",\"events\":", out);
    json_events(out, events, count);
    fputs(",\"findings\":", out);
    json_findings(out, look);
    fputc('}', out);
}
