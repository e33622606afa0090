/* SPDX-License-Identifier: Apache-2.0
 *
 * shrink.c - see shrink.h. Every step is tried by a run; what still breaks the rule stays, the rest is undone.
 *
 * A run is chaotic: without a stroke that does not matter all that comes after it happens at other moments, and the failure may be gone for
 * nothing but that. So where taking away does not help any more, half of the strokes are left out by lot, and the rest is tried with other
 * dice. First the run is cut off behind the failure, since that makes all other tries cheaper.
 */
#include "shrink.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run.h"

enum { FEW = 3, LOTS = 10, ROUNDS = 10000 };

/* ---- Lists ---------------------------------------------------------------------------------------------------------------- */

static size_t count_kept(const bool *keep, size_t count) {
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        kept += keep[i];
    return kept;
}

/* Without the kept ones from number `from` to before number `to`. */
static void leave_out(const bool *keep, size_t count, size_t from, size_t to, bool *ret) {
    size_t number = 0;

    for (size_t i = 0; i < count; i++) {
        ret[i] = keep[i] && !(number >= from && number < to);
        number += keep[i];
    }
}

size_t shrink_list(bool *keep, size_t count, shrink_fails *fails, void *data) {
    bool *less = calloc(count + 1, sizeof *less);
    size_t kept = count_kept(keep, count), piece = kept;

    while (less != NULL && piece > 0 && kept > 0) {
        bool any = false;

        for (size_t from = 0; from < kept;) {
            leave_out(keep, count, from, from + piece, less);
            if (fails(less, data)) {
                memcpy(keep, less, count * sizeof *keep);
                kept = count_kept(keep, count);
                any = true;
            } else {
                from += piece;
            }
        }
        /* Single ones are tried until none can go: one may have needed another. */
        piece = piece > 1 ? (piece + 1) / 2 : any ? 1 : 0;
    }
    free(less);
    return kept;
}

/* ---- Plans ---------------------------------------------------------------------------------------------------------------- */

struct attempt {
    struct plan *plan; /* the smallest so far */
    struct plan next;  /* to be tried */
    const char *rule;
    int64_t deadline;
    unsigned tries;
};

/* What others do with the machine is no matter. */
static int64_t used_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Does the next one break the rule? Then it is the smallest so far. */
static bool try_next(struct attempt *attempt) {
    struct outcome outcome;

    if (used_ms() >= attempt->deadline)
        return false;
    attempt->tries++;
    run_plan(&attempt->next, NULL, &outcome);
    if (!outcome_breaks(&outcome, attempt->rule))
        return false;
    *attempt->plan = attempt->next;
    return true;
}

struct stroke_choice {
    struct attempt *attempt;
    struct strokes all;
};

static bool fails_with(const bool *keep, void *data) {
    struct stroke_choice *choice = data;
    struct strokes *strokes = &choice->attempt->next.strokes;

    choice->attempt->next = *choice->attempt->plan;
    strokes->count = 0;
    for (size_t i = 0; i < choice->all.count; i++)
        if (keep[i])
            strokes->list[strokes->count++] = choice->all.list[i];
    return try_next(choice->attempt);
}

static void shrink_strokes(struct attempt *attempt) {
    struct stroke_choice *choice = malloc(sizeof *choice);
    bool keep[STROKES_MAX];

    if (choice == NULL)
        return;
    *choice = (struct stroke_choice){.attempt = attempt, .all = attempt->plan->strokes};
    for (size_t i = 0; i < STROKES_MAX; i++)
        keep[i] = i < choice->all.count;
    shrink_list(keep, choice->all.count, fails_with, choice);
    free(choice);
}

/* Make a number as small as it can be: by half, by a quarter, ... */
static bool shrink_number(struct attempt *attempt, size_t offset, int64_t least) {
    bool any = false;

    for (int part = 1; part <= 4; part++) {
        int64_t now = *(int64_t *)((char *)attempt->plan + offset), step = (now - least) >> (part - 1);

        if (step == 0)
            break;
        attempt->next = *attempt->plan;
        *(int64_t *)((char *)&attempt->next + offset) = now - step;
        if (try_next(attempt)) {
            any = true;
            part = 0;
        }
    }
    return any;
}

static bool shrink_url(struct attempt *attempt) {
    if (attempt->plan->url[0] == '\0' || strstr(attempt->plan->url, "layout=") != NULL)
        return false;
    attempt->next = *attempt->plan;
    attempt->next.url[0] = '\0';
    return try_next(attempt);
}

