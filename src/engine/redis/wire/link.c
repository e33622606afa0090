/* SPDX-License-Identifier: Apache-2.0
 *
 * link.c - one connection: bytes out, answers in, in order.
 *
 * Invariants
 *   - `sent` are the requests that were handed to the connection and are not answered, in the order of their answers.
 *   - `out` are bytes that the socket has not taken yet. They go out when the socket can take them, or with the next answer.
 *   - What a link that is dropped leaves unanswered comes next, with NULL for an answer, and then that it is down.
 *   - Broken answers (hiredis can't parse them) can't be recovered from: the link is dropped.
 *
 * Many requests at once are collected: from BATCH_FROM unanswered ones on, a request is only put into `out`, since the next answer will
 * make somebody flush it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/redis/wire/wire.h"
#include "os/socket.h"
#include "base/error.h"

enum { BATCH_FROM = 8, READ_SIZE = 16384, READ_MAX = 16 * READ_SIZE, OUT_MAX = 64 << 20 };

void pawl__link_init(struct link *link, struct server *server, bool subscriber, const char *what) {
    link->redis = server->redis;
    link->server = server;
    link->subscriber = subscriber;
    link->what = what;
    link->fd = -1;
    TAILQ_INIT(&link->sent);
    TAILQ_INIT(&link->lost);
    TAILQ_INSERT_TAIL(&link->redis->links, link, entry);
}

/* It has something to say: see pawl__wire_next(). */
static void speak(struct link *link) {
    if (link->news.listed)
        return;
    link->news.listed = true;
    TAILQ_INSERT_TAIL(&link->redis->speaking, link, news.entry);
}

/* ---- The states ------------------------------------------------------------------------------------------------------------ */

static const enum link_state states[LINK_STATES][LINK_EVENTS] = {
    /*                  STARTS           SHAKES        GREETS         WELCOME   ENDS */
    [LINK_DOWN] = {LINK_CONNECTING, LINK_DOWN, LINK_DOWN, LINK_DOWN, LINK_DOWN},
    [LINK_CONNECTING] = {LINK_CONNECTING, LINK_SHAKING, LINK_GREETING, LINK_CONNECTING, LINK_DOWN},
    [LINK_SHAKING] = {LINK_SHAKING, LINK_SHAKING, LINK_GREETING, LINK_SHAKING, LINK_DOWN},
    [LINK_GREETING] = {LINK_GREETING, LINK_GREETING, LINK_GREETING, LINK_UP, LINK_DOWN},
    [LINK_UP] = {LINK_UP, LINK_UP, LINK_UP, LINK_UP, LINK_DOWN},
};

void pawl__link_step(struct link *link, enum link_event event) {
    link->state = states[link->state][event];
}

/* ---- The socket ----------------------------------------------------------------------------------------------------------- */

/* How much the socket took; 0: nothing just now; -1: broken. */
static ssize_t write_some(struct link *link, const char *data, size_t size) {
    return link->ssl ? pawl__tls_write(link->ssl, data, size, &link->ssl_wants_write) : pawl__socket_write(link->fd, data, size);
}

/* How many bytes came; 0: none just now; -1: the end. */
static ssize_t read_some(struct link *link, char *buffer, size_t size) {
    return link->ssl ? pawl__tls_read(link->ssl, buffer, size, &link->ssl_wants_write) : pawl__socket_read(link->fd, buffer, size);
}

/* ---- Out ------------------------------------------------------------------------------------------------------------------ */

/* As much of `out` as the socket takes. False: it is broken. */
static bool write_out(struct link *link) {
    ssize_t n = write_some(link, link->out.bytes, link->out.used);

    if (n < 0)
        return false;
    link->out.used -= (size_t)n;
    memmove(link->out.bytes, link->out.bytes + n, link->out.used);
    return true;
}

void pawl__link_turned_away(struct link *link, int code, const char *text) {
    pawl__link_drop(link, code, "%s", text);
    link->turned_away = true;
}

/* A server that turns us away says why and closes. If our greeting meets the closed socket, its reset destroys the words: then those of
 * an earlier try tell more. */
