/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_serve.c - the engine's other half: claims that a service thread looks after, inspection, breaking, downgrade, tokens.
 */
#include "../support/findings.h"
#include "../support/local_harness.h"

static void withdraw_served(struct pawl__engine *engine, struct log *log, struct pawl__claim *claim) {
    int before = log->settled;

    assert_int_equal(engine->impl->withdraw(engine, claim), PAWL__PENDING);
    serve_until(engine, &log->settled, before + 1);
}

/* ---- Adopted claims ---- */

static void test_adopted_claim_is_granted(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *adopted = mutex_claim("name"), *behind = mutex_claim("name");

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopt_pending(engine, adopted);
    serve_briefly(engine, 30 * MS);
    assert_int_equal(log.granted, 0);
    release(other, held);
    serve_until(engine, &log.granted, 1);
    assert_ptr_equal(log.last, adopted);
    assert_true(adopted->token > held->token);
    assert_int_equal(engine->impl->extras->check(engine, adopted), 0);
    assert_int_equal(submit(other, behind), PAWL__PENDING);
    withdraw_served(engine, &log, adopted);
    assert_int_equal(park(other, behind, LONG), PAWL__DONE);
    release(other, behind);
    engine_close(other);
    engine_close(engine);
    free(held), free(adopted), free(behind);
}

/* It was released, and the service thread has not come to it yet: a try does not find it held. */
static void test_adopted_claim_is_let_go_at_once(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *adopted = mutex_claim("name");

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopt_pending(engine, adopted);
    release(other, held);
    serve_until(engine, &log.granted, 1);
    assert_int_equal(engine->impl->withdraw(engine, adopted), PAWL__PENDING);
    assert_int_equal(acquire_now(other, held), PAWL__DONE);
    assert_true(held->token > adopted->token);
    serve_until(engine, &log.settled, 1);
    assert_int_equal(log.lost, 0);
    release(other, held);
    engine_close(other);
    engine_close(engine);
    free(held), free(adopted);
}

static void test_adopted_claim_gives_up(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *adopted = mutex_claim("name");

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopt_pending(engine, adopted);
    serve_briefly(engine, 5 * MS);
    withdraw_served(engine, &log, adopted);
    assert_int_equal(log.granted, 0);
    release(other, held);
    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    release(other, held);
    engine_close(other);
    engine_close(engine);
    free(held), free(adopted);
}

/* It was let in, and the service thread has not come to it: the next one is. */
static void test_adopted_claim_gives_up_what_it_was_granted(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *adopted = mutex_claim("name"), *behind = mutex_claim("name");

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopt_pending(engine, adopted);
    assert_int_equal(submit(other, behind), PAWL__PENDING);
    release(other, held);
    assert_int_equal(engine->impl->withdraw(engine, adopted), PAWL__PENDING);
    assert_int_equal(park(other, behind, 0), PAWL__PENDING);
    serve_until(engine, &log.settled, 1);
    assert_int_equal(log.granted, 0);
    assert_int_equal(park(other, behind, LONG), PAWL__DONE);
    release(other, behind);
    engine_close(other);
    engine_close(engine);
    free(held), free(adopted), free(behind);
}

static void test_adopted_claim_notices_death(void **data) {
    struct board *board = board_new();
    struct keeper keeper = {.directory = *data, .name = "name", .permits = 1, .limit = 1, .board = board, .hold_ms = -1};
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log);
    struct pawl__claim *adopted = mutex_claim("name");
    pid_t pid = spawn(keep, &keeper);

    assert_true(await_word(&board->words[0], 2));
    adopt_pending(engine, adopted);
    serve_briefly(engine, 20 * MS);
    kill_and_reap(pid);
    serve_until(engine, &log.granted, 1);
    withdraw_served(engine, &log, adopted);
    engine_close(engine);
    free(adopted);
    board_free(board);
}

static void test_adopted_try_is_refused(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *adopted = mutex_claim("name");

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopted->try_only = true;
    adopt_pending(engine, adopted);
    serve_until(engine, &log.refused, 1);
    assert_int_equal(log.error.code, PAWL_EHELD);
    release(other, held);
    engine_close(other);
    engine_close(engine);
    free(held), free(adopted);
}

