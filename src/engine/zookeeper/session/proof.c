/* SPDX-License-Identifier: Apache-2.0
 *
 * proof.c - when was the session last proved to live, and how long is it assured from then on?
 *
 * A session of T expires at the leader T after the last sign of life that the leader has heard of; it rounds up, never down. What a
 * server answers is no such sign by itself: a follower that is cut off from its leader goes on answering reads for a while, though
 * the leader has let the session expire and others hold its locks; and a request that a follower forwards is checked against the
 * session, and does not prolong it. A follower notes which sessions it reads something from, and tells the leader of these when it
 * answers the leader's pings, every half tick.
 *
 * THE RULE. Three requests of ours, all answered: `noted`, any one; `first` and `second`, which go through the leader. `first` left
 * half a tick and T/12 or more after the answer to `noted` was read here, and `second` after the answer to `first`. When `second` is
 * answered, the leader has heard from us when `noted` left, or later.
 *
 *     here        noted ---->  answer  (half a tick, T/12 or more)  first ------> answer  second -----> answer
 *     follower            o noted                          (A) o        forwards                forwards
 *     leader                                                ping             carries out             carries out
 *
 * Why: the leader carried `first` out more than half a tick and T/12 after the follower had noted us, so it sent a ping in between, (A),
 * even if that was T/12 late; all come a little late. Pings and results come to the follower in one row, so it had answered that ping,
 * and told of us, before it could answer `first`. What it tells and what it forwards go to the leader in one row, too: so that has come
 * before `second`. It does not matter how long anybody else stood still, nor when the library sent its pings. Who is connected to the
 * leader itself is heard at once, and a new connection is made known to the leader before it is there.
 *
 * What it rests on: that no two pings are further apart than half a tick and T/12. Then no history of messages breaks it, however long
 * anything stands still on its way. Beyond that some do: the leader may have heard only of what had come to the follower before its last
 * ping. If nothing stood still there, that left T/4 before `noted` at the most, since so often something leaves, and what a hold is
 * assured for at most leaves T/12 beyond that: enough also for a follower that loses a note while it writes its report, and for an
 * observer that reports to a follower, which takes a whole tick. But where requests stood still on their way to the follower, and a ping
 * is later than T/12, and the follower is cut off at that moment, a session ends before a hold that was proved. No bound closes that,
 * since a leader may stand still for as long as it likes; a longer session makes it rarer in proportion. (docs/guarantees.md: what is not
 * promised. tests/zookeeper/test_zookeeper_proof.c plays histories on both sides of the limit.)
 *
 * The client is not told the tick. A server does not grant sessions of less than two ticks unless its administrator says otherwise, so
 * half a tick is at most T/4. `?tick=` says better: the largest of the servers'.
 *
 * So that there is always something noted, a request leaves after each T/4 in which none did (connect.c): an idle client that acquires
 * has its proof with its second request. */
#include "engine/zookeeper/session/session.h"

#include "base/error.h"
#include "base/lease.h"

/* What was answered is noted at such distances, so that a few are enough to look back as far as two pings are apart. */
enum { NOTES_IN_A_SESSION = 64 };

static int64_t half_tick(const struct zk_session *session) {
    return session->options.tick_ns ? session->options.tick_ns / 2 : session->timeout_ns / 4;
}

/* So far apart two pings of the leader's may be. */
static int64_t between_pings(const struct zk_session *session) {
    return half_tick(session) + session->timeout_ns / 12;
}

/* However much was proved: a hold is lost for its owner so long after the last request that the leader answered. It is what is left of T
 * if the client was idle before that one: what was noted left T/4 and half a tick earlier, and T/12 is for the way. */
int64_t pawl__zk_assured(int64_t timeout_ns, int64_t tick_ns) {
    int64_t assured = timeout_ns - timeout_ns / 3 - (tick_ns ? tick_ns / 2 : timeout_ns / 4);

    return assured > 0 ? assured : 0;
}

static int64_t until(const struct zk_session *session, int64_t heard) {
    int64_t proved = pawl__lease_assured_until(heard, session->timeout_ns);
    int64_t most = session->proofs.sent + pawl__zk_assured(session->timeout_ns, session->options.tick_ns);

    return proved < most ? proved : most;
}

int64_t pawl__zk_assured_until(const struct zk_session *session) {
    return session->proofs.sent ? until(session, session->proofs.heard) : 0;
}

bool pawl__zk_more_is_known(const struct zk_session *session) {
    return session->proofs.passed > session->proofs.heard;
}

int64_t pawl__zk_ask_again_ns(const struct zk_session *session) {
    return half_tick(session) / 4;
}

void pawl__zk_proved_anew(struct zk_session *session, int64_t began) {
    session->proofs = (struct zk_proofs){.sent = began, .passed = began, .heard = began};
}

static const struct zk_answered *nth(const struct zk_proofs *proofs, unsigned n) {
    return &proofs->answered[n % ZK_ANSWERED];
}

/* When the last one left of those that had been answered so long before `at` that the leader has sent a ping since. */
static int64_t noted_before(const struct zk_session *session, int64_t at) {
    const struct zk_proofs *proofs = &session->proofs;
    unsigned count = proofs->answered_count, last = count > ZK_ANSWERED ? count - ZK_ANSWERED : 0;

    while (count-- > last)
        if (nth(proofs, count)->at <= at - between_pings(session) && nth(proofs, count)->sent_at > proofs->passed)
            return nth(proofs, count)->sent_at;
    return proofs->passed;
}

void pawl__zk_leaves(struct zk_op *op, int64_t now) {
    struct zk_session *session = op->session;

    op->sent_at = session->sent_at = now;
    op->before = noted_before(session, now);
    op->after = session->proofs.passed;
}

void pawl__zk_answered(struct zk_session *session, const struct zk_op *op, int64_t now) {
    struct zk_proofs *proofs = &session->proofs;
    unsigned count = proofs->answered_count;

    if (count && op->sent_at - nth(proofs, count - 1)->sent_at < session->timeout_ns / NOTES_IN_A_SESSION)
        return;
    proofs->answered[proofs->answered_count++ % ZK_ANSWERED] = (struct zk_answered){.sent_at = op->sent_at, .at = now};
}

void pawl__zk_proved(struct zk_session *session, const struct zk_op *op) {
    struct zk_proofs *proofs = &session->proofs;

    if (op->sent_at > proofs->sent)
        proofs->sent = op->sent_at;
    if (op->before > proofs->passed)
        proofs->passed = op->before;
    if (op->after > proofs->heard)
        proofs->heard = op->after;
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
