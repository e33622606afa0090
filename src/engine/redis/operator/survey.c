/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: who holds a lock and who waits for it, as the server has it; and breaking a hold.
 *
 * One script reads all of one lock. Who holds is what the lock's own key says, whoever wrote it; the records (docs/redis.md says where they
 * lie) only add names to owners that are pawl's. A holder without a record is foreign. It has no token, or one that is not ours to know,
 * and still must be named in order to be broken: it is shown with a number made of its owner's name.
 *
 * All locks are found by SCAN for records, queues and counters of tokens; so what only foreign programs hold is shown when it is asked
 * for by name.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/keys.h"
#include "engine/redis/operator/operator.h"
#include "base/error.h"

#define CALL_NS (5000 * REDIS_MS)
/* How long a holder that is asked to give up may be deaf: it may be connecting anew, or in a cluster not have subscribed yet. */
#define DEAF_NS (3000 * REDIS_MS)
#define DEAF_STEP_NS (20 * REDIS_MS)
enum { SCAN_ROUNDS = 20000, NAMES_MOST = 100000, HELD_BATCH = 100 };

/* ---- Calls that wait for their answer ------------------------------------------------------------------------------------- */

struct sync_call {
    bool done, abandoned;
    redisReply *reply;
};

static void call_answered(struct redis *redis, struct request *request, redisReply *reply) {
    struct sync_call *call = request->data;

    (void)redis;
    if (call->abandoned) {
        freeReplyObject(reply);
        free(call);
        return;
    }
    call->reply = reply;
    call->done = true;
    pawl__home_called(home_of(request->server));
}

/* In a cluster a node is connected when it is first asked for something. */
static void await_node(struct server *server) {
    int64_t deadline = pawl__boottime() + server->redis->options.connect_ns;
    bool never = false;

    if (!in_cluster(server->redis))
        return;
    pawl__server_want(server);
    pawl__redis_unlock(server->redis); /* which has the service thread see to it */
    pawl__redis_lock(server->redis);
    while (!pawl__server_up(server) && pawl__server_hopeful(server) && pawl__boottime() < deadline)
        pawl__home_wait(home_of(server), &never, pawl__boottime() + 20 * REDIS_MS);
}

/* Run a command (script -1) or a script, and wait. NULL: reterr says why. */
static redisReply *call_server(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                               struct pawl_error *reterr) {
    struct redis *redis = server->redis;
    struct sync_call *call = calloc(1, sizeof *call);
    struct request request = {.answered = call_answered, .data = call, .script = -1};
    redisReply *reply = NULL;
    bool ok;

    if (!call) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    pawl__redis_lock(redis);
    server->users++;
    await_node(server);
    if (server->commands.state != LINK_UP)
        ok = false;
    else if (script >= 0)
        ok = pawl__script_send(server, script, keys, argc, argv, lengths, &request);
    else
        ok = pawl__link_say(&server->commands, argc, argv, &request);
    if (ok && pawl__home_wait(home_of(server), &call->done, pawl__boottime() + CALL_NS))
        reply = call->reply;
    if (!reply)
        pawl__fail(reterr, PAWL_ECONNLOST, "%s",
                   server->commands.why.code ? pawl__server_errortext(server) : "the server does not answer");
    server->users--;
    if (ok && !call->done)
        call->abandoned = true;
    else
        free(call);
    pawl__redis_unlock(redis);
    return reply;
}

/* Whom to ask again after an error; NULL: that would not help. */
static struct server *ask_again(struct server *server, const redisReply *reply, enum reply_class class) {
    struct server *other = NULL;

    if (class == REPLY_NOSCRIPT)
        return server;
    if (!in_cluster(server->redis))
        return NULL;
    if (class == REPLY_MOVED) {
        pawl__redis_lock(server->redis);
        if (pawl__cluster_moved(server, reply))
            other = pawl__cluster_asked(server, reply);
        pawl__redis_unlock(server->redis);
        return other;
    }
    if (class != REPLY_ASK && class != REPLY_AGAIN)
        return NULL;
    pawl__pause(50 * PAWL__NS_PER_MS); /* until the slot has moved */
    return server;
}

redisReply *pawl__server_call(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                              struct pawl_error *reterr) {
    struct pawl_error why = {0};
    enum reply_class class;
    redisReply *reply;

    for (int tries = 0; server && tries < 50; tries++) {
        reply = call_server(server, script, keys, argc, argv, lengths, reterr);
        if (!reply)
            return NULL;
        class = pawl__reply_class(reply, &why);
        if (class == REPLY_OK)
            return reply;
        server = ask_again(server, reply, class);
        freeReplyObject(reply);
    }
    if (reterr)
        *reterr = why;
    return NULL;
}

