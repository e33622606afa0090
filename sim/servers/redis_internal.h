/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_internal.h - what the files of the simulated Redis share. From the bottom up:
 *
 *   redis_value.c       values: strings, hashes, sorted sets, lists. Shared ones are copied before they are changed
 *   redis_store.c       databases, expiry, the journal of changes
 *   redis_protocol.c    requests in any pieces; replies, to a client or to a script
 *   redis_command.c     which commands there are, what is checked before one is run
 *   redis_strings.c, redis_hashes.c, redis_zsets.c, redis_lists.c, redis_keys.c   commands on keys
 *   redis_lua.c         scripts
 *   redis_pubsub.c, redis_tracking.c    what is sent to those who listen
 *   redis_session.c, redis_client.c, redis_info.c, redis_config.c, redis_acl.c    connections, and what is said about them
 *   redis.c             the server: time, faults, restarts
 *   redis_group.c, redis_replication.c, redis_sentinel.c, redis_cluster.c, redis_slots.c   several of them
 */
#ifndef PAWL_SIM_REDIS_INTERNAL_H
#define PAWL_SIM_REDIS_INTERNAL_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "redis.h"

#define MS INT64_C(1000000)
enum { DATABASES = 16, RUN_ID = 40, SHA = 40 };

struct ctx;
struct session;
struct lua_State;

/* Bytes that somebody else owns. */
struct text {
    const char *s;
    size_t n;
};
#define TEXT(literal) ((struct text){literal, sizeof literal - 1})
static inline bool text_equal(struct text a, struct text b) {
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}
/* As memcmp has it; of two where one begins with the other the shorter is less. */
static inline int text_compare(struct text a, struct text b) {
    int order = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);

    return order ? order : (a.n > b.n) - (a.n < b.n);
}
bool redis__text_is(struct text text, const char *word); /* in upper or lower case */
bool redis__text_to_int(struct text text, int64_t *ret); /* a whole number, written as a server would write it */
bool redis__text_to_double(struct text text, double *ret);
bool redis__text_matches(struct text text, struct text pattern); /* as KEYS has patterns */
struct text redis__text_copy(struct text text);                  /* owned by the caller */
static inline void text_free(struct text text) {
    free((void *)text.s);
}

void *redis_alloc(size_t size); /* zeroed; never NULL */
void *redis_grow(void *old, size_t size);

/* ---- Values --------------------------------------------------------------------------------------------------------------- */

enum value_type { VALUE_STRING, VALUE_HASH, VALUE_ZSET, VALUE_LIST };

struct field {
    struct text name, value;
    uint64_t order; /* in a large hash: its place */
};
struct member {
    double score;
    struct text name;
};

struct value {
    unsigned refs;
    enum value_type type;
    bool large; /* a hash whose fields have no order that one could know */
    size_t count, room;
    uint64_t seed; /* of that order */
    union {
        struct text string;
        struct field *fields;
        struct member *members; /* by score, then by name */
        struct text *items;
    };
};

struct value *redis__value_new(enum value_type type, uint64_t seed);
struct value *redis__value_string(struct text text);
struct value *redis__value_ref(struct value *value); /* NULL is allowed */
void redis__value_unref(struct value *value);
struct value *redis__value_copy(const struct value *value);
const char *redis__value_type_name(enum value_type type);

struct field *redis__hash_find(const struct value *hash, struct text name);
bool redis__hash_set(struct value *hash, struct text name, struct text value,
                     size_t most); /* is it new? `most`: above that it is large */
bool redis__hash_remove(struct value *hash, struct text name);

long redis__zset_find(const struct value *zset, struct text name);        /* its rank; -1 */
void redis__zset_add(struct value *zset, struct text name, double score); /* it is not there */
void redis__zset_remove(struct value *zset, size_t first, size_t count);
size_t redis__zset_lower(const struct value *zset, double score, bool above); /* the first whose score is not below, or is above */

void redis__list_insert(struct value *list, size_t at, struct text item);
void redis__list_remove(struct value *list, size_t at);

/* ---- The store ------------------------------------------------------------------------------------------------------------ */

struct key {
    struct key *chained;
    TAILQ_ENTRY(key) entry; /* in order of their making */
    uint64_t serial;
    uint32_t hash;
    int64_t expires; /* wall ms; -1: never */
    struct value *value;
    struct text name;
};
TAILQ_HEAD(keys, key);