static void cut_off(struct link *link, const char *text) {
    bool turned_away = link->turned_away && link->state != LINK_UP;
    struct pawl_error why = link->why;

    pawl__link_drop(link, PAWL_ECONNLOST, "%s", text);
    if (turned_away)
        link->why = why;
    link->turned_away = turned_away;
}

void pawl__link_ended(struct link *link) {
    char text[256] = "the server closed the connection";
    int code = link->ssl ? pawl__tls_error(link->ssl, link->state == LINK_UP, text, sizeof text) : PAWL_ECONNLOST;

    if (code == PAWL_ECONNLOST)
        cut_off(link, text);
    else
        pawl__link_turned_away(link, code, text);
}

/* Why, the server may have said by an alert of TLS: that it wants a client certificate comes when the handshake is over for us. */
static void write_failed(struct link *link) {
    char byte;

    if (link->ssl && read_some(link, &byte, 1) < 0)
        pawl__link_ended(link);
    else
        cut_off(link, "the connection broke off while writing");
}

void pawl__link_flush(struct link *link) {
    if (link->fd < 0 || !link->out.used || link->state < LINK_GREETING)
        return;
    if (!write_out(link))
        write_failed(link);
}

/* Room for so many bytes more. */
static bool reserve(struct link *link, size_t size) {
    size_t wanted = link->out.used + size;
    char *bigger;

    if (wanted > OUT_MAX)
        return false;
    if (wanted <= link->out.size)
        return true;
    bigger = realloc(link->out.bytes, wanted * 2);
    if (!bigger)
        return false;
    link->out.bytes = bigger;
    link->out.size = wanted * 2;
    return true;
}

/* A command, as the protocol has it: `*2\r\n$3\r\nGET\r\n$1\r\nx\r\n`. */
static bool put_command(struct link *link, int argc, const char **argv, const size_t *lengths) {
    enum { AROUND = 32 }; /* more than a number and what stands around it take */
    size_t size = AROUND;
    char *to;

    for (int i = 0; i < argc; i++)
        size += AROUND + lengths[i];
    if (!reserve(link, size))
        return false;
    to = link->out.bytes + link->out.used;
    *to++ = '*';
    to = stpcpy(pawl__put_number(to, (uint64_t)argc), "\r\n");
    for (int i = 0; i < argc; i++) {
        *to++ = '$';
        to = stpcpy(pawl__put_number(to, lengths[i]), "\r\n");
        memcpy(to, argv[i], lengths[i]);
        to = stpcpy(to + lengths[i], "\r\n");
    }
    link->out.used = (size_t)(to - link->out.bytes);
    return true;
}

static bool many_sent(const struct link *link) {
    const struct request *request;
    int count = 0;

    TAILQ_FOREACH(request, &link->sent, link) {
        if (++count >= BATCH_FROM)
            return true;
    }
    return false;
}

bool pawl__link_send(struct link *link, int argc, const char **argv, const size_t *lengths, const struct request *request) {
    struct request *copy;
    bool straight = !link->out.used && !(link->state == LINK_UP && many_sent(link));

    if (link->state == LINK_DOWN) /* of two requests, the first may have ended it; what is left in `out` would go to the next one */
        return false;
    copy = request ? malloc(sizeof *copy) : NULL;
    if (copy) {
        *copy = *request;
        copy->server = link->server;
        copy->sent_at = pawl__boottime();
    }
    if ((request && !copy) || !put_command(link, argc, argv, lengths) || (straight && !write_out(link))) {
        free(copy);
        write_failed(link);
        return false;
    }
    if (copy) {
        TAILQ_INSERT_TAIL(&link->sent, copy, link);
        pawl__redis_due(link->redis, copy->sent_at + link->redis->options.command_ns); /* somebody must notice if no answer comes */
    }
    return true;
}

bool pawl__link_say(struct link *link, int argc, const char **argv, const struct request *request) {
    enum { MOST = 8 };
    size_t lengths[MOST];

    for (int i = 0; i < argc && i < MOST; i++)
        lengths[i] = strlen(argv[i]);
    return pawl__link_send(link, argc, argv, lengths, request);
}

