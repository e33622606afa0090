/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - simulated Redis servers: one alone, a primary with replicas, with sentinels, or a cluster.
 *
 * Each is a server as server.h has it: `redis_ops` with a `struct redis`. It answers as a redis-server 7.0 does, byte by byte
 * (sim/tests/differential_redis.c compares), and runs the scripts that it is sent by a real Lua 5.1. Nothing in it depends on an address, a
 * real clock or real chance: the same seed and the same input give the same output.
 *
 * Servers that belong together are a group. What they say to each other (replication, pings, votes, gossip) are messages inside of the
 * model, each with a delay of its own. They are handled in tick(): a server that the world has paused handles none, and is missed by the
 * others. Since one server's input may make another one due, the world must hear of that: redis_on_due().
 *
 * The operator, which the rig or a test plays, calls the functions below between two events of the world; they take
 * the time, as the ops do.
 */
#ifndef PAWL_SIM_REDIS_H
#define PAWL_SIM_REDIS_H

#include "server.h"

struct redis;

extern const struct server_ops redis_ops;

/* ---- One server ----------------------------------------------------------------------------------------------------------- */

/* Zeros are good for everything but the port. */
struct redis_settings {
    uint64_t seed;
    unsigned port;
    const char *host;     /* what it calls itself towards others; NULL: 127.0.0.1 */
    const char *name;     /* for people; NULL: "redis" */
    const char *version;  /* NULL: 7.0.15 */
    bool frozen_time;     /* within a script TIME stands still, as it does since 7.2; else it goes on */
    int64_t wall_ns;      /* what the wall clock shows when true time is 0; 0: a day in 2026 */
    bool no_aof;          /* INFO says that it writes no append-only file. What a restart forgets is said there, not here */
    int64_t journal_ns;   /* how far back REDIS_FORGETS_SINCE can go; 0: not at all */
    unsigned max_clients; /* 0: 10,000 */
    unsigned nonsense;    /* one in so many replies is well-formed and makes no sense; 0: none */
};

struct redis *redis_new(const struct redis_settings *settings);
void redis_free(struct redis *redis); /* NULL is allowed. Its links must be gone */

unsigned redis_port(const struct redis *redis);
const char *redis_name(const struct redis *redis);
/* Its wall clock: server_clock_set(redis_clock(redis), now, jump_ns, rate). */
struct server_clock *redis_clock(struct redis *redis);
/* Called whenever something other than its own input or tick may have made it due earlier: a message of another server's. */
void redis_on_due(struct redis *redis, void (*due)(void *data), void *data);

/* Run a command as an operator on the server's own machine would: by an own connection, with all rights; words are parted by spaces, or
 * quoted as redis-cli wants it. The reply's bytes, cut at `size` and always terminated, go to `reply`, which may be NULL. Returns whether
 * it is not an error. It does not wait: WAIT answers at once. On a server that is down: false, and nothing. */
