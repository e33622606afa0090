/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_store.c - the databases, the time of keys, and the journal of what was changed.
 *
 * No reader sees a key that has ended. It is taken out when a command comes across it, or by redis__store_expire(); a replica
 * leaves it to its primary to say so, and only does not show it.
 *
 * What a command or a script changes is one deed: the state before and after of each key. It is written down only if somebody may want it:
 * a restart that forgets (before), or replicas (after). States are shared, not copied: a value that is in the journal is copied when it is
 * changed next (store_open).
 */
#include "redis_internal.h"

/* Replicas that were away for longer than so many deeds get all of it anew. */
enum { BACKLOG = 1000, FEW_BUCKETS = 16 };

static uint32_t hash_of(struct text name) {
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < name.n; i++)
        hash = (hash ^ (unsigned char)name.s[i]) * 16777619u;
    return hash;
}

static void grow(struct database *db) {
    size_t count = db->bucket_count ? db->bucket_count * 4 : FEW_BUCKETS;
    struct key *key;

    free(db->buckets);
    db->buckets = redis_alloc(count * sizeof *db->buckets);
    db->bucket_count = count;
    TAILQ_FOREACH(key, &db->keys, entry) {
        struct key **bucket = &db->buckets[key->hash % count];

        key->chained = *bucket;
        *bucket = key;
    }
}

struct key *redis__store_find(struct redis *redis, unsigned number, struct text name) {
    struct database *db = &redis->dbs[number];
    uint32_t hash;
    struct key *key;

    if (!db->count)
        return NULL;
    hash = hash_of(name);
    for (key = db->buckets[hash % db->bucket_count]; key; key = key->chained)
        if (key->hash == hash && text_equal(key->name, name))
            return key;
    return NULL;
}

static struct key *make_key(struct redis *redis, struct database *db, struct text name) {
    struct key *key = redis_alloc(sizeof *key), **bucket;

    if (!db->bucket_count)
        TAILQ_INIT(&db->keys);
    key->name = redis__text_copy(name);
    key->hash = hash_of(name);
    key->serial = ++redis->next_serial;
    key->expires = -1;
    TAILQ_INSERT_TAIL(&db->keys, key, entry);
    db->count++;
    if (db->count > db->bucket_count) {
        grow(db);
        return key;
    }
    bucket = &db->buckets[key->hash % db->bucket_count];
    key->chained = *bucket;
    *bucket = key;
    return key;
}

static void drop_key(struct database *db, struct key *key) {
    struct key **link = &db->buckets[key->hash % db->bucket_count];

    while (*link != key)
        link = &(*link)->chained;
    *link = key->chained;
    TAILQ_REMOVE(&db->keys, key, entry);
    db->count--;
    redis__value_unref(key->value);
    text_free(key->name);
    free(key);
}

static void clear(struct database *db) {
    struct key *key;

    while (db->count && (key = TAILQ_FIRST(&db->keys)))
        drop_key(db, key);
}

/* ---- The journal ---------------------------------------------------------------------------------------------------------- */

struct deed *redis__deed_ref(struct deed *deed) {
    deed->refs++;
    return deed;
}

void redis__deed_unref(struct deed *deed) {
    if (--deed->refs)
        return;
    for (size_t i = 0; i < deed->change_count; i++) {
        text_free(deed->changes[i].key);
        redis__value_unref(deed->changes[i].before);
        redis__value_unref(deed->changes[i].after);
    }
    for (size_t i = 0; i < deed->message_count; i++) {
        text_free(deed->messages[i].channel);
        text_free(deed->messages[i].text);
    }
    free(deed->changes);
    free(deed->messages);
    free(deed);
}

static bool journals(const struct redis *redis) {
    return redis->journal_ns > 0 || redis->peer;
}

static struct deed *open_deed(struct redis *redis) {
    if (!redis->open_deed) {
        redis->open_deed = redis_alloc(sizeof *redis->open_deed);
        redis->open_deed->refs = 1;
    }
    return redis->open_deed;
}

