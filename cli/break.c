/* SPDX-License-Identifier: Apache-2.0
 *
 * break.c - pawl break: make a holder give up.
 *
 * The token is asked for on purpose: it names one hold. An operator who looked a minute ago cannot break the hold of
 * another process by mistake.
 */
#include <stdio.h>

#include "common/cli.h"
#include "common/options.h"

static const char help[] = "Usage: pawl break [OPTION]... LOCK --token N\n"
                           "\n"
                           "Ask the holder with token N (see pawl status) to give the lock up. It is told\n"
                           "as of a loss: pawl run ends its command. The lock is free when the holder lets\n"
                           "go, or when its lease ends.\n"
                           "\n"
                           "      --token N   which hold: one that came later has another token\n"
                           "      --now       free the lock at once. The old holder may still be acting:\n"
                           "                  only its token tells\n"
                           "  -u, --url URL   where the locks are; default $PAWL_URL, else local:\n"
                           "      --help      this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Exit status: 0 done, 65 no hold has this token, and else as of pawl run.\n"
                           "\n"
                           "Example\n"
                           "  pawl break nightly --token 1042\n";

static const struct option long_options[] = {
    {"token", required_argument, NULL, OPTION_TOKEN},
    {"now", no_argument, NULL, OPTION_NOW},
    {"url", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct break_options {
    const char *url;
    const char *name;
    uint64_t token; /* 0: not given; no hold has it */
    unsigned flags;
};

static int apply(void *data, int option) {
    struct break_options *options = data;

    switch (option) {
    case OPTION_TOKEN:
        if (!parse_number(optarg, UINT64_MAX, &options->token) || options->token == 0)
            return usage_error("--token wants the number that pawl status shows, not '%s'", optarg);
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
    if (options->token == 0)
        return usage_error("which hold? --token N names it; pawl status %s shows the tokens", options->name);
    return 0;
}

static int break_hold(const struct break_options *options) {
    struct pawl *client;
    struct pawl_error error;
    unsigned long long token = options->token;
    int status = open_client(options->url, 0, &client);

    if (status != 0)
        return status;
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
