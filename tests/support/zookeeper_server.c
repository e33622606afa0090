/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_server.c - see zookeeper_server.h.
 */
#include "zookeeper_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char jar[] = "/usr/share/java/zookeeper.jar", java[] = "/usr/bin/java";

enum { PATIENCE_MS = 60000, STEP_MS = 50, TRIES = 3 };

const char *zookeeper_server_missing(void) {
    if (access(java, X_OK) != 0)
        return "there is no java (Debian: default-jre-headless)";
    if (access(jar, R_OK) != 0)
        return "there is no zookeeper.jar (Debian: zookeeper)";
    return NULL;
}

static unsigned free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------- */

static FILE *open_in(const struct zookeeper_server *server, int index, const char *name) {
    char path[512];

    snprintf(path, sizeof path, "%s/%d/%s", server->directory, index, name);
    return fopen(path, "w");
}

static bool write_log_settings(const struct zookeeper_server *server, int index) {
    FILE *file = open_in(server, index, "log4j.properties");

    if (!file)
        return false;
    fprintf(file,
            "log4j.rootLogger=WARN, F\n"
            "log4j.appender.F=org.apache.log4j.FileAppender\n"
            "log4j.appender.F.File=%s/%d/log\n"
            "log4j.appender.F.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.F.layout.ConversionPattern=%%d %%p %%c %%m%%n\n",
            server->directory, index);
    return fclose(file) == 0;
}

static const char *address_of(const struct zookeeper_server *server, int index, int of_peers) {
    const char *address = server->how.addresses[index][of_peers];

    return address ? address : "127.0.0.1";
}

static bool write_config(const struct zookeeper_server *server, int index, unsigned peers[][2]) {
    FILE *file = open_in(server, index, "zoo.cfg");

    if (!file)
        return false;
    fprintf(file,
            "tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir=%s/%d/data\nclientPort=%u\nclientPortAddress=%s\n"
            "maxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=%u\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=%s\n",
            server->directory, index, server->ports[index], address_of(server, index, 0),
            server->how.longest ? server->how.longest : 60000, server->how.words ? server->how.words : "*");
    for (int i = 0; server->count > 1 && i < server->count; i++)
        fprintf(file, "server.%d=%s:%u:%u\n", i + 1, address_of(server, i, 1), peers[i][0], peers[i][1]);
    if (fclose(file) != 0 || !(file = open_in(server, index, "data/myid")))
        return false;
    fprintf(file, "%d\n", index + 1);
    return fclose(file) == 0;
}

static bool write_files(struct zookeeper_server *server) {
    unsigned peers[ZOOKEEPER_SERVERS_MAX][2];
    char path[512];

    for (int i = 0; i < server->count; i++) {
        server->ports[i] = free_port();
        peers[i][0] = free_port();
        peers[i][1] = free_port();
        snprintf(path, sizeof path, "%s/%d", server->directory, i);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%d/data", server->directory, i);
        mkdir(path, 0700);
    }
    for (int i = 0; i < server->count; i++)
        if (!write_config(server, i, peers) || !write_log_settings(server, i))
            return false;
    return true;
}

/* ---- Four-letter words ---------------------------------------------------------------------------------------------------- */

static bool ask_at(const char *host, unsigned port, const char *word, char *answer, size_t size) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = inet_addr(host)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    size_t used = 0;
    ssize_t n = 0;

    if (fd < 0)
        return false;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && send(fd, word, strlen(word), MSG_NOSIGNAL) > 0)
        while (used + 1 < size && poll(&wait, 1, PATIENCE_MS) == 1 && (n = read(fd, answer + used, size - 1 - used)) > 0)
            used += (size_t)n;
    close(fd);
    answer[used] = '\0';
    return used > 0;
}

static bool ask(const struct zookeeper_server *server, int index, const char *word, char *answer, size_t size) {
    return ask_at(address_of(server, index, 0), server->ports[index], word, answer, size);
}

int zookeeper_server_watches(unsigned port) {
    char answer[4096];
    const char *total;

    if (!ask_at("127.0.0.1", port, "wchs", answer, sizeof answer) || !(total = strstr(answer, "Total watches:")))
        return -1;
    return atoi(total + strlen("Total watches:"));
}

/* ---- Processes ------------------------------------------------------------------------------------------------------------ */

