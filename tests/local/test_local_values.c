/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_values.c - values in files: whole or not at all, whenever the writer is killed, stopped or deposed; and files that are not
 * what pawl writes never read as a value.
 */
#include <dirent.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "../support/local_harness.h"
#include "../support/test.h"

enum { ALICE = 64001, BOB = 64002, TEAM = 64100 };
#define SOON (pawl__boottime() + 100 * MS)
#define LATE (pawl__boottime() + LONG)

static struct pawl_error error;

/* ---- Reading and writing at the seam ---------------------------------------------------------------------------------------- */

static int put(struct pawl__engine *engine, struct pawl__claim *claim, const char *text, int64_t deadline) {
    struct pawl__author author;
    struct pawl__write write = {.name = claim->name,
                                .name_length = claim->name_length,
                                .name_hash = claim->name_hash,
                                .bytes = text,
                                .size = text ? strlen(text) : 0,
                                .token = claim->token,
                                .author = &author,
                                .number = 1};
    struct pawl__stamp stamp;

    engine->impl->values->sign(engine, claim, &author);
    return engine->impl->values->set(engine, &write, deadline, &stamp, &error);
}

/* What lies there: a text, "-" for nothing; or NULL, and the code. */
static const char *get(struct pawl__engine *engine, const char *name, int *retcode) {
    struct pawl__value *value = NULL;
    static char text[256];

    *retcode = engine->impl->values->get(engine, name, PART_VALUE, FRESH_LATEST, LATE, &value, NULL, &error);
    if (*retcode < 0)
        return NULL;
    snprintf(text, sizeof text, "%.*s", value ? (int)pawl__value_shown(value)->size : 1,
             value ? (const char *)pawl__value_shown(value)->bytes : "-");
    pawl__value_put(value);
    return text;
}

static void assert_lies(struct pawl__engine *engine, const char *text) {
    int rc;
    const char *found = get(engine, "name", &rc);

    if (!found)
        fail_msg("%s", error.text);
    assert_string_equal(found, text);
}

/* Acquire, write, release. */
static void write_as_holder(struct pawl__engine *engine, const char *text) {
    struct pawl__claim *claim = mutex_claim("name");

    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    assert_works(put(engine, claim, text, LATE), &error);
    assert_int_equal(release(engine, claim), PAWL__DONE);
    free(claim);
}

static const char *values_of(const char *directory, const char *file) {
    static char path[2 * PATH_MAX];

    snprintf(path, sizeof path, "%s/values/%s", directory, file);
    return path;
}

/* The one value's file; and how many others there are. */
static const char *find_file(const char *directory, int *retothers) {
    static char found[NAME_MAX + 1];
    DIR *open = opendir(values_of(directory, ""));
    struct dirent *entry;

    *retothers = 0;
    found[0] = '\0';
    assert_non_null(open);
    while ((entry = readdir(open))) {
        if (strncmp(entry->d_name, "name-", 5) == 0)
            strcpy(found, entry->d_name);
        else if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2)
            *retothers += strcmp(entry->d_name, "lock") != 0;
    }
    closedir(open);
    return found;
}

/* ---- Killed, stopped, deposed ------------------------------------------------------------------------------------------------ */

struct writer {
    const char *directory;
    struct board *board; /* 0: what became of the write, + 1000 */
};