struct database {
    struct key **buckets;
    size_t bucket_count, count;
    struct keys keys;
};

/* What one command, or one script, did: kept while a restart may forget it or a replica may want it. */
struct change {
    unsigned db;
    struct text key;
    struct value *before, *after; /* NULL: not there */
    int64_t expires_before, expires_after;
};
struct message {
    struct text channel, text;
};
struct deed {
    TAILQ_ENTRY(deed) entry;
    unsigned refs;
    int64_t when, offset; /* the stream's offset behind it */
    size_t change_count, change_room, message_count;
    struct change *changes;
    struct message *messages;
};
TAILQ_HEAD(deeds, deed);

struct deed *redis__deed_ref(struct deed *deed);
void redis__deed_unref(struct deed *deed);

struct key *redis__store_find(struct redis *redis, unsigned db, struct text name);
/* Change it: to this value, which is taken over; NULL: it goes. Watchers and journal hear of it. */
void redis__store_put(struct redis *redis, unsigned db, struct text name, struct value *value, int64_t expires);
/* Before a value is changed in place; it may move. Then redis__store_changed(). */
struct value *redis__store_open(struct redis *redis, unsigned db, struct key *key);
void redis__store_changed(struct redis *redis, unsigned db, struct key *key);
void redis__store_set_expiry(struct redis *redis, unsigned db, struct key *key, int64_t expires);
void redis__store_remove(struct redis *redis, unsigned db, struct key *key);
void redis__store_flush(struct redis *redis, int db); /* -1: all */
void redis__store_commit(struct redis *redis);        /* the end of a command: what it did is one deed */
void redis__store_message(struct redis *redis, struct text channel, struct text text); /* for replicas */
void redis__store_forget(struct redis *redis, enum redis_memory memory, int64_t since);
void redis__store_free(struct redis *redis);
int64_t redis__store_expire(struct redis *redis); /* remove what has ended; when to look again (wall ms), or -1 */
bool redis__store_ended(const struct redis *redis, const struct key *key);
/* Replace everything: of a primary. Takes references. */
void redis__store_copy(struct redis *redis, struct redis *from);

/* For commands: the key as it is now, NULL if it is not there. `ok` is false (and the error replied) if it is of another type. */
struct key *redis__look(struct ctx *ctx, struct text name);
struct key *redis__look_typed(struct ctx *ctx, struct text name, enum value_type type, bool *ok);

/* ---- Replies -------------------------------------------------------------------------------------------------------------- */

