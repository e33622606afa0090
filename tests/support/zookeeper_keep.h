/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_keep.h - what the tests of kept locks share. KEEPER is the one that keeps, behind the proxy; it does so for so long, and its
 * session lasts for so long, that nothing else gives a lock back.
 */
#ifndef PAWL_ZOOKEEPER_KEEP_H
#define PAWL_ZOOKEEPER_KEEP_H

#include "zookeeper_harness.h"

#define KEEPS "?keep=600000&session=30000&retry=20,20"
#define KEPT_GUID "-8fff-8ff"

static struct pawl *keeper, *rival;
static struct pawl_lock *kept, *wants;
static struct acquire waiter;

static inline int set_up(void **state) {
    if (harness_set_up(state) != 0)
        return -1;
    keeper = open_proxied(KEEPS);
    rival = open_direct("");
    return 0;
}

static inline int tear_down(void **state) {
    pawl_lock_free(kept);
    pawl_lock_free(wants);
    pawl_close(keeper);
    pawl_close(rival);
    kept = wants = NULL;
    return harness_tear_down(state);
}

static inline void use(struct pawl_lock *lock) {
    acquire(lock);
    release(lock);
}

static inline void read_once(struct pawl_lock *lock) {
    assert_works(pawl_acquire_shared(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_shared(lock, &error), &error);
}

/* Does the server have the watches of the client's only claim: on its queue, and on its own node? */
static inline bool listens(struct pawl *client) {
    struct zk_engine *zk = zk_of(client->engine);
    struct zk_claim *claim;
    bool both;

    pawl__zk_lock();
    claim = TAILQ_FIRST(&zk->claims);
    both = claim && claim->watch.queue && claim->watch.queue->state == ZK_WATCH_ARMED && claim->watch.own &&
           claim->watch.own->state == ZK_WATCH_ARMED;
    pawl__zk_unlock(&zk->session);
    return both;
}

static inline void await_listens(struct pawl *client) {
    await(listens(client), "no watch on the queue");
}

static inline uint64_t requests(struct pawl *client) {
    struct zk_engine *zk = zk_of(client->engine);
    uint64_t count;

    pawl__zk_lock();
    count = zk->session.requests;
    pawl__zk_unlock(&zk->session);
    return count;
}

/* A mutex that KEEPER has, and nobody in it; and a handle of the rival's. */
static inline void keep_mutex(void) {
    kept = new_mutex(keeper, 0);
    wants = new_mutex(rival, 0);
    use(kept);
    await_listens(keeper);
    await_nodes("", 1);
}

/* The rival gets it, and KEEPER has nothing more to do with it. */
static inline void rival_gets_it(void) {
    assert_int_equal(acquire_wait(&waiter), 0);
    await_nodes("", 1);
    release(wants);
    await_nodes("", 0);
}

#define KEPT(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
