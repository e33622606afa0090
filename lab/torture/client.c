/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c - one client of a run: threads that acquire and release as the dice say, and write down what they see.
 *
 * What a record claims is what the thread could know: `got` is stamped after acquire returned, `drop` before release is called, `sure`
 * before the question is asked. Each thread holds one lock at a time, or several that it took as one (pawl_acquire_all), or the first one
 * and its client's own: so clients never wait for each other in a circle, though threads of one may. Each part of such a set, or pair, is
 * written down as if another thread had it: the k-th of thread T has the number T + k * THREADS. What lies beside a lock is written and
 * read by its holders, and read by others; the token of a read is that of the hold, or 0.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"
#include "watch.h"

enum { OPEN_PATIENCE_MS = 60000, EXIT_BROKEN = 3, SET_MAX = 3, PLACES = SET_MAX * RIG_THREADS_MAX };
_Static_assert((int)PLACES <= (int)HISTORY_THREADS, "parts of sets have numbers of threads");

struct client {
    struct page *page;
    const struct history *history;
    struct who who;
    struct pawl *pawl;
    struct pawl_lock *locks[RIG_LOCKS_MAX]; /* threads share these */
    unsigned values;                        /* page->values, or 0 */
    _Atomic uint64_t tokens[PLACES];        /* by the number in the history */
    _Atomic int held[PLACES];               /* which lock */
    _Atomic(struct pawl_lock *) by[PLACES]; /* and by which handle */
};

struct thread {
    struct client *client;
    struct who who;
    struct dice dice;
    pthread_t id;
    uint64_t writes;                          /* values that it has written */
    struct pawl_lock *tasks[RIG_LOCKS_MAX];   /* for acquires without blocking */
    struct pawl_lock *limited[RIG_LOCKS_MAX]; /* for holds with a limit */
};

/* One acquire and what it asks for. */
struct wish {
    struct who who; /* in the history */
    int index;
    const struct rig_lock *lock;
    struct pawl_lock *handle;
    enum pawl_mode mode;
    unsigned permits;
    int64_t timeout_ms;
    int64_t patience_ms; /* cancelled after that */
    bool task;
    bool limited; /* the hold lasts no longer than its handle lets it */
};

static int64_t now(const struct thread *thread) {
    return history_now(thread->client->history);
}

/* A record that can't be written makes the history worthless: better no client than one that nobody hears. */
#define NOTE(thread, wish, time, kind, ...)                                                                                        \
    do {                                                                                                                           \
        if (!history_append((thread)->client->history, (time), (wish)->who, (kind), __VA_ARGS__))                                  \
            _exit(EXIT_BROKEN);                                                                                                    \
    } while (0)

static int64_t assured_ns(const struct pawl_lock *lock) {
    int64_t ms = pawl_remaining_ms(lock);

    return ms == PAWL_FOREVER ? -1 : ms * 1000000;
}

/* How long is it still ours? Written down unless it is for ever. */
static bool is_sure(struct thread *thread, const struct wish *wish) {
    int64_t time = now(thread), assured = assured_ns(wish->handle);

    if (assured >= 0)
        NOTE(thread, wish, time, RECORD_SURE, "%d %" PRId64, wish->index, assured);
    return assured != 0;
}

/* Time that is over already, since the process was stopped on the way here, is no time: poll would take it for all time. */
static void nap(int64_t ms) {
    poll(NULL, 0, ms > 0 ? (int)ms : 0);
}

/* ---- Loss ----------------------------------------------------------------------------------------------------------------- */

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    struct client *client = data;

    (void)why;
    if (state != PAWL_LOST)
        return;
    for (int i = 0; i < SET_MAX * client->page->threads; i++)
        /* Tokens of two locks may be the same number. */
        if (atomic_load(&client->tokens[i]) == token && atomic_load(&client->by[i]) == lock) {
            struct who who = client->who;

            who.thread = i;
            atomic_fetch_add(&client->page->lost, 1);
            if (!history_append(client->history, history_now(client->history), who, RECORD_LOST, "%d %" PRIu64,
                                atomic_load(&client->held[i]), token))
                _exit(EXIT_BROKEN);
        }
}

