/* SPDX-License-Identifier: Apache-2.0
 *
 * take.c - take the locks that the command line names, all or none.
 *
 * The locks are taken one after the other in the order of their names, under one deadline. Each is tried first: that needs neither
 * a thread nor a queue, and is all that most runs ever do. Only then is it waited for, in a loop that hears signals.
 *
 * The handles own their holds (PAWL_TASK), so that the wait can be asynchronous.
 */
#include "take.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "signals.h"
#include "snapshot.h"
#include "wait_line.h"

/* The outcome of an acquire that was started. */
struct outcome {
    bool known;
    int result;
    struct pawl_error error;
};

static bool make_lock(struct take *take, size_t i, int *status) {
    const struct take_options *options = take->options;
    const char *name = options->names[i];
    struct pawl_lock **ret = &take->locks[i];
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
    return result >= 0;
}

bool take_open(struct take *take, const struct take_options *options, unsigned open_flags, const char *command, int *status) {
    struct pawl_error error;
    struct pawl_options client_options = {
        .size = sizeof(client_options),
        .flags = open_flags | (options->trace ? PAWL_OPEN_TRACE : 0),
        .lease_ms = options->lease_ms,
        .label = options->label,
        .command = command,
        .log = log_message,
    };

    *take = (struct take){.options = options, .locks = calloc(options->count, sizeof(take->locks[0]))};
    if (take->locks == NULL) {
        say("out of memory");
        *status = EXIT_SYSTEM;
        return false;
    }
    if (pawl_open(options->url, &client_options, &take->client, &error) < 0) {
        *status = library_error(&error);
        return false;
    }
    pawl_describe(take->client, &take->info);
    take->fd = pawl_fd(take->client);
    if (take->fd < 0) {
        say("cannot watch the locks: %s", pawl_error_text(take->fd));
        *status = exit_of(take->fd);
        return false;
    }
    for (size_t i = 0; i < options->count; i++)
        if (!make_lock(take, i, status))
            return false;
    return true;
}

static int try_now(struct take *take, struct pawl_lock *lock, struct pawl_error *error) {
    switch (take->options->mode) {
    case PAWL_SHARED:
        return pawl_acquire_shared(lock, 0, error);
    case PAWL_PERMITS:
        return pawl_acquire_permits(lock, take->options->permits, 0, error);
    default:
        return pawl_acquire(lock, 0, error);
    }
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

static void hear_signals(struct take *take, struct pawl_lock *lock) {
    for (int number; (number = signals_next()) != 0;) {
        if (signal_stops_us(number)) {
            stop_while_waiting(number);
        } else if (signal_ends_us(number) && take->signal == 0) {
            take->signal = number;
            pawl_cancel(lock);
        }
    }
}

/* Bounded by the acquire itself: its callback comes exactly once, in time or when it is cancelled. */
static void wait_for_outcome(struct take *take, struct pawl_lock *lock, struct outcome *outcome) {
    struct pollfd sources[] = {
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = take->fd, .events = POLLIN},
    };

    while (!outcome->known) {
        poll(sources, 2, poll_timeout(wait_line_due()));
        hear_signals(take, lock);
        pawl_dispatch(take->client);
        if (!outcome->known && now_ms() >= wait_line_due())
            wait_line_draw();
    }
}

static int64_t time_left(int64_t deadline) {
    if (deadline == PAWL_FOREVER)
        return PAWL_FOREVER;
    int64_t left = deadline - now_ms();
    return left > 0 ? left : 0;
}

/* Returns 0 or a negative code, with its text in `error`. */
static int wait_for(struct take *take, size_t i, int64_t deadline, struct pawl_error *error) {
    const struct take_options *options = take->options;
    struct pawl_lock *lock = take->locks[i];
    struct outcome outcome = {0};

    int result = pawl_acquire_start(lock, options->mode, options->permits, time_left(deadline), on_acquired, &outcome, error);
    if (result < 0)
        return result;
    wait_line_begin(take->client, options->names[i], options->verbose);
    wait_for_outcome(take, lock, &outcome);
    wait_line_end();
    if (outcome.result < 0)
        *error = outcome.error;
    return outcome.result;
}

