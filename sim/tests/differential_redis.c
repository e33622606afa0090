/* SPDX-License-Identifier: Apache-2.0
 *
 * differential_redis.c - see differential.h. Random sequences of about 60 commands on three keys, with arguments as scripts have them and
 * odd ones, whole scripts of pawl's, publishing and expiry; between two of them everything is removed.
 *
 * DIFFERENTIAL_SECONDS (3) says for how long, DIFFERENTIAL_SEED which sequence is the first, and the only one if nothing is said about the
 * time. A difference is shown with the steps that led to it.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <arpa/inet.h>
#include <unistd.h>

#include "../../lab/torture/dice.h"
#include "../../tests/support/redis_server.h"
#include "../../tests/support/test.h"
#include "../servers/redis.h"
#include "differential.h"

enum { STEPS = 60, SHOWN = 70, SLACK_MS = 5000 };

struct bytes {
    char *at;
    size_t size, room;
};

/* To the simulated server. */
struct link {
    struct bytes said;
    bool closed;
};

struct both {
    int fd; /* to the real one */
    struct bytes out, heard;
    struct link link;
    void *session;
    char real_id[24], model_id[24];
};

static struct redis_server real;
static struct redis *model;
static struct both both[CONNECTIONS];
static int active = -1;
static unsigned marks;
static struct dice dice;
static uint64_t commands, sequences;
static char *shown[SHOWN];
static unsigned shown_at, time_count;

/* ---- Little things -------------------------------------------------------------------------------------------------------- */

static void add(struct bytes *to, const void *from, size_t size) {
    if (to->size + size + 1 > to->room) {
        to->room = (to->size + size) * 2 + 256;
        to->at = realloc(to->at, to->room);
        assert_non_null(to->at);
    }
    memcpy(to->at + to->size, from, size);
    to->size += size;
    to->at[to->size] = '\0';
}

void link_send(struct link *link, const void *bytes, size_t size) {
    add(&link->said, bytes, size);
}

void link_close(struct link *link) {
    link->closed = true;
}

uint64_t draw(uint64_t below) {
    return dice_below(&dice, below);
}

const char *pick(const char *const *list, size_t count) {
    return list[draw(count)];
}

/* The simulated server's clock shows what the real one's does. */
static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void show(int connection, int count, const char *const *words) {
    char text[400];
    size_t used = (size_t)snprintf(text, sizeof text, "%d:", connection);

    for (int i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, words[i][0] && !strchr(words[i], ' ') ? " %s" : " '%s'",
                                 words[i]);
    free(shown[shown_at % SHOWN]);
    shown[shown_at++ % SHOWN] = strdup(text);
}

/* ---- Comparing ------------------------------------------------------------------------------------------------------------ */