static void test_many_adopted_claims(void **data) {
    enum { MANY = 50 };
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held[MANY], *adopted[MANY];
    char names[MANY][16];

    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "name%d", i);
        held[i] = mutex_claim(names[i]);
        adopted[i] = mutex_claim(names[i]);
        assert_int_equal(acquire(other, held[i], 0), PAWL__DONE);
        adopt_pending(engine, adopted[i]);
    }
    serve_briefly(engine, 20 * MS);
    for (int i = 0; i < MANY; i++)
        release(other, held[i]);
    serve_until(engine, &log.granted, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(engine->impl->withdraw(engine, adopted[i]), PAWL__PENDING);
    serve_until(engine, &log.settled, MANY);
    engine_close(other);
    engine_close(engine);
    for (int i = 0; i < MANY; i++)
        free(held[i]), free(adopted[i]);
}

static void *ring_later(void *data) {
    struct pawl__engine *engine = data;

    sleep_ms(30);
    engine->impl->wake(engine);
    return NULL;
}

static void test_wake(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log);
    int64_t start = pawl__boottime();
    pthread_t thread;

    engine->impl->wake(engine); /* before: sticks */
    engine->impl->serve(engine, pawl__boottime() + LONG);
    assert_int_equal(pthread_create(&thread, NULL, ring_later, engine), 0);
    engine->impl->serve(engine, pawl__boottime() + LONG);
    pthread_join(thread, NULL);
    assert_true(pawl__boottime() - start < LONG);
    engine_close(engine);
}

/* ---- Downgrade, tokens ---- */

static void test_downgrade_lets_readers_in_and_no_writer(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *writer = claim_new("name", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1),
                       *reader = claim_new("name", PAWL_RWLOCK, PAWL_SHARED, 1, 1),
                       *next = claim_new("name", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1),
                       *last = claim_new("name", PAWL_RWLOCK, PAWL_SHARED, 1, 1);
    uint64_t token;

    assert_int_equal(acquire(engine, writer, 0), PAWL__DONE);
    token = writer->token;
    assert_int_equal(submit(other, reader), PAWL__PENDING);
    assert_int_equal(submit(other, next), PAWL__PENDING);
    assert_int_equal(submit(other, last), PAWL__PENDING);
    assert_int_equal(engine->impl->extras->downgrade(engine, writer), PAWL__DONE);
    writer->mode = PAWL_SHARED;
    assert_int_equal(writer->token, token);
    assert_int_equal(park(other, reader, LONG), PAWL__DONE);
    assert_int_equal(park(other, next, 10 * MS), PAWL__PENDING);
    assert_int_equal(park(other, last, 10 * MS), PAWL__PENDING); /* FIFO: not past the writer */
    release(engine, writer);
    assert_int_equal(park(other, next, 10 * MS), PAWL__PENDING);
    release(other, reader);
    assert_int_equal(park(other, next, LONG), PAWL__DONE);
    release(other, next);
    assert_int_equal(park(other, last, LONG), PAWL__DONE);
    release(other, last);
    engine_close(other);
    engine_close(engine);
    free(writer), free(reader), free(next), free(last);
}

static void test_served_downgrade(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = claim_new("name", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1),
                       *writer = claim_new("name", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1),
                       *reader = claim_new("name", PAWL_RWLOCK, PAWL_SHARED, 1, 1);

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopt_pending(engine, writer);
    release(other, held);
    serve_until(engine, &log.granted, 1);
    assert_int_equal(submit(other, reader), PAWL__PENDING);
    assert_int_equal(engine->impl->extras->downgrade(engine, writer), PAWL__PENDING);
    serve_until(engine, &log.downgraded, 1);
    writer->mode = PAWL_SHARED;
    assert_int_equal(park(other, reader, LONG), PAWL__DONE);
    release(other, reader);
    withdraw_served(engine, &log, writer);
    engine_close(other);
    engine_close(engine);
    free(held), free(writer), free(reader);
}

