/* SPDX-License-Identifier: Apache-2.0
 *
 * check_values.c - the rule `value`: what lies beside a lock is what its holders wrote, in the order of their tokens.
 *
 * Each write has a number that no other has, and who reads a value learns which it was. Under one token writes follow each other, and
 * tokens rise: so all writes of a lock have a rank, and the history is linearizable if ranks never fall in real time.
 *
 * A note is a second value beside the lock: the same holds of its writes and reads, for themselves.
 *
 * Others may write in the name of a hold that stands, by its token. Holds of one process that follow each other, with no other process's
 * between them, are a chain: they may be one hold to the server, which takes such a write under any of their tokens. So where somebody has
 * written by token, the writes of the chain are ranked by their time, and those that were under way together have the same rank.
 *
 * The rules:
 *
 *   - an operation that began after another had ended has no lower rank; a read that finds nothing has the lowest;
 *   - the versions that readers were shown rise with the ranks;
 *   - who reads under a hold finds the last write before it: nothing of an earlier token is written later, nor was forgotten; but what
 *     others wrote by token while it holds it need not see, since it may have read before;
 *   - no write that began after a later hold was granted was carried out (by token: one of another chain); and what was refused as lost
 *     is never seen.
 *
 * Who observes a lock is told of values that were there, in their order; of the last one, too. Where that may be early (docs/redis.md),
 * being told of a write does not mean that it was carried out.
 *
 * A write whose outcome nobody knows may have been carried out, or may be later; if it is seen, it was. Faults that the table does not call
 * EXCLUSIVE explain what they can have done, and no more: see is_excuse().
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check_state.h"
#include "pawl.h"

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

static struct value_op *open_op(struct check *check, struct process *process, int thread) {
    return process->open_value[thread] > 0 ? &check->values[process->open_value[thread] - 1] : NULL;
}

static const char *word_of(const struct value_op *op) {
    return op->note ? "note" : "value";
}

static bool on_begin(struct check *check, const struct record *record, struct process *process) {
    bool writes = record->kind != RECORD_LOOK && record->kind != RECORD_LOOK_NOTE;

    if (open_op(check, process, record->who.thread) != NULL ||
        !check_room(&check->values, &check->value_room, check->value_count, sizeof check->values[0]))
        return false;
    check->values[check->value_count++] = (struct value_op){
        .begin = record->time,
        .end = NEVER,
        .token = (uint64_t)record->numbers[0],
        .number = writes ? (uint64_t)record->numbers[1] : 0,
        .code = PAWL_EUNKNOWN,
        .who = record->who,
        .lock = (short)record->lock,
        .writes = writes,
        .note = record->kind == RECORD_PUT_NOTE || record->kind == RECORD_LOOK_NOTE,
        .by_token = record->kind == RECORD_PUT_BY_TOKEN,
    };
    process->open_value[record->who.thread] = check->value_count;
    return true;
}

static bool on_end(struct check *check, const struct record *record, struct process *process) {
    struct value_op *op = open_op(check, process, record->who.thread);

    if (op == NULL || op->lock != record->lock || op->writes != (record->kind == RECORD_STORED))
        return false;
    process->open_value[record->who.thread] = 0;
    op->code = (int)record->numbers[0];
    op->end = record->time;
    if (!op->writes) {
        op->number = (uint64_t)record->numbers[1];
        op->version = (uint64_t)record->numbers[2];
        op->shown = (uint64_t)record->numbers[3];
    }
    check->verdict.values += op->code == 0;
    if (op->by_token && op->code == PAWL_ETOKEN) /* the hold was over */
        return true;
    /* Replicas that were merely slow are too few for a value at once, where an acquire goes on asking. */
    if (op->code != 0 && !check_expects(check, op->code) && !(op->code == PAWL_EREPLICAS && check->stroke_count > 0))
        check_complain(check, RULE_ERROR, "line %zu: a %s could not be %s: %s", check->lines, word_of(op),
                       op->writes ? "written" : "read", pawl_error_name(op->code));
    return true;
}

static bool on_shown(struct check *check, const struct record *record) {
    if (!check_room(&check->values, &check->value_room, check->value_count, sizeof check->values[0]))
        return false;
    check->values[check->value_count++] = (struct value_op){
        .begin = record->time,
        .end = record->time,
        .number = (uint64_t)record->numbers[0],
        .version = (uint64_t)record->numbers[1],
        .shown = (uint64_t)record->numbers[2],
        .who = record->who,
        .lock = (short)record->lock,
        .told = true,
    };
    check->verdict.values++;
    return true;
}

