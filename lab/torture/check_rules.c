/* SPDX-License-Identifier: Apache-2.0
 *
 * check_rules.c - the rules that need the whole history: exclusion and permits, tokens, order, wake-ups. See check.h.
 *
 * Attempts are sorted by lock, and within a lock by time or by token; each rule then sweeps once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check_state.h"

/* ---- What the table explains ---------------------------------------------------------------------------------------------- */

static int64_t mend_ns(const struct check *check) {
    return bound_ns(check->oracle.mend, check->terms.lease);
}

/* Until when may a hold still be believed that this fault took? */
static int64_t told_by(const struct check *check, const struct stroke_seen *stroke) {
    switch (check->oracle.faults[stroke->fault].told) {
    case TOLD_RENEWAL:
    case TOLD_LEASE:
        return stroke->end + check->terms.lease;
    case TOLD_NOW:
        return stroke->end + mend_ns(check);
    default:
        return NEVER;
    }
}

/* Of the hold that this became: when was the claim asked for at the earliest? Threads of one process hand a claim on, each time with the
 * next token of those that came with it; so these stand side by side. How many may be is known where they have bounds in any case. A
 * claim that is kept may be as old as its process: there the time that its holds were assured of says when it was last confirmed. */
static int64_t asked_since(const struct check *check, const struct attempt *attempt) {
    uint64_t most = attempt->mode == 'p' || attempt->foreign ? 0 : check->terms.hears ? UINT64_MAX : check->terms.handoff;
    int64_t since = attempt->call;

    if (check->terms.keep > 0 && attempt->mode != 'p' && !attempt->foreign)
        return 0;

    for (size_t i = attempt->rank; most-- > 0 && i-- > 0;) {
        const struct attempt *before = check->by_token[i];

        if (before->lock != attempt->lock || before->process != attempt->process)
            break;
        since = before->call < since ? before->call : since;
    }
    /* A part of a set has the claim while it waits for the others, and has no token if nothing comes of it. */
    for (size_t i = check->attempt_count; attempt->mode != 'p' && i-- > 0;) {
        const struct attempt *part = &check->attempts[i];

        if (part->part && part->lock == attempt->lock && part->process == attempt->process && part->call < since &&
            part->ended >= since)
            since = part->call;
    }
    return since;
}

/* Can it be that this fault took the hold? Only if it was asked for before the fault was over; and without a lease, where the truth is in
 * the memory of the host, a release that was told of no loss has had something to release. */
static bool may_be_taken(const struct check *check, const struct stroke_seen *stroke, const struct attempt *attempt) {
    return check->oracle.faults[stroke->fault].promise != PROMISE_EXCLUSIVE &&
           (stroke->lock == ANY_LOCK || stroke->lock == attempt->lock) && !(check->terms.lease == 0 && attempt->kept) &&
           asked_since(check, attempt) <= stroke->end;
}

/* Was it never assured of the hold for longer than one may be that this fault took? What was granted after the fault is, as a rule: that is
 * how one is told from the other. A foreigner is told of nothing. */
static bool knew_in_time(const struct check *check, const struct stroke_seen *stroke, const struct attempt *attempt) {
    int64_t until = attempt->promise != NEVER ? attempt->promise : attempt->believed;

    return attempt->foreign || until <= told_by(check, stroke) || until <= attempt->granted;
}

/* Does a fault explain that a hold is believed at `moment` that is not on the servers? 1: yes. 0: no. -1: it would, had the hold not been
 * believed for too long. */
static int explained(const struct check *check, const struct attempt *attempt, int64_t moment) {
    int answer = 0;

    for (size_t i = 0; i < check->stroke_count && check->strokes[i].begin <= moment; i++) {
        const struct stroke_seen *stroke = &check->strokes[i];

        if (!may_be_taken(check, stroke, attempt))
            continue;
        if (knew_in_time(check, stroke, attempt))
            return 1;
        answer = -1;
    }
    return answer;
}

/* Redlock's clients reckon the servers' time, which is the floor of tokens, by a clock of their own. One that runs fast is ahead of it, and
 * so may a server be, now or from the start; then what a server forgets in between is missed (docs/guarantees.md, "What is not
 * promised"). */
