/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_kept.c - a node that stays in the table while nobody holds it: held again by its owner, taken by who wants the lock.
 */
#include "../support/local_harness.h"

static const char NAME[] = "kept";

/* What a child is given. */
struct family {
    const char *directory;
    bool inherit;
    struct board *board; /* word 0: the pid of a child that lives on; or: 0: it holds, 1: it may let go */
};

/* Two processes, as far as the table knows; and a third. */
struct scene {
    struct pawl__engine *one, *two, *three;
    struct pawl__claim *first, *second, *third;
};

static struct scene scene_new(const char *directory, enum pawl_kind kind, enum pawl_mode mode) {
    return (struct scene){
        .one = engine_open(directory),
        .two = engine_open(directory),
        .three = engine_open(directory),
        .first = claim_new(NAME, kind, mode, 1, 1),
        .second = claim_new(NAME, kind, mode, 1, 1),
        .third = claim_new(NAME, kind, mode, 1, 1),
    };
}

static struct bucket *bucket_of(struct scene *scene) {
    return &table_of(scene->one)->buckets[scene->first->name_hash & (BUCKET_COUNT - 1)];
}

/* Nothing is left in the table. */
static void scene_free(struct scene *scene) {
    assert_int_equal(GET(bucket_of(scene)->head), 0);
    assert_int_equal(GET(bucket_of(scene)->tail), 0);
    assert_int_equal(GET(bucket_of(scene)->guard), 0);
    engine_close(scene->one), engine_close(scene->two), engine_close(scene->three);
    free(scene->first), free(scene->second), free(scene->third);
}

static enum node_state state_in_table(struct pawl__engine *engine, struct pawl__claim *claim) {
    return state_of(GET(table_of(engine)->nodes[inner(claim)->ref - 1].state));
}

/* Hold it, and let it rest. */
static void take_and_keep(struct pawl__engine *engine, struct pawl__claim *claim) {
    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    assert_int_equal(rest(engine, claim), PAWL__DONE);
    assert_int_equal(state_in_table(engine, claim), NODE_KEPT);
}

/* It was taken: its owner learns of it, and nobody else hears of a loss. */
static void assert_taken(struct pawl__engine *engine, struct pawl__claim *claim) {
    assert_int_equal(resume(engine, claim), PAWL_EHELD);
    assert_int_equal(release(engine, claim), PAWL_ELOST);
    assert_int_equal(inner(claim)->ref, 0);
}

static void test_held_again(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    uint32_t ref;

    take_and_keep(scene.one, scene.first);
    ref = inner(scene.first)->ref;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(resume(scene.one, scene.first), PAWL__DONE);
        assert_int_equal(state_in_table(scene.one, scene.first), NODE_HELD);
        assert_int_equal(scene.one->impl->extras->check(scene.one, scene.first), 0);
        assert_int_equal(acquire_now(scene.two, scene.second), PAWL_EHELD);
        assert_int_equal(rest(scene.one, scene.first), PAWL__DONE);
        assert_int_equal(scene.one->impl->extras->check(scene.one, scene.first), 0);
    }
    assert_int_equal(inner(scene.first)->ref, ref);
    assert_int_equal(GET(bucket_of(&scene)->head), ref);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    scene_free(&scene);
}

/* By one that waits, and by one that only tries; each with a higher token. */
static void test_taken_by_another(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);

    for (int i = 0; i < 2; i++) {
        take_and_keep(scene.one, scene.first);
        scene.second->try_only = i == 1;
        assert_int_equal(submit(scene.two, scene.second), PAWL__DONE);
        assert_true(scene.second->token > scene.first->token);
        assert_int_equal(scene.one->impl->extras->check(scene.one, scene.first), PAWL_ELOST);
        assert_taken(scene.one, scene.first);
        assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    }
    /* By another claim of the same process, too. */
    take_and_keep(scene.one, scene.first);
    assert_int_equal(submit(scene.one, scene.second), PAWL__DONE);
    assert_taken(scene.one, scene.first);
    assert_int_equal(release(scene.one, scene.second), PAWL__DONE);
    scene_free(&scene);
}