static bool on_blind(struct check *check, const struct record *record) {
    check_complain(check, RULE_VALUE, "lock %d: client %d.%u observes it, and was not told what it came to in the end",
                   record->lock, record->who.slot, record->who.life);
    return true;
}

bool check_value(struct check *check, const struct record *record, struct process *process) {
    if (process == NULL || check->locks[record->lock].kind == '\0')
        return false;
    if (record->kind == RECORD_SHOWN)
        return on_shown(check, record);
    if (record->kind == RECORD_BLIND)
        return on_blind(check, record);
    if (record->kind == RECORD_STORED || record->kind == RECORD_SAW)
        return on_end(check, record, process);
    return on_begin(check, record, process);
}

/* ---- Ranks ---------------------------------------------------------------------------------------------------------------- */

/* The writes of one lock, of its value or of its note, by rank: the rank of writes[i] is i + 1, or that of the one before it. */
struct ranked {
    struct check *check;
    struct value_op **writes, **reads;
    size_t write_count, read_count;
    struct attempt *const *holds; /* of the lock, by token */
    size_t hold_count;
    int64_t *deposed; /* by place in `holds`: when the first exclusive one from there on was granted */
};

static int by_rank(const void *left, const void *right) {
    const struct value_op *one = *(const struct value_op *const *)left, *other = *(const struct value_op *const *)right;

    if (one->chain != other->chain)
        return one->chain < other->chain ? -1 : 1;
    if (one->token != other->token && !one->mixed)
        return one->token < other->token ? -1 : 1;
    return one->begin < other->begin ? -1 : one->begin > other->begin;
}

static int by_number(const void *left, const void *right) {
    const struct value_op *one = *(const struct value_op *const *)left, *other = *(const struct value_op *const *)right;

    return one->number < other->number ? -1 : one->number > other->number;
}

static int by_op_begin(const void *left, const void *right) {
    const struct value_op *one = *(const struct value_op *const *)left, *other = *(const struct value_op *const *)right;

    return one->begin < other->begin ? -1 : one->begin > other->begin;
}

static int by_op_end(const void *left, const void *right) {
    const struct value_op *one = *(const struct value_op *const *)left, *other = *(const struct value_op *const *)right;

    return one->end < other->end ? -1 : one->end > other->end;
}

/* What a fault may have done: a server has forgotten; two of them answer, or one knows again what it had forgotten; a hold was taken from
 * a client that has not heard of it, and goes on reading what it has in memory. */
enum excuse { FORGETS, SPLITS, TAKES };

static bool is_excuse(const struct stroke_seen *stroke, enum excuse excuse, int lock) {
    switch (stroke->fault) {
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_STOP:
    case FAULT_PARTITION_SERVERS:
    case FAULT_FAILOVER:
        return true;
    case FAULT_FLUSHALL:
        return excuse != SPLITS;
    default:
        return excuse == TAKES && (stroke->lock == ANY_LOCK || stroke->lock == lock);
    }
}

static bool is_excused(const struct check *check, int64_t from, int64_t to, enum excuse excuse, int lock) {
    int64_t mend = bound_ns(check->oracle.mend, check->terms.lease);

    for (size_t i = 0; i < check->stroke_count; i++) {
        const struct stroke_seen *stroke = &check->strokes[i];

        if (check->oracle.faults[stroke->fault].promise != PROMISE_EXCLUSIVE && is_excuse(stroke, excuse, lock) &&
            stroke->begin <= to && stroke->end + mend >= from)
            return true;
    }
    return false;
}

/* The end of a write, or when it was first seen: then it had been carried out. */
static int64_t known_at(const struct value_op *op) {
    return op->seen != NULL ? op->seen->end : op->end;
}

/* Of two operations, whichever came first: a server that knows again what it had forgotten takes writes of an earlier token once more. */
static bool are_excused(const struct check *check, const struct value_op *one, const struct value_op *other, enum excuse excuse) {
    int64_t from = one->begin < other->begin ? one->begin : other->begin;
    int64_t to = known_at(one) > known_at(other) ? known_at(one) : known_at(other);

    return is_excused(check, from, to, excuse, one->lock);
}

static bool was_carried_out(const struct value_op *write) {
    return write->code == 0 || write->seen != NULL; /* what too few replicas had may be lost with the primary */
}

/* May others who look later find less than this one did? */
static bool may_be_taken_back(const struct check *check, const struct value_op *op) {
    return check->terms.early && op->told && op->of != NULL && !was_carried_out(op->of);
}

static bool was_refused(const struct value_op *write) {
    return write->code == PAWL_ELOST || write->code == PAWL_ETOKEN;
}

