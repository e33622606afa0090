/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.c - what a client has counted: its acquires, waits, renewals and losses; as numbers, and as text for Prometheus.
 *
 * Each cohort counts under its own mutex, which those who have something to count hold anyway; so it costs an increment. What a cohort has
 * counted is added to its client's when it is freed. No clock is read for an acquire that does not wait: waits are timed where they begin
 * and where they end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "os/uncancelled.h"

/* ---- Counting ------------------------------------------------------------------------------------------------------------- */

static const uint64_t bounds_ns[] = PAWL__WAIT_BOUNDS_NS;

void pawl__count_waited(struct cohort *cohort, int64_t ns) {
    struct counts *counts = &cohort->counts;
    size_t i = 0;

    while (i < PAWL_WAIT_BUCKETS - 1 && (uint64_t)ns > bounds_ns[i])
        i++;
    counts->waits[i]++;
    counts->waited_ns += (uint64_t)ns;
}

void pawl__count_end(struct cohort *cohort, int code) {
    struct counts *counts = &cohort->counts;

    switch (code) {
    case PAWL_EHELD:
        counts->held++;
        break;
    case PAWL_ETIMEOUT:
        counts->timed_out++;
        break;
    case PAWL_ECANCELED:
    case PAWL_ECLOSED:
        counts->cancelled++;
        break;
    case PAWL_EDEADLK:
        counts->deadlocked++;
        break;
    default:
        counts->failed++;
    }
}

void pawl__count_lost(struct cohort *cohort, int code) {
    if (code == PAWL_EBROKEN)
        cohort->counts.lost_broken++;
    else if (code == PAWL_EEXPIRED)
        cohort->counts.lost_expired++;
    else
        cohort->counts.lost_gone++;
}

void pawl__count_renewed(struct cohort *cohort, bool late, int64_t left_ns) {
    struct counts *counts = &cohort->counts;

    if (late)
        counts->renewed_late++;
    else
        counts->renewed++;
    left_ns = left_ns < 1 ? 1 : left_ns;
    if (!counts->least_left_ns || left_ns < counts->least_left_ns)
        counts->least_left_ns = left_ns;
}

void pawl__counts_add(struct counts *to, const struct counts *from) {
    const uint64_t *numbers = (const uint64_t *)from;
    uint64_t *sums = (uint64_t *)to;

    for (size_t i = 0; i < offsetof(struct counts, least_left_ns) / sizeof *sums; i++)
        sums[i] += numbers[i];
    if (from->least_left_ns && (!to->least_left_ns || from->least_left_ns < to->least_left_ns))
        to->least_left_ns = from->least_left_ns;
}

