/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the pawl command: which subcommand, and what is true before any of them runs.
 *
 * Descriptors 0, 1 and 2 are open. Otherwise the first file that the library opens could become stderr, and the first message would
 * be written into a lock table.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "common/cli.h"

static const char help_head[] = "Usage: pawl COMMAND [OPTION]... [ARGUMENT]...\n"
                                "\n"
                                "Locks between processes, on one machine or on many.\n"
                                "\n";

static const char help_tail[] = "\n"
                                "  pawl COMMAND --help     what it does, its options, examples\n"
                                "  pawl --version          the version, and the engines in this build\n"
                                "\n"
                                "Where the locks are is told by a URL: -u URL, or $PAWL_URL, else local: (this\n"
                                "machine; nothing to install or start).\n"
                                "\n"
                                "Examples\n"
                                "  pawl run nightly -- ./backup.sh     run it, one at a time\n"
                                "  pawl status nightly                 who runs it now, and who waits?\n";

#ifdef PAWL_NCURSES
#define WITH_NCURSES " top"
#else
#define WITH_NCURSES ""
#endif

#ifdef PAWL_HTTP
#define WITH_HTTP " web"
#else
#define WITH_HTTP ""
static int command_web(int argc, char **argv) {
    (void)argc, (void)argv;
    say("this pawl was built without libmicrohttpd, which pawl web needs: install libmicrohttpd-dev, and build it with "
        "-Dhttp=enabled");
    return EXIT_NOT_FOUND;
}
#endif

static const struct subcommand {
    const char *name;
    int (*main)(int argc, char **argv); /* NULL: a program of its own, pawl-NAME */
    const char *summary;
} subcommands[] = {
    {"run", command_run, "run a command while holding a lock"},
    {"hold", command_hold, "hold a lock until standard input ends, for scripts"},
    {"elect", command_elect, "run a command on one of several machines: the leader"},
    {"leader", command_leader, "say who leads"},
    {"status", command_status, "show who holds what, and who waits"},
    {"wait", command_wait, "wait until a lock is free, or is held"},
    {"value", command_value, "read and write the value beside a lock"},
    {"break", command_break, "make a holder give up"},
    {"doctor", command_doctor, "say what about the server endangers locks"},
    {"top", command_top, "show what needs attention, in a terminal"},
    {"export", command_export, "say how locks are as metrics, for Prometheus"},
    {"web", command_web, "show the locks in a browser, as they change"},
    {"bench", NULL, "measure locks, side by side with the bare server"},
    {"torture", NULL, "break everything, and see whether the locks hold"},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

static int print_help(void) {
    fputs(help_head, stdout);
    for (int i = 0; i < SUBCOMMANDS; i++)
        printf("  pawl %-10s %s\n", subcommands[i].name, subcommands[i].summary);
    fputs(help_tail, stdout);
    return finish_output(0);
}

static int print_version(void) {
    const char *optional = WITH_NCURSES WITH_HTTP;

    printf("pawl %s\nengines: %s\noptional commands:%s\n", pawl_version(), pawl_engines(),
           optional[0] != '\0' ? optional : " none");
    return finish_output(0);
}

/* How many letters must be inserted, removed or changed to make one of the other. */
static size_t distance(const char *left, const char *right) {
    size_t row[16], length = strlen(right);

    if (length >= sizeof row / sizeof row[0])
        return length;
    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (; *left != '\0'; left++) {
        size_t diagonal = row[0]++;

        for (size_t i = 0; i < length; i++) {
            size_t changed = diagonal + (*left != right[i]);
            size_t shorter = row[i] < row[i + 1] ? row[i] : row[i + 1];

            diagonal = row[i + 1];
            row[i + 1] = changed < shorter + 1 ? changed : shorter + 1;
        }
    }
    return row[length];
}

static int unknown_subcommand(const char *given) {
    size_t best = 3;
    const char *nearest = NULL;

    for (int i = 0; i < SUBCOMMANDS; i++) {
        size_t steps = distance(given, subcommands[i].name);

        if (steps < best) {
            best = steps;
            nearest = subcommands[i].name;
        }
    }
    if (nearest != NULL)
        return usage_error("there is no 'pawl %s'; did you mean 'pawl %s'?", given, nearest);
    return usage_error("there is no 'pawl %s'; see pawl --help", given);
}

/* Become pawl-NAME: the one beside this program, as in a build directory; else the first in $PATH. */
static int become(const char *name, char **argv) {
    char path[PATH_MAX], program[32];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof program);
    char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;

    snprintf(program, sizeof program, "pawl-%s", name);
    argv[0] = program;
    if (slash != NULL) {
        strcpy(slash + 1, program);
        execv(path, argv);
    }
    execvp(program, argv);
    if (errno != ENOENT) {
        say("can't run %s: %s", program, strerror(errno));
        return EXIT_CANNOT_EXECUTE;
    }
    say("%s is not installed: it is in Debian's package pawl-lab, and `make install` installs it, too", program);
    return EXIT_NOT_FOUND;
}

int main(int argc, char **argv) {
    if (!open_standard_descriptors())
        return EXIT_SYSTEM;
    if (argc < 2) {
        say("no command was given; to begin with: pawl run LOCK -- COMMAND; pawl --help lists all commands");
        return EXIT_USAGE;
    }
    supervisor_note_arguments(argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "version") == 0)
        return print_version();
    for (int i = 0; i < SUBCOMMANDS; i++)
        if (strcmp(argv[1], subcommands[i].name) == 0)
            return subcommands[i].main != NULL ? subcommands[i].main(argc - 1, argv + 1) : become(argv[1], argv + 1);
    if (argv[1][0] == '-')
        return usage_error("unknown option '%s'; see pawl --help", argv[1]);
    return unknown_subcommand(argv[1]);
}
