/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - values beside locks: one file each, in values/, whole or not at all.
 *
 *     values/nightly-8c1f2a09d4b7e653         the value of 'nightly': what is readable of the name, and a hash of all of it
 *     values/nightly-8c1f2a09d4b7e653.note    its note
 *     values/lock                             nothing is in it: writers lock a byte of it that the hash chooses
 *
 * A file is one line, `pawl-value 1 check=... token=... version=... written=... size=... name=...`, and then the bytes. The line says
 * whose it is and whether all of it is there; what does not fit is told as PAWL_EFORMAT, and neither read nor replaced.
 *
 * A writer locks its byte, looks at its node in the table, makes a new file under a name that nobody looks for, has it on the disk, looks
 * again, and renames. Killed anywhere, it leaves the old value or the new one, and the kernel ends its lock; what it left under the
 * other name is removed by the next who is alone in the directory. The bucket's guard is never held meanwhile: to write may take long.
 *
 * A writer may lose the lock between its last look and the rename. The next holder reads and writes with the same byte locked, so after
 * the rename: to both it is as if the write had come just before the loss.
 *
 * The byte is locked by an open file, not by the process (F_OFD_SETLK): threads exclude each other, too. It is unlocked before it is
 * closed, since a child that was forked meanwhile may have it open, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/local/local.h"
#include "os/descriptor.h"

#define EVERY (50 * MS) /* how often observers look at the file: nobody tells them, since the table has no room for them */
enum { READABLE = 40, FILE_NAME = 80, LINE_MAX_SIZE = 192 + PAWL__NAME_MAX, TRIES = 3 };

static const char *const kinds[] = {[PART_VALUE] = "value", [PART_NOTE] = "note"};

/* The value of one lock: where it is, and what is open of it. */
struct place {
    struct local *local;
    const char *name;
    enum pawl__part part;
    uint64_t hash;
    char file[FILE_NAME];
    int directory_fd; /* values/; -1: there is none */
    int lock_fd;      /* values/lock, with our byte locked; -1: it is not */
};

/* Who writes: a node, and what tells it from others that have been, or will be, in its place. */
struct author {
    uint32_t ref;
    uint64_t owner, ticket;
};
static_assert(sizeof(struct author) <= sizeof(struct pawl__author), "it is copied into that");

/* ---- Names ---------------------------------------------------------------------------------------------------------------- */

/* 64 bits of FNV-1a. */
static uint64_t hash_of(const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

static bool is_readable(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static void name_place(struct place *place, struct local *local, const char *name, enum pawl__part part) {
    size_t length = 0;

    *place = (struct place){.local = local, .name = name, .part = part, .hash = hash_of(name), .directory_fd = -1, .lock_fd = -1};
    for (; name[length] && length < READABLE; length++)
        place->file[length] = is_readable(name[length]) ? name[length] : '_';
    snprintf(place->file + length, sizeof place->file - length, "-%016" PRIx64 "%s", place->hash, part == PART_NOTE ? ".note" : "");
}

/* ---- Failures: one sentence each ------------------------------------------------------------------------------------------- */

static int fail_foreign(const struct place *place, const char *file, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_EFORMAT,
                      "%s/values/%s is damaged, or was not written by pawl for '%s': look at it, and remove it", place->local->path,
                      file, place->name);
}

static int fail_file(const struct place *place, const char *to, const char *file, struct pawl_error *reterr) {
    if (errno == EMLINK || errno == EINVAL || errno == ELOOP || errno == EISDIR || errno == ENOTDIR || errno == ENXIO)
        return fail_foreign(place, file, reterr);
    if (errno == EFBIG)
        return pawl__fail(reterr, PAWL_ENOSPACE, "can't %s %s/values/%s: `ulimit -f` allows no file of that size: raise it", to,
                          place->local->path, file);
    return pawl__fail_errno(reterr, "can't %s %s/values/%s", to, place->local->path, file);
}

/* ---- Opening, locking ------------------------------------------------------------------------------------------------------ */

/* Of values/ we own: in a sticky directory nobody could replace what another user wrote. */
static void unstick(const struct place *place) {
    struct stat status;

    if (fstat(place->directory_fd, &status) == 0 && status.st_mode & S_ISVTX && status.st_uid == geteuid())
        (void)!fchmod(place->directory_fd, status.st_mode & 07777 & ~(mode_t)S_ISVTX);
}

static int open_to_write(struct place *place, struct pawl_error *reterr) {
    struct local *local = place->local;

    if (pawl__local_gone(local))
        return pawl__local_fail_gone(local, reterr);
    place->directory_fd = pawl__local_open_or_make(local, local->directory_fd, "values", O_RDONLY | O_DIRECTORY, S_IFDIR, NULL);
    if (place->directory_fd < 0)
        return fail_file(place, "make", "", reterr);
    unstick(place);
    return 0;
}

/* Who only looks has no directory open for longer than a look. */
static int open_to_read(struct place *place, struct pawl_error *reterr) {
    struct local *local = place->local;
    int at;

    if (!local->look && pawl__local_gone(local))
        return pawl__local_fail_gone(local, reterr);
    at = local->look ? above_stdio(open(local->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) : local->directory_fd;
    if (at >= 0)
        place->directory_fd = pawl__local_open(at, "values", O_RDONLY | O_DIRECTORY, S_IFDIR);
    if (local->look && at >= 0) {
        int error = errno;

        close(at);
        errno = error;
    }
    return place->directory_fd >= 0 || errno == ENOENT ? 0 : fail_file(place, "read", "", reterr);
}

static int lock_byte(const struct place *place, int fd, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(place->hash >> 2), .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &range);
}

static void close_place(struct place *place) {
    if (place->lock_fd >= 0)
        lock_byte(place, place->lock_fd, F_UNLCK);
    pawl__local_close_fd(&place->lock_fd);
    pawl__local_close_fd(&place->directory_fd);
}

static int fail_removed(const struct place *place, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_EGONE, "%s/values is removed again and again: leave it alone", place->local->path);
}

