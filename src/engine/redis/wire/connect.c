/* SPDX-License-Identifier: Apache-2.0
 *
 * connect.c - from nothing to a connection that works, step by step, without ever blocking:
 *
 *     DOWN --(time)--> CONNECTING --> [SHAKING: TLS] --> GREETING --> UP
 *       ^                  |               |                |          |
 *       +------------------+---------------+----------------+----------+   any failure; after a while, begin again
 *
 * The greeting logs in, chooses the database and looks at the server (`commands`), or subscribes to the inbox. Only the service thread,
 * and open() before there is one, makes connections.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "engine/redis/wire/wire.h"
#include "os/socket.h"
#include "base/error.h"

/* With claims, a link that was silent for so long is pinged. */
#define SILENCE_NS (5000 * REDIS_MS)
/* How often to look whether a name has been looked up. */
#define LOOK_NS (10 * REDIS_MS)

/* The address to try; 0: none is known. */
static socklen_t choose_address(struct link *link, struct sockaddr_storage *ret) {
    const struct redis_options *options = &link->redis->options;
    struct sockaddr_un *un = (struct sockaddr_un *)ret;

    if (options->socket_path[0]) {
        memset(ret, 0, sizeof *ret);
        un->sun_family = AF_UNIX;
        strcpy(un->sun_path, options->socket_path);
        return sizeof *un;
    }
    return pawl__addresses_choose(link->addresses, ret, &link->address_number);
}

/* ---- Steps ---------------------------------------------------------------------------------------------------------------- */

/* No address is known yet, but may be in a moment. */
static bool await_address(struct link *link) {
    if (link->redis->traits.several || pawl__addresses_unknown(link->addresses))
        return false;
    pawl__addresses_refresh(link->addresses);
    link->retry_at = pawl__boottime() + LOOK_NS;
    return true;
}

static void greet(struct link *link);

static void start(struct link *link);

/* Nobody takes a connection at this address: the host may have another, which is part of the same try. */
static void refused(struct link *link, int error) {
    if (pawl__link_elsewhere(link))
        start(link);
    else
        pawl__link_drop(link, error == EACCES ? PAWL_EACCES : PAWL_ECONNLOST, "can't connect: %s", strerror(error));
}

static void start(struct link *link) {
    struct sockaddr_storage address;
    socklen_t length = choose_address(link, &address);
    int error = 0;

    if (!length && await_address(link))
        return;
    if (link->addresses && (link->failures || !length))
        pawl__addresses_refresh(link->addresses);
    pawl__link_step(link, LINK_STARTS);
    if (!length) {
        pawl__link_drop(link, PAWL_ECONNLOST, "the host '%.100s' is not known", pawl__addresses_host(link->addresses));
        return;
    }
    link->fd = pawl__socket_connect(&address, length, link->redis->options.command_ns, &error);
    link->reader = pawl__reader_new();
    link->fed = 0;
    if (link->fd < 0 || !link->reader)
        pawl__link_drop(link, PAWL_ESYSTEM, "cannot create a socket: %s", strerror(errno));
    else if (error)
        refused(link, error);
    else if (address.ss_family == AF_UNIX)
        pawl__link_progress(link);
}

void pawl__link_start(struct link *link) {
    link->started_at = link->heard_at = pawl__boottime();
    link->addresses_tried = 0;
    start(link);
}

static void connected(struct link *link) {
    const struct redis_options *options = &link->redis->options;
    SSL_CTX *tls = link->to_sentinel ? link->redis->sentinel_tls : link->redis->tls;
    int error = pawl__socket_error(link->fd);

    if (error) {
        refused(link, error);
        return;
    }
    if (!tls) {
        greet(link);
        return;
    }
    link->ssl = pawl__tls_new(tls, link->to_sentinel ? &options->sentinel_tls : &options->tls,
                              pawl__addresses_host(link->addresses), link->fd);
    pawl__link_step(link, LINK_SHAKES);
    if (!link->ssl)
        pawl__link_drop(link, PAWL_ESYSTEM, "TLS can't be set up");
    else
        pawl__link_progress(link);
}

static void shake(struct link *link) {
    int rc = pawl__tls_handshake(link->ssl, &link->ssl_wants_write);

    if (rc > 0)
        greet(link);
    else if (rc < 0)
        pawl__link_ended(link);
}

