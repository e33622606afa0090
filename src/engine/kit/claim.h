/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.h - an engine's claims as threads see them: what is to be told of a claim, who tells it, and who waits for it.
 *
 *     struct kit          an engine's mutex, its outbox, its timers and notes: a member of the engine's own struct
 *       struct kit_claim  the first member of the engine's own state of a claim
 *       struct kit_reader where answers come in, and who reads them: see wait.h
 *
 * The mutex guards all of it. It is never held over a system call that blocks, an upcall or a note.
 *
 * What has become of a claim is kept as bits (`news`) and told by one of two: by its park(), what a thread waits for, while nobody has
 * adopted the claim; by serve(), from the outbox, all else. While serve() calls up about a claim, its park() does not return:
 *
 *     IDLE --(news for serve())--> QUEUED --> TELLING --> IDLE, or QUEUED if there is more
 *                                        `--> LAST: the claim's memory goes with this upcall
 */
#ifndef PAWL_KIT_CLAIM_H
#define PAWL_KIT_CLAIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "engine/engine.h"
#include "engine/kit/notes.h"
#include "engine/kit/timer.h"

/* What is to be told of a claim, as bits; those of KIT_PARKED are park()'s to tell while nobody adopted the claim. */
enum {
    KIT_GRANTED = 1 << NEWS_GRANTED,
    KIT_REFUSED = 1 << NEWS_REFUSED,
    KIT_GONE = 1 << NEWS_GONE,
    KIT_DOWNGRADED = 1 << NEWS_DOWNGRADED,
    KIT_RENEWED = 1 << NEWS_RENEWED,
    KIT_LOST = 1 << NEWS_LOST,
    KIT_BROKEN = 1 << NEWS_BROKEN,
    KIT_WANTED = 1 << NEWS_WANTED,
    KIT_PARKED = KIT_GRANTED | KIT_REFUSED | KIT_GONE | KIT_DOWNGRADED,
    KIT_WHY = KIT_REFUSED | KIT_LOST | KIT_BROKEN, /* they have a reason */
};

enum kit_telling { KIT_IDLE, KIT_QUEUED, KIT_TELLING, KIT_LAST, KIT_TELLINGS };
enum kit_telling_event {
    KIT_HAS_NEWS,   /* for serve() */
    KIT_UNTELLS,    /* what was queued is not worth telling any more */
    KIT_CALLS,      /* serve() begins an upcall, ... */
    KIT_CALLS_LAST, /* ... after which the claim is the core's */
    KIT_RETURNS,    /* from it */
    KIT_TELLING_EVENTS,
};
enum { KIT_NEVER = KIT_TELLINGS, KIT_IGNORED };
/* Of the thread in park(): it is awake or reads, or there is none; it sleeps on its word; it is to read next, and was woken for that. */
enum kit_waits { KIT_AWAKE, KIT_FOLLOWS, KIT_READS_NEXT };

/* What the core is told with KIT_GRANTED and KIT_RENEWED: written into its claim only by the one who tells. */
struct kit_grant {
    uint64_t token;
    uint32_t token_count;
    int64_t sent_at, lease_ns;
};

struct kit_claim {
    struct pawl__claim *claim;
    struct kit_reader *reader; /* where its answers come in */
    TAILQ_ENTRY(kit_claim) outbox, follower;
    unsigned news;
    enum kit_telling telling; /* written by step() in claim.c alone */
    enum kit_waits waits;
    _Atomic uint32_t word; /* the futex of its follower: 1 while it sleeps */
    bool adopted, unparked;
    bool wanted;   /* others waited for it when it was granted: goes up with KIT_GRANTED */
    bool was_lost; /* KIT_GONE: it was not held any more when it was withdrawn */
    struct kit_grant grant;
    struct pawl_error why; /* of KIT_WHY */
};
TAILQ_HEAD(kit_claims, kit_claim);

struct kit_reader {
    struct kit_claims followers;
    const struct kit_claim *sleeper; /* for whom a thread sleeps in read() */
    bool taken;                      /* a thread reads, or is about to */
};

struct kit;

/* What differs between engines. The mutex is held. */
struct kit_ops {
    /* May be NULL. The mutex is about to be let go. */
    void (*unlocking)(struct kit *kit);
    /* May be NULL: always. Can answers come in there now? */
    bool (*can_read)(const struct kit_reader *reader);
    /* Sleep until there is something to read, or until the deadline, and read it. Releases the mutex meanwhile; while it sleeps
     * reader->sleeper is the claim. */
    void (*read)(struct kit *kit, struct kit_reader *reader, struct kit_claim *claim, int64_t deadline);
    /* Make the thread in read() return. */
    void (*wake_reader)(struct kit *kit, struct kit_reader *reader);
    /* No thread reads there any more: from now on the service thread does. */
    void (*left)(struct kit *kit, struct kit_reader *reader);
};

struct kit {
    struct pawl__engine *engine;
    const struct kit_ops *ops;
    pthread_mutex_t mutex;
    struct kit_claims outbox;
    struct kit_timers timers;
    struct kit_notes notes;
    int bell;             /* an eventfd of the engine's, which ends the sleep of its serve() */
    bool wakes;           /* ring it once the mutex is free */
    bool telling;         /* a thread is at the outbox: what is put there need not wake one */
    int64_t asleep_until; /* serve() sleeps until then; 0: it does not */
    uint32_t random;      /* for kit_between() */
};

void pawl__kit_init(struct kit *kit, struct pawl__engine *engine, const struct kit_ops *ops);
void pawl__kit_free(struct kit *kit);

static inline void pawl__kit_lock(struct kit *kit) {
    pthread_mutex_lock(&kit->mutex);
}

/* Also tells what was noted, and wakes the service thread if that is asked for. */
void pawl__kit_unlock(struct kit *kit);
/* The same without ops->unlocking. */
void pawl__kit_unlock_quietly(struct kit *kit);

/* A note about the claim, or NULL; a word for the operator. They are told after the mutex is free. */
void pawl__kit_note(struct kit *kit, const struct kit_claim *claim, const char *format, ...) __attribute__((format(printf, 3, 4)));
void pawl__kit_warn(struct kit *kit, const struct kit_claim *claim, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The table of telling: the next state, IGNORED or NEVER. */
int pawl__kit_telling_move(enum kit_telling state, enum kit_telling_event event);
/* Something has become of the claim. */
void pawl__kit_tell(struct kit *kit, struct kit_claim *claim, unsigned news);
/* Its end comes next: nothing else of it is worth telling. Else serve() would look at a claim that park() has ended. */
void pawl__kit_untell(struct kit *kit, struct kit_claim *claim);
/* From now on serve() tells everything of it. */
void pawl__kit_adopt(struct kit *kit, struct kit_claim *claim);
/* Tell the core all that is in the outbox. Not while it calls up, the mutex is held. */
void pawl__kit_tell_all(struct kit *kit);

/* Wake the thread that waits for the claim, however it sleeps. */
void pawl__kit_wake_claim(struct kit *kit, struct kit_claim *claim);
/* Is there something for its park() to tell, and no upcall about it running? */
static inline bool pawl__kit_decided(const struct kit_claim *claim) {
    return claim->news & KIT_PARKED && claim->telling != KIT_TELLING;
}
/* What park() answers when it is decided. */
int pawl__kit_outcome(struct kit_claim *claim, struct pawl_error *reterr);

#endif
