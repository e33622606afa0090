/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.c - who reads, who sleeps, who tells: serve() and park(). redis.h has the picture.
 *
 * Invariants
 *   - At most one thread leads a node. While one does, the service thread does not watch for answers on its `commands`; and if the leader
 *     waits for a push, not on its inbox either, nor for a moment afterwards (`inbox_due`). Both are always watched for their end. What the
 *     sentinels say (`guide`) is always the service thread's to read.
 *   - What the service thread itself is to hear of, for claims that were adopted, never waits for that moment.
 *   - A follower sleeps on its claim's word. It is woken when its claim is decided, when it is to lead, or when it was unparked.
 *   - Whoever stops leading while others follow makes one of them the heir: `leading` stays true in between.
 *   - A claim is told of by one thread at a time: while serve() calls up about it, its park() does not return.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/bell.h"
#include "engine/redis/redis.h"
#include "os/futex.h"
#include "base/lease.h"
#include "os/sleep.h"

/* Timers that keep waiting claims alive need not be exact: those that are due so soon go together. */
#define SLACK_NS (20 * REDIS_MS)
/* How long the inbox is left alone when a leader has done with it. */
#define INBOX_REST_NS (10 * REDIS_MS)
/* A claim that is sent to and fro by nodes that do not agree goes slowly. */
#define REHOME_NS (50 * REDIS_MS)

/* ---- The mutex ------------------------------------------------------------------------------------------------------------ */

void pawl__redis_lock(struct redis *redis) {
    pthread_mutex_lock(&redis->mutex);
}

/* Is it for the service thread to read the answers on `commands`? Those of a voter are read by whoever serves them all. */
static bool reads_answers(const struct home *home) {
    return !home->leading && !is_voter(home->server.redis);
}

/* Is it for the service thread to read the inbox? Right after a leader did so the next one is likely to: then not at once. */
static bool reads_inbox(const struct home *home) {
    return !(home->leading && home->leader_waits) && !home->inbox_due;
}

/* What the service thread is to hear of this link. */
static uint32_t wanted_events(const struct link *link) {
    const struct home *home = home_of(link->server);
    uint32_t events = EPOLLRDHUP;

    switch (link->state) {
    case LINK_DOWN:
        return 0;
    case LINK_CONNECTING:
        return EPOLLOUT;
    case LINK_SHAKING:
        return link->ssl_wants_write ? EPOLLOUT : EPOLLIN;
    case LINK_GREETING:
        events |= EPOLLIN;
        break;
    case LINK_UP:
        if (link == &home->server.inbox      ? reads_inbox(home)
            : link == &home->server.commands ? reads_answers(home) && !TAILQ_EMPTY(&link->sent)
                                             : true)
            events |= EPOLLIN;
        break;
    }
    if (link->out_used || link->ssl_wants_write)
        events |= EPOLLOUT;
    return events;
}

static void watch(struct link *link) {
    struct epoll_event event = {.events = wanted_events(link), .data.ptr = link};

    if (link->fd < 0 || event.events == link->watched)
        return;
    epoll_ctl(link->redis->epoll_fd, link->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, link->fd, &event);
    link->watched = event.events;
}

/* How a note begins that was made while the mutex was held. */
enum { NOTE = 'n', WARNING = 'w' };

static void tell_notes(struct redis *redis, char *notes, size_t used) {
    for (char *line = notes; line < notes + used; line += strlen(line) + 1) {
        if (*line == WARNING)
            pawl__warn(&redis->base, "%s", line + 1);
        else
            pawl__note(&redis->base, NULL, "%s", line + 1);
    }
    free(notes);
}

static void unlock_quietly(struct redis *redis) {
    char *notes = redis->notes;
    size_t used = redis->notes_used;
    bool wake = redis->wake_service;

    redis->notes = NULL;
    redis->notes_used = redis->notes_size = 0;
    redis->wake_service = false;
    pthread_mutex_unlock(&redis->mutex);
    if (wake)
        bell_ring(redis->wake_fd);
    if (notes)
        tell_notes(redis, notes, used);
}

void pawl__redis_unlock(struct redis *redis) {
    struct server *server;
    struct link *link;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        for (int i = 0; (link = pawl__server_link(server, i)); i++)
            watch(link);
    }
    unlock_quietly(redis);
}

void pawl__redis_unlock_asked(struct redis *redis) {
    unlock_quietly(redis);
}