/* Numbers that are times, and near each other. */
static bool same_time(long long a, long long b) {
    static const long long ranges[][2] = {{10000, 130000}, {94000000, 95000001}, {1600000000000, 2000000000000}};

    for (size_t i = 0; i < 3; i++)
        if (a >= ranges[i][0] && a <= ranges[i][1] && b >= ranges[i][0] && b <= ranges[i][1])
            return llabs(a - b) <= SLACK_MS;
    return false;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Where they differ; -1: nowhere. */
static long difference(const struct bytes *a, const struct bytes *b) {
    size_t i = 0, j = 0;

    while (i < a->size && j < b->size) {
        if (a->at[i] == b->at[j]) {
            i++;
            j++;
            continue;
        }
        while (i && j && is_digit(a->at[i - 1]) && is_digit(b->at[j - 1])) {
            i--;
            j--;
        }
        if (!is_digit(a->at[i]) || !is_digit(b->at[j]) || !same_time(strtoll(a->at + i, NULL, 10), strtoll(b->at + j, NULL, 10)))
            return (long)i;
        while (is_digit(a->at[i]))
            i++;
        while (is_digit(b->at[j]))
            j++;
    }
    return i < a->size || j < b->size ? (long)i : -1;
}

static void print_bytes(const char *what, const struct bytes *bytes, long around) {
    long from = around > 300 ? around - 300 : 0, to = around + 200 < (long)bytes->size ? around + 200 : (long)bytes->size;

    fprintf(stderr, "%s: ", what);
    for (long i = from; i < to; i++) {
        if (bytes->at[i] == '\n')
            fprintf(stderr, "|");
        else if (bytes->at[i] != '\r')
            fputc(bytes->at[i], stderr);
    }
    fprintf(stderr, "\n");
}

static void show_steps(void) {
    for (unsigned i = shown_at > SHOWN ? shown_at - SHOWN : 0; i < shown_at; i++)
        fprintf(stderr, "%s\n", shown[i % SHOWN]);
}

static void fail_here(int connection, long at, uint64_t seed) {
    show_steps();
    print_bytes("real ", &both[connection].heard, at);
    print_bytes("model", &both[connection].link.said, at);
    fail_msg("connection %d differs at byte %ld: DIFFERENTIAL_SEED=%llu", connection, at, (unsigned long long)seed);
}

/* ---- Carrying out --------------------------------------------------------------------------------------------------------- */

static void send_all(int fd, const struct bytes *bytes) {
    for (size_t sent = 0; sent < bytes->size;) {
        ssize_t n = send(fd, bytes->at + sent, bytes->size - sent, MSG_NOSIGNAL);

        assert_true(n > 0);
        sent += (size_t)n;
    }
}

/* Until the mark has come. */
static void hear(struct both *it, const char *mark) {
    size_t from = it->heard.size;
    char part[65536];

    for (int round = 0; round < 100000; round++) {
        size_t back = from > 32 ? from - 32 : 0;
        ssize_t n;

        if (it->heard.size > from && memmem(it->heard.at + back, it->heard.size - back, mark, strlen(mark)))
            return;
        from = it->heard.size;
        n = poll(&(struct pollfd){.fd = it->fd, .events = POLLIN}, 1, 20000) == 1 ? recv(it->fd, part, sizeof part, 0) : 0;
        if (n <= 0)
            break;
        add(&it->heard, part, (size_t)n);
    }
    show_steps();
    print_bytes("real", &it->heard, (long)it->heard.size);
    fail_msg("the real server does not answer");
}

static void to_model(struct both *it, const char *bytes, size_t size) {
    redis_ops.input(model, it->session, bytes, size, now_ns());
}

/* Send what has been collected for the connection at which we are, and wait until all of it was answered. */
static void flush(void) {
    struct both *it;
    char mark[24], ping[64];
    int n;

    if (active < 0)
        return;
    it = &both[active];
    active = -1;
    snprintf(mark, sizeof mark, "mark%08u", ++marks);
    n = snprintf(ping, sizeof ping, "*2\r\n$4\r\nPING\r\n$12\r\n%s\r\n", mark);
    add(&it->out, ping, (size_t)n);
    send_all(it->fd, &it->out);
    it->out.size = 0;
    hear(it, mark);
    to_model(it, ping, (size_t)n);
}

static void encode(struct bytes *to, int count, const char *const *words, const size_t *lengths) {
    char head[32];

    add(to, head, (size_t)snprintf(head, sizeof head, "*%d\r\n", count));
    for (int i = 0; i < count; i++) {
        size_t length = lengths ? lengths[i] : strlen(words[i]);

        add(to, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", length));
        add(to, words[i], length);
        add(to, "\r\n", 2);
    }
}

/* A word that is the number of a connection: @2. Both sides count in their own way. */
static const char *side_of(const char *word, bool is_real) {
    if (word[0] != '@' || word[1] < '0' || word[1] >= '0' + CONNECTIONS || word[2])
        return word;
    return is_real ? both[word[1] - '0'].real_id : both[word[1] - '0'].model_id;
}

void step(int connection, int count, const char *const *words, const size_t *lengths) {
    static struct bytes request;
    const char *own[WORDS] = {0};

    assert_true(count <= WORDS);
    if (active >= 0 && active != connection)
        flush();
    active = connection;
    show(connection, count, words);
    for (int i = 0; i < count; i++)
        own[i] = side_of(words[i], true);
    encode(&both[connection].out, count, own, lengths);
    for (int i = 0; i < count; i++)
        own[i] = side_of(words[i], false);
    request.size = 0;
    encode(&request, count, own, lengths);
    to_model(&both[connection], request.at, request.size);
    commands++;
    if (both[connection].out.size > 30000)
        flush();
}

void say(int connection, const char *format, ...) {
    char line[512], *rest = line, *word;
    const char *words[WORDS];
    va_list args;
    int count = 0;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    while ((word = strsep(&rest, " ")) && count < WORDS)
        words[count++] = word;
    step(connection, count, words, NULL);
}

/* In all databases: the connection may be in any. */
bool is_large(const char *key) {
    bool large = false;
    char reply[64];

    for (int db = 15; db >= 0; db--) {
        redis_do(model, now_ns(), NULL, 0, "SELECT %d", db);
        large |= redis_do(model, now_ns(), reply, sizeof reply, "OBJECT ENCODING \"%s\"", key) && strstr(reply, "hashtable");
    }
    return large;
}

void await_gone(const char *key) {
    int left = 2000;

    flush();
    while (redis_server_integer(&real, "EXISTS %s", key) && left-- > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(left > 0);
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

static void compare(uint64_t seed) {
    for (int i = 0; i < CONNECTIONS; i++) {
        long at;

        flush();
        active = i;
        flush();
        at = difference(&both[i].heard, &both[i].link.said);
        if (at >= 0)
            fail_here(i, at, seed);
        both[i].heard.size = both[i].link.said.size = 0;
    }
}

/* ---- Connections ---------------------------------------------------------------------------------------------------------- */

static void connect_both(struct both *it) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)real.port)};
    char reply[64];

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    it->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(it->fd, (struct sockaddr *)&address, sizeof address), 0);
    it->link.closed = false;
    it->session = redis_ops.accept(model, &it->link, now_ns());
    it->heard.size = it->link.said.size = it->out.size = 0;
    to_model(it, "CLIENT ID\r\n", 11);
    snprintf(it->model_id, sizeof it->model_id, "%lld", atoll(it->link.said.at + 1));
    assert_int_equal(send(it->fd, "CLIENT ID\r\n", 11, 0), 11);
    assert_true(recv(it->fd, reply, sizeof reply, 0) > 1);
    snprintf(it->real_id, sizeof it->real_id, "%lld", atoll(reply + 1));
    it->link.said.size = 0;
}

