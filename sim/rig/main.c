/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the program pawl-sim: its command line.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash.h"
#include "coverage.h"
#include "many.h"
#include "regressions.h"

static const char help[] = "Usage: %s [OPTION]...\n"
                           "Play schedules of faults in a simulated world: pawl's own code, on virtual time.\n"
                           "\n"
                           "  --service LIST       of%s; in turn; all of them\n"
                           "  --seed N             without --count and --time: play this schedule; else: draw them from this\n"
                           "  --count N            so many schedules; what is printed last depends on the seed alone\n"
                           "  --time TIME          as many as can be played in this time: 20s, 5m (default: 20s)\n"
                           "  --jobs N             by so many processes\n"
                           "  --options LIST       KEY=VALUE,...: change what is drawn; --show prints all\n"
                           "  --strokes LIST       FAULT@AT+SPAN#TARGET,... in place of those that are drawn; -: none\n"
                           "  --rule RULE          only this rule counts\n"
                           "  --until-violation    end at the first violation\n"
                           "  --shrink             make what fails as small as can be, and print a line for sim/regressions\n"
                           "  --enumerate          small scenes, once for every message that may get lost\n"
                           "  --regressions FILE   play the lines of the file, and print TAP\n"
                           "  --history FILE       write the history of the last schedule, for `pawl torture --check`\n"
                           "  --trace              print the wire, the switches, the strokes and the history\n"
                           "  --hash-each          print the hash of every schedule\n"
                           "  --coverage           print which states never met which events\n"
                           "  --show               print the plan, and don't play it\n"
                           "\n"
                           "Exit status: 0 when every check held, 1 when one did not, 2 when the command line is wrong.\n";

enum {
    OPTION_SERVICE = 256,
    OPTION_SEED,
    OPTION_COUNT,
    OPTION_TIME,
    OPTION_JOBS,
    OPTION_OPTIONS,
    OPTION_STROKES,
    OPTION_RULE,
    OPTION_UNTIL_VIOLATION,
    OPTION_SHRINK,
    OPTION_ENUMERATE,
    OPTION_REGRESSIONS,
    OPTION_HISTORY,
    OPTION_TRACE,
    OPTION_HASH_EACH,
    OPTION_SHOW,
    OPTION_COVERAGE,
    OPTION_HELP,
};

static const struct option long_options[] = {
    {"service", required_argument, NULL, OPTION_SERVICE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"time", required_argument, NULL, OPTION_TIME},
    {"jobs", required_argument, NULL, OPTION_JOBS},
    {"options", required_argument, NULL, OPTION_OPTIONS},
    {"strokes", required_argument, NULL, OPTION_STROKES},
    {"rule", required_argument, NULL, OPTION_RULE},
    {"until-violation", no_argument, NULL, OPTION_UNTIL_VIOLATION},
    {"shrink", no_argument, NULL, OPTION_SHRINK},
    {"enumerate", no_argument, NULL, OPTION_ENUMERATE},
    {"regressions", required_argument, NULL, OPTION_REGRESSIONS},
    {"history", required_argument, NULL, OPTION_HISTORY},
    {"trace", no_argument, NULL, OPTION_TRACE},
    {"hash-each", no_argument, NULL, OPTION_HASH_EACH},
    {"coverage", no_argument, NULL, OPTION_COVERAGE},
    {"show", no_argument, NULL, OPTION_SHOW},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct arguments {
    struct many many;
    const char *regressions;
    bool has_seed, enumerate, show, coverage;
};

__attribute__((noreturn, format(printf, 1, 2))) static void misuse(const char *format, ...) {
    va_list arguments;

    fprintf(stderr, "pawl-sim: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "; --help lists the options\n");
    exit(2);
}

static uint64_t number_of(const char *name, const char *text, uint64_t least, uint64_t most) {
    char *end;
    uint64_t number = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < least || number > most)
        misuse("--%s wants a number from %" PRIu64 " to %" PRIu64 ", not '%s'", name, least, most, text);
    return number;
}

static int64_t time_of(const char *text) {
    char *end;
    int64_t number = strtoll(text, &end, 10);

    if (number > 0 && number < 1000000 && (*end == '\0' || strcmp(end, "s") == 0))
        return number * 1000;
    if (number > 0 && number < 1000000 && strcmp(end, "m") == 0)
        return number * 60000;
    misuse("--time wants a length of time such as 20s or 5m, not '%s'", text);
}

static void take_services(struct many *many, const char *list) {
    many->service_count = 0;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ", ");
        const struct sim_service *service = service_find(at, length);

        if (service == NULL || many->service_count == SERVICES_MAX)
            misuse("there is no service '%.*s'", (int)length, at);
        many->services[many->service_count++] = service;
        at += length;
        if (*at == '\0')
            return;
    }
}

