/* SPDX-License-Identifier: Apache-2.0
 *
 * scene.h - a scene on the simulated engine's virtual clock, and the transcript of all that happens in it. Nothing here depends on the
 * machine's speed.
 *
 * Lines are `client time what`: '>' is a call down the seam, '<' a word from the engine, the rest what the user's callbacks heard.
 */
#ifndef PAWL_SCENE_H
#define PAWL_SCENE_H

#include "test.h"

#include "core.h"
#include "engine/sim.h"

enum { SCENE_CLIENTS = 3, SCENE_LOCKS = 12 };

struct scene {
    struct sim_server *server;
    struct pawl *clients[SCENE_CLIENTS];
    size_t count;
    struct pawl_lock *locks[SCENE_LOCKS];
    size_t lock_count;
    char text[16384];
    size_t used;
};
extern struct scene scene;

int scene_set_up(void **state);
int scene_tear_down(void **state);

/* A client: A, then B, then C in the transcript; and handles, which own their holds. All of it is gone after the test. */
struct pawl *scene_client(void);
struct pawl_lock *scene_mutex(struct pawl *of, const char *name);
struct pawl_lock *scene_rwlock(struct pawl *of, const char *name);
/* Acquire, and say `who` was told what in the end. */
void scene_start(struct pawl_lock *lock, enum pawl_mode mode, int64_t timeout_ms, const char *who);
pawl_acquired_fn scene_acquired;
void scene_release(struct pawl_lock *lock);
/* Say when the hold is lost. */
void scene_listen(struct pawl_lock *lock, const char *who);
/* Let time go by. */
void scene_run(int64_t ms);
/* That, to the byte, has happened since the last time. */
void scene_expect(const char *text);

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

#endif