static void keep_note(struct redis *redis, int kind, const struct rclaim *claim, const char *format, va_list args) {
    size_t length = 1;
    char line[512] = {(char)kind};
    char *bigger;

    if (claim)
        length += (size_t)snprintf(line + 1, sizeof line - 1, "'%s' ", claim->claim->name);
    vsnprintf(line + length, sizeof line - length, format, args);
    length = strlen(line) + 1;
    if (redis->notes_used + length > redis->notes_size) {
        bigger = realloc(redis->notes, redis->notes_used + length + 1024);
        if (!bigger)
            return;
        redis->notes = bigger;
        redis->notes_size = redis->notes_used + length + 1024;
    }
    memcpy(redis->notes + redis->notes_used, line, length);
    redis->notes_used += length;
}

void pawl__redis_note(struct redis *redis, const struct rclaim *claim, const char *format, ...) {
    va_list args;

    if (!pawl__noting(&redis->base))
        return;
    va_start(args, format);
    keep_note(redis, NOTE, claim, format, args);
    va_end(args);
}

void pawl__redis_warn(struct redis *redis, const struct rclaim *claim, const char *format, ...) {
    va_list args;

    if (!redis->base.warn)
        return;
    va_start(args, format);
    keep_note(redis, WARNING, claim, format, args);
    va_end(args);
}

void pawl__redis_due(struct redis *redis, int64_t when) {
    if (when < redis->asleep_until)
        redis->wake_service = true;
}

/* ---- Telling -------------------------------------------------------------------------------------------------------------- */

/* Wake the thread that waits for the claim, however it sleeps. */
static void rouse(struct rclaim *claim) {
    if (claim->home && claim->home->leader == claim)
        bell_ring(claim->home->lead_fd);
    if (atomic_exchange(&claim->word, 0))
        futex_wake_own(&claim->word, 1);
}

static unsigned serve_tells(const struct rclaim *claim) {
    return claim->adopted ? claim->tell : claim->tell & ~(unsigned)TELL_PARKED;
}

static void queue_telling(struct redis *redis, struct rclaim *claim) {
    if (!serve_tells(claim) || claim->to_tell)
        return;
    claim->to_tell = true;
    TAILQ_INSERT_TAIL(&redis->to_tell, claim, telling);
    if (!redis->telling)
        redis->wake_service = true;
}

void pawl__redis_tell(struct redis *redis, struct rclaim *claim, unsigned what) {
    claim->tell |= what;
    if (claim->adopted || what & ~(unsigned)TELL_PARKED)
        queue_telling(redis, claim);
    if (what & TELL_PARKED && !claim->adopted)
        rouse(claim);
}

void pawl__redis_untell(struct redis *redis, struct rclaim *claim) {
    claim->tell &= ~(unsigned)(TELL_RENEWED | TELL_LOST | TELL_WAITS);
    if (claim->to_tell && !serve_tells(claim)) {
        claim->to_tell = false;
        TAILQ_REMOVE(&redis->to_tell, claim, telling);
    }
}

/* Tokens are the core's to read from the grant on: a renewal leaves them alone, but for those of a voter, which it may raise. */
static void fill_claim(const struct redis *redis, struct rclaim *claim, unsigned what) {
    if (what & TELL_GRANTED || is_voter(redis)) {
        claim->claim->token = claim->token;
        claim->claim->token_count = claim->token_count;
    }
    claim->claim->sent_at = claim->sent_at;
    claim->claim->lease_ns = claim->lease_ns;
}

/* Tell the core about one claim, without the mutex. */
static void call_up(struct redis *redis, struct rclaim *claim, unsigned what, const struct pawl_error *why, bool broken,
                    int64_t again_at) {
    pawl__tell_fn *tell = redis->base.tell;
    void *core = redis->base.core;
    struct pawl__claim *seam = claim->claim;

    if (what & TELL_GRANTED)
        tell(core, seam, NEWS_GRANTED, NULL);
    if (what & TELL_RENEWED)
        tell(core, seam, NEWS_RENEWED, NULL);
    if (what & TELL_LOST)
        tell(core, seam, broken ? NEWS_BROKEN : NEWS_LOST, why);
    if (what & TELL_WAITS)
        redis->base.waits(core, seam, again_at);
    if (what & TELL_DOWNGRADED)
        tell(core, seam, NEWS_DOWNGRADED, NULL);
    if (what & TELL_REFUSED)
        tell(core, seam, NEWS_REFUSED, why);
    else if (what & TELL_SETTLED)
        tell(core, seam, NEWS_GONE, NULL);
}

/* The claim's memory goes with REFUSED and with GONE. */
static bool ends_claim(unsigned what) {
    return what & (TELL_REFUSED | TELL_SETTLED);
}