/* ---- Acquire -------------------------------------------------------------------------------------------------------------- */

/* An acquire without blocking: its answer comes by callback, in whichever thread dispatches. */
struct answer {
    _Atomic bool come;
    int result;
};

static void on_acquired(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    struct answer *answer = data;

    (void)lock;
    (void)error;
    answer->result = result;
    atomic_store(&answer->come, true);
}

static int acquire_task(struct thread *thread, const struct wish *wish) {
    struct pawl *pawl = thread->client->pawl;
    struct pollfd wait = {.fd = pawl_fd(pawl), .events = POLLIN};
    struct answer answer = {.come = false};
    int64_t give_up = now_ms() + wish->patience_ms;
    bool cancelled = false;
    int result = pawl_acquire_start(wish->handle, wish->mode, wish->permits, wish->timeout_ms, on_acquired, &answer, NULL);

    if (result < 0)
        return result;
    while (!atomic_load(&answer.come)) {
        poll(&wait, 1, 5);
        pawl_dispatch(pawl);
        if (!cancelled && now_ms() >= give_up) {
            pawl_cancel(wish->handle);
            cancelled = true;
        }
    }
    return answer.result;
}

static int acquire(struct thread *thread, const struct wish *wish) {
    if (wish->task)
        return acquire_task(thread, wish);
    if (wish->mode == PAWL_SHARED)
        return pawl_acquire_shared(wish->handle, wish->timeout_ms, NULL);
    if (wish->mode == PAWL_PERMITS)
        return pawl_acquire_permits(wish->handle, wish->permits, wish->timeout_ms, NULL);
    return pawl_acquire(wish->handle, wish->timeout_ms, NULL);
}

static void note_wish(struct thread *thread, const struct wish *wish, enum record_kind kind) {
    static const char letters[] = {[PAWL_EXCLUSIVE] = 'x', [PAWL_SHARED] = 's', [PAWL_PERMITS] = 'p'};

    NOTE(thread, wish, now(thread), kind, "%d %c %u %" PRId64, wish->index, letters[wish->mode], wish->permits,
         wish->timeout_ms == PAWL_FOREVER ? -1 : wish->timeout_ms);
}

/* Of an acquire that has returned at that time. */
static void note_got(struct thread *thread, const struct wish *wish, int64_t time) {
    struct client *client = thread->client;
    uint64_t token = pawl_token(wish->handle);
    int64_t assured = assured_ns(wish->handle);

    /* The loss callback may come from now on, and must not speak of what the history has not heard of. */
    NOTE(thread, wish, time, RECORD_GOT, "%d %" PRIu64 " %" PRId64, wish->index, token, assured);
    atomic_store(&client->held[wish->who.thread], wish->index);
    atomic_store(&client->by[wish->who.thread], wish->handle);
    atomic_store(&client->tokens[wish->who.thread], token);
    if (wish->mode == PAWL_EXCLUSIVE)
        atomic_store(&client->page->granted[wish->index][1], atomic_exchange(&client->page->granted[wish->index][0], token));
    atomic_fetch_add(&client->page->acquired, 1);
    atomic_fetch_add(&client->page->slots[client->who.slot].holds, 1);
}

static void note_failed(struct thread *thread, const struct wish *wish, int64_t time, int result) {
    NOTE(thread, wish, time, RECORD_FAIL, "%d %d", wish->index, result);
    atomic_fetch_add(&thread->client->page->failed, 1);
}

static bool take(struct thread *thread, const struct wish *wish) {
    note_wish(thread, wish, RECORD_WANT);
    int result = acquire(thread, wish);
    int64_t time = now(thread);

    if (result < 0)
        note_failed(thread, wish, time, result);
    else
        note_got(thread, wish, time);
    return result >= 0;
}

/* ---- Holding -------------------------------------------------------------------------------------------------------------- */