/* Before a key is changed: what it was, once for each deed. `key` NULL: it is not there. */
static void note_before(struct redis *redis, unsigned db, struct text name, const struct key *key) {
    struct deed *deed;

    redis->dirty++;
    if (!journals(redis))
        return;
    deed = open_deed(redis);
    for (size_t i = 0; i < deed->change_count; i++)
        if (deed->changes[i].db == db && text_equal(deed->changes[i].key, name))
            return;
    if (deed->change_count == deed->change_room) {
        deed->change_room = deed->change_room ? deed->change_room * 2 : 2;
        deed->changes = redis_grow(deed->changes, deed->change_room * sizeof *deed->changes);
    }
    deed->changes[deed->change_count++] = (struct change){.db = db,
                                                          .key = redis__text_copy(name),
                                                          .before = key ? redis__value_ref(key->value) : NULL,
                                                          .expires_before = key ? key->expires : -1};
}

void redis__store_message(struct redis *redis, struct text channel, struct text text) {
    struct deed *deed;

    if (!redis->peer)
        return;
    deed = open_deed(redis);
    deed->messages = redis_grow(deed->messages, (deed->message_count + 1) * sizeof *deed->messages);
    deed->messages[deed->message_count++] = (struct message){redis__text_copy(channel), redis__text_copy(text)};
}

static void trim(struct redis *redis) {
    struct deed *deed;

    while ((deed = TAILQ_FIRST(&redis->journal)) && deed->when < redis->now - redis->journal_ns &&
           (!redis->peer || redis->journal_count > BACKLOG)) {
        TAILQ_REMOVE(&redis->journal, deed, entry);
        redis->journal_count--;
        redis__deed_unref(deed);
    }
}

void redis__store_commit(struct redis *redis) {
    struct deed *deed = redis->open_deed;

    if (!deed)
        return;
    redis->open_deed = NULL;
    deed->when = redis->now;
    for (size_t i = 0; i < deed->change_count; i++) {
        struct change *change = &deed->changes[i];
        struct key *key = redis__store_find(redis, change->db, change->key);

        change->after = key ? redis__value_ref(key->value) : NULL;
        change->expires_after = key ? key->expires : -1;
    }
    TAILQ_INSERT_TAIL(&redis->journal, deed, entry);
    redis->journal_count++;
    if (redis->peer)
        redis__peer_wrote(redis, deed);
    trim(redis);
}

/* ---- Changes -------------------------------------------------------------------------------------------------------------- */

static void note_expiry(struct redis *redis, int64_t expires) {
    if (expires >= 0 && expires < redis->next_expiry)
        redis->next_expiry = expires;
}

void redis__store_remove(struct redis *redis, unsigned db, struct key *key) {
    struct text name = redis__text_copy(key->name);

    note_before(redis, db, name, key);
    drop_key(&redis->dbs[db], key);
    redis__tracking_changed(redis, name);
    text_free(name);
}

void redis__store_put(struct redis *redis, unsigned db, struct text name, struct value *value, int64_t expires) {
    struct key *key = redis__store_find(redis, db, name);

    if (!value) {
        if (key)
            redis__store_remove(redis, db, key);
        return;
    }
    note_before(redis, db, name, key);
    if (!key)
        key = make_key(redis, &redis->dbs[db], name);
    redis__value_unref(key->value);
    key->value = value;
    key->expires = expires;
    note_expiry(redis, expires);
    redis__tracking_changed(redis, key->name);
}

struct value *redis__store_open(struct redis *redis, unsigned db, struct key *key) {
    note_before(redis, db, key->name, key);
    if (key->value->refs > 1) {
        struct value *own = redis__value_copy(key->value);

        redis__value_unref(key->value);
        key->value = own;
    }
    return key->value;
}

/* What is empty is not there. */
void redis__store_changed(struct redis *redis, unsigned db, struct key *key) {
    if (key->value->type != VALUE_STRING && key->value->count == 0)
        redis__store_remove(redis, db, key);
    else
        redis__tracking_changed(redis, key->name);
}

void redis__store_set_expiry(struct redis *redis, unsigned db, struct key *key, int64_t expires) {
    note_before(redis, db, key->name, key);
    key->expires = expires;
    note_expiry(redis, expires);
    redis__tracking_changed(redis, key->name);
}

