/* SPDX-License-Identifier: Apache-2.0
 *
 * format.h - the table: the memory that all processes of a directory share.
 *
 * One file, `table`, mapped by everybody. It is as large as it can ever get, but sparse: disk space is reserved region by region
 * before first use, so that a full disk is an error of the call that needed more, never a SIGBUS.
 *
 *     header     what this is, how far the growing regions reach, how high tokens may rise
 *     words      one word per session slot: generation | live?                      the truth about who is attached
 *     owners     one word per block of four nodes: generation | slot + 1            the truth about whose the nodes are
 *     buckets    one cache line each: guard, list of nodes, counters                 a name's hash chooses its bucket
 *     sessions   who a session is, for people                                        grows in chunks
 *     nodes      one per claim: a position in a bucket's list                           grows in chunks
 *
 *     bucket 17:  guard 0   token 41   head --> node 5 --> node 9 --> node 6      tail --> node 6
 *                                              HELD       WAITING    WAITING      (prev: the arrows back)
 *                                              "nightly"  "nightly"  "other name, same bucket"
 *
 * THE LIST RULE. A bucket's list is changed only with its guard held, and the stores to `head` and `next` are the only ones that
 * change what is in it: a node is filled completely before it is linked, and one store takes it out. `prev` and `tail` are hints,
 * exact while nobody has died inside the guard, rebuilt by the process that takes the guard from a dead one. So after every prefix of the
 * stores there is a valid list, and a process may be killed after any instruction.
 *
 * ORDER. Within a bucket nodes stand in the order of their tickets. Among the nodes of one name the holders come first: a node is
 * granted only if it fits beside everything that stands before it, waiting or not.
 *
 * KEPT. A process that releases may leave its node where it is, KEPT, and hold it again by one CAS, without the guard. A kept node is in
 * nobody's way: who finds one under the guard takes it out, and needs neither its owner nor to know whether that lives. A holder that is
 * WANTED does not keep. While somebody waits for a name, all that hold it are WANTED; so nobody ever waits for a kept node. Both rules
 * meet in one word, node.state: either the CAS of the releaser comes first, and the node is found KEPT; or the bit does, and it is not.
 *
 * WHOSE IS IT. `(generation << 32) | (slot + 1)` names a session for ever: a slot that is freed goes on to the next generation. A
 * guard, a block and a node carry that name; what belongs to a generation that is over belongs to the dead.
 *
 * LABELS. A claim with a label of its own has it in its node, in what its name leaves free there. `labelled` says whose it is: a text that
 * another session has left there, and that one of a version without labels did not take away, is nobody's.
 *
 * REFERENCES to nodes are index + 1, so that 0 is none and a file of zeroes is a valid empty table. All that is read from the table
 * is checked before it is used: other processes write here, and may have written garbage.
 *
 * Struct tags and constants here are the engine's own; symbols that link are pawl__local_...
 */
#ifndef PAWL_LOCAL_FORMAT_H
#define PAWL_LOCAL_FORMAT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"
#include "base/record.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the guard's futex is the low half of a 64-bit word: this host's byte order was never tried"
#endif

enum {
    SESSION_COUNT = 1 << 14,
    BUCKET_COUNT = 1 << 13,
    NODE_COUNT = 1 << 17,
    BLOCK_NODES = 4,
    BLOCK_COUNT = NODE_COUNT / BLOCK_NODES,
    SESSION_CHUNK = 64, /* how many of them space is reserved for at once */
    BLOCK_CHUNK = 64,
    FORMAT_MAJOR = 2, /* another one cannot share the table. 2: a node may be KEPT, and is wanted by those behind it */
    FORMAT_MINOR = 1, /* a higher one adds what a lower one may ignore. 1: labels of nodes */
    BOOT_ID_SIZE = 40,
    NODE_TEXT = 300, /* a name, and a label; the longest name leaves 45 bytes */
};

