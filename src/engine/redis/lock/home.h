/* SPDX-License-Identifier: Apache-2.0
 *
 * home.h - a server as claims see it. A claim's home is the server that has its lock; in a cluster it moves with the slot.
 */
#ifndef PAWL_REDIS_HOME_H
#define PAWL_REDIS_HOME_H

#include "engine/redis/route/route.h"
#include "os/sleep.h"

TAILQ_HEAD(rclaim_list, rclaim);

/* Claims that hold and want to hear who waits for them, since they are kept, or since several threads share them. */
enum { HEARS_KEPT, HEARS_SHARED, HEARERS };
struct hearers {
    struct rclaim_list claims;
    int64_t look_at; /* 0, or: when those who wait for them and can't tell are looked for */
};

enum secured { SECURE_UNKNOWN, SECURE_SHORT, SECURE_DONE };

/* A caller that wants to know whether replicas have what it wrote: secure.c. */
struct secure_call {
    TAILQ_ENTRY(secure_call) entry; /* home->secure.calls */
    const char *name;               /* of the lock beside which it wrote */
    bool in_round, done;
    enum secured result;
};
TAILQ_HEAD(secure_calls, secure_call);

/* Who wants to know whether replicas have something, and the round of questions that is under way: secure.c. */
struct home_rounds {
    struct rclaim_list waiting, asked; /* claims: for the next round; in this one */
    struct secure_calls calls;         /* for either */
    bool open, wrote;
    int number;       /* counts rounds: an answer of an earlier one says nothing of this */
    bool found_short; /* the last round found too few, ... */
    unsigned found;   /* ... namely so many */
};

/* The clock of a server, as its answers have shown it: home.c. */
struct home_clock {
    /* The latest sample: at local time `sample_local` a request left that the server worked on at `sample_server` (us). */
    int64_t sample_local, sample_server;
    int64_t older_local, older_server; /* an earlier one; see home.c */
    unsigned number;                   /* the connection that it was read on: what is known of it counts on no other */
    int64_t floor; /* the server's time (us) when the connection was new; 0: not known yet. No token below it is believed */
};

/* A server as claims see it: who waits for its answers, what is to be renewed there, and its clock. */
struct home {
    union { /* the first: home_of() */
        struct server server;
        struct node node;
    };
    struct kit_reader reader; /* who reads its answers */
    struct rclaim_list to_renew;
    int64_t renew_at;    /* not before then */
    bool reader_waits;   /* ... for a push, and so reads the inbox too */
    bool reader_sleeps;  /* it does not hold the mutex: read_bell wakes it */
    int64_t inbox_due;   /* 0, or: if no caller does, the service thread reads the inbox from then on */
    int64_t answers_due; /* 0, or: by then the service thread reads an answer that nobody has looked for */
    bool contended;      /* the last acquire had to wait: the next will, and its push may come before its answer is read */
    bool gave_up;        /* as many tries to connect as the URL allows have failed */
    int read_bell;       /* wakes the thread that reads */
    struct spin spin;    /* the reader's */
    struct home_clock clock;
    int64_t up_since;                /* its connections are up, without a break, since then at the latest; if they are */
    struct hearers hearers[HEARERS]; /* kept.c */
    bool tracks;          /* the server tells the inbox of changes to keys that were asked for after CLIENT CACHING YES */
    unsigned watch_count; /* observe.c */
    struct home_rounds secure;
};

static inline struct home *home_of(struct server *server) {
    return (struct home *)server;
}

/* Another connection may lead to another server, or to one that was restarted: what was known of its clock counts no more. */
static inline bool home_knows_clock(const struct home *home) {
    return home->clock.number == home->server.commands.number;
}

/* Is it the time of a clock that makes sense? In nanoseconds there is room for it. */
static inline bool redis_time_makes_sense(int64_t server_us) {
    return server_us > 0 && server_us <= INT64_MAX / 4000;
}

/* home.c */
int pawl__home_made(struct server *server);
void pawl__home_gone(struct server *server);
/* A call that is not about a claim was answered: wake who waits for it. The reader is woken, too, unless it has read the answer itself: it
 * may be the one that waits, and the answer was read by the service thread. */
void pawl__home_called(struct home *home);
/* Have the thread that reads look around. */
void pawl__home_wake_reader(struct home *home);
/* A request that left at `local` was worked on when the server's clock showed `server_us`. The first on a connection is the floor of
 * tokens. */
void pawl__home_sample_clock(struct home *home, int64_t local, int64_t server_us);
/* The moment, by our clock, that the server's `server_us` was not before; 0: not known. */
int64_t pawl__home_not_before(const struct home *home, int64_t server_us);

/* secure.c */
/* Do replicas have what this server has answered so far? call->done is set when that is known, and its waiters are woken. */
void pawl__secure_call(struct home *home, struct secure_call *call);
/* It does not want to know any more. */
void pawl__secure_leave(struct home *home, struct secure_call *call);

/* pump.c */
/* Wait until *done, reading meanwhile if nobody else does. For calls that are not about a claim. False: the deadline passed. */
bool pawl__home_wait(struct home *home, const bool *done, int64_t deadline);
/* Something was asked whose answer nobody waits for. A thread that wants it looks now and then; later the service thread does. */
void pawl__home_look_later(struct home *home);
/* Take what has been answered, unless somebody else reads. */
void pawl__home_look(struct home *home);

#endif
