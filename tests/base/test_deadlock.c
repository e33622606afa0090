/* SPDX-License-Identifier: Apache-2.0
 *
 * test_deadlock.c - who waits for ever: what base/deadlock.c finds, against a world that knows all and is run until nothing moves.
 *
 * The world has locks with the queues of an engine, in which other processes stand, too; owners of this process that ask, are granted,
 * release, give up and lose, by chance; and a clock. Somebody looks at it line by line, twice, and things go on happening while he does.
 * The judge takes the world as it was between the two looks, lets all that can be let go of be let go of, and sees who is never granted. It
 * grants by the queue rule (base/rule.c), which the code under test does not use.
 *
 *     test_deadlock                     the hand-made cases, and 10,000 histories
 *     test_deadlock COUNT [SEED]        so many histories, from this one on
 */
#include "../support/test.h"

#include "base/deadlock.h"
#include "base/lease.h"
#include "base/rule.h"

enum { OWNERS = 6, FOREIGN = 100, LOCKS = 4, LINES = 2, CLAIMS = 48, PARTS = 64, NEVER_ENDS = 0 };

/* One entry in the queue of a lock; foreign ones are in line LINES. */
struct claim {
    int lock, line;
    enum pawl_mode mode;
    uint32_t permits;
    bool held;
    uint64_t id;
};

/* An acquire that is served by a claim. */
struct part {
    uint64_t claim;
    int owner;
    bool waits;
    bool suspect; /* held, and nobody knows */
    uint64_t number;
    int64_t since, until; /* until: NEVER_ENDS, or when */
};

struct world {
    enum pawl_kind kinds[LOCKS];
    uint32_t limits[LOCKS];
    struct claim claims[CLAIMS]; /* in the order of the queue */
    size_t claim_count;
    struct part parts[PARTS];
    size_t part_count;
    uint64_t numbers;
    int64_t now;
    bool by_line; /* each line is granted as if there were no others in the queue, but for those who hold */
};

static uint64_t chance;

static uint64_t draw(uint64_t below) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (chance >> 11) % below;
}

static bool one_in(uint64_t n) {
    return draw(n) == 0;
}

/* ---- The world -------------------------------------------------------------------------------------------------------------- */

static struct claim *claim_of(struct world *world, uint64_t id) {
    for (size_t i = 0; i < world->claim_count; i++)
        if (world->claims[i].id == id)
            return &world->claims[i];
    return NULL;
}

static struct part *first_part(struct world *world, uint64_t claim, bool waits) {
    for (size_t i = 0; i < world->part_count; i++)
        if (world->parts[i].claim == claim && world->parts[i].waits == waits)
            return &world->parts[i];
    return NULL;
}

static void remove_claim(struct world *world, const struct claim *claim) {
    size_t at = (size_t)(claim - world->claims);

    memmove(&world->claims[at], &world->claims[at + 1], (--world->claim_count - at) * sizeof *claim);
}

static bool may_hold(const struct world *world, size_t at) {
    const struct claim *claim = &world->claims[at];
    struct pawl__ticket queue[CLAIMS];
    size_t count = 0;

    for (size_t i = 0; i < world->claim_count && world->by_line; i++)
        if (world->claims[i].lock == claim->lock && world->claims[i].held)
            queue[count++] = (struct pawl__ticket){world->claims[i].mode, world->claims[i].permits};
    for (size_t i = 0; i <= at; i++) {
        const struct claim *other = &world->claims[i];

        if (other->lock == claim->lock && !(world->by_line && (other->held || other->line != claim->line)))
            queue[count++] = (struct pawl__ticket){other->mode, other->permits};
    }
    return pawl__queue_holds(queue, count - 1, world->limits[claim->lock]);
}

static bool grant(struct world *world) {
    bool changed = false;

    for (size_t i = 0; i < world->claim_count; i++) {
        struct claim *claim = &world->claims[i];
        struct part *part;

        if (claim->held || !may_hold(world, i))
            continue;
        claim->held = changed = true;
        while ((part = first_part(world, claim->id, true))) {
            part->waits = false;
            part->until = NEVER_ENDS;
            if (claim->mode != PAWL_SHARED)
                break;
        }
    }
    return changed;
}

static uint64_t add_claim(struct world *world, int lock, int line, enum pawl_mode mode, uint32_t permits) {
    world->claims[world->claim_count++] = (struct claim){lock, line, mode, permits, false, ++world->numbers};
    return world->numbers;
}