void pawl__link_progress(struct link *link) {
    switch (link->state) {
    case LINK_STATES:
    case LINK_DOWN:
        break;
    case LINK_CONNECTING:
        connected(link);
        break;
    case LINK_SHAKING:
        shake(link);
        break;
    case LINK_GREETING:
    case LINK_UP:
        pawl__link_flush(link);
        pawl__link_read(link);
        break;
    }
}

/* ---- The greeting --------------------------------------------------------------------------------------------------------- */

/* Then nothing works. A right that is missing for a check may not matter. */
static bool wants_password(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOAUTH", 6) == 0;
}

/* What the layer above has to judge is left to it: then the answer is true. */
static bool greeted(struct link *link, const struct request *request, const redisReply *reply) {
    struct pawl_error why;
    enum reply_class class = pawl__reply_class(reply, &why);

    if (request->step == GREET_NUMBER) {
        link->server->inbox_number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0; /* without the right to ask: 0 */
    } else if (request->step == GREET_RUN_ID) {
        if (reply->type == REDIS_REPLY_STRING)
            pawl__reply_info(reply->str, "run_id", link->run_id, sizeof link->run_id);
        if (class == REPLY_AGAIN) /* it has too many clients, and does not wait to be asked */
            pawl__link_turned_away(link, why.code, why.text);
    } else if (request->step >= GREET_PRIMARY && (request->step < GREET_CHECK || !wants_password(reply))) {
        return true;
    } else if (class != REPLY_OK) {
        pawl__link_drop(link, request->step == GREET_AUTH && why.code == PAWL_EFORMAT ? PAWL_EACCES : why.code, "%s", why.text);
    }
    return false;
}

/* All of its greeting was answered, and nobody found fault with it. */
static bool is_welcome(const struct link *link) {
    return link->state == LINK_GREETING && !link->greetings;
}

static void welcome(struct link *link, struct wire_event *ret) {
    pawl__link_step(link, LINK_WELCOME);
    link->failures = 0;
    link->turned_away = false;
    pawl__kit_note(&link->redis->kit, NULL, "connection (%s) is up", link->what);
    *ret = (struct wire_event){.kind = WIRE_UP, .link = link};
}

/* True: this is for the layer above. */
static bool take_reply(struct link *link, struct wire_event *event) {
    if (!event->request->greets) {
        pawl__script_answered(link->server, event->request, event->reply);
        return true;
    }
    if (event->reply) {
        link->greetings--;
        event->kind = WIRE_GREETING;
        if (greeted(link, event->request, event->reply))
            return true;
    }
    freeReplyObject(event->reply);
    free(event->request);
    return false;
}

bool pawl__wire_next(struct redis *redis, struct wire_event *ret) {
    struct link *link;

    while ((link = TAILQ_FIRST(&redis->speaking))) {
        if (is_welcome(link)) {
            welcome(link, ret);
            return true;
        }
        if (!pawl__link_next(link, ret)) {
            TAILQ_REMOVE(&redis->speaking, link, news.entry);
            link->news.listed = false;
        } else if (ret->kind != WIRE_REPLY || take_reply(link, ret)) {
            return true;
        }
    }
    return false;
}

bool pawl__link_greet(struct link *link, enum greeting step, int argc, const char **argv) {
    struct request request = {.greets = true, .script = -1, .step = (int)step};

    link->greetings++;
    return pawl__link_say(link, argc, argv, &request);
}

static bool log_in(struct link *link) {
    const struct redis_options *options = &link->redis->options;
    const char *user = link->to_sentinel ? options->sentinel_user : options->user;
    const char *password = link->to_sentinel ? options->sentinel_password : options->password;

    if (user[0])
        return pawl__link_greet(link, GREET_AUTH, 3, (const char *[]){"AUTH", user, password});
    return !password[0] || pawl__link_greet(link, GREET_AUTH, 2, (const char *[]){"AUTH", password});
}

static bool subscribe(struct link *link) {
    char channel[REDIS_PREFIX_MAX + 64];

    /* It can't be asked for later, by one that is subscribed; whether it is of use is seen then. */
    if (!pawl__link_greet(link, GREET_NUMBER, 2, (const char *[]){"CLIENT", "ID"}))
        return false;
    if (redis_has_lock_channels(link->redis)) /* when they are waited for: listen.c */
        return pawl__link_greet(link, GREET_SUBSCRIBE, 1, (const char *[]){"PING"});
    snprintf(channel, sizeof channel, "pawl:inbox:%s", link->redis->uuid);
    return pawl__link_greet(link, GREET_SUBSCRIBE, 2, (const char *[]){"SUBSCRIBE", channel});
}

