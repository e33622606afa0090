/* SPDX-License-Identifier: Apache-2.0
 *
 * test_queued_again.c - what is taken for a deadlock where a claim stands in the server's queue behind one that came later.
 *
 * One reads A, and will want B. Another process waits to write A, and may give up. Then a thread wants to write A; and who has B wants to
 * read A. If this one stands behind the thread in the queue the three wait for each other for ever. If it came before it, it waits for the
 * other process alone.
 */
#include <stdlib.h>

#include "../../tests/support/test.h"

#include "rows.h"
#include "servers/redis.h"
#include "servers/zookeeper.h"
#include "world/names.h"

enum { LEASE_MS = 30000 };

static struct pawl *ours, *others;
static struct pawl_lock *a, *b, *foreign;
static int told;

static void settle(void) {
    world_sleep(world_now() + 20 * WORLD_MS);
}

static void on_deadlock(const struct pawl_deadlock *found, void *data) {
    (void)found, (void)data;
    told++;
}

/* ---- Threads ---------------------------------------------------------------------------------------------------------------- */

struct player {
    pthread_t thread;
    struct pawl_lock *first, *second; /* the first may be NULL */
    bool first_shared, second_shared;
    bool sent, over;
    int result;
};

static int take(struct pawl_lock *lock, bool shared) {
    return shared ? pawl_acquire_shared(lock, PAWL_FOREVER, NULL) : pawl_acquire(lock, PAWL_FOREVER, NULL);
}

static void give(struct pawl_lock *lock, bool shared) {
    assert_int_equal(shared ? pawl_release_shared(lock, NULL) : pawl_release(lock, NULL), 0);
}

static void *play(void *data) {
    struct player *player = data;

    if (player->first)
        assert_int_equal(take(player->first, player->first_shared), 0);
    while (!player->sent)
        settle();
    player->result = take(player->second, player->second_shared);
    if (player->result == 0)
        give(player->second, player->second_shared);
    if (player->first)
        give(player->first, player->first_shared);
    player->over = true;
    return NULL;
}

static void begin(struct player *player) {
    assert_int_equal(sim_pthread_create(&player->thread, NULL, play, player), 0);
    settle();
}

static void finish(struct player *player) {
    sim_pthread_join(player->thread, NULL);
    assert_int_equal(player->result, 0);
}

/* ---- Faults ----------------------------------------------------------------------------------------------------------------- */

/* What comes in meanwhile is refused, for the server has too much to do, and nothing is made. */
static void refuse(bool refuses) {
    if (servers.zk)
        zookeeper_throttle(servers.zk, refuses);
    else
        redis_load_until(servers.redis[0], refuses ? world_now() + WORLD_SECOND : 0);
}

/* The second in the queue, the writer, is removed, and asks again in a few seconds. */
static void forget_writer(void) {
    assert_true(redis_do(servers.redis[0], world_now(), NULL, 0, "ZREMRANGEBYRANK pawl:queue:{a} 1 1"));
    world_sleep(world_now() + 10 * WORLD_SECOND);
}

/* ---- The scene -------------------------------------------------------------------------------------------------------------- */

static void open_all(void) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = LEASE_MS, .deadlock = on_deadlock};
    struct pawl_error error;
    char url[512];

    servers_url(&servers, "", url, sizeof url);
    assert_works(pawl_open(url, &options, &ours, &error), &error);
    assert_works(pawl_open(url, &options, &others, &error), &error);
    assert_works(pawl_rwlock_new(ours, "a", 0, &a, &error), &error);
    assert_works(pawl_mutex_new(ours, "b", 0, &b, &error), &error);
    assert_works(pawl_rwlock_new(others, "a", 0, &foreign, &error), &error);
}

static void close_all(void) {
    pawl_lock_free(a);
    pawl_lock_free(b);
    pawl_lock_free(foreign);
    pawl_close(ours);
    pawl_close(others);
}

enum trouble { IN_ORDER, REFUSED, FORGOTTEN };

static const struct row {
    const char *service;
    enum trouble trouble;
} table[] = {
    {"redis", IN_ORDER},   {"redis", REFUSED},      {"redis", FORGOTTEN},
    {"cluster", IN_ORDER}, {"zookeeper", IN_ORDER}, {"zookeeper", REFUSED},
};

static void play_scene(enum trouble trouble) {
    struct player reader = {.first = a, .first_shared = true, .second = b},
                  third = {.first = b, .second = a, .second_shared = true};
    struct player writer = {.second = a, .sent = true}, rival = {.second = foreign, .sent = true};

    told = 0;
    begin(&reader);
    begin(&third);
    begin(&rival);
    if (trouble == REFUSED)
        refuse(true);
    begin(&writer);
    if (trouble == REFUSED)
        refuse(false);
    third.sent = true;
    world_sleep(world_now() + WORLD_SECOND);
    if (trouble == FORGOTTEN)
        forget_writer();
    reader.sent = true;
    world_sleep(world_now() + 30 * WORLD_SECOND);
    assert_int_equal(told, trouble == IN_ORDER);
    assert_false(reader.over || third.over || writer.over || rival.over);
    pawl_cancel(foreign);
    sim_pthread_join(rival.thread, NULL);
    assert_int_equal(rival.result, PAWL_ECANCELED);
    if (trouble == IN_ORDER) {
        world_sleep(world_now() + 30 * WORLD_SECOND);
        assert_false(reader.over || third.over || writer.over); /* so it was one */
        assert_true(pawl_cancel(a) > 0);
        sim_pthread_join(writer.thread, NULL);
        sim_pthread_join(third.thread, NULL);
        finish(&reader);
        return;
    }
    finish(&third);
    finish(&reader);
    finish(&writer);
}

static void name_of(const void *data, char ret[ROW_NAME]) {
    static const char *const troubles[] = {[IN_ORDER] = "in order", [REFUSED] = "refused", [FORGOTTEN] = "forgotten"};
    const struct row *row = data;

    snprintf(ret, ROW_NAME, "%s: %s", row->service, troubles[row->trouble]);
}

static void play_row(const void *data) {
    const struct row *row = data;

    open_all();
    play_scene(row->trouble);
    close_all();
}

int main(void) {
    static const struct rows rows = {.group = "queued again",
                                     .table = table,
                                     .count = sizeof table / sizeof table[0],
                                     .size = sizeof table[0],
                                     .name = name_of,
                                     .play = play_row,
                                     .lease_ms = LEASE_MS,
                                     .limit_ns = 3600 * WORLD_SECOND};

    return rows_run(&rows);
}
