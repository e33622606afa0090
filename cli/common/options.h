/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - reading the command line: what `run` and `hold` have in common, and numbers.
 */
#ifndef PAWL_CLI_OPTIONS_H
#define PAWL_CLI_OPTIONS_H

#include <getopt.h>

#include "cli.h"

/* Long options without a letter. */
enum {
    OPTION_HELP = 256,
    OPTION_PERMITS,
    OPTION_LABEL,
    OPTION_LEASE,
    OPTION_TRACE,
    OPTION_ON_LOST,
    OPTION_GRACE,
    OPTION_MAX_HOLD,
    OPTION_AT_LEAST,
    OPTION_ONCE_PER,
    OPTION_UTC,
    OPTION_SKIP_EXIT,
    OPTION_JSON,
    OPTION_RAW,
    OPTION_NAMES,
    OPTION_WATCH,
    OPTION_TOKEN,
    OPTION_NOW,
    OPTION_TEXTFILE,
    OPTION_LISTEN,
    OPTION_HOST,
    OPTION_KEY_FILE,
    OPTION_ALLOW_BREAK,
    OPTION_INTERVAL,
    OPTION_RECORD,
    OPTION_PER_LOCK,
    OPTION_GRAPH,
    OPTION_ONCE,
    OPTION_FROM,
    OPTION_QUESTION,
    OPTION_HELD_LONGER,
    OPTION_WAITERS,
    OPTION_HOLDER,
    OPTION_VALUE,
    OPTION_HELD,
};

/* What to take, and how. */
struct take_options {
    const char *url; /* NULL: $PAWL_URL, else local: */
    const char *label;
    int64_t wait_ms;
    int64_t lease_ms;
    int conflict_exit;
    bool verbose, quiet; /* the last of them counts */
    bool trace;
    enum pawl_kind kind;
    enum pawl_mode mode;
    unsigned permits, limit;
    const char **names;
    size_t count;
};

#define TAKE_SHORT "nw:sexE:vqu:"
#define TAKE_LONG                                                                                                                  \
    {"nonblock", no_argument, NULL, 'n'}, {"nb", no_argument, NULL, 'n'}, {"wait", required_argument, NULL, 'w'},                  \
        {"timeout", required_argument, NULL, 'w'}, {"shared", no_argument, NULL, 's'}, {"exclusive", no_argument, NULL, 'x'},      \
        {"conflict-exit-code", required_argument, NULL, 'E'}, {"verbose", no_argument, NULL, 'v'},                                 \
        {"quiet", no_argument, NULL, 'q'}, {"url", required_argument, NULL, 'u'},                                                  \
        {"permits", required_argument, NULL, OPTION_PERMITS}, {"label", required_argument, NULL, OPTION_LABEL},                    \
        {"lease", required_argument, NULL, OPTION_LEASE}, {"trace", no_argument, NULL, OPTION_TRACE}, {                            \
        "help", no_argument, NULL, OPTION_HELP                                                                                     \
    }

/* Room for every name that argv can hold. False: out of memory, and said so. */
bool take_options_init(struct take_options *options, int argc);
void take_options_finish(struct take_options *options);
/* One of TAKE_LONG, with `optarg`. Returns 0, or the exit status after having said what is wrong. */
int take_option(struct take_options *options, int option);
/* Sort the names as every pawl does, so that no two wait for each other; refuse duplicates. Returns as above. */
int take_options_order(struct take_options *options);

/* The command line of a subcommand. */
struct syntax {
    const char *subcommand;
    const char *help;
    const char *letters; /* as getopt wants them; they begin with ':' */
    const struct option *options;
    int (*apply)(void *data, int option); /* with `optarg`; returns 0, or the exit status after having said what is wrong */
};

/* Read the options, each by apply(); what is left begins at `optind`. False: `status` is the exit status, since a mistake was said, or the
 * help was asked for and shown. */
bool read_options(const struct syntax *syntax, int argc, char **argv, void *data, int *status);
/* For those who only look: a client at `url`, NULL: $PAWL_URL, else local:, with these flags more. Returns 0, or the exit status after
 * having said why not. */
int open_client(const char *url, unsigned flags, struct pawl **ret);
/* The descriptor that is readable when pawl_dispatch() has something to do. Returns 0, or the exit status after having said why not. */
int open_events(struct pawl *client, int *ret);

/* -u several times. */
enum { URLS_MAX = 64 };
struct url_list {
    const char *urls[URLS_MAX];
    size_t count;
};
/* Returns 0, or the exit status after having said that there are too many. */
int url_list_add(struct url_list *list, const char *url);

/* Say what getopt did not like; `option` is what it returned. */
int bad_option(int option, char **argv, const char *subcommand);

/* Seconds, with a fraction if need be, or with a unit: ms, s, m, h, d. */
bool parse_duration(const char *text, int64_t *ret_ms);
bool parse_number(const char *text, uint64_t limit, uint64_t *ret);

#endif
