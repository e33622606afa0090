/* SPDX-License-Identifier: Apache-2.0
 *
 * observe.c - locks that are observed: who holds one, and what lies beside it.
 *
 *             observed, or the connection is new
 *     OFF ---------------------------------------> ASKED --(answer)--> ARMED: the core looks
 *      ^                                             ^                   | a key has changed, or the holder's time ends
 *      `--- a second goes by: the core looks         `----- 10 ms later -'
 *
 * A watch is one observed name; all of a client's observers of it share it. The server tells the inbox of the next change to the keys that
 * were read after CLIENT CACHING YES (listen.c): so no script has a call more, and the holds of programs that are not pawl are seen, too.
 *
 * Invariants
 *   - The core is told after the keys were read: what changes later is told again. So the last state is never missed.
 *   - It is told at most once in 10 ms of each name; renewals are changes, too.
 *   - Expired keys are told late: when the lock's time ends the keys are read again.
 *   - Where the server can't tell, or we may not have it do so, the core is told every second.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"
#include "base/error.h"

#define PAUSE_NS (10 * REDIS_MS)
#define POLL_NS (1000 * REDIS_MS)

struct observer {
    TAILQ_ENTRY(observer) entry; /* watch->observers */
    TAILQ_ENTRY(observer) news;  /* claims->watch_news, while `listed` */
    bool listed;
    struct pawl__observer *seam;
    struct watch *watch;
};

struct watch {
    TAILQ_ENTRY(watch) bucket; /* claims->watches */
    TAILQ_HEAD(, observer) observers;
    struct kit_timer timer;
    struct home *home;
    unsigned slot; /* in a cluster */
    bool asked;    /* its keys are being read; */
    bool again;    /* ... and one has changed meanwhile, perhaps after that */
    int64_t told_at;
    char name[];
};

static struct watch_list *bucket_of(struct redis *redis, const char *name) {
    return &claims_of(redis)->watches[pawl__name_hash(name, strlen(name)) % REDIS_WATCHES];
}

static struct watch *find(struct redis *redis, const char *name) {
    struct watch *watch;

    TAILQ_FOREACH(watch, bucket_of(redis, name), bucket) {
        if (strcmp(watch->name, name) == 0)
            return watch;
    }
    return NULL;
}

static void set_timer(struct watch *watch, int64_t when) {
    struct redis *redis = watch->home->server.redis;

    if (when >= watch->timer.at)
        return;
    pawl__kit_timer_set(&claims_of(redis)->watch_timers, &watch->timer, when, true);
    pawl__redis_due(redis, when);
}

/* Its observers are to be told: by serve(), without the mutex. */
static void tell(struct redis *redis, struct watch *watch) {
    struct observer *observer;

    watch->told_at = pawl__boottime();
    TAILQ_FOREACH(observer, &watch->observers, entry) {
        if (!observer->listed)
            TAILQ_INSERT_TAIL(&claims_of(redis)->watch_news, observer, news);
        observer->listed = true;
        redis->kit.wakes = true;
    }
}

static void unlist(struct claims *claims, struct observer *observer) {
    if (observer->listed)
        TAILQ_REMOVE(&claims->watch_news, observer, news);
    observer->listed = false;
}

void pawl__watches_tell(struct redis *redis) {
    struct claims *claims = claims_of(redis);
    struct observer *observer;

    while ((observer = TAILQ_FIRST(&claims->watch_news))) {
        unlist(claims, observer);
        claims->watch_told = observer;
        pawl__redis_unlock(redis);
        redis->base.changed(redis->base.core, observer->seam);
        pawl__redis_lock(redis);
        claims->watch_told = NULL;
        pthread_cond_broadcast(&claims->called); /* it may be waited for, below */
    }
}

/* ---- Its keys ------------------------------------------------------------------------------------------------------------- */

static bool say(struct watch *watch, int argc, const char **argv, enum asked what) {
    struct request request = {.what = what, .script = -1, .data = what == ASKED_NOTHING ? NULL : watch};

    return pawl__link_say(&watch->home->server.commands, argc, argv, &request);
}

