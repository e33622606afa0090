/* SPDX-License-Identifier: Apache-2.0
 *
 * redlock.c - what a lock over several Redis servers costs, in round trips to one of them, of the same process and run:
 *
 *     bench-redlock ROUNDS PID PORT PORT PORT...      PID: the process of the last one, which is stopped half way through
 *
 * Client and server on one core and on two give very different round trips: so nothing here is worth comparing but ratios. The bare round
 * trip is an EVALSHA of a script that does nothing, by hiredis, taken in turns with what is measured: a lock as users get it, and one with
 * ?spin=0, whose client sleeps while it waits, as hiredis does. Beside them stand two floors, which the plainest loop over poll() reaches,
 * sending to all servers at once until a majority has answered: with that script; and with one that does the least that a vote can be, a
 * key that is taken, a token and a record. Where the servers share few cores with the client, the second is what an acquire can be measured
 * by: the servers work one after the other. So all of it is measured once more with the servers 2 ms away, as far as the client can
 * tell: there the round trip counts, and not whose core it is.
 *
 * Prints JSON, a line for each half of both; times in microseconds.
 */
#include <err.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../stats.h"
#include "pawl.h"
#include "servers/proxy.h"

enum { MOST = 31, AWAY_FEWER = 10 };

enum { NOTHING, VOTE, UNVOTE, SCRIPTS };
static const char *const bodies[SCRIPTS] = {
    "return 1",
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then "
    "redis.call('GETSET', KEYS[2], ARGV[3]) return 1 end return 0",
    "return redis.call('DEL', KEYS[1])",
};
static redisContext *bare[MOST];
static char sha[SCRIPTS][41];
static unsigned count;
static int rounds;
static const char *where = "";

static void check(int rc, const struct pawl_error *error) {
    if (rc < 0)
        errx(1, "%s", error->text);
}

static double part_us(const struct histogram *times, double part) {
    return histogram_at(times, part) / 1000;
}

static int64_t bare_trip(void) {
    int64_t begin = bench_now_ns();
    redisReply *reply = redisCommand(bare[0], "EVALSHA %s 1 bench:bare", sha[NOTHING]);

    if (!reply || reply->type == REDIS_REPLY_ERROR)
        errx(1, "the bare script does not run");
    freeReplyObject(reply);
    return bench_now_ns() - begin;
}

/* All at once; `servers` of them are there. Returns when a majority has answered, and reads the rest before the next. */
static int64_t floor_trip(unsigned servers, int script) {
    static const char keys[] = "bench:{bare} bench:{bare}:vote 0123456789abcdef0123456789abcdef:1 30000 "
                               "1763246400000000:1:host:4711:bench-redlock:label";
    char command[256];
    struct pollfd fds[MOST];
    int64_t begin, quorum_at = 0;
    unsigned answered = 0;
    int done = 0;
    void *reply;

    snprintf(command, sizeof command, "EVALSHA %s 2 %s", sha[script], keys);
    begin = bench_now_ns();
    for (unsigned i = 0; i < servers; i++) {
        redisAppendCommand(bare[i], command);
        while (redisBufferWrite(bare[i], &done) == REDIS_OK && !done)
            continue;
        fds[i] = (struct pollfd){.fd = bare[i]->fd, .events = POLLIN};
    }
    while (answered < servers && poll(fds, servers, 5000) > 0)
        for (unsigned i = 0; i < servers; i++) {
            if (!fds[i].revents || redisBufferRead(bare[i]) != REDIS_OK)
                continue;
            while (redisGetReplyFromReader(bare[i], &reply) == REDIS_OK && reply) {
                freeReplyObject(reply);
                if (++answered == count / 2 + 1)
                    quorum_at = bench_now_ns();
            }
        }
    return quorum_at - begin;
}

/* A lock, and what its cycles took. */
struct subject {
    const char *key, *options;
    struct pawl *client;
    struct pawl_lock *lock;
    struct histogram acquires, releases;
    long sleeps;
};
static struct subject subjects[] = {{.key = "default", .options = ""}, {.key = "spin0", .options = "?spin=0"}};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

static void open_subject(struct subject *subject, const char *servers) {
    struct pawl_error error;
    char url[4200];

    snprintf(url, sizeof url, "%s%s", servers, subject->options);
    check(pawl_open(url, NULL, &subject->client, &error), &error);
    check(pawl_mutex_new(subject->client, "bench:alone", 0, &subject->lock, &error), &error);
    histogram_clear(&subject->acquires);
    histogram_clear(&subject->releases);
    subject->sleeps = 0;
}

