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
#include <unistd.h>

#include "common/options.h"
#include "look/changes.h"

static const char help[] = "Usage: pawl status [OPTION]... [LOCK]\n"
                           "\n"
                           "Show who holds the lock and who waits for it, in order; without LOCK: of all\n"
                           "locks that are held or waited for.\n"
                           "\n"
                           "      --json              for programs: one JSON document on one line\n"
                           "      --raw               what the engine really stores\n"
                           "      --names             only the names, one on a line\n"
                           "      --graph[=FORM]      who waits for whom, and likely deadlocks: FORM is text,\n"
                           "                          dot (for Graphviz) or json\n"
                           "      --check             say by the exit status whether it is held: 0 yes, 1 no\n"
                           "      --held-longer TIME  with --check: whether for longer than that, such as 10m\n"
                           "      --waiters N         with --check: whether N or more wait; with both: either\n"
                           "  -q, --quiet             with --check: say nothing else\n"
                           "      --watch[=SECONDS]   look again and again, every second or as often as\n"
                           "                          you say, until Ctrl-C; at LOCK also when the engine\n"
                           "                          tells that its holder or its value has changed\n"
                           "  -u, --url URL           where the locks are; default $PAWL_URL, else local:.\n"
                           "                          Several times: at all of these\n"
                           "      --help              this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Examples\n"
                           "  pawl status\n"
                           "  pawl status nightly --watch\n"
                           "  pawl status nightly --check -q && echo 'it is still running'\n"
                           "  pawl status --check --held-longer 1h --waiters 100 && alert\n"
                           "  pawl status nightly --json | jq -r '.locks[].holders[].token'\n";

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPTION_JSON},
    {"raw", no_argument, NULL, OPTION_RAW},
    {"names", no_argument, NULL, OPTION_NAMES},
    {"graph", optional_argument, NULL, OPTION_GRAPH},
    {"watch", optional_argument, NULL, OPTION_WATCH},
    {"url", required_argument, NULL, 'u'},
    {"check", no_argument, NULL, OPTION_QUESTION},
    {"held-longer", required_argument, NULL, OPTION_HELD_LONGER},
    {"waiters", required_argument, NULL, OPTION_WAITERS},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct status_options {
    struct url_list urls;
    const char *name;
    bool json, raw, names;
    enum graph_form graph;
    struct check_options check;
    int64_t watch_ms; /* 0: look once */
};

static int set_graph(struct status_options *options, const char *form) {
    static const char *const forms[] = {[GRAPH_TEXT] = "text", [GRAPH_DOT] = "dot", [GRAPH_JSON] = "json"};

    for (int i = GRAPH_TEXT; i <= GRAPH_JSON; i++)
        if (strcmp(form, forms[i]) == 0) {
            options->graph = (enum graph_form)i;
            return 0;
        }
    return usage_error("--graph is text, dot or json, not '%s'", form);
}

static int apply_check(struct check_options *check, int option) {
    switch (option) {
    case OPTION_QUESTION:
        check->asked = true;
        return 0;
    case OPTION_HELD_LONGER:
        if (!parse_duration(optarg, &check->held_longer_ms))
            return usage_error("--held-longer wants a time, such as 30s or 10m, not '%s'", optarg);
        return 0;
    case OPTION_WAITERS:
        if (!parse_number(optarg, UINT32_MAX, &check->waiters) || check->waiters == 0)
            return usage_error("--waiters wants a number of 1 or more, not '%s'", optarg);
        return 0;
    default:
        check->quiet = true;
        return 0;
    }
}

static int apply(void *data, int option) {
    struct status_options *options = data;

    switch (option) {
    case OPTION_QUESTION:
    case OPTION_HELD_LONGER:
    case OPTION_WAITERS:
    case 'q':
        return apply_check(&options->check, option);
    case OPTION_JSON:
        options->json = true;
        return 0;
    case OPTION_RAW:
        options->raw = true;
        return 0;
    case OPTION_NAMES:
        options->names = true;
        return 0;
    case OPTION_GRAPH:
        return set_graph(options, optarg != NULL ? optarg : "text");
    case OPTION_WATCH:
        options->watch_ms = 1000;
        if (optarg != NULL && (!parse_duration(optarg, &options->watch_ms) || options->watch_ms < 10))
            return usage_error("--watch wants a number of seconds, 0.01 or more, not '%s'", optarg);
        return 0;
    default:
        return url_list_add(&options->urls, optarg);
    }
}

static const struct syntax syntax = {
    .subcommand = "status", .help = help, .letters = ":qu:", .options = long_options, .apply = apply};

/* --check answers by its exit status, and once. */
static int finish_check(const struct status_options *options) {
    const struct check_options *check = &options->check;

    if (!check->asked && (check->held_longer_ms >= 0 || check->waiters > 0 || check->quiet))
        return usage_error("--held-longer, --waiters and -q are for --check");
    if (check->asked && (options->json || options->raw || options->names || options->graph != GRAPH_NONE || options->watch_ms > 0))
        return usage_error("--check excludes --json, --raw, --names, --graph and --watch");
    return 0;
}

