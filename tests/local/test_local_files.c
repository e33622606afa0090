/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_files.c - the directory among several users: who may, who is kept out, and who must not be led astray.
 */
#include <grp.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "../support/local_harness.h"
#include "../support/test.h"

enum { ALICE = 64001, BOB = 64002, TEAM = 64100 };

static const char *in(const char *directory, const char *name) {
    static char path[2 * PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void need_root(void) {
    if (geteuid() == 0)
        return;
    print_message("needs root\n");
    skip();
}

/* What one user does in a process of its own. */
struct visit {
    const char *directory;
    uid_t uid;
    struct board *board; /* 0: the token it got */
};

static void become(uid_t uid) {
    umask(077);
    if (setgroups(0, NULL) < 0 || setgid(TEAM) < 0 || setuid(uid) < 0)
        _exit(98);
}

static void open_and_take(void *data) {
    struct visit *visit = data;
    struct pawl__claim *claim = mutex_claim("name");
    struct pawl__engine *engine;

    become(visit->uid);
    engine = engine_open(visit->directory);
    if (acquire(engine, claim, LONG) != PAWL__DONE)
        _exit(97);
    if (visit->board)
        atomic_store(&visit->board->words[0], (int64_t)claim->token);
    release(engine, claim);
    engine_close(engine);
}

/* False: it could not lock there. */
static bool can_lock(const char *directory, uid_t uid, struct board *board) {
    struct visit visit = {directory, uid, board};
    int status = reap(spawn(open_and_take, &visit));

    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* As after a reboot: the table is of another boot, with nobody there. */
static void pretend_reboot(const char *directory) {
    int fd = open(in(directory, "table"), O_RDWR);

    assert_int_equal(pwrite(fd, "another boot", 12, offsetof(struct header, boot_id)), 12);
    close(fd);
}

/* ---- Boots ---- */

/* The first process after a boot makes the table anew, also one of another user's; in a sticky directory, too. */
static void check_boots(const char *directory, mode_t mode) {
    struct board *board = board_new();
    int64_t last = 0;

    assert_int_equal(chown(directory, 0, TEAM), 0);
    assert_int_equal(chmod(directory, mode), 0);
    for (int boot = 0; boot < 4; boot++) {
        assert_true(can_lock(directory, boot % 2 ? BOB : ALICE, board));
        assert_true(atomic_load(&board->words[0]) > last);
        last = atomic_load(&board->words[0]);
        pretend_reboot(directory);
    }
    board_free(board);
}

static void test_boots_of_several_users_sticky(void **data) {
    need_root();
    check_boots(*data, 01777);
}

static void test_boots_of_several_users_group(void **data) {
    need_root();
    check_boots(*data, 02770);
}

/* ---- Killed while it makes the files ---- */

static void open_traced(void *data) {
    struct visit *visit = data;

    become(visit->uid);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(96);
    raise(SIGSTOP);
    engine_close(engine_open(visit->directory));
}

/* Let it make so many system calls (each stops it twice), then kill it. 1: it had ended before; 0: killed; -1: no ptrace here. */
static int kill_after(const char *directory, int stops) {
    struct visit visit = {directory, ALICE, NULL};
    pid_t pid = spawn(open_traced, &visit);
    int status;

    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return -1;
    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD));
    for (int i = 0; i < stops; i++) {
        ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
        if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
            return 1;
    }
    kill_and_reap(pid);
    return 0;
}

static void test_killed_while_it_makes_the_files(void **data) {
    char directory[PATH_MAX];
    int ended = 0;

    need_root();
    assert_int_equal(chmod(*data, 0755), 0);
    for (int stops = 1; ended == 0 && stops < 2000; stops++) {
        snprintf(directory, sizeof directory, "%s/%d", (const char *)*data, stops);
        assert_int_equal(mkdir(directory, 0700), 0);
        assert_int_equal(chown(directory, 0, TEAM), 0);
        assert_int_equal(chmod(directory, 02770), 0);
        ended = kill_after(directory, stops);
        if (ended < 0) {
            print_message("no ptrace here\n");
            skip();
        }
        if (!can_lock(directory, BOB, NULL))
            fail_msg("killed at stop %d, it has locked the others of its group out", stops);
        directory_remove(directory);
    }
    assert_int_equal(ended, 1);
}

/* ---- Traps that a user lays in a directory of its own, for root ---- */

static void write_file(const char *path, const char *text, mode_t mode) {
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static const char PRECIOUS[] = "root:x:0:0\n";

/* Nothing about it has changed. */
static void assert_untouched(const char *path) {
    char text[64] = "";
    struct stat status;
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof text - 1), strlen(PRECIOUS));
    close(fd);
    assert_string_equal(text, PRECIOUS);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    assert_int_equal(status.st_uid, 0);
}

/* A user's directory, and beside it a file of root's. */
static const char *lay_trap(const char *directory, char precious[PATH_MAX]) {
    static char trap[PATH_MAX];

    need_root();
    snprintf(precious, PATH_MAX, "%s/precious", directory);
    snprintf(trap, sizeof trap, "%s/trap", directory);
    write_file(precious, PRECIOUS, 0640);
    assert_int_equal(mkdir(trap, 0700), 0);
    assert_int_equal(chown(trap, ALICE, TEAM), 0);
    return trap;
}

