/* SPDX-License-Identifier: Apache-2.0
 *
 * elect.c - pawl elect: run a command on one of several machines, the leader, and on another one when that ends.
 *
 *     campaign -> publish the value -> the command runs (tend.c) -> its group is ended, the lock released -> pause -> campaign ...
 *
 * A term is one hold of the lock, and its number is the hold's token: it rises with every leader. The client stays open over all terms. A
 * term ends when the command does, or when the hold is lost; then another may lead, so nothing of the command's group is left alive.
 *
 * What ends pawl itself: TERM, INT and QUIT; any signal that was passed on and killed the command; a command that can't be executed; and
 * errors that will not pass. A server that goes away is waited for, but not one that was never there: that is a mistake to be told.
 */
#include <string.h>

#include "common/cli.h"
#include "common/signals.h"
#include "run.h"

static const char help[] = "Usage: pawl elect [OPTION]... NAME -- COMMAND [ARGUMENT]...\n"
                           "       pawl elect [OPTION]... NAME -c 'SHELL COMMAND'\n"
                           "\n"
                           "Elect a leader: start this on several machines, and the command runs on one of\n"
                           "them. When it ends, or its machine does, the next one leads. NAME is a lock;\n"
                           "pawl leader NAME says who has it, and pawl status NAME who else stands.\n"
                           "\n"
                           "      --value TEXT     what pawl leader shows of it, such as its address\n"
                           "      --once           lead once: exit when the command ends, with its status\n"
                           "  -c, --command STRING run it by $SHELL (else /bin/sh) -c\n"
                           "      --grace SECONDS  between TERM and KILL, at most; default 5\n"
                           "  -u, --url URL        where the lock is; default $PAWL_URL, else local:\n"
                           "      --lease SECONDS  lease on Redis (30), session time on ZooKeeper (15):\n"
                           "                       after a crash the next one leads that much later\n"
                           "      --label TEXT     shown to others by pawl status\n"
                           "  -v, --verbose        say on stderr what happens\n"
                           "  -q, --quiet          don't say that the command has ended\n"
                           "      --trace          say every step of the algorithm\n"
                           "      --help           this text; the whole story is in pawl(1)\n"
                           "\n"
                           "A term ends when the command does. pawl then stands for election again, after a\n"
                           "second; a command that fails soon, again and again, waits up to 30 s. TERM ends\n"
                           "the command, by KILL after --grace, and pawl with it; INT and QUIT are passed on,\n"
                           "and pawl ends when the command does. Then the next one leads at once.\n"
                           "\n"
                           "If the lock can't be renewed, the command gets TERM when half of the time that\n"
                           "is left is over, and KILL before all of it is: before another one can lead.\n"
                           "\n"
                           "The command finds PAWL_TOKEN in its environment, the number of its term: it\n"
                           "rises with every leader; and the other variables of pawl run. In it, pawl value\n"
                           "set NAME publishes what is known only there, and is refused after the term.\n"
                           "\n"
                           "Exit status: that of the command, after a signal or with --once; 76 if the lock\n"
                           "was lost with --once; and else as of pawl run.\n"
                           "\n"
                           "Examples\n"
                           "  pawl elect web --value \"$(hostname):8080\" -- ./server\n"
                           "  pawl leader web                          its term, and its address\n"
                           "  pawl elect web --once -c './server && ./clean-up'\n";

static const struct option long_options[] = {
    {"value", required_argument, NULL, OPTION_VALUE},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"command", required_argument, NULL, 'c'},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"url", required_argument, NULL, 'u'},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {"label", required_argument, NULL, OPTION_LABEL},
    {"verbose", no_argument, NULL, 'v'},
    {"quiet", no_argument, NULL, 'q'},
    {"trace", no_argument, NULL, OPTION_TRACE},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* Before the next campaign. */
enum { PAUSE_LEAST_MS = 1000, PAUSE_MOST_MS = 30000 };

struct election {
    struct run run;
    const char *value; /* NULL: none is published */
    bool once;
    int64_t began;    /* the term */
    bool by_command;  /* it ended because the command did */
    int64_t pause_ms; /* the last one; 0: none yet */
};

/* ---- A term --------------------------------------------------------------------------------------------------------------- */

/* False: not published, and `status` is the exit status for the reason. */
static bool publish(struct election *election, int *status) {
    struct pawl_error error;
    int result = 0;

    if (election->value != NULL)
        result = pawl_value_set(election->run.take.parts[0].lock, election->value, strlen(election->value), &error);
    if (result < 0)
        say("%s", error.text);
    if (result == 0 || result == PAWL_EREPLICAS) /* which has been published, and is only not safe yet */
        return true;
    election->run.take.loss_told = result == PAWL_ELOST;
    *status = exit_of(result);
    return false;
}

/* The command has ended: nothing of it may go on when another leads. Returns its exit status, or EXIT_LOST. */
static int end_term(struct election *election) {
    struct run *run = &election->run;

    if (run->child.exec_errno != 0)
        say("cannot run '%s': %s", run->options.argv[0], strerror(run->child.exec_errno));
    child_end_group(&run->child);
    run->fatal_to_group = run->terminal.given;
    terminal_take_back(&run->terminal);
    terminal_close(&run->terminal);
    bool resigned = sigismember(&run->heard, SIGTERM);
    election->by_command = take_release(&run->take) == 0 && (!run->over || resigned);
    return election->by_command ? run->status : EXIT_LOST;
}

