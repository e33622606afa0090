/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.h - claims. The life of one; state.c has the table:
 *
 *             acquire            1: granted at once
 *     ASKING --------> (reply) ---------------------------------------------------> HOLDING
 *        ^               | 0: queued         push 'g', in time                       ^  |  downgrade
 *        |               v        .--------------------------------------------------'  v
 *        +---- again -- WAITING --+                                                  DOWNGRADING
 *        |     (timer)            | push 'g', too old to be believed, or 'b': acquire tells
 *        +------------------------'
 *
 *     withdraw: of a hold -> RELEASING, else LEAVING --(reply)--> gone          the hold is gone, or broken -> LOST, until it is withdrawn
 *     ?replicas=N: SECURING and UNDOING lie before HOLDING, see secure.c
 *
 * Who reads? A thread that waits in park() for its answer reads what comes from its claim's home, if no other does so already (kit/wait.h).
 * Without one the service thread reads, in serve(). Its epoll set says what it watches: see watch() in pump.c. Nobody waits for
 * the answer to a request for more tokens (send.c): it is looked for when it matters (pawl__home_look). Only the service thread connects,
 * keeps time and calls up.
 */
#ifndef PAWL_REDIS_LOCK_H
#define PAWL_REDIS_LOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/redis/lock/home.h"
#include "engine/redis/lock/keys.h"

enum { REDIS_PERMITS_MAX = 4096, REDIS_SUBSCRIPTIONS = 256, REDIS_WATCHES = 256, REDIS_BUCKETS = 1024 };

enum rclaim_state {
    RCLAIM_NONE,
    RCLAIM_ASKING,
    RCLAIM_WAITING,  /* in the queue */
    RCLAIM_SECURING, /* replicas are to have it */
    RCLAIM_UNDOING,  /* too few of them had it in time */
    RCLAIM_HOLDING,
    RCLAIM_DOWNGRADING,
    RCLAIM_LOST,      /* and the core was told */
    RCLAIM_RELEASING, /* it was held, and its release was asked for once at most */
    RCLAIM_LEAVING,   /* it was not; or more than once */
    RCLAIM_STATES,
};

enum rclaim_event {
    RCLAIM_SUBMIT,
    RCLAIM_QUEUED,    /* the server says: another holds it */
    RCLAIM_GRANTED,   /* ... or it is ours, and replicas have it where they are to; */
    RCLAIM_UNSECURED, /* ... and they are to have it first; */
    RCLAIM_TOO_LATE,  /* ... but its lease ended before we read that; */
    RCLAIM_REFUSED,   /* ... or it will not let us, or can't be reached */
    RCLAIM_STALE,     /* a push says that it is ours, or was broken, and the server is to say which */
    RCLAIM_SHORT,     /* too few replicas have it; ... */
    RCLAIM_UNSURE,    /* ... nobody knows */
    RCLAIM_NOT_MINE,  /* the hold is not on the server any more */
    RCLAIM_BROKEN,    /* it is, and an operator wants it back */
    RCLAIM_DOWNGRADE,
    RCLAIM_DOWNGRADED,
    RCLAIM_WITHDRAW,
    RCLAIM_UNSENT,     /* the same, and the server was never asked about it */
    RCLAIM_RELEASED,   /* the server has let go of it; ... */
    RCLAIM_NOTHING,    /* ... had nothing of it; ... */
    RCLAIM_UNANSWERED, /* ... was asked to, and may have done so */
    RCLAIM_MOVED,      /* its lock is at another server now */
    RCLAIM_EVENTS,
};

/* What a step does, beside telling of news (KIT_...). */
enum {
    RCLAIM_ANEW = 1 << 0,     /* nothing of it is held any more */
    RCLAIM_HEARS = 1 << 1,    /* in a cluster: of breaks */
    RCLAIM_WAS_LOST = 1 << 2, /* before it was withdrawn */
    RCLAIM_ENDS = 1 << 3,
    RCLAIM_ASKS = 1 << 4,    /* what the new state asks for is sent; what is in flight counts no more */
    RCLAIM_RENAMES = 1 << 5, /* it is asked for by another name from now on */
};

struct rclaim_move {
    uint8_t next, news, actions;
};

