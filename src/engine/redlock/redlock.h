/* SPDX-License-Identifier: Apache-2.0
 *
 * redlock.h - the engine for several independent Redis servers, a majority of which must agree: the objects and who guards them.
 *
 *     struct redlock        the engine; a crew (engine/crew.h) of `redis` engines, each a voter (engine/redis/voter.h)
 *       struct seat         what we know of a voter
 *       struct bid          a claim's state                                                  bid.c, hold.c
 *         struct vote       a claim at one voter; outlives its bid until the voter knows that it is over      vote.c
 *
 * A bid's life; bid.c has the table. Everything in it is decided by counting votes, in judge():
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
 * Calls go down this list: pump.c (what the voters say becomes events; serve and park), bid.c, hold.c, token.c, vote.c, kit/. Who waits,
 * and who reads, is the kit's business (kit/wait.h): one caller reads the answers of all voters itself. The service thread does the rest:
 * what comes unasked, time, claims that were adopted, answers that came after the caller had all it needed.
 * One mutex (kit.mutex) guards everything here; crew.h has the order of mutexes.
 */
#ifndef PAWL_REDLOCK_H
#define PAWL_REDLOCK_H

#include <sys/queue.h>

#include "engine/crew.h"
#include "engine/kit/wait.h"
#include "engine/redis/voter.h"
#include "base/name.h"

#define REDLOCK_MS INT64_C(1000000)
enum { YIELD_NAMES = 64 };

struct redlock;
struct bid;

