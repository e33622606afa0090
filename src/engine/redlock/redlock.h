/* SPDX-License-Identifier: Apache-2.0
 *
 * redlock.h - the engine for several independent Redis servers, a majority of which must agree: the objects and who guards them.
 *
 *     struct redlock        the engine; it begins with struct redis (engine/redis/wire/wire.h), whose servers are
 *       struct voter        one of the servers, which vote
 *       struct bid          a claim's state                                                  bid.c, hold.c
 *         struct vote       what one voter has of it; outlives its bid until the voter knows that it is over       vote.c
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
 * Calls go down this list: pump.c (serve and park), answer.c (what the voters say is pulled, and becomes events), bid.c, hold.c, token.c,
 * vote.c, send.c, kit/. Who waits, and who reads, is the kit's business (kit/wait.h): one caller reads the answers of all voters itself.
 * The service thread does the rest: what comes unasked, time, claims that were adopted, answers that came after the caller had all it
 * needed. One mutex (kit.mutex) guards everything here. What connections have to say is pulled before it is let go.
 */
#ifndef PAWL_REDLOCK_H
#define PAWL_REDLOCK_H

#include <sys/queue.h>

#include "engine/kit/wait.h"
#include "engine/redis/wire/wire.h"
#include "os/sleep.h"
#include "base/name.h"
#include "base/record.h"

#define REDLOCK_MS INT64_C(1000000)
/* How long an answer that nobody waits for is left alone. */
#define LATE_NS (10 * REDLOCK_MS)
enum { YIELD_NAMES = 64, REDLOCK_MAX = 31 };

struct redlock;
struct bid;

enum vote_state {
    VOTE_NONE,
    VOTE_ASKED,     /* no answer yet */
    VOTE_WAITS,     /* the voter's lock is another's; we are written down as waiting */
    VOTE_GRANTED,   /* ours, for its lease */
    VOTE_OVER,      /* it was, and its bid was told that it is lost or broken */
    VOTE_RETURNING, /* one of these is taken back: the voter was asked to once at most */
    VOTE_LEAVING,   /* taken back; the voter has not answered that yet */
    VOTE_STATES,
};
enum vote_event { VOTE_ASK, VOTE_YES, VOTE_NO, VOTE_RENEWED, VOTE_LOST, VOTE_RETURN, VOTE_UNANSWERED, VOTE_GONE, VOTE_EVENTS };
/* What a step means to others: something has changed; it is an answer to this attempt; what was granted is new. */
enum { VOTE_NEWS = 1 << 0, VOTE_ANSWERS = 1 << 1, VOTE_TAKES = 1 << 2 };
struct vote_move {
    uint8_t next, means;
};

/* What a vote is asked for with. */
struct vote_terms {
    uint64_t id;         /* the number in its owner's name */
    int64_t since_ms;    /* Unix time: since when its owner waits */
    uint64_t floor;      /* the least that its token is to be; 0: the server's time */
    uint32_t want;       /* so many tokens */
    int64_t max_hold_ns; /* 0, or: it must not last longer than that from its grant on */
    bool try_only, behind_others;
    bool alone; /* nobody else waited when it asked last: what it reads next is to be tracked */
};

struct vote {
    TAILQ_ENTRY(vote) all; /* redlock->votes */
    struct bid *bid;       /* NULL: it is over, but for this vote */
    unsigned voter;
    enum vote_state state;
    unsigned others_waiting; /* WAITS: how many others wait there */
    struct kit_grant grant;  /* GRANTED */
    int64_t asked_ns;        /* ASKED: for so long */
    int64_t held_since;      /* when the request left that was granted; 0: none was */
    int64_t seen_at;         /* GRANTED: when we heard of it */
    bool proven;             /* it was there before the hold, or together with a quorum of such votes: see hold.c */
    int64_t again_at;        /* WAITS: when to ask again may help; 0: now */
    char name[PAWL__NAME_MAX + 1];
    uint32_t name_hash;
    char owner[REDIS_OWNER_MAX];
    char label[PAWL__LABEL_SIZE]; /* if it is labelled: its own, since it may last longer than its claim */
    bool labelled;
    struct vote_terms terms;
    bool asked;                /* a request about its state is in flight */
    int number;                /* counts those requests: only the answer to the last one counts */
    bool registered;           /* the voter has it among those that wait */
    bool may_be_broken;        /* ASKED: it may have been granted before, and broken */
    bool asks_again;           /* what is in flight may be answered with what is not so any more */
    bool was_held;             /* when it was taken back */
    bool passes_on;            /* its end is told to the first of those that wait */
    unsigned failures;         /* in a row: the voter can't just now */
    struct kit_timer timer;    /* redlock->retries: then it is asked again */
    TAILQ_ENTRY(vote) renewal; /* voter->to_renew */
    bool renew_listed, renew_sent;
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
    BID_SAY_GONE = 1 << 20, /* gone already: tell it, unless that is under way */
};
struct bid_move {
    uint8_t next;
    uint32_t actions;
};