/* Read them, so that the server tells of the next change; and how long the lock has left. */
static void arm(struct watch *watch) {
    struct redis *redis = watch->home->server.redis;
    struct redis_keys keys;
    char value[REDIS_KEY_MAX];

    if (watch->asked)
        return;
    pawl__redis_keys(redis, watch->name, PAWL_MUTEX, &keys);
    pawl__redis_part_key(redis, watch->name, PART_VALUE, value);
    watch->again = false;
    watch->asked = say(watch, 3, (const char *[]){"CLIENT", "CACHING", "YES"}, ASKED_NOTHING) &&
                   say(watch, 4, (const char *[]){"EXISTS", keys.lock, keys.who, value}, ASKED_WATCH) &&
                   say(watch, 2, (const char *[]){"PTTL", keys.lock}, ASKED_WATCH_TIME);
}

/* It is time to look. */
static void look(struct redis *redis, struct watch *watch) {
    if (!pawl__server_up(&watch->home->server))
        return; /* it begins anew when that is up */
    if (watch->home->tracks) {
        arm(watch);
        return;
    }
    tell(redis, watch);
    set_timer(watch, pawl__boottime() + POLL_NS);
}

void pawl__watch_due(struct redis *redis, struct kit_timer *timer) {
    look(redis, (struct watch *)((char *)timer - offsetof(struct watch, timer)));
}

void pawl__watch_read(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct watch *watch = request->data;
    struct pawl_error why;

    if (!watch || !reply)
        return;
    if (pawl__reply_class(reply, &why) == REPLY_MOVED)
        pawl__cluster_moved(request->server, reply, NULL);
    tell(redis, watch);
    if (reply->type == REDIS_REPLY_ERROR) /* while its slot moves, say: then nothing is told of its keys */
        set_timer(watch, watch->told_at + POLL_NS);
}

void pawl__watch_timed(const struct request *request, const redisReply *reply) {
    struct watch *watch = request->data;

    if (!watch)
        return;
    watch->asked = false;
    if (reply && reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && reply->integer < REDIS_SPAN_MAX)
        set_timer(watch, pawl__boottime() + (reply->integer + 2) * REDIS_MS);
    if (watch->again)
        set_timer(watch, watch->told_at + PAUSE_NS);
}

static void key_changed(struct watch *watch) {
    if (!watch)
        return;
    watch->again = true;
    if (!watch->asked)
        set_timer(watch, watch->told_at + PAUSE_NS);
}

/* A key of a lock is its name behind the prefix; or `pawl:...:` and that in braces, or as it is where it has a brace of its own. Which of
 * the two it is need not be known. */
void pawl__watch_changed(struct home *home, const char *key) {
    struct redis *redis = home->server.redis;
    size_t prefix = strlen(redis->options.prefix), length;
    char name[REDIS_KEY_MAX];
    const char *rest = strncmp(key, "pawl:value:", 11) == 0 ? key + 11 : strncmp(key, "pawl:who:", 9) == 0 ? key + 9 : NULL;

    if (strncmp(key, redis->options.prefix, prefix) == 0)
        key_changed(find(redis, key + prefix));
    if (!rest || (length = strlen(rest)) >= sizeof name)
        return;
    if (strncmp(rest, redis->options.prefix, prefix) == 0)
        key_changed(find(redis, rest + prefix));
    if (length < 2 || rest[0] != '{' || rest[length - 1] != '}')
        return;
    memcpy(name, rest + 1, length - 2);
    name[length - 2] = '\0';
    if (strncmp(name, redis->options.prefix, prefix) == 0)
        key_changed(find(redis, name + prefix));
}

/* ---- Where it is ---------------------------------------------------------------------------------------------------------- */

void pawl__watch_all(struct home *home, bool changed) {
    struct redis *redis = home->server.redis;
    struct watch *watch;

    for (int i = 0; i < REDIS_WATCHES; i++)
        TAILQ_FOREACH(watch, &claims_of(redis)->watches[i], bucket) {
            if (watch->home != home)
                continue;
            if (changed)
                key_changed(watch);
            else
                look(redis, watch);
        }
}

