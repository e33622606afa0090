/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_internal.h - what the files of the simulated ZooKeeper share. See zookeeper.h for what it is.
 *
 *     zookeeper_wire.c      jute records: numbers, strings, answers
 *     zookeeper_acl.c       lists of access rights, and who is whom
 *     zookeeper_tree.c      nodes with their Stat; transactions applied to them
 *     zookeeper_watches.c   who is to be told of what
 *     zookeeper_prepare.c   the leader's part: from a request to a transaction, or to an error
 *     zookeeper_sessions.c  how long sessions live; the handshake
 *     zookeeper_requests.c  connections: from bytes to requests, in their order; reads
 *     zookeeper_ensemble.c  the log, and its way from member to member
 *     zookeeper_quorum.c    who leads; what becomes of members that are killed, stopped or cut off
 *     zookeeper_words.c     four-letter words
 *     zookeeper.c           options, faults of detail, and looking
 *
 * The way of a write: request (member) -> up queue -> prepared (leader: a transaction, applied to `head`) -> log -> committed ->
 * applied by each member to its own tree; the member that was asked answers then. Reads of the same connection wait for it.
 */
#ifndef PAWL_SIM_ZOOKEEPER_INTERNAL_H
#define PAWL_SIM_ZOOKEEPER_INTERNAL_H

#include "../../lab/torture/dice.h"
#include "zookeeper.h"

#define ZK_MS INT64_C(1000000)

/* redis_sha1.c */
void redis__sha1(const void *data, size_t size, unsigned char ret[20]);

/* Types of requests. */
enum {
    OP_CREATE = 1,
    OP_DELETE = 2,
    OP_EXISTS = 3,
    OP_GET_DATA = 4,
    OP_SET_DATA = 5,
    OP_GET_ACL = 6,
    OP_SET_ACL = 7,
    OP_GET_CHILDREN = 8,
    OP_SYNC = 9,
    OP_PING = 11,
    OP_GET_CHILDREN2 = 12,
    OP_CHECK = 13,
    OP_MULTI = 14,
    OP_CREATE2 = 15,
    OP_CHECK_WATCHES = 17,
    OP_REMOVE_WATCHES = 18,
    OP_CREATE_CONTAINER = 19,
    OP_DELETE_CONTAINER = 20,
    OP_CREATE_TTL = 21,
    OP_AUTH = 100,
    OP_SET_WATCHES = 101,
    OP_SET_WATCHES2 = 105,
    OP_ERROR = -1,
    OP_CREATE_SESSION = -10,
    OP_CLOSE_SESSION = -11,
    OP_REVALIDATE = -100, /* between members only */
};

enum {
    XID_EVENT = -1,
    XID_PING = -2,
};

/* Errors on the wire. */
enum {
    ZK_OK = 0,
    ZK_RUNTIME_INCONSISTENCY = -2,
    ZK_MARSHALLING = -5,
    ZK_UNIMPLEMENTED = -6,
    ZK_BAD_ARGUMENTS = -8,
    ZK_UNKNOWN_SESSION = -12,
    ZK_NO_NODE = -101,
    ZK_NO_AUTH = -102,
    ZK_BAD_VERSION = -103,
    ZK_NO_CHILDREN_FOR_EPHEMERALS = -108,
    ZK_NODE_EXISTS = -110,
    ZK_NOT_EMPTY = -111,
    ZK_SESSION_EXPIRED = -112,
    ZK_INVALID_ACL = -114,
    ZK_AUTH_FAILED = -115,
    ZK_SESSION_MOVED = -118,
    ZK_NOT_READ_ONLY = -119,
    ZK_NO_WATCHER = -121,
    ZK_QUOTA_EXCEEDED = -125,
    ZK_THROTTLED = -127,
};

enum { PERM_READ = 1, PERM_WRITE = 2, PERM_CREATE = 4, PERM_DELETE = 8, PERM_ADMIN = 16 };