/* ---- Reading one lock ----------------------------------------------------------------------------------------------------- */

enum { AT_TYPE, AT_LEFT, AT_CONTENT, AT_WHO, AT_QUEUE, AT_OUT, AT_HOLDS, AT_TIME, AT_COUNT };

/* A lock as the server has it. */
struct sight {
    struct redis *redis;
    const char *name;
    redisReply *reply;
    enum pawl_kind kind;
    int64_t now_ms;
    unsigned limit;
};

static const redisReply *part(const struct sight *sight, int which) {
    return sight->reply->element[which];
}

/* The value that follows `key` in a flat list of pairs. */
static const redisReply *pair_value(const redisReply *list, const char *key, size_t length) {
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (list->element[i]->len == length && memcmp(list->element[i]->str, key, length) == 0)
            return list->element[i + 1];
    return NULL;
}

static enum pawl_kind kind_of(const struct sight *sight) {
    const redisReply *content = part(sight, AT_CONTENT), *queue = part(sight, AT_QUEUE);

    if (strcmp(part(sight, AT_TYPE)->str, "hash") == 0)
        return pair_value(content, "mode", 4) ? PAWL_RWLOCK : PAWL_MUTEX;
    if (part(sight, AT_OUT)->elements)
        return PAWL_SEMAPHORE;
    if (strcmp(part(sight, AT_TYPE)->str, "string") == 0 && sight->redis->options.layout == LAYOUT_REDISSON &&
        strspn(content->element[0]->str, "0123456789") == (size_t)content->element[0]->len && content->element[0]->len < 8)
        return PAWL_SEMAPHORE;
    for (size_t i = 0; i < queue->elements; i++) {
        const char *mode = strchr(queue->element[i]->str, ' ');

        if (mode && (mode[1] == 's' || mode[1] == 'p'))
            return mode[1] == 's' ? PAWL_RWLOCK : PAWL_SEMAPHORE;
    }
    return PAWL_MUTEX;
}

/* `TOKEN COUNT MODE PERMITS SINCE RECORD`, the mode in capitals after a break; or of a waiter `OWNER MODE PERMITS SINCE RECORD`. */
struct facts {
    unsigned long long token;
    unsigned count, permits;
    long long since_ms;
    char mode;
    struct pawl__identity identity;
    bool known;
};

static void read_holder(const redisReply *value, struct facts *ret) {
    int used = 0;

    memset(ret, 0, sizeof *ret);
    ret->permits = 1;
    if (!value ||
        sscanf(value->str, "%llu %u %c %u %lld %n", &ret->token, &ret->count, &ret->mode, &ret->permits, &ret->since_ms, &used) < 5)
        return;
    ret->known = pawl__record_parse(value->str + used, value->len - (size_t)used, &ret->identity);
}

static void read_waiter(const redisReply *member, struct facts *ret) {
    int used = 0;

    memset(ret, 0, sizeof *ret);
    ret->permits = 1;
    if (sscanf(member->str, "%*s %c %u %lld %n", &ret->mode, &ret->permits, &ret->since_ms, &used) < 3)
        return;
    ret->known = pawl__record_parse(member->str + used, member->len - (size_t)used, &ret->identity);
}

/* A number for a holder that has no token: FNV-1a of its name, in the upper half so that it can't be taken for one. */
static uint64_t foreign_token(const char *owner, size_t length) {
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)owner[i]) * UINT64_C(1099511628211);
    return hash | UINT64_C(1) << 63;
}

/* One holder, as it is found in the lock's key; valid as long as the reply that it was read from. */
struct holder {
    const char *owner; /* what the server calls it: bytes of any kind, however many */
    size_t length;
    enum pawl_mode mode;
    int64_t left_ms; /* -1: no end */
    unsigned permits;
    char count[24]; /* how often Redisson's holder entered */
    bool broken;
    struct facts facts;
    uint64_t token;
};

static void complete_holder(const struct sight *sight, struct holder *holder) {
    read_holder(pair_value(part(sight, AT_WHO), holder->owner, holder->length), &holder->facts);
    holder->token = holder->facts.known ? holder->facts.token : foreign_token(holder->owner, holder->length);
    holder->broken = isupper((unsigned char)holder->facts.mode);
}

