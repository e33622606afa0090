/* SPDX-License-Identifier: Apache-2.0
 *
 * proof.c - when was the session last proved to live, and how long is it assured from then on?
 *
 * Why pings are not enough: a follower that is cut off from its leader goes on answering pings and reads for a while, though the leader
 * has let the session expire and others hold its locks. A request that goes through the leader can't be answered then. Two answers in a row
 * are the proof, and it counts from when the first of these requests left; while there are many, from the second (FROM WHEN ON).
 */
#include "engine/zookeeper/session/session.h"

#include "base/error.h"

/* THE BOUND. When, counted from the sending of a request that went through the leader and was answered, might the session expire?
 *
 * A session of T expires at the leader T after the last sign of life that the leader has heard of. Followers pass these on with their
 * answers to the leader's pings, every half tick; a request that they forward is none by itself. So if our follower is cut off right
 * after it answered, the leader knows of what we sent up to half a tick before that; and the packet that we sent last before that
 * moment was at most one ping interval, T/3, older; more, if this process was too starved to ping in time. Hence
 *
 *     T - T/3 - tick/2 - how late we were
 *
 * The client is not told the tick. A server does not grant sessions of less than two ticks unless its administrator says otherwise, so
 * half a tick is at most T/4, and what is left is 5T/12. `?tick=` says better. The server rounds expiry up, never down. Clocks that run
 * at different speeds are seen to by lease.c, which takes off a hundredth.
 *
 * What it rests on: that the leader asks for its followers' reports in time. Nothing that a client may ask makes the leader count from
 * now: a request that a follower forwards is checked against the session and does not prolong it, and only who is connected to the leader
 * itself, or connects anew, does. Let G be
 *
 *     T - assured - the time since we last sent something before
 *
 * A leader that stands still until G has gone by between two reports, lets a request through when it goes on, and looks at its clock before
 * the next report, ends a session that was proved a moment ago. G is T/4 where we only pinged, and 4T/9 while we hold and beat; half a tick
 * of it is used up as it is. With T of 15 s and a tick of 2 s the leader may be late by 2.7 s and 5.6 s; where T is two ticks, not at all
 * and by 0.2 T. No bound closes that, since a server may stand still for as long as it likes; a longer session makes it rarer in
 * proportion. (docs/guarantees.md: what is not promised.)
 *
 * FROM WHEN ON? The leader looks at the session when a request comes, but counts from the followers' reports. So a follower that was cut
 * off and is joined again may forward a request of ours that is let through, and then the session ends before the report is there. An
 * answer by itself says nothing of the time before; two in a row do. Let `after` be when a request left that was answered before ours was
 * sent, at `sent_at`.
 *   - A cut that was over when the first answer came: the leader sends its pings all the time, so one that was kept back comes before
 *     that answer, and the follower's report on it reaches the leader before our second request does. The leader counts anew from there.
 *   - A cut that began later than `after`: the bound holds from `after` on, as if it had been the last that the leader heard of us.
 * So it is `after` that counts. Who holds sends in short intervals, and can do better. Suppose that for half a tick or longer before
 * `after` no two requests in a row left more than T/6 apart, and that ours left no more than T/6 after `after`. Then the leader has heard
 * of something that left after
 *     after - tick/2 - T/6 >= sent_at - tick/2 - T/3
 * and so `sent_at` counts. A new connection is a sign of life that the leader hears of at once; it counts as an answer. */
int64_t pawl__zk_assured(int64_t timeout_ns, int64_t tick_ns, int64_t late_ns) {
    int64_t assured = timeout_ns - timeout_ns / 3 - (tick_ns ? tick_ns / 2 : timeout_ns / 4) - late_ns;

    return assured > 0 ? assured : 0;
}

/* What the core gets as the lease: it renews at a third of that (5T/36, more often than T/6), calls it suspect at two thirds, and lost a
 * little before its end. */
int64_t pawl__zk_lease_ns(const struct zk_session *session, int64_t sent_at) {
    int64_t tick = session->options.tick_ns, late = 0, overdue = sent_at - session->pings.due;

    /* Lateness counts while the leader may still not have heard of what came after it. */
    if (session->pings.late_at && sent_at - session->pings.late_at <= (tick ? tick / 2 : session->timeout_ns / 4))
        late = session->pings.late_ns;
    if (session->pings.due && overdue > late)
        late = overdue;
    return pawl__zk_assured(session->timeout_ns, tick, late);
}

void pawl__zk_proved_anew(struct zk_session *session, int64_t began) {
    session->proofs.sent = session->proofs.dense = began;
}

void pawl__zk_proved(struct zk_session *session, const struct zk_op *op) {
    int64_t tick = session->options.tick_ns, half = tick ? tick / 2 : session->timeout_ns / 4, from = op->after;

    if (op->sent_at - op->after > session->timeout_ns / 6)
        session->proofs.dense = op->sent_at;
    else if (op->after - session->proofs.dense >= half)
        from = op->sent_at;
    if (from > session->proofs.assured)
        session->proofs.assured = from;
    if (op->sent_at > session->proofs.sent)
        session->proofs.sent = op->sent_at;
}

int pawl__zk_check_tick(const struct zk_session *session, struct pawl_error *reterr) {
    if (!zk_is_connected(session) || session->options.tick_ns <= session->timeout_ns)
        return 0;
    return pawl__fail(
        reterr, PAWL_EOPTION,
        "the URL's option tick=%lld is longer than the session of %lld ms that was granted: give the servers' tickTime, or "
        "ask for a longer session (?session=)",
        (long long)(session->options.tick_ns / ZK_MS), (long long)(session->timeout_ns / ZK_MS));
}
