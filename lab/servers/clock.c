/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c - see clock.h.
 *
 * A clock that ran fast stays ahead when it runs as it should again: a monotonic clock never goes back.
 */
#include "clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int64_t monotonic_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct clock_page *clock_new(void) {
    int fd = memfd_create("pawl-clock", MFD_CLOEXEC);
    struct clock_page *page;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, sizeof *page) < 0 ||
        (page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    page->fd = fd;
    return page;
}

void clock_free(struct clock_page *page) {
    if (page == NULL)
        return;
    close(page->fd);
    munmap(page, sizeof *page);
}

void clock_lie(const char *shim, int fd) {
    char number[16];

    snprintf(number, sizeof number, "%d", fd);
    fcntl(fd, F_SETFD, 0);
    setenv("PAWL_CLOCK_FD", number, 1);
    setenv("LD_PRELOAD", shim, 1);
}

void clock_distort(struct clock_page *page, bool fast, uint64_t target) {
    atomic_store(&page->reads, 0);
    if (fast)
        atomic_store(&page->fast_since_ns, monotonic_ns());
    else
        atomic_fetch_add(&page->wall_offset_ns, (INT64_C(60) + (int64_t)(target % 7200)) * 1000000000);
}

unsigned clock_straighten(struct clock_page *page, bool ahead) {
    int64_t since = atomic_load(&page->fast_since_ns);
    uint64_t reads = atomic_load(&page->reads);

    if (since != 0) {
        atomic_fetch_add(&page->turn, 1);
        atomic_fetch_add(&page->gained_ns, monotonic_ns() - since);
        atomic_store(&page->fast_since_ns, 0);
        atomic_fetch_add(&page->turn, 1);
    }
    if (!ahead)
        atomic_store(&page->wall_offset_ns, 0);
    return reads < 1000 ? (unsigned)reads : 1000;
}
