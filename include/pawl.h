/* SPDX-License-Identifier: Apache-2.0
 *
 * pawl.h - locks between processes, on one machine or on many.
 *
 * WHAT A LOCK PROMISES, AND WHAT IT DOES NOT
 *
 * A lock makes programs that ask for it take turns. It does not stop a program that never asks, and it cannot stop one that was
 * paused: a process may be frozen (SIGSTOP, a swapped-out VM, a long garbage collection next door) right after it checked that it
 * holds the lock, and go on an hour later, when another has long been let in. No lock service can prevent that. Three things help:
 *
 *   - the fencing token: every hold has a number, higher than that of any earlier hold it conflicts with. Send it along with what
 *     you write; let the store refuse a number lower than the highest it has seen. This is the only strict protection.
 *   - pawl_remaining_ms(): how long the hold is still assured, told from a clock of this machine without asking anybody. 0: stop.
 *   - pawl_on_loss(): called when the hold is lost, at the latest when what was assured has run out, even if the network is down.
 *
 * On `local:` a hold ends only by release, by break, or with the process; nothing expires. On engines with a lease or a session
 * (Redis, ZooKeeper) a hold that cannot be renewed is lost.
 *
 * Tokens order holds that conflict: an exclusive hold's token is higher than that of every hold before it, and lower than that of
 * every hold after it. Holds that were shared at the same time have tokens of their own, in no promised order.
 *
 * HOW TO USE IT
 *
 *     struct pawl *client;
 *     struct pawl_lock *lock;
 *     struct pawl_error error;
 *
 *     if (pawl_open(NULL, NULL, &client, &error) < 0)          // $PAWL_URL, else local:
 *         errx(1, "%s", error.text);
 *     if (pawl_mutex_new(client, "nightly", 0, &lock, &error) < 0)
 *         errx(1, "%s", error.text);
 *     if (pawl_acquire(lock, PAWL_FOREVER, &error) < 0)
 *         errx(1, "%s", error.text);
 *     write_report(pawl_token(lock));
 *     pawl_release(lock, &error);
 *     pawl_lock_free(lock);
 *     pawl_close(client);
 *
 * RULES THAT HOLD EVERYWHERE
 *
 *   - A function returns 0 (or a count) on success and a negative PAWL_E... on failure. Outputs named `ret` are written only on
 *     success, `reterr` only on failure; `reterr` may be NULL. There is no thread-local error state.
 *   - Strings passed in are copied. Strings handed to a callback are borrowed for the call.
 *   - All functions may be called from any thread. The library installs no signal handler, prints nothing (but for PAWL_TRACE, see
 *     pawl_open), and keeps no state outside its clients but a list of them for fork, a counter that numbers owners, and for each thread
 *     which callbacks run in it.
 *   - A wait is not ended by EINTR: it goes on until its deadline, unless pawl_options.interrupted says otherwise. Nor is any function
 *     a cancellation point: a thread that pthread_cancel() asks to end does so after the call has returned, at its next cancellation
 *     point. (Not with PTHREAD_CANCEL_ASYNCHRONOUS.) pawl_cancel() is what ends a wait.
 *   - Descriptors of the library's are never 0, 1 or 2, even if these are closed.
 *
 * THE TABLE OF SEMANTICS (docs/semantics.md names the test of each row)
 *
 *   what happens                                            | result
 *   --------------------------------------------------------+------------------------------------------------------------
 *   same owner acquires a mutex again                       | enters; same token; as many releases as acquires
 *   same owner acquires a PAWL_NONREENTRANT mutex again     | PAWL_EDEADLK at once
 *   same owner, shared held, acquires exclusive             | PAWL_EDEADLK at once
 *   same owner, exclusive held, acquires shared             | enters; same token; the two are released in any order
 *   exclusive released while shared is kept                 | downgrade: no writer gets in between; same token
 *   same owner acquires shared again behind a queued writer | enters
 *   a thread that holds, through another handle of the name | shared beside shared enters; else PAWL_EDEADLK at once
 *   try (timeout 0) while another holds it                  | PAWL_EHELD
 *   timed acquire whose deadline passes                     | PAWL_ETIMEOUT; PAWL_ECONNLOST if the server is out of reach
 *   acquire for ever, and the connection drops              | goes on waiting; its place is kept if its session survived
 *   release without holding                                 | PAWL_ENOTHELD
 *   release of what another thread holds                    | PAWL_ENOTOWNER
 *   release of a hold that was lost                         | PAWL_ELOST; the hold is over
 *   acquire by an owner whose hold was lost, unreleased     | PAWL_ELOST; release it first
 *   a thread exits while it holds                           | the hold stays; pawl_lock_free or pawl_close ends it
 *   pawl_lock_free while acquires are pending on the handle | each ends with PAWL_ECANCELED; holds are released
 *   pawl_close                                              | every pending acquire ends with PAWL_ECLOSED, holds are released,
 *                                                           |   releases nobody waited for are flushed; takes 2 s at most
 *   any call on a handle after pawl_close                   | PAWL_ECLOSED (pawl_lock_free still frees it)
 *   a call that would wait for the callback it is made in   | PAWL_EDEADLK, and nothing is done
 *   any call in a child after fork                          | PAWL_EFORKED; the parent's holds do not depend on the child
 *   the name is in use as another kind of lock              | PAWL_EKIND
 *   the name is in use as a semaphore of another limit      | PAWL_ELIMIT
 *   two take the same locks in opposite orders, as sets     | neither waits for ever (pawl_acquire_all)
 *   one of a set is refused, or not granted in time         | none is held; PAWL_EHELD, PAWL_ETIMEOUT, ... as of that one
 *   one of a set is lost while others are being acquired    | PAWL_ELOST, and none is held
 *   the same lock twice in a set                            | PAWL_EINVAL
 *   a lease that was not renewed for 2/3 of its time        | the hold is suspect (pawl_state); at its end it is lost
 *   a hold lasts as long as max_hold_ms allows              | it is lost by then, and the lock is free for others
 *   pawl_extend of a hold that is still there               | it may last so long from now, if the server says so in time
 *   pawl_remaining_ms on local:                             | PAWL_FOREVER, unless max_hold_ms says otherwise
 *   released and kept (pawl_set_keep), nobody else wants it | the next acquire here asks nobody; a try enters, too
 *   released and kept, and another process wants it         | given back at once
 *   a value is written by who holds exclusively             | everybody reads it, also after the release
 *   ... by who lost the hold, or was told to give it up     | PAWL_ELOST, and nothing was written, as the server decides
 *   ... and no answer comes                                 | PAWL_EUNKNOWN; it never comes through during a later hold
 *   a value is read by who holds, shared or exclusively     | from memory after the first time
 *   an observer                                             | is told what is, then every change; the last one always
 */
