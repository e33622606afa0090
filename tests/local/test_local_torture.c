/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_torture.c - random SIGKILL and SIGSTOP among 16 processes that use the same locks in all modes, with an oracle that sees
 * any overlap, any token that does not rise, and any lock that nobody gets.
 *
 * The oracle is memory that all share: per lock and process, what that process holds, written after it got it and erased before it
 * lets go. Who comes in looks at all the others. An entry of a process that was killed stays; so before an entry counts as an overlap
 * its process must be able to run: /proc tells.
 */
#include "../support/local_harness.h"

enum { PROCESSES = 16, LOCKS = 6, LIMIT = 3, STUCK_S = 20 };

static const struct {
    const char *name;
    enum pawl_kind kind;
    uint32_t limit;
} locks[LOCKS] = {
    {"mutex", PAWL_MUTEX, 1},     {"mutex/2", PAWL_MUTEX, 1},           {"rwlock", PAWL_RWLOCK, 1},
    {"rwlock/2", PAWL_RWLOCK, 1}, {"semaphore", PAWL_SEMAPHORE, LIMIT}, {"semaphore/2", PAWL_SEMAPHORE, LIMIT},
};

struct oracle {
    _Atomic uint64_t held[LOCKS][PROCESSES]; /* what one process has of one lock, see entry_of(); 0: nothing */
    _Atomic uint64_t exclusive_token[LOCKS]; /* the highest of an exclusive hold */
    _Atomic uint64_t any_token[LOCKS];
    _Atomic uint64_t acquired, failures;
    char message[256];
};

static struct oracle *oracle;
static const char *torture_directory;

static void complain(const char *what, int lock, uint64_t one, uint64_t other) {
    if (atomic_fetch_add(&oracle->failures, 1) == 0)
        snprintf(oracle->message, sizeof oracle->message, "%s on %s: %llx, %llx, pid %d", what, locks[lock].name,
                 (unsigned long long)one, (unsigned long long)other, (int)getpid());
}

