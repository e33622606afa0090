/* SPDX-License-Identifier: Apache-2.0
 *
 * scene.h - a scene in a simulated world, and the transcript of all that happens in it. Clients of pawl, with their engine and service
 * thread as they are, talk to a simulated server; what they send arrives a millisecond later, and threads run until they block. So
 * every run is the same, on every machine.
 *
 * Lines are `who time what`: '>' is a call down the seam, '<' a word from the engine, the engine's own steps have no sign, and the
 * rest is what the user's callbacks heard. The time is that since the last client was opened, in whole milliseconds. No word gets from one
 * client to another within the same one, so what happens in it is told client by client.
 *
 * Each client reaches the server by a port of its own: what is wrong with the way is wrong for one client.
 */
#ifndef PAWL_SCENE_H
#define PAWL_SCENE_H

#include "../../tests/support/test.h"

#include "../servers/redis.h"
#include "../servers/zookeeper.h"
#include "../world/world.h"

enum { SCENE_CLIENTS = 3, SCENE_LOCKS = 40, SCENE_LINES = 200, SCENE_TESTS = 32 };

struct scene_line {
    int64_t ms;
    size_t client;
    char text[160];
};

struct scene {
    struct redis *redis; /* one of the two is there */
    struct zookeeper *zookeeper;
    struct site *sites[SCENE_CLIENTS]; /* each client's way to it */
    struct pawl *clients[SCENE_CLIENTS];
    size_t count;
    struct pawl_lock *locks[SCENE_LOCKS];
    char names[SCENE_LOCKS][8];
    size_t lock_count;
    uint64_t tokens;                  /* where they begin */
    size_t speaking;                  /* whose callbacks run */
    uint64_t messages[SCENE_CLIENTS]; /* the server had by the last time that somebody asked */
    int64_t zero;
    struct scene_line lines[SCENE_LINES];
    size_t line_count;
};
extern struct scene scene;

/* A client: A, then B, then C in the transcript; and handles, which own their holds. All of it is gone after the test. */
struct pawl *scene_client(void);
/* By which way, so that two may have the same; and more options of the URL: "&command=5000". */
struct pawl *scene_client_with(size_t way, const char *more);
struct pawl_lock *scene_mutex(struct pawl *of, const char *name);
struct pawl_lock *scene_rwlock(struct pawl *of, const char *name);
/* Acquire, and say `who` was told what in the end. */
void scene_start(struct pawl_lock *lock, enum pawl_mode mode, int64_t timeout_ms, const char *who);
pawl_acquired_fn scene_acquired;
void scene_release(struct pawl_lock *lock);
/* Close it now. */
void scene_close(size_t client);
/* Say when the hold is lost. */
void scene_listen(struct pawl_lock *lock, const char *who);
/* Let time go by, in which callbacks are dispatched; or in which they are not. */
void scene_run(int64_t ms);
void scene_wait(int64_t ms);
/* That, to the byte, has happened since the last time. */
void scene_expect(const char *text);

/* The way of a client to its server: cut, and refused until mended. Stopped: bytes wait, and nobody is told. */
void scene_cut(size_t client);
void scene_mend(size_t client);
void scene_stop(size_t client);
void scene_go_on(size_t client);
/* The next message of this client's is carried out, and its answer is lost with the connection. */
void scene_lose_answer(size_t client);
/* ZooKeeper ends the session of this client. */
void scene_expire(size_t client);
/* Messages that the server had of this client since the last time. */
unsigned scene_requests(size_t client);
/* What is at the server, but for counters: the keys, or the nodes without their directories; parted by blanks. */
const char *scene_left(void);

/* The tests of a program; each in a world of its own. What main() is to return. */
struct scene_test {
    const char *name;
    void (*play)(void **state);
};
#define SCENE_TEST(test) .name = #test, .play = test
int scene_main(const char *program, bool on_zookeeper, const struct scene_test *tests, size_t count);

#endif
