/* SPDX-License-Identifier: Apache-2.0
 *
 * looker.c - the thread that looks. See looker.h.
 *
 * `mutex` guards what both threads use: what is wanted, and what was seen. `past_mutex` guards the history, which a request about
 * one lock reads.
 */
#include "looker.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../look/metrics.h"

struct looker {
    pthread_t thread;
    pthread_mutex_t mutex, past_mutex;
    pthread_cond_t changed;
    struct watch *watch;
    const struct about *about;
    struct history history;
    struct look last; /* the thread's own */
    uint64_t number;  /* of looks */
    uint64_t heard;   /* the newest event that was told */
    bool wanted, stopping, full;
    bool missed; /* the thread's own: the last look was not told, out of memory */
    struct seen seen;
    int event;
};

static void write_view(FILE *out, struct looker *looker, enum view view, const struct look *look) {
    struct metrics_options metrics = {.history = &looker->history, .openmetrics = view == VIEW_OPENMETRICS};

    if (view == VIEW_STATE)
        write_state(out, looker->about, looker->number, look, &looker->history);
    else if (view != VIEW_DIFFERENCE)
        metrics_write(out, look, &metrics);
    else if (looker->number == 1)
        fputs(": the first look\n\n", out); /* who reads on has seen it as a whole */
    else if (looker->missed)
        fputs("event: anew\ndata: {}\n\n", out);
    else
        write_difference(out, looker->number, &looker->last, look, &looker->history, looker->heard);
}

/* False: out of memory. */
static bool write_views(struct looker *looker, const struct look *look, struct seen *seen) {
    bool done = true;

    for (int view = 0; view < VIEWS; view++) {
        FILE *out = open_memstream(&seen->texts[view], &seen->lengths[view]);

        if (out != NULL)
            write_view(out, looker, view, look);
        done = out != NULL && fclose(out) == 0 && done;
    }
    return done;
}

static void drop_views(struct seen *seen) {
    for (int view = 0; view < VIEWS; view++)
        free(seen->texts[view]);
    *seen = (struct seen){0};
}

/* One look, and what is told of it. False: out of memory. */
static bool take(struct looker *looker, struct seen *seen) {
    struct look look;

    if (!look_take(&look, looker->watch))
        return false;
    int64_t rest = look_pause_ms(&look);
    pthread_mutex_lock(&looker->past_mutex);
    history_add(&looker->history, looker->number > 0 ? &looker->last : NULL, &look);
    looker->number++;
    bool done = write_views(looker, &look, seen);
    if (done)
        looker->heard = looker->history.event_count;
    looker->number -= !done; /* who serves has not heard of it, */
    looker->missed = !done;  /* nor of what differed */
    pthread_mutex_unlock(&looker->past_mutex);
    look_finish(&looker->last);
    looker->last = look;
    seen->good_until = deadline_in(rest > looker->about->interval_ms ? rest : looker->about->interval_ms);
    if (!done)
        drop_views(seen);
    return done;
}

/* A moment of now_ms(), which counts suspend; no clock that can be waited by does. */
static void wait_until(struct looker *looker, int64_t due) {
    struct timespec until;
    int64_t ms = due - now_ms();

    clock_gettime(CLOCK_MONOTONIC, &until);
    ms += until.tv_nsec / 1000000;
    until.tv_sec += ms / 1000;
    until.tv_nsec = until.tv_nsec % 1000000 + ms % 1000 * 1000000;
    pthread_cond_clockwait(&looker->changed, &looker->mutex, CLOCK_MONOTONIC, &until);
}

/* Until a look is wanted, due, and the one before was collected. False: the end. The mutex is held. */
static bool await(struct looker *looker, int64_t due) {
    while (!looker->stopping && (!looker->wanted || looker->full || now_ms() < due))
        if (!looker->wanted || looker->full)
            pthread_cond_wait(&looker->changed, &looker->mutex);
        else
            wait_until(looker, due);
    return !looker->stopping;
}

static void *run(void *data) {
    struct looker *looker = data;
    int64_t due = 0;

    pthread_mutex_lock(&looker->mutex);
    while (await(looker, due)) {
        struct seen seen = {0};

        pthread_mutex_unlock(&looker->mutex);
        bool taken = take(looker, &seen);
        if (!taken)
            say("a look was left out: out of memory");
        pthread_mutex_lock(&looker->mutex);
        due = taken ? seen.good_until : deadline_in(looker->about->interval_ms);
        looker->seen = seen;
        looker->full = taken;
        if (taken)
            eventfd_write(looker->event, 1);
    }
    pthread_mutex_unlock(&looker->mutex);
    return NULL;
}

struct looker *looker_start(struct watch *watch, const struct about *about) {
    struct looker *looker = calloc(1, sizeof *looker);

    if (looker == NULL)
        return NULL;
    *looker = (struct looker){.watch = watch, .about = about, .event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_init(&looker->mutex, NULL);
    pthread_mutex_init(&looker->past_mutex, NULL);
    pthread_cond_init(&looker->changed, NULL);
    if (looker->event >= 0 && history_init(&looker->history) && pthread_create(&looker->thread, NULL, run, looker) == 0)
        return looker;
    history_finish(&looker->history);
    free(looker);
    return NULL;
}

void looker_stop(struct looker *looker) {
    pthread_mutex_lock(&looker->mutex);
    looker->stopping = true;
    pthread_cond_signal(&looker->changed);
    pthread_mutex_unlock(&looker->mutex);
    pthread_join(looker->thread, NULL);
    drop_views(&looker->seen);
    look_finish(&looker->last);
    history_finish(&looker->history);
    close(looker->event);
    free(looker);
}

void looker_want(struct looker *looker, bool wanted) {
    pthread_mutex_lock(&looker->mutex);
    if (wanted != looker->wanted)
        pthread_cond_signal(&looker->changed);
    looker->wanted = wanted;
    pthread_mutex_unlock(&looker->mutex);
}

int looker_fd(const struct looker *looker) {
    return looker->event;
}

bool looker_collect(struct looker *looker, struct seen *ret) {
    eventfd_t count;

    pthread_mutex_lock(&looker->mutex);
    bool full = looker->full;
    if (full) {
        eventfd_read(looker->event, &count);
        *ret = looker->seen;
        looker->seen = (struct seen){0};
        looker->full = false;
        pthread_cond_signal(&looker->changed);
    }
    pthread_mutex_unlock(&looker->mutex);
    return full;
}

void looker_note(struct looker *looker, const struct event *event) {
    pthread_mutex_lock(&looker->past_mutex);
    history_note(&looker->history, event);
    pthread_mutex_unlock(&looker->past_mutex);
}

void looker_history(struct looker *looker, void (*read)(const struct history *history, void *data), void *data) {
    pthread_mutex_lock(&looker->past_mutex);
    read(&looker->history, data);
    pthread_mutex_unlock(&looker->past_mutex);
}
