/* SPDX-License-Identifier: Apache-2.0
 *
 * call.h - see call.c. All of it with the mutex held.
 */
#ifndef PAWL_ZK_CALL_H
#define PAWL_ZK_CALL_H

#include "engine/zookeeper/session/session.h"

struct zk_call {
    bool done, abandoned;
    int rc;
    int count;
    char **children;
    char *data; /* NUL-terminated; NULL: none */
    struct Stat stat;
    int world; /* what an ACL lets everybody do */
};

/* Send; NULL: out of memory. Several may be on their way at once. */
struct zk_call *pawl__zk_call_list(struct zk_session *session, const char *path);
struct zk_call *pawl__zk_call_get(struct zk_session *session, const char *path);
struct zk_call *pawl__zk_call_acl(struct zk_session *session, const char *path);
struct zk_call *pawl__zk_call_sync(struct zk_session *session, const char *path);
struct zk_call *pawl__zk_call_set(struct zk_session *session, const char *path, const char *data, int version);
struct zk_call *pawl__zk_call_delete(struct zk_session *session, const char *path);
/* ZooKeeper's code; ZOPERATIONTIMEOUT: no answer by the deadline. Lets go of the mutex meanwhile. */
int pawl__zk_call_wait(struct zk_session *session, struct zk_call *call, int64_t deadline);
void pawl__zk_call_free(struct zk_call *call);

#endif