static bool outran_the_time(const struct check *check, int64_t from, int64_t to) {
    bool ahead = check->terms.apart, forgot = false;

    for (size_t i = 0; i < check->stroke_count && check->terms.votes; i++) {
        const struct stroke_seen *stroke = &check->strokes[i];

        ahead |= (stroke->fault == FAULT_CLIENT_FAST || stroke->fault == FAULT_SERVER_CLOCK ||
                  stroke->fault == FAULT_SERVER_FAST) &&
                 stroke->begin <= from;
        forgot |= (stroke->fault == FAULT_FLUSHALL || stroke->fault == FAULT_SERVER_RESTART) && stroke->begin <= to &&
                  stroke->end >= from - check->terms.lease; /* a vote may be that old when the hold begins */
    }
    return ahead && forgot;
}

/* May a token that was given at `to` be below one that was given at `from`? Where there are leases there are servers, whose tokens keep to
 * the time: what was given long before is below, whichever of them gave it. */
static bool may_fall(const struct check *check, int64_t from, int64_t to) {
    if (check->terms.lease > 0 && to - from > mend_ns(check))
        return false;
    if (outran_the_time(check, from, to))
        return true;
    for (size_t i = 0; i < check->stroke_count; i++)
        if (check->oracle.faults[check->strokes[i].fault].promise == PROMISE_LOSS && check->strokes[i].begin <= to &&
            check->strokes[i].end >= from)
            return true;
    return false;
}

/* Who has not heard yet that a fault took its hold comes in with its old token after others had higher ones; the store refuses it. */
static bool may_be_late(const struct check *check, const struct attempt *attempt) {
    return explained(check, attempt, attempt->granted) > 0;
}

/* A set has its first part, and that part's token, long before the last one. A server may forget the part meanwhile, let another in, and
 * know it again when it is restarted with what it had before. So it may be with an acquire that joined the part. */
static bool may_be_known_again(const struct check *check, const struct attempt *attempt, int64_t moment) {
    if (!attempt->part && asked_since(check, attempt) == attempt->call)
        return false;
    for (size_t i = 0; i < check->stroke_count && check->strokes[i].begin <= moment; i++)
        if (may_be_taken(check, &check->strokes[i], attempt))
            return true;
    return false;
}

/* ---- Exclusion ------------------------------------------------------------------------------------------------------------ */

/* What was believed in one mode. A hold that was downgraded has two of these. */
struct span {
    int64_t begin, end;
    const struct attempt *attempt;
    char mode;
};

static int by_begin(const void *left, const void *right) {
    const struct span *one = left, *other = right;

    if (one->attempt->lock != other->attempt->lock)
        return one->attempt->lock < other->attempt->lock ? -1 : 1;
    return one->begin < other->begin ? -1 : one->begin > other->begin;
}

static void complain_of_overlap(struct check *check, enum rule rule, const struct span *old, const struct span *new) {
    int64_t end = old->end < new->end ? old->end : new->end;

    check_complain(check, rule,
                   "lock %d: client %d.%u with token %" PRIu64 " and client %d.%u with token %" PRIu64
                   " both believed to hold it for %.3f ms, from %.6f s on",
                   new->attempt->lock, old->attempt->who.slot, old->attempt->who.life, old->attempt->token, new->attempt->who.slot,
                   new->attempt->who.life, new->attempt->token, (double)(end - new->begin) / 1e6, (double)new->begin / 1e9);
}

/* One of the two is not on the servers any more. What foreigners do to each other is not pawl's. */
static void judge_overlap(struct check *check, const struct span *old, const struct span *new) {
    if (old->attempt->foreign && new->attempt->foreign)
        return;
    int one = explained(check, old->attempt, new->begin), other = explained(check, new->attempt, new->begin);

    if (one > 0 || other > 0)
        check->verdict.overlaps++;
    else
        complain_of_overlap(check, one < 0 || other < 0 ? RULE_TOLD : RULE_EXCLUSION, old, new);
}

/* The holds that are believed as of now, and the highest tokens before. */
struct sweep {
    const struct span **held;
    size_t count, room;
    const struct span *highest, *highest_exclusive; /* by token */
};

