/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - looking at the directory without taking part in it: PAWL_OPEN_LOOK.
 *
 * Who only looks has no session, makes no file, writes to none, and needs no more than the permission to read. It has no map of the table
 * either, since the table may be made anew, and so shorter for a moment, by the next that is alone with it; but a copy in memory of its
 * own, read anew for each look. The rest of the engine finds the copy where the table would be.
 *
 * A copy is read while others change what is read. So what was read is read again, until the buckets are what they were before their nodes
 * were read; or, where much is going on, some times and then no more: each node is something that was there.
 *
 * The dead are left where they are, and not told of. The waiter that they keep from the lock cleans up after them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "base/error.h"

enum { TRIES = 5 };

/* Find them anew for each look: what was there may have been removed, and what was not may have come into being. */
static int open_files(struct local *local, struct pawl_error *reterr) {
    int rc;

    pawl__local_close_fd(&local->table_fd);
    pawl__local_close_fd(&local->sessions_fd);
    pawl__local_close_fd(&local->directory_fd);
    rc = pawl__local_open_directory(local, reterr);
    if (rc < 0 || local->directory_fd < 0)
        return rc;
    local->table_fd = pawl__local_open(local->directory_fd, "table", O_RDONLY, S_IFREG);
    if (local->table_fd < 0 && errno != ENOENT)
        return pawl__fail_errno(reterr, "can't read %s/table", local->path);
    local->sessions_fd = pawl__local_open(local->directory_fd, "s", O_RDONLY | O_DIRECTORY, S_IFDIR);
    return 0;
}

/* A part of the file; what is not there is zeroes. False: it can't be read. */
static bool read_part(struct local *local, size_t offset, size_t length) {
    char *to = (char *)local->table + offset;

    while (length > 0) {
        ssize_t rc = pread(local->table_fd, to, length, (off_t)offset);

        if (rc < 0 && errno != EINTR)
            return false;
        if (rc == 0) {
            memset(to, 0, length);
            return true;
        }
        rc = rc < 0 ? 0 : rc;
        to += rc;
        offset += (size_t)rc;
        length -= (size_t)rc;
    }
    return true;
}

static bool read_all(struct local *local) {
    const struct header *header = &local->table->header;
    size_t sessions, nodes;

    if (!read_part(local, 0, offsetof(struct table, sessions)))
        return false;
    sessions = GET(header->session_high) < SESSION_COUNT ? GET(header->session_high) : SESSION_COUNT;
    nodes = BLOCK_NODES * (size_t)(GET(header->block_high) < BLOCK_COUNT ? GET(header->block_high) : BLOCK_COUNT);
    return read_part(local, offsetof(struct table, sessions), sessions * sizeof(struct session)) &&
           read_part(local, offsetof(struct table, nodes), nodes * sizeof(struct node));
}

/* Are the buckets still as they were read? */
static bool is_steady(struct local *local) {
    struct bucket now[64];
    const size_t begin = offsetof(struct table, buckets), step = sizeof now;
    bool steady = true;

    for (size_t i = 0; i < BUCKET_COUNT; i += sizeof now / sizeof now[0]) {
        struct bucket *then = &local->table->buckets[i];

        if (pread(local->table_fd, now, step, (off_t)(begin + i * sizeof now[0])) != (ssize_t)step)
            return true; /* it is being made anew: there is nothing to be seen */
        steady &= memcmp(now, then, step) == 0;
    }
    return steady;
}

/* Nothing: of another boot, or not yet made. */
static void forget(struct local *local) {
    madvise(local->table, sizeof(struct table), MADV_DONTNEED);
}

int pawl__local_look_again(struct local *local, struct pawl_error *reterr) {
    int rc = open_files(local, reterr);

    local->looking.absent = true;
    forget(local);
    if (rc < 0 || local->table_fd < 0)
        return rc;
    for (int i = 0; i < TRIES; i++) {
        if (!read_all(local))
            return pawl__fail_errno(reterr, "can't read %s/table", local->path);
        if (is_steady(local))
            break;
    }
    rc = pawl__local_judge(local, reterr);
    local->looking.absent = rc != PAWL__DONE;
    if (local->looking.absent)
        forget(local);
    return rc < 0 ? rc : 0;
}

int pawl__local_look_open(struct local *local, struct pawl_error *reterr) {
    void *map = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    local->table = map;
    local->slot = SESSION_COUNT; /* nobody's */
    return pawl__local_look_again(local, reterr);
}

bool pawl__local_stands_still(struct local *local, uint32_t bucket) {
    uint64_t guard = GET(local->table->buckets[bucket].guard) & ~GUARD_SLEEPERS, now = 0, owner;

    if (guard == 0)
        return false;
    pawl__pause(100 * MS);
    if (!local->look)
        now = atomic_load(&local->table->buckets[bucket].guard);
    else if (pread(local->table_fd, &now, sizeof now,
                   (off_t)(offsetof(struct table, buckets) + bucket * sizeof(struct bucket) + offsetof(struct bucket, guard))) < 0)
        return false;
    owner = pawl__local_guard_owner(local, bucket);
    if ((now & ~GUARD_SLEEPERS) != guard || owner == 0)
        return false;
    return !pawl__local_dead(local, owner) && !pawl__local_process_over(local, owner); /* else it is taken over */
}
