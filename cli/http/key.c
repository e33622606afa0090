/* SPDX-License-Identifier: Apache-2.0
 *
 * key.c - the key that is needed to see locks. See key.h.
 */
#include "key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/cli.h"

static int draw(char ret[KEY_DIGITS + 1]) {
    unsigned char bytes[KEY_DIGITS / 2];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        say("can't draw a key: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int storage_error(const char *path) {
    say("can't keep the key in %s: %s", path, strerror(errno));
    return EXIT_STORAGE;
}

static int make(const char *path, char ret[KEY_DIGITS + 1]) {
    char line[KEY_DIGITS + 2];
    int status = draw(ret);

    if (status != 0)
        return status;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return storage_error(path);
    snprintf(line, sizeof line, "%s\n", ret);
    if (write(fd, line, KEY_DIGITS + 1) != KEY_DIGITS + 1 || fsync(fd) < 0) {
        status = storage_error(path);
        unlink(path);
    }
    close(fd);
    return status;
}

/* From an open file, which nobody else can read or write: a line of 32 hex digits. */
static int read_from(int fd, const char *path, char ret[KEY_DIGITS + 1]) {
    char line[KEY_DIGITS + 3];
    struct stat info;

    if (fstat(fd, &info) < 0)
        return storage_error(path);
    if (!S_ISREG(info.st_mode)) {
        say("%s is no regular file: --key-file wants one, or the name of one to be made", path);
        return EXIT_STORAGE;
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        say("%s is another user's, who knows the key in it: use a file of your own", path);
        return EXIT_PERMISSION;
    }
    if (info.st_mode & (S_IRWXG | S_IRWXO)) {
        say("others may use the key in %s; type: chmod 600 %s", path, path);
        return EXIT_PERMISSION;
    }
    ssize_t length = read(fd, line, sizeof line - 1);
    if (length < 0)
        return storage_error(path);
    line[length] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (!is_key(line)) {
        say("%s has no key in it: it wants a line of %d hex digits (0 to 9, a to f); without the file, pawl web makes it", path,
            KEY_DIGITS);
        return EXIT_STORAGE;
    }
    strcpy(ret, line);
    return 0;
}

int key_get(const char *path, char ret[KEY_DIGITS + 1]) {
    if (path == NULL)
        return draw(ret);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* it may be anything: don't wait for it */
    if (fd < 0)
        return errno == ENOENT ? make(path, ret) : storage_error(path);
    int status = read_from(fd, path, ret);
    close(fd);
    return status;
}
