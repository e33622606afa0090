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
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", ntohs(address.sin_port));
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

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths_that_cannot_be),
        cmocka_unit_test(test_answers_without_end),
    };

    return run_redis_tests(argc, argv, "redis hostile", tests, "test_answers_without_end", NULL, stop_server);
}
