/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - pawl bench: the command line, and what is written where.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../cli/common/options.h"
#include "../../cli/common/signals.h"
#include "workers.h"

static const char help[] = "Usage: pawl bench [OPTION]... [-u URL]...\n"
                           "\n"
                           "Measure locks on each URL, side by side: round by round all take their turn, so\n"
                           "that a noisy machine hits them alike. Each figure is the median of the rounds,\n"
                           "with the lowest and the highest in brackets; next to it stands what the bare\n"
                           "server or the bare kernel takes in the same run. Nothing is left behind.\n"
                           "\n"
                           "  -u, --url URL       where the locks are; may be given up to 8 times; default\n"
                           "                      local: alone, in a directory of its own\n"
                           "  -r, --rounds N      1 to 99; default 5\n"
                           "      --span SECONDS  each workload in each round; or 200ms; default 0.4\n"
                           "      --only NAMES    these workloads alone, named as in --json: pair,kill\n"
                           "      --large         queues of 10,000, 10,000 held locks, kept locks in detail too\n"
                           "      --json          the same for programs\n"
                           "      --svg FILE      draw it too\n"
                           "      --help          this text; the whole story is in pawl-bench(1)\n"
                           "\n"
                           "Exit status: 0; if something could not be measured, or went wrong, as of pawl run.\n"
                           "\n"
                           "Example\n"
                           "  pawl bench -u local: -u redis://db.example -u zk://zk.example/bench --svg b.svg\n";

enum { OPTION_SPAN = 300, OPTION_LARGE, OPTION_ONLY, OPTION_SVG };

static const struct option long_options[] = {
    {"url", required_argument, NULL, 'u'},
    {"rounds", required_argument, NULL, 'r'},
    {"span", required_argument, NULL, OPTION_SPAN},
    {"large", no_argument, NULL, OPTION_LARGE},
    {"json", no_argument, NULL, OPTION_JSON},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"help", no_argument, NULL, OPTION_HELP},
    {"only", required_argument, NULL, OPTION_ONLY},
    {NULL, 0, NULL, 0},
};

struct choices {
    const char *urls[BENCH_TARGETS];
    size_t count;
    const char *svg; /* NULL: none */
    bool json, help;
};

static int set_rounds(struct bench *bench, const char *text) {
    uint64_t number;

    if (!parse_number(text, MAX_ROUNDS, &number) || number == 0)
        return usage_error("-r wants a number of rounds from 1 to %d, not '%s'", MAX_ROUNDS, text);
    bench->rounds = (int)number;
    return 0;
}

static int set_span(struct bench *bench, const char *text) {
    if (!parse_duration(text, &bench->span_ms) || bench->span_ms < 10 || bench->span_ms > 60000)
        return usage_error("--span wants 10ms to 60s, not '%s'", text);
    return 0;
}

static int refuse_names(const char *text) {
    char names[600] = "";
    size_t length = 0;

    for (size_t i = 0; bench_workload(i) != NULL && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, i == 0 ? "%s" : ", %s", bench_workload(i));
    return usage_error("--only wants names with commas between them, not '%s'; there are %s", text, names);
}

static int add_url(struct choices *choices, const char *url) {
    if (choices->count == BENCH_TARGETS)
        return usage_error("pawl bench measures %d URLs at most", BENCH_TARGETS);
    choices->urls[choices->count++] = url;
    return 0;
}

static int set_option(struct bench *bench, struct choices *choices, int option, char **argv) {
    switch (option) {
    case 'u':
        return add_url(choices, optarg);
    case 'r':
        return set_rounds(bench, optarg);
    case OPTION_SPAN:
        return set_span(bench, optarg);
    case OPTION_LARGE:
        bench->large = true;
        return 0;
    case OPTION_ONLY:
        return bench_choose(bench, optarg) ? 0 : refuse_names(optarg);
    case OPTION_JSON:
        choices->json = true;
        return 0;
    case OPTION_SVG:
        choices->svg = optarg;
        return 0;
    case OPTION_HELP:
        choices->help = true;
        return 0;
    default:
        return bad_option(option, argv, "bench");
    }
}

static int parse(struct bench *bench, struct choices *choices, int argc, char **argv) {
    int option, status = 0;

    opterr = 0;
    while (status == 0 && (option = getopt_long(argc, argv, ":u:r:", long_options, NULL)) != -1)
        status = set_option(bench, choices, option, argv);
    if (status == 0 && optind < argc)
        return usage_error("pawl bench takes no argument '%s'; a URL is given by -u", argv[optind]);
    if (status == 0 && choices->count == 0)
        choices->urls[choices->count++] = "local:";
    return status;
}

/* Opened before anything is measured: a name that can't be written to should be told now. */
static int open_svg(const char *path, FILE **ret) {
    *ret = path != NULL ? fopen(path, "we") : NULL;
    if (path == NULL || *ret != NULL)
        return 0;
    say("cannot write %s: %s", path, strerror(errno));
    return EXIT_STORAGE;
}

static int write_svg(const struct bench *bench, const char *path, FILE *file) {
    if (file == NULL)
        return 0;
    bench_print_svg(file, bench);
    bool good = !ferror(file);
    if (fclose(file) == 0 && good)
        return 0;
    say("cannot write %s: %s", path, strerror(errno));
    return EXIT_STORAGE;
}

static int measure(struct bench *bench, const struct choices *choices) {
    int status = 0;

    for (size_t i = 0; status == 0 && i < choices->count; i++)
        status = target_open(&bench->targets[bench->count++], bench, choices->urls[i]);
    return status == 0 ? bench_run(bench) : status;
}

/* What could not be measured is in the table with its reason; and nobody should take half of it for the whole. */
static int tell_failures(const struct bench *bench) {
    int status = 0;

    for (size_t i = 0; i < bench->count; i++)
        if (bench->targets[i].failure != 0) {
            say("not everything could be measured at %s: see 'not measured' there", bench->targets[i].shown);
            status = status != 0 ? status : bench->targets[i].failure;
        }
    return status;
}

static int measure_and_tell(struct bench *bench, const struct choices *choices) {
    FILE *svg;
    int status = open_svg(choices->svg, &svg);

    if (status == 0)
        status = measure(bench, choices);
    if (status == 0 && workers_signal() == 0) {
        choices->json ? bench_print_json(stdout, bench) : bench_print_table(stdout, bench);
        status = finish_output(write_svg(bench, choices->svg, svg));
        status = status != 0 ? status : tell_failures(bench);
    } else if (svg != NULL) {
        fclose(svg);
        unlink(choices->svg);
    }
    for (size_t i = 0; i < bench->count; i++)
        target_close(&bench->targets[i], bench);
    return workers_signal() != 0 ? end_by_signal(workers_signal(), false) : status;
}

int command_bench(int argc, char **argv);

int command_bench(int argc, char **argv) {
    struct choices choices = {0};
    struct bench *bench = calloc(1, sizeof *bench);
    int status = EXIT_SYSTEM;

    if (bench == NULL) {
        say("out of memory");
        return status;
    }
    bench->rounds = 5;
    bench->span_ms = 400;
    bench->began_ms = wall_ms();
    snprintf(bench->id, sizeof bench->id, "pawl-bench-%x-%x", (unsigned)(bench->began_ms & 0xffffffff), (unsigned)getpid());
    status = parse(bench, &choices, argc, argv);
    if (status == 0 && choices.help) {
        fputs(help, stdout);
        status = finish_output(0);
    } else if (status == 0) {
        status = signals_take() ? measure_and_tell(bench, &choices) : EXIT_SYSTEM;
    }
    free(bench);
    return status;
}