/* What the options leave: one lock at most. */
static int finish_parsing(struct status_options *options, int argc, char **argv) {
    if (optind + 1 < argc)
        return usage_error("pawl status shows one lock or all, and there are '%s' and '%s'", argv[optind], argv[optind + 1]);
    if (options->names && (options->json || options->raw))
        return usage_error("--names excludes --json and --raw");
    if (options->graph != GRAPH_NONE && (options->names || options->json || options->raw))
        return usage_error("--graph excludes --names, --json and --raw; as JSON it is --graph=json");
    options->name = argv[optind];
    return finish_check(options);
}

static void print_names(FILE *out, const struct place *place) {
    for (size_t i = 0; i < place->count; i++)
        fprintf(out, "%s\n", place->locks[i].name);
}

static void print_place(FILE *out, const struct status_options *options, const struct look *look, const struct place *place) {
    struct status_view view = {.place = place, .name = options->name};

    if (options->json) {
        json_place(out, look, place, &(struct json_options){.raw = options->raw});
        fputc('\n', out);
    } else if (options->names) {
        print_names(out, place);
    } else if (options->raw) {
        print_raw(out, &view);
    } else {
        print_table(out, &view);
    }
}

/* A place that could not be seen is said on stderr. Of several, it is in the JSON, too: a reader counts on all of them. Returns 0, or the
 * exit status for the first that could not be seen. */
static int print_look(FILE *out, const struct status_options *options, const struct look *look) {
    int status = 0;

    for (size_t i = 0; i < look->count; i++) {
        const struct place *place = &look->places[i];

        if (place->code != 0) {
            say("%s", place->error);
            status = status != 0 ? status : exit_of(place->code);
        }
        if (!options->check.asked && options->graph == GRAPH_NONE && (place->code == 0 || (options->json && look->count > 1)))
            print_place(out, options, look, place);
    }
    if (options->check.asked && status == 0)
        status = check_look(out, &options->check, look, options->name);
    if (options->graph != GRAPH_NONE && !print_graph(out, look, options->graph)) {
        say("out of memory");
        status = EXIT_SYSTEM;
    }
    return status;
}

/* A table or a tree on a terminal. */
static bool is_for_people(const struct status_options *options) {
    return isatty(STDOUT_FILENO) && !options->json && !options->names && options->graph <= GRAPH_TEXT;
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

/* One look. Returns 0 or an exit status; `seen`: at one place at least. */
static int look_once(const struct status_options *options, struct watch *watch, bool paint, bool *seen) {
    struct look look;
    char *text = NULL;
    size_t size;
    int status = EXIT_SYSTEM;

    if (!look_take(&look, watch)) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    FILE *out = open_memstream(&text, &size);
    if (out != NULL)
        status = print_look(out, options, &look);
    for (size_t i = 0; i < look.count; i++)
        *seen |= look.places[i].code == 0;
    look_finish(&look);
    if (out == NULL || fclose(out) != 0) {
        say("out of memory");
        free(text);
        return EXIT_SYSTEM;
    }
    if (is_for_people(options))
        print_lines(text, paint);
    else
        fputs(text, stdout);
    free(text);
    return finish_output(status);
}

/* Until a signal or an unwritable output ends it, or no place can be seen any more. */
static int look_again_and_again(const struct status_options *options, struct watch *watch, struct changes *changes) {
    bool paint = is_for_people(options);

    if (paint)
        fputs("\033[2J", stdout);
    for (;;) {
        bool seen = false;

        changes_listen(changes);
        int status = look_once(options, watch, paint, &seen);
        if (!seen || ferror(stdout))
            return status;
        changes_wait(changes, options->watch_ms);
        if (!paint && !options->json && options->graph != GRAPH_JSON)
            fputs("\n", stdout);
    }
}

static int watch_locks(const struct status_options *options, struct watch *watch) {
    struct changes changes;
    int status = changes_open(&changes, watch);

    if (status == 0)
        status = look_again_and_again(options, watch, &changes);
    changes_close(&changes);
    return status;
}

static int show(const struct status_options *options) {
    struct watch watch;
    bool ignored = false;
    int status = watch_open(&watch, options->urls.urls, options->urls.count, print_log);

    if (status != 0)
        return status;
    watch.name = options->name;
    status = options->watch_ms > 0 ? watch_locks(options, &watch) : look_once(options, &watch, false, &ignored);
    watch_close(&watch);
    return status;
}

int command_status(int argc, char **argv) {
    struct status_options options = {.check.held_longer_ms = -1};
    int status;

    if (read_options(&syntax, argc, argv, &options, &status) && (status = finish_parsing(&options, argc, argv)) == 0)
        status = show(&options);
    return status;
}