static void write_traced(void *data) {
    struct writer *writer = data;
    struct pawl__engine *engine = engine_open(writer->directory);
    struct pawl__claim *claim = mutex_claim("name");
    int rc;

    if (acquire(engine, claim, LONG) != PAWL__DONE || ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(96);
    atomic_store(&writer->board->words[1], (int64_t)claim->token);
    raise(SIGSTOP);
    rc = put(engine, claim, "new", LATE);
    atomic_store(&writer->board->words[0], 1000 + rc);
}

/* Start it, and let it come so many stops far: each system call is two. 0: it is there; 1: it has ended; -1: no ptrace here. */
static int start_writer(struct writer *writer, int stops, pid_t *ret) {
    int status;

    atomic_store(&writer->board->words[0], 0);
    *ret = spawn(write_traced, writer);
    if (waitpid(*ret, &status, 0) != *ret || !WIFSTOPPED(status))
        return -1;
    ptrace(PTRACE_SETOPTIONS, *ret, NULL, (void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD));
    for (int i = 0; i < stops; i++) {
        ptrace(PTRACE_SYSCALL, *ret, NULL, NULL);
        if (waitpid(*ret, &status, 0) != *ret || !WIFSTOPPED(status))
            return 1;
    }
    return 0;
}

static void skip_without_ptrace(int state) {
    if (state >= 0)
        return;
    print_message("no ptrace here\n");
    skip();
}

/* However far it had come: the old value or the new one, the lock free, and the next writes. */
static void test_killed_while_it_writes(void **data) {
    struct writer writer = {*data, board_new()};
    struct pawl__engine *engine = engine_open(*data);
    int ended = 0, others, rc, renamed = 0;
    pid_t pid;

    for (int stops = 1; ended == 0 && stops < 500; stops++) {
        const char *found;

        write_as_holder(engine, "old");
        ended = start_writer(&writer, stops, &pid);
        skip_without_ptrace(ended);
        if (ended == 0)
            kill_and_reap(pid);
        found = get(engine, "name", &rc);
        assert_true(found && (strcmp(found, "old") == 0 || strcmp(found, "new") == 0));
        renamed += strcmp(found, "new") == 0;
    }
    assert_int_equal(ended, 1);
    assert_true(renamed > 1);
    write_as_holder(engine, "next");
    engine_close(engine);
    engine = engine_open(*data); /* it is alone, and clears up */
    find_file(*data, &others);
    assert_int_equal(others, 0);
    assert_lies(engine, "next");
    engine_close(engine);
    board_free(writer.board);
}

/* It is stopped, deposed, and goes on when the next holder has written, or waits to: what that one wrote stays. */
static void test_deposed_while_it_writes(void **data) {
    struct writer writer = {*data, board_new()};
    struct pawl__engine *engine = engine_open(*data);
    int ended = 0, refused = 0, waited = 0, rc;
    pid_t pid;

    for (int stops = 1; ended == 0 && stops < 500; stops++) {
        struct pawl__claim *claim = mutex_claim("name");

        ended = start_writer(&writer, stops, &pid);
        skip_without_ptrace(ended);
        if (ended == 0) {
            uint64_t token = (uint64_t)atomic_load(&writer.board->words[1]);

            assert_works(engine->impl->operators->break_hold(engine, "name", token, true, &error), &error);
            assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
            rc = put(engine, claim, "next", SOON);
            assert_true(rc == 0 || rc == PAWL_ETIMEOUT);
            ptrace(PTRACE_DETACH, pid, NULL, NULL);
            assert_int_equal(reap(pid), 0);
            if (rc == PAWL_ETIMEOUT) { /* it was in the midst of it: then it comes first */
                waited++;
                assert_works(put(engine, claim, "next", LATE), &error);
            } else if (atomic_load(&writer.board->words[0]) == 1000 + PAWL_ELOST) {
                refused++;
            }
            assert_lies(engine, "next");
            assert_int_equal(release(engine, claim), PAWL__DONE);
        }
        free(claim);
    }
    assert_int_equal(ended, 1);
    assert_true(refused > 0 && waited > 0);
    engine_close(engine);
    board_free(writer.board);
}

/* ---- What is not ours -------------------------------------------------------------------------------------------------------- */

/* Neither read nor replaced; and one sentence that names the file. */
static void assert_refused(struct pawl__engine *engine, const char *file) {
    struct pawl__claim *claim = mutex_claim("name");
    int rc;

    assert_null(get(engine, "name", &rc));
    assert_int_equal(rc, PAWL_EFORMAT);
    assert_contains(error.text, file);
    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    assert_int_equal(put(engine, claim, "new", LATE), PAWL_EFORMAT);
    assert_int_equal(put(engine, claim, NULL, LATE), PAWL_EFORMAT);
    assert_int_equal(release(engine, claim), PAWL__DONE);
    free(claim);
}

static void overwrite(const char *path, const char *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static size_t read_whole(const char *path, char *to, size_t room) {
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, to, room);

    assert_true(fd >= 0 && length > 0);
    close(fd);
    return (size_t)length;
}

static void test_files_that_are_damaged(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    char good[1024], bad[1025], path[2 * PATH_MAX], file[NAME_MAX + 1];
    size_t length;
    int others;

    write_as_holder(engine, "a value");
    strcpy(file, find_file(*data, &others));
    strcpy(path, values_of(*data, file));
    length = read_whole(path, good, sizeof good);
    for (size_t i = 0; i < length; i++) {
        overwrite(path, good, i); /* cut off */
        assert_refused(engine, file);
        memcpy(bad, good, length);
        bad[i] ^= 1;
        overwrite(path, bad, length);
        assert_refused(engine, file);
    }
    memcpy(bad, good, length);
    bad[length] = 'x';
    overwrite(path, bad, length + 1);
    assert_refused(engine, file);
    overwrite(path, good, length);
    assert_lies(engine, "a value");
    write_as_holder(engine, "another");
    assert_lies(engine, "another");
    engine_close(engine);
}

/* That of another name in its place; links, FIFOs and directories. */
static void test_files_of_others(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *other = mutex_claim("other");
    char path[2 * PATH_MAX], file[NAME_MAX + 1], foreign[2 * PATH_MAX], command[5 * PATH_MAX];
    int others;

    write_as_holder(engine, "mine");
    assert_int_equal(acquire(engine, other, LONG), PAWL__DONE);
    assert_works(put(engine, other, "theirs", LATE), &error);
    assert_int_equal(release(engine, other), PAWL__DONE);
    strcpy(file, find_file(*data, &others));
    strcpy(path, values_of(*data, file));
    snprintf(command, sizeof command, "cp %s/values/other-* %s", (const char *)*data, path);
    assert_int_equal(system(command), 0);
    assert_refused(engine, file);
    snprintf(foreign, sizeof foreign, "%s/foreign", (const char *)*data);
    overwrite(foreign, "precious", 8);
    for (int kind = 0; kind < 4; kind++) {
        remove(path);
        assert_int_equal(kind == 0   ? symlink(foreign, path)
                         : kind == 1 ? link(foreign, path)
                         : kind == 2 ? mkfifo(path, 0600)
                                     : mkdir(path, 0700),
                         0);
        assert_refused(engine, file);
    }
    remove(path);
    assert_int_equal(read_whole(foreign, command, sizeof command), 8);
    assert_memory_equal(command, "precious", 8);
    write_as_holder(engine, "mine again");
    assert_lies(engine, "mine again");
    engine_close(engine);
    free(other);
}

static void test_values_are_taken_away(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claim = mutex_claim("name");
    char command[PATH_MAX + 32];

    assert_lies(engine, "-");
    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    assert_works(put(engine, claim, "first", LATE), &error);
    snprintf(command, sizeof command, "rm -rf %s/values", (const char *)*data);
    assert_int_equal(system(command), 0);
    assert_lies(engine, "-");
    assert_works(put(engine, claim, "second", LATE), &error);
    assert_lies(engine, "second");
    directory_remove(*data); /* all of it */
    assert_int_equal(put(engine, claim, "third", LATE), PAWL_EGONE);
    release(engine, claim);
    free(claim);
    engine_close(engine);
}

/* Somebody clears up while a write is under way: it is made all the same, under the lock that others find. */
static void test_lock_is_taken_away_while_it_writes(void **data) {
    struct writer writer = {*data, board_new()};
    struct pawl__engine *engine = engine_open(*data);
    char path[PATH_MAX + 16];
    int ended = 0;
    pid_t pid;

    snprintf(path, sizeof path, "%s/values/lock", (const char *)*data);
    for (int stops = 1; ended == 0 && stops < 500; stops++) {
        write_as_holder(engine, "old");
        ended = start_writer(&writer, stops, &pid);
        skip_without_ptrace(ended);
        if (ended == 0) {
            assert_int_equal(unlink(path), 0);
            ptrace(PTRACE_DETACH, pid, NULL, NULL);
            assert_int_equal(reap(pid), 0);
            assert_int_equal(atomic_load(&writer.board->words[0]), 1000);
            assert_lies(engine, "new");
        }
    }
    assert_int_equal(ended, 1);
    engine_close(engine);
    board_free(writer.board);
}

/* ---- Other users, and no room ------------------------------------------------------------------------------------------------ */

struct visit {
    const char *directory;
    uid_t uid;
    const char *text;
    int wanted; /* the code */
};

static void visit_and_write(void *data) {
    struct visit *visit = data;
    struct pawl__claim *claim = mutex_claim("name");
    struct pawl__engine *engine;
    int rc;

    umask(077);
    if (setgroups(0, NULL) < 0 || setgid(TEAM) < 0 || setuid(visit->uid) < 0)
        _exit(98);
    engine = engine_open(visit->directory);
    if (acquire(engine, claim, LONG) != PAWL__DONE)
        _exit(97);
    rc = put(engine, claim, visit->text, LATE);
    if (rc != visit->wanted)
        fprintf(stderr, "user %d: %d %s\n", (int)visit->uid, rc, rc < 0 ? error.text : "");
    release(engine, claim);
    engine_close(engine);
    _exit(rc == visit->wanted ? 0 : 1);
}

static void need_root(void) {
    if (geteuid() == 0)
        return;
    print_message("needs root\n");
    skip();
}

/* What one wrote another replaces, also where the directory is sticky: the lock decides who may, not the file. */
static void check_users(const char *directory, mode_t mode) {
    struct pawl__engine *engine;
    char text[16];

    need_root();
    assert_int_equal(chown(directory, 0, TEAM), 0);
    assert_int_equal(chmod(directory, mode), 0);
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(reap(spawn(visit_and_write, &(struct visit){directory, i % 2 ? BOB : ALICE, text, 0})), 0);
        engine = engine_open(directory);
        assert_lies(engine, text);
        engine_close(engine);
    }
}

