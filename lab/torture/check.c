/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - reading a history: from records to attempts, and the rules that are decided on the way. See check.h.
 *
 * Each thread's records are in the order in which it wrote them, and each thread has one attempt at a time, so one cell per thread is
 * all that is kept while reading. The fenced store is decided here too: its order is that of the file.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_state.h"
#include "pawl.h"

enum { ENTRY_NS = 1000000 }; /* an entry's time is that of the ms in which it was made */

const char *const rule_names[RULE_COUNT] = {
#define RULE_NAME(name, word) word,
    RULES(RULE_NAME)
#undef RULE_NAME
};

void check_complain(struct check *check, enum rule rule, const char *format, ...) {
    struct verdict *verdict = &check->verdict;
    va_list arguments;

    verdict->violations[rule]++;
    /* The first of each rule says most; one rule must not crowd out the others. */
    if (verdict->texts < CHECK_TEXTS && verdict->violations[rule] <= 8) {
        struct violation *violation = &verdict->first[verdict->texts++];

        violation->rule = rule;
        va_start(arguments, format);
        vsnprintf(violation->text, sizeof violation->text, format, arguments);
        va_end(arguments);
    }
}

bool check_room(void *array, size_t *room, size_t count, size_t size) {
    void **place = array;

    if (count < *room)
        return true;
    size_t more = *room > 0 ? *room * 2 : 256;
    void *longer = reallocarray(*place, more, size);

    if (longer == NULL)
        return false;
    *place = longer;
    *room = more;
    return true;
}

/* ---- Attempts ------------------------------------------------------------------------------------------------------------- */

static int64_t earlier(int64_t one, int64_t other) {
    return one < other ? one : other;
}

static struct process *process_of(struct check *check, struct who who) {
    struct process *process = who.slot >= 0 ? check->processes[who.slot] : NULL;

    return process != NULL && process->life == who.life ? process : NULL;
}

static struct attempt *open_attempt(struct check *check, struct who who) {
    struct process *process = process_of(check, who);

    return process != NULL && process->open[who.thread] >= 0 ? &check->attempts[process->open[who.thread]] : NULL;
}

/* Nothing more will come of it. */
static void close_attempt(struct check *check, struct process *process, int thread, int64_t time) {
    struct attempt *attempt = &check->attempts[process->open[thread]];

    struct lock_state *lock = &check->locks[attempt->lock];

    attempt->ended = time;
    process->open[thread] = -1;
    lock->open--;
    lock->left = time;
}

/* A thread begins, or ends, to enter and leave a lock without a word more. */
static void blink(struct check *check, struct process *process, int thread, bool begins, int lock, int64_t time) {
    process->blinks[thread] = (short)(begins ? lock + 1 : 0);
    check->locks[lock].wants += begins;
    check->locks[lock].open += begins ? 1 : UINT32_MAX;
    check->locks[lock].left = time;
}

static bool on_blink(struct check *check, const struct record *record) {
    struct process *process = process_of(check, record->who);
    bool begins = record->kind == RECORD_BLINK;

    if (process == NULL || process->blinks[record->who.thread] != (begins ? 0 : record->lock + 1))
        return false;
    blink(check, process, record->who.thread, begins, record->lock, record->time);
    return true;
}

/* The process is over: what it did not end itself ended with it. */
static void close_process(struct check *check, struct process *process, int64_t time) {
    int64_t end = earlier(process->killed, time);

    for (int i = 0; i < HISTORY_THREADS; i++) {
        if (process->open[i] >= 0) {
            check->attempts[process->open[i]].believed = earlier(check->attempts[process->open[i]].believed, end);
            close_attempt(check, process, i, end);
        }
        if (process->blinks[i])
            blink(check, process, i, false, process->blinks[i] - 1, end);
    }
    process->alive = false;
}

#define COUNTER "redisson_semaphore" /* the foreigner that takes permits without a trace */

static bool on_start(struct check *check, const struct record *record) {
    struct process *process = check->processes[record->who.slot];

    if (process == NULL) {
        process = check->processes[record->who.slot] = malloc(sizeof *process);
        if (process == NULL)
            return false;
    } else if (process->life >= record->who.life) {
        return false;
    } else if (process->alive) {
        close_process(check, process, record->time);
    }
    *process = (struct process){.life = record->who.life, .number = check->process_count++, .killed = NEVER, .alive = true};
    process->foreign = record->kind == RECORD_FOREIGN;
    check->terms.counted |= process->foreign && record->text_length == strlen(COUNTER) &&
                            memcmp(record->text, COUNTER, strlen(COUNTER)) == 0;
    for (int i = 0; i < HISTORY_THREADS; i++)
        process->open[i] = -1;
    return true;
}

