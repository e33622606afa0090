/* SPDX-License-Identifier: Apache-2.0
 *
 * examine.c - for `pawl doctor`: what about this server matters to locks, asked for anew, and what to change.
 *
 * Replicas are asked for their clocks alone. They are where the primary says that they are, which need not be reachable from here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/redis/view/view.h"

enum { REPLICAS_MAX = 16 };

/* A setting of the server's; false: it may not be read, which is a finding. */
static bool setting(struct examination *exam, const char *name, char *ret, size_t size) {
    const char *argv[] = {"CONFIG", "GET", name};
    struct pawl_error why;
    redisReply *reply = exam->server->redis->call(exam->server, -1, 0, 3, argv, NULL, &why);
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
    unsigned asked = exam->server->redis->options.replicas;
    bool alone = !exam->server->redis->traits.several;
    char replicas[16], least[16];

    pawl__reply_info(info, "connected_slaves", replicas, sizeof replicas);
    if (atoi(replicas) == 0)
        pawl__found(&exam->exam, alone ? PAWL_FINDING_GOOD : PAWL_FINDING_WARNING, alone ? "" : "add a replica, or two",
                    "it has no replicas that a failover could go to");
    else if (asked)
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "",
                    "what is granted is on %u of its %s replicas: it survives a failover to those", asked, replicas);
    else if (setting(exam, "min-replicas-to-write", least, sizeof least))
        pawl__found(&exam->exam, PAWL_FINDING_WARNING,
                    "write ?replicas=1 into the URL (docs/redis.md has figures), or know that two may hold after a failover",
                    "it has %s replica%s%s, and does not wait until they have a lock: a failover may forget it", replicas,
                    atoi(replicas) == 1 ? "" : "s", atoi(least) > 0 ? ", writes only while some are there" : "");
}

/* What to call it: as the URL does, or by its address where the URL names others. */
static const char *name_of(const struct server *server) {
    if (!server->redis->traits.several)
        return server->url;
    return pawl__addresses_where(server->addresses);
}

/* A server's clock is so far ahead of ours. */
static void note_clock(struct examination *exam, const char *name, int64_t ahead) {
    if (!exam->clocks || ahead < exam->least_ahead) {
        exam->least_ahead = ahead;
        snprintf(exam->least_name, sizeof exam->least_name, "%s", name);
    }
    if (!exam->clocks || ahead > exam->most_ahead) {
        exam->most_ahead = ahead;
        snprintf(exam->most_name, sizeof exam->most_name, "%s", name);
    }
    exam->clocks++;
}

/* False: it could not be read. */
static bool read_clock(struct examination *exam, struct server *server, const char *name, int64_t *retahead) {
    struct pawl_error why;
    int64_t before = pawl__wall_us();
    redisReply *reply = server->redis->call(server, -1, 0, 1, (const char *[]){"TIME"}, NULL, &why);
    bool ok = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;

    if (ok) {
        *retahead = pawl__reply_number(reply, 0, 0) * 1000000 + pawl__reply_number(reply, 1, 0) - (before + pawl__wall_us()) / 2;
        note_clock(exam, name, *retahead);
    }
    freeReplyObject(reply);
    return ok;
}

/* Tokens are at least the server's time: one that is far behind would, after a failover to it, give lower ones. */
static void examine_clock(struct examination *exam) {
    int64_t ahead;

    if (!read_clock(exam, exam->server, name_of(exam->server), &ahead))
        pawl__found(&exam->exam, PAWL_FINDING_UNKNOWN, "let the user run TIME", "the server's clock could not be read");
    else if (ahead >= -5000000 && ahead <= 5000000)
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "its clock agrees with this machine's within 5 s");
    else
        pawl__found(&exam->exam, PAWL_FINDING_WARNING, "keep the clocks of all servers in step (NTP)",
                    "its clock differs from this machine's by %lld s: tokens are made of it", (long long)(ahead / 1000000));
}

/* May the user have changes told? The server checks rights before arguments: who may is told that "?" is no argument, who may not gets
 * PAWL_EACCES. */
