/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.h - what operators ask: on a session, beside the claims.
 */
#ifndef PAWL_ZK_OPERATOR_H
#define PAWL_ZK_OPERATOR_H

#include "engine/zookeeper/session/session.h"

/* As the seam's (engine/engine.h). */
int pawl__zk_survey(struct zk_session *session, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr);
int pawl__zk_break(struct zk_session *session, const char *name, uint64_t token, bool now, struct pawl_error *reterr);
int pawl__zk_examine(struct zk_session *session, pawl_finding_fn *visit, void *data, struct pawl_error *reterr);

/* ---- Requests that a caller's thread waits for: call.c. All of it with the mutex held --------------------------------------- */

struct zk_call {
    bool done, abandoned;
    int rc;
    int count;
    char **children;
    char *data; /* NUL-terminated; NULL: none */
    struct Stat stat;
    int world; /* what an ACL lets everybody do */
};

enum zk_call_what { ZK_CALL_LIST, ZK_CALL_GET, ZK_CALL_ACL, ZK_CALL_SYNC, ZK_CALL_SET, ZK_CALL_DELETE };

/* Send; NULL: out of memory. Several may be on their way at once. `data`: of ZK_CALL_SET. */
struct zk_call *pawl__zk_call(struct zk_session *session, enum zk_call_what what, const char *path, const char *data);
/* ZooKeeper's code; ZOPERATIONTIMEOUT: no answer by the deadline. Lets go of the mutex meanwhile. */
int pawl__zk_call_wait(struct zk_session *session, struct zk_call *call, int64_t deadline);
void pawl__zk_call_free(struct zk_call *call);

#endif