void pawl__link_subscribe(struct link *link, bool on, const char *channel, int what) {
    static const char *const verbs[2][2] = {{"UNSUBSCRIBE", "SUBSCRIBE"}, {"SUNSUBSCRIBE", "SSUBSCRIBE"}};
    struct request request = {.what = what, .script = -1};
    bool of_locks = redis_has_lock_channels(link->redis);

    if (link->state == LINK_UP)
        pawl__link_say(link, 2, (const char *[]){verbs[of_locks][on], channel}, of_locks ? NULL : &request);
}

/* ---- In ------------------------------------------------------------------------------------------------------------------- */

/* What comes on a subscriber without being the answer to a request, or in turn: messages; and in a cluster all that is said of channels. */
static bool is_push(const struct link *link, const redisReply *reply) {
    bool unasked = redis_has_lock_channels(link->redis) && link->subscriber && link->state == LINK_UP;
    const char *word;

    if (unasked && reply->type == REDIS_REPLY_ERROR) /* to SSUBSCRIBE */
        return true;
    if (!link->subscriber || reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return false;
    word = reply->element[0]->str;
    return strcmp(word, "message") == 0 || strcmp(word, "smessage") == 0 ||
           (unasked && (strcmp(word, "ssubscribe") == 0 || strcmp(word, "sunsubscribe") == 0 || strcmp(word, "subscribe") == 0));
}

/* Only errors come unasked: that there are too many clients, that this one is too slow. */
static void take_unasked(struct link *link, redisReply *reply) {
    struct pawl_error why;

    if (pawl__reply_class(reply, &why) == REPLY_OK)
        pawl__fail(&why, PAWL_EFORMAT, "the server sent a reply to no request: it does not speak Redis' protocol");
    pawl__link_turned_away(link, why.code, why.text);
    freeReplyObject(reply);
}

/* Take one answer out of what was read. False: there is none that is complete; or the link was dropped. */
static bool take_one(struct link *link, struct wire_event *ret) {
    void *reply = NULL;

    if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
        pawl__link_drop(link, PAWL_EFORMAT, "the server's answer is not Redis' protocol: is it a Redis at all?");
        return false;
    }
    if (!reply) {
        if (!pawl__reader_bounded(link->reader, link->fed))
            pawl__link_drop(link, PAWL_EFORMAT, "the server's answer has no end: is it a Redis at all?");
        return false;
    }
    link->fed = 0;
    ret->kind = is_push(link, reply) ? WIRE_PUSH : WIRE_REPLY;
    ret->request = ret->kind == WIRE_REPLY ? TAILQ_FIRST(&link->sent) : NULL;
    if (ret->kind == WIRE_REPLY && !ret->request) {
        take_unasked(link, reply);
        return false;
    }
    if (ret->request)
        TAILQ_REMOVE(&link->sent, ret->request, link);
    ret->reply = reply;
    return true;
}

/* Is there more? OpenSSL may keep decrypted bytes that no poll would tell of; poll tells of what the socket has. A server that sends
 * without end must not keep the mutex from the others. */
static bool reads_on(const struct link *link, ssize_t got) {
    if (link->news.read >= READ_MAX)
        return link->ssl && SSL_pending(link->ssl) > 0;
    return link->ssl || got == READ_SIZE;
}

/* Read some bytes. False: there are none, or the link was dropped. */
static bool read_more(struct link *link) {
    char buffer[READ_SIZE];
    ssize_t n = read_some(link, buffer, sizeof buffer);

    if (n < 0)
        pawl__link_ended(link);
    if (n <= 0)
        return false;
    link->heard_at = pawl__boottime();
    link->fed += (size_t)n;
    link->news.read += (size_t)n;
    link->news.reads_on = reads_on(link, n);
    if (redisReaderFeed(link->reader, buffer, (size_t)n) == REDIS_OK)
        return true;
    pawl__link_drop(link, PAWL_ENOMEM, "out of memory");
    return false;
}

void pawl__link_read(struct link *link) {
    if (link->fd < 0 || link->state < LINK_GREETING)
        return;
    link->news.read = 0;
    if (read_more(link)) {
        link->news.reading = true;
        speak(link);
    } else {
        pawl__link_flush(link);
    }
}

