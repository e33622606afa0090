/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - several engines behind one: opened together, served in one thread, their upcalls going to the one in front of them.
 *
 * The members are ordinary engines that have `member` (engine.h). Nobody parks in them. Two kinds of threads work on them, one at a time
 * (`turn`), and never sleep while they do:
 *
 *   the service thread   pawl__crew_serve: connections, timers, what comes unasked; and answers that nobody else reads
 *   one caller           pawl__crew_lead: the answers to what it asked, from all members, with no wake-up in between
 *
 * Upcalls come from either, with `turn` held: they may call down, and must not hold a lock that is held while sleeping here.
 * The order is: turn, then the mutex of the engine in front, then that of a member.
 */
#ifndef PAWL_CREW_H
#define PAWL_CREW_H

#include <pthread.h>

#include "engine/engine.h"
#include "os/sleep.h"

enum { PAWL__CREW_MOST = 31 };

/* Whose notes they are. */
struct pawl__crew_place {
    struct pawl__engine *front;
    const char *name;
};

struct pawl__crew {
    struct pawl__engine *members[PAWL__CREW_MOST];
    struct pawl__crew_place places[PAWL__CREW_MOST];
    unsigned count;
    pthread_mutex_t turn;
    int wake_fd, timer_fd, lead_fd;
    struct spin spin; /* the leading caller's; it never looks unless the engine in front has it begin (pawl__spin_init) */
};

int pawl__crew_init(struct pawl__crew *crew, struct pawl_error *reterr);
/* Open one more. Its notes (with the place's name, which stays the caller's) and warnings go where those of `front` go, what it tells to
 * `tell` and `waits`, with `front`. */
int pawl__crew_add(struct pawl__crew *crew, const struct pawl__engine_impl *impl, const struct pawl__setup *setup,
                   struct pawl__crew_place place, pawl__tell_fn *tell, pawl__waits_fn *waits, struct pawl_error *reterr);
void pawl__crew_close(struct pawl__crew *crew, int64_t deadline);
void pawl__crew_forked(struct pawl__crew *crew);

/* Sleep until a member has something to do, one of those in the set `answers` (bits) has answered, wake() or alarm(), or `until`; then let
 * them work. */
void pawl__crew_serve(struct pawl__crew *crew, int64_t until, uint32_t answers);
void pawl__crew_wake(struct pawl__crew *crew);
/* Make serve() end its sleep at `when`, without waking anybody before. */
void pawl__crew_alarm(struct pawl__crew *crew, int64_t when);

/* Sleep until any member has answered something, rouse(), or `until`; then take the answers. `eager`: look for them first. */
void pawl__crew_lead(struct pawl__crew *crew, int64_t until, bool eager);
void pawl__crew_rouse(struct pawl__crew *crew);

/* Does a member owe an answer since before `then`? One that has come, and that we have not read, does not count. */
bool pawl__crew_owes(struct pawl__crew *crew, unsigned member, int64_t then);
/* Those that owe an answer since before `then` (bits), and since when the others do; PAWL__NEVER: they don't. */
int64_t pawl__crew_oldest(struct pawl__crew *crew, int64_t then, uint32_t *retset);

#endif
