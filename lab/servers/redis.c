/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - see redis.h.
 */
#include "redis.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "files.h"

enum { SLOTS = 16384 };

const char *redis_missing(void) {
    return has_command("redis-server") ? NULL : "there is no redis-server (Debian: redis-server)";
}

bool redis_configure(const char *directory, const char *address, unsigned port, const char *lines) {
    return write_file(directory, "redis.conf", "bind %s\nport %u\ndir %s\nprotected-mode no\n%s\n", address, port, directory,
                      lines);
}

void redis_become(const char *directory, bool sentinel) {
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/redis.conf", directory);
    execlp("redis-server", "redis-server", path, sentinel ? "--sentinel" : NULL, (char *)NULL);
}

const char *redis_node_id(int index) {
    static char ids[REDIS_NODES_MAX][41];

    snprintf(ids[index], sizeof ids[index], "%040d", index + 1);
    return ids[index];
}

/* From 7.2 on a node belongs to a shard. One without replicas that was not told its shard ends with its first SPUBLISH. Before 7.2 the word
 * is not understood. */
static bool has_shards(void) {
    FILE *output = popen("redis-server --version", "re");
    int major = 0, minor = 0;

    if (output == NULL)
        return false;
    if (fscanf(output, "%*s server v=%d.%d", &major, &minor) != 2)
        major = 0;
    pclose(output);
    return major > 7 || (major == 7 && minor >= 2);
}

bool redis_write_nodes(const char *directory, const struct redis_nodes *nodes, int myself) {
    int primaries = nodes->alone ? nodes->count : nodes->count / 2;
    bool shards = has_shards();
    char text[2048], shard[64] = "";
    size_t used = 0;

    for (int i = 0; i < nodes->count; i++) {
        if (shards)
            snprintf(shard, sizeof shard, ",,shard-id=%s", redis_node_id(i % primaries));
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s:%u@%u%s %s", redis_node_id(i), nodes->host,
                                 nodes->ports[i], nodes->buses[i], shard, i == myself ? "myself," : "");
        if (i < primaries)
            used += (size_t)snprintf(text + used, sizeof text - used, "master - 0 0 %d connected %d-%d\n", i + 1,
                                     (SLOTS * i + primaries / 2) / primaries, (SLOTS * (i + 1) + primaries / 2) / primaries - 1);
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "slave %s 0 0 %d connected\n", redis_node_id(i - primaries),
                                     i - primaries + 1);
    }
    return write_file(directory, "nodes.conf", "%svars currentEpoch %d lastVoteEpoch 0\n", text, primaries);
}
