/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - pawl value: the value beside a lock, for scripts.
 *
 * Who writes either takes the lock for that moment, or writes for somebody who holds it: the pawl run around this process, if that has
 * the lock, or the hold that --token names. Then nothing is taken, and the server writes only if that hold still stands. There is no way
 * from the second to the first: a script that lost its lock must not get it again in passing, and write after the next holder did.
 *
 * All of standard input is there before anything is taken: the lock is not held while a slow program writes, and nobody waits for a value
 * that is too large.
 */
#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "around.h"
#include "common/signals.h"

static const char help[] = "Usage: pawl value get [OPTION]... LOCK\n"
                           "       pawl value set [OPTION]... LOCK < FILE\n"
                           "       pawl value del [OPTION]... LOCK\n"
                           "       pawl value watch [OPTION]... LOCK\n"
                           "\n"
                           "A small value, of 64 KiB at most, lies beside every lock, and stays when the lock\n"
                           "is released. Only who holds the lock can write it, and the server sees to that:\n"
                           "who lost the lock meanwhile writes nothing, and is told so (76).\n"
                           "\n"
                           "  get     print it, byte for byte; if there is none, exit with 1\n"
                           "  set     store standard input, byte for byte\n"
                           "  del     delete it; if there is none, that is fine\n"
                           "  watch   print it, and again whenever it changes, until Ctrl-C: each time on a\n"
                           "          line of its own; an empty line when it was deleted\n"
                           "\n"
                           "In a pawl run of the same lock, set and del write for that run. Elsewhere they\n"
                           "take the lock, write, and give it back:\n"
                           "\n"
                           "  -n, --nonblock       don't wait for the lock: exit with 75 if another holds it\n"
                           "  -w, --wait SECONDS   wait that long at most, then exit with 75; or 500ms, 5m\n"
                           "  -E, --conflict-exit-code N\n"
                           "                       exit with N instead of 75\n"
                           "  -x, --exclusive      it is a read-write lock; without -x it is a mutex\n"
                           "      --token N        take nothing: write for the hold with this token, such as\n"
                           "                       that of pawl hold, if it still stands\n"
                           "      --lease SECONDS  lease or session time, on engines that have one\n"
                           "      --label TEXT     shown to others by pawl status, meanwhile\n"
                           "\n"
                           "For all of them\n"
                           "      --json           get, watch: one line of JSON, with token, version, time\n"
                           "  -u, --url URL        where the locks are; default $PAWL_URL, else local:\n"
                           "  -v, --verbose        say on stderr what happens\n"
                           "  -q, --quiet          say nothing when there is no value, or it is not taken\n"
                           "      --trace          say every step of the algorithm\n"
                           "      --help           this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Exit status: 0 done, 1 there is no value, 75 not taken, 76 the hold was lost and\n"
                           "nothing was written, and else as of pawl run.\n"
                           "\n"
                           "Examples\n"
                           "  pawl run deploy -c 'make && echo \"$VERSION\" | pawl value set deploy'\n"
                           "  pawl value get deploy\n"
                           "  pawl value set config < config.json\n"
                           "  pawl value watch config --json | while read -r line; do reload \"$line\"; done\n";