static void let_go(struct sweep *sweep, int64_t time) {
    size_t kept = 0;

    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->held[i]->end > time)
            sweep->held[kept++] = sweep->held[i];
    sweep->count = kept;
}

/* Those that no fault can have taken must fit. */
static void check_permits(struct check *check, const struct sweep *sweep, const struct span *span) {
    uint64_t limit = check->locks[span->attempt->lock].limit, all = span->attempt->permits, sure = 0, untold = 0;
    const struct span *oldest = NULL;
    bool foreign = span->attempt->foreign;

    for (size_t i = 0; i < sweep->count; i++) {
        all += sweep->held[i]->attempt->permits;
        foreign &= sweep->held[i]->attempt->foreign;
    }
    if (all <= limit || foreign)
        return;
    for (size_t i = 0; i <= sweep->count; i++) {
        const struct span *held = i < sweep->count ? sweep->held[i] : span;
        int answer = explained(check, held->attempt, span->begin);

        sure += answer == 0 ? held->attempt->permits : 0;
        untold += answer < 0 ? held->attempt->permits : 0;
        if (answer <= 0 && oldest == NULL)
            oldest = held;
    }
    if (sure + untold <= limit)
        check->verdict.overlaps++;
    else
        complain_of_overlap(check, sure <= limit ? RULE_TOLD : RULE_PERMITS, oldest, span);
}

static void enter(struct check *check, struct sweep *sweep, const struct span *span) {
    let_go(sweep, span->begin);
    if (span->mode == 'p')
        check_permits(check, sweep, span);
    for (size_t i = 0; i < sweep->count && span->mode != 'p'; i++)
        if (span->mode == 'x' || sweep->held[i]->mode == 'x')
            judge_overlap(check, sweep->held[i], span);
    if (check_room(&sweep->held, &sweep->room, sweep->count, sizeof sweep->held[0]))
        sweep->held[sweep->count++] = span;
}

/* Where two holds followed each other, so did their tokens. Where they overlapped, the other rule has spoken. */
static void check_rise(struct check *check, struct sweep *sweep, const struct span *span) {
    const struct span *before = span->mode == 'x' ? sweep->highest : sweep->highest_exclusive;
    uint64_t token = span->attempt->token;

    if (span->mode == 'p' || span->begin != span->attempt->granted || span->attempt->foreign)
        return;
    if (before != NULL && before->end <= span->begin && token <= before->attempt->token &&
        !may_fall(check, before->begin, span->begin) && !may_be_late(check, span->attempt) &&
        !may_be_known_again(check, span->attempt, before->begin))
        check_complain(check, RULE_TOKEN, "lock %d: token %" PRIu64 " of client %d.%u after token %" PRIu64 " of client %d.%u",
                       span->attempt->lock, token, span->attempt->who.slot, span->attempt->who.life, before->attempt->token,
                       before->attempt->who.slot, before->attempt->who.life);
    if (sweep->highest == NULL || sweep->highest->attempt->token < token)
        sweep->highest = span;
    if (span->mode == 'x' && (sweep->highest_exclusive == NULL || sweep->highest_exclusive->attempt->token < token))
        sweep->highest_exclusive = span;
}

static size_t make_spans(const struct check *check, struct span *spans) {
    size_t count = 0;

    for (size_t i = 0; i < check->attempt_count; i++) {
        const struct attempt *attempt = &check->attempts[i];
        int64_t begin = attempt->granted, end = attempt->believed;
        char mode = attempt->mode;

        if (begin == NEVER || begin >= end)
            continue;
        if (attempt->downgrade < end) {
            spans[count++] = (struct span){begin, attempt->downgrade, attempt, mode};
            begin = attempt->downgrade;
            mode = 's';
        }
        spans[count++] = (struct span){begin, end, attempt, mode};
    }
    return count;
}

static void check_exclusion(struct check *check) {
    struct span *spans = calloc(2 * check->attempt_count + 1, sizeof *spans);
    struct sweep sweep = {0};

    if (spans == NULL) {
        check_complain(check, RULE_HISTORY, "out of memory");
        return;
    }
    size_t count = make_spans(check, spans);

    qsort(spans, count, sizeof *spans, by_begin);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && spans[i - 1].attempt->lock != spans[i].attempt->lock) {
            sweep.count = 0;
            sweep.highest = sweep.highest_exclusive = NULL;
        }
        enter(check, &sweep, &spans[i]);
        check_rise(check, &sweep, &spans[i]);
    }
    free(sweep.held);
    free(spans);
}

