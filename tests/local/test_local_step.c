/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_step.c - kill -9 after single instructions.
 *
 * A child does one thing with a lock; the parent steps it by ptrace, one instruction at a time, and kills it after the k-th. Then
 * everybody else must still get what is due to them: the lock, soon, with a higher token, and with nothing left in the table. Every k
 * with $PAWL_TEST_LONG set, if that fits into ten minutes each; else as many, evenly spread from a random start, as fit into a few
 * seconds.
 */
#include "../support/local_harness.h"

static const char NAME[] = "stepped";

struct scene {
    char directory[PATH_MAX];
    struct pawl__engine *one, *two;             /* the parent's */
    struct pawl__claim *first, *second, *third; /* the parent's, by turns of both */
    struct pawl__claim *own;                    /* the child's */
    uint64_t token;                             /* the highest seen */
    int64_t worst;                              /* the longest that anybody had to wait after a kill */
    bool first_held;
    struct guard_visit visit; /* the parent's, by `one` */
};

struct scenario {
    const char *name;
    void (*before)(struct scene *);                         /* in the parent */
    void (*prepare)(struct scene *, struct pawl__engine *); /* in the child, not stepped */
    void (*act)(struct scene *, struct pawl__engine *);     /* in the child, stepped */
    void (*nudge)(struct scene *);                          /* in the parent, once the child sleeps */
    void (*after)(struct scene *);                          /* in the parent, after the kill */
    bool cold;                                              /* the child has never used the engine before */
    bool unattached;                                        /* it opens the engine itself, in act() */
};

static void must_get(struct scene *scene, struct pawl__engine *engine, struct pawl__claim *claim) {
    int64_t start = pawl__boottime(), took;
    int rc = inner(claim)->ref == 0 ? acquire(engine, claim, 10 * SECOND) : park(engine, claim, 10 * SECOND);

    took = pawl__boottime() - start;
    scene->worst = took > scene->worst ? took : scene->worst;
    if (rc != PAWL__DONE)
        fail_msg("not acquired: %s", pawl_error_name(rc));
    assert_true(claim->mode == PAWL_SHARED || claim->token > scene->token);
    scene->token = claim->token > scene->token ? claim->token : scene->token;
}

static void must_release(struct pawl__engine *engine, struct pawl__claim *claim) {
    assert_int_equal(release(engine, claim), PAWL__DONE);
}

static void as_mutex(struct pawl__claim *claim) {
    claim->label = NULL;
    claim->kind = PAWL_MUTEX;
    claim->mode = PAWL_EXCLUSIVE;
    claim->try_only = false;
}

static void as_rwlock(struct pawl__claim *claim, enum pawl_mode mode) {
    claim->kind = PAWL_RWLOCK;
    claim->mode = mode;
    claim->try_only = false;
}

/* ---- Uncontended ---- */

static void act_pair(struct scene *scene, struct pawl__engine *engine) {
    submit(engine, scene->own);
    engine->impl->withdraw(engine, scene->own);
}

/* ---- With a label of its own ---- */

static void before_label(struct scene *scene) {
    scene->own->label = "the child's";
}

static int assert_not_the_childs(const struct pawl_entry *entry, void *data) {
    (void)data;
    assert_string_equal(entry->label, "");
    return 0;
}

/* Another uses the child's nodes: what it left there is not that one's. */
static void after_label(struct scene *scene) {
    struct pawl__engine *successor;

    pawl__local_recover_all(local_of(scene->one));
    successor = engine_open(scene->directory);
    must_get(scene, successor, scene->first);
    assert_int_equal(successor->impl->operators->survey(successor, NULL, assert_not_the_childs, NULL, NULL), 0);
    must_release(successor, scene->first);
    engine_close(successor);
}

/* ---- Keeping ---- */

static void act_keep(struct scene *scene, struct pawl__engine *engine) {
    submit(engine, scene->own);
    rest(engine, scene->own);
    resume(engine, scene->own);
    rest(engine, scene->own);
    engine->impl->withdraw(engine, scene->own);
}

static void prepare_keep(struct scene *scene, struct pawl__engine *engine) {
    submit(engine, scene->own);
    rest(engine, scene->own);
}

/* The parent has taken what the child keeps. */
static void act_resume(struct scene *scene, struct pawl__engine *engine) {
    if (resume(engine, scene->own) != PAWL__DONE)
        engine->impl->withdraw(engine, scene->own);
    act_pair(scene, engine);
}

static void take_first(struct scene *scene) {
    must_get(scene, scene->one, scene->first);
    must_release(scene->one, scene->first);
}

