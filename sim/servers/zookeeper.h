/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper.h - simulated ZooKeeper servers, at the wire: one alone, or an ensemble of up to five.
 *
 * An ensemble is one log of transactions. The leader checks every write and gives it the next zxid; each member applies the log to
 * a tree of its own, some time later. Reads are answered from that tree, so they may be old. A write is answered when the member
 * that was asked has applied it. Sessions are ended by the leader's clock. Watches and connections belong to a member.
 *
 * What a client sees is meant to be what ZooKeeper 3.8 shows: sim/tests/differential_zookeeper.c compares the two.
 *
 * Each member is a server of its own to the network (zookeeper_ops and zookeeper_member()), but time goes on for all
 * at once: due() of any member is when something happens anywhere in the ensemble, and tick() of any member does it. So after a
 * call of the functions below, ask again (world_site_touch) when one of the members, it does not matter which, is due. A
 * caller that stops a member by world_site_pause() must also tell the ensemble, by zookeeper_pause().
 *
 * A connection that the server closes is closed by link_close(): a member that is killed closes all of its own. (Whether new ones
 * are refused is up to the world: world_site_down(). A connection to a member that is down is closed at once.)
 *
 * The same seed and the same calls give the same bytes.
 */
#ifndef PAWL_SIM_ZOOKEEPER_H
#define PAWL_SIM_ZOOKEEPER_H

#include "server.h"

enum { ZOOKEEPER_MEMBERS_MAX = 5 };

struct zookeeper;
struct zookeeper_member;

/* From which version on a request is known. Older servers answer others by ZUNIMPLEMENTED and close the connection. */
enum zookeeper_version {
    ZOOKEEPER_3_8, /* the default */
    ZOOKEEPER_3_6,
    ZOOKEEPER_3_5, /* no setWatches2, addWatch */
    ZOOKEEPER_3_4, /* no create2, containers, removal of watches */
};

/* 0 everywhere is good: one server of 3.8 with its defaults, without any lag. */
struct zookeeper_options {
    unsigned count; /* 1 to 5; 0 is 1 */
    uint64_t seed;
    enum zookeeper_version version;
    int64_t wall_ms; /* what the wall clock shows when `now` is 0: the ctime and mtime of nodes */

    /* As in zoo.cfg; 0: what ZooKeeper takes. */
    unsigned tick_ms;                        /* 2000 */
    unsigned min_session_ms, max_session_ms; /* 2 and 20 ticks */
    unsigned sync_limit;                     /* ticks after which a member without answers gives up; 5 */
    unsigned max_buffer;                     /* jute.maxbuffer; 1048575 */
    unsigned container_check_ms;             /* how often empty containers are removed; 60000 */
    bool quota;                              /* enforceQuota */
    bool read_only;                          /* readonlymode.enabled: a member without a leader can be read */
    bool extended_types;                     /* extendedTypesEnabled: createTTL works */
    const char *words;                       /* 4lw.commands.whitelist, "ruok,conf"; NULL: all. srvr always works */

    /* In an ensemble: how long a message between members takes, one way; drawn for each, but none overtakes another. */
    int64_t near_ns, far_ns; /* 0, 0: 50 us to 1 ms */
    /* How long an election takes, once a majority looks for a leader; drawn. */
    int64_t election_min_ns, election_max_ns; /* 0, 0: 200 ms to 2 s */
    /* Until a write is on disk (alone: at the server; in an ensemble: at a majority). What is not may be lost when the leader is
     * killed, or may survive: drawn. 0, 0: at once. */
    int64_t disk_min_ns, disk_max_ns;
};

struct zookeeper *zookeeper_new(const struct zookeeper_options *options); /* all members are up, and the first leads */
void zookeeper_free(struct zookeeper *zk);                                /* links are not touched any more; NULL is good */

/* The `server` of each call is zookeeper_member(zk, index). */
extern const struct server_ops zookeeper_ops;
void *zookeeper_member(struct zookeeper *zk, unsigned index);
unsigned zookeeper_count(const struct zookeeper *zk);

/* ---- Faults: the whole of a member ----------------------------------------------------------------------------------------- */

/* SIGKILL: its connections are closed, its memory is lost; its disk stays. When it leads, the others will elect. */
void zookeeper_kill(struct zookeeper *zk, unsigned index, int64_t now);
/* Start it again, with what is on its disk. Alone it serves at once; in an ensemble it first looks for the leader. */
void zookeeper_restart(struct zookeeper *zk, unsigned index, int64_t now);
/* Its disk is emptied; only while it is down. A member gets everything back from the leader, a single server begins anew. */
void zookeeper_wipe(struct zookeeper *zk, unsigned index);
/* SIGSTOP and SIGCONT: to the others it is as if it were cut off. Its clients hear nothing (see above). */
void zookeeper_pause(struct zookeeper *zk, unsigned index, int64_t now);
void zookeeper_resume(struct zookeeper *zk, unsigned index, int64_t now);
/* Cut off from the other members, not from its clients: it goes on answering reads from what it has, until it notices, after
 * sync_limit ticks of its own clock; then it closes its clients' connections and serves nobody. Also for the leader: it goes on as
 * such for that long, its writes hang, and meanwhile the others elect another. */
