/* SPDX-License-Identifier: Apache-2.0
 *
 * breaks.c - see breaks.h. What is more than there is room for is not judged.
 */
#include "breaks.h"

#include <string.h>

#define NEVER INT64_MAX

void breaks_begin(struct breaks *breaks, const struct oracle *oracle, int64_t moment_ns, bool calm) {
    memset(breaks, 0, sizeof *breaks);
    breaks->oracle = oracle;
    breaks->moment_ns = moment_ns;
    breaks->calm = calm;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

static int64_t earlier(int64_t one, int64_t other) {
    return one < other ? one : other;
}

static void begin_hold(struct breaks *breaks, const struct record *record, int *open) {
    *open = 0;
    if (breaks->hold_count == BREAKS_HOLDS)
        return;
    breaks->holds[breaks->hold_count++] = (struct breaks_hold){
        .who = record->who,
        .token = (uint64_t)record->numbers[0],
        .granted = record->time,
        .believed = NEVER,
        .promise = record->numbers[1] < 0 ? NEVER : record->time + record->numbers[1],
        .left = NEVER,
        .lock = (short)record->lock,
        .mode = breaks->modes[record->who.slot][record->who.thread],
    };
    *open = breaks->hold_count;
}

static void leave(struct breaks_hold *hold, int64_t time) {
    hold->believed = earlier(hold->believed, time);
    hold->left = earlier(hold->left, time);
}

/* It was then; 0: no longer. */
static void be_assured(struct breaks_hold *hold, int64_t time, int64_t assured) {
    if (assured == 0)
        hold->believed = earlier(hold->believed, time);
    else if (assured < 0 || hold->promise < time + assured)
        hold->promise = assured < 0 ? NEVER : time + assured;
}

static void by_holder(const struct record *record, struct breaks_hold *hold) {
    switch (record->kind) {
    case RECORD_SURE:
        be_assured(hold, record->time, record->numbers[0]);
        break;
    case RECORD_EXTEND:
        hold->has_limit = record->numbers[0] >= 0;
        if (hold->has_limit)
            hold->promise = earlier(hold->promise, record->time + bound_limit(record->numbers[0]));
        break;
    case RECORD_EXTENDED:
        if (hold->has_limit && record->numbers[1] >= 0)
            hold->promise = earlier(hold->promise, record->time + record->numbers[1]);
        be_assured(hold, record->time, record->numbers[1]);
        break;
    case RECORD_DOWN:
        hold->mode = 's';
        break;
    case RECORD_LOST:
        if ((uint64_t)record->numbers[0] == hold->token)
            hold->believed = earlier(hold->believed, record->time);
        break;
    case RECORD_DROP:
        leave(hold, record->time);
        break;
    default:
        break;
    }
}

static void by_client(struct breaks *breaks, const struct record *record) {
    int *open = &breaks->open[record->who.slot][record->who.thread];

    if (record->kind == RECORD_WANT || record->kind == RECORD_PART) {
        breaks->modes[record->who.slot][record->who.thread] = record->mode;
        *open = 0;
    } else if (record->kind == RECORD_GOT) {
        begin_hold(breaks, record, open);
    } else if (*open > 0) {
        by_holder(record, &breaks->holds[*open - 1]);
        if (record->kind == RECORD_GONE)
            *open = 0;
    }
}

static void end_process(struct breaks *breaks, const struct record *record) {
    for (int i = 0; record->process.slot < BREAKS_SLOTS && i < BREAKS_PARTS; i++) {
        int *open = &breaks->open[record->process.slot][i];

        if (*open > 0 && breaks->holds[*open - 1].who.life == record->process.life)
            leave(&breaks->holds[*open - 1], record->time);
        *open = 0;
    }
}

static void begin_stroke(struct breaks *breaks, const struct record *record) {
    enum fault fault = fault_find(record->text, record->text_length);

    if (fault == FAULT_KINDS || record->numbers[0] != breaks->stroke_count || breaks->stroke_count == BREAKS_STROKES)
        return;
    breaks->strokes[breaks->stroke_count++] = (struct breaks_stroke){
        .begin = record->time,
        .end = NEVER,
        .forgets = fault != FAULT_BREAK_NOW && breaks->oracle->faults[fault].promise != PROMISE_EXCLUSIVE,
        .frees = fault == FAULT_BREAK_NOW,
        .distorts = fault == FAULT_CLIENT_FAST,
    };
}

static bool is_of(struct who who, const struct breaks_asked *asked) {
    return who.slot == asked->holder.slot && who.life == asked->holder.life;
}

static void ask_back(struct breaks *breaks, const struct record *record) {
    struct breaks_asked asked = {.holder = record->process,
                                 .lock = record->lock,
                                 .token = (uint64_t)record->numbers[0],
                                 .known = record->time,
                                 .seen = record->numbers[1]};

    for (int i = breaks->asked_count; i-- > 0;)
        if (is_of(asked.holder, &breaks->asked[i]) && breaks->asked[i].lock == asked.lock &&
            breaks->asked[i].token == asked.token) {
            breaks->asked[i].seen = asked.seen;
            return;
        }
    if (breaks->asked_count < BREAKS_MAX)
        breaks->asked[breaks->asked_count++] = asked;
}

static void by_rig(struct breaks *breaks, const struct record *record) {
    switch (record->kind) {
    case RECORD_LEASE:
        breaks->lease_ns = record->numbers[0];
        break;
    case RECORD_FAULT:
        begin_stroke(breaks, record);
        break;
    case RECORD_HEALED:
        if (record->numbers[0] < breaks->stroke_count)
            breaks->strokes[record->numbers[0]].end = record->time;
        break;
    case RECORD_KILL:
    case RECORD_EXIT:
        end_process(breaks, record);
        break;
    case RECORD_ASKED_BACK:
        ask_back(breaks, record);
        break;
    default:
        break;
    }
}

void breaks_line(struct breaks *breaks, const char *line, size_t length) {
    struct record record;

    if (!history_parse(line, length, &record))
        return;
    if (record.who.slot < 0)
        by_rig(breaks, &record);
    else if (record.who.slot < BREAKS_SLOTS && record.who.thread < BREAKS_PARTS)
        by_client(breaks, &record);
}

/* ---- Judging -------------------------------------------------------------------------------------------------------------- */

static void complain(struct breaks *breaks, enum breaks_wrong wrong, const struct breaks_hold *hold,
                     const struct breaks_asked *asked, int64_t ns) {
    if (breaks->wrong[wrong]++ > 0)
        return;
    breaks->first[wrong].hold = hold;
    breaks->first[wrong].asked = asked;
    breaks->first[wrong].ns = ns;
}

/* May a fault have taken the break with it, or made the client count wrongly, until then? And `also_freed`: or an operator have insisted?
 * What a server forgets may come out a lease after the fault. */
static bool is_excused(const struct breaks *breaks, const struct breaks_asked *asked, int64_t until, bool also_freed) {
    for (int i = 0; i < breaks->stroke_count; i++) {
        const struct breaks_stroke *stroke = &breaks->strokes[i];
        bool recent = stroke->end == NEVER || stroke->end + breaks->lease_ns >= asked->known;

        if ((stroke->forgets || stroke->distorts || (also_freed && stroke->frees)) && recent && stroke->begin <= until)
            return true;
    }
    return false;
}

/* Does the one exclude the other, from another process? */
static bool excludes(const struct breaks_hold *one, const struct breaks_hold *other) {
    return one->lock == other->lock && (one->who.slot != other->who.slot || one->who.life != other->who.life) && one->mode != 'p' &&
           (one->mode == 'x' || other->mode == 'x');
}

/* Nobody else has it until it is left, or its time is over. */
static void judge_way(struct breaks *breaks, const struct breaks_hold *hold, const struct breaks_asked *asked, int64_t from) {
    int64_t until = earlier(hold->left, hold->promise);

    for (int i = 0; i < breaks->hold_count; i++) {
        const struct breaks_hold *other = &breaks->holds[i];

        /* Foreigners have no tokens, and ways of their own. Who was stopped may come in with what is over. */
        bool counts = other->token > 0 && other->promise > other->granted && excludes(hold, other);

        if (counts && other->granted > from && other->granted < until)
            complain(breaks, BREAKS_NOT_IN_THE_WAY, hold, asked, until - other->granted);
    }
}

static void judge_hold(struct breaks *breaks, const struct breaks_hold *hold, const struct breaks_asked *asked) {
    int64_t from = hold->granted > asked->known ? hold->granted : asked->known, until = earlier(hold->believed, hold->promise);

    if (hold->left < asked->known || is_excused(breaks, asked, hold->left, false))
        return;
    if (until > from && until - from > breaks->moment_ns) {
        if (hold->promise != NEVER && hold->promise > asked->known + breaks->lease_ns)
            complain(breaks, BREAKS_RENEWED, hold, asked, hold->promise - asked->known - breaks->lease_ns);
        if (breaks->calm)
            complain(breaks, BREAKS_NOT_TOLD, hold, asked, until - from);
    }
    if (!is_excused(breaks, asked, hold->left, true))
        judge_way(breaks, hold, asked, from);
}

/* Is this a hold by that claim? What a process is granted alone while its claim is on the servers is granted by it. */
static bool is_by(const struct breaks_hold *hold, const struct breaks_asked *asked) {
    return hold->lock == asked->lock && is_of(hold->who, asked) &&
           (hold->token == asked->token || (hold->token > asked->token && hold->mode == 'x' && hold->granted < asked->seen));
}

void breaks_judge(struct breaks *breaks) {
    for (int i = 0; i < breaks->asked_count; i++)
        for (int j = 0; j < breaks->hold_count; j++)
            if (is_by(&breaks->holds[j], &breaks->asked[i]))
                judge_hold(breaks, &breaks->holds[j], &breaks->asked[i]);
}
