/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_proof.c - what session/proof.c believes, against what a leader may do: random histories, in which anybody stands still.
 *
 * A client, a follower and the leader. The follower has two threads, one that reads what clients send, notes whose it is and
 * forwards it, and one that hears the leader: it answers pings by what was noted since, and hands results on. All of them, and each
 * way between two of them, take as long as they like; what is on one way keeps its order. The leader sends its pings half a tick apart,
 * or later: by T/12 at most, which is what the rule rests on. It ends the session when T has gone by since it heard of it. As long as it
 * has not been cut off it hears all reports, sooner or later; at some moment the follower is cut off for good. Since that may be at any
 * moment, the client must never believe that it is assured for longer than T after the leader has heard of it.
 */
#include "engine/zookeeper/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "../support/test.h"

/* In ms. */
enum { T = 12000, MOST = 512 };

enum what { READ, WRITE, PING, RESULT, REPORT };

struct message {
    enum what what;
    int64_t at; /* when it is there, at the earliest */
    struct zk_op *op;
    int64_t noted; /* a report: whether there was something since the last one */
};

/* One way, or what a thread has still to do. */
struct lane {
    struct message messages[MOST];
    unsigned first, last;
    int64_t still_until; /* who reads it stands still */
};

static struct {
    int64_t now, heard, cut_at, believed;
    int64_t half, late; /* half a tick; how late pings are at most */
    int64_t ping_at;    /* when the leader sends the next one */
    int64_t pace;       /* the client asks about so often */
    uint64_t random;
    bool noted;
    struct zk_session session;
    struct lane to_follower, to_leader, from_leader, to_client;
    struct zk_op ops[MOST];
    unsigned op_count, unanswered, forwarded;
} it;

static int64_t draw(int64_t low, int64_t high) {
    it.random = it.random * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((it.random >> 33) % (uint64_t)(high - low + 1));
}

/* Mostly at once; now and then for so long that much comes together. */
static int64_t span(void) {
    return draw(0, 9) ? draw(1, 20) : draw(0, 2) ? draw(100, 2000) : draw(1000, 2 * T / 3);
}

static void put(struct lane *lane, struct message message) {
    message.at = it.now + draw(1, 10);
    if (lane->last - lane->first < MOST)
        lane->messages[lane->last++ % MOST] = message;
}

static bool take(struct lane *lane, struct message *ret) {
    if (lane->first == lane->last || it.now < lane->still_until || it.now < lane->messages[lane->first % MOST].at)
        return false;
    *ret = lane->messages[lane->first++ % MOST];
    if (!draw(0, 40))
        lane->still_until = it.now + span();
    return true;
}

static void client_asks(void) {
    struct zk_op *op;

    if (it.op_count == MOST || it.unanswered > 3)
        return;
    op = &it.ops[it.op_count++];
    *op = (struct zk_op){.session = &it.session, .writes = draw(0, 2) != 0};
    pawl__zk_leaves(op, it.now * ZK_MS);
    it.unanswered++;
    put(&it.to_follower, (struct message){.what = op->writes ? WRITE : READ, .op = op});
}

static void client_hears(void) {
    struct message message;

    while (take(&it.to_client, &message)) {
        it.unanswered--;
        pawl__zk_answered(&it.session, message.op, it.now * ZK_MS);
        if (message.op->writes)
            pawl__zk_proved(&it.session, message.op);
        if (pawl__zk_assured_until(&it.session) > it.believed * ZK_MS)
            it.believed = pawl__zk_assured_until(&it.session) / ZK_MS;
    }
}

static bool is_cut(void) {
    return it.now >= it.cut_at;
}

/* Requests of one session are answered in their order: what is only read waits for the writes before it. */
static bool next_waits(void) {
    const struct lane *lane = &it.to_follower;

    return it.forwarded > 0 && lane->first != lane->last && lane->messages[lane->first % MOST].what == READ;
}

