/* SPDX-License-Identifier: Apache-2.0
 *
 * descriptor.h - descriptors of the library's own are 3 or higher.
 *
 * 0, 1 and 2 are stdio's, also where the application has closed them: else the next file that we open would be its standard output, and
 * what it prints would end up there.
 */
#ifndef PAWL_DESCRIPTOR_H
#define PAWL_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What open() and the like have returned, moved up if need be. -1 with errno. */
static inline int above_stdio(int fd) {
    int flags, moved, error;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    flags = fcntl(fd, F_GETFD);
    moved = fcntl(fd, flags & FD_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, STDERR_FILENO + 1);
    error = errno;
    close(fd);
    errno = error;
    return moved;
}

/* For a library that opens descriptors itself and keeps them: what is free of 0, 1 and 2 is taken while it does, by copies of this one.
 * Returns a mask of them, for unplug_stdio(). */
static inline unsigned plug_stdio(int fd) {
    unsigned mask = 0;
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

    while (copy >= 0 && copy <= STDERR_FILENO) {
        mask |= 1u << copy;
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    if (copy >= 0)
        close(copy);
    return mask;
}

static inline void unplug_stdio(unsigned mask) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (mask & 1u << fd)
            close(fd);
}

#endif