/* Is pawl to end, and not only the term? While the command has the terminal, what is typed there goes to the command alone. */
static bool asked_to_end(const struct run *run) {
    static const int for_us[] = {SIGTERM, SIGINT, SIGQUIT};
    int fatal = run->fatal_signal;

    for (size_t i = 0; i < sizeof for_us / sizeof for_us[0]; i++)
        if (sigismember(&run->heard, for_us[i]))
            return true;
    return fatal != 0 && (sigismember(&run->heard, fatal) || (run->fatal_to_group && (fatal == SIGINT || fatal == SIGQUIT)));
}

/* The command was not started, for this reason: may it be otherwise in another term? EXIT_NOT_TAKEN: the value was not written in time. */
static bool may_pass(int status) {
    return status == EXIT_LOST || status == EXIT_UNREACHABLE || status == EXIT_NOT_TAKEN;
}

/* The lock is held. Returns whether to stand again; `status` is the exit status, if not, and says how the term ended in any case. */
static bool lead(struct election *election, int *status) {
    struct run *run = &election->run;

    election->began = now_ms();
    if (!publish(election, status) || !run_watch_holds(run, status) || !run_start(run, status)) {
        terminal_close(&run->terminal);
        take_release(&run->take);
        return !election->once && may_pass(*status);
    }
    run_tend(run);
    *status = end_term(election);
    if (run->child.exec_errno != 0 || asked_to_end(run))
        return false;
    if (!election->once || !election->by_command)
        run->fatal_signal = 0;
    return !election->once;
}

/* ---- Between terms -------------------------------------------------------------------------------------------------------- */

/* Those who could lead better shall not have to wait for one that fails again and again; nor shall its log be full of it. */
static int64_t choose_pause(const struct election *election, int status) {
    bool soon = now_ms() - election->began < PAUSE_MOST_MS, failed = election->by_command && status != 0;
    int64_t longer = 2 * election->pause_ms;

    if (!soon || !failed || longer == 0)
        return PAUSE_LEAST_MS;
    return longer < PAUSE_MOST_MS ? longer : PAUSE_MOST_MS;
}

static void tell_of_pause(const struct election *election, int status) {
    const struct take_options *options = &election->run.options.take;
    char words[32];

    duration_in_words(words, sizeof words, election->pause_ms);
    if (options->quiet)
        return;
    if (election->by_command)
        say("the command ended with status %d; standing for election again in %s", status, words);
    else
        say("standing for election again in %s", words);
}

/* False: a signal ends us. */
static bool pause_after(struct election *election, int status) {
    election->pause_ms = choose_pause(election, status);
    tell_of_pause(election, status);
    for (int64_t end = deadline_in(election->pause_ms), left; (left = end - now_ms()) > 0;)
        if (!take_pause(&election->run.take, left))
            return false;
    return true;
}

/* ---- The election --------------------------------------------------------------------------------------------------------- */

/* A majority of servers that vote has no place for a value, and no single server that could say whose it is. */
static bool can_elect(const struct run *run, int *status) {
    if (strcmp(run->take.info.engine, "redlock") != 0)
        return true;
    *status = usage_error("redlock: has no elections, since it has no values beside its locks; local:, redis: and zk: have");
    return false;
}

/* Without end, but for what the top of this file says. */
static int stand(struct election *election) {
    struct run *run = &election->run;
    struct take *take = &run->take;
    int status = EXIT_SYSTEM;

    if (!signals_take() || !take_open(take, &run->options.take, PAWL_OPEN_LOSS_BY_DISPATCH, run->options.record_name, &status) ||
        !can_elect(run, &status))
        return status;
    take->elects = run->resigns = true;
    for (bool again = true; again;) {
        run_reset(run);
        election->by_command = false;
        if (take_all(take, &status))
            again = lead(election, &status);
        else
            again = take->signal == 0 && status == EXIT_UNREACHABLE && !election->once;
        again = again && pause_after(election, status);
    }
    if (take->signal != 0)
        run->fatal_signal = take->signal;
    return status;
}

static int apply(void *data, int option) {
    struct election *election = data;

    switch (option) {
    case OPTION_VALUE:
        election->value = optarg;
        return 0;
    case OPTION_ONCE:
        election->once = true;
        return 0;
    default:
        return run_option(&election->run.options, option);
    }
}

static const struct syntax syntax = {
    .subcommand = "elect", .help = help, .letters = "-:vqu:c:", .options = long_options, .apply = apply};

static int check_options(const struct election *election, bool *go_on) {
    const struct take_options *take = &election->run.options.take;

    *go_on = false;
    if (take->count > 1)
        return usage_error("a leader is elected by one lock, and there are '%s' and '%s'", take->names[0], take->names[1]);
    if (election->value != NULL && strlen(election->value) > PAWL_VALUE_MAX)
        return usage_error("--value is longer than %u bytes", PAWL_VALUE_MAX);
    *go_on = true;
    return 0;
}

int command_elect(int argc, char **argv) {
    struct election election = {0};
    struct run *run = &election.run;
    bool go_on = false;
    int status = command_line_parse(&run->options, &syntax, &election, argc, argv, &go_on);

    run_reset(run);
    if (go_on)
        status = check_options(&election, &go_on);
    if (go_on) {
        status = stand(&election);
        take_finish(&run->take);
    }
    run_options_finish(&run->options);
    return run->fatal_signal != 0 ? end_by_signal(run->fatal_signal, run->fatal_to_group) : status;
}
