/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - where looks come from, one after the other. See source.h.
 */
#include "source.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* pawl_examine() opens connections: so rarely. */
enum { EXAMINE_MS = 300000 };

static int open_file(struct source *source) {
    bool standard = strcmp(source->path, "-") == 0;

    source->recording.file = standard ? fdopen(dup(STDIN_FILENO), "r") : fopen(source->path, "re");
    if (source->recording.file != NULL)
        return 0;
    say("can't read %s: %s", source->path, strerror(errno));
    return errno == EACCES ? EXIT_PERMISSION : EXIT_STORAGE;
}

int source_open(struct source *source, const char *path, const char *const urls[], size_t count) {
    *source = (struct source){.path = path, .ask_fd = -1, .done_fd = -1};
    if (path != NULL)
        return open_file(source);
    int status = watch_open(&source->watch, urls, count, NULL);
    source->watch.examine_ms = EXAMINE_MS;
    return status;
}

enum read_result source_next(struct source *source, struct look *ret) {
    if (source->recording.file != NULL) {
        enum read_result result = look_read(&source->recording, ret);

        if (result == READ_BAD)
            say("%s:%zu is not a line of pawl status --json", source->path, source->recording.number);
        return result;
    }
    if (look_take(ret, &source->watch))
        return READ_LOOK;
    say("out of memory");
    return READ_BAD;
}

/* ---- the thread ----------------------------------------------------------------------------------------------------------- */

enum { ASK_LOOK = 1, ASK_END = 1000 }; /* eventfd adds them up */

static void *run(void *data) {
    struct source *source = data;
    eventfd_t asked;

    while (eventfd_read(source->ask_fd, &asked) == 0 && asked < ASK_END) {
        source->good = look_take(&source->look, &source->watch);
        eventfd_write(source->done_fd, 1);
    }
    return NULL;
}

/* Signals are for the thread that has the terminal. Where it can't be started that is tried again, with the descriptors there are. */
static bool start_thread(struct source *source) {
    sigset_t all, before;

    if (source->ask_fd < 0)
        source->ask_fd = eventfd(0, EFD_CLOEXEC);
    if (source->done_fd < 0)
        source->done_fd = eventfd(0, EFD_CLOEXEC);
    if (source->ask_fd < 0 || source->done_fd < 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    source->has_thread = pthread_create(&source->thread, NULL, run, source) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return source->has_thread;
}

bool source_ask(struct source *source) {
    if (source->asked)
        return true;
    if (!source->has_thread && !start_thread(source))
        return false;
    source->asked = eventfd_write(source->ask_fd, ASK_LOOK) == 0;
    return source->asked;
}

int source_fd(const struct source *source) {
    return source->done_fd;
}

enum read_result source_take(struct source *source, struct look *ret) {
    eventfd_t done;

    eventfd_read(source->done_fd, &done);
    source->asked = false;
    *ret = source->look;
    source->look = (struct look){0};
    return source->good ? READ_LOOK : READ_BAD;
}

void source_close(struct source *source) {
    struct look unwanted;

    if (source->has_thread) {
        eventfd_write(source->ask_fd, ASK_END);
        pthread_join(source->thread, NULL);
        if (source->asked && source_take(source, &unwanted) == READ_LOOK)
            look_finish(&unwanted);
    }
    if (source->ask_fd >= 0)
        close(source->ask_fd);
    if (source->done_fd >= 0)
        close(source->done_fd);
    watch_close(&source->watch);
    recording_finish(&source->recording);
}