/* The token in reserve is below that of who takes the claim, and one that is drawn after holding again is above all before. */
static void test_tokens_rise(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    uint64_t last = 0, token;

    for (int i = 0; i < 100; i++) {
        take_and_keep(scene.one, scene.first);
        assert_true(scene.first->token > last);
        assert_int_equal(resume(scene.one, scene.first), PAWL__DONE);
        token = scene.one->impl->extras->retoken(scene.one, scene.first);
        assert_true(token > scene.first->token);
        assert_int_equal(rest(scene.one, scene.first), PAWL__DONE);
        last = token;
        token = scene.one->impl->extras->retoken(scene.one, scene.first); /* for the one who holds it next */
        assert_true(token > last);
        assert_int_equal(submit(scene.two, scene.second), PAWL__DONE);
        assert_true(scene.second->token > token);
        last = scene.second->token;
        assert_int_equal(scene.one->impl->extras->retoken(scene.one, scene.first), 0);
        assert_taken(scene.one, scene.first);
        assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    }
    scene_free(&scene);
}

/* There is no token for the next hold, nor can the node leave, since the guard is busy: yet a try of this process does not find it held. */
static void test_no_token_and_a_busy_guard(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    struct guard_visit visit;

    take_and_keep(scene.one, scene.first);
    assert_true(pawl__local_enter_try(local_of(scene.two), &visit, scene.first->name_hash));
    assert_int_equal(scene.one->impl->extras->retoken(scene.one, scene.first), 0);
    assert_int_equal(scene.one->impl->withdraw(scene.one, scene.first), PAWL__PENDING);
    pawl__local_leave(local_of(scene.two), &visit);
    assert_int_equal(acquire_now(scene.one, scene.third), PAWL__DONE);
    assert_int_equal(park(scene.one, scene.first, LONG), PAWL_ELOST); /* it was taken out, and nobody had it */
    assert_int_equal(release(scene.one, scene.third), PAWL__DONE);
    scene_free(&scene);
}

/* ---- Let go ---- */

/* Its node can't leave yet, since the guard is busy: it is in nobody's way, also if another has waited for it, and was not
 * lost. */
static void test_let_go_with_a_busy_guard(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    struct guard_visit visit;

    for (int i = 0; i < 4; i++) {
        scene.first->keep_ns = i & 1 ? PAWL__NEVER : 0;
        assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
        scene.second->try_only = false;
        if (i & 2) {
            assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
            assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
        }
        assert_true(pawl__local_enter_try(local_of(scene.three), &visit, scene.first->name_hash));
        assert_int_equal(scene.one->impl->withdraw(scene.one, scene.first), PAWL__PENDING);
        pawl__local_leave(local_of(scene.three), &visit);
        assert_int_equal(acquire_now(i < 2 ? scene.one : scene.two, scene.second), PAWL__DONE);
        assert_true(scene.second->token > scene.first->token);
        assert_int_equal(park(scene.one, scene.first, LONG), PAWL__DONE);
        assert_int_equal(release(i < 2 ? scene.one : scene.two, scene.second), PAWL__DONE);
    }
    scene_free(&scene);
}

/* The same with one that waits: it is next, and a try meets that one. */
static void test_let_go_before_one_that_waits(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    struct guard_visit visit;

    for (int i = 0; i < 2; i++) {
        scene.first->keep_ns = i & 1 ? PAWL__NEVER : 0;
        assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
        assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
        assert_true(pawl__local_enter_try(local_of(scene.three), &visit, scene.first->name_hash));
        assert_int_equal(scene.one->impl->withdraw(scene.one, scene.first), PAWL__PENDING);
        pawl__local_leave(local_of(scene.three), &visit);
        assert_int_equal(acquire_now(scene.three, scene.third), PAWL_EHELD);
        assert_int_equal(state_in_table(scene.two, scene.second), NODE_GRANTED);
        assert_int_equal(park(scene.two, scene.second, LONG), PAWL__DONE);
        assert_int_equal(park(scene.one, scene.first, LONG), PAWL__DONE);
        assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    }
    scene_free(&scene);
}

static int release_with_a_busy_guard(struct scene *scene, struct pawl__engine *engine, struct pawl__claim *claim) {
    struct guard_visit visit;
    int rc;

    assert_true(pawl__local_enter_try(local_of(scene->three), &visit, claim->name_hash));
    rc = engine->impl->withdraw(engine, claim);
    pawl__local_leave(local_of(scene->three), &visit);
    return rc;
}

