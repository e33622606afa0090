/* SPDX-License-Identifier: Apache-2.0
 *
 * once.c - pawl run --once-per: the note beside the lock that says who ran the command last, with success, and when.
 *
 *     pawl-once 1 granted=1794960904123 pid=4711 host=db1 command=backup
 *
 * A run counts for the slot in which it was granted the lock, by the server's clock, which is asked under the lock. Only that moment is
 * noted, not the period: so the period may change from one day to the next.
 *
 * Whether to run is decided under the lock. The look before it only saves the queue, for those who come late. The note is written before
 * the release, and the server decides whether the hold still stands: so of those who run in a slot at most one is noted, and no run
 * that lost its lock is. A holder that dies after the command's success and before the note is as one that never ran.
 */
#include "once.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG "pawl-once "

enum { FORMAT = 1, NOTE_MAX = 1024 };

struct note {
    long long granted;
    int64_t noted;
    long pid;
    char host[256];
    char command[256];
};

/* ---- Words ---------------------------------------------------------------------------------------------------------------- */

static const char *moment_in_words(char *out, size_t size, const struct period *period, int64_t ms) {
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm = {0};

    if (period->utc)
        gmtime_r(&seconds, &tm);
    else
        localtime_r(&seconds, &tm);
    strftime(out, size, period->utc ? "%Y-%m-%d %H:%M:%S UTC" : "%Y-%m-%d %H:%M:%S %Z", &tm);
    return out;
}

static void tell_of_skip(const struct once_options *options, const struct take *take, const struct note *note, int64_t now) {
    char begun[64], next[64], took[32];
    int64_t latest = note->granted > now ? note->granted : now;

    if (take->options->quiet)
        return;
    say("'%s' was run in this period already: %s by %s:%ld, begun %s, took %s; the next period begins %s", take->options->names[0],
        note->command, note->host, note->pid, moment_in_words(begun, sizeof begun, &options->period, note->granted),
        duration_in_words(took, sizeof took, note->noted - note->granted),
        moment_in_words(next, sizeof next, &options->period, slot_end(&options->period, latest)));
}

static void warn_of_clock(const struct once_options *options, const struct take *take, const struct note *note, int64_t now) {
    char last[64], ahead[32];

    say("warning: the last run of '%s' is noted for %s, which is %s ahead of the server's clock: that clock was set back, and the "
        "command is run",
        take->options->names[0], moment_in_words(last, sizeof last, &options->period, note->granted),
        duration_in_words(ahead, sizeof ahead, note->granted - now));
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

/* Returns whether it is ours; if not, why was said. */
static bool parse(const char *name, const struct pawl_value *value, struct note *ret) {
    char text[NOTE_MAX] = "";
    int format = 0;

    *ret = (struct note){.noted = value->written_ms, .command = "?"};
    if (value->size < sizeof text)
        memcpy(text, value->bytes, value->size);
    if (strncmp(text, TAG, strlen(TAG)) == 0 && sscanf(text + strlen(TAG), "%9d", &format) == 1 && format != FORMAT) {
        say("the note beside '%s' was written by another version of pawl, in format %d: use that version", name, format);
        return false;
    }
    if (sscanf(text, TAG "%*d granted=%15lld pid=%10ld host=%255s command=%255[^\n]", &ret->granted, &ret->pid, ret->host,
               ret->command) >= 3)
        return true;
    say("the note beside '%s' is another program's, not one of pawl run --once-per: choose another name for the lock", name);
    return false;
}

static bool judge(const struct once_options *options, const struct take *take, const struct pawl_value *value, int64_t now,
                  bool held, int *status) {
    struct note note;

    if (value == NULL)
        return true;
    if (!parse(take->options->names[0], value, &note)) {
        *status = EXIT_OTHER_USE;
        return false;
    }
    switch (slot_verdict(&options->period, note.granted, now)) {
    case DONE:
        tell_of_skip(options, take, &note, now);
        *status = options->skip_exit >= 0 ? options->skip_exit : 0;
        return false;
    case DUE_BEHIND:
        if (held)
            warn_of_clock(options, take, &note, now);
        return true;
    default:
        return true;
    }
}

static int explain(const struct take *take, const struct pawl_error *error) {
    if (error->code != PAWL_EUNSUPPORTED)
        return library_error(error);
    say("--once-per notes the last run beside the lock, and %s: has no place for that: use redis://, redis-sentinel://, "
        "redis-cluster://, zk:// or local:",
        take->info.engine);
    return EXIT_USAGE;
}

bool once_may_pass(int result) {
    return take_may_pass(result) || result == PAWL_EUNKNOWN || result == PAWL_ETIMEOUT;
}

bool once_may_be_due(const struct once_options *options, const struct take *take, int *status) {
    const struct pawl_value *value = NULL;
    struct pawl_error error;
    int64_t now = 0;

    if (!options->wanted)
        return true;
    int result = pawl_note_get(take->parts[0].lock, &value, &now, &error);
    if (once_may_pass(result)) /* as long as the user waits for the lock, so does this */
        return true;
    if (result < 0) {
        *status = explain(take, &error);
        return false;
    }
    bool due = judge(options, take, value, now, false, status);
    pawl_value_free(value);
    return due;
}

bool once_is_due(const struct once_options *options, struct take *take, int64_t *ret_granted, int *status) {
    const struct pawl_value *value = NULL;
    struct pawl_error error;
    bool due = false;

    if (!options->wanted)
        return true;
    if (pawl_note_get(take->parts[0].lock, &value, ret_granted, &error) < 0)
        *status = explain(take, &error);
    else
        due = judge(options, take, value, *ret_granted, true, status);
    pawl_value_free(value);
    if (!due)
        take_release(take);
    return due;
}

/* ---- Writing -------------------------------------------------------------------------------------------------------------- */

int once_note(const struct take *take, int64_t granted, const char *command, struct pawl_error *error) {
    char host[256] = "", text[NOTE_MAX];

    gethostname(host, sizeof host - 1);
    int length = snprintf(text, sizeof text, TAG "%d granted=%lld pid=%ld host=%s command=%.255s\n", FORMAT, (long long)granted,
                          (long)getpid(), host[0] != '\0' ? host : "?", command);
    return pawl_note_set(take->parts[0].lock, text, (size_t)length, error);
}
