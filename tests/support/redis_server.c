/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_server.c - see redis_server.h.
 */
#include "redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

enum { PATIENCE_MS = 30000 };

bool redis_server_exists(const char **why) {
    static const char *const places[] = {"/usr/bin/redis-server", "/usr/local/bin/redis-server"};

    for (size_t i = 0; i < 2; i++)
        if (access(places[i], X_OK) == 0)
            return true;
    *why = "there is no redis-server (Debian: redis-server)";
    return false;
}

void redis_free_ports(unsigned *ports, size_t count) {
    enum { MOST = 32 };
    int fds[MOST];

    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;

        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
        assert_int_equal(bind(fds[i], (struct sockaddr *)&address, size), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&address, &size), 0);
        ports[i] = ntohs(address.sin_port);
    }
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

static unsigned free_port(void) {
    unsigned port;

    redis_free_ports(&port, 1);
    return port;
}

static void write_configuration(const struct redis_server *server) {
    char path[200];
    FILE *file;

    snprintf(path, sizeof path, "%s/redis.conf", server->directory);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "bind 127.0.0.1\nport %u\nunixsocket %s\ndir %s\nlogfile %s/log\n%s", server->port, server->socket_path,
            server->directory, server->directory, server->sentinel ? "" : "save \"\"\n");
    if (server->tls)
        fprintf(file, "tls-port %u\ntls-cert-file %s/server.crt\ntls-key-file %s/server.key\ntls-ca-cert-file %s/ca.crt\n",
                server->tls_port, server->directory, server->directory, server->directory);
    fprintf(file, "%s\n", server->extra);
    assert_int_equal(fclose(file), 0);
}

static void distort_clock(int fd) {
    char number[16], shim[PATH_MAX];

    snprintf(number, sizeof number, "%d", fd);
    snprintf(shim, sizeof shim, "%s/tests/libclock_shim.so", getenv("BUILD_DIR"));
    setenv("PAWL_CLOCK_FD", number, 1);
    setenv("LD_PRELOAD", shim, 1);
}

static void run_server(const struct redis_server *server) {
    char path[200];
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive a test that crashed */
    if (server->clock_fd)
        distort_clock(server->clock_fd);
    snprintf(path, sizeof path, "%s/redis.conf", server->directory);
    execlp("redis-server", "redis-server", path, server->sentinel ? "--sentinel" : NULL, (char *)NULL);
    _exit(127);
}

void redis_server_prepare(struct redis_server *server) {
    if (server->directory[0])
        return;
    snprintf(server->directory, sizeof server->directory, "%s/pawl-redis-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(server->directory));
    snprintf(server->socket_path, sizeof server->socket_path, "%s/socket", server->directory);
}

void redis_server_certify(struct redis_server *server) {
    char command[1024];

    redis_server_prepare(server);
    snprintf(command, sizeof command,
             "cd %s && exec >/dev/null 2>&1 && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 "
             "-subj /CN=ca && for n in server client; do openssl req -newkey rsa:2048 -nodes -keyout $n.key -out $n.csr "
             "-subj /CN=$n && printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' >ext && openssl x509 -req -in $n.csr -CA "
             "ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $n.crt || exit 1; done",
             server->directory);
    assert_int_equal(system(command), 0);
}

void redis_server_launch(struct redis_server *server) {
    write_configuration(server);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        run_server(server);
}

bool redis_server_await(struct redis_server *server) {
    const struct timespec moment = {.tv_nsec = 5000000};

    /* That a server listens makes no sound: it can only be tried. */
    for (int i = 0; i < PATIENCE_MS / 5; i++) {
        if (redis_server_answers(server))
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0; /* somebody else took the port */
            break;
        }
        nanosleep(&moment, NULL);
    }
    redis_server_stop(server, SIGKILL);
    return false;
}

void redis_server_start(struct redis_server *server) {
    redis_server_prepare(server);
    for (int attempt = 0; attempt < 3; attempt++) {
        if (!server->port || attempt)
            server->port = free_port();
        if (server->tls && (!server->tls_port || attempt))
            server->tls_port = free_port();
        redis_server_launch(server);
        if (redis_server_await(server))
            return;
    }
    fail_msg("redis-server does not start: see %s/log", server->directory);
}

void redis_server_stop(struct redis_server *server, int number) {
    if (server->context)
        redisFree(server->context);
    server->context = NULL;
    if (!server->pid)
        return;
    kill(server->pid, number);
    if (number != SIGKILL) {
        struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, server->pid, 0), .events = POLLIN};

        if (ended.fd < 0 || poll(&ended, 1, PATIENCE_MS) != 1)
            kill(server->pid, SIGKILL);
        if (ended.fd >= 0)
            close(ended.fd);
    }
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void redis_server_free(struct redis_server *server) {
    char command[300];

    redis_server_stop(server, SIGKILL);
    if (!server->directory[0])
        return;
    snprintf(command, sizeof command, "rm -rf '%s'", server->directory);
    assert_int_equal(system(command), 0);
    server->directory[0] = '\0';
}

/* A directory in place of its file: nobody can write that, not even root. */
void redis_server_let_save(struct redis_server *server, bool possible) {
    char path[200], wanted[64], info[8192];

    snprintf(path, sizeof path, "%s/dump.rdb", server->directory);
    assert_int_equal(possible ? rmdir(path) : mkdir(path, 0755), 0);
    freeReplyObject(redis_server_command(server, "BGSAVE"));
    snprintf(wanted, sizeof wanted, "rdb_last_bgsave_status:%s", possible ? "ok" : "err");
    await(strstr(redis_server_text(server, info, sizeof info, "INFO persistence"), "rdb_bgsave_in_progress:0") &&
              strstr(info, wanted),
          "the server never says %s", wanted);
}
