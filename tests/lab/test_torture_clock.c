/* SPDX-License-Identifier: Apache-2.0
 *
 * test_torture_clock.c - clocks that lie (clock_shim.c): a process whose clocks are ahead still sleeps for as long as it means to.
 *
 * The test is its own victim: it runs itself again, with the library before the C library, and that one waits for a condition. Were a
 * moment of a clock that is ahead taken for one of the kernel's, it would wait for as long as the clock is ahead: for a day.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/servers/clock.h"
#include "../support/test.h"

#define AHEAD_NS (INT64_C(86400) * 1000000000)
enum { SLEEP_MS = 20, PATIENCE_S = 60, TOO_EARLY = 1, TOLD_THE_TRUTH = 2, WORKED = 0 };

static int64_t truth(clockid_t clock) {
    struct timespec now;

    syscall(SYS_clock_gettime, clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct timespec soon(clockid_t clock) {
    struct timespec until;

    clock_gettime(clock, &until);
    until.tv_nsec += SLEEP_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

/* The victim: wait for what never comes, by a condition of this clock. */
static int wait_for_nothing(clockid_t clock, bool by_name) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t attributes;
    pthread_cond_t never;
    int64_t began = truth(CLOCK_MONOTONIC);
    struct timespec until = soon(clock);
    int rc = 0;

    if ((int64_t)until.tv_sec * 1000000000 < truth(clock) + AHEAD_NS / 2)
        return TOLD_THE_TRUTH;
    alarm(PATIENCE_S);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&never, &attributes);
    pthread_mutex_lock(&mutex);
    while (rc == 0)
        rc = by_name ? pthread_cond_clockwait(&never, &mutex, clock, &until) : pthread_cond_timedwait(&never, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    return truth(CLOCK_MONOTONIC) - began < SLEEP_MS * 1000000 ? TOO_EARLY : WORKED;
}

static int victim(const char *how) {
    return wait_for_nothing(how[0] == 'r' ? CLOCK_REALTIME : CLOCK_MONOTONIC, how[1] == 'n');
}

static void assert_sleeps(const char *how) {
    struct clock_page *page = clock_new();
    char shim[4096];
    int status;

    assert_non_null(page);
    atomic_store(&page->gained_ns, AHEAD_NS);
    snprintf(shim, sizeof shim, "%s/tests/libclock_shim.so", getenv("BUILD_DIR"));
    pid_t pid = fork();

    if (pid == 0) {
        clock_lie(shim, page->fd);
        execl("/proc/self/exe", "test_torture_clock", how, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    clock_free(page);
    if (WIFSIGNALED(status))
        fail_msg("%s: ended by signal %d: it slept for as long as its clock is ahead", how, WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), WORKED);
}

static void test_sleep_with_clocks_ahead(void **state) {
    (void)state;
    assert_sleeps("m");
    assert_sleeps("mn");
    assert_sleeps("r");
    assert_sleeps("rn");
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sleep_with_clocks_ahead),
    };

    if (argc > 1)
        return victim(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
