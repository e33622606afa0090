/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_states.c - every cell of the tables of a session, of a watch and of a claim, without a server: requests are counted, and
 * then answered as if the connection had been lost.
 */
#include "engine/zookeeper/lock/lock.h"
#include "../support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The session ---------------------------------------------------------------------------------------------------------- */

static struct pawl__engine_impl impl = {.name = "zk"};

static void ignore(zhandle_t *handle, int type, int state, const char *path, void *data) {
    (void)handle, (void)type, (void)state, (void)path, (void)data;
}

/* Closed, coNnecting, Connected, Torn, Expired, User refused; '.': the event is ignored. `u`: tells that it is up. */
static const char *const session_rows[ZK_SESSION_EVENTS] = {
    [ZK_ON_OPENED] = "N . . . . .",  [ZK_ON_CONNECTED] = ". Cu Cu . . .", [ZK_ON_CUT] = ". N N . . .",
    [ZK_ON_TORN] = ". . T . . .",    [ZK_ON_ANSWERED] = ". . . N . .",    [ZK_ON_EXPIRED] = ". E E E . .",
    [ZK_ON_REFUSED] = ". U U U . .", [ZK_ON_CLOSED] = ". K K K K K",
};

static void test_every_cell_of_the_session(void **state) {
    struct pawl__engine engine = {.impl = &impl};
    struct zk_session session = {.engine = &engine};

    (void)state;
    zoo_set_debug_level((ZooLogLevel)0);
    session.handle = zookeeper_init("127.0.0.1:1", ignore, 1000, NULL, NULL, 0);
    assert_non_null(session.handle);
    for (int event = 0; event < ZK_SESSION_EVENTS; event++) {
        const char *row = session_rows[event];

        for (int from = 0; from < ZK_SESSION_STATES; from++, row += strcspn(row, " "), row += *row == ' ') {
            uint64_t changes = session.changes;
            char got[4];

            session.state = (enum zk_session_state)from;
            pawl__zk_session_step(&session, (enum zk_session_event)event);
            snprintf(got, sizeof got, "%c%s", session.changes == changes ? '.' : "KNCTEU"[session.state],
                     pawl__zk_session_news(&session) & ZK_NEWS_UP ? "u" : "");
            if (strncmp(got, row, strlen(got)) != 0 || (row[strlen(got)] && row[strlen(got)] != ' '))
                fail_msg("event %d in state %d: %s, not %s", event, from, got, row);
        }
        assert_int_equal(*row, 0);
    }
    zookeeper_close(session.handle);
}

/* ---- A watch -------------------------------------------------------------------------------------------------------------- */

/* Asked, aRmed, Lost, Unwanted, reMoving, Gone; '.': the event is ignored, '-': it never happens. */
static const char *const watch_rows[ZK_WATCH_STATES] = {
    /* SET NOT_SET FIRED CUT DROPPED AGAIN REMOVED */
    [ZK_WATCH_ASKED] = "RG--U.-",    [ZK_WATCH_ARMED] = "--GLM--",    [ZK_WATCH_LOST] = "----GA-",
    [ZK_WATCH_UNWANTED] = "MG-----", [ZK_WATCH_REMOVING] = "--GG--G", [ZK_WATCH_GONE] = "-------",
};

static void test_every_cell_of_a_watch(void **state) {
    (void)state;
    for (int from = 0; from < ZK_WATCH_STATES; from++)
        for (int event = 0; event < ZK_WATCH_EVENTS; event++) {
            char got = "ARLUMG-."[pawl__zk_watch_move((enum zk_watch_state)from, (enum zk_watch_event)event)];

            if (got != watch_rows[from][event])
                fail_msg("event %d in state %d: %c, not %c", event, from, got, watch_rows[from][event]);
        }
}

/* ---- The claim ------------------------------------------------------------------------------------------------------------ */