bool pawl__link_next(struct link *link, struct wire_event *ret) {
    *ret = (struct wire_event){.link = link};
    for (;;) {
        if ((ret->request = TAILQ_FIRST(&link->lost))) {
            TAILQ_REMOVE(&link->lost, ret->request, link);
            ret->kind = WIRE_REPLY;
            return true;
        }
        if (link->news.fell) {
            link->news.fell = false;
            ret->kind = WIRE_DOWN;
            return true;
        }
        if (!link->news.reading)
            return false;
        if (take_one(link, ret))
            return true;
        if (link->news.reading && !(link->news.reads_on && read_more(link))) {
            link->news.reading = false;
            pawl__link_flush(link);
        }
    }
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

static void close_link(struct link *link) {
    if (link->ssl)
        SSL_free(link->ssl);
    if (link->fd >= 0)
        close(link->fd); /* takes it out of the epoll set, too */
    if (link->reader)
        redisReaderFree(link->reader);
    link->ssl = NULL;
    link->fd = -1;
    link->reader = NULL;
    link->watched = 0;
    link->out.used = 0;
    link->news.reading = false;
    link->run_id[0] = '\0';
    pawl__link_step(link, LINK_ENDS);
    TAILQ_CONCAT(&link->lost, &link->sent, link);
    if (!TAILQ_EMPTY(&link->lost))
        speak(link);
}

/* That it can't be made: later and later. */
static int64_t back_off(struct link *link) {
    const struct kit_retry *retry = &link->redis->options.retry;
    int64_t wait = kit_back_off(retry->base_ns, retry->max_ns, link->failures);

    return kit_between(&link->redis->kit.random, wait / 2, wait);
}

/* Why it is down: with the name of the server, where the URL has not. */
static void describe_end(struct link *link, int code, const char *text) {
    if (link->addresses && link->redis->traits.several)
        pawl__fail(&link->why, code, "%.200s: %s: %s", link->server->url, pawl__addresses_where(link->addresses), text);
    else
        pawl__fail(&link->why, code, "%.200s: %s", link->server->url, text);
}

void pawl__link_drop(struct link *link, int code, const char *format, ...) {
    char text[256];
    va_list args;

    if (link->state == LINK_DOWN)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    describe_end(link, code, text);
    link->turned_away = false;
    pawl__kit_note(&link->redis->kit, NULL, "connection (%s) dropped: %s", link->what, text);
    /* One that worked is tried again at once; one that never did, later and later. */
    link->retry_at = link->state == LINK_UP ? pawl__boottime() + link->redis->options.retry.base_ns / 4
                                            : pawl__boottime() + back_off(link);
    if (link->state != LINK_UP) {
        link->failures++;
        if (link->addresses)
            pawl__addresses_failed(link->addresses, link->address_number);
    }
    /* What had no answer is asked again, or given up. It must not come to the server after that: a claim that has ended would stand in the
     * queue, or hold. For a subscriber nothing is asked, and the server has to hear of the end: it counts those who listen. */
    if (link->fd >= 0 && !link->subscriber)
        pawl__socket_forget(link->fd);
    close_link(link);
    link->news.fell = true;
    speak(link);
}

void pawl__link_fail(struct link *link, const struct pawl_error *why) {
    link->why = *why;
    link->retry_at = pawl__boottime() + back_off(link);
    link->failures++;
    pawl__redis_due(link->redis, link->retry_at);
    link->news.fell = true;
    speak(link);
}

bool pawl__link_elsewhere(struct link *link) {
    if (!link->addresses || ++link->addresses_tried >= pawl__addresses_count(link->addresses))
        return false;
    pawl__addresses_failed(link->addresses, link->address_number);
    close_link(link);
    return true;
}

void pawl__link_close(struct link *link) {
    close_link(link);
    link->news.fell = false;
}

void pawl__link_free(struct link *link) {
    TAILQ_REMOVE(&link->redis->links, link, entry);
    free(link->out.bytes);
    link->out.bytes = NULL;
}
