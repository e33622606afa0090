/* SPDX-License-Identifier: Apache-2.0
 *
 * pump.c - what lets answers in: serve(), and the thread that reads for all who park. kit/wait.h has the rule of who reads.
 *
 * Invariants
 *   - While a caller reads a home's answers, the service thread does not watch for those on its `commands`; and if the caller waits for a
 *     push, not on its inbox either, nor for a moment afterwards (`inbox_due`). Both are always watched for their end. What sentinels
 *     say is always the service thread's to read.
 *   - What the service thread itself is to hear of, for claims that were adopted, never waits for that moment.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "os/bell.h"
#include "engine/redis/lock/lock.h"
#include "base/lease.h"
#include "os/sleep.h"

/* How long the inbox is left alone when a caller has done with it. */
#define INBOX_REST_NS (10 * REDIS_MS)

/* ---- What the service thread watches -------------------------------------------------------------------------------------- */

/* Is it for the service thread to read the inbox? Right after a caller did so the next one is likely to: then not at once. */
static bool reads_inbox(const struct home *home) {
    return !(home->reader.taken && home->reader_waits) && !home->inbox_due;
}

/* What the service thread is to hear of this link. */
static uint32_t wanted_events(const struct link *link) {
    const struct home *home = home_of(link->server);
    bool reads = true;

    if (link == &home->server.inbox)
        reads = reads_inbox(home);
    else if (link == &home->server.commands)
        reads = !home->reader.taken && !TAILQ_EMPTY(&link->sent);
    return (uint32_t)pawl__link_events(link, reads); /* epoll's numbers are those of poll */
}

static void watch(struct link *link) {
    struct epoll_event event = {.events = wanted_events(link), .data.ptr = link};

    if (link->fd < 0 || event.events == link->watched)
        return;
    epoll_ctl(claims_of(link->redis)->epoll_fd, link->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, link->fd, &event);
    link->watched = event.events;
}

/* Events are handled before the mutex is let go. What the service thread watches may be out of date after a quiet unlock: that thread
 * reads its own answer. */
static void unlocking(struct kit *kit) {
    struct redis *redis = redis_of(kit->engine);
    struct link *link;

    pawl__redis_take_events(redis);
    TAILQ_FOREACH(link, &redis->links, entry) {
        watch(link);
    }
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

static void run_timers(struct redis *redis, int64_t now) {
    struct kit_timers due;
    struct kit_timer *timer;
    struct server *server;
    struct link *link;

    pawl__route_tick(redis, now);
    TAILQ_FOREACH(server, &redis->servers, entry) {
        struct home *home = home_of(server);

        if (now >= home->inbox_due)
            home->inbox_due = 0;
        if (home->answers_due && now >= home->answers_due) {
            home->answers_due = 0;
            pawl__home_look(home); /* before it is taken for silent */
        }
        for (int i = 0; (link = pawl__server_link(server, i)); i++)
            pawl__link_tick(link, now);
        pawl__redis_take_events(redis);
        pawl__renew_look(home, now);
        pawl__renew_flush(home);
    }
    if (now >= claims_of(redis)->undos_due)
        pawl__send_undos(redis);
    pawl__kit_timers_take(&redis->kit.timers, now, &due);
    TAILQ_FOREACH(timer, &due, due) { /* driving one may end others, but frees none while the mutex is held */
        pawl__rclaim_due(redis, (struct rclaim *)((char *)timer - offsetof(struct rclaim, timer)));
    }
    pawl__kit_timers_take(&claims_of(redis)->watch_timers, now, &due);
    TAILQ_FOREACH(timer, &due, due) {
        pawl__watch_due(redis, timer);
    }
}

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t pawl__redis_earliest(struct redis *redis, int64_t deadline) {
    int64_t due = sooner(sooner(deadline, route_of(redis)->due), claims_of(redis)->undos_due);
    struct server *server;
    struct link *link;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        struct home *home = home_of(server);

        if (home->inbox_due)
            due = sooner(due, home->inbox_due);
        if (home->answers_due)
            due = sooner(due, home->answers_due);
        if (!TAILQ_EMPTY(&home->to_renew) && home->server.commands.state == LINK_UP)
            due = sooner(due, home->renew_at);
        for (int i = 0; i < HEARERS; i++)
            if (home->hearers[i].look_at)
                due = sooner(due, home->hearers[i].look_at);
    }
    TAILQ_FOREACH(link, &redis->links, entry) {
        due = sooner(due, pawl__link_due(link));
    }
    due = sooner(due, pawl__kit_timers_next(&claims_of(redis)->watch_timers));
    return sooner(due, pawl__kit_timers_next(&redis->kit.timers));
}

/* ---- The service thread --------------------------------------------------------------------------------------------------- */

static void handle_events(struct redis *redis, const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        struct link *link = events[i].data.ptr;

        if (!link) {
            bell_silence(redis->kit.bell);
            claims_of(redis)->woken = true;
        } else if (link->fd >= 0) {
            pawl__link_progress(link);
            pawl__redis_take_events(redis);
        }
    }
}

/* Sleep until something is to be done. The mutex is held, and released meanwhile. */
static void sleep_until(struct redis *redis, int64_t until) {
    struct epoll_event events[4];
    int count;

    redis->kit.asleep_until = until;
    redis->kit.wakes = false; /* we are awake */
    pawl__redis_unlock(redis);
    count = pawl__sleep_epoll(claims_of(redis)->epoll_fd, events, 4, until);
    pawl__redis_lock(redis);
    redis->kit.asleep_until = 0;
    redis->kit.telling = true;
    handle_events(redis, events, count);
}

