/* SPDX-License-Identifier: Apache-2.0
 *
 * raw_local.c - what the kernel's own means cost: a futex thrown between two processes, and flock(2) on a file that stays open.
 *
 * Half of there and back is one throw: the least that handing anything to another process can cost.
 */
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"

struct local {
    _Atomic uint32_t *ball; /* 1: it is with the other process */
    pid_t bat;
    int file;
};

static void throw(_Atomic uint32_t *ball, uint32_t to) {
    atomic_store(ball, to);
    syscall(SYS_futex, ball, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void await(_Atomic uint32_t *ball, uint32_t here) {
    while (atomic_load(ball) != here)
        syscall(SYS_futex, ball, FUTEX_WAIT, 1 - here, NULL, NULL, 0);
}

static void bat(_Atomic uint32_t *ball) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        await(ball, 1);
        throw(ball, 0);
    }
}

static void *local_open(const struct address *address, const char *id, char *why, size_t size) {
    struct local *local = calloc(1, sizeof *local);
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)address;
    (void)id;
    if (local == NULL || memory == MAP_FAILED) {
        snprintf(why, size, "out of memory");
        free(local);
        return NULL;
    }
    local->ball = memory;
    local->file = memfd_create("pawl-bench", MFD_CLOEXEC);
    return local;
}

static void local_close(void *connection) {
    struct local *local = connection;

    if (local->bat > 0) {
        kill(local->bat, SIGKILL);
        waitpid(local->bat, NULL, 0);
    }
    close(local->file);
    munmap((void *)local->ball, 4096);
    free(local);
}

/* There and back. The other process is started when it is first needed. */
static int64_t throw_once(struct local *local) {
    if (local->bat == 0) {
        local->bat = fork();
        if (local->bat == 0)
            bat(local->ball);
    }
    if (local->bat < 0)
        return -1;
    int64_t begin = bench_now_ns();
    throw(local->ball, 1);
    await(local->ball, 0);
    return (bench_now_ns() - begin) / 2;
}

static int64_t local_act(void *connection, enum raw_act act) {
    struct local *local = connection;

    if (act == RAW_TRIP)
        return throw_once(local);
    int64_t begin = bench_now_ns();
    if (flock(local->file, LOCK_EX) < 0 || flock(local->file, LOCK_UN) < 0)
        return -1;
    return bench_now_ns() - begin;
}

static double local_requests(void *connection) {
    (void)connection;
    return -1;
}

static void local_describe(void *connection, char *out, size_t size) {
    (void)connection;
    snprintf(out, size, "%s", "");
}

/* An idle lock leaves nothing there. */
static bool local_clean(void *connection) {
    (void)connection;
    return true;
}

const struct raw_impl raw_local = {
    .schemes = {"local"},
    .names = {"a futex throw", "flock(2)", NULL},
    .open = local_open,
    .close = local_close,
    .act = local_act,
    .requests = local_requests,
    .describe = local_describe,
    .clean = local_clean,
};