static void set_owner(struct holder *holder, const char *text, size_t length) {
    memset(holder, 0, sizeof *holder);
    holder->owner = text;
    holder->length = length;
    holder->permits = 1;
}

typedef int holder_fn(const struct sight *sight, const struct holder *holder, void *data);

static int each_field(const struct sight *sight, holder_fn *fn, void *data) {
    const redisReply *content = part(sight, AT_CONTENT), *holds = part(sight, AT_HOLDS);
    struct holder holder;
    int rc;

    for (size_t i = 0; i + 1 < content->elements; i += 2) {
        const char *field = content->element[i]->str;
        size_t length = content->element[i]->len;
        bool write = length > 6 && strcmp(field + length - 6, ":write") == 0 && sight->kind == PAWL_RWLOCK;

        if (strcmp(field, "mode") == 0)
            continue;
        set_owner(&holder, field, write ? length - 6 : length);
        holder.mode = sight->kind == PAWL_RWLOCK && !write ? PAWL_SHARED : PAWL_EXCLUSIVE;
        holder.left_ms = holder.mode == PAWL_SHARED ? pawl__reply_number(holds, i / 2, -1) : part(sight, AT_LEFT)->integer;
        snprintf(holder.count, sizeof holder.count, "%.20s", content->element[i + 1]->str);
        if (holder.left_ms == -2)
            continue; /* a reader that died, and nobody has cleared away yet */
        complete_holder(sight, &holder);
        if ((rc = fn(sight, &holder, data)) != 0)
            return rc;
    }
    return 0;
}

/* Permits that are out: those of one owner of ours, owner:1, owner:2, ..., are one holder. */
static int each_permit(const struct sight *sight, holder_fn *fn, void *data) {
    const redisReply *out = part(sight, AT_OUT);
    struct holder holder;
    int rc;

    for (size_t i = 0; i + 1 < out->elements; i += 2) {
        const char *member = out->element[i]->str, *colon = strrchr(member, ':');
        double ends = strtod(out->element[i + 1]->str, NULL);

        set_owner(&holder, member, colon ? (size_t)(colon - member) : out->element[i]->len);
        complete_holder(sight, &holder);
        if (!holder.facts.known)
            set_owner(&holder, member, out->element[i]->len);
        else if (colon && strcmp(colon, ":1") != 0)
            continue;
        holder.mode = PAWL_PERMITS;
        holder.left_ms = ends - (double)sight->now_ms > 1e12 ? -1 : (int64_t)(ends - (double)sight->now_ms);
        if (holder.left_ms < 0 && holder.left_ms != -1)
            continue;
        complete_holder(sight, &holder);
        holder.permits = holder.facts.known ? holder.facts.permits : 1;
        if ((rc = fn(sight, &holder, data)) != 0)
            return rc;
    }
    return 0;
}

static int each_holder(const struct sight *sight, holder_fn *fn, void *data) {
    const redisReply *content = part(sight, AT_CONTENT);
    struct holder holder;

    if (sight->kind == PAWL_SEMAPHORE)
        return each_permit(sight, fn, data);
    if (strcmp(part(sight, AT_TYPE)->str, "hash") == 0)
        return each_field(sight, fn, data);
    if (strcmp(part(sight, AT_TYPE)->str, "string") != 0)
        return 0;
    set_owner(&holder, content->element[0]->str, content->element[0]->len);
    holder.left_ms = part(sight, AT_LEFT)->integer;
    complete_holder(sight, &holder);
    return fn(sight, &holder, data);
}

static struct server *server_of(struct redis *redis, const char *name) {
    struct server *server;

    pawl__redis_lock(redis);
    server = pawl__server_for(redis, name);
    pawl__redis_unlock(redis);
    return server;
}