/* ---- Tokens --------------------------------------------------------------------------------------------------------------- */

static int by_token(const void *left, const void *right) {
    const struct attempt *one = *(const struct attempt *const *)left, *other = *(const struct attempt *const *)right;

    if (one->lock != other->lock)
        return one->lock < other->lock ? -1 : 1;
    return one->token < other->token ? -1 : one->token > other->token;
}

static void complain_of_twins(struct check *check, const struct attempt *one, const struct attempt *other) {
    check_complain(check, RULE_TOKEN, "lock %d: token %" PRIu64 " was given to client %d.%u and to client %d.%u", one->lock,
                   one->token, one->who.slot, one->who.life, other->who.slot, other->who.life);
}

static const struct attempt *first_granted(const struct attempt *one, const struct attempt *other) {
    return one == NULL || other->granted < one->granted ? other : one;
}

/* If one acquire had returned before another was called, its token is the lower one, where they exclude each other. */
static void check_precedence(struct check *check, struct attempt **sorted, size_t count) {
    const struct attempt *any = NULL, *exclusive = NULL; /* of those with higher tokens, the first that was granted */

    for (size_t i = count; i-- > 0;) {
        const struct attempt *attempt = sorted[i];

        if (i + 1 < count && sorted[i + 1]->lock != attempt->lock)
            any = exclusive = NULL;
        const struct attempt *later = attempt->mode == 'x' ? any : exclusive;

        if (attempt->mode != 'p' && later != NULL && later->granted < attempt->call &&
            !may_fall(check, later->granted, attempt->granted) && !may_be_late(check, attempt))
            check_complain(check, RULE_TOKEN,
                           "lock %d: client %d.%u got token %" PRIu64 " and only then client %d.%u asked, and got %" PRIu64,
                           attempt->lock, later->who.slot, later->who.life, later->token, attempt->who.slot, attempt->who.life,
                           attempt->token);
        any = first_granted(any, attempt);
        if (attempt->mode == 'x')
            exclusive = first_granted(exclusive, attempt);
    }
}

/* ---- Order ---------------------------------------------------------------------------------------------------------------- */

/* Did nothing happen in between that may cost a place in the queue? */
static bool order_is_kept(const struct check *check, int64_t from, int64_t to) {
    for (size_t i = 0; i < check->stroke_count; i++)
        if (!check->oracle.faults[check->strokes[i].fault].ordered && check->strokes[i].begin <= to &&
            check->strokes[i].end + mend_ns(check) >= from)
            return false;
    return true;
}

/* Does one wait for the other? Readers don't wait for each other. */
static bool exclude_each_other(const struct attempt *one, const struct attempt *other) {
    return one->mode != 's' || other->mode != 's';
}

/* Who keeps the lock, or shares it with other threads, may enter it until it hears that somebody waits: that takes no longer than this, or,
 * where the message may have been lost, until who waits asks again. */
#define RECALL_NS INT64_C(1000000000)
#define HEAR_NS INT64_C(250000000)
#define RECALL_AGAIN_NS INT64_C(2600000000) /* ALIVE_NS in src/engine/redis/lock/answer.c, and a quarter */

static int64_t recalled_by(const struct check *check, const struct attempt *waiter) {
    if (check->terms.keep == 0 && (!check->terms.hears || check->terms.handoff == 0))
        return waiter->seen;
    for (size_t i = 0; i < check->stroke_count; i++)
        if (check->strokes[i].begin <= waiter->granted && check->strokes[i].end + mend_ns(check) >= waiter->call)
            return waiter->seen + (check->terms.keep ? RECALL_AGAIN_NS : RECALL_NS);
    return waiter->seen + (check->terms.keep ? RECALL_NS : HEAR_NS);
}

/* `known`: from when on all others know that it waits. */
static bool overtook(const struct attempt *other, const struct attempt *waiter, int64_t known) {
    return other->lock == waiter->lock && other->call > known && exclude_each_other(other, waiter);
}

