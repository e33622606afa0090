/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c - callbacks that are due, and who runs them: pawl_dispatch() in the user's loop, or the service thread.
 *
 * An event is posted with its cohort's mutex held and run with none. It holds a reference to its handle, so that the handle's memory
 * lasts until it has run. events.mutex is a leaf: nothing else is taken under it.
 */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "os/bell.h"
#include "core/core.h"
#include "os/descriptor.h"
#include "base/error.h"
#include "os/uncancelled.h"

void pawl__event_post(struct pawl *client, struct event *event) {
    bool by_dispatch = event->acquired || event->run || client->flags & PAWL_OPEN_LOSS_BY_DISPATCH;
    UNCANCELLED;

    pthread_mutex_lock(&client->events.mutex);
    if (by_dispatch) {
        TAILQ_INSERT_TAIL(&client->events.for_dispatch, event, link);
        if (client->events.fd >= 0)
            bell_ring(client->events.fd);
    } else {
        TAILQ_INSERT_TAIL(&client->events.for_service, event, link);
    }
    pthread_mutex_unlock(&client->events.mutex);
    if (!by_dispatch)
        pawl__service_due(client, 0);
}

int pawl_fd(struct pawl *client) {
    int fd = pawl__client_check(client, NULL);
    UNCANCELLED;

    if (fd < 0)
        return fd;
    pthread_mutex_lock(&client->events.mutex);
    if (client->events.fd < 0) {
        client->events.fd = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (client->events.fd >= 0 && !TAILQ_EMPTY(&client->events.for_dispatch))
            bell_ring(client->events.fd);
    }
    fd = client->events.fd;
    pthread_mutex_unlock(&client->events.mutex);
    return fd < 0 ? PAWL_ESYSTEM : fd;
}

/* The first event of the list that has not run; the descriptor falls silent with the last one. */
static struct event *take(struct pawl *client, struct event_list *list) {
    struct event *event;

    pthread_mutex_lock(&client->events.mutex);
    event = TAILQ_FIRST(list);
    if (event)
        TAILQ_REMOVE(list, event, link);
    if (list == &client->events.for_dispatch && TAILQ_EMPTY(list) && client->events.fd >= 0)
        bell_silence(client->events.fd);
    if (event && list == &client->events.for_service)
        client->events.calling = event->lock;
    pthread_mutex_unlock(&client->events.mutex);
    return event;
}

static void run_acquired(struct event *event) {
    struct pawl_lock *lock = event->lock;
    struct waiter *waiter = event->waiter;
    int code = waiter->state == WAITER_ENDED ? waiter->error.code : 0;

    pthread_mutex_lock(&lock->cohort->mutex);
    lock->pending--;
    pthread_mutex_unlock(&lock->cohort->mutex);
    event->acquired(lock, code, code ? &waiter->error : NULL, event->data);
}

static void run_loss(struct event *event) {
    struct pawl_lock *lock = event->lock;
    struct calling calling;
    pawl_loss_fn *fn;
    void *data;

    pthread_mutex_lock(&lock->cohort->mutex);
    fn = lock->on_loss;
    data = lock->on_loss_data;
    pthread_mutex_unlock(&lock->cohort->mutex);
    if (!fn)
        return;
    pawl__calling_begin(&calling, CALLING_LOSS, lock->client);
    fn(lock, event->state, event->token, &event->error, data);
    pawl__calling_end(&calling);
}

static void run(struct event *event) {
    struct pawl_lock *lock = event->lock;

    if (event->run) {
        event->run(event);
        return;
    }
    if (event->acquired)
        run_acquired(event);
    else
        run_loss(event);
    if (event->waiter)
        free(event->waiter->hold);
    free(event->waiter);
    free(event);
    pawl__lock_put(lock);
}

int pawl_dispatch(struct pawl *client) {
    int count = pawl__client_check(client, NULL);
    struct event *event;
    UNCANCELLED;

    if (count < 0 || !(event = take(client, &client->events.for_dispatch)))
        return count;
    pawl__client_ref(client); /* a callback may free the last handle, and close the client */
    for (; event; event = take(client, &client->events.for_dispatch), count++)
        run(event);
    pawl__client_put(client);
    return count;
}

void pawl__events_serve(struct pawl *client) {
    struct event *event;

    while ((event = take(client, &client->events.for_service))) {
        run(event);
        pthread_mutex_lock(&client->events.mutex);
        client->events.calling = NULL;
        pthread_cond_broadcast(&client->events.idle);
        pthread_mutex_unlock(&client->events.mutex);
    }
}

void pawl__events_quiesce(struct pawl_lock *lock) {
    struct pawl *client = lock->client;

    pthread_mutex_lock(&client->events.mutex);
    while (client->events.calling == lock && !pthread_equal(pthread_self(), client->service.self))
        pthread_cond_wait(&client->events.idle, &client->events.mutex);
    pthread_mutex_unlock(&client->events.mutex);
}