static void test_permits_are_fifo(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *two = claim_new("name", PAWL_SEMAPHORE, PAWL_PERMITS, 2, 3),
                       *three = claim_new("name", PAWL_SEMAPHORE, PAWL_PERMITS, 3, 3),
                       *one = claim_new("name", PAWL_SEMAPHORE, PAWL_PERMITS, 1, 3);

    assert_int_equal(acquire(engine, two, 0), PAWL__DONE);
    assert_int_equal(submit(engine, three), PAWL__PENDING);
    assert_int_equal(acquire(engine, one, 5 * MS), PAWL__PENDING); /* would fit, but is not first */
    release(engine, three);                                        /* gives up */
    assert_int_equal(park(engine, one, LONG), PAWL__DONE);
    assert_int_equal(submit(engine, three), PAWL__PENDING);
    release(engine, two);
    assert_int_equal(park(engine, three, 5 * MS), PAWL__PENDING);
    release(engine, one);
    assert_int_equal(park(engine, three, LONG), PAWL__DONE);
    release(engine, three);
    engine_close(engine);
    free(one), free(two), free(three);
}

static void test_retoken(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claim = mutex_claim("name");
    uint64_t token;

    assert_int_equal(acquire(engine, claim, 0), PAWL__DONE);
    token = engine->impl->extras->retoken(engine, claim);
    assert_true(token > claim->token);
    assert_true(engine->impl->extras->retoken(engine, claim) > token);
    release(engine, claim);
    assert_int_equal(acquire(engine, claim, 0), PAWL__DONE);
    assert_true(claim->token > token + 1);
    release(engine, claim);
    engine_close(engine);
    free(claim);
}

/* The buckets that are used first keep a node, for the next one in their guard; the others keep none. */
static void test_a_bucket_keeps_its_node(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *one = mutex_claim("name"), *two = mutex_claim("name"), *others[2 * SPARES_MAX];
    struct pool *pool = &local_of(engine)->pool;
    _Atomic uint32_t *spare = &pool->spares[one->name_hash & (BUCKET_COUNT - 1)];
    uint32_t ref;

    assert_int_equal(acquire(engine, one, 0), PAWL__DONE);
    ref = GET(state_of_claim(one)->ref);
    assert_int_equal(GET(*spare), 0);
    release(engine, one);
    assert_int_equal(GET(*spare), ref);
    assert_int_equal(acquire(engine, one, 0), PAWL__DONE);
    assert_int_equal(GET(state_of_claim(one)->ref), ref);
    assert_int_equal(GET(*spare), SPARE_OUT);
    assert_int_equal(submit(engine, two), PAWL__PENDING); /* it is in use: another node, and that one goes back elsewhere */
    assert_int_not_equal(GET(state_of_claim(two)->ref), ref);
    release(engine, one);
    assert_int_equal(GET(*spare), ref);
    assert_int_equal(park(engine, two, LONG), PAWL__DONE);
    release(engine, two);
    assert_int_equal(GET(*spare), ref);
    for (int i = 0; i < 2 * SPARES_MAX; i++) {
        others[i] = mutex_claim((const char *[]){"a", "b", "c", "d", "e", "f"}[i]);
        assert_int_equal(acquire(engine, others[i], 0), PAWL__DONE);
        release(engine, others[i]);
        free(others[i]);
    }
    assert_int_equal(GET(pool->spare_count), SPARES_MAX);
    engine_close(engine);
    free(one);
    free(two);
}

/* ---- Inspection ---- */

struct listing {
    int count;
    char lines[32][512];
    struct pawl_entry entries[32];
};

static int list_entry(const struct pawl_entry *entry, void *data) {
    struct listing *listing = data;
    char *line = listing->lines[listing->count];

    listing->entries[listing->count++] = *entry;
    snprintf(line, 512, "%s %s%u token=%d %s pid=%lld %s", entry->name, entry->flags & PAWL_ENTRY_WAITER ? "waits " : "holds ",
             entry->position, entry->token != 0, entry->command, (long long)entry->pid, entry->host);
    assert_int_equal(entry->remaining_ms, PAWL_FOREVER);
    assert_true(entry->since_ms > INT64_C(1500000000000));
    assert_non_null(strstr(entry->raw, "bucket "));
    assert_non_null(strstr(entry->raw, " session "));
    return 0;
}

