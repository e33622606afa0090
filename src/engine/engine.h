/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.h - the seam between the core and the engines: claims.
 *
 * A claim is one entry in an engine's queue for a name. The engine knows claims, and nothing of threads, owners, nesting, time-outs
 * or callbacks of users; the core knows those, and nothing of znodes, keys or tables. Each direction has one rule:
 *
 *   down  submit, submit_all, withdraw, downgrade start something and never block; they answer DONE or PENDING (or an error that ends the
 *         claim). What is PENDING is finished by park() or by serve().
 *   up    the engine tells news of claims only from within serve(), with no lock of its own held. The other operations answer by
 *         returning. That a lock should be looked at again, for observers, it may say at any time (changed).
 *
 * Who waits for a claim that is PENDING? Either one thread of the caller's, in park(); or, once adopt() was called for the claim,
 * serve(), for the rest of the claim's life. Never both. An engine without parking (it needs its loop anyway) has every claim served.
 *
 *          submit            granted               withdraw
 *     NEW -------> PENDING ----------> HELD ------------------> LEAVING ------> GONE
 *      |              |  \               | \   downgrade           ^     settled
 *      |              |   \ ended        |  `--> HELD (shared)     |
 *      +---(error)----+----+-----> GONE  +------- lost ------> withdraw, by the core
 *
 * Submit and withdraw are idempotent by the claim's id: running either again after a lost reply does no harm.
 *
 * Threads: the core calls submit, withdraw, downgrade, retoken and tokens for one claim from one thread at a time, but for
 * many claims at once. park() runs with no lock of the core held, and while it runs nothing but unpark() is called for its claim.
 *
 * Memory: a claim may be freed as soon as the engine has said that it is gone, so no upcall for it may be on its way then. For a
 * claim that serve() looks after, withdraw and downgrade therefore answer PENDING, and serve() tells GONE or DOWNGRADED.
 */
#ifndef PAWL_ENGINE_H
#define PAWL_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lease.h"
#include "base/record.h"
#include "base/value.h"
#include "os/clock.h"
#include "pawl.h"

struct pawl__url;
struct pawl__engine;
struct pawl__claim;
struct pawl__observer;

/* Answers of the operations that start something. Negative: a PAWL_E..., and the claim is gone. */
enum { PAWL__PENDING = 0, PAWL__DONE = 1 };

/* What a claim asks for and what it got. The core fills the first part before submit and does not change it while the claim lives
 * (but for `mode`, by downgrade); the engine fills the second when it grants. The engine's own state follows the struct in memory:
 * see pawl__engine_state. */
struct pawl__claim {
    uint64_t id[2]; /* unique: the client's random number, and a count */
    const char *name;
    uint32_t name_length;
    uint32_t name_hash; /* pawl__name_hash(name): so that no engine hashes it again */
    enum pawl_kind kind;
    enum pawl_mode mode;
    uint32_t permits; /* 1 but for semaphores */
    uint32_t limit;   /* semaphores: permits in all; else 1 */
    bool nonreentrant;
    const char *label;   /* for its record, instead of the one in the identity; NULL: that one. It is there as long as the claim */
    bool try_only;       /* don't queue: DONE, or PAWL_EHELD */
    int64_t max_hold_ns; /* 0, or: no lease that is asked for ends later than that after the grant. The core sees to the rest */
    /* 0, or: max_hold_ns counts no more, and no lease that is asked for ends later than this moment. The core may change it while the claim
     * is held, before it calls renew(). */
    _Atomic int64_t hold_until;
    int64_t keep_ns; /* 0, or: it may be kept (see struct pawl__keeping). Others must be able to tell that it is in their way */
    bool
        hears; /* WANTED is to be told of it, though it may not be kept: several threads of the process share it. See keeping->hears */
    _Atomic bool
        handed_on; /* with hears: inside the process. Set by the core each time, cleared by the engine when it has looked */
    _Atomic uint32_t
        token_want; /* how many tokens may be of use: one for each acquire that the claim will serve; may rise. Fewer will do */

    /* Pending: the claims of this client stand in the queue of the name in the order of these numbers. 0: nobody knows where it stands, or
     * the server has not said that it is there. Set by the engine, with pawl__place_take() and pawl__place_lost(). */
    _Atomic uint32_t place;

    uint64_t token;       /* the first of ... */
    uint32_t token_count; /* ... so many that belong to this claim alone; the core adds those of tokens() */
    int64_t sent_at;      /* pawl__boottime() when the request left that granted or last renewed the claim */
    int64_t lease_ns;     /* what it asked for; PAWL__NEVER: the hold does not expire */
    bool wanted;          /* with keep_ns or hears: others waited for it already when it was granted */
};

/* What an engine is opened with. Borrowed for the call of open(). */
struct pawl__setup {
    struct pawl__url *url; /* take the options you know by pawl__url_option(); the core refuses what is left */
    struct pawl__identity identity;
    int64_t lease_ns;    /* 0: the engine's default */
    int64_t patience_ns; /* PAWL__NEVER, or: open() waits no longer for the server */
    bool inherit;        /* PAWL_OPEN_INHERIT */
    bool look;           /* PAWL_OPEN_LOOK: no claim will be submitted */
};

/* What the core is told about a claim. */
enum pawl__news {
    NEWS_GRANTED, /* pending, and now held; its token and lease are filled in */
    NEWS_REFUSED, /* pending, and over without ever having been held: PAWL_EHELD, PAWL_EKIND, PAWL_ECONNLOST, ... The claim is gone */
    NEWS_GONE,    /* its withdrawal has come through */
    NEWS_DOWNGRADED, /* its downgrade has come through. The claim may have been withdrawn while this was on its way */
    NEWS_RENEWED,    /* held: sent_at and lease_ns are new; if lease_ns alone is, and less, it is no renewal */
    NEWS_LOST,       /* held, and not any more. Not gone: the core answers with withdraw, at once */
    NEWS_BROKEN, /* likewise, by an operator: the claim is in the way until its holder has let go, and the core withdraws it then */
    NEWS_WANTED, /* pending or held, with keep_ns or hears: another waits behind it. May be told twice, and for one that has given up */
};

/* The upcall: only from within serve(), with no lock held. `why`: for REFUSED, LOST and BROKEN, else NULL. An engine with park() may tell
 * RENEWED, WANTED, LOST and BROKEN for claims that nobody adopted, too; then no park() for the claim may answer while it does. So the core
 * may hear LOST and BROKEN before it hears, from park(), that the claim was granted: then they count from there on. */
typedef void pawl__tell_fn(void *core, struct pawl__claim *claim, enum pawl__news news, const struct pawl_error *why);

/* The other upcall: what the observer looks at may have changed. From any thread, also with a mutex of the engine's held: it only takes a
 * note and wakes the thread that looks. See struct pawl__values. */
typedef void pawl__changed_fn(void *core, struct pawl__observer *observer);

/* One open engine: the first member of every engine's own struct. */
struct pawl__engine {
    const struct pawl__engine_impl *impl;
    pawl__tell_fn *tell;       /* set by the core before open() */
    pawl__changed_fn *changed; /* likewise */
    void *core;
    /* A line for the trace, without newline; NULL: nobody listens, so don't even format. Set before open(). May be called from
     * any operation and any thread. Use pawl__note(). */
    void (*note)(void *note_data, const struct pawl__claim *claim, const char *text);
    void *note_data;
    void (*warn)(void *warn_data, const char *text); /* for an operator; NULL: silence */
    void *warn_data;
    _Atomic uint32_t places;                     /* see struct pawl__claim */
    bool interruptible;                          /* park() answers PENDING when a signal has ended its sleep. Set before open() */
    const struct pawl__engine_impl *traced_impl; /* engine/trace.c: what it stands in front of */
    pawl__tell_fn *traced_tell;
    pawl__changed_fn *traced_changed;
    void *traced_core;
};

/* The server says that the claim has come into the queue, and said so before of all that came before it. */
static inline void pawl__place_take(struct pawl__engine *engine, struct pawl__claim *claim) {
    atomic_store(&claim->place, atomic_fetch_add(&engine->places, 1) + 1);
}

/* It may not be there any more, or somewhere else. */
static inline void pawl__place_lost(struct pawl__claim *claim) {
    atomic_store(&claim->place, 0);
}

/* The operations. An optional one may be NULL in its table. */

/* Open what the URL names. On failure nothing stays behind. */
typedef int pawl__open_fn(struct pawl__engine *, const struct pawl__setup *, struct pawl_error *reterr);
/* Every claim is gone or abandoned by now; leave in an orderly way, by the deadline at the latest. No other call is under way. */
typedef void pawl__close_fn(struct pawl__engine *, int64_t deadline);
/* In the child, right after fork: let go of what keeps the parent's holds alive (not if PAWL_OPEN_INHERIT asked for the opposite).
 * Only async-signal-safe calls. No other operation is ever called in the child. */
typedef void pawl__forked_fn(struct pawl__engine *);
/* Fill url (resolved, without secrets), lease_ms and notice_ms, and add PAWL_OPEN_INHERIT to the flags where it is in force. Strings live
 * as long as the engine. */
typedef void pawl__describe_fn(const struct pawl__engine *, struct pawl_info *ret);

/* Ask for the claim. DONE: granted. PENDING: not decided yet. try_only claims are never queued. */
typedef int pawl__submit_fn(struct pawl__engine *, struct pawl__claim *, struct pawl_error *reterr);
/* Optional: ask for all of these claims at once: all are granted, or none. They are try_only, and of different names. The answer is one
 * for all: DONE, PENDING (then each is decided like any other, all of them alike if the engine has its way), or an error, and all
 * are gone. PAWL_EUNSUPPORTED: not these, not together; the core asks for each by itself. */
typedef int pawl__submit_all_fn(struct pawl__engine *, struct pawl__claim *const claims[], size_t count, struct pawl_error *reterr);
/* Release or give up, in any state of the claim. DONE: gone. PENDING: it will be. PAWL_ELOST: gone, and had been lost before. */
typedef int pawl__withdraw_fn(struct pawl__engine *, struct pawl__claim *);
/* Make a held exclusive claim a shared one, with the same token; claim->mode is still exclusive and is changed by the core. */
typedef int pawl__downgrade_fn(struct pawl__engine *, struct pawl__claim *);
/* Where tokens come from once the claim's token_count are drawn; an engine has one of these two, or neither. They are not one operation,
 * since a token that is made at once costs nothing, is there for any mode, and need not follow the last, while more of them cost a
 * request, are ordered before they are needed, for an exclusive claim that nobody wants, and lengthen its stock. Under one name the core
 * would need a mark for which of the two it has, and would look at it wherever it asks. */

/* Optional: a fresh token for a claim that is handed on inside the process, or kept there; 0: not now. Never blocks. */
typedef uint64_t pawl__retoken_fn(struct pawl__engine *, struct pawl__claim *);
/* Optional: `want` more tokens for a held exclusive claim. PENDING: asked, call again. DONE: `ret` of them follow those that it has; the
 * next call asks anew. PAWL_EHELD: it gets none, however often it asks. Never blocks. */
typedef int pawl__tokens_fn(struct pawl__engine *, struct pawl__claim *, uint32_t want, uint32_t *ret);

/* Optional: wait in the calling thread until what is pending for the claim is decided. DONE: granted, gone or downgraded.
 * PENDING: the deadline has passed, unpark() was called, or a signal came (engine->interruptible); nothing is decided. Negative: the
 * claim is gone (see submit). */
typedef int pawl__park_fn(struct pawl__engine *, struct pawl__claim *, int64_t deadline, struct pawl_error *reterr);
/* With park: make the claim's park() return PENDING soon; if none runs, the next one. */
typedef void pawl__unpark_fn(struct pawl__engine *, struct pawl__claim *);
/* With park: from now on serve() waits for this pending claim. Not while park() runs. Once decided, stays adopted. */
typedef void pawl__adopt_fn(struct pawl__engine *, struct pawl__claim *);
/* Optional: is this held claim still good? 0; PAWL_ELOST: it was broken; PAWL_EGONE: so is all that it was in. Never waits, any thread. For
 * engines whose holders can see that for themselves: they don't tell LOST; serve() returns when a hold may have been lost, and the
 * core asks here. */
typedef int pawl__check_fn(const struct pawl__engine *, const struct pawl__claim *);

/* Optional: why is this pending claim not granted, or this held one of no use to the others of its process? 0: others are ahead.
 * Else the code with which an acquire ends whose time is up, and in `ret` the reason: PAWL_ECONNLOST, PAWL_EACCES, PAWL_EREPLICAS;
 * PAWL_ETIMEOUT where the server has not answered, or refuses for a while. Any thread, also while park() runs. Never blocks. */
typedef int pawl__why_fn(struct pawl__engine *, struct pawl__claim *, struct pawl_error *ret);

/* Run by the client's service thread: I/O, timers, upcalls; returns at the deadline, after upcalls, or soon after wake(). */
typedef void pawl__serve_fn(struct pawl__engine *, int64_t deadline);
/* Make serve() return soon; if none runs, the next one. Any thread. */
typedef void pawl__wake_fn(struct pawl__engine *);
/* Optional (engines with leases): put this held claim on the list of those that serve() renews next, all of them in as few requests
 * as possible. The answer to a request that left after this call is told, RENEWED or LOST; that to an earlier one may be, too. Never
 * blocks. */
typedef void pawl__renew_fn(struct pawl__engine *, struct pawl__claim *);

/* Visit the holders and waiters of `name`, or of all locks: as pawl_inspect. May take as long as the engine needs, within limits. */
typedef int pawl__survey_fn(struct pawl__engine *, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr);
/* As pawl_break. */
typedef int pawl__break_fn(struct pawl__engine *, const char *name, uint64_t token, bool now, struct pawl_error *reterr);

/* Optional. As pawl_examine. */
typedef int pawl__examine_fn(struct pawl__engine *, pawl_finding_fn *visit, void *data, struct pawl_error *reterr);

/* For engines that can wait in the caller's thread: all three. */
struct pawl__parking {
    pawl__park_fn *park;
    pawl__unpark_fn *unpark;
    pawl__adopt_fn *adopt;
};

/* What is asked for by operators, not about claims of ours. */
struct pawl__operators {
    pawl__survey_fn *survey;
    pawl__break_fn *break_hold;
    pawl__examine_fn *examine;
};

/* For engines whose claims can be kept: held by the process, while nobody in it holds. A kept claim goes back when it is wanted: the
 * engine tells WANTED as soon as it learns of it, whether the claim is kept or in use. Where those who wait can't make themselves heard,
 * it tells WANTED when keep_ns have passed since the grant. Both never block. */
struct pawl__keeping {
    /* It keeps without being asked to, once nobody else has wanted the name for a while: keep_ns is PAWL__NEVER then. Those who want it
     * take it away by themselves, and WANTED is not told. */
    bool always;
    /* It tells WANTED also of claims that hear and may not be kept: `hears`. Those who can't make themselves heard are looked for while the
     * claim is handed on (`handed_on`). */
    bool hears;
    /* The last hold under this held claim is over, and nobody in the process waits for it. DONE: it is kept. PAWL_EHELD:
     * it can't be kept: others want it, or would not be heard, or there is no room; or check(), where there is one, would say that it is
     * lost. The core withdraws it. Neither this nor resume() is a point at which a thread may be cancelled. */
    int (*rest)(struct pawl__engine *, struct pawl__claim *);
    /* Somebody in the process wants the kept claim again. DONE: it is held. PAWL_EHELD: it was taken away, or may have been, or others may
     * want it and could not be heard: the core withdraws it and asks anew. */
    int (*resume)(struct pawl__engine *, struct pawl__claim *);
    /* Optional: is this held claim wanted? For engines whose holders can see that for themselves, and do not tell WANTED. */
    bool (*is_wanted)(const struct pawl__engine *, const struct pawl__claim *);
};

/* ---- Values: what lies beside a lock in the same server, and is written only by who holds it ---- */

/* Two of them lie beside each lock, apart from each other. */
enum pawl__part {
    PART_VALUE, /* the user's: pawl_value_set */
    PART_NOTE,  /* pawl_note_set: when a job last succeeded */
    PARTS,
};

/* How new must be what is read? */
enum pawl__fresh {
    FRESH_LATEST, /* no older than any write that was answered before the call */
    FRESH_GRANT,  /* this client holds the lock while the call runs: as new as the connection that brought the grant shows it */
    /* It observes the lock: as new as the connection that told of a change shows it; the next change is told, too. Where locks are at
     * several servers, one that is down is not waited for: changed() is said when it is back. */
    FRESH_TOLD,
};

/* Who writes: what the engine needs to know of a claim to write in its name, though the claim may be gone meanwhile. Opaque. */
struct pawl__author {
    _Alignas(16) unsigned char bytes[256];
};

struct pawl__write {
    const char *name;
    uint32_t name_length, name_hash;
    enum pawl__part part;
    const void *bytes; /* NULL: delete it. Else `size` of them, PAWL_VALUE_MAX at most; any bytes */
    size_t size;
    uint64_t token; /* of the hold that writes */
    /* Who it is, filled by sign(); NULL: the one who has the token, wherever it is (pawl_value_set_as). */
    const struct pawl__author *author;
    uint64_t number; /* of the author's writes, rising, from 1; 0 where the author is NULL */
};

/* One who observes a lock. The core makes and frees it; the engine's own part is its own matter. */
struct pawl__observer {
    const char *name;
    uint32_t name_length, name_hash;
    int64_t every_ns; /* by observe(): look so often though nothing was told; PAWL__NEVER: there is no need to */
    void *engine_part;
};

/* Blocking calls, with one absolute deadline, from any thread, many at once. No mutex of the core's is held, and no claim is touched:
 * what they need of it was copied by sign(). They run while serve() and park() do. */
struct pawl__values {
    /* Copy who the holder of this exclusive claim is. It is held, as far as is known here. The core's mutex is held; never blocks. */
    void (*sign)(struct pawl__engine *, struct pawl__claim *, struct pawl__author *ret);
    /* Write, in one step at the server that nobody else's step comes between: is the author's entry there, exclusive, and not broken; and
     * has it not written this part with a higher number; then write, with its token and a version above all earlier ones, also those
     * of what was deleted.
     *   0              written (or deleted; also what was not there). `ret` says how; version 0: this can't be said, and what is there now
     *                  may be another's. Also if a higher number of the same author came first: then this one was overwritten before
     *                  it was seen, and `ret` may be of that.
     *   PAWL_ELOST     nothing was written: the entry is gone, broken or shared.
     *   PAWL_ETOKEN    the same, of one who is named by the token: it is not among those of an exclusive entry that stands. A broken one
     *                  does not stand.
     *   PAWL_EKIND     the same: the token is that of a semaphore.
     *   PAWL_ECONNLOST, PAWL_EACCES, PAWL_ENOSPACE, ...   nothing was written, and nothing is on its way.
     *   PAWL_EUNKNOWN  no answer by the deadline: it may be written, now or later, as long as the author's entry stands and it writes
     *                  nothing more.
     *   PAWL_EREPLICAS written, but fewer replicas have it than the URL asks for.
     * After a lost answer the engine asks again, with the same number: that changes nothing if it was written. Where the author is NULL
     * it sees to it in its own way that what it asks again does not undo what was written since. */
    int (*set)(struct pawl__engine *, const struct pawl__write *, int64_t deadline, struct pawl__stamp *ret,
               struct pawl_error *reterr);
    /* Read it. `ret` NULL: nothing lies there. `retnow`, unless NULL: the server's clock at about that time, in us since 1970, also where
     * nothing lies. PAWL_ECONNLOST or PAWL_ETIMEOUT: no answer by the deadline. PAWL_EFORMAT: what lies there was not written by a pawl; it
     * is never told as a value. */
    int (*get)(struct pawl__engine *, const char *name, enum pawl__part part, enum pawl__fresh fresh, int64_t deadline,
               struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr);
    /* From now on say changed() after every change of who holds the lock, or of its value. Once for several is enough, too often does no
     * harm; renewals need not be told. Say it too when it is only now that you hear (again): the core looks, by survey() and get(), after
     * each, so listen first and say it then. Never blocks. Fills every_ns. */
    int (*observe)(struct pawl__engine *, struct pawl__observer *, struct pawl_error *reterr);
    /* No changed() for it is under way, or comes, once this has returned. Not called from within changed(). */
    void (*unobserve)(struct pawl__engine *, struct pawl__observer *);
    /* Who holds one lock, as survey() shows it: the first one will do, and who waits need not be shown. By the deadline, since pawl_close
     * waits for it, and by requests whose number and size do not depend on those who wait. As FRESH_TOLD: one thread looks at all locks,
     * and those of a server that is down must not keep it from the others. Optional, where survey() does no worse. */
    int (*look)(struct pawl__engine *, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                struct pawl_error *reterr);
};

/* What some engines can do with a claim; all but `downgrade` may be NULL. */
struct pawl__extras {
    pawl__submit_all_fn *submit_all;
    pawl__downgrade_fn *downgrade;
    pawl__retoken_fn *retoken;
    pawl__tokens_fn *tokens;
    pawl__check_fn *check;
    pawl__why_fn *why;
};

struct pawl__engine_impl {
    const char *name;           /* "local" */
    const char *const *schemes; /* of the URLs it answers to; NULL-terminated */
    size_t engine_size;         /* of its own struct; the core allocates it zeroed and frees it */
    size_t claim_size;          /* of its own state per claim; zeroed before every submit */

    pawl__open_fn *open;
    pawl__close_fn *close;
    pawl__forked_fn *forked;
    pawl__describe_fn *describe;
    pawl__submit_fn *submit;
    pawl__withdraw_fn *withdraw;
    pawl__serve_fn *serve;
    pawl__wake_fn *wake;
    pawl__renew_fn *renew;
    const struct pawl__parking *parking; /* NULL: serve() waits for every claim */
    const struct pawl__operators *operators;
    const struct pawl__extras *extras;
    const struct pawl__keeping *keeping; /* NULL: no claim is ever kept, and keep_ns is 0 */
    const struct pawl__values *values;   /* NULL: there are none, and nobody observes: PAWL_EUNSUPPORTED */
};

/* The engine's own state of a claim. */
static inline void *pawl__engine_state(struct pawl__claim *claim) {
    return claim + 1;
}

/* Is anybody listening to the trace? Formatting is not free. */
#define pawl__noting(engine) ((engine)->note != NULL)
/* Report a step of the algorithm, in the engine's own vocabulary. `claim` may be NULL. */
void pawl__note(const struct pawl__engine *engine, const struct pawl__claim *claim, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Tell the operator. */
void pawl__warn(const struct pawl__engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The engine for a URL's scheme, or NULL. `list` names all of them, separated by blanks. */
const struct pawl__engine_impl *pawl__engine_find(const char *scheme);
const char *pawl__engine_list(void);

extern const struct pawl__engine_impl pawl__local_engine;
extern const struct pawl__engine_impl pawl__redis_engine;     /* where hiredis and OpenSSL are there */
extern const struct pawl__engine_impl pawl__redlock_engine;   /* likewise */
extern const struct pawl__engine_impl pawl__zookeeper_engine; /* where libzookeeper is there */
extern const struct pawl__engine_impl pawl__textbook_engine;  /* in test builds only, where both of the others are there */

/* Step between the core and an open engine, so that every call across the seam is noted. False: out of memory. See engine/trace.c. */
bool pawl__trace_install(struct pawl__engine *engine);
void pawl__trace_remove(struct pawl__engine *engine);

#endif