enum { EVENT_CREATED = 1, EVENT_DELETED = 2, EVENT_CHANGED = 3, EVENT_CHILD = 4 };

/* ---- zookeeper_wire.c ----------------------------------------------------------------------------------------------------- */

/* Bytes that nobody changes any more, shared by trees and transactions. A '\0' follows them. */
struct zk_blob {
    unsigned refs;
    uint32_t size;
    char bytes[];
};
struct zk_blob *zk_blob_new(const void *bytes, size_t size);
struct zk_blob *zk_blob_ref(struct zk_blob *blob); /* NULL is good, here and below */
void zk_blob_unref(struct zk_blob *blob);

void *zk_memory(size_t size); /* zeroed; never NULL */
uint32_t zk_hash(const char *bytes, size_t size);

/* A piece of bytes in a request: -1 is the null of jute. */
struct zk_text {
    const char *bytes;
    int32_t size;
};

struct zk_reader {
    const char *at, *end;
    bool bad; /* something was not there, or out of bounds */
};
int32_t zk_read_int(struct zk_reader *reader);
int64_t zk_read_long(struct zk_reader *reader);
bool zk_read_bool(struct zk_reader *reader);
struct zk_text zk_read_buffer(struct zk_reader *reader); /* may be null */
struct zk_text zk_read_string(struct zk_reader *reader); /* null is bad */

/* Grows; short ones stay on the stack. zk_writer_end() frees. */
struct zk_writer {
    char *bytes;
    size_t used, size;
    char small[480];
};
void zk_writer_begin(struct zk_writer *writer); /* leaves room for the length of the frame */
void zk_writer_end(struct zk_writer *writer);
void zk_write_int(struct zk_writer *writer, int32_t number);
void zk_write_long(struct zk_writer *writer, int64_t number);
void zk_write_bool(struct zk_writer *writer, bool value);
void zk_write_buffer(struct zk_writer *writer, const char *bytes, int32_t size); /* -1: null */
void zk_write_blob(struct zk_writer *writer, const struct zk_blob *blob);
void zk_write_raw(struct zk_writer *writer, const char *bytes, size_t size);
/* Set the length at the begin, and send. */
void zk_write_frame(struct zk_writer *writer, struct link *link);

/* ---- zookeeper_acl.c ------------------------------------------------------------------------------------------------------ */

struct zk_right {
    int32_t perms;
    const char *scheme, *id;
};
/* Rights on a node; or (perms unused) who a client is. Never changed. */
struct zk_acl {
    unsigned refs;
    unsigned count;
    struct zk_right rights[];
};
struct zk_acl *zk_acl_ref(struct zk_acl *acl);
void zk_acl_unref(struct zk_acl *acl);
struct zk_acl *zk_acl_world(int32_t perms);
/* Read a list as it was sent, make it what is kept: without doubles, `auth` replaced by who the client is. An error, or 0. */
int32_t zk_acl_read(struct zk_reader *reader, const struct zk_acl *client, struct zk_acl **ret);
void zk_acl_write(struct zk_writer *writer, const struct zk_acl *acl, bool hide_secrets);
bool zk_acl_allows(const struct zk_acl *acl, int32_t perm, const struct zk_acl *client);
struct zk_acl *zk_client_new(void);
/* Somebody has told who he is. NULL: nobody knows such a scheme; else what replaces `client`. */
struct zk_acl *zk_client_add(const struct zk_acl *client, struct zk_text scheme, struct zk_text secret);

/* ---- zookeeper_tree.c ----------------------------------------------------------------------------------------------------- */

#define ZK_OWNER_CONTAINER INT64_MIN

struct zk_node {
    struct zk_node *chained; /* in the table */
    struct zk_node *parent, *first, *last, *before, *after;
    struct zk_node *owned_before, *owned_after; /* of all that are ephemeral, or containers */
    struct zk_blob *path, *data;                /* data NULL: null */
    struct zk_acl *acl;
    uint32_t hash;
    uint32_t name; /* where in the path */
    unsigned children;
    int32_t version, cversion, aversion; /* cversion: how many children were ever created */
    int64_t czxid, mzxid, pzxid, ctime, mtime;
    int64_t owner; /* a session; ZK_OWNER_CONTAINER; 0 */
};

