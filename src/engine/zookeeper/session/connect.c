/* SPDX-License-Identifier: Apache-2.0
 *
 * connect.c - making handles and driving the library: connecting, losing the connection, losing the session.
 *
 * The library connects, pings and reconnects from within zookeeper_interest and zookeeper_process, and only there: its owner's loop calls
 * them in turn around a poll. It never gives up by itself; how often it may try is decided here, by not calling it until the next attempt
 * is due (?retry=BASE,MAX,TRIES: after every round over all hosts the pause doubles, with jitter).
 *
 * Names of hosts are looked up here, before the mutex is taken, and the library sees numbers only: it would look them up with the
 * mutex held, again and again.
 */
#include "engine/zookeeper/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/lease.h"
#include "engine/kit/retry.h"
#include "os/bell.h"
#include "os/descriptor.h"
#include "os/resolve.h"
#include "os/sleep.h"

/* Replies that are taken before the core is told: enough for a burst, few enough to stay fair. */
enum { REPLIES = 64, SERVERS_TEXT = 16384 };
/* How often names are looked up again while nobody answers. */
#define RESOLVE_NS (10 * ZK_S)

/* ---- Names ---------------------------------------------------------------------------------------------------------------- */

/* The library takes what is behind the last colon for the port, and knows no brackets around an address of IPv6. It refuses one of a family
 * that this machine has no address of: then what getaddrinfo says, without asking anybody. */
static int add_address(const struct sockaddr_storage *address, socklen_t length, char *text, size_t *used) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_ADDRCONFIG};
    char host[NI_MAXHOST], port[NI_MAXSERV];
    struct addrinfo *found;
    int rc = getnameinfo((const struct sockaddr *)address, length, host, sizeof host, port, sizeof port,
                         NI_NUMERICHOST | NI_NUMERICSERV);

    if (rc == 0)
        rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return rc;
    freeaddrinfo(found);
    if (*used + strlen(host) + strlen(port) + 5 <= SERVERS_TEXT)
        *used += (size_t)snprintf(text + *used, SERVERS_TEXT - *used, "%s%s:%s", *used ? "," : "", host, port);
    return 0;
}

/* All addresses of one host. */
static int add_host(struct addresses *addresses, int64_t deadline, char *text, size_t *used) {
    int rc = addresses ? pawl__addresses_await(addresses, deadline) : EAI_MEMORY;
    struct sockaddr_storage address;
    socklen_t length;
    size_t number;

    for (size_t i = 0; rc == 0 && i < pawl__addresses_count(addresses); i++) {
        length = pawl__addresses_choose(addresses, &address, &number);
        rc = add_address(&address, length, text, used);
        pawl__addresses_failed(addresses, number); /* so that the next one is chosen */
    }
    return rc;
}

static int fail_unknown(const struct zk_session *session, int rc, struct pawl_error *reterr) {
    if (rc == EAI_ADDRFAMILY)
        return pawl__fail(
            reterr, PAWL_ECONNLOST,
            "none of the hosts of %s can be used: this machine has IPv6 on loopback alone, or not at all, and libzookeeper "
            "refuses such addresses there: give one of IPv4",
            session->options.url);
    return pawl__fail(reterr, PAWL_ECONNLOST, "none of the hosts of %s is known%s%s: look at their names", session->options.url,
                      rc ? ": " : "", rc ? gai_strerror(rc) : "");
}

/* All hosts as numbers, separated by commas; NULL: none is known. They are looked up at the same time, and waited for no longer than half
 * of the time for a connection: the others may be there. */
char *pawl__zk_resolve(const struct zk_session *session, struct pawl_error *reterr) {
    const struct zk_options *options = &session->options;
    struct addresses **hosts = calloc(options->host_count, sizeof *hosts);
    int64_t deadline = pawl__boottime() + options->connect_ns / 2;
    char *text = malloc(SERVERS_TEXT);
    size_t used = 0;
    int rc = 0, why;

    for (size_t i = 0; hosts && i < options->host_count; i++)
        if ((hosts[i] = pawl__addresses_new(options->hosts[i].name, options->hosts[i].port)))
            pawl__addresses_begin(hosts[i]);
    for (size_t i = 0; hosts && text && i < options->host_count; i++)
        if ((why = add_host(hosts[i], deadline, text, &used)))
            rc = why;
    for (size_t i = 0; hosts && i < options->host_count; i++)
        pawl__addresses_put(hosts[i]);
    free(hosts);
    if (text && used)
        return text;
    free(text);
    fail_unknown(session, rc, reterr);
    return NULL;
}

/* ---- Events of the library ------------------------------------------------------------------------------------------------ */