/* The holder that is wanted: it does not keep, and lets the others in. */
static void act_rest(struct scene *scene, struct pawl__engine *engine) {
    if (rest(engine, scene->own) != PAWL__DONE)
        engine->impl->withdraw(engine, scene->own);
}

/* What the parent keeps is taken by the child. */
static void before_kept(struct scene *scene) {
    must_get(scene, scene->one, scene->first);
    assert_int_equal(rest(scene->one, scene->first), PAWL__DONE);
}

static void before_kept_by_readers(struct scene *scene) {
    as_rwlock(scene->own, PAWL_EXCLUSIVE);
    as_rwlock(scene->first, PAWL_SHARED);
    as_rwlock(scene->second, PAWL_SHARED);
    before_kept(scene);
    must_get(scene, scene->two, scene->second);
    assert_int_equal(rest(scene->two, scene->second), PAWL__DONE);
}

/* Either it is still kept, or it was taken and nobody holds it. */
static void settle_kept(struct pawl__engine *engine, struct pawl__claim *claim) {
    if (resume(engine, claim) == PAWL__DONE)
        must_release(engine, claim);
    else
        assert_int_equal(release(engine, claim), PAWL_ELOST);
}

static void after_kept(struct scene *scene) {
    settle_kept(scene->one, scene->first);
}

static void after_kept_by_readers(struct scene *scene) {
    settle_kept(scene->one, scene->first);
    settle_kept(scene->two, scene->second);
}

/* ---- Waiting for the parent's hold ---- */

static void before_hold(struct scene *scene) {
    must_get(scene, scene->one, scene->first);
    scene->first_held = true;
}

static void act_wait(struct scene *scene, struct pawl__engine *engine) {
    if (acquire(engine, scene->own, LONG) == PAWL__DONE)
        release(engine, scene->own);
}

static void let_go(struct scene *scene) {
    if (scene->first_held)
        must_release(scene->one, scene->first);
    scene->first_held = false;
}

/* ---- Letting go with somebody waiting ---- */

static void prepare_hold(struct scene *scene, struct pawl__engine *engine) {
    submit(engine, scene->own);
}

static void act_release(struct scene *scene, struct pawl__engine *engine) {
    engine->impl->withdraw(engine, scene->own);
}

/* The parent's claims, that were queued while the child held, come in. */
static void after_queue(struct scene *scene) {
    must_get(scene, scene->one, scene->first);
    if (scene->second->mode != PAWL_SHARED)
        must_release(scene->one, scene->first);
    must_get(scene, scene->two, scene->second);
    must_release(scene->two, scene->second);
    if (scene->second->mode == PAWL_SHARED)
        must_release(scene->one, scene->first);
}

static void queue_both(struct scene *scene) {
    submit(scene->one, scene->first);
    submit(scene->two, scene->second);
}

/* ---- The same while the parent stands in the guard ---- */

static void queue_both_and_enter(struct scene *scene) {
    queue_both(scene);
    assert_true(pawl__local_enter_try(local_of(scene->one), &scene->visit, scene->own->name_hash));
}

static void enter_guard(struct scene *scene) {
    assert_true(pawl__local_enter_try(local_of(scene->one), &scene->visit, scene->own->name_hash));
}

static void leave_guard(struct scene *scene) {
    pawl__local_leave(local_of(scene->one), &scene->visit);
}

static void after_queue_and_guard(struct scene *scene) {
    leave_guard(scene);
    after_queue(scene);
}

/* ---- Readers ---- */

static void before_readers(struct scene *scene) {
    as_rwlock(scene->own, PAWL_EXCLUSIVE);
    as_rwlock(scene->first, PAWL_SHARED);
    as_rwlock(scene->second, PAWL_SHARED);
}

static void act_downgrade(struct scene *scene, struct pawl__engine *engine) {
    engine->impl->extras->downgrade(engine, scene->own);
    engine->impl->withdraw(engine, scene->own);
}

/* ---- Giving up in the middle of the queue ---- */

static void before_three(struct scene *scene) {
    before_hold(scene);
}

static void prepare_queue(struct scene *scene, struct pawl__engine *engine) {
    submit(engine, scene->own);
}

static void queue_second(struct scene *scene) {
    submit(scene->two, scene->second);
}

static void after_three(struct scene *scene) {
    let_go(scene);
    must_get(scene, scene->two, scene->second);
    must_release(scene->two, scene->second);
}

/* ---- After the dead ---- */

