/* SPDX-License-Identifier: Apache-2.0
 *
 * raw_redis.c - bare operations on one Redis, by hiredis on a blocking connection: PING, EVALSHA of a script that does nothing, GET.
 *
 * A client that sleeps until the answer is there is woken by the kernel, which may take longer than the server did. One that waits
 * busily looks for it BUSY_NS long before it sleeps; PING and EVALSHA are measured that way too. One that has a deadline, or can be
 * called away, sleeps in poll(), as pawl does: so does who sets the bytes of a value here. That goal is about what the server is asked.
 *
 * Where the URL names several servers (those of a Redlock) the first of them is asked; requests are counted and keys are removed on all of
 * them. Where it names sentinels, they are asked once where the primary is, and the primary is what is meant. Where it names nodes of a
 * cluster, one of them is asked for all primaries: a name may live on any of these, however few the URL has.
 *
 * Requests are counted by the server (INFO commandstats), which counts what a script calls too. The engine asks by scripts alone; so the
 * calls that no script makes are the requests.
 */
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "raw.h"

enum { KEYS_TO_TRY = 1000, BUSY_NS = 70000, BAT_MS = 2000, PATIENCE_MS = 10000 };

struct redis {
    struct address address;
    redisContext *contexts[ADDRESS_HOSTS];
    redisContext *ear; /* where messages come back; NULL: none was sent yet */
    pid_t bat;         /* the process that sends them back */
    size_t count;
    char sha[41], set_sha[41];
    char id[32];
    char key[48]; /* that the first server has the slot of */
    bool sleeps;  /* ?spin=0: nothing waits busily here, so that none of it is in the way of those that sleep */
};

static void send_words(redisContext *context, const char *first, const char *second, const char *third) {
    const char *words[] = {first, second, third};

    redisAppendCommandArgv(context, second == NULL ? 1 : third == NULL ? 2 : 3, words, NULL);
}