static void follower_reads(void) {
    struct message message;

    while (!next_waits() && take(&it.to_follower, &message)) {
        it.noted = true;
        it.forwarded += message.what == WRITE;
        if (message.what == WRITE)
            put(&it.to_leader, message);
        else
            put(&it.to_client, (struct message){.op = message.op});
    }
}

static void follower_hears(void) {
    struct message message;

    while (!is_cut() && take(&it.from_leader, &message)) {
        if (message.what == PING) {
            put(&it.to_leader, (struct message){.what = REPORT, .noted = it.noted});
            it.noted = false;
            continue;
        }
        it.forwarded--;
        put(&it.to_client, message);
    }
}

static void leader_hears(void) {
    struct message message;

    while (!is_cut() && it.now < it.heard + T && take(&it.to_leader, &message)) {
        if (message.what == REPORT)
            it.heard = message.noted ? it.now : it.heard;
        else
            put(&it.from_leader, (struct message){.what = RESULT, .op = message.op});
    }
}

static void step(void) {
    if (it.now >= it.ping_at) {
        it.ping_at += it.half + (draw(0, 1) ? 0 : draw(0, 1) ? it.late : draw(0, it.late));
        if (!is_cut())
            put(&it.from_leader, (struct message){.what = PING});
    }
    if (!draw(0, it.pace) || it.now * ZK_MS >= it.session.sent_at + it.session.timeout_ns / 4)
        client_asks();
    follower_reads();
    follower_hears();
    leader_hears();
    client_hears();
}

/* Returns for how long the client believed in a session that had ended; 0: never. */
static int64_t play(uint64_t seed, int64_t late) {
    int64_t most = 0;

    memset(&it, 0, sizeof it);
    it.random = seed;
    it.late = late;
    it.half = draw(0, 1) ? T / 8 : T / 4;
    it.session.timeout_ns = T * ZK_MS;
    it.session.options.tick_ns = it.half < T / 4 || draw(0, 1) ? 2 * it.half * ZK_MS : 0;
    it.now = 1000;
    it.pace = draw(0, 1) ? 60 : draw(60, 3000);
    it.cut_at = draw(1000, 40000);
    it.ping_at = it.now + draw(0, it.half);
    pawl__zk_proved_anew(&it.session, (it.now - draw(1, 50)) * ZK_MS);
    it.session.sent_at = it.now * ZK_MS;
    it.heard = it.now; /* a connection is made known */
    for (; it.now < it.heard + 2 * T; it.now++) {
        step();
        if (most < it.believed - it.heard - T)
            most = it.believed - it.heard - T;
    }
    return most;
}

static int histories = 1000;

/* Returns in how many of the histories the client believed for too long. */
static int play_all(int64_t late, uint64_t *ret_first) {
    int wrong = 0, believed = 0;

    for (int i = histories; i > 0; i--) {
        uint64_t seed = (uint64_t)i * 0x9e3779b97f4a7c15u;

        if (play(seed, late) > 0) {
            *ret_first = seed;
            wrong++;
        }
        believed += it.session.proofs.heard > 1000 * ZK_MS;
    }
    assert_true(believed > histories / 2);
    return wrong;
}

static void must_hold(int64_t late) {
    uint64_t seed;

    if (play_all(late, &seed) > 0)
        fail_msg("history %llu with pings %lld ms late: believed for %lld ms too long", (unsigned long long)seed, (long long)late,
                 (long long)play(seed, late));
}

static void test_pings_in_time(void **state) {
    (void)state;
    must_hold(0);
}

static void test_pings_that_are_late(void **state) {
    (void)state;
    must_hold(T / 12);
}

/* Here the rule ends; and if it did not, the histories above would prove little. */
static void test_pings_that_are_too_late(void **state) {
    uint64_t seed;

    (void)state;
    assert_true(play_all(T / 6, &seed) > 0);
}

/* Arguments: a pattern of names; so many histories. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pings_in_time),
        cmocka_unit_test(test_pings_that_are_late),
        cmocka_unit_test(test_pings_that_are_too_late),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    histories = argc > 2 ? atoi(argv[2]) : histories;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