static bool shrink_actors(struct attempt *attempt) {
    bool any = false;

    for (int i = 0; i < ACTOR_CLASSES; i++) {
        if (!attempt->plan->actors[i])
            continue;
        attempt->next = *attempt->plan;
        attempt->next.actors[i] = false;
        any |= try_next(attempt);
    }
    return any;
}

static bool shrink_faults(struct attempt *attempt) {
    struct plan *next = &attempt->next;

    *next = *attempt->plan;
    memset(next->faults, 0, sizeof next->faults);
    for (size_t i = 0; i < next->strokes.count; i++)
        next->faults[next->strokes.list[i].fault] = true;
    return memcmp(next->faults, attempt->plan->faults, sizeof next->faults) != 0 && try_next(attempt);
}

/* Without all strokes of one kind. */
static bool shrink_kinds(struct attempt *attempt) {
    bool any = false;

    for (int fault = 0; fault < SIM_FAULT_KINDS; fault++) {
        struct strokes *strokes = &attempt->next.strokes;
        size_t count = attempt->plan->strokes.count, kept = 0;

        attempt->next = *attempt->plan;
        for (size_t i = 0; i < count; i++)
            if (strokes->list[i].fault != fault)
                strokes->list[kept++] = strokes->list[i];
        strokes->count = kept;
        any |= kept < count && try_next(attempt);
    }
    return any;
}

/* With so many of the strokes, drawn by lot, and with other dice. */
static bool shrink_by_lot(struct attempt *attempt, size_t wanted) {
    struct strokes *strokes = &attempt->next.strokes;
    size_t count = attempt->plan->strokes.count, kept = 0;
    struct dice dice = dice_new(attempt->plan->seed, attempt->tries);

    attempt->next = *attempt->plan;
    for (size_t i = 0; i < count; i++)
        if (dice_below(&dice, count - i) < wanted - kept)
            strokes->list[kept++] = strokes->list[i];
    strokes->count = kept;
    attempt->next.seed = plan_seed(attempt->plan->seed, attempt->tries);
    return try_next(attempt);
}

/* Half of them at a time, as long as that has luck. */
static bool shrink_halves(struct attempt *attempt) {
    bool any = false;

    for (int lot = 0; lot < LOTS && attempt->plan->strokes.count > FEW; lot++)
        if (shrink_by_lot(attempt, attempt->plan->strokes.count / 2)) {
            any = true;
            lot = -1;
        }
    return any;
}

/* Until there are few enough. What fails seldom, with all of them, fails as seldom with few: so those are tried at once. */
static bool shrink_on(struct attempt *attempt) {
    for (int round = 0; round < ROUNDS && attempt->plan->strokes.count > FEW; round++) {
        size_t count = attempt->plan->strokes.count;

        if (shrink_by_lot(attempt, round % 4 == 0 ? count / 2 : round % 4 == 2 ? count - 1 : FEW))
            return true;
    }
    return false;
}

unsigned shrink_plan(struct plan *plan, const char *rule, int64_t budget_ms) {
    static const struct {
        size_t offset;
        int64_t least;
    } numbers[] = {
        {offsetof(struct plan, preempt), 0}, {offsetof(struct plan, priorities), 0}, {offsetof(struct plan, onebyte), 0},
        {offsetof(struct plan, clients), 1}, {offsetof(struct plan, threads), 1},    {offsetof(struct plan, locks), 1},
        {offsetof(struct plan, time), 1},    {offsetof(struct plan, observer), 0},   {offsetof(struct plan, keep), 0},
        {offsetof(struct plan, watch), 0},   {offsetof(struct plan, values), 0},     {offsetof(struct plan, breaks), 0},
        {offsetof(struct plan, extend), 0},  {offsetof(struct plan, peruse), 0},     {offsetof(struct plan, tries), 0},
    };
    struct attempt *attempt = malloc(sizeof *attempt);
    bool any = true;
    unsigned tries;

    if (attempt == NULL)
        return 0;
    *attempt = (struct attempt){.plan = plan, .rule = rule, .deadline = used_ms() + budget_ms};
    shrink_number(attempt, offsetof(struct plan, time), 1);
    while (any && used_ms() < attempt->deadline) {
        shrink_kinds(attempt);
        shrink_halves(attempt);
        shrink_strokes(attempt);
        any = shrink_faults(attempt) | shrink_url(attempt) | shrink_actors(attempt);
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            any |= shrink_number(attempt, numbers[i].offset, numbers[i].least);
        any = any || shrink_on(attempt);
    }
    tries = attempt->tries;
    free(attempt);
    return tries;
}
