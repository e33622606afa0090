/* SPDX-License-Identifier: Apache-2.0
 *
 * hold.c - pawl hold: hold locks for a script that cannot be wrapped.
 *
 * The contract with the script, by line and by descriptor: once all locks are held, `token N`, with a number for each, and a newline
 * appear on stdout; they are held until stdin ends, or a signal comes, or one is lost; then pawl exits, and says by its status which of
 * the three it was.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/signals.h"
#include "take.h"

static const char help[] = "Usage: pawl hold [OPTION]... LOCK...\n"
                           "\n"
                           "Take the lock, print 'token N', and hold it until standard input ends or a\n"
                           "signal comes. For scripts that cannot be wrapped by pawl run. If the lock is\n"
                           "lost, pawl hold says so on stderr and exits with 76 at once: the script must\n"
                           "watch for its end. Of several locks, all are taken or none, as by pawl run;\n"
                           "their tokens stand in one line, in the order of the locks' names.\n"
                           "\n"
                           "  -n, --nonblock       don't wait: exit with 75 if another holds it\n"
                           "  -w, --wait SECONDS   wait that long at most, then exit with 75; or 500ms, 5m\n"
                           "  -E, --conflict-exit-code N\n"
                           "                       exit with N instead of 75\n"
                           "  -s, --shared         the shared side of a read-write lock\n"
                           "  -x, --exclusive      the exclusive side of a read-write lock\n"
                           "      --permits N/LIMIT\n"
                           "                       N permits of a semaphore that has LIMIT of them\n"
                           "  -u, --url URL        where the locks are; default $PAWL_URL, else local:\n"
                           "      --lease SECONDS  lease or session time, on engines that have one\n"
                           "      --label TEXT     shown to others by pawl status\n"
                           "  -v, --verbose        say on stderr what happens\n"
                           "  -q, --quiet          say nothing when it is not taken, on a terminal either\n"
                           "      --trace          say every step of the algorithm\n"
                           "      --help           this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Exit status: 0 when standard input ended, 128 + N after signal N, 76 lost, and\n"
                           "else as of pawl run.\n"
                           "\n"
                           "Examples\n"
                           "  pawl hold nightly                        until Ctrl-D\n"
                           "  coproc pawl hold deploy                  in bash: ...\n"
                           "  read -r _ token <&\"${COPROC[0]}\"         ... returns when it is held\n"
                           "  exec {COPROC[1]}>&-                      ... lets go\n";

static const struct option long_options[] = {TAKE_LONG, {NULL, 0, NULL, 0}};

/* What ended the hold. */
struct ending {
    bool known;
    bool lost;
    int signal;
};

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    struct ending *ending = data;

    (void)lock;
    (void)token;
    say("%s", why->text);
    if (state == PAWL_LOST)
        ending->known = ending->lost = true;
}

/* What is typed or sent is of no interest; only that it ends. */
static bool input_ended(void) {
    char discarded[4096];
    ssize_t length = read(STDIN_FILENO, discarded, sizeof discarded);

    return length == 0 || (length < 0 && errno != EINTR && errno != EAGAIN);
}

static void hear_signals(struct ending *ending) {
    for (int number; (number = signals_next()) != 0;) {
        if (signal_stops_us(number))
            stop_by_signal(number, false);
        else if (signal_ends_us(number) && !ending->known)
            *ending = (struct ending){.known = true, .signal = number};
    }
}

static void wait_for_ending(const struct take *take, struct ending *ending) {
    struct pollfd sources[] = {
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = take->fd, .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN},
    };

    while (!ending->known) {
        poll(sources, 3, -1);
        pawl_dispatch(take->client);
        hear_signals(ending);
        if (sources[2].revents != 0 && input_ended())
            ending->known = true;
    }
}

static int hold(struct take *take, struct ending *ending) {
    struct pawl_error error;

    for (size_t i = 0; i < take->held; i++)
        if (pawl_on_loss(take->parts[i].lock, on_loss, ending, &error) < 0)
            return library_error(&error);
    printf("token");
    for (size_t i = 0; i < take->held; i++)
        printf(" %llu", (unsigned long long)pawl_token(take->parts[i].lock));
    printf("\n");
    int status = finish_output(0);
    if (status != 0)
        return status;
    wait_for_ending(take, ending);
    take->loss_told = ending->lost;
    status = take_release(take);
    return ending->lost ? EXIT_LOST : status;
}

static int take_and_hold(const struct take_options *options) {
    struct take take = {0};
    struct ending ending = {0};
    int status = EXIT_SYSTEM;

    if (signals_take() && take_open(&take, options, PAWL_OPEN_LOSS_BY_DISPATCH, NULL, &status) && take_all(&take, &status))
        status = hold(&take, &ending);
    int number = take.signal != 0 ? take.signal : ending.signal;
    take_finish(&take);
    return number != 0 && status != EXIT_LOST ? end_by_signal(number, false) : status;
}

static int apply(void *data, int option) {
    return take_option(data, option);
}

static const struct syntax syntax = {
    .subcommand = "hold", .help = help, .letters = ":" TAKE_SHORT, .options = long_options, .apply = apply};

/* What the options leave: the locks. */
static int finish_parsing(struct take_options *options, int argc, char **argv) {
    if (optind == argc)
        return usage_error("which lock? pawl hold LOCK (see pawl hold --help)");
    while (optind < argc)
        options->names[options->count++] = argv[optind++];
    return take_options_order(options);
}

int command_hold(int argc, char **argv) {
    struct take_options options;
    int status;

    if (!take_options_init(&options, argc))
        return EXIT_SYSTEM;
    if (read_options(&syntax, argc, argv, &options, &status) && (status = finish_parsing(&options, argc, argv)) == 0)
        status = take_and_hold(&options);
    take_options_finish(&options);
    return status;
}
