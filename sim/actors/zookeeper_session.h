/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_session.h - a session with ZooKeeper for code that blocks: one request at a time.
 */
#ifndef PAWL_SIM_ZOOKEEPER_SESSION_H
#define PAWL_SIM_ZOOKEEPER_SESSION_H

#include <zookeeper/zookeeper.h>

#include "actor.h"

struct actor_session {
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

enum session_verb { SESSION_CREATE, SESSION_DELETE, SESSION_LIST, SESSION_GET, SESSION_CHECK };

struct session_request {
    enum session_verb verb;
    const char *path;
    const char *data; /* of create */
    int flags;        /* of create: ZOO_EPHEMERAL, ... */
    bool watch;       /* of list and get */
};

/* 0: there is a session. PAWL_ECONNLOST: not now. */
int actor_session_open(struct actor_session *session);
void actor_session_close(struct actor_session *session);

/* Ask once. ZCONNECTIONLOSS: nobody knows. ZSESSIONEXPIRED: there is no session any more, or no server for too long. */
int actor_session_ask(struct actor_session *session, const struct session_request *request);
/* Ask until there is an answer, for two session times at most; it may be carried out twice. Never ZCONNECTIONLOSS. */
int actor_session_insist(struct actor_session *session, const struct session_request *request);
/* Wait for the connection to come back, until then at the latest. */
bool actor_session_mended(struct actor_session *session, int64_t until);
/* Wait until a watch fires, or it is over. False: the session is. */
bool actor_session_sleep(struct actor_session *session);
/* Until then, or until it is over: the session is kept alive. */
void actor_session_nap(struct actor_session *session, int64_t until);
/* The session time that was granted. */
int64_t actor_session_ns(const struct actor_session *session);
/* Is it an answer that leaves open what happened, or one that asks to come later? */
bool actor_session_is_loss(int code);
/* Make a node and those above it, with these flags, as far as they are missing. */
int actor_session_make_path(struct actor_session *session, const char *path, int flags);

#endif