/* A writer that becomes a reader keeps its claim, and is joined there by other readers of its process, whose tokens follow its own. That
 * claim is handed on apart from the next one of the process. How many have overtaken the waiter by it, up to `sorted[j]`? 0: that one is
 * not in such a claim. */
static uint64_t joined(struct attempt *const *sorted, size_t from, size_t j, const struct attempt *waiter, int64_t known) {
    uint64_t times = 1;

    for (; j > from && sorted[j - 1]->process == sorted[j]->process && sorted[j - 1]->token + 1 == sorted[j]->token; j--) {
        if (sorted[j - 1]->downgrade != NEVER)
            return times;
        times += overtook(sorted[j - 1], waiter, known);
    }
    return 0;
}

/* How often did one process overtake the waiter? Those with lower tokens that asked after it was seen, from `i` downwards. `times`: a zero
 * for each process. */
static void check_overtaken(struct check *check, uint32_t *times, size_t i) {
    enum { FAR = 4096 };
    struct attempt **sorted = check->by_token;
    const struct attempt *waiter = sorted[i], *worst = NULL;
    size_t from = i > FAR ? i - FAR : 0;
    uint64_t allowed = waiter->mode == 'p' ? 0 : check->terms.handoff, most = 0;
    int64_t known = recalled_by(check, waiter);

    for (size_t j = from; j < i; j++) {
        uint64_t often;

        if (!overtook(sorted[j], waiter, known) || sorted[j]->process == waiter->process)
            continue;
        often = joined(sorted, from, j, waiter, known);
        often = often > 0 ? often : ++times[sorted[j]->process];
        if (often > allowed) {
            worst = sorted[j];
            most = often;
        }
    }
    if (worst != NULL && order_is_kept(check, waiter->call, waiter->granted))
        check_complain(check, RULE_ORDER,
                       "lock %d: client %d.%u was seen in the queue, and %d.%u asked later and overtook it %" PRIu64 " times",
                       waiter->lock, waiter->who.slot, waiter->who.life, worst->who.slot, worst->who.life, most);
    for (size_t j = from; j < i; j++)
        times[sorted[j]->process] = 0;
}

static void check_order(struct check *check) {
    uint32_t *times = calloc((size_t)check->process_count + 1, sizeof *times);
    int64_t latest = -1, latest_reader = -1; /* calls among the lower tokens */

    if (times == NULL)
        check_complain(check, RULE_HISTORY, "out of memory");
    for (size_t i = 0; times != NULL && check->oracle.ordered && i < check->granted_count; i++) {
        const struct attempt *attempt = check->by_token[i];
        int64_t *before = attempt->mode == 's' ? &latest_reader : &latest;

        if (i > 0 && check->by_token[i - 1]->lock != attempt->lock)
            latest = latest_reader = -1;
        if (attempt->seen < latest || (attempt->mode != 's' && attempt->seen < latest_reader))
            check_overtaken(check, times, i);
        *before = attempt->call > *before ? attempt->call : *before;
    }
    free(times);
}

static bool sort_by_token(struct check *check) {
    struct attempt **sorted = check->by_token = calloc(check->attempt_count + 1, sizeof(struct attempt *));

    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < check->attempt_count; i++)
        if (check->attempts[i].granted != NEVER && !check->attempts[i].foreign)
            sorted[check->granted_count++] = &check->attempts[i];
    qsort(sorted, check->granted_count, sizeof sorted[0], by_token);
    for (size_t i = 0; i < check->granted_count; i++)
        sorted[i]->rank = i;
    return true;
}

static void check_twins(struct check *check, const struct attempt *one, const struct attempt *other) {
    bool in_order = one->granted <= other->granted;

    if (one->lock == other->lock && one->token == other->token &&
        !may_fall(check, in_order ? one->granted : other->granted, in_order ? other->granted : one->granted))
        complain_of_twins(check, one, other);
}

static void check_tokens(struct check *check) {
    struct attempt **sorted = check->by_token;
    size_t count = check->granted_count;

    for (size_t i = 1; i < count; i++)
        check_twins(check, sorted[i - 1], sorted[i]);
    check_precedence(check, sorted, count);
    check_order(check);
}