/* New, Offline, Admission, Creating, Finding, clearinG, Queued, Leasing, Proving, Held, Downgrading, loSt, oVer. */
static const char letters[] = "NOACFGQLPHDSV";

static struct zk_engine zk;
static char base_path[] = "";
static char memory[sizeof(struct pawl__claim) + sizeof(struct zk_claim)] __attribute__((aligned(16)));

static int fired(struct zk_asker *asker, int type) {
    (void)asker, (void)type;
    return 0;
}

/* A claim in this state, as far as it matters: a semaphore's where it makes leases, a mutex's else. */
static struct zk_claim *claim_in(enum zk_state from, enum zk_event event, bool connected) {
    struct pawl__claim *seam = (struct pawl__claim *)(void *)memory;
    struct zk_claim *claim = zk_claim_of(seam);

    memset(memory, 0, sizeof memory);
    *seam = (struct pawl__claim){.name = "m", .kind = PAWL_MUTEX, .permits = 1, .limit = 1};
    if (from == ZK_LEASING)
        seam->kind = PAWL_SEMAPHORE;
    if (from == ZK_DOWNGRADING || from == ZK_HELD)
        seam->kind = PAWL_RWLOCK;
    seam->keep_ns = event == ZK_QUEUE_CHANGED; /* else a request or two more */
    /* Submitted to a session that is not there yet it waits, and has everything but a znode. */
    zk.session.state = ZK_CONNECTING;
    assert_int_equal(pawl__zk_submit(&zk.base, seam, NULL), PAWL__PENDING);
    assert_int_equal(claim->state, ZK_OFFLINE);
    claim->stalled = false;
    claim->state = from;
    zk.session.state = connected ? ZK_CONNECTED : ZK_CONNECTING;
    if (from == ZK_ADMISSION)
        TAILQ_INSERT_TAIL(&zk.admission, claim, admission);
    if ((from >= ZK_QUEUED && from < ZK_OVER) || event == ZK_CREATED || event == ZK_NAMED || event == ZK_FOUND ||
        event == ZK_NEAR_END)
        claim->at.own = pawl__zk_text("%s/_c_11111111-1111-8000-8010-111111111111-lock-0000000005", claim->at.dir);
    if (from == ZK_DOWNGRADING)
        claim->at.twin = pawl__zk_text("%s/_c_22222222-1111-8000-8010-111111111111-__READ__0000000005", claim->at.dir);
    if (from == ZK_QUEUED)
        pawl__zk_watch_new(&zk.session, &claim->asker, &claim->watch.ahead, "/m/ahead", false, fired);
    claim->seen.child = "_c_33333333-1111-8000-8010-111111111111-lock-0000000004";
    if (from == ZK_OVER || from == ZK_NEW)
        TAILQ_REMOVE(&zk.claims, claim, link);
    if (from == ZK_NEW)
        TAILQ_INSERT_TAIL(&zk.claims, claim, link);
    return claim;
}

/* What was asked for is never answered. */
static void clean_up(struct zk_claim *claim, enum zk_state from) {
    zk.session.state = ZK_CLOSED;
    if (claim->state == ZK_OVER && from == ZK_OVER)
        TAILQ_INSERT_TAIL(&zk.claims, claim, link);
    if ((claim->state == ZK_OVER && from == ZK_OVER) || claim->state == ZK_NEW)
        claim->state = ZK_OFFLINE;
    pawl__zk_step(claim, ZK_ABANDON);
    pawl__zk_send_listings(&zk);
    pawl__zk_ops_fail(&zk.session, true);
    pawl__zk_watches_forget(&zk.session);
    pawl__zk_sweep_free(&zk);
    pawl__zk_forget_last_seen(&zk);
    TAILQ_INIT(&zk.news);
    zk.beat_due = false;
}

/* The state after it, what the core is told, how many requests were asked for, + for a list that is to be shared, ! for a znode that must
 * go, * for one that is to go on later, @ for a timer, ? for a heartbeat; '.': nothing at all. */