static void die_holding(void *data) {
    struct scene *scene = data;
    struct pawl__engine *engine = engine_open(scene->directory);
    struct pawl__claim *claim = mutex_claim(NAME);

    submit(engine, claim);
    kill(getpid(), SIGKILL);
}

static void before_corpse(struct scene *scene) {
    reap(spawn(die_holding, scene));
    scene->own->try_only = true;
}

static void act_recover(struct scene *scene, struct pawl__engine *engine) {
    if (acquire(engine, scene->own, LONG) == PAWL__DONE)
        engine->impl->withdraw(engine, scene->own);
}

/* ---- After one that died in the guard ---- */

static void die_in_guard(void *data) {
    struct scene *scene = data;
    struct pawl__engine *engine = engine_open(scene->directory);
    struct guard_visit visit;

    pawl__local_enter(local_of(engine), &visit, pawl__name_hash(NAME, strlen(NAME)), pawl__boottime() + LONG, NULL);
    kill(getpid(), SIGKILL);
}

static void before_takeover(struct scene *scene) {
    before_hold(scene);
    queue_second(scene);
    reap(spawn(die_in_guard, scene));
}

static void act_takeover(struct scene *scene, struct pawl__engine *engine) {
    if (acquire(engine, scene->own, 0) == PAWL__PENDING) /* in, repaired, queued; and gives up */
        engine->impl->withdraw(engine, scene->own);
}

/* ---- Passing over one that does not claim ---- */

static void before_slow_claimer(struct scene *scene) {
    must_get(scene, scene->two, scene->second);
    submit(scene->one, scene->first);
}

static void prepare_behind_slow_claimer(struct scene *scene, struct pawl__engine *engine) {
    submit(engine, scene->own);
}

static void grant_to_slow_claimer(struct scene *scene) {
    must_release(scene->two, scene->second);
}

static void act_pass_over(struct scene *scene, struct pawl__engine *engine) {
    struct wait wait;

    pawl__local_wait_init(&wait);
    pawl__local_inspect_queue(local_of(engine), inner(scene->own), &wait, 0, NULL);
    wait.slow_claimer.until = 0;
    pawl__local_inspect_queue(local_of(engine), inner(scene->own), &wait, 0, NULL);
}

static void after_slow_claimer(struct scene *scene) {
    must_get(scene, scene->one, scene->first);
    must_release(scene->one, scene->first);
}

/* ---- Breaking ---- */

static void act_break(struct scene *scene, struct pawl__engine *engine) {
    engine->impl->operators->break_hold(engine, NAME, scene->first->token, true, NULL);
}

static void before_break(struct scene *scene) {
    before_hold(scene);
    queue_second(scene);
}

static void after_break(struct scene *scene) {
    if (scene->one->impl->extras->check(scene->one, scene->first) == 0)
        assert_int_equal(release(scene->one, scene->first), PAWL__DONE);
    else
        assert_int_equal(release(scene->one, scene->first), PAWL_ELOST);
    scene->first_held = false;
    must_get(scene, scene->two, scene->second);
    must_release(scene->two, scene->second);
}

/* ---- Coming and going; many nodes ---- */

static void act_attach(struct scene *scene, struct pawl__engine *engine) {
    struct pawl__engine *other = NULL;

    (void)engine;
    if (try_open(scene->directory, &other, NULL) < 0)
        return;
    submit(other, scene->own);
    other->impl->close(other, pawl__boottime() + SECOND);
}

static void act_many(struct scene *scene, struct pawl__engine *engine) {
    enum { MANY = 72 }; /* more than a process keeps when they are free */
    struct pawl__claim *claims[MANY];

    (void)scene;
    for (int i = 0; i < MANY; i++) {
        claims[i] = mutex_claim(i == 0 ? NAME : "many/x");
        claims[i]->name_hash += (uint32_t)i; /* a bucket each, names that differ by their hash alone */
        submit(engine, claims[i]);
    }
    for (int i = 0; i < MANY; i++)
        engine->impl->withdraw(engine, claims[i]);
}