struct bid {
    struct kit_claim kit;
    TAILQ_ENTRY(bid) all; /* redlock->bids, or redlock->holding */
    enum bid_state state;
    struct kit_timer timer;             /* ASKING, RAISING: too late; RESTING: try again; LEAVING: nothing of it can be left */
    struct vote *votes[REDLOCK_MAX];    /* NULL: none there */
    int64_t since_ms;                   /* Unix time; names the bid among those of this client */
    int64_t started_at;                 /* the attempt */
    int64_t not_before;                 /* RESTING: however free the lock is */
    unsigned attempts, answered;        /* so far; voters in this attempt */
    bool behind_others;                 /* its first attempt is behind those that wait already */
    unsigned splits;                    /* attempts in a row that got votes, but too few */
    unsigned errors;                    /* voters that will never agree */
    int64_t held_since;                 /* for max_hold_ns: when the grant's request left */
    int64_t began_at;                   /* the hold */
    int64_t renewing_since;             /* the core waits for a renewal; 0: it does not */
    uint64_t owner;                     /* the number of the next vote's owner */
    unsigned granted_votes, lost_votes; /* LEAVING: that it had, and of which the voters knew nothing */
    bool lost;                          /* the core was told */
};
TAILQ_HEAD(bid_list, bid);

/* A server that votes. */
struct voter {
    struct server server; /* the first: voter_of() */
    unsigned index;
    char where[PAWL__URL_HOST_PORT]; /* for people */
    char url[1024];                  /* likewise, as that of a server alone */
    bool usable;                     /* when we last looked */
    bool tracks; /* the server tells the inbox of changes to keys that were asked for after CLIENT CACHING YES */
    bool silent;
    struct vote_list to_renew;
    int64_t renew_at; /* not before then */
    /* A request that left at `clock_local` was worked on when the server's clock showed `clock_us`; 0: not known. */
    int64_t clock_local, clock_us;
    unsigned clock_number; /* the connection that it was read on: it counts on no other */
};

struct redlock {
    struct redis wire; /* the first: redlock_of() */
    struct voter *voters[REDLOCK_MAX];
    unsigned count, quorum;
    char record[PAWL__RECORD_MAX];
    struct kit_reader reader; /* all callers wait for the same answers */
    int read_bell, timer_fd;  /* wakes the thread that reads; ends the sleep of serve() at a moment */
    pthread_cond_t called;    /* a call that is not about a bid was answered */
    struct spin spin;         /* the reader's */
    struct bid_list bids, holding;
    struct vote_list votes;
    struct kit_timers retries; /* of votes */
    int64_t refusal_due;       /* until then the log hears of no other release that was refused */
    uint64_t next_id;
    int64_t last_since_ms;
    int64_t attempt_ns;               /* how long the last attempt took that was granted */
    int64_t yield_until[YIELD_NAMES]; /* by the hash of a name: until when our bids for it go behind those that wait */
};

static inline struct redlock *redlock_of(struct pawl__engine *engine) {
    return (struct redlock *)engine;
}

static inline struct bid *bid_of(struct pawl__claim *claim) {
    return pawl__engine_state(claim);
}

static inline struct voter *voter_of(struct server *server) {
    return (struct voter *)server;
}

/* send.c: what voters are asked. The mutex is held here and below. */

struct voter_keys {
    char lock[REDIS_KEY_MAX], ballot[REDIS_KEY_MAX], wait[REDIS_KEY_MAX];
};
void pawl__voter_keys(const struct redlock *redlock, const char *name, struct voter_keys *ret);
/* See that the service thread looks by `when`. */
void pawl__redlock_due(struct redlock *redlock, int64_t when);
/* Make the thread that reads look around. */
void pawl__redlock_wake_reader(struct redlock *redlock);
/* The lease to ask for now: the engine's, or what is left of the longest that it may last. */
int64_t pawl__vote_lease_ns(const struct redlock *redlock, const struct vote *vote);
/* Send what the vote's state asks for, if nothing is in flight for it and the connection is there. */
void pawl__vote_send(struct redlock *redlock, struct vote *vote);
/* The same a little later each time: the voter can't just now. */
void pawl__vote_try_later(struct redlock *redlock, struct vote *vote);
/* Renew a granted vote with the others of its voter; or to see whether it is there. */
void pawl__vote_renew(struct redlock *redlock, struct vote *vote);
void pawl__vote_forget_renewal(struct redlock *redlock, struct vote *vote);
void pawl__voter_renew(struct redlock *redlock, struct voter *voter);
void pawl__voter_renew_later(struct redlock *redlock, struct voter *voter);
/* Renew a granted vote, and have no later holder get a token below `token + count`; its record gets this token. */
void pawl__vote_raise(struct redlock *redlock, struct vote *vote, uint64_t token, uint32_t count);
/* Have the voter tell of changes of keys, if it can and we may. */
void pawl__voter_track(struct voter *voter);
enum { REDLOCK_TRACKING = 1 }; /* `step` of that request */
/* What a renewal of several is about: `data` of its request. */
enum { RENEW_BATCH = 100 };
struct renewal {
    size_t count;
    int64_t sent_at; /* or a little before; a limit that was changed since then was not asked for */
    struct vote *votes[RENEW_BATCH];
    int64_t lease_ns[RENEW_BATCH]; /* what was asked for each */
};
/* A call that a thread waits for: `data` of its request. */
struct redlock_call {
    bool done, abandoned;
    redisReply *reply;
};