static void play(enum zk_state from, enum zk_event event, bool connected, char ret[40]) {
    static const char news[] = "grlsfdw"; /* granted, renewed, lost, settled, refused, downgraded, wanted */
    struct zk_claim *claim = claim_in(from, event, connected);
    uint32_t number = claim->asker.number;
    char told[8] = "", asked[12] = "";
    size_t count = 0;

    claim->claim->lease_ns = PAWL__NEVER;
    pawl__zk_proved_anew(&zk.session, pawl__boottime());
    zk.session.number += event == ZK_SESSION_LOST;
    pawl__zk_step(claim, event);
    for (int i = 0; i < 7; i++)
        if (claim->tell & 1u << i)
            told[count++] = news[i];
    if (zk.session.op_count)
        snprintf(asked, sizeof asked, "%u", zk.session.op_count);
    snprintf(ret, 40, "%c%s%s%s%s%s%s%s", letters[claim->state], told, asked, claim->listing ? "+" : "",
             TAILQ_EMPTY(&zk.leftovers) ? "" : "!", claim->stalled ? "*" : "", claim->look_at == PAWL__NEVER ? "" : "@",
             zk.beat_due ? "?" : "");
    if (ret[0] == letters[from] && !ret[1] && claim->asker.number == number && !claim->watch.own)
        strcpy(ret, ".");
    clean_up(claim, from);
}

