/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_shim.c - a library to be preloaded into a client or a server whose clocks shall be wrong (`pawl torture`): it stands before
 * clock_gettime, gettimeofday and time, and reads how wrong from memory that it shares with the rig ($PAWL_CLOCK_FD; clock.h there).
 *
 * A thread that waits until a moment reads it off the clock that we show, and the kernel compares it with its own: so it stands before
 * the waits for conditions as well. Else a sleeper whose clock is ahead would sleep longer by as much, each time: all of Java's
 * timed waits.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/servers/clock.h"

static struct clock_page *page;

__attribute__((constructor)) static void map_page(void) {
    const char *number = getenv("PAWL_CLOCK_FD");
    void *memory;

    if (number == NULL)
        return;
    memory = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(number), 0);
    if (memory != MAP_FAILED)
        page = memory;
}

static int64_t ask(clockid_t clock) {
    struct timespec now;

    syscall(SYS_clock_gettime, clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_distorted(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC ||
           clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
}

/* How far all clocks are ahead. Between two changes that belong together it would be too much, and the clock would go back afterwards. */
static int64_t ahead(int64_t *ret_since) {
    int64_t gained;
    uint32_t turn;

    do {
        while ((turn = atomic_load(&page->turn)) % 2 != 0)
            sched_yield();
        *ret_since = atomic_load(&page->fast_since_ns);
        gained = atomic_load(&page->gained_ns) + (*ret_since != 0 ? ask(CLOCK_MONOTONIC) - *ret_since : 0);
    } while (atomic_load(&page->turn) != turn);
    return gained;
}

/* What the clock shows. */
static int64_t show(clockid_t clock) {
    int64_t truth = ask(clock), since, wrong;

    if (page == NULL || !is_distorted(clock))
        return truth;
    wrong = ahead(&since);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        wrong += atomic_load(&page->wall_offset_ns);
    if (since != 0 || atomic_load(&page->wall_offset_ns) != 0)
        atomic_fetch_add(&page->reads, 1);
    return truth + wrong;
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
    int64_t shown = show(clock);

    ret->tv_sec = (time_t)(shown / 1000000000);
    ret->tv_nsec = (long)(shown % 1000000000);
    return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone) {
    int64_t shown = show(CLOCK_REALTIME);

    (void)zone;
    ret->tv_sec = (time_t)(shown / 1000000000);
    ret->tv_usec = (suseconds_t)(shown % 1000000000 / 1000);
    return 0;
}

time_t time(time_t *ret) {
    time_t shown = (time_t)(show(CLOCK_REALTIME) / 1000000000);

    if (ret != NULL)
        *ret = shown;
    return shown;
}

/* ---- Waits ---------------------------------------------------------------------------------------------------------------- */

/* A moment of the clock that we show, as the kernel's. */
static struct timespec translated(clockid_t clock, const struct timespec *moment) {
    int64_t left = (int64_t)moment->tv_sec * 1000000000 + moment->tv_nsec - show(clock);
    bool fast = page != NULL && atomic_load(&page->fast_since_ns) != 0;
    int64_t until = ask(clock) + (fast && left > 0 ? left / 2 : left);

    until = until > 0 ? until : 0;
    return (struct timespec){.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
}

/* A condition does not tell its clock, but the moment does: since when a machine runs, or since 1970. */
static clockid_t clock_of(const struct timespec *moment) {
    return moment->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

static void *next(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);

    if (function == NULL)
        abort();
    return function;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, const struct timespec *restrict moment) {
    static _Atomic(void *) known;
    int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec until = translated(clock_of(moment), moment);

    if (atomic_load(&known) == NULL)
        atomic_store(&known, next("pthread_cond_timedwait"));
    *(void **)&wait = atomic_load(&known);
    return wait(cond, mutex, &until);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict moment) {
    static _Atomic(void *) known;
    int (*wait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    struct timespec until = translated(clock, moment);

    if (atomic_load(&known) == NULL)
        atomic_store(&known, next("pthread_cond_clockwait"));
    *(void **)&wait = atomic_load(&known);
    return wait(cond, mutex, clock, &until);
}