#ifndef PAWL_H
#define PAWL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION_MAJOR 0
#define PAWL_VERSION_MINOR 1
#define PAWL_VERSION_PATCH 0

#if defined(__GNUC__)
#define PAWL_PUBLIC __attribute__((visibility("default")))
#else
#define PAWL_PUBLIC
#endif

/* ---- Errors --------------------------------------------------------------------------------------------------------------- */

/* Every code, its number and what it means. The text for a person, with names and numbers in it, is in struct pawl_error. */
#define PAWL_ERRORS(X)                                                                                                             \
    X(EINVAL, 1, "an argument makes no sense")                                                                                     \
    X(ENOMEM, 2, "out of memory")                                                                                                  \
    X(ESYSTEM, 3, "the operating system refused")                                                                                  \
    X(ENAME, 4, "not a valid lock name")                                                                                           \
    X(EURL, 5, "not a valid URL")                                                                                                  \
    X(EENGINE, 6, "no such engine in this build")                                                                                  \
    X(EOPTION, 7, "an option is unknown or out of range")                                                                          \
    X(EDURATION, 8, "not a valid length of time")                                                                                  \
    X(EPERMITS, 9, "not a valid number of permits")                                                                                \
    X(EHELD, 10, "held by another")                                                                                                \
    X(ETIMEOUT, 11, "not acquired in time")                                                                                        \
    X(EBUSY, 12, "the handle has a pending acquire already")                                                                       \
    X(EDEADLK, 13, "would wait for itself for ever")                                                                               \
    X(ECANCELED, 14, "the acquire was cancelled")                                                                                  \
    X(ECLOSED, 15, "the client is closed")                                                                                         \
    X(EFORKED, 16, "the client belongs to the parent process")                                                                     \
    X(ENOTHELD, 17, "not held")                                                                                                    \
    X(ENOTOWNER, 18, "held by another thread")                                                                                     \
    X(ELOST, 19, "the hold was lost")                                                                                              \
    X(EKIND, 20, "the name is in use as another kind of lock")                                                                     \
    X(ELIMIT, 21, "the name is in use as a semaphore of another limit")                                                            \
    X(ETOKEN, 22, "no hold has this token")                                                                                        \
    X(ECONNLOST, 23, "no connection to the engine's server")                                                                       \
    X(EUNKNOWN, 24, "the outcome is not known")                                                                                    \
    X(EACCES, 25, "permission denied")                                                                                             \
    X(ENOSPACE, 26, "no space left")                                                                                               \
    X(EFORMAT, 27, "a file or a reply is not what pawl writes")                                                                    \
    X(EVERSION, 28, "another version of pawl uses this place")                                                                     \
    X(EFILESYSTEM, 29, "this file system cannot hold local locks")                                                                 \
    X(EFULL, 30, "the engine has no room for another claim")                                                                       \
    X(EGONE, 31, "the engine's directory was removed under a living process")                                                      \
    X(EUNSUPPORTED, 32, "this engine cannot do that")                                                                              \
    X(EOVERFLOW, 33, "a counter has reached its end")                                                                              \
    X(EREPLICAS, 34, "too few replicas have it")                                                                                   \
    X(ETOPOLOGY, 35, "the servers do not fit together as the URL says")                                                            \
    X(EBROKEN, 36, "the hold was broken by an operator")                                                                           \
    X(EEXPIRED, 37, "the time of the hold was over")                                                                               \
    X(EORPHAN, 38, "the process that took it is gone, and what it left behind keeps it")                                           \
    X(ETOOLARGE, 39, "the value is too large")

enum {
#define PAWL_ERROR_ENUM(name, number, text) PAWL_##name = -(number),
    PAWL_ERRORS(PAWL_ERROR_ENUM)
#undef PAWL_ERROR_ENUM
};

#define PAWL_ERROR_TEXT_SIZE 512

/* What went wrong, for a program and for a person: one sentence that says what is wrong and what to do. */
struct pawl_error {
    int code;
    char text[PAWL_ERROR_TEXT_SIZE];
};

PAWL_PUBLIC const char *pawl_error_name(int code); /* "PAWL_ELOST"; never NULL */
PAWL_PUBLIC const char *pawl_error_text(int code); /* the general meaning; never NULL */

/* ---- Clients -------------------------------------------------------------------------------------------------------------- */

/* A client is a connection to an engine, with what it holds there. Opaque. */
struct pawl;