/* Can the process still run? One that is being torn down, or is gone, can't. */
static bool can_run(pid_t pid) {
    char path[64], text[512] = "", state = 'X';
    unsigned flags = 0;
    const char *paren;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (!file)
        return false;
    (void)!fgets(text, sizeof text, file);
    fclose(file);
    paren = strrchr(text, ')');
    if (!paren || sscanf(paren + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
        return false;
    return state != 'Z' && state != 'X' && !(flags & 4); /* PF_EXITING */
}

static void raise_to(_Atomic uint64_t *place, uint64_t value) {
    uint64_t old = atomic_load(place);

    while (old < value && !atomic_compare_exchange_weak(place, &old, value))
        ;
}

/* What one process says that it holds. The number makes every hold's entry another one. */
static uint64_t entry_of(enum pawl_mode mode, uint32_t permits) {
    static uint64_t number;

    return (uint64_t)getpid() << 36 | (++number & 0xfffff) << 16 | (uint64_t)mode << 8 | permits;
}
#define ENTRY_PID(entry) ((pid_t)((entry) >> 36))
#define ENTRY_MODE(entry) ((enum pawl_mode)((entry) >> 8 & 0xff))
#define ENTRY_PERMITS(entry) ((uint32_t)((entry)&0xff))

/* Look at everybody who says that he holds the lock too. What is the same in two passes was held by all of them in between. */
static void look_around(int lock, int me, enum pawl_mode mode, uint32_t permits) {
    uint64_t seen[PROCESSES], other = 0;
    bool conflict = false;
    uint32_t sum = permits;

    for (int i = 0; i < PROCESSES; i++) {
        seen[i] = i == me ? 0 : atomic_load(&oracle->held[lock][i]);
        if (seen[i] != 0 && !can_run(ENTRY_PID(seen[i])))
            seen[i] = 0;
    }
    for (int i = 0; i < PROCESSES; i++) {
        if (seen[i] == 0 || atomic_load(&oracle->held[lock][i]) != seen[i])
            continue;
        sum += ENTRY_PERMITS(seen[i]);
        if (mode == PAWL_PERMITS ? sum > locks[lock].limit : mode == PAWL_EXCLUSIVE || ENTRY_MODE(seen[i]) == PAWL_EXCLUSIVE) {
            conflict = true;
            other = seen[i];
        }
    }
    if (conflict)
        complain("overlap", lock, atomic_load(&oracle->held[lock][me]), other);
}

static void enter(int lock, int me, enum pawl_mode mode, uint32_t permits, uint64_t token) {
    atomic_store(&oracle->held[lock][me], entry_of(mode, permits));
    look_around(lock, me, mode, permits);
    if (token == 0 || token <= atomic_load(&oracle->exclusive_token[lock]))
        complain("token not above the last exclusive one", lock, token, atomic_load(&oracle->exclusive_token[lock]));
    if (mode == PAWL_EXCLUSIVE) {
        if (token <= atomic_load(&oracle->any_token[lock]))
            complain("exclusive token not above all before", lock, token, atomic_load(&oracle->any_token[lock]));
        raise_to(&oracle->exclusive_token[lock], token);
    }
    raise_to(&oracle->any_token[lock], token);
    atomic_fetch_add(&oracle->acquired, 1);
}

static uint64_t random_state;

static uint32_t roll(uint32_t sides) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % sides;
}

static void hold_a_while(void) {
    switch (roll(8)) {
    case 0:
        sched_yield();
        break;
    case 1:
        nanosleep(&(struct timespec){.tv_nsec = 1000L * roll(500)}, NULL);
        break;
    default:
        break;
    }
}

/* Which locks this process keeps, without holding them. */
static bool keeps[LOCKS];

/* Hold again what was kept, with a token of its own. False: it is to be asked for anew. */
static bool hold_again(struct pawl__engine *engine, struct pawl__claim *claim, int lock, int me) {
    bool again = resume(engine, claim) == PAWL__DONE;
    uint64_t token = again ? engine->impl->extras->retoken(engine, claim) : 0;

    keeps[lock] = false;
    if (token == 0) {
        release(engine, claim);
        return false;
    }
    enter(lock, me, claim->mode, claim->permits, token);
    hold_a_while();
    look_around(lock, me, claim->mode, claim->permits);
    return true;
}

static void let_go(struct pawl__engine *engine, struct pawl__claim *claim, int lock, int me) {
    atomic_store(&oracle->held[lock][me], 0);
    keeps[lock] = roll(4) != 0 && rest(engine, claim) == PAWL__DONE;
    if (!keeps[lock])
        release(engine, claim);
}

/* One turn with one lock. False: stuck. */
static bool one_turn(struct pawl__engine *engine, struct pawl__claim *const claims[], int me) {
    int lock = (int)roll(LOCKS), rc;
    struct pawl__claim *claim = claims[lock];
    int64_t patience = STUCK_S * SECOND;

    if (keeps[lock] && hold_again(engine, claim, lock, me)) {
        let_go(engine, claim, lock, me);
        return true;
    }
    claim->mode = locks[lock].kind == PAWL_SEMAPHORE                ? PAWL_PERMITS
                  : locks[lock].kind == PAWL_RWLOCK && roll(3) != 0 ? PAWL_SHARED
                                                                    : PAWL_EXCLUSIVE;
    claim->permits = claim->mode == PAWL_PERMITS ? 1 + roll(LIMIT) : 1;
    claim->try_only = roll(6) == 0;
    if (!claim->try_only && roll(5) == 0)
        patience = roll(5) * MS;
    rc = acquire(engine, claim, patience);
    if (rc == PAWL_EHELD)
        return true;
    if (rc == PAWL__PENDING) {
        release(engine, claim);
        return patience < SECOND;
    }
    if (rc != PAWL__DONE) {
        complain(pawl_error_name(rc), lock, 0, 0);
        return true;
    }
    enter(lock, me, claim->mode, claim->permits, claim->token);
    hold_a_while();
    look_around(lock, me, claim->mode, claim->permits);
    if (claim->mode == PAWL_EXCLUSIVE && locks[lock].kind == PAWL_RWLOCK && roll(2) == 0) {
        atomic_store(&oracle->held[lock][me], entry_of(PAWL_SHARED, 1));
        rc = engine->impl->extras->downgrade(engine, claim);
        if (rc == PAWL__PENDING)
            rc = park(engine, claim, LONG);
        claim->mode = PAWL_SHARED;
        look_around(lock, me, PAWL_SHARED, 1);
    }
    let_go(engine, claim, lock, me);
    return true;
}

static void torture_child(void *data) {
    int me = (int)(intptr_t)data;
    struct pawl__engine *engine = engine_open(torture_directory);
    struct pawl__claim *claims[LOCKS];

    random_state = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)pawl__boottime();
    for (int i = 0; i < LOCKS; i++)
        claims[i] = claim_new(locks[i].name, locks[i].kind, PAWL_EXCLUSIVE, 1, locks[i].limit);
    for (;;) {
        if (!one_turn(engine, claims, me))
            complain("stuck", 0, (uint64_t)me, 0);
        if (roll(500) == 0) {
            engine_close(engine);
            memset(keeps, 0, sizeof keeps);
            engine = engine_open(torture_directory);
        }
    }
}