/* Who has left a lock may be in the way so long: its release is on its way, or it is a foreign program's turn. */
#define LEAVING_NS INT64_C(500000000)

static bool on_want(struct check *check, const struct record *record) {
    struct process *process = process_of(check, record->who);
    struct lock_state *lock = &check->locks[record->lock];

    if (process == NULL || process->open[record->who.thread] >= 0 || lock->kind == '\0' || record->numbers[0] < 1 ||
        record->numbers[0] > lock->limit || (record->mode == 'p') != (lock->kind == 's') ||
        (record->mode == 's' && lock->kind != 'r') ||
        !check_room(&check->attempts, &check->attempt_room, check->attempt_count, sizeof check->attempts[0]))
        return false;
    process->open[record->who.thread] = (ptrdiff_t)check->attempt_count;
    check->attempts[check->attempt_count++] = (struct attempt){
        .call = record->time,
        .granted = NEVER,
        .downgrade = NEVER,
        .promise = NEVER,
        .believed = NEVER,
        .ended = NEVER,
        .seen = NEVER,
        .limit = NEVER,
        .process = process->number,
        .permits = (uint32_t)record->numbers[0],
        .who = record->who,
        .lock = (short)record->lock,
        .mode = record->mode,
        .part = record->kind == RECORD_PART,
        .foreign = process->foreign,
        .alone = lock->open == 0 && lock->left + LEAVING_NS < record->time,
        .number = lock->wants + 1,
    };
    lock->wants++;
    lock->open++;
    check->verdict.attempts++;
    return true;
}

static void count_hold(struct verdict *verdict, char mode) {
    *(mode == 'x' ? &verdict->exclusive : mode == 's' ? &verdict->shared : &verdict->permits) += 1;
}

static bool on_got(struct check *check, const struct record *record, struct attempt *attempt) {
    if (attempt->granted != NEVER)
        return false;
    attempt->granted = record->time;
    attempt->token = (uint64_t)record->numbers[0];
    attempt->promise = record->numbers[1] < 0 ? NEVER : record->time + record->numbers[1];
    if (attempt->token == 0 && !attempt->foreign)
        check_complain(check, RULE_TOKEN, "line %zu: a hold without a token", check->lines);
    count_hold(&check->verdict, attempt->mode);
    return true;
}

bool check_expects(const struct check *check, int code) {
    switch (code) {
    case PAWL_EHELD:
    case PAWL_ETIMEOUT:
    case PAWL_ECANCELED:
    case PAWL_ELOST:
        return true;
    case PAWL_ECONNLOST:
    case PAWL_EUNKNOWN:
        return check->terms.lease > 0;
    case PAWL_ETOPOLOGY: /* a try, while slots are without a primary */
    case PAWL_EREPLICAS: /* or while the primary is without its replicas */
        return check->asks[FAULT_FAILOVER] || check->asks[FAULT_PARTITION_SERVERS] || check->asks[FAULT_SERVER_STOP];
    case PAWL_ENOSPACE:
        return check->asks[FAULT_DISK_FULL];
    case PAWL_EFORMAT:
        return check->asks[FAULT_CORRUPTION];
    case PAWL_ELIMIT:
        return check->terms.counted;
    case PAWL_EDEADLK:
        return check->terms.nests;
    default:
        return false;
    }
}

static void count_failure(struct check *check, int code) {
    struct verdict *verdict = &check->verdict;

    switch (code) {
    case PAWL_EHELD:
        verdict->held++;
        break;
    case PAWL_ETIMEOUT:
        verdict->timed_out++;
        break;
    case PAWL_ECANCELED:
        verdict->cancelled++;
        break;
    case PAWL_ECONNLOST:
    case PAWL_EUNKNOWN:
        verdict->unreachable++;
        break;
    default:
        verdict->other++;
    }
    if (!check_expects(check, code))
        check_complain(check, RULE_ERROR, "line %zu: an acquire ended with %s", check->lines, pawl_error_name(code));
}