/* Those who joined a claim that is handed on, or that is not, and queue again. */
static void pass_on(struct world *world, struct claim *claim) {
    struct part *next = first_part(world, claim->id, true);
    uint64_t old = claim->id, home;

    if (next && (one_in(2) || world->claim_count == CLAIMS)) {
        next->waits = false;
        next->until = NEVER_ENDS;
        return;
    }
    home = next ? add_claim(world, claim->lock, claim->line, claim->mode, claim->permits) : 0;
    for (size_t i = 0; i < world->part_count; i++)
        if (world->parts[i].claim == old)
            world->parts[i].claim = home;
    remove_claim(world, claim_of(world, old));
}

static void leave(struct world *world, struct part *part) {
    struct claim *claim = claim_of(world, part->claim);
    size_t at = (size_t)(part - world->parts);

    memmove(&world->parts[at], &world->parts[at + 1], (--world->part_count - at) * sizeof *part);
    if (claim->held && !first_part(world, claim->id, false))
        pass_on(world, claim);
    else if (!first_part(world, claim->id, true) && !first_part(world, claim->id, false))
        remove_claim(world, claim);
    grant(world);
}

static const struct part *wait_of(const struct world *world, int owner) {
    for (size_t i = 0; i < world->part_count; i++)
        if (world->parts[i].owner == owner && world->parts[i].waits)
            return &world->parts[i];
    return NULL;
}

static struct part *hold_of(struct world *world, int owner, int lock, int line) {
    for (size_t i = 0; i < world->part_count; i++) {
        struct part *part = &world->parts[i];
        const struct claim *claim = claim_of(world, part->claim);

        if (part->owner == owner && !part->waits && (lock < 0 || (claim->lock == lock && claim->line == line)))
            return part;
    }
    return NULL;
}

/* The claim that is joined: the last of the line, if it wants the same. */
static struct claim *joinable(struct world *world, int lock, int line, enum pawl_mode mode) {
    for (size_t i = world->claim_count; i-- > 0;)
        if (world->claims[i].lock == lock && world->claims[i].line == line)
            return world->claims[i].mode == mode && mode != PAWL_PERMITS ? &world->claims[i] : NULL;
    return NULL;
}

static void ask(struct world *world, int owner, int line) {
    int lock = (int)draw(LOCKS);
    enum pawl_mode mode = world->kinds[lock] == PAWL_MUTEX       ? PAWL_EXCLUSIVE
                          : world->kinds[lock] == PAWL_SEMAPHORE ? PAWL_PERMITS
                          : one_in(2)                            ? PAWL_SHARED
                                                                 : PAWL_EXCLUSIVE;
    uint32_t permits = mode == PAWL_PERMITS ? 1 + (uint32_t)draw(world->limits[lock]) : 1;
    struct claim *home = line == LINES || one_in(3) ? NULL : joinable(world, lock, line, mode);

    if (world->claim_count == CLAIMS || world->part_count == PARTS)
        return;
    if (mode != PAWL_PERMITS && hold_of(world, owner, lock, line)) /* it would enter again, or be refused */
        return;
    world->parts[world->part_count++] = (struct part){
        .claim = home ? home->id : add_claim(world, lock, line, mode, permits),
        .owner = owner,
        .waits = !home || !home->held || mode == PAWL_EXCLUSIVE,
        .number = ++world->numbers,
        .since = world->now,
        .until = one_in(5) ? world->now + 1 + (int64_t)draw(60) : NEVER_ENDS,
    };
    if (!world->parts[world->part_count - 1].waits) /* by chance it has a limit */
        world->parts[world->part_count - 1].until = one_in(6) ? world->now + 1 + (int64_t)draw(60) : NEVER_ENDS;
    grant(world);
}

static void end_what_is_over(struct world *world, int64_t now) {
    for (size_t i = 0; i < world->part_count; i++)
        if (world->parts[i].until != NEVER_ENDS && world->parts[i].until <= now) {
            leave(world, &world->parts[i]);
            i = (size_t)-1;
        }
}

/* Something happens. `quiet` are owners to whom nothing does. */
static void happen(struct world *world, const bool *quiet, bool violent) {
    int owner = (int)draw(OWNERS + 2), line = (int)draw(LINES);
    struct part *part;

    world->now++;
    if (!quiet || violent)
        end_what_is_over(world, world->now);
    if (violent && one_in(6) && world->part_count) {
        part = &world->parts[draw(world->part_count)];
        if (part->waits || one_in(2))
            leave(world, part);
        else
            part->suspect = !part->suspect;
        return;
    }
    if (owner >= OWNERS) { /* another process, one lock at a time */
        owner = FOREIGN + (int)draw(4);
        line = LINES;
    }
    if (quiet && owner < OWNERS && quiet[owner])
        return;
    if (wait_of(world, owner))
        return;
    part = hold_of(world, owner, -1, 0);
    if (part && (line == LINES || one_in(3)))
        leave(world, part);
    else
        ask(world, owner, line);
}