static void expect_line(const struct listing *listing, int at, const char *start) {
    char wanted[512];

    snprintf(wanted, sizeof wanted, "%s test pid=%d here", start, (int)getpid());
    assert_string_equal(listing->lines[at], wanted);
}

static void test_survey(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *r1 = claim_new("rw", PAWL_RWLOCK, PAWL_SHARED, 1, 1), *r2 = claim_new("rw", PAWL_RWLOCK, PAWL_SHARED, 1, 1),
                       *w1 = claim_new("rw", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1),
                       *w2 = claim_new("rw", PAWL_RWLOCK, PAWL_SHARED, 1, 1), *m = mutex_claim("mutex");
    struct board *board = board_new();
    struct keeper keeper = {.directory = *data, .name = "dead", .permits = 1, .limit = 1, .board = board, .hold_ms = -1};
    struct listing listing = {0};
    pid_t pid;

    assert_int_equal(submit(engine, r1), PAWL__DONE);
    assert_int_equal(submit(other, r2), PAWL__DONE);
    assert_int_equal(submit(engine, w1), PAWL__PENDING);
    assert_int_equal(submit(other, w2), PAWL__PENDING);
    assert_int_equal(submit(other, m), PAWL__DONE);
    pid = spawn(keep, &keeper);
    assert_true(await_word(&board->words[0], 2));
    kill_and_reap(pid);
    assert_int_equal(engine->impl->operators->survey(engine, "rw", list_entry, &listing, NULL), 0);
    assert_int_equal(listing.count, 4);
    expect_line(&listing, 0, "rw holds 0 token=1");
    expect_line(&listing, 1, "rw holds 0 token=1");
    expect_line(&listing, 2, "rw waits 1 token=0");
    expect_line(&listing, 3, "rw waits 2 token=0");
    listing.count = 0;
    assert_int_equal(engine->impl->operators->survey(engine, NULL, list_entry, &listing, NULL), 0);
    assert_int_equal(listing.count, 5); /* the dead one was recovered, not told */
    listing.count = 0;
    assert_int_equal(engine->impl->operators->survey(engine, "nothing", list_entry, &listing, NULL), 0);
    assert_int_equal(listing.count, 0);
    release(engine, w1), release(other, w2), release(engine, r1), release(other, r2), release(other, m);
    assert_int_equal(engine->impl->operators->survey(engine, NULL, list_entry, &listing, NULL), 0);
    assert_int_equal(listing.count, 0);
    engine_close(other);
    engine_close(engine);
    free(r1), free(r2), free(w1), free(w2), free(m);
    board_free(board);
}

static int copy_label(const struct pawl_entry *entry, void *data) {
    strcpy(data, entry->label);
    return 0;
}

static const char *label_of(struct pawl__engine *engine) {
    static char label[PAWL__LABEL_SIZE];

    label[0] = '\0';
    assert_int_equal(engine->impl->operators->survey(engine, NULL, copy_label, label, NULL), 0);
    return label;
}