/* No deadline; and, from pawl_remaining_ms, no end in sight. */
#define PAWL_FOREVER INT64_MAX

enum pawl_log_level {
    PAWL_LOG_WARNING, /* something an operator should look at */
    PAWL_LOG_TRACE,   /* a step of the algorithm; only with PAWL_OPEN_TRACE */
};

/* Called from any thread, the service thread included, and perhaps with a mutex of pawl's held: must not call back into pawl. Calls that
 * do so answer PAWL_EDEADLK, and those that have no answer do nothing. */
typedef void pawl_log_fn(enum pawl_log_level level, const char *text, void *data);

enum pawl_open_flags {
    /* Processes that this one starts keep its holds alive until they end too, as with flock(1). Only `local:` can do that; the
     * others ignore it. Without it a child has no part in the parent's holds. */
    PAWL_OPEN_INHERIT = 1 << 0,
    /* Loss callbacks run in pawl_dispatch(), not on the service thread. A program stuck in its loop then hears of no loss. */
    PAWL_OPEN_LOSS_BY_DISPATCH = 1 << 1,
    /* Report every step of the algorithm: to the log callback, or to stderr if there is none. $PAWL_TRACE=1 does the same. */
    PAWL_OPEN_TRACE = 1 << 2,
    /* Only for pawl_inspect, pawl_examine, pawl_break, pawl_value_read and pawl_observe: there are no handles on such a client
     * (PAWL_EINVAL). On `local:` nothing is made then where there is nothing, and the permission to read is enough, but to break. */
    PAWL_OPEN_LOOK = 1 << 3,
};

/* See pawl_options.interrupted. */
typedef int pawl_interrupted_fn(void *data);

/* Tell of a deadlock, in one of the threads that wait in it, or on a service thread. No mutex of pawl's is held. What it points to is there
 * for the time of the call. Be brief. pawl_close of a client that is part of it answers PAWL_EDEADLK: it would wait for this call. */
struct pawl_deadlock;
typedef void pawl_deadlock_fn(const struct pawl_deadlock *found, void *data);

struct pawl_options {
    size_t size;         /* sizeof(struct pawl_options): so that the struct can grow */
    unsigned flags;      /* of enum pawl_open_flags */
    int64_t lease_ms;    /* session or lease time; 0: the engine's default. `local:` has none and ignores it */
    const char *label;   /* who asks, in the words of the program: shown by pawl_inspect; NULL: nothing. See pawl_set_label */
    const char *command; /* the command's name in records, cut to 63 bytes; NULL: this process's. Arguments are never published */
    pawl_log_fn *log;    /* NULL: silence */
    void *log_data;
    int64_t max_hold_ms; /* no hold lasts longer: see pawl_set_max_hold; 0: as long as one likes */
    int64_t connect_ms;  /* pawl_open waits no longer for servers than that, nor than the URL's ?connect=; 0: as the URL says */
    /* NULL, or: asked in a thread that waits in an acquire, when a signal handler has run in it, and about once a second. Anything but 0
     * ends the acquire with PAWL_ECANCELED; with 0 it goes on, and has kept its place in the queue. No mutex of pawl's is held. Be brief:
     * a lock that is granted meanwhile is taken only afterwards, and `local:` passes over who takes longer than 100 ms. In it pawl_close
     * of this client answers PAWL_EDEADLK, since it would wait for this call: end the acquire, and close then. So does another acquire
     * of the lock that is waited for. */
    pawl_interrupted_fn *interrupted;
    void *interrupted_data;
    pawl_deadlock_fn *deadlock; /* NULL, or: told of a deadlock in which one of this client's acquires is. See ?deadlock= below */
    void *deadlock_data;
};

/* Open a client. `url` chooses the engine:
 *
 *     local:               processes of this host; /var/lib/pawl for root, else $XDG_STATE_HOME/pawl or ~/.local/state/pawl
 *     local:/dir           the same in a directory of your own; who may write there may lock there
 *     redis://[user:secret@]host[:port][/db]     a Redis or Valkey server; rediss:// with TLS, redis+unix:///path for a socket
 *     redis-sentinel://sentinel[:port],.../NAME  the primary of that name, wherever sentinels say it is
 *     redis-cluster://node[:port],...            a Redis Cluster
 *     redlock://[user:secret@]host[:port],...    three or more independent Redis servers, a majority of which decides; mutexes only
 *     zk://[user:secret@]host[:port],.../base    a ZooKeeper ensemble
 *
 * docs/ tells of their options. An engine that is not in this build is PAWL_EENGINE.
 *
 * NULL: $PAWL_URL, else `local:`; an empty one is PAWL_EURL. Options that every URL takes:
 *
 *     ?handoff=N[,MS[,US]] how often (default 127), and for how long (default 10 ms), threads of this process may hand a hold to
 *                          each other before the next process that waits has its turn. 0: never; then order is exact among all
 *                          threads. US: how long (default 100 us) threads that run may pass the first that sleeps, counted from
 *                          when that was woken, and no longer than MS; 0: never.
 *     ?password-file=FILE  the password is the first line of this file; not for local:. Where the URL has neither a password nor this, it
 *                          is $PAWL_PASSWORD: for ZooKeeper only if the URL has a user.
 *     ?max-hold=MS         no hold lasts longer: see pawl_set_max_hold. The shorter one counts if the options have one too.
 *     ?keep=MS             handles keep what they release: see pawl_set_keep. Not with handoff=0, nor where the engine can't:
 *                          PAWL_EOPTION.
 *     ?deadlock=RULE       what becomes of a deadlock among threads of this process, over all of its clients, which an acquire that
 *                          waits for a second looks for if its thread has another lock. `report` (the default): it is told to the
 *                          log, to `deadlock` of the options, and counted. `break`: besides, the youngest of its acquires through
 *                          such clients ends with PAWL_EDEADLK, unless the deadlock ends by itself. `off`: acquires of this client do
 *                          not look. Holds of other processes are not known here, nor is who waits for them. */
