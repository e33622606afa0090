/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c - the session: connecting, driving the library, losing the connection, losing the session.
 *
 *     no handle --init--> connecting --CONNECTED--> connected --(cut)--> connecting ...      same session: what was lost is asked again
 *         ^                                             |
 *         +--------------- expired or auth failed <-----+                                    new session: held claims are lost, pending
 *                                                                                            ones begin anew
 *
 * The library connects, pings and reconnects from within zookeeper_interest and zookeeper_process, and only there: serve() calls them in
 * turn around a poll. It never gives up by itself; how often it may try is decided here, by not calling it until the next attempt
 * is due (?retry=BASE,MAX,TRIES: after every round over all hosts the pause doubles, with jitter).
 *
 * Names of hosts are looked up here, before the mutex is taken, and the library sees numbers only: it would look them up with the
 * mutex held, again and again.
 */
#include "engine/zookeeper/zk.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/bell.h"
#include "os/descriptor.h"
#include "base/error.h"
#include "base/lease.h"
#include "os/sleep.h"
#include "engine/zookeeper/session/four_letter.h"

/* Replies that are taken before the core is told: enough for a burst, few enough to stay fair. */
enum { REPLIES = 64, SERVERS_TEXT = 16384 };
/* How often names are looked up again while nobody answers. */
#define RESOLVE_NS (10 * ZK_S)
/* How often a claim looks again though there is no room. */
#define CROWDED_NS (10 * ZK_MS)

/* ---- Names ---------------------------------------------------------------------------------------------------------------- */

/* The library takes what is behind the last colon for the port, and knows no brackets around an address of IPv6. */
static size_t add_address(const struct addrinfo *info, char *text, size_t used) {
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0 ||
        used + strlen(host) + strlen(port) + 5 > SERVERS_TEXT)
        return used;
    return used + (size_t)snprintf(text + used, SERVERS_TEXT - used, "%s%s:%s", used ? "," : "", host, port);
}

static int fail_unknown(const struct zk_engine *zk, int rc, struct pawl_error *reterr) {
    if (rc == EAI_ADDRFAMILY)
        return pawl__fail(
            reterr, PAWL_ECONNLOST,
            "none of the hosts of %s can be used: this machine has IPv6 on loopback alone, or not at all, and libzookeeper "
            "refuses such addresses there: give one of IPv4",
            zk->url);
    return pawl__fail(reterr, PAWL_ECONNLOST, "none of the hosts of %s is known%s%s: look at their names", zk->url, rc ? ": " : "",
                      rc ? gai_strerror(rc) : "");
}

/* All hosts as numbers, separated by commas; NULL: none is known. Takes as long as the resolver does: no mutex held. */
static char *resolve(const struct zk_engine *zk, struct pawl_error *reterr) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char *text = malloc(SERVERS_TEXT);
    struct addrinfo *found;
    size_t used = 0;
    int rc = 0;

    for (size_t i = 0; text && i < zk->host_count; i++) {
        char port[8];

        snprintf(port, sizeof port, "%u", zk->hosts[i].port);
        rc = getaddrinfo(zk->hosts[i].name, port, &hints, &found);
        if (rc != 0)
            continue;
        for (const struct addrinfo *info = found; info; info = info->ai_next)
            used = add_address(info, text, used);
        freeaddrinfo(found);
    }
    if (text && used)
        return text;
    free(text);
    fail_unknown(zk, rc, reterr);
    return NULL;
}

/* ---- Events of the session ------------------------------------------------------------------------------------------------ */

static void drop_log(const char *message) {
    (void)message; /* the library prints to stderr otherwise; what matters is told by codes */
}

static void set_link(struct zk_engine *zk, bool connected) {
    struct zk_claim *claim;

    zk->connected = connected;
    TAILQ_FOREACH(claim, &zk->claims, link) {
        claim->next_in_line = false; /* what was missed meanwhile is told in no order */
    }
    atomic_store(&zk->base.link, connected ? 0 : PAWL_ECONNLOST);
    pthread_cond_broadcast(&zk->changed);
}