/* A claim's own label is in its node as long as the claim is, and there is nobody's but its own. */
static void test_labels(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    char longest[PAWL__NAME_MAX + 1], label[PAWL__LABEL_SIZE], shown[PAWL__LABEL_SIZE] = "";
    struct pawl__claim *labelled = mutex_claim("name"), *plain = mutex_claim("name"), *wide;
    struct node *node;

    labelled->label = "own";
    for (int i = 0; i < 3; i++) {
        assert_int_equal(acquire_now(engine, labelled), PAWL__DONE);
        assert_string_equal(label_of(other), "own");
        assert_int_equal(acquire_now(other, plain), PAWL_EHELD);
        assert_int_equal(release(engine, labelled), PAWL__DONE);
        assert_int_equal(acquire_now(engine, plain), PAWL__DONE); /* in the same node */
        assert_string_equal(label_of(other), "");
        node = &table_of(engine)->nodes[inner(plain)->ref - 1];
        node->labelled = local_of(other)->owner; /* as if it had been, and died */
        assert_string_equal(label_of(other), "");
        node->labelled = local_of(engine)->owner;
        memset(node->name + node->name_length, '\033', sizeof node->name - node->name_length);
        assert_int_equal(strspn(label_of(other), "?"), PAWL__LABEL_SIZE - 1);
        node->labelled = 0;
        assert_int_equal(release(engine, plain), PAWL__DONE);
    }
    memset(longest, 'n', PAWL__NAME_MAX);
    longest[PAWL__NAME_MAX] = '\0';
    label[0] = '.'; /* so that a whole character does not fit at the end */
    for (size_t i = 0; i < 63; i++)
        memcpy(label + 1 + 2 * i, "\u00e9", 3);
    wide = mutex_claim(longest);
    wide->label = label;
    memcpy(shown, label, 43);
    assert_int_equal(acquire_now(engine, wide), PAWL__DONE);
    assert_string_equal(label_of(other), shown);
    assert_int_equal(release(engine, wide), PAWL__DONE);
    engine_close(other);
    engine_close(engine);
    free(labelled), free(plain), free(wide);
}

static int stop_at_once(const struct pawl_entry *entry, void *data) {
    (void)entry;
    ++*(int *)data;
    return 42;
}

static void test_survey_of_many_can_be_ended(void **data) {
    enum { MANY = 300 };
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claims[MANY];
    int count = 0;

    for (int i = 0; i < MANY; i++) {
        claims[i] = mutex_claim("name");
        submit(engine, claims[i]);
    }
    assert_int_equal(engine->impl->operators->survey(engine, NULL, stop_at_once, &count, NULL), 42);
    assert_int_equal(count, 1);
    for (int i = 0; i < MANY; i++) {
        release(engine, claims[i]);
        free(claims[i]);
    }
    engine_close(engine);
}

/* ---- Breaking ---- */

static void test_break_gently(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *waits = mutex_claim("name");
    struct listing listing = {0};
    struct pawl_error error = {0};

    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(submit(other, waits), PAWL__PENDING);
    assert_int_equal(other->impl->operators->break_hold(other, "name", held->token + 7, false, &error), PAWL_ETOKEN);
    assert_non_null(strstr(error.text, "token 1"));
    assert_int_equal(other->impl->operators->break_hold(other, "free", 1, false, &error), PAWL_ETOKEN);
    engine->impl->serve(engine, pawl__boottime() + 20 * MS);
    assert_int_equal(other->impl->operators->break_hold(other, "name", held->token, false, &error), 0);
    engine->impl->serve(engine, pawl__boottime() + LONG); /* returns, since a hold may have been broken */
    assert_int_equal(engine->impl->extras->check(engine, held), PAWL_ELOST);
    assert_int_equal(other->impl->operators->survey(other, "name", list_entry, &listing, NULL), 0);
    assert_true(listing.entries[0].flags & PAWL_ENTRY_BROKEN);
    assert_int_equal(park(other, waits, 20 * MS), PAWL__PENDING); /* not before the holder has let go */
    assert_int_equal(engine->impl->extras->retoken(engine, held), 0);
    assert_int_equal(release(engine, held), PAWL_ELOST);
    assert_int_equal(park(other, waits, LONG), PAWL__DONE);
    assert_int_equal(release(other, waits), PAWL__DONE);
    assert_int_equal(acquire(engine, held, 0), PAWL__DONE); /* the flag does not stick to the node */
    assert_int_equal(engine->impl->extras->check(engine, held), 0);
    assert_int_equal(release(engine, held), PAWL__DONE);
    engine_close(other);
    engine_close(engine);
    free(held), free(waits);
}

static void test_break_now(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *waits = mutex_claim("name");

    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(submit(other, waits), PAWL__PENDING);
    assert_int_equal(other->impl->operators->break_hold(other, "name", held->token, true, NULL), 0);
    assert_int_equal(park(other, waits, LONG), PAWL__DONE);
    assert_true(waits->token > held->token);
    assert_int_equal(engine->impl->extras->check(engine, held), PAWL_ELOST);
    assert_int_equal(engine->impl->extras->downgrade(engine, held), PAWL_ELOST); /* gone with that */
    assert_int_equal(engine->impl->withdraw(engine, held), PAWL__DONE);
    assert_int_equal(release(other, waits), PAWL__DONE);
    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(other->impl->operators->break_hold(other, "name", held->token, true, NULL), 0);
    assert_int_equal(release(engine, held), PAWL_ELOST);
    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(release(engine, held), PAWL__DONE);
    engine_close(other);
    engine_close(engine);
    free(held), free(waits);
}