struct zk_tree {
    struct zk_node **table, *root;
    unsigned mask, count;
    struct zk_node *owned; /* ephemerals and containers */
    unsigned ephemerals;
    uint64_t salt;
    int64_t zxid;    /* the last that was applied */
    unsigned quotas; /* nodes named zookeeper_limits */
};

/* What a transaction does. */
struct zk_txn {
    int type; /* of the request; OP_ERROR; OP_MULTI: the `subs` */
    int32_t error;
    struct zk_blob *path, *data;
    struct zk_acl *acl;
    int64_t owner;
    int32_t version; /* after it; of a create: the parent's cversion */
    struct zk_txn *subs;
    unsigned count;
};
void zk_txn_clear(struct zk_txn *txn);

struct zk_entry {
    uint64_t number; /* in the log */
    int64_t zxid;
    int64_t wall_ms;
    int64_t session;
    int64_t commit_at;
    struct zk_txn txn;
    struct zk_request *request; /* who wants an answer; NULL: nobody */
    bool lost;                  /* it never came to a disk */
};

struct zookeeper_member;

void zk_tree_init(struct zk_tree *tree, uint64_t salt, const struct zk_blob *config);
void zk_tree_clear(struct zk_tree *tree);
void zk_tree_copy(struct zk_tree *to, const struct zk_tree *from); /* `to` is cleared */
struct zk_node *zk_tree_find(const struct zk_tree *tree, const char *path, size_t size);
struct zk_node *zk_tree_parent(const struct zk_tree *tree, const char *path, size_t size);
const char *zk_node_name(const struct zk_node *node);
void zk_write_stat(struct zk_writer *writer, const struct zk_node *node);
int64_t zk_node_shown_owner(const struct zk_node *node);

/* To take back what a part of a transaction did: of the leader's tree, when a later part fails. */
struct zk_undo {
    int type;
    struct zk_node *node, *parent;
    struct zk_blob *data;
    int64_t mzxid, mtime, parent_pzxid;
    int32_t version, parent_cversion;
};
/* Apply it: tell the watches of `member` (NULL: none), write the results (NULL: don't). */
void zk_tree_apply(struct zk_tree *tree, const struct zk_entry *entry, struct zookeeper_member *member, struct zk_writer *results);
/* One part, which can be taken back. */
void zk_tree_try(struct zk_tree *tree, const struct zk_entry *entry, const struct zk_txn *txn, struct zk_undo *ret);
void zk_tree_undo(struct zk_tree *tree, struct zk_undo *undo);
void zk_undo_forget(struct zk_undo *undo); /* it stays */
/* Is it more than the quota of a node above? `count`: nodes more, `bytes`: more data. */
bool zk_tree_exceeds(const struct zk_tree *tree, const char *path, size_t size, int64_t bytes, int64_t count);

/* ---- zookeeper_watches.c -------------------------------------------------------------------------------------------------- */

enum zk_watch_kind { WATCH_DATA, WATCH_CHILD };

struct zk_watch {
    struct zk_watch *chained;                  /* in the member's table */
    struct zk_watch *conn_before, *conn_after; /* of the connection */
    struct zk_conn *conn;
    struct zk_blob *path;
    uint32_t hash;
    enum zk_watch_kind kind;
};