static void cycle(struct subject *subject, int round) {
    struct rusage before, after;
    struct pawl_error error;
    int64_t begin, middle, end;

    getrusage(RUSAGE_THREAD, &before);
    begin = bench_now_ns();
    check(pawl_acquire(subject->lock, PAWL_FOREVER, &error), &error);
    middle = bench_now_ns();
    check(pawl_release(subject->lock, &error), &error);
    end = bench_now_ns();
    getrusage(RUSAGE_THREAD, &after);
    if (round < 0)
        return;
    histogram_add(&subject->acquires, middle - begin);
    histogram_add(&subject->releases, end - middle);
    subject->sleeps += after.ru_nvcsw - before.ru_nvcsw;
}

static void print_subject(struct subject *subject) {
    printf(", \"%s\": {\"acquire\": %.1f, \"acquire_p99\": %.1f, \"release\": %.1f, \"sleeps\": %.2f}", subject->key,
           part_us(&subject->acquires, 0.5), part_us(&subject->acquires, 0.99), part_us(&subject->releases, 0.5),
           (double)subject->sleeps / rounds);
}

enum { TRIP, LEAST, VOTES, TIMES };

static void measure(const char *what, const char *url, unsigned servers) {
    static struct histogram times[TIMES];

    for (int i = 0; i < TIMES; i++)
        histogram_clear(&times[i]);
    for (int i = 0; i < SUBJECTS; i++)
        open_subject(&subjects[i], url);
    for (int i = -rounds / 5; i < rounds; i++) {
        int64_t taken[TIMES] = {bare_trip()};

        taken[LEAST] = floor_trip(servers, NOTHING);
        taken[VOTES] = floor_trip(servers, VOTE);
        floor_trip(servers, UNVOTE);
        for (int k = 0; k < SUBJECTS; k++)
            cycle(&subjects[k], i);
        for (int k = 0; k < TIMES && i >= 0; k++)
            histogram_add(&times[k], taken[k]);
    }
    printf("{\"servers\": \"%s%s\", \"trip\": %.1f, \"floor\": %.1f, \"vote\": %.1f", what, where, part_us(&times[TRIP], 0.5),
           part_us(&times[LEAST], 0.5), part_us(&times[VOTES], 0.5));
    for (int i = 0; i < SUBJECTS; i++) {
        print_subject(&subjects[i]);
        pawl_lock_free(subjects[i].lock);
        pawl_close(subjects[i].client);
    }
    printf("}\n");
    fflush(stdout);
}

static void connect_bare(unsigned server, unsigned port) {
    redisReply *reply;

    bare[server] = redisConnect("127.0.0.1", (int)port);
    if (!bare[server] || bare[server]->err)
        errx(1, "no server at port %u", port);
    for (int i = 0; i < SCRIPTS; i++) {
        reply = redisCommand(bare[server], "SCRIPT LOAD %s", bodies[i]);
        snprintf(sha[i], sizeof sha[i], "%s", reply && reply->str ? reply->str : "");
        freeReplyObject(reply);
    }
}

/* All of them, and then without the last, which is stopped. */
static void measure_both(const unsigned *ports, pid_t last) {
    char url[1024] = "redlock://";

    for (unsigned i = 0; i < count; i++) {
        sprintf(url + strlen(url), "%s127.0.0.1:%u", i ? "," : "", ports[i]);
        connect_bare(i, ports[i]);
    }
    measure("all", url, count);
    kill(last, SIGSTOP);
    measure("one stopped", url, count - 1);
    kill(last, SIGCONT);
    for (unsigned i = 0; i < count; i++)
        redisFree(bare[i]);
}

/* The same with proxies before them that hold each answer back. */
static void measure_away(const unsigned *ports, pid_t last) {
    struct proxy *proxies[MOST];
    unsigned through[MOST];

    where = ", 2 ms away";
    rounds = rounds < AWAY_FEWER ? 1 : rounds / AWAY_FEWER;
    for (unsigned i = 0; i < count; i++) {
        proxies[i] = proxy_new(ports[i], NULL, NULL, NULL);
        if (!proxies[i])
            errx(1, "cannot make a proxy");
        proxy_delay(proxies[i], 2);
        through[i] = proxy_port(proxies[i]);
    }
    measure_both(through, last);
    for (unsigned i = 0; i < count; i++)
        proxy_free(proxies[i]);
}

int main(int argc, char **argv) {
    unsigned ports[MOST];
    pid_t last;

    rounds = argc > 1 ? atoi(argv[1]) : 0;
    last = argc > 2 ? (pid_t)atoi(argv[2]) : 0;
    if (argc < 6 || argc - 3 > MOST || rounds < 1 || last < 2)
        errx(64, "usage: bench-redlock ROUNDS PID PORT PORT PORT...");
    for (count = 0; count < (unsigned)argc - 3; count++)
        ports[count] = (unsigned)atoi(argv[3 + count]);
    measure_both(ports, last);
    measure_away(ports, last);
    return 0;
}