static void test_users_of_a_sticky_directory(void **data) {
    check_users(*data, 01777);
}

static void test_users_of_a_group(void **data) {
    check_users(*data, 02770);
}

static void test_values_that_may_not_be_written(void **data) {
    struct pawl__engine *engine;

    need_root();
    assert_int_equal(chmod(*data, 01777), 0);
    engine = engine_open(*data);
    write_as_holder(engine, "root's");
    assert_int_equal(chmod(values_of(*data, ""), 0755), 0);
    assert_int_equal(reap(spawn(visit_and_write, &(struct visit){*data, ALICE, "alice's", PAWL_EACCES})), 0);
    assert_lies(engine, "root's");
    engine_close(engine);
}

static void write_limited(void *data) {
    struct pawl__engine *engine = engine_open(data);
    struct pawl__claim *claim = mutex_claim("name");
    int rc;

    if (acquire(engine, claim, LONG) != PAWL__DONE)
        _exit(97);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){16, 16});
    rc = put(engine, claim, "too long", LATE);
    _exit(rc == PAWL_ENOSPACE && strstr(error.text, "ulimit -f") ? 0 : 1);
}

/* SIGXFSZ would end the application. */
static void test_no_room_for_a_value(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    int others;

    write_as_holder(engine, "old");
    assert_int_equal(reap(spawn(write_limited, *data)), 0);
    assert_lies(engine, "old");
    find_file(*data, &others);
    assert_int_equal(others, 0);
    engine_close(engine);
}