static void reset_all(void) {
    for (int i = 0; i < CONNECTIONS; i++)
        say(i, "RESET");
    say(0, "FLUSHALL");
    say(0, "SCRIPT FLUSH");
    begin_scripts();
}

/* ---- Commands ------------------------------------------------------------------------------------------------------------- */

/* Small letters are drawn: k key, v value, n number, f score, m member, o field, t ms, s seconds, b bound, c channel, p pattern. */
static const char *const plain[] = {"GET k",
                                    "SET k v",
                                    "SET k v NX",
                                    "SET k v XX",
                                    "SET k v PX t",
                                    "SET k v NX PX t",
                                    "SET k v EX s",
                                    "SET k v KEEPTTL",
                                    "SET k v GET",
                                    "SET k v XX GET",
                                    "SET k v NX GET",
                                    "SET k v PX t KEEPTTL",
                                    "SET k v NX XX",
                                    "SET k v PX",
                                    "SET k n",
                                    "SETNX k v",
                                    "GETSET k v",
                                    "GETDEL k",
                                    "STRLEN k",
                                    "APPEND k v",
                                    "INCR k",
                                    "DECR k",
                                    "INCRBY k n",
                                    "DECRBY k n",
                                    "MGET k k k",
                                    "MSET k v k v",
                                    "MSET k v k",
                                    "SETEX k s v",
                                    "PSETEX k t v",
                                    "HSET k o v",
                                    "HSET k o v o v",
                                    "HSET k o v o",
                                    "HSET k o n",
                                    "HSETNX k o v",
                                    "HGET k o",
                                    "HMGET k o o o",
                                    "HLEN k",
                                    "HEXISTS k o",
                                    "HDEL k o",
                                    "HDEL k o o o",
                                    "HINCRBY k o n",
                                    "HSTRLEN k o",
                                    "HMSET k o v",
                                    "ZADD k f m",
                                    "ZADD k f m f m",
                                    "ZADD k NX f m",
                                    "ZADD k XX f m",
                                    "ZADD k GT f m",
                                    "ZADD k LT CH f m",
                                    "ZADD k CH f m f m",
                                    "ZADD k INCR f m",
                                    "ZADD k NX XX f m",
                                    "ZADD k GT LT f m",
                                    "ZADD k INCR f m f m",
                                    "ZADD k f",
                                    "ZINCRBY k f m",
                                    "ZREM k m",
                                    "ZREM k m m m",
                                    "ZCARD k",
                                    "ZSCORE k m",
                                    "ZRANK k m",
                                    "ZREVRANK k m",
                                    "ZRANGE k n n",
                                    "ZRANGE k 0 -1 WITHSCORES",
                                    "ZRANGE k n n WITHSCORES",
                                    "ZRANGE k n n REV",
                                    "ZRANGE k b b BYSCORE",
                                    "ZRANGE k b b BYSCORE REV WITHSCORES",
                                    "ZRANGE k b b BYSCORE LIMIT n n",
                                    "ZRANGE k n n LIMIT n n",
                                    "ZREVRANGE k n n WITHSCORES",
                                    "ZRANGEBYSCORE k b b",
                                    "ZRANGEBYSCORE k b b WITHSCORES",
                                    "ZRANGEBYSCORE k b b LIMIT n n",
                                    "ZREVRANGEBYSCORE k b b",
                                    "ZCOUNT k b b",
                                    "ZREMRANGEBYSCORE k b b",
                                    "ZREMRANGEBYRANK k n n",
                                    "ZPOPMIN k",
                                    "ZPOPMAX k n",
                                    "LPUSH k v",
                                    "RPUSH k v v",
                                    "LPOP k",
                                    "RPOP k",
                                    "LPOP k n",
                                    "LLEN k",
                                    "LINDEX k n",
                                    "LRANGE k n n",
                                    "LREM k n v",
                                    "DEL k",
                                    "DEL k k",
                                    "UNLINK k",
                                    "EXISTS k",
                                    "EXISTS k k k",
                                    "TYPE k",
                                    "RENAME k k",
                                    "RENAMENX k k",
                                    "PEXPIRE k t",
                                    "EXPIRE k s",
                                    "PEXPIRE k t NX",
                                    "PEXPIRE k t GT",
                                    "PEXPIRE k t XX LT",
                                    "PEXPIRE k t NX XX",
                                    "PEXPIRE k t GT LT",
                                    "PEXPIRE k t FOO",
                                    "PERSIST k",
                                    "PTTL k",
                                    "TTL k",
                                    "PEXPIRETIME k",
                                    "EXPIRETIME k",
                                    "DBSIZE",
                                    "PING",
                                    "PING v",
                                    "ECHO v",

                                    "PUBLISH c v",
                                    "PUBLISH c v",
                                    "PUBSUB NUMSUB c c",
                                    "PUBSUB NUMPAT",
                                    "PUBSUB SHARDNUMSUB c",
                                    "SPUBLISH c v",
                                    "SELECT n",
                                    "NOSUCH k v",
                                    "EXEC",
                                    "DISCARD",
                                    "WAIT 0 0",
                                    "WAIT n X",
                                    "SCRIPT EXISTS v",
                                    "SCRIPT KILL",
                                    "CLIENT CACHING YES",
                                    "CLIENT FOO",
                                    "CONFIG FOO",
                                    "CLIENT ID 5 6",
                                    "SCRIPT LOAD",
                                    "TOUCH k",
                                    "CLIENT GETNAME"};