static const struct option long_options[] = {
    {"nonblock", no_argument, NULL, 'n'},
    {"nb", no_argument, NULL, 'n'},
    {"wait", required_argument, NULL, 'w'},
    {"timeout", required_argument, NULL, 'w'},
    {"conflict-exit-code", required_argument, NULL, 'E'},
    {"exclusive", no_argument, NULL, 'x'},
    {"token", required_argument, NULL, OPTION_TOKEN},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {"label", required_argument, NULL, OPTION_LABEL},
    {"json", no_argument, NULL, OPTION_JSON},
    {"url", required_argument, NULL, 'u'},
    {"verbose", no_argument, NULL, 'v'},
    {"quiet", no_argument, NULL, 'q'},
    {"trace", no_argument, NULL, OPTION_TRACE},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int apply(void *data, int option) {
    struct value_options *options = data;

    switch (option) {
    case OPTION_TOKEN:
        if (!parse_number(optarg, UINT64_MAX, &options->token) || options->token == 0)
            return usage_error("--token wants the number that pawl hold printed, not '%s'", optarg);
        return 0;
    case OPTION_JSON:
        options->json = true;
        return 0;
    default:
        return take_option(&options->take, option);
    }
}

static const struct syntax syntax = {
    .subcommand = "value", .help = help, .letters = ":nw:E:exu:vq", .options = long_options, .apply = apply};

/* ---- Writing --------------------------------------------------------------------------------------------------------------- */

struct content {
    bool deleted;
    size_t size;
    char bytes[PAWL_VALUE_MAX + 1];
};

static int fail_size(const char *name) {
    return usage_error("standard input has more than %u bytes, and the value of '%s' may have no more: store them elsewhere, "
                       "and where they are here",
                       PAWL_VALUE_MAX, name);
}

/* All of standard input. Returns 0, or the exit status after having said what is wrong. */
static int read_input(const struct take_options *options, struct content *content) {
    ssize_t length;

    if (isatty(STDIN_FILENO) && !options->quiet)
        say("type the value of '%s', and then Ctrl-D on a line of its own", options->names[0]);
    while ((length = read(STDIN_FILENO, content->bytes + content->size, sizeof content->bytes - content->size)) != 0) {
        if (length < 0 && errno != EINTR) {
            say("can't read standard input: %s", strerror(errno));
            return EXIT_STORAGE;
        }
        content->size += length > 0 ? (size_t)length : 0;
        if (content->size > PAWL_VALUE_MAX)
            return fail_size(options->names[0]);
    }
    return 0;
}

static const void *bytes_of(const struct content *content) {
    return content->deleted ? NULL : content->bytes;
}

static void tell_of_write(const struct take_options *options, const struct content *content, uint64_t token) {
    if (options->verbose && content->deleted)
        say("deleted the value of '%s', as the hold with token %llu", options->names[0], (unsigned long long)token);
    else if (options->verbose)
        say("wrote %zu bytes beside '%s', as the hold with token %llu", content->size, options->names[0],
            (unsigned long long)token);
}

/* The hold that has this token did not stand any more, or never did. */
static int fail_lost(const struct value_options *options, uint64_t token, bool around) {
    say("'%s' is not held any more with token %llu%s: it was lost, or released; nothing was written", options->take.names[0],
        (unsigned long long)token, around ? " by the pawl run around this command" : "");
    return EXIT_LOST;
}

/* In the name of a hold that somebody else has. */
static int write_as(const struct value_options *options, const struct content *content, const struct around *hold, bool around) {
    const char *url = options->take.url != NULL ? options->take.url : hold->url[0] != '\0' ? hold->url : NULL;
    struct pawl_options how = {.size = sizeof how, .flags = options->take.trace ? PAWL_OPEN_TRACE : 0, .log = print_log};
    struct pawl *client;
    struct pawl_error error;

    if (pawl_open(url, &how, &client, &error) < 0)
        return library_error(&error);
    print_warnings();
    int result = pawl_value_set_as(client, options->take.names[0], hold->token, bytes_of(content), content->size, &error);
    pawl_close(client);
    if (result == PAWL_ETOKEN || result == PAWL_ELOST)
        return fail_lost(options, hold->token, around);
    if (result < 0)
        return library_error(&error);
    tell_of_write(&options->take, content, hold->token);
    return 0;
}

/* What no hold would help: an engine without values. Known before anything is taken. */
static bool can_be_written(struct take *take, const struct content *content, int *status) {
    struct pawl_error error;

    if (pawl_value_set(take->parts[0].lock, bytes_of(content), content->size, &error) == PAWL_ENOTHELD)
        return true;
    *status = library_error(&error);
    return false;
}

/* It is held. */
static int write_held(struct take *take, const struct content *content) {
    struct pawl_error error;
    uint64_t token = pawl_token(take->parts[0].lock);
    int result = pawl_value_set(take->parts[0].lock, bytes_of(content), content->size, &error);
    int status = result < 0 ? library_error(&error) : 0;

    if (result == 0)
        tell_of_write(take->options, content, token);
    /* What became of the value is known. A loss after that is of no importance, and one before it was told. */
    take->loss_told = true;
    take_release(take);
    return status;
}

static bool take_to_write(struct take *take, const struct value_options *options, const struct content *content, int *status) {
    if (!take_open(take, &options->take, PAWL_OPEN_LOSS_BY_DISPATCH, NULL, status))
        return false;
    take->writes = true;
    return can_be_written(take, content, status) && take_all(take, status);
}

static int take_and_write(const struct value_options *options, const struct content *content) {
    struct take take = {0};
    int status = EXIT_SYSTEM;

    if (signals_take() && take_to_write(&take, options, content, &status))
        status = write_held(&take, content);
    int number = take.signal;
    take_finish(&take);
    return number != 0 ? end_by_signal(number, false) : status;
}

static int write_value(const struct value_options *options, const struct content *content) {
    const char *name = options->take.names[0];
    struct around hold = {.token = options->token};

    if (options->token != 0)
        return write_as(options, content, &hold, false);
    if (!around_find(name, &hold))
        return take_and_write(options, content);
    if (hold.exclusive)
        return write_as(options, content, &hold, true);
    say("the pawl run around this command does not hold '%s' exclusively, so its value can't be written here", name);
    return EXIT_MISMATCH;
}

static int value_set(const struct value_options *options) {
    static struct content content;
    int status = read_input(&options->take, &content);

    return status != 0 ? status : write_value(options, &content);
}

static int value_del(const struct value_options *options) {
    static struct content content = {.deleted = true};

    return write_value(options, &content);
}

/* ---- The command ----------------------------------------------------------------------------------------------------------- */

static const struct action {
    const char *name;
    int (*main)(const struct value_options *options);
    bool writes;
} actions[] = {
    {"get", value_get, false},
    {"set", value_set, true},
    {"del", value_del, true},
    {"watch", value_watch, false},
};

static const struct action *find_action(const char *name) {
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(name, actions[i].name) == 0)
            return &actions[i];
    return NULL;
}

