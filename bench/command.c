/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - what `pawl run -n x -- true` takes, beside `true` and flock(1). The commands take turns, so that a noisy machine hits them
 * alike. Prints medians in ms as one line of JSON; what could not be run is null.
 *
 *     bench-command PATH-OF-PAWL TURNS
 */
#include <err.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_TURNS = 1000, COMMANDS = 3 };

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* -1: it failed, or is not there. */
static double run_ms(const char *const *command) {
    int64_t start = now_ns();
    int status;
    pid_t pid;

    if (posix_spawnp(&pid, command[0], NULL, NULL, (char *const *)command, environ) != 0)
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
    static double times[COMMANDS][MAX_TURNS];
    char directory[] = "/tmp/pawl-bench-XXXXXX", url[64], file[64], remove[64];
    int turns = argc == 3 ? atoi(argv[2]) : 0;

    if (turns < 1 || turns > MAX_TURNS)
        errx(64, "usage: bench-command PATH-OF-PAWL TURNS");
    if (!mkdtemp(directory))
        err(1, "%s", directory);
    snprintf(url, sizeof url, "local:%s", directory);
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(remove, sizeof remove, "rm -rf %s", directory);
    setenv("PAWL_URL", url, 1);

    const char *const names[COMMANDS] = {"true", "pawl run", "flock(1)"};
    const char *const commands[COMMANDS][8] = {
        {"true", NULL},
        {argv[1], "run", "-n", "x", "--", "true", NULL},
        {"flock", "-n", file, "true", NULL},
    };
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < COMMANDS; i++)
            times[i][turn] = run_ms(commands[i]);
    for (int i = 0; i < COMMANDS; i++) {
        qsort(times[i], (size_t)turns, sizeof times[i][0], compare);
        printf(times[i][0] < 0 ? "%s\"%s\": null" : "%s\"%s\": %.3f", i > 0 ? ", " : "{", names[i], times[i][turns / 2]);
    }
    printf("}\n");
    return system(remove) == 0 ? 0 : 1;
}
