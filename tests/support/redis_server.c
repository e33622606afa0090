/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_server.c - see redis_server.h.
 */
#include "redis_server.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/servers/clock.h"
#include "../../lab/servers/files.h"
#include "../../lab/servers/redis.h"
#include "test.h"

enum { PATIENCE_MS = 30000 };

bool redis_server_exists(const char **why) {
    *why = redis_missing();
    return *why == NULL;
}

void redis_free_ports(unsigned *ports, size_t count) {
    assert_true(free_ports(ports, count));
}

static unsigned free_port(void) {
    unsigned port;

    redis_free_ports(&port, 1);
    return port;
}

static void write_configuration(const struct redis_server *server) {
    char lines[4096];
    int used = snprintf(lines, sizeof lines, "unixsocket %s\nlogfile %s/log\n%s", server->socket_path, server->directory,
                        server->sentinel ? "" : "save \"\"\n");

    if (server->tls)
        used += snprintf(lines + used, sizeof lines - (size_t)used,
                         "tls-port %u\ntls-cert-file %s/server.crt\ntls-key-file %s/server.key\ntls-ca-cert-file %s/ca.crt\n",
                         server->tls_port, server->directory, server->directory, server->directory);
    snprintf(lines + used, sizeof lines - (size_t)used, "%s", server->extra);
    assert_true(redis_configure(server->directory, "127.0.0.1", server->port, lines));
}

static void become(void *data) {
    const struct redis_server *server = data;
    char shim[PATH_MAX];

    snprintf(shim, sizeof shim, "%s/tests/libclock_shim.so", getenv("BUILD_DIR"));
    if (server->clock_fd)
        clock_lie(shim, server->clock_fd);
    redis_become(server->directory, server->sentinel);
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
    server->pid = start_process(server->directory, become, server);
    assert_true(server->pid > 0);
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
    redis_server_stop(server, SIGKILL);
    if (!server->directory[0])
        return;
    assert_true(remove_tree(server->directory));
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