PAWL_PUBLIC int pawl_open(const char *url, const struct pawl_options *options, struct pawl **ret, struct pawl_error *reterr);
#define PAWL_HANDOFFS 127 /* the default of ?handoff=: for so many each engine has tokens */

/* End every pending acquire, release every hold, close. NULL is fine. Handles that still exist answer PAWL_ECLOSED. In the callback of an
 * asynchronous acquire it may be called. Returns 0, or what kept it from doing anything. PAWL_EDEADLK: it would have to wait for the
 * callback that it was called in; the log says which. PAWL_ECLOSED: it is being closed already. PAWL_EFORKED. */
PAWL_PUBLIC int pawl_close(struct pawl *client);

struct pawl_info {
    const char *
        url; /* resolved: with the directory that `local:` stands for, or what tells locks apart; no secrets. Lives as long as the client */
    const char *engine; /* "local" */
    int64_t lease_ms;   /* the lease or session time in force; PAWL_FOREVER: nothing expires */
    int64_t notice_ms;  /* after kill -9 of a holder, when the next one is let in, at the latest; 0: at once */
    unsigned flags;     /* of enum pawl_open_flags: those in force. PAWL_OPEN_INHERIT is only where the engine can do that */
};
PAWL_PUBLIC void pawl_describe(const struct pawl *client, struct pawl_info *ret);

/* The number of this process in the records of all engines, 16 hex digits: random, made by its first pawl_open, and another one after fork.
 * Lives as long as the client. A program that starts others may set $PAWL_AGENT to it for them, as `pawl run` does: their records then
 * name it as the agent around. */
PAWL_PUBLIC const char *pawl_agent(const struct pawl *client);

PAWL_PUBLIC const char *pawl_version(void); /* "0.1.0" */
PAWL_PUBLIC const char *pawl_engines(void); /* the engines in this build, separated by blanks: "local" */

/* ---- Locks ---------------------------------------------------------------------------------------------------------------- */

/* A handle on a lock. Opaque. Names are 1 to 255 bytes of UTF-8 without control characters. */
struct pawl_lock;

enum pawl_lock_flags {
    /* The handle itself is the owner, not the thread: any thread may release, and asynchronous acquire is possible. */
    PAWL_TASK = 1 << 0,
    /* Mutex only: a second acquire by the same owner is PAWL_EDEADLK instead of a re-entry. */
    PAWL_NONREENTRANT = 1 << 1,
};

PAWL_PUBLIC int pawl_mutex_new(struct pawl *client, const char *name, unsigned flags, struct pawl_lock **ret,
                               struct pawl_error *reterr);
PAWL_PUBLIC int pawl_rwlock_new(struct pawl *client, const char *name, unsigned flags, struct pawl_lock **ret,
                                struct pawl_error *reterr);
/* At most `limit` permits (1 to PAWL_PERMITS_MAX) are out at any time. */
PAWL_PUBLIC int pawl_semaphore_new(struct pawl *client, const char *name, unsigned limit, unsigned flags, struct pawl_lock **ret,
                                   struct pawl_error *reterr);
#define PAWL_PERMITS_MAX 1000000u

/* Let no hold through this handle last longer than that, from the next acquire on; 0: as long as one likes. What the client was opened
 * with (pawl_options, ?max-hold=) bounds every handle. A hold is renewed until then, and not beyond: it is told as lost at the latest when
 * the time is up, counted from when it was asked for, and others are let in. On engines with a lease the server ends it by itself.
 *
 * A limit that is not longer than the lease is a lease without renewal: it is written once, by the acquire, and outlives even the death of
 * the process. With ZooKeeper, which knows only sessions, and on `local:`, this process ends the hold; its own end does so sooner.
 * Threads of a process do not hand such a hold to each other: each has its own, with all of its time. */
PAWL_PUBLIC int pawl_set_max_hold(struct pawl_lock *lock, int64_t max_hold_ms, struct pawl_error *reterr);
#define PAWL_MAX_HOLD_MS_MIN 10

/* Keep the lock in this process when it is released through this handle, from the next acquire on; 0: release gives it back, and what is
 * kept goes back now. The client's ?keep= is what a new handle has.
 *
 * A lock that is kept is held by the process, and by nobody in it: the next acquire, through any handle of its name, enters without asking
 * the server, and its hold has a token of its own, as ever. It goes back as soon as another process waits for it; when nobody in this one
 * has entered it for `keep_ms` (at most 2.25 times that, and a few ms); when another mode of it is wanted here; and with pawl_close.
 * pawl_lock_free does not give it back. Where those who wait can't make themselves heard (docs/redis.md), it goes back `keep_ms` after its
 * grant. If its lease can't be renewed while it is kept, nobody is told, and the next acquire asks the server.
 *
 * The price: to others a lock that is kept is held. They wait for the time that it takes to tell this process; if it is stopped, killed, or
 * ends without pawl_close, for the rest of the lease, as for any holder. pawl_inspect shows it as a holder.
 *
 * Mutexes and both sides of read-write locks are kept; not semaphores (PAWL_EKIND), nor holds with a max_hold. A client keeps 65,536 at
 * most; beyond that release gives back. PAWL_EOPTION: the engine can't (redlock:), or the client was opened with ?handoff=0. */
