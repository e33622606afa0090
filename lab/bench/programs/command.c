/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - what a command under a free lock takes: `pawl run -n x -- true`, beside `true`, flock(1) and `etcdctl lock`. The commands
 * take turns, so that a noisy machine hits them alike. Prints medians in ms as one line of JSON; what could not be run is null.
 *
 *     bench-command PATH-OF-PAWL TURNS [REDIS-URL] [ZOOKEEPER-URL] [ETCD-ADDRESS]      "": there is none
 */
#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stats.h"

extern char **environ;

enum { COMMANDS = 6, WORDS = 10 };

struct command {
    const char *name;
    const char *words[WORDS]; /* none: it is not asked for */
    struct figure times_ms;
};

/* -1: it failed, or is not there. */
static double run_ms(const char *const *command) {
    posix_spawn_file_actions_t quiet;
    int64_t start = bench_now_ns();
    int status;
    pid_t pid;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    bool started = posix_spawnp(&pid, command[0], &quiet, NULL, (char *const *)command, environ) == 0;
    posix_spawn_file_actions_destroy(&quiet);
    if (!started)
        return -1;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return -1;
    return (double)(bench_now_ns() - start) / 1e6;
}

/* `NAME`, `pawl run -u URL -n x -- true` */
static struct command under_pawl(const char *name, const char *pawl, const char *url) {
    if (url[0] == '\0')
        return (struct command){.name = name};
    return (struct command){.name = name, .words = {pawl, "run", "-u", url, "-n", "pawl-bench-command", "--", "true"}};
}

static struct command under_etcdctl(const char *address) {
    static char endpoints[256];

    if (address[0] == '\0')
        return (struct command){.name = "etcdctl lock"};
    snprintf(endpoints, sizeof endpoints, "--endpoints=%s", address);
    return (struct command){.name = "etcdctl lock", .words = {"etcdctl", endpoints, "lock", "pawl-bench-command", "true"}};
}

static void print(const struct command *command, bool first) {
    printf(figure_low(&command->times_ms) < 0 ? "%s\"%s\": null" : "%s\"%s\": %.3f", first ? "{" : ", ", command->name,
           figure_median(&command->times_ms));
}

int main(int argc, char **argv) {
    static struct command commands[COMMANDS];
    char directory[] = "/tmp/pawl-bench-XXXXXX", url[64], file[64], remove[64];
    int turns = argc >= 3 ? atoi(argv[2]) : 0;

    if (turns < 1 || turns > MAX_ROUNDS)
        errx(64, "usage: bench-command PATH-OF-PAWL TURNS [REDIS-URL] [ZOOKEEPER-URL] [ETCD-ADDRESS]");
    if (!mkdtemp(directory))
        err(1, "%s", directory);
    snprintf(url, sizeof url, "local:%s", directory);
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(remove, sizeof remove, "rm -rf %s", directory);
    setenv("ETCDCTL_API", "3", 1);
    commands[0] = (struct command){.name = "true", .words = {"true"}};
    commands[1] = (struct command){.name = "flock(1)", .words = {"flock", "-n", file, "true"}};
    commands[2] = under_pawl("pawl run, local:", argv[1], url);
    commands[3] = under_pawl("pawl run, Redis", argv[1], argc > 3 ? argv[3] : "");
    commands[4] = under_pawl("pawl run, ZooKeeper", argv[1], argc > 4 ? argv[4] : "");
    commands[5] = under_etcdctl(argc > 5 ? argv[5] : "");
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < COMMANDS; i++)
            figure_add(&commands[i].times_ms, commands[i].words[0] ? run_ms(commands[i].words) : -1);
    for (int i = 0; i < COMMANDS; i++)
        print(&commands[i], i == 0);
    printf("}\n");
    return system(remove) == 0 ? 0 : 1;
}