#define TABLE_MAGIC UINT64_C(0x31454c4241544c50) /* "PLTABLE1" */

/* Node states: the low bits of node.state. The other bits count pokes, and never start again, so that no poke is missed when a node
 * is used again.
 *
 *     FREE         in no list, or about to be linked: filled before
 *     WAITING      linked; others are in the way
 *     GRANTED      the releaser has let it in, and its owner does not know yet
 *     HELD         its owner knows
 *     PASSED_OVER  did not claim what it was granted in time (stopped): out of the list, queues again when it wakes
 *     REVOKED      freed over the holder's head by `break --now`, or taken from its keeper by one who wants the lock: out of the list
 *     KEPT         held by nobody; its owner may hold it again, unless it has let it go, and anybody may take it out
 */
enum node_state { NODE_FREE, NODE_WAITING, NODE_GRANTED, NODE_HELD, NODE_PASSED_OVER, NODE_REVOKED, NODE_KEPT };
#define NODE_STATE_MASK 7u
#define NODE_BROKEN 8u  /* the holder is asked to give up */
#define NODE_WANTED 16u /* others wait for it, or have: it is not kept */
#define NODE_POKE 0x100u
#define NODE_KEEPS 0x80u /* in node.kind: its owner may keep it. The others need no mark: it would cost them their cache line */

/* What happens to a node. The first three are stores: by its owner while it is in no list, or under the guard. The others are one CAS each,
 * and a poke: GRANTED, HELD and KEPT end in more than one way. */
enum node_event {
    NODE_HOLD,  /* is linked, and nobody is in the way */
    NODE_QUEUE, /* is linked behind others */
    NODE_LEAVE, /* was released, given up, recovered */
    NODE_GRANT, /* under the guard, as the next two */
    NODE_PASS_OVER,
    NODE_REVOKE,
    NODE_TAKE,  /* likewise: it is kept, and another wants the lock */
    NODE_CLAIM, /* by its owner, without the guard, as the last three */
    NODE_REST,  /* ... unless it is wanted or broken */
    NODE_RESUME,
    NODE_LET_GO, /* as REST, also if it is wanted: it is released, and has yet to be taken out */
    NODE_EVENTS,
};

/* State and event, in the order above, make the next state; 0: that can't happen. */
#define TO(state) ((state) + 1)
static const uint8_t node_moves[NODE_STATE_MASK + 1][NODE_EVENTS] = {
    {TO(NODE_HELD), TO(NODE_WAITING), TO(NODE_FREE)},                                     /* FREE */
    {0, 0, TO(NODE_FREE), TO(NODE_GRANTED)},                                              /* WAITING */
    {0, 0, TO(NODE_FREE), 0, TO(NODE_PASSED_OVER), 0, 0, TO(NODE_HELD)},                  /* GRANTED */
    {0, 0, TO(NODE_FREE), 0, 0, TO(NODE_REVOKED), 0, 0, TO(NODE_KEPT), 0, TO(NODE_KEPT)}, /* HELD */
    {TO(NODE_HELD), TO(NODE_WAITING), TO(NODE_FREE)},                                     /* PASSED_OVER */
    {0, 0, TO(NODE_FREE)},                                                                /* REVOKED */
    {0, 0, TO(NODE_FREE), 0, 0, 0, TO(NODE_REVOKED), 0, 0, TO(NODE_HELD)},                /* KEPT */
    {0, 0, TO(NODE_FREE)},                                                                /* garbage */
};

/* What a waiter that sleeps in poll() keeps an eye on. */
enum node_watching {
    WATCHING_NOTHING,     /* it sleeps on the futex, for a moment */
    WATCHING_PREDECESSOR, /* only who stands directly before it */
    WATCHING_ALL,         /* every holder, and those between */
};

#define SESSION_LIVE UINT64_C(1)
#define GUARD_SLEEPERS UINT64_C(1)