static void begin(struct world *world, uint64_t seed) {
    *world = (struct world){.now = 1};
    chance = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (int i = 0; i < 8; i++)
        draw(2);
    for (int i = 0; i < LOCKS; i++) {
        world->kinds[i] = (enum pawl_kind)draw(3);
        world->limits[i] = world->kinds[i] == PAWL_SEMAPHORE ? 1 + (uint32_t)draw(3) : 1;
    }
}

/* ---- The judge -------------------------------------------------------------------------------------------------------------- */

/* All that may be let go of by somebody who does not wait. */
static bool let_go(struct world *world) {
    for (size_t i = 0; i < world->part_count; i++)
        if (!world->parts[i].waits && (world->parts[i].suspect || !wait_of(world, world->parts[i].owner))) {
            leave(world, &world->parts[i]);
            return true;
        }
    return false;
}

/* Run it until nothing moves: what is left waits for ever. */
static void run_down(struct world *world, bool ours_only, int64_t until) {
    world->by_line = ours_only;
    for (size_t i = 0; i < world->part_count && ours_only; i++)
        if (world->parts[i].owner >= FOREIGN) {
            leave(world, &world->parts[i]);
            i = (size_t)-1;
        }
    end_what_is_over(world, until);
    while (let_go(world) || grant(world))
        end_what_is_over(world, until);
}

static bool waits_still(const struct world *world, uint64_t number) {
    for (size_t i = 0; i < world->part_count; i++)
        if (world->parts[i].number == number)
            return world->parts[i].waits;
    return false;
}

static struct world doomed(const struct world *world, bool ours_only, int64_t until) {
    struct world end = *world;
    uint64_t before = chance;

    run_down(&end, ours_only, until);
    chance = before;
    return end;
}

/* ---- The look --------------------------------------------------------------------------------------------------------------- */

struct look {
    struct pawl__stake stakes[PARTS];
    size_t count;
};

static uint32_t place_of(const struct world *world, const struct claim *claim) {
    return claim->held ? 0 : 1 + (uint32_t)(claim - world->claims);
}

static void look_at_line(struct world *world, int lock, int line, struct look *look) {
    for (size_t i = 0; i < world->part_count; i++) {
        const struct part *part = &world->parts[i];
        const struct claim *claim = claim_of(world, part->claim);

        if (claim->lock != lock || claim->line != line || part->suspect)
            continue;
        look->stakes[look->count++] = (struct pawl__stake){
            .lock = (uint64_t)lock,
            .line = (uint64_t)(line + LINES * lock),
            .place = part->waits ? place_of(world, claim) : 0,
            .waits = part->waits,
            .may_end = part->waits && part->owner != 0,
            .mode = claim->mode,
            .permits = claim->permits,
            .limit = world->limits[lock],
            .owner = (uint64_t)part->owner,
            .id = {claim->id, part->waits ? part->number : 0, 0},
            .since = part->since,
            .until = part->until == NEVER_ENDS ? PAWL__NEVER : part->until,
            .tag = part->number,
        };
    }
}

static void look_at_all(struct world *world, const bool *quiet, bool noisy, bool violent, struct look *look) {
    look->count = 0;
    for (int lock = 0; lock < LOCKS; lock++)
        for (int line = 0; line < LINES; line++) {
            for (uint64_t i = noisy ? draw(3) : 0; i > 0; i--)
                happen(world, violent ? NULL : quiet, violent);
            look_at_line(world, lock, line, look);
        }
}

/* ---- The verdict ------------------------------------------------------------------------------------------------------------ */

static uint64_t seed_now, found_lasting, found_passing, looks;

#define must(condition, ...)                                                                                                       \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            print_error("seed %llu: ", (unsigned long long)seed_now);                                                              \
            fail_msg(__VA_ARGS__);                                                                                                 \
        }                                                                                                                          \
    } while (0)

