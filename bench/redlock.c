/* SPDX-License-Identifier: Apache-2.0
 *
 * redlock.c - what a lock over several Redis servers costs, in round trips to one of them, of the same process and run:
 *
 *     bench-redlock PID PORT PORT PORT...      PID: the process of the last one, which is stopped half way through
 *
 * Client and server on one core and on two give very different round trips: so nothing here is worth comparing but ratios. The bare round
 * trip is an EVALSHA of a script that does nothing, by hiredis, taken in turns with what is measured. Beside it stand two floors, which the
 * plainest loop over poll() reaches, sending to all servers at once until a majority has answered: with that script; and with one that
 * does the least that a vote can be, a key that is taken, a token and a record. Where the servers share few cores with the client, the
 * second is what an acquire can be measured by: the servers work one after the other.
 */
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"

enum { ROUNDS = 5000, WARM = 300, MOST = 31 };

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

static void check(int rc, const struct pawl_error *error) {
    if (rc < 0) {
        fprintf(stderr, "bench-redlock: %s\n", error->text);
        exit(1);
    }
}

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double part_us(int64_t *samples, double part) {
    qsort(samples, ROUNDS, sizeof *samples, compare);
    return (double)samples[(size_t)(ROUNDS * part)] / 1000;
}

static int64_t bare_trip(void) {
    int64_t begin = now_ns();
    redisReply *reply = redisCommand(bare[0], "EVALSHA %s 1 bench:bare", sha[NOTHING]);

    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "bench-redlock: the bare script does not run\n");
        exit(1);
    }
    freeReplyObject(reply);
    return now_ns() - begin;
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
    begin = now_ns();
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
                    quorum_at = now_ns();
            }
        }
    return quorum_at - begin;
}

static void measure(const char *what, const char *url, unsigned servers) {
    static int64_t trips[ROUNDS], floors[ROUNDS], votes[ROUNDS], acquires[ROUNDS], releases[ROUNDS];
    struct rusage before, after;
    struct pawl_error error;
    struct pawl_lock *lock;
    struct pawl *client;
    double trip;

    check(pawl_open(url, NULL, &client, &error), &error);
    check(pawl_mutex_new(client, "bench:alone", 0, &lock, &error), &error);
    for (int i = -WARM; i < ROUNDS; i++) {
        int64_t begin, middle, end, round = bare_trip(), least = floor_trip(servers, NOTHING), vote = floor_trip(servers, VOTE);

        floor_trip(servers, UNVOTE);
        if (i == 0)
            getrusage(RUSAGE_SELF, &before);
        begin = now_ns();
        check(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        middle = now_ns();
        check(pawl_release(lock, &error), &error);
        end = now_ns();
        if (i < 0)
            continue;
        trips[i] = round;
        floors[i] = least;
        votes[i] = vote;
        acquires[i] = middle - begin;
        releases[i] = end - middle;
    }
    getrusage(RUSAGE_SELF, &after);
    trip = part_us(trips, 0.5);
    printf("%-22s bare EVALSHA %.1f us; all at once, to the majority's answer %.2f round trips; with a vote's least work %.2f\n",
           what, trip, part_us(floors, 0.5) / trip, part_us(votes, 0.5) / trip);
    printf("%-22s acquire %.1f us = %.2f round trips (p99 %.2f), %.2f of that least; release %.1f us = %.2f; %.1f voluntary "
           "switches a round\n",
           "", part_us(acquires, 0.5), part_us(acquires, 0.5) / trip, part_us(acquires, 0.99) / trip,
           part_us(acquires, 0.5) / part_us(votes, 0.5), part_us(releases, 0.5), part_us(releases, 0.5) / trip,
           (double)(after.ru_nvcsw - before.ru_nvcsw) / ROUNDS);
    pawl_lock_free(lock);
    pawl_close(client);
}

int main(int argc, char **argv) {
    char url[1024] = "redlock://";
    redisReply *reply;
    pid_t last;

    if (argc < 5 || argc - 2 > MOST) {
        fprintf(stderr, "usage: bench-redlock PID PORT PORT PORT...\n");
        return 64;
    }
    last = (pid_t)atoi(argv[1]);
    for (count = 0; count < (unsigned)argc - 2; count++) {
        const char *port = argv[2 + count];

        sprintf(url + strlen(url), "%s127.0.0.1:%s", count ? "," : "", port);
        bare[count] = redisConnect("127.0.0.1", atoi(port));
        if (!bare[count] || bare[count]->err) {
            fprintf(stderr, "bench-redlock: no server at port %s\n", port);
            return 1;
        }
        for (int i = 0; i < SCRIPTS; i++) {
            reply = redisCommand(bare[count], "SCRIPT LOAD %s", bodies[i]);
            snprintf(sha[i], sizeof sha[i], "%s", reply && reply->str ? reply->str : "");
            freeReplyObject(reply);
        }
    }
    measure("all servers", url, count);
    kill(last, SIGSTOP);
    measure("one server stopped", url, count - 1);
    kill(last, SIGCONT);
    for (unsigned i = 0; i < count; i++)
        redisFree(bare[i]);
    return 0;
}