void redis__store_flush(struct redis *redis, int number) {
    for (unsigned db = 0; db < DATABASES; db++) {
        struct key *key;

        if (number >= 0 && db != (unsigned)number)
            continue;
        if (redis->dbs[db].count)
            redis->dirty++;
        if (journals(redis) && redis->dbs[db].count) {
            TAILQ_FOREACH(key, &redis->dbs[db].keys, entry)
            note_before(redis, db, key->name, key);
        }
        clear(&redis->dbs[db]);
    }
    redis__tracking_flushed(redis);
}

/* ---- Restarts ------------------------------------------------------------------------------------------------------------- */

static void undo(struct redis *redis, struct deed *deed) {
    for (size_t i = deed->change_count; i-- > 0;) {
        struct change *change = &deed->changes[i];
        struct database *db = &redis->dbs[change->db];
        struct key *key = redis__store_find(redis, change->db, change->key);

        if (key && !change->before) {
            drop_key(db, key);
        } else if (change->before) {
            key = key ? key : make_key(redis, db, change->key);
            redis__value_unref(key->value);
            key->value = redis__value_ref(change->before);
            key->expires = change->expires_before;
            note_expiry(redis, key->expires);
        }
    }
}

static void empty_journal(struct redis *redis) {
    struct deed *deed;

    while ((deed = TAILQ_FIRST(&redis->journal))) {
        TAILQ_REMOVE(&redis->journal, deed, entry);
        redis__deed_unref(deed);
    }
    redis->journal_count = 0;
}

void redis__store_forget(struct redis *redis, enum redis_memory memory, int64_t since) {
    struct deed *deed;

    redis__store_commit(redis);
    if (memory == REDIS_FORGETS)
        for (unsigned db = 0; db < DATABASES; db++)
            clear(&redis->dbs[db]);
    else if (memory == REDIS_FORGETS_SINCE)
        TAILQ_FOREACH_REVERSE(deed, &redis->journal, deeds, entry) {
            if (deed->when <= since)
                break;
            undo(redis, deed);
        }
    empty_journal(redis);
}

void redis__store_copy(struct redis *redis, struct redis *from) {
    for (unsigned db = 0; db < DATABASES; db++) {
        struct key *key;

        clear(&redis->dbs[db]);
        if (from->dbs[db].count)
            TAILQ_FOREACH(key, &from->dbs[db].keys, entry) {
                struct key *copy = make_key(redis, &redis->dbs[db], key->name);

                copy->value = redis__value_ref(key->value);
                copy->expires = key->expires;
                note_expiry(redis, copy->expires);
            }
    }
    empty_journal(redis);
}

void redis__store_free(struct redis *redis) {
    if (redis->open_deed)
        redis__deed_unref(redis->open_deed);
    empty_journal(redis);
    for (unsigned db = 0; db < DATABASES; db++) {
        clear(&redis->dbs[db]);
        free(redis->dbs[db].buckets);
    }
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

bool redis__store_ended(const struct redis *redis, const struct key *key) {
    return key->expires >= 0 && redis->wall_ms > key->expires;
}

int64_t redis__store_expire(struct redis *redis) {
    redis->next_expiry = INT64_MAX;
    for (unsigned db = 0; db < DATABASES; db++) {
        struct key *key, *next;

        for (key = redis->dbs[db].count ? TAILQ_FIRST(&redis->dbs[db].keys) : NULL; key; key = next) {
            next = TAILQ_NEXT(key, entry);
            if (redis__store_ended(redis, key))
                redis__store_remove(redis, db, key);
            else
                note_expiry(redis, key->expires);
        }
    }
    redis__store_commit(redis);
    return redis->next_expiry;
}

/* ---- For commands --------------------------------------------------------------------------------------------------------- */

struct key *redis__look(struct ctx *ctx, struct text name) {
    struct redis *redis = ctx->redis;
    struct key *key = redis__store_find(redis, ctx->session->db, name);

    if (!key || !redis__store_ended(redis, key))
        return key;
    if (!redis__peer_is_replica(redis))
        redis__store_remove(redis, ctx->session->db, key);
    return NULL;
}

struct key *redis__look_typed(struct ctx *ctx, struct text name, enum value_type type, bool *ok) {
    struct key *key = redis__look(ctx, name);

    *ok = !key || key->value->type == type;
    if (!*ok)
        redis__reply_wrong_type(ctx);
    return key;
}
