/* SPDX-License-Identifier: Apache-2.0
 *
 * take.c - take the locks that the command line names, all or none.
 *
 * They are tried first: that needs neither a thread nor a queue, and is all that most runs ever do. Only then are they waited for, in a
 * loop that hears signals; the library takes them in the order of their names, and so does everybody else.
 *
 * The handles own their holds (PAWL_TASK), so that the wait can be asynchronous.
 */
#include "take.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/signals.h"
#include "common/snapshot.h"
#include "common/wait_line.h"

/* The outcome of an acquire that was started. */
struct outcome {
    bool known;
    int result;
    struct pawl_error error;
};

static bool make_lock(struct take *take, size_t i, int *status) {
    const struct take_options *options = take->options;
    const char *name = options->names[i];
    struct pawl_lock **ret = &take->parts[i].lock;
    struct pawl_error error;
    int result;

    if (options->kind == PAWL_SEMAPHORE)
        result = pawl_semaphore_new(take->client, name, options->limit, PAWL_TASK, ret, &error);
    else if (options->kind == PAWL_RWLOCK)
        result = pawl_rwlock_new(take->client, name, PAWL_TASK, ret, &error);
    else
        result = pawl_mutex_new(take->client, name, PAWL_TASK, ret, &error);
    if (result < 0)
        *status = library_error(&error);
    else
        pawl_set_keep(*ret, 0, NULL); /* the command has the lock once */
    take->parts[i].mode = options->mode;
    take->parts[i].permits = options->permits;
    return result >= 0;
}

/* Servers that are out of reach, without a primary or without their replicas may come back. */
bool take_may_pass(int result) {
    return result == PAWL_ECONNLOST || result == PAWL_ETOPOLOGY || result == PAWL_EREPLICAS;
}

bool take_pause(struct take *take, int64_t ms) {
    struct pollfd signals = {.fd = signals_fd(), .events = POLLIN};

    poll(&signals, 1, (int)ms);
    for (int number; (number = signals_next()) != 0;) {
        if (signal_stops_us(number))
            stop_by_signal(number, false);
        else if (signal_ends_us(number))
            take->signal = number;
    }
    return take->signal == 0;
}

/* As long as the user waits, so does this. */
static int open_in_time(struct take *take, struct pawl_options *how, struct pawl_error *error) {
    enum { PAUSE_MS = 100 };
    int64_t wait_ms = take->options->wait_ms, left;
    int result;

    if (wait_ms == PAWL_FOREVER)
        return pawl_open(take->options->url, how, &take->client, error);
    for (take->deadline = deadline_in(wait_ms);;) {
        left = take->deadline - now_ms();
        how->connect_ms = left > 1 && left < CONNECT_MS ? left : CONNECT_MS;
        result = pawl_open(take->options->url, how, &take->client, error);
        left = take->deadline - now_ms();
        if (!take_may_pass(result) || left <= 0 || !take_pause(take, left < PAUSE_MS ? left : PAUSE_MS))
            return result;
    }
}

bool take_open(struct take *take, const struct take_options *options, unsigned open_flags, const char *command, int *status) {
    struct pawl_error error;
    struct pawl_options client_options = {
        .size = sizeof client_options,
        .flags = open_flags | (options->trace ? PAWL_OPEN_TRACE : 0),
        .lease_ms = options->lease_ms,
        .label = options->label,
        .command = command,
        .log = print_log,
    };

    *take = (struct take){.options = options, .parts = calloc(options->count, sizeof take->parts[0])};
    if (take->parts == NULL) {
        say("out of memory");
        *status = EXIT_SYSTEM;
        return false;
    }
    if (open_in_time(take, &client_options, &error) < 0) {
        *status = take->signal != 0 ? EXIT_BY_SIGNAL + take->signal : library_error(&error);
        return false;
    }
    print_warnings();
    pawl_describe(take->client, &take->info);
    if ((*status = open_events(take->client, &take->fd)) != 0)
        return false;
    for (size_t i = 0; i < options->count; i++)
        if (!make_lock(take, i, status))
            return false;
    return true;
}

static void on_acquired(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    struct outcome *outcome = data;

    (void)lock;
    outcome->known = true;
    outcome->result = result;
    if (error != NULL)
        outcome->error = *error;
}