/* Could a fault have left something in the way of one who came then? */
static bool is_clear(const struct check *check, int64_t call) {
    int64_t lasts = check->terms.lease + bound_ns(check->oracle.mend, check->terms.lease);

    for (size_t i = 0; i < check->stroke_count; i++)
        if (check->strokes[i].end == NEVER || check->strokes[i].end + lasts >= call)
            return false;
    return check->died + lasts < call;
}

static void check_try(struct check *check, const struct attempt *attempt) {
    if (attempt->alone && attempt->number == check->locks[attempt->lock].wants && !attempt->foreign && !attempt->part &&
        check->has_oracle && is_clear(check, attempt->call))
        check_complain(check, RULE_TRY, "line %zu: lock %d was refused to client %d.%u, and nobody held or wanted it", check->lines,
                       attempt->lock, attempt->who.slot, attempt->who.life);
}

static bool on_fail(struct check *check, const struct record *record, struct attempt *attempt) {
    if (attempt->granted != NEVER)
        return false;
    if (record->numbers[0] == PAWL_EHELD)
        check_try(check, attempt);
    count_failure(check, (int)record->numbers[0]);
    close_attempt(check, check->processes[record->who.slot], record->who.thread, record->time);
    return true;
}

static bool on_gone(struct check *check, const struct record *record, struct attempt *attempt) {
    int code = (int)record->numbers[0];

    if (attempt->granted == NEVER)
        return false;
    if (code != 0 && !check_expects(check, code))
        check_complain(check, RULE_ERROR, "line %zu: a release ended with %s", check->lines, pawl_error_name(code));
    attempt->kept = code == 0;
    attempt->believed = earlier(attempt->believed, record->time);
    close_attempt(check, check->processes[record->who.slot], record->who.thread, record->time);
    return true;
}

static void on_again(struct check *check, const struct record *record, const struct attempt *attempt) {
    check->verdict.reentries++;
    if ((uint64_t)record->numbers[0] != attempt->token)
        check_complain(check, RULE_REENTRY, "line %zu: entered again with token %" PRIu64 ", not %" PRIu64, check->lines,
                       (uint64_t)record->numbers[0], attempt->token);
}

/* It asked how long it is assured; 0: no longer. */
static void on_sure(struct check *check, const struct record *record, struct attempt *attempt, int64_t assured) {
    if (assured == 0) {
        attempt->believed = earlier(attempt->believed, record->time);
        return;
    }
    if (attempt->believed < record->time)
        check_complain(check, RULE_TOLD, "line %zu: assured again, %" PRId64 " ms after it was told of its loss", check->lines,
                       (record->time - attempt->believed) / 1000000);
    if (assured < 0)
        attempt->promise = NEVER;
    else if (attempt->promise < record->time + assured)
        attempt->promise = record->time + assured;
}

/* Who asks for less than it has may have no more from then on. */
static void on_extend(const struct record *record, struct attempt *attempt) {
    attempt->extend = record->time;
    attempt->limit = record->numbers[0] < 0 ? NEVER : record->numbers[0];
    if (attempt->limit != NEVER)
        attempt->promise = earlier(attempt->promise, record->time + bound_limit(attempt->limit));
}

/* Was nothing broken since then? */
static bool is_quiet(const struct check *check, int64_t since) {
    for (size_t i = 0; i < check->stroke_count; i++)
        if (check->strokes[i].end >= since)
            return false;
    return true;
}

/* Until when must a hold be assured that was extended? The lease, or the limit, counts from when the call began, at the earliest; engines
 * take off what clocks may be wrong by, and a moment. */
static int64_t least_promise(const struct check *check, const struct attempt *attempt) {
    if (check->terms.lease == 0 || check->terms.proves || !is_quiet(check, attempt->extend))
        return 0;
    return attempt->extend + earlier(check->terms.lease, attempt->limit) / 10 * 9 - INT64_C(20000000);
}

