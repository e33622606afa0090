/* SPDX-License-Identifier: Apache-2.0
 *
 * service.c - the one thread that a client may have: it keeps time, runs the engine's serve(), and tells of losses.
 *
 * It starts when something needs it: always on engines without park(); on `local:` only with the first loss callback, asynchronous
 * acquire that has to wait, or release that the engine could not take at once. It blocks all signals.
 *
 * `due` is the earliest moment at which a cohort must be looked at; it may be too early, never too late.
 */
#include <signal.h>

#include "core/core.h"
#include "base/error.h"
#include "os/uncancelled.h"

void pawl__service_due(struct pawl *client, int64_t when) {
    int64_t due = atomic_load(&client->service.due);

    while (when < due)
        if (atomic_compare_exchange_weak(&client->service.due, &due, when)) {
            UNCANCELLED_IF(client->does_io);
            impl_of(client)->wake(client->engine);
            return;
        }
}

/* One round of its work, without serve(). Returns when the next is due. */
static int64_t tick(struct pawl *client) {
    int64_t now = pawl__boottime();

    /* Where the engine has check(), breaks are found by asking in every round. */
    if (now >= atomic_load(&client->service.due) || (impl_of(client)->extras->check && atomic_load(&client->loss_callbacks))) {
        atomic_store(&client->service.due, PAWL__NEVER); /* what becomes due from here on lowers it again */
        pawl__service_due(client, client->service.ops->tick(client, now));
    }
    client->service.ops->run(client);
    return atomic_load(&client->service.due);
}

static void *service_main(void *data) {
    struct pawl *client = data;

    pthread_mutex_lock(&client->events.mutex);
    client->service.self = pthread_self();
    pthread_mutex_unlock(&client->events.mutex);
    while (!atomic_load(&client->service.stop))
        impl_of(client)->serve(client->engine, tick(client));
    return NULL;
}

bool pawl__service_calls(struct pawl *client) {
    bool is_this;

    if (!pawl__calling)
        return false;
    pthread_mutex_lock(&client->events.mutex);
    is_this = pthread_equal(pthread_self(), client->service.self);
    pthread_mutex_unlock(&client->events.mutex);
    return is_this;
}

int pawl__client_check_asks(struct pawl *client, struct pawl_error *reterr) {
    if (impl_of(client)->parking || !pawl__service_calls(client))
        return 0;
    return pawl__fail(
        reterr, PAWL_EDEADLK,
        "this callback runs in the thread that reads what %s answers, and the call would wait for that: make it in another",
        client->info.url);
}

bool pawl__service_thread(pthread_t *ret, void *(*run)(void *), void *data) {
    sigset_t all, before;
    bool runs;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    runs = pthread_create(ret, NULL, run, data) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return runs;
}

bool pawl__service_start(struct pawl *client) {
    bool runs;

    if (atomic_load(&client->service.state) == SERVICE_RUNS)
        return true;
    pthread_mutex_lock(&client->service.mutex);
    runs = atomic_load(&client->service.state) == SERVICE_RUNS;
    if (!runs && atomic_load(&client->service.state) == SERVICE_NONE) {
        runs = pawl__service_thread(&client->service.thread, service_main, client);
        if (runs)
            atomic_store(&client->service.state, SERVICE_RUNS);
    }
    pthread_mutex_unlock(&client->service.mutex);
    return runs;
}

void pawl__service_stop(struct pawl *client) {
    bool ran;

    pthread_mutex_lock(&client->service.mutex);
    ran = atomic_exchange(&client->service.state, SERVICE_OVER) == SERVICE_RUNS;
    pthread_mutex_unlock(&client->service.mutex);
    if (!ran)
        return;
    atomic_store(&client->service.stop, true);
    impl_of(client)->wake(client->engine);
    pthread_join(client->service.thread, NULL);
}
