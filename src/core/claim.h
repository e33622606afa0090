/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.h - the claim, and what claim.c and keep.c do with it. cohort->mutex guards it.
 */
#ifndef PAWL_CORE_CLAIM_H
#define PAWL_CORE_CLAIM_H

#include "core/core.h"

/* The states of a claim; the table of their changes is in claim.c. */
enum claim_state {
    CLAIM_NEW,
    CLAIM_PENDING,
    CLAIM_HELD,
    CLAIM_OPEN,
    CLAIM_KEPT,
    CLAIM_LEAVING,
    CLAIM_GONE,
    CLAIM_LOST,
    CLAIM_STATES
};

/* What may become of a claim: what the engine tells (enum pawl__news), and what it answers. */
enum {
    CLAIM_QUEUED = NEWS_WANTED + 1, /* submitted, not decided */
    CLAIM_LEAVES,                   /* withdrawn, not gone yet */
    CLAIM_OPENS,                    /* its last hold is over, and the first that comes may have it */
    CLAIM_RESTS,                    /* its last hold is over, and it is kept */
    CLAIM_RESUMES,                  /* it was open or kept, and is held again */
    CLAIM_OUTCOMES,                 /* so many change its state */
    CLAIM_NOTHING = CLAIM_OUTCOMES,
    CLAIM_SUSPECT,   /* not renewed for long */
    CLAIM_RECOVERED, /* suspect, and renewed after all */
    CLAIM_IDLE,      /* kept, and not entered for long */
};

/* In the table, beside states. */
enum { CLAIM_NEVER = CLAIM_NEW, CLAIM_IGNORED = CLAIM_STATES };

struct claim_terms {
    enum pawl_mode mode;
    uint32_t permits;
    bool try_only;
    int64_t max_hold_ns;
    int64_t keep_ns; /* of the handle, as the next */
    struct label *label;
};

/* What is known, under a granted claim, of the value beside the lock; and its writes. core/value.c has the rules. */
struct claim_value {
    struct pawl__value_stock stock;
    bool known;             /* what is in stock is what lies there; without a value: nothing does */
    unsigned writing;       /* writes under way */
    uint64_t writes;        /* begun so far: the number of the last */
    uint64_t unsure[PARTS]; /* the last write that had no answer, and none after it was written; 0: none */
};

/* Its lease, copied here under the mutex, since serve() writes the seam's part; base/lease.h has the picture. */
struct claim_lease {
    int64_t sent_at, ns, renew_at, suspect_at, assured_until;
    int64_t fresh_tick;             /* in this tick of the clock it was last seen far from the end of what is assured; 0: in none */
    int64_t held_since, hold_until; /* HELD: its limit counts from here, and ends here; PAWL__NEVER: it has none */
    bool suspect;                   /* its holders were told so */
    bool renewing;                  /* a renewal was asked for and is not answered yet */
    int64_t denied_at; /* 0, or: when the server was heard to say that it is not held, which a later renewal is to tell */
};

/* What bounds it, where others may want it. */
struct claim_bounds {
    uint32_t joined;      /* acquires that joined it */
    uint32_t join_limit;  /* at most so many may, once it is wanted, or if it would not be told */
    uint32_t entered;     /* holds that were begun under it; may wrap around */
    uint32_t enter_limit; /* once its bounds have begun: where that ends */
    int64_t join_until;   /* past this nobody joins and it is not handed on; 0: nobody has joined yet */
};

/* The tokens of its holds. */
struct claim_tokens {
    uint32_t used;            /* holds that took one of those that were granted */
    uint32_t stock, reserved; /* that no hold has got yet, the first of which is `next`; so many are spoken for */
    uint32_t low;             /* when so many are left, more are ordered; 0: never */
    uint64_t next;
    bool ordered; /* more were, and did not come yet */
};

/* What is known of its use since it may be kept. */
struct claim_keeping {
    bool counted;          /* in client->keeping */
    bool entered_again;    /* after it had been kept */
    uint32_t entered_then; /* bounds.entered ... */
    int64_t idle_since;    /* ... when the service thread looked; 0: it does not look yet */
};