/* It was confirmed, or not, and asked then how long it is assured, which took some time. No limit is passed. */
static void on_extended(struct check *check, const struct record *record, struct attempt *attempt) {
    int64_t code = record->numbers[0], assured = record->numbers[1], done = record->time + record->numbers[2];

    if (code != 0 && !check_expects(check, (int)code))
        check_complain(check, RULE_ERROR, "line %zu: a hold was not extended: %s", check->lines, pawl_error_name((int)code));
    if (attempt->limit != NEVER && (assured < 0 || assured > attempt->limit))
        check_complain(check, RULE_TOLD, "line %zu: assured for %.3f ms, and it was to last for %.3f ms", check->lines,
                       (double)assured / 1e6, (double)attempt->limit / 1e6);
    if (code == 0 && assured >= 0 && done + assured < least_promise(check, attempt))
        check_complain(check, RULE_TOLD, "line %zu: extended %.3f ms after that was asked for, and assured for %.3f ms alone",
                       check->lines, (double)(record->time - attempt->extend) / 1e6, (double)assured / 1e6);
    if (attempt->limit != NEVER && assured >= 0)
        attempt->promise = earlier(attempt->promise, record->time + assured);
    on_sure(check, record, attempt, assured);
}

static void on_lost(struct check *check, const struct record *record, struct attempt *attempt) {
    check->verdict.lost++;
    attempt->believed = earlier(attempt->believed, record->time);
    /* Without a lease nothing ends a hold but its limit, a break, or the loss of the ground it stands on. */
    if (check->terms.lease == 0 && attempt->promise == NEVER && !check->asks[FAULT_BREAK_NOW] && !check->asks[FAULT_CORRUPTION])
        check_complain(check, RULE_TOLD, "line %zu: a hold was told as lost, and no fault could have taken it", check->lines);
}

/* ---- The fenced store ----------------------------------------------------------------------------------------------------- */

/* A read raises the highest token too: else an older holder could still write behind the back of one that has read. */
static void on_read(struct check *check, const struct record *record, struct attempt *attempt) {
    struct lock_state *lock = &check->locks[record->lock];
    uint64_t token = (uint64_t)record->numbers[0];

    attempt->has_read = token >= lock->highest;
    if (attempt->has_read) {
        lock->highest = token;
        attempt->version = lock->version;
    }
}

static void on_write(struct check *check, const struct record *record, struct attempt *attempt) {
    struct lock_state *lock = &check->locks[record->lock];

    if (!attempt->has_read || (uint64_t)record->numbers[0] < lock->highest) {
        check->verdict.refused++;
        return;
    }
    if (attempt->version != lock->version)
        check_complain(check, RULE_STORE, "line %zu: the write of token %" PRIu64 " undoes another that was accepted", check->lines,
                       (uint64_t)record->numbers[0]);
    check->verdict.accepted++;
    attempt->version = ++lock->version;
}

/* ---- Records of the rig --------------------------------------------------------------------------------------------------- */

static bool on_engine(struct check *check, const struct record *record) {
    char name[64], why[160];

    if (record->text_length >= sizeof name)
        return false;
    memcpy(name, record->text, record->text_length);
    name[record->text_length] = '\0';
    check->has_oracle = oracle_read(check->table, name, &check->oracle, why, sizeof why);
    check->terms.votes = strcmp(name, "redlock") == 0;
    check->terms.proves = strncmp(name, "zookeeper", strlen("zookeeper")) == 0;
    check->terms.early = strcmp(name, "redis-replicas") == 0;
    check->terms.hears = strncmp(name, "redis", strlen("redis")) == 0 || strcmp(name, "sentinel") == 0 ||
                         strcmp(name, "cluster") == 0;
    if (!check->has_oracle)
        check_complain(check, RULE_HISTORY, "%s", why);
    return true;
}

static bool on_lock(struct check *check, const struct record *record) {
    static const char *const kinds[] = {"mutex", "rwlock", "semaphore"};

    for (int i = 0; i < 3; i++)
        if (strlen(kinds[i]) == record->text_length && memcmp(kinds[i], record->text, record->text_length) == 0) {
            check->locks[record->lock] = (struct lock_state){
                .kind = kinds[i][0], .limit = (uint32_t)record->numbers[0], .left = -LEAVING_NS};
            return record->numbers[0] >= 1;
        }
    return false;
}

static bool on_asks(struct check *check, const struct record *record) {
    enum fault fault = fault_find(record->text, record->text_length);

    if (fault == FAULT_KINDS)
        return false;
    if (!check->oracle.faults[fault].known && check->has_oracle)
        check_complain(check, RULE_HISTORY, "the table says nothing of %s on this engine", fault_classes[fault].word);
    check->asks[fault] = true;
    check->asked[fault] = (uint64_t)record->numbers[0];
    return true;
}