/* NULL: the context says why not. */
static redisReply *answer_of(redisContext *context) {
    void *got = NULL;
    redisReply *reply = redisGetReply(context, &got) == REDIS_OK ? got : NULL;

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        snprintf(context->errstr, sizeof context->errstr, "%s", reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static redisReply *ask(redisContext *context, const char *first, const char *second, const char *third) {
    send_words(context, first, second, third);
    return answer_of(context);
}

static bool succeeds(redisContext *context, const char *first, const char *second, const char *third) {
    redisReply *reply = ask(context, first, second, third);

    freeReplyObject(reply);
    return reply != NULL;
}

/* Look for the answer for a while; not where the server could not run meanwhile. */
static void wait_busily(redisContext *context) {
    cpu_set_t cpus;
    int sent = 0;
    char byte;

    if (sched_getaffinity(0, sizeof cpus, &cpus) < 0 || CPU_COUNT(&cpus) < 2)
        return;
    while (!sent && redisBufferWrite(context, &sent) == REDIS_OK)
        continue;
    for (int64_t begin = bench_now_ns(); bench_now_ns() - begin < BUSY_NS;)
        if (recv(context->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
            return;
}

/* Sleep until the answer is there, for as long as the connection is patient. */
static void wait_in_poll(redisContext *context) {
    struct pollfd fd = {.fd = context->fd, .events = POLLIN};
    int sent = 0;

    while (!sent && redisBufferWrite(context, &sent) == REDIS_OK)
        continue;
    poll(&fd, 1, PATIENCE_MS);
}

static bool succeeds_busily(redisContext *context, const char *first, const char *second, const char *third) {
    send_words(context, first, second, third);
    wait_busily(context);
    redisReply *reply = answer_of(context);
    freeReplyObject(reply);
    return reply != NULL;
}

static redisContext *connect_to(const struct address *address, size_t host, const char *default_port) {
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    const char *port = address->hosts[host].port[0] != '\0' ? address->hosts[host].port : default_port;
    redisContext *context = address->host_count > 0 && address->hosts[host].name[0] != '\0'
                                ? redisConnectWithTimeout(address->hosts[host].name, atoi(port), patience)
                                : redisConnectUnixWithTimeout(address->path, patience);

    if (context != NULL && context->err == 0)
        redisSetTimeout(context, patience);
    return context;
}

static bool show_password(redisContext *context, const char *user, const char *secret) {
    bool named = user[0] != '\0';

    return secret[0] == '\0' || succeeds(context, "AUTH", named ? user : secret, named ? secret : NULL);
}

static bool log_in(redisContext *context, const struct address *address) {
    char db[32];

    if (!show_password(context, address->user, address->secret))
        return false;
    address_option(address, "db", db, sizeof db);
    if (db[0] == '\0' && address->host_count > 0)
        snprintf(db, sizeof db, "%s", address->path[0] == '/' ? address->path + 1 : "");
    return db[0] == '\0' || succeeds(context, "SELECT", db, NULL);
}

/* "redis-sentinel", "redis+cluster". */
static bool is_of(const struct address *address, const char *kind) {
    const char *end = strstr(address->scheme, kind);

    return end != NULL && end[strlen(kind)] == '\0';
}

/* Ask one sentinel. */
static bool learn_primary(const struct address *address, size_t host, const char *name, char *ret_host, size_t host_size,
                          char *ret_port, size_t port_size) {
    char user[256], secret[256];
    redisContext *context = connect_to(address, host, "26379");
    redisReply *reply = NULL;

    address_option(address, "sentinel-user", user, sizeof user);
    address_option(address, "sentinel-password", secret, sizeof secret);
    if (context != NULL && context->err == 0 && show_password(context, user, secret))
        reply = ask(context, "SENTINEL", "get-master-addr-by-name", name);
    bool known = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
    if (known) {
        snprintf(ret_host, host_size, "%s", reply->element[0]->str);
        snprintf(ret_port, port_size, "%s", reply->element[1]->str);
    }
    freeReplyObject(reply);
    if (context != NULL)
        redisFree(context);
    return known;
}

/* The path is /name[/db]. */
static bool find_primary(struct address *address, char *why, size_t size) {
    char name[ADDRESS_SIZE], db[ADDRESS_SIZE], host[256], port[8];
    size_t i = 0;

    const char *begin = address->path + (address->path[0] == '/');
    size_t length = strcspn(begin, "/");
    snprintf(name, sizeof name, "%.*s", (int)length, begin);
    snprintf(db, sizeof db, "%s", begin + length);
    while (i < address->host_count && !learn_primary(address, i, name, host, sizeof host, port, sizeof port))
        i++;
    if (i == address->host_count) {
        snprintf(why, size, "no sentinel says where the primary is");
        return false;
    }
    address->host_count = 1;
    snprintf(address->hosts[0].name, sizeof address->hosts[0].name, "%s", host);
    snprintf(address->hosts[0].port, sizeof address->hosts[0].port, "%s", port);
    snprintf(address->path, sizeof address->path, "%s", db);
    return true;
}

static bool has_host(const struct address *address, const char *name, const char *port) {
    for (size_t i = 0; i < address->host_count; i++)
        if (strcmp(address->hosts[i].name, name) == 0 && strcmp(address->hosts[i].port, port) == 0)
            return true;
    return false;
}

/* One range of CLUSTER SLOTS: its first, its last, its primary, its replicas. A node may not know its own name: then it is `asked`'s. */
static bool add_primary_of(const redisReply *range, const char *asked, struct address *primaries) {
    const redisReply *node = range->type == REDIS_REPLY_ARRAY && range->elements >= 3 ? range->element[2] : NULL;
    char port[8];

    if (node == NULL || node->type != REDIS_REPLY_ARRAY || node->elements < 2 || node->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    const char *name = node->element[0]->type == REDIS_REPLY_STRING && node->element[0]->len > 0 ? node->element[0]->str : asked;
    snprintf(port, sizeof port, "%d", (int)(node->element[1]->integer & 0xffff));
    if (has_host(primaries, name, port))
        return true;
    if (primaries->host_count == ADDRESS_HOSTS)
        return false;
    size_t at = primaries->host_count++;
    snprintf(primaries->hosts[at].name, sizeof primaries->hosts[at].name, "%s", name);
    snprintf(primaries->hosts[at].port, sizeof primaries->hosts[at].port, "%s", port);
    return true;
}

/* Ask one node; all primaries, or none. */
static bool learn_primaries(const struct address *address, size_t host, struct address *primaries) {
    redisContext *context = connect_to(address, host, "6379");
    redisReply *reply = NULL;

    primaries->host_count = 0;
    if (context != NULL && context->err == 0 && show_password(context, address->user, address->secret))
        reply = ask(context, "CLUSTER", "SLOTS", NULL);
    bool known = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    for (size_t i = 0; known && i < reply->elements; i++)
        known = add_primary_of(reply->element[i], address->hosts[host].name, primaries);
    freeReplyObject(reply);
    if (context != NULL)
        redisFree(context);
    return known;
}

static bool find_primaries(struct address *address, char *why, size_t size) {
    struct address primaries = *address;
    size_t i = 0;

    while (i < address->host_count && !learn_primaries(address, i, &primaries))
        i++;
    if (i == address->host_count) {
        snprintf(why, size, "no node tells the primaries of its cluster, or there are more than %d", ADDRESS_HOSTS);
        return false;
    }
    *address = primaries;
    return true;
}

static bool redis_resolve(struct address *address, char *why, size_t size) {
    if (is_of(address, "sentinel"))
        return find_primary(address, why, size);
    return !is_of(address, "cluster") || find_primaries(address, why, size);
}

static void redis_close(void *connection) {
    struct redis *redis = connection;

    for (size_t i = 0; i < redis->count; i++)
        redisFree(redis->contexts[i]);
    if (redis->ear != NULL)
        redisFree(redis->ear);
    if (redis->bat > 0) {
        kill(redis->bat, SIGKILL);
        waitpid(redis->bat, NULL, 0);
    }
    free(redis);
}

static bool connect_all(struct redis *redis, const struct address *address, char *why, size_t size) {
    do {
        redisContext *context = redis->contexts[redis->count] = connect_to(address, redis->count, "6379");

        if (context == NULL) {
            snprintf(why, size, "out of memory");
            return false;
        }
        redis->count++;
        if (context->err != 0 || !log_in(context, address)) {
            snprintf(why, size, "%s", context->errstr);
            return false;
        }
    } while (redis->count < address->host_count);
    return true;
}

/* A server of a cluster answers for its own keys only. */
static void choose_key(struct redis *redis) {
    snprintf(redis->key, sizeof redis->key, "%s", redis->id);
    for (int i = 0; i < KEYS_TO_TRY && !succeeds(redis->contexts[0], "GET", redis->key, NULL); i++)
        snprintf(redis->key, sizeof redis->key, "%s-%d", redis->id, i);
}

static bool load_script(struct redis *redis, char *why, size_t size) {
    redisReply *reply = ask(redis->contexts[0], "SCRIPT", "LOAD", "return 1");
    bool loaded = reply != NULL && reply->type == REDIS_REPLY_STRING;

    snprintf(loaded ? redis->sha : why, loaded ? sizeof redis->sha : size, "%s", loaded ? reply->str : redis->contexts[0]->errstr);
    freeReplyObject(reply);
    return loaded;
}

static void *redis_open(const struct address *address, const char *id, char *why, size_t size) {
    struct redis *redis = calloc(1, sizeof *redis);
    char spin[8];

    if (redis == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    redis->address = *address;
    snprintf(redis->id, sizeof redis->id, "%s", id);
    redis->sleeps = strcmp(address_option(address, "spin", spin, sizeof spin), "0") == 0;
    if (!connect_all(redis, address, why, size) || !load_script(redis, why, size)) {
        redis_close(redis);
        return NULL;
    }
    choose_key(redis);
    return redis;
}

/* ---- A message to another process, and its answer to that ------------------------------------------------------------------ */

static void name_channel(const struct redis *redis, const char *way, char *ret, size_t size) {
    snprintf(ret, size, "%s-%s", redis->id, way);
}

/* A connection that hears what is said on this channel. NULL: it can't. */
static redisContext *listen_to(const struct redis *redis, const char *way) {
    redisContext *ear = connect_to(&redis->address, 0, "6379");
    char channel[48];

    name_channel(redis, way, channel, sizeof channel);
    if (ear != NULL && ear->err == 0 && log_in(ear, &redis->address) && succeeds(ear, "SUBSCRIBE", channel, NULL))
        return ear;
    if (ear != NULL)
        redisFree(ear);
    return NULL;
}

static bool hears_one(redisContext *ear) {
    redisReply *message = answer_of(ear);

    freeReplyObject(message);
    return message != NULL;
}

/* The child's: connections of its own, and its parent's end is its end. */
_Noreturn static void bat(const struct redis *redis) {
    redisContext *ear, *mouth;
    char channel[48];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ear = listen_to(redis, "there");
    mouth = connect_to(&redis->address, 0, "6379");
    name_channel(redis, "back", channel, sizeof channel);
    if (ear == NULL || mouth == NULL || mouth->err != 0 || !log_in(mouth, &redis->address))
        _exit(1);
    redisSetTimeout(ear, (struct timeval){0});
    while (hears_one(ear) && succeeds(mouth, "PUBLISH", channel, "1"))
        continue;
    _exit(0);
}

/* How many heard it; -1: it could not be said. */
static long long say_there(struct redis *redis) {
    char channel[48];

    name_channel(redis, "there", channel, sizeof channel);
    redisReply *reply = ask(redis->contexts[0], "PUBLISH", channel, "1");
    long long heard = reply != NULL ? reply->integer : -1;

    freeReplyObject(reply);
    return heard;
}

/* Both ends are there when the first message has come back. */
static bool start_messages(struct redis *redis) {
    int64_t deadline = bench_now_ns() + (int64_t)BAT_MS * 1000000;
    long long heard;

    redis->ear = listen_to(redis, "back");
    redis->bat = redis->ear != NULL ? fork() : -1;
    if (redis->bat == 0)
        bat(redis);
    while (redis->bat > 0 && (heard = say_there(redis)) == 0 && bench_now_ns() < deadline)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return redis->bat > 0 && heard > 0 && hears_one(redis->ear);
}

static int64_t send_message(struct redis *redis) {
    if (redis->bat == 0 && !start_messages(redis))
        return -1;
    int64_t begin = bench_now_ns();

    return say_there(redis) > 0 && hears_one(redis->ear) ? bench_now_ns() - begin : -1;
}

/* The script is there when it has run once. */
static bool set_bytes(struct redis *redis) {
    static const char script[] = "return redis.call('SET', KEYS[1], ARGV[1])";
    bool known = redis->set_sha[0] != '\0';
    redisReply *reply = known ? NULL : ask(redis->contexts[0], "SCRIPT", "LOAD", script);

    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        snprintf(redis->set_sha, sizeof redis->set_sha, "%s", reply->str);
    freeReplyObject(reply);
    redisAppendCommand(redis->contexts[0], "EVALSHA %s 1 %s %s", redis->set_sha, redis->key, BENCH_VALUE);
    wait_in_poll(redis->contexts[0]);
    reply = answer_of(redis->contexts[0]);
    freeReplyObject(reply);
    return reply != NULL;
}

static int64_t redis_act(void *connection, enum raw_act act) {
    struct redis *redis = connection;
    redisContext *context = redis->contexts[0];
    int64_t begin = bench_now_ns();

    if (act == RAW_MESSAGE)
        return send_message(redis);
    if (act == RAW_SET)
        return set_bytes(redis) ? bench_now_ns() - begin : -1;
    if (act >= RAW_TRIP_BUSY && redis->sleeps)
        return -1;
    bool good = act == RAW_TRIP        ? succeeds(context, "PING", NULL, NULL)
                : act == RAW_WRITE     ? succeeds(context, "EVALSHA", redis->sha, "0")
                : act == RAW_READ      ? succeeds(context, "GET", redis->key, NULL)
                : act == RAW_TRIP_BUSY ? succeeds_busily(context, "PING", NULL, NULL)
                                       : succeeds_busily(context, "EVALSHA", redis->sha, "0");

    return good ? bench_now_ns() - begin : -1;
}

static bool called_by_scripts(const char *line) {
    static const char *const own[] = {"evalsha:",   "eval:",        "evalsha_ro:", "fcall:",        "ping:",
                                      "subscribe:", "unsubscribe:", "ssubscribe:", "sunsubscribe:", "wait:"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncmp(line, own[i], strlen(own[i])) == 0)
            return false;
    return true;
}

static double requests_of(redisContext *context) {
    redisReply *reply = ask(context, "INFO", "commandstats", NULL);
    double total = reply != NULL ? 0 : -1;

    for (const char *at = reply != NULL ? reply->str : NULL; at != NULL && (at = strstr(at, "cmdstat_")) != NULL; at++) {
        at += strlen("cmdstat_");
        const char *calls = strstr(at, "calls=");

        if (calls != NULL && !called_by_scripts(at))
            total += strtod(calls + strlen("calls="), NULL);
    }
    freeReplyObject(reply);
    return total;
}

static double redis_requests(void *connection) {
    const struct redis *redis = connection;
    double total = 0;

    for (size_t i = 0; i < redis->count && total >= 0; i++) {
        double one = requests_of(redis->contexts[i]);

        total = one < 0 ? -1 : total + one;
    }
    return total;
}

static void redis_describe(void *connection, char *out, size_t size) {
    struct redis *redis = connection;
    redisReply *reply = ask(redis->contexts[0], "INFO", "server", NULL);
    const char *valkey = reply != NULL ? strstr(reply->str, "valkey_version:") : NULL;
    const char *version = reply != NULL ? strstr(reply->str, "redis_version:") : NULL;
    const char *found = valkey != NULL ? valkey : version;

    out[0] = '\0';
    if (found != NULL) {
        found = strchr(found, ':') + 1;
        snprintf(out, size, "%s %.*s", valkey != NULL ? "Valkey" : "Redis", (int)strcspn(found, "\r\n"), found);
    }
    freeReplyObject(reply);
}

/* All keys with the id in them: the lock's own, and those beside it (docs/redis.md). */
static bool clean_server(redisContext *context, const char *id) {
    char cursor[32] = "0", pattern[48];

    snprintf(pattern, sizeof pattern, "*%s*", id);
    do {
        redisReply *reply = redisCommand(context, "SCAN %s MATCH %s COUNT 1000", cursor, pattern);

        if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
            freeReplyObject(reply);
            return false;
        }
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++)
            succeeds(context, "DEL", reply->element[1]->element[i]->str, NULL);
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    return true;
}

static bool redis_clean(void *connection) {
    const struct redis *redis = connection;
    bool clean = true;

    for (size_t i = 0; i < redis->count; i++)
        clean &= clean_server(redis->contexts[i], redis->id);
    return clean;
}

const struct raw_impl raw_redis = {
    .schemes = {"redis", "redis+unix", "unix", "redis+cluster", "redis-cluster", "redlock", "redis-sentinel", "redis+sentinel"},
    .resolve = redis_resolve,
    .names = {"PING", "EVALSHA", "GET", "PING", "EVALSHA"},
    .message = "PUBLISH there and back",
    .set = "EVALSHA that sets the same bytes",
    .open = redis_open,
    .close = redis_close,
    .act = redis_act,
    .requests = redis_requests,
    .describe = redis_describe,
    .clean = redis_clean,
};
