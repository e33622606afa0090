/* SPDX-License-Identifier: Apache-2.0
 *
 * examine.c - for `pawl doctor`: what about this server matters to locks, asked for anew, and what to change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/redis/redis.h"
#include "error.h"
#include "examine.h"

struct examination {
    struct node *node;
    struct pawl__exam exam;
};

/* A setting of the server's; false: it may not be read, which is a finding. */
static bool setting(struct examination *exam, const char *name, char *ret, size_t size) {
    const char *argv[] = {"CONFIG", "GET", name};
    struct pawl_error why;
    redisReply *reply = pawl__node_call(exam->node, -1, 0, 3, argv, &why);
    bool ok = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements >= 2 && reply->element[1]->type == REDIS_REPLY_STRING;

    if (ok)
        snprintf(ret, size, "%s", reply->element[1]->str);
    else
        pawl__found(&exam->exam, PAWL_FINDING_UNKNOWN, "let the user run CONFIG GET, or look at it yourself",
                    "%s could not be read", name);
    freeReplyObject(reply);
    return ok;
}

static void examine_eviction(struct examination *exam) {
    char policy[64];

    if (!setting(exam, "maxmemory-policy", policy, sizeof policy))
        return;
    if (strcmp(policy, "noeviction") == 0)
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "no key is evicted when memory is full (maxmemory-policy noeviction)");
    else
        pawl__found(&exam->exam, PAWL_FINDING_WARNING, "set maxmemory-policy noeviction; or keep locks on a server of their own",
                    "keys may be evicted when memory is full (maxmemory-policy %s), locks that are held among them", policy);
}

static void examine_persistence(struct examination *exam) {
    char aof[16], sync[32];

    if (!setting(exam, "appendonly", aof, sizeof aof))
        return;
    if (strcmp(aof, "yes") != 0) {
        pawl__found(&exam->exam, PAWL_FINDING_WARNING, "set appendonly yes and appendfsync always",
                    "there is no append-only file: a restart forgets the locks that are held");
        return;
    }
    if (!setting(exam, "appendfsync", sync, sizeof sync))
        return;
    if (strcmp(sync, "always") == 0)
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "every write reaches the disk before it is answered (appendfsync always)");
    else
        pawl__found(&exam->exam, PAWL_FINDING_WARNING, "set appendfsync always, if a crash of the host must not let two hold",
                    "a crash may forget the locks of the last moment (appendfsync %s)", sync);
}

static void examine_replicas(struct examination *exam, const char *info) {
    char replicas[16], least[16];

    pawl__server_info(info, "connected_slaves", replicas, sizeof replicas);
    if (atoi(replicas) == 0) {
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "it has no replicas that a failover could go to");
        return;
    }
    if (!setting(exam, "min-replicas-to-write", least, sizeof least))
        return;
    if (atoi(least) > 0)
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "it writes only while %s of its %s replicas are there", least, replicas);
    else
        pawl__found(&exam->exam, PAWL_FINDING_WARNING,
                    "set min-replicas-to-write 1, and know that a failover may still forget the last writes",
                    "it has %s replicas and does not wait for any: a failover may forget locks that are held", replicas);
}

/* Tokens are at least the server's time: one that is far behind would, after a failover to it, give lower ones. */
static void examine_clock(struct examination *exam) {
    const char *argv[] = {"TIME"};
    struct pawl_error why;
    redisReply *reply = pawl__node_call(exam->node, -1, 0, 1, argv, &why);
    int64_t skew;

    if (!reply) {
        pawl__found(&exam->exam, PAWL_FINDING_UNKNOWN, "let the user run TIME", "the server's clock could not be read");
        return;
    }
    skew = (int64_t)time(NULL) - pawl__reply_number(reply, 0, 0);
    freeReplyObject(reply);
    if (skew >= -5 && skew <= 5)
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "its clock agrees with this machine's within 5 s");
    else
        pawl__found(&exam->exam, PAWL_FINDING_WARNING, "keep the clocks of all servers in step (NTP)",
                    "its clock differs from this machine's by %lld s: tokens are made of it", (long long)-skew);
}

int pawl__redis_examine(struct pawl__engine *engine, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    struct examination exam = {.node = TAILQ_FIRST(&redis_of(engine)->nodes), .exam = {.visit = visit, .data = data}};
    const char *argv[] = {"INFO", "everything"};
    struct pawl_error why;
    redisReply *reply = pawl__node_call(exam.node, -1, 0, 2, argv, &why);
    char version[32];

    if (reply && reply->type == REDIS_REPLY_STRING) {
        pawl__server_info(reply->str, "redis_version", version, sizeof version);
        pawl__found(&exam.exam, PAWL_FINDING_GOOD, "", "%s is a Redis %s, or speaks like one, and takes writes",
                    exam.node->redis->url, version);
        examine_replicas(&exam, reply->str);
    } else if (!reply && why.code == PAWL_ECONNLOST) {
        return pawl__fail(reterr, why.code, "%s", why.text);
    } else {
        pawl__found(&exam.exam, PAWL_FINDING_UNKNOWN, "let the user run INFO", "version and replicas could not be read");
    }
    freeReplyObject(reply);
    examine_eviction(&exam);
    examine_persistence(&exam);
    examine_clock(&exam);
    return exam.exam.rc;
}