PAWL_PUBLIC int pawl_set_keep(struct pawl_lock *lock, int64_t keep_ms, struct pawl_error *reterr);
#define PAWL_KEEP_MS_MAX 86400000

/* Say what the handle's holds are for ("order 4711"), from the next acquire on: pawl_inspect shows it where that acquire waits and holds,
 * instead of the client's label; NULL: the client's again. At most 127 bytes without control characters, else PAWL_EOPTION, as for the
 * client's. On `local:` a name of more than 172 bytes leaves less room for it, and what does not fit is cut off.
 *
 * What the engine was asked for has one label as long as it lasts. So where acquires of this process share a place in the queue
 * (?handoff=), the label of the first is shown; of a lock that is kept (pawl_set_keep), the one that it was taken with; and re-entry
 * changes nothing. In a set each lock has that of its own handle. */
PAWL_PUBLIC int pawl_set_label(struct pawl_lock *lock, const char *label, struct pawl_error *reterr);

/* Cancel what is pending on the handle, release what is held through it, free it. NULL is fine. */
PAWL_PUBLIC void pawl_lock_free(struct pawl_lock *lock);

/* ---- Acquire and release -------------------------------------------------------------------------------------------------- */

/* `timeout_ms`: 0 tries, PAWL_FOREVER waits for ever; negative is PAWL_EDURATION. The whole call has one absolute deadline.
 *
 * pawl_acquire takes a mutex, the exclusive side of a read-write lock, or one permit of a semaphore. Every acquire of a semaphore
 * is a hold of its own: the same owner gets a further permit. */
PAWL_PUBLIC int pawl_acquire(struct pawl_lock *lock, int64_t timeout_ms, struct pawl_error *reterr);
PAWL_PUBLIC int pawl_acquire_shared(struct pawl_lock *lock, int64_t timeout_ms, struct pawl_error *reterr);
/* `permits` at once or not at all: two that want 2 of 2 never end with one each. */
PAWL_PUBLIC int pawl_acquire_permits(struct pawl_lock *lock, unsigned permits, int64_t timeout_ms, struct pawl_error *reterr);

/* End one acquire of this owner. For a semaphore: its latest, with all the permits it took. Returns when the lock is free for the
 * next one, or will be as soon as the engine can be reached again. */
PAWL_PUBLIC int pawl_release(struct pawl_lock *lock, struct pawl_error *reterr);
PAWL_PUBLIC int pawl_release_shared(struct pawl_lock *lock, struct pawl_error *reterr);

/* Exchange one exclusive acquire for a shared one; no writer gets in between. Same token. PAWL_ELOST: nothing was exchanged. */
PAWL_PUBLIC int pawl_downgrade(struct pawl_lock *lock, struct pawl_error *reterr);

/* Give the calling owner's hold another limit (see pawl_set_max_hold): it may last `max_hold_ms` from now, be that longer or shorter than
 * what was left; PAWL_FOREVER: as long as one likes. A hold without a limit gets none. In both cases the server is asked to renew the
 * hold, and the call returns 0 when that was answered: then the hold was still there, and pawl_remaining_ms counts anew. What the client
 * was opened with (pawl_options, ?max-hold=) still bounds the hold as a whole. Of a semaphore it is the latest hold.
 *
 * The call waits `timeout_ms` at most. PAWL_ETIMEOUT, PAWL_ECONNLOST: there was no answer in time; the hold is assured as before, and for
 * longer should the answer come later. Calling again does no harm. PAWL_ELOST: the hold was lost, also by waiting too long; release it. On
 * `local:` nobody need be asked, and the call does not wait. */
PAWL_PUBLIC int pawl_extend(struct pawl_lock *lock, int64_t max_hold_ms, int64_t timeout_ms, struct pawl_error *reterr);

/* End every pending acquire of the handle, each exactly once: granted, or PAWL_ECANCELED. Returns how many were ended. */
PAWL_PUBLIC int pawl_cancel(struct pawl_lock *lock);

/* ---- What one holds ------------------------------------------------------------------------------------------------------- */

enum pawl_state {
    PAWL_NOT_HELD,
    PAWL_HELD,
    PAWL_SUSPECT, /* still assured, but renewals do not get through */
    PAWL_LOST,    /* final for this hold; release it */
};

/* These speak of the hold of the calling thread (with PAWL_TASK: of the handle), and ask nobody. */
PAWL_PUBLIC enum pawl_state pawl_state(const struct pawl_lock *lock);
PAWL_PUBLIC uint64_t pawl_token(const struct pawl_lock *lock);       /* 0: not held */
PAWL_PUBLIC int64_t pawl_remaining_ms(const struct pawl_lock *lock); /* 0: not held, or not assured any more: stop */

/* Called with PAWL_SUSPECT each time a hold becomes so, with PAWL_HELD when it has recovered from that, and once with PAWL_LOST. `why`
 * says what happened. Of a loss its code says which kind: PAWL_EBROKEN (pawl_break), PAWL_EEXPIRED (its lease, or its max-hold, ran out),
 * or PAWL_ELOST (the server does not have it any more); calls on a hold that is lost answer PAWL_ELOST in all of these cases.
 *
 * Runs on the service thread (see PAWL_OPEN_LOSS_BY_DISPATCH), which stands still meanwhile: be brief. No lock is renewed, and none that
 * is kept is given back, until it has returned. pawl_release, pawl_lock_free, pawl_token and the like may be called in it. What would have
 * to wait for that thread answers PAWL_EDEADLK: pawl_close, an acquire that is not served at once, pawl_extend, and with ZooKeeper each
 * call that asks the server. A hold that was broken (pawl_break) stays in the way of others until it is released: that is the
 * acknowledgement. NULL takes the callback back: then none is running any more. */