static bool choose_db(struct link *link) {
    char db[16];

    snprintf(db, sizeof db, "%u", link->redis->options.db);
    return !link->redis->options.db || pawl__link_greet(link, GREET_SELECT, 2, (const char *[]){"SELECT", db});
}

/* What an operator should know of it. */
static bool check_server(struct link *link) {
    static const char *checks[SERVER_CHECKS][3] = {
        {"INFO", "everything"},
        {"CONFIG", "GET", "maxmemory-policy"},
        {"CONFIG", "GET", "min-replicas-to-write"},
    };

    for (unsigned i = 0; i < SERVER_CHECKS; i++)
        if (!pawl__link_greet(link, (enum greeting)(GREET_CHECK + i), checks[i][2] ? 3 : 2, checks[i]))
            return false;
    return true;
}

static void greet(struct link *link) {
    struct server *server = link->server;

    pawl__link_step(link, LINK_GREETS);
    link->greetings = 0;
    if (link == &server->commands)
        memset(server->script_loaded, 0, sizeof server->script_loaded);
    link->number++;
    if (!log_in(link))
        return;
    if (link->to_sentinel)
        link->redis->traits.greet(link);
    else if (!pawl__link_greet(link, GREET_RUN_ID, 2, (const char *[]){"INFO", "server"}))
        return;
    else if (link->subscriber)
        subscribe(link);
    else if (choose_db(link) && link == &server->commands && (!link->redis->traits.greet || link->redis->traits.greet(link)))
        check_server(link);
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* A whole round of sentinels takes no longer than one server may. */
static int64_t connect_patience(const struct link *link) {
    const struct redis_options *options = &link->redis->options;

    int64_t most = options->connect_ns < options->patience_ns ? options->connect_ns : options->patience_ns;

    return link->to_sentinel ? most / (int64_t)options->host_count : options->connect_ns;
}

int64_t pawl__link_due(const struct link *link) {
    const struct redis_options *options = &link->redis->options;
    const struct request *first = TAILQ_FIRST(&link->sent);
    int64_t due;

    if (link->state == LINK_DOWN)
        return link->retry_at;
    if (link->state != LINK_UP)
        return link->started_at + connect_patience(link);
    due = link->redis->claim_count ? link->heard_at + SILENCE_NS : PAWL__NEVER;
    if (first && first->sent_at + options->command_ns < due)
        due = first->sent_at + options->command_ns;
    return due;
}

int pawl__link_events(const struct link *link, bool reads) {
    int events = POLLRDHUP;

    if (link->state == LINK_DOWN)
        return 0;
    if (link->state == LINK_CONNECTING)
        return POLLOUT;
    if (link->state == LINK_SHAKING)
        return link->ssl_wants_write ? POLLOUT : POLLIN;
    if (link->state == LINK_GREETING || reads)
        events |= POLLIN;
    if (link->out.used || link->ssl_wants_write)
        events |= POLLOUT;
    return events;
}

static void ping(struct link *link, int64_t now) {
    struct request request = {.script = -1};

    link->heard_at = now; /* so that the next one is not due at once */
    pawl__link_say(link, 1, (const char *[]){"PING"}, &request);
}

const char *pawl__link_missing(const struct link *link) {
    switch (link->state) {
    case LINK_SHAKING:
        return "it accepts connections, but no TLS handshake came about";
    case LINK_GREETING:
        return "it accepts connections, but gave no answer";
    default:
        return "no connection";
    }
}

void pawl__link_tick(struct link *link, int64_t now) {
    if (now < pawl__link_due(link))
        return;
    if (link->state == LINK_DOWN)
        pawl__link_start(link);
    else if (link->state == LINK_CONNECTING && pawl__socket_decided(link->fd))
        pawl__link_progress(link);
    else if (link->state != LINK_UP)
        pawl__link_drop(link, PAWL_ECONNLOST, "%s within %lld ms", pawl__link_missing(link),
                        (long long)(connect_patience(link) / REDIS_MS));
    else if (TAILQ_FIRST(&link->sent) && now >= TAILQ_FIRST(&link->sent)->sent_at + link->redis->options.command_ns)
        pawl__link_drop(link, PAWL_ECONNLOST, "no answer within %lld ms", (long long)(link->redis->options.command_ns / REDIS_MS));
    else
        ping(link, now);
}