struct header {
    _Atomic uint64_t magic; /* written last */
    uint16_t major, minor;
    uint32_t format; /* computed from the sizes below: builds that differ refuse each other */
    uint64_t size;
    char boot_id[BOOT_ID_SIZE];
    _Alignas(64) _Atomic uint64_t token_ceiling; /* at most what token.hi says, and that is on the disk */
    _Atomic uint32_t session_high;               /* slots that space is reserved for */
    _Atomic uint32_t block_high;                 /* blocks that space is reserved for */
    _Atomic uint32_t damaged;                    /* somebody met something that we don't write: to be made anew */
    char reserved[4096 - 64 - 20];
};

struct bucket {
    _Alignas(64) _Atomic uint64_t guard; /* generation << 32 | (slot + 1) << 1 | sleepers?  0: nobody is inside */
    _Atomic uint32_t head, tail;
    _Atomic uint64_t token;  /* the last one given to any name in this bucket */
    _Atomic uint64_t ticket; /* likewise */
    char reserved[32];
};

struct session {
    int64_t pid; /* as its own namespace counts */
    uint64_t pid_namespace;
    int64_t started_ms;
    uint32_t uid;
    _Atomic uint32_t serve_channel; /* number + 1 of the channel its service thread listens to; 0: none */
    _Atomic uint32_t breaks;        /* how many of its holds were ever broken */
    uint32_t record_length;
    char record[PAWL__RECORD_MAX];
    _Atomic uint64_t known; /* owner_word, if this generation has written what follows */
    uint64_t process_start; /* in ticks since boot, as /proc/PID/stat has it; 0: not known */
    uint64_t lifeline_inode, lifeline_device;
    uint32_t inherits; /* others may have the lifeline, too, and it has a pulse */
    char reserved[1024 - 40 - PAWL__RECORD_MAX - 40];
};

/* The first cache line is all that an uncontended claim of a short name touches, but for the name. */
struct node {
    _Alignas(64) _Atomic uint32_t state; /* the futex */
    _Atomic uint32_t next, prev;
    _Atomic uint32_t channel; /* number + 1 of the wake channel its waiter polls; 0: it sleeps on the futex */
    _Atomic uint64_t owner;   /* generation << 32 | slot + 1 */
    _Atomic uint64_t token;
    _Atomic uint64_t ticket;
    _Atomic uint32_t hash;
    uint8_t kind; /* enum pawl_kind, and NODE_KEEPS */
    _Atomic uint8_t mode;
    uint8_t name_length;
    _Atomic uint8_t watching; /* enum node_watching */
    uint32_t permits, limit;
    _Atomic int64_t since_ms; /* Unix time of the submit, or when it was last held again; and ... */
    int64_t granted_ms;       /* ... of the grant */
    _Atomic uint32_t watched; /* slot + 1 of the session that stands before it; for people */
    char name[NODE_TEXT];     /* `name_length` bytes; and behind them, if `labelled` says so, the label, with a NUL */
    uint64_t labelled;        /* its owner, or else it has the session's */
};

struct table {
    struct header header;
    _Atomic uint64_t words[SESSION_COUNT];
    _Atomic uint64_t owners[BLOCK_COUNT];
    struct bucket buckets[BUCKET_COUNT];
    struct session sessions[SESSION_COUNT];
    struct node nodes[NODE_COUNT];
};

static_assert(sizeof(struct header) == 4096, "the header is a page");
static_assert(sizeof(struct bucket) == 64, "a bucket is a cache line");
static_assert(sizeof(struct session) == 1024, "sessions tile pages");
static_assert(sizeof(struct node) == 384, "nodes tile cache lines");
static_assert(offsetof(struct node, granted_ms) == 64, "the hot part of a node is one cache line");
static_assert(offsetof(struct node, labelled) == 376, "an older pawl leaves it alone");
static_assert(SESSION_COUNT % SESSION_CHUNK == 0 && BLOCK_COUNT % BLOCK_CHUNK == 0, "regions grow by whole chunks");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared memory needs atomics without locks");
static_assert(offsetof(struct table, sessions) % 4096 == 0 && offsetof(struct table, nodes) % 4096 == 0, "regions tile pages");