static bool tell_one(struct redis *redis) {
    struct rclaim *claim = TAILQ_FIRST(&redis->to_tell);
    struct pawl_error why;
    unsigned what;
    bool ends, broken;
    int64_t again_at;

    if (!claim)
        return false;
    TAILQ_REMOVE(&redis->to_tell, claim, telling);
    claim->to_tell = false;
    what = serve_tells(claim);
    claim->tell &= ~what;
    if (!what)
        return true;
    if (what & (TELL_GRANTED | TELL_RENEWED))
        fill_claim(redis, claim, what);
    ends = ends_claim(what);
    why = claim->why;
    broken = claim->broken;
    again_at = claim->again_at;
    claim->told_now = !ends;
    claim->ended = ends;
    pawl__redis_unlock(redis);
    call_up(redis, claim, what, &why, broken, again_at);
    pawl__redis_lock(redis);
    if (!ends) {
        claim->told_now = false;
        rouse(claim);
    }
    return true;
}

void pawl__redis_tell_all(struct redis *redis) {
    while (tell_one(redis))
        continue;
    redis->telling = false;
    redis->wake_service = false;
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* Take those whose time has come out of the list: driving one may end others, but frees none while the mutex is held. */
static void collect_due(struct redis *redis, int64_t now, struct rclaim_list *ret) {
    struct rclaim *claim, *next;

    for (claim = TAILQ_FIRST(&redis->timed); claim; claim = next) {
        next = TAILQ_NEXT(claim, timed);
        if (claim->timer_at != PAWL__NEVER && claim->timer_at > now + (claim->exact ? 0 : SLACK_NS))
            continue;
        TAILQ_REMOVE(&redis->timed, claim, timed);
        claim->is_timed = false;
        if (claim->timer_at != PAWL__NEVER) /* else it was called off */
            TAILQ_INSERT_TAIL(ret, claim, due);
        claim->timer_at = PAWL__NEVER;
    }
}

static void run_timers(struct redis *redis, int64_t now) {
    struct rclaim_list due = TAILQ_HEAD_INITIALIZER(due);
    struct rclaim *claim;
    struct server *server;
    struct link *link;

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
        pawl__sentinel_tick(server);
        pawl__renew_flush(home);
    }
    pawl__cluster_tick(redis, now);
    collect_due(redis, now, &due);
    while ((claim = TAILQ_FIRST(&due))) {
        TAILQ_REMOVE(&due, claim, due);
        pawl__claim_drive(redis, claim);
    }
}

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t pawl__redis_earliest(struct redis *redis, int64_t deadline) {
    int64_t due = in_cluster(redis) ? sooner(deadline, redis->refresh_at) : deadline;
    struct rclaim *claim;
    struct server *server;
    struct link *link;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        struct home *home = home_of(server);

        if (home->inbox_due)
            due = sooner(due, home->inbox_due);
        if (home->answers_due)
            due = sooner(due, home->answers_due);
        for (int i = 0; (link = pawl__server_link(server, i)); i++)
            due = sooner(due, pawl__link_due(link));
    }
    TAILQ_FOREACH(claim, &redis->timed, timed) {
        due = sooner(due, claim->timer_at);
    }
    return due;
}

/* ---- The service thread --------------------------------------------------------------------------------------------------- */

static void handle_events(struct redis *redis, const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        struct link *link = events[i].data.ptr;

        if (!link) {
            bell_silence(redis->wake_fd);
            redis->woken = true;
        } else if (link->fd >= 0) {
            pawl__link_progress(link);
        }
    }
}

/* Sleep until something is to be done. The mutex is held, and released meanwhile. */
static void sleep_until(struct redis *redis, int64_t until) {
    struct epoll_event events[4];
    int64_t left = pawl__nap_ns(pawl__boottime(), until);
    int count;

    redis->asleep_until = until;
    redis->wake_service = false; /* we are awake */
    pawl__redis_unlock(redis);
    count = epoll_wait(redis->epoll_fd, events, 4, (int)((left + REDIS_MS - 1) / REDIS_MS));
    pawl__redis_lock(redis);
    redis->asleep_until = 0;
    redis->telling = true;
    handle_events(redis, events, count);
}

void pawl__redis_serve(struct pawl__engine *engine, int64_t deadline) {
    struct redis *redis = redis_of(engine);
    int64_t until;

    pawl__redis_lock(redis);
    run_timers(redis, pawl__boottime());
    until = TAILQ_EMPTY(&redis->to_tell) ? pawl__redis_earliest(redis, deadline) : 0;
    sleep_until(redis, until);
    redis->woken = false;
    run_timers(redis, pawl__boottime());
    pawl__redis_tell_all(redis);
    pawl__redis_unlock(redis);
}

