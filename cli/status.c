/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c - pawl status: who holds what, and who waits for it.
 *
 * Looking takes nothing and changes nothing. A look is one snapshot, laid out in memory and written in one go, so that --watch does
 * not flicker and a reader never sees half of it.
 */
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/options.h"

static const char help[] = "Usage: pawl status [OPTION]... [LOCK]\n"
                           "\n"
                           "Show who holds the lock and who waits for it, in order; without LOCK: of all\n"
                           "locks that are held or waited for.\n"
                           "\n"
                           "      --json              for programs: one JSON document on one line\n"
                           "      --raw               what the engine really stores\n"
                           "      --names             only the names, one on a line\n"
                           "      --watch[=SECONDS]   look again and again, every second or as often as\n"
                           "                          you say, until Ctrl-C\n"
                           "  -u, --url URL           where the locks are; default $PAWL_URL, else local:\n"
                           "      --help              this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Examples\n"
                           "  pawl status\n"
                           "  pawl status nightly --watch\n"
                           "  pawl status nightly --json | jq -r '.locks[].holders[].token'\n";

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPTION_JSON},
    {"raw", no_argument, NULL, OPTION_RAW},
    {"names", no_argument, NULL, OPTION_NAMES},
    {"watch", optional_argument, NULL, OPTION_WATCH},
    {"url", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct status_options {
    const char *url;
    const char *name;
    bool json, raw, names;
    int64_t watch_ms; /* 0: look once */
};

static int apply(void *data, int option) {
    struct status_options *options = data;

    switch (option) {
    case OPTION_JSON:
        options->json = true;
        return 0;
    case OPTION_RAW:
        options->raw = true;
        return 0;
    case OPTION_NAMES:
        options->names = true;
        return 0;
    case OPTION_WATCH:
        options->watch_ms = 1000;
        if (optarg != NULL && (!parse_duration(optarg, &options->watch_ms) || options->watch_ms < 10))
            return usage_error("--watch wants a number of seconds, 0.01 or more, not '%s'", optarg);
        return 0;
    default:
        options->url = optarg;
        return 0;
    }
}

static const struct syntax syntax = {
    .subcommand = "status", .help = help, .letters = ":u:", .options = long_options, .apply = apply};

/* What the options leave: one lock at most. */
static int finish_parsing(struct status_options *options, int argc, char **argv) {
    if (optind + 1 < argc)
        return usage_error("pawl status shows one lock or all, and there are '%s' and '%s'", argv[optind], argv[optind + 1]);
    if (options->names && (options->json || options->raw))
        return usage_error("--names excludes --json and --raw");
    options->name = argv[optind];
    return 0;
}

static void print_names(FILE *out, const struct snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->count; i = snapshot_next_lock(snapshot, i))
        fprintf(out, "%s\n", snapshot->entries[i].name);
}

static void print_view(FILE *out, const struct status_options *options, const struct pawl_info *info,
                       const struct snapshot *snapshot) {
    struct status_view view = {.info = info, .name = options->name, .raw = options->raw};

    if (options->json)
        print_json(out, &view, snapshot);
    else if (options->names)
        print_names(out, snapshot);
    else if (options->raw)
        print_raw(out, &view, snapshot);
    else
        print_table(out, &view, snapshot);
}

/* Onto a terminal, lines are cut, not wrapped: a table that wraps is no table. With --watch the screen is painted over, and what
 * does not fit below is left out. */
static void print_lines(char *text, bool paint) {
    struct winsize size = {0};
    int columns = terminal_columns(STDOUT_FILENO);
    int rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;

    if (paint)
        fputs("\033[H", stdout);
    for (char *line = strtok(text, "\n"); line != NULL && (!paint || --rows > 0); line = strtok(NULL, "\n")) {
        cut_to_columns(line, columns);
        printf("%s%s\n", line, paint ? "\033[K" : "");
    }
    if (paint)
        fputs("\033[J", stdout);
}

/* One look. Returns 0 or an exit status. */
static int look(const struct status_options *options, struct pawl *client, bool paint) {
    struct snapshot snapshot;
    struct pawl_error error;
    struct pawl_info info;
    char *text = NULL;
    size_t size;

    if (snapshot_take(&snapshot, client, options->name, &error) < 0)
        return library_error(&error);
    pawl_describe(client, &info);
    FILE *out = open_memstream(&text, &size);
    if (out != NULL)
        print_view(out, options, &info, &snapshot);
    snapshot_finish(&snapshot);
    if (out == NULL || fclose(out) != 0) {
        say("out of memory");
        free(text);
        return EXIT_SYSTEM;
    }
    if (isatty(STDOUT_FILENO) && !options->json && !options->names)
        print_lines(text, paint);
    else
        fputs(text, stdout);
    free(text);
    return finish_output(0);
}

/* Until a signal or an unwritable output ends it. */
static int look_again_and_again(const struct status_options *options, struct pawl *client) {
    struct timespec pause = {.tv_sec = options->watch_ms / 1000, .tv_nsec = options->watch_ms % 1000 * 1000000};
    bool paint = isatty(STDOUT_FILENO) && !options->json && !options->names;
    int status;

    if (paint)
        fputs("\033[2J", stdout);
    while ((status = look(options, client, paint)) == 0) {
        nanosleep(&pause, NULL);
        if (!paint && !options->json)
            fputs("\n", stdout);
    }
    return status;
}

static int show(const struct status_options *options) {
    struct pawl *client;
    int status = open_client(options->url, &client);

    if (status != 0)
        return status;
    status = options->watch_ms > 0 ? look_again_and_again(options, client) : look(options, client, false);
    pawl_close(client);
    return status;
}

int command_status(int argc, char **argv) {
    struct status_options options = {0};
    int status;

    if (read_options(&syntax, argc, argv, &options, &status) && (status = finish_parsing(&options, argc, argv)) == 0)
        status = show(&options);
    return status;
}