static const char *const listening[] = {"SUBSCRIBE c",
                                        "SUBSCRIBE c c",
                                        "UNSUBSCRIBE c",
                                        "PSUBSCRIBE p",
                                        "PUNSUBSCRIBE p",
                                        "SSUBSCRIBE c",
                                        "SUNSUBSCRIBE c",
                                        "PING",
                                        "PING v",
                                        "SUBSCRIBE c",
                                        "GET k",
                                        "PUNSUBSCRIBE",
                                        "SUBSCRIBE __redis__:invalidate"};
static const char *const tracking[] = {"CLIENT TRACKING ON REDIRECT @3",
                                       "CLIENT TRACKING ON REDIRECT @3 OPTIN",
                                       "CLIENT TRACKING OFF",
                                       "CLIENT CACHING YES",
                                       "CLIENT TRACKING ON REDIRECT @3 BCAST",
                                       "CLIENT TRACKING ON REDIRECT @3 BCAST PREFIX a",
                                       "CLIENT TRACKING ON REDIRECT @3 NOLOOP",
                                       "CLIENT TRACKING ON REDIRECT @3 OPTOUT",
                                       "CLIENT CACHING NO",
                                       "CLIENT TRACKING ON REDIRECT 99999999",
                                       "CLIENT TRACKING ON OPTIN OPTOUT",
                                       "CLIENT TRACKING ON PREFIX a",
                                       "CLIENT CACHING MAYBE",
                                       "CLIENT TRACKING OFF"};