static void drop_log(const char *message) {
    (void)message; /* the library prints to stderr otherwise; what matters is told by codes */
}

static void on_session_event(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct zk_session *session = data;

    (void)path;
    if (type != ZOO_SESSION_EVENT || (session->handle && handle != session->handle))
        return;
    if (state == ZOO_CONNECTED_STATE)
        pawl__zk_session_step(session, ZK_ON_CONNECTED);
    else if (state == ZOO_EXPIRED_SESSION_STATE)
        pawl__zk_session_step(session, ZK_ON_EXPIRED);
    else if (state == ZOO_AUTH_FAILED_STATE)
        pawl__zk_session_step(session, ZK_ON_REFUSED);
    else
        pawl__zk_session_step(session, ZK_ON_CUT);
}

static bool unanswered(const struct zk_session *session) {
    const struct zk_op *op;

    TAILQ_FOREACH(op, &session->ops, link) {
        if (!op->failed)
            return true;
    }
    return false;
}

/* It may open a socket here, and keeps it. */
static int ask_interest(struct zk_session *session, int *ret_fd, int *ret_events, struct timeval *ret_span) {
    unsigned plugs = atomic_load(&session->fd) < 0 ? plug_stdio(session->event_fd) : 0;
    int rc = zookeeper_interest(session->handle, ret_fd, ret_events, ret_span);

    unplug_stdio(plugs);
    return rc;
}

/* The library has closed it: its number may be another's by now. */
static void forget_socket(struct zk_session *session) {
    atomic_store(&session->fd, -1);
    session->attempts.broke = true;
}

static void mend(struct zk_session *session) {
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    struct timeval span;
    int fd, events;

    for (int i = 0; i < 8 && unanswered(session); i++) {
        fd = -1;
        forget_socket(session);
        if (ask_interest(session, &fd, &events, &span) != ZOK || fd < 0)
            continue; /* that was an error too; or it pauses before it connects */
        shutdown(fd, SHUT_RDWR);
        connect(fd, &nowhere, sizeof nowhere); /* ends an attempt to connect */
        zookeeper_process(session->handle, ZOOKEEPER_READ | ZOOKEEPER_WRITE);
    }
    if (unanswered(session))
        return;
    pawl__zk_session_step(session, ZK_ON_ANSWERED);
    if (zoo_state(session->handle) == ZOO_CONNECTED_STATE)
        pawl__zk_session_step(session, ZK_ON_CONNECTED);
}

/* ---- Handles -------------------------------------------------------------------------------------------------------------- */

static int open_handle(struct zk_session *session, const char *servers, struct pawl_error *reterr) {
    const struct zk_options *options = &session->options;
    int saved;

    session->number++;
    session->fresh = true;
    session->proofs = (struct zk_proofs){0};
    session->handle = zookeeper_init2(servers, on_session_event, (int)options->asked_ms, NULL, session, 0, drop_log);
    saved = errno;
    if (!session->handle)
        return pawl__fail(reterr, PAWL_ECONNLOST, "libzookeeper does not take the hosts of %s: %s", options->url, strerror(saved));
    pawl__zk_session_step(session, ZK_ON_OPENED);
    zoo_set_servers_resolution_delay(session->handle, -1);
    if (options->secret &&
        zoo_add_auth(session->handle, "digest", options->secret, (int)strlen(options->secret), NULL, NULL) != ZOK)
        pawl__zk_warn(session, "the URL's user could not be given to ZooKeeper");
    session->attempts.began = pawl__boottime();
    return 0;
}

void pawl__zk_leave_server(struct zk_session *session) {
    int fd = atomic_load(&session->fd);

    if (fd >= 0)
        shutdown(fd, SHUT_RDWR); /* the library finds out by itself, and tries the next one */
}

void pawl__zk_session_close(struct zk_session *session, bool orderly) {
    zhandle_t *handle = session->handle;

    if (!handle)
        return;
    if (!orderly && zk_is_connected(session)) {
        pawl__zk_leave_server(session);
        zookeeper_process(handle, ZOOKEEPER_READ);
    }
    pawl__zk_session_step(session, ZK_ON_CLOSED);
    atomic_store(&session->fd, -1);
    session->handle = NULL;
    pawl__zk_uncork(session);
    zookeeper_close(handle);
    pawl__zk_ops_fail(session, true);
    pawl__zk_watches_forget(session);
}

/* The session is dead: everything that it had is gone. */
static void renew_session(struct zk_session *session, const char *servers) {
    pawl__zk_say(session, NULL, "session 0x%llx is over", (unsigned long long)session->id);
    pawl__zk_session_close(session, false);
    open_handle(session, servers, NULL);
    session->news |= ZK_NEWS_LOST;
}