/* ---- The trace ---- */

static void catch_note(void *data, const struct pawl__claim *claim, const char *text) {
    char *notes = data;

    (void)claim;
    snprintf(notes + strlen(notes), 4096 - strlen(notes), "%s\n", text);
}

static void test_trace(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *waits = mutex_claim("name");
    char notes[4096] = "", wanted[128];

    other->note = catch_note;
    other->note_data = notes;
    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(acquire(other, waits, 10 * MS), PAWL__PENDING);
    release(engine, held);
    assert_int_equal(park(other, waits, LONG), PAWL__DONE);
    release(other, waits);
    snprintf(wanted, sizeof wanted, "queued as ticket 2 behind ticket 1 (pid %d test)", (int)getpid());
    assert_non_null(strstr(notes, wanted));
    snprintf(wanted, sizeof wanted, "watching session 0 (pid %d test)", (int)getpid());
    assert_non_null(strstr(notes, wanted));
    assert_non_null(strstr(notes, "woken by grant\nholds with token 2\nreleased\n"));
    engine_close(other);
    engine_close(engine);
    free(held), free(waits);
}

/* ---- pawl doctor ---- */

static struct findings examine(struct pawl__engine *engine) {
    struct findings findings = {0};

    assert_int_equal(engine->impl->operators->examine(engine, add_finding, &findings, NULL), 0);
    return findings;
}

static void test_doctor_counts_the_dead(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);

    assert_contains(examine(engine).text, "good: 2 of at most 16384 processes are attached, with 0 of");
    close(local_of(other)->lifeline_fd); /* as if it had died */
    local_of(other)->lifeline_fd = -1;
    assert_contains(examine(engine).text, "good: 1 process died here");
    engine_close(other);
    engine_close(engine);
}

static void test_doctor_sees_who_stands_still(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    _Atomic uint64_t *guard = &local_of(engine)->table->buckets[17].guard;
    struct findings findings;
    char wanted[64];

    atomic_store(guard, local_of(other)->guard);
    findings = examine(engine);
    snprintf(wanted, sizeof wanted, "in the way of others: pid %d test", (int)getpid());
    assert_contains(findings.text, wanted);
    assert_int_equal(findings.warnings, 1);
    atomic_store(guard, 0);
    assert_int_equal(examine(engine).warnings, 0);
    engine_close(other);
    engine_close(engine);
}

static void test_doctor_of_a_directory_that_is_gone(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    char path[256];

    snprintf(path, sizeof path, "%s/table", local_of(engine)->path);
    unlink(path);
    assert_int_equal(engine->impl->operators->examine(engine, add_finding, &(struct findings){0}, NULL), PAWL_EGONE);
    engine_close(engine);
}

int main(int argc, char **argv) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_adopted_claim_is_granted),
        T(test_adopted_claim_is_let_go_at_once),
        T(test_adopted_claim_gives_up),
        T(test_adopted_claim_gives_up_what_it_was_granted),
        T(test_adopted_claim_notices_death),
        T(test_adopted_try_is_refused),
        T(test_many_adopted_claims),
        T(test_wake),
        T(test_downgrade_lets_readers_in_and_no_writer),
        T(test_served_downgrade),
        T(test_permits_are_fifo),
        T(test_retoken),
        T(test_a_bucket_keeps_its_node),
        T(test_survey),
        T(test_survey_of_many_can_be_ended),
        T(test_labels),
        T(test_break_gently),
        T(test_break_now),
        T(test_trace),
        T(test_doctor_counts_the_dead),
        T(test_doctor_sees_who_stands_still),
        T(test_doctor_of_a_directory_that_is_gone),
    };

    choose_tests(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
