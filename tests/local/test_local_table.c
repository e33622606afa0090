/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_table.c - the directory and the files in it: created, found, refused, healed; and tokens, which never go back.
 */
#include <sched.h>
#include <sys/mount.h>

#include "../support/local_harness.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t roll(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static const char *in(const char *directory, const char *name) {
    static char path[2 * PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* Opening fails with this code, and the sentence names the path. */
static void assert_refused(const char *directory, int code) {
    struct pawl__engine *engine = NULL;
    struct pawl_error error = {0};
    int rc = try_open(directory, &engine, &error);

    if (rc != code)
        fail_msg("%s: %s instead of %s (%s)", directory, pawl_error_name(rc), pawl_error_name(code), error.text);
    assert_int_equal(error.code, code);
    assert_non_null(strstr(error.text, directory));
}

/* Take the lock once: the token. */
static uint64_t take_token(struct pawl__engine *engine, const char *name) {
    struct pawl__claim *claim = mutex_claim(name);
    uint64_t token;

    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    token = claim->token;
    assert_int_equal(release(engine, claim), PAWL__DONE);
    free(claim);
    return token;
}

static uint64_t open_and_take(const char *directory) {
    struct pawl__engine *engine = engine_open(directory);
    uint64_t token = take_token(engine, "name");

    engine_close(engine);
    return token;
}

static void test_open_and_reopen(void **data) {
    struct pawl__engine *engines[5];
    struct pawl_info info = {0};
    char url[PATH_MAX + 8];

    assert_int_equal(open_and_take(*data), 1); /* people see these */
    assert_int_equal(open_and_take(*data), 2);
    for (int i = 0; i < 5; i++)
        engines[i] = engine_open(*data);
    for (int i = 0; i < 5; i++)
        assert_int_equal(take_token(engines[i], "name"), 3 + i);
    engines[0]->impl->describe(engines[0], &info);
    snprintf(url, sizeof url, "local:%s", (const char *)*data);
    assert_string_equal(info.url, url);
    assert_int_equal(info.lease_ms, PAWL_FOREVER);
    for (int i = 0; i < 5; i++)
        engine_close(engines[i]);
    assert_int_equal(open_and_take(*data), 8);
}

static void test_urls(void **data) {
    const char *bad[] = {"local:relative", "local:./x", "local://host/dir"};
    struct pawl__engine *engine = NULL;
    struct pawl_error error = {0};
    char url[PATH_MAX + 32];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(try_open_url(bad[i], false, &engine, &error), PAWL_EURL);
    snprintf(url, sizeof url, "local:%s/made//", (const char *)*data); /* the parent exists: made */
    assert_int_equal(try_open_url(url, false, &engine, &error), 0);
    engine_close(engine);
    assert_int_equal(access(in(*data, "made/table"), F_OK), 0);
    snprintf(url, sizeof url, "local:%s/not/made", (const char *)*data);
    assert_int_equal(try_open_url(url, false, &engine, &error), PAWL_ESYSTEM);
}

static void open_default(void *data) {
    struct pawl__engine *engine = NULL;
    struct pawl_error error = {0};
    struct stat status;
    int rc;

    setenv("XDG_STATE_HOME", data, 1);
    if (geteuid() == 0 && (chmod(data, 0777) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
        _exit(2);
    rc = try_open_url("local:", false, &engine, &error);
    if (rc < 0) {
        fprintf(stderr, "%s\n", error.text);
        _exit(3);
    }
    engine_close(engine);
    if (stat(in(data, "pawl"), &status) < 0 || (status.st_mode & 07777) != 0700)
        _exit(4);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", data, 1);
    rc = try_open_url("local:", false, &engine, &error);
    if (rc < 0 || access(in(data, ".local/state/pawl/table"), F_OK) < 0)
        _exit(5);
    engine_close(engine);
    unsetenv("HOME");
    _exit(try_open_url("local:", false, &engine, &error) == PAWL_EURL ? 0 : 6);
}

static void test_default_directory(void **data) {
    assert_int_equal(WEXITSTATUS(reap(spawn(open_default, *data))), 0);
}

static void test_bad_directories(void **data) {
    char path[PATH_MAX + 64];
    int fd;

    snprintf(path, sizeof path, "%s/file", (const char *)*data);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_refused(path, PAWL_EURL);
    assert_refused("/proc/self/nowhere/x", PAWL_ESYSTEM);
    snprintf(path, sizeof path, "%s/a", (const char *)*data);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(in(path, "table"), 0700), 0);
    assert_refused(path, PAWL_EFORMAT);
    snprintf(path, sizeof path, "%s/b", (const char *)*data);
    assert_int_equal(mkdir(path, 0700), 0);
    fd = open(in(path, "s"), O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_refused(path, PAWL_EFORMAT);
    snprintf(path, sizeof path, "%s/c", (const char *)*data);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(symlink("/etc/passwd", in(path, "table")), 0);
    assert_refused(path, PAWL_EFORMAT);
    snprintf(path, sizeof path, "%s/d", (const char *)*data);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkfifo(in(path, "table"), 0600), 0);
    assert_refused(path, PAWL_EFORMAT);
}

struct refused {
    const char *directory;
    int code;
};

/* In a mount namespace of its own: what it mounts is gone with it. */
static void on_small_disk(void *data) {
    struct refused *refused = data;
    struct pawl__engine *engine = NULL;
    struct pawl__claim *claim;
    struct pawl_error error = {0};
    char filler[PATH_MAX + 64], options[64];
    int rc, fd;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(77);
    for (int kb = 64; kb <= 4096; kb *= 2) { /* fails, and fails, and works */
        snprintf(options, sizeof options, "size=%dk", kb);
        if (mount("pawl", refused->directory, "tmpfs", 0, options) < 0)
            _exit(77);
        rc = try_open(refused->directory, &engine, &error);
        if (rc == 0)
            break;
        if (rc != PAWL_ENOSPACE || !strstr(error.text, refused->directory))
            _exit(1);
        umount(refused->directory);
    }
    if (rc < 0)
        _exit(2);
    snprintf(filler, sizeof filler, "%s/filler", refused->directory);
    fd = open(filler, O_CREAT | O_WRONLY, 0600);
    while (write(fd, options, sizeof options) > 0)
        ;
    for (int i = 0; i < 100000; i++) { /* then the disk is full, and so is the table some time later */
        char *name = malloc(32);

        snprintf(name, 32, "%d", i);
        claim = mutex_claim(name);
        rc = engine->impl->submit(engine, claim, &error);
        if (rc == PAWL_ENOSPACE)
            break;
        if (rc != PAWL__DONE)
            _exit(3);
    }
    _exit(rc == PAWL_ENOSPACE && strstr(error.text, refused->directory) ? 0 : 4);
}

static void test_full_disk(void **data) {
    struct refused refused = {*data, PAWL_ENOSPACE};
    int status = reap(spawn(on_small_disk, &refused));

    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("can't mount here\n");
        skip();
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void on_read_only(void *data) {
    struct pawl__engine *engine = NULL;
    struct pawl_error error = {0};

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("pawl", data, "tmpfs", MS_RDONLY, NULL) < 0)
        _exit(77);
    _exit(try_open(data, &engine, &error) == PAWL_EACCES && strstr(error.text, data) ? 0 : 1);
}

static void test_read_only(void **data) {
    int status = reap(spawn(on_read_only, *data));

    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("can't mount here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Damage ---- */

static int open_table(const char *directory) {
    int fd = open(in(directory, "table"), O_RDWR);

    assert_true(fd >= 0);
    return fd;
}

static void poke_bytes(const char *directory, off_t offset, const void *bytes, size_t length) {
    int fd = open_table(directory);

    assert_int_equal(pwrite(fd, bytes, length, offset), length);
    close(fd);
}

/* With nobody there, any damage to the header is healed, and the tokens rise. */
static void test_damaged_header_is_healed(void **data) {
    static const size_t offsets[] = {
        offsetof(struct header, magic),        offsetof(struct header, major),      offsetof(struct header, format),
        offsetof(struct header, size),         offsetof(struct header, boot_id),    offsetof(struct header, token_ceiling),
        offsetof(struct header, session_high), offsetof(struct header, block_high), offsetof(struct header, damaged),
    };
    uint64_t token = open_and_take(*data), next;

    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        poke_bytes(*data, (off_t)offsets[i], "\xff\xff\xff", 3);
        next = open_and_take(*data);
        assert_true(next > token);
        token = next;
    }
    assert_int_equal(truncate(in(*data, "table"), 100), 0);
    next = open_and_take(*data);
    assert_true(next > token);
    assert_int_equal(truncate(in(*data, "table"), sizeof(struct table) - 1), 0);
    assert_true(open_and_take(*data) > next);
}

/* The same while somebody lives is an error that says so. */
static void test_damaged_header_in_use(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct header *header = &table_of(engine)->header;
    uint16_t major = header->major;
    uint64_t token = take_token(engine, "name");

    header->major = 99;
    assert_refused(*data, PAWL_EVERSION);
    header->major = major;
    header->format++;
    assert_refused(*data, PAWL_EVERSION);
    header->format--;
    atomic_store(&header->magic, 0);
    assert_refused(*data, PAWL_EFORMAT);
    atomic_store(&header->magic, TABLE_MAGIC);
    SET(header->block_high, 77);
    assert_refused(*data, PAWL_EFORMAT);
    engine_close(engine);
    assert_true(open_and_take(*data) > token);
}

static void test_table_removed_in_use(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    uint64_t token = take_token(engine, "name");

    unlink(in(*data, "table"));
    assert_refused(*data, PAWL_EGONE); /* two tables would be two locks */
    engine_close(engine);
    assert_true(open_and_take(*data) > token);
}

static void test_tokens_file(void **data) {
    uint64_t token = open_and_take(*data);
    struct pawl__engine *engine;

    unlink(in(*data, "token.hi")); /* the table knows */
    assert_true(open_and_take(*data) > token);
    poke_bytes(*data, offsetof(struct header, boot_id), "x", 1);
    assert_refused(*data, PAWL_EFORMAT); /* nobody knows */
    directory_remove(*data);
    assert_int_equal(open_and_take(*data), 1);
    assert_int_equal(truncate(in(*data, "token.hi"), 30), 0);
    poke_bytes(*data, offsetof(struct header, boot_id), "x", 1);
    assert_refused(*data, PAWL_EFORMAT);
    directory_remove(*data);

    /* Past the ceiling: it is raised, on the disk first. A file that was lost or damaged meanwhile is written anew. */
    engine = engine_open(*data);
    for (int i = 0; i < 3; i++) {
        struct bucket *bucket = &table_of(engine)->buckets[pawl__name_hash("name", 4) & (BUCKET_COUNT - 1)];
        uint64_t ceiling = atomic_load(&table_of(engine)->header.token_ceiling), read = 0;

        if (i == 1)
            unlink(in(*data, "token.hi"));
        if (i == 2)
            assert_int_equal(truncate(in(*data, "token.hi"), 3), 0);
        SET(bucket->token, ceiling - 1);
        assert_int_equal(take_token(engine, "name"), ceiling);
        assert_int_equal(take_token(engine, "name"), ceiling + 1);
        assert_int_equal(atomic_load(&table_of(engine)->header.token_ceiling), ceiling + TOKEN_STEP);
        assert_int_equal(pawl__local_tokens_read(local_of(engine), &read, NULL), 0);
        assert_int_equal(read, ceiling + TOKEN_STEP);
    }
    engine_close(engine);
}

/* The queue behind a release that meets the ceiling: the waiter raises it. */
static void test_ceiling_is_met_by_a_release(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct bucket *bucket = &table_of(engine)->buckets[pawl__name_hash("name", 4) & (BUCKET_COUNT - 1)];
    struct pawl__claim *first = mutex_claim("name"), *second = mutex_claim("name");
    uint64_t ceiling = atomic_load(&table_of(engine)->header.token_ceiling);

    SET(bucket->token, ceiling - 1);
    assert_int_equal(acquire(engine, first, 0), PAWL__DONE);
    assert_int_equal(submit(other, second), PAWL__PENDING);
    assert_int_equal(engine->impl->extras->retoken(engine, first), 0);
    assert_int_equal(release(engine, first), PAWL__DONE);
    assert_int_equal(park(other, second, LONG), PAWL__DONE);
    assert_int_equal(second->token, ceiling + 1);
    release(other, second);
    engine_close(other);
    engine_close(engine);
    free(first), free(second);
}

static void hold_and_die(void *data) {
    struct pawl__engine *engine = engine_open(data);

    submit(engine, mutex_claim("name"));
    kill(getpid(), SIGKILL);
}

/* Killed: the next one alone wipes, and goes on counting. Another boot: it starts above the ceiling. */
static void test_tokens_rise_across_wipe_and_reboot(void **data) {
    uint64_t token = open_and_take(*data), next;

    for (int i = 0; i < 3; i++) {
        reap(spawn(hold_and_die, *data));
        next = open_and_take(*data);
        assert_int_equal(next, token + 2);
        token = next;
    }
    for (int i = 0; i < 3; i++) {
        poke_bytes(*data, offsetof(struct header, boot_id), "another boot", 12);
        next = open_and_take(*data);
        assert_true(next > token && next > (uint64_t)(i + 1) * TOKEN_STEP);
        token = next;
    }
}

static void scribble(struct table *table, int count) {
    for (int i = 0; i < count; i++) {
        size_t node = roll() % 8, bucket = (pawl__name_hash("name", 4) + roll() % 2) & (BUCKET_COUNT - 1);
        size_t offset;

        switch (roll() % 4) {
        case 0:
            offset = offsetof(struct table, words) + roll() % 64;
            break;
        case 1:
            offset = offsetof(struct table, owners) + roll() % 64;
            break;
        case 2:
            offset = offsetof(struct table, buckets) + bucket * sizeof(struct bucket) + roll() % sizeof(struct bucket);
            break;
        default:
            offset = offsetof(struct table, nodes) + node * sizeof(struct node) + roll() % 128;
        }
        ((unsigned char *)table)[offset] = (unsigned char)(roll() % 3 == 0 ? roll() % 16 : roll());
    }
}

/* A guard that names the living is what a process that was stopped inside looks like: each call takes its whole time then, as
 * test_stopped_inside_the_guard sees, and forty rounds of that would look like a hang. */
static void free_guards_of_the_living(struct local *local) {
    uint32_t hash = pawl__name_hash("name", 4);

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t bucket = (hash + i) & (BUCKET_COUNT - 1);
        uint64_t owner = pawl__local_guard_owner(local, bucket);

        if (owner != 0 && !pawl__local_dead(local, owner))
            atomic_store(&local->table->buckets[bucket].guard, 0);
    }
}

static int visit_nothing(const struct pawl_entry *entry, void *data) {
    (void)entry, (void)data;
    return 0;
}

/* Use a table that somebody scribbles in: any answer will do, but there must be one. Ends with 0. */
static void use_damaged(void *data) {
    const char *directory = data;
    struct pawl__engine *engines[2] = {engine_open(directory), engine_open(directory)};
    struct pawl__claim *claims[4];

    random_state ^= (uint64_t)getpid() << 20;
    alarm(20); /* against a hang */
    for (int i = 0; i < 4; i++)
        claims[i] = i < 2 ? mutex_claim("name") : claim_new("name", PAWL_RWLOCK, PAWL_SHARED, 1, 1);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 4; i++)
            if (inner(claims[i])->ref == 0)
                acquire(engines[i % 2], claims[i], MS / 10);
        scribble(table_of(engines[0]), 1 + (int)(roll() % 4));
        free_guards_of_the_living(local_of(engines[0]));
        engines[0]->impl->operators->survey(engines[0], NULL, visit_nothing, NULL, NULL);
        engines[0]->impl->operators->break_hold(engines[0], "name", claims[0]->token, true, NULL);
        for (int i = 0; i < 4; i++)
            if (roll() % 2) {
                if (engines[i % 2]->impl->withdraw(engines[i % 2], claims[i]) == PAWL__PENDING)
                    park(engines[i % 2], claims[i], MS);
            }
    }
    for (int i = 0; i < 2; i++)
        engines[i]->impl->close(engines[i], pawl__boottime() + 50 * MS);
}

