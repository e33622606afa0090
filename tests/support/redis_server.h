/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_server.h - Redis servers that a test starts for itself: on loopback, on a free port, in a temporary directory; stopped by pid.
 *
 * redis_server.c starts real ones. In a program that lives in the simulated world they are simulated (sim/tests/world_redis_server.c), and
 * kill() with SIGSTOP or SIGCONT and such a pid stops one and lets it go on there, too. Those have no TLS, and no clock_fd.
 */
#ifndef PAWL_REDIS_SERVER_H
#define PAWL_REDIS_SERVER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct redis_server {
    pid_t pid; /* 0: does not run */
    unsigned port, tls_port;
    bool tls; /* set before the start: listen on tls_port too, with server.crt, server.key and ca.crt of its directory */
    char directory[128];
    char socket_path[160];
    int clock_fd;        /* set before the start, or 0: its clock is as wrong as this `struct clock_page` says (clock_shim.c) */
    bool sentinel;       /* set before the start: it is not a server but a sentinel */
    const char *version; /* set before the start, for a simulated one: what it shall be; NULL: as it comes */
    char extra[2048];    /* further lines of its configuration: set before the start */
    redisContext *context;
};

/* Is there a redis-server on this machine? If not, a sentence that says why tests are skipped goes to *why. */
bool redis_server_exists(const char **why);

/* So many different ports of loopback that nobody has at the moment. */
void redis_free_ports(unsigned *ports, size_t count);

/* Make its directory, if it has none; starting does, too. */
void redis_server_prepare(struct redis_server *server);
/* Put certificates of an authority of its own into its directory: ca.crt, server.crt, client.crt and their keys. `tls` uses them. */
void redis_server_certify(struct redis_server *server);
/* Start it, again on the same port if it had one; wait until it answers. */
void redis_server_start(struct redis_server *server);
/* The two halves of that, for a server that was started before: not in a thread that ends, since the server would end with it. */
void redis_server_launch(struct redis_server *server);
bool redis_server_await(struct redis_server *server);
/* Does it answer now? The test's own connection is made anew. */
bool redis_server_answers(struct redis_server *server);
/* Ask it to end with `signal`, and wait until it has. */
void redis_server_stop(struct redis_server *server, int signal);
/* Stop it and remove its directory. */
void redis_server_free(struct redis_server *server);

/* Its disk is full, or is not any more, and it knows: if it is to save at all (CONFIG SET save), it refuses to write meanwhile. */
void redis_server_let_save(struct redis_server *server, bool possible);

/* Run a command (as redisCommand) on a connection of the test's own. The reply is the caller's to free. */
redisReply *redis_server_command(struct redis_server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for commands whose answer is a number, or a text (copied to `buffer`, "" for nil). */
long long redis_server_integer(struct redis_server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *redis_server_text(struct redis_server *server, char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A number that it keeps about a command, in small letters, since its statistics were reset: "calls", "rejected_calls"... */
long redis_server_stat(struct redis_server *server, const char *command, const char *what);
/* How often it was asked for it. */
long redis_server_calls(struct redis_server *server, const char *command);
/* How often it was asked to run a script, with or without its body. */
long redis_server_scripts(struct redis_server *server);
/* The number that a command without arguments of its own, its words separated by blanks, answers. */
long long redis_server_plain(struct redis_server *server, const char *command);

#endif
