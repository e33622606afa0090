/* SPDX-License-Identifier: Apache-2.0
 *
 * test_world.c - the world itself: threads, processes, time and connections are what a program expects of them, and the same seed gives
 * the same run.
 */
#include "../../tests/support/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "../world/names.h"
#include "../world/world.h"

static enum world_end run(uint64_t seed, void (*main)(void *), void *data) {
    return world_run(&(struct world_options){.seed = seed, .preempt = 3, .limit_ns = 60 * WORLD_SECOND}, main, data);
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------- */

struct counter {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int value, inside, most_inside;
};

static void *count_up(void *data) {
    struct counter *counter = data;

    for (int i = 0; i < 100; i++) {
        sim_pthread_mutex_lock(&counter->mutex);
        counter->inside++;
        if (counter->inside > counter->most_inside)
            counter->most_inside = counter->inside;
        sim_sched_yield();
        counter->value++;
        counter->inside--;
        sim_pthread_cond_broadcast(&counter->changed);
        sim_pthread_mutex_unlock(&counter->mutex);
    }
    return NULL;
}

static void count_with_threads(void *data) {
    struct counter *counter = data;
    pthread_t threads[5];

    for (int i = 0; i < 5; i++)
        assert_int_equal(sim_pthread_create(&threads[i], NULL, count_up, counter), 0);
    sim_pthread_mutex_lock(&counter->mutex);
    while (counter->value < 250)
        sim_pthread_cond_wait(&counter->changed, &counter->mutex);
    sim_pthread_mutex_unlock(&counter->mutex);
    for (int i = 0; i < 5; i++)
        assert_int_equal(sim_pthread_join(threads[i], NULL), 0);
}

static void test_a_mutex_lets_one_in(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct counter counter = {.value = 0};

        assert_int_equal(run(seed, count_with_threads, &counter), WORLD_DONE);
        assert_int_equal(counter.value, 500);
        assert_int_equal(counter.most_inside, 1);
    }
}

static void lock_twice(void *data) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    (void)data;
    sim_pthread_mutex_lock(&mutex);
    sim_pthread_mutex_lock(&mutex);
}

static int lock_twice_in_a_process(void *data) {
    lock_twice(data);
    return 0;
}

static void watch_a_process_lock_twice(void *data) {
    struct process *process = world_spawn("clumsy", lock_twice_in_a_process, NULL);

    world_sleep(world_now() + WORLD_MS);
    assert_true(world_ended(process));
    assert_int_equal(world_status(process), -6);
    assert_non_null(strstr(world_words(process), "locked before"));
    *(bool *)data = true;
}

static void test_a_mutex_locked_twice_ends_the_process(void **state) {
    bool seen = false;

    (void)state;
    assert_int_equal(run(1, watch_a_process_lock_twice, &seen), WORLD_DONE);
    assert_true(seen);
}

static void wait_for_nobody(void *data) {
    uint32_t word = 0;

    (void)data;
    for (;;)
        sim_futex(&word, 0 /* FUTEX_WAIT */, 0, NULL);
}

static void test_a_world_in_which_nothing_happens_is_stuck(void **state) {
    (void)state;
    assert_int_equal(run(1, wait_for_nobody, NULL), WORLD_STUCK);
}

static void turn_in_circles(void *data) {
    (void)data;
    for (;;)
        sim_sched_yield();
}

static void test_a_loop_that_gets_nowhere_is_a_livelock(void **state) {
    (void)state;
    assert_int_equal(run(1, turn_in_circles, NULL), WORLD_LIVELOCK);
}

static void never_sleep(void *data) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    (void)data;
    for (;;) {
        sim_pthread_mutex_lock(&mutex);
        sim_pthread_mutex_unlock(&mutex);
    }
}

/* Also where it never loses its turn. */
static void test_a_thread_that_never_sleeps_is_a_livelock(void **state) {
    const struct world_options options = {.seed = 1, .limit_ns = 3600 * WORLD_SECOND};

    (void)state;
    assert_int_equal(world_run(&options, never_sleep, NULL), WORLD_LIVELOCK);
}