/* ---- Attempts to connect -------------------------------------------------------------------------------------------------- */

/* The pause before the next round over all hosts: doubled each time, and then between half and all of it. */
static int64_t pause_ns(struct zk_session *session, unsigned rounds) {
    int64_t pause = kit_back_off(session->options.retry.base_ns, session->options.retry.max_ns, rounds - 1);

    return kit_between(&session->attempts.random, pause / 2, pause);
}

static unsigned failed_rounds(const struct zk_session *session) {
    return session->attempts.failed / (unsigned)session->options.host_count;
}

bool pawl__zk_session_gave_up(const struct zk_session *session) {
    return session->options.retry.tries && failed_rounds(session) >= session->options.retry.tries;
}

static void attempt_failed(struct zk_session *session, int64_t now) {
    session->attempts.failed++;
    if (session->attempts.failed % session->options.host_count == 0)
        session->attempts.next = now + pause_ns(session, failed_rounds(session));
    if (pawl__zk_session_gave_up(session))
        session->news |= ZK_NEWS_GAVE_UP;
}

/* ---- One run of the loop -------------------------------------------------------------------------------------------------- */

/* What the library wants to wait for. Returns until when; *ret_fd is -1 while there is no socket. */
static int64_t interest(struct zk_session *session, int64_t now, int *ret_fd, short *ret_events) {
    struct timeval span = {0, 0};
    int fd = -1, events = 0;
    bool open = atomic_load(&session->fd) >= 0, had = open || session->attempts.broke;
    int64_t due;

    *ret_fd = -1;
    *ret_events = 0;
    if (!had && now < session->attempts.next)
        return session->attempts.next;
    if (!open)
        session->attempts.began = now;
    session->attempts.broke = false;
    if (ask_interest(session, &fd, &events, &span) != ZOK)
        fd = -1;
    due = now + span.tv_sec * ZK_S + span.tv_usec * 1000;
    if (fd >= 0 && fd != atomic_load(&session->fd))
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    atomic_store(&session->fd, fd);
    if (had && fd < 0 && session->state != ZK_EXPIRED)
        attempt_failed(session, now);
    *ret_fd = fd;
    *ret_events = (short)((events & ZOOKEEPER_READ ? POLLIN : 0) | (events & ZOOKEEPER_WRITE ? POLLOUT : 0));
    return fd < 0 && due <= now ? now + ZK_MS : due;
}

/* A server that takes the connection and says nothing: the library would wait for two thirds of the session. */
static int64_t attempt_due(struct zk_session *session) {
    int64_t span = (session->timeout_ns ? session->timeout_ns : session->options.asked_ms * ZK_MS) / 3;

    if (zk_is_connected(session) || atomic_load(&session->fd) < 0)
        return PAWL__NEVER;
    if (!session->timeout_ns && session->options.connect_ns / (int64_t)session->options.host_count < span)
        span = session->options.connect_ns / (int64_t)session->options.host_count; /* open() gets round to all of them */
    return session->attempts.began + span;
}