enum vote_state {
    VOTE_NONE,
    VOTE_ASKED,   /* no answer yet */
    VOTE_WAITS,   /* the voter's lock is another's; we are written down as waiting */
    VOTE_GRANTED, /* ours, for its lease */
    VOTE_LEAVING, /* taken back; the voter has not answered that yet */
    VOTE_STATES,
};
enum vote_event { VOTE_ASK, VOTE_YES, VOTE_NO, VOTE_RENEWED, VOTE_LOST, VOTE_RETURN, VOTE_GONE, VOTE_EVENTS };
/* What a step means to others: something has changed; it is an answer to this attempt; the claim says what was granted. */
enum { VOTE_NEWS = 1 << 0, VOTE_ANSWERS = 1 << 1, VOTE_TAKES = 1 << 2 };
struct vote_move {
    uint8_t next, means;
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

enum bid_state { BID_NONE, BID_QUEUED, BID_ASKING, BID_RAISING, BID_RESTING, BID_HOLDING, BID_LEAVING, BID_STATES };

enum bid_event {
    BID_SUBMIT,
    BID_BEGIN,      /* no older one of this client waits for the name, or it does not wait */
    BID_FIRST,      /* the older ones are done */
    BID_TIMER,      /* timer_at: see struct bid */
    BID_CAME,       /* a voter answers again */
    BID_WENT,       /* one does not any more */
    BID_YES,        /* a vote was granted, ... */
    BID_NO,         /* ... or waits, and it was said when to ask again may help, ... */
    BID_RENEWED,    /* ... or was renewed, ... */
    BID_FORGOTTEN,  /* ... or the voter does not have it any more, ... */
    BID_FREED,      /* ... because an operator freed its lock, ... */
    BID_BROKEN,     /* ... or has it, but an operator wants it given back; ... */
    BID_REFUSED,    /* ... or was refused for good, ... */
    BID_RETURNED,   /* ... or is back at the voter */
    BID_IMPOSSIBLE, /* no quorum can be reached any more; ... */
    BID_HOPELESS,   /* ... and it is no use to try again */
    BID_QUORUM,     /* a quorum of votes is there */
    BID_WRITTEN,    /* the token is, too */
    BID_FREE,       /* a quorum is free of us */
    BID_WITHDRAW,
    BID_EVENTS,
};

/* What is done in a step, in this order. */
enum {
    BID_FORGET = 1 << 0,    /* the voter has forgotten the vote that it is about: give it back; */
    BID_RETURN = 1 << 1,    /* or give it back because it is of no use */
    BID_TALLY = 1 << 2,     /* count a refusal */
    BID_JUDGE = 1 << 3,     /* count the votes of the attempt */
    BID_COUNT = 1 << 4,     /* ... of the hold */
    BID_PLAN = 1 << 5,      /* when to try again? */
    BID_ATTEMPT = 1 << 6,   /* ask all voters */
    BID_GIVE_UP = 1 << 7,   /* those that have not answered are silent: decide without them */
    BID_PAUSE = 1 << 8,     /* give the votes back, and try again later */
    BID_CHOOSE = 1 << 9,    /* choose the token */
    BID_TOP_UP = 1 << 10,   /* ask this voter, too */
    BID_SOON = 1 << 11,     /* the timer is due at once */
    BID_HOLD = 1 << 12,     /* it is held */
    BID_LOSE = 1 << 13,     /* it is not any more */
    BID_BREAK = 1 << 14,    /* an operator wants it back */
    BID_PASS_ON = 1 << 15,  /* the end of a hold: the voters tell those that wait */
    BID_LEAVE = 1 << 16,    /* give all votes back */
    BID_LOOK = 1 << 17,     /* is a quorum free of us? */
    BID_REFUSE = 1 << 18,   /* give the votes back, and say why */
    BID_END = 1 << 19,      /* it is gone */
    BID_SAY_GONE = 1 << 20, /* it was gone before, unless that is being told just now */
};
struct bid_move {
    uint8_t next;
    uint32_t actions;
};

struct bid {
    struct kit_claim kit;
    TAILQ_ENTRY(bid) all; /* redlock->bids, or redlock->holding */
    enum bid_state state;
    struct kit_timer timer;              /* ASKING, RAISING: too late; RESTING: try again; LEAVING: nothing of it can be left */
    struct vote *votes[PAWL__CREW_MOST]; /* NULL: none there */
    int64_t since_ms;                    /* Unix time; names the bid among those of this client */
    int64_t started_at;                  /* the attempt */
    int64_t not_before;                  /* RESTING: however free the lock is */
    unsigned attempts, answered;         /* so far; voters in this attempt */
    bool lines_up;                       /* its first attempt is behind those that wait already */
    unsigned splits;                     /* attempts in a row that got votes, but too few */
    unsigned errors;                     /* voters that will never agree */
    int64_t held_since;                  /* for max_hold_ns: when the grant's request left */
    int64_t renewing_since;              /* the core waits for a renewal; 0: it does not */
    uint64_t owner;                      /* the number of the next vote's owner */
    unsigned granted_votes, lost_votes;  /* LEAVING: that it had, and of which the voters knew nothing */
    bool lost;                           /* the core was told */
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