/* Equal in builds that agree about the layout. */
#define TABLE_FORMAT                                                                                                               \
    ((uint32_t)(sizeof(struct table) ^ (offsetof(struct table, nodes) >> 4) ^ (sizeof(struct node) << 20) ^                        \
                (sizeof(struct session) << 10) ^ (offsetof(struct node, name) << 3) ^ offsetof(struct bucket, token) ^             \
                offsetof(struct session, record)))

static inline enum node_state state_of(uint32_t word) {
    return (enum node_state)(word & NODE_STATE_MASK);
}

/* Does the node hold, or will it as soon as it wakes? */
static inline _Bool holds(uint32_t word) {
    return state_of(word) == NODE_HELD || state_of(word) == NODE_GRANTED;
}

static inline uint8_t kind_of(const struct node *node) {
    return node->kind & (uint8_t)~NODE_KEEPS;
}

/* Is it in a list, unless somebody has just died in the guard? */
static inline _Bool stands(uint32_t word) {
    return holds(word) || state_of(word) == NODE_WAITING || state_of(word) == NODE_KEPT;
}

/* Names of sessions. */
static inline uint64_t owner_word(uint32_t slot, uint32_t generation) {
    return (uint64_t)generation << 32 | (slot + 1);
}
static inline uint64_t guard_word(uint32_t slot, uint32_t generation) {
    return (uint64_t)generation << 32 | (uint64_t)(slot + 1) << 1;
}
static inline uint32_t slot_of(uint64_t owner) { /* of nobody: beyond all slots */
    return (uint32_t)owner - 1;
}
static inline uint32_t generation_of(uint64_t word) { /* of any of the three */
    return (uint32_t)(word >> 32);
}
static inline uint64_t session_word(uint32_t generation, uint64_t live) {
    return (uint64_t)generation << 32 | live;
}

/* Loads and stores under the guard, or of what only one process writes. */
#define GET(place) atomic_load_explicit(&(place), memory_order_relaxed)
#define SET(place, value) atomic_store_explicit(&(place), (value), memory_order_relaxed)
/* A load without the guard: what is loaded after it in the program is not older. */
#define SEE(place) atomic_load_explicit(&(place), memory_order_acquire)
/* A store that commits: everything before it in the program is in memory first. */
#define COMMIT(place, value) atomic_store_explicit(&(place), (value), memory_order_release)

/* What each event leaves of the marks, and which of them it does not happen to. Who claims has not seen the break yet. */
#define NODE_MARKS (NODE_BROKEN | NODE_WANTED)
static inline uint32_t marks_left(enum node_event event) {
    return event <= NODE_LEAVE ? 0 : event == NODE_CLAIM ? NODE_MARKS : NODE_WANTED;
}
static inline uint32_t marks_against(enum node_event event) {
    return event == NODE_REST ? NODE_MARKS : event >= NODE_RESUME ? NODE_BROKEN : 0;
}

/* The one writer of a node's state. False: that can't happen to it now, and nothing has changed. */
static inline _Bool node_move(struct node *node, enum node_event event) {
    uint32_t word = GET(node->state), left = ~(NODE_STATE_MASK | NODE_MARKS) | marks_left(event), next;

    while ((next = node_moves[state_of(word)][event]) != 0 && !(word & marks_against(event))) {
        if (event <= NODE_LEAVE) {
            COMMIT(node->state, (word & left) | (next - 1));
            return 1;
        }
        if (atomic_compare_exchange_weak(&node->state, &word, ((word & left) | (next - 1)) + NODE_POKE))
            return 1;
    }
    return 0;
}

#endif
