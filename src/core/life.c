/* SPDX-License-Identifier: Apache-2.0
 *
 * life.c - who keeps what alive: the references of clients, cohorts and handles, and their memory.
 *
 * A handle lasts as long as its user, the calls under way and the events that name it. A cohort lasts as long as its handles and its
 * claims; a client as long as its user and its handles. So what a claim, a callback or a call points to is there.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/claim.h"
#include "base/name.h"

static struct cohort_list *new_table(size_t buckets) {
    struct cohort_list *table = malloc(buckets * sizeof *table);

    for (size_t i = 0; table && i < buckets; i++)
        TAILQ_INIT(&table[i]);
    return table;
}

/* ---- Clients -------------------------------------------------------------------------------------------------------------- */

struct pawl *pawl__client_new(const struct pawl_options *options) {
    struct pawl *client = calloc(1, sizeof *client);

    if (client)
        client->table.buckets = new_table(PAWL__COHORT_BUCKETS);
    if (!client || !client->table.buckets) {
        free(client);
        return NULL;
    }
    client->flags = options->flags;
    client->callbacks.log = options->log;
    client->callbacks.log_data = options->log_data;
    client->callbacks.interrupted = options->interrupted;
    client->callbacks.interrupted_data = options->interrupted_data;
    client->callbacks.deadlock = options->deadlock;
    client->callbacks.deadlock_data = options->deadlock_data;
    client->references = 1;
    client->events.fd = -1;
    atomic_init(&client->service.due, PAWL__NEVER);
    pthread_mutex_init(&client->mutex, NULL);
    pthread_mutex_init(&client->service.mutex, NULL);
    pthread_mutex_init(&client->events.mutex, NULL);
    pthread_cond_init(&client->events.idle, NULL);
    pthread_mutex_init(&client->observers.mutex, NULL);
    pthread_cond_init(&client->observers.wake, NULL);
    pthread_cond_init(&client->observers.idle, NULL);
    TAILQ_INIT(&client->observers.list);
    TAILQ_INIT(&client->events.for_dispatch);
    TAILQ_INIT(&client->events.for_service);
    client->table.bucket_count = PAWL__COHORT_BUCKETS;
    TAILQ_INIT(&client->table.every);
    return client;
}

void pawl__client_free(struct pawl *client) {
    if (client->events.fd >= 0)
        close(client->events.fd);
    pthread_cond_destroy(&client->observers.idle);
    pthread_cond_destroy(&client->observers.wake);
    pthread_mutex_destroy(&client->observers.mutex);
    pthread_cond_destroy(&client->events.idle);
    pthread_mutex_destroy(&client->events.mutex);
    pthread_mutex_destroy(&client->service.mutex);
    pthread_mutex_destroy(&client->mutex);
    free(client->engine);
    free(client->table.buckets);
    free(client);
}

void pawl__client_ref(struct pawl *client) {
    pthread_mutex_lock(&client->mutex);
    client->references++;
    pthread_mutex_unlock(&client->mutex);
}

void pawl__client_put(struct pawl *client) {
    bool last;

    pthread_mutex_lock(&client->mutex);
    last = --client->references == 0;
    pthread_mutex_unlock(&client->mutex);
    if (last)
        pawl__client_free(client);
}

void pawl__client_one_less(struct pawl *client, _Atomic unsigned *count) {
    if (atomic_fetch_sub(count, 1) != 1 || !atomic_load(&client->closed))
        return;
    pthread_mutex_lock(&client->events.mutex);
    pthread_cond_broadcast(&client->events.idle);
    pthread_mutex_unlock(&client->events.mutex);
}

/* ---- Cohorts -------------------------------------------------------------------------------------------------------------- */

static struct cohort_list *bucket_of(const struct pawl *client, uint32_t hash) {
    return &client->table.buckets[hash & (client->table.bucket_count - 1)];
}

/* Keep the chains short. Without memory they stay long, and all works. */
static void grow_table(struct pawl *client) {
    size_t buckets = 4 * client->table.bucket_count;
    struct cohort_list *table = client->table.cohorts > client->table.bucket_count ? new_table(buckets) : NULL;
    struct cohort *cohort;

    if (!table)
        return;
    free(client->table.buckets);
    client->table.buckets = table;
    client->table.bucket_count = buckets;
    TAILQ_FOREACH(cohort, &client->table.every, every) {
        TAILQ_INSERT_TAIL(bucket_of(client, cohort->name_hash), cohort, link);
    }
}

