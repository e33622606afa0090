/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - a look as metrics. docs/operators.md lists them; share/alerts.yml and share/grafana.json are made of them.
 *
 * A label is a dimension with few values: never a pid, a token, a host or what a program says of itself. Names of locks are unbounded, so
 * there are no series of single locks unless they are asked for, and of at most so many. A family's samples stand together, as the format
 * wants it; a place that was given twice is told once.
 */
#include "metrics.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    FILE *out;
    const struct look *look;
    const struct metrics_options *options;
    struct totals *totals;          /* of each place */
    const struct lock_seen **locks; /* those that have series of their own */
    size_t lock_count, *left_out;   /* of each place: how many of the pattern have none */
};

static void write_family(const struct writer *writer, const char *name, const char *type, const char *help) {
    int length = (int)strlen(name);

    /* OpenMetrics names the family, and not the sample. */
    if (writer->options->openmetrics && strcmp(type, "counter") == 0)
        length -= (int)strlen("_total");
    fprintf(writer->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", length, name, help, length, name, type);
}

/* Any byte may be in a name that somebody else made; what is not UTF-8 is written as \xNN. */
static void write_label(FILE *out, const char *key, const char *text) {
    fprintf(out, "%s=\"", key);
    while (*text != '\0') {
        size_t length = utf8_length(text);

        if (length == 0)
            fprintf(out, "\\\\x%02x", (unsigned char)*text);
        else if (*text == '\n')
            fputs("\\n", out);
        else
            fprintf(out, *text == '"' || *text == '\\' ? "\\%.*s" : "%.*s", (int)length, text);
        text += length > 0 ? length : 1;
    }
    fputc('"', out);
}

static void write_sample(FILE *out, const char *name, const struct place *place, double value) {
    fprintf(out, "%s{", name);
    write_label(out, "url", place->url);
    fprintf(out, "} %.12g\n", value);
}

static bool is_repeated(const struct look *look, size_t place) {
    for (size_t i = 0; i < place; i++)
        if (strcmp(look->places[i].url, look->places[place].url) == 0)
            return true;
    return false;
}

/* ---- one value per place -------------------------------------------------------------------------------------------------- */

static double up(const struct place *place, const struct totals *totals) {
    (void)totals;
    return place->code == 0;
}

static double look_seconds(const struct place *place, const struct totals *totals) {
    (void)totals;
    return place->took_ms / 1e3;
}

static double failures(const struct place *place, const struct totals *totals) {
    (void)totals;
    return (double)place->failures;
}

static double holders(const struct place *place, const struct totals *totals) {
    (void)place;
    return (double)totals->holders;
}

static double waiters(const struct place *place, const struct totals *totals) {
    (void)place;
    return (double)totals->waiters;
}

static double wait_longest(const struct place *place, const struct totals *totals) {
    (void)place;
    return (double)totals->wait_ms / 1e3;
}

static double hold_longest(const struct place *place, const struct totals *totals) {
    (void)place;
    return (double)totals->held_ms / 1e3;
}

static const struct place_family {
    const char *name, *type, *help;
    double (*value)(const struct place *place, const struct totals *totals);
    bool always; /* also of a place that could not be seen */
} place_families[] = {
    {"pawl_up", "gauge", "Whether the locks at this URL could be looked at.", up, true},
    {"pawl_look_seconds", "gauge", "How long the last look took.", look_seconds, true},
    {"pawl_look_failures_total", "counter", "Looks that failed since this exporter was started.", failures, true},
    {"pawl_holders", "gauge", "Holds.", holders, false},
    {"pawl_waiters", "gauge", "Processes that wait for a lock.", waiters, false},
    {"pawl_wait_longest_seconds", "gauge", "The longest wait now.", wait_longest, false},
    {"pawl_hold_longest_seconds", "gauge", "The longest hold now.", hold_longest, false},
};

static void write_places(const struct writer *writer) {
    for (size_t i = 0; i < sizeof place_families / sizeof place_families[0]; i++) {
        const struct place_family *family = &place_families[i];

        write_family(writer, family->name, family->type, family->help);
        for (size_t j = 0; j < writer->look->count; j++) {
            const struct place *place = &writer->look->places[j];

            if ((place->code == 0 || family->always) && !is_repeated(writer->look, j))
                write_sample(writer->out, family->name, place, family->value(place, &writer->totals[j]));
        }
    }
}

/* ---- with more labels ----------------------------------------------------------------------------------------------------- */

static void write_locks(const struct writer *writer) {
    write_family(writer, "pawl_locks", "gauge", "Locks that are held or waited for, by kind and state.");
    for (size_t i = 0; i < writer->look->count; i++) {
        if (writer->look->places[i].code != 0 || is_repeated(writer->look, i))
            continue;
        for (int kind = 0; kind <= PAWL_SEMAPHORE; kind++)
            for (int state = 0; state < LOCK_STATES; state++) {
                fputs("pawl_locks{", writer->out);
                write_label(writer->out, "url", writer->look->places[i].url);
                fprintf(writer->out, ",kind=\"%s\",state=\"%s\"} %zu\n", kind_name((enum pawl_kind)kind),
                        state_name((enum lock_state)state), writer->totals[i].states[kind][state]);
            }
    }
}

static void write_findings(const struct writer *writer) {
    static const char *const severities[] = {
        [PAWL_FINDING_GOOD] = "good", [PAWL_FINDING_UNKNOWN] = "unknown", [PAWL_FINDING_WARNING] = "warning"};

    write_family(writer, "pawl_findings", "gauge", "What pawl doctor finds, by severity.");
    for (size_t i = 0; i < writer->look->count; i++) {
        const struct place *place = &writer->look->places[i];
        size_t counts[PAWL_FINDING_WARNING + 1] = {0};

        if (place->code != 0 || is_repeated(writer->look, i))
            continue;
        for (size_t j = 0; j < place->findings.count; j++)
            counts[place->findings.items[j].severity]++;
        for (int severity = 0; severity <= PAWL_FINDING_WARNING; severity++) {
            fputs("pawl_findings{", writer->out);
            write_label(writer->out, "url", place->url);
            fprintf(writer->out, ",severity=\"%s\"} %zu\n", severities[severity], counts[severity]);
        }
    }
}

static void write_events(const struct writer *writer) {
    if (writer->options->history == NULL)
        return;
    write_family(writer, "pawl_events_total", "counter", "What was seen to happen since this exporter was started, by kind.");
    for (size_t i = 0; i < writer->look->count; i++) {
        const struct place *place = &writer->look->places[i];

        if (is_repeated(writer->look, i))
            continue;
        for (int kind = 0; kind < EVENT_KINDS; kind++) {
            fputs("pawl_events_total{", writer->out);
            write_label(writer->out, "url", place->url);
            fprintf(writer->out, ",kind=\"%s\"} %" PRIu64 "\n", event_name((enum event_kind)kind),
                    history_count(writer->options->history, place->url, (enum event_kind)kind));
        }
    }
}

/* Circles may lead through several places. */
static void write_deadlocks(const struct writer *writer) {
    const struct graph *graph = &writer->look->graph;
    size_t waits = 0;

    for (size_t i = 0; i < graph->agent_count; i++)
        waits += graph->agents[i].stuck ? graph->agents[i].waits : 0;
    write_family(writer, "pawl_deadlocks", "gauge", "Likely deadlocks: circles of processes that wait for each other.");
    fprintf(writer->out, "pawl_deadlocks %zu\n", graph->cycle_count);
    write_family(writer, "pawl_deadlocked_waits", "gauge", "Waits that will not end before a likely deadlock does.");
    fprintf(writer->out, "pawl_deadlocked_waits %zu\n", graph->cycle_count > 0 ? waits : 0);
}

static void write_build(const struct writer *writer) {
    write_family(writer, "pawl_build_info", "gauge", "The version of pawl, and the engines in it.");
    fprintf(writer->out, "pawl_build_info{version=\"%s\",engines=\"%s\"} 1\n", pawl_version(), pawl_engines());
}

/* ---- single locks --------------------------------------------------------------------------------------------------------- */

static int64_t lock_waiters(const struct lock_seen *lock) {
    return (int64_t)lock->waiters;
}

static int64_t lock_wait_ms(const struct lock_seen *lock) {
    return lock->wait_ms < 0 ? 0 : lock->wait_ms;
}

static int64_t lock_held_ms(const struct lock_seen *lock) {
    return lock->held_ms;
}

static int64_t lock_left_ms(const struct lock_seen *lock) {
    return lock->left_ms == PAWL_FOREVER ? -1 : lock->left_ms;
}

static const struct lock_family {
    const char *name, *help;
    int64_t (*value)(const struct lock_seen *lock); /* -1: not known */
    double unit;
} lock_families[] = {
    {"pawl_lock_waiters", "Processes that wait for this lock.", lock_waiters, 1},
    {"pawl_lock_wait_longest_seconds", "The longest wait for this lock now.", lock_wait_ms, 1e3},
    {"pawl_lock_held_seconds", "For how long this lock has been held.", lock_held_ms, 1e3},
    {"pawl_lock_lease_left_seconds", "What is left of the lease of its holder.", lock_left_ms, 1e3},
};

/* Those that match, needs attention first; the rest is counted. */
static void choose_locks(struct writer *writer) {
    size_t count, kept = 0;

    writer->locks = look_by_attention(writer->look, &count);
    for (size_t i = 0; i < count; i++) {
        const struct lock_seen *lock = writer->locks[i];
        size_t place = (size_t)(lock->place - writer->look->places);

        if (is_repeated(writer->look, place) || fnmatch(writer->options->per_lock, lock->name, 0) != 0)
            continue;
        if (kept < writer->options->most)
            writer->locks[kept++] = lock;
        else
            writer->left_out[place]++;
    }
    writer->lock_count = kept;
}

static void write_lock_families(const struct writer *writer) {
    for (size_t i = 0; i < sizeof lock_families / sizeof lock_families[0]; i++) {
        const struct lock_family *family = &lock_families[i];

        write_family(writer, family->name, "gauge", family->help);
        for (size_t j = 0; j < writer->lock_count; j++) {
            int64_t value = family->value(writer->locks[j]);

            if (value < 0)
                continue;
            fprintf(writer->out, "%s{", family->name);
            write_label(writer->out, "url", writer->locks[j]->place->url);
            fputc(',', writer->out);
            write_label(writer->out, "lock", writer->locks[j]->name);
            fprintf(writer->out, "} %.12g\n", (double)value / family->unit);
        }
    }
    write_family(writer, "pawl_locks_left_out", "gauge", "Locks that have no series of their own, although they were asked for.");
    for (size_t i = 0; i < writer->look->count; i++)
        if (!is_repeated(writer->look, i))
            write_sample(writer->out, "pawl_locks_left_out", &writer->look->places[i], (double)writer->left_out[i]);
}

void metrics_write(FILE *out, const struct look *look, const struct metrics_options *options) {
    struct writer writer = {.out = out, .look = look, .options = options};

    writer.totals = calloc(look->count + 1, sizeof writer.totals[0]);
    writer.left_out = calloc(look->count + 1, sizeof writer.left_out[0]);
    if (writer.totals != NULL && writer.left_out != NULL) {
        for (size_t i = 0; i < look->count; i++)
            totals_add(&writer.totals[i], &look->places[i]);
        write_build(&writer);
        write_places(&writer);
        write_locks(&writer);
        write_deadlocks(&writer);
        write_findings(&writer);
        write_events(&writer);
        if (options->per_lock != NULL) {
            choose_locks(&writer);
            write_lock_families(&writer);
        }
        if (options->openmetrics)
            fputs("# EOF\n", out);
    }
    free(writer.locks);
    free(writer.totals);
    free(writer.left_out);
}