/* N O A C F G Q L P H D S V, with a connection; and without, where that is different. */
/* clang-format off */
static const struct row {
    const char *connected, *offline;
} rows[ZK_EVENTS] = {
    [ZK_BEGIN] = {"C1+ C1+ C1+ C1+ C3+! C1+ C2+! C5+! . . . . .", "O* O* O* O* O!* O* O!* O!* . . . . ."},
    [ZK_NO_ROOM] = {"A A . . . . . . . . . . .", NULL},
    [ZK_CREATE] = {". C1+ . . . . . . . . . . .", NULL},
    [ZK_CREATED] = {". . . Q . . . . . . . . .", NULL},
    [ZK_SEEK] = {". . . F2 . . . . . . . . .", NULL},
    [ZK_NAMED] = {". . . . F1 . . . . . . . .", NULL},
    [ZK_FOUND] = {". . . . Q+ . . . . . . . .", NULL},
    [ZK_NO_DIRECTORY] = {". . . C1 . G1 . . . . . . .", NULL},
    [ZK_NEAR_END] = {". . . G2! G2! . . . . . . . .", ". . . G1! G1! . . . . . . . ."},
    [ZK_BUSY] = {". . . O*@ . G*@ . Q*@ . . . . .", ". . . O* . G* . Q* . . . . ."},
    [ZK_STALLED] = {". . . C*@ F*@ G*@ Q*@ L*@ . . D*@ . .", ". . . C* F* G* Q* L* . . D* . ."},
    [ZK_RESUME] = {". C1+ . F2 F2 C1+ Q+ L2 P? H1 D2 . .", ". O* . F2 F2 O* Q+ L2 P? . D2 . ."},
    [ZK_LIST_AGAIN] = {". . . . . . Q+ . . . . . .", NULL},
    [ZK_BEHIND] = {". . . . . . Q2 . . . . . .", ". . . . . . Q1 . . . . . ."},
    [ZK_LOOK_TWICE] = {". . . . . . Q@ . . . . . .", NULL},
    [ZK_CHECK_KIND] = {". . . . . . Q2 L1 . . . . .", NULL},
    [ZK_WATCH_AGAIN] = {". . . . . . Q1 . . . . . .", NULL},
    [ZK_LEASE] = {". . . . . . L2 L2 . . . . .", NULL},
    [ZK_NO_LEASES] = {". . . . . . . L2 . . . . .", NULL},
    [ZK_TOO_MANY] = {". . . . . . . L1 . . . . .", NULL},
    [ZK_FIRST] = {". . . . . . Hg@ Hg@ Hg@ . . . .", NULL},
    [ZK_UNPROVED] = {". . . . . . P? P? . . . . .", NULL},
    [ZK_CHECKED] = {". . . . . . . . Hg@ Hr . . .", NULL},
    [ZK_CONNECTED_AGAIN] = {". . . . . . . . . Hr Dr . .", NULL},
    [ZK_GONE] = {". . . . . . . . C2+! Sl Sld . .", ". . . . . . . . O!* Sl Sld . ."},
    [ZK_BROKEN] = {". . . . . . . . C2+! Sl Sld . .", ". . . . . . . . O!* Sl Sld . ."},
    [ZK_OWN_GONE] = {". . . . . . Q+ . P? Sl . S? .", NULL},
    [ZK_OWN_BROKEN] = {". . . . . . Q+ . P? Sl . S? .", NULL},
    [ZK_MISSED] = {". . . . . . Q@ L@ . . . . .", NULL},
    [ZK_OWN_MISSED] = {". . . . . . . . . H@ . . .", NULL},
    [ZK_QUEUE_MISSED] = {". . . . . . . . . H@ . . .", NULL},
    [ZK_QUEUE_CHANGED] = {". . . . . . . . . H1 . . .", ". . . . . . . . . . . . ."},
    [ZK_WANTED] = {". . . . . . . . . Hw . . .", NULL},
    [ZK_DOWNGRADE] = {". . . . . . . . . D1 . Sd .", ". . . . . . . . . D* . Sd ."},
    [ZK_EXCHANGE] = {". . . . . . . . . . D1 . .", NULL},
    [ZK_EXCHANGED] = {". . . . . . . . . . Hrd@ . .", NULL},
    [ZK_WAS_EXCHANGED] = {". . . . . . . . . . Hd@? . .", NULL},
    [ZK_SESSION_LOST] = {". C1+ C1+ C1+ C1+ C1+ C1+ C2+ C1+ Sl Sld S .", ". O* O* O* O* O* O* O* O* Sl Sld S ."},
    [ZK_GIVE_UP] = {". Vf Vf Vf Vf2! Vf Vf1! Vf3! Vf1! . . . .", ". Vf Vf Vf Vf! Vf Vf! Vf! Vf! . . . ."},
    [ZK_REFUSED] = {". Vf Vf Vf Vf2! Vf Vf1! Vf3! Vf1! . . . .", ". Vf Vf Vf Vf! Vf Vf! Vf! Vf! . . . ."},
    [ZK_WITHDRAW] = {". Vs Vs Vs Vs2! Vs Vs1! Vs3! Vs1! Vs1! Vs2! Vs1! .", ". Vs Vs Vs Vs! Vs Vs! Vs! Vs! Vs! Vs! Vs! ."},
    [ZK_ABANDON] = {". Vf Vf Vf Vf2! Vf Vf1! Vf3! Vf1! Vf1! Vf2! Vf1! .", ". Vf Vf Vf Vf! Vf Vf! Vf! Vf! Vf! Vf! Vf! ."},
};
/* clang-format on */

static int begin(void **state) {
    (void)state;
    zk.base.impl = &impl;
    zk.session.engine = &zk.base;
    zk.session.event_fd = -1;
    zk.session.number = 1;
    zk.session.timeout_ns = 12 * ZK_S;
    zk.session.options.base_path = base_path;
    zk.session.options.acl = &ZOO_OPEN_ACL_UNSAFE;
    TAILQ_INIT(&zk.session.ops);
    TAILQ_INIT(&zk.session.watches.list);
    TAILQ_INIT(&zk.claims);
    TAILQ_INIT(&zk.news);
    TAILQ_INIT(&zk.admission);
    TAILQ_INIT(&zk.timed);
    TAILQ_INIT(&zk.listings);
    TAILQ_INIT(&zk.leftovers);
    return 0;
}