/* All of the client's, kind by kind. */
static void collect(struct pawl *client, struct counts ret[PAWL__KINDS]) {
    struct cohort *cohort;

    pthread_mutex_lock(&client->mutex);
    memcpy(ret, client->counts, sizeof client->counts);
    TAILQ_FOREACH(cohort, &client->table.every, every) {
        pthread_mutex_lock(&cohort->mutex);
        pawl__counts_add(&ret[cohort->kind], &cohort->counts);
        pthread_mutex_unlock(&cohort->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* ---- As numbers ------------------------------------------------------------------------------------------------------------ */

static uint64_t count_waits(const struct counts *counts) {
    uint64_t sum = 0;

    for (size_t i = 0; i < PAWL_WAIT_BUCKETS; i++)
        sum += counts->waits[i];
    return sum;
}

/* The two were read at different moments, so that the difference may be below 0: shown as 0, not as a huge number. */
static uint64_t difference(uint64_t more, uint64_t less) {
    return more > less ? more - less : 0;
}

int pawl_stats(struct pawl *client, struct pawl_counters *ret) {
    struct counts counts[PAWL__KINDS], all = {0};
    size_t size = ret ? ret->size : 0;
    struct pawl_counters told;
    int rc = pawl__client_check(client, NULL);
    UNCANCELLED;

    if (rc < 0)
        return rc;
    if (size < sizeof ret->size)
        return PAWL_EINVAL;
    collect(client, counts);
    for (int kind = 0; kind < PAWL__KINDS; kind++)
        pawl__counts_add(&all, &counts[kind]);
    told = (struct pawl_counters){
        .granted = all.granted,
        .reentered = all.reentered,
        .held = all.held,
        .timed_out = all.timed_out,
        .cancelled = all.cancelled,
        .deadlocked = all.deadlocked,
        .failed = all.failed,
        .contended = all.contended,
        .handoffs = all.handoffs,
        .claims = all.claims,
        .releases = all.released,
        .renewed = all.renewed,
        .renewed_late = all.renewed_late,
        .suspects = all.suspects,
        .lost_expired = all.lost_expired,
        .lost_broken = all.lost_broken,
        .lost_gone = all.lost_gone,
        .deadlocks = all.deadlocks,
        .waiting = difference(all.contended, count_waits(&all)),
        .holding = difference(all.granted, all.released),
        .waited_ns = all.waited_ns,
        .least_left_ms = all.least_left_ns ? all.least_left_ns / 1000000 : -1,
    };
    memcpy(told.waits, all.waits, sizeof told.waits);
    told.size = size < sizeof told ? size : sizeof told;
    memcpy(ret, &told, told.size); /* an older caller has no room for what was added later */
    return 0;
}

/* ---- As text --------------------------------------------------------------------------------------------------------------- */

static const char *const kinds[PAWL__KINDS] = {[PAWL_MUTEX] = "mutex", [PAWL_RWLOCK] = "rwlock", [PAWL_SEMAPHORE] = "semaphore"};

struct text {
    FILE *out;
    const char *url;
    const struct counts *counts; /* of each kind */
    bool shown[PAWL__KINDS];
};

/* How many bytes of UTF-8 stand here, one character; 0: none (RFC 3629). */
static size_t utf8_bytes(const unsigned char *text) {
    size_t length = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : text[0] < 0xf5 ? 4 : 0;

    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if (length > 2 && ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
                       (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f)))
        return 0;
    return length;
}

/* A label's value, as the format wants it. A path may have any bytes; what is not UTF-8, and would spoil the whole text, is \xNN. */
static void put_value(FILE *out, const char *value) {
    for (size_t length; *value; value += length ? length : 1) {
        length = utf8_bytes((const unsigned char *)value);
        if (length == 0)
            fprintf(out, "\\\\x%02x", (unsigned char)*value);
        if (length != 1) {
            fwrite(value, 1, length, out);
            continue;
        }
        if (*value == '\\' || *value == '"')
            fputc('\\', out);
        if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
    }
}

static void put_name(const struct text *text, const char *name, int kind, const char *label, const char *value) {
    fprintf(text->out, "pawl_client_%s{url=\"", name);
    put_value(text->out, text->url);
    fprintf(text->out, "\",kind=\"%s\"", kinds[kind]);
    if (label)
        fprintf(text->out, ",%s=\"%s\"", label, value);
    fputs("} ", text->out);
}

static void put_head(const struct text *text, const char *name, const char *type, const char *help) {
    fprintf(text->out, "# HELP pawl_client_%s %s\n# TYPE pawl_client_%s %s\n", name, help, name, type);
}

/* One number of a metric: where it is, and what its label says. */
struct series {
    const char *value;
    size_t at;
};

struct metric {
    const char *name, *help, *label;
    struct series series[8]; /* up to one without a value, and at least one */
};

#define AT(field) offsetof(struct counts, field)

static const struct metric counters[] = {
    {"acquires_total",
     "Acquires, by how they ended.",
     "result",
     {{"granted", AT(granted)},
      {"reentered", AT(reentered)},
      {"held", AT(held)},
      {"timed_out", AT(timed_out)},
      {"cancelled", AT(cancelled)},
      {"deadlock", AT(deadlocked)},
      {"error", AT(failed)}}},
    {"contended_total", "Acquires that had to wait.", NULL, {{"", AT(contended)}}},
    {"handoffs_total", "Holds that one thread handed to the next inside the process.", NULL, {{"", AT(handoffs)}}},
    {"claims_total", "Places in the queue that the engine was asked for.", NULL, {{"", AT(claims)}}},
    {"renewals_total",
     "Leases that were renewed, in time or when the hold was suspect already.",
     "result",
     {{"ok", AT(renewed)}, {"late", AT(renewed_late)}}},
    {"suspects_total", "Holds whose lease was not renewed for two thirds of its time.", NULL, {{"", AT(suspects)}}},
    {"losses_total",
     "Holds that were lost.",
     "why",
     {{"expired", AT(lost_expired)}, {"broken", AT(lost_broken)}, {"gone", AT(lost_gone)}}},
    {"deadlocks_total", "Deadlocks that were found in the process.", NULL, {{"", AT(deadlocks)}}},
};

static void put_counter(const struct text *text, const struct metric *metric) {
    put_head(text, metric->name, "counter", metric->help);
    for (int kind = 0; kind < PAWL__KINDS; kind++)
        for (const struct series *series = metric->series; text->shown[kind] && series->value; series++) {
            uint64_t number;

            memcpy(&number, (const char *)&text->counts[kind] + series->at, sizeof number);
            put_name(text, metric->name, kind, metric->label, series->value);
            fprintf(text->out, "%" PRIu64 "\n", number);
        }
}

static void put_gauge(const struct text *text, const char *name, const char *help, uint64_t (*tell)(const struct counts *)) {
    put_head(text, name, "gauge", help);
    for (int kind = 0; kind < PAWL__KINDS; kind++) {
        if (!text->shown[kind])
            continue;
        put_name(text, name, kind, NULL, NULL);
        fprintf(text->out, "%" PRIu64 "\n", tell(&text->counts[kind]));
    }
}

static uint64_t tell_waiting(const struct counts *counts) {
    return difference(counts->contended, count_waits(counts));
}

static uint64_t tell_holding(const struct counts *counts) {
    return difference(counts->granted, counts->released);
}

static void put_lease(const struct text *text) {
    static const char name[] = "lease_left_min_seconds";

    put_head(text, name, "gauge", "The least time that was left of a lease when it was renewed.");
    for (int kind = 0; kind < PAWL__KINDS; kind++) {
        if (!text->counts[kind].least_left_ns)
            continue;
        put_name(text, name, kind, NULL, NULL);
        fprintf(text->out, "%.9g\n", (double)text->counts[kind].least_left_ns / 1e9);
    }
}

static void put_waits_of(const struct text *text, int kind) {
    static const char *const bounds[PAWL_WAIT_BUCKETS] = {"0.0001", "0.001", "0.01", "0.1", "1", "10", "100", "1000", "+Inf"};
    const struct counts *counts = &text->counts[kind];
    uint64_t sum = 0;

    for (size_t i = 0; i < PAWL_WAIT_BUCKETS; i++) {
        sum += counts->waits[i];
        put_name(text, "wait_seconds_bucket", kind, "le", bounds[i]);
        fprintf(text->out, "%" PRIu64 "\n", sum);
    }
    put_name(text, "wait_seconds_sum", kind, NULL, NULL);
    fprintf(text->out, "%.9g\n", (double)counts->waited_ns / 1e9);
    put_name(text, "wait_seconds_count", kind, NULL, NULL);
    fprintf(text->out, "%" PRIu64 "\n", sum);
}

int pawl_stats_write(struct pawl *client, FILE *out) {
    struct counts counts[PAWL__KINDS];
    struct text text = {.out = out, .counts = counts};
    int rc = pawl__client_check(client, NULL);
    UNCANCELLED;

    if (rc < 0)
        return rc;
    if (!out)
        return PAWL_EINVAL;
    text.url = client->info.url;
    collect(client, counts);
    for (int kind = 0; kind < PAWL__KINDS; kind++) /* of kinds that are not used, nothing is said */
        text.shown[kind] = kind == PAWL_MUTEX || counts[kind].claims || counts[kind].granted;
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        put_counter(&text, &counters[i]);
    put_gauge(&text, "waiting", "Acquires that wait now.", tell_waiting);
    put_gauge(&text, "holding", "Holds now.", tell_holding);
    put_lease(&text);
    put_head(&text, "wait_seconds", "histogram", "How long acquires that had to wait did so.");
    for (int kind = 0; kind < PAWL__KINDS; kind++)
        if (text.shown[kind])
            put_waits_of(&text, kind);
    return ferror(out) ? PAWL_ESYSTEM : 0;
}
