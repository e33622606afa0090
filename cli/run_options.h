/* SPDX-License-Identifier: Apache-2.0
 *
 * run_options.h - the command line of pawl run.
 */
#ifndef PAWL_CLI_RUN_OPTIONS_H
#define PAWL_CLI_RUN_OPTIONS_H

#include "common/options.h"
#include "once.h"

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_IGNORE };

struct run_options {
    struct take_options take;
    char **argv;             /* the command; ends with NULL */
    const char *record_name; /* the command's name, for others to see */
    char *shell_argv[4];     /* argv, with -c */
    enum on_lost on_lost;
    int64_t grace_ms;
    int64_t max_hold_ms;
    int64_t at_least_ms;
    struct once_options once;
    bool close; /* -o: the command does not inherit the hold */
};

/* Returns the exit status, and sets `go_on` if the command is to be run. run_options_finish() is due in any case. */
int run_options_parse(struct run_options *options, int argc, char **argv, bool *go_on);
/* The same for another subcommand that runs a command: `line` has its options, and its apply() gets `data`. Its letters begin with
 * "-:", and it leaves to run_option() what is as with pawl run: locks, -c, --grace, and how to take them. */
int command_line_parse(struct run_options *options, const struct syntax *line, void *data, int argc, char **argv, bool *go_on);
int run_option(struct run_options *options, int option);
void run_options_finish(struct run_options *options);

#endif