/* What was told as a deadlock without an end is one: nobody in it is ever granted, though all others let go. */
static void none_is_false(const struct world *between, const struct look *look, const struct pawl__fate *fates) {
    struct world end = *between;

    for (size_t i = 0; i < look->count; i++) /* what was suspect only between the looks was held all the time */
        for (size_t j = 0; j < end.part_count; j++)
            if (end.parts[j].number == look->stakes[i].tag)
                end.parts[j].suspect = false;
    end = doomed(&end, false, INT64_MAX);
    for (size_t i = 0; i < look->count; i++)
        if (fates[i].deadlock && fates[i].until == PAWL__NEVER)
            must(waits_still(&end, look->stakes[i].tag), "owner %d could go on", (int)look->stakes[i].owner);
}

static void end_waits(struct world *world, const struct look *look, const struct pawl__fate *fates, unsigned except) {
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < world->part_count && fates[i].deadlock && fates[i].deadlock != except; j++)
            if (world->parts[j].waits && world->parts[j].number == look->stakes[i].tag) {
                leave(world, &world->parts[j]);
                break;
            }
}

/* Had those who were told of not waited, all would have gone on when the first look began: nobody was missed. */
static void none_is_missed(const struct world *before, const struct look *look, const struct pawl__fate *fates, int64_t until) {
    struct world rest = *before;

    end_waits(&rest, look, fates, 0);
    rest = doomed(&rest, true, until);
    for (size_t i = 0; i < rest.part_count; i++)
        must(!rest.parts[i].waits, "owner %d was missed", rest.parts[i].owner);
}

/* The members of one, and nobody else: they wait for each other. */
static void each_is_whole(const struct world *between, const struct look *look, const struct pawl__fate *fates, unsigned number) {
    struct world some = *between;
    bool in[OWNERS] = {false};

    for (size_t i = 0; i < look->count; i++)
        if (fates[i].deadlock == number)
            in[look->stakes[i].owner] = true;
    for (size_t i = 0; i < some.part_count; i++)
        if (some.parts[i].owner >= OWNERS || !in[some.parts[i].owner]) {
            leave(&some, &some.parts[i]);
            i = (size_t)-1;
        }
    some = doomed(&some, true, 0);
    for (size_t i = 0; i < look->count; i++)
        if (fates[i].deadlock == number)
            must(waits_still(&some, look->stakes[i].tag), "owner %d waits only behind it", (int)look->stakes[i].owner);
}

/* One that ends by itself does so when it was told, and not a moment earlier. */
static void ends_in_time(const struct world *between, const struct look *look, const struct pawl__fate *fates, unsigned number,
                         int64_t until) {
    struct world rest = *between, early, late;
    unsigned earlier = 0, later = 0;

    end_waits(&rest, look, fates, number);
    early = doomed(&rest, true, until - 1);
    late = doomed(&rest, true, until);
    for (size_t i = 0; i < look->count; i++) {
        earlier += fates[i].deadlock == number && waits_still(&early, look->stakes[i].tag);
        later += fates[i].deadlock == number && waits_still(&late, look->stakes[i].tag);
    }
    must(earlier > 0 && later == 0, "deadlock %u does not end at %lld", number, (long long)until);
}

static void one_victim(const struct look *look, const struct pawl__fate *fates, unsigned number) {
    const struct pawl__stake *victim = NULL;
    bool lasts = false, could = false;
    int64_t youngest = 0;

    for (size_t i = 0; i < look->count; i++) {
        if (fates[i].deadlock != number)
            continue;
        lasts = fates[i].until == PAWL__NEVER;
        could |= look->stakes[i].may_end;
        if (look->stakes[i].may_end && look->stakes[i].since > youngest)
            youngest = look->stakes[i].since;
        must(!fates[i].is_victim || !victim, "two are ended");
        victim = fates[i].is_victim ? &look->stakes[i] : victim;
    }
    must(!victim == !(lasts && could), "nobody is ended, or somebody without need");
    must(!victim || (victim->since == youngest && victim->until == PAWL__NEVER && victim->may_end), "the wrong one is ended");
}

static void judge(const struct world *before, const struct world *between, bool noisy, bool violent, const struct look *look) {
    struct pawl__fate fates[PARTS];
    int count = pawl__deadlock_find(look->stakes, look->count, fates);

    looks++;
    none_is_false(between, look, fates);
    if (!violent)
        none_is_missed(before, look, fates, INT64_MAX);
    for (int number = 1; number <= count; number++)
        one_victim(look, fates, (unsigned)number);
    if (noisy)
        return;
    none_is_missed(before, look, fates, 0);
    for (int number = 1; number <= count; number++) {
        int64_t until = 0;

        each_is_whole(between, look, fates, (unsigned)number);
        for (size_t i = 0; i < look->count; i++)
            until = fates[i].deadlock == (unsigned)number ? fates[i].until : until;
        found_lasting += until == PAWL__NEVER;
        found_passing += until != PAWL__NEVER;
        if (until != PAWL__NEVER)
            ends_in_time(between, look, fates, (unsigned)number, until);
    }
}

