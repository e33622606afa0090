/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - see files.h.
 */
#include "files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../cli/common/cli.h"

enum { ASK_MS = 3000 };

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

bool remove_tree(const char *path) {
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0;
}

void redirect_output(const char *directory) {
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/output", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    dup2(null, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
}

bool write_file(const char *directory, const char *name, const char *format, ...) {
    char path[PATH_MAX];
    va_list arguments;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "we");

    if (file == NULL)
        return false;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    return fclose(file) == 0;
}

static struct sockaddr_in loopback(unsigned port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

unsigned free_port(void) {
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                 getsockname(fd, (struct sockaddr *)&address, &size) == 0;

    if (fd >= 0)
        close(fd);
    return found ? ntohs(address.sin_port) : 0;
}

bool ask_port(unsigned port, const char *text, const char *until, char *answer, size_t size) {
    struct sockaddr_in address = loopback(port);
    struct pollfd wait = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .events = POLLIN};
    int64_t deadline = deadline_in(ASK_MS);
    size_t used = 0;
    bool whole = false;

    answer[0] = '\0';
    if (wait.fd < 0)
        return false;
    if (connect(wait.fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(wait.fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text))
        while (!whole && used + 1 < size && poll(&wait, 1, poll_timeout(deadline)) == 1) {
            ssize_t length = read(wait.fd, answer + used, size - 1 - used);

            if (length <= 0) {
                whole = until == NULL && length == 0;
                break;
            }
            used += (size_t)length;
            answer[used] = '\0';
            whole = until != NULL && strstr(answer, until) != NULL;
        }
    close(wait.fd);
    return whole;
}