bool redis_do(struct redis *redis, int64_t now, char *reply, size_t size, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- Stops and restarts --------------------------------------------------------------------------------------------------- */

enum redis_memory {
    REDIS_KEEPS_ALL,     /* an append-only file that is synced at every write */
    REDIS_FORGETS,       /* nothing was saved */
    REDIS_FORGETS_SINCE, /* what is newer than `since` is lost; at most journal_ns back */
};

/* Its process ends: take its site down first, so that its connections are gone. Those that still are get closed. */
void redis_stop(struct redis *redis, int64_t now);
/* It comes back, with another run id and without scripts. `since`: see REDIS_FORGETS_SINCE. One of a group comes back as what it last was,
 * primary or replica. */
void redis_start(struct redis *redis, int64_t now, enum redis_memory memory, int64_t since);
/* Both. */
void redis_restart(struct redis *redis, int64_t now, enum redis_memory memory, int64_t since);
bool redis_is_up(const struct redis *redis);
/* Until then it answers LOADING. */
void redis_load_until(struct redis *redis, int64_t until);

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

/* Texts that real servers use; any text goes. The first word is the error's code. */
#define REDIS_OOM "OOM command not allowed when used memory > 'maxmemory'."
#define REDIS_READONLY "READONLY You can't write against a read only replica."
#define REDIS_MISCONF                                                                                                              \
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify "   \
    "the "                                                                                                                         \
    "data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails "         \
    "(stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error."
#define REDIS_MISCONF_AOF "MISCONF Errors writing to the AOF file: No space left on device"

/* The k-th write command from now on (1: the next), inside of a script or not, fails so; what a script wrote before it stays. 0: forget
 * it. */
void redis_fail_write(struct redis *redis, uint64_t k, const char *error);
/* Every write fails so until NULL is given; with MISCONF so does PING. A script is run, and fails at its first write. */
void redis_fail_writes(struct redis *redis, const char *error);
/* Was the failure of redis_fail_write struck? */
bool redis_write_failed(const struct redis *redis);
void redis_set_nonsense(struct redis *redis, unsigned one_in);
/* Remove every key, as FLUSHALL. */
void redis_flush_all(struct redis *redis, int64_t now);

/* ---- What is in it -------------------------------------------------------------------------------------------------------- */

/* Every key of database 0 that is there now, in the order of their names: its type ("string", "hash", "zset", "list"), when it ends (ms
 * of the server's wall clock; -1: never) and what it holds as text: a string itself, else what HGETALL, ZRANGE WITHSCORES or LRANGE say,
 * parted by spaces. The texts are valid for the call. */
typedef void redis_key_fn(const char *key, const char *type, int64_t expires_ms, const char *text, void *data);
void redis_each_key(struct redis *redis, int64_t now, redis_key_fn *each, void *data);
size_t redis_key_count(const struct redis *redis);
/* Commands carried out so far; those that scripts called; scripts run; messages to subscribers. */
struct redis_counts {
    uint64_t commands, calls, scripts, messages;
};
struct redis_counts redis_counts(const struct redis *redis);

/* ---- Groups --------------------------------------------------------------------------------------------------------------- */

enum redis_group_kind {
    REDIS_REPLICATED, /* server 0 is the primary at the start, the others its replicas */
    REDIS_WATCHED,    /* the same, and `sentinels` that fail over by themselves */
    REDIS_CLUSTERED, /* the first `primaries` are primaries, with equal shares of the slots; each has `replicas`: those of primary i are
                       * primaries + i, 2 * primaries + i, ... Fails over by itself */
};

struct redis_group_settings {
    enum redis_group_kind kind;
    struct redis_settings server; /* of each; the i-th has port + i, a seed and a name of its own */
    unsigned primaries;           /* clustered; 0: 3. Else it is 1 */
    unsigned replicas;            /* of each primary */
    unsigned sentinels;
    const char *primary_name;    /* what sentinels call it; NULL: "mymaster" */
    int64_t near_ns, far_ns;     /* how long a message between two servers travels; 0, 0: 50 to 300 us */
    int64_t down_after_ns;       /* a server that is silent for so long is down, to a sentinel or to the cluster's nodes; 0: 1 s */
    int64_t failover_timeout_ns; /* of sentinels; 0: 3 s */
};

struct redis_group;
struct redis_group *redis_group_new(const struct redis_group_settings *settings, int64_t now);
void redis_group_free(struct redis_group *group); /* and its servers */

/* Servers first, sentinels behind them. */
unsigned redis_group_count(const struct redis_group *group);
unsigned redis_group_servers(const struct redis_group *group);
struct redis *redis_group_server(struct redis_group *group, unsigned index);

bool redis_is_primary(const struct redis *redis);
/* A server that is up, is a primary by its own word, and by that of most sentinels that are up (or of most of the cluster's primaries:
 * then the one that has this slot). -1: none. `slot` is of no account but in a cluster. */
int redis_group_primary(const struct redis_group *group, unsigned slot);
/* All up, joined and in step: every replica follows its primary and has all that it has; all sentinels or nodes agree; no slot moves. */
bool redis_group_whole(const struct redis_group *group);

/* Messages to this server take so much longer: a replica that lags. Each draws up to far_ns, and at least near_ns. 0, 0: as the rest. */
void redis_set_lag(struct redis *redis, int64_t near_ns, int64_t far_ns);
/* Cut it off from all other servers of the group, or join it again. Clients still reach it. */
void redis_part(struct redis *redis, int64_t now, bool apart);
/* The operator's word: be the replica of that one; NULL: be a primary. (REPLICAOF; in a cluster CLUSTER REPLICATE.) */
void redis_replicate(struct redis *redis, int64_t now, struct redis *primary);
/* Promote this replica now, also if it lacks writes. Sentinels and nodes hear of it one by one; the old primary stays one until it
 * hears. In a replicated group without sentinels the operator goes on with redis_replicate(). */
void redis_promote(struct redis *redis, int64_t now);
/* What a replica is behind by: bytes of the primary's stream. */
int64_t redis_behind(const struct redis *redis);

/* ---- Slots of a cluster --------------------------------------------------------------------------------------------------- */

enum { REDIS_SLOT_COUNT = 16384 };
unsigned redis_slot_of(const char *key, size_t length);
/* A slot in which keys are, by a number that is drawn: false if there is none. */
bool redis_slot_in_use(struct redis_group *group, int64_t now, uint64_t draw, unsigned *ret_slot);
/* Begin to move a slot to another primary (SETSLOT IMPORTING, MIGRATING); move its keys (MIGRATE), but for those that stay, a bit of
 * `leave` for each, returns how many were moved; end it (SETSLOT NODE at all primaries). False: it can't be done. */
bool redis_slot_move_begin(struct redis_group *group, int64_t now, unsigned slot, unsigned to);
unsigned redis_slot_move_keys(struct redis_group *group, int64_t now, unsigned slot, unsigned leave);
bool redis_slot_move_end(struct redis_group *group, int64_t now, unsigned slot);
bool redis_slot_moving(const struct redis_group *group, unsigned slot);

#endif
