/* SPDX-License-Identifier: Apache-2.0
 *
 * actors.h - foreigners: programs that are not pawl and take part in the same locks.
 *
 * Each is what a process of another library does on the wire, written anew: plain code that blocks. It runs as a process of the simulated
 * world, and as well against a real server: that keeps it honest. One actor is one process with one thread.
 *
 *     want --> take --> got --> hold, and renew --> drop --> gone --> rest, and so on
 *                  \--> fail
 *
 * What an actor notes are the records of the history (lab/torture/history.h), with the same meaning: `want` before it asks, `got` after
 * it was let in, `drop` before it lets go, `gone` after the answer. Foreign holds have no token. What they are assured of is counted
 * from when the last request left that made or renewed the hold, and is less than what the server keeps it for: so a foreigner that
 * believes for too long is never what a checker complains of.
 */
#ifndef PAWL_SIM_ACTORS_H
#define PAWL_SIM_ACTORS_H

#include <stdbool.h>
#include <stdint.h>

/* What is noted: see above. `lost` is said once, by a holder that was told, or whose time is up. */
#define ACTOR_WORDS(X)                                                                                                             \
    X(WANT, "want")                                                                                                                \
    X(GOT, "got")                                                                                                                  \
    X(FAIL, "fail")                                                                                                                \
    X(SURE, "sure")                                                                                                                \
    X(LOST, "lost")                                                                                                                \
    X(DROP, "drop")                                                                                                                \
    X(GONE, "gone")

enum actor_word {
#define ACTOR_WORD_ENUM(name, word) ACTOR_##name,
    ACTOR_WORDS(ACTOR_WORD_ENUM)
#undef ACTOR_WORD_ENUM
        ACTOR_WORD_COUNT
};
extern const char *const actor_words[ACTOR_WORD_COUNT];

struct actor_note {
    char mode;          /* x exclusive, s shared, p permits */
    unsigned permits;   /* 1, but for semaphores */
    int64_t assured_ns; /* of got and sure: for so long from now on, by the actor's clock */
    int code;           /* of fail and gone: 0 or a PAWL_E... */
};

struct actor_place {
    const char *host;
    unsigned port;
    const char *name; /* of the lock, with what pawl's URL puts before it: a key, or on ZooKeeper a path that begins with a slash */
    char kind;        /* what pawl has there: m mutex, r read-write lock, s semaphore. Only the subscriber asks */
    uint64_t seed;
    int64_t lease_ms;         /* Redisson's watchdog time, redis-py's timeout, the session that is asked for */
    int64_t hold_ms, rest_ms; /* at most so long; the moment is drawn each time */
    unsigned limit;           /* how many permits a semaphore has */
    bool (*over)(void *data); /* is it time to leave? Asked ten times a second, also by who waits */
    void (*note)(void *data, enum actor_word word, const struct actor_note *note);
    void *data;
};

/* Those that there are: name, server (r Redis, z ZooKeeper), the kind of lock (m r s; * any), and whether it holds, or is only there. */
#define ACTORS(X)                                                                                                                  \
    X(redisson_lock, 'r', 'm', true)                                                                                               \
    X(redisson_fair, 'r', 'm', true) /* keeps a queue that pawl does not read */                                                   \
    X(redisson_rwlock, 'r', 'r', true)                                                                                             \
    X(redisson_permits, 'r', 's', true)   /* PermitExpirableSemaphore: what pawl's semaphores are */                               \
    X(redisson_semaphore, 'r', 's', true) /* RSemaphore: a counter and nothing else */                                             \
    X(redis_subscriber, 'r', '*', false)  /* listens on Redisson's channel, and does nothing */                                    \
    X(redis_py, 'r', 'm', true)           /* for ?layout=plain */                                                                  \
    X(curator_mutex, 'z', 'm', true)                                                                                               \
    X(curator_rwlock, 'z', 'r', true)                                                                                              \
    X(curator_semaphore, 'z', 's', true) /* SemaphoreV2 */                                                                         \
    X(go_lock, 'z', 'm', true)           /* go-zookeeper: an error where it can't read a child's name */                           \
    X(kazoo_lock, 'z', 'm', true)        /* for ?compat=kazoo */                                                                   \
    X(zk_stray, 'z', 'm', false)         /* makes and removes children that are no claims */

struct actor_class {
    const char *name;
    /* Until it is over. 0; else: it could not go on. */
    int (*run)(const struct actor_place *place);
    char server, kind;
    bool holds;
};

enum {
#define ACTOR_ENUM(name, server, kind, holds) ACTOR_CLASS_##name,
    ACTORS(ACTOR_ENUM)
#undef ACTOR_ENUM
        ACTOR_CLASSES
};
extern const struct actor_class actor_classes[ACTOR_CLASSES];

#define ACTOR_RUN(name, server, kind, holds) int actor_##name(const struct actor_place *place);
ACTORS(ACTOR_RUN)
#undef ACTOR_RUN

#endif