/* renew.c */
struct rclaim_renewal {
    TAILQ_ENTRY(rclaim) entry; /* home->to_renew */
    bool listed, sent;
    int64_t asked_at; /* when the core asked for a renewal, which is told of the answer; 0: it did not */
};

/* secure.c: its grant or its renewal is being secured. */
struct rclaim_securing {
    TAILQ_ENTRY(rclaim) entry; /* home->secure.waiting, or .asked */
    bool listed, in_round;
    bool broken;               /* granted, and not held yet: an operator wants it back */
    int64_t sent_at, lease_ns; /* of the renewal */
};

/* kept.c: the process may keep it while nobody there holds it. */
struct rclaim_keeping {
    TAILQ_ENTRY(rclaim) entry; /* home->hearers */
    bool listed;
    bool marked;                /* who waits for it tells so */
    _Atomic bool wanted, heard; /* others wait for it; they would be heard of. Written with the mutex held, read without it */
};

/* answer.c: it has met others that may only keep what it wants. */
struct rclaim_trying {
    int64_t until; /* so long it waits for them; 0: it has met none */
    bool in_queue; /* else it can't be told that it is its turn */
};

/* Whether it gets more tokens: see tokens() in engine.h. REFUSED is for the rest of the hold. */
enum tokens_state { TOKENS_NOT_ASKED, TOKENS_ASKED, TOKENS_GIVEN, TOKENS_REFUSED, TOKENS_STATES };
enum { TOKENS_NEVER = TOKENS_STATES }; /* in the table: it can't happen */

enum tokens_event {
    TOKENS_ASK,    /* the core wants some, and they are asked for; ... */
    TOKENS_GIVE,   /* ... here they are; ... */
    TOKENS_REFUSE, /* ... or they can't be asked for, or the answer has none, or will not be heard */
    TOKENS_TAKE,   /* the core has them */
    TOKENS_EVENTS,
};

struct rclaim_tokens {
    enum tokens_state state; /* written by pawl__rclaim_tokens_step() alone */
    uint32_t added;          /* GIVEN: so many */
};

/* The engine's state of a claim. */
struct rclaim {
    struct kit_claim kit;
    struct kit_timer timer;     /* WAITING: ask again; ASKING, LEAVING, ...: send (again) */
    TAILQ_ENTRY(rclaim) all;    /* claims->all */
    TAILQ_ENTRY(rclaim) bucket; /* claims->buckets, by number */
    struct rclaim_renewal renewal;
    struct rclaim_securing securing;
    struct rclaim_keeping keeping;
    struct rclaim_trying trying;
    struct home *home; /* where its lock is */
    unsigned slot;     /* in a cluster */
    int64_t moved_at;
    struct subscription *subscription; /* in a cluster: where it hears, or NULL */
    TAILQ_ENTRY(rclaim) subscribed;    /* subscription->claims */
    enum rclaim_state state;
    enum pawl_mode mode; /* as the server knows it; the claim's own is the core's to change */
    uint64_t number;     /* in its owner's name: the core's, or one of the engine's own */
    char owner[REDIS_OWNER_MAX];
    char since[24];     /* Unix time in ms */
    bool asked;         /* a request about its state is in flight */
    bool asks_again;    /* what is in flight may be answered with what is not so any more: see look_again() in push.c */
    bool foreign_held;  /* its lock is held by a program that is not pawl */
    bool listens;       /* on the foreign channel of its lock */
    bool in_set;        /* it is asked for together with others: see set.c */
    int ask_number;     /* counts what was asked about its state: only the answer to the last one counts */
    uint32_t want_sent; /* tokens that the server knows we want */
    int64_t head_until; /* while an answer is on its way: it was told that it is first, and to ask then; else PAWL__NEVER */
    unsigned position;
    unsigned failures; /* retryable errors in a row */
    struct rclaim_tokens tokens;
    int64_t held_since; /* HOLDING: sent_at of the grant */
};

TAILQ_HEAD(subscription_list, subscription);
TAILQ_HEAD(undo_list, undo);
TAILQ_HEAD(watch_list, watch);

