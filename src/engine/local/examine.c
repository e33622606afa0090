/* SPDX-License-Identifier: Apache-2.0
 *
 * examine.c - for `pawl doctor`: the directory that the locks are in, its file system, and how full the table is.
 *
 * File systems that several machines share are not found here: opening a client on one fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "os/descriptor.h"
#include "engine/examine.h"
#include "engine/local/local.h"
#include "base/error.h"

/* Less than this may be too little for the table to grow by. */
#define SPACE_LOW (UINT64_C(16) << 20)
enum { FILES_LOW = 256 };

static void examine_kind(struct local *local, struct pawl__exam *exam) {
    const struct filesystem *filesystem = pawl__local_filesystem(local->directory_fd);
    uint32_t type = filesystem ? filesystem->magic : 0;

    if (type == TMPFS_MAGIC)
        pawl__found(exam, PAWL_FINDING_UNKNOWN, "choose a directory on a disk, if anything remembers tokens over a reboot",
                    "%s is in memory (tmpfs): tokens begin at 1 again after a reboot", local->path);
    else if (type == OVERLAYFS_SUPER_MAGIC)
        pawl__found(exam, PAWL_FINDING_UNKNOWN,
                    "mount a volume there, if others are to share the locks, or to outlive the container",
                    "%s is inside a container (overlay): processes outside of it don't see it", local->path);
    else
        pawl__found(exam, PAWL_FINDING_GOOD, "", "%s is on %s, of this machine alone", local->path,
                    filesystem ? filesystem->name : "a local file system");
}

static void examine_permissions(struct local *local, struct pawl__exam *exam) {
    unsigned mode = local->modes.directory;

    if (mode & S_IWOTH && !(mode & S_ISVTX))
        pawl__found(exam, PAWL_FINDING_WARNING, "chmod o-w the directory; or chmod +t it, if all users are to lock there",
                    "every user may remove the table under the locks that are held (mode %04o)", mode);
    else if (mode & S_IWGRP && !(mode & S_ISVTX))
        pawl__found(exam, PAWL_FINDING_GOOD, "", "its owner and its group may lock there, and remove the table (mode %04o)", mode);
    else if (mode & S_IWOTH)
        pawl__found(exam, PAWL_FINDING_GOOD, "", "every user may lock there, and nobody remove another's files (mode %04o)", mode);
    else
        pawl__found(exam, PAWL_FINDING_GOOD, "", "only its owner%s may lock there (mode %04o)", mode & S_IWGRP ? " and group" : "",
                    mode);
}

static void examine_space(struct local *local, struct pawl__exam *exam) {
    struct statvfs space;
    uint64_t left;

    if (fstatvfs(local->directory_fd, &space) < 0) {
        pawl__found(exam, PAWL_FINDING_UNKNOWN, "look at it with df", "how much space is left could not be read");
        return;
    }
    left = (uint64_t)space.f_bavail * space.f_frsize;
    if (left < SPACE_LOW)
        pawl__found(exam, PAWL_FINDING_WARNING, "make room: 16 MB are enough for most",
                    "%llu kB are left on its disk: acquires may fail when the table has to grow", (unsigned long long)left / 1024);
    else if (space.f_files && space.f_favail < FILES_LOW)
        pawl__found(exam, PAWL_FINDING_WARNING, "remove files, or choose another file system",
                    "%llu files can be made on its disk: each process needs one or two", (unsigned long long)space.f_favail);
    else
        pawl__found(exam, PAWL_FINDING_GOOD, "", "%llu MB are left on its disk", (unsigned long long)(left >> 20));
}

/* The first page of the table is there already: asking for it again changes nothing. Who may only read can't ask. */
static void examine_reservation(struct local *local, struct pawl__exam *exam) {
    int fd = pawl__local_open(local->directory_fd, "table", O_RDWR, S_IFREG);

    if (fd >= 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096) < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        pawl__found(exam, PAWL_FINDING_WARNING, "choose ext4, XFS, btrfs or tmpfs",
                    "its file system can't reserve space: a full disk would kill processes (SIGBUS)");
    if (fd >= 0)
        close(fd);
}

/* There is no directory. What it would be in tells what it would be. */
static void examine_parent(struct local *local, struct pawl__exam *exam) {
    char *parent = strdup(local->path), *slash = parent ? strrchr(parent, '/') : NULL;

    if (slash)
        slash[slash == parent] = '\0';
    local->directory_fd = slash ? above_stdio(open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) : -1;
    if (local->directory_fd >= 0) {
        examine_kind(local, exam);
        examine_space(local, exam);
        close(local->directory_fd);
        local->directory_fd = -1;
    }
    if (slash && !local->is_default && access(parent, W_OK | X_OK) < 0)
        pawl__found(exam, PAWL_FINDING_WARNING, "make it, with the permissions that those who lock there need",
                    "%s is not there, and can't be made by the first lock: %s", local->path, strerrordesc_np(errno));
    else
        pawl__found(exam, PAWL_FINDING_GOOD, "", "%s is not there yet: the first lock makes it", local->path);
    free(parent);
}

