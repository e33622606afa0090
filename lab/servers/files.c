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
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

/* In a child. */
static void redirect_output(const char *directory) {
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/output", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    dup2(null, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
}

bool has_command(const char *name) {
    const char *path = getenv("PATH");
    char place[PATH_MAX];

    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");

        snprintf(place, sizeof place, "%.*s/%s", (int)length, path, name);
        if (access(place, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
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

bool free_ports(unsigned *ports, size_t count) {
    enum { MOST = 32 };
    int fds[MOST];
    size_t found = 0;

    /* All are kept until the last is found: else one might be found twice. */
    while (found < count && found < MOST) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;

        fds[found] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[found] < 0)
            break;
        if (bind(fds[found], (struct sockaddr *)&address, size) < 0 ||
            getsockname(fds[found], (struct sockaddr *)&address, &size) < 0) {
            close(fds[found]);
            break;
        }
        ports[found++] = ntohs(address.sin_port);
    }
    for (size_t i = 0; i < found; i++)
        close(fds[i]);
    return found == count;
}

static int connect_to(const char *address, unsigned port) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV},
                    *found;
    char service[16];

    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

bool ask_at(const char *address, unsigned port, const char *text, const char *until, char *answer, size_t size) {
    struct pollfd wait = {.fd = connect_to(address, port), .events = POLLIN};
    int64_t deadline = deadline_in(ASK_MS);
    size_t used = 0;
    bool whole = false;

    answer[0] = '\0';
    if (wait.fd < 0)
        return false;
    if (send(wait.fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text))
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

pid_t start_process(const char *directory, void (*run)(void *data), void *data) {
    pid_t pid = fork();
    sigset_t none;

    if (pid != 0)
        return pid;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error to be told */
    redirect_output(directory);
    run(data);
    _exit(EXIT_NOT_FOUND);
}

bool process_is_stopped(pid_t pid) {
    char path[64], text[512] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);

    fclose(file);
    text[length] = '\0';
    /* The name in parentheses may contain anything. */
    const char *parenthesis = strrchr(text, ')');

    return parenthesis != NULL && parenthesis[1] == ' ' && parenthesis[2] == 'T';
}