/* Change what the lock protects, as a careful program does: with the token, and only while it is sure. */
static void update(struct thread *thread, const struct wish *wish) {
    uint64_t token = pawl_token(wish->handle);

    if (!is_sure(thread, wish))
        return;
    NOTE(thread, wish, now(thread), RECORD_READ, "%d %" PRIu64, wish->index, token);
    if (dice_percent(&thread->dice, 10))
        nap(1);
    if (is_sure(thread, wish))
        NOTE(thread, wish, now(thread), RECORD_WRITE, "%d %" PRIu64, wish->index, token);
}

static void enter_again(struct thread *thread, const struct wish *wish) {
    bool shared = wish->lock->kind == PAWL_RWLOCK && dice_percent(&thread->dice, 50);
    int result = shared ? pawl_acquire_shared(wish->handle, 0, NULL) : pawl_acquire(wish->handle, 0, NULL);

    if (result < 0)
        return;
    NOTE(thread, wish, now(thread), RECORD_AGAIN, "%d %" PRIu64, wish->index, pawl_token(wish->handle));
    if (dice_percent(&thread->dice, 20))
        nap(1);
    if (shared)
        pawl_release_shared(wish->handle, NULL);
    else
        pawl_release(wish->handle, NULL);
    NOTE(thread, wish, now(thread), RECORD_INNER, "%d", wish->index);
}

/* For ever, and one permit. */
static struct wish wish_for(struct thread *thread, int index) {
    return (struct wish){
        .who = thread->who, .index = index, .lock = &thread->client->page->lock[index], .permits = 1, .timeout_ms = PAWL_FOREVER};
}

/* Any lock, and one of its permits. */
static struct wish draw_one(struct thread *thread) {
    return wish_for(thread, (int)dice_below(&thread->dice, (uint64_t)thread->client->page->locks));
}

/* Of 100 times so many; where that is none, nothing is drawn. */
static bool draw_share(struct thread *thread, int percent) {
    return percent > 0 && dice_percent(&thread->dice, (unsigned)percent);
}

/* ---- Handles -------------------------------------------------------------------------------------------------------------- */

int rig_lock_new(struct pawl *pawl, const struct rig_lock *lock, unsigned flags, struct pawl_lock **ret,
                 struct pawl_error *reterr) {
    if (lock->kind == PAWL_MUTEX)
        return pawl_mutex_new(pawl, lock->name, flags, ret, reterr);
    if (lock->kind == PAWL_RWLOCK)
        return pawl_rwlock_new(pawl, lock->name, flags, ret, reterr);
    return pawl_semaphore_new(pawl, lock->name, lock->limit, flags, ret, reterr);
}

static struct pawl_lock *new_handle(struct client *client, const struct rig_lock *lock, unsigned flags) {
    struct pawl_lock *handle = NULL;
    struct pawl_error error = {.text = "no callback"};
    int result = rig_lock_new(client->pawl, lock, flags, &handle, &error);

    if (result < 0 || pawl_on_loss(handle, on_loss, client, &error) < 0) {
        say("client %d: %s", client->who.slot, error.text);
        _exit(EXIT_BROKEN);
    }
    return handle;
}

/* How long a hold may last: a moment, or longer than a lease. */
static int64_t draw_limit(struct thread *thread) {
    const struct page *page = thread->client->page;
    int64_t lease_ms = page->lease_ms > 0 ? page->lease_ms : 1000;

    return page->uses.limit_ms + dice_between(&thread->dice, 0, dice_percent(&thread->dice, 50) ? lease_ms / 4 : lease_ms * 5 / 2);
}

/* Threads share one, but for acquires without blocking and for holds with a limit; or each acquire has its own. */
static void open_handle(struct thread *thread, struct wish *wish) {
    struct client *client = thread->client;
    unsigned flags = wish->task ? PAWL_TASK : 0;
    struct pawl_lock **place = wish->task      ? &thread->tasks[wish->index]
                               : wish->limited ? &thread->limited[wish->index]
                                               : &client->locks[wish->index];

    if (client->page->uses.per_use)
        wish->handle = new_handle(client, wish->lock, flags);
    else if (*place == NULL)
        wish->handle = *place = new_handle(client, wish->lock, flags);
    else
        wish->handle = *place;
    if (wish->limited && pawl_set_max_hold(wish->handle, draw_limit(thread), NULL) < 0)
        _exit(EXIT_BROKEN);
}