static bool on_fault(struct check *check, const struct record *record) {
    enum fault fault = fault_find(record->text, record->text_length);

    if (fault == FAULT_KINDS || (uint64_t)record->numbers[0] != check->stroke_count ||
        !check_room(&check->strokes, &check->stroke_room, check->stroke_count, sizeof check->strokes[0]))
        return false;
    check->strokes[check->stroke_count++] = (struct stroke_seen){
        .begin = record->time, .end = NEVER, .fault = fault, .lock = fault == FAULT_BREAK_NOW ? NO_LOCK : ANY_LOCK};
    check->verdict.strokes[fault]++;
    return true;
}

/* A hold of this lock is about to be broken: that is what the latest stroke of its kind does. */
static bool on_broke(struct check *check, const struct record *record) {
    for (size_t i = check->stroke_count; i-- > 0;) {
        struct stroke_seen *stroke = &check->strokes[i];

        if (stroke->fault != FAULT_BREAK_NOW)
            continue;
        stroke->lock = stroke->lock == NO_LOCK || stroke->lock == record->lock ? record->lock : ANY_LOCK;
        return true;
    }
    return false;
}

static bool on_healed(struct check *check, const struct record *record) {
    if ((uint64_t)record->numbers[0] >= check->stroke_count)
        return false;
    struct stroke_seen *stroke = &check->strokes[record->numbers[0]];

    if (stroke->end != NEVER)
        return false;
    stroke->end = record->time;
    check->verdict.hits[stroke->fault] += record->numbers[1] > 0;
    return true;
}

static bool on_kill(struct check *check, const struct record *record) {
    struct process *process = process_of(check, record->process);

    check->verdict.kills++;
    check->dying = record->process;
    check->died = record->time;
    /* It may have been killed before it could say that it is there. */
    if (process != NULL)
        process->killed = record->time;
    return true;
}

static bool on_ended(struct check *check, const struct record *record) {
    struct process *process = process_of(check, record->process);

    if (record->numbers[0] != 0 && (process == NULL || process->killed == NEVER))
        check_complain(check, RULE_CRASH, "client %d.%u ended with status %" PRId64, record->process.slot, record->process.life,
                       record->numbers[0]);
    if (process != NULL)
        close_process(check, process, record->time);
    if (check->dying.slot == record->process.slot)
        check->dying = history_rig;
    return true;
}

/* Entries are dated by the ms, rounded down. So an entry of the very ms in which an acquire began may be its own, or that of another of
 * this process that was waiting in that ms, too. */
static bool is_alone(const struct check *check, const struct attempt *attempt, int64_t since) {
    enum { FAR = 4096 };
    size_t own = (size_t)(attempt - check->attempts);

    for (size_t i = own > FAR ? own - FAR : 0; i < check->attempt_count && check->attempts[i].call < since + ENTRY_NS; i++) {
        const struct attempt *other = &check->attempts[i];

        if (i != own && other->process == attempt->process && other->lock == attempt->lock && other->granted >= since &&
            other->ended >= since)
            return false;
    }
    return true;
}

/* May the entry be that of another thread of its process, which has given up since? What it leaves goes a little later. Likewise what one
 * leaves in the queue of a semaphore that has got its permits. */
static bool may_be_left(const struct check *check, const struct attempt *attempt, int64_t since) {
    enum { FAR = 4096 };
    size_t own = (size_t)(attempt - check->attempts);

    for (size_t i = own > FAR ? own - FAR : 0; i < check->attempt_count && check->attempts[i].call < since + ENTRY_NS; i++) {
        const struct attempt *other = &check->attempts[i];
        bool waited = other->granted == NEVER || (other->mode == 'p' && other->granted >= since);

        if (i != own && other->process == attempt->process && other->lock == attempt->lock && waited && other->ended >= since)
            return true;
    }
    return false;
}

/* Of the waiter `SLOT.LIFE@SINCE`: its only attempt on this lock, if that began before the rig looked and no later than the entry was
 * made. A part of a set may not have joined the queue yet: the entry may be another's. */
static void see_waiter(struct check *check, const struct record *record, struct who who, int64_t since) {
    struct process *process = process_of(check, who);
    struct attempt *found = NULL;

    for (int i = 0; process != NULL && i < HISTORY_THREADS; i++) {
        struct attempt *attempt = process->open[i] >= 0 ? &check->attempts[process->open[i]] : NULL;

        if (attempt == NULL || attempt->lock != record->lock || attempt->granted != NEVER)
            continue;
        if (found != NULL || attempt->part)
            return;
        found = attempt;
    }
    if (found == NULL || found->call >= record->numbers[0] || found->seen != NEVER || found->call >= since + ENTRY_NS ||
        (found->call > since && !is_alone(check, found, since)) || may_be_left(check, found, since))
        return;
    found->seen = record->time;
    check->verdict.watched++;
}