static const char *odd(void) {
    static const char *const list[] = {"",
                                       "abc",
                                       "-1",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "9223372036854775808",
                                       "1e3",
                                       " 5",
                                       "5 ",
                                       "0x10",
                                       "inf",
                                       "-inf",
                                       "nan",
                                       "+1",
                                       "1.5",
                                       "00",
                                       "-0",
                                       "(",
                                       "(1",
                                       "10000000000000000000000"};

    return PICK(list);
}

/* What a small letter stands for. */
static const char *argument(char letter) {
    static const char *const keys[] = {"a", "b", "{a}c"}, *const values[] = {"x", "1", "0", "17", "-5", "a value", "abc"},
                             *const numbers[] = {"0", "1", "-1", "2", "-2", "3", "5", "10", "1000", "1"},
                             *const scores[] = {"0",   "1",
                                                "2",   "3",
                                                "1.5", "-1",
                                                "1e3", "2.0000009536743164",
                                                "0.1", "1767225600123"},
                             *const members[] = {"m", "n", "o", "member with spaces"}, *const fields[] = {"f", "g", "mode", "@f"},
                             *const bounds[] = {"0", "1", "(1", "2", "(2", "-inf", "+inf", "1.5", "3"},
                             *const channels[] = {"c", "d",
                                                  "pawl:inbox:1"}, /* One for each channel: which comes first nobody knows. */
                                 *const patterns[] = {"c*", "[d-e]", "pawl:*", "??"};
    static char many[80], times[WORDS][16];

    if (draw(40) == 0)
        return odd();
    switch (letter) {
    case 'k':
        return PICK(keys);
    case 'v':
        if (draw(30) == 0) {
            memset(many, 'v', 70);
            return many;
        }
        return PICK(values);
    case 'n':
        return PICK(numbers);
    case 'f':
        return PICK(scores);
    case 'm':
        return PICK(members);
    case 'o':
        return PICK(fields);
    case 't': /* each is another: which of two is later must not hang on a ms */
        time_count++;
        snprintf(times[time_count % WORDS], sizeof times[0], "%u", 60000 + 211 * time_count);
        return times[time_count % WORDS];
    case 's':
        return "95000";
    case 'b':
        return PICK(bounds);
    case 'c':
        return PICK(channels);
    default:
        return PICK(patterns);
    }
}

static void template_step(int connection, const char *template) {
    char line[256], *rest = line, *word;
    const char *words[WORDS];
    int count = 0;

    snprintf(line, sizeof line, "%s", template);
    while ((word = strsep(&rest, " ")) && count < WORDS - 1) {
        bool drawn = count > 0 && !word[1] && word[0] >= 'a' && word[0] <= 'z';

        words[count++] = drawn ? argument(word[0]) : word;
    }
    if (draw(150) == 0)
        words[count++] = odd();
    else if (draw(150) == 0 && count > 1 && !strstr(template, "UNSUB")) /* of all: in an order that nobody knows */
        count--;
    step(connection, count, words, NULL);
}