typedef void pawl_loss_fn(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data);
PAWL_PUBLIC int pawl_on_loss(struct pawl_lock *lock, pawl_loss_fn *fn, void *data, struct pawl_error *reterr);

/* ---- Without blocking ----------------------------------------------------------------------------------------------------- */

enum pawl_mode {
    PAWL_EXCLUSIVE,
    PAWL_SHARED,
    PAWL_PERMITS, /* of a semaphore */
};

/* `result` is 0 when acquired, else a negative code with its text in `error` (else NULL). */
typedef void pawl_acquired_fn(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data);

/* Start to acquire; needs PAWL_TASK, and is PAWL_EBUSY while another acquire of the handle is pending. Once it returns 0, `fn` is
 * called exactly once, by pawl_dispatch(), never from within this call. `permits` counts for PAWL_PERMITS only. After
 * pawl_lock_free the callback still comes, with PAWL_ECANCELED; its `lock` must not be used then. Where a client's locks are all acquired
 * so, pawl_release, pawl_cancel and pawl_lock_free do not wait for a server. */
PAWL_PUBLIC int pawl_acquire_start(struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                                   pawl_acquired_fn *fn, void *data, struct pawl_error *reterr);

/* A descriptor that is readable (POLLIN) while callbacks are due; the same for the client's whole life. Only poll it. */
PAWL_PUBLIC int pawl_fd(struct pawl *client);
/* Run the callbacks that are due, without ever blocking. Returns how many ran. */
PAWL_PUBLIC int pawl_dispatch(struct pawl *client);

/* ---- Several at once ------------------------------------------------------------------------------------------------------ */

/* One of several locks that are taken together, and how: as by pawl_acquire, pawl_acquire_shared or pawl_acquire_permits. */
struct pawl_part {
    struct pawl_lock *lock;
    enum pawl_mode mode; /* PAWL_EXCLUSIVE: also one permit of a semaphore */
    unsigned permits;    /* counts for PAWL_PERMITS only */
};

/* Acquire all of them, or none, by one deadline. Every lock is then held through its own handle, with its own token; the loss of one is
 * told by its handle (pawl_on_loss), and means that not all are held any more.
 *
 * If all are free they are taken at once; on Redis in one round trip. Otherwise pawl takes them one by one, in the order of their
 * clients' URLs and then of their names, not in that of `parts`: so two sets never wait for each other, nor for single acquires.
 * Those that come first are held while the others are waited for. That holds among all who use pawl_acquire_all, if they spell
 * URLs alike; who takes a set while it holds a lock that is not in it has left the order, and may deadlock.
 *
 * A lock that its owner has already is entered again, as ever. PAWL_ELOST: one that had been taken was lost while another was waited for.
 * pawl_cancel or pawl_lock_free on any of the handles ends the whole acquire. */
PAWL_PUBLIC int pawl_acquire_all(const struct pawl_part parts[], size_t count, int64_t timeout_ms, struct pawl_error *reterr);
/* Release all, the last first, also if one was lost or fails. PAWL_ELOST if any of them had been lost, else the first failure. */
PAWL_PUBLIC int pawl_release_all(const struct pawl_part parts[], size_t count, struct pawl_error *reterr);
/* For how long all of them are still assured: the least of pawl_remaining_ms(). 0: one is not any more; stop. */
PAWL_PUBLIC int64_t pawl_remaining_all_ms(const struct pawl_part parts[], size_t count);
/* The same without blocking: as pawl_acquire_start, with every handle PAWL_TASK; `fn` gets the first. Where the handles are of several
 * clients each of them needs its pawl_dispatch(), and any may run `fn`. */
PAWL_PUBLIC int pawl_acquire_all_start(const struct pawl_part parts[], size_t count, int64_t timeout_ms, pawl_acquired_fn *fn,
                                       void *data, struct pawl_error *reterr);

/* ---- Values --------------------------------------------------------------------------------------------------------------- */

/* A small value lies beside a lock, in the same server. It is written only by who holds the lock at the moment of the write, as the server
 * sees it, and stays when the lock is released. Mutexes and read-write locks have one; not semaphores (PAWL_EKIND), and not on redlock:
 * (PAWL_EUNSUPPORTED). docs/semantics.md says where it lies, so that others can read it. */
struct pawl_value {
    const void *bytes; /* any, also NULs */
    size_t size;
    uint64_t token;     /* of the hold that wrote it */
    uint64_t version;   /* rises with every write to this lock; says nothing else */
    int64_t written_ms; /* when, by the server's clock: Unix time */
};
#define PAWL_VALUE_MAX 65536u

/* Write it; with NULL, delete it. The calling owner holds the lock exclusively, and the server decides whether that is still so.
 *   PAWL_ELOST      it is not, or the hold was broken: nothing was written, however late the caller wakes up.
 *   PAWL_ENOTHELD   it is not held, or only shared.
 *   PAWL_ETOOLARGE  more than PAWL_VALUE_MAX bytes.
 *   PAWL_EUNKNOWN   no answer within two seconds: it may be written, now or until this hold ends, unless it writes again.
 *   PAWL_EREPLICAS  written, but fewer replicas have it than ?replicas= asks for. */
