/* SPDX-License-Identifier: Apache-2.0
 *
 * leader.c - pawl leader: the token and the value of who leads, once or at every change.
 *
 * It observes the lock: the library says whether a value is that of the present holder. So what a former leader wrote is never shown as the
 * next one's, and a leader that has not written anything yet is shown without a value.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/options.h"

static const char help[] = "Usage: pawl leader [OPTION]... NAME\n"
                           "\n"
                           "Say who leads: print one line with the token of the leader's term, a blank, and\n"
                           "its value (pawl elect --value). A leader without a value is a line with a token\n"
                           "alone. What a former leader published is not shown.\n"
                           "\n"
                           "      --watch          and print a line at every change, '-' when nobody leads,\n"
                           "                       until Ctrl-C\n"
                           "  -u, --url URL        where the lock is; default $PAWL_URL, else local:\n"
                           "      --help           this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Exit status: 0; 1 if nobody leads, and nothing is printed then; and 64 usage,\n"
                           "69 engine out of reach, 77 permission.\n"
                           "\n"
                           "Examples\n"
                           "  read -r term address < <(pawl leader web) && curl \"http://$address/\"\n"
                           "  pawl leader web --watch | while read -r term address; do reload \"$address\"; done\n";

static const struct option long_options[] = {
    {"watch", no_argument, NULL, OPTION_WATCH},
    {"url", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct leader_options {
    const char *url;
    const char *name;
    bool watch;
};

static int apply(void *data, int option) {
    struct leader_options *options = data;

    if (option == OPTION_WATCH)
        options->watch = true;
    else
        options->url = optarg;
    return 0;
}

static const struct syntax syntax = {
    .subcommand = "leader", .help = help, .letters = ":u:", .options = long_options, .apply = apply};

/* A server that was there a moment ago tells what is within that time, or has gone away. */
enum { ANSWER_MS = 5000 };

/* What was told last. */
struct leader {
    bool watch; /* nobody is news, too */
    bool known;
    bool leads;
    uint64_t token;
    uint64_t version; /* of its value; 0: it has none */
    bool failed;      /* out of memory */
};

/* As text, also if it is none: a line for each leader, and nothing that plays with the terminal. False: out of memory. */
static bool print_value(const struct pawl_value *value) {
    char *text = calloc(2, value->size + 1), *shown = text + value->size + 1;

    if (text == NULL)
        return false;
    for (size_t i = 0; i < value->size; i++) {
        text[i] = ((const char *)value->bytes)[i];
        if (text[i] == '\0')
            text[i] = '\1'; /* which is not printable either, and ends no string */
    }
    printf(" %s", printable(shown, value->size + 1, text));
    free(text);
    return true;
}

static void print_leader(struct leader *leader, const struct pawl_value *value) {
    if (leader->leads)
        printf("%llu", (unsigned long long)leader->token);
    else if (leader->watch)
        printf("-");
    else
        return;
    leader->failed = value != NULL && !print_value(value);
    printf("\n");
}

static void on_observed(const struct pawl_observed *observed, void *data) {
    const struct pawl_entry *holder = observed->holder;
    struct leader *leader = data, before = *leader;
    const struct pawl_value *value = NULL;

    leader->known = true;
    leader->leads = holder != NULL && holder->mode == PAWL_EXCLUSIVE;
    if (leader->leads)
        value = observed->holders_value;
    leader->token = leader->leads ? holder->token : 0;
    leader->version = value != NULL ? value->version : 0;
    /* What changed may be something else: what lies there of former leaders, or a label. */
    if (!before.known || before.leads != leader->leads || before.token != leader->token || before.version != leader->version)
        print_leader(leader, value);
}

/* Returns 0 or an exit status. With --watch: when nobody reads any more, or the output can't be written. */
static int follow(struct pawl *client, const struct leader_options *options) {
    struct leader leader = {.watch = options->watch};
    struct pollfd sources[] = {{.events = POLLIN}, {.fd = STDOUT_FILENO}};
    int64_t deadline = deadline_in(ANSWER_MS);
    struct pawl_observer *observer;
    struct pawl_error error;
    int status = open_events(client, &sources[0].fd);

    if (status != 0)
        return status;
    if (pawl_observe(client, options->name, on_observed, &leader, &observer, &error) < 0)
        return library_error(&error);
    while (status == 0 && (options->watch || !leader.known)) {
        if (!leader.known && now_ms() >= deadline) {
            say("no answer from the server within %d s", ANSWER_MS / 1000);
            return EXIT_UNREACHABLE;
        }
        poll(sources, options->watch ? 2 : 1, poll_timeout(leader.known ? PAWL_FOREVER : deadline));
        if (sources[1].revents & (POLLERR | POLLHUP | POLLNVAL))
            return 0;
        pawl_dispatch(client);
        status = leader.failed ? EXIT_SYSTEM : finish_output(0);
    }
    if (leader.failed)
        say("out of memory");
    if (status != 0 || leader.leads)
        return status;
    if (isatty(STDERR_FILENO))
        say("nobody leads '%s'", options->name);
    return EXIT_NO;
}

int command_leader(int argc, char **argv) {
    struct leader_options options = {0};
    struct pawl *client;
    int status;

    if (!read_options(&syntax, argc, argv, &options, &status))
        return status;
    if (optind + 1 != argc)
        return usage_error("whose leader? pawl leader NAME (see pawl leader --help)");
    options.name = argv[optind];
    status = open_client(options.url, PAWL_OPEN_LOSS_BY_DISPATCH, &client);
    if (status != 0)
        return status;
    status = follow(client, &options);
    pawl_close(client);
    return status;
}
