/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c - the states of a session: THE TABLE. connect.c finds out what happens to it, and request.c, by a request that fails.
 *
 *     CLOSED --opened--> CONNECTING --connected--> CONNECTED --torn--> TORN        same session: what was lost is asked again
 *       ^                  ^   ^                     |                  |
 *       |                  |   +--------cut----------+                  |
 *       |                  +----------------answered--------------------+
 *       +--closed-- EXPIRED, USER_REFUSED <-- from any of the three                new session: what the old one had is gone
 *
 * TORN: if a request finds the connection broken, the library closes its socket and reconnects later, but never answers what was on its
 * way: its list of sent requests stays as it is. Only an error in zookeeper_process makes it clean up; so it gets one. Until then a
 * connection that it makes is of no use.
 */
#include "engine/zookeeper/session/session.h"

static void go_up(struct zk_session *session) {
    bool fresh = session->fresh;

    session->id = zoo_client_id(session->handle)->client_id;
    session->timeout_ns = zoo_recv_timeout(session->handle) * ZK_MS;
    session->attempts.failed = 0;
    session->fresh = false;
    pawl__zk_proved_anew(session, session->attempts.began);
    session->news |= ZK_NEWS_UP;
    pthread_cond_broadcast(&session->answered);
    pawl__zk_say(session, NULL, fresh ? "session 0x%llx opened, %lld ms" : "session 0x%llx connected again, %lld ms",
                 (unsigned long long)session->id, (long long)(session->timeout_ns / ZK_MS));
}

static void go_down(struct zk_session *session) {
    pawl__zk_say(session, NULL, "disconnected");
}

static void go_on(struct zk_session *session) {
    (void)session;
}

#define ENDS(act) [ZK_ON_EXPIRED] = {ZK_EXPIRED, act}, [ZK_ON_REFUSED] = {ZK_USER_REFUSED, act}, [ZK_ON_CLOSED] = {ZK_CLOSED, go_on}

/* Where there is nothing, the event says nothing. */
static const struct move {
    uint8_t next;
    void (*act)(struct zk_session *session);
} moves[ZK_SESSION_STATES][ZK_SESSION_EVENTS] = {
    [ZK_CLOSED] = {[ZK_ON_OPENED] = {ZK_CONNECTING, go_on}},
    [ZK_CONNECTING] = {[ZK_ON_CONNECTED] = {ZK_CONNECTED, go_up}, [ZK_ON_CUT] = {ZK_CONNECTING, go_on}, ENDS(go_on)},
    [ZK_CONNECTED] = {[ZK_ON_CONNECTED] = {ZK_CONNECTED, go_up},
                      [ZK_ON_CUT] = {ZK_CONNECTING, go_down},
                      [ZK_ON_TORN] = {ZK_TORN, go_down},
                      ENDS(go_down)},
    [ZK_TORN] = {[ZK_ON_ANSWERED] = {ZK_CONNECTING, go_on}, ENDS(go_on)},
    [ZK_EXPIRED] = {[ZK_ON_CLOSED] = {ZK_CLOSED, go_on}},
    [ZK_USER_REFUSED] = {[ZK_ON_CLOSED] = {ZK_CLOSED, go_on}},
};

void pawl__zk_session_step(struct zk_session *session, enum zk_session_event event) {
    const struct move *move = &moves[session->state][event];

    if (!move->act)
        return;
    session->state = (enum zk_session_state)move->next;
    session->changes++;
    move->act(session);
}

unsigned pawl__zk_session_news(struct zk_session *session) {
    unsigned news = session->news;

    session->news = 0;
    return news;
}

void pawl__zk_session_torn(struct zk_session *session) {
    atomic_store(&session->fd, -1); /* closed: the number may be another's by now */
    pawl__zk_session_step(session, ZK_ON_TORN);
    pawl__zk_ring(session);
}
