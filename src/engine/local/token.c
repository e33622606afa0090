/* SPDX-License-Identifier: Apache-2.0
 *
 * token.c - the ceiling of tokens, and the file that remembers it: token.hi.
 *
 * Each bucket counts its tokens in the table. The table does not survive a crash of the machine, tokens must; so none is ever given
 * that is above the ceiling in token.hi, and that is on the disk before the table says so. After a reboot all counters start at the
 * ceiling. It is raised by 2^20 at a time: one fdatasync per million tokens.
 *
 * The file is one line of fixed length, `pawl-tokens 1 ceiling=NNNNNNNNNNNNNNNNNNNN check=HHHHHHHH`, so that a write is one sector. It is
 * written in place, since in a sticky directory nobody may replace another user's file. Its writers exclude each other by flock.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "base/error.h"

enum { LINE_SIZE = 64 };
#define TOKEN_LAST (UINT64_MAX / 2) /* so that tokens fit into signed 64 bits everywhere */

static int line_format(uint64_t ceiling, char line[LINE_SIZE]) {
    int length = snprintf(line, LINE_SIZE, "pawl-tokens 1 ceiling=%020" PRIu64, ceiling);

    return length +
           snprintf(line + length, LINE_SIZE - (size_t)length, " check=%08" PRIx32 "\n", pawl__name_hash(line, (size_t)length));
}

static bool line_parse(const char *text, uint64_t *ret) {
    const char *number = strchr(text, '=');
    char line[LINE_SIZE];
    uint64_t ceiling;

    if (!number)
        return false;
    ceiling = strtoull(number + 1, NULL, 10);
    line_format(ceiling, line);
    if (strcmp(line, text) != 0 || ceiling > TOKEN_LAST)
        return false;
    *ret = ceiling;
    return true;
}

static bool read_fd(int fd, uint64_t *ret) {
    char text[LINE_SIZE + 1];
    ssize_t length = pread(fd, text, sizeof text - 1, 0);

    if (length < 0)
        return false;
    text[length] = '\0';
    return line_parse(text, ret);
}

static int write_fd(int fd, uint64_t ceiling) {
    char line[LINE_SIZE];
    int length = line_format(ceiling, line);
    ssize_t rc;

    if (!pawl__local_may_be_long((uint64_t)length)) {
        errno = EFBIG;
        return -1;
    }
    rc = pwrite(fd, line, (size_t)length, 0);
    if (rc != length) {
        errno = rc < 0 ? errno : ENOSPC;
        return -1;
    }
    return fdatasync(fd);
}

static int fail_damaged(struct local *local, struct pawl_error *reterr) {
    return pawl__fail(
        reterr, PAWL_EFORMAT,
        "%s/token.hi is damaged, so it is not known which tokens were given: remove the directory to start at 1 again, "
        "if nothing relies on them",
        local->path);
}

static int fail_open(struct local *local, struct pawl_error *reterr) {
    if (errno == EMLINK || errno == EINVAL || errno == ELOOP)
        return pawl__fail(reterr, PAWL_EFORMAT,
                          "%s/token.hi is not a file, or is linked to another name: %s holds something else than locks",
                          local->path, local->path);
    return pawl__fail_errno(reterr, "can't open %s/token.hi", local->path);
}

static int fail_write(struct local *local, struct pawl_error *reterr) {
    if (errno == EFBIG)
        return pawl__fail(reterr, PAWL_ENOSPACE, "can't write %s/token.hi: `ulimit -f` allows no file of %d bytes: raise it",
                          local->path, LINE_SIZE);
    return pawl__fail_errno(reterr, "can't write %s/token.hi", local->path);
}

int pawl__local_tokens_read(struct local *local, uint64_t *ret, struct pawl_error *reterr) {
    int fd = pawl__local_open(local->directory_fd, "token.hi", O_RDONLY, S_IFREG);
    bool good;

    *ret = 0;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return fail_open(local, reterr);
    good = read_fd(fd, ret);
    close(fd);
    return good ? 0 : fail_damaged(local, reterr);
}

/* Open it, or make it with this ceiling. -1 with errno. */
static int open_or_make(struct local *local, uint64_t ceiling) {
    char line[LINE_SIZE];

    line_format(ceiling, line);
    return pawl__local_open_or_make(local, local->directory_fd, "token.hi", O_RDWR, S_IFREG, line);
}

int pawl__local_tokens_write(struct local *local, uint64_t ceiling, struct pawl_error *reterr) {
    int fd = open_or_make(local, ceiling), rc = 0;

    if (fd < 0)
        return errno == EMLINK || errno == EINVAL || errno == ELOOP ? fail_open(local, reterr) : fail_write(local, reterr);
    if (write_fd(fd, ceiling) < 0)
        rc = fail_write(local, reterr);
    else
        pawl__local_adjust(local, fd);
    close(fd);
    return rc;
}

/* With the file flocked: write a higher ceiling, then let the table know. */
static int raise(struct local *local, int fd, struct pawl_error *reterr) {
    _Atomic uint64_t *place = &local->table->header.token_ceiling;
    uint64_t ceiling = atomic_load(place), on_disk;

    if (read_fd(fd, &on_disk) && on_disk > ceiling)
        ceiling = on_disk; /* it was written by one that died before it could say so */
    if (ceiling > TOKEN_LAST - TOKEN_STEP)
        return pawl__fail(reterr, PAWL_EOVERFLOW, "the tokens of %s have reached their end: use a new directory", local->path);
    if (write_fd(fd, ceiling + TOKEN_STEP) < 0)
        return fail_write(local, reterr);
    atomic_store(place, ceiling + TOKEN_STEP);
    return 0;
}

int pawl__local_tokens_extend(struct local *local, int64_t deadline, struct pawl_error *reterr) {
    uint64_t before = atomic_load(&local->table->header.token_ceiling);
    int fd, rc;

    fd = open_or_make(local, before); /* if it was lost while we live: the table knows */
    if (fd < 0)
        return errno == EFBIG ? fail_write(local, reterr) : fail_open(local, reterr);
    while ((rc = flock(fd, LOCK_EX | LOCK_NB)) < 0 && errno == EWOULDBLOCK && pawl__boottime() < deadline)
        pawl__pause(MS);
    if (atomic_load(&local->table->header.token_ceiling) > before)
        rc = 0; /* another did it */
    else if (rc < 0)
        rc = pawl__fail(reterr, PAWL_ETIMEOUT, "another process is writing %s/token.hi and does not finish", local->path);
    else
        rc = raise(local, fd, reterr);
    close(fd);
    return rc;
}