struct zk_watches {
    struct zk_watch **table;
    unsigned mask, count, data_count;
    uint64_t triggered[EVENT_CHILD + 1]; /* as the server's own counters count */
};
void zk_watches_clear(struct zk_watches *watches);
void zk_watch_add(struct zk_conn *conn, enum zk_watch_kind kind, const char *path, size_t size);
bool zk_watch_remove(struct zk_conn *conn, enum zk_watch_kind kind, const char *path, size_t size);
bool zk_watch_any(struct zookeeper_member *member, enum zk_watch_kind kind, const char *path, size_t size);
void zk_watch_drop_all(struct zk_conn *conn);
void zk_watch_created(struct zookeeper_member *member, const struct zk_node *node);
void zk_watch_changed(struct zookeeper_member *member, const struct zk_node *node);
void zk_watch_deleted(struct zookeeper_member *member, const struct zk_node *node); /* before its parent is forgotten */
void zk_send_event(struct zk_conn *conn, int event, const char *path, size_t size);
/* What a client that has come back says that it watches. */
void zk_watches_again(struct zk_conn *conn, struct zk_reader *reader);

/* ---- Connections and requests --------------------------------------------------------------------------------------------- */

enum zk_conn_state {
    CONN_NEW,     /* no handshake yet */
    CONN_OPENING, /* the handshake waits for the leader: nothing is read meanwhile */
    CONN_OPEN,
};

struct zk_conn {
    struct zk_conn *before, *after; /* of the member; `after`: also of those to be freed */
    struct zookeeper_member *member;
    struct link *link;
    enum zk_conn_state state;
    bool old_client; /* its handshake does not know of read-only servers */
    bool read_only;  /* of a member that has no leader */
    bool reading;    /* frames are being taken just now */
    int64_t session;
    int32_t timeout_ms;
    int64_t touched_at; /* ns */
    int64_t idle_ms;    /* by the member's clock: closed then */
    struct zk_acl *client;
    char *input; /* of a frame that is not complete */
    size_t input_used, input_size;
    struct zk_request *first, *last; /* not answered yet */
    struct zk_watch *watches;
};

struct zk_request {
    unsigned refs; /* of the connection's queue, and of the member that carries it out */
    struct zk_request *next;
    struct zk_conn *conn; /* NULL: it is gone */
    unsigned member;
    int64_t session;
    int32_t timeout_ms;
    int32_t xid;
    int type;
    bool waits;     /* for others; else it is a read */
    bool throttled; /* answered so, in its turn */
    struct zk_blob *body;
    struct zk_acl *client;
};
struct zk_request *zk_request_new(struct zk_conn *conn, int32_t xid, int type, const char *body,
                                  size_t size); /* is the connection's */
struct zk_request *zk_request_ref(struct zk_request *request);
void zk_request_unref(struct zk_request *request);

struct zk_packet {
    struct zk_packet *next;
    int64_t at;
    uint64_t after; /* down: not before this entry of the log was applied */
    struct zk_request *request;
    bool valid; /* of a session that was asked about */
};
struct zk_queue {
    struct zk_packet *first, *last;
};

enum zk_role { ROLE_DOWN, ROLE_LOOKING, ROLE_FOLLOWING, ROLE_LEADING };

struct zookeeper_member {
    struct zookeeper *zk;
    unsigned index;
    enum zk_role role;
    bool isolated, paused, wiped;
    uint32_t epoch;    /* in which it follows or leads */
    int64_t cut_at;    /* since when it hears nothing of the leader (or the leader of a majority); SERVER_NEVER */
    int64_t notice_at; /* when it gives up, therefore */
    int64_t join_at;   /* when it will follow the leader that it has found */
    int64_t read_only_at;
    bool read_only;
    struct server_clock clock, wall; /* monotonic, from an own beginning; and the other */
    struct zk_tree tree;
    uint64_t applied; /* entries of the log */
    int64_t apply_at; /* the next one; SERVER_NEVER: there is none */
    int64_t lag_near, lag_far;
    int64_t up_at, down_at; /* of the last message: none overtakes another */
    struct zk_queue up, down;
    struct zk_watches watches;
    struct zk_conn *conns;
    unsigned conn_count;
    unsigned disk_full;
    uint64_t next_session;
    uint64_t received, sent;
};