/* Lock the byte of a file that is still the one that others find. */
static int lock_place(struct place *place, short type, int64_t deadline, struct pawl_error *reterr) {
    int fd, rc;

    for (int i = 0; i < TRIES; i++) {
        fd = type == F_WRLCK ? pawl__local_open_or_make(place->local, place->directory_fd, "lock", O_RDWR, S_IFREG, NULL)
                             : pawl__local_open(place->directory_fd, "lock", O_RDONLY, S_IFREG);
        if (fd < 0 && type == F_RDLCK && errno == ENOENT)
            return 0; /* nobody has ever written */
        if (fd < 0)
            return fail_file(place, "open", "lock", reterr);
        while ((rc = lock_byte(place, fd, type)) < 0 && (errno == EAGAIN || errno == EACCES) && pawl__boottime() < deadline)
            pawl__pause(MS);
        place->lock_fd = fd;
        if (rc < 0 && (errno == EAGAIN || errno == EACCES))
            return pawl__fail(reterr, PAWL_ETIMEOUT, "another process is writing the %s of '%s' and does not finish",
                              kinds[place->part], place->name);
        if (rc < 0)
            return fail_file(place, "lock", "lock", reterr);
        if (!pawl__local_is_removed(fd))
            return 0;
        pawl__local_close_fd(&place->lock_fd);
    }
    return fail_removed(place, reterr);
}

/* ---- What is in a file ----------------------------------------------------------------------------------------------------- */

static size_t print_line(const struct place *place, const struct pawl__stamp *stamp, size_t size, uint32_t check,
                         char line[LINE_MAX_SIZE]) {
    int length = snprintf(line, LINE_MAX_SIZE,
                          "pawl-%s 1 check=%08" PRIx32 " token=%" PRIu64 " version=%" PRIu64 " written=%" PRId64
                          " size=%zu name=%s\n",
                          kinds[place->part], check, stamp->token, stamp->version, stamp->written_us, size, place->name);

    return (size_t)length;
}

/* Over both the line, with a check of 0, and the bytes. */
static uint32_t check_of(const struct place *place, const struct pawl__stamp *stamp, const char *bytes, size_t size) {
    char line[LINE_MAX_SIZE];
    size_t length = print_line(place, stamp, size, 0, line);

    return pawl__name_hash(line, length) * 31 + pawl__name_hash(bytes, size);
}