/* How much of the table is in use, and by whom. */
struct tally {
    uint32_t sessions, dead, elsewhere, bare, blocks, claims;
};

/* Was the lifeline of this living session removed? */
static bool is_bare(struct local *local, uint32_t slot) {
    int fd = pawl__local_watch(local, slot);

    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == ENOENT;
}

static struct tally count(struct local *local) {
    struct table *table = local->table;
    uint32_t slots = GET(table->header.session_high), blocks = GET(table->header.block_high);
    ino_t namespace = pawl__local_namespace("pid");
    struct tally tally = {0};

    for (uint32_t slot = 0; slot < slots && slot < SESSION_COUNT; slot++) {
        uint64_t word = atomic_load(&table->words[slot]);

        if (!(word & SESSION_LIVE))
            continue;
        if (pawl__local_dead(local, owner_word(slot, generation_of(word)))) {
            tally.dead++;
        } else {
            tally.sessions++;
            tally.elsewhere += table->sessions[slot].pid_namespace != namespace;
            tally.bare += is_bare(local, slot);
        }
    }
    for (uint32_t block = 0; block < blocks && block < BLOCK_COUNT; block++) {
        if (GET(table->owners[block]) == 0)
            continue;
        tally.blocks++;
        for (uint32_t i = 0; i < BLOCK_NODES; i++)
            tally.claims += state_of(GET(table->nodes[block * BLOCK_NODES + i].state)) != NODE_FREE;
    }
    return tally;
}

static void examine_table(struct local *local, struct pawl__exam *exam) {
    struct tally tally = count(local);
    enum pawl_severity severity = PAWL_FINDING_GOOD;
    const char *advice = "";

    if (tally.sessions + tally.dead > SESSION_COUNT / 4 * 3 || tally.blocks > BLOCK_COUNT / 4 * 3) {
        severity = PAWL_FINDING_WARNING;
        advice = "spread the locks over several directories";
    }
    pawl__found(exam, severity, advice, "%u of at most %d processes are attached, with %u of at most %d holds and waiters",
                tally.sessions, SESSION_COUNT, tally.claims, NODE_COUNT);
    if (tally.dead)
        pawl__found(exam, PAWL_FINDING_GOOD, "", "%u process%s died here: the next waiter cleans up after them", tally.dead,
                    tally.dead == 1 ? "" : "es");
    if (tally.bare)
        pawl__found(exam, PAWL_FINDING_WARNING,
                    "keep programs that clean up there out of it (tmpfiles.d: a line `x`), or move it out of /tmp",
                    "files in s/ were removed while %u process%s: deaths and releases are noticed late", tally.bare,
                    tally.bare == 1 ? " needs one" : "es need them");
    if (tally.elsewhere)
        pawl__found(exam, PAWL_FINDING_GOOD, "", "%u process%s in other PID namespaces: their pids mean nothing here",
                    tally.elsewhere, tally.elsewhere == 1 ? " is" : "es are");
}

/* Does anybody stand still inside a guard? */
static void examine_guards(struct local *local, struct pawl__exam *exam) {
    uint64_t owner;
    char who[WHO_SIZE];

    for (uint32_t i = 0; i < BUCKET_COUNT; i++) {
        owner = pawl__local_guard_owner(local, i);
        if (owner == 0 || !pawl__local_stands_still(local, i))
            continue;
        pawl__found(exam, PAWL_FINDING_WARNING, "let it go on (kill -CONT), or end it (kill -KILL): its guard is then taken over",
                    "a process stands still inside the table, in the way of others: %s",
                    pawl__local_who(local, slot_of(owner), who, sizeof who));
        return;
    }
    pawl__found(exam, PAWL_FINDING_GOOD, "", "nobody stands still inside the table");
}

static void examine_system(struct local *local, struct pawl__exam *exam) {
    if (local->table->header.boot_id[0] == '\0')
        pawl__found(exam, PAWL_FINDING_WARNING, "mount /proc",
                    "/proc was not there when the table was made: a reboot goes unnoticed");
}

int pawl__local_examine(struct local *local, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    struct pawl__exam exam = {.visit = visit, .data = data};

    if (pawl__local_gone(local))
        return pawl__local_fail_gone(local, reterr);
    if (local->directory_fd < 0) {
        examine_parent(local, &exam);
        return exam.rc;
    }
    examine_kind(local, &exam);
    examine_permissions(local, &exam);
    examine_space(local, &exam);
    if (local->looking.absent) {
        pawl__found(&exam, PAWL_FINDING_GOOD, "", "there are no locks in %s yet, or none since the last boot", local->path);
        return exam.rc;
    }
    examine_reservation(local, &exam);
    examine_table(local, &exam);
    examine_guards(local, &exam);
    examine_system(local, &exam);
    return exam.rc;
}