void pawl__redis_wake(struct pawl__engine *engine) {
    bell_ring(redis_of(engine)->wake_fd);
}

/* ---- Leading -------------------------------------------------------------------------------------------------------------- */

/* Whether the leader waits for a push. Who does not any more leaves the inbox to the service thread; after a while, unless that has claims
 * to look after: threads that take turns at a lock would tell the kernel twice each time. */
static void set_leader_waits(struct home *home, bool waits) {
    if (home->leader_waits && !waits && !home->server.redis->adopted_count) {
        home->inbox_due = pawl__boottime() + INBOX_REST_NS;
        pawl__redis_due(home->server.redis, home->inbox_due);
    }
    home->leader_waits = waits;
}

/* Is an answer on its way, and nobody but the leader waits for one? Others would have use for the CPU. */
static bool is_alone(const struct home *home) {
    return TAILQ_EMPTY(&home->followers) && !TAILQ_EMPTY(&home->server.commands.sent);
}

/* Sleep until there is something to read. The mutex is held, and released meanwhile. */
static void lead(struct home *home, const struct rclaim *claim, bool waits, int64_t deadline) {
    struct redis *redis = home->server.redis;
    struct pollfd fds[3] = {{.fd = home->server.commands.fd, .events = POLLIN},
                            {.fd = home->lead_fd, .events = POLLIN},
                            {.fd = home->server.inbox.fd, .events = POLLIN}};
    struct spin *spin = is_alone(home) && !waits ? &home->spin : NULL;

    home->leading = true;
    home->leader = claim;
    if (home->leader_waits != waits || home->server.commands.watched & EPOLLIN) {
        set_leader_waits(home, waits);
        pawl__redis_unlock(redis);
    } else {
        unlock_quietly(redis);
    }
    pawl__sleep(fds, waits ? 3 : 2, deadline, spin);
    pawl__redis_lock(redis);
    home->leader = NULL;
    if (fds[1].revents)
        bell_silence(home->lead_fd);
    if (fds[0].revents && home->server.commands.state == LINK_UP)
        pawl__link_read(&home->server.commands);
    if (waits && fds[2].revents && home->server.inbox.state == LINK_UP)
        pawl__link_read(&home->server.inbox);
}

/* Stop leading: one of the followers goes on, or the service thread. */
static void abdicate(struct home *home) {
    struct rclaim *heir = pawl__server_up(&home->server) ? TAILQ_FIRST(&home->followers) : NULL;

    home->leading = heir != NULL;
    if (heir) {
        heir->heir = true;
        rouse(heir);
    } else {
        set_leader_waits(home, false);
    }
}

/* ---- Parking -------------------------------------------------------------------------------------------------------------- */

static void follow(struct redis *redis, struct rclaim *claim, int64_t deadline) {
    struct home *home = claim->home;

    atomic_store(&claim->word, 1);
    if (!claim->follows) {
        claim->follows = true;
        TAILQ_INSERT_TAIL(&home->followers, claim, follower);
    }
    pawl__redis_unlock(redis);
    futex_wait_own(&claim->word, 1, pawl__nap_ns(pawl__boottime(), deadline));
    pawl__redis_lock(redis);
    atomic_store(&claim->word, 0);
    if (claim->follows) {
        claim->follows = false;
        TAILQ_REMOVE(&home->followers, claim, follower);
    }
}

void pawl__claim_rehome(struct redis *redis, struct rclaim *claim, struct home *home) {
    struct home *old = claim->home;
    int64_t now = pawl__boottime();
    bool restless = now < claim->rehomed_at + REHOME_NS;

    claim->rehomed_at = now;
    pawl__redis_note(redis, claim, "slot %u is at %s now", claim->slot, pawl__addresses_where(home->server.addresses));
    pawl__renew_forget(claim);
    pawl__claim_detach(redis, claim);
    pawl__secure_forget(claim);
    pawl__push_unlisten(redis, claim);
    /* A release that is on its way may be carried out yet, and the keys move without what it freed. */
    claim->resent |= claim->asked && claim->state == RCLAIM_LEAVING;
    claim->renewing = claim->asked = false;
    claim->turn += claim->turn > 0;
    if (claim->state == RCLAIM_SECURING) {
        claim->state = RCLAIM_ASKING;
        claim->held_since = 0;
    }
    /* Its thread, if one waits, is to look again: at the new node. */
    rouse(claim);
    if (claim->follows)
        TAILQ_REMOVE(&old->followers, claim, follower);
    claim->follows = false;
    if (claim->heir) {
        claim->heir = false;
        abdicate(old);
    }
    claim->home = home;
    pawl__server_want(&home->server);
    pawl__renew_want(claim);
    if (rclaim_holds(claim))
        pawl__ear_open(redis, claim);
    if (restless) {
        pawl__claim_set_timer(redis, claim, now + REHOME_NS, true);
        home->renew_at = now + REHOME_NS;
        return;
    }
    pawl__claim_drive(redis, claim);
    pawl__renew_flush(home);
}

