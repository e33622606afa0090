/* SPDX-License-Identifier: Apache-2.0
 *
 * errands.c - a look at one lock, and a break, in a thread of their own. See errands.h.
 */
#include "errands.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct list {
    struct errand *first, **end;
};

struct errands {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct looker *looker;
    struct watch watch;              /* the thread's own; no clients until the first errand */
    struct list breaks, looks, done; /* breaks go first: an operator waits, and a look may take long */
    bool stopping;
    int event;
};

static void put(struct list *list, struct errand *errand) {
    errand->next = NULL;
    *list->end = errand;
    list->end = &errand->next;
}

static struct errand *take_first(struct list *list) {
    struct errand *errand = list->first;

    if (errand != NULL) {
        list->first = errand->next;
        if (list->first == NULL)
            list->end = &list->first;
    }
    return errand;
}

void errand_free(struct errand *errand) {
    if (errand != NULL)
        free(errand->text);
    free(errand);
}

/* ---- answers -------------------------------------------------------------------------------------------------------------- */

static unsigned status_of(int code) {
    switch (code) {
    case PAWL_ETOKEN:
    case PAWL_EORPHAN:
    case PAWL_EKIND:
        return 409;
    case PAWL_EACCES:
        return 403;
    case PAWL_ENAME:
    case PAWL_EINVAL:
        return 400;
    case PAWL_EUNSUPPORTED:
        return 501;
    default:
        return 503;
    }
}

static void answer(struct errand *errand, unsigned status, const char *text) {
    int length = asprintf(&errand->text, "%s\n", text);

    errand->status = status;
    errand->length = length > 0 ? (size_t)length : 0;
    if (length < 0)
        errand->text = NULL;
}

struct telling {
    struct errand *errand;
    const struct look *look;
};

static void tell(const struct history *history, void *data) {
    struct telling *telling = data;
    FILE *out = open_memstream(&telling->errand->text, &telling->errand->length);

    if (out == NULL)
        return;
    write_lock(out, telling->look, telling->errand->what.name, history);
    fclose(out);
    telling->errand->status = 200;
}

static bool describe(struct place *place, const char *url, struct pawl *client) {
    struct pawl_info info;

    pawl_describe(client, &info);
    place->url = strdup(url);
    place->engine = strdup(info.engine);
    place->error = strdup("");
    place->lease_ms = info.lease_ms;
    place->notice_ms = info.notice_ms;
    return place->url != NULL && place->engine != NULL && place->error != NULL;
}

static void look_at(struct errands *errands, struct errand *errand, struct pawl *client) {
    struct look look = {0};
    struct pawl_error error;
    struct telling telling = {errand, &look};

    if (!look_start(&look, 1, wall_ms()) || !describe(&look.places[0], errand->what.url, client)) {
        answer(errand, 503, "out of memory");
    } else if (snapshot_take(&look.places[0].snapshot, client, errand->what.name, &error) < 0) {
        answer(errand, status_of(error.code), error.text);
    } else if (!look_settle(&look)) {
        answer(errand, 503, "out of memory");
    } else {
        looker_history(errands->looker, tell, &telling);
    }
    look_finish(&look);
}

/* What came of it is said, and stands among the events: an operator did something to a lock. */
static void tell_break(struct errands *errands, const struct errand *errand, const char *result) {
    const struct breaking *what = &errand->what;
    char *text = NULL;

    say("%s broke token %" PRIu64 " of '%s' at %s%s: %s", errand->who, what->token, what->name, what->url,
        what->now ? ", at once" : "", result);
    if (asprintf(&text, "by %s%s: %s", errand->who, what->now ? ", at once" : "", result) < 0)
        return;
    looker_note(errands->looker, &(struct event){.time_ms = wall_ms(),
                                                 .kind = EVENT_BREAK,
                                                 .url = (char *)what->url,
                                                 .lock = (char *)what->name,
                                                 .what = text,
                                                 .token = what->token,
                                                 .ms = -1});
    free(text);
}

static void break_hold(struct errands *errands, struct errand *errand, struct pawl *client) {
    const struct breaking *what = &errand->what;
    struct pawl_error error = {0};
    int result = pawl_break(client, what->name, what->token, what->now ? PAWL_BREAK_NOW : 0, &error);

    tell_break(errands, errand, result < 0 ? error.text : "done");
    if (result < 0)
        answer(errand, status_of(error.code), error.text);
    else
        answer(errand, 200,
               what->now ? "the lock is taken from its holder, which may still be acting" : "the holder is asked to give up");
}

static void do_errand(struct errands *errands, struct errand *errand) {
    struct pawl *client = watch_reach(&errands->watch, errand->what.url);

    if (client == NULL)
        answer(errand, 404, "there is no such URL here, or it can't be reached now");
    else if (errand->breaks)
        break_hold(errands, errand, client);
    else
        look_at(errands, errand, client);
}

/* ---- the thread ----------------------------------------------------------------------------------------------------------- */

static struct errand *take_next(struct errands *errands) {
    struct errand *errand = take_first(&errands->breaks);

    return errand != NULL ? errand : take_first(&errands->looks);
}

static void *run(void *data) {
    struct errands *errands = data;

    pthread_mutex_lock(&errands->mutex);
    while (!errands->stopping) {
        struct errand *errand = take_next(errands);

        if (errand == NULL) {
            pthread_cond_wait(&errands->changed, &errands->mutex);
            continue;
        }
        pthread_mutex_unlock(&errands->mutex);
        do_errand(errands, errand);
        pthread_mutex_lock(&errands->mutex);
        put(&errands->done, errand);
        eventfd_write(errands->event, 1);
    }
    pthread_mutex_unlock(&errands->mutex);
    return NULL;
}

struct errands *errands_start(const char *const urls[], size_t count, struct looker *looker) {
    struct errands *errands = calloc(1, sizeof *errands);

    if (errands == NULL)
        return NULL;
    *errands = (struct errands){.looker = looker, .event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    errands->breaks.end = &errands->breaks.first;
    errands->looks.end = &errands->looks.first;
    errands->done.end = &errands->done.first;
    pthread_mutex_init(&errands->mutex, NULL);
    pthread_cond_init(&errands->changed, NULL);
    if (watch_prepare(&errands->watch, urls, count, NULL) && errands->event >= 0 &&
        pthread_create(&errands->thread, NULL, run, errands) == 0)
        return errands;
    watch_close(&errands->watch);
    free(errands);
    return NULL;
}

void errands_stop(struct errands *errands) {
    struct errand *errand;

    pthread_mutex_lock(&errands->mutex);
    errands->stopping = true;
    pthread_cond_signal(&errands->changed);
    pthread_mutex_unlock(&errands->mutex);
    pthread_join(errands->thread, NULL);
    while ((errand = take_next(errands)) != NULL || (errand = take_first(&errands->done)) != NULL)
        errand_free(errand);
    watch_close(&errands->watch);
    close(errands->event);
    free(errands);
}

void errands_add(struct errands *errands, struct errand *errand) {
    pthread_mutex_lock(&errands->mutex);
    put(errand->breaks ? &errands->breaks : &errands->looks, errand);
    pthread_cond_signal(&errands->changed);
    pthread_mutex_unlock(&errands->mutex);
}

int errands_fd(const struct errands *errands) {
    return errands->event;
}

struct errand *errands_collect(struct errands *errands) {
    eventfd_t count;

    pthread_mutex_lock(&errands->mutex);
    struct errand *errand = take_first(&errands->done);
    if (errand == NULL)
        eventfd_read(errands->event, &count);
    pthread_mutex_unlock(&errands->mutex);
    return errand;
}
