/* SPDX-License-Identifier: Apache-2.0
 *
 * sleep.h - sleeping until a moment of pawl__boottime(), or until something comes; and looking for it before.
 *
 * The timers of poll() and of futexes stand still while the machine is suspended, and our clock does not. So nobody sleeps for longer than
 * a minute in one go: who wakes looks at the clock, and sleeps again.
 *
 * A thread that sleeps for an answer is woken some time after it came: ten microseconds where a CPU is at hand, fifty and more where it
 * has to be fetched from idleness, as on virtual machines. An answer from near by takes less than that. So a waiting thread looks for
 * it first (it spins), for about as long as sleep would cost: in the worst case it spends twice what the better choice would have. Where
 * that did not help, because the server is far or busy, or the CPUs have other work, the next waits go to sleep at once: two of them, and
 * twice as many each time, up to a thousand; then it is tried again.
 */
#ifndef PAWL_SLEEP_H
#define PAWL_SLEEP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#define SPIN_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define SPIN_PAUSE() __asm__ volatile("yield")
#else
#define SPIN_PAUSE() __asm__ volatile("" ::: "memory")
#endif

/* What looking has brought so far. One thread at a time waits by it. */
struct spin {
    int64_t span_ns;     /* how long to look; 0: never */
    unsigned misses;     /* recent spins without success */
    unsigned skips_left; /* how many waits go to sleep at once, still */
};

/* For at most `span_ns`; never if there is but one CPU for us: the thread that is waited for could not run. */
void pawl__spin_init(struct spin *spin, int64_t span_ns);

/* How long to sleep at `now` for something that is due at `until`, which may be PAWL__NEVER, or over. */
int64_t pawl__nap_ns(int64_t now, int64_t until);

/* poll() until `until`, or earlier without a reason. What did not come has no revents. With `spin`, look first. As poll(): positive if
 * anything has come; negative: a signal ended it. */
int pawl__sleep(struct pollfd *fds, nfds_t count, int64_t until, struct spin *spin);

/* The same of epoll_wait(). */
struct epoll_event;
int pawl__sleep_epoll(int epoll_fd, struct epoll_event *events, int most, int64_t until);

#endif