struct cohort *pawl__cohort_sibling(const struct cohort *cohort, const struct cohort *after) {
    struct cohort *next = after ? TAILQ_NEXT(after, link) : TAILQ_FIRST(bucket_of(cohort->client, cohort->name_hash));

    while (next && (next == cohort || next->name_hash != cohort->name_hash || strcmp(next->name, cohort->name) != 0))
        next = TAILQ_NEXT(next, link);
    return next;
}

/* A new cohort, and those of its name that are there, know that they are not alone. */
static void meet_siblings(struct cohort *cohort) {
    struct cohort *other = NULL;

    while ((other = pawl__cohort_sibling(cohort, other))) {
        atomic_store(&other->has_siblings, true);
        atomic_store(&cohort->has_siblings, true);
    }
}

struct cohort *pawl__cohort_get(struct pawl *client, const char *name, enum pawl_kind kind, uint32_t limit, bool nonreentrant) {
    size_t length = strlen(name);
    uint32_t hash = pawl__name_hash(name, length);
    struct cohort *cohort;

    TAILQ_FOREACH(cohort, bucket_of(client, hash), link) {
        if (cohort->name_hash == hash && strcmp(cohort->name, name) == 0 && cohort->kind == kind && cohort->limit == limit &&
            cohort->nonreentrant == nonreentrant) {
            cohort->references++;
            atomic_fetch_add(&cohort->users, 1);
            return cohort;
        }
    }
    cohort = calloc(1, sizeof *cohort + length + 1);
    if (!cohort)
        return NULL;
    cohort->client = client;
    cohort->engine = client->engine;
    cohort->references = 1;
    atomic_init(&cohort->users, 1);
    cohort->kind = kind;
    cohort->limit = limit;
    cohort->nonreentrant = nonreentrant;
    cohort->joins = client->options.handoffs > 0 && kind != PAWL_SEMAPHORE;
    cohort->name_length = (uint32_t)length;
    cohort->name_hash = hash;
    memcpy(cohort->name, name, length + 1);
    pthread_mutex_init(&cohort->mutex, NULL);
    TAILQ_INIT(&cohort->claims);
    TAILQ_INIT(&cohort->unsettled);
    TAILQ_INIT(&cohort->leaving);
    TAILQ_INIT(&cohort->parts);
    TAILQ_INSERT_TAIL(bucket_of(client, hash), cohort, link);
    TAILQ_INSERT_TAIL(&client->table.every, cohort, every);
    client->table.cohorts++;
    meet_siblings(cohort);
    grow_table(client);
    return cohort;
}

static void cohort_free(struct cohort *cohort) {
    struct pawl *client = cohort->client;
    struct claim *claim;

    while ((claim = TAILQ_FIRST(&cohort->leaving))) { /* the client was closed before the engine had settled them */
        TAILQ_REMOVE(&cohort->leaving, claim, link);
        pawl__label_put(claim->label);
        free(claim);
    }
    TAILQ_REMOVE(bucket_of(client, cohort->name_hash), cohort, link);
    TAILQ_REMOVE(&client->table.every, cohort, every);
    pawl__counts_add(&client->counts[cohort->kind], &cohort->counts);
    client->table.cohorts--;
    pthread_mutex_destroy(&cohort->mutex);
    free(cohort->spare);
    free(cohort);
}

void pawl__cohort_reap(struct cohort *cohort) {
    bool idle;

    if (cohort->references)
        return;
    pthread_mutex_lock(&cohort->mutex);
    idle = cohort->claim_count == 0 || atomic_load(&cohort->client->ended);
    pthread_mutex_unlock(&cohort->mutex);
    if (idle)
        cohort_free(cohort);
}

void pawl__cohort_put(struct cohort *cohort) {
    cohort->references--;
    pawl__cohort_reap(cohort);
}

/* ---- Handles -------------------------------------------------------------------------------------------------------------- */

void pawl__label_put(struct label *label) {
    if (label && --label->references == 0)
        free(label);
}

void pawl__lock_put(struct pawl_lock *lock) {
    struct pawl *client = lock->client;
    struct cohort *cohort = lock->cohort;
    bool last;

    pthread_mutex_lock(&cohort->mutex);
    last = --lock->references == 0;
    if (last)
        pawl__label_put(lock->label);
    pthread_mutex_unlock(&cohort->mutex);
    if (!last)
        return;
    pthread_mutex_lock(&client->mutex);
    pawl__cohort_put(cohort);
    pthread_mutex_unlock(&client->mutex);
    free(lock->spare);
    free(lock);
    pawl__client_put(client);
}