/* ---- Holds and their chains ------------------------------------------------------------------------------------------------- */

/* The holds of this lock: from which place on the token is higher, ... */
static size_t place_after(const struct ranked *all, uint64_t token) {
    size_t low = 0, high = all->hold_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (all->holds[middle]->token <= token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ... and from which on the chain is a later one. */
static size_t place_after_chain(const struct ranked *all, size_t chain) {
    size_t low = 0, high = all->hold_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (all->holds[middle]->chain <= chain)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void find_holds(struct ranked *all, int lock) {
    const struct check *check = all->check;
    size_t from = 0, to;

    while (from < check->granted_count && check->by_token[from]->lock < lock)
        from++;
    for (to = from; to < check->granted_count && check->by_token[to]->lock == lock; to++)
        check->by_token[to]->chain = to == from ? 1
                                                : check->by_token[to - 1]->chain +
                                                      (check->by_token[to]->process != check->by_token[to - 1]->process);
    all->holds = check->by_token + from;
    all->hold_count = to - from;
    all->deposed[all->hold_count] = NEVER;
    for (size_t i = all->hold_count; i-- > 0;) {
        const struct attempt *hold = all->holds[i];

        all->deposed[i] = hold->mode == 'x' && hold->granted < all->deposed[i + 1] ? hold->granted : all->deposed[i + 1];
    }
}

static void name_chain(const struct ranked *all, struct value_op *op) {
    size_t place = place_after(all, op->token);

    op->chain = place > 0 ? all->holds[place - 1]->chain : 0;
    op->since = place > 0 ? all->holds[place - 1]->granted : 0;
}

/* Which of the chains has somebody written in by token? In the order of the chains. */
static void mark_mixed(const struct ranked *all) {
    for (size_t from = 0, to; from < all->write_count; from = to) {
        bool mixed = false;

        for (to = from; to < all->write_count && all->writes[to]->chain == all->writes[from]->chain; to++)
            mixed |= all->writes[to]->by_token;
        for (size_t i = from; i < to; i++)
            all->writes[i]->mixed = mixed;
    }
}

static void rank_writes(const struct ranked *all) {
    int64_t open_until = -NEVER; /* what began before may have been carried out in any order */

    for (size_t i = 0; i < all->read_count; i++)
        name_chain(all, all->reads[i]);
    for (size_t i = 0; i < all->write_count; i++)
        name_chain(all, all->writes[i]);
    qsort(all->writes, all->write_count, sizeof all->writes[0], by_rank);
    mark_mixed(all);
    qsort(all->writes, all->write_count, sizeof all->writes[0], by_rank);
    for (size_t i = 0; i < all->write_count; i++) {
        struct value_op *write = all->writes[i];
        bool together = i > 0 && write->mixed && all->writes[i - 1]->chain == write->chain && write->begin <= open_until;
        int64_t end = write->code == 0 ? write->end : was_refused(write) ? write->begin : NEVER;

        write->rank = together ? all->writes[i - 1]->rank : i + 1;
        open_until = together && open_until > end ? open_until : end;
    }
}

/* ---- What was read -------------------------------------------------------------------------------------------------------- */

static struct value_op *find_write(const struct ranked *all, struct value_op *const *numbered, uint64_t number) {
    size_t low = 0, high = all->write_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (numbered[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < all->write_count && numbered[low]->number == number ? numbered[low] : NULL;
}

static void complain_of_read(struct check *check, const struct value_op *read, const char *what) {
    check_complain(check, RULE_VALUE, "lock %d: client %d.%u read %s %" PRIu64 " at %.6f s, %s", read->lock, read->who.slot,
                   read->who.life, word_of(read), read->number, (double)read->end / 1e9, what);
}

static void match_read(const struct ranked *all, struct value_op *const *numbered, struct value_op *read) {
    struct value_op *write = find_write(all, numbered, read->number);

    if (write == NULL || write->begin > read->end) {
        complain_of_read(all->check, read, "which nobody had written");
        return;
    }
    read->rank = write->rank;
    read->of = write;
    if (was_refused(write))
        complain_of_read(all->check, read, "which was refused: its writer had lost the lock");
    else if (read->shown != write->token)
        complain_of_read(all->check, read, "with another token than that of its writer");
    else if (write->seen != NULL && write->seen->version != read->version)
        complain_of_read(all->check, read, "with another version than before");
    else if (write->seen == NULL && !(read->told && all->check->terms.early))
        write->seen = read;
}

static void match_reads(const struct ranked *all) {
    struct value_op **numbered = calloc(all->write_count + 1, sizeof(struct value_op *));

    if (numbered == NULL) {
        check_complain(all->check, RULE_HISTORY, "out of memory");
        return;
    }
    memcpy(numbered, all->writes, all->write_count * sizeof numbered[0]);
    qsort(numbered, all->write_count, sizeof numbered[0], by_number);
    for (size_t i = 0; i < all->read_count; i++)
        if (all->reads[i]->number != 0)
            match_read(all, numbered, all->reads[i]);
    free(numbered);
}

/* ---- The rules ------------------------------------------------------------------------------------------------------------ */

static void check_versions(const struct ranked *all) {
    const struct value_op *before = NULL;

    for (size_t i = 0; i < all->write_count; i++) {
        const struct value_op *write = all->writes[i];

        if (write->seen == NULL)
            continue;
        if (before != NULL && before->rank < write->rank && write->seen->version <= before->seen->version &&
            !are_excused(all->check, before, write, FORGETS))
            complain_of_read(all->check, write->seen, "whose version is not above that of an earlier token");
        if (before == NULL || before->rank < write->rank || before->seen->version < write->seen->version)
            before = write;
    }
}

/* Was it there when the reader's hold began? Of what is written by token in the same chain the time tells, for all else the token. */
static bool was_before(const struct value_op *write, const struct value_op *read) {
    if (!was_carried_out(write) || write->chain > read->chain)
        return false;
    if (write->chain < read->chain)
        return true;
    return write->by_token ? write->code == 0 && write->end < read->since : write->token < read->token;
}

/* Must a holder have seen this write, if one of that rank was there when it read? Not what others have written by token since its hold
 * began, nor what was under way together with that. */
static bool must_be_seen(const struct value_op *write, const struct value_op *read, size_t rank) {
    if (!was_carried_out(write) || (write->by_token && write->chain == read->chain && !was_before(write, read)))
        return false;
    return !write->mixed || write->rank < rank || (write->code == 0 && write->end < read->begin);
}

/* Of all that was there when this one began: the least rank that it may have. */
static size_t least_rank(const struct ranked *all, const struct value_op *op, size_t rank) {
    size_t i = rank;

    if (op->writes || op->token == 0 || rank == 0)
        return rank;
    while (i < all->write_count && all->writes[i]->rank == rank)
        i++;
    while (i > 0 && !must_be_seen(all->writes[i - 1], op, rank))
        i--;
    return i > 0 ? all->writes[i - 1]->rank : 0;
}

/* All that ended, in the order in which it began: beside it, the highest rank of what had ended by then. */
static void check_real_time(const struct ranked *all, struct value_op **begun, struct value_op **ended, size_t count) {
    const struct value_op *highest = NULL;
    size_t past = 0;

    qsort(begun, count, sizeof begun[0], by_op_begin);
    qsort(ended, count, sizeof ended[0], by_op_end);
    for (size_t i = 0; i < count; i++) {
        const struct value_op *op = begun[i];

        for (; past < count && ended[past]->end < op->begin; past++)
            if ((highest == NULL || ended[past]->rank >= highest->rank) && !may_be_taken_back(all->check, ended[past]))
                highest = ended[past];
        enum excuse excuse = !op->writes && op->token > 0 ? TAKES : FORGETS;

        if (op->told || highest == NULL || op->rank >= highest->rank || op->rank >= least_rank(all, op, highest->rank) ||
            is_excused(all->check, highest->begin, op->end, excuse, op->lock))
            continue;
        if (op->writes)
            check_complain(all->check, RULE_VALUE,
                           "lock %d: client %d.%u wrote a %s with token %" PRIu64 " at %.6f s, after a later one was there",
                           op->lock, op->who.slot, op->who.life, word_of(op), op->token, (double)op->begin / 1e9);
        else
            complain_of_read(all->check, op, "though a later one had been written or seen");
    }
}

static int by_observer(const void *left, const void *right) {
    const struct value_op *one = *(const struct value_op *const *)left, *other = *(const struct value_op *const *)right;

    if (one->who.slot != other->who.slot)
        return one->who.slot < other->who.slot ? -1 : 1;
    if (one->who.life != other->who.life)
        return one->who.life < other->who.life ? -1 : 1;
    return by_op_begin(left, right);
}

/* What one observer is told never goes back. */
static void check_told(const struct ranked *all, struct value_op **told) {
    const struct value_op *before = NULL;
    size_t count = 0;

    for (size_t i = 0; i < all->read_count; i++)
        if (all->reads[i]->told && !may_be_taken_back(all->check, all->reads[i]))
            told[count++] = all->reads[i];
    qsort(told, count, sizeof told[0], by_observer);
    for (size_t i = 0; i < count; before = told[i++])
        if (before != NULL && before->who.slot == told[i]->who.slot && before->who.life == told[i]->who.life &&
            told[i]->rank < before->rank && !is_excused(all->check, before->begin, told[i]->end, FORGETS, told[i]->lock))
            complain_of_read(all->check, told[i], "as an observer, which was told of a later one before");
}

/* The last write that was carried out before the hold of this reader began; NULL: none. */
static const struct value_op *last_before(const struct ranked *all, const struct value_op *read) {
    size_t low = 0, high = all->write_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (all->writes[middle]->chain <= read->chain)
            low = middle + 1;
        else
            high = middle;
    }
    while (low > 0 && !was_before(all->writes[low - 1], read))
        low--;
    return low > 0 ? all->writes[low - 1] : NULL;
}

static void check_held_reads(const struct ranked *all) {
    for (size_t i = 0; i < all->read_count; i++) {
        const struct value_op *read = all->reads[i], *last = read->token > 0 ? last_before(all, read) : NULL;

        if (last != NULL && read->rank < last->rank && !are_excused(all->check, last, read, FORGETS))
            complain_of_read(all->check, read, "and holds it: an earlier holder's write was forgotten, or was carried out later");
    }
}

static void check_deposed(const struct ranked *all) {
    for (size_t i = all->write_count; i-- > 0;) {
        const struct value_op *write = all->writes[i];
        int64_t deposed = all->deposed[write->by_token ? place_after_chain(all, write->chain) : place_after(all, write->token)];

        if (!was_carried_out(write) || deposed >= write->begin ||
            is_excused(all->check, write->begin, write->end == NEVER ? all->check->now : write->end, SPLITS, write->lock))
            continue;
        check_complain(all->check, RULE_VALUE,
                       "lock %d: client %d.%u wrote a %s with token %" PRIu64
                       " at %.6f s, and was not refused: another held it since",
                       write->lock, write->who.slot, write->who.life, word_of(write), write->token, (double)write->begin / 1e9);
    }
}

static size_t collect(const struct ranked *all, struct value_op **ret) {
    size_t count = 0;

    for (size_t i = 0; i < all->write_count; i++)
        if (all->writes[i]->code == 0)
            ret[count++] = all->writes[i];
    for (size_t i = 0; i < all->read_count; i++)
        ret[count++] = all->reads[i];
    return count;
}

static void check_lock(const struct ranked *all) {
    size_t room = all->write_count + all->read_count + 1;
    struct value_op **begun = calloc(room, sizeof(struct value_op *)), **ended = calloc(room, sizeof(struct value_op *));

    rank_writes(all);
    match_reads(all);
    check_versions(all);
    if (begun != NULL && ended != NULL) {
        size_t count = collect(all, begun);

        memcpy(ended, begun, count * sizeof begun[0]);
        check_real_time(all, begun, ended, count);
        check_told(all, begun);
    } else {
        check_complain(all->check, RULE_HISTORY, "out of memory");
    }
    check_held_reads(all);
    check_deposed(all);
    free(begun);
    free(ended);
}

/* What was read with success, and all that may have been written. */
static void gather(struct ranked *all, int lock, bool note) {
    all->write_count = all->read_count = 0;
    for (size_t i = 0; i < all->check->value_count; i++) {
        struct value_op *op = &all->check->values[i];

        if (op->lock != lock || op->note != note)
            continue;
        if (op->writes)
            all->writes[all->write_count++] = op;
        else if (op->code == 0)
            all->reads[all->read_count++] = op;
    }
}

void check_values(struct check *check) {
    struct ranked all = {.check = check};

    if (check->value_count == 0)
        return;
    all.writes = calloc(check->value_count, sizeof(struct value_op *));
    all.reads = calloc(check->value_count, sizeof(struct value_op *));
    all.deposed = calloc(check->granted_count + 1, sizeof(int64_t));
    if (all.writes == NULL || all.reads == NULL || all.deposed == NULL) {
        check_complain(check, RULE_HISTORY, "out of memory");
        check->value_count = 0;
    }
    for (int lock = 0; lock < HISTORY_LOCKS && check->value_count > 0; lock++)
        if (check->locks[lock].kind != '\0') {
            find_holds(&all, lock);
            for (int note = 0; note < 2; note++) {
                gather(&all, lock, note);
                check_lock(&all);
            }
        }
    free(all.writes);
    free(all.reads);
    free(all.deposed);
}