/* Decided, and nobody else speaks of the claim. */
static bool decided(const struct rclaim *claim) {
    return claim->tell & TELL_PARKED && !claim->told_now;
}

/* One step of waiting. *led is the node that this thread leads, or NULL. */
static void wait_once(struct redis *redis, struct rclaim *claim, struct home **led, int64_t deadline) {
    struct home *home = claim->home;
    bool open = !(claim->tell & TELL_PARKED);

    if (claim->heir) {
        claim->heir = false;
        *led = home;
    }
    /* Decided, but the service thread is speaking of it; or there is nothing to read; or not there any more. */
    if (*led && (*led != home || !pawl__server_up(&home->server) || !open)) {
        abdicate(*led);
        *led = NULL;
    }
    if (!*led && !home->leading && pawl__server_up(&home->server) && open) {
        home->leading = true;
        *led = home;
    }
    if (*led)
        lead(home, claim, claim->state == RCLAIM_WAITING || (claim->state == RCLAIM_ASKING && home->contended), deadline);
    else
        follow(redis, claim, deadline);
}

static int take_outcome(const struct redis *redis, struct rclaim *claim, struct pawl_error *reterr) {
    unsigned what = claim->tell & TELL_PARKED;
    int rc = PAWL__DONE;

    claim->tell &= ~what;
    if (what & TELL_GRANTED)
        fill_claim(redis, claim, what);
    if (what & TELL_REFUSED) {
        rc = claim->why.code;
        if (reterr)
            *reterr = claim->why;
    } else if (what & TELL_SETTLED && claim->was_lost) {
        rc = PAWL_ELOST;
    }
    return rc;
}

int pawl__redis_park(struct pawl__engine *engine, struct pawl__claim *seam, int64_t deadline, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);
    struct home *led = NULL;
    int rc = PAWL__PENDING;

    pawl__redis_lock(redis);
    pawl__claim_want_more(redis, claim);
    while (!decided(claim)) {
        if (claim->unparked || pawl__boottime() >= deadline)
            break;
        wait_once(redis, claim, &led, deadline);
    }
    if (claim->heir) {
        claim->heir = false;
        led = claim->home;
    }
    if (led)
        abdicate(led);
    claim->unparked = false;
    if (decided(claim))
        rc = take_outcome(redis, claim, reterr);
    pawl__redis_unlock(redis);
    return rc;
}

void pawl__redis_unpark(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    claim->unparked = true;
    rouse(claim);
    pawl__redis_unlock(redis);
}

void pawl__redis_adopt(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    if (!claim->adopted && claim->state != RCLAIM_NONE) {
        redis->adopted_count++;
        claim->home->inbox_due = 0;
    }
    claim->adopted = true;
    queue_telling(redis, claim);
    pawl__redis_unlock(redis);
}

/* Others read: sleep until any call was answered. */
static void wait_for_call(struct home *home, int64_t deadline) {
    watch(&home->server.commands);
    pawl__wait_until(&home->server.redis->called, &home->server.redis->mutex, deadline);
}

bool pawl__home_wait(struct home *home, const bool *done, int64_t deadline) {
    bool leads = false;

    while (!*done && pawl__boottime() < deadline) {
        if (leads && !pawl__server_up(&home->server)) {
            abdicate(home);
            leads = false;
        }
        if (!leads && !home->leading && pawl__server_up(&home->server))
            leads = home->leading = true;
        if (leads) {
            lead(home, NULL, false, deadline);
        } else {
            wait_for_call(home, deadline);
        }
    }
    if (leads)
        abdicate(home);
    return *done;
}

void pawl__home_look_later(struct home *home) {
    if (home->answers_due)
        return;
    home->answers_due = pawl__boottime() + home->server.redis->options.command_ns / 2;
    pawl__redis_due(home->server.redis, home->answers_due);
}

void pawl__home_look(struct home *home) {
    if (!home->leading && home->server.commands.state == LINK_UP)
        pawl__link_read(&home->server.commands);
}

void pawl__home_kick_leader(struct home *home) {
    if (home->leading)
        bell_ring(home->lead_fd);
}