static void stop_while_waiting(int number) {
    wait_line_hide();
    stop_by_signal(number, false);
}

static void hear_signals(struct take *take) {
    for (int number; (number = signals_next()) != 0;) {
        if (signal_stops_us(number)) {
            stop_while_waiting(number);
        } else if (signal_ends_us(number) && take->signal == 0) {
            take->signal = number;
            pawl_cancel(take->parts[0].lock);
        }
    }
}

/* How many of them are held by now? */
static size_t count_taken(const struct take *take) {
    size_t taken = 0;

    while (taken < take->options->count && pawl_state(take->parts[taken].lock) != PAWL_NOT_HELD)
        taken++;
    return taken;
}

/* Do others hold it, or wait for it? */
static bool is_busy(const struct take *take, const char *name) {
    struct snapshot snapshot = {0};
    struct pawl_error ignored;
    bool busy = false;

    if (snapshot_take(&snapshot, take->client, name, &ignored) == 0)
        for (size_t i = 0; i < snapshot.count && !busy; i++)
            busy = !is_own(&snapshot.entries[i]);
    snapshot_finish(&snapshot);
    return busy;
}

/* Which one is waited for? The first that is not taken and that is not free. */
static size_t waited_for(const struct take *take, size_t taken) {
    size_t i = taken;

    while (i + 1 < take->options->count && !is_busy(take, take->options->names[i]))
        i++;
    return i;
}

/* So many are taken: say what is waited for, unless that is known. */
static void tell_of_wait(struct take *take, size_t taken, const char **told) {
    const char *name = take->options->names[waited_for(take, taken)];

    if (name == *told || take->options->quiet)
        return;
    *told = name;
    wait_line_end();
    wait_line_begin(take->client, name, take->options->verbose);
}

/* Bounded by the acquire itself: its callback comes exactly once, in time or when it is cancelled. */
static void wait_for_outcome(struct take *take, struct outcome *outcome) {
    struct pollfd sources[] = {
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = take->fd, .events = POLLIN},
    };
    const char *told = NULL;
    size_t taken = count_taken(take);

    tell_of_wait(take, taken, &told);
    while (!outcome->known) {
        poll(sources, 2, poll_timeout(wait_line_due()));
        hear_signals(take);
        pawl_dispatch(take->client);
        if (!outcome->known && count_taken(take) > taken) {
            taken = count_taken(take);
            tell_of_wait(take, taken, &told);
        }
        if (!outcome->known && now_ms() >= wait_line_due())
            wait_line_draw();
    }
    wait_line_end();
}

/* Returns 0 or a negative code, with its text in `error`. */
static int wait_for_all(struct take *take, int64_t deadline, struct pawl_error *error) {
    int64_t left = deadline == PAWL_FOREVER ? PAWL_FOREVER : deadline - now_ms();
    struct outcome outcome = {0};

    /* The try may have used it up; 0 would be another try. */
    left = left > 0 ? left : 1;
    take->waited_ms = left;
    int result = pawl_acquire_all_start(take->parts, take->options->count, left, on_acquired, &outcome, error);
    if (result < 0)
        return result;
    wait_for_outcome(take, &outcome);
    if (outcome.result < 0)
        *error = outcome.error;
    return outcome.result;
}

/* Try again after this failure? A server that is away may come back, so wait for it, but only up to the -w of the user. Without a limit the
 * user is told at once, and who stands for election waits. */
static bool worth_waiting(const struct take *take, int result) {
    if (take->options->wait_ms == 0)
        return false;
    if (take_may_pass(result))
        return take->elects || take->options->wait_ms != PAWL_FOREVER;
    return result == PAWL_EHELD;
}

/* How to ask for a lock of this kind. */
static void advise(const struct pawl_entry *entry, const struct take *take, char *hint, size_t size) {
    if (take->elects)
        snprintf(hint, size, ": a leader is elected by a mutex");
    else if (take->writes && entry->kind == PAWL_SEMAPHORE)
        snprintf(hint, size, ": it is a semaphore, and has no value");
    else if (entry->kind == PAWL_MUTEX)
        snprintf(hint, size, ": it is a mutex, so leave out %s", take->writes ? "-x" : "-s, -x and --permits");
    else if (entry->kind == PAWL_RWLOCK)
        snprintf(hint, size, ": it is a read-write lock, so say %s", take->writes ? "-x" : "-s or -x");
    else
        snprintf(hint, size, ": it is a semaphore of %u, so say --permits N/%u", entry->limit, entry->limit);
}