static void test_link_to_the_tokens(void **data) {
    char precious[PATH_MAX];
    const char *trap = lay_trap(*data, precious);
    struct pawl__engine *engine = NULL;
    struct pawl_error error = {0};

    assert_int_equal(link(precious, in(trap, "token.hi.new")), 0);
    if (try_open(trap, &engine, &error) == 0)
        engine_close(engine);
    assert_untouched(precious);
    directory_remove(trap);
    assert_int_equal(mkdir(trap, 0700), 0);
    assert_int_equal(chown(trap, ALICE, TEAM), 0);
    assert_int_equal(link(precious, in(trap, "token.hi")), 0);
    assert_int_equal(try_open(trap, &engine, &error), PAWL_EFORMAT);
    assert_untouched(precious);
}

static void test_link_to_the_table(void **data) {
    char precious[PATH_MAX], tokens[PATH_MAX];
    const char *trap = lay_trap(*data, precious);
    struct pawl__engine *engine = engine_open(trap);
    struct pawl_error error = {0};

    engine_close(engine); /* token.hi is good: all that is wrong is the table */
    snprintf(tokens, sizeof tokens, "%s/table", trap);
    assert_int_equal(unlink(tokens), 0);
    assert_int_equal(link(precious, tokens), 0);
    assert_int_equal(try_open(trap, &engine, &error), PAWL_EFORMAT);
    assert_contains(error.text, trap);
    assert_untouched(precious);
}

/* A file that happens to be called `table` stays as it is, in mode, too. */
static void test_foreign_table(void **data) {
    struct pawl__engine *engine = NULL;
    struct pawl_error error = {0};
    struct stat status;

    assert_int_equal(chmod(*data, 0750), 0);
    write_file(in(*data, "table"), "name,price\napple,3\n", 0604);
    assert_int_equal(try_open(*data, &engine, &error), PAWL_EFORMAT);
    assert_int_equal(stat(in(*data, "table"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0604);
    assert_int_equal(status.st_size, 19);
}

static void test_links_among_the_sessions(void **data) {
    char precious[PATH_MAX], fifo[PATH_MAX];
    const char *trap = lay_trap(*data, precious);
    struct pawl__engine *engine = engine_open(trap);
    struct stat status;

    snprintf(fifo, sizeof fifo, "%s/fifo", (const char *)*data);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    for (int i = 1; i < 4; i++) {
        char name[32];

        snprintf(name, sizeof name, "s/%05d", i);
        assert_int_equal(link(fifo, in(trap, name)), 0);
        snprintf(name, sizeof name, "s/%05d.0", i);
        assert_int_equal(link(precious, in(trap, name)), 0);
        pawl__local_channel_poke(local_of(engine), (uint32_t)i, 0);
    }
    engine_close(engine_open(trap));
    assert_untouched(precious);
    assert_int_equal(stat(fifo, &status), 0);
    assert_int_equal(status.st_uid, 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    engine_close(engine);
}

/* ---- What the process brings along ---- */

static void open_without_stdio(void *data) {
    struct pawl__engine *engine;
    struct pawl__claim *held = mutex_claim("name"), *waits = mutex_claim("name");

    for (int fd = 0; fd < 3; fd++)
        close(fd);
    engine = engine_open(data);
    if (acquire(engine, held, 0) != PAWL__DONE || acquire(engine, waits, 20 * MS) != PAWL__PENDING)
        _exit(1);
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            _exit(10 + fd);
}

static void test_stdio_is_closed(void **data) {
    int status = reap(spawn(open_without_stdio, *data));

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

struct limited {
    const char *directory;
    rlim_t limit;
    int wanted;
};

static void open_limited(void *data) {
    struct limited *limited = data;
    struct pawl__engine *engine;
    struct pawl_error error = {0};
    int rc;

    setrlimit(RLIMIT_FSIZE, &(struct rlimit){limited->limit, limited->limit});
    rc = try_open(limited->directory, &engine, &error);
    if (rc == 0) /* beyond the ceiling */
        rc = pawl__local_tokens_extend(local_of(engine), pawl__boottime() + LONG, &error);
    _exit(rc == limited->wanted && (rc == 0 || strstr(error.text, "ulimit -f")) ? 0 : 1);
}

/* SIGXFSZ would end the application. */
static void test_limit_of_file_sizes(void **data) {
    struct limited none = {*data, 0, PAWL_ENOSPACE}, small = {*data, 1 << 20, PAWL_ENOSPACE}, enough = {*data, 1 << 20, 0};

    assert_int_equal(reap(spawn(open_limited, &none)), 0);
    assert_int_equal(reap(spawn(open_limited, &small)), 0);
    engine_close(engine_open(*data)); /* now it is there */
    assert_int_equal(reap(spawn(open_limited, &none)), 0);
    assert_int_equal(reap(spawn(open_limited, &enough)), 0);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_boots_of_several_users_sticky),
        T(test_boots_of_several_users_group),
        T(test_killed_while_it_makes_the_files),
        T(test_link_to_the_tokens),
        T(test_link_to_the_table),
        T(test_foreign_table),
        T(test_links_among_the_sessions),
        T(test_stdio_is_closed),
        T(test_limit_of_file_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
