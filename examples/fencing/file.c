/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - a file that takes nothing from a holder whose turn was over: its first line is the token of the hold that wrote it.
 *
 *     file FILE TEXT
 *
 * Takes the lock `fencing`, says so, works until a line comes from standard input, and writes TEXT. Exit status 1: refused, since a later
 * holder has written meanwhile.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pawl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The token in the file; 0: nobody has written yet. */
static uint64_t last_token(const char *path) {
    FILE *file = fopen(path, "r");
    uint64_t token = 0;

    if (file && fscanf(file, "%" SCNu64, &token) != 1)
        errx(2, "%s does not begin with a token", path);
    if (file)
        fclose(file);
    return token;
}

static void replace(const char *path, uint64_t token, const char *text) {
    char new[4096];
    FILE *file;

    snprintf(new, sizeof new, "%s.new", path);
    file = fopen(new, "w");
    if (!file || fprintf(file, "%" PRIu64 "\n%s\n", token, text) < 0 || fflush(file) != 0 || fsync(fileno(file)) != 0 ||
        fclose(file) != 0 || rename(new, path) != 0)
        err(2, "%s", path);
}

/* Compare and rename, as one step: the guard lets one process at a time do it. It is a file of its own, since FILE is another one after
 * each rename. A process that is paused in here keeps the others out until it goes on or is killed; so it does no harm either. */
static int write_fenced(const char *path, uint64_t token, const char *text) {
    char guard_path[4096];
    int guard, refused;

    snprintf(guard_path, sizeof guard_path, "%s.guard", path);
    guard = open(guard_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (guard < 0 || flock(guard, LOCK_EX) != 0)
        err(2, "%s", guard_path);
    refused = last_token(path) > token;
    if (!refused)
        replace(path, token, text);
    close(guard);
    return refused;
}

static void work(void) {
    char line[80];

    if (!fgets(line, sizeof line, stdin))
        errx(2, "no line came from standard input");
}

int main(int argc, char **argv) {
    const struct pawl_options options = {.size = sizeof options, .lease_ms = 1000}; /* so that the next one is let in soon */
    struct pawl_lock *lock;
    struct pawl_error error;
    struct pawl *client;
    int refused;

    if (argc != 3)
        errx(2, "usage: %s FILE TEXT", argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pawl_open(NULL, &options, &client, &error) < 0 || pawl_mutex_new(client, "fencing", 0, &lock, &error) < 0 ||
        pawl_acquire(lock, PAWL_FOREVER, &error) < 0)
        errx(2, "%s", error.text);
    printf("holds %" PRIu64 "\n", pawl_token(lock));
    work();
    refused = write_fenced(argv[1], pawl_token(lock), argv[2]);
    puts(refused ? "refused" : "written");
    pawl_lock_free(lock); /* releases it, too */
    pawl_close(client);
    return refused;
}