/* One of three readers has let go, and stands before, between or behind the others: it keeps no reader out, and no writer longer than
 * those do. */
static void check_let_go_among_readers(const char *directory, int gone, int first, bool writer_waits) {
    struct scene scene = scene_new(directory, PAWL_RWLOCK, PAWL_SHARED);
    struct pawl__engine *engines[] = {scene.one, scene.two, scene.three};
    struct pawl__claim *readers[] = {scene.first, scene.second, scene.third},
                       *late = claim_new(NAME, PAWL_RWLOCK, PAWL_SHARED, 1, 1),
                       *writer = claim_new(NAME, PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1);
    int last = 3 - gone - first;

    for (int i = 0; i < 3; i++)
        assert_int_equal(submit(engines[i], readers[i]), PAWL__DONE);
    if (writer_waits)
        assert_int_equal(submit(scene.one, writer), PAWL__PENDING);
    assert_int_equal(release_with_a_busy_guard(&scene, engines[gone], readers[gone]), PAWL__PENDING);
    assert_int_equal(state_in_table(engines[gone], readers[gone]), NODE_KEPT);
    if (!writer_waits) {
        assert_int_equal(acquire_now(scene.two, late), PAWL__DONE);
        assert_int_equal(release(scene.two, late), PAWL__DONE);
        assert_int_equal(submit(scene.one, writer), PAWL__PENDING);
    }
    assert_int_equal(release(engines[first], readers[first]), PAWL__DONE);
    assert_int_equal(state_in_table(scene.one, writer), NODE_WAITING);
    assert_int_equal(release(engines[last], readers[last]), PAWL__DONE);
    assert_int_equal(state_in_table(scene.one, writer), NODE_GRANTED); /* by that release, not by its own look */
    assert_int_equal(park(scene.one, writer, LONG), PAWL__DONE);
    assert_int_equal(park(engines[gone], readers[gone], LONG), PAWL__DONE); /* and not lost */
    assert_int_equal(release(scene.one, writer), PAWL__DONE);
    free(late), free(writer);
    scene_free(&scene);
}

static void test_let_go_among_readers(void **data) {
    for (int gone = 0; gone < 3; gone++)
        for (int first = 0; first < 3; first++)
            for (int waits = 0; waits < 2 && first != gone; waits++)
                check_let_go_among_readers(*data, gone, first, waits);
}

/* It can't leave any more: who waits for the lock has it, and so does who only tries. */
static void let_go_and_die(void *data) {
    struct family *family = data;
    struct pawl__engine *engine = engine_open(family->directory), *other = engine_open(family->directory);
    struct pawl__claim *claim = mutex_claim(NAME);
    struct guard_visit visit;

    if (acquire(engine, claim, LONG) != PAWL__DONE)
        _exit(1);
    atomic_store(&family->board->words[0], 1);
    if (!await_word(&family->board->words[1], 1) || !pawl__local_enter_try(local_of(other), &visit, claim->name_hash) ||
        engine->impl->withdraw(engine, claim) != PAWL__PENDING || state_in_table(engine, claim) != NODE_KEPT)
        _exit(2);
    pawl__local_leave(local_of(other), &visit);
    kill(getpid(), SIGKILL);
}

static void test_let_go_by_one_that_died_then(void **data) {
    for (int waits = 0; waits < 2; waits++) {
        struct board *board = board_new();
        struct family family = {.directory = *data, .board = board};
        struct pawl__engine *engine = engine_open(*data);
        struct pawl__claim *claim = mutex_claim(NAME);
        pid_t pid = spawn(let_go_and_die, &family);

        assert_true(await_word(&board->words[0], 1));
        if (waits)
            assert_int_equal(submit(engine, claim), PAWL__PENDING);
        atomic_store(&board->words[1], 1);
        assert_true(WIFSIGNALED(reap(pid)));
        assert_int_equal(waits ? park(engine, claim, LONG) : acquire_now(engine, claim), PAWL__DONE);
        assert_int_equal(release(engine, claim), PAWL__DONE);
        assert_int_equal(GET(table_of(engine)->buckets[claim->name_hash & (BUCKET_COUNT - 1)].head), 0);
        engine_close(engine);
        free(claim);
        board_free(board);
    }
}

