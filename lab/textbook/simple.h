/* SPDX-License-Identifier: Apache-2.0
 *
 * simple.h - an engine of blocking calls alone: it fills struct simple_ops, and needs no thread, no queue and no timer of its own.
 *
 * The thread that runs serve() does all the work: it calls the server for one claim after the other, and the others wait meanwhile. So no
 * call may block for longer than a quarter of a lease. Who waits for a lock is asked for again and again. That is good enough where few
 * threads use a lock: each acquire costs two switches of threads.
 *
 *     event       ASKING     HELD       LEAVING    GONE
 *     GRANTED     HELD       .          .          .           the server has given it; in LEAVING: and gets it back next
 *     REFUSED     LEAVING    .          .          .           for good, or it was a try; what it left at the server is taken away
 *     WITHDRAWN   LEAVING    LEAVING    .          .
 *     RELEASED    .          .          GONE       .           and the core is told so
 */
#ifndef PAWL_SIMPLE_H
#define PAWL_SIMPLE_H

#include "engine/kit/claim.h"

enum simple_state { SIMPLE_ASKING, SIMPLE_HELD, SIMPLE_LEAVING, SIMPLE_GONE, SIMPLE_STATES };
enum simple_event { SIMPLE_GRANTED, SIMPLE_REFUSED, SIMPLE_WITHDRAWN, SIMPLE_RELEASED, SIMPLE_EVENTS };

/* The first member of the engine's own state of a claim. */
struct simple_claim {
    struct kit_claim kit; /* acquire() fills kit.grant, but for sent_at */
    TAILQ_ENTRY(simple_claim) link;
    enum simple_state state;
    bool renews;             /* the core has asked for it */
    bool refused;            /* LEAVING: told as refused, not as gone */
    int64_t due;             /* nothing to do before */
    struct pawl_error delay; /* why it is not decided; code 0: others have the lock */
};

/* The first member of the engine's own struct. */
struct simple {
    struct pawl__engine base;
    struct kit kit;
    const struct simple_ops *ops;
    TAILQ_HEAD(, simple_claim) claims;
    int64_t lease_ns;
    char url[256];
};

enum simple_answer { SIMPLE_NOT_YET, SIMPLE_YES, SIMPLE_NO };

/* What the server is asked, with no mutex held. Each call may block. */
struct simple_ops {
    int (*open)(struct simple *, struct pawl_error *reterr);
    void (*close)(struct simple *);
    /* NOT_YET: others have it, or `retwhy` says what is wrong for now. NO: never, and `retwhy` says why. */
    enum simple_answer (*acquire)(struct simple *, struct simple_claim *, struct pawl_error *retwhy);
    /* Release it, or give up what acquire() began. NOT_YET: the server has not answered. */
    enum simple_answer (*release)(struct simple *, struct simple_claim *);
    /* NO: it is not ours any more. NOT_YET: the server has not answered. */
    enum simple_answer (*renew)(struct simple *, struct simple_claim *);
    /* May be NULL: hear what the server has to say, until then or until kit.bell rings. */
    void (*listen)(struct simple *, int64_t until);
    pawl__survey_fn *survey;
};

/* Open it: `base`, and what `ops` need, is filled in. */
int pawl__simple_open(struct simple *simple, const struct simple_ops *ops, const struct pawl__setup *setup,
                      struct pawl_error *reterr);
/* The claims, one by one; NULL: the first. For ops alone. */
struct simple_claim *pawl__simple_next(struct simple *simple, struct simple_claim *claim);
/* The table above: the state that follows. */
enum simple_state pawl__simple_move(enum simple_state state, enum simple_event event);

pawl__close_fn pawl__simple_close;
pawl__forked_fn pawl__simple_forked;
pawl__describe_fn pawl__simple_describe;
pawl__submit_fn pawl__simple_submit;
pawl__withdraw_fn pawl__simple_withdraw;
pawl__serve_fn pawl__simple_serve;
pawl__wake_fn pawl__simple_wake;
pawl__renew_fn pawl__simple_renew;
extern const struct pawl__operators pawl__simple_operators;
extern const struct pawl__extras pawl__simple_extras;

/* The rest of the engine's struct pawl__engine_impl. */
#define PAWL__SIMPLE_IMPL                                                                                                          \
    .close = pawl__simple_close, .forked = pawl__simple_forked, .describe = pawl__simple_describe, .submit = pawl__simple_submit,  \
    .withdraw = pawl__simple_withdraw, .serve = pawl__simple_serve, .wake = pawl__simple_wake, .renew = pawl__simple_renew,        \
    .operators = &pawl__simple_operators, .extras = &pawl__simple_extras

#endif