struct zk_session {
    struct zk_session *chained, *before, *after; /* before, after: by age */
    int64_t id;
    int32_t timeout_ms;
    int owner; /* the member where it is; -1: not known */
    bool closing;
    int64_t expire_ms; /* by the leader's clock */
    int64_t touch_at;  /* ns: a follower's word of it reaches the leader; SERVER_NEVER: none is under way */
    int32_t touch_timeout_ms;
    int touch_from;
};

enum { SESSION_BUCKETS = 64 };

struct zookeeper {
    struct zookeeper_options options;
    char *words;
    struct dice dice;
    unsigned count;
    struct zookeeper_member *members;
    int64_t now;
    int leader; /* as a majority sees it; -1: none */
    uint32_t epoch;
    int64_t election_at;
    int64_t zxid; /* the last that was given */
    struct zk_tree head;
    /* The log: entries [log_begin, log_end); those below `committed` will never be lost. */
    struct zk_entry **log;
    uint64_t log_begin, log_end, log_size;
    uint64_t committed;
    bool stale_head; /* something that it shows was lost */
    struct zk_session *buckets[SESSION_BUCKETS], *oldest, *youngest;
    unsigned session_count;
    int64_t expiry_at; /* not later than the first session's end; SERVER_NEVER */
    int64_t container_at, idle_at;
    struct zk_conn *dead; /* freed when nobody is in the middle of something */
    unsigned throttle, nonsense;
    unsigned fail_number;
    int32_t fail_code;
    uint64_t fired, lost;
    uint64_t requests[128], all_requests;
};

static inline struct zookeeper_member *zk_leader(struct zookeeper *zk) {
    return zk->leader < 0 ? NULL : &zk->members[zk->leader];
}
/* And not only in its own eyes. */
static inline bool zk_leads(const struct zookeeper_member *member) {
    return member->role == ROLE_LEADING && member->zk->leader == (int)member->index;
}

/* Random numbers. */
uint64_t zk_random(struct zookeeper *zk);
int64_t zk_draw(struct zookeeper *zk, int64_t low, int64_t high); /* both included */
bool zk_one_in(struct zookeeper *zk, unsigned sides);             /* 0: never */

/* ---- zookeeper_requests.c ------------------------------------------------------------------------------------------------- */

struct zk_conn *zk_conn_new(struct zookeeper_member *member, struct link *link);
/* Forget it; `close`: and close the link. */
void zk_conn_drop(struct zk_conn *conn, bool close);
void zk_conn_drop_all(struct zookeeper_member *member);
void zk_conn_input(struct zk_conn *conn, const char *bytes, size_t size);
struct zk_conn *zk_conn_of(const struct zookeeper_member *member, int64_t session);
/* The answer to the request at the head of the queue; then come the reads behind it. */
void zk_request_answer(struct zk_request *request, int32_t error, const struct zk_writer *body);
void zk_reply(struct zk_conn *conn, int32_t xid, int64_t zxid, int32_t error, const char *body, size_t size);
/* A session's end was applied: answer and close, or close. */
void zk_conn_session_ended(struct zookeeper_member *member, int64_t session, struct zk_request *request);
/* Take it out of its connection's queue, where it is the first. NULL: the connection is gone. */
struct zk_conn *zk_request_take(struct zk_request *request);
/* Closed, if nothing comes for so long. */
void zk_conn_not_idle(struct zk_conn *conn, int32_t timeout_ms);
/* The handshake is over: read on. */
void zk_conn_opened(struct zk_conn *conn);
bool zk_is_write(int type);

/* ---- zookeeper_prepare.c -------------------------------------------------------------------------------------------------- */

/* Make the request a transaction, which is applied to the leader's tree; or an error, which is a transaction too. */
void zk_prepare(struct zookeeper *zk, const struct zk_request *request, struct zk_entry *entry);
void zk_prepare_close(struct zookeeper *zk, int64_t session, struct zk_entry *entry);
/* Is a container empty and to be removed? */
bool zk_is_spent(const struct zk_node *node, int64_t wall_ms);
void zk_prepare_removal(struct zookeeper *zk, const struct zk_node *node, struct zk_entry *entry);

