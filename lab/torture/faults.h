/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.h - the faults that the rig can cause, by the words of docs/guarantees.md.
 *
 * A fault belongs to a lane; the faults of one lane come one after the other, those of different lanes at the same time. Clients are
 * killed in one lane; what else befalls them (stopped, cut off, their clocks; corruption, for which all of them must be gone) takes
 * turns in another, and what befalls servers and connections in a third, so that what is seen can be told apart.
 */
#ifndef PAWL_TORTURE_FAULTS_H
#define PAWL_TORTURE_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_lane { LANE_KILL, LANE_CLIENT, LANE_SERVER, LANES };

/* What the rig must own, or have, to cause it. */
enum fault_needs {
    NEEDS_NOTHING = 0,
    NEEDS_PROXY = 1 << 0,      /* a server behind TCP */
    NEEDS_SERVERS = 1 << 1,    /* servers of its own (--start) */
    NEEDS_LOCAL = 1 << 2,      /* a directory of its own */
    NEEDS_FILES = 1 << 3,      /* either of the two: files that it can reach */
    NEEDS_CLOCK = 1 << 4,      /* the shim that lies about time */
    NEEDS_NAMESPACES = 1 << 5, /* network namespaces */
};

#define FAULTS(X)                                                                                                                  \
    X(CLIENT_KILL, "client-kill", LANE_KILL, NEEDS_NOTHING)                                                                        \
    X(CLIENT_STOP, "client-stop", LANE_CLIENT, NEEDS_NOTHING)                                                                      \
    X(CLIENT_CLOCK, "client-clock", LANE_CLIENT, NEEDS_CLOCK)                                                                      \
    X(CLIENT_FAST, "client-fast", LANE_CLIENT, NEEDS_CLOCK)                                                                        \
    X(SERVER_RESTART, "server-restart", LANE_SERVER, NEEDS_SERVERS)                                                                \
    X(SERVER_RESTART_AOF, "server-restart-aof", LANE_SERVER, NEEDS_SERVERS)                                                        \
    X(SERVER_STOP, "server-stop", LANE_SERVER, NEEDS_SERVERS)                                                                      \
    X(SERVER_CLOCK, "server-clock", LANE_SERVER, NEEDS_SERVERS | NEEDS_CLOCK)                                                      \
    X(SERVER_FAST, "server-fast", LANE_SERVER, NEEDS_SERVERS | NEEDS_CLOCK)                                                        \
    X(CUT, "cut", LANE_SERVER, NEEDS_PROXY)                                                                                        \
    X(HALF_OPEN, "half-open", LANE_SERVER, NEEDS_PROXY)                                                                            \
    X(SLOW, "slow", LANE_SERVER, NEEDS_PROXY)                                                                                      \
    X(REORDER, "reorder", LANE_SERVER, NEEDS_PROXY)                                                                                \
    X(PARTITION_CLIENT, "partition-client", LANE_CLIENT, NEEDS_NAMESPACES)                                                         \
    X(PARTITION_SERVERS, "partition-servers", LANE_SERVER, NEEDS_SERVERS)                                                          \
    X(LEADER_KILL, "leader-kill", LANE_SERVER, NEEDS_SERVERS)                                                                      \
    X(FOLLOWER_ISOLATE, "follower-isolate", LANE_SERVER, NEEDS_SERVERS)                                                            \
    X(FAILOVER, "failover", LANE_SERVER, NEEDS_SERVERS)                                                                            \
    X(FLUSHALL, "flushall", LANE_SERVER, NEEDS_SERVERS)                                                                            \
    X(SLOT_MIGRATION, "slot-migration", LANE_SERVER, NEEDS_SERVERS)                                                                \
    X(DISK_FULL, "disk-full", LANE_SERVER, NEEDS_FILES)                                                                            \
    X(CORRUPTION, "corruption", LANE_CLIENT, NEEDS_LOCAL)                                                                          \
    X(BREAK_NOW, "break-now", LANE_SERVER, NEEDS_NOTHING)

enum fault {
#define FAULT_ENUM(name, word, lane, needs) FAULT_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_KINDS
};

struct fault_class {
    const char *word;
    enum fault_lane lane;
    unsigned needs; /* of enum fault_needs */
};

extern const struct fault_class fault_classes[FAULT_KINDS];

/* By its word; FAULT_KINDS: there is none. */
enum fault fault_find(const char *word, size_t length);

#endif
