/* SPDX-License-Identifier: Apache-2.0
 *
 * run_options.c - the command line of pawl run.
 *
 *     pawl run [options] LOCK... -- COMMAND [ARGUMENT...]
 *     pawl run [options] LOCK... -c 'SHELL COMMAND'
 *     pawl run [options] -- LOCK... -- COMMAND [ARGUMENT...]      for locks whose names begin with '-'
 *
 * Options may stand anywhere before the `--`, as with flock(1). Since there may be several locks, the `--` is what tells where the
 * command begins; where it was forgotten the message says so, whichever option getopt refused.
 */
#include "run_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "Usage: pawl run [OPTION]... LOCK... -- COMMAND [ARGUMENT]...\n"
                           "       pawl run [OPTION]... LOCK... -c 'SHELL COMMAND'\n"
                           "\n"
                           "Take the lock, run the command, give the lock back. With several locks: all of\n"
                           "them, in one order that every pawl uses. The exit status is the command's\n"
                           "(128 + N if signal N killed it), or one of pawl's own, below.\n"
                           "\n"
                           "How to take it\n"
                           "  -n, --nonblock       don't wait: exit with 75 if another holds it\n"
                           "  -w, --wait SECONDS   wait that long at most, then exit with 75; or 500ms, 5m\n"
                           "  -E, --conflict-exit-code N\n"
                           "                       exit with N instead of 75\n"
                           "  -s, --shared         the shared side of a read-write lock\n"
                           "  -x, --exclusive      the exclusive side of a read-write lock\n"
                           "      --permits N/LIMIT\n"
                           "                       N permits of a semaphore that has LIMIT of them\n"
                           "  -u, --url URL        where the locks are; default $PAWL_URL, else local:\n"
                           "      --lease SECONDS  lease on Redis (30), session time on ZooKeeper (15):\n"
                           "                       how long the crash of a holder may go unnoticed there\n"
                           "      --label TEXT     shown to others by pawl status\n"
                           "\n"
                           "Without -s, -x and --permits the lock is a mutex. These are different kinds of\n"
                           "lock: a name is in use as one of them at a time.\n"
                           "\n"
                           "How to run the command\n"
                           "  -c, --command STRING run it by $SHELL (else /bin/sh) -c\n"
                           "  -o, --close          what the command leaves behind doesn't keep the lock\n"
                           "      --on-lost ACTION when the lock is lost: term (default; TERM, and KILL in\n"
                           "                       time), kill, ignore\n"
                           "      --grace SECONDS  between TERM and KILL, at most; default 5\n"
                           "      --max-hold SECONDS\n"
                           "                       hold no longer than that; then as if the lock were lost\n"
                           "      --at-least SECONDS\n"
                           "                       hold that long though the command was quicker\n"
                           "  -v, --verbose        say on stderr what happens\n"
                           "  -q, --quiet          say nothing when it is not taken, on a terminal either\n"
                           "      --trace          say every step of the algorithm\n"
                           "      --help           this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Once for all machines\n"
                           "      --once-per PERIOD\n"
                           "                       if no run has succeeded yet in this period: 15m, 1h, 1d\n"
                           "                       ... of the server's time; or the calendar's hour, day,\n"
                           "                       week\n"
                           "      --utc            the calendar is that of UTC, not of the time zone here\n"
                           "      --skip-exit-code N\n"
                           "                       exit with N instead of 0 if one has\n"
                           "\n"
                           "A lock whose name begins with '-' stands behind a '--' of its own:\n"
                           "pawl run -- -name -- COMMAND.\n"
                           "\n"
                           "The command finds PAWL_LOCK, PAWL_TOKEN, PAWL_MODE, PAWL_URL, PAWL_HOLDER and\n"
                           "PAWL_AGENT in its environment: a pawl in it finds the same locks without -u.\n"
                           "\n"
                           "Exit status: 64 usage, 65 another kind of lock, 69 engine out of reach, 70 bug,\n"
                           "71 system, 74 storage, 75 not taken, 76 lost, 77 permission, 78 the note of\n"
                           "--once-per is another's, 126 command cannot be executed, 127 command not found.\n"
                           "\n"
                           "Examples\n"
                           "  pawl run nightly -- ./backup.sh                   one at a time\n"
                           "  pawl run -n nightly -- ./backup.sh                or not at all\n"
                           "  pawl run --once-per day nightly -- ./backup.sh    or once a day\n"
                           "  pawl run -w 10m deploy -c 'git pull && make install'\n"
                           "  pawl run --permits 1/4 downloads -- wget \"$url\"   four at a time\n";

