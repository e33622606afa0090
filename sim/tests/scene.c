/* SPDX-License-Identifier: Apache-2.0
 *
 * scene.c - see scene.h.
 */
#include "scene.h"

#include <poll.h>

#include "../world/names.h"

enum { PORT = 7000 };

struct scene scene;

/* The names of the clients, in the transcript. */
static const char *const client_names[SCENE_CLIENTS] = {"A", "B", "C"};

/* ---- What is said --------------------------------------------------------------------------------------------------------- */

static void say(size_t client, const char *who, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void say(size_t client, const char *who, const char *format, ...) {
    struct scene_line *line = &scene.lines[scene.line_count++];
    va_list args;
    int used;

    assert_true(scene.line_count <= SCENE_LINES);
    line->client = client;
    line->ms = (world_now() - scene.zero) / WORLD_MS;
    used = snprintf(line->text, sizeof line->text, "%s %lld.%03llds ", who, (long long)line->ms / 1000, (long long)line->ms % 1000);
    va_start(args, format);
    used += vsnprintf(line->text + used, sizeof line->text - (size_t)used, format, args);
    va_end(args);
    assert_true((size_t)used < sizeof line->text);
}

/* A token is said as what was given since time began to go by (see start_tokens), or as the moment in which the server took it from its
 * clock. */
static const char *token_said(uint64_t token, char text[32]) {
    unsigned long long given = token > scene.tokens ? token - scene.tokens : token;

    if (scene.tokens && given >= 1000)
        snprintf(text, 32, "of %llu ms", given / 1000);
    else
        snprintf(text, 32, "%llu", given);
    return text;
}

/* Notes begin with a time of their own, that since the client was opened; and may end with a token. */
static void on_log(enum pawl_log_level level, const char *text, void *data) {
    const char *const *name = data;
    const char *rest = level == PAWL_LOG_TRACE && *text == '+' ? strchr(text, ' ') + 1 : text, *token = strstr(rest, "token ");
    size_t client = (size_t)(name - client_names);
    char *after, number[32];

    if (token == NULL) {
        say(client, *name, "%s", rest);
        return;
    }
    token += strlen("token ");
    token_said(strtoull(token, &after, 10), number);
    say(client, *name, "%.*s%s%s", (int)(token - rest), rest, number, after);
}

void scene_acquired(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    char number[32];

    if (result == 0)
        say(scene.speaking, data, "acquired, token %s, assured for %lld ms", token_said(pawl_token(lock), number),
            (long long)pawl_remaining_ms(lock));
    else
        say(scene.speaking, data, "%s", pawl_error_name(error->code));
}

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    char number[32];

    (void)lock;
    say(scene.speaking, data, "%s, token %s: %s",
        state == PAWL_LOST   ? pawl_error_name(why->code)
        : state == PAWL_HELD ? "recovered"
                             : "suspect",
        token_said(token, number), why->text);
}

static bool is_told_before(const struct scene_line *one, const struct scene_line *two) {
    return one->ms != two->ms ? one->ms < two->ms : one->client < two->client;
}