/* One that was broken before is lost. */
static void test_broken_and_let_go(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    struct guard_visit visit;

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    atomic_fetch_or(&table_of(scene.one)->nodes[inner(scene.first)->ref - 1].state, NODE_BROKEN);
    assert_true(pawl__local_enter_try(local_of(scene.three), &visit, scene.first->name_hash));
    assert_int_equal(scene.one->impl->withdraw(scene.one, scene.first), PAWL__PENDING);
    pawl__local_leave(local_of(scene.three), &visit);
    assert_int_equal(park(scene.one, scene.first, LONG), PAWL_ELOST);
    scene_free(&scene);
}

/* ---- Wanted ---- */

static void test_not_kept_while_another_waits(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_false(scene.first->wanted);
    assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
    assert_int_equal(rest(scene.one, scene.first), PAWL_EHELD);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(park(scene.two, scene.second, LONG), PAWL__DONE);
    assert_false(scene.second->wanted);
    /* It is kept again when nobody waits any more, the next time. */
    assert_int_equal(rest(scene.two, scene.second), PAWL__DONE);
    assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    take_and_keep(scene.one, scene.first);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    scene_free(&scene);
}

/* Who comes when the one before it was granted the lock, and does not know yet. */
static void test_wanted_when_granted(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(submit(scene.three, scene.third), PAWL__PENDING);
    assert_int_equal(park(scene.two, scene.second, LONG), PAWL__DONE);
    assert_true(scene.second->wanted);
    assert_int_equal(rest(scene.two, scene.second), PAWL_EHELD);
    assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    assert_int_equal(park(scene.three, scene.third, LONG), PAWL__DONE);
    assert_int_equal(release(scene.three, scene.third), PAWL__DONE);
    scene_free(&scene);
}

/* Who waited already behind the one that waits. */
static void test_wanted_when_waiting(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
    assert_int_equal(submit(scene.three, scene.third), PAWL__PENDING);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(park(scene.two, scene.second, LONG), PAWL__DONE);
    assert_true(scene.second->wanted);
    assert_int_equal(rest(scene.two, scene.second), PAWL_EHELD);
    assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    assert_int_equal(park(scene.three, scene.third, LONG), PAWL__DONE);
    assert_int_equal(release(scene.three, scene.third), PAWL__DONE);
    scene_free(&scene);
}