static void take_all_services(struct many *many) {
    while (service_number(many->service_count) != NULL) {
        many->services[many->service_count] = service_number(many->service_count);
        many->service_count++;
    }
}

static void print_help(const char *program) {
    char words[256] = "";

    for (int i = 0; service_number(i) != NULL; i++)
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s %s", i > 0 ? "," : "", service_number(i)->word);
    printf(help, program, words);
}

static void take(struct arguments *arguments, int option) {
    struct many *many = &arguments->many;

    switch (option) {
    case OPTION_SERVICE:
        take_services(many, optarg);
        break;
    case OPTION_SEED:
        many->seed = number_of("seed", optarg, 0, UINT64_MAX);
        arguments->has_seed = true;
        break;
    case OPTION_COUNT:
        many->count = number_of("count", optarg, 1, UINT32_MAX);
        break;
    case OPTION_TIME:
        many->time_ms = time_of(optarg);
        break;
    case OPTION_JOBS:
        many->jobs = (int)number_of("jobs", optarg, 1, 256);
        break;
    case OPTION_OPTIONS:
        many->options = optarg;
        break;
    case OPTION_STROKES:
        many->strokes = optarg;
        break;
    case OPTION_RULE:
        many->rule = optarg;
        if (!verdict_knows(optarg))
            misuse("there is no rule '%s'", optarg);
        break;
    case OPTION_REGRESSIONS:
        arguments->regressions = optarg;
        break;
    case OPTION_HISTORY:
        many->history = optarg;
        break;
    default:
        misuse("an option is not known");
    }
}

static void take_flag(struct arguments *arguments, int option) {
    switch (option) {
    case OPTION_UNTIL_VIOLATION:
        arguments->many.until_violation = true;
        break;
    case OPTION_SHRINK:
        arguments->many.shrink = true;
        break;
    case OPTION_ENUMERATE:
        arguments->enumerate = true;
        break;
    case OPTION_TRACE:
        arguments->many.trace = stdout;
        break;
    case OPTION_HASH_EACH:
        arguments->many.hash_each = true;
        break;
    case OPTION_COVERAGE:
        arguments->coverage = true;
        break;
    case OPTION_SHOW:
        arguments->show = true;
        break;
    case OPTION_HELP:
        print_help(arguments->many.program);
        exit(0);
    default:
        take(arguments, option);
    }
}

static void show(const struct many *many) {
    static char options[4096], strokes[STROKES_MAX * 64];
    struct plan *plan = malloc(sizeof *plan);

    for (uint64_t i = 0; plan != NULL && i < (many->count > 0 ? many->count : 1); i++) {
        if (!many_plan(many, i, plan))
            exit(2);
        plan_write_options(plan, options, sizeof options);
        strokes_write(&plan->strokes, strokes, sizeof strokes);
        printf("%s %" PRIu64 " %s %s\n", plan->service->word, plan->seed, options, strokes);
    }
    free(plan);
}

/* An option that is wrong is told before anything runs. */
static void check_options(const struct many *many) {
    struct plan *plan = malloc(sizeof *plan);

    if (plan == NULL || !many_plan(many, 0, plan))
        exit(2);
    free(plan);
}

int main(int argc, char **argv) {
    struct arguments arguments = {.many = {.jobs = 1, .program = argv[0]}};
    struct many *many = &arguments.many;
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        take_flag(&arguments, option);
    if (optind < argc)
        misuse("there are options only, and there is '%s'", argv[optind]);
    crash_watch();
    if (arguments.regressions != NULL)
        return regressions_play(arguments.regressions) != 0;
    if (many->service_count == 0)
        take_all_services(many);
    /* A seed alone is that of one schedule, of one service. */
    if (arguments.has_seed && many->count == 0 && many->time_ms == 0) {
        many->one = true;
        many->count = (uint64_t)many->service_count;
    }
    if (many->count == 0 && many->time_ms == 0)
        many->time_ms = 20000;
    if (many->trace != NULL || many->history != NULL || arguments.coverage)
        many->jobs = 1;
    check_options(many);
    if (arguments.show) {
        show(many);
        return 0;
    }
    if (arguments.coverage)
        coverage_begin();
    uint64_t violations = arguments.enumerate ? enumerate_play(many) : many_play(many);

    if (arguments.coverage)
        coverage_print(stdout);
    return violations > 0;
}