static void fill_disk(const char *directory) {
    static const char page[4096];
    char path[2 * PATH_MAX];
    int fd;

    snprintf(path, sizeof path, "%s/filler", directory);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    while (write(fd, page, sizeof page) > 0)
        continue;
    close(fd);
}

/* A file system of its own, full to the last page. */
static void write_on_full_disk(void *data) {
    static char big[PAWL_VALUE_MAX];
    struct pawl__claim *claim = mutex_claim("name");
    struct pawl__engine *engine;
    int others, rc;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("pawl", data, "tmpfs", 0, "size=4m,mode=700") < 0)
        _exit(77);
    engine = engine_open(data);
    if (acquire(engine, claim, LONG) != PAWL__DONE || put(engine, claim, "old", LATE) < 0)
        _exit(1);
    fill_disk(data);
    memset(big, 'x', sizeof big - 1);
    rc = put(engine, claim, big, LATE);
    if (rc != PAWL_ENOSPACE || !strstr(error.text, "values/name-"))
        _exit(2);
    if (strcmp(get(engine, "name", &rc), "old") != 0)
        _exit(3);
    find_file(data, &others);
    _exit(others == 0 ? 0 : 4);
}

static void test_full_disk(void **data) {
    int status;

    need_root();
    status = reap(spawn(write_on_full_disk, *data));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("nothing can be mounted here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(int argc, char **argv) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_killed_while_it_writes),
        T(test_deposed_while_it_writes),
        T(test_files_that_are_damaged),
        T(test_files_of_others),
        T(test_values_are_taken_away),
        T(test_users_of_a_sticky_directory),
        T(test_users_of_a_group),
        T(test_values_that_may_not_be_written),
        T(test_no_room_for_a_value),
        T(test_full_disk),
        T(test_lock_is_taken_away_while_it_writes),
    };

    choose_tests(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