static void close_handle(struct thread *thread, const struct wish *wish) {
    if (thread->client->page->uses.per_use)
        pawl_lock_free(wish->handle);
}

/* ---- Values --------------------------------------------------------------------------------------------------------------- */

enum { VALUE_ROOM = 2048 };

/* What a write with this number writes: the number, and a filling that only this number has. */
static size_t make_value(uint64_t number, char *ret) {
    size_t used = (size_t)sprintf(ret, "%" PRIu64 " ", number), size = used + number * 2654435761u % (VALUE_ROOM - 32);

    for (; used < size; used++)
        ret[used] = (char)(number * used >> 3);
    return size;
}

/* No two writes of a run have the same. */
static uint64_t number_write(struct thread *thread) {
    const struct who *who = &thread->who;

    return (uint64_t)who->slot << 50 | (uint64_t)(who->life & 0xffff) << 34 | (uint64_t)who->thread << 28 | ++thread->writes;
}

/* By the handle that holds, the value or the note, or the value in the name of the hold that has this token. */
static int put_bytes(struct thread *thread, const struct wish *wish, uint64_t token, enum record_kind how, uint64_t number) {
    char bytes[VALUE_ROOM];
    size_t size = make_value(number, bytes);

    if (how == RECORD_PUT_BY_TOKEN)
        return pawl_value_set_as(thread->client->pawl, wish->lock->name, token, bytes, size, NULL);
    if (how == RECORD_PUT_NOTE)
        return pawl_note_set(wish->handle, bytes, size, NULL);
    return pawl_value_set(wish->handle, bytes, size, NULL);
}

static void put_value(struct thread *thread, const struct wish *wish, uint64_t token, enum record_kind how) {
    uint64_t number = number_write(thread);

    NOTE(thread, wish, now(thread), how, "%d %" PRIu64 " %" PRIu64, wish->index, token, number);
    int result = put_bytes(thread, wish, token, how, number);

    NOTE(thread, wish, now(thread), RECORD_STORED, "%d %d", wish->index, result);
}

static enum record_kind draw_put(struct thread *thread) {
    const struct page *page = thread->client->page;

    if (draw_share(thread, page->notes))
        return RECORD_PUT_NOTE;
    return draw_share(thread, page->by_token) ? RECORD_PUT_BY_TOKEN : RECORD_PUT;
}

uint64_t value_number(const struct pawl_value *value) {
    char bytes[VALUE_ROOM], digits[24] = "";

    if (value == NULL)
        return 0;
    memcpy(digits, value->bytes, value->size < sizeof digits - 1 ? value->size : sizeof digits - 1);
    uint64_t number = strtoull(digits, NULL, 10);

    return number > 0 && make_value(number, bytes) == value->size && memcmp(bytes, value->bytes, value->size) == 0 ? number
                                                                                                                   : UINT64_MAX;
}

/* With the server's time or without: an engine may ask in another way for that. */
static int get_note(struct thread *thread, const struct wish *wish, const struct pawl_value **ret) {
    int64_t now_ms;

    return pawl_note_get(wish->handle, ret, draw_share(thread, 50) ? &now_ms : NULL, NULL);
}

static void look_at_value(struct thread *thread, const struct wish *wish, uint64_t token) {
    const struct pawl_value *value = NULL;
    bool note = draw_share(thread, thread->client->page->notes);

    NOTE(thread, wish, now(thread), note ? RECORD_LOOK_NOTE : RECORD_LOOK, "%d %" PRIu64, wish->index, token);
    int result = note ? get_note(thread, wish, &value) : pawl_value_get(wish->handle, &value, NULL);
    uint64_t number = result == 0 ? value_number(value) : 0;

    NOTE(thread, wish, now(thread), RECORD_SAW, "%d %d %" PRIu64 " %" PRIu64 " %" PRIu64, wish->index, result, number,
         value != NULL ? value->version : 0, value != NULL ? value->token : 0);
    pawl_value_free(value);
}