/* vote.c: asking one voter. */

/* Does it owe an answer since before `then`? One that has come, and that we have not read, does not count. */
bool pawl__voter_owes(const struct redlock *redlock, unsigned voter, int64_t then);

bool pawl__voter_usable(const struct redlock *redlock, unsigned voter);
unsigned pawl__voters_usable(const struct redlock *redlock);
/* It owes an answer for too long. */
void pawl__voter_silent(struct redlock *redlock, unsigned voter);
/* It has said something. */
void pawl__voter_heard(struct redlock *redlock, unsigned voter);
/* If it owes no answer any more, it counts as heard. */
void pawl__voter_listen(struct redlock *redlock, unsigned voter, int64_t now);
/* Before an attempt: who is silent? */
void pawl__voters_listen(struct redlock *redlock, int64_t now);
/* The only one to change a vote's state. Returns what that means; 0: nothing. */
unsigned pawl__vote_step(struct vote *vote, enum vote_event event);
/* Ask for the vote, again if it waits. `try_only`: yes or no. Does nothing where a vote is under way, or held. */
void pawl__vote_ask(struct redlock *redlock, struct bid *bid, unsigned voter, uint64_t floor, bool try_only);
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
void pawl__bid_recount(struct redlock *redlock, struct bid *bid);
/* Ask the voter for its vote, if it has not given it. */
void pawl__bid_top_up(struct redlock *redlock, struct bid *bid, unsigned voter);
/* `news`: KIT_LOST or KIT_BROKEN. */
void pawl__bid_lose(struct redlock *redlock, struct bid *bid, unsigned news, const struct pawl_error *why);

/* bid.c */
pawl__submit_fn pawl__redlock_submit;
pawl__withdraw_fn pawl__redlock_withdraw;
pawl__downgrade_fn pawl__redlock_downgrade;
pawl__why_fn pawl__redlock_why;
/* What an event is about: a voter, or the time. */
struct bid_input {
    int64_t now;
    struct vote *vote;
    unsigned voter;
    const struct pawl_error *why;
};
/* A cell of the table. */
struct bid_move pawl__bid_move(enum bid_state state, enum bid_event event);
/* The only one to change a bid's state. */
void pawl__bid_step(struct redlock *redlock, struct bid *bid, enum bid_event event, const struct bid_input *input);
/* Others wait for a lock that we let go: for a moment it is theirs first. */
void pawl__bid_yield(struct redlock *redlock, uint32_t name_hash);
/* What the clock asks for. */
void pawl__bids_tick(struct redlock *redlock, int64_t now);

/* lua/ */
extern const struct pawl__script pawl__redlock_scripts[SCRIPT_COUNT];

/* answer.c */
/* Work on what connections have to say; before the mutex is let go. */
void pawl__redlock_events_take(struct redlock *redlock);

/* pump.c: the threads that wait. */
extern const struct kit_ops pawl__redlock_kit;
/* Look at the voters anew: who has come, who has gone. */
void pawl__voters_look(struct redlock *redlock);
/* Sleep until there is something to do, or until `until`, and do it. Answers are read of the voters in the set `answers` (bits). The mutex
 * is held, and released meanwhile. */
void pawl__redlock_run(struct redlock *redlock, int64_t until, uint32_t answers);
pawl__serve_fn pawl__redlock_serve;
pawl__wake_fn pawl__redlock_wake;
pawl__park_fn pawl__redlock_park;
pawl__unpark_fn pawl__redlock_unpark;
pawl__adopt_fn pawl__redlock_adopt;

/* survey.c: no mutex held. */
wire_call_fn pawl__redlock_call;
pawl__survey_fn pawl__redlock_survey;
pawl__break_fn pawl__redlock_break;
pawl__examine_fn pawl__redlock_examine;

#endif