/* ---- zookeeper_sessions.c ------------------------------------------------------------------------------------------------- */

void zk_handshake(struct zk_conn *conn, const char *bytes, size_t size);
void zk_handshake_end(struct zk_conn *conn, bool valid);
struct zk_session *zk_session_find(const struct zookeeper *zk, int64_t id);
struct zk_session *zk_session_new(struct zookeeper *zk, int64_t id, int32_t timeout_ms);
void zk_session_free(struct zookeeper *zk, struct zk_session *session);
void zk_sessions_clear(struct zookeeper *zk);
/* The client was heard of. False: its session is no more; the request is to be ignored. */
bool zk_session_touch(struct zk_conn *conn);
/* The leader hears of it. False: there is none, or it ends. */
bool zk_session_renew(struct zookeeper *zk, struct zk_session *session, int32_t timeout_ms, int64_t at);
/* May a request of this session, from there, be carried out? An error, or 0. */
int32_t zk_session_check(struct zookeeper *zk, int64_t id, unsigned member);
/* A new leader gives everybody the whole time again. */
void zk_sessions_restart(struct zookeeper *zk);
/* A member was cut off: what it was about to tell is lost. Or it is back. */
void zk_sessions_unheard(struct zookeeper *zk, unsigned member);
void zk_sessions_heard(struct zookeeper_member *member);
void zk_sessions_expire(struct zookeeper *zk);
int64_t zk_clock_ms(const struct zookeeper_member *member, int64_t now);
int64_t zk_wall_ms(const struct zookeeper_member *member, int64_t now);
/* When (true time) does its clock show this? */
int64_t zk_clock_when(const struct zookeeper_member *member, int64_t ms);

/* ---- zookeeper_ensemble.c ------------------------------------------------------------------------------------------------- */

/* Everything that is due until now. */
void zk_run(struct zookeeper *zk, int64_t now);
int64_t zk_due(const struct zookeeper *zk);
/* To the leader, which may be the member itself. */
void zk_submit(struct zk_request *request);
/* Put an entry into the log, and see to it that it is committed. NULL request: nobody asked for it. */
struct zk_entry *zk_log_append(struct zookeeper *zk, struct zk_request *request, int64_t session);
void zk_log_added(struct zookeeper *zk);
struct zk_entry *zk_log_at(const struct zookeeper *zk, uint64_t number);
void zk_log_free(struct zookeeper *zk);
/* The leader has gone: of what was not committed some stays, from the beginning on, and the rest is lost. */
void zk_log_settle(struct zookeeper *zk);
void zk_catch_up(struct zookeeper_member *member); /* apply all that is committed, at once */
void zk_queue_clear(struct zk_queue *queue);
void zk_queue_add(struct zk_queue *queue, int64_t at, uint64_t after, struct zk_request *request, bool valid);
int64_t zk_hop(struct zookeeper *zk); /* how long a message takes */
void zk_next_apply(struct zookeeper_member *member);
void zk_enter(struct zookeeper *zk, int64_t now);
void zk_leave(struct zookeeper *zk);

/* ---- zookeeper_quorum.c --------------------------------------------------------------------------------------------------- */

bool zk_reachable(const struct zookeeper_member *member); /* by the other members */
bool zk_linked(const struct zookeeper_member *member);    /* with the leader; or it is the leader */
bool zk_quorum(const struct zookeeper *zk);               /* can the leader commit? */
bool zk_serves(const struct zookeeper_member *member);    /* clients, be it only for reading */
void zk_exit(struct zookeeper_member *member);
void zk_quorum_changed(struct zookeeper *zk); /* somebody went, came, was cut off */
int64_t zk_quorum_due(const struct zookeeper *zk);
void zk_quorum_step(struct zookeeper *zk); /* one event that is due */

/* ---- zookeeper_words.c ---------------------------------------------------------------------------------------------------- */

/* If these four bytes are a word: answer, and close. */
bool zk_word(struct zk_conn *conn, const char *four);

#endif
