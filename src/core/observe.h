/* SPDX-License-Identifier: Apache-2.0
 *
 * observe.h - the states of an observer, and of the thread that looks for all of a client. observe.c has their tables.
 */
#ifndef PAWL_CORE_OBSERVE_H
#define PAWL_CORE_OBSERVE_H

#include "core/core.h"

/* Is an observer to be told, is it being told? */
enum telling_state {
    TELLING_NOTHING,
    TELLING_POSTED,  /* its event is in the queue: PAWL_OPEN_LOSS_BY_DISPATCH */
    TELLING_CALLING, /* its callback runs */
    TELLING_LAST,    /* ... and is the last: nobody observes any more */
    TELLING_OVER,
    TELLING_STATES,
};

enum telling_event {
    TELLING_POST, /* there is news, to be told by an event */
    TELLING_CALL, /* ... to be told now */
    TELLING_RETURN,
    TELLING_END, /* pawl_unobserve */
    TELLING_EVENTS,
};
enum { TELLING_NEVER = TELLING_STATES, TELLING_IGNORED };

enum looking_event {
    LOOKING_START, /* somebody observes */
    LOOKING_LEAVE, /* nobody does any more, or the client is closed */
    LOOKING_JOIN,  /* the thread is gone */
    LOOKING_EVENTS,
};
enum { LOOKING_NEVER = LOOKING_STATES, LOOKING_IGNORED };

/* The tables: the next state, IGNORED or NEVER. */
int pawl__telling_move(enum telling_state state, enum telling_event event);
int pawl__looking_move(enum looking_state state, enum looking_event event);

#endif
