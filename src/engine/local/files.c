/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - the files of the directory: opened with suspicion, made complete.
 *
 * OPENED. Others may write in the directory, and root may lock in a user's. So no name is believed: what is opened must be what it is to
 * be (a file, a FIFO) and have no other name, for a second link may lead to anything of anybody's. Only then is it written to, and its
 * mode set.
 *
 * MADE. A new file gets its mode, its group and its content under a name that nobody looks for (`.new-...`), and then the one that it is to
 * have, in one step that replaces nothing. So a process that finds a file finds all of it, open to all who may lock here, under any umask
 * was, and whenever its maker was killed. What a killed maker left under the other name is removed by the next that is alone.
 * Some file systems can't give a name without replacing another's: there a link does it, in two steps, or it is made in place.
 *
 * FOUND AGAIN. The directory may be removed, renamed or replaced while it is used. Its path is remembered together with what it led to.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/descriptor.h"
#include "engine/local/local.h"
#include "base/error.h"

static const char NEW[] = ".new-";
enum { TRIES = 3 };

/* ---- Opened ---- */

int pawl__local_open(int at, const char *name, int flags, mode_t type) {
    int fd = above_stdio(openat(at, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status;
    int error = 0;

    if (fd < 0)
        return -1;
    if (fstat(fd, &status) < 0)
        error = errno;
    else if ((status.st_mode & S_IFMT) != type)
        error = EINVAL;
    else if (status.st_nlink > 1 && type != S_IFDIR)
        error = EMLINK;
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

/* The directory's mode may have changed since the file was made, or its maker have been a pawl that made it step by step. */
void pawl__local_adjust(struct local *local, int fd) {
    struct stat status;
    mode_t mode;

    if (fstat(fd, &status) < 0 || (status.st_uid != geteuid() && !(geteuid() == 0 && status.st_uid == local->modes.uid)))
        return;
    mode = S_ISDIR(status.st_mode) ? local->modes.directory : local->modes.file;
    if ((status.st_mode & 07777) != mode)
        (void)!fchmod(fd, mode);
}

bool pawl__local_may_be_long(uint64_t size) {
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size;
}

/* ---- Made ---- */

static int make_here(int at, const char *name, mode_t type) {
    switch (type) {
    case S_IFIFO:
        return mkfifoat(at, name, 0600) < 0 ? -1 : pawl__local_open(at, name, O_RDWR, type);
    case S_IFDIR:
        return mkdirat(at, name, 0700) < 0 ? -1 : pawl__local_open(at, name, O_RDONLY | O_DIRECTORY, type);
    default:
        return above_stdio(openat(at, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    }
}

/* The group may not be ours to give: then it is as it comes, as it is for all other files. */
static bool complete(struct local *local, int fd, mode_t type, const char *text) {
    struct stat status;

    if (fstat(fd, &status) < 0)
        return false;
    if (status.st_uid != geteuid()) {
        errno = EPERM;
        return false;
    }
    if (local->modes.uid != (uid_t)-1 || local->modes.gid != status.st_gid)
        (void)!fchown(fd, local->modes.uid, local->modes.gid);
    if (fchmod(fd, type == S_IFDIR ? local->modes.directory : local->modes.file) < 0)
        return false;
    return !text || (write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fdatasync(fd) == 0);
}

/* Give it its name, where renameat2() can't, and it must be complete when it is found. While it has two names, nobody opens it. */
static int publish_by_link(int at, const char *from, const char *to) {
    return linkat(at, from, at, to, 0) < 0 ? -1 : unlinkat(at, from, 0);
}

/* Something of this type under a name that nobody looks for. */
static int make_draft(int at, mode_t type, char *ret, size_t size) {
    uint64_t number;

    if (!pawl__random(&number, sizeof number))
        return -1;
    snprintf(ret, size, "%s%016" PRIx64, NEW, number);
    return make_here(at, ret, type);
}

int pawl__local_draft(struct local *local, int at, char *ret, size_t size) {
    int fd = make_draft(at, S_IFREG, ret, size), error;

    if (fd < 0 || complete(local, fd, S_IFREG, NULL))
        return fd;
    error = errno;
    close(fd);
    unlinkat(at, ret, 0);
    errno = error;
    return -1;
}

static int make_once(struct local *local, int at, const char *name, mode_t type, const char *text) {
    bool made, unable, whole = text || type == S_IFIFO;
    char draft[64];
    int fd, error;

    fd = make_draft(at, type, draft, sizeof draft);
    if (fd < 0)
        return -1;
    made = complete(local, fd, type, text) && renameat2(at, draft, at, name, RENAME_NOREPLACE) == 0;
    unable = !made && (errno == EINVAL || errno == ENOSYS);
    if (made || (unable && whole && publish_by_link(at, draft, name) == 0))
        return fd;
    error = errno;
    close(fd);
    unlinkat(at, draft, type == S_IFDIR ? AT_REMOVEDIR : 0);
    errno = error;
    if (!unable || whole)
        return -1;
    fd = make_here(at, name, type); /* in place: what is found empty does no harm, and its owner sets the mode again */
    if (fd >= 0)
        complete(local, fd, type, NULL);
    return fd;
}

/* Make it, with all that belongs to it, and a file's text on the disk. -1 with errno; EEXIST: another was faster. */
static int make(struct local *local, int at, const char *name, mode_t type, const char *text) {
    int fd = -1;

    if (text && !pawl__local_may_be_long(strlen(text))) {
        errno = EFBIG;
        return -1;
    }
    for (int i = 0; fd < 0 && i < TRIES; i++) {
        fd = make_once(local, at, name, type, text);
        if (fd < 0 && errno != ENOENT) /* else it was taken for a dead one's, and swept away */
            break;
    }
    if (fd >= 0 && text)
        fsync(at);
    return fd;
}

int pawl__local_open_or_make(struct local *local, int at, const char *name, int flags, mode_t type, const char *text) {
    int fd = -1;

    for (int i = 0; fd < 0 && i < TRIES; i++) {
        fd = pawl__local_open(at, name, flags, type);
        if (fd < 0 && errno == ENOENT)
            fd = make(local, at, name, type, text);
        if (fd < 0 && errno != EEXIST && errno != ENOENT)
            break;
    }
    return fd;
}

int pawl__local_fifo(struct local *local, const char *name) {
    int fd = pawl__local_open_or_make(local, local->sessions_fd, name, O_RDWR, S_IFIFO, NULL);

    if (fd >= 0)
        pawl__local_adjust(local, fd);
    return fd;
}

int pawl__local_reserve(struct local *local, size_t offset, size_t length) {
    int rc;

    do
        rc = fallocate(local->table_fd, 0, (off_t)offset, (off_t)length) < 0 ? errno : 0;
    while (rc == EINTR);
    return rc == EOPNOTSUPP || rc == ENOSYS ? 0 : rc; /* then the file system can't promise space; see docs/local.md */
}

/* ---- Read ---- */

bool pawl__local_read(const char *path, char *ret, size_t size) {
    int fd = above_stdio(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t length = fd < 0 ? -1 : read(fd, ret, size - 1);

    if (fd >= 0)
        close(fd);
    ret[length > 0 ? length : 0] = '\0';
    return length > 0;
}

ino_t pawl__local_namespace(const char *kind) {
    struct stat status;
    char path[32];

    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

bool pawl__local_is_removed(int fd) {
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_nlink == 0;
}

DIR *pawl__local_list(int at) {
    int fd = above_stdio(openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;

    if (!directory && fd >= 0)
        close(fd);
    return directory;
}

static void sweep(int at) {
    DIR *directory = pawl__local_list(at);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        if (strncmp(entry->d_name, NEW, strlen(NEW)) == 0 && unlinkat(at, entry->d_name, 0) < 0)
            unlinkat(at, entry->d_name, AT_REMOVEDIR);
    if (directory)
        closedir(directory);
}

void pawl__local_sweep(struct local *local) {
    int values = pawl__local_open(local->directory_fd, "values", O_RDONLY | O_DIRECTORY, S_IFDIR);

    sweep(local->directory_fd);
    sweep(local->sessions_fd);
    if (values >= 0)
        sweep(values);
    pawl__local_close_fd(&values);
}

/* ---- Where it is ---- */

int pawl__local_note_whereabouts(struct local *local, struct pawl_error *reterr) {
    struct whereabouts *then = &local->whereabouts;
    struct stat opened, found, root;

    if (asprintf(&then->table, "%s/table", local->path) < 0) {
        then->table = NULL;
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    if (fstat(local->table_fd, &opened) < 0 || stat(then->table, &found) < 0 || stat("/", &root) < 0)
        return 0;
    then->device = opened.st_dev;
    then->inode = opened.st_ino;
    then->root_device = root.st_dev;
    then->root_inode = root.st_ino;
    then->mounts = pawl__local_namespace("mnt");
    then->known = found.st_dev == opened.st_dev && found.st_ino == opened.st_ino;
    return 0;
}

/* A path means something else after chroot(), or in another mount namespace: then nothing is known about the others'. */
static bool is_at_home(const struct whereabouts *then) {
    struct stat root;

    return stat("/", &root) == 0 && root.st_dev == then->root_device && root.st_ino == then->root_inode &&
           pawl__local_namespace("mnt") == then->mounts;
}

bool pawl__local_displaced(const struct local *local) {
    const struct whereabouts *then = &local->whereabouts;
    struct stat status;
    bool found = then->known && stat(then->table, &status) == 0;

    if (found && status.st_dev == then->device && status.st_ino == then->inode)
        return false;
    if (found || (then->known && (errno == ENOENT || errno == ENOTDIR))) {
        if (is_at_home(then))
            return true;
    }
    return pawl__local_is_removed(local->table_fd);
}