struct buffer {
    char *bytes;
    size_t size, room;
};
void redis__buffer_add(struct buffer *buffer, const void *bytes, size_t size);
/* A line or two of text: what is longer is cut off. */
void redis__buffer_print(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void redis__buffer_free(struct buffer *buffer);

enum { FRAMES = 16 };
/* To whom a command replies: bytes, or values on a script's stack. */
struct sink {
    struct buffer *bytes;
    struct lua_State *lua;
    int depth;
    struct {
        int64_t left;
        int next;
    } frames[FRAMES];
    bool failed;
};

/* A command that is carried out. */
struct ctx {
    struct redis *redis;
    struct session *session; /* on whose behalf */
    const struct command *command;
    int argc;
    const struct text *argv;
    struct sink *sink;
    bool script;              /* called by one, */
    const struct ctx *caller; /* ... by this command */
};

void redis__reply_status(struct ctx *ctx, const char *status);
void redis__reply_error(struct ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
void redis__reply_int(struct ctx *ctx, int64_t number);
void redis__reply_bulk(struct ctx *ctx, struct text text);
void redis__reply_string(struct ctx *ctx, const char *text);
void redis__reply_double(struct ctx *ctx, double number);
void redis__reply_number(struct ctx *ctx, int64_t number); /* as text */
void redis__reply_nil(struct ctx *ctx);
void redis__reply_nil_array(struct ctx *ctx);
void redis__reply_array(struct ctx *ctx, int64_t count);
void redis__reply_wrong_type(struct ctx *ctx);
void redis__reply_syntax(struct ctx *ctx);
void redis__reply_arity(struct ctx *ctx);
void redis__reply_unknown_subcommand(struct ctx *ctx);
void redis__reply_sub_arity(struct ctx *ctx);
size_t redis__double_text(double number, char *ret, size_t size);

void redis__bytes_bulk(struct buffer *buffer, struct text text);
void redis__bytes_array(struct buffer *buffer, int64_t count);
void redis__bytes_int(struct buffer *buffer, int64_t number);
void redis__bytes_line(struct buffer *buffer, char kind, const char *text, size_t size);

/* Arguments. False: an error was replied. */
bool redis__arg_int(struct ctx *ctx, int index, int64_t *ret);
bool redis__arg_double(struct ctx *ctx, int index, double *ret);

/* One request out of a stream. Returns the bytes that it took; 0: not whole yet; -1: nonsense, `error` says why. */
struct words {
    int count, room;
    struct text *list;
    char *inline_copy;
};
long redis__request_parse(const char *bytes, size_t size, struct words *ret, char *error, size_t error_size);
long redis__inline_parse(const char *bytes, size_t size, struct words *ret, char *error, size_t error_size);

/* ---- Commands ------------------------------------------------------------------------------------------------------------- */

enum {
    CMD_WRITE = 1,
    CMD_READ = 2,
    CMD_DENYOOM = 4,
    CMD_NOSCRIPT = 8,
    CMD_PUBSUB = 16, /* allowed on a connection that is subscribed */
    CMD_LOADING = 32,
    CMD_STALE = 64,
    CMD_NOAUTH = 128,
    CMD_NOMULTI = 256,
    CMD_REPLICATES = 512, /* it may write: held back by CLIENT PAUSE WRITE */
    CMD_ADMIN = 1024,
    CMD_FAST = 2048,
    CMD_SENTINEL = 4096, /* a sentinel knows it */
    CMD_SENTINEL_ONLY = 8192,
    CMD_PUBSUB_RIGHTS = 16384,
    CMD_SCRIPTING = 32768,
    CMD_CONNECTION = 65536,
    CMD_DANGEROUS = 131072,
    CMD_TWO_WORDS = 262144, /* redis_subcommands.c knows the second */
};

struct command {
    const char *name; /* in lower case */
    int arity;        /* negative: at least */
    unsigned flags;
    int first, last, step; /* keys; last -1: the last; first 0: none; first -1: as EVAL has them */
    void (*run)(struct ctx *ctx);
};

static inline bool redis__has_subcommands(const struct command *command) {
    return (command->flags & CMD_TWO_WORDS) != 0;
}
const char *redis__subcommand_name(const struct command *command, int argc, const struct text *argv); /* NULL: none */
bool redis__subcommand_known(const struct command *command, int argc, const struct text *argv);
bool redis__arity_fits(const struct command *command, int argc, const struct text *argv);

const struct command *redis__command_find(struct text name);
size_t redis__command_number(const struct command *command);
size_t redis__command_count(void);
const struct command *redis__command_at(size_t number);
/* The keys of a request, at most so many; returns how many there are. */
int redis__command_keys_of(const struct command *command, int argc, const struct text *argv, struct text *ret, int most);
/* Run what a client has sent. False: not now (CLIENT PAUSE), try again. */
bool redis__command_run(struct session *session, int argc, const struct text *argv);
/* Run what a script calls. */
void redis__command_call(struct ctx *caller, int argc, const struct text *argv, struct sink *sink);
void redis__command_run_now(struct ctx *ctx);

/* ---- Sessions ------------------------------------------------------------------------------------------------------------- */

enum channel_kind { CHANNEL_PLAIN, CHANNEL_PATTERN, CHANNEL_SHARD, CHANNEL_KINDS };
struct queued {
    int argc;
    struct text *argv;
};

struct session {
    TAILQ_ENTRY(session) entry;  /* redis->sessions */
    TAILQ_ENTRY(session) writes; /* redis->writers, while it has something to send */
    struct redis *redis;
    struct link *link; /* NULL: the operator's own */
    uint64_t id;
    int64_t since; /* when it came */
    struct buffer in, out;
    size_t parsed; /* of `in` */
    unsigned db;
    struct acl_user *user; /* NULL: not logged in */
    char name[64];
    const char *last_command, *last_subcommand;
    bool writing, closing, replied_off, skip_reply, asking, readonly;
    bool held;    /* it runs a script that takes long */
    bool refused; /* there are too many: it is told, and closed */
    bool own;     /* the operator's: nobody else sees it */

    TAILQ_HEAD(, listening) listens; /* in order of subscription */
    size_t channel_counts[CHANNEL_KINDS];

    bool tracking, tracking_bcast, tracking_optin, tracking_optout, tracking_noloop, caching, caching_no;
    uint64_t redirect;
    size_t prefix_count;
    struct text *prefixes;
    struct buffer pending; /* what it is told of its own doing, after the reply */

    bool multi, multi_failed, watch_broken;
    size_t queue_count;
    struct queued *queue;

    bool waits; /* WAIT */
    int64_t wait_offset, wait_until, wait_count;
    int64_t last_write; /* offset */
};
TAILQ_HEAD(sessions, session);

/* One session listens to one channel. */
struct listening {
    TAILQ_ENTRY(listening) of_session, of_channel;
    struct session *session;
    struct listened *channel;
};
struct listened {
    TAILQ_ENTRY(listened) entry;
    enum channel_kind kind;
    struct text name;
    size_t count;
    TAILQ_HEAD(, listening) sessions;
};

struct session *redis__session_new(struct redis *redis, struct link *link, int64_t now);
void redis__session_free(struct session *session);
void redis__session_wants_to_write(struct session *session);
void redis__session_close_soon(struct session *session); /* after what it has to say */
void redis__session_process(struct session *session);
void redis__queue_clear(struct session *session); /* MULTI */
void redis__wait_look(struct redis *redis);       /* who has waited long enough, or for enough */
void redis__wait_end_all(struct redis *redis);
struct session *redis__session_find(struct redis *redis, uint64_t id);
void redis__sessions_write(struct redis *redis); /* everything that is to be sent */
bool redis__session_subscribed(const struct session *session);
size_t redis__session_subscriptions(const struct session *session);

/* ---- Pub/sub and tracking ------------------------------------------------------------------------------------------------- */

int64_t redis__publish(struct redis *redis, struct text channel, struct text message, bool shard);
void redis__unsubscribe_all(struct session *session);
void redis__unsubscribe_slot(struct redis *redis, unsigned slot);
void redis__pubsub_free(struct redis *redis);

void redis__tracking_remember(struct ctx *ctx);
void redis__tracking_changed(struct redis *redis, struct text key);
void redis__tracking_broadcast(struct redis *redis);
void redis__tracking_afterwards(struct session *session);
void redis__tracking_flushed(struct redis *redis);
void redis__tracking_off(struct session *session);
void redis__tracking_end(struct session *session); /* of a session that ends */
void redis__tracking_free(struct redis *redis);

/* ---- The server ----------------------------------------------------------------------------------------------------------- */

struct setting;
struct stats {
    uint64_t calls, failed, rejected;
};
struct tracked;
/* A key that was changed in this turn, and by whom. */
struct broadcast {
    struct text key;
    uint64_t by;
};
struct acl_user;

struct redis {
    char name[64], host[64], version[16];
    unsigned port;
    uint64_t seed, random;
    struct server_clock clock;
    bool frozen_time, up, aof;
    int64_t now;                   /* as handed in, or later by what the commands took */
    int64_t handed_in;             /* the last one */
    int64_t busy_from, busy_until; /* a script that takes long; 0: none */
    int64_t wall_ms;               /* the wall clock when the command or script began, */
    int64_t moment_ns;             /* ... and finer */
    int64_t started;               /* `now` of the start */
    int64_t loading_until;
    int64_t paused_until; /* CLIENT PAUSE */
    bool paused_writes_only;
    char run_id[RUN_ID + 1];
    void (*on_due)(void *data);
    void *on_due_data;

    struct database dbs[DATABASES];
    uint64_t next_serial;
    int64_t next_expiry;          /* wall ms, no later than the first that ends; INT64_MAX */
    uint64_t dirty, dirty_before; /* changes so far; and when the script began */

    int64_t journal_ns;
    struct deeds journal;
    size_t journal_count;
    struct deed *open_deed;

    struct sessions sessions, writers;
    size_t session_count;
    uint64_t next_session;
    unsigned max_clients;
    struct session *own_session, *current; /* whose command it is */

    TAILQ_HEAD(listened_list, listened) channels[CHANNEL_KINDS];

    size_t tracking_clients, tracking_bcasts, tracked_count;
    TAILQ_HEAD(, tracked) tracked;
    size_t broadcast_count;
    struct broadcast *broadcasts;

    size_t script_count, script_room;
    unsigned char (*scripts)[20]; /* that it knows: SHA-1s, sorted */
    bool in_script;

    struct setting *settings;
    size_t setting_count;
    size_t hash_most;
    int64_t min_replicas, max_memory;
    bool replica_writes;

    struct acl_user *users;
    TAILQ_HEAD(acl_log, acl_entry) acl_log;

    uint64_t fail_at; /* writes until then; 0: none */
    bool write_failed;
    char fail_text[512], fail_always[512];
    unsigned nonsense;

    struct redis_counts counts;
    struct stats *stats;
    uint64_t connections;

    struct peer *peer; /* in a group */
    bool elsewhere;    /* REPLICAOF a server that is none of ours */
    char elsewhere_host[64];
    unsigned elsewhere_port;
    size_t waiting;       /* sessions in WAIT */
    bool refused;         /* some session is one too many */
    int64_t expiry_delay; /* what has ended is looked for so much later; drawn */
    struct words words;
};

uint64_t redis_draw(uint64_t *state);                     /* the next of a stream of chance */
uint64_t redis_mix(uint64_t a, uint64_t b);               /* a stream of its own */
void redis_hex(struct redis *redis, char *ret, size_t n); /* drawn; terminated */
int64_t redis__wall_ns(const struct redis *redis);
int64_t redis__wall_ms_now(const struct redis *redis); /* for what a real server asks its clock anew, even in a script */
void redis__begin_moment(struct redis *redis);         /* a command begins: the clock is read */
void redis__set_now(struct redis *redis, int64_t now);
void redis__spend(struct redis *redis); /* a command takes time */
const char *redis__write_refused(struct redis *redis);

/* Scripts. */
bool redis__script_knows(struct redis *redis, const unsigned char sha[20], bool add);
void redis__scripts_forget(struct redis *redis);
void redis__sha1(const void *data, size_t size, unsigned char ret[20]);
void redis__sha1_text(const unsigned char hash[20], char ret[SHA + 1]);
void redis__sha1_hex(const void *data, size_t size, char ret[SHA + 1]);

/* Settings. */
void redis__settings_init(struct redis *redis);
void redis__settings_free(struct redis *redis);
const char *redis__setting_get(const struct redis *redis, const char *name);
void redis__setting_put(struct redis *redis, const char *name, const char *value);

/* Rights. NULL: it may; else why not, `object` is what it lacks. */
enum acl_denied { ACL_OK, ACL_COMMAND, ACL_KEY, ACL_CHANNEL };
void redis__acl_init(struct redis *redis);
void redis__acl_free(struct redis *redis);
void redis__acl_require(struct redis *redis, const char *password); /* requirepass */
struct acl_user *redis__acl_default(struct redis *redis);
bool redis__acl_default_open(const struct redis *redis);
enum acl_denied redis__acl_check(struct redis *redis, const struct acl_user *user, const struct command *command, int argc,
                                 const struct text *argv, int *ret_index);
void redis__acl_note(struct ctx *ctx, enum acl_denied why, int index);
/* With its subcommand, as in client|id. */
void redis__acl_command_name(const struct command *command, int argc, const struct text *argv, char *ret, size_t size);
const char *redis__acl_user_name(const struct acl_user *user);

/* ---- Groups: redis_group.c ------------------------------------------------------------------------------------------------ */

bool redis__peer_is_replica(const struct redis *redis);
bool redis__peer_clustered(const struct redis *redis);
bool redis__peer_is_sentinel(const struct redis *redis);
void redis__peer_wrote(struct redis *redis, struct deed *deed);
int64_t redis__peer_offset(const struct redis *redis);
unsigned redis__peer_good_replicas(const struct redis *redis);
int64_t redis__peer_acks(const struct redis *redis, int64_t offset);
void redis__peer_info_replication(struct redis *redis, struct buffer *text);
void redis__peer_info_sentinel(struct redis *redis, struct buffer *text);
void redis__peer_ask_acks(struct redis *redis);
int64_t redis__peer_due(const struct redis *redis);
void redis__peer_tick(struct redis *redis);
void redis__peer_stopped(struct redis *redis);
void redis__peer_started(struct redis *redis);
/* In a cluster: may these keys be touched here? False: where to was replied. */
bool redis__peer_redirect(struct ctx *ctx);
bool redis__peer_script_may(struct ctx *ctx); /* a key that a script touches */

#endif
