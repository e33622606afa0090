/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - descriptors, for the code in the world: eventfd, timerfd, epoll, and how threads wait for them.
 *
 * Who waits looks at its descriptors, and blocks until any descriptor of its process may have changed; then it looks again.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "internal.h"
#include "names.h"

enum { FIRST_FD = 3, SINK_FD = 1 << 20, LOOKS_ONE_IN = 2 };

static void (*sink)(const void *bytes, size_t size);

int world_sink(void (*take)(const void *bytes, size_t size)) {
    sink = take;
    return SINK_FD;
}

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

static struct file *any_file(int fd) {
    struct process *process = world.current->process;

    return fd >= FIRST_FD && fd < process->file_room ? process->files[fd] : NULL;
}

struct file *file_of(int fd, enum file_kind kind) {
    struct file *file = any_file(fd);

    if (file != NULL && file->kind == kind)
        return file;
    errno = file == NULL ? EBADF : ENOTSOCK;
    return NULL;
}

int file_add(enum file_kind kind, bool nonblocking) {
    struct file *file = calloc(1, sizeof *file);

    *file = (struct file){.kind = kind, .nonblocking = nonblocking, .process = world.current->process, .expires = WORLD_NEVER};
    return file_place(file);
}

int file_place(struct file *file) {
    struct process *process = file->process;
    int fd = FIRST_FD;

    while (fd < process->file_room && process->files[fd] != NULL)
        fd++;
    if (fd >= process->file_room) {
        int room = fd + 16;

        process->files = realloc(process->files, (size_t)room * sizeof process->files[0]);
        memset(process->files + process->file_room, 0, (size_t)(room - process->file_room) * sizeof process->files[0]);
        process->file_room = room;
    }
    process->files[fd] = file;
    return fd;
}

static void file_free(struct file *file) {
    if (file->kind == FILE_SOCKET)
        socket_close(file);
    free(file->watches);
    free(file->in);
    free(file);
}

void files_close_all(struct process *process) {
    for (int fd = 0; fd < process->file_room; fd++)
        if (process->files[fd] != NULL)
            file_free(process->files[fd]);
    free(process->files);
    process->files = NULL;
    process->file_room = 0;
}

static void unwatch(struct file *epoll, int fd) {
    for (size_t i = 0; i < epoll->watch_count; i++)
        if (epoll->watches[i].fd == fd)
            epoll->watches[i--] = epoll->watches[--epoll->watch_count];
}

int sim_close(int fd) {
    struct process *process = world.current->process;
    struct file *file = any_file(fd);

    world_charge();
    if (file == NULL)
        process_die(-6, "descriptor %d is closed, and is not open", fd);
    for (int i = 0; i < process->file_room; i++)
        if (process->files[i] != NULL && process->files[i]->kind == FILE_EPOLL)
            unwatch(process->files[i], fd);
    process->files[fd] = NULL;
    file_free(file);
    return 0;
}

int sim_fcntl64(int fd, int command, ...) __attribute__((alias("sim_fcntl")));

int sim_fcntl(int fd, int command, ...) {
    struct file *file = any_file(fd);
    va_list arguments;
    long value;

    va_start(arguments, command);
    value = command == F_SETFL ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if (file == NULL) {
        errno = EBADF;
        return -1;
    }
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) { /* numbers begin at 3 here: nobody needs to keep away from 0 to 2 */
        errno = EMFILE;
        return -1;
    }
    if (command == F_GETFL)
        return O_RDWR | (file->nonblocking ? O_NONBLOCK : 0);
    if (command == F_SETFL)
        file->nonblocking = value & O_NONBLOCK;
    return 0;
}

/* ---- Events and timers ---------------------------------------------------------------------------------------------------- */

int sim_eventfd(unsigned count, int flags) {
    int fd = file_add(FILE_EVENT, flags & EFD_NONBLOCK);

    any_file(fd)->count = count;
    return fd;
}

int sim_timerfd_create(int clock, int flags) {
    (void)clock;
    return file_add(FILE_TIMER, flags & TFD_NONBLOCK);
}

int sim_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *before) {
    struct file *file = file_of(fd, FILE_TIMER);
    int64_t value = at->it_value.tv_sec * WORLD_SECOND + at->it_value.tv_nsec;

    (void)before;
    if (file == NULL)
        return -1;
    file->expires = value == 0 ? WORLD_NEVER : flags & TFD_TIMER_ABSTIME ? value : process_clock(file->process) + value;
    world_notify(file->process);
    return 0;
}

static bool has_expired(const struct file *file) {
    return file->expires <= process_clock(file->process);
}

ssize_t sim_read(int fd, void *to, size_t size) {
    struct file *file = any_file(fd);
    uint64_t value;

    world_charge();
    if (file == NULL || file->kind == FILE_EPOLL) {
        errno = EBADF;
        return -1;
    }
    if (file->kind == FILE_SOCKET)
        return sim_recv(fd, to, size, 0);
    value = file->kind == FILE_EVENT ? file->count : has_expired(file);
    if (value == 0) {
        errno = EAGAIN; /* nobody here reads one that could block */
        return -1;
    }
    file->count = 0;
    if (file->kind == FILE_TIMER)
        file->expires = WORLD_NEVER;
    memcpy(to, &value, sizeof value);
    return sizeof value;
}