PAWL_PUBLIC int pawl_value_set(struct pawl_lock *lock, const void *bytes, size_t size, struct pawl_error *reterr);
/* The same in the name of the hold that has this token, if it stands: for programs that pawl run starts (PAWL_TOKEN). PAWL_ETOKEN: no hold
 * that stands has it. The holder itself, if it has read the value before, goes on reading what it read. Holds of one process that follow
 * each other without giving the lock back (pawl_set_keep, threads that hand it on) count as one here until a later one has written;
 * pawl run gives it back. */
PAWL_PUBLIC int pawl_value_set_as(struct pawl *client, const char *name, uint64_t token, const void *bytes, size_t size,
                                  struct pawl_error *reterr);
/* Read it. Held, shared or exclusively: from memory after the first time, since nobody can write. Not held by the calling owner: the
 * latest that was written, one request. `ret` is NULL where there is none. PAWL_ELOST: the hold was lost; release it. */
PAWL_PUBLIC int pawl_value_get(struct pawl_lock *lock, const struct pawl_value **ret, struct pawl_error *reterr);
/* The latest that was written, without a handle. */
PAWL_PUBLIC int pawl_value_read(struct pawl *client, const char *name, const struct pawl_value **ret, struct pawl_error *reterr);
/* Every value that was got is freed. It may outlive the lock, and the client. NULL is fine. */
PAWL_PUBLIC void pawl_value_free(const struct pawl_value *value);

/* A second value beside the same lock, apart from the first, written in the same way: for what the program that takes the lock notes for
 * itself. `pawl run --once-per` notes its last success there. Read anew each time; `retnow_ms`, unless NULL, is the server's
 * clock (Unix time), also where there is no note. */
PAWL_PUBLIC int pawl_note_set(struct pawl_lock *lock, const void *bytes, size_t size, struct pawl_error *reterr);
PAWL_PUBLIC int pawl_note_get(struct pawl_lock *lock, const struct pawl_value **ret, int64_t *retnow_ms, struct pawl_error *reterr);

/* ---- For operators -------------------------------------------------------------------------------------------------------- */

enum pawl_kind {
    PAWL_MUTEX,
    PAWL_RWLOCK,
    PAWL_SEMAPHORE,
};

enum pawl_entry_flags {
    PAWL_ENTRY_WAITER = 1 << 0,  /* waits; otherwise it holds */
    PAWL_ENTRY_BROKEN = 1 << 1,  /* asked to give up by pawl_break */
    PAWL_ENTRY_STOPPED = 1 << 2, /* stopped in the engine's own critical section: nobody on this lock moves until it goes on */
    PAWL_ENTRY_FOREIGN = 1 << 3, /* not a pawl: some fields are not known */
    PAWL_ENTRY_KEEPS = 1 << 4,   /* its process keeps it between holds: it is in use, or goes back as soon as another wants it */
};

/* One holder or one waiter. */
struct pawl_entry {
    const char *name;
    enum pawl_kind kind;
    enum pawl_mode mode;
    unsigned flags;    /* of enum pawl_entry_flags */
    unsigned position; /* 0: holds; 1: the first that waits, ... */
    unsigned permits;  /* semaphores: how many of ... */
    unsigned limit;
    uint64_t token;   /* of a holder; 0 for a waiter */
    const char *host; /* "" where not known; so are the other strings */
    int64_t pid;      /* as its own pid namespace counts; 0: not known */
    const char *command;
    const char *label;
    int64_t since_ms;     /* holds, or waits, since: Unix time by the clock of its own host, or the server's; 0: not known */
    int64_t remaining_ms; /* until the lease ends unless renewed; PAWL_FOREVER: it never ends by itself; -1: not known */
    const char *raw;      /* what the engine really stores, in its own words */
    const char *agent;    /* the number of its process (pawl_agent) */
    const char *around;   /* that of the `pawl run` that started this process */
    const char *claim; /* what the engine calls this place in the queue: the same while it waits and holds, and never used again */
    int64_t lease_ms;  /* how long its lease is; PAWL_FOREVER: it has none; -1: not known */
    uint64_t turns;    /* how many claims on the lock there have been, where the engine counts them (ZooKeeper); 0: not known */
};

/* Return 0 to go on; anything else ends the inspection and is returned by it. It may call all of pawl but pawl_close of this client. */
typedef int pawl_visit_fn(const struct pawl_entry *entry, void *data);

/* Visit the holders and waiters of one lock, or with `name` NULL of all: lock by lock, holders first, waiters in order. */
PAWL_PUBLIC int pawl_inspect(struct pawl *client, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr);

/* What is told to who observes a lock. Borrowed for the call. */
struct pawl_observed {
    const char *name;
    const struct pawl_entry *holder;        /* NULL: nobody holds it. Of several, the first */
    const struct pawl_value *value;         /* what lies beside the lock, no matter who wrote it; NULL: nothing that may be read */
    const struct pawl_value *holders_value; /* the same if this holder wrote it, else NULL: so that a dead leader's address is never
                                               taken for that of the next one */
};
typedef void pawl_observed_fn(const struct pawl_observed *observed, void *data);

/* Be told who holds the lock and what lies beside it: first as it is, then after every change of either. States may be skipped, the last
 * one never is. Renewals are no changes, nor are those who wait; to an observer a lock that is kept (pawl_set_keep) is held.
 *
 * It does not queue, and nobody sees it. `fn` runs on a thread that is there only for this, or with PAWL_OPEN_LOSS_BY_DISPATCH in
 * pawl_dispatch(). It may call all of pawl, pawl_unobserve included, but pawl_close of this client (PAWL_EDEADLK). Without a connection
 * nothing is told, and what has changed meanwhile is told after it. PAWL_EUNSUPPORTED: redlock:. */
