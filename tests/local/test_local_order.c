/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_order.c - the order of stores that others rely on, looked at after every single instruction.
 *
 * A child does one thing with a lock; the parent steps it by ptrace, one instruction at a time, and looks at the node that it has:
 *
 *     a node is never HELD with the ticket of an earlier hold: who writes a value without the guard knows its hold by that (value.c);
 *     a node that others may have, on a shelf or at a bucket, is nobody's: check() would answer for who has it next (claim.c).
 */
#include <sys/uio.h>

#include "../support/local_harness.h"

static const char NAME[] = "ordered";

struct act {
    const char *name;
    bool shelf;                                                   /* the bucket keeps no node */
    bool held;                                                    /* by the parent */
    void (*prepare)(struct pawl__engine *, struct pawl__claim *); /* in the child, not stepped */
    void (*act)(struct pawl__engine *, struct pawl__claim *);     /* in the child, stepped */
};

/* What the parent knows of a child. */
struct seen {
    pid_t pid;
    struct local *local;       /* there */
    struct local_claim *claim; /* there */
    struct node *node;
    uint64_t ticket; /* of an earlier hold */
    uint32_t ref, hash;
};

static void take(struct pawl__engine *engine, struct pawl__claim *claim) {
    submit(engine, claim);
}

static void let_go(struct pawl__engine *engine, struct pawl__claim *claim) {
    engine->impl->withdraw(engine, claim);
}

static void try_it(struct pawl__engine *engine, struct pawl__claim *claim) {
    claim->try_only = true;
    acquire(engine, claim, LONG);
}

static void nothing(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
}

static const struct act acts[] = {
    {.name = "hold again", .prepare = nothing, .act = take},
    {.name = "hold again, from a shelf", .shelf = true, .prepare = nothing, .act = take},
    {.name = "release", .prepare = take, .act = let_go},
    {.name = "release to a shelf", .shelf = true, .prepare = take, .act = let_go},
    {.name = "be refused", .held = true, .prepare = nothing, .act = try_it},
    {.name = "be refused, with a shelf", .shelf = true, .held = true, .prepare = nothing, .act = try_it},
};

/* Buckets that are used first keep a node each. */
static void use_other_buckets(struct pawl__engine *engine) {
    struct pawl__claim *other = mutex_claim("other");

    for (int i = 0; i < SPARES_MAX; i++, other->name_hash++) {
        submit(engine, other);
        engine->impl->withdraw(engine, other);
    }
    free(other);
}

static void stepped_child(const char *directory, const struct act *act, struct pawl__claim *claim, struct board *board) {
    struct pawl__engine *engine;

    in_child = true;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    engine = engine_open(directory);
    if (act->shelf)
        use_other_buckets(engine);
    if (!act->held) { /* once before */
        submit(engine, claim);
        atomic_store(&board->words[1], inner(claim)->ref);
        engine->impl->withdraw(engine, claim);
    }
    act->prepare(engine, claim);
    atomic_store(&board->words[0], (int64_t)(intptr_t)engine);
    raise(SIGSTOP);
    act->act(engine, claim);
    raise(SIGSTOP);
    if (act->act == take)
        let_go(engine, claim);
    _exit(0);
}

static void copy(pid_t pid, const void *from, void *to, size_t size) {
    struct iovec here = {.iov_base = to, .iov_len = size}, there = {.iov_base = (void *)(uintptr_t)from, .iov_len = size};

    assert_int_equal(process_vm_readv(pid, &here, 1, &there, 1, 0), (ssize_t)size);
}

/* May another thread of the child have the node? */
static bool is_given_away(const struct seen *seen, uint32_t ref) {
    _Atomic uint32_t *spares;
    uint32_t spare, shelf;

    copy(seen->pid, &seen->local->pool.spares, &spares, sizeof spares);
    copy(seen->pid, (const void *)&spares[seen->hash & (BUCKET_COUNT - 1)], &spare, sizeof spare);
    copy(seen->pid, (const void *)&seen->local->shelves[seen->hash % SPARE_SHELVES].ref, &shelf, sizeof shelf);
    return ref == spare || ref == shelf;
}

/* After an instruction. */
static void look(const struct act *act, const struct seen *seen) {
    uint32_t ref;

    copy(seen->pid, (const void *)&seen->claim->ref, &ref, sizeof ref);
    if (ref != 0 && is_given_away(seen, ref))
        fail_msg("%s: a claim has a node that others may have", act->name);
    if (seen->node && state_of(GET(seen->node->state)) == NODE_HELD && GET(seen->node->ticket) == seen->ticket)
        fail_msg("%s: a node is held with the ticket of an earlier hold", act->name);
}

static long step_through(const struct act *act, const struct seen *seen) {
    long steps = 0;
    int status;

    for (;; steps++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, seen->pid, NULL, NULL), 0);
        assert_int_equal(waitpid(seen->pid, &status, 0), seen->pid);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            break;
        look(act, seen);
    }
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    return steps;
}

static void play(const char *directory, struct pawl__engine *engine, const struct act *act) {
    struct pawl__claim *held = mutex_claim(NAME), *claim = mutex_claim(NAME);
    struct board *board = board_new();
    struct seen seen = {.claim = inner(claim), .hash = claim->name_hash};
    uint32_t ref;
    int status;

    if (act->held)
        assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    fflush(NULL);
    seen.pid = fork();
    if (seen.pid == 0)
        stepped_child(directory, act, claim, board);
    assert_int_equal(waitpid(seen.pid, &status, 0), seen.pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    seen.local = (struct local *)(intptr_t)board->words[0];
    ref = (uint32_t)board->words[1];
    if (act->act == take) {
        seen.node = &table_of(engine)->nodes[ref - 1];
        seen.ticket = GET(seen.node->ticket);
    }
    print_message("%-28s %ld instructions\n", act->name, step_through(act, &seen));
    if (act->act == take) /* it had the same node again */
        assert_true(state_of(GET(seen.node->state)) == NODE_HELD && GET(seen.node->ticket) != seen.ticket);
    else if (!act->held)
        assert_true(is_given_away(&seen, ref));
    assert_int_equal(ptrace(PTRACE_CONT, seen.pid, NULL, NULL), 0);
    assert_int_equal(reap(seen.pid), 0);
    if (act->held)
        assert_int_equal(release(engine, held), PAWL__DONE);
    board_free(board);
    free(held), free(claim);
}

static void test_after_each_instruction(void **data) {
    struct pawl__engine *engine;

    if (!can_trace()) {
        print_message("no ptrace here\n");
        skip();
    }
    engine = engine_open(*data);
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        play(*data, engine, &acts[i]);
    engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_after_each_instruction, setup_directory, teardown_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