static int look(struct redis *redis, const char *name, struct sight *ret, struct pawl_error *reterr) {
    struct redis_keys rwlock;
    struct redis_call call;
    int rc = pawl__redis_check_name(redis, name, reterr);

    if (rc < 0)
        return rc;
    pawl__redis_keys(redis, name, PAWL_RWLOCK, &rwlock);
    pawl__call_fill(redis, NULL, name, PAWL_SEMAPHORE, "", &call);
    call.argv[REDIS_CALL_COMMON] = rwlock.beside;
    *ret = (struct sight){.redis = redis, .name = name};
    ret->reply = pawl__server_call(server_of(redis, name), SCRIPT_SURVEY, REDIS_CALL_KEYS, REDIS_CALL_COMMON + 1, call.argv, NULL,
                                   reterr);
    if (!ret->reply)
        return reterr ? reterr->code : PAWL_ECONNLOST;
    if (ret->reply->type != REDIS_REPLY_ARRAY || ret->reply->elements != AT_COUNT) {
        freeReplyObject(ret->reply);
        return pawl__fail(reterr, PAWL_EFORMAT, "the server's answer about '%s' makes no sense", name);
    }
    ret->kind = kind_of(ret);
    ret->now_ms = pawl__reply_number(ret->reply, AT_TIME, 0) / 1000;
    ret->limit = 1;
    if (ret->kind == PAWL_SEMAPHORE && part(ret, AT_CONTENT)->elements)
        ret->limit = (unsigned)strtol(part(ret, AT_CONTENT)->element[0]->str, NULL, 10) + (unsigned)part(ret, AT_OUT)->elements / 2;
    return 0;
}

/* ---- Showing it ----------------------------------------------------------------------------------------------------------- */

struct showing {
    pawl_visit_fn *visit;
    void *data;
};

static void printable(char *to, size_t size, const char *from, size_t length) {
    size_t used = 0;

    for (size_t i = 0; i < length && used + 4 < size; i++) {
        unsigned char c = (unsigned char)from[i];

        if (c < ' ' || c >= 0x7f)
            used += (size_t)snprintf(to + used, size - used, "\\x%02x", c);
        else
            to[used++] = (char)c;
    }
    to[used] = '\0';
}

static int show_holder(const struct sight *sight, const struct holder *holder, void *data) {
    const struct showing *showing = data;
    char owner[300], raw[400];
    struct pawl_entry entry = {
        .name = sight->name,
        .kind = sight->kind,
        .mode = holder->mode,
        .flags = (holder->facts.known ? 0 : PAWL_ENTRY_FOREIGN) | (holder->broken ? PAWL_ENTRY_BROKEN : 0),
        .permits = holder->permits,
        .limit = sight->limit,
        .token = holder->token,
        .host = holder->facts.identity.host,
        .pid = holder->facts.identity.pid,
        .command = holder->facts.identity.command,
        .label = holder->facts.identity.label,
        .since_ms = holder->facts.since_ms,
        .remaining_ms = holder->left_ms == -1 ? PAWL_FOREVER : holder->left_ms,
        .raw = raw,
    };

    printable(owner, sizeof owner, holder->owner, holder->length);
    if (holder->count[0])
        snprintf(raw, sizeof raw, "%s = %s", owner, holder->count);
    else
        snprintf(raw, sizeof raw, "%s", owner);
    return showing->visit(&entry, showing->data);
}

static int show_waiters(const struct sight *sight, const struct showing *showing) {
    const redisReply *queue = part(sight, AT_QUEUE);
    unsigned position = 0;
    int rc = 0;

    for (size_t i = 0; i < queue->elements && rc == 0; i++) {
        const redisReply *owner = queue->element[i];
        struct facts facts;
        struct pawl_entry entry;

        read_waiter(owner, &facts);
        if (!facts.known)
            continue;
        entry = (struct pawl_entry){
            .name = sight->name,
            .kind = sight->kind,
            .mode = facts.mode == 's'   ? PAWL_SHARED
                    : facts.mode == 'p' ? PAWL_PERMITS
                                        : PAWL_EXCLUSIVE,
            .flags = PAWL_ENTRY_WAITER,
            .position = ++position,
            .permits = facts.permits,
            .limit = sight->limit,
            .host = facts.identity.host,
            .pid = facts.identity.pid,
            .command = facts.identity.command,
            .label = facts.identity.label,
            .since_ms = facts.since_ms,
            .remaining_ms = -1,
            .raw = owner->str,
        };
        rc = showing->visit(&entry, showing->data);
    }
    return rc;
}

/* Is there something under the lock's name that no lock is made of? */
static bool is_no_lock(const struct sight *sight) {
    const char *type = part(sight, AT_TYPE)->str;

    return strcmp(type, "none") != 0 && strcmp(type, "hash") != 0 && strcmp(type, "string") != 0;
}