/* Under a hold: who has it alone writes as a rule, and now and then more than once. */
static void use_value(struct thread *thread, const struct wish *wish) {
    for (int i = 0; i < 3 && wish->mode != PAWL_PERMITS && dice_percent(&thread->dice, thread->client->values); i++)
        if (wish->mode == PAWL_EXCLUSIVE && dice_percent(&thread->dice, 60))
            put_value(thread, wish, pawl_token(wish->handle), draw_put(thread));
        else
            look_at_value(thread, wish, pawl_token(wish->handle));
}

/* Without one. */
static void peek(struct thread *thread) {
    struct wish wish = draw_one(thread);

    if (wish.lock->kind == PAWL_SEMAPHORE)
        return;
    open_handle(thread, &wish);
    look_at_value(thread, &wish, 0);
    close_handle(thread, &wish);
}

/* In the name of a hold that was granted lately, as a program that `pawl run` has started: of whichever process, and it may be over. */
static void put_for_another(struct thread *thread) {
    struct wish wish = draw_one(thread);
    uint64_t token = atomic_load(&thread->client->page->granted[wish.index][dice_percent(&thread->dice, 40)]);

    if (token > 0)
        put_value(thread, &wish, token, RECORD_PUT_BY_TOKEN);
}

/* ---- Holding on ----------------------------------------------------------------------------------------------------------- */

/* Who was told that its hold is lost, and an operator may have asked for it back, takes its time now and then. */
static void linger(struct thread *thread) {
    const struct page *page = thread->client->page;

    if (page->breaks.share > 0 && dice_percent(&thread->dice, 30))
        nap(dice_between(&thread->dice, 0, page->lease_ms / 2));
}

/* Mostly a moment; sometimes some ms; now and then so long that the lease must be renewed, and often where holds are asked back. */
static void dwell(struct thread *thread, const struct wish *wish) {
    const struct page *page = thread->client->page;
    uint64_t roll = dice_below(&thread->dice, 1000);
    int64_t usual = page->hold_ms > 0 ? dice_between(&thread->dice, 0, page->hold_ms)
                    : roll < 50       ? dice_between(&thread->dice, 1, 20)
                                      : 0;
    int64_t until = now_ms() + (roll < (page->breaks.share > 0 ? 300 : 1) ? page->longest_ms : usual);

    while (now_ms() < until && atomic_load(&page->phase) == PHASE_RUN) {
        int64_t left = until - now_ms();

        nap(left < 100 ? left : 100);
        if (!is_sure(thread, wish)) {
            linger(thread);
            return;
        }
    }
}

/* Another limit from now on, if it has one; if not, it is confirmed. */
static void extend(struct thread *thread, const struct wish *wish) {
    int64_t limit_ms = dice_percent(&thread->dice, 15) ? PAWL_FOREVER : draw_limit(thread);
    int64_t patience_ms = dice_between(&thread->dice, 0, dice_percent(&thread->dice, 30) ? 20 : 1000);

    NOTE(thread, wish, now(thread), RECORD_EXTEND, "%d %" PRId64, wish->index,
         wish->limited && limit_ms != PAWL_FOREVER ? limit_ms * 1000000 : -1);
    int result = pawl_extend(wish->handle, limit_ms, patience_ms, NULL);
    int64_t time = now(thread), assured = assured_ns(wish->handle);

    NOTE(thread, wish, time, RECORD_EXTENDED, "%d %d %" PRId64 " %" PRId64, wish->index, result, assured, now(thread) - time);
}

static void hold_on(struct thread *thread, const struct wish *wish) {
    const struct page *page = thread->client->page;

    if (draw_share(thread, page->uses.extend))
        extend(thread, wish);
    dwell(thread, wish);
    while (draw_share(thread, page->uses.extend) && atomic_load(&page->phase) == PHASE_RUN) {
        extend(thread, wish);
        dwell(thread, wish);
    }
}

static void let_go(struct thread *thread, const struct wish *wish, bool shared) {
    atomic_store(&thread->client->tokens[wish->who.thread], 0);
    atomic_fetch_sub(&thread->client->page->slots[wish->who.slot].holds, 1);
    NOTE(thread, wish, now(thread), RECORD_DROP, "%d", wish->index);
    int result = shared ? pawl_release_shared(wish->handle, NULL) : pawl_release(wish->handle, NULL);

    NOTE(thread, wish, now(thread), RECORD_GONE, "%d %d", wish->index, result);
}

