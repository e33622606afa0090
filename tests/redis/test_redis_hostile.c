/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_hostile.c - a server whose answers are longer than any can be. It is refused in time, and no memory is taken for what it
 * announces.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/redis_one.h"
#include "engine/redis/value/value.h"

/* A server that answers with more than can be: `once`, and then `more` for as long as it is listened to. */
struct hostile {
    int listener;
    const char *once, *more;
};

static void *answer_without_end(void *data) {
    const struct hostile *hostile = data;
    char block[16384];
    int fd;

    for (size_t i = 0, length = strlen(hostile->more); length && i < sizeof block; i++)
        block[i] = hostile->more[i % length];
    while ((fd = accept(hostile->listener, NULL, NULL)) >= 0) {
        size_t length = strlen(hostile->once);
        bool heard = send(fd, hostile->once, length, MSG_NOSIGNAL) == (ssize_t)length;

        while (heard && hostile->more[0])
            heard = send(fd, block, sizeof block, MSG_NOSIGNAL) > 0;
        while (heard && recv(fd, block, sizeof block, 0) > 0)
            continue;
        close(fd);
    }
    return NULL;
}

static void open_hostile(const char *once, const char *more) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct hostile hostile = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), once, more};
    struct pawl *client;
    pthread_t thread;
    char url[128];

    assert_int_equal(bind(hostile.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(hostile.listener, 8), 0);
    assert_int_equal(getsockname(hostile.listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_without_end, &hostile), 0);
    /* A minute: a machine under load may take longer than usual to read what is too long. */
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?connect=60000&command=60000", ntohs(address.sin_port));
    assert_fails(PAWL_EFORMAT, pawl_open(url, NULL, &client, &error), &error);
    shutdown(hostile.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(hostile.listener);
}

/* However long an answer says that it is, no memory is taken for it. */
static void test_lengths_that_cannot_be(void **state) {
    (void)state;
    open_hostile("*2147483647\r\n", "");
    open_hostile("*1\r\n*2\r\n$1\r\nx\r\n*2147483647\r\n", "");
    open_hostile("*1048577\r\n", "");
    open_hostile("%2147483647\r\n", "");
}

/* However long it goes on, nobody waits for its end. */
static void test_answers_without_end(void **state) {
    (void)state;
    open_hostile("$2147483647\r\n", "x");
    open_hostile("*1048576\r\n*1048576\r\n", "*0\r\n");
    open_hostile("+", "x");
    open_hostile("*1\r\n:", "1");
    open_hostile("$", "1");
}

/* ---- Answers of the right length, and of any form ---------------------------------------------------------------------------- */

static char nonsense[1024];

static redisReply *answer_nonsense(struct server *asked, int script, int keys, int argc, const char **argv, const size_t *lengths,
                                   struct pawl_error *reterr) {
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    (void)asked, (void)script, (void)keys, (void)argc, (void)argv, (void)lengths, (void)reterr;
    assert_int_equal(redisReaderFeed(reader, nonsense, strlen(nonsense)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static void *ask_nothing(const struct redis *redis, const char *name, const char *argv[LOOK_KEYS]) {
    (void)redis, (void)name;
    for (int i = 0; i < LOOK_KEYS; i++)
        argv[i] = "";
    return malloc(1);
}

static int see_entry(const struct pawl_entry *entry, void *data) {
    unsigned *seen = data;

    *seen += (unsigned)strlen(entry->raw) + 1;
    return 0;
}

/* What the survey says of one lock, with this in the place of one of its first `count` parts. */
static int look_at_nonsense(const char *type, int count, int which, const char *instead, unsigned *seen) {
    static struct redis redis;
    struct server asked = {.redis = &redis};
    const char *parts[AT_COUNT] = {
        type, ":100\r\n", "*2\r\n$1\r\na\r\n$1\r\n1\r\n", "$1\r\n7\r\n", "*0\r\n", "*0\r\n", "*0\r\n", "*0\r\n", "$2\r\n17\r\n"};
    char *const names[] = {(char *)"lock"};
    char *to = nonsense + sprintf(nonsense, "*1\r\n*%d\r\n", count);
    struct lock_view view;
    redisReply *reply;
    int rc;

    if (which >= 0)
        parts[which] = instead;
    for (int i = 0; i < count; i++)
        to = stpcpy(to, parts[i]);
    redis.call = answer_nonsense;
    if ((rc = pawl__look(&asked, names, 1, false, ask_nothing, &reply, &error)) < 0)
        return rc;
    pawl__view_take(&redis, names[0], reply->element[0], &view);
    rc = pawl__view_show(&view, see_entry, seen, &error);
    freeReplyObject(reply);
    return rc == PAWL_EKIND ? 0 : rc;
}

static void test_forms_that_cannot_be(void **state) {
    static const char *const types[] = {"$4\r\nhash\r\n", "$6\r\nstring\r\n", "$4\r\nnone\r\n", "$4\r\nlist\r\n"};
    static const char *const others[] = {
        "$-1\r\n", ":7\r\n", "*0\r\n", "+OK\r\n", "$1\r\nx\r\n", "*2\r\n$-1\r\n:3\r\n", "*1\r\n*0\r\n", "*2\r\n:1\r\n$-1\r\n"};
    unsigned seen = 0, refused = 0;

    (void)state;
    assert_int_equal(look_at_nonsense(types[0], AT_COUNT, -1, NULL, &seen), 0);
    assert_int_equal(look_at_nonsense(types[0], AT_WHO, -1, NULL, &seen), 0);
    assert_int_equal(look_at_nonsense(types[0], AT_QUEUE, -1, NULL, &seen), PAWL_EFORMAT);
    assert_true(seen > 0);
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++)
        for (int which = 0; which < AT_COUNT + AT_WHO; which++)
            for (size_t other = 0; other < sizeof others / sizeof others[0]; other++) {
                int count = which < AT_COUNT ? AT_COUNT : AT_WHO, part = which % AT_COUNT;
                int rc = look_at_nonsense(types[type], count, part, others[other], &seen);

                assert_true(rc == 0 || rc == PAWL_EFORMAT);
                refused += rc < 0;
            }
    assert_true(refused > 100);
}

/* Is it taken for the answer to a write that was carried out? */
static bool is_written(const char *answer) {
    redisReply *reply;
    struct pawl__stamp stamp;
    bool written;

    snprintf(nonsense, sizeof nonsense, "%s", answer);
    reply = answer_nonsense(NULL, 0, 0, 0, NULL, NULL, NULL);
    written = pawl__redis_stamp(reply, &stamp);
    freeReplyObject(reply);
    return written;
}

static void test_what_says_that_it_was_written(void **state) {
    static const char *const others[] = {
        "$0\r\n\r\n",
        "$1\r\nx\r\n",
        "$2\r\n-1\r\n",
        "$17\r\n1700000000000000x\r\n",
        "$19\r\n9223372036854775807\r\n",
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*3\r\n:1\r\n$-1\r\n$-1\r\n",
        "*3\r\n:1\r\n$1\r\n5\r\n$1\r\nx\r\n",
        "*3\r\n$1\r\n1\r\n$1\r\n5\r\n$1\r\n5\r\n",
        "*3\r\n:0\r\n$1\r\n5\r\n$1\r\n5\r\n",
    };

    (void)state;
    assert_true(is_written("$16\r\n1700000000000000\r\n"));
    assert_true(is_written("*3\r\n:1\r\n$16\r\n8000000000000001\r\n$16\r\n1700000000000000\r\n"));
    assert_true(is_written("*1\r\n:2\r\n"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(is_written(others[i]));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths_that_cannot_be),
        cmocka_unit_test(test_forms_that_cannot_be),
        cmocka_unit_test(test_what_says_that_it_was_written),
        cmocka_unit_test(test_answers_without_end),
    };

    return run_redis_tests(argc, argv, "redis hostile", tests, "test_answers_without_end", NULL, stop_server);
}