/* Is this what we write? Then where its bytes begin; else 0. */
static size_t parse(const struct place *place, const char *text, size_t length, struct pawl__stamp *ret) {
    char line[LINE_MAX_SIZE];
    uint32_t check;
    size_t size, line_length;

    if (sscanf(text, "pawl-%*[a-z] 1 check=%8" SCNx32 " token=%20" SCNu64 " version=%20" SCNu64 " written=%20" SCNd64 " size=%6zu",
               &check, &ret->token, &ret->version, &ret->written_us, &size) != 5)
        return 0;
    line_length = print_line(place, ret, size, check, line);
    if (size > PAWL_VALUE_MAX || length != line_length + size || memcmp(text, line, line_length) != 0 ||
        check_of(place, ret, text + line_length, size) != check)
        return 0;
    return line_length;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

/* All of it, and a NUL. -1 with errno; EINVAL: it is longer than what we write. */
static ssize_t read_all(int fd, char **ret) {
    size_t room = LINE_MAX_SIZE + PAWL_VALUE_MAX, length = 0;
    char *text = malloc(room + 1);
    ssize_t rc = text ? 1 : -1;

    while (rc > 0 && length < room) {
        rc = read(fd, text + length, room - length);
        if (rc < 0 && errno == EINTR)
            rc = 1;
        else if (rc > 0)
            length += (size_t)rc;
    }
    if (rc >= 0 && length == room)
        errno = EINVAL;
    if (rc < 0 || length == room) {
        free(text);
        return -1;
    }
    text[length] = '\0';
    *ret = text;
    return (ssize_t)length;
}

static int read_value(const struct place *place, struct pawl__value **ret, struct pawl_error *reterr) {
    int fd = place->directory_fd < 0 ? -1 : pawl__local_open(place->directory_fd, place->file, O_RDONLY, S_IFREG), rc = 0;
    struct pawl__stamp stamp;
    char *text = NULL;
    ssize_t length;
    size_t begin;

    *ret = NULL;
    if (place->directory_fd < 0 || (fd < 0 && errno == ENOENT))
        return 0;
    if (fd < 0 || (length = read_all(fd, &text)) < 0)
        rc = fail_file(place, "read", place->file, reterr);
    else if ((begin = parse(place, text, (size_t)length, &stamp)) == 0)
        rc = fail_foreign(place, place->file, reterr);
    else if (!(*ret = pawl__value_new(text + begin, (size_t)length - begin, &stamp)))
        rc = pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    free(text);
    if (fd >= 0)
        close(fd);
    return rc;
}

int pawl__local_value_get(struct pawl__engine *engine, const char *name, enum pawl__part part, enum pawl__fresh fresh,
                          int64_t deadline, struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr) {
    struct place place;
    int rc;

    name_place(&place, local_of(engine), name, part);
    rc = open_to_read(&place, reterr);
    if (rc == 0 && fresh == FRESH_GRANT && place.directory_fd >= 0) /* one who was deposed may be about to rename */
        rc = lock_place(&place, F_RDLCK, deadline, reterr);
    if (rc == 0)
        rc = read_value(&place, ret, reterr);
    if (rc == 0 && retnow)
        *retnow = pawl__wall_us();
    close_place(&place);
    return rc;
}

/* ---- Writing -------------------------------------------------------------------------------------------------------------- */

void pawl__local_value_sign(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl__author *ret) {
    struct local *local = local_of(engine);
    struct author author = {.ref = GET(state_of_claim(claim)->ref), .owner = local->owner};

    if (author.ref != 0)
        author.ticket = GET(local->table->nodes[author.ref - 1].ticket);
    memcpy(ret->bytes, &author, sizeof author);
}

/* Does the author hold it, exclusively, and was not told to give up? Without the guard: what is known of a node is committed by who fills
 * it, and looked at between two looks at its state. So if a later claim's is seen, then also that the author's has left. */
static bool still_holds(struct local *local, const struct author *author, const struct pawl__write *write) {
    const struct node *node;
    uint32_t word;

    if (author->ref == 0 || author->ref > NODE_COUNT)
        return false;
    node = &local->table->nodes[author->ref - 1];
    word = SEE(node->state);
    return (word & (NODE_STATE_MASK | NODE_BROKEN)) == NODE_HELD && SEE(node->owner) == author->owner &&
           SEE(node->ticket) == author->ticket && SEE(node->hash) == write->name_hash && SEE(node->mode) == PAWL_EXCLUSIVE &&
           (write->author || SEE(node->token) == write->token) && SEE(node->state) == word;
}

static int fail_deposed(const struct pawl__write *write, struct pawl_error *reterr) {
    if (write->author)
        return pawl__fail(reterr, PAWL_ELOST, "'%s' is not held exclusively any more: nothing was written", write->name);
    return pawl__fail(reterr, PAWL_ETOKEN, "no exclusive hold of '%s' that stands has token %" PRIu64 ": nothing was written",
                      write->name, write->token);
}

/* Who has the token? */
static int find_author(struct local *local, const struct pawl__write *write, int64_t deadline, struct author *ret,
                       struct pawl_error *reterr) {
    struct guard_visit visit;
    const struct node *node;
    enum pawl_kind kind;
    uint64_t other;

    if (pawl__local_enter(local, &visit, write->name_hash, deadline, NULL) != PAWL__DONE)
        return pawl__fail(reterr, PAWL_ETIMEOUT, "a process stands still inside the table's guard for %s: see `pawl status`",
                          write->name);
    node = pawl__local_find_holder(local, &visit, write->name, write->token, &other);
    kind = node ? (enum pawl_kind)kind_of(node) : PAWL_MUTEX;
    if (node)
        *ret = (struct author){pawl__local_ref(local, node), GET(node->owner), GET(node->ticket)};
    pawl__local_leave(local, &visit);
    if (kind == PAWL_SEMAPHORE)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is a semaphore: it has no value", write->name);
    return node && !pawl__local_dead(local, ret->owner) ? 0 : fail_deposed(write, reterr);
}

static bool write_all(int fd, const char *text, size_t length) {
    while (length > 0) {
        ssize_t rc = write(fd, text, length);

        if (rc < 0 && errno != EINTR)
            return false;
        text += rc < 0 ? 0 : rc;
        length -= rc < 0 ? 0 : (size_t)rc;
    }
    return true;
}

/* A file with all of it, on the disk, under another name. */
static int make_draft(const struct place *place, const struct pawl__write *write, const struct pawl__stamp *stamp,
                      char draft[FILE_NAME], struct pawl_error *reterr) {
    char line[LINE_MAX_SIZE];
    size_t length = print_line(place, stamp, write->size, check_of(place, stamp, write->bytes, write->size), line);
    int fd = -1, rc;

    if (!pawl__local_may_be_long(length + write->size))
        errno = EFBIG;
    else
        fd = pawl__local_draft(place->local, place->directory_fd, draft, FILE_NAME);
    if (fd >= 0 && write_all(fd, line, length) && write_all(fd, write->bytes, write->size) && fdatasync(fd) == 0) {
        close(fd);
        return 0;
    }
    rc = fail_file(place, "write", place->file, reterr);
    if (fd >= 0) {
        close(fd);
        unlinkat(place->directory_fd, draft, 0);
    }
    return rc;
}

/* Put the draft in its place, or take away what is there. */
static int publish(const struct place *place, const char *draft, struct pawl_error *reterr) {
    int at = place->directory_fd;

    if (draft ? renameat(at, draft, at, place->file) < 0 : unlinkat(at, place->file, 0) < 0 && errno != ENOENT)
        return fail_file(place, draft ? "write" : "remove", place->file, reterr);
    if (fsync(at) < 0)
        return pawl__fail(reterr, PAWL_EUNKNOWN, "%s/values/%s is written, but a crash of the machine may undo it: %s",
                          place->local->path, place->file, strerror(errno));
    return 0;
}

/* The file with the byte was taken away meanwhile: nothing was written, and another may have locked that of a new one. */
enum { LOCK_REMOVED = 1 };

/* The byte is locked. 0, LOCK_REMOVED, or an error. */
static int write_value(const struct place *place, const struct pawl__write *write, const struct author *author,
                       struct pawl__stamp *ret, struct pawl_error *reterr) {
    struct pawl__value *last;
    char draft[FILE_NAME];
    int rc;

    if ((rc = read_value(place, &last, reterr)) < 0)
        return rc;
    *ret = (struct pawl__stamp){.token = write->token, .written_us = pawl__wall_us()};
    ret->version = (uint64_t)ret->written_us;
    if (last && pawl__value_shown(last)->version >= ret->version)
        ret->version = pawl__value_shown(last)->version + 1;
    pawl__value_put(last);
    if (!still_holds(place->local, author, write))
        return fail_deposed(write, reterr);
    if (write->bytes && (rc = make_draft(place, write, ret, draft, reterr)) < 0)
        return rc;
    if (!still_holds(place->local, author, write))
        rc = fail_deposed(write, reterr);
    else if (pawl__local_is_removed(place->lock_fd))
        rc = LOCK_REMOVED;
    else
        rc = publish(place, write->bytes ? draft : NULL, reterr);
    if (rc != 0 && write->bytes)
        unlinkat(place->directory_fd, draft, 0); /* unless it has its name already */
    return rc;
}

int pawl__local_value_set(struct pawl__engine *engine, const struct pawl__write *write, int64_t deadline, struct pawl__stamp *ret,
                          struct pawl_error *reterr) {
    struct local *local = local_of(engine);
    struct author author;
    struct place place;
    int rc;

    name_place(&place, local, write->name, write->part);
    if (write->author)
        memcpy(&author, write->author->bytes, sizeof author);
    else if ((rc = find_author(local, write, deadline, &author, reterr)) < 0)
        return rc;
    for (int i = 0; i < TRIES; i++) {
        if ((rc = open_to_write(&place, reterr)) == 0 && (rc = lock_place(&place, F_WRLCK, deadline, reterr)) == 0)
            rc = write_value(&place, write, &author, ret, reterr);
        close_place(&place);
        if (rc != LOCK_REMOVED)
            return rc;
    }
    return fail_removed(&place, reterr);
}

/* ---- Observing ------------------------------------------------------------------------------------------------------------- */

int pawl__local_observe(struct pawl__engine *engine, struct pawl__observer *observer, struct pawl_error *reterr) {
    (void)engine, (void)reterr;
    observer->every_ns = EVERY;
    return 0;
}

void pawl__local_unobserve(struct pawl__engine *engine, struct pawl__observer *observer) {
    (void)engine, (void)observer;
}