/* The engine, with its claims. */
struct claims {
    struct route route; /* the first: claims_of() */
    char record[PAWL__RECORD_MAX];
    struct rclaim_list all, buckets[REDIS_BUCKETS];
    uint64_t numbers;       /* so many have the engine's own */
    struct undo_list undos; /* send.c */
    int64_t undos_due;      /* when those are sent that the server could not carry out; PAWL__NEVER: there are none */
    size_t adopted_count;   /* those that serve() looks after */
    size_t hearer_count;    /* those in lists of homes' hearers */
    pthread_cond_t called;  /* a call that is not about a claim was answered */
    bool woken;
    int64_t refusal_due; /* until then the log hears of no other release that was refused */
    int epoll_fd;

    /* listen.c */
    struct subscription_list subscriptions[REDIS_SUBSCRIPTIONS], idle_subscriptions;
    unsigned idle_subscription_count;

    /* observe.c */
    struct watch_list watches[REDIS_WATCHES];
    struct kit_timers watch_timers;
    TAILQ_HEAD(, observer) watch_news; /* who is to be told; */
    const struct observer *watch_told; /* ... and is just being told, without the mutex */

    uint64_t writes; /* beside locks, in the names of others' holds: value/value.c */
};

static inline struct claims *claims_of(struct redis *redis) {
    return (struct claims *)redis;
}

static inline struct rclaim *rclaim_of(struct pawl__claim *claim) {
    return pawl__engine_state(claim);
}

static inline bool rclaim_holds(const struct rclaim *claim) {
    return claim->state == RCLAIM_HOLDING || claim->state == RCLAIM_DOWNGRADING;
}

/* The least time between two moves of a claim, where nodes do not agree who has its slot. */
#define REDIS_MOVE_NS (50 * REDIS_MS)
static inline bool rclaim_moved_lately(const struct rclaim *claim, int64_t now) {
    return now < claim->moved_at + REDIS_MOVE_NS;
}

/* What was asked, and so who takes the answer: see take_answer() in events.c. */
enum asked {
    ASKED_NOTHING, /* that is of use: the reply is ignored */
    ASKED_ACQUIRE,
    ASKED_RELEASE,
    ASKED_UNDO, /* the release of a claim that was refused */
    ASKED_DOWNGRADE,
    ASKED_MORE_TOKENS,
    ASKED_RENEWAL,    /* of a group */
    ASKED_SET,        /* of a group: all or none */
    ASKED_WITNESS,    /* a write that replicas are to have; ... */
    ASKED_COUNT,      /* ... how many of them have it */
    ASKED_TRACKING,   /* to be told of changes to keys */
    ASKED_CHANNEL,    /* to be told of the releases of foreign holders */
    ASKED_WATCH,      /* the keys of an observed lock are read; ... */
    ASKED_WATCH_TIME, /* ... and how long it has left */
};

/* Claims that one request is about: they are its answer's, in their order. One that has ended or moved meanwhile is NULL. */
struct group {
    size_t count;
    int64_t sent_at; /* renew.c: or a little before; a limit that was changed since then was not asked for */
    struct group_member {
        struct rclaim *claim;
        int ask_number;   /* set.c: of the claim when it was asked for */
        int64_t lease_ns; /* renew.c: what was asked for */
    } members[];
};

/* ---- The files, from the bottom to the top: each calls those before it. keys.h and home.h have the first two. ---- */

/* state.c: the table. False: it is ignored. */
bool pawl__rclaim_moves(enum rclaim_state state, enum rclaim_event event, struct rclaim_move *ret);
/* The table of the tokens: the next state, or TOKENS_NEVER. */
int pawl__rclaim_tokens_move(enum tokens_state state, enum tokens_event event);
void pawl__rclaim_tokens_step(struct rclaim *claim, enum tokens_event event);

/* listen.c */
void pawl__subscriptions_init(struct redis *redis);
void pawl__subscriptions_free(struct redis *redis);
/* Can the claim be told where it is? */
bool pawl__subscription_on(const struct rclaim *claim);
/* Since when? 0: always, it is not in a cluster; PAWL__NEVER: it can't. */
int64_t pawl__subscription_since(const struct rclaim *claim);
/* Is it asked for at this home, and not answered? */
bool pawl__subscription_asked(const struct rclaim *claim, const struct home *home);
/* May it queue: could it be told when its turn comes? It joins the subscription of its lock, if there is one. */
bool pawl__subscription_suffices(struct redis *redis, struct rclaim *claim);
/* Have it on. */
void pawl__subscription_open(struct redis *redis, struct rclaim *claim);
void pawl__subscription_leave(struct redis *redis, struct rclaim *claim);
/* The server says that a channel is subscribed to, or not any more. False: there is no such subscription. *ret: the claims that have
 * to go on, or NULL. */