void scene_expect(const char *text) {
    static char said[SCENE_LINES * sizeof scene.lines[0].text];
    const struct scene_line *order[SCENE_LINES];
    size_t used = 0;

    for (size_t i = 0; i < scene.line_count; i++) { /* few lines, and nearly in order */
        size_t at = i;

        for (; at > 0 && is_told_before(&scene.lines[i], order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = &scene.lines[i];
    }
    said[0] = '\0';
    for (size_t i = 0; i < scene.line_count; i++)
        used += (size_t)snprintf(said + used, sizeof said - used, "%s\n", order[i]->text);
    if (strcmp(said, text) != 0) {
        for (size_t i = 0; i < scene.line_count; i++) /* cmocka would cut it short */
            print_message("# | %s\n", order[i]->text);
        fail_msg("that is the transcript, and it should be\n%s", text);
    }
    scene.line_count = 0;
}

/* ---- Clients and locks ---------------------------------------------------------------------------------------------------- */

/* With its first answer a client learns the server's time, and does not ask for it again. */
static void warm_up(struct pawl *client) {
    struct pawl_error error;
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, "before", PAWL_TASK, &lock, &error), &error);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

/* When all that comes of that is over, time begins to be counted. */
static void begin_to_count(void) {
    world_sleep(world_now() / WORLD_SECOND * WORLD_SECOND + 2 * WORLD_SECOND);
    scene.zero = world_now() / WORLD_MS * WORLD_MS;
    scene.line_count = 0;
}

struct pawl *scene_client(void) {
    return scene_client_with(scene.count, "");
}

static struct site *new_site(unsigned port) {
    if (scene.zookeeper)
        return world_site(port, "zookeeper", &zookeeper_ops, zookeeper_member(scene.zookeeper, 0));
    return world_site(port, "redis", &redis_ops, scene.redis);
}

struct pawl *scene_client_with(size_t way, const char *more) {
    struct pawl_options options = {
        .size = sizeof options,
        .flags = PAWL_OPEN_TRACE | PAWL_OPEN_LOSS_BY_DISPATCH,
        .lease_ms = scene.zookeeper ? 6000 : 3000,
        .log = on_log,
        .log_data = (void *)(uintptr_t)&client_names[scene.count],
    };
    unsigned port = PORT + (unsigned)way;
    struct pawl_error error;
    char url[64];

    if (scene.sites[way] == NULL)
        scene.sites[way] = new_site(port);
    snprintf(url, sizeof url, "%s://127.0.0.1:%u?handoff=2,10%s", scene.zookeeper ? "zk" : "redis", port, more);
    assert_works(pawl_open(url, &options, &scene.clients[scene.count], &error), &error);
    warm_up(scene.clients[scene.count]);
    begin_to_count();
    scene.messages[way] = world_site_messages(scene.sites[way]);
    return scene.clients[scene.count++];
}

struct pawl_lock *scene_mutex(struct pawl *of, const char *name) {
    struct pawl_error error;

    snprintf(scene.names[scene.lock_count], sizeof scene.names[0], "%s", name);
    assert_works(pawl_mutex_new(of, name, PAWL_TASK, &scene.locks[scene.lock_count], &error), &error);
    return scene.locks[scene.lock_count++];
}

struct pawl_lock *scene_rwlock(struct pawl *of, const char *name) {
    struct pawl_error error;

    snprintf(scene.names[scene.lock_count], sizeof scene.names[0], "%s", name);
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

void scene_listen(struct pawl_lock *lock, const char *who) {
    struct pawl_error error;

    assert_works(pawl_on_loss(lock, on_loss, (void *)(uintptr_t)who, &error), &error);
}

void scene_close(size_t client) {
    scene.speaking = client;
    pawl_close(scene.clients[client]);
    scene.clients[client] = NULL;
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* In so many milliseconds, counted from the one in which we are. */
static int64_t after(int64_t ms) {
    return (world_now() / WORLD_MS + ms) * WORLD_MS;
}

/* A counter of tokens begins with the server's time in microseconds, and so does one that is older than the connection of who asks. Ours
 * begin with the time at which all clients were there, and then go on by one. */
static void start_tokens(void) {
    if (scene.tokens || !scene.redis)
        return;
    scene.tokens = (uint64_t)server_clock_read(redis_clock(scene.redis), scene.zero) / 1000;
    for (size_t i = 0; i < scene.lock_count; i++)
        redis_do(scene.redis, world_now(), NULL, 0, "SET redisson_lock_token:{%s} %llu", scene.names[i],
                 (unsigned long long)scene.tokens);
}

void scene_wait(int64_t ms) {
    world_sleep(after(ms));
}

/* As a loop would have it: sleep on the descriptors, then dispatch. */
void scene_run(int64_t ms) {
    int64_t until = after(ms), left;
    struct pollfd fds[SCENE_CLIENTS];

    start_tokens();
    for (size_t i = 0; i < scene.count; i++)
        fds[i] = (struct pollfd){.fd = scene.clients[i] ? pawl_fd(scene.clients[i]) : -1, .events = POLLIN};
    while ((left = until - world_now()) > 0) {
        struct timespec span = {.tv_sec = left / WORLD_SECOND, .tv_nsec = left % WORLD_SECOND};

        sim_ppoll(fds, scene.count, &span, NULL);
        for (size_t i = 0; i < scene.count; i++) {
            scene.speaking = i;
            if (fds[i].revents)
                pawl_dispatch(scene.clients[i]);
        }
    }
}

/* ---- Faults, and what is left --------------------------------------------------------------------------------------------- */

void scene_cut(size_t client) {
    world_cut(scene.sites[client], NULL, CUT_RESET);
    world_site_down(scene.sites[client]);
}

void scene_mend(size_t client) {
    world_site_up(scene.sites[client]);
}

void scene_stop(size_t client) {
    world_site_pause(scene.sites[client]);
}

void scene_go_on(size_t client) {
    world_site_resume(scene.sites[client]);
}

void scene_lose_answer(size_t client) {
    /* libzookeeper sends the length of a request by itself. */
    world_lose_reply(scene.sites[client], scene.zookeeper ? 2 : 1, false);
}

/* They are visited by age, and so were the clients opened. */
static void keep_session(const struct zookeeper_session *session, void *data) {
    int64_t *next = *(int64_t **)data;

    *next = session->id;
    *(int64_t **)data = next + 1;
}

void scene_expire(size_t client) {
    int64_t sessions[SCENE_CLIENTS], *next = sessions;

    zookeeper_sessions(scene.zookeeper, keep_session, &next);
    assert_true(zookeeper_expire(scene.zookeeper, sessions[client], world_now()));
    world_site_touch(scene.sites[client]);
}

unsigned scene_requests(size_t client) {
    uint64_t before = scene.messages[client];

    scene.messages[client] = world_site_messages(scene.sites[client]);
    return (unsigned)(scene.messages[client] - before);
}

static char left[2048];

static void add_to_left(const char *name) {
    size_t used = strlen(left);

    snprintf(left + used, sizeof left - used, "%s%s", used > 0 ? " " : "", name);
}

/* Counters are strings, and nothing else is. */
static void add_key(const char *key, const char *type, int64_t expires_ms, const char *text, void *data) {
    (void)expires_ms;
    (void)text;
    (void)data;
    if (strcmp(type, "string") != 0)
        add_to_left(key);
}

static void add_node(const struct zookeeper_node *node, void *data) {
    const char *sequence = strrchr(node->path, '-');

    (void)data;
    if (node->owner != 0)
        add_to_left(sequence != NULL ? sequence + 1 : node->path);
}

const char *scene_left(void) {
    left[0] = '\0';
    if (scene.zookeeper)
        zookeeper_nodes(scene.zookeeper, -1, add_node, NULL);
    else
        redis_each_key(scene.redis, world_now(), add_key, NULL);
    return left;
}

/* ---- The world around it -------------------------------------------------------------------------------------------------- */

static bool on_zookeeper;

static void play(void *data) {
    const struct scene_test *test = data;

    test->play(NULL);
    for (size_t i = 0; i < scene.lock_count; i++)
        pawl_lock_free(scene.locks[i]);
    for (size_t i = 0; i < scene.count; i++)
        if (scene.clients[i])
            scene_close(i);
}

static void play_in_a_world(void **state) {
    static const struct world_options options = {.seed = 1, .near_ns = WORLD_MS, .far_ns = WORLD_MS};

    memset(&scene, 0, sizeof scene);
    if (on_zookeeper)
        scene.zookeeper = zookeeper_new(&(struct zookeeper_options){.seed = 1, .tick_ms = 500});
    else
        scene.redis = redis_new(&(struct redis_settings){.seed = 1, .port = PORT});
    assert_int_equal(world_run(&options, play, *state), WORLD_DONE);
    zookeeper_free(scene.zookeeper);
    redis_free(scene.redis);
}

int scene_main(const char *program, bool zookeeper, const struct scene_test *tests, size_t count) {
    struct CMUnitTest list[SCENE_TESTS];

    on_zookeeper = zookeeper;
    for (size_t i = 0; i < count && i < SCENE_TESTS; i++)
        list[i] = (struct CMUnitTest){
            .name = tests[i].name, .test_func = play_in_a_world, .initial_state = (void *)(uintptr_t)&tests[i]};
    return _cmocka_run_group_tests(program, list, count, NULL, NULL);
}
