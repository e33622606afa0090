/* SPDX-License-Identifier: Apache-2.0
 *
 * fork.c - the clients of this process. A child must not act as its parent, nor keep the parent's holds alive: after fork its copies
 * of the clients are marked, and the engines let go of what they share with the parent. It has another number, too (pawl_agent). The list
 * and the number are the only state of the library that is not part of a client, but for the counter of owners in handle.c, and when
 * deadlock.c looked last.
 *
 * Two mutexes, in this order: one is held while a client is being opened, which may take long, the other guards the list. Who forks has
 * both, so that the child finds them free.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/core.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, pawl) clients = TAILQ_HEAD_INITIALIZER(clients);
static uint64_t agent; /* 0: none yet */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&list_mutex);
}

static void after_in_parent(void) {
    pthread_mutex_unlock(&list_mutex);
    pthread_mutex_unlock(&mutex);
}

static void after_in_child(void) {
    struct pawl *client;

    TAILQ_FOREACH(client, &clients, all) {
        atomic_store(&client->forked, true);
        impl_of(client)->forked(client->engine);
    }
    TAILQ_INIT(&clients);
    agent = 0;
    pthread_mutex_unlock(&list_mutex);
    pthread_mutex_unlock(&mutex);
}

static void install(void) {
    pthread_atfork(before, after_in_parent, after_in_child);
}

void pawl__fork_hold(void) {
    pthread_once(&once, install);
    pthread_mutex_lock(&mutex);
}

void pawl__fork_go_on(struct pawl *opened) {
    if (opened) {
        pthread_mutex_lock(&list_mutex);
        TAILQ_INSERT_TAIL(&clients, opened, all);
        pthread_mutex_unlock(&list_mutex);
    }
    pthread_mutex_unlock(&mutex);
}

void pawl__fork_agent(uint64_t client_id, char ret[PAWL__AGENT_SIZE]) {
    if (!agent)
        agent = client_id;
    snprintf(ret, PAWL__AGENT_SIZE, "%016" PRIx64, agent);
}

void pawl__fork_forget(struct pawl *client) {
    pthread_mutex_lock(&list_mutex);
    TAILQ_REMOVE(&clients, client, all);
    pthread_mutex_unlock(&list_mutex);
}

void pawl__clients_lock(void) {
    pthread_mutex_lock(&list_mutex);
}

void pawl__clients_unlock(void) {
    pthread_mutex_unlock(&list_mutex);
}

struct pawl *pawl__clients_next(const struct pawl *client) {
    return client ? TAILQ_NEXT(client, all) : TAILQ_FIRST(&clients);
}