static const struct scenario scenarios[] = {
    {.name = "acquire and release", .act = act_pair},
    {.name = "first acquire ever", .act = act_pair, .cold = true},
    {.name = "label", .before = before_label, .act = act_pair, .after = after_label},
    {.name = "keep", .act = act_keep},
    {.name = "hold again, too late", .prepare = prepare_keep, .nudge = take_first, .act = act_resume},
    {.name = "keep what is wanted", .prepare = prepare_hold, .nudge = queue_both, .act = act_rest, .after = after_queue},
    {.name = "take what is kept", .before = before_kept, .act = act_pair, .after = after_kept},
    {.name = "take it from readers", .before = before_kept_by_readers, .act = act_pair, .after = after_kept_by_readers},
    {.name = "wait", .before = before_hold, .act = act_wait, .nudge = let_go, .after = let_go},
    {.name = "release to a queue", .prepare = prepare_hold, .nudge = queue_both, .act = act_release, .after = after_queue},
    {.name = "let go", .prepare = prepare_hold, .nudge = enter_guard, .act = act_release, .after = leave_guard},
    {.name = "let go to a queue",
     .prepare = prepare_hold,
     .nudge = queue_both_and_enter,
     .act = act_release,
     .after = after_queue_and_guard},
    {.name = "release to readers",
     .before = before_readers,
     .prepare = prepare_hold,
     .nudge = queue_both,
     .act = act_release,
     .after = after_queue},
    {.name = "downgrade",
     .before = before_readers,
     .prepare = prepare_hold,
     .nudge = queue_both,
     .act = act_downgrade,
     .after = after_queue},
    {.name = "give up",
     .before = before_three,
     .prepare = prepare_queue,
     .nudge = queue_second,
     .act = act_release,
     .after = after_three},
    {.name = "recover", .before = before_corpse, .act = act_recover},
    {.name = "take over a guard", .before = before_takeover, .act = act_takeover, .after = after_three},
    {.name = "pass over",
     .before = before_slow_claimer,
     .prepare = prepare_behind_slow_claimer,
     .nudge = grant_to_slow_claimer,
     .act = act_pass_over,
     .after = after_slow_claimer},
    {.name = "break", .before = before_break, .act = act_break, .after = after_break},
    {.name = "many nodes", .act = act_many},
    {.name = "attach, hold, detach", .act = act_attach, .unattached = true},
};

/* ---- Stepping ---- */

/* Bind symbols, claim a block: what comes only once is in the way of what comes always. */
static void warm_up(struct pawl__engine *engine) {
    struct pawl__claim *claim = mutex_claim("warm");

    submit(engine, claim);
    park(engine, claim, 0);
    engine->impl->withdraw(engine, claim);
    claim->name_hash++; /* another shelf */
    submit(engine, claim);
    engine->impl->withdraw(engine, claim);
}

static void stepped_child(struct scene *scene, const struct scenario *scenario) {
    struct pawl__engine *engine = NULL;

    in_child = true;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    if (!scenario->unattached)
        engine = engine_open(scene->directory);
    if (!scenario->unattached && !scenario->cold)
        warm_up(engine);
    if (scenario->prepare)
        scenario->prepare(scene, engine);
    raise(SIGSTOP);
    scenario->act(scene, engine);
    raise(SIGSTOP);
    _exit(0);
}

/* Wait until the child stops; meanwhile, if it sleeps, nudge. */
static int await_stop(pid_t pid, struct scene *scene, const struct scenario *scenario, bool *nudged) {
    int64_t start = 0;
    int status;

    for (int i = 0;; i++) {
        pid_t rc = waitpid(pid, &status, WNOHANG);

        assert_true(rc >= 0);
        if (rc == pid)
            return status;
        if (i < 50)
            continue;
        start = start ? start : pawl__boottime();
        if (pawl__boottime() - start > 3 * MS && !*nudged && scenario->nudge && process_is(pid, 'S')) {
            scenario->nudge(scene);
            *nudged = true;
        }
        if (pawl__boottime() - start > LONG)
            fail_msg("%s: the child does not go on", scenario->name);
        sched_yield();
    }
}

/* One life of a child, killed after `steps` instructions. Returns how many it made; less than asked: it was through. */
static long one_kill(struct scene *scene, const struct scenario *scenario, long steps) {
    bool nudged = false, nudge_first = scenario->prepare != NULL;
    long made = 0;
    int status;
    pid_t pid;

    as_mutex(scene->own), as_mutex(scene->first), as_mutex(scene->second);
    if (scenario->before)
        scenario->before(scene);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        stepped_child(scene, scenario);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    if (nudge_first && scenario->nudge) { /* the child stands in the queue; the others come behind it */
        scenario->nudge(scene);
        nudged = true;
    }
    while (made < steps) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        status = await_stop(pid, scene, scenario, &nudged);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            break;
        made++;
    }
    if (WIFSTOPPED(status))
        kill_and_reap(pid);
    if (scenario->after)
        scenario->after(scene);
    scene->first_held = false;
    as_mutex(scene->third);
    must_get(scene, scene->one, scene->third);
    must_release(scene->one, scene->third);
    must_get(scene, scene->two, scene->third);
    must_release(scene->two, scene->third);
    return made;
}