static void hold(struct thread *thread, const struct wish *wish) {
    bool shared = wish->mode == PAWL_SHARED;

    if (wish->mode == PAWL_EXCLUSIVE && dice_percent(&thread->dice, 50))
        update(thread, wish);
    if (wish->mode == PAWL_EXCLUSIVE && dice_percent(&thread->dice, 15))
        enter_again(thread, wish);
    if (thread->client->values > 0)
        use_value(thread, wish);
    hold_on(thread, wish);
    if (thread->client->values > 0 && wish->mode == PAWL_EXCLUSIVE && dice_percent(&thread->dice, 30))
        use_value(thread, wish);
    if (wish->lock->kind == PAWL_RWLOCK && wish->mode == PAWL_EXCLUSIVE && dice_percent(&thread->dice, 20)) {
        NOTE(thread, wish, now(thread), RECORD_DOWN, "%d", wish->index);
        shared = pawl_downgrade(wish->handle, NULL) == 0;
        dwell(thread, wish);
    }
    if (wish->mode != PAWL_EXCLUSIVE || dice_percent(&thread->dice, 10))
        is_sure(thread, wish);
    let_go(thread, wish, shared);
}

/* ---- What next? ----------------------------------------------------------------------------------------------------------- */

static void draw_mode(struct thread *thread, struct wish *wish) {
    struct dice *dice = &thread->dice;

    if (wish->lock->kind == PAWL_SEMAPHORE) {
        wish->mode = PAWL_PERMITS;
        wish->permits = (unsigned)dice_between(dice, 1, wish->lock->limit);
    } else if (wish->lock->kind == PAWL_RWLOCK && dice_percent(dice, 60)) {
        wish->mode = PAWL_SHARED;
    }
}

/* With patience, or without, or with some. */
static void draw_timeout(struct thread *thread, struct wish *wish, uint64_t way) {
    if (way < 15)
        wish->timeout_ms = 0;
    else if (way < 40)
        wish->timeout_ms = dice_between(&thread->dice, 1, 200);
}

static struct wish draw(struct thread *thread) {
    struct wish wish = draw_one(thread);
    uint64_t way = dice_below(&thread->dice, 100);

    draw_mode(thread, &wish);
    draw_timeout(thread, &wish, way);
    wish.task = way >= 90;
    wish.patience_ms = dice_between(&thread->dice, 0, 100);
    wish.limited = !wish.task && draw_share(thread, thread->client->page->uses.extend);
    return wish;
}

static void have_one(struct thread *thread) {
    struct wish wish = draw(thread);

    open_handle(thread, &wish);
    if (take(thread, &wish))
        hold(thread, &wish);
    else if (wish.timeout_ms == 0)
        nap(1); /* don't spin on what others have, */
    else if (thread->client->page->uses.gives_up)
        nap(dice_between(&thread->dice, 1, 20)); /* nor while a server is away */
    close_handle(thread, &wish);
}

/* ---- Several as one ------------------------------------------------------------------------------------------------------- */

/* Two or three, as many of them as are not the same. */
static int draw_set(struct thread *thread, struct wish wishes[SET_MAX]) {
    int count = 0, wanted = (int)dice_between(&thread->dice, 2, SET_MAX);

    for (int i = 0; i < wanted; i++) {
        struct wish wish = draw_one(thread);
        bool again = false;

        draw_mode(thread, &wish);
        for (int j = 0; j < count; j++)
            again |= wishes[j].index == wish.index;
        if (again)
            continue;
        wish.who.thread += count * thread->client->page->threads;
        wishes[count++] = wish;
    }
    draw_timeout(thread, &wishes[0], dice_below(&thread->dice, 100));
    for (int i = 1; i < count; i++)
        wishes[i].timeout_ms = wishes[0].timeout_ms;
    return count;
}