static void check_row(enum zk_event event, const char *row, bool connected) {
    for (int from = 0; from < ZK_STATES; from++) {
        size_t length = strcspn(row, " ");
        char got[40];

        play((enum zk_state)from, event, connected, got);
        if (strlen(got) != length || strncmp(got, row, length) != 0)
            fail_msg("event %d in state %c%s: %s, not %.*s", (int)event, letters[from], connected ? "" : ", offline", got,
                     (int)length, row);
        row += length + (row[length] == ' ');
    }
    assert_int_equal(*row, 0);
}

static void test_every_cell_of_the_claim(void **state) {
    (void)state;
    for (int event = ZK_BEGIN; event < ZK_EVENTS; event++) {
        const struct row *row = &rows[event];

        assert_non_null(row->connected);
        check_row((enum zk_event)event, row->connected, true);
        check_row((enum zk_event)event, row->offline ? row->offline : row->connected, false);
    }
}

/* After a rest the first answer is not enough, and the second is; or others, which are not asked for in a hurry. */
static void test_two_heartbeats_are_wanted(void **state) {
    struct zk_claim *claim = claim_in(ZK_QUEUED, ZK_UNPROVED, true);
    int64_t now = pawl__boottime();

    (void)state;
    pawl__zk_proved_anew(&zk.session, now - zk.session.timeout_ns);
    pawl__zk_step(claim, ZK_UNPROVED);
    assert_true(zk.beat_due);
    zk.beat_due = false;
    zk.session.proofs.sent = now;
    pawl__zk_step(claim, ZK_CHECKED);
    assert_int_equal(claim->state, ZK_PROVING);
    assert_false(zk.beat_due); /* nothing more would be known */
    assert_true(claim->look_at > now && claim->look_at < now + zk.session.timeout_ns);
    zk.session.proofs.passed = now;
    pawl__zk_step(claim, ZK_CHECKED);
    assert_int_equal(claim->state, ZK_PROVING);
    assert_true(zk.beat_due);
    zk.session.proofs.heard = now;
    pawl__zk_step(claim, ZK_CHECKED);
    assert_int_equal(claim->state, ZK_HELD);
    clean_up(claim, ZK_QUEUED);
}

/* The session moves to a server that grants less: who held by the longer one is told. */
static void test_a_session_that_is_shorter(void **state) {
    struct zk_claim *claim = claim_in(ZK_QUEUED, ZK_FIRST, true);
    struct pawl__claim *seam = claim->claim;
    int64_t now = pawl__boottime(), before;

    (void)state;
    pawl__zk_proved_anew(&zk.session, now - ZK_S);
    pawl__zk_step(claim, ZK_FIRST);
    before = seam->lease_ns;
    claim->tell = 0;
    TAILQ_INIT(&zk.news);
    pawl__zk_proved_anew(&zk.session, now);
    pawl__zk_step(claim, ZK_CONNECTED_AGAIN);
    assert_int_equal(claim->tell, 0); /* as long as before: it is no renewal, for nobody has looked for the znode */
    assert_int_equal(seam->lease_ns, before);
    zk.session.timeout_ns /= 4;
    pawl__zk_step(claim, ZK_CONNECTED_AGAIN);
    assert_int_equal(claim->tell, ZK_TELL_RENEWED);
    assert_int_equal(seam->sent_at, now - ZK_S);
    assert_int_equal(seam->sent_at + seam->lease_ns, pawl__zk_assured_until(&zk.session));
    assert_true(seam->lease_ns < before);
    clean_up(claim, ZK_QUEUED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell_of_the_session),
        cmocka_unit_test(test_every_cell_of_a_watch),
        cmocka_unit_test_setup(test_every_cell_of_the_claim, begin),
        cmocka_unit_test_setup(test_two_heartbeats_are_wanted, begin),
        cmocka_unit_test_setup(test_a_session_that_is_shorter, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
