/* SPDX-License-Identifier: Apache-2.0
 *
 * top.c - pawl top: what needs attention, again and again, in a terminal; or one screen of it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/options.h"
#include "../common/terminal.h"
#include "interactive.h"

static const char help[] = "Usage: pawl top [OPTION]...\n"
                           "\n"
                           "Show locks that need attention first, again and again: who holds, who waits and\n"
                           "for how long, likely deadlocks, events, what pawl doctor finds. ? lists its keys.\n"
                           "\n"
                           "      --once              print one screen, and look at no terminal\n"
                           "      --from FILE         replay what pawl status --json --watch wrote; - is\n"
                           "                          standard input\n"
                           "      --interval SECONDS  look that often; default 1\n"
                           "      --allow-break       b breaks a hold, after asking for its token\n"
                           "  -u, --url URL           where the locks are; default $PAWL_URL, else local:.\n"
                           "                          Several times: at all of these\n"
                           "      --help              this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Examples\n"
                           "  pawl top -u redis://cache1 -u zk://zk1,zk2,zk3/prod\n"
                           "  pawl top --once\n";

static const struct option long_options[] = {
    {"once", no_argument, NULL, OPTION_ONCE},
    {"from", required_argument, NULL, OPTION_FROM},
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"allow-break", no_argument, NULL, OPTION_ALLOW_BREAK},
    {"url", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct top_options {
    struct url_list urls;
    const char *from;
    int64_t interval_ms;
    bool once, allow_break;
};

static int apply(void *data, int option) {
    struct top_options *options = data;

    switch (option) {
    case OPTION_ONCE:
        options->once = true;
        return 0;
    case OPTION_FROM:
        options->from = optarg;
        return 0;
    case OPTION_INTERVAL:
        if (!parse_duration(optarg, &options->interval_ms) || options->interval_ms < 100)
            return usage_error("--interval wants a number of seconds, 0.1 or more, not '%s'", optarg);
        return 0;
    case OPTION_ALLOW_BREAK:
        options->allow_break = true;
        return 0;
    default:
        return url_list_add(&options->urls, optarg);
    }
}

static const struct syntax syntax = {.subcommand = "top", .help = help, .letters = ":u:", .options = long_options, .apply = apply};

/* ---- one screen ----------------------------------------------------------------------------------------------------------- */

/* As wide as $COLUMNS says, else as the terminal is. */
static int columns_to_use(void) {
    const char *variable = getenv("COLUMNS");
    uint64_t columns;

    return variable != NULL && parse_number(variable, 1000, &columns) && columns >= 10 ? (int)columns
                                                                                       : terminal_columns(STDOUT_FILENO);
}

static int print_page(struct shown *shown, const struct look *look, const struct history *history) {
    struct page page = {.columns = columns_to_use(), .ascii = !is_utf8()};

    page_draw(&page, shown, look, history);
    for (size_t i = 0; i < page.count; i++)
        printf("%s\n", page.lines[i].text);
    bool failed = page.failed;
    page_finish(&page);
    if (failed)
        say("out of memory");
    return finish_output(failed ? EXIT_SYSTEM : 0);
}

/* Of a file, the last look, with all before it taken in; of servers, one. */
static int print_once(struct source *source, struct shown *shown) {
    struct look look = {0}, next;
    struct history history;
    enum read_result result;

    if (!history_init(&history)) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    while ((result = source_next(source, &next)) == READ_LOOK) {
        history_add(&history, look.count > 0 ? &look : NULL, &next);
        look_finish(&look);
        look = next;
        if (source->path == NULL)
            break;
    }
    int status = result == READ_BAD ? (source->path != NULL ? EXIT_USAGE : EXIT_SYSTEM) : print_page(shown, &look, &history);
    for (size_t i = 0; i < look.count; i++)
        if (look.places[i].code != 0 && source->path == NULL) {
            say("%s", look.places[i].error);
            status = status != 0 ? status : exit_of(look.places[i].code);
        }
    look_finish(&look);
    history_finish(&history);
    return status;
}

static int run_in_terminal(struct source *source, struct shown *shown) {
#ifdef PAWL_NCURSES
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        return top_run(source, shown);
    return usage_error("pawl top needs a terminal; pawl top --once prints one screen");
#else
    (void)source;
    (void)shown;
    return usage_error(
        "this pawl was built without ncurses, and pawl top can only print one screen: pawl top --once (for the rest, build "
        "it where Debian's libncurses-dev is installed)");
#endif
}

int command_top(int argc, char **argv) {
    struct top_options options = {.interval_ms = 1000};
    struct source source;
    int status;

    if (!read_options(&syntax, argc, argv, &options, &status))
        return status;
    if (optind < argc)
        return usage_error("pawl top takes no argument, and there is '%s'; / filters by name", argv[optind]);
    if (options.from != NULL && options.urls.count > 0)
        return usage_error("--from and --url exclude each other: what is in the file is what was seen");
    status = source_open(&source, options.from, options.urls.urls, options.urls.count);
    if (status != 0)
        return status;
    struct shown shown = {.allow_break = options.allow_break, .interval_ms = options.interval_ms};
    status = options.once ? print_once(&source, &shown) : run_in_terminal(&source, &shown);
    source_close(&source);
    return status;
}
