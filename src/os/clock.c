/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c - see clock.h.
 */
#include "os/clock.h"

#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>

#include "os/descriptor.h"

int64_t pawl__boottime(void) {
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * PAWL__NS_PER_S + now.tv_nsec;
}

/* The wall clock, and not the monotonic one: that one does not count the time of a suspend, and could show the same afterwards. */
int64_t pawl__tick(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * PAWL__NS_PER_S + now.tv_nsec;
}

int64_t pawl__wall_us(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void pawl__pause(int64_t ns) {
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

void pawl__wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until) {
    int64_t left = until - pawl__boottime();
    struct timespec moment;

    clock_gettime(CLOCK_MONOTONIC, &moment);
    left = (left > 0 ? left : 0) + moment.tv_nsec;
    moment.tv_sec += left / PAWL__NS_PER_S;
    moment.tv_nsec = left % PAWL__NS_PER_S;
    pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &moment);
}

int pawl__timer(void) {
    return above_stdio(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
}

void pawl__timer_set(int fd, int64_t when) {
    struct itimerspec at = {.it_value = {.tv_sec = when / PAWL__NS_PER_S, .tv_nsec = when % PAWL__NS_PER_S}};

    timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL);
}

bool pawl__random(void *buffer, size_t size) {
    return getrandom(buffer, size, 0) == (ssize_t)size;
}
