/* SPDX-License-Identifier: Apache-2.0
 *
 * bench/command.c - what `pawl run -n x -- true` adds to `true`, beside flock(1). The commands take turns, so that a noisy machine hits
 * them alike; medians.
 *
 *     bench-command PATH-OF-PAWL
 */
#include <err.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { TURNS = 301, COMMANDS = 3 };

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double run_ms(char *const *command) {
    int64_t start = now_ns();
    int status;
    pid_t pid;

    if (posix_spawnp(&pid, command[0], NULL, NULL, command, environ) != 0)
        return -1;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return -1;
    return (double)(now_ns() - start) / 1e6;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    static double times[COMMANDS][TURNS];
    char directory[] = "/tmp/pawl-bench-XXXXXX", url[64], file[64], remove[64];
    double base = 0;

    if (argc != 2)
        errx(2, "usage: bench-command PATH-OF-PAWL");
    if (!mkdtemp(directory))
        err(1, "%s", directory);
    snprintf(url, sizeof url, "local:%s", directory);
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(remove, sizeof remove, "rm -rf %s", directory);
    setenv("PAWL_URL", url, 1);

    char *const commands[COMMANDS][8] = {
        {"true", NULL},
        {argv[1], "run", "-n", "x", "--", "true", NULL},
        {"flock", "-n", file, "true", NULL},
    };
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < COMMANDS; i++)
            times[i][turn] = run_ms(commands[i]);
    printf("\na command under a lock that is free\n");
    for (int i = 0; i < COMMANDS; i++) {
        qsort(times[i], TURNS, sizeof times[i][0], compare);
        if (times[i][0] < 0) {
            printf("  %-28s left out: it failed, or is not there\n", i == 2 ? "flock -n FILE true" : commands[i][0]);
            continue;
        }
        base = i == 0 ? times[i][TURNS / 2] : base;
        printf("  %-28s %10.3g ms  [%.3g..%.3g]   %+.2f ms\n",
               i == 0   ? "true"
               : i == 1 ? "pawl run -n x -- true"
                        : "flock -n FILE true",
               times[i][TURNS / 2], times[i][0], times[i][TURNS - 1], times[i][TURNS / 2] - base);
    }
    return system(remove) == 0 ? 0 : 1;
}
