/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.h - between the files of this folder: what all actors are made of.
 */
#ifndef PAWL_SIM_ACTOR_H
#define PAWL_SIM_ACTOR_H

#include <stddef.h>

#include "actors.h"
#include "pawl.h"
#include "torture/schedule.h"

#define ACTOR_MS INT64_C(1000000)
enum { ACTOR_NAME = 256, ACTOR_UUID = 37 };

struct actor;

/* What one library does. Codes are 0 or a PAWL_E...; after PAWL_ECONNLOST the actor is closed and opened anew. */
struct actor_ops {
    /* Connect. May be tried again. */
    int (*open)(struct actor *actor);
    void (*close)(struct actor *actor);
    /* Wait until it is held; PAWL_ECANCELED: it is over. Sets sent_at. */
    int (*take)(struct actor *actor);
    /* Renew the hold; NULL: this library does not. Sets sent_at. */
    int (*renew)(struct actor *actor);
    int (*drop)(struct actor *actor);
    /* Let time go by until then, or until it is over; NULL: nothing needs to be done meanwhile. */
    void (*nap)(struct actor *actor, int64_t until);
};

/* The first member of every actor. */
struct actor {
    const struct actor_place *place;
    const struct actor_ops *ops;
    struct dice dice;
    int64_t sent_at;  /* when the last request left that made or renewed the hold */
    int64_t lease_ns; /* how long that is good for */
    char mode;        /* of what it wants or holds */
    unsigned permits;
};

/* Take part until it is over. `shared`: so many percent of its wishes are for a shared lock. */
struct actor_style {
    char mode;           /* x, p */
    unsigned shared;     /* percent: s instead */
    unsigned permits;    /* takes 1 to so many at once */
    unsigned renew_part; /* renews after this part of the lease: 3 is a third */
};
int actor_run(struct actor *actor, const struct actor_style *style);
void actor_init(struct actor *actor, const struct actor_place *place, const struct actor_ops *ops);

int64_t actor_now(void);     /* ns, by the clock that also runs while the machine sleeps */
int64_t actor_wall_ms(void); /* by the wall clock */
bool actor_over(const struct actor *actor);
/* Until then, or until it is over. */
void actor_nap(const struct actor *actor, int64_t until);
/* When to look again whether it is over, if one waits until `until`; in ms from now on, for poll(). */
int actor_slice_ms(int64_t until);
/* A UUID of version 4, as text. */
void actor_uuid(struct actor *actor, char ret[ACTOR_UUID]);
/* The same without its dashes. */
void actor_hex(struct actor *actor, char ret[ACTOR_UUID]);

#endif