static void start(pid_t pids[], int i) {
    for (int lock = 0; lock < LOCKS; lock++) /* its former self is reaped: what it held is over */
        atomic_store(&oracle->held[lock][i], 0);
    pids[i] = spawn(torture_child, (void *)(intptr_t)i);
}

/* The last one to come must get everything, exclusively, soon. */
static void check_all_free(const char *directory) {
    struct pawl__engine *engine = engine_open(directory);

    for (int lock = 0; lock < LOCKS; lock++) {
        struct pawl__claim *claim = claim_new(locks[lock].name, locks[lock].kind,
                                              locks[lock].kind == PAWL_SEMAPHORE ? PAWL_PERMITS : PAWL_EXCLUSIVE, locks[lock].limit,
                                              locks[lock].limit);

        assert_int_equal(acquire(engine, claim, 10 * SECOND), PAWL__DONE);
        assert_true(claim->token > atomic_load(&oracle->exclusive_token[lock]));
        assert_int_equal(release(engine, claim), PAWL__DONE);
        free(claim);
    }
    engine_close(engine);
}

static void test_random_kills(void **data) {
    bool is_long = getenv("PAWL_TEST_LONG") != NULL;
    int64_t end = pawl__boottime() + (is_long ? 120 : 8) * SECOND;
    int kills = 0, wanted = is_long ? 10000 : 1500;
    pid_t pids[PROCESSES];
    int stopped = -1;
    int64_t resume_at = 0;

    torture_directory = *data;
    oracle = mmap(NULL, sizeof *oracle, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(oracle != MAP_FAILED);
    random_state = (uint64_t)pawl__boottime();
    for (int i = 0; i < PROCESSES; i++)
        start(pids, i);
    while (kills < wanted && pawl__boottime() < end && atomic_load(&oracle->failures) == 0) {
        int victim = (int)roll(PROCESSES);

        nanosleep(&(struct timespec){.tv_nsec = 1000L * roll(8000)}, NULL);
        if (stopped >= 0 && pawl__boottime() > resume_at) {
            kill(pids[stopped], SIGCONT);
            stopped = -1;
        }
        if (stopped < 0 && roll(100) == 0) { /* for long: it may be granted something meanwhile, and be passed over */
            stopped = victim;
            resume_at = pawl__boottime() + (100 + roll(1500)) * MS;
            kill(pids[stopped], SIGSTOP);
        }
        if (victim == stopped)
            continue;
        if (roll(10) == 0) {
            kill(pids[victim], SIGSTOP);
            sleep_ms((int)roll(30));
            if (roll(2) == 0) {
                kill(pids[victim], SIGCONT);
                continue;
            }
        }
        if (!kill_and_reap(pids[victim]))
            complain("ended by itself", 0, 0, 0);
        start(pids, victim);
        kills++;
    }
    if (stopped >= 0)
        kill(pids[stopped], SIGCONT);
    for (int i = 0; i < PROCESSES / 2; i++)
        kill_and_reap(pids[i]);
    sleep_ms(50);
    if (atomic_load(&oracle->failures) == 0)
        check_all_free(*data); /* with half of them alive, and the others dead */
    for (int i = PROCESSES / 2; i < PROCESSES; i++)
        kill_and_reap(pids[i]);
    check_all_free(*data);
    print_message("%d kills, %llu acquired\n", kills, (unsigned long long)atomic_load(&oracle->acquired));
    if (atomic_load(&oracle->failures) > 0)
        fail_msg("%llu failures, the first: %s", (unsigned long long)atomic_load(&oracle->failures), oracle->message);
    munmap(oracle, sizeof *oracle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_kills, setup_directory, teardown_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
