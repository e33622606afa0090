/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c - is a server that was connected what the URL says that it is? What it tells of itself in the greeting is looked at here.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redis/route/route.h"

/* Replicas know the cluster, too; and channels have slots since 7.0. */
static void check_cluster(struct server *server) {
    const struct server_facts *facts = &server->facts;

    if (!facts->in_cluster)
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is not part of a cluster: write redis: instead of redis-cluster:");
    else if (facts->version[0] && atoi(facts->version) < 7)
        pawl__link_drop(&server->commands, PAWL_EVERSION, "the node's version is %s: in a cluster pawl needs 7.0 or later",
                        facts->version);
}

/* Not in a cluster: one that others vote with is looked at by those who count (redlock/engine.c). */
static void check_alone(struct server *server) {
    const struct server_facts *facts = &server->facts;

    if (strcmp(facts->mode, "sentinel") == 0)
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is a sentinel: write redis-sentinel://HOST:PORT/NAME");
    else if (facts->is_replica)
        pawl__link_drop(&server->commands, PAWL_ECONNLOST,
                        "the server is a replica and takes no locks: name the primary in the URL");
    else if (facts->in_cluster && !is_voter(server->redis))
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is one node of a cluster: write redis-cluster: instead of redis:");
    else if (facts->version[0] && atoi(facts->version) < 5)
        pawl__link_drop(&server->commands, PAWL_EVERSION, "the server's version is %s: pawl needs 5.0 or later", facts->version);
}

void pawl__route_judge(struct server *server, enum greeting step, const redisReply *reply) {
    if (step == GREET_PRIMARY) {
        pawl__sentinel_answer(server, reply);
    } else if (step == GREET_ROLE) {
        pawl__sentinel_check_role(server, reply);
    } else {
        pawl__server_said(server, (unsigned)(step - GREET_CHECK), reply);
        if (step == GREET_CHECK && reply->type == REDIS_REPLY_STRING) {
            if (in_cluster(server->redis))
                check_cluster(server);
            else
                check_alone(server);
        }
    }
}