static int survey_one(struct redis *redis, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct showing showing = {visit, data};
    struct sight sight;
    int rc = look(redis, name, &sight, reterr);

    if (rc < 0)
        return rc;
    if (is_no_lock(&sight))
        rc = pawl__fail(reterr, PAWL_EKIND, "the key of '%s' holds a %s, which is no lock", name, part(&sight, AT_TYPE)->str);
    else
        rc = each_holder(&sight, show_holder, &showing);
    if (rc == 0)
        rc = show_waiters(&sight, &showing);
    freeReplyObject(sight.reply);
    return rc;
}

/* ---- All locks ------------------------------------------------------------------------------------------------------------ */

struct names {
    char **list;
    size_t count, size;
};

static bool add_name(struct names *names, const char *name) {
    if (names->count == names->size) {
        char **bigger = realloc(names->list, (names->size * 2 + 64) * sizeof *bigger);

        if (!bigger)
            return false;
        names->list = bigger;
        names->size = names->size * 2 + 64;
    }
    names->list[names->count] = strdup(name);
    return names->list[names->count] && ++names->count <= NAMES_MOST;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(struct names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
}

/* Take the names out of one answer to SCAN. */
static int read_page(struct server *server, const redisReply *keys, const char *prefix, struct names *names,
                     struct pawl_error *reterr) {
    char buffer[REDIS_KEY_MAX];

    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        const char *name = pawl__redis_name_of(server->redis, key->str, key->len, prefix, buffer);

        if (name && *name && !add_name(names, name))
            return pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
    }
    return 0;
}

typedef int page_fn(struct server *server, const redisReply *keys, const char *prefix, struct names *names,
                    struct pawl_error *reterr);

static int scan(struct server *server, const char *prefix, page_fn *page, struct names *names, struct pawl_error *reterr) {
    char cursor[24] = "0", match[64];
    int rc = 0;

    snprintf(match, sizeof match, "%s:*", prefix);
    for (int round = 0; round < SCAN_ROUNDS; round++) {
        const char *argv[] = {"SCAN", cursor, "MATCH", match, "COUNT", "1000"};
        redisReply *reply = pawl__server_call(server, -1, 0, 6, argv, NULL, reterr);

        if (!reply)
            return reterr ? reterr->code : PAWL_ECONNLOST;
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            rc = page(server, reply->element[1], prefix, names, reterr);
        } else {
            rc = pawl__fail(reterr, PAWL_EFORMAT, "the server's answer to SCAN makes no sense");
        }
        freeReplyObject(reply);
        if (rc < 0 || strcmp(cursor, "0") == 0)
            return rc;
    }
    return pawl__fail(reterr, PAWL_EFULL, "the server has too many keys to look through: ask for a lock by its name");
}

/* Add those of `used` that are held, `count` of them in one script. */
static int add_held(struct server *server, char *const *used, size_t count, struct names *names, struct pawl_error *reterr) {
    char keys[HELD_BATCH][REDIS_KEY_MAX];
    const char *argv[HELD_BATCH];
    redisReply *reply;
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        strcpy(stpcpy(keys[i], server->redis->options.prefix), used[i]);
        argv[i] = keys[i];
    }
    reply = pawl__server_call(server, SCRIPT_HELD, 0, (int)count, argv, NULL, reterr);
    if (!reply)
        return reterr ? reterr->code : PAWL_ECONNLOST;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (pawl__reply_number(reply, i, 0) == 1 && !add_name(names, used[i]))
            rc = pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
    freeReplyObject(reply);
    return rc;
}

/* The counters of tokens are those of all locks that ever were: only what is held is of interest. */
static int read_tokens(struct server *server, const redisReply *keys, const char *prefix, struct names *names,
                       struct pawl_error *reterr) {
    size_t batch = in_cluster(server->redis) ? 1 : HELD_BATCH; /* there, a script is of one slot */
    struct names used = {0};
    int rc = read_page(server, keys, prefix, &used, reterr);

    for (size_t i = 0; i < used.count && rc == 0; i += batch)
        rc = add_held(server, used.list + i, used.count - i < batch ? used.count - i : batch, names, reterr);
    free_names(&used);
    return rc;
}

struct server *pawl__server_next(struct redis *redis, struct server *server) {
    pawl__redis_lock(redis);
    do {
        server = server ? TAILQ_NEXT(server, entry) : TAILQ_FIRST(&redis->servers);
    } while (server && in_cluster(redis) && !server->slot_count);
    pawl__redis_unlock(redis);
    return server;
}