static void play(uint64_t seed) {
    struct world world, before, between, end;
    bool quiet[OWNERS], noisy, violent;
    struct look first, second;

    seed_now = seed;
    begin(&world, seed);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 10 + draw(25); i > 0; i--)
            happen(&world, NULL, true);
        noisy = one_in(2);
        violent = noisy && one_in(2);
        before = world;
        end = doomed(&before, true, 0);
        for (int i = 0; i < OWNERS; i++)
            quiet[i] = wait_of(&end, i) != NULL;
        look_at_all(&world, quiet, noisy, violent, &first);
        between = world;
        look_at_all(&world, quiet, noisy, violent, &second);
        second.count = pawl__deadlock_confirm(first.stakes, first.count, second.stakes, second.count);
        judge(&before, &between, noisy, violent, &second);
    }
}

static uint64_t histories = 10000, first_seed = 1;

static void test_histories(void **state) {
    (void)state;
    for (uint64_t i = 0; i < histories; i++)
        play(first_seed + i);
    print_message("# %llu histories from seed %llu: %llu looks, %llu deadlocks without an end, %llu that end by themselves\n",
                  (unsigned long long)histories, (unsigned long long)first_seed, (unsigned long long)looks,
                  (unsigned long long)found_lasting, (unsigned long long)found_passing);
    assert_true(found_lasting > histories / 50 && found_passing > histories / 50); /* else the histories are no test */
}

/* ---- By hand ---------------------------------------------------------------------------------------------------------------- */

enum { A = 1, B, C };

#define HOLDS(who, what, how) .owner = (who), .lock = (what), .mode = (how), .permits = 1, .limit = 2, .until = PAWL__NEVER
#define WAITS(who, what, how, at)                                                                                                  \
    HOLDS(who, what, how), .waits = true, .line = (what), .place = (at), .since = (who), .may_end = true

static unsigned find(const struct pawl__stake *stakes, size_t count, struct pawl__fate *ret) {
    int found = pawl__deadlock_find(stakes, count, ret);

    assert_true(found >= 0);
    return (unsigned)found;
}

/* One reads A and waits for B; two waits to write A; three has B and waits to read A, behind two, who has nothing. */
static void test_ahead(void **state) {
    struct pawl__stake stakes[] = {
        {HOLDS(1, A, PAWL_SHARED)},    {WAITS(1, B, PAWL_EXCLUSIVE, 1)}, {WAITS(2, A, PAWL_EXCLUSIVE, 1)},
        {HOLDS(3, B, PAWL_EXCLUSIVE)}, {WAITS(3, A, PAWL_SHARED, 2)},
    };
    struct pawl__fate fates[5];

    (void)state;
    assert_int_equal(find(stakes, 5, fates), 1);
    assert_int_equal(fates[1].by, 3);
    assert_int_equal(fates[2].by, 0);
    assert_int_equal(fates[4].by, 2);
    assert_true(fates[4].is_victim && !fates[1].is_victim && !fates[2].is_victim);
    stakes[4].place = 1; /* beside it: both read */
    assert_int_equal(find(stakes, 5, fates), 0);
}

/* Two who wait for each other's permit wait for ever; not if there is a third permit with one who runs. */
static void test_permits(void **state) {
    struct pawl__stake stakes[] = {
        {HOLDS(1, A, PAWL_PERMITS)},    {HOLDS(2, A, PAWL_PERMITS)},    {WAITS(1, A, PAWL_PERMITS, 1)},
        {WAITS(2, A, PAWL_PERMITS, 2)}, {WAITS(3, A, PAWL_PERMITS, 3)},
    };
    struct pawl__fate fates[5];

    (void)state;
    assert_int_equal(find(stakes, 5, fates), 1);
    assert_true(fates[2].deadlock && fates[3].deadlock && !fates[4].deadlock);
    assert_true(fates[3].is_victim);
    stakes[1].owner = 4; /* a circle from one to one, and no deadlock */
    assert_int_equal(find(stakes, 5, fates), 0);
}