static void test_scribbling_never_crashes(void **data) {
    int rounds = getenv("PAWL_TEST_LONG") ? 2000 : 60;
    int64_t end = pawl__boottime() + (getenv("PAWL_TEST_LONG") ? 300 : 6) * SECOND;

    for (int i = 0; i < rounds && pawl__boottime() < end; i++) {
        int status;

        roll();
        status = reap(spawn(use_damaged, *data));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("round %d: status %x", i, status);
        /* Nobody is left: the next one repairs any damage that was done; in two steps at most, since damage may be met late. */
        for (int attempt = 0; attempt < 4; attempt++) {
            struct pawl__engine *engine = engine_open(*data);
            struct pawl__claim *claim = mutex_claim("name");
            int rc = acquire(engine, claim, 2 * SECOND);

            if (rc == PAWL__DONE)
                release(engine, claim);
            engine_close(engine);
            free(claim);
            if (rc == PAWL__DONE)
                break;
            if (rc != PAWL_EFORMAT || attempt == 3)
                fail_msg("round %d: %s", i, pawl_error_name(rc));
        }
    }
}

/* Two holders of no permits, each before the other: adding up what they hold would never end. */
static void join_circle(void *data) {
    struct pawl__engine *engine = engine_open(data);
    struct pawl__claim *claims[3];
    struct node *nodes[2];

    alarm(20); /* against a hang */
    for (int i = 0; i < 3; i++)
        claims[i] = claim_new("name", PAWL_SEMAPHORE, PAWL_PERMITS, 1, 3);
    for (int i = 0; i < 2; i++) {
        if (submit(engine, claims[i]) != PAWL__DONE)
            _exit(1);
        nodes[i] = &table_of(engine)->nodes[inner(claims[i])->ref - 1];
        nodes[i]->permits = 0;
    }
    SET(nodes[0]->prev, pawl__local_ref(local_of(engine), nodes[1]));
    _exit(submit(engine, claims[2]) == PAWL_EFORMAT ? 0 : 2);
}