/* All fields, all keys: in an order that both know. */
static void list_step(int connection) {
    static const char *const lists[] = {"HGETALL", "HKEYS", "HVALS"};
    static const char sorted[] = "local t = redis.call(ARGV[1], ARGV[2]) table.sort(t) return t";
    const char *key = argument('k'), *command = PICK(lists);

    if (draw(4) == 0)
        step(connection, 5, (const char *[]){"EVAL", sorted, "0", "KEYS", "*"}, NULL);
    else if (is_large(key))
        step(connection, 5, (const char *[]){"EVAL", sorted, "0", command, key}, NULL);
    else
        step(connection, 2, (const char *[]){command, key}, NULL);
}

/* A key that ends soon: it is waited for. */
static void expiry_step(int connection) {
    const char *key = argument('k');

    if (!*key || strchr(key, ' '))
        return;
    say(connection, "SELECT 0");
    say(connection, draw(2) ? "PEXPIRE %s %d" : "SET %s 1 PX %d", key, 2 + (int)draw(10));
    await_gone(key);
    say(connection, "PTTL %s", key);
    say(connection, draw(2) ? "EXISTS %s" : "TYPE %s", key);
}

static void multi_step(int connection) {
    flush(); /* not in between: the mark would be queued */
    say(connection, "MULTI");
    for (int i = (int)draw(5); i > 0; i--) {
        const char *template = PICK(plain);

        if (strcmp(template, "EXEC") != 0 && strcmp(template, "DISCARD") != 0)
            template_step(connection, template);
    }
    say(connection, draw(5) ? "EXEC" : "DISCARD");
}

static void any_step(bool scripts, bool tracks) {
    /* Mostly the same again: a change costs a round trip. The last two listen. */
    static int connection;

    connection = draw(4) ? connection : (int)draw(CONNECTIONS);

    if (connection >= 2 && draw(3))
        template_step(connection, PICK(listening));
    else if (connection < 2 && scripts && draw(2))
        script_step(connection);
    else if (draw(8) == 0)
        odd_script_step(connection);
    else if (draw(12) == 0)
        list_step(connection);
    else if (draw(20) == 0)
        multi_step(connection);
    else if (tracks && connection < 2 && draw(8) == 0)
        template_step(connection, PICK(tracking));
    else
        template_step(connection, PICK(plain));
    if (tracks) /* one turn of the server each: what changes in one is told together */
        flush();
}

static void run_sequence(uint64_t seed) {
    unsigned kind;

    dice.state = seed * 1000003;
    shown_at = time_count = 0;
    reset_all();
    kind = (unsigned)draw(4);
    for (int i = 0; i < STEPS; i++)
        any_step(kind == 0, kind == 1);
    if (draw(40) == 0)
        expiry_step(0);
    compare(seed);
    sequences++;
}

/* ---- The test ------------------------------------------------------------------------------------------------------------- */

static int set_up(void **state) {
    (void)state;
    redis_server_start(&real);
    model = redis_new(&(struct redis_settings){.seed = 1, .port = real.port, .wall_ns = 1});
    for (int i = 0; i < CONNECTIONS; i++)
        connect_both(&both[i]);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < CONNECTIONS; i++) {
        redis_ops.gone(model, both[i].session, now_ns());
        close(both[i].fd);
        free(both[i].heard.at);
        free(both[i].out.at);
        free(both[i].link.said.at);
    }
    redis_free(model);
    redis_server_free(&real);
    return 0;
}

static void test_same_answers(void **state) {
    const char *seconds = getenv("DIFFERENTIAL_SECONDS"), *first = getenv("DIFFERENTIAL_SEED");
    int64_t until = now_ns() + (int64_t)((seconds ? atof(seconds) : first ? 0 : 3) * 1e9);
    uint64_t seed = first ? strtoull(first, NULL, 10) : 1;

    (void)state;
    do
        run_sequence(seed++);
    while (now_ns() < until);
    printf("# %llu commands in %llu sequences\n", (unsigned long long)commands, (unsigned long long)sequences);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_answers)};
    const char *why;

    if (!redis_server_exists(&why)) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    return cmocka_run_group_tests_name("differential redis", tests, set_up, tear_down);
}