/* Options that would be ignored are a mistake. */
static int check_options(const struct value_options *options, const struct action *action) {
    const struct take_options *take = &options->take;
    bool takes = take->wait_ms != PAWL_FOREVER || take->kind != PAWL_MUTEX || take->lease_ms != 0 || take->label != NULL;

    if (action->writes && options->json)
        return usage_error("--json is for pawl value get and watch");
    if (!action->writes && (takes || options->token != 0))
        return usage_error("pawl value %s takes no lock: leave out -n, -w, -x, --token, --lease and --label", action->name);
    if (options->token != 0 && takes)
        return usage_error("with --token no lock is taken: leave out -n, -w, -x, --lease and --label");
    return 0;
}

/* What the options leave: what to do, and the lock. */
static int finish_parsing(struct value_options *options, int argc, char **argv, const struct action **ret) {
    if (optind == argc)
        return usage_error("what about the value? pawl value get, set, del or watch LOCK (see pawl value --help)");
    *ret = find_action(argv[optind]);
    if (*ret == NULL)
        return usage_error("there is no 'pawl value %s': say get, set, del or watch", argv[optind]);
    if (optind + 1 == argc)
        return usage_error("which lock? pawl value %s LOCK (see pawl value --help)", argv[optind]);
    if (optind + 2 < argc && (*ret)->main == value_set)
        return usage_error("the value comes from standard input: echo '%s' | pawl value set %s", argv[optind + 2],
                           argv[optind + 1]);
    if (optind + 2 < argc)
        return usage_error("pawl value %s takes one lock, and there are '%s' and '%s'", (*ret)->name, argv[optind + 1],
                           argv[optind + 2]);
    options->take.names[options->take.count++] = argv[optind + 1];
    return check_options(options, *ret);
}

int command_value(int argc, char **argv) {
    struct value_options options = {0};
    const struct action *action = NULL;
    int status;

    if (!take_options_init(&options.take, argc))
        return EXIT_SYSTEM;
    if (read_options(&syntax, argc, argv, &options, &status) && (status = finish_parsing(&options, argc, argv, &action)) == 0)
        status = action->main(&options);
    take_options_finish(&options.take);
    return status;
}