static void examine_observing(struct examination *exam) {
    const char *argv[] = {"CLIENT", "TRACKING", "?"};
    struct pawl_error why = {0};
    redisReply *reply;

    if (exam->server->redis->options.layout == LAYOUT_OWN) /* which has no values */
        return;
    reply = exam->server->redis->call(exam->server, -1, 0, 3, argv, NULL, &why);
    if (!reply && why.code == PAWL_EACCES)
        pawl__found(&exam->exam, PAWL_FINDING_WARNING,
                    "give it +client|id +client|tracking +client|caching &__redis__:invalidate, if locks are observed",
                    "the user may not have the server tell of changes: who observes a lock looks every second");
    freeReplyObject(reply);
}

/* ---- Replicas --------------------------------------------------------------------------------------------------------------- */

static bool read_replica_clock(struct examination *exam, const char *name, const char *host, unsigned port) {
    struct server *replica = pawl__visit(exam->server->redis, host, port);
    int64_t ahead;
    bool ok = replica && read_clock(exam, replica, name, &ahead);

    if (replica)
        pawl__visit_end(replica);
    return ok;
}

static void examine_replica_clock(struct examination *exam, const char *host, unsigned port) {
    char name[PAWL__URL_HOST_PORT];

    pawl__url_host_port(host, port, name);
    if (!read_replica_clock(exam, name, host, port))
        pawl__found(&exam->exam, PAWL_FINDING_UNKNOWN, "compare it with the primary's yourself",
                    "the clock of its replica %s could not be read from here", name);
}

/* `slave0:ip=HOST,port=PORT,...` of INFO, a line for each. */
static void examine_replica_clocks(struct examination *exam, const char *info) {
    char key[24], line[512], host[256];
    unsigned port;

    for (int i = 0; i < REPLICAS_MAX; i++) {
        snprintf(key, sizeof key, "slave%d", i);
        pawl__reply_info(info, key, line, sizeof line);
        if (sscanf(line, "ip=%255[^,],port=%u", host, &port) == 2)
            examine_replica_clock(exam, host, port);
    }
}

/* A token after a failover is at least the new server's time: its clock may be behind by less than a failover takes. */
void pawl__examine_clocks(struct examination *exam) {
    int64_t apart = (exam->most_ahead - exam->least_ahead) / 1000;

    if (exam->clocks < 2)
        return;
    if (apart < 1000)
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "the clocks of the %u servers are %lld ms apart at most", exam->clocks,
                    (long long)apart);
    else
        pawl__found(&exam->exam, PAWL_FINDING_WARNING, "keep the clocks of all servers in step (NTP)",
                    "the clocks of the %u servers are up to %lld ms apart, %s behind and %s ahead: after a failover tokens may be "
                    "lower than before",
                    exam->clocks, (long long)apart, exam->least_name, exam->most_name);
}

int pawl__examine_server(struct examination *exam, struct pawl_error *reterr) {
    const char *argv[] = {"INFO", "everything"};
    struct pawl_error why;
    redisReply *reply = exam->server->redis->call(exam->server, -1, 0, 2, argv, NULL, &why);
    char version[32];

    if (reply && reply->type == REDIS_REPLY_STRING) {
        pawl__reply_info(reply->str, "redis_version", version, sizeof version);
        pawl__found(&exam->exam, PAWL_FINDING_GOOD, "", "%s is a Redis %s, or speaks like one, and takes writes",
                    name_of(exam->server), version);
        examine_replicas(exam, reply->str);
    } else if (!reply && why.code == PAWL_ECONNLOST) {
        return pawl__fail(reterr, why.code, "%s", why.text);
    } else {
        pawl__found(&exam->exam, PAWL_FINDING_UNKNOWN, "let the user run INFO", "version and replicas could not be read");
    }
    examine_eviction(exam);
    examine_persistence(exam);
    examine_clock(exam);
    examine_observing(exam);
    if (reply)
        examine_replica_clocks(exam, reply->str);
    freeReplyObject(reply);
    return exam->exam.rc;
}