struct claim {
    TAILQ_ENTRY(claim) link;      /* cohort->claims, later ->leaving */
    TAILQ_ENTRY(claim) unsettled; /* cohort->unsettled */
    struct cohort *cohort;
    struct waiter_list waiters;
    struct hold_list holds;
    enum claim_state state; /* the first of those that are zeroed for every claim anew, up to `seam` */
    bool parked;            /* a thread is in the engine's park() for it: it alone may call the engine, and cleans up afterwards */
    bool adopted;           /* serve() waits for it */
    bool is_unsettled;      /* in cohort->unsettled */
    bool withdraw_after_park; /* to be withdrawn by the thread that is parked */
    bool downgrading;         /* held, and on its way from exclusive to shared */
    int lost_early;           /* PENDING: it was told NEWS_LOST or NEWS_BROKEN, and not yet that it is granted; else 0 */
    bool wanted;              /* another process waits behind it: it is not kept, and ends at its bounds */
    pthread_t retired_by;     /* LEAVING: who withdrew it, and wants to know whether it had been lost */
    bool awaited;             /* LEAVING: that thread comes back for it: no other looks after it meanwhile */
    struct claim_bounds bounds;
    struct claim_tokens tokens;
    struct claim_lease lease;
    struct claim_keeping keeping;
    struct claim_value value;
    struct label *label;     /* a reference, or NULL; its text is the seam's */
    struct pawl__claim seam; /* last: the engine's state follows it */
};

static inline struct claim *claim_of(struct pawl__claim *seam) {
    return (struct claim *)((char *)seam - offsetof(struct claim, seam));
}

/* May its engine do I/O wherever it is called? Not so for rest() and resume(): see engine.h. */
static inline bool does_io(const struct claim *claim) {
    return claim->cohort->client->does_io;
}

/* Does nobody tell when it is taken away (see check() in engine.h)? Then those who wait for it look now and then: its holder may not. */
static inline bool needs_looks(const struct claim *claim) {
    return claim->state == CLAIM_HELD && claim->cohort->engine->impl->extras->check;
}

/* If it was taken away, does the engine find that, too, when it is to be kept (see rest() in engine.h), and can it not end otherwise? */
static inline bool rest_finds_loss(const struct claim *claim) {
    return claim->lease.assured_until == PAWL__NEVER && claim->cohort->engine->impl->extras->check;
}

/* Will the engine tell when others want it? Then it has no bounds before that. */
static inline bool is_told(const struct claim *claim) {
    return claim->seam.keep_ns || claim->seam.hears;
}

/* One more hold of the process begins under it. */
static inline void note_handed_on(struct claim *claim) {
    atomic_store_explicit(&claim->seam.handed_on, true, memory_order_relaxed);
}

/* Is there a token for one more hold under it? */
static inline bool has_token(const struct claim *claim) {
    return claim->tokens.stock > claim->tokens.reserved || claim->cohort->engine->impl->extras->retoken;
}

/* May a write of it still come through at the server? Then nobody else enters it: what was begun by one hold must not happen in another. */
static inline bool is_unsure(const struct claim *claim) {
    return claim->value.writing || claim->value.unsure[PART_VALUE] || claim->value.unsure[PART_NOTE];
}

/* keep.c: when a claim is kept, and for how long. cohort->mutex is held. */

/* Can locks be kept on such an engine, with so many hand-offs? 0, or PAWL_EOPTION. */
int pawl__keep_check(const struct pawl__engine_impl *impl, uint32_t handoffs, struct pawl_error *reterr);
/* What a claim of the cohort on these terms is made with: 0, or how long it may be kept. Called once for each claim. */
int64_t pawl__keep_ns(struct cohort *cohort, const struct claim_terms *terms);
/* Is a claim of the cohort on these terms to be told when others want it, though it may not be kept? */
bool pawl__keep_hears(const struct cohort *cohort, const struct claim_terms *terms);
/* The last hold of the claim, through this handle, is over: may it be kept? */
bool pawl__keep_may_rest(const struct claim *claim, const struct pawl_lock *lock);
/* The claim is kept from now on. */
void pawl__keep_begin(struct claim *claim);
/* It is wanted. Its bounds begin now, or with its grant. */
void pawl__keep_wanted(struct claim *claim);
/* Is it one that ends at its bounds: since it would not be told, or is wanted? Where the holder can see that for itself, it looks. */
bool pawl__keep_is_bounded(struct claim *claim);
/* It was recalled while it was kept: was it of use before? */
void pawl__keep_learn(struct claim *claim);
/* A claim that is kept: may an acquire with this other label enter it? */
bool pawl__keep_fits(const struct claim *claim, const struct label *label);
/* It was granted at once and nobody else wants it; or not. */
void pawl__keep_note(const struct claim *claim, bool alone);
/* Has a kept claim been idle for long enough? If not, `retdue` is when to look again. */
bool pawl__keep_is_over(struct claim *claim, int64_t now, int64_t *retdue);

/* claim.c: one claim, from submit to gone. cohort->mutex is held. Those that return an outcome leave it to the caller what follows. */