struct pawl_observer;
PAWL_PUBLIC int pawl_observe(struct pawl *client, const char *name, pawl_observed_fn *fn, void *data, struct pawl_observer **ret,
                             struct pawl_error *reterr);
/* After this no call of `fn` runs or will run, but the one that this is called from. pawl_close does it for those that are left. NULL is
 * fine. */
PAWL_PUBLIC void pawl_unobserve(struct pawl_observer *observer);

enum pawl_break_flags {
    /* Free the lock at once. The old holder may still be acting: only its token tells. */
    PAWL_BREAK_NOW = 1 << 0,
};

/* Ask the holder with this token to give up: it is told as of a loss, and the lock is free when it releases or its lease ends.
 * PAWL_EORPHAN: nobody can be asked, since only processes that have inherited the hold (PAWL_OPEN_INHERIT) are left; PAWL_BREAK_NOW
 * works. */
PAWL_PUBLIC int pawl_break(struct pawl *client, const char *name, uint64_t token, unsigned flags, struct pawl_error *reterr);

enum pawl_severity {
    PAWL_FINDING_GOOD,    /* as it should be */
    PAWL_FINDING_UNKNOWN, /* could not be found out */
    PAWL_FINDING_WARNING, /* locks may be lost, or worse than they could be */
};

/* One thing about the engine's server or place that matters to locks. */
struct pawl_finding {
    enum pawl_severity severity;
    const char *what;   /* what was found, a sentence */
    const char *advice; /* what to change; "" where there is nothing */
};

/* Return 0 to go on; anything else ends the examination and is returned by it. It may call what a pawl_visit_fn may. */
typedef int pawl_finding_fn(const struct pawl_finding *finding, void *data);

/* Look at what the engine stands on, for `pawl doctor`. PAWL_EUNSUPPORTED: the engine has nothing to look at. */
PAWL_PUBLIC int pawl_examine(struct pawl *client, pawl_finding_fn *visit, void *data, struct pawl_error *reterr);

/* ---- Deadlocks -------------------------------------------------------------------------------------------------------------- */

/* One acquire that waits in a deadlock. More may be added at its end. */
struct pawl_blocked {
    const char *url;     /* of its client, as pawl_describe has it */
    const char *name;    /* of the lock that it waits for */
    enum pawl_mode mode; /* how it wants it */
    uint64_t thread;     /* who waits, as pthread_self() says it there; 0: nobody does, an asynchronous set is to have it */
    int64_t waited_ms;
    size_t by; /* the member that keeps it waiting */
    int ahead; /* ... since it waits ahead in the queue. Else it holds the lock */
    int ended; /* it is ended with PAWL_EDEADLK for the others' sake */
};

/* A deadlock among the threads of this process, over all of its clients. */
struct pawl_deadlock {
    size_t size;                               /* sizeof(struct pawl_deadlock) of this library: more may be added at its end */
    const struct pawl_blocked *const *members; /* as far as that goes, each before the one that it waits for */
    size_t count;
    int64_t left_ms;  /* it ends by itself within this time, since an acquire or a hold in it does; PAWL_FOREVER: it does not */
    const char *text; /* the same in one sentence, as the log has it */
};

/* ---- Counters --------------------------------------------------------------------------------------------------------------- */

/* Waits are counted in buckets: those of up to 0.1 ms, 1 ms, 10 ms, 0.1 s, 1 s, 10 s, 100 s, 1000 s, and those that were longer. */
#define PAWL_WAIT_BUCKETS 9

/* What a client has counted since it was opened. Parts of a set count one by one, and once more if they were asked for at once. */
struct pawl_counters {
    size_t size; /* sizeof(struct pawl_counters), set by the caller: so that the struct can grow */
    /* Acquires, by how they ended: */
    uint64_t granted;
    uint64_t reentered; /* by who had it already */
    uint64_t held;      /* a try, and others had it */
    uint64_t timed_out;
    uint64_t cancelled;                /* pawl_cancel, pawl_lock_free, pawl_close, a signal */
    uint64_t deadlocked;               /* PAWL_EDEADLK */
    uint64_t failed;                   /* for any other reason */
    uint64_t contended;                /* that had to wait, granted or not */
    uint64_t handoffs;                 /* holds that one thread handed to the next, inside the process */
    uint64_t claims;                   /* places in its queue that the engine was asked for */
    uint64_t releases;                 /* holds that are over: released, or given up after they were lost */
    uint64_t renewed;                  /* leases, in time */
    uint64_t renewed_late;             /* when the hold was suspect already */
    uint64_t suspects;                 /* how often holds became so */
    uint64_t lost_expired;             /* holds that were lost: their time was over; */
    uint64_t lost_broken;              /* an operator broke them; */
    uint64_t lost_gone;                /* the server did not have them any more */
    uint64_t deadlocks;                /* that were found in the process (?deadlock=) */
    uint64_t waiting;                  /* now */
    uint64_t holding;                  /* now */
    uint64_t waited_ns;                /* the sum of all waits that have ended */
    uint64_t waits[PAWL_WAIT_BUCKETS]; /* how many of them were how long */
    int64_t least_left_ms;             /* the least time that was left of a lease when it was renewed; -1: none was */
};

/* Fill in what there is room for, by `ret->size`. Counting takes no request and, for an acquire that does not wait, no look at a clock. */
PAWL_PUBLIC int pawl_stats(struct pawl *client, struct pawl_counters *ret);
/* Write them as text for Prometheus (format 0.0.4), each metric with the labels url and kind; so a program needs no library to
 * answer for /metrics. PAWL_ESYSTEM: the file does not take it. */
PAWL_PUBLIC int pawl_stats_write(struct pawl *client, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