/* Each look costs time, but not so much that the clock would tell. */
static void look_for_what_is_over(void *data) {
    struct pollfd bell = {.fd = sim_eventfd(0, 0), .events = POLLIN};

    for (int i = 0; i < *(const int *)data; i++)
        sim_poll(&bell, 1, 0);
    sim_close(bell.fd);
}

static void test_a_thread_whose_time_to_wake_up_is_over_is_a_livelock(void **state) {
    int few = 500, many = 5000;

    (void)state;
    assert_int_equal(run(1, look_for_what_is_over, &few), WORLD_DONE);
    assert_int_equal(run(1, look_for_what_is_over, &many), WORLD_LIVELOCK);
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

static int64_t clock_of(clockid_t clock) {
    struct timespec now;

    sim_clock_gettime(clock, &now);
    return now.tv_sec * WORLD_SECOND + now.tv_nsec;
}

static int sleep_by_its_own_clock(void *data) {
    int64_t began = clock_of(CLOCK_BOOTTIME);

    sim_poll(NULL, 0, 1000);
    *(int64_t *)data = clock_of(CLOCK_BOOTTIME) - began;
    return 0;
}

static void compare_clocks(void *data) {
    int64_t own = 0, began = world_now();
    struct process *process = world_spawn("fast", sleep_by_its_own_clock, &own);

    (void)data;
    world_set_clock(process, 5 * WORLD_SECOND, 2);
    while (!world_ended(process))
        world_sleep(world_now() + WORLD_MS);
    assert_true(own >= WORLD_SECOND && own < WORLD_SECOND + 10 * WORLD_MS);
    assert_true(world_now() - began >= WORLD_SECOND / 2 && world_now() - began < WORLD_SECOND / 2 + 10 * WORLD_MS);
}

static void test_a_fast_clock_sleeps_half_as_long(void **state) {
    (void)state;
    assert_int_equal(run(1, compare_clocks, NULL), WORLD_DONE);
}

/* ---- Connections: a server that answers each byte by the next letter ------------------------------------------------------- */

struct echo {
    int accepted, gone;
    char got[64];
    size_t used;
};

static void *echo_accept(void *server, struct link *link, int64_t now) {
    (void)now;
    ((struct echo *)server)->accepted++;
    return link;
}

static void echo_input(void *server, void *session, const char *bytes, size_t size, int64_t now) {
    struct echo *echo = server;

    (void)now;
    for (size_t i = 0; i < size; i++) {
        char answer = (char)(bytes[i] + 1);

        if (echo->used < sizeof echo->got)
            echo->got[echo->used++] = bytes[i];
        link_send(session, &answer, 1);
    }
}

static void echo_gone(void *server, void *session, int64_t now) {
    (void)session;
    (void)now;
    ((struct echo *)server)->gone++;
}

static int64_t echo_due(const void *server) {
    (void)server;
    return SERVER_NEVER;
}

static void echo_tick(void *server, int64_t now) {
    (void)server;
    (void)now;
}

static const struct server_ops echo_ops = {echo_accept, echo_input, echo_gone, echo_due, echo_tick};

static int open_connection(unsigned port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = sim_socket(AF_INET, SOCK_STREAM, 0);

    if (sim_connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int error = errno;

    sim_close(fd);
    return -error;
}

static int say_hal(void *data) {
    int fd = open_connection(7);
    char answer[4] = "";

    (void)data;
    if (fd < 0 || sim_send(fd, "HAL", 3, 0) != 3)
        return 1;
    for (int i = 0; i < 3; i++)
        if (sim_recv(fd, answer + i, 1, 0) != 1)
            return 2;
    sim_close(fd);
    return strcmp(answer, "IBM") == 0 ? 0 : 3;
}

static bool has_ended(void *process) {
    return world_ended(process);
}

static void talk(void *data) {
    struct echo *echo = data;
    struct process *process;

    world_site(7, "echo", &echo_ops, echo);
    process = world_spawn("client", say_hal, NULL);
    assert_true(world_wait(has_ended, process, world_now() + WORLD_SECOND));
    assert_int_equal(world_status(process), 0);
    world_sleep(world_now() + 10 * WORLD_MS);
    assert_int_equal(echo->gone, 1);
}

static void test_bytes_go_there_and_back(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct echo echo = {.used = 0};

        assert_int_equal(run(seed, talk, &echo), WORLD_DONE);
        assert_memory_equal(echo.got, "HAL", 3);
    }
}

static void lose_one(void *data) {
    struct echo *echo = data;
    struct site *site = world_site(7, "echo", &echo_ops, echo);
    struct process *process;

    world_lose_reply(site, 1, false);
    process = world_spawn("client", say_hal, NULL);
    assert_true(world_wait(has_ended, process, world_now() + WORLD_SECOND));
    assert_int_equal(world_status(process), 2);
}

static void test_a_reply_is_lost_and_the_request_carried_out(void **state) {
    struct echo echo = {.used = 0};

    (void)state;
    assert_int_equal(run(1, lose_one, &echo), WORLD_DONE);
    assert_int_equal(echo.used, 3);
    assert_int_equal(echo.gone, 1);
}

static int try_to_connect(void *data) {
    (void)data;
    return -open_connection(7);
}

static void refuse(void *data) {
    struct site *site = world_site(7, "echo", &echo_ops, data);
    struct process *process;

    world_site_down(site);
    process = world_spawn("client", try_to_connect, NULL);
    assert_true(world_wait(has_ended, process, world_now() + WORLD_SECOND));
    assert_int_equal(world_status(process), ECONNREFUSED);
}

static void test_a_server_that_is_down_refuses(void **state) {
    struct echo echo = {.used = 0};

    (void)state;
    assert_int_equal(run(1, refuse, &echo), WORLD_DONE);
}

/* ---- Holes, pauses and kills ---------------------------------------------------------------------------------------------- */

static int hold_a_connection(void *data) {
    int fd = open_connection(7);
    char byte;

    *(int64_t *)data = 0;
    if (fd < 0 || sim_send(fd, "x", 1, 0) != 1 || sim_recv(fd, &byte, 1, 0) != 1)
        return 1;
    *(int64_t *)data = world_now();
    sim_recv(fd, &byte, 1, 0);
    return 0;
}

static void hold_up(void *data) {
    struct site *site = world_site(7, "echo", &echo_ops, data);
    int64_t answered = 0, healed;
    struct process *process;

    world_hole(site, NULL, true);
    process = world_spawn("client", hold_a_connection, &answered);
    world_sleep(world_now() + WORLD_SECOND);
    assert_int_equal(answered, 0);
    healed = world_now();
    world_hole(site, NULL, false);
    world_sleep(world_now() + WORLD_SECOND);
    assert_true(answered > healed);
    world_kill(process);
    world_sleep(world_now() + 10 * WORLD_MS);
    assert_int_equal(((struct echo *)data)->gone, 1);
    assert_int_equal(world_status(process), -9);
}

static void test_what_was_held_up_comes_later_and_the_killed_hang_up(void **state) {
    struct echo echo = {.used = 0};

    (void)state;
    assert_int_equal(run(1, hold_up, &echo), WORLD_DONE);
}

/* Connected before the hole, it says its word into it. */
static int speak_into_a_hole(const char *word) {
    int fd = open_connection(7);

    world_sleep(world_now() + 20 * WORLD_MS);
    return sim_send(fd, word, 1, 0) == 1 ? fd : -1;
}

static int hang_up(void *data) {
    (void)data;
    return sim_close(speak_into_a_hole("a"));
}

static int wait_for_the_kernel(void *data) {
    const unsigned patience_ms = 100;
    int fd = speak_into_a_hole("b");
    char byte;

    (void)data;
    sim_setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
    return sim_recv(fd, &byte, 1, 0) < 0 && errno == ETIMEDOUT ? 0 : 1;
}

static int hang_up_and_forget(void *data) {
    const struct linger at_once = {.l_onoff = 1};
    int fd = speak_into_a_hole("c");

    (void)data;
    sim_setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return sim_close(fd);
}

static void give_up(void *data) {
    struct site *site = world_site(7, "echo", &echo_ops, data);
    struct process *processes[] = {world_spawn("first", hang_up, NULL), world_spawn("second", wait_for_the_kernel, NULL),
                                   world_spawn("third", hang_up_and_forget, NULL)};

    world_sleep(world_now() + 10 * WORLD_MS);
    world_hole(site, NULL, true);
    for (int i = 0; i < 3; i++) {
        assert_true(world_wait(has_ended, processes[i], world_now() + WORLD_SECOND));
        assert_int_equal(world_status(processes[i]), 0);
    }
    world_hole(site, NULL, false);
    world_sleep(world_now() + WORLD_SECOND);
}

static void test_what_was_given_up_comes_no_more(void **state) {
    struct echo echo = {.used = 0};

    (void)state;
    assert_int_equal(run(1, give_up, &echo), WORLD_DONE);
    assert_string_equal(echo.got, "a");
}

static void pause_client(void *data) {
    int64_t answered = 0, resumed;
    struct process *process;

    world_site(7, "echo", &echo_ops, data);
    process = world_spawn("client", hold_a_connection, &answered);
    world_pause(process);
    world_sleep(world_now() + WORLD_SECOND);
    assert_int_equal(answered, 0);
    resumed = world_now();
    world_resume(process);
    world_sleep(world_now() + WORLD_SECOND);
    assert_true(answered > resumed && answered < resumed + 10 * WORLD_MS);
    /* It leaves a block of memory, and that is counted. */
    assert_int_equal(world_leaked(process), 0);
    world_kill(process);
}

static void test_a_stopped_process_does_not_run(void **state) {
    struct echo echo = {.used = 0};

    (void)state;
    assert_int_equal(run(1, pause_client, &echo), WORLD_DONE);
}

static int leak(void *data) {
    (void)data;
    sim_free(sim_malloc(10));
    return sim_malloc(100) == NULL;
}

static void look_at_a_leak(void *data) {
    struct process *process = world_spawn("leaky", leak, NULL);

    (void)data;
    assert_true(world_wait(has_ended, process, world_now() + WORLD_SECOND));
    assert_int_equal(world_leaked(process), 100);
    world_reap(process);
}

static void test_what_is_not_freed_is_counted(void **state) {
    (void)state;
    assert_int_equal(run(1, look_at_a_leak, NULL), WORLD_DONE);
}

#if !defined(__SANITIZE_ADDRESS__) /* which ends the program */
static int write_to_the_freed(void *data) {
    char *volatile block = sim_malloc(100);

    (void)data;
    sim_free(block);
    block[50] = 1;
    for (int i = 0; i < 1000; i++)
        sim_free(sim_malloc(10));
    return 0;
}

static int free_twice(void *data) {
    void *volatile block = sim_malloc(100);

    (void)data;
    sim_free(block);
    sim_free(block);
    return 0;
}

static void look_at_the_freed(void *data) {
    struct process *process = world_spawn("writer", write_to_the_freed, NULL);

    (void)data;
    assert_true(world_wait(has_ended, process, world_now() + WORLD_SECOND));
    assert_non_null(strstr(world_words(process), "written to after it was freed"));
    process = world_spawn("twice", free_twice, NULL);
    assert_true(world_wait(has_ended, process, world_now() + WORLD_SECOND));
    assert_non_null(strstr(world_words(process), "freed twice"));
}

static void test_what_is_freed_is_not_touched_again(void **state) {
    (void)state;
    assert_int_equal(run(1, look_at_the_freed, NULL), WORLD_DONE);
}
#endif

/* ---- The same again ------------------------------------------------------------------------------------------------------- */

static void chat(void *data) {
    struct process *clients[4];

    world_site(7, "echo", &echo_ops, data);
    for (int i = 0; i < 4; i++)
        clients[i] = world_spawn("client", say_hal, NULL);
    for (int i = 0; i < 4; i++)
        assert_true(world_wait(has_ended, clients[i], world_now() + WORLD_SECOND));
}

static uint64_t hash_of_chat(uint64_t seed) {
    struct echo echo = {.used = 0};

    assert_int_equal(run(seed, chat, &echo), WORLD_DONE);
    return world_hash();
}

/* A thread that accepts, answers in upper case, and closes; until nobody listens any more. */
static void *answer_loudly(void *data) {
    int listener = *(int *)data, fd;
    char byte;

    while ((fd = sim_accept(listener, NULL, NULL)) >= 0) {
        if (sim_recv(fd, &byte, 1, 0) == 1)
            assert_int_equal(sim_send(fd, &(char){(char)(byte - 'a' + 'A')}, 1, 0), 1);
        assert_int_equal(sim_recv(fd, &byte, 1, 0), 0); /* the client closes first */
        sim_close(fd);
    }
    return NULL;
}

static void call_a_thread(void *data) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    int listener = sim_socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof address;
    pthread_t thread;
    char answer;

    assert_int_equal(sim_bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(sim_listen(listener, 8), 0);
    assert_int_equal(sim_getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(sim_pthread_create(&thread, NULL, answer_loudly, &listener), 0);
    for (int i = 0; i < 3; i++) {
        int fd = sim_socket(AF_INET, SOCK_STREAM, 0);

        assert_int_equal(sim_connect(fd, (struct sockaddr *)&address, size), 0);
        assert_int_equal(sim_send(fd, "x", 1, 0), 1);
        assert_int_equal(sim_recv(fd, &answer, 1, 0), 1);
        assert_int_equal(answer, 'X');
        sim_close(fd);
    }
    sim_shutdown(listener, SHUT_RDWR);
    sim_pthread_join(thread, NULL);
    sim_close(listener);
    assert_int_equal(sim_connect(sim_socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, size), -1);
    *(bool *)data = true;
}

static void test_a_thread_may_listen(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        bool done = false;

        assert_int_equal(run(seed, call_a_thread, &done), WORLD_DONE);
        assert_true(done);
    }
}

static void test_the_same_seed_gives_the_same_bytes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++)
        assert_true(hash_of_chat(seed) == hash_of_chat(seed));
    assert_true(hash_of_chat(1) != hash_of_chat(2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mutex_lets_one_in),
        cmocka_unit_test(test_a_mutex_locked_twice_ends_the_process),
        cmocka_unit_test(test_a_world_in_which_nothing_happens_is_stuck),
        cmocka_unit_test(test_a_loop_that_gets_nowhere_is_a_livelock),
        cmocka_unit_test(test_a_thread_that_never_sleeps_is_a_livelock),
        cmocka_unit_test(test_a_thread_whose_time_to_wake_up_is_over_is_a_livelock),
        cmocka_unit_test(test_a_fast_clock_sleeps_half_as_long),
        cmocka_unit_test(test_bytes_go_there_and_back),
        cmocka_unit_test(test_a_reply_is_lost_and_the_request_carried_out),
        cmocka_unit_test(test_a_server_that_is_down_refuses),
        cmocka_unit_test(test_what_was_held_up_comes_later_and_the_killed_hang_up),
        cmocka_unit_test(test_what_was_given_up_comes_no_more),
        cmocka_unit_test(test_a_thread_may_listen),
        cmocka_unit_test(test_a_stopped_process_does_not_run),
        cmocka_unit_test(test_what_is_not_freed_is_counted),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(test_what_is_freed_is_not_touched_again),
#endif
        cmocka_unit_test(test_the_same_seed_gives_the_same_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
