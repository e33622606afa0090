/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_access.c - passwords, users with the smallest set of rights, TLS with verification and client certificates, Unix sockets,
 * databases; and that secrets are nowhere to be read.
 */
#include <signal.h>
#include <unistd.h>

#include "../support/redis_test.h"

#define SECRET "s3cret-Wort"
#define LEASE_MS 10000

static struct redis_server server;
static char logged[4096];

static void log_text(enum pawl_log_level level, const char *text, void *data) {
    (void)level;
    (void)data;
    strncat(logged, text, sizeof logged - strlen(logged) - 1);
}

static int open_url(const char *url, unsigned flags, struct pawl **ret) {
    struct pawl_options how = {.size = sizeof how, .flags = flags, .log = log_text, .lease_ms = LEASE_MS};

    logged[0] = '\0';
    return pawl_open(url, &how, ret, &error);
}

static void use(struct pawl *client, const char *name) {
    struct pawl_lock *lock = mutex_of(client, name);

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static int start(void **state) {
    (void)state;
    redis_server_start(&server); /* for its directory and port */
    redis_server_stop(&server, SIGKILL);
    redis_server_certify(&server);
    server.tls = true;
    redis_server_start(&server);
    freeReplyObject(redis_server_command(&server, "ACL SETUSER pawl on >" SECRET));
    give_smallest_rights(&server, "pawl");
    return 0;
}

static int stop(void **state) {
    (void)state;
    redis_server_free(&server);
    return 0;
}

/* How often the server refused something to a user since this was last asked. */
static long refusals(void) {
    redisReply *log = redis_server_command(&server, "ACL LOG 128");
    long count = (long)log->elements;

    freeReplyObject(log);
    freeReplyObject(redis_server_command(&server, "ACL LOG RESET"));
    return count;
}

static int count_entry(const struct pawl_entry *entry, void *data) {
    (void)entry;
    ++*(int *)data;
    return 0;
}

/* Of a mutex, in either layout: taken, waited for, handed on, renewed, listed, taken together with others. */
static void use_mutexes(struct pawl *client, struct pawl *other) {
    const struct pawl_part set[] = {{.lock = mutex_of(client, "a")}, {.lock = mutex_of(client, "b")}};
    struct pawl_lock *two = mutex_of(other, "a");
    struct taker taker;
    int entries = 0;

    assert_works(pawl_acquire_all(set, 2, PATIENCE_MS, &error), &error);
    start_taker(&taker, two, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{app:a}", 1);
    assert_works(pawl_inspect(client, NULL, count_entry, &entries, &error), &error);
    assert_int_equal(entries, 3);
    freeReplyObject(redis_server_command(&server, "PEXPIRE app:a 60000"));
    await(redis_server_plain(&server, "PTTL app:a") <= LEASE_MS, "it is never renewed");
    assert_works(pawl_release_all(set, 2, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(set[0].lock);
    pawl_lock_free(set[1].lock);
    pawl_lock_free(two);
}

/* What lies beside one: written in its holder's name, and in that of its token, read, and deleted. */
static void use_values(struct pawl *client, struct pawl *other) {
    struct pawl_lock *lock = mutex_of(client, "v");
    const struct pawl_value *value;

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_value_set(lock, "one", 3, &error), &error);
    assert_works(pawl_value_set_as(other, "v", pawl_token(lock), "two", 3, &error), &error);
    assert_works(pawl_value_read(other, "v", &value, &error), &error);
    assert_int_equal(value->size, 3);
    pawl_value_free(value);
    assert_works(pawl_value_set(lock, NULL, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static void use_other_kinds(struct pawl *client, struct pawl *other) {
    struct pawl_lock *rwlock, *semaphore;

    assert_works(pawl_rwlock_new(client, "rw", 0, &rwlock, &error), &error);
    assert_works(pawl_acquire(rwlock, PATIENCE_MS, &error), &error);
    assert_works(pawl_downgrade(rwlock, &error), &error);
    assert_works(pawl_release_shared(rwlock, &error), &error);
    assert_works(pawl_semaphore_new(client, "sem", 3, 0, &semaphore, &error), &error);
    assert_works(pawl_acquire_permits(semaphore, 2, PATIENCE_MS, &error), &error);
    assert_works(pawl_break(other, "sem", pawl_token(semaphore), PAWL_BREAK_NOW, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(semaphore, &error), &error);
    pawl_lock_free(rwlock);
    pawl_lock_free(semaphore);
}

/* All of it is allowed, and what only would be nice to know is not made up: nothing is said of settings that can't be read. */
static void test_smallest_rights(void **state) {
    static const char *const layouts[] = {"redisson", "plain"};
    struct pawl *client, *other;
    char url[256];

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(url, sizeof url, "redis://pawl:" SECRET "@127.0.0.1:%u?prefix=app:&layout=%s", server.port, layouts[i]);
        assert_works(open_url(url, 0, &client), &error);
        assert_string_equal(logged, "");
        assert_works(open_url(url, 0, &other), &error);
        refusals(); /* INFO, CONFIG GET: what the connection asks for and can do without */
        use_mutexes(client, other);
        use_values(client, other);
        if (i == 0)
            use_other_kinds(client, other);
        assert_int_equal(refusals(), 0);
        pawl_close(client);
        pawl_close(other);
    }
}

static void test_no_right_to_the_key(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;
    char url[256];

    (void)state;
    snprintf(url, sizeof url, "redis://pawl:" SECRET "@127.0.0.1:%u", server.port);
    assert_works(open_url(url, 0, &client), &error);
    lock = mutex_of(client, "not-of-app");
    assert_fails(PAWL_EACCES, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS not-of-app"), 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* What a script may not do ends it halfway: a hold without a time would never end. */
static void lack_rights_in_the_middle(struct redis_server *of) {
    static const char *const commands[] = {"incrby", "hset", "pexpire"};
    struct pawl *client;
    struct pawl_lock *lock, *other;
    char url[256];

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        freeReplyObject(redis_server_command(of, "ACL SETUSER other reset on >" SECRET " ~* &* +@all -%s", commands[i]));
        snprintf(url, sizeof url, "redis://other:" SECRET "@127.0.0.1:%u", of->port);
        assert_works(open_url(url, 0, &client), &error);
        lock = mutex_of(client, "lock");
        assert_fails(PAWL_EACCES, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        assert_contains(error.text, "docs/redis.md");
        other = mutex_of(client, "other");
        assert_fails(PAWL_EACCES, pawl_acquire_all((struct pawl_part[]){{.lock = lock}, {.lock = other}}, 2, PAWL_FOREVER, &error),
                     &error);
        await_integer(of, "EXISTS lock pawl:queue:{lock} other pawl:queue:{other}", 0);
        pawl_lock_free(lock);
        pawl_lock_free(other);
        pawl_close(client);
    }
}

static void test_no_right_in_the_middle(void **state) {
    (void)state;
    lack_rights_in_the_middle(&server);
}

/* It says so in other words. */
static void test_no_right_in_the_middle_of_a_newer_one(void **state) {
    struct redis_server newer = {.version = "8.0.2"};

    (void)state;
    redis_server_start(&newer);
    lack_rights_in_the_middle(&newer);
    redis_server_free(&newer);
}

/* The right to release is taken away while the lock is held: the release says that the lock stays. */
static void test_a_release_is_refused(void **state) {
    struct pawl *client;
    struct pawl_lock *lock, *another;
    char url[256];

    (void)state;
    freeReplyObject(redis_server_command(&server, "ACL SETUSER other reset on >" SECRET " ~* &* +@all"));
    snprintf(url, sizeof url, "redis://other:" SECRET "@127.0.0.1:%u", server.port);
    assert_works(open_url(url, 0, &client), &error);
    lock = mutex_of(client, "lock");
    another = mutex_of(client, "another");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire(another, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "ACL SETUSER other -evalsha -eval"));
    logged[0] = '\0';
    pawl_release(lock, &error);
    pawl_release(another, &error);
    pawl_lock_free(lock);
    pawl_lock_free(another);
    pawl_close(client);
    assert_contains(logged, "'lock' could not be released");
    assert_null(strstr(logged, "'another'")); /* one a minute is enough */
    await_integer(&server, "EXISTS lock", 0);
}

static void test_wrong_password_and_no_secrets_anywhere(void **state) {
    struct pawl_info info;
    struct pawl *client;
    char url[256];

    (void)state;
    snprintf(url, sizeof url, "redis://pawl:wrong-" SECRET "@127.0.0.1:%u", server.port);
    assert_fails(PAWL_EACCES, open_url(url, PAWL_OPEN_TRACE, &client), &error);
    assert_null(strstr(error.text, SECRET));
    assert_null(strstr(logged, SECRET));
    snprintf(url, sizeof url, "redis://pawl:" SECRET "@127.0.0.1:%u?prefix=app:", server.port);
    assert_works(open_url(url, PAWL_OPEN_TRACE, &client), &error);
    use(client, "m");
    pawl_describe(client, &info);
    assert_null(strstr(info.url, SECRET));
    assert_null(strstr(info.url, "pawl:"));
    pawl_close(client);
    assert_null(strstr(logged, SECRET));
    snprintf(url, sizeof url, "redis://pawl@127.0.0.1:%u", server.port);
    assert_fails(PAWL_EURL, open_url(url, 0, &client), &error);
}

static void test_unix_socket_and_database(void **state) {
    struct pawl *client;
    char url[300];

    (void)state;
    snprintf(url, sizeof url, "redis+unix://%s?db=3", server.socket_path);
    assert_works(open_url(url, 0, &client), &error);
    use(client, "there");
    pawl_close(client);
    assert_int_equal(redis_server_integer(&server, "EXISTS redisson_lock_token:{there}"), 0);
    snprintf(url, sizeof url, "unix://%s", server.socket_path);
    assert_works(open_url(url, 0, &client), &error);
    use(client, "here");
    pawl_close(client);
    assert_int_equal(redis_server_integer(&server, "EXISTS redisson_lock_token:{here}"), 1);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/99999", server.port);
    assert_fails(PAWL_EURL, open_url(url, 0, &client), &error);
    assert_contains(error.text, "database");
    assert_fails(PAWL_ECONNLOST, open_url("unix:///no/such/socket", 0, &client), &error);
}

static void test_tls(void **state) {
    const char *d = server.directory;
    struct pawl *client;
    char url[1024];

    (void)state;
    snprintf(url, sizeof url, "rediss://localhost:%u?ca=%s/ca.crt&cert=%s/client.crt&key=%s/client.key", server.tls_port, d, d, d);
    assert_works(open_url(url, 0, &client), &error);
    use(client, "tls");
    pawl_close(client);
    snprintf(url, sizeof url, "rediss://127.0.0.1:%u?ca=%s/ca.crt&cert=%s/client.crt&key=%s/client.key", server.tls_port, d, d, d);
    assert_works(open_url(url, 0, &client), &error);
    pawl_close(client);
    snprintf(url, sizeof url, "rediss://localhost:%u?cert=%s/client.crt&key=%s/client.key", server.tls_port, d, d);
    assert_fails(PAWL_EACCES, open_url(url, 0, &client), &error); /* an authority that nobody knows */
    assert_contains(error.text, "certificate");
    snprintf(url, sizeof url, "rediss://localhost:%u?ca=%s/ca.crt&servername=other.example&cert=%s/client.crt&key=%s/client.key",
             server.tls_port, d, d, d);
    assert_fails(PAWL_EACCES, open_url(url, 0, &client), &error); /* a certificate for another name */
    snprintf(url, sizeof url, "rediss://localhost:%u?ca=%s/ca.crt", server.tls_port, d);
    assert_fails(PAWL_EACCES, open_url(url, 0, &client), &error); /* the server wants a client certificate */
    assert_contains(error.text, "?cert=");
    snprintf(url, sizeof url, "rediss://localhost:%u?verify=none&cert=%s/client.crt&key=%s/client.key", server.tls_port, d, d);
    assert_works(open_url(url, 0, &client), &error);
    pawl_close(client);
    snprintf(url, sizeof url, "rediss://localhost:%u?ca=/no/such/file", server.tls_port);
    assert_fails(PAWL_EACCES, open_url(url, 0, &client), &error);
    snprintf(url, sizeof url, "rediss://localhost:%u?ca=%s/ca.crt&connect=500", server.port, d);
    assert_fails(PAWL_ECONNLOST, open_url(url, 0, &client), &error); /* a server that speaks no TLS */
    assert_contains(error.text, "TLS");
    snprintf(url, sizeof url, "redis://localhost:%u?ca=%s/ca.crt", server.port, d);
    assert_fails(PAWL_EOPTION, open_url(url, 0, &client), &error);
}

static void test_what_endangers_locks_is_said_once(void **state) {
    struct pawl *client;
    char url[64];

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", server.port);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory-policy allkeys-lru"));
    assert_works(open_url(url, 0, &client), &error);
    assert_contains(logged, "maxmemory-policy noeviction");
    assert_contains(logged, "appendonly yes");
    logged[0] = '\0';
    use(client, "m");
    assert_string_equal(logged, "");
    pawl_close(client);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory-policy noeviction"));
    freeReplyObject(redis_server_command(&server, "CONFIG SET appendonly yes"));
    assert_works(open_url(url, 0, &client), &error);
    assert_string_equal(logged, "");
    pawl_close(client);
}

static int collect_advice(const struct pawl_finding *finding, void *data) {
    char *all = data;

    strcat(strcat(all, finding->advice), "\n");
    return 0;
}

static void test_doctor_names_the_settings(void **state) {
    struct pawl *client;
    char url[64], all[2048] = "";

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", server.port);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory-policy allkeys-lru"));
    freeReplyObject(redis_server_command(&server, "CONFIG SET appendonly no"));
    assert_works(open_url(url, 0, &client), &error);
    assert_works(pawl_examine(client, collect_advice, all, &error), &error);
    assert_contains(all, "maxmemory-policy noeviction");
    assert_contains(all, "appendonly yes");
    pawl_close(client);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory-policy noeviction"));
}

/* ---- Passwords that no list of processes shows ---------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_opens(int code, const char *options) {
    struct pawl *client = NULL;
    char url[512];

    snprintf(url, sizeof url, "redis://anna@127.0.0.1:%u%s", server.port, options);
    if (code == 0)
        assert_works(open_url(url, 0, &client), &error);
    else
        assert_fails(code, open_url(url, 0, &client), &error);
    pawl_close(client);
}

static void test_password_from_elsewhere(void **state) {
    char path[] = "/tmp/pawl-password-XXXXXX", option[128], both[128], longer[2000] = "";
    struct pawl *client = NULL;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(option, sizeof option, "?password-file=%s", path);
    freeReplyObject(redis_server_command(&server, "ACL SETUSER anna on >hush ~* &* +@all"));
    assert_opens(PAWL_EURL, ""); /* a user without a password */
    write_file(path, "hush\nnothing else\n");
    assert_opens(0, option);
    write_file(path, "hush");
    assert_opens(0, option);
    write_file(path, "loud\n");
    assert_opens(PAWL_EACCES, option);
    assert_null(strstr(error.text, "loud"));
    write_file(path, "\nhush\n");
    assert_opens(PAWL_EOPTION, option);
    assert_contains(error.text, "empty");
    memset(longer, 'x', sizeof longer - 1);
    write_file(path, longer);
    assert_opens(PAWL_EOPTION, option);
    assert_contains(error.text, "longer");
    snprintf(both, sizeof both, "redis://anna:hush@127.0.0.1:%u?password-file=%s", server.port, path);
    assert_fails(PAWL_EOPTION, open_url(both, 0, &client), &error);
    unlink(path);
    assert_opens(PAWL_EOPTION, option);
    assert_contains(error.text, path);
    snprintf(both, sizeof both, "local:%s?password-file=/x", path);
    assert_fails(PAWL_EOPTION, pawl_open(both, NULL, &client, &error), &error);
    rmdir(path);
    setenv("PAWL_PASSWORD", "hush", 1);
    assert_opens(0, "");
    setenv("PAWL_PASSWORD", "loud", 1);
    assert_opens(PAWL_EACCES, "");
    unsetenv("PAWL_PASSWORD");
    freeReplyObject(redis_server_command(&server, "ACL DELUSER anna"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_rights),
        cmocka_unit_test(test_no_right_to_the_key),
        cmocka_unit_test(test_no_right_in_the_middle),
        cmocka_unit_test(test_no_right_in_the_middle_of_a_newer_one),
        cmocka_unit_test(test_a_release_is_refused),
        cmocka_unit_test(test_wrong_password_and_no_secrets_anywhere),
        cmocka_unit_test(test_password_from_elsewhere),
        cmocka_unit_test(test_unix_socket_and_database),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_what_endangers_locks_is_said_once),
        cmocka_unit_test(test_doctor_names_the_settings),
    };

    return run_redis_tests(argc, argv, "redis access", tests, "test_tls test_password_from_elsewhere", start, stop);
}