static bool on_seen(struct check *check, const struct record *record) {
    char text[HISTORY_LINE];
    int slot, used;
    unsigned life;
    int64_t since;

    if (record->text_length >= sizeof text)
        return false;
    memcpy(text, record->text, record->text_length);
    text[record->text_length] = '\0';
    for (const char *at = text; *at != '\0'; at += used + (at[used] == ' ')) {
        if (sscanf(at, "%4d.%9u@%18" SCNd64 "%n", &slot, &life, &since, &used) != 3 || slot < 0 || slot >= HISTORY_SLOTS)
            return false;
        see_waiter(check, record, (struct who){.slot = slot, .life = life}, since);
    }
    return true;
}

static bool on_rig(struct check *check, const struct record *record) {
    switch (record->kind) {
    case RECORD_VERSION:
        return record->numbers[0] == HISTORY_VERSION;
    case RECORD_ENGINE:
        return on_engine(check, record);
    case RECORD_LEASE:
        check->terms.lease = record->numbers[0];
        return check->terms.lease >= 0;
    case RECORD_HANDOFF:
        check->terms.handoff = (uint64_t)record->numbers[0];
        return true;
    case RECORD_KEEP:
        check->terms.keep = record->numbers[0];
        return check->terms.keep >= 0;
    case RECORD_NESTS:
        check->terms.nests = record->numbers[0] > 0;
        return true;
    case RECORD_APART:
        check->terms.apart = record->numbers[0] > 0;
        return true;
    case RECORD_LOCK:
        return on_lock(check, record);
    case RECORD_ASKS:
        return on_asks(check, record);
    case RECORD_FAULT:
        return on_fault(check, record);
    case RECORD_HEALED:
        return on_healed(check, record);
    case RECORD_KILL:
        return on_kill(check, record);
    case RECORD_EXIT:
        return on_ended(check, record);
    case RECORD_HUNG:
        check_complain(check, RULE_WAKEUP, "client %d.%u did not come to an end", record->process.slot, record->process.life);
        return true;
    case RECORD_SEEN:
        return on_seen(check, record);
    case RECORD_BROKE:
        return on_broke(check, record);
    case RECORD_WAKES:
        /* The one before, the second before, and one's own node: a watch on each. */
        if ((uint64_t)record->numbers[0] > 4 * check->verdict.attempts + 100)
            check_complain(check, RULE_HERD, "%" PRIu64 " watches fired for %" PRIu64 " acquires", (uint64_t)record->numbers[0],
                           check->verdict.attempts);
        return true;
    case RECORD_RESIDUE:
        check_complain(check, RULE_RESIDUE, "%.*s", (int)record->text_length, record->text);
        return true;
    case RECORD_END:
        check->ended = true;
        return true;
    default:
        return true;
    }
}

static bool on_client(struct check *check, const struct record *record) {
    struct attempt *attempt = open_attempt(check, record->who);

    if (record->kind == RECORD_START || record->kind == RECORD_FOREIGN)
        return on_start(check, record);
    if (record->kind == RECORD_BLINK || record->kind == RECORD_BLINKED)
        return on_blink(check, record);
    if (record->kind == RECORD_WANT || record->kind == RECORD_PART)
        return on_want(check, record);
    if (record->kind == RECORD_BYE)
        return attempt == NULL;
    if (record->kind >= RECORD_PUT && record->kind <= RECORD_BLIND)
        return check_value(check, record, process_of(check, record->who));
    /* The word of a loss may cross with the release. */
    if (record->kind == RECORD_LOST && (attempt == NULL || attempt->token != (uint64_t)record->numbers[0]))
        return true;
    if (attempt == NULL || attempt->lock != record->lock)
        return false;
    if (record->kind == RECORD_GOT)
        return on_got(check, record, attempt);
    if (record->kind == RECORD_FAIL)
        return on_fail(check, record, attempt);
    if (attempt->granted == NEVER)
        return false;
    switch (record->kind) {
    case RECORD_AGAIN:
        on_again(check, record, attempt);
        return true;
    case RECORD_SURE:
        on_sure(check, record, attempt, record->numbers[0]);
        return true;
    case RECORD_EXTEND:
        on_extend(record, attempt);
        return true;
    case RECORD_EXTENDED:
        on_extended(check, record, attempt);
        return true;
    case RECORD_LOST:
        on_lost(check, record, attempt);
        return true;
    case RECORD_READ:
        on_read(check, record, attempt);
        return true;
    case RECORD_WRITE:
        on_write(check, record, attempt);
        return true;
    case RECORD_DOWN:
        check->verdict.downgrades++;
        attempt->downgrade = earlier(attempt->downgrade, record->time);
        return attempt->mode == 'x';
    case RECORD_DROP:
        attempt->believed = earlier(attempt->believed, record->time);
        return true;
    case RECORD_GONE:
        return on_gone(check, record, attempt);
    default:
        return true;
    }
}

