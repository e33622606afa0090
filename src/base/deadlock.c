/* SPDX-License-Identifier: Apache-2.0
 *
 * deadlock.c - see deadlock.h.
 *
 * The stakes are gone through in one order: lock by lock, the holds of each first, then its lines from the front to the back. One round
 * through them takes a step with all that can take it; rounds go on until one changes nothing. So neither time nor memory depend on how
 * many wait for how many.
 */
#include <stdlib.h>
#include <string.h>

#include "base/deadlock.h"
#include "base/lease.h"

struct search {
    const struct pawl__stake *stakes;
    size_t count;
    size_t *order; /* of the stakes */
    size_t *who;   /* of each stake, its owner: a number below `owners` */
    size_t owners;
    bool *passed;    /* of each stake: it waits, and can be granted */
    size_t *pending; /* of each owner: waits that can't be granted */
    bool *free;      /* of each owner: it goes on */
    bool *peeled;    /* of each owner: it is in a deadlock that was found already */
    bool *before;    /* of each owner: somebody who is marked waits for it, over some steps */
    bool *after;     /* of each owner: it waits for the one that is marked, over some steps */
    int64_t horizon; /* what ends by itself until then is over */
};

/* What stands in the way of those who wait for one lock. */
struct way {
    uint64_t holders, exclusive_holders, permits_held;
    uint64_t ahead, exclusive_ahead, permits_ahead;    /* of those at earlier places of the line */
    uint64_t beside, exclusive_beside, permits_beside; /* of those at the same place */
};

/* ---- The order ------------------------------------------------------------------------------------------------------------ */

