/* SPDX-License-Identifier: Apache-2.0
 *
 * sleep.c - see sleep.h.
 */
#include "os/sleep.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>

#include "os/clock.h"

#define NS_PER_S INT64_C(1000000000)
#define NAP_NS (60 * NS_PER_S)
enum { MISSES_MAX = 10, PAUSES = 10 };

static bool have_several_cpus(void) {
    cpu_set_t set;

    /* It fails where there are more than the set holds. */
    return sched_getaffinity(0, sizeof set, &set) < 0 || CPU_COUNT(&set) > 1;
}

void pawl__spin_init(struct spin *spin, int64_t span_ns) {
    *spin = (struct spin){.span_ns = have_several_cpus() ? span_ns : 0};
}

int64_t pawl__nap_ns(int64_t now, int64_t until) {
    return until <= now ? 0 : until - now < NAP_NS ? until - now : NAP_NS;
}

static int nap(struct pollfd *fds, nfds_t count, int64_t ns) {
    struct timespec timeout = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};

    return ppoll(fds, count, &timeout, NULL);
}

static void learn(struct spin *spin, bool came) {
    if (came) {
        spin->misses -= spin->misses > 0;
        return;
    }
    spin->misses += spin->misses < MISSES_MAX;
    spin->skips_left = 1u << spin->misses;
}

/* Look for it, if that is likely to help. Has anything come? */
static bool look(struct spin *spin, struct pollfd *fds, nfds_t count, int64_t until) {
    int64_t now = pawl__boottime();
    bool came;

    if (!spin->span_ns || until <= now)
        return false;
    if (spin->skips_left) {
        spin->skips_left--;
        return false;
    }
    until = until - now < spin->span_ns ? until : now + spin->span_ns;
    while (!(came = nap(fds, count, 0) > 0) && pawl__boottime() < until)
        for (int i = 0; i < PAUSES; i++)
            SPIN_PAUSE();
    learn(spin, came);
    return came;
}

int pawl__sleep(struct pollfd *fds, nfds_t count, int64_t until, struct spin *spin) {
    int came = spin && look(spin, fds, count, until) ? 1 : nap(fds, count, pawl__nap_ns(pawl__boottime(), until));

    for (nfds_t i = 0; i < count && came <= 0; i++)
        fds[i].revents = 0;
    return came < 0 && errno != EINTR ? 0 : came;
}

int pawl__sleep_epoll(int epoll_fd, struct epoll_event *events, int most, int64_t until) {
    int64_t ns = pawl__nap_ns(pawl__boottime(), until);

    return epoll_wait(epoll_fd, events, most, (int)((ns + PAWL__NS_PER_MS - 1) / PAWL__NS_PER_MS));
}