static bool take_set(struct thread *thread, const struct wish *wishes, int count) {
    struct pawl_part parts[SET_MAX];

    for (int i = 0; i < count; i++) {
        parts[i] = (struct pawl_part){.lock = wishes[i].handle, .mode = wishes[i].mode, .permits = wishes[i].permits};
        note_wish(thread, &wishes[i], RECORD_PART);
    }
    int result = pawl_acquire_all(parts, (size_t)count, wishes[0].timeout_ms, NULL);
    int64_t time = now(thread);

    for (int i = 0; i < count; i++)
        if (result < 0)
            note_failed(thread, &wishes[i], time, result);
        else
            note_got(thread, &wishes[i], time);
    return result >= 0;
}

static void hold_set(struct thread *thread, const struct wish *wishes, int count) {
    for (int i = 0; i < count; i++)
        if (wishes[i].mode == PAWL_EXCLUSIVE)
            update(thread, &wishes[i]);
    dwell(thread, &wishes[0]);
    for (int i = count; i-- > 0;)
        let_go(thread, &wishes[i], wishes[i].mode == PAWL_SHARED);
}

static void have_set(struct thread *thread) {
    struct wish wishes[SET_MAX];
    int count = draw_set(thread, wishes);

    for (int i = 0; i < count; i++)
        open_handle(thread, &wishes[i]);
    if (take_set(thread, wishes, count))
        hold_set(thread, wishes, count);
    else if (wishes[0].timeout_ms == 0 || thread->client->page->uses.gives_up)
        nap(1);
    for (int i = 0; i < count; i++)
        close_handle(thread, &wishes[i]);
}

/* ---- Two, one after the other ---------------------------------------------------------------------------------------------- */

static void hold_nested(struct thread *thread, const struct wish *outer, const struct wish *inner) {
    dwell(thread, outer);
    if (take(thread, inner)) {
        dwell(thread, inner);
        let_go(thread, inner, false);
    }
    let_go(thread, outer, false);
}

/* The first lock and the client's own, in either order: threads of this client may come to wait for each other. No other client can be in
 * that circle: it has not this one's own lock, and a thread of it that waits for its own has the first one, which this circle is about. */
static void have_nested(struct thread *thread) {
    struct wish wishes[2] = {wish_for(thread, 0), wish_for(thread, thread->client->page->locks + thread->who.slot)};
    int64_t most = thread->client->page->nest_ms;
    int first = (int)dice_below(&thread->dice, 2);

    wishes[1].who.thread += thread->client->page->threads;
    struct wish *outer = &wishes[first], *inner = &wishes[1 - first];

    draw_timeout(thread, inner, dice_below(&thread->dice, 100));
    if (most > 0 && inner->timeout_ms > most)
        inner->timeout_ms = dice_between(&thread->dice, 1, most);
    if (wishes[0].lock->kind == PAWL_SEMAPHORE)
        return;
    open_handle(thread, outer);
    open_handle(thread, inner);
    if (take(thread, outer))
        hold_nested(thread, outer, inner);
    close_handle(thread, inner);
    close_handle(thread, outer);
}

/* Enter and leave, if that is possible at once, without asking for a token. */
static void blink(struct thread *thread, struct wish *wish) {
    open_handle(thread, wish);
    NOTE(thread, wish, now(thread), RECORD_BLINK, "%d", wish->index);
    if (pawl_acquire(wish->handle, 0, NULL) == 0)
        pawl_release(wish->handle, NULL);
    NOTE(thread, wish, now(thread), RECORD_BLINKED, "%d", wish->index);
    close_handle(thread, wish);
}

/* Where locks are kept: leave one alone for a while. */
static void rest(struct thread *thread) {
    struct wish wish = draw_one(thread);
    bool blinks = dice_percent(&thread->dice, 40), naps = dice_percent(&thread->dice, 30);

    if (blinks && wish.lock->kind != PAWL_SEMAPHORE)
        blink(thread, &wish);
    if (naps)
        nap(dice_between(&thread->dice, 0, thread->client->page->pause_ms));
}