/* The one behind is younger, and to end its wait would not help. */
static void test_behind(void **state) {
    struct pawl__stake stakes[] = {
        {HOLDS(1, A, PAWL_EXCLUSIVE)},    {WAITS(1, B, PAWL_EXCLUSIVE, 0)}, {HOLDS(2, B, PAWL_EXCLUSIVE)},
        {WAITS(2, A, PAWL_EXCLUSIVE, 0)}, {HOLDS(3, C, PAWL_EXCLUSIVE)},    {WAITS(3, A, PAWL_EXCLUSIVE, 0)},
        {WAITS(4, C, PAWL_EXCLUSIVE, 0)},
    };
    struct pawl__fate fates[7];

    (void)state;
    assert_int_equal(find(stakes, 7, fates), 1);
    assert_true(fates[1].deadlock && fates[3].deadlock && !fates[5].deadlock && !fates[6].deadlock);
    assert_true(fates[3].is_victim);
    stakes[1].until = 12; /* a member that gives up by itself: told, and nobody is ended */
    assert_int_equal(find(stakes, 7, fates), 1);
    assert_int_equal(fates[3].until, 12);
    assert_false(fates[1].is_victim || fates[3].is_victim);
    stakes[0].owner = 5; /* the first hold is another's: the path ends there */
    assert_int_equal(find(stakes, 7, fates), 0);
}

/* A writer waits for two readers: one waits for the writer, the other is in a deadlock with a third. These are two deadlocks. */
static void test_two(void **state) {
    enum { WRITER = 1, READER, OTHER, THIRD, D = C + 1 };
    const struct pawl__stake stakes[] = {
        {HOLDS(WRITER, B, PAWL_EXCLUSIVE)},    {WAITS(WRITER, A, PAWL_EXCLUSIVE, 0)}, {HOLDS(READER, A, PAWL_SHARED)},
        {WAITS(READER, B, PAWL_EXCLUSIVE, 0)}, {HOLDS(OTHER, A, PAWL_SHARED)},        {HOLDS(OTHER, D, PAWL_EXCLUSIVE)},
        {WAITS(OTHER, C, PAWL_EXCLUSIVE, 0)},  {HOLDS(THIRD, C, PAWL_EXCLUSIVE)},     {WAITS(THIRD, D, PAWL_EXCLUSIVE, 0)},
    };
    struct pawl__fate fates[9];

    (void)state;
    assert_int_equal(find(stakes, 9, fates), 2);
    assert_int_equal(fates[6].deadlock, 1);
    assert_int_equal(fates[8].deadlock, 1);
    assert_int_equal(fates[1].deadlock, 2);
    assert_int_equal(fates[3].deadlock, 2);
    assert_true(fates[8].is_victim && fates[3].is_victim);
}

/* A crowd behind a deadlock costs no more than a crowd. */
static void test_crowd(void **state) {
    enum { CROWD = 20000 };
    struct pawl__stake *stakes = calloc(CROWD + 4, sizeof *stakes);
    struct pawl__fate *fates = calloc(CROWD + 4, sizeof *fates);

    (void)state;
    stakes[0] = (struct pawl__stake){HOLDS(1, A, PAWL_EXCLUSIVE)};
    stakes[1] = (struct pawl__stake){WAITS(1, B, PAWL_EXCLUSIVE, 1)};
    stakes[2] = (struct pawl__stake){HOLDS(2, B, PAWL_EXCLUSIVE)};
    stakes[3] = (struct pawl__stake){WAITS(2, A, PAWL_EXCLUSIVE, CROWD + 1)};
    for (uint32_t i = 0; i < CROWD; i++)
        stakes[4 + i] = (struct pawl__stake){WAITS(3 + i, A, i % 2 ? PAWL_SHARED : PAWL_EXCLUSIVE, 1 + i)};
    assert_int_equal(find(stakes, CROWD + 4, fates), 1); /* all are ahead, and in it */
    for (uint32_t i = 0; i < CROWD; i++)
        assert_int_equal(fates[4 + i].deadlock, 1);
    free(fates);
    free(stakes);
}

int main(int count, char *arguments[]) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ahead), cmocka_unit_test(test_permits), cmocka_unit_test(test_behind),
        cmocka_unit_test(test_two),   cmocka_unit_test(test_crowd),   cmocka_unit_test(test_histories),
    };

    if (count > 1)
        histories = strtoull(arguments[1], NULL, 10);
    if (count > 2)
        first_seed = strtoull(arguments[2], NULL, 10);
    return cmocka_run_group_tests_name("deadlock", tests, NULL, NULL);
}
