/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - pawl wait: until a lock is free, or until somebody holds it.
 *
 * Free means: it could be taken. So it is taken, and given back at once; who waits for it so has a place in the queue like all others, and
 * a lock that its holder only keeps (pawl_set_keep) is handed over. Held is what an observer is told: that takes nothing, and nobody sees
 * it.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "common/signals.h"
#include "common/wait_line.h"
#include "take.h"

static const char help[] = "Usage: pawl wait [OPTION]... LOCK\n"
                           "\n"
                           "Wait until the lock is free: take it, and give it back at once. Or wait until\n"
                           "somebody holds it.\n"
                           "\n"
                           "      --held           until somebody holds it; nothing is taken\n"
                           "  -n, --nonblock       don't wait: exit with 75 if it is not so now\n"
                           "  -w, --wait SECONDS   wait that long at most, then exit with 75; or 500ms, 5m\n"
                           "  -E, --conflict-exit-code N\n"
                           "                       exit with N instead of 75\n"
                           "  -s, --shared         until the shared side of a read-write lock is free\n"
                           "  -x, --exclusive      ... or its exclusive side\n"
                           "      --permits N/LIMIT\n"
                           "                       ... or N permits of a semaphore that has LIMIT of them\n"
                           "  -u, --url URL        where the locks are; default $PAWL_URL, else local:\n"
                           "      --lease SECONDS  lease or session time, on engines that have one\n"
                           "      --label TEXT     shown to others by pawl status, meanwhile\n"
                           "  -v, --verbose        say on stderr what happens\n"
                           "  -q, --quiet          say nothing when the time is over, on a terminal either\n"
                           "      --trace          say every step of the algorithm\n"
                           "      --help           this text; the whole story is in pawl(1)\n"
                           "\n"
                           "When it returns, another may have taken the lock already: who needs it takes it,\n"
                           "by pawl run.\n"
                           "\n"
                           "Exit status: 0 it was so, 75 the time is over, and else as of pawl run.\n"
                           "\n"
                           "Examples\n"
                           "  pawl wait nightly && echo 'the backup is done'\n"
                           "  pawl wait --held -w 30s leader || echo 'there is no leader'\n";

static const struct option long_options[] = {TAKE_LONG, {"held", no_argument, NULL, OPTION_HELD}, {NULL, 0, NULL, 0}};

struct wait_options {
    struct take_options take;
    bool held;
};

static int apply(void *data, int option) {
    struct wait_options *options = data;

    if (option != OPTION_HELD)
        return take_option(&options->take, option);
    options->held = true;
    return 0;
}

static const struct syntax syntax = {
    .subcommand = "wait", .help = help, .letters = ":" TAKE_SHORT, .options = long_options, .apply = apply};

static int finish_parsing(struct wait_options *options, int argc, char **argv) {
    const struct take_options *take = &options->take;

    if (optind == argc)
        return usage_error("which lock? pawl wait LOCK (see pawl wait --help)");
    if (optind + 1 < argc)
        return usage_error("pawl wait takes one lock, and there are '%s' and '%s'", argv[optind], argv[optind + 1]);
    if (options->held && (take->kind != PAWL_MUTEX || take->lease_ms != 0 || take->label != NULL))
        return usage_error("with --held nothing is taken: leave out -s, -x, --permits, --lease and --label");
    options->take.names[options->take.count++] = argv[optind];
    return 0;
}

/* ---- Until it is free ------------------------------------------------------------------------------------------------------ */

static int wait_until_free(const struct take_options *options) {
    struct take take = {0};
    int status = EXIT_SYSTEM;

    if (signals_take() && take_open(&take, options, PAWL_OPEN_LOSS_BY_DISPATCH, NULL, &status) && take_all(&take, &status)) {
        take.loss_told = true; /* it was had, and that is all */
        take_release(&take);
        status = 0;
    }
    int number = take.signal;
    take_finish(&take);
    return number != 0 ? end_by_signal(number, false) : status;
}

/* ---- Until it is held ------------------------------------------------------------------------------------------------------ */

struct observation {
    bool seen, held;
};

static void on_observed(const struct pawl_observed *observed, void *data) {
    *(struct observation *)data = (struct observation){.seen = true, .held = observed->holder != NULL};
}

/* The time is over. Whether nobody held it, or nothing could be seen, are two things. */
static int explain(const struct take_options *options, const struct observation *observation) {
    char words[32];
    bool wanted = options->verbose || (!options->quiet && isatty(STDERR_FILENO));

    if (!observation->seen) {
        say("nothing could be seen of '%s': there was no answer in time", options->names[0]);
        return EXIT_UNREACHABLE;
    }
    if (wanted && options->wait_ms == 0)
        say("nobody holds '%s'", options->names[0]);
    else if (wanted)
        say("nobody held '%s' within %s", options->names[0], duration_in_words(words, sizeof words, options->wait_ms));
    return options->conflict_exit;
}

/* What is now is told in any case, if it can be seen at all. */
static int64_t end_of(int64_t deadline, int64_t first, const struct observation *observation) {
    return observation->seen || deadline > first ? deadline : first;
}

static int watch_until_held(struct pawl *client, const struct take_options *options) {
    enum { FIRST_MS = 2000 };
    struct observation observation = {0};
    struct pawl_observer *observer;
    struct pawl_error error;
    struct pollfd source = {.events = POLLIN};
    int64_t deadline = deadline_in(options->wait_ms), first = deadline_in(FIRST_MS);
    int status = open_events(client, &source.fd);

    if (status != 0)
        return status;
    if (pawl_observe(client, options->names[0], on_observed, &observation, &observer, &error) < 0)
        return library_error(&error);
    while (!observation.held && now_ms() < end_of(deadline, first, &observation)) {
        poll(&source, 1, poll_timeout(end_of(deadline, first, &observation)));
        pawl_dispatch(client);
    }
    return observation.held ? 0 : explain(options, &observation);
}

static int wait_until_held(const struct take_options *options) {
    unsigned flags = PAWL_OPEN_LOSS_BY_DISPATCH | (options->trace ? PAWL_OPEN_TRACE : 0);
    struct pawl *client;
    char holders[512];
    int status = open_client(options->url, flags, &client);

    if (status != 0)
        return status;
    status = watch_until_held(client, options);
    if (status == 0 && options->verbose && holders_in_words(client, options->names[0], holders, sizeof holders))
        say("'%s' is held by %s", options->names[0], holders);
    pawl_close(client);
    return status;
}

int command_wait(int argc, char **argv) {
    struct wait_options options = {0};
    int status;

    if (!take_options_init(&options.take, argc))
        return EXIT_SYSTEM;
    if (read_options(&syntax, argc, argv, &options, &status) && (status = finish_parsing(&options, argc, argv)) == 0)
        status = options.held ? wait_until_held(&options.take) : wait_until_free(&options.take);
    take_options_finish(&options.take);
    return status;
}