static const struct option long_options[] = {
    TAKE_LONG,
    {"command", required_argument, NULL, 'c'},
    {"close", no_argument, NULL, 'o'},
    {"on-lost", required_argument, NULL, OPTION_ON_LOST},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"max-hold", required_argument, NULL, OPTION_MAX_HOLD},
    {"at-least", required_argument, NULL, OPTION_AT_LEAST},
    {"once-per", required_argument, NULL, OPTION_ONCE_PER},
    {"utc", no_argument, NULL, OPTION_UTC},
    {"skip-exit-code", required_argument, NULL, OPTION_SKIP_EXIT},
    {NULL, 0, NULL, 0},
};

static int set_on_lost(struct run_options *options, const char *text) {
    static const char *const actions[] = {[ON_LOST_TERM] = "term", [ON_LOST_KILL] = "kill", [ON_LOST_IGNORE] = "ignore"};

    for (unsigned i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(text, actions[i]) == 0) {
            options->on_lost = (enum on_lost)i;
            return 0;
        }
    return usage_error("--on-lost is term, kill or ignore, not '%s'", text);
}

static int set_duration(int64_t *ret, const char *option, const char *text) {
    if (!parse_duration(text, ret))
        return usage_error("%s wants a number of seconds, such as 10, 0.5 or 5m, not '%s'", option, text);
    return 0;
}

static int set_max_hold(struct run_options *options, const char *text) {
    int status = set_duration(&options->max_hold_ms, "--max-hold", text);

    if (status == 0 && options->max_hold_ms == 0)
        return usage_error("--max-hold 0 would end the command before it starts");
    return status;
}

static int set_once_per(struct once_options *once, const char *text) {
    bool utc = once->period.utc;

    if (!period_parse(text, &once->period))
        return usage_error("--once-per wants a period, such as 15m, 1h, 1d, or hour, day, week; not '%s'", text);
    once->period.utc = utc;
    once->wanted = true;
    return 0;
}

static int set_skip_exit(struct once_options *once, const char *text) {
    uint64_t number;

    if (!parse_number(text, 255, &number))
        return usage_error("--skip-exit-code wants an exit status from 0 to 255, not '%s'", text);
    once->skip_exit = (int)number;
    return 0;
}

static void set_shell_command(struct run_options *options, char *text) {
    char *shell = getenv("SHELL");

    options->shell_argv[0] = shell != NULL && shell[0] != '\0' ? shell : (char *)"/bin/sh";
    options->shell_argv[1] = (char *)"-c";
    options->shell_argv[2] = text;
    options->argv = options->shell_argv;
}

int run_option(struct run_options *options, int option) {
    switch (option) {
    case 1:
        options->take.names[options->take.count++] = optarg;
        return 0;
    case 'c':
        set_shell_command(options, optarg);
        return 0;
    case OPTION_GRACE:
        return set_duration(&options->grace_ms, "--grace", optarg);
    default:
        return take_option(&options->take, option);
    }
}

static int apply(void *data, int option) {
    struct run_options *options = data;

    switch (option) {
    case 'o':
        options->close = true;
        return 0;
    case OPTION_ON_LOST:
        return set_on_lost(options, optarg);
    case OPTION_MAX_HOLD:
        return set_max_hold(options, optarg);
    case OPTION_AT_LEAST:
        return set_duration(&options->at_least_ms, "--at-least", optarg);
    case OPTION_ONCE_PER:
        return set_once_per(&options->once, optarg);
    case OPTION_UTC:
        options->once.period.utc = true;
        return 0;
    case OPTION_SKIP_EXIT:
        return set_skip_exit(&options->once, optarg);
    default:
        return run_option(options, option);
    }
}

static const struct syntax syntax = {
    .subcommand = "run", .help = help, .letters = "-:" TAKE_SHORT "c:o", .options = long_options, .apply = apply};