bool pawl__subscription_told(struct home *home, const char *channel, bool subscribed, struct rclaim_list **ret);
/* The server would not subscribe to one of the channels that it was asked for. It does not say which: so all that are not on count as
 * refused. */
void pawl__subscriptions_refused(struct home *home);
/* Nothing is subscribed to at this node any more. */
void pawl__subscriptions_off(struct home *home);
/* Listen, or not any more, where the holders of this claim's lock that are not pawl tell of their releases. */
void pawl__listen_foreign(struct redis *redis, struct rclaim *claim);
void pawl__listen_no_more(struct redis *redis, struct rclaim *claim);
/* The server has ended this subscription. */
void pawl__listen_off(struct redis *redis, const char *channel);
/* Claims at this node listen to no foreign holders any more; asking again will tell whether they must. */
void pawl__listen_all_off(struct home *home);
/* After the inbox was connected anew. */
void pawl__listen_again(struct home *home);
/* Have the server tell of changes to keys that are asked for after CLIENT CACHING YES, if it can and we may: layout=plain, for the end of
 * foreign holds; and where locks are observed. In a cluster the channel is asked for first. Its answer; and not any more. */
void pawl__listen_track(struct home *home);
void pawl__listen_channel(struct home *home);
void pawl__listen_tracked(struct home *home, const redisReply *reply);
void pawl__listen_untrack(struct home *home);
/* Before an acquire of a claim whose lock is held by a foreign program: what it reads is to be tracked. */
void pawl__listen_track_next(const struct rclaim *claim);

/* observe.c */
void pawl__watches_init(struct redis *redis);
/* The answers to what was asked of its keys. */
void pawl__watch_read(struct redis *redis, const struct request *request, const redisReply *reply);
void pawl__watch_timed(const struct request *request, const redisReply *reply);
/* The timer of one is due. */
void pawl__watch_due(struct redis *redis, struct kit_timer *timer);
/* The server says that a key has changed. */
void pawl__watch_changed(struct home *home, const char *key);
/* Look at all that are observed there, now; `changed`: they have changed. */
void pawl__watch_all(struct home *home, bool changed);
/* Tell the core what has changed; the mutex is let go meanwhile. */
void pawl__watches_tell(struct redis *redis);
/* Slots are elsewhere now. */
void pawl__watches_follow(struct redis *redis);
int pawl__redis_observe(struct pawl__engine *engine, struct pawl__observer *seam, struct pawl_error *reterr);
void pawl__redis_unobserve(struct pawl__engine *engine, struct pawl__observer *seam);

/* kept.c */
/* How often those who can't make themselves heard are looked for: renew.c. */
static inline int64_t hearers_look_ns(bool handed_on) {
    return (handed_on ? 10 : 100) * REDIS_MS;
}
/* Where it is, or will be, while it holds. */
static inline struct hearers *rclaim_hearers(const struct rclaim *claim) {
    return &claim->home->hearers[claim->kit.claim->keep_ns ? HEARS_KEPT : HEARS_SHARED];
}
/* The mark, which stands before its number. */
const char *pawl__kept_begin(struct rclaim *claim);
/* Its state has changed. It leaves its home. */
void pawl__kept_follow(struct rclaim *claim);
void pawl__kept_unlist(struct rclaim *claim);
/* Others wait for it. */
void pawl__kept_wanted(struct redis *redis, struct rclaim *claim);
/* An answer to what left at `sent_at` says that it holds. */
void pawl__kept_confirmed(struct rclaim *claim, int64_t sent_at);
/* Others may wait for it that could not be heard; the same for all claims of a home. */
void pawl__kept_unheard(struct rclaim *claim);
void pawl__kept_unheard_all(struct home *home);
/* It holds. layout=plain: those who wait may be programs that can't be heard, so it is wanted when the time of `keep` is over. */
void pawl__kept_drive(struct redis *redis, struct rclaim *claim);