void pawl__redis_serve(struct pawl__engine *engine, int64_t deadline) {
    struct redis *redis = redis_of(engine);
    int64_t until;

    pawl__redis_lock(redis);
    run_timers(redis, pawl__boottime());
    until = TAILQ_EMPTY(&redis->kit.outbox) && TAILQ_EMPTY(&claims_of(redis)->watch_news) ? pawl__redis_earliest(redis, deadline)
                                                                                          : 0;
    sleep_until(redis, until);
    claims_of(redis)->woken = false;
    run_timers(redis, pawl__boottime());
    pawl__kit_tell_all(&redis->kit);
    pawl__watches_tell(redis);
    pawl__redis_unlock(redis);
}

void pawl__redis_wake(struct pawl__engine *engine) {
    bell_ring(redis_of(engine)->kit.bell);
}

/* ---- Callers that read ---------------------------------------------------------------------------------------------------- */

static struct home *home_of_reader(const struct kit_reader *reader) {
    return (struct home *)((char *)reader - offsetof(struct home, reader));
}

static bool can_read(const struct kit_reader *reader) {
    return pawl__server_up(&home_of_reader(reader)->server);
}

/* Whether the thread that reads waits for a push. Who does not any more leaves the inbox to the service thread; after a while, unless that
 * has claims to look after, or some are kept: threads that take turns at a lock would tell the kernel twice each time. */
static void set_reader_waits(struct home *home, bool waits) {
    const struct claims *claims = claims_of(home->server.redis);

    if (home->reader_waits && !waits && !claims->adopted_count && !claims->hearer_count) {
        home->inbox_due = pawl__boottime() + INBOX_REST_NS;
        pawl__redis_due(home->server.redis, home->inbox_due);
    }
    home->reader_waits = waits;
}

/* May the reader spin? Only if an answer is on its way and no other thread waits, which could use the CPU. */
static bool is_alone(const struct home *home) {
    return TAILQ_EMPTY(&home->reader.followers) && !TAILQ_EMPTY(&home->server.commands.sent);
}

/* Does the next thing to come for this claim come by the inbox, perhaps? */
static bool awaits_push(const struct home *home, const struct rclaim *claim) {
    return claim && (claim->state == RCLAIM_WAITING || (claim->state == RCLAIM_ASKING && home->contended));
}

/* Sleep until there is something to read. `claim` NULL: for a call that is about none. */
static void read_home(struct kit *kit, struct kit_reader *reader, struct kit_claim *claim, int64_t deadline) {
    struct home *home = home_of_reader(reader);
    struct server *server = &home->server;
    bool waits = awaits_push(home, (struct rclaim *)claim);
    struct pollfd fds[3] = {{.fd = server->commands.fd, .events = POLLIN},
                            {.fd = home->read_bell, .events = POLLIN},
                            {.fd = server->inbox.fd, .events = POLLIN}};
    struct spin *spin = is_alone(home) && !waits ? &home->spin : NULL;
    int came;

    reader->sleeper = claim;
    home->reader_sleeps = true;
    if (home->reader_waits != waits || server->commands.watched & EPOLLIN) {
        set_reader_waits(home, waits);
        pawl__kit_unlock(kit);
    } else {
        pawl__redis_unlock_asked(server->redis);
    }
    came = pawl__sleep(fds, waits ? 3 : 2, deadline, spin);
    pawl__kit_lock(kit);
    reader->sleeper = NULL;
    home->reader_sleeps = false;
    if (came < 0)
        pawl__kit_interrupt(kit, claim);
    if (fds[1].revents)
        bell_silence(home->read_bell);
    if (fds[0].revents && server->commands.state == LINK_UP)
        pawl__link_read(&server->commands);
    if (waits && fds[2].revents && server->inbox.state == LINK_UP)
        pawl__link_read(&server->inbox);
    pawl__redis_take_events(server->redis);
}

static void wake_reader(struct kit *kit, struct kit_reader *reader) {
    (void)kit;
    bell_ring(home_of_reader(reader)->read_bell);
}

static void left(struct kit *kit, struct kit_reader *reader) {
    (void)kit;
    set_reader_waits(home_of_reader(reader), false);
}

const struct kit_ops pawl__redis_kit = {unlocking, can_read, read_home, wake_reader, left};

/* ---- Calls that are about no claim ---------------------------------------------------------------------------------------- */

/* Others read: sleep until any call was answered. */
static void wait_for_call(struct home *home, int64_t deadline) {
    watch(&home->server.commands);
    pawl__wait_until(&claims_of(home->server.redis)->called, &home->server.redis->kit.mutex, deadline);
}

bool pawl__home_wait(struct home *home, const bool *done, int64_t deadline) {
    struct kit *kit = &home->server.redis->kit;
    bool reads = false;

    pawl__redis_take_events(home->server.redis);
    while (!*done && pawl__boottime() < deadline) {
        if (reads && !can_read(&home->reader)) {
            pawl__kit_pass_reading(kit, &home->reader);
            reads = false;
        }
        if (!reads)
            reads = pawl__kit_take_reading(kit, &home->reader);
        if (reads)
            read_home(kit, &home->reader, NULL, deadline);
        else
            wait_for_call(home, deadline);
    }
    if (reads)
        pawl__kit_pass_reading(kit, &home->reader);
    return *done;
}

void pawl__home_look_later(struct home *home) {
    if (home->answers_due)
        return;
    home->answers_due = pawl__boottime() + home->server.redis->options.command_ns / 2;
    pawl__redis_due(home->server.redis, home->answers_due);
}

void pawl__home_look(struct home *home) {
    if (home->reader.taken || home->server.commands.state != LINK_UP)
        return;
    pawl__link_read(&home->server.commands);
    pawl__redis_take_events(home->server.redis);
}