/* The table: the next state, CLAIM_IGNORED or CLAIM_NEVER. */
int pawl__claim_move(enum claim_state state, int outcome);
/* A claim on these terms. NULL: out of memory. */
struct claim *pawl__claim_new(struct cohort *cohort, const struct claim_terms *terms);
/* It is GONE. */
void pawl__claim_free(struct claim *claim);
/* Twice what the last claim used, within the bound; 1 if it used 1. */
uint32_t pawl__claim_tokens(const struct cohort *cohort, uint32_t used);
/* Ask the engine for it: NEWS_GRANTED, NEWS_REFUSED, or CLAIM_QUEUED. */
int pawl__claim_submit(struct claim *claim, struct pawl_error *reterr);
/* The same for claims of different cohorts, whose mutexes are all held: all of them, or none. */
int pawl__claim_submit_all(struct claim *const claims[], size_t count, struct pawl_error *reterr);
/* It is not submitted after all. */
int pawl__claim_drop(struct claim *claim);
/* Wait in the engine for a pending claim, in this thread; the mutex is released meanwhile. As submit. */
int pawl__claim_wait(struct claim *claim, int64_t deadline, struct pawl_error *reterr);
/* End that wait soon. */
void pawl__claim_unpark(struct claim *claim);
/* Hand a claim to the service thread. False: there is none, and none can be started. */
bool pawl__claim_adopt(struct claim *claim);
/* Does serve() wait for it? */
bool pawl__claim_is_adopted(const struct claim *claim);
/* Why is it of no use to those who wait? 0: others are ahead. See pawl__why_fn. */
int pawl__claim_why(struct claim *claim, struct pawl_error *ret);
/* Its last hold is over: leave it open. The next hold under it ends that. */
void pawl__claim_open(struct claim *claim);
/* Its last hold is over, or ends before the mutex is released: keep it, if it may be kept. Else it is as before. */
bool pawl__claim_rest(struct claim *claim);
/* It is KEPT: take it again, if it is certainly held and has a token left. Else it is to be withdrawn. */
bool pawl__claim_resume(struct claim *claim);
/* Withdraw it. 0, or PAWL_ELOST: it had been lost. Afterwards it is LEAVING or GONE. */
int pawl__claim_withdraw(struct claim *claim);
/* The caller looks after it from now on: it is not in cohort->unsettled any more. */
void pawl__claim_take_up(struct claim *claim);
/* Let readers in: NEWS_DOWNGRADED, NEWS_LOST, NEWS_BROKEN, or CLAIM_NOTHING: it is under way. */
int pawl__claim_downgrade(struct claim *claim, struct pawl_error *reterr);
/* Finish, in this thread, a withdrawal or downgrade that nobody looks after; the mutex is released meanwhile. If that takes longer than a
 * moment the service thread does, and it is CLAIM_NOTHING. `retlost`: what this thread withdrew had been lost before. */
int pawl__claim_finish(struct claim *claim, bool *retlost);
/* One more hold under the claim. False: there is no token for it. `rettoken`: its token, or 0: one is reserved. */
bool pawl__claim_enter(struct claim *claim, uint64_t *rettoken);
/* The token that was reserved. */
uint64_t pawl__claim_draw(struct claim *claim);
/* The hold has ended, and did not ask for it. */
void pawl__claim_unreserve(struct claim *claim);
/* If no token is left: take those that were ordered, if they have come. */
void pawl__claim_restock(struct claim *claim);
/* Forget what is known of its value. */
void pawl__claim_forget_value(struct claim *claim);
/* The server says that it is not held: have the engine ask, and tell. */
void pawl__claim_ask(struct claim *claim);
/* Give a held claim that has a limit another; and in any case ask the engine to renew it: what is sent from `retasked_at` on knows the new
 * limit. True: there is nothing to ask. */
bool pawl__claim_extend(struct claim *claim, int64_t until, int64_t *retasked_at);
/* Is its time over, or was it taken away, and nobody has noticed yet: since the process was stopped, the service thread is late, or nobody
 * looked? */
bool pawl__claim_is_over(const struct claim *claim);
/* Is it lost by now? NEWS_LOST, NEWS_BROKEN or CLAIM_NOTHING. */
int pawl__claim_look_at(struct claim *claim, struct pawl_error *ret);
/* It is granted, and its waiters have it: was it lost or broken before that? NEWS_LOST, NEWS_BROKEN or CLAIM_NOTHING. */
int pawl__claim_lose_early(struct claim *claim, struct pawl_error *ret);
/* Expiry, suspicion, renewal; and when to look again. */
int pawl__claim_tick(struct claim *claim, int64_t now, int64_t *retdue, struct pawl_error *ret);
/* What the engine tells. `why` is read, and may be written. */
int pawl__claim_news(struct claim *claim, enum pawl__news news, struct pawl_error *why);

#endif