/* send.c: what is asked about a claim. */
/* The lease to ask for now: the engine's, or what the claim's max_hold leaves of it. */
int64_t pawl__rclaim_lease_ns(const struct redis *redis, const struct rclaim *claim);
/* Send what the claim's state asks for, if nothing is in flight for it and the connection is there. */
void pawl__rclaim_drive(struct redis *redis, struct rclaim *claim);
void pawl__rclaim_fill_acquire(struct redis *redis, struct rclaim *claim, struct redis_call *call);
/* Take back what the server may have of a claim that was refused; without a connection, when there is one again: pawl__send_undos(). So
 * where the server can't just now, at claims->undos_due. */
void pawl__send_undo(struct redis *redis, const struct rclaim *claim);
void pawl__send_undos(struct redis *redis);
void pawl__undo_answered(struct redis *redis, const struct request *request, const redisReply *reply);
void pawl__undos_free(struct redis *redis);
/* Ask for `count` more tokens. False: it could not be sent. */
bool pawl__send_more_tokens(struct redis *redis, struct rclaim *claim, uint32_t count);
/* The claim ends, or is elsewhere now: replies to what was sent are ignored. */
void pawl__rclaim_detach(struct redis *redis, struct rclaim *claim);

/* claim.c */
/* Can there be such a claim? */
int pawl__rclaim_check(const struct redis *redis, const struct pawl__claim *claim, struct pawl_error *reterr);
/* The claim is there from here on, and is to be asked for. */
void pawl__rclaim_begin(struct redis *redis, struct pawl__claim *seam, struct home *home);
struct rclaim *pawl__rclaim_find(struct redis *redis, uint64_t number);
/* The only one to change a claim's state: by the table, whose actions it carries out. False: it is ignored in this state. */
bool pawl__rclaim_step(struct redis *redis, struct rclaim *claim, enum rclaim_event event);
/* Was the server never asked about it? Then there is nothing to undo. */
bool pawl__rclaim_never_sent(const struct rclaim *claim);
/* In a cluster: is its slot at another server than the claim's home? Then it is about to move there. */
bool pawl__rclaim_slot_moved(struct redis *redis, const struct rclaim *claim);
/* Drive the claim at `when`; to the moment, or together with others. */
void pawl__rclaim_set_timer(struct redis *redis, struct rclaim *claim, int64_t when, bool exact);
/* The same a little later each time: the server can't just now. */
void pawl__rclaim_try_later(struct redis *redis, struct rclaim *claim);
/* It is over without ever having been held. */
void pawl__rclaim_refuse(struct redis *redis, struct rclaim *claim, const struct pawl_error *why);
/* The same for a try that does not wait until the server can; one of several that are asked for together may be had by itself. */
void pawl__rclaim_not_now(struct redis *redis, struct rclaim *claim, const struct pawl_error *why);
/* More threads wait for the claim than the server knows: tell it. */
void pawl__rclaim_want_more(struct redis *redis, struct rclaim *claim);
void pawl__rclaim_granted(struct redis *redis, struct rclaim *claim, uint64_t token, uint32_t count, int64_t sent_at,
                          int64_t lease_ns);