    struct kit kit;
    struct kit_reader reader; /* all callers wait for the same answers */
    pthread_t reading;        /* the thread that sleeps there */
    struct seat seats[PAWL__CREW_MOST];
    struct bid_list bids, holding;
    struct vote_list votes;
    uint64_t next_id;
    int64_t last_since_ms;
    int64_t attempt_ns;               /* how long the last attempt took that was granted */
    int64_t yield_until[YIELD_NAMES]; /* by the hash of a name: until when we line up for it */
};

static inline struct redlock *redlock_of(struct pawl__engine *engine) {
    return (struct redlock *)engine;
}

static inline struct bid *bid_of(struct pawl__claim *claim) {
    return pawl__claim_state(claim);
}

/* vote.c: asking one voter. The mutex is held here and below. */

bool pawl__seat_usable(const struct redlock *redlock, unsigned seat);
unsigned pawl__seats_usable(const struct redlock *redlock);
/* It owes an answer for too long. */
void pawl__seat_silent(struct redlock *redlock, unsigned seat);
/* It has said something. */
void pawl__seat_heard(struct redlock *redlock, unsigned seat);
/* If it owes nothing any more, it has. */
void pawl__seat_listen(struct redlock *redlock, unsigned seat, int64_t now);
/* Before an attempt: who is silent? */
void pawl__seats_listen(struct redlock *redlock, int64_t now);
/* The only one to change a vote's state. Returns what that means; 0: nothing. */
unsigned pawl__vote_step(struct vote *vote, enum vote_event event);
/* Ask for the vote, again if it waits. `try_only`: yes or no. Does nothing where a vote is under way, or held. */
void pawl__vote_ask(struct redlock *redlock, struct bid *bid, unsigned seat, uint64_t floor, bool try_only);
/* Take it back. */
void pawl__vote_return(struct redlock *redlock, struct vote *vote);
/* The bid is over: requests on their way go on by themselves. */
void pawl__votes_detach(struct bid *bid);
/* Its claim is gone at the voter. */
void pawl__vote_free(struct redlock *redlock, struct vote *vote);
/* Does it count at `now`? */
bool pawl__vote_counts(const struct vote *vote, int64_t now);
unsigned pawl__votes_count(const struct redlock *redlock, const struct bid *bid, int64_t now);

/* token.c */
uint64_t pawl__token_floor(struct redlock *redlock);
/* The votes suffice: the lowest token that is above all earlier ones. */
uint64_t pawl__token_choose(const struct redlock *redlock, const struct bid *bid, int64_t now);
/* At how many voters that count is it written? */
unsigned pawl__token_written(const struct redlock *redlock, const struct bid *bid, int64_t now);
/* Have it written where it is not. */
void pawl__token_raise(struct redlock *redlock, struct bid *bid);

/* hold.c: a bid that holds. */
pawl__renew_fn pawl__redlock_renew;
/* How long its votes assure it has changed. */
void pawl__hold_count(struct redlock *redlock, struct bid *bid);
/* Ask the voter for its vote, if it has not given it. */
void pawl__hold_top_up(struct redlock *redlock, struct bid *bid, unsigned seat);
/* `news`: KIT_LOST or KIT_BROKEN. */
void pawl__hold_lost(struct redlock *redlock, struct bid *bid, unsigned news, const struct pawl_error *why);

/* bid.c */
pawl__submit_fn pawl__redlock_submit;
pawl__withdraw_fn pawl__redlock_withdraw;
pawl__downgrade_fn pawl__redlock_downgrade;
/* What an event is about: a voter, or the time. */
struct bid_input {
    int64_t now;
    struct vote *vote;
    unsigned seat;
    const struct pawl_error *why;
};
/* A cell of the table. */
struct bid_move pawl__bid_move(enum bid_state state, enum bid_event event);
/* The only one to change a bid's state. */
void pawl__bid_step(struct redlock *redlock, struct bid *bid, enum bid_event event, const struct bid_input *input);
/* Others wait for a lock that we let go: for a moment it is theirs first. */
void pawl__bid_yield(struct redlock *redlock, const struct pawl__claim *claim);
/* What the clock asks for; returns the next moment at which it will. */
int64_t pawl__bids_tick(struct redlock *redlock, int64_t now);
/* See that the service thread looks by `when`. */
void pawl__redlock_due(struct redlock *redlock, int64_t when);

/* pump.c: what comes from the voters, and the threads that wait for it. */
pawl__tell_fn pawl__redlock_tell;
pawl__waits_fn pawl__redlock_waits;
extern const struct kit_ops pawl__redlock_kit;
/* Look at the voters anew: who has come, who has gone. */
void pawl__seats_look(struct redlock *redlock);
pawl__serve_fn pawl__redlock_serve;
pawl__wake_fn pawl__redlock_wake;
pawl__park_fn pawl__redlock_park;
pawl__unpark_fn pawl__redlock_unpark;
pawl__adopt_fn pawl__redlock_adopt;

/* survey.c */
pawl__survey_fn pawl__redlock_survey;
pawl__break_fn pawl__redlock_break;
pawl__examine_fn pawl__redlock_examine;

#endif