/* Is it worth waiting after a try that failed so? A server out of reach is, but only for as long as the user said: whoever waits
 * for ever wants to hear of it. */
static bool worth_waiting(const struct take_options *options, int result) {
    if (options->wait_ms == 0)
        return false;
    return result == PAWL_EHELD || (result == PAWL_ECONNLOST && options->wait_ms != PAWL_FOREVER);
}

/* The lock is of another kind, or has another limit: say which, and how to ask for it. */
static void explain_misfit(const struct take *take, const char *name, const struct pawl_error *error) {
    struct snapshot snapshot = {0};
    struct pawl_error ignored;
    char hint[128] = "";

    if (snapshot_take(&snapshot, take->client, name, &ignored) == 0 && snapshot.count > 0) {
        const struct pawl_entry *entry = &snapshot.entries[0];

        if (entry->kind == PAWL_MUTEX)
            snprintf(hint, sizeof(hint), ": it is a mutex, so leave out -s, -x and --permits");
        else if (entry->kind == PAWL_RWLOCK)
            snprintf(hint, sizeof(hint), ": it is a read-write lock, so say -s or -x");
        else
            snprintf(hint, sizeof(hint), ": it is a semaphore of %u, so say --permits N/%u", entry->limit, entry->limit);
    }
    say("%s%s", error->text, hint);
    snapshot_finish(&snapshot);
}

static int explain_failure(const struct take *take, const char *name, int result, const struct pawl_error *error) {
    const struct take_options *options = take->options;

    if (result == PAWL_EHELD || result == PAWL_ETIMEOUT) {
        /* As flock(1): scripts that only try expect no noise. People expect an answer. */
        if (options->verbose || isatty(STDERR_FILENO))
            say("%s", error->text);
        return options->conflict_exit;
    }
    if (result == PAWL_EKIND || result == PAWL_ELIMIT)
        explain_misfit(take, name, error);
    else
        say("%s", error->text);
    return exit_of(result);
}

/* False: not taken, and `status` is set. It may be 0: -E 0. */
static bool take_one(struct take *take, size_t i, int64_t deadline, int *status) {
    const struct take_options *options = take->options;
    struct pawl_error error = {0};
    int64_t start = now_ms();
    char words[32];

    int result = try_now(take, take->locks[i], &error);
    if (worth_waiting(options, result))
        result = wait_for(take, i, deadline, &error);
    if (result >= 0) {
        take->held++;
        if (options->verbose)
            say("took '%s' with token %llu after %s, at %s", options->names[i], (unsigned long long)pawl_token(take->locks[i]),
                duration_in_words(words, sizeof(words), now_ms() - start), take->info.url);
    }
    /* Granted just as the signal came: the signal counts. */
    if (take->signal != 0)
        *status = EXIT_BY_SIGNAL + take->signal;
    else if (result < 0)
        *status = explain_failure(take, options->names[i], result, &error);
    return result >= 0 && take->signal == 0;
}

bool take_all(struct take *take, int *status) {
    int64_t deadline = deadline_in(take->options->wait_ms);

    for (size_t i = 0; i < take->options->count; i++)
        if (!take_one(take, i, deadline, status)) {
            take_release(take);
            return false;
        }
    return true;
}

static int release_one(struct take *take, struct pawl_lock *lock, const char *name) {
    struct pawl_error error;
    int result = take->options->mode == PAWL_SHARED ? pawl_release_shared(lock, &error) : pawl_release(lock, &error);

    if (result < 0 && !(result == PAWL_ELOST && take->loss_told))
        say("%s", error.text);
    else if (result >= 0 && take->options->verbose)
        say("released '%s'", name);
    return result == PAWL_ELOST ? EXIT_LOST : 0;
}

int take_release(struct take *take) {
    int status = 0;

    while (take->held > 0) {
        size_t last = --take->held;

        if (release_one(take, take->locks[last], take->options->names[last]) != 0)
            status = EXIT_LOST;
    }
    return status;
}

void take_finish(struct take *take) {
    for (size_t i = 0; take->locks != NULL && i < take->options->count; i++)
        pawl_lock_free(take->locks[i]);
    pawl_close(take->client);
    free(take->locks);
    *take = (struct take){0};
}
