/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - reading the command line: what `run` and `hold` have in common, and numbers.
 *
 * Letters are flock(1)'s where they mean the same. getopt's own messages are off: each mistake gets one sentence of ours, which
 * says what was given and what is wanted.
 */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any machine runs, and far from overflow: a hundred years. */
#define LONGEST_MS (INT64_C(100) * 366 * 86400 * 1000)

bool take_options_init(struct take_options *options, int argc) {
    *options = (struct take_options){
        .wait_ms = PAWL_FOREVER,
        .conflict_exit = EXIT_NOT_TAKEN,
        .kind = PAWL_MUTEX,
        .mode = PAWL_EXCLUSIVE,
        .names = calloc((size_t)argc + 1, sizeof options->names[0]),
    };
    if (options->names == NULL)
        say("out of memory");
    return options->names != NULL;
}

void take_options_finish(struct take_options *options) {
    free(options->names);
}

static bool parse_unit(const char *text, double *ret_factor) {
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text, units[i].unit) == 0) {
            *ret_factor = units[i].factor;
            return true;
        }
    return false;
}

bool parse_duration(const char *text, int64_t *ret_ms) {
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double factor;

    /* strtod also takes signs, blanks, hexadecimals, exponents, "inf" and "nan". */
    if (digits == 0)
        return false;
    double value = strtod(text, &end);
    if (end != text + digits || !parse_unit(end, &factor) || value * factor > (double)LONGEST_MS)
        return false;
    *ret_ms = (int64_t)(value * factor);
    /* "a tenth of a millisecond" is not "don't wait". */
    if (*ret_ms == 0 && value > 0)
        *ret_ms = 1;
    return true;
}

bool parse_number(const char *text, uint64_t limit, uint64_t *ret) {
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, NULL, 10);
    if (errno != 0 || value > limit)
        return false;
    *ret = value;
    return true;
}

static int set_wait(struct take_options *options, const char *text) {
    if (!parse_duration(text, &options->wait_ms))
        return usage_error("-w wants a number of seconds, such as 10, 0.5 or 5m, not '%s'", text);
    return 0;
}

static int set_mode(struct take_options *options, enum pawl_kind kind, enum pawl_mode mode) {
    if (options->kind != PAWL_MUTEX && (options->kind != kind || options->mode != mode))
        return usage_error("-s, -x and --permits exclude each other: choose one");
    options->kind = kind;
    options->mode = mode;
    return 0;
}

static int set_conflict_exit(struct take_options *options, const char *text) {
    uint64_t number;

    if (!parse_number(text, 255, &number))
        return usage_error("-E wants an exit status from 0 to 255, not '%s'", text);
    options->conflict_exit = (int)number;
    return 0;
}

static int set_permits(struct take_options *options, const char *text) {
    const char *slash = strchr(text, '/');
    char count[16] = "";
    uint64_t permits, limit;

    if (slash != NULL && slash - text < (ptrdiff_t)sizeof count)
        memcpy(count, text, (size_t)(slash - text));
    if (slash == NULL || !parse_number(count, PAWL_PERMITS_MAX, &permits) || !parse_number(slash + 1, PAWL_PERMITS_MAX, &limit))
        return usage_error("--permits wants N/LIMIT, such as 1/4 for one of four (at most %u), not '%s'", PAWL_PERMITS_MAX, text);
    if (permits == 0 || permits > limit)
        return usage_error("--permits %s can never be had: N is from 1 to LIMIT", text);
    options->permits = (unsigned)permits;
    options->limit = (unsigned)limit;
    return set_mode(options, PAWL_SEMAPHORE, PAWL_PERMITS);
}

static int set_lease(struct take_options *options, const char *text) {
    if (!parse_duration(text, &options->lease_ms) || options->lease_ms == 0)
        return usage_error("--lease wants a number of seconds above 0, such as 10 or 1m, not '%s'", text);
    return 0;
}

int take_option(struct take_options *options, int option) {
    switch (option) {
    case 'n':
        options->wait_ms = 0;
        return 0;
    case 'w':
        return set_wait(options, optarg);
    case 's':
        return set_mode(options, PAWL_RWLOCK, PAWL_SHARED);
    case 'e':
    case 'x':
        return set_mode(options, PAWL_RWLOCK, PAWL_EXCLUSIVE);
    case 'E':
        return set_conflict_exit(options, optarg);
    case 'v':
    case 'q':
        options->verbose = option == 'v';
        options->quiet = option == 'q';
        return 0;
    case 'u':
        options->url = optarg;
        return 0;
    case OPTION_PERMITS:
        return set_permits(options, optarg);
    case OPTION_LABEL:
        options->label = optarg;
        return 0;
    case OPTION_LEASE:
        return set_lease(options, optarg);
    case OPTION_TRACE:
        options->trace = true;
        return 0;
    default:
        return usage_error("option not understood");
    }
}

static int compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

int take_options_order(struct take_options *options) {
    qsort(options->names, options->count, sizeof options->names[0], compare_names);
    for (size_t i = 1; i < options->count; i++)
        if (strcmp(options->names[i - 1], options->names[i]) == 0)
            return usage_error("'%s' is named twice", options->names[i]);
    return 0;
}

int bad_option(int option, char **argv, const char *subcommand) {
    char letter[3] = {'-', (char)optopt, '\0'};
    const char *given = optopt > 0 && optopt < OPTION_HELP ? letter : argv[optind - 1];

    if (option == ':')
        return usage_error("%s needs a value (see pawl %s --help)", argv[optind - 1], subcommand);
    return usage_error("unknown option '%s' (see pawl %s --help)", given, subcommand);
}

bool read_options(const struct syntax *syntax, int argc, char **argv, void *data, int *status) {
    int option;

    *status = 0;
    opterr = 0;
    while (*status == 0 && (option = getopt_long(argc, argv, syntax->letters, syntax->options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            fputs(syntax->help, stdout);
            *status = finish_output(0);
            return false;
        }
        *status = option == '?' || option == ':' ? bad_option(option, argv, syntax->subcommand) : syntax->apply(data, option);
    }
    return *status == 0;
}

int url_list_add(struct url_list *list, const char *url) {
    if (list->count == URLS_MAX)
        return usage_error("at most %d URLs at a time", URLS_MAX);
    list->urls[list->count++] = url;
    return 0;
}

int open_client(const char *url, unsigned flags, struct pawl **ret) {
    struct pawl_options options = {
        .size = sizeof options, .flags = PAWL_OPEN_LOOK | flags, .log = print_log, .connect_ms = CONNECT_MS};
    struct pawl_error error;

    if (pawl_open(url, &options, ret, &error) < 0)
        return library_error(&error);
    print_warnings();
    return 0;
}

int open_events(struct pawl *client, int *ret) {
    *ret = pawl_fd(client);
    if (*ret >= 0)
        return 0;
    say("cannot wait for what is told of locks: %s", pawl_error_text(*ret));
    return exit_of(*ret);
}