/* It does not wait: what it meets is kept all the same. */
static void test_a_try_wants_nothing(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(acquire_now(scene.two, scene.second), PAWL_EHELD);
    assert_int_equal(rest(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    scene_free(&scene);
}

/* Its node is left alone by those behind it. */
static void test_a_claim_that_is_not_to_be_kept(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);

    scene.first->keep_ns = 0;
    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
    assert_int_equal(GET(table_of(scene.one)->nodes[inner(scene.first)->ref - 1].state) & NODE_WANTED, 0);
    assert_int_equal(rest(scene.one, scene.first), PAWL_EHELD);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(park(scene.two, scene.second, LONG), PAWL__DONE);
    assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    scene_free(&scene);
}

/* ---- Readers and writers ---- */

static void test_readers_keep_side_by_side(void **data) {
    struct scene scene = scene_new(*data, PAWL_RWLOCK, PAWL_SHARED);

    take_and_keep(scene.one, scene.first);
    take_and_keep(scene.two, scene.second);
    assert_int_equal(resume(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(resume(scene.two, scene.second), PAWL__DONE);
    assert_int_equal(rest(scene.two, scene.second), PAWL__DONE);
    assert_int_equal(rest(scene.one, scene.first), PAWL__DONE);
    /* A writer takes them all. */
    scene.third->mode = PAWL_EXCLUSIVE;
    assert_int_equal(submit(scene.three, scene.third), PAWL__DONE);
    assert_taken(scene.one, scene.first);
    assert_taken(scene.two, scene.second);
    /* A reader takes what a writer keeps. */
    assert_int_equal(rest(scene.three, scene.third), PAWL__DONE);
    take_and_keep(scene.one, scene.first);
    assert_taken(scene.three, scene.third);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    scene_free(&scene);
}

/* Those in the way of a writer that waits: the kept one is taken, and those that hold do not keep, in any order of their ends. */
static void test_a_writer_wants_all_readers(void **data) {
    struct scene scene = scene_new(*data, PAWL_RWLOCK, PAWL_SHARED);
    struct pawl__claim *writer = claim_new(NAME, PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1);

    for (int i = 0; i < 2; i++) {
        struct pawl__claim *early = i ? scene.second : scene.first, *late = i ? scene.first : scene.second;
        struct pawl__engine *early_one = i ? scene.two : scene.one, *late_one = i ? scene.one : scene.two;

        take_and_keep(scene.three, scene.third);
        assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
        assert_int_equal(submit(scene.two, scene.second), PAWL__DONE);
        assert_int_equal(submit(scene.three, writer), PAWL__PENDING);
        assert_taken(scene.three, scene.third);
        assert_int_equal(rest(early_one, early), PAWL_EHELD);
        assert_int_equal(release(early_one, early), PAWL__DONE);
        assert_int_equal(rest(late_one, late), PAWL_EHELD);
        assert_int_equal(release(late_one, late), PAWL__DONE);
        assert_int_equal(park(scene.three, writer, LONG), PAWL__DONE);
        assert_int_equal(release(scene.three, writer), PAWL__DONE);
    }
    free(writer);
    scene_free(&scene);
}

/* Readers that are let in together, before a writer that waits: all of them are wanted. */
static void test_readers_let_in_before_a_writer(void **data) {
    struct scene scene = scene_new(*data, PAWL_RWLOCK, PAWL_SHARED);
    struct pawl__claim *holder = claim_new(NAME, PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1),
                       *writer = claim_new(NAME, PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1);

    assert_int_equal(submit(scene.three, holder), PAWL__DONE);
    assert_int_equal(submit(scene.one, scene.first), PAWL__PENDING);
    assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
    assert_int_equal(submit(scene.three, writer), PAWL__PENDING);
    assert_int_equal(release(scene.three, holder), PAWL__DONE);
    assert_int_equal(park(scene.one, scene.first, LONG), PAWL__DONE);
    assert_int_equal(park(scene.two, scene.second, LONG), PAWL__DONE);
    assert_int_equal(rest(scene.one, scene.first), PAWL_EHELD);
    assert_int_equal(rest(scene.two, scene.second), PAWL_EHELD);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    assert_int_equal(park(scene.three, writer, LONG), PAWL__DONE);
    assert_int_equal(release(scene.three, writer), PAWL__DONE);
    free(holder), free(writer);
    scene_free(&scene);
}

/* A downgrade lets readers in before a writer. */
static void test_downgraded_before_a_writer(void **data) {
    struct scene scene = scene_new(*data, PAWL_RWLOCK, PAWL_EXCLUSIVE);

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    scene.second->mode = PAWL_SHARED;
    assert_int_equal(submit(scene.two, scene.second), PAWL__PENDING);
    assert_int_equal(submit(scene.three, scene.third), PAWL__PENDING);
    assert_int_equal(scene.one->impl->extras->downgrade(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(park(scene.two, scene.second, LONG), PAWL__DONE);
    assert_int_equal(rest(scene.two, scene.second), PAWL_EHELD);
    assert_int_equal(rest(scene.one, scene.first), PAWL_EHELD);
    assert_int_equal(release(scene.two, scene.second), PAWL__DONE);
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(park(scene.three, scene.third, LONG), PAWL__DONE);
    assert_int_equal(release(scene.three, scene.third), PAWL__DONE);
    scene_free(&scene);
}

/* ---- Other kinds, other states ---- */

static void test_another_kind(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    struct pawl__claim *permits = claim_new(NAME, PAWL_SEMAPHORE, PAWL_PERMITS, 1, 3);

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(acquire_now(scene.two, permits), PAWL_EKIND);
    assert_int_equal(rest(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(acquire_now(scene.two, permits), PAWL__DONE);
    assert_taken(scene.one, scene.first);
    assert_int_equal(rest(scene.two, permits), PAWL_EHELD); /* semaphores are not kept */
    assert_int_equal(release(scene.two, permits), PAWL__DONE);
    free(permits);
    scene_free(&scene);
}

/* Refused while it was parked: another thread of its process may ask before that is known there. */
static void test_a_refused_one_is_not_wanted(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    struct pawl__claim *permits = claim_new(NAME, PAWL_SEMAPHORE, PAWL_PERMITS, 1, 3);

    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(acquire_now(scene.two, permits), PAWL_EKIND);
    assert_int_equal(inner(permits)->ref, 0);
    assert_false(scene.two->impl->keeping->is_wanted(scene.two, permits));
    assert_int_equal(release(scene.one, scene.first), PAWL__DONE);
    free(permits);
    scene_free(&scene);
}

static int count_entry(const struct pawl_entry *entry, void *data) {
    (void)entry;
    ++*(int *)data;
    return 0;
}

static int count_entries(struct pawl__engine *engine) {
    int count = 0;

    assert_int_equal(engine->impl->operators->survey(engine, NAME, count_entry, &count, NULL), 0);
    return count;
}

static void test_status_and_break(void **data) {
    struct scene scene = scene_new(*data, PAWL_MUTEX, PAWL_EXCLUSIVE);
    const struct pawl__operators *operators = scene.two->impl->operators;
    struct node *node;

    take_and_keep(scene.one, scene.first);
    assert_int_equal(count_entries(scene.two), 0);
    assert_int_equal(operators->break_hold(scene.two, NAME, scene.first->token, false, NULL), PAWL_ETOKEN);
    assert_int_equal(operators->break_hold(scene.two, NAME, scene.first->token, true, NULL), PAWL_ETOKEN);
    assert_int_equal(resume(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(count_entries(scene.two), 1);
    /* Broken while it is held: not kept. */
    assert_int_equal(operators->break_hold(scene.two, NAME, scene.first->token, false, NULL), 0);
    assert_int_equal(rest(scene.one, scene.first), PAWL_EHELD);
    assert_int_equal(release(scene.one, scene.first), PAWL_ELOST);
    /* Over its head. */
    assert_int_equal(submit(scene.one, scene.first), PAWL__DONE);
    assert_int_equal(operators->break_hold(scene.two, NAME, scene.first->token, true, NULL), 0);
    assert_int_equal(rest(scene.one, scene.first), PAWL_EHELD);
    assert_int_equal(release(scene.one, scene.first), PAWL_ELOST);
    /* Between the look and the mark of who breaks it, it was kept. */
    take_and_keep(scene.one, scene.first);
    node = &table_of(scene.one)->nodes[inner(scene.first)->ref - 1];
    atomic_fetch_or(&node->state, NODE_BROKEN);
    assert_int_equal(resume(scene.one, scene.first), PAWL_EHELD);
    release(scene.one, scene.first);
    scene_free(&scene);
}

/* ---- The end of the keeper ---- */

static void keep_and_die(void *data) {
    struct family *family = data;
    struct pawl__engine *engine = NULL;
    struct pawl__claim *claim = mutex_claim(NAME);
    char url[PATH_MAX + 8];

    snprintf(url, sizeof url, "local:%s", family->directory);
    if (try_open_url(url, family->inherit, &engine, NULL) < 0 || acquire(engine, claim, LONG) != PAWL__DONE ||
        rest(engine, claim) != PAWL__DONE)
        _exit(1);
    if (fork() == 0) {
        engine->impl->forked(engine); /* as the core does */
        atomic_store(&family->board->words[0], getpid());
        for (int i = 0; i < 600; i++)
            sleep_ms(1000);
        _exit(0);
    }
    if (await_word(&family->board->words[0], 1))
        kill(getpid(), SIGKILL);
}

/* A dead keeper is neither asked nor recovered: what it kept is taken. Nor does it matter who has its lifeline. */
static void check_dead_keeper(const char *directory, bool inherit) {
    struct board *board = board_new();
    struct family family = {directory, inherit, board};
    struct pawl__engine *engine = engine_open(directory);
    struct pawl__claim *claim = mutex_claim(NAME);
    struct table *table = table_of(engine);
    uint64_t word;

    assert_true(WIFSIGNALED(reap(spawn(keep_and_die, &family))));
    word = GET(table->words[1]);
    assert_true(word & SESSION_LIVE);
    assert_int_equal(acquire_now(engine, claim), PAWL__DONE);
    assert_int_equal(GET(table->words[1]), word);
    assert_int_equal(release(engine, claim), PAWL__DONE);
    assert_int_equal(GET(table->buckets[claim->name_hash & (BUCKET_COUNT - 1)].head), 0);
    kill((pid_t)atomic_load(&board->words[0]), SIGKILL);
    engine_close(engine);
    free(claim);
    board_free(board);
}

static void test_dead_keeper(void **data) {
    check_dead_keeper(*data, false);
}

static void test_dead_keeper_with_an_inheritor(void **data) {
    check_dead_keeper(*data, true);
}

/* Who closes leaves nothing behind, and who comes later finds what was kept as it is. */
static void test_close(void **data) {
    struct pawl__engine *one = engine_open(*data), *two = engine_open(*data);
    struct pawl__claim *claim = mutex_claim(NAME);

    take_and_keep(one, claim);
    engine_close(one);
    assert_int_equal(GET(table_of(two)->buckets[claim->name_hash & (BUCKET_COUNT - 1)].head), 0);
    engine_close(two);
    free(claim);
}

/* What is found when the directory is gone is asked for anew, and then says so. */
static void test_directory_removed(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claim = mutex_claim(NAME), *other = mutex_claim("other");

    take_and_keep(engine, claim);
    assert_int_equal(acquire(engine, other, LONG), PAWL__DONE);
    directory_remove(*data);
    sleep_ms(20); /* more than an acquire may overlook it */
    assert_int_equal(resume(engine, claim), PAWL_EHELD);
    assert_int_equal(rest(engine, other), PAWL_EHELD);
    assert_int_equal(release(engine, other), PAWL_ELOST);
    assert_int_equal(release(engine, claim), PAWL_ELOST);
    assert_int_equal(submit(engine, claim), PAWL_EGONE);
    engine_close(engine);
    free(claim), free(other);
}

/* No thread ends what is kept: so there is a limit, and a lock beyond it is released as ever. */
static void test_no_more_than_the_limit(void **data) {
    static struct pawl__claim *claims[KEEPS_MAX + 1];
    struct pawl__engine *engine = engine_open(*data);
    static char names[KEEPS_MAX + 1][16];

    for (int i = 0; i <= KEEPS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "lock/%d", i);
        claims[i] = mutex_claim(names[i]);
        assert_int_equal(acquire(engine, claims[i], LONG), PAWL__DONE);
        assert_int_equal(rest(engine, claims[i]), i < KEEPS_MAX ? PAWL__DONE : PAWL_EHELD);
    }
    assert_int_equal(release(engine, claims[0]), PAWL__DONE);
    assert_int_equal(rest(engine, claims[KEEPS_MAX]), PAWL__DONE);
    for (int i = 1; i <= KEEPS_MAX; i++)
        assert_int_equal(release(engine, claims[i]), PAWL__DONE);
    assert_int_equal(GET(local_of(engine)->keeping), 0);
    engine_close(engine);
    for (int i = 0; i <= KEEPS_MAX; i++)
        free(claims[i]);
}

/* ---- Both at once ---- */

struct race {
    const char *directory;
    struct board *
        board; /* word 0: who is inside; 1: the last token; 2: failures; 3: how many have come; from LETTING_GO on, by slot: does it let
                            go? */
};

enum { RACERS = 3, TURNS = 5000, LETTING_GO = 16 };

static void enter_race(struct race *race, uint64_t token) {
    int64_t nobody = 0;

    if (!atomic_compare_exchange_strong(&race->board->words[0], &nobody, getpid()) ||
        (int64_t)token <= atomic_exchange(&race->board->words[1], (int64_t)token))
        atomic_fetch_add(&race->board->words[2], 1);
    atomic_store(&race->board->words[0], 0);
}

static int release_in_race(struct race *race, struct pawl__engine *engine, struct pawl__claim *claim) {
    _Atomic int64_t *letting_go = &race->board->words[LETTING_GO + local_of(engine)->slot];
    int rc;

    atomic_store(letting_go, 1);
    rc = release(engine, claim);
    atomic_store(letting_go, 0);
    return rc;
}

/* As the core does: hold again what is kept, else ask for it; release by keeping, else by letting go. */
static void race(void *data) {
    struct race *race = data;
    struct pawl__engine *engine = engine_open(race->directory);
    struct pawl__claim *claim = mutex_claim(NAME);
    bool kept = false;

    atomic_fetch_add(&race->board->words[3], 1);
    while (atomic_load(&race->board->words[3]) < RACERS) /* else one may be through before the next begins */
        sched_yield();
    for (int i = 0; i < TURNS; i++) {
        uint64_t token = 0;

        if (kept && resume(engine, claim) == PAWL__DONE)
            token = engine->impl->extras->retoken(engine, claim);
        if (kept && token == 0)
            release_in_race(race, engine, claim);
        if (token == 0 && acquire(engine, claim, LONG) != PAWL__DONE)
            _exit(1);
        enter_race(race, token ? token : claim->token);
        if (i % 16 == 8)
            sched_yield(); /* so that others queue behind it */
        kept = rest(engine, claim) == PAWL__DONE;
        if (!kept && release_in_race(race, engine, claim) != PAWL__DONE)
            _exit(2);
        if (i % 16 == 0)
            sched_yield(); /* so that others find it kept */
    }
    engine_close(engine);
    free(claim);
}

/* In the guard: while one waits, all before it are wanted, and none is kept, but for what was let go and could not leave yet. */
static void assert_nobody_waits_for_kept(struct pawl__engine *engine, const struct board *board) {
    uint32_t steps = 0, wrong = 0;
    struct guard_visit visit;
    bool good = true;

    if (pawl__local_enter(local_of(engine), &visit, pawl__name_hash(NAME, strlen(NAME)), pawl__boottime() + LONG, NULL) !=
        PAWL__DONE)
        fail_msg("the guard is not to be had");
    FOR_NODES(node, local_of(engine), &visit, &steps) {
        uint32_t word = GET(node->state);

        good &= state_of(word) != NODE_WAITING || wrong == 0;
        wrong += state_of(word) != NODE_WAITING && !(word & NODE_WANTED);
        wrong += state_of(word) == NODE_KEPT && !atomic_load(&board->words[LETTING_GO + slot_of(GET(node->owner))]);
    }
    pawl__local_leave(local_of(engine), &visit);
    assert_true(good);
}

static void test_race(void **data) {
    struct board *board = board_new();
    struct race shared = {*data, board};
    struct pawl__engine *engine = engine_open(*data);
    int status, left = RACERS;
    pid_t ended;

    for (int i = 0; i < left; i++)
        spawn(race, &shared);
    while (left > 0) {
        assert_nobody_waits_for_kept(engine, board);
        ended = waitpid(-1, &status, WNOHANG);
        assert_true(ended >= 0);
        if (ended > 0)
            assert_int_equal(status, 0);
        left -= ended > 0;
    }
    assert_int_equal(atomic_load(&board->words[2]), 0);
    engine_close(engine);
    board_free(board);
}

int main(int argc, char **argv) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_held_again),
        T(test_taken_by_another),
        T(test_tokens_rise),
        T(test_no_token_and_a_busy_guard),
        T(test_let_go_with_a_busy_guard),
        T(test_let_go_before_one_that_waits),
        T(test_let_go_among_readers),
        T(test_let_go_by_one_that_died_then),
        T(test_broken_and_let_go),
        T(test_not_kept_while_another_waits),
        T(test_wanted_when_granted),
        T(test_wanted_when_waiting),
        T(test_a_try_wants_nothing),
        T(test_a_claim_that_is_not_to_be_kept),
        T(test_readers_keep_side_by_side),
        T(test_a_writer_wants_all_readers),
        T(test_readers_let_in_before_a_writer),
        T(test_downgraded_before_a_writer),
        T(test_another_kind),
        T(test_a_refused_one_is_not_wanted),
        T(test_status_and_break),
        T(test_dead_keeper),
        T(test_dead_keeper_with_an_inheritor),
        T(test_close),
        T(test_directory_removed),
        T(test_no_more_than_the_limit),
        T(test_race),
    };

    choose_tests(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
