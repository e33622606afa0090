/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kit.c - what engines share: notes, timers, what is told of claims and by whom, and which thread reads. The engine here has no
 * server: its answers come when a test rings a bell.
 */
#include "../support/test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/kit/retry.h"
#include "engine/kit/wait.h"
#include "os/bell.h"
#include "os/sleep.h"

#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

/* What was heard, in one line. */
static char heard[512];

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...) {
    size_t used = strlen(heard);
    va_list args;

    va_start(args, format);
    vsnprintf(heard + used, sizeof heard - used, format, args);
    va_end(args);
}

static void assert_heard(const char *expected) {
    assert_string_equal(heard, expected);
    heard[0] = '\0';
}

/* ---- An engine ------------------------------------------------------------------------------------------------------------ */

struct fake {
    struct pawl__engine base;
    struct kit kit;
    struct kit_reader reader;
    int answers, wake; /* bells */
    bool up;
    unsigned unlocked, left;
    struct fake_claim *answered; /* whose answer comes with the next bell */
};

struct fake_claim {
    struct pawl__claim claim;
    struct kit_claim kit;
};

static struct fake *fake_of(const struct kit *kit) {
    return (struct fake *)kit->engine;
}

static void unlocking(struct kit *kit) {
    fake_of(kit)->unlocked++;
}

static struct fake *of_reader(const struct kit_reader *reader) {
    return (struct fake *)((char *)reader - offsetof(struct fake, reader));
}

static bool can_read(const struct kit_reader *reader) {
    return of_reader(reader)->up;
}

static void read_answers(struct kit *kit, struct kit_reader *reader, struct kit_claim *claim, int64_t deadline) {
    struct fake *fake = fake_of(kit);
    struct pollfd fds[2] = {{.fd = fake->answers, .events = POLLIN}, {.fd = fake->wake, .events = POLLIN}};

    reader->sleeper = claim;
    pawl__kit_unlock(kit);
    pawl__sleep(fds, 2, deadline, NULL);
    pawl__kit_lock(kit);
    reader->sleeper = NULL;
    if (fds[1].revents)
        bell_silence(fake->wake);
    if (!fds[0].revents)
        return;
    bell_silence(fake->answers);
    say("%s reads. ", claim->claim->name);
    pawl__kit_tell(kit, &fake->answered->kit, KIT_GRANTED);
}

static void wake_reader(struct kit *kit, struct kit_reader *reader) {
    (void)reader;
    bell_ring(fake_of(kit)->wake);
}

static void left(struct kit *kit, struct kit_reader *reader) {
    (void)reader;
    fake_of(kit)->left++;
}

static const struct kit_ops ops = {unlocking, can_read, read_answers, wake_reader, left};

static void note(void *data, const struct pawl__claim *claim, const char *text) {
    (void)data;
    (void)claim;
    say("note %s. ", text);
}

static void warn(void *data, const char *text) {
    (void)data;
    say("warning %s. ", text);
}

static void set_up(struct fake *fake) {
    *fake = (struct fake){.up = true};
    pawl__kit_init(&fake->kit, &fake->base, &ops);
    pawl__kit_reader_init(&fake->reader);
    fake->answers = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fake->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fake->kit.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    heard[0] = '\0';
}

static void tear_down(struct fake *fake) {
    close(fake->answers);
    close(fake->wake);
    close(fake->kit.bell);
    pawl__kit_free(&fake->kit);
}

static void begin(struct fake *fake, struct fake_claim *claim, const char *name) {
    *claim = (struct fake_claim){.claim = {.name = name}};
    claim->kit.claim = &claim->claim;
    claim->kit.reader = &fake->reader;
}

static bool rings(int bell) {
    struct pollfd fd = {.fd = bell, .events = POLLIN};
    bool rung = poll(&fd, 1, 0) > 0;

    if (rung)
        bell_silence(bell);
    return rung;
}

/* ---- Notes ---------------------------------------------------------------------------------------------------------------- */

