/* SPDX-License-Identifier: Apache-2.0
 *
 * password.c - where the password of a URL comes from: the URL itself; or the first line of ?password-file=FILE; or $PAWL_PASSWORD, where
 * the URL says neither. A password in a URL is seen by everybody who may list processes; the other two are not.
 */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "base/error.h"
#include "base/url.h"
#include "os/descriptor.h"

/* All of a file that fits. -1 with errno. */
static ssize_t read_all(int fd, char *ret, size_t size) {
    size_t used = 0;
    ssize_t length;

    while (used < size && (length = read(fd, ret + used, size - used)) != 0) {
        if (length < 0 && errno != EINTR)
            return -1;
        used += length > 0 ? (size_t)length : 0;
    }
    return (ssize_t)used;
}

/* Up to the end of the line, of what was read, or a NUL. */
static ssize_t line_length(const char *text, size_t size) {
    size_t length = 0;

    while (length < size && !strchr("\r\n", text[length])) /* which finds the NUL, too */
        length++;
    return (ssize_t)length;
}

static int read_file(const char *path, char ret[PAWL__PASSWORD_SIZE], struct pawl_error *reterr) {
    int fd = above_stdio(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t length = fd < 0 ? -1 : read_all(fd, ret, PAWL__PASSWORD_SIZE);

    if (length < 0)
        pawl__fail(reterr, PAWL_EOPTION, "the URL's password-file %.200s can't be read: %s", path, strerrordesc_np(errno));
    if (fd >= 0)
        close(fd);
    if (length < 0)
        return PAWL_EOPTION;
    length = line_length(ret, (size_t)length);
    if (length == 0 || length == PAWL__PASSWORD_SIZE)
        return pawl__fail(reterr, PAWL_EOPTION, "the first line of the URL's password-file %.200s is %s", path,
                          length ? "longer than any password" : "empty");
    ret[length] = '\0';
    return 0;
}

/* The URL says none. Who gave no user to ZooKeeper wants none there; a Redis server has a user whose name need not be said. */
static const char *from_environment(const struct pawl__url *url) {
    const char *password = secure_getenv("PAWL_PASSWORD");
    bool wanted = url->user || strncmp(url->scheme, "redi", 4) == 0 || strncmp(url->scheme, "redlock", 7) == 0;

    return password && *password && wanted ? password : NULL;
}

int pawl__password_take(struct pawl__url *url, char buffer[PAWL__PASSWORD_SIZE], struct pawl_error *reterr) {
    const char *file;
    int rc;

    if (strcmp(url->scheme, "local") == 0)
        return 0; /* and it knows no password-file */
    file = pawl__url_option(url, "password-file");
    if (file && url->password)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL has a password and a password-file: leave one of them out");
    if (file && (rc = read_file(file, buffer, reterr)) < 0)
        return rc;
    if (file)
        url->password = buffer;
    else if (!url->password)
        url->password = from_environment(url);
    return 0;
}
