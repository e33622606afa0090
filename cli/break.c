/* SPDX-License-Identifier: Apache-2.0
 *
 * break.c - pawl break: make a holder give up.
 *
 * The token is asked for on purpose: it names one hold. An operator who looked a minute ago cannot break the hold of
 * another process by mistake. With --holder it is pawl that looks, shows whom it found, and asks; what is broken is the hold
 * that it showed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/options.h"
#include "common/snapshot.h"

static const char help[] = "Usage: pawl break [OPTION]... LOCK --token N\n"
                           "       pawl break [OPTION]... LOCK --holder\n"
                           "\n"
                           "Ask the holder with token N (see pawl status) to give the lock up. It is told\n"
                           "as of a loss: pawl run ends its command. The lock is free when the holder lets\n"
                           "go, or when its lease ends.\n"
                           "\n"
                           "      --token N   which hold: one that came later has another token\n"
                           "      --holder    the one who holds it now: shows who that is, and asks (only on\n"
                           "                  a terminal)\n"
                           "      --now       free the lock at once. The old holder may still be acting:\n"
                           "                  only its token tells\n"
                           "  -u, --url URL   where the locks are; default $PAWL_URL, else local:\n"
                           "      --help      this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Exit status: 0 done, 1 the answer was no, 65 no hold has this token, or nobody\n"
                           "holds it, and else as of pawl run.\n"
                           "\n"
                           "Examples\n"
                           "  pawl break nightly --token 1042\n"
                           "  pawl break nightly --holder\n";

static const struct option long_options[] = {
    {"token", required_argument, NULL, OPTION_TOKEN}, {"holder", no_argument, NULL, OPTION_HOLDER},
    {"now", no_argument, NULL, OPTION_NOW},           {"url", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, OPTION_HELP},         {NULL, 0, NULL, 0},
};

struct break_options {
    const char *url;
    const char *name;
    uint64_t token; /* 0: not given; no hold has it */
    bool holder;
    unsigned flags;
};

static int apply(void *data, int option) {
    struct break_options *options = data;

    switch (option) {
    case OPTION_TOKEN:
        if (!parse_number(optarg, UINT64_MAX, &options->token) || options->token == 0)
            return usage_error("--token wants the number that pawl status shows, not '%s'", optarg);
        return 0;
    case OPTION_HOLDER:
        options->holder = true;
        return 0;
    case OPTION_NOW:
        options->flags |= PAWL_BREAK_NOW;
        return 0;
    default:
        options->url = optarg;
        return 0;
    }
}

static const struct syntax syntax = {
    .subcommand = "break", .help = help, .letters = ":u:", .options = long_options, .apply = apply};

/* What the options leave: the lock, and nothing else. */
static int finish_parsing(struct break_options *options, int argc, char **argv) {
    if (optind == argc)
        return usage_error("which lock? pawl break LOCK --token N (see pawl break --help)");
    if (optind + 1 < argc)
        return usage_error("pawl break takes one lock, and there are '%s' and '%s'", argv[optind], argv[optind + 1]);
    options->name = argv[optind];
    if (options->token != 0 && options->holder)
        return usage_error("--token and --holder exclude each other: choose one");
    if (options->token == 0 && !options->holder)
        return usage_error("which hold? --token N names it; pawl status %s shows the tokens", options->name);
    if (options->holder && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
        return usage_error("--holder asks first, and there is no terminal to ask on: name the hold by --token N");
    return 0;
}

/* ---- The one who holds it now ---------------------------------------------------------------------------------------------- */

static bool says_yes(void) {
    char answer[16];

    return fgets(answer, sizeof answer, stdin) != NULL && (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0);
}

static bool ask(const struct break_options *options, const struct pawl_entry *entry) {
    char name[1024], command[256], host[256];

    fprintf(stderr, "'%s' is held by %s (process %lld on %s), token %llu. %s [y/N] ", printable(name, sizeof name, options->name),
            printable(command, sizeof command, entry->command[0] != '\0' ? entry->command : "a program"), (long long)entry->pid,
            printable(host, sizeof host, entry->host[0] != '\0' ? entry->host : "an unknown host"),
            (unsigned long long)entry->token, options->flags & PAWL_BREAK_NOW ? "Free the lock at once?" : "Ask it to give up?");
    fflush(stderr);
    return says_yes();
}

/* Returns 0 with options->token set, or the exit status. */
static int choose(struct break_options *options, const struct snapshot *snapshot) {
    const struct pawl_entry *found = NULL;
    size_t holders = 0;

    for (size_t i = 0; i < snapshot->count; i++)
        if (!is_waiter(&snapshot->entries[i])) {
            found = &snapshot->entries[i];
            holders++;
        }
    if (holders == 0) {
        say("nobody holds '%s'", options->name);
        return EXIT_MISMATCH;
    }
    if (holders > 1) {
        say("%zu hold '%s': say which by --token N; pawl status %s shows the tokens", holders, options->name, options->name);
        return EXIT_MISMATCH;
    }
    options->token = found->token;
    return ask(options, found) ? 0 : 1;
}

static int find_holder(struct break_options *options, struct pawl *client) {
    struct snapshot snapshot;
    struct pawl_error error;
    int status;

    if (snapshot_take(&snapshot, client, options->name, &error) < 0)
        return library_error(&error);
    status = choose(options, &snapshot);
    snapshot_finish(&snapshot);
    return status;
}

static int break_hold(struct break_options *options) {
    struct pawl *client;
    struct pawl_error error;
    int status = open_client(options->url, 0, &client);

    if (status != 0)
        return status;
    if (options->holder && (status = find_holder(options, client)) != 0) {
        pawl_close(client);
        return status;
    }
    unsigned long long token = options->token;
    int result = pawl_break(client, options->name, options->token, options->flags, &error);
    pawl_close(client);
    if (result < 0)
        return library_error(&error);
    if (options->flags & PAWL_BREAK_NOW)
        printf("'%s' is taken from the holder with token %llu, which may still be acting\n", options->name, token);
    else
        printf("the holder of '%s' with token %llu is asked to give up\n", options->name, token);
    return finish_output(0);
}

int command_break(int argc, char **argv) {
    struct break_options options = {0};
    int status;

    if (read_options(&syntax, argc, argv, &options, &status) && (status = finish_parsing(&options, argc, argv)) == 0)
        status = break_hold(&options);
    return status;
}