static int scan_all(struct redis *redis, struct names *names, struct pawl_error *reterr) {
    struct server *server = NULL;
    int rc = 0;

    while (rc == 0 && (server = pawl__server_next(redis, server))) {
        rc = scan(server, pawl__redis_queue_prefix(redis), read_page, names, reterr);
        if (rc == 0 && !is_voter(redis))
            rc = scan(server, "pawl:who", read_page, names, reterr);
        if (rc == 0 && redis->options.layout != LAYOUT_PLAIN)
            rc = scan(server, pawl__redis_token_prefix(redis), read_tokens, names, reterr);
    }
    return rc;
}

int pawl__redis_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct pawl_error local;
    struct names names = {0};
    int rc;

    reterr = reterr ? reterr : &local;
    if (name)
        return survey_one(redis, name, visit, data, reterr);
    rc = scan_all(redis, &names, reterr);
    if (names.count)
        qsort(names.list, names.count, sizeof *names.list, compare_names);
    for (size_t i = 0; i < names.count && rc == 0; i++)
        if (i == 0 || strcmp(names.list[i], names.list[i - 1]) != 0) {
            rc = survey_one(redis, names.list[i], visit, data, reterr);
            rc = rc == PAWL_EKIND ? 0 : rc; /* it does not keep the others from being shown */
        }
    free_names(&names);
    return rc;
}

/* ---- Break ---------------------------------------------------------------------------------------------------------------- */

struct search {
    uint64_t token;
    struct holder found;
    bool any;
};

static int match_token(const struct sight *sight, const struct holder *holder, void *data) {
    struct search *search = data;
    uint64_t first = holder->token, count = holder->facts.known ? holder->facts.count : 1;

    (void)sight;
    if (search->token < first || search->token - first >= count)
        return 0;
    search->found = *holder;
    search->any = true;
    return 1;
}

/* How many were told; -1: it does not hold; else reterr says why. */
static int call_break(struct redis *redis, const char *name, enum pawl_kind kind, const struct holder *holder, bool now,
                      int *rettold, struct pawl_error *reterr) {
    enum { ARGS = REDIS_CALL_COMMON + 1 };
    struct redis_call call;
    size_t lengths[ARGS];
    redisReply *reply;

    pawl__call_fill(redis, NULL, name, kind, holder->owner, &call);
    call.argv[REDIS_CALL_COMMON] = now ? "1" : "0";
    for (int i = 0; i < ARGS; i++) /* Redisson's permits are bytes of any kind */
        lengths[i] = call.argv[i] == holder->owner ? holder->length : strlen(call.argv[i]);
    reply = pawl__server_call(server_of(redis, name), SCRIPT_BREAK + (int)kind, REDIS_CALL_KEYS, ARGS, call.argv, lengths, reterr);
    if (!reply)
        return reterr->code;
    *rettold = reply->type == REDIS_REPLY_INTEGER ? (int)reply->integer : -1;
    freeReplyObject(reply);
    return 0;
}

/* A holder that is asked to give up is told until it hears. It may be dead: then its lease ends it. */
static int run_break(struct redis *redis, const char *name, enum pawl_kind kind, const struct holder *holder, bool now,
                     struct pawl_error *reterr) {
    int64_t deadline = pawl__boottime() + DEAF_NS;
    int told, rc = call_break(redis, name, kind, holder, now, &told, reterr);

    if (rc == 0 && told < 0)
        return pawl__fail(reterr, PAWL_ETOKEN, "the hold of '%s' was released meanwhile", name);
    while (rc == 0 && told == 0 && !now && pawl__boottime() < deadline) {
        pawl__pause(DEAF_STEP_NS);
        rc = call_break(redis, name, kind, holder, now, &told, reterr);
    }
    return rc;
}

int pawl__redis_break(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct search search = {.token = token};
    struct pawl_error local;
    struct sight sight;
    int rc;

    reterr = reterr ? reterr : &local;
    rc = look(redis, name, &sight, reterr);
    if (rc < 0)
        return rc;
    each_holder(&sight, match_token, &search);
    if (!search.any)
        rc = pawl__fail(reterr, PAWL_ETOKEN, "no hold of '%s' has token %llu: pawl status shows them", name,
                        (unsigned long long)token);
    else if (!search.found.facts.known && !now)
        rc = pawl__fail(reterr, PAWL_EUNSUPPORTED, "the holder of '%s' is not a pawl and can't be asked: only --now frees it",
                        name);
    else
        rc = run_break(redis, name, sight.kind, &search.found, now, reterr);
    freeReplyObject(sight.reply);
    return rc;
}