/* It is held from now on: what pawl__rclaim_granted does where no replicas are asked for, and secure.c where they have it. */
void pawl__rclaim_hold(struct redis *redis, struct rclaim *claim);
void pawl__rclaim_lost(struct redis *redis, struct rclaim *claim, bool broken, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* It is held, and an operator wants it back. */
void pawl__rclaim_broken(struct redis *redis, struct rclaim *claim);
/* Replicas are to confirm the grant of a claim in SECURING, or the renewal of one that holds, whose request left at `sent_at`: the next
 * round is about it. */
void pawl__rclaim_to_secure(struct rclaim *claim, int64_t sent_at, int64_t lease_ns);
/* No round is about it any more. */
void pawl__rclaim_leave_round(struct rclaim *claim);
/* No renewal and no round is about it any more: its withdrawal leaves, and with the answer to that the claim is gone. */
void pawl__rclaim_unlist(struct rclaim *claim);
/* The server is unreachable: refuse pending tries. */
void pawl__rclaims_refuse_tries(struct home *home);
/* ?retry= is used up: refuse those who wait. */
void pawl__rclaims_give_up(struct home *home);
/* Go on with all claims of a node. */
void pawl__rclaims_drive(struct home *home);

/* renew.c */
void pawl__renew_flush(struct home *home);
/* Renew all holds that are there, to see whether they are. */
void pawl__renew_all(struct home *home);
/* Renew one, to see whether it is there. */
void pawl__renew_want(struct rclaim *claim);
void pawl__renew_answer(struct redis *redis, const struct request *request, const redisReply *reply);
/* The server has renewed the claim, or not: it is not its owner's any more. `held`: see lua/renew.lua. */
void pawl__renew_answered(struct redis *redis, struct rclaim *claim, int64_t sent_at, int64_t lease_ns, int64_t held);
/* Look for those who wait for kept locks and can't say so, if it is time. */
void pawl__renew_look(struct home *home, int64_t now);
/* Renew what wants to hear who waits, and can again. */
void pawl__renew_hearers(struct home *home);
/* A renewal counts, or must be made again: for secure.c. */
void pawl__renew_done(struct redis *redis, struct rclaim *claim, int64_t sent_at, int64_t lease_ns);
void pawl__renew_put_back(struct rclaim *claim);

/* secure.c */
/* Begin a round, if something waits for one and none is under way. */
void pawl__secure_begin(struct home *home);
void pawl__secure_wrote(struct redis *redis, const struct request *request, const redisReply *reply);
void pawl__secure_counted(struct redis *redis, const struct request *request, const redisReply *reply);
/* A connection that a round needs went down, or the last of them came up: give the round up, and begin one if claims wait for it. */
void pawl__secure_anew(struct home *home);
/* Why an acquire failed that too few replicas have. */
void pawl__secure_failed(const struct home *home, const char *name, struct pawl_error *ret);

/* answer.c */
void pawl__answer(struct redis *redis, const struct request *request, const redisReply *reply);
/* The claim's timer is due. */
void pawl__rclaim_due(struct redis *redis, struct rclaim *claim);
/* The answer to acquire says that it is held. */
void pawl__rclaim_entered(struct redis *redis, struct rclaim *claim, const struct request *request, const redisReply *reply);
/* The answer says why it is not: 0, -1, -2, or something strange. */
void pawl__answer_why_refused(const struct pawl__claim *claim, int64_t result, struct pawl_error *ret);

/* set.c */
/* Ask for several claims at once: PAWL__PENDING, or why not. */
int pawl__redis_set_ask(struct redis *redis, struct pawl__claim *const seams[], size_t count, struct pawl_error *reterr);
void pawl__redis_set_answer(struct redis *redis, const struct request *request, const redisReply *reply);

/* push.c: what comes by the inbox. */
void pawl__push_take(struct home *home, const redisReply *reply);
/* What is said of a channel: it is subscribed to, or not any more. */
void pawl__push_channel(struct home *home, const char *channel, bool subscribed);
/* The answer to a subscription to a channel of foreign programs. */
void pawl__push_listened(struct redis *redis, const redisReply *reply);

/* events.c: what is pulled, and handed on. */
/* Work on what connections have to say; before the mutex is let go. */
void pawl__redis_take_events(struct redis *redis);
/* At close: hand on the answers that are still owed, and drop all other events. */
void pawl__redis_end_events(struct redis *redis);
/* Take what connections have to say and let the mutex go, right after a request whose caller reads the answer: the service thread is not
 * woken for it. */
static inline void pawl__redis_unlock_asked(struct redis *redis) {
    pawl__redis_take_events(redis);
    pawl__kit_unlock_quietly(&redis->kit);
}

/* pump.c */
extern const struct kit_ops pawl__redis_kit;
/* What is next by the clock, or `deadline`. */
int64_t pawl__redis_earliest(struct redis *redis, int64_t deadline);
pawl__serve_fn pawl__redis_serve;
pawl__wake_fn pawl__redis_wake;

/* seam.c */
pawl__submit_fn pawl__redis_submit;
pawl__submit_all_fn pawl__redis_submit_all;
pawl__withdraw_fn pawl__redis_withdraw;
pawl__downgrade_fn pawl__redis_downgrade;
pawl__renew_fn pawl__redis_renew;
pawl__tokens_fn pawl__redis_tokens;
pawl__why_fn pawl__redis_why;
int pawl__redis_rest(struct pawl__engine *engine, struct pawl__claim *seam);
int pawl__redis_resume(struct pawl__engine *engine, struct pawl__claim *seam);
pawl__park_fn pawl__redis_park;
pawl__unpark_fn pawl__redis_unpark;
pawl__adopt_fn pawl__redis_adopt;

#endif