/* Nothing may be left: not in the bucket, not in the guard. */
static void check_clean(struct scene *scene) {
    struct bucket *bucket = &table_of(scene->one)->buckets[scene->own->name_hash & (BUCKET_COUNT - 1)];

    assert_int_equal(GET(bucket->guard), 0);
    assert_int_equal(GET(bucket->head), 0);
    assert_int_equal(GET(bucket->tail), 0);
}

static void run_scenario(struct scene *scene, const struct scenario *scenario) {
    bool is_long = getenv("PAWL_TEST_LONG") != NULL;
    int64_t start = pawl__boottime(), budget = (is_long ? 600 : 1) * SECOND;
    long whole = one_kill(scene, scenario, LONG_MAX), kills = 0, stride;
    int64_t each = pawl__boottime() - start;

    check_clean(scene);
    stride = (long)(each / 2 * whole / budget) + 1;
    stride = stride < whole / 10 + 1 ? stride : whole / 10 + 1; /* however slow the machine: a few kills, not none */
    scene->worst = 0;
    start = pawl__boottime();
    for (long k = (long)(start / 1000 % stride); k < whole; k += stride) {
        one_kill(scene, scenario, k);
        check_clean(scene);
        kills++;
        if (pawl__boottime() - start > 4 * budget)
            break;
    }
    assert_true(kills > 0);
    print_message("%-22s %ld instructions, %ld kills, worst wait %.2f ms\n", scenario->name, whole, kills,
                  (double)scene->worst / MS);
}

static void test_every_instruction(void **data) {
    struct scene scene = {0};

    if (!can_trace()) {
        print_message("no ptrace here\n");
        skip();
    }
    snprintf(scene.directory, sizeof scene.directory, "%s", (const char *)*data);
    scene.one = engine_open(scene.directory);
    scene.two = engine_open(scene.directory);
    scene.own = mutex_claim(NAME);
    scene.first = mutex_claim(NAME);
    scene.second = mutex_claim(NAME);
    scene.third = mutex_claim(NAME);
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        run_scenario(&scene, &scenarios[i]);
    engine_close(scene.two);
    engine_close(scene.one);
    free(scene.own), free(scene.first), free(scene.second), free(scene.third);
}

/* Killed while it creates, or heals, a directory that nobody else uses: the next one opens it all the same. */
static void act_create(const char *directory) {
    struct pawl__engine *engine = NULL;
    struct pawl__claim *claim = mutex_claim(NAME);

    if (try_open(directory, &engine, NULL) == 0)
        submit(engine, claim);
}

static long kill_creator(const char *directory, long steps) {
    long made = 0;
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        in_child = true;
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        act_create(directory);
        raise(SIGSTOP);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    while (made < steps && ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid &&
           WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP)
        made++;
    if (WIFSTOPPED(status))
        kill_and_reap(pid);
    return made;
}

static void test_creation(void **data) {
    bool is_long = getenv("PAWL_TEST_LONG") != NULL;
    int64_t end = pawl__boottime() + (is_long ? 600 : 3) * SECOND;
    struct pawl__claim *claim = mutex_claim(NAME);
    char directory[PATH_MAX + 8];
    long whole, stride, kills = 0;
    uint64_t token = 0;

    if (!can_trace())
        skip();
    snprintf(directory, sizeof directory, "%s/new", (const char *)*data);
    whole = kill_creator(directory, LONG_MAX);
    directory_remove(directory);
    stride = is_long ? 7 : whole / 60 + 1;
    for (long k = pawl__boottime() / 1000 % stride; k < whole && (kills < 3 || pawl__boottime() < end); k += stride, kills++) {
        struct pawl__engine *engine;

        kill_creator(directory, k);
        engine = engine_open(directory);
        assert_int_equal(acquire(engine, claim, 10 * SECOND), PAWL__DONE);
        assert_true(claim->token > token);
        token = claim->token;
        release(engine, claim);
        engine_close(engine);
        kill_creator(directory, k); /* now there is a table: it attaches, or wipes */
        engine = engine_open(directory);
        assert_int_equal(acquire(engine, claim, 10 * SECOND), PAWL__DONE);
        assert_true(claim->token > token);
        token = 0;
        release(engine, claim);
        engine_close(engine);
        directory_remove(directory);
    }
    assert_true(kills > 0);
    print_message("creation: %ld instructions, %ld kills\n", whole, kills);
    free(claim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_instruction, setup_directory, teardown_directory),
        cmocka_unit_test_setup_teardown(test_creation, setup_directory, teardown_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
