/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_group.h - servers that belong together, as they see each other. Shared by redis_group.c, redis_replication.c, redis_sentinel.c,
 * redis_bus.c and redis_slots.c.
 *
 * They talk by posts, which take their time, and come in the order in which they were sent. Towards a server that is cut off posts
 * wait, as bytes do that a network does not deliver, and come when it is joined again. When a server's process ends, all others hear so.
 */
#ifndef PAWL_SIM_REDIS_GROUP_H
#define PAWL_SIM_REDIS_GROUP_H

#include "redis_commands.h"

enum { GROUP_MAX = 16, NO_NODE = 255, SLOT_BYTES = REDIS_SLOT_COUNT / 8 };

enum post_kind {
    POST_GONE, /* its process has ended */
    /* Replication. */
    POST_SYNC,     /* replica: I have that much of this history */
    POST_FULL,     /* primary: here is all of it */
    POST_CONTINUE, /* primary: here is what follows */
    POST_DEED,     /* primary: this was done */
    POST_GETACK,   /* primary: how far are you? */
    POST_ACK,      /* replica: so far */
    /* Sentinel. */
    POST_PING,   /* sentinel to server */
    POST_PONG,   /* server: what it is, and how far */
    POST_ASK,    /* sentinel to sentinel: is the primary down for you? And, with a candidate: do you vote for me? */
    POST_ANSWER, /* it is; my vote of that epoch went to ... */
    POST_HELLO,  /* that is the primary, by that epoch */
    POST_OBEY,   /* sentinel to server: be a primary, or the replica of that one */
    /* Cluster. */
    POST_BEAT,      /* I am here: what I am, what I have, whom I miss */
    POST_FAIL,      /* most of us miss that one */
    POST_CANDIDATE, /* replica: vote for me in that epoch */
    POST_VOTE,      /* primary: I do */
    POST_UPDATE,    /* you are wrong about those slots: that node has them */
};

/* The slots that a node says it has. */
struct slots {
    unsigned refs, count;
    unsigned char bits[SLOT_BYTES];
};

struct post {
    TAILQ_ENTRY(post) entry;
    int64_t at;
    struct redis *from, *to;
    enum post_kind kind;
    uint64_t serial; /* of a replica's connection */
    char replid[RUN_ID + 1];
    int64_t offset;
    struct deed *deed;
    uint64_t epoch, config_epoch;
    int node, other; /* indexes; -1: none */
    bool flag;
    uint32_t mask;
    struct slots *slots;
};
TAILQ_HEAD(posts, post);

/* A replica, to its primary. */
struct follower {
    bool online; /* it is sent what is done */
    bool ready;  /* and has said how far it is */
    uint64_t serial;
    int64_t acked, acked_at;
};

struct sentinel;
struct node;

struct peer {
    struct redis_group *group;
    unsigned index;
    bool apart;
    int64_t lag_near, lag_far;
    struct posts inbox; /* in order of their times */
    int64_t last_at[GROUP_MAX];
    int64_t cron_at; /* when to look around */
    uint64_t random;

    struct redis *primary; /* NULL: it is one itself */
    char replid[RUN_ID + 1], replid2[RUN_ID + 1];
    int64_t offset, second_offset;
    bool linked; /* to its primary */
    uint64_t serial;
    int64_t connect_at, ack_at, linked_at;
    struct follower followers[GROUP_MAX];

    struct sentinel *sentinel;
    struct node *node;
};

struct redis_group {
    enum redis_group_kind kind;
    unsigned server_count, count, primaries;
    struct redis *servers[GROUP_MAX];
    struct posts held; /* until a server is joined again */
    int64_t near_ns, far_ns, down_after, failover_timeout;
    char primary_name[64];
    uint64_t random;
};

/* redis_group.c */
struct post *redis__post_new(struct redis *from, enum post_kind kind);
void redis__post_send(struct redis *to, struct post *post); /* takes it over */
void redis__post_simple(struct redis *from, struct redis *to, enum post_kind kind);
void redis__touch(struct redis *redis);
struct slots *redis__slots_ref(struct slots *slots);
void redis__slots_unref(struct slots *slots);
int64_t redis__cron_period(const struct redis_group *group);

/* redis_replication.c */
void redis__replication_init(struct redis *redis, struct redis *primary, int64_t now);
void redis__replication_hear(struct redis *redis, struct post *post);
int64_t redis__replication_due(const struct redis *redis);
void redis__replication_tick(struct redis *redis);
void redis__become_primary(struct redis *redis);
void redis__become_replica(struct redis *redis, struct redis *primary);
bool redis__in_step(const struct redis *redis); /* a replica that has all that its primary has */

/* redis_sentinel.c */
void redis__sentinel_init(struct redis *redis);
void redis__sentinel_free(struct redis *redis);
void redis__sentinel_hear(struct redis *redis, struct post *post);
/* What servers do that sentinels ask. */
void redis__answer_ping(struct redis *redis, const struct post *post);
void redis__obey(struct redis *redis, const struct post *post);
void redis__sentinel_cron(struct redis *redis);
int redis__sentinel_primary(const struct redis *redis);            /* index */
bool redis__sentinel_calm(const struct redis *redis, int64_t now); /* it misses nobody, and is not at work */

/* redis_bus.c: the cluster's nodes among each other. */
struct view {
    bool primary, missed, failed; /* missed: by this node; failed: by most */
    int primary_index;            /* of a replica */
    uint64_t epoch;
    int64_t heard_at, failed_at;
    uint32_t reports; /* who else misses it */
    int64_t reported_at[GROUP_MAX];
    int64_t voted_at;
    struct slots *said; /* what it last said to have, as it was taken in */
    uint64_t said_epoch;
    bool disputed; /* it claims what is another's */
    int64_t offset;
};

struct moving {
    unsigned slot;
    bool importing; /* else migrating */
    int other;
};

enum { MOVING_MAX = 16 };

struct node {
    char id[RUN_ID + 1];
    struct view views[GROUP_MAX]; /* its own is among them */
    unsigned char owner[REDIS_SLOT_COUNT];
    struct slots *own;            /* made of `owner`; NULL: to be made anew */
    unsigned counts[NO_NODE + 1]; /* of slots, by owner */
    uint64_t epoch, last_vote;
    bool ok; /* the cluster works, as far as it sees */
    int64_t ok_since_allowed;
    int64_t beat_at;
    bool fresh; /* it was just started, and asks what it has missed */
    int64_t election_at, election_until;
    uint64_t election_epoch;
    unsigned votes;
    size_t moving_count;
    struct moving moving[MOVING_MAX];
};

void redis__bus_init(struct redis *redis, int64_t now);
void redis__bus_free(struct redis *redis);
void redis__bus_hear(struct redis *redis, struct post *post);
void redis__bus_cron(struct redis *redis);
void redis__bus_started(struct redis *redis);
void redis__bus_bump(struct redis *redis); /* a new epoch of its own, above all that it knows */
void redis__bus_beat_all(struct redis *redis);
void redis__bus_take_over(struct redis *redis); /* a replica takes the slots of its primary */
void redis__bus_set_slot(struct redis *redis, unsigned slot, unsigned owner);
void redis__bus_look(struct redis *redis); /* does the cluster work? */
struct moving *redis__moving_find(struct node *node, unsigned slot, bool importing);

#endif