static void process(struct zk_session *session, short revents) {
    int events = (revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) | (revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    int rc = ZOK;

    if (events == ZOOKEEPER_READ && !zk_is_connected(session) && revents & (POLLHUP | POLLERR))
        events |= ZOOKEEPER_WRITE; /* a connect that failed is found so */
    for (int i = 0; events && i < REPLIES && rc == ZOK && session->handle; i++) {
        rc = zookeeper_process(session->handle, events);
        events = ZOOKEEPER_READ;
        if (!zk_is_connected(session) || session->news) /* which its owner pulls before anything else is taken */
            break;
    }
    if (rc != ZOK && rc != ZNOTHING)
        forget_socket(session);
}

/* Is there no session, nor will this handle ever have one again? */
static bool is_over(const struct zk_session *session) {
    return !session->handle || session->state == ZK_EXPIRED || session->state == ZK_USER_REFUSED ||
           is_unrecoverable(session->handle);
}

bool pawl__zk_session_wants_names(struct zk_session *session, int64_t now) {
    bool over = is_over(session);

    if (!over && (zk_is_connected(session) || now < session->attempts.resolve_at))
        return false;
    session->attempts.resolve_at = now + RESOLVE_NS;
    return !over || now >= session->attempts.next;
}

void pawl__zk_session_named(struct zk_session *session, char *servers, int64_t now) {
    if (is_over(session) && servers)
        renew_session(session, servers);
    else if (is_over(session))
        session->attempts.next = now + pause_ns(session, 1);
    else if (servers && !zk_is_connected(session) && session->attempts.failed)
        zoo_set_servers(session->handle, servers);
    free(servers);
}

/* Something leaves at least four times in a session, so that there is always a recent answer (proof.c). The library pings three times, and
 * tells nobody when it is answered. */
static int64_t show_life(struct zk_session *session, int64_t now) {
    int64_t span = session->timeout_ns / 4;
    struct zk_op *op;

    if (!zk_is_connected(session))
        return PAWL__NEVER;
    if (now < session->sent_at + span)
        return session->sent_at + span;
    if ((op = pawl__zk_op_new(session, NULL, NULL, NULL)))
        pawl__zk_exists(op, "/", NULL);
    return now + span; /* also if there was no memory */
}

int64_t pawl__zk_session_tend(struct zk_session *session, int64_t now) {
    if (!zk_is_connected(session))
        pawl__zk_watches_miss(session); /* before the library connects again */
    if (session->state == ZK_TORN)
        mend(session);
    pawl__zk_ops_fail(session, false);
    if (zk_is_connected(session) || attempt_due(session) > now)
        return zk_is_connected(session) ? show_life(session, now) : attempt_due(session);
    pawl__zk_leave_server(session);
    return PAWL__NEVER;
}

int64_t pawl__zk_session_interest(struct zk_session *session, int64_t now, struct pollfd fds[2]) {
    fds[0] = (struct pollfd){.fd = session->event_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = -1};
    return session->handle ? interest(session, now, &fds[1].fd, &fds[1].events) : session->attempts.next;
}

/* Empty the eventfd before `woken` is cleared, or a ring in between would be lost for good. A ring that is left out because `woken` is
 * still set loses nothing: we are awake, and the exchange makes us see what was written before `woken` was set. */
static void drain(struct zk_session *session) {
    bell_silence(session->event_fd);
    atomic_exchange(&session->woken, false);
}

bool pawl__zk_session_wait(struct zk_session *session, struct pollfd fds[2], int64_t until) {
    pawl__zk_unlock(session);
    pawl__sleep(fds, 2, until, NULL);
    pawl__zk_lock();
    if (fds[0].revents)
        drain(session);
    if (fds[1].revents && session->handle)
        process(session, fds[1].revents);
    return fds[0].revents != 0;
}

/* ---- Open and close ------------------------------------------------------------------------------------------------------- */

int pawl__zk_session_init(struct zk_session *session, struct pawl__engine *engine, struct pawl_error *reterr) {
    session->engine = engine;
    TAILQ_INIT(&session->ops);
    TAILQ_INIT(&session->watches.list);
    pthread_cond_init(&session->answered, NULL);
    atomic_init(&session->fd, -1);
    if (!pawl__random(&session->attempts.random, sizeof session->attempts.random))
        session->attempts.random = (unsigned)getpid();
    session->event_fd = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return session->event_fd < 0 ? pawl__fail_errno(reterr, "cannot create an eventfd") : 0;
}

void pawl__zk_session_free(struct zk_session *session) {
    struct zk_options *options = &session->options;

    free(session->notes.text);
    pthread_cond_destroy(&session->answered);
    if (session->event_fd >= 0)
        close(session->event_fd);
    if (options->secret)
        explicit_bzero(options->secret, strlen(options->secret));
    free(options->secret);
    free(options->hosts);
    free(options->base_path);
}

int pawl__zk_session_silent(const struct zk_session *session, struct pawl_error *reterr) {
    char why[256];

    pawl__zk_word_why(&session->options, why, sizeof why);
    return pawl__fail(reterr, PAWL_ECONNLOST, "no ZooKeeper with a quorum answered at %.200s within %lld ms: %s",
                      session->options.url, (long long)(session->options.connect_ns / ZK_MS), why);
}

int pawl__zk_session_open(struct zk_session *session, const char *servers, struct pawl_error *reterr) {
    session->attempts.resolve_at = pawl__boottime() + RESOLVE_NS;
    return open_handle(session, servers, reterr);
}

bool pawl__zk_session_opens(const struct zk_session *session) {
    const struct zk_options *options = &session->options;
    unsigned tries = options->retry.tries;

    return !zk_is_connected(session) && session->state != ZK_USER_REFUSED &&
           !(tries && session->attempts.failed / options->host_count >= tries);
}

int pawl__zk_session_opened(struct zk_session *session, struct pawl_error *reterr) {
    int rc = pawl__zk_check_tick(session, reterr);

    if (session->state == ZK_USER_REFUSED)
        rc = pawl__fail(reterr, PAWL_EACCES, "ZooKeeper at %s does not accept the URL's user", session->options.url);
    if (rc < 0 || !zk_is_connected(session))
        pawl__zk_session_close(session, true);
    return rc;
}