static int compare_numbers(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_stakes(const void *left, const void *right, void *data) {
    const struct search *search = data;
    const struct pawl__stake *a = &search->stakes[*(const size_t *)left], *b = &search->stakes[*(const size_t *)right];
    int by_lock = compare_numbers(a->lock, b->lock), by_line = compare_numbers(a->line, b->line);

    if (by_lock || a->waits != b->waits)
        return by_lock ? by_lock : a->waits - b->waits;
    if (by_line || a->place != b->place)
        return by_line ? by_line : compare_numbers(a->place, b->place);
    return compare_numbers(*(const size_t *)left, *(const size_t *)right);
}

static int compare_owners(const void *left, const void *right, void *data) {
    const struct search *search = data;

    return compare_numbers(search->stakes[*(const size_t *)left].owner, search->stakes[*(const size_t *)right].owner);
}

static void number_owners(struct search *search) {
    for (size_t i = 0; i < search->count; i++)
        search->order[i] = i;
    qsort_r(search->order, search->count, sizeof *search->order, compare_owners, search);
    for (size_t i = 0; i < search->count; i++) {
        size_t stake = search->order[i];

        if (i == 0 || search->stakes[stake].owner != search->stakes[search->order[i - 1]].owner)
            search->owners++;
        search->who[stake] = search->owners - 1;
    }
    qsort_r(search->order, search->count, sizeof *search->order, compare_stakes, search);
}

/* ---- Letting everybody finish --------------------------------------------------------------------------------------------- */

static bool is_over(const struct search *search, size_t stake) {
    return search->stakes[stake].until <= search->horizon;
}

/* Is it in the way of others? */
static bool counts(const struct search *search, size_t stake) {
    return !search->free[search->who[stake]] && !is_over(search, stake);
}

/* Does it wait, and can't be granted? */
static bool is_stuck(const struct search *search, size_t stake) {
    return search->stakes[stake].waits && counts(search, stake) && !search->passed[stake];
}

/* The next stake of the same lock comes: forget what belongs to another lock, line or place. */
static void turn_to(struct way *way, const struct pawl__stake *last, const struct pawl__stake *next) {
    if (!last || last->lock != next->lock) {
        *way = (struct way){0};
    } else if (next->waits && (!last->waits || last->line != next->line)) {
        way->ahead = way->exclusive_ahead = way->permits_ahead = 0;
        way->beside = way->exclusive_beside = way->permits_beside = 0;
    } else if (next->waits && last->place != next->place) {
        way->ahead += last->place ? way->beside : 0;
        way->exclusive_ahead += last->place ? way->exclusive_beside : 0;
        way->permits_ahead += last->place ? way->permits_beside : 0;
        way->beside = way->exclusive_beside = way->permits_beside = 0;
    }
}

static void put_in_the_way(struct way *way, const struct pawl__stake *stake) {
    bool exclusive = stake->mode == PAWL_EXCLUSIVE;

    if (stake->waits) {
        way->beside++;
        way->exclusive_beside += exclusive;
        way->permits_beside += stake->permits;
    } else {
        way->holders++;
        way->exclusive_holders += exclusive;
        way->permits_held += stake->permits;
    }
}

static bool is_clear(const struct way *way, const struct pawl__stake *stake) {
    switch (stake->mode) {
    case PAWL_EXCLUSIVE:
        return way->holders + way->ahead == 0;
    case PAWL_SHARED:
        return way->exclusive_holders + way->exclusive_ahead == 0;
    default:
        return way->permits_held + way->permits_ahead + stake->permits <= stake->limit;
    }
}

/* It can be granted. If it was the last that its owner waited for, that one goes on. */
static void pass(struct search *search, size_t stake) {
    size_t owner = search->who[stake];

    search->passed[stake] = true;
    if (--search->pending[owner] == 0)
        search->free[owner] = true;
}

/* One round. False: nobody could go on. */
static bool let_go_on(struct search *search) {
    const struct pawl__stake *last = NULL;
    struct way way = {0};
    bool changed = false;

    for (size_t i = 0; i < search->count; i++) {
        size_t at = search->order[i];
        const struct pawl__stake *stake = &search->stakes[at];

        turn_to(&way, last, stake);
        last = stake;
        if (is_stuck(search, at) && is_clear(&way, stake)) {
            pass(search, at);
            changed = true;
        }
        if (counts(search, at))
            put_in_the_way(&way, stake);
    }
    return changed;
}

/* Who is left waits for ever, or until the horizon. */
static void reduce(struct search *search, int64_t horizon) {
    search->horizon = horizon;
    memset(search->passed, 0, search->count * sizeof *search->passed);
    memset(search->pending, 0, search->owners * sizeof *search->pending);
    for (size_t i = 0; i < search->count; i++)
        search->pending[search->who[i]] += search->stakes[i].waits && !is_over(search, i);
    for (size_t i = 0; i < search->owners; i++)
        search->free[i] = search->pending[i] == 0 || search->peeled[i];
    while (let_go_on(search))
        continue;
}

/* ---- Who is in it, and who behind it --------------------------------------------------------------------------------------- */

static bool conflicts(const struct pawl__stake *waits, const struct pawl__stake *other) {
    return waits->mode != PAWL_SHARED || other->mode == PAWL_EXCLUSIVE;
}

/* A round carries marks from stake to stake of a lock: of any mode, or of exclusive ones only. */
struct carried {
    bool any, exclusive;
};

struct marks {
    struct carried holds, line, place;
};

/* As turn_to(), in either direction. */
static void carry_to(struct marks *marks, const struct pawl__stake *last, const struct pawl__stake *next) {
    if (!last || last->lock != next->lock) {
        *marks = (struct marks){0};
    } else if (!last->waits || !next->waits || last->line != next->line) {
        marks->line = marks->place = (struct carried){0};
    } else if (last->place != next->place) {
        marks->line.any |= marks->place.any;
        marks->line.exclusive |= marks->place.exclusive;
        marks->place = (struct carried){0};
    }
}

static bool mark(bool *marks, size_t owner) {
    bool fresh = !marks[owner];

    marks[owner] = true;
    return fresh;
}

/* One round from the back to the front: for whom do `start` and those who are marked wait? False: for nobody who is not. */
static bool mark_before(struct search *search, size_t start) {
    const struct pawl__stake *last = NULL;
    struct marks wanted = {0};
    bool changed = false;

    for (size_t i = search->count; i-- > 0;) {
        size_t at = search->order[i], owner = search->who[at];
        const struct pawl__stake *stake = &search->stakes[at];
        const struct carried *from = stake->waits ? &wanted.line : &wanted.holds;

        carry_to(&wanted, last, stake);
        last = stake;
        if (counts(search, at) && (!stake->waits || stake->place) &&
            (from->any || (from->exclusive && stake->mode == PAWL_EXCLUSIVE)))
            changed |= mark(search->before, owner);
        if (!is_stuck(search, at) || (!search->before[owner] && owner != start))
            continue;
        wanted.holds.any |= stake->mode != PAWL_SHARED;
        wanted.holds.exclusive |= stake->mode == PAWL_SHARED;
        wanted.place.any |= stake->mode != PAWL_SHARED;
        wanted.place.exclusive |= stake->mode == PAWL_SHARED;
    }
    return changed;
}

/* One round from the front to the back: who waits for those who are marked? */
static bool mark_after(struct search *search) {
    const struct pawl__stake *last = NULL;
    struct marks marked = {0};
    bool changed = false;

    for (size_t i = 0; i < search->count; i++) {
        size_t at = search->order[i], owner = search->who[at];
        const struct pawl__stake *stake = &search->stakes[at];
        bool shared = stake->mode == PAWL_SHARED;
        struct carried *to = stake->waits ? &marked.place : &marked.holds;

        carry_to(&marked, last, stake);
        last = stake;
        if (is_stuck(search, at) && (shared ? marked.holds.exclusive : marked.holds.any))
            changed |= mark(search->after, owner);
        if (is_stuck(search, at) && stake->place && (shared ? marked.line.exclusive : marked.line.any))
            changed |= mark(search->after, owner);
        if (!counts(search, at) || !search->after[owner] || (stake->waits && !stake->place))
            continue;
        to->any = true;
        to->exclusive |= stake->mode == PAWL_EXCLUSIVE;
    }
    return changed;
}

/* `before` are those for whom `start` waits, and `after` those who wait for it. */
static void mark_both(struct search *search, size_t start) {
    memset(search->before, 0, search->owners * sizeof *search->before);
    memset(search->after, 0, search->owners * sizeof *search->after);
    while (mark_before(search, start))
        continue;
    search->after[start] = true;
    while (mark_after(search))
        continue;
}

/* Who waits for somebody who does not wait for him is only behind the deadlock: go on from there. Each such step leads to fewer, so it
 * ends: where all for whom one waits wait for him. They are in `before` then. */
static void narrow_down(struct search *search, size_t start) {
    size_t next = start;

    do {
        start = next;
        mark_both(search, start);
        next = search->owners;
        for (size_t i = 0; i < search->owners && next == search->owners; i++)
            if (search->before[i] && (!search->after[i] || !search->before[start]))
                next = i;
    } while (next < search->owners);
    search->before[start] = true;
}

/* ---- What to tell of it ---------------------------------------------------------------------------------------------------- */

/* A member that keeps `at` waiting: a holder, or else one who is ahead. */
static size_t find_by(const struct search *search, size_t at) {
    const struct pawl__stake *waits = &search->stakes[at];
    size_t found = at;

    for (size_t i = 0; i < search->count; i++) {
        size_t other = search->order[i];
        const struct pawl__stake *it = &search->stakes[other];

        if (it->lock != waits->lock || !search->before[search->who[other]] || is_over(search, other) || !conflicts(waits, it))
            continue;
        if (!it->waits)
            return other;
        if (it->line == waits->line && it->place && it->place < waits->place)
            found = other;
    }
    return found;
}

/* Is `a` a better choice than `b` to be ended? */
static bool is_younger(const struct pawl__stake *a, const struct pawl__stake *b) {
    return a->since != b->since ? a->since > b->since : a->owner > b->owner;
}

static void write_fates(const struct search *search, unsigned number, struct pawl__fate *ret) {
    size_t victim = search->count;
    bool lasts = search->horizon > 0; /* it is there though all that ends by itself is over */

    for (size_t i = 0; i < search->count; i++) {
        if (!is_stuck(search, i) || !search->before[search->who[i]])
            continue;
        ret[i] = (struct pawl__fate){.deadlock = number, .by = find_by(search, i), .until = PAWL__NEVER};
        if (lasts && search->stakes[i].may_end &&
            (victim == search->count || is_younger(&search->stakes[i], &search->stakes[victim])))
            victim = i;
    }
    if (victim < search->count)
        ret[victim].is_victim = true;
}

/* ---- All of them ----------------------------------------------------------------------------------------------------------- */

static bool allocate(struct search *search) {
    size_t owners = search->count ? search->count : 1; /* at most */

    search->order = calloc(owners, sizeof *search->order);
    search->who = calloc(owners, sizeof *search->who);
    search->passed = calloc(owners, sizeof *search->passed);
    search->pending = calloc(owners, sizeof *search->pending);
    search->free = calloc(owners, sizeof *search->free);
    search->peeled = calloc(owners, sizeof *search->peeled);
    search->before = calloc(owners, sizeof *search->before);
    search->after = calloc(owners, sizeof *search->after);
    return search->order && search->who && search->passed && search->pending && search->free && search->peeled && search->before &&
           search->after;
}

static void release(struct search *search) {
    free(search->order);
    free(search->who);
    free(search->passed);
    free(search->pending);
    free(search->free);
    free(search->peeled);
    free(search->before);
    free(search->after);
}

/* One who is left and holds what others wait for. Every deadlock contains a holder: queue order alone has no cycle. */
static size_t find_stuck_holder(const struct search *search) {
    for (size_t i = 0; i < search->count; i++)
        if (!search->stakes[i].waits && counts(search, i))
            return search->who[i];
    return search->owners;
}

/* Find one deadlock after the other, each without the members of those before it. Returns the number of the last. */
static unsigned peel(struct search *search, int64_t horizon, unsigned number, struct pawl__fate *ret) {
    size_t start;

    for (;;) {
        reduce(search, horizon);
        start = find_stuck_holder(search);
        if (start == search->owners)
            return number;
        narrow_down(search, start);
        write_fates(search, ++number, ret);
        for (size_t i = 0; i < search->owners; i++)
            search->peeled[i] |= search->before[i];
    }
}

/* Is one of the deadlock left when what ends until the horizon is over? */
static bool outlasts(struct search *search, unsigned number, int64_t horizon, const struct pawl__fate *fates) {
    reduce(search, horizon);
    for (size_t i = 0; i < search->count; i++)
        if (fates[i].deadlock == number && is_stuck(search, i))
            return true;
    return false;
}

/* The first moment at which something else ends, after `last`. */
static int64_t next_end(const struct search *search, int64_t last) {
    int64_t next = PAWL__NEVER;

    for (size_t i = 0; i < search->count; i++)
        if (search->stakes[i].until > last && search->stakes[i].until < next)
            next = search->stakes[i].until;
    return next;
}

/* A deadlock that ends by itself: when? The others are left out: those that do not are told as such. */
static void find_until(struct search *search, unsigned number, struct pawl__fate *ret) {
    int64_t until = next_end(search, 0);

    for (size_t i = 0; i < search->count; i++)
        search->peeled[search->who[i]] = false;
    for (size_t i = 0; i < search->count; i++)
        search->peeled[search->who[i]] |= ret[i].deadlock && ret[i].deadlock != number;
    while (until != PAWL__NEVER && outlasts(search, number, until, ret))
        until = next_end(search, until);
    for (size_t i = 0; i < search->count; i++)
        if (ret[i].deadlock == number)
            ret[i].until = until;
}

int pawl__deadlock_find(const struct pawl__stake *stakes, size_t count, struct pawl__fate *ret) {
    struct search search = {.stakes = stakes, .count = count};
    unsigned lasting = 0, all = 0;
    bool works = allocate(&search);

    if (works) {
        memset(ret, 0, count * sizeof *ret);
        number_owners(&search);
        lasting = peel(&search, PAWL__NEVER - 1, 0, ret);
        all = peel(&search, 0, lasting, ret);
        for (unsigned number = lasting + 1; number <= all; number++)
            find_until(&search, number, ret);
    }
    release(&search);
    return works ? (int)all : -1;
}

/* ---- Two looks ------------------------------------------------------------------------------------------------------------- */

static int compare_ids(const void *left, const void *right) {
    const struct pawl__stake *a = left, *b = right;
    int rc = a->waits - b->waits;

    for (size_t i = 0; i < 3 && rc == 0; i++)
        rc = compare_numbers(a->id[i], b->id[i]);
    return rc ? rc : compare_numbers(a->owner, b->owner);
}

size_t pawl__deadlock_confirm(struct pawl__stake *first, size_t first_count, struct pawl__stake *second, size_t second_count) {
    size_t kept = 0;

    qsort(first, first_count, sizeof *first, compare_ids);
    qsort(second, second_count, sizeof *second, compare_ids);
    for (size_t i = 0, j = 0; i < first_count && j < second_count;) {
        int rc = compare_ids(&first[i], &second[j]);

        if (rc == 0)
            second[kept++] = second[j];
        i += rc <= 0;
        j += rc >= 0;
    }
    return kept;
}
