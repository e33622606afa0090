/* SPDX-License-Identifier: Apache-2.0
 *
 * redlock.h - the engine for several independent Redis servers, a majority of which must agree: the objects and who guards them.
 *
 *     struct redlock        the engine; a crew (engine/crew.h) of `redis` engines, each a voter (engine/redis/voter.h)
 *       struct seat         what we know of a voter
 *       struct bid          a claim's state                                                  bid.c, hold.c
 *         struct vote       a claim at one voter; outlives its bid until the voter knows that it is over      vote.c
 *
 * A bid's life. Everything in it is decided by counting votes, in judge() (bid.c):
 *
 *                 quorum of votes        the token is written at a quorum
 *     ASKING -------------------> RAISING -------------------------------> HOLDING --(votes below the quorum)--> told as lost
 *       ^  | no quorum possible      | (votes lost, or too late)
 *       |  v                         |
 *     RESTING <----------------------+       withdraw: any state -> LEAVING --(free at a quorum)--> NONE
 *       ^  (random delay, or the voters say that the lock is free, or that it is our turn)
 *       |
 *     QUEUED (while an older bid of this client for the same name waits)
 *
 * Rules
 *   - A vote counts from when its own request left, for the lease less drift (lease.h), and not a moment longer. The hold is assured as
 *     long as the vote that is the quorum-th to end.
 *   - Every request to take a vote has an owner of its own: what is left of an earlier attempt, wherever it still lies, can't undo a
 *     later one.
 *   - The token of a hold is in the counters of a quorum of voters, written while they held our key, before anybody hears of the hold.
 *     So each later quorum has a voter with a higher counter, and each later token is higher. token.c has the proof.
 *   - A voter that owes an answer for long is silent: nothing is asked of it, and nobody waits for it, until it answers or its connection
 *     is made anew.
 *
 * Who waits? Callers park: one of them leads (it reads the answers of all voters itself), the others sleep on a futex each. The service
 * thread does the rest: what comes unasked, time, claims that were adopted, answers that came after the caller had all it needed.
 * One mutex guards everything here; crew.h has the order of mutexes.
 */
#ifndef PAWL_REDLOCK_H
#define PAWL_REDLOCK_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "engine/crew.h"
#include "engine/redis/voter.h"
#include "base/name.h"

#define REDLOCK_MS INT64_C(1000000)
enum { YIELD_NAMES = 64 };

struct redlock;
struct bid;

enum vote_state {
    VOTE_ASKED,   /* no answer yet */
    VOTE_WAITS,   /* the voter's lock is another's; we are written down as waiting */
    VOTE_GRANTED, /* ours, for its lease */
    VOTE_LEAVING, /* taken back; the voter has not answered that yet */
};

struct vote {
    TAILQ_ENTRY(vote) all; /* redlock->votes */
    struct bid *bid;       /* NULL: it is over, but for this vote */
    unsigned seat;
    enum vote_state state;
    unsigned crowd; /* WAITS: how many others do */
    uint64_t token; /* GRANTED: the first of ... */
    uint32_t token_count;
    int64_t sent_at, lease_ns; /* GRANTED */
    int64_t again_at;          /* WAITS: when to ask again may help; 0: now */
    char name[PAWL__NAME_MAX + 1];
    struct pawl__claim claim; /* the voter's own state follows */
};
TAILQ_HEAD(vote_list, vote);

enum bid_state { BID_NONE, BID_QUEUED, BID_ASKING, BID_RAISING, BID_RESTING, BID_HOLDING, BID_LEAVING };

/* What is to be told of a bid, in this order. The first three are park()'s to tell while nobody adopted the claim. */
enum {
    BID_TELL_GRANTED = 1 << 0,
    BID_TELL_REFUSED = 1 << 1,
    BID_TELL_SETTLED = 1 << 2,
    BID_TELL_RENEWED = 1 << 3,
    BID_TELL_LOST = 1 << 4,
    BID_TELL_PARKED = BID_TELL_GRANTED | BID_TELL_REFUSED | BID_TELL_SETTLED,
};

struct bid {
    TAILQ_ENTRY(bid) all;      /* redlock->bids, or redlock->holding */
    TAILQ_ENTRY(bid) telling;  /* redlock->to_tell */
    TAILQ_ENTRY(bid) follower; /* redlock->followers */
    struct pawl__claim *claim;
    enum bid_state state;
    struct vote *votes[PAWL__CREW_MOST]; /* NULL: none there */
    int64_t since_ms;                    /* Unix time; names the bid among those of this client */
    int64_t started_at;                  /* the attempt */
    int64_t timer_at;                    /* ASKING, RAISING: too late; RESTING: try again; LEAVING: nothing of it can be left */
    int64_t not_before;                  /* RESTING: however free the lock is */
    unsigned attempts, answered;         /* so far; voters in this attempt */
    bool lines_up;                       /* its first attempt is behind those that wait already */
    unsigned splits;                     /* attempts in a row that got votes, but too few */
    unsigned errors;                     /* voters that will never agree */
    uint64_t token;
    uint32_t token_count;
    int64_t sent_at, lease_ns;          /* of the vote that assures it longest but quorum - 1 others */
    int64_t held_since;                 /* for max_hold_ns: when the grant's request left */
    int64_t renewing_since;             /* the core waits for a renewal; 0: it does not */
    uint64_t owner;                     /* the number of the next vote's owner */
    unsigned granted_votes, lost_votes; /* LEAVING: that it had, and of which the voters knew nothing */
    bool lost, broken;
    bool ended; /* its end is being told */
    struct pawl_error why;
    unsigned tell;
    bool to_tell, told_now, adopted, unparked, follows, heir;
    _Atomic uint32_t word; /* the futex of its follower: 1 while it sleeps */
};
TAILQ_HEAD(bid_list, bid);

