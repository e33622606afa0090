/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - pawl-servers: servers for a script, see servers.h.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "../../cli/common/cli.h"
#include "servers.h"

int command_servers(int argc, char **argv);

enum { URL = 512, LINES = 1024 };

static const char usage[] =
    "Usage: pawl-servers start KIND [OPTION]...\n"
    "Start real servers on loopback, print where they are, and stop them when standard input ends.\n"
    "\n"
    "      --line TEXT        add a line to the configuration of every server\n"
    "      --java OPTION      give ZooKeeper's Java machine an option\n"
    "      --address ADDRESS  where they listen (127.0.0.1)\n"
    "      --port PORT        the port of the first (one that is free)\n"
    "      --down-after MS    a server that is silent for so long is given up by the others (60000)\n"
    "\n"
    "KIND is one of: %s\n"
    "It prints a URL for pawl, a line for every server (its port, its pid and its directory), and an empty line.\n";

enum { OPTION_LINE = 256, OPTION_JAVA, OPTION_ADDRESS, OPTION_PORT, OPTION_DOWN_AFTER, OPTION_HELP };

static const struct option options[] = {
    {"line", required_argument, NULL, OPTION_LINE},
    {"java", required_argument, NULL, OPTION_JAVA},
    {"address", required_argument, NULL, OPTION_ADDRESS},
    {"port", required_argument, NULL, OPTION_PORT},
    {"down-after", required_argument, NULL, OPTION_DOWN_AFTER},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int add_line(char *lines, const char *line) {
    size_t used = strlen(lines);

    if ((size_t)snprintf(lines + used, LINES - used, "%s\n", line) >= LINES - used)
        return usage_error("the lines of --line are longer than %d bytes together", LINES - 1);
    return 0;
}

static int add_java(struct servers *servers, const char *option) {
    for (int i = 0; i < SERVERS_OPTIONS - 1; i++)
        if (servers->java[i] == NULL) {
            servers->java[i] = option;
            return 0;
        }
    return usage_error("--java was given more than %d times", SERVERS_OPTIONS - 1);
}

static int parse_number(const char *name, const char *text, long most, long *ret) {
    char *end;

    errno = 0;
    *ret = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *ret < 1 || *ret > most)
        return usage_error("%s is a number from 1 to %ld, not '%s'", name, most, text);
    return 0;
}

/* 0, or the exit status. --help: -1. */
static int take_option(struct servers *servers, char *lines, int option) {
    long number = 0;
    int status = 0;

    switch (option) {
    case OPTION_LINE:
        return add_line(lines, optarg);
    case OPTION_JAVA:
        return add_java(servers, optarg);
    case OPTION_ADDRESS:
        servers->host = optarg;
        return 0;
    case OPTION_PORT:
        status = parse_number("--port", optarg, 65535, &number);
        servers->port = (unsigned)number;
        return status;
    case OPTION_DOWN_AFTER:
        status = parse_number("--down-after", optarg, 3600000, &number);
        servers->down_after_ms = number;
        return status;
    case OPTION_HELP:
        return -1;
    default:
        return EXIT_USAGE; /* getopt has said it */
    }
}

static void print(const struct servers *servers) {
    char url[URL];

    servers->topology->url(servers, false, url, sizeof url);
    printf("%s\n", url);
    for (int i = 0; i < servers->count; i++)
        printf("%u %d %s\n", servers->list[i].port, (int)servers->list[i].pid, servers->list[i].directory);
    printf("\n");
    fflush(stdout);
}

/* Until nobody can write to standard input any more, or a signal comes. What is written there is ignored. */
static void await_end(int signals) {
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    char bytes[256];

    while (poll(wait, 2, -1) > 0 && wait[1].revents == 0)
        if (wait[0].revents != 0 && read(STDIN_FILENO, bytes, sizeof bytes) <= 0)
            return;
}

static int start(struct servers *servers, const struct topology *topology) {
    bool started;
    sigset_t ends;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    int signals = signalfd(-1, &ends, SFD_CLOEXEC);

    signal(SIGPIPE, SIG_IGN);
    started = servers_start(servers, topology);
    if (started) {
        print(servers);
        await_end(signals);
    } else {
        say("%s cannot be started: %s", topology->word, servers->why);
    }
    if (!servers_stop(servers))
        say("%s could not be removed", servers->directory);
    close(signals);
    return started ? 0 : EXIT_UNREACHABLE;
}

int command_servers(int argc, char **argv) {
    struct servers servers = {.lines = ""};
    char lines[LINES] = "";
    int option, status;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if ((status = take_option(&servers, lines, option)) > 0)
            return status;
        else if (status < 0)
            return printf(usage, topology_words()) < 0 ? EXIT_STORAGE : 0;
    if (argc - optind != 2 || strcmp(argv[optind], "start") != 0)
        return usage_error("say 'start' and what: pawl-servers start KIND, of %s", topology_words());
    const struct topology *topology = topology_find(argv[optind + 1]);

    if (topology == NULL)
        return usage_error("'%s' cannot be started; there are %s", argv[optind + 1], topology_words());
    servers.lines = lines;
    return start(&servers, topology);
}