/* ---- Wake-ups ------------------------------------------------------------------------------------------------------------- */

/* From when on may it be in the way of others? A part of a set is held while the others are waited for. */
static int64_t taken_at(const struct attempt *attempt) {
    return attempt->part ? attempt->call : attempt->granted;
}

static int by_time_taken(const void *left, const void *right) {
    const struct attempt *one = *(const struct attempt *const *)left, *other = *(const struct attempt *const *)right;

    if (one->lock != other->lock)
        return one->lock < other->lock ? -1 : 1;
    return taken_at(one) < taken_at(other) ? -1 : taken_at(one) > taken_at(other);
}

static int by_stroke(const void *left, const void *right) {
    const struct stroke_seen *one = left, *other = right;

    return one->begin < other->begin ? -1 : one->begin > other->begin;
}

/* The longest stretch between two moments that no fault, nor the time to recover from one, covers. */
static int64_t undisturbed(const struct check *check, int64_t from, int64_t to) {
    int64_t longest = 0;

    for (size_t i = 0; i < check->stroke_count && from < to; i++) {
        const struct stroke_seen *stroke = &check->strokes[i];

        if (stroke->begin >= to)
            break;
        if (stroke->begin - from > longest)
            longest = stroke->begin - from;
        if (stroke->end + mend_ns(check) > from)
            from = stroke->end + mend_ns(check);
    }
    return to - from > longest ? to - from : longest;
}

/* The lock was free between these moments; did anybody wait for it all the while? */
static void check_gap(struct check *check, int lock, int64_t from, int64_t to) {
    int64_t idle = bound_ns(check->oracle.idle, check->terms.lease);

    if (to - from <= idle)
        return;
    for (size_t i = 0; i < check->attempt_count; i++) {
        const struct attempt *attempt = &check->attempts[i];
        int64_t end = attempt->granted < attempt->ended ? attempt->granted : attempt->ended;
        int64_t since = attempt->call > from ? attempt->call : from, until = end < to ? end : to;

        if (attempt->lock != lock || attempt->part || until - since <= idle)
            continue;
        int64_t waited = undisturbed(check, since, until);

        if (waited > idle) {
            check_complain(check, RULE_WAKEUP, "lock %d: client %d.%u waited for %.1f s while nobody held it, from %.3f s on", lock,
                           attempt->who.slot, attempt->who.life, (double)waited / 1e9, (double)since / 1e9);
            return;
        }
    }
}

static void check_wakeups(struct check *check) {
    struct attempt **sorted = calloc(check->attempt_count + 1, sizeof(struct attempt *));
    int64_t free_from[HISTORY_LOCKS] = {0};
    size_t count = 0;

    if (sorted == NULL) {
        check_complain(check, RULE_HISTORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < check->attempt_count; i++)
        if (taken_at(&check->attempts[i]) != NEVER)
            sorted[count++] = &check->attempts[i];
    qsort(sorted, count, sizeof sorted[0], by_time_taken);
    for (size_t i = 0; i < count; i++) {
        const struct attempt *attempt = sorted[i];

        if (taken_at(attempt) > free_from[attempt->lock])
            check_gap(check, attempt->lock, free_from[attempt->lock], taken_at(attempt));
        if (attempt->ended > free_from[attempt->lock])
            free_from[attempt->lock] = attempt->ended;
    }
    for (int lock = 0; lock < HISTORY_LOCKS; lock++)
        if (check->locks[lock].kind != '\0')
            check_gap(check, lock, free_from[lock], check->now);
    free(sorted);
}

void check_rules(struct check *check) {
    for (size_t i = 0; i < check->attempt_count; i++) {
        struct attempt *attempt = &check->attempts[i];

        if (attempt->promise < attempt->believed)
            attempt->believed = attempt->promise;
    }
    if (check->stroke_count > 0)
        qsort(check->strokes, check->stroke_count, sizeof check->strokes[0], by_stroke);
    if (sort_by_token(check)) {
        check_exclusion(check);
        check_tokens(check);
        check_wakeups(check);
        check_values(check);
    } else {
        check_complain(check, RULE_HISTORY, "out of memory");
    }
    free(check->by_token);
    check->by_token = NULL;
}