/* An answer that is on its way is of no use any more. */
static void detach(struct watch *watch) {
    struct request *request;

    TAILQ_FOREACH(request, &watch->home->server.commands.sent, link) {
        if (request->data == watch)
            request->data = NULL;
    }
    watch->asked = false;
}

static void enter_home(struct watch *watch, struct home *home) {
    watch->home = home;
    home->server.users++;
    home->server.redis->claim_count++;
    pawl__route_want(&home->server);
    if (home->watch_count++ == 0 && pawl__server_up(&home->server) && !home->tracks)
        pawl__listen_track(home);
    look(home->server.redis, watch);
}

static void leave_home(struct watch *watch) {
    struct home *home = watch->home;

    detach(watch);
    home->server.users--;
    home->server.redis->claim_count--;
    if (--home->watch_count == 0)
        pawl__listen_untrack(home);
}

void pawl__watches_follow(struct redis *redis) {
    struct watch *watch;
    struct server *server;

    for (int i = 0; i < REDIS_WATCHES; i++)
        TAILQ_FOREACH(watch, &claims_of(redis)->watches[i], bucket) {
            server = pawl__route_at(redis, watch->slot);
            if (!server || home_of(server) == watch->home)
                continue;
            leave_home(watch);
            enter_home(watch, home_of(server));
        }
}

void pawl__watches_init(struct redis *redis) {
    TAILQ_INIT(&claims_of(redis)->watch_timers);
    TAILQ_INIT(&claims_of(redis)->watch_news);
    for (int i = 0; i < REDIS_WATCHES; i++)
        TAILQ_INIT(&claims_of(redis)->watches[i]);
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

static struct watch *make(struct redis *redis, const char *name) {
    struct watch *watch = calloc(1, sizeof *watch + strlen(name) + 1);

    if (!watch)
        return NULL;
    strcpy(watch->name, name);
    TAILQ_INIT(&watch->observers);
    pawl__kit_timer_init(&watch->timer);
    watch->slot = pawl__route_slot(redis, name);
    TAILQ_INSERT_TAIL(bucket_of(redis, name), watch, bucket);
    return watch;
}

int pawl__redis_observe(struct pawl__engine *engine, struct pawl__observer *seam, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct observer *observer;
    struct watch *watch = NULL;
    int rc = pawl__redis_check_name(redis, seam->name, reterr);

    if (rc < 0)
        return rc;
    observer = calloc(1, sizeof *observer);
    pawl__redis_lock(redis);
    watch = observer ? find(redis, seam->name) : NULL;
    if (observer && !watch && (watch = make(redis, seam->name)))
        enter_home(watch, home_of(pawl__route_server(redis, seam->name)));
    if (watch) {
        *observer = (struct observer){.seam = seam, .watch = watch};
        seam->engine_part = observer;
        seam->every_ns = PAWL__NEVER; /* see the head of this file */
        TAILQ_INSERT_TAIL(&watch->observers, observer, entry);
        set_timer(watch, 0); /* if the watch listens already, its beginning to listen does not tell this observer */
    }
    pawl__redis_unlock(redis);
    if (watch)
        return 0;
    free(observer);
    return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
}

void pawl__redis_unobserve(struct pawl__engine *engine, struct pawl__observer *seam) {
    struct redis *redis = redis_of(engine);
    struct observer *observer = seam->engine_part;
    struct watch *watch = observer->watch;

    pawl__redis_lock(redis);
    while (claims_of(redis)->watch_told == observer) /* the watch stays as long as it is in its list */
        pthread_cond_wait(&claims_of(redis)->called, &redis->kit.mutex);
    unlist(claims_of(redis), observer);
    TAILQ_REMOVE(&watch->observers, observer, entry);
    free(observer);
    if (TAILQ_EMPTY(&watch->observers)) {
        leave_home(watch);
        TAILQ_REMOVE(bucket_of(redis, watch->name), watch, bucket);
        pawl__kit_timer_end(&claims_of(redis)->watch_timers, &watch->timer);
        free(watch);
    }
    pawl__redis_unlock(redis);
}