/* A lock is of another kind, or has another limit: say how to ask for it. */
static void explain_mismatch(const struct take *take, const struct pawl_error *error) {
    const struct take_options *options = take->options;
    struct snapshot snapshot = {0};
    struct pawl_error ignored;
    char hint[128] = "";

    for (size_t i = 0; i < options->count && hint[0] == '\0'; i++) {
        if (snapshot_take(&snapshot, take->client, options->names[i], &ignored) == 0 && snapshot.count > 0 &&
            (snapshot.entries[0].kind != options->kind || options->kind == PAWL_SEMAPHORE))
            advise(&snapshot.entries[0], take, hint, sizeof hint);
        snapshot_finish(&snapshot);
    }
    say("%s%s", error->text, hint);
}

/* The time is up. The library tells the time that it was given, which is less than the user's by what the try took: say the user's; and it
 * can't know who is in the way, which is what the user wants to. */
static void explain_late(const struct take *take, const struct pawl_error *error) {
    char given[64], holders[512];
    int length = snprintf(given, sizeof given, " within %lld ms", (long long)take->waited_ms);
    const char *at = strstr(error->text, given), *name = take->options->names[waited_for(take, 0)];
    long long ms = take->options->wait_ms;

    if (at == NULL)
        say("%s", error->text);
    else if (strstr(at, ": others hold it") != NULL && holders_in_words(take->client, name, holders, sizeof holders))
        say("'%s' was not acquired within %lld ms: held by %s", name, ms, holders);
    else
        say("%.*s within %lld ms%s", (int)(at - error->text), error->text, ms, at + length);
}

static int explain_failure(const struct take *take, int result, const struct pawl_error *error) {
    const struct take_options *options = take->options;

    if (result == PAWL_EHELD || result == PAWL_ETIMEOUT) {
        /* As flock(1): scripts that only try expect no noise. People expect an answer. */
        if (options->verbose || (!options->quiet && isatty(STDERR_FILENO)))
            explain_late(take, error);
        return options->conflict_exit;
    }
    if (result == PAWL_EKIND || result == PAWL_ELIMIT)
        explain_mismatch(take, error);
    else
        say("%s", error->text);
    return exit_of(result);
}

static void tell_of_tokens(const struct take *take, int64_t start) {
    char words[32];

    duration_in_words(words, sizeof words, now_ms() - start);
    for (size_t i = 0; i < take->held; i++)
        say("took '%s' with token %llu after %s, at %s", take->options->names[i],
            (unsigned long long)pawl_token(take->parts[i].lock), words, take->info.url);
}

bool take_all(struct take *take, int *status) {
    const struct take_options *options = take->options;
    struct pawl_error error = {0};
    int64_t start = now_ms(), deadline = options->wait_ms == PAWL_FOREVER ? PAWL_FOREVER : take->deadline;
    int result = pawl_acquire_all(take->parts, options->count, 0, &error);

    if (worth_waiting(take, result))
        result = wait_for_all(take, deadline, &error);
    take->held = result >= 0 ? options->count : 0;
    if (options->verbose)
        tell_of_tokens(take, start);
    if (result >= 0 && take->signal == 0)
        return true;
    /* Granted just as the signal came: the signal counts. */
    *status = take->signal != 0 ? EXIT_BY_SIGNAL + take->signal : explain_failure(take, result, &error);
    take_release(take);
    return false;
}

int take_release(struct take *take) {
    struct pawl_error error;
    size_t held = take->held;
    int result = pawl_release_all(take->parts, held, &error);

    take->held = 0;
    if (result < 0 && !(result == PAWL_ELOST && take->loss_told))
        say("%s", error.text);
    for (size_t i = held; i-- > 0 && result >= 0 && take->options->verbose;)
        say("released '%s'", take->options->names[i]);
    return result == PAWL_ELOST ? EXIT_LOST : 0;
}

void take_finish(struct take *take) {
    for (size_t i = 0; take->parts != NULL && i < take->options->count; i++)
        pawl_lock_free(take->parts[i].lock);
    pawl_close(take->client);
    free(take->parts);
    *take = (struct take){0};
}