void zookeeper_isolate(struct zookeeper *zk, unsigned index, int64_t now);
void zookeeper_join(struct zookeeper *zk, unsigned index, int64_t now);

bool zookeeper_is_up(const struct zookeeper *zk, unsigned index);
bool zookeeper_is_isolated(const struct zookeeper *zk, unsigned index);
/* Does it serve clients just now? A read-only one does not. */
bool zookeeper_serves(const struct zookeeper *zk, unsigned index);
/* Which one leads, as a majority sees it; -1: none. */
int zookeeper_leader(const struct zookeeper *zk);

/* ---- Faults: of detail ----------------------------------------------------------------------------------------------------- */

/* From now on this member applies what is committed so much later, drawn for each between the two; 0, 0: as usual. Also the leader:
 * others may be ahead of it, which is why a sync there is no sync. */
void zookeeper_lag(struct zookeeper *zk, unsigned index, int64_t near_ns, int64_t far_ns);
/* Its clocks, monotonic and wall: ahead by so much more, and at this rate (1 is right; above 0). */
void zookeeper_set_clock(struct zookeeper *zk, unsigned index, int64_t jump_ns, double rate, int64_t now);
/* End a session, as its expiry would. False: there is none. */
bool zookeeper_expire(struct zookeeper *zk, int64_t session, int64_t now);
/* Close the connections of a member, all or one in so many; sessions live on. Returns how many. */
unsigned zookeeper_disconnect(struct zookeeper *zk, unsigned index, unsigned one_in, int64_t now);
/* Overload: one in so many requests (not pings, nor the end of a session) is answered by ZTHROTTLEDOP and not carried out; 0:
 * none; 1: all. All members. The request by which the client library sets its watches again is spared: a real server may refuse
 * that, too, but the library does not tell, and what waits then is found only by src/engine/zookeeper/lock/recheck.c, after minutes. */
void zookeeper_throttle(struct zookeeper *zk, unsigned one_in);
/* The `number`th write from now (1: the next) finds the disk full: the server that writes it exits, as the real one does, and is
 * down. Who was writing hears nothing, but for the closed connection. 0: no such fault any more. */
void zookeeper_disk_full(struct zookeeper *zk, unsigned index, unsigned number);
/* The `number`th write that can be refused (1: the next) is, by this code, and is not carried out. 0: none any more. */
void zookeeper_fail_write(struct zookeeper *zk, unsigned number, int32_t code);
/* One in so many answers has a well-formed body that does not fit, or an error that nobody expects; 0: none. All members. */
void zookeeper_nonsense(struct zookeeper *zk, unsigned one_in);

/* ---- Looking --------------------------------------------------------------------------------------------------------------- */

/* Nodes of a member's tree, in the order of their paths ("/a" before "/a/b"), without "/" and what is in /zookeeper. Borrowed. */
struct zookeeper_node {
    const char *path;
    const char *data; /* not terminated */
    size_t size;
    int64_t owner; /* the session, when it is ephemeral; else 0 */
    bool container;
    int64_t czxid, mzxid;
    int32_t version, cversion;
    unsigned children;
};
typedef void zookeeper_node_fn(const struct zookeeper_node *node, void *data);
/* `index` -1: as the leader has it, with all that was ever accepted. */
void zookeeper_nodes(const struct zookeeper *zk, int index, zookeeper_node_fn *visit, void *data);

struct zookeeper_session {
    int64_t id;
    int64_t timeout_ms;
    unsigned ephemerals;
    int member; /* where a connection of it is; -1: nowhere */
};
typedef void zookeeper_session_fn(const struct zookeeper_session *session, void *data);
void zookeeper_sessions(const struct zookeeper *zk, zookeeper_session_fn *visit, void *data); /* those alive, by age */

unsigned zookeeper_session_count(const struct zookeeper *zk);
unsigned zookeeper_ephemeral_count(const struct zookeeper *zk, int index); /* index -1: as above */
unsigned zookeeper_watch_count(const struct zookeeper *zk, int index);     /* set now; -1: of all members */
uint64_t zookeeper_watches_fired(const struct zookeeper *zk);              /* events sent to clients because of a watch, ever */
uint64_t zookeeper_events_lost(const struct zookeeper *zk);                /* watches that ended with their connection */
uint64_t zookeeper_requests(const struct zookeeper *zk, int type); /* received ever, of this type on the wire; type 0: all */
int64_t zookeeper_zxid(const struct zookeeper *zk, int index);     /* the last that it has applied; -1: that was committed */

#endif