static void test_notes_are_told_once_unlocked(void **state) {
    struct fake_claim claim;
    struct fake fake;

    (void)state;
    set_up(&fake);
    begin(&fake, &claim, "n");
    pawl__kit_lock(&fake.kit);
    pawl__kit_note(&fake.kit, NULL, "nobody listens");
    fake.base.note = note;
    fake.base.warn = warn;
    pawl__kit_note(&fake.kit, &claim.kit, "first %d", 1);
    pawl__kit_warn(&fake.kit, NULL, "second");
    for (int i = 0; i < 100; i++)
        pawl__kit_note(&fake.kit, NULL, "%s", i < 99 ? "" : "last");
    assert_heard("");
    pawl__kit_unlock(&fake.kit);
    assert_true(strncmp(heard, "note 'n' first 1. warning second. note . ", 41) == 0);
    heard[0] = '\0';
    pawl__kit_lock(&fake.kit);
    pawl__kit_unlock(&fake.kit);
    assert_heard("");
    assert_int_equal(fake.unlocked, 2);
    tear_down(&fake);
}

/* ---- Timers --------------------------------------------------------------------------------------------------------------- */

static void test_timers(void **state) {
    struct kit_timers timers = TAILQ_HEAD_INITIALIZER(timers), due;
    struct kit_timer t[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        pawl__kit_timer_init(&t[i]);
    assert_int_equal(pawl__kit_timers_next(&timers), PAWL__NEVER);
    pawl__kit_timer_set(&timers, &t[0], S + 1, true);
    pawl__kit_timer_set(&timers, &t[1], S + 1, false); /* goes together with what is due a little earlier */
    pawl__kit_timer_set(&timers, &t[2], S, true);
    pawl__kit_timer_set(&timers, &t[3], S - 1, true);
    assert_int_equal(pawl__kit_timers_next(&timers), S - 1);
    t[3].at = PAWL__NEVER; /* turned off */
    assert_int_equal(pawl__kit_timers_next(&timers), S);
    pawl__kit_timers_take(&timers, S, &due);
    assert_ptr_equal(TAILQ_FIRST(&due), &t[1]);
    assert_ptr_equal(TAILQ_NEXT(&t[1], due), &t[2]);
    assert_null(TAILQ_NEXT(&t[2], due));
    assert_int_equal(t[2].at, PAWL__NEVER);
    assert_false(t[3].listed);
    pawl__kit_timer_set(&timers, &t[2], 2 * S, true); /* while it is in the list of those that are due */
    assert_int_equal(pawl__kit_timers_next(&timers), S + 1);
    pawl__kit_timer_end(&timers, &t[0]);
    pawl__kit_timer_end(&timers, &t[0]);
    assert_int_equal(pawl__kit_timers_next(&timers), 2 * S);
    pawl__kit_timers_take(&timers, 2 * S - 1, &due);
    assert_true(TAILQ_EMPTY(&due));
}

static void test_pauses(void **state) {
    uint32_t random = 7;

    (void)state;
    assert_int_equal(kit_back_off(50, 1000, 0), 50);
    assert_int_equal(kit_back_off(50, 1000, 3), 400);
    assert_int_equal(kit_back_off(50, 1000, 5), 1000);
    assert_int_equal(kit_back_off(50, 1000, UINT32_MAX), 1000);
    for (int i = 0; i < 1000; i++) {
        int64_t ns = kit_between(&random, 10, 20);

        assert_true(ns >= 10 && ns < 20);
    }
    assert_int_equal(kit_between(&random, 10, 10), 10);
}

/* ---- Telling -------------------------------------------------------------------------------------------------------------- */

static struct fake *telling;      /* who tells */
static struct fake_claim *pushes; /* which is renewed during the next upcall */

static void on_news(void *core, struct pawl__claim *claim, enum pawl__news news, const struct pawl_error *why) {
    static const char *const words[] = {"granted", "refused", "gone", "downgraded", "renewed", "lost", "broken"};

    (void)core;
    if (news == NEWS_GRANTED)
        assert_int_equal(claim->token, 7);
    say("%s %s%s. ", claim->name, words[news], news == NEWS_REFUSED ? why->text : "");
    if (!pushes)
        return;
    pawl__kit_lock(&telling->kit);
    assert_int_equal(pushes->kit.telling, KIT_TELLING);
    pawl__kit_tell(&telling->kit, &pushes->kit, KIT_RENEWED);
    pushes->kit.news |= KIT_GRANTED;
    assert_false(pawl__kit_decided(&pushes->kit)); /* its park() would return while it is spoken of */
    pushes->kit.news &= ~(unsigned)KIT_GRANTED;
    pawl__kit_unlock(&telling->kit);
    pushes = NULL;
}

static void tell_all(struct fake *fake) {
    telling = fake;
    fake->base.tell = on_news;
    pawl__kit_lock(&fake->kit);
    pawl__kit_tell_all(&fake->kit);
    pawl__kit_unlock(&fake->kit);
}

/* park() tells of a grant and of an end, serve() of the rest; of a claim that was adopted, serve() tells everything. */
static void test_who_tells(void **state) {
    struct fake_claim a, b;
    struct fake fake;

    (void)state;
    set_up(&fake);
    begin(&fake, &a, "a");
    begin(&fake, &b, "b");
    a.kit.grant = b.kit.grant = (struct kit_grant){7, 1, 5, 6};
    pawl__kit_lock(&fake.kit);
    pawl__kit_tell(&fake.kit, &a.kit, KIT_GRANTED);
    assert_false(fake.kit.wakes);
    pawl__kit_tell(&fake.kit, &a.kit, KIT_RENEWED);
    assert_true(fake.kit.wakes);
    pawl__kit_adopt(&fake.kit, &b.kit);
    pawl__kit_tell(&fake.kit, &b.kit, KIT_GRANTED | KIT_DOWNGRADED);
    pawl__kit_unlock(&fake.kit);
    assert_true(rings(fake.kit.bell));
    tell_all(&fake);
    assert_heard("a renewed. b granted. b downgraded. ");
    assert_int_equal(a.claim.token, 0); /* it is park()'s to fill in */
    assert_int_equal(a.claim.sent_at, 5);
    assert_true(pawl__kit_decided(&a.kit));
    assert_int_equal(pawl__kit_outcome(&a.kit, NULL), PAWL__DONE);
    assert_int_equal(a.claim.token, 7);
    assert_false(rings(fake.kit.bell));
    tear_down(&fake);
}

static void test_outcomes(void **state) {
    struct pawl_error why;
    struct fake_claim a;
    struct fake fake;

    (void)state;
    set_up(&fake);
    begin(&fake, &a, "a");
    pawl__kit_tell(&fake.kit, &a.kit, KIT_GONE);
    assert_int_equal(pawl__kit_outcome(&a.kit, &why), PAWL__DONE);
    a.kit.was_lost = true;
    pawl__kit_tell(&fake.kit, &a.kit, KIT_GONE);
    assert_int_equal(pawl__kit_outcome(&a.kit, &why), PAWL_ELOST);
    a.kit.why = (struct pawl_error){.code = PAWL_EKIND, .text = "odd"};
    pawl__kit_tell(&fake.kit, &a.kit, KIT_REFUSED);
    assert_int_equal(pawl__kit_outcome(&a.kit, &why), PAWL_EKIND);
    assert_string_equal(why.text, "odd");
    assert_false(pawl__kit_decided(&a.kit));
    tear_down(&fake);
}

/* What comes while a claim is spoken of is told next. After its end nothing is looked at any more. */
static void test_news_in_an_upcall(void **state) {
    struct fake_claim a, b;
    struct fake fake;

    (void)state;
    set_up(&fake);
    begin(&fake, &a, "a");
    begin(&fake, &b, "b");
    pushes = &a;
    b.kit.adopted = true;
    b.kit.why.text[0] = '!';
    pawl__kit_tell(&fake.kit, &a.kit, KIT_BROKEN);
    pawl__kit_tell(&fake.kit, &b.kit, KIT_REFUSED | KIT_GONE);
    tell_all(&fake);
    assert_heard("a broken. b refused!. a renewed. ");
    assert_int_equal(b.kit.telling, KIT_LAST);
    assert_int_equal(a.kit.telling, KIT_IDLE);
    tear_down(&fake);
}

static void test_untold(void **state) {
    struct fake_claim a, b;
    struct fake fake;

    (void)state;
    set_up(&fake);
    begin(&fake, &a, "a");
    begin(&fake, &b, "b");
    b.kit.adopted = true;
    pawl__kit_tell(&fake.kit, &a.kit, KIT_RENEWED | KIT_LOST);
    pawl__kit_tell(&fake.kit, &b.kit, KIT_RENEWED | KIT_LOST);
    pawl__kit_untell(&fake.kit, &a.kit);
    pawl__kit_tell(&fake.kit, &a.kit, KIT_GONE);
    pawl__kit_untell(&fake.kit, &b.kit);
    pawl__kit_tell(&fake.kit, &b.kit, KIT_GONE);
    tell_all(&fake);
    assert_heard("b gone. ");
    assert_true(pawl__kit_decided(&a.kit));
    tear_down(&fake);
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------------- */

struct parked {
    struct fake *fake;
    struct fake_claim claim;
    pthread_t thread;
    int rc;
};

static void *run_park(void *data) {
    struct parked *parked = data;
    struct kit *kit = &parked->fake->kit;

    pawl__kit_lock(kit);
    parked->rc = pawl__kit_park(kit, &parked->claim.kit, PAWL__NEVER, NULL);
    say("%s %s. ", parked->claim.claim.name, parked->rc == PAWL__DONE ? "done" : "pending");
    pawl__kit_unlock(kit);
    return NULL;
}

/* Wait until somebody sleeps: it reads for the claim, or follows. */
static void see_sleep(struct fake *fake, const struct kit_claim *claim, bool reads) {
    bool there = false;

    while (!there) {
        pawl__kit_lock(&fake->kit);
        there = reads ? fake->reader.sleeper == claim : claim->waits == KIT_FOLLOWS;
        pawl__kit_unlock(&fake->kit);
        sched_yield();
    }
}

static void park(struct fake *fake, struct parked *parked, const char *name, bool reads) {
    parked->fake = fake;
    begin(fake, &parked->claim, name);
    assert_int_equal(pthread_create(&parked->thread, NULL, run_park, parked), 0);
    see_sleep(fake, &parked->claim.kit, reads);
}

static void answer(struct fake *fake, struct parked *parked) {
    pawl__kit_lock(&fake->kit);
    fake->answered = &parked->claim;
    pawl__kit_unlock(&fake->kit);
    bell_ring(fake->answers);
    pthread_join(parked->thread, NULL);
}

/* One reads for all; the first that follows goes on when it is done, and at the end the service thread. */
static void test_one_reads(void **state) {
    struct parked a, b, c;
    struct fake fake;

    (void)state;
    set_up(&fake);
    park(&fake, &a, "a", true);
    park(&fake, &b, "b", false);
    park(&fake, &c, "c", false);
    answer(&fake, &c);
    assert_heard("a reads. c done. ");
    park(&fake, &c, "c", false);
    answer(&fake, &a);
    see_sleep(&fake, &b.claim.kit, true);
    assert_heard("a reads. a done. ");
    assert_int_equal(fake.left, 0);
    answer(&fake, &c);
    answer(&fake, &b);
    assert_heard("b reads. c done. b reads. b done. ");
    assert_int_equal(fake.left, 1);
    assert_false(fake.reader.taken);
    tear_down(&fake);
}

static void unpark(struct fake *fake, struct parked *parked) {
    pawl__kit_lock(&fake->kit);
    pawl__kit_unpark(&fake->kit, &parked->claim.kit);
    pawl__kit_unlock(&fake->kit);
    pthread_join(parked->thread, NULL);
    assert_int_equal(parked->rc, PAWL__PENDING);
}

static void test_unparked(void **state) {
    struct parked a, b;
    struct fake fake;

    (void)state;
    set_up(&fake);
    park(&fake, &a, "a", true);
    park(&fake, &b, "b", false);
    unpark(&fake, &b);
    unpark(&fake, &a);
    assert_heard("b pending. a pending. ");
    pawl__kit_unpark(&fake.kit, &a.claim.kit);
    assert_int_equal(pawl__kit_park(&fake.kit, &a.claim.kit, PAWL__NEVER, NULL), PAWL__PENDING); /* the next one, if none runs */
    assert_int_equal(pawl__kit_park(&fake.kit, &a.claim.kit, 0, NULL), PAWL__PENDING);
    tear_down(&fake);
}

/* Where nothing can be read nobody does: all follow, and the service thread decides. */
static void test_nothing_to_read(void **state) {
    struct parked a;
    struct fake fake;

    (void)state;
    set_up(&fake);
    fake.up = false;
    park(&fake, &a, "a", false);
    assert_false(fake.reader.taken);
    pawl__kit_lock(&fake.kit);
    pawl__kit_tell(&fake.kit, &a.claim.kit, KIT_GRANTED);
    pawl__kit_unlock(&fake.kit);
    pthread_join(a.thread, NULL);
    assert_heard("a done. ");
    tear_down(&fake);
}

/* A claim whose answers come elsewhere from now on takes its thread along; if that was to read here, another does. */
static void test_moved(void **state) {
    struct fake fake, other;
    struct parked a, b, c;

    (void)state;
    set_up(&fake);
    set_up(&other);
    other.up = false;
    pawl__kit_lock(&fake.kit);
    assert_true(pawl__kit_take_reading(&fake.kit, &fake.reader)); /* for a call that is about no claim */
    assert_false(pawl__kit_take_reading(&fake.kit, &fake.reader));
    pawl__kit_unlock(&fake.kit);
    park(&fake, &a, "a", false);
    park(&fake, &b, "b", false);
    park(&fake, &c, "c", false);
    pawl__kit_lock(&fake.kit);
    pawl__kit_move(&fake.kit, &a.claim.kit, &other.reader);
    pawl__kit_pass_reading(&fake.kit, &fake.reader);
    assert_int_equal(b.claim.kit.waits, KIT_READS_NEXT);
    pawl__kit_move(&fake.kit, &b.claim.kit, &other.reader);
    assert_int_equal(c.claim.kit.waits, KIT_READS_NEXT);
    pawl__kit_unlock(&fake.kit);
    see_sleep(&fake, &a.claim.kit, false);
    see_sleep(&fake, &b.claim.kit, false);
    see_sleep(&fake, &c.claim.kit, true);
    pawl__kit_lock(&fake.kit);
    assert_true(TAILQ_EMPTY(&fake.reader.followers));
    pawl__kit_move(&fake.kit, &c.claim.kit, &other.reader);
    pawl__kit_unlock(&fake.kit);
    see_sleep(&fake, &c.claim.kit, false);
    assert_false(fake.reader.taken);
    unpark(&fake, &b);
    unpark(&fake, &a);
    unpark(&fake, &c);
    assert_heard("b pending. a pending. c pending. ");
    tear_down(&other);
    tear_down(&fake);
}

/* ---- The table of telling ------------------------------------------------------------------------------------------------ */

static const int telling_cells[KIT_TELLINGS][KIT_TELLING_EVENTS] = {
    /* HAS_NEWS, UNTELLS, CALLS, CALLS_LAST, RETURNS */
    [KIT_IDLE] = {KIT_QUEUED, KIT_IGNORED, KIT_NEVER, KIT_NEVER, KIT_NEVER},
    [KIT_QUEUED] = {KIT_IGNORED, KIT_IDLE, KIT_TELLING, KIT_LAST, KIT_NEVER},
    [KIT_TELLING] = {KIT_IGNORED, KIT_IGNORED, KIT_NEVER, KIT_NEVER, KIT_IDLE},
    [KIT_LAST] = {KIT_IGNORED, KIT_IGNORED, KIT_NEVER, KIT_NEVER, KIT_NEVER},
};

static void test_every_cell_of_telling(void **state) {
    (void)state;
    for (int from = 0; from < KIT_TELLINGS; from++)
        for (int event = 0; event < KIT_TELLING_EVENTS; event++)
            if (pawl__kit_telling_move((enum kit_telling)from, (enum kit_telling_event)event) != telling_cells[from][event])
                fail_msg("state %d, event %d: not %d", from, event, telling_cells[from][event]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell_of_telling),
        cmocka_unit_test(test_notes_are_told_once_unlocked),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_who_tells),
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_news_in_an_upcall),
        cmocka_unit_test(test_untold),
        cmocka_unit_test(test_one_reads),
        cmocka_unit_test(test_unparked),
        cmocka_unit_test(test_nothing_to_read),
        cmocka_unit_test(test_moved),
    };

    return cmocka_run_group_tests_name("kit", tests, NULL, NULL);
}
