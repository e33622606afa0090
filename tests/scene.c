/* SPDX-License-Identifier: Apache-2.0
 *
 * scene.c - see scene.h.
 */
#include "scene.h"

#define MS INT64_C(1000000)

struct scene scene;

static void say(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const char *who, const char *format, ...) {
    va_list args;

    scene.used += (size_t)snprintf(scene.text + scene.used, sizeof scene.text - scene.used, "%s ", who);
    va_start(args, format);
    scene.used += (size_t)vsnprintf(scene.text + scene.used, sizeof scene.text - scene.used, format, args);
    va_end(args);
    scene.used += (size_t)snprintf(scene.text + scene.used, sizeof scene.text - scene.used, "\n");
    assert_true(scene.used < sizeof scene.text - 1);
}

static void on_log(enum pawl_log_level level, const char *text, void *data) {
    (void)level;
    say(data, "%s", text);
}

static void clock_text(struct pawl *client, char *text, size_t size) {
    long long us = pawl__now(client->engine) / 1000;

    snprintf(text, size, "+%lld.%06llds", us / 1000000, us % 1000000);
}

void scene_acquired(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    char now[32];

    clock_text(lock->client, now, sizeof now);
    if (result == 0)
        say(data, "%s acquired, token %llu, assured for %lld ms", now, (unsigned long long)pawl_token(lock),
            (long long)pawl_remaining_ms(lock));
    else
        say(data, "%s %s", now, pawl_error_name(error->code));
}

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    char now[32];

    clock_text(lock->client, now, sizeof now);
    say(data, "%s %s, token %llu: %s", now,
        state == PAWL_LOST   ? pawl_error_name(why->code)
        : state == PAWL_HELD ? "recovered"
                             : "suspect",
        (unsigned long long)token, why->text);
}

/* The names of the clients and of their tasks, in the transcript. */
static const char *const client_names[SCENE_CLIENTS] = {"A", "B", "C"};

int scene_set_up(void **state) {
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.server = pawl__sim_server_new("scene", true);
    return 0;
}

int scene_tear_down(void **state) {
    (void)state;
    for (size_t i = 0; i < scene.lock_count; i++)
        pawl_lock_free(scene.locks[i]);
    for (size_t i = 0; i < scene.count; i++)
        pawl_close(scene.clients[i]);
    pawl__sim_server_free(scene.server);
    return 0;
}

struct pawl *scene_client(void) {
    struct pawl_options options = {
        .size = sizeof options,
        .flags = PAWL_OPEN_TRACE | PAWL_OPEN_LOSS_BY_DISPATCH,
        .log = on_log,
        .log_data = (void *)(uintptr_t)client_names[scene.count],
    };
    struct pawl_error error;

    assert_works(pawl_open("sim://scene?handoff=2,10", &options, &scene.clients[scene.count], &error), &error);
    return scene.clients[scene.count++];
}

struct pawl_lock *scene_mutex(struct pawl *of, const char *name) {
    struct pawl_error error;

    assert_works(pawl_mutex_new(of, name, PAWL_TASK, &scene.locks[scene.lock_count], &error), &error);
    return scene.locks[scene.lock_count++];
}

struct pawl_lock *scene_rwlock(struct pawl *of, const char *name) {
    struct pawl_error error;

    assert_works(pawl_rwlock_new(of, name, PAWL_TASK, &scene.locks[scene.lock_count], &error), &error);
    return scene.locks[scene.lock_count++];
}

void scene_start(struct pawl_lock *lock, enum pawl_mode mode, int64_t timeout_ms, const char *who) {
    struct pawl_error error;

    assert_works(pawl_acquire_start(lock, mode, 1, timeout_ms, scene_acquired, (void *)(uintptr_t)who, &error), &error);
}

void scene_release(struct pawl_lock *lock) {
    struct pawl_error error;

    assert_works(pawl_release(lock, &error), &error);
}

void scene_run(int64_t ms) {
    for (int64_t i = 0; i < ms; i++) { /* in steps, so that callbacks run in between, as a loop would have it */
        pawl__sim_run(scene.server, scene.clients, scene.count, MS);
        for (size_t c = 0; c < scene.count; c++)
            pawl_dispatch(scene.clients[c]);
    }
}

void scene_expect(const char *text) {
    if (strcmp(scene.text, text) != 0)
        fail_msg("the transcript is\n%s\nbut should be\n%s", scene.text, text);
    scene.used = 0;
    scene.text[0] = '\0';
}

void scene_listen(struct pawl_lock *lock, const char *who) {
    struct pawl_error error;

    assert_works(pawl_on_loss(lock, on_loss, (void *)(uintptr_t)who, &error), &error);
}