struct seat {
    char where[300];     /* the voter's URL, for people */
    bool usable, tracks; /* when we last looked */
    bool silent;
};

struct redlock {
    struct pawl__engine base;
    struct pawl__crew crew;
    unsigned quorum;
    int64_t lease_ns, connect_ns;
    char url[4096];
    char uuid[40];

    pthread_mutex_t mutex;
    struct seat seats[PAWL__CREW_MOST];
    struct bid_list bids, holding, to_tell, followers;
    struct vote_list votes;
    unsigned leaving;         /* votes */
    bool leading;             /* a thread leads, ... */
    const struct bid *leader; /* ... this one, for this bid */
    pthread_t leader_thread;
    bool wake; /* the service thread, once unlocked */
    int64_t asleep_until;
    uint64_t next_id;
    int64_t last_since_ms;
    int64_t attempt_ns;               /* how long the last attempt took that was granted */
    int64_t yield_until[YIELD_NAMES]; /* by the hash of a name: until when we line up for it */
    uint32_t random;
    char notes[2048]; /* noted while the mutex was held */
    size_t notes_used;
};

static inline struct redlock *redlock_of(struct pawl__engine *engine) {
    return (struct redlock *)engine;
}

static inline struct bid *bid_of(struct pawl__claim *claim) {
    return pawl__claim_state(claim);
}

/* loop.c: the mutex, telling, waiting. */

void pawl__redlock_lock(struct redlock *redlock);
void pawl__redlock_unlock(struct redlock *redlock);
void pawl__redlock_note(struct redlock *redlock, const struct bid *bid, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void pawl__redlock_tell(struct redlock *redlock, struct bid *bid, unsigned what);
/* Its end comes next: nothing else is to be told any more. */
void pawl__redlock_untell(struct redlock *redlock, struct bid *bid);
/* See that the service thread looks by `when`. */
void pawl__redlock_due(struct redlock *redlock, int64_t when);
pawl__serve_fn pawl__redlock_serve;
pawl__wake_fn pawl__redlock_wake;
pawl__park_fn pawl__redlock_park;
pawl__unpark_fn pawl__redlock_unpark;
pawl__adopt_fn pawl__redlock_adopt;

/* vote.c: asking one voter. The mutex is held. */

/* Look at the voters anew: who has come, who has gone. */
void pawl__seats_look(struct redlock *redlock);
/* Before an attempt: who is silent? */
void pawl__seats_listen(struct redlock *redlock, int64_t now);
bool pawl__seat_usable(const struct redlock *redlock, unsigned seat);
/* It owes an answer for too long. */
void pawl__seat_silent(struct redlock *redlock, unsigned seat);
/* It has said something. */
void pawl__seat_heard(struct redlock *redlock, unsigned seat);
/* Ask for the vote, again if it waits. `try_only`: yes or no. Does nothing where a vote is under way, or held. */
void pawl__vote_ask(struct redlock *redlock, struct bid *bid, unsigned seat, uint64_t floor, bool try_only);
/* Take it back. */
void pawl__vote_return(struct redlock *redlock, struct vote *vote);
/* The bid is over: whatever is still on its way goes on by itself. */
void pawl__votes_detach(struct bid *bid);
/* Its claim is gone at the voter. */
void pawl__vote_free(struct redlock *redlock, struct vote *vote);
/* Does it count at `now`? */
bool pawl__vote_counts(const struct vote *vote, int64_t now);
unsigned pawl__votes_count(const struct redlock *redlock, const struct bid *bid, int64_t now);
pawl__tell_fn pawl__vote_tell;
pawl__waits_fn pawl__vote_waits;

/* token.c */
uint64_t pawl__token_floor(struct redlock *redlock);
/* The votes suffice: the lowest token that is above all earlier ones. */
uint64_t pawl__token_choose(const struct redlock *redlock, const struct bid *bid, int64_t now);
/* At how many voters that count is it written? */
unsigned pawl__token_written(const struct redlock *redlock, const struct bid *bid, int64_t now);
/* Have it written where it is not. */
void pawl__token_raise(struct redlock *redlock, struct bid *bid);

/* bid.c */
pawl__submit_fn pawl__redlock_submit;
pawl__withdraw_fn pawl__redlock_withdraw;
pawl__downgrade_fn pawl__redlock_downgrade;
/* A vote of the bid has changed: count. */
void pawl__bid_judge(struct redlock *redlock, struct bid *bid);
/* It rests: when to try again? */
void pawl__bid_plan(struct redlock *redlock, struct bid *bid);
/* Others wait for a lock that we let go: for a moment it is theirs first. */
void pawl__bid_yield(struct redlock *redlock, const struct pawl__claim *claim);
/* It leaves: is it gone? */
void pawl__bid_leave(struct redlock *redlock, struct bid *bid);
void pawl__bid_set_timer(struct redlock *redlock, struct bid *bid, int64_t when);
/* What the clock asks for; returns the next moment at which it will. */
int64_t pawl__bids_tick(struct redlock *redlock, int64_t now);

/* hold.c: a bid that holds. */
pawl__renew_fn pawl__redlock_renew;
/* How long its votes assure it has changed. */
void pawl__hold_count(struct redlock *redlock, struct bid *bid);
/* Ask the voter for its vote, if it has not given it. */
void pawl__hold_top_up(struct redlock *redlock, struct bid *bid, unsigned seat);
void pawl__hold_lost(struct redlock *redlock, struct bid *bid, bool broken, const struct pawl_error *why);

/* survey.c */
pawl__survey_fn pawl__redlock_survey;
pawl__break_fn pawl__redlock_break;
pawl__examine_fn pawl__redlock_examine;

#endif