/* ---- Torn records --------------------------------------------------------------------------------------------------------- */

/* May a record of this process begin so? */
static bool could_be_of(struct who who, const char *text, size_t length) {
    size_t digits = 0;
    char name[48];

    while (digits < length && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    if (digits == length)
        return true;
    size_t used = (size_t)snprintf(name, sizeof name, " %d.%u.", who.slot, who.life), left = length - digits;

    return memcmp(text + digits, name, left < used ? left : used) == 0;
}

static int64_t distance(int64_t one, int64_t other) {
    return one < other ? other - one : one - other;
}

/* How much of the line was left by a write that a kill cut off? It ends where a page of the file does (history.h), and the next record
 * stands right behind it; it is of the one that is being killed just now. Anything else that is broken is an error. */
static size_t torn_length(const struct check *check, const char *line, size_t length, size_t offset) {
    size_t torn = HISTORY_PAGE - offset % HISTORY_PAGE;
    struct record whole, rest;

    if (check->dying.slot < 0 || torn >= length || !could_be_of(check->dying, line, torn) ||
        !history_parse(line + torn, length - torn, &rest))
        return 0;
    /* The page may end within the digits of a time: then both are records, and one of them was at a time that can't be. */
    if (history_parse(line, length, &whole) && distance(whole.time, check->now) <= distance(rest.time, check->now))
        return 0;
    return torn;
}

void check_line(struct check *check, const char *line, size_t length) {
    size_t torn = torn_length(check, line, length, check->offset);
    struct record record;

    check->lines++;
    check->offset += length + 1;
    check->verdict.torn += torn > 0;
    line += torn;
    length -= torn;
    if (!history_parse(line, length, &record) || !(record.who.slot < 0 ? on_rig : on_client)(check, &record)) {
        check_complain(check, RULE_HISTORY, "line %zu makes no sense: %.*s", check->lines, (int)(length < 100 ? length : 100),
                       line);
        return;
    }
    if (check->now < record.time)
        check->now = record.time;
}

struct check *check_new(const char *table) {
    struct check *check = calloc(1, sizeof *check);

    if (check == NULL)
        return NULL;
    check->table = table;
    check->dying = history_rig;
    check->died = -NEVER;
    return check;
}

void check_finish(struct check *check, struct verdict *ret) {
    if (!check->ended)
        check_complain(check, RULE_HISTORY, "the history has no end: the rig was stopped");
    if (!check->has_oracle)
        check_complain(check, RULE_HISTORY, "the history names no engine that is known");
    for (int i = 0; i < HISTORY_SLOTS; i++)
        if (check->processes[i] != NULL && check->processes[i]->alive)
            close_process(check, check->processes[i], check->now);
    for (size_t i = 0; i < check->stroke_count; i++)
        check->strokes[i].end = earlier(check->strokes[i].end, check->now);
    for (int i = 0; i < FAULT_KINDS; i++)
        if (check->asks[i] && check->verdict.hits[i] < check->asked[i])
            check_complain(check, RULE_HIT, "%s took effect %" PRIu64 " times, and %" PRIu64 " were asked for",
                           fault_classes[i].word, check->verdict.hits[i], check->asked[i]);
    check_rules(check);
    *ret = check->verdict;
    ret->total = 0;
    for (int i = 0; i < RULE_COUNT; i++)
        ret->total += ret->violations[i];
}

void check_free(struct check *check) {
    if (check == NULL)
        return;
    for (int i = 0; i < HISTORY_SLOTS; i++)
        free(check->processes[i]);
    free(check->attempts);
    free(check->strokes);
    free(check->values);
    free(check);
}