ssize_t sim_write(int fd, const void *from, size_t size) {
    struct file *file;
    uint64_t value;

    if (fd == SINK_FD) {
        sink(from, size);
        return (ssize_t)size;
    }
    if (fd == 1 || fd == 2)
        return (ssize_t)fwrite(from, 1, size, sim_stderr);
    world_charge();
    file = any_file(fd);
    if (file != NULL && file->kind == FILE_SOCKET)
        return sim_send(fd, from, size, 0);
    if (file == NULL || file->kind != FILE_EVENT) {
        errno = EBADF;
        return -1;
    }
    memcpy(&value, from, sizeof value);
    file->count += value;
    world_notify(file->process);
    world_may_switch();
    return sizeof value;
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------------- */

static short file_events(const struct file *file);

static bool watch_ready(const struct process *process, const struct watch *watch, uint32_t *ret) {
    const struct file *file = process->files[watch->fd];

    *ret = (uint32_t)file_events(file) & (watch->events | EPOLLERR | EPOLLHUP);
    return *ret != 0;
}

static short file_events(const struct file *file) {
    uint32_t events;

    switch (file->kind) {
    case FILE_EVENT:
        return (short)(POLLOUT | (file->count > 0 ? POLLIN : 0));
    case FILE_TIMER:
        return has_expired(file) ? POLLIN : 0;
    case FILE_SOCKET:
        return (short)socket_ready(file);
    case FILE_EPOLL:
        for (size_t i = 0; i < file->watch_count; i++)
            if (watch_ready(file->process, &file->watches[i], &events))
                return POLLIN;
        return 0;
    }
    return 0;
}

/* When a descriptor becomes ready by the clock alone. */
static int64_t file_expires(const struct file *file) {
    int64_t expires = file->expires;

    for (size_t i = 0; i < file->watch_count; i++) {
        int64_t one = file_expires(file->process->files[file->watches[i].fd]);

        expires = one < expires ? one : expires;
    }
    return expires;
}

static int64_t deadline_in(int64_t ns) {
    return ns < 0 ? WORLD_NEVER : process_clock(world.current->process) + ns;
}

static int look(struct pollfd *fds, nfds_t count, int64_t *expires) {
    int ready = 0;

    for (nfds_t i = 0; i < count; i++) {
        const struct file *file = fds[i].fd < 0 ? NULL : any_file(fds[i].fd);

        fds[i].revents = 0;
        if (fds[i].fd < 0)
            continue;
        if (file == NULL) {
            fds[i].revents = POLLNVAL;
        } else {
            int64_t one = file_expires(file);

            fds[i].revents = file_events(file) & (short)(fds[i].events | POLLERR | POLLHUP);
            *expires = one < *expires ? one : *expires;
        }
        ready += fds[i].revents != 0;
    }
    return ready;
}

static int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline) {
    bool first = true;

    world_charge();
    for (;;) {
        int64_t expires = WORLD_NEVER;
        int ready = look(fds, count, &expires);

        if (ready > 0) {
            world_looked(false);
            return ready;
        }
        if (process_clock(world.current->process) >= deadline) {
            if (first && count > 0)
                world_looked(true);
            /* Who looks again and again leaves a CPU to others. */
            if (first && dice_one_in(&world.schedule, LOOKS_ONE_IN))
                world_yield();
            return 0;
        }
        first = false;
        world_block(NULL, count > 0, expires < deadline ? expires : deadline);
        world_charge();
        if (world.current->interrupted) {
            errno = EINTR;
            return -1;
        }
    }
}

int sim_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    return poll_until(fds, count, deadline_in(timeout_ms < 0 ? -1 : timeout_ms * WORLD_MS));
}

int sim_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    (void)mask;
    return poll_until(fds, count, deadline_in(timeout == NULL ? -1 : timeout->tv_sec * WORLD_SECOND + timeout->tv_nsec));
}

/* ---- epoll ---------------------------------------------------------------------------------------------------------------- */

int sim_epoll_create1(int flags) {
    (void)flags;
    return file_add(FILE_EPOLL, false);
}

int sim_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event) {
    struct file *epoll = file_of(epoll_fd, FILE_EPOLL);

    world_charge();
    if (epoll == NULL || any_file(fd) == NULL)
        process_die(-6, "epoll_ctl of a descriptor that is not open");
    unwatch(epoll, fd);
    if (operation != EPOLL_CTL_DEL) {
        if (epoll->watch_count == epoll->watch_room) {
            epoll->watch_room += 8;
            epoll->watches = realloc(epoll->watches, epoll->watch_room * sizeof epoll->watches[0]);
        }
        epoll->watches[epoll->watch_count++] = (struct watch){.fd = fd, .events = event->events, .data = event->data.u64};
    }
    world_notify(epoll->process);
    return 0;
}

int sim_epoll_wait(int epoll_fd, struct epoll_event *events, int most, int timeout_ms) {
    int64_t deadline = deadline_in(timeout_ms < 0 ? -1 : timeout_ms * WORLD_MS);
    struct file *epoll = file_of(epoll_fd, FILE_EPOLL);
    bool first = true;

    world_charge();
    if (epoll == NULL)
        return -1;
    for (;;) {
        int64_t expires = file_expires(epoll);
        int ready = 0;

        for (size_t i = 0; i < epoll->watch_count && ready < most; i++) {
            uint32_t seen;

            if (watch_ready(epoll->process, &epoll->watches[i], &seen)) {
                events[ready].events = seen;
                events[ready++].data.u64 = epoll->watches[i].data;
            }
        }
        if (ready > 0 || process_clock(epoll->process) >= deadline) {
            if (ready > 0 || first)
                world_looked(ready == 0);
            return ready;
        }
        first = false;
        world_block(NULL, true, expires < deadline ? expires : deadline);
        world_charge();
    }
}