int pawl__zk_check_tick(const struct zk_engine *zk, struct pawl_error *reterr) {
    if (!zk->connected || zk->tick_ns <= zk->timeout_ns)
        return 0;
    return pawl__fail(
        reterr, PAWL_EOPTION,
        "the URL's option tick=%lld is longer than the session of %lld ms that was granted: give the servers' tickTime, or "
        "ask for a longer session (?session=)",
        (long long)(zk->tick_ns / ZK_MS), (long long)(zk->timeout_ns / ZK_MS));
}

/* Those that wait. */
static void refuse_all(struct zk_engine *zk, const struct pawl_error *why) {
    struct zk_claim *claim, *next;

    for (claim = TAILQ_FIRST(&zk->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        if (claim->state != ZK_HELD && claim->state != ZK_DOWNGRADING)
            pawl__zk_refuse(claim, why->code, "%s", why->text);
    }
}

static void on_connected(struct zk_engine *zk) {
    struct zk_claim *claim, *next;
    bool fresh = zk->fresh;
    struct pawl_error why;

    zk->session_id = zoo_client_id(zk->handle)->client_id;
    zk->timeout_ns = zoo_recv_timeout(zk->handle) * ZK_MS;
    zk->attempts = 0;
    zk->fresh = false;
    zk->late_at = zk->interest_due = 0;
    set_link(zk, true);
    pawl__zk_say(zk, NULL, fresh ? "session 0x%llx opened, %lld ms" : "session 0x%llx connected again, %lld ms",
                 (unsigned long long)zk->session_id, (long long)(zk->timeout_ns / ZK_MS));
    if (pawl__zk_check_tick(zk, &why) < 0) {
        pawl__zk_warn(zk, "no lock is granted any more: %s", why.text);
        refuse_all(zk, &why);
    }
    pawl__zk_beat(zk); /* if one is due: ahead of those who wait */
    for (claim = TAILQ_FIRST(&zk->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        pawl__zk_resume(claim);
    }
    pawl__zk_sweep_resume(zk, true);
}

static void on_session_event(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct zk_engine *zk = data;

    (void)path;
    if (type != ZOO_SESSION_EVENT || (zk->handle && handle != zk->handle))
        return;
    if (state == ZOO_CONNECTED_STATE) {
        on_connected(zk);
        return;
    }
    if (zk->connected)
        pawl__zk_say(zk, NULL, "disconnected");
    zk->expired |= state == ZOO_EXPIRED_SESSION_STATE;
    zk->auth_failed |= state == ZOO_AUTH_FAILED_STATE;
    set_link(zk, false);
}

/* ---- A trap ---------------------------------------------------------------------------------------------------------------- */

/* If a request finds the connection broken, the library closes its socket and reconnects later, but never answers what was on its way: its
 * list of sent requests stays as it is. Only an error in zookeeper_process makes it clean up; so it gets one. */
void pawl__zk_check_socket(struct zk_engine *zk) {
    if (!zk->handle || zk->torn || zoo_state(zk->handle) != ZOO_NOTCONNECTED_STATE)
        return;
    zk->torn = true;
    atomic_store(&zk->fd, -1); /* closed: the number may be another's by now */
    pawl__zk_say(zk, NULL, "disconnected");
    set_link(zk, false);
    pawl__zk_wake(&zk->base);
}

static bool unanswered(const struct zk_engine *zk) {
    const struct zk_op *op;

    TAILQ_FOREACH(op, &zk->ops, link) {
        if (!op->failed)
            return true;
    }
    return false;
}

/* It may open a socket here, and keeps it. */
static int ask_interest(struct zk_engine *zk, int *ret_fd, int *ret_events, struct timeval *ret_span) {
    unsigned plugs = atomic_load(&zk->fd) < 0 ? plug_stdio(zk->event_fd) : 0;
    int rc = zookeeper_interest(zk->handle, ret_fd, ret_events, ret_span);

    unplug_stdio(plugs);
    return rc;
}

static void mend(struct zk_engine *zk) {
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    struct timeval span;
    int fd, events;

    for (int i = 0; i < 8 && unanswered(zk); i++) {
        fd = -1;
        if (ask_interest(zk, &fd, &events, &span) != ZOK || fd < 0)
            continue; /* that was an error too; or it pauses before it connects */
        shutdown(fd, SHUT_RDWR);
        connect(fd, &nowhere, sizeof nowhere); /* ends an attempt to connect */
        zookeeper_process(zk->handle, ZOOKEEPER_READ | ZOOKEEPER_WRITE);
    }
    zk->torn = unanswered(zk);
}

/* ---- Handles -------------------------------------------------------------------------------------------------------------- */

static int open_handle(struct zk_engine *zk, const char *servers, struct pawl_error *reterr) {
    int saved;

    zk->session++;
    zk->fresh = true;
    zk->expired = zk->auth_failed = zk->torn = false;
    zk->proved_at = 0;
    zk->handle = zookeeper_init2(servers, on_session_event, (int)zk->asked_ms, NULL, zk, 0, drop_log);
    saved = errno;
    if (!zk->handle)
        return pawl__fail(reterr, PAWL_ECONNLOST, "libzookeeper does not take the hosts of %s: %s", zk->url, strerror(saved));
    zoo_set_servers_resolution_delay(zk->handle, -1);
    if (zk->secret && zoo_add_auth(zk->handle, "digest", zk->secret, (int)strlen(zk->secret), NULL, NULL) != ZOK)
        pawl__zk_warn(zk, "the URL's user could not be given to ZooKeeper");
    zk->attempt_at = pawl__boottime();
    return 0;
}

void pawl__zk_leave_server(struct zk_engine *zk) {
    int fd = atomic_load(&zk->fd);

    if (fd >= 0)
        shutdown(fd, SHUT_RDWR); /* the library finds out by itself, and tries the next one */
}

/* Close the handle and answer all that was on its way. Does not wait for a server that hangs. */
static void close_handle(struct zk_engine *zk, bool orderly) {
    zhandle_t *handle = zk->handle;

    if (!handle)
        return;
    if (!orderly && zk->connected) {
        pawl__zk_leave_server(zk);
        zookeeper_process(handle, ZOOKEEPER_READ);
    }
    set_link(zk, false);
    atomic_store(&zk->fd, -1);
    zk->handle = NULL;
    pawl__zk_uncork(zk);
    zookeeper_close(handle);
    pawl__zk_ops_fail(zk, true);
    pawl__zk_watches_forget(zk);
}

/* The session is dead: everything that it had is gone. */
static void renew_session(struct zk_engine *zk, const char *servers) {
    struct zk_claim *claim, *next;

    pawl__zk_say(zk, NULL, "session 0x%llx is over", (unsigned long long)zk->session_id);
    close_handle(zk, false);
    open_handle(zk, servers, NULL);
    pawl__zk_sweep_resume(zk, false);
    for (claim = TAILQ_FIRST(&zk->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        pawl__zk_session_lost(claim);
    }
}

/* ---- Attempts to connect -------------------------------------------------------------------------------------------------- */

/* The pause before the next round over all hosts: doubled each time, and then between half and all of it. */
static int64_t pause_ns(struct zk_engine *zk, unsigned rounds) {
    int64_t pause = zk->retry_base;

    for (unsigned i = 1; i < rounds && pause < zk->retry_max; i++)
        pause *= 2;
    pause = pause < zk->retry_max ? pause : zk->retry_max;
    zk->random = zk->random * 1664525u + 1013904223u;
    return pause / 2 + pause / 2 * (zk->random >> 16) / 65536;
}

/* Refuse what waits: as often as was allowed, nobody answered. */
static void give_up(struct zk_engine *zk) {
    struct zk_claim *claim, *next;

    for (claim = TAILQ_FIRST(&zk->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        if (claim->state != ZK_HELD && claim->state != ZK_DOWNGRADING)
            pawl__zk_refuse(claim, PAWL_ECONNLOST, "no connection to %s after %lld tries: '%s' was not acquired", zk->url,
                            zk->retry_tries, claim->claim->name);
    }
}

static void attempt_failed(struct zk_engine *zk, int64_t now) {
    unsigned rounds;

    zk->attempts++;
    rounds = zk->attempts / (unsigned)zk->host_count;
    if (zk->attempts % zk->host_count == 0)
        zk->next_attempt = now + pause_ns(zk, rounds);
    if (zk->retry_tries && rounds >= zk->retry_tries)
        give_up(zk);
}

/* ---- One turn of the loop ------------------------------------------------------------------------------------------------- */

/* What the library wants to wait for. Returns until when; *ret_fd is -1 while there is no socket. */
static int64_t interest(struct zk_engine *zk, int64_t now, int *ret_fd, short *ret_events) {
    struct timeval span = {0, 0};
    int fd = -1, events = 0;
    bool had = atomic_load(&zk->fd) >= 0;
    int64_t due;

    *ret_fd = -1;
    *ret_events = 0;
    if (!had && now < zk->next_attempt)
        return zk->next_attempt;
    if (zk->connected && zk->interest_due && now > zk->interest_due) {
        zk->late_ns = now - zk->interest_due;
        zk->late_at = now;
    }
    if (!had)
        zk->attempt_at = now;
    if (ask_interest(zk, &fd, &events, &span) != ZOK)
        fd = -1;
    due = now + span.tv_sec * ZK_S + span.tv_usec * 1000;
    zk->interest_due = due;
    if (fd >= 0 && fd != atomic_load(&zk->fd))
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    atomic_store(&zk->fd, fd);
    if (had && fd < 0 && !zk->expired)
        attempt_failed(zk, now);
    *ret_fd = fd;
    *ret_events = (short)((events & ZOOKEEPER_READ ? POLLIN : 0) | (events & ZOOKEEPER_WRITE ? POLLOUT : 0));
    return fd < 0 && due <= now ? now + ZK_MS : due;
}

/* A server that takes the connection and says nothing: the library would wait for two thirds of the session. */
static int64_t attempt_due(struct zk_engine *zk) {
    int64_t span = (zk->timeout_ns ? zk->timeout_ns : zk->asked_ms * ZK_MS) / 3;

    if (zk->connected || atomic_load(&zk->fd) < 0)
        return PAWL__NEVER;
    if (!zk->timeout_ns && zk->connect_ns / (int64_t)zk->host_count < span)
        span = zk->connect_ns / (int64_t)zk->host_count; /* open() gets round to all of them */
    return zk->attempt_at + span;
}

static void process(struct zk_engine *zk, short revents) {
    int events = (revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) | (revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    int rc = ZOK;

    if (events == ZOOKEEPER_READ && !zk->connected && revents & (POLLHUP | POLLERR))
        events |= ZOOKEEPER_WRITE; /* a connect that failed is found so */
    for (int i = 0; events && i < REPLIES && rc == ZOK && zk->handle; i++) {
        rc = zookeeper_process(zk->handle, events);
        events = ZOOKEEPER_READ;
        if (!zk->connected)
            break;
    }
}

static int64_t earliest_look(const struct zk_engine *zk) {
    const struct zk_claim *claim;
    int64_t at = PAWL__NEVER;

    TAILQ_FOREACH(claim, &zk->timed, timed) {
        if (claim->look_at < at)
            at = claim->look_at;
    }
    return at;
}

/* How many claims may look again. Where others keep all room taken, one now and then. */
static int room_to_look(struct zk_engine *zk, int64_t now) {
    if (zk->op_count < ZK_ROOM)
        return ZK_ROOM - (int)zk->op_count;
    if (now < zk->crowded_until)
        return 0;
    zk->crowded_until = now + CROWDED_NS;
    return 1;
}

/* Claims that are to look again by now, as many as there is room for. Returns when the next one is. */
static int64_t look_again(struct zk_engine *zk, int64_t now) {
    int room = room_to_look(zk, now);
    struct zk_claim *claim, *next;

    for (claim = TAILQ_FIRST(&zk->timed); claim && zk->connected && room > 0; claim = next) {
        next = TAILQ_NEXT(claim, timed);
        if (claim->look_at > now)
            continue;
        pawl__zk_look_again(claim, now);
        room--;
    }
    /* Without a connection, or without room, what we wait for wakes us. */
    return zk->connected && zk->op_count < ZK_ROOM ? earliest_look(zk) : PAWL__NEVER;
}

/* Timers: what is due by now. Returns when the next one is. */
static int64_t tend(struct zk_engine *zk, int64_t now) {
    int64_t due = PAWL__NEVER, at;

    pawl__zk_ops_fail(zk, false);
    if (attempt_due(zk) <= now)
        pawl__zk_leave_server(zk);
    else
        due = attempt_due(zk);
    pawl__zk_beat(zk);
    if ((at = look_again(zk, now)) < due)
        due = at;
    if (pawl__zk_sweep_at(zk) <= now)
        pawl__zk_sweep(zk, now);
    if ((at = pawl__zk_sweep_at(zk)) < due)
        due = at;
    if ((at = pawl__zk_doubt(zk, now)) < due)
        due = at;
    pawl__zk_beat(zk);
    pawl__zk_admit(zk);
    return due;
}

/* Names are looked up without the mutex; then whatever they are needed for is done. */
static void see_to_names(struct zk_engine *zk, int64_t now) {
    bool over = !zk->handle || zk->expired || zk->auth_failed || is_unrecoverable(zk->handle);
    char *servers;

    if (!over && (zk->connected || now < zk->resolve_at))
        return;
    zk->resolve_at = now + RESOLVE_NS;
    if (over && now < zk->next_attempt)
        return;
    pawl__zk_unlock(zk);
    servers = resolve(zk, NULL);
    pawl__zk_lock();
    if (over && servers)
        renew_session(zk, servers);
    else if (over)
        zk->next_attempt = now + pause_ns(zk, 1);
    else if (servers && zk->handle && !zk->connected && zk->attempts)
        zoo_set_servers(zk->handle, servers);
    free(servers);
}

/* In this order: a ring in between would be silenced while `woken` says that it is heard, and nobody would ever ring again. One that is
 * left out now, since `woken` is still set, comes from somebody whose reason we see: we are awake, and to exchange is to see what was
 * written before `woken` was set. */
static void drain(struct zk_engine *zk) {
    bell_silence(zk->event_fd);
    atomic_exchange(&zk->woken, false);
}

/* One turn: see to timers, wait for the socket, a wake-up or `until`, take what has come. True: woken. */
static bool turn(struct zk_engine *zk, int64_t until) {
    struct pollfd fds[2] = {{.fd = zk->event_fd, .events = POLLIN}, {.fd = -1}};
    int64_t now = pawl__boottime(), due;

    see_to_names(zk, now);
    if (!zk->connected)
        pawl__zk_watches_miss(zk); /* before the library connects again */
    if (zk->torn && zk->handle)
        mend(zk);
    due = tend(zk, now);
    until = due < until ? due : until;
    due = zk->handle ? interest(zk, now, &fds[1].fd, &fds[1].events) : zk->next_attempt;
    until = due < until ? due : until;
    if (!TAILQ_EMPTY(&zk->news))
        until = now;
    pawl__zk_unlock(zk);
    pawl__sleep(fds, 2, until, NULL);
    pawl__zk_lock();
    if (fds[0].revents)
        drain(zk);
    if (fds[1].revents && zk->handle)
        process(zk, fds[1].revents);
    return fds[0].revents != 0;
}

/* ---- What the core is told ------------------------------------------------------------------------------------------------ */

static void tell(struct zk_engine *zk, struct zk_claim *claim) {
    pawl__tell_fn *up = zk->base.tell;
    struct pawl__claim *seam = claim->claim;
    struct pawl_error why = claim->why;
    bool broken = claim->broken;
    unsigned news = claim->tell;

    TAILQ_REMOVE(&zk->news, claim, news);
    claim->tell = 0;
    pawl__zk_unlock(zk);
    if (news & ZK_TELL_GRANTED)
        up(zk->base.core, seam, NEWS_GRANTED, NULL);
    if (news & ZK_TELL_RENEWED)
        up(zk->base.core, seam, NEWS_RENEWED, NULL);
    if (news & ZK_TELL_LOST)
        up(zk->base.core, seam, broken ? NEWS_BROKEN : NEWS_LOST, &why);
    if (news & ZK_TELL_DOWNGRADED)
        up(zk->base.core, seam, NEWS_DOWNGRADED, NULL);
    if (news & ZK_TELL_REFUSED)
        up(zk->base.core, seam, NEWS_REFUSED, &why);
    else if (news & ZK_TELL_SETTLED)
        up(zk->base.core, seam, NEWS_GONE, NULL);
    pawl__zk_lock();
}

void pawl__zk_serve(struct pawl__engine *engine, int64_t deadline) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim;

    pawl__zk_lock();
    while (TAILQ_EMPTY(&zk->news) && !turn(zk, deadline) && pawl__boottime() < deadline)
        ;
    while ((claim = TAILQ_FIRST(&zk->news)))
        tell(zk, claim);
    pawl__zk_unlock(zk);
}

void pawl__zk_wake(struct pawl__engine *engine) {
    struct zk_engine *zk = zk_of(engine);

    if (!atomic_exchange(&zk->woken, true))
        bell_ring(zk->event_fd);
}

/* ---- Open and close ------------------------------------------------------------------------------------------------------- */

static int fail_silent(const struct zk_engine *zk, struct pawl_error *reterr) {
    char why[256];

    pawl__zk_word_why(zk, why, sizeof why);
    return pawl__fail(reterr, PAWL_ECONNLOST, "no ZooKeeper with a quorum answered at %.200s within %lld ms: %s", zk->url,
                      (long long)(zk->connect_ns / ZK_MS), why);
}

int pawl__zk_session_open(struct zk_engine *zk, struct pawl_error *reterr) {
    int64_t deadline = pawl__boottime() + zk->connect_ns;
    char *servers = resolve(zk, reterr);
    bool silent;
    int rc;

    if (!servers)
        return PAWL_ECONNLOST;
    if (!pawl__random(&zk->random, sizeof zk->random))
        zk->random = (unsigned)getpid();
    pawl__zk_lock();
    zk->resolve_at = pawl__boottime() + RESOLVE_NS;
    set_link(zk, false);
    rc = open_handle(zk, servers, reterr);
    free(servers);
    while (rc == 0 && !zk->connected && !zk->auth_failed && pawl__boottime() < deadline &&
           !(zk->retry_tries && zk->attempts / zk->host_count >= (unsigned long long)zk->retry_tries))
        turn(zk, deadline);
    if (rc == 0 && zk->auth_failed)
        rc = pawl__fail(reterr, PAWL_EACCES, "ZooKeeper at %s does not accept the URL's user", zk->url);
    silent = rc == 0 && !zk->connected;
    if (rc == 0)
        rc = pawl__zk_check_tick(zk, reterr);
    if (rc < 0 || silent)
        close_handle(zk, true);
    pawl__zk_unlock(zk);
    return silent ? fail_silent(zk, reterr) : rc;
}

static void on_probe(struct zk_op *op, const struct zk_reply *reply) {
    bool *answered = op->data;

    *answered = reply->rc == ZOK || reply->rc == ZNONODE;
}

/* Let what is on its way come through; then ask for an answer, so that closing does not wait for a server that hangs. */
void pawl__zk_session_close(struct zk_engine *zk, int64_t deadline) {
    bool answered = false;
    struct zk_op *probe;

    pawl__zk_lock();
    while (zk->connected && !TAILQ_EMPTY(&zk->doomed) && pawl__boottime() < deadline)
        turn(zk, deadline);
    if (zk->connected && (probe = pawl__zk_op_new(zk, NULL, on_probe, &answered))) {
        pawl__zk_get(probe, "/", NULL);
        while (zk->connected && !answered && pawl__boottime() < deadline)
            turn(zk, deadline);
    }
    close_handle(zk, answered && zk->connected);
    pawl__zk_unlock(zk);
}
