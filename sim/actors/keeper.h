/* SPDX-License-Identifier: Apache-2.0
 *
 * keeper.h - a session with ZooKeeper for code that blocks: one request at a time.
 */
#ifndef PAWL_SIM_KEEPER_H
#define PAWL_SIM_KEEPER_H

#include <zookeeper/zookeeper.h>

#include "actor.h"

struct keeper {
    const struct actor *actor; /* whose it is: to be set before all else */
    zhandle_t *handle;         /* NULL: there is no session */
    bool answered;             /* the request under way */
    bool woken;                /* a watch has fired, or the session has changed its state, since the last request */
    int code;                  /* the answer: ZOK, ZNONODE, ... */
    char created[ACTOR_NAME];
    char **children; /* the last list; ours */
    int child_count;
    zoo_op_result_t result; /* of a multi: written when the answer comes */
    int64_t proven_at;      /* when the last request left that the leader has answered */
};

enum keeper_verb { KEEPER_CREATE, KEEPER_DELETE, KEEPER_LIST, KEEPER_GET, KEEPER_CHECK };

struct keeper_request {
    enum keeper_verb verb;
    const char *path;
    const char *data; /* of create */
    int flags;        /* of create: ZOO_EPHEMERAL, ... */
    bool watch;       /* of list and get */
};

/* 0: there is a session. PAWL_ECONNLOST: not now. */
int keeper_open(struct keeper *keeper);
void keeper_close(struct keeper *keeper);

/* Ask once. ZCONNECTIONLOSS: nobody knows. ZSESSIONEXPIRED: there is no session any more, or no server for too long. */
int keeper_ask(struct keeper *keeper, const struct keeper_request *request);
/* Ask until there is an answer, for two session times at most; it may be carried out twice. Never ZCONNECTIONLOSS. */
int keeper_insist(struct keeper *keeper, const struct keeper_request *request);
/* Wait for the connection to come back, until then at the latest. */
bool keeper_mended(struct keeper *keeper, int64_t until);
/* Wait until a watch fires, or it is over. False: the session is. */
bool keeper_sleep(struct keeper *keeper);
/* Until then, or until it is over: the session is kept alive. */
void keeper_nap(struct keeper *keeper, int64_t until);
/* The session time that was granted. */
int64_t keeper_session_ns(const struct keeper *keeper);
/* Is it an answer that leaves open what happened, or one that asks to come later? */
bool keeper_is_loss(int code);
/* Make a node and those above it, with these flags, as far as they are missing. */
int keeper_make_way(struct keeper *keeper, const char *path, int flags);

#endif