static void *thread_main(void *data) {
    struct thread *thread = data;
    const struct page *page = thread->client->page;

    while (atomic_load(&page->phase) == PHASE_RUN) {
        if (page->pause_ms > 0)
            rest(thread);
        if (thread->client->values > 0 && dice_percent(&thread->dice, thread->client->values / 2))
            peek(thread);
        if (thread->client->values > 0 && draw_share(thread, page->by_token))
            put_for_another(thread);
        if (page->sets > 0 && page->locks > 1 && dice_percent(&thread->dice, (unsigned)page->sets))
            have_set(thread);
        else if (page->nests > 0 && dice_percent(&thread->dice, (unsigned)page->nests))
            have_nested(thread);
        else
            have_one(thread);
    }
    return NULL;
}

/* ---- The process ---------------------------------------------------------------------------------------------------------- */

/* The server may be away at the moment, or the disk full: that is what this is about. */
static struct pawl *open_patiently(const struct page *page) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = page->lease_ms, .label = "torture"};
    int64_t deadline = now_ms() + OPEN_PATIENCE_MS;
    struct pawl *pawl;
    struct pawl_error error;

    while (pawl_open(page->url, &options, &pawl, &error) < 0) {
        if (atomic_load(&page->phase) != PHASE_RUN)
            return NULL;
        if (now_ms() > deadline) {
            say("a client can't open %s: %s", page->url, error.text);
            _exit(EXIT_BROKEN);
        }
        nap(20);
    }
    return pawl;
}

/* Does the engine have values beside its locks? */
static bool has_values(struct client *client) {
    for (int i = 0; i < client->page->locks; i++)
        if (client->page->lock[i].kind != PAWL_SEMAPHORE) {
            struct pawl_lock *own = client->page->uses.per_use ? new_handle(client, &client->page->lock[i], 0) : NULL;
            const struct pawl_value *value = NULL;
            int result = pawl_value_get(own != NULL ? own : client->locks[i], &value, NULL);

            pawl_value_free(value);
            pawl_lock_free(own);
            return result != PAWL_EUNSUPPORTED;
        }
    return false;
}

static void run_threads(struct client *client) {
    struct thread *threads = calloc((size_t)client->page->threads, sizeof *threads);
    int started = 0;

    if (threads == NULL)
        _exit(EXIT_BROKEN);
    for (; started < client->page->threads; started++) {
        struct thread *thread = &threads[started];

        *thread = (struct thread){.client = client, .who = client->who};
        thread->who.thread = started;
        thread->dice = dice_new(client->page->seed,
                                (uint64_t)client->who.slot << 40 | (uint64_t)client->who.life << 8 | (uint64_t)started << 4 | 8);
        if (pthread_create(&thread->id, NULL, thread_main, thread) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i].id, NULL);
    for (int i = 0; i < started; i++)
        for (int j = 0; j < client->page->locks; j++) {
            pawl_lock_free(threads[i].tasks[j]);
            pawl_lock_free(threads[i].limited[j]);
        }
    free(threads);
}

int client_main(struct page *page, const struct history *history, int slot, unsigned life) {
    struct client client = {.page = page, .history = history, .who = {.slot = slot, .life = life}};
    struct watches *watches = NULL;

    client.pawl = open_patiently(page);
    if (client.pawl == NULL)
        return 0;
    for (int i = 0; i < page->locks && !page->uses.per_use; i++)
        client.locks[i] = new_handle(&client, &page->lock[i], 0);
    if (page->nests > 0 && !page->uses.per_use)
        client.locks[page->locks + slot] = new_handle(&client, &page->lock[page->locks + slot], 0);
    client.values = page->values > 0 && has_values(&client) ? (unsigned)page->values : 0;
    if (!history_append(history, history_now(history), client.who, RECORD_START, "%d", (int)getpid()))
        return EXIT_BROKEN;
    if (page->watch > 0)
        watches = watches_begin(page, history, client.who, client.pawl);
    run_threads(&client);
    watches_end(watches);
    if (!history_append(history, history_now(history), client.who, RECORD_BYE, "%s", ""))
        return EXIT_BROKEN;
    atomic_fetch_add(&page->idle, 1);
    while (atomic_load(&page->phase) != PHASE_LEAVE)
        nap(5);
    for (int i = 0; i < rig_locks(page); i++)
        pawl_lock_free(client.locks[i]);
    pawl_close(client.pawl);
    return 0;
}