static void run_server(const struct zookeeper_server *server, int index) {
    char path[1024], config[512], output[512];
    int fd;

    snprintf(path, sizeof path, "%s/%d:%s:/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar", server->directory,
             index, jar);
    snprintf(config, sizeof config, "%s/%d/zoo.cfg", server->directory, index);
    snprintf(output, sizeof output, "%s/%d/output", server->directory, index);
    fd = open(output, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execl(java, "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true",
          "-Dzookeeper.preAllocSize=1024", server->how.read_only ? "-Dreadonlymode.enabled=true" : "-Dreadonlymode.enabled=false",
          server->how.quota ? "-Dzookeeper.enforceQuota=true" : "-Dzookeeper.enforceQuota=false", "-cp", path,
          "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
    _exit(127);
}

bool zookeeper_server_spawn(struct zookeeper_server *server, int index) {
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of the test */
        if (server->how.inside)
            server->how.inside(index);
        run_server(server, index);
    }
    server->pids[index] = pid > 0 ? pid : 0;
    if (pid > 0 && server->how.outside)
        server->how.outside(index, pid);
    return pid > 0;
}

static void nap(void) {
    const struct timespec moment = {.tv_nsec = STEP_MS * 1000000};

    nanosleep(&moment, NULL);
}

/* The port opens before the database is loaded: only its own word tells. `mode` NULL: any in which it serves. */
static bool await_mode(struct zookeeper_server *server, int index, const char *mode) {
    char answer[4096];
    const char *found;

    for (int i = 0; i < PATIENCE_MS / STEP_MS; i++) {
        found = ask(server, index, "srvr", answer, sizeof answer) ? strstr(answer, "Mode: ") : NULL;
        if (found && (mode ? strncmp(found + 6, mode, strlen(mode)) == 0 : strncmp(found + 6, "read-only", 9) != 0))
            return true;
        if (waitpid(server->pids[index], NULL, WNOHANG) != 0) {
            server->pids[index] = 0;
            return false;
        }
        nap();
    }
    return false;
}

bool zookeeper_server_await_mode(struct zookeeper_server *server, int index, const char *mode) {
    return await_mode(server, index, mode);
}

/* What the servers said, for whoever wants to know why they don't serve. */
static void show_output(const struct zookeeper_server *server) {
    char path[512], line[1024];
    FILE *file;

    for (int i = 0; i < 2 * server->count; i++) {
        snprintf(path, sizeof path, "%s/%d/%s", server->directory, i / 2, i % 2 ? "log" : "output");
        if (!(file = fopen(path, "r")))
            continue;
        printf("# %s:\n", path);
        for (int lines = 0; lines < 50 && fgets(line, sizeof line, file); lines++)
            printf("#   %s", line);
        fclose(file);
    }
}

static bool start_once(struct zookeeper_server *server, int count, const struct zookeeper_how *how) {
    bool up = true;

    memset(server, 0, sizeof *server);
    server->count = count;
    server->how = *how;
    snprintf(server->directory, sizeof server->directory, "%s/pawl-zookeeper-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(server->directory) || !write_files(server))
        return false;
    for (int i = 0; up && i < count; i++)
        up = zookeeper_server_spawn(server, i);
    for (int i = 0; up && i < count; i++)
        up = await_mode(server, i, NULL);
    if (!up) {
        show_output(server);
        zookeeper_server_stop(server);
    }
    return up;
}

bool zookeeper_server_start_as(struct zookeeper_server *server, int count, const struct zookeeper_how *how) {
    for (int i = 0; i < TRIES; i++) /* between being found free and being used a port may be taken by another */
        if (start_once(server, count, how))
            return true;
    return false;
}

bool zookeeper_server_start(struct zookeeper_server *server, int count) {
    const struct zookeeper_how as_usual = {0};

    return zookeeper_server_start_as(server, count, &as_usual);
}

void zookeeper_server_signal(struct zookeeper_server *server, int index, int number) {
    if (server->pids[index])
        kill(server->pids[index], number);
}

void zookeeper_server_kill(struct zookeeper_server *server, int index) {
    if (!server->pids[index])
        return;
    kill(server->pids[index], SIGKILL);
    waitpid(server->pids[index], NULL, 0);
    server->pids[index] = 0;
}

bool zookeeper_server_restart(struct zookeeper_server *server, int index) {
    return zookeeper_server_spawn(server, index) && await_mode(server, index, NULL);
}

void zookeeper_server_stop(struct zookeeper_server *server) {
    char command[300];

    for (int i = 0; i < server->count; i++)
        zookeeper_server_kill(server, i);
    snprintf(command, sizeof command, "rm -rf '%s'", server->directory);
    if (system(command) != 0)
        fprintf(stderr, "# %s could not be removed\n", server->directory);
}

int zookeeper_server_leader(struct zookeeper_server *server) {
    char answer[4096];

    for (int i = 0; i < server->count; i++)
        if (server->pids[i] && ask(server, i, "srvr", answer, sizeof answer) && strstr(answer, "Mode: leader"))
            return i;
    return -1;
}