static void test_list_in_a_circle(void **data) {
    int status = reap(spawn(join_circle, *data));

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Random bytes over all that is in use, with nobody there. */
static void test_random_bytes_are_healed(void **data) {
    for (int round = 0; round < 30; round++) {
        struct pawl__engine *engine = engine_open(*data);
        struct table *table = table_of(engine);
        unsigned char *bytes = (unsigned char *)table;
        size_t end = round % 2 ? offsetof(struct table, buckets) : offsetof(struct table, sessions);
        struct pawl__claim *claim = mutex_claim("name");
        int rc;

        take_token(engine, "name");
        for (int i = 0; i < 4000; i++)
            bytes[roll() % end] = (unsigned char)roll();
        engine->impl->close(engine, pawl__boottime());
        free(engine);
        for (int attempt = 0; attempt < 4; attempt++) {
            engine = engine_open(*data);
            rc = acquire(engine, claim, 5 * SECOND);
            if (rc == PAWL__DONE)
                release(engine, claim);
            engine_close(engine);
            if (rc == PAWL__DONE)
                break;
        }
        assert_int_equal(rc, PAWL__DONE);
        free(claim);
    }
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_open_and_reopen),
        T(test_urls),
        T(test_default_directory),
        T(test_bad_directories),
        T(test_full_disk),
        T(test_read_only),
        T(test_damaged_header_is_healed),
        T(test_damaged_header_in_use),
        T(test_table_removed_in_use),
        T(test_tokens_file),
        T(test_ceiling_is_met_by_a_release),
        T(test_tokens_rise_across_wipe_and_reboot),
        T(test_scribbling_never_crashes),
        T(test_list_in_a_circle),
        T(test_random_bytes_are_healed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