/* `pawl run nightly ./backup.sh --full`: what looks like a bad option or a second lock is a command without its `--`. */
static int missing_separator(const struct run_options *options, const struct syntax *line) {
    return usage_error("where does the command begin? Put '--' before it: pawl %s %s -- COMMAND", line->subcommand,
                       options->take.names[0]);
}

static bool has_separator(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return true;
    return false;
}

/* Without a lock before the `--`, the locks follow it, up to the next one: so may they begin with a '-'. Returns whether there was a next
 * one; `optind` is then behind it. */
static bool take_names_behind(struct run_options *options, int argc, char **argv) {
    for (; optind < argc; options->take.names[options->take.count++] = argv[optind++])
        if (strcmp(argv[optind], "--") == 0) {
            optind++;
            return true;
        }
    return false;
}

/* getopt is done: what is left is the command. */
static int finish_parsing(struct run_options *options, const struct syntax *line, int argc, char **argv) {
    bool by_shell = options->argv != NULL;
    bool separated = strcmp(argv[optind - 1], "--") == 0;

    if (options->take.count == 0 && separated && (by_shell || has_separator(argc - optind + 1, argv + optind - 1)))
        separated = take_names_behind(options, argc, argv);
    if (options->take.count == 0)
        return usage_error("which lock? pawl %s LOCK -- COMMAND (see pawl %s --help)", line->subcommand, line->subcommand);
    if (by_shell && optind < argc)
        return usage_error("-c and a command after '--' exclude each other");
    if (!by_shell && !separated)
        return missing_separator(options, line);
    if (!by_shell && optind == argc)
        return usage_error("no command after '--'");
    if (!by_shell)
        options->argv = argv + optind;
    if (options->argv[0][0] == '\0')
        return usage_error("the command is empty");
    const char *slash = strrchr(options->argv[0], '/');
    options->record_name = slash != NULL ? slash + 1 : options->argv[0];
    return take_options_order(&options->take);
}

int command_line_parse(struct run_options *options, const struct syntax *line, void *data, int argc, char **argv, bool *go_on) {
    int option, status = 0;

    *options = (struct run_options){.grace_ms = 5000, .max_hold_ms = PAWL_FOREVER, .once.skip_exit = -1};
    if (!take_options_init(&options->take, argc))
        return EXIT_SYSTEM;
    opterr = 0;
    while (status == 0 && (option = getopt_long(argc, argv, line->letters, line->options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            fputs(line->help, stdout);
            return finish_output(0);
        }
        if (option != '?' && option != ':')
            status = line->apply(data, option);
        else if (option == '?' && options->take.count > 0 && options->argv == NULL && !has_separator(argc, argv))
            status = missing_separator(options, line);
        else
            status = bad_option(option, argv, line->subcommand);
    }
    if (status == 0)
        status = finish_parsing(options, line, argc, argv);
    *go_on = status == 0;
    return status;
}

/* Do the options go together? */
static int check_options(const struct run_options *options) {
    const struct once_options *once = &options->once;

    if (options->at_least_ms > options->max_hold_ms)
        return usage_error("--at-least is longer than --max-hold allows");
    if (!once->wanted && (once->period.utc || once->skip_exit >= 0))
        return usage_error("%s says more about --once-per, which is missing", once->period.utc ? "--utc" : "--skip-exit-code");
    if (!once->wanted)
        return 0;
    if (options->take.mode != PAWL_EXCLUSIVE)
        return usage_error("--once-per needs the lock exclusively: leave out %s",
                           options->take.mode == PAWL_SHARED ? "-s, or say -x" : "--permits");
    if (options->take.count > 1)
        return usage_error("--once-per is about one lock: take the others inside, pawl run --once-per PERIOD LOCK -- pawl run "
                           "OTHER... -- COMMAND");
    return 0;
}

int run_options_parse(struct run_options *options, int argc, char **argv, bool *go_on) {
    int status = command_line_parse(options, &syntax, options, argc, argv, go_on);

    if (*go_on)
        status = check_options(options);
    *go_on = *go_on && status == 0;
    return status;
}

void run_options_finish(struct run_options *options) {
    take_options_finish(&options->take);
}
