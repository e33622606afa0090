/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - what lies beside a lock: writing it in the name of a hold, and reading it.
 *
 *     asked --(answer)--> written, or read --(?replicas=N: a round)--> N replicas have it: done
 *       ^ |                  | |`--> too few of them in time: PAWL_EREPLICAS; what was written stays
 *       | no answer, or the  | `---> the connection was lost meanwhile: asked again
 *       `-server can't now <-'
 *
 * Invariants
 *   - Whether the hold stands is decided by the server, in the script that writes (lua/write.lua): one request. It knows a hold by its
 *     owner, and by its token: one claim may be granted twice, with others between.
 *   - A write that is asked for again has the same number, by which the server knows it: it is carried out once, and never after a later
 *     one of the same writer.
 *   - Where an answer never came, no later refusal says that nothing was written: it is PAWL_EUNKNOWN then.
 *   - With ?replicas=N nobody is told what a failover may take back, but observers, who are told what is there after it, too; they see
 *     a lock also while replicas are missing. PAWL_EREPLICAS is said of what was written, and of that alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/redis/lock/lock.h"
#include "engine/redis/operator/operator.h"
#include "engine/redis/value/value.h"

/* The claim of struct pawl__author, as servers know it. */
struct redis_author {
    char owner[REDIS_OWNER_MAX];
    bool in_hash; /* its record is in the lock's own key */
};
_Static_assert(sizeof(struct redis_author) <= sizeof(struct pawl__author), "an author has room");

/* What lua/write.lua is sent: KEYS, or the first of them, and ARGV. */
enum { WRITE_KEYS = 4 };
enum { WRITE_OWNER, WRITE_TOKEN, WRITE_WRITER, WRITE_NUMBER, WRITE_BYTES, WRITE_ARGS };

struct write_call {
    struct redis_keys keys;
    char part[REDIS_KEY_MAX], writer[REDIS_OWNER_MAX], token[24], number[24];
    const char *argv[WRITE_KEYS + WRITE_ARGS];
    size_t lengths[WRITE_KEYS + WRITE_ARGS];
    struct redis_ask ask;
};

/* A positive number, written in digits alone. */
static bool take_digits(const redisReply *reply, int64_t *ret) {
    if (!reply || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_INTEGER))
        return false;
    if (reply->type == REDIS_REPLY_INTEGER)
        *ret = reply->integer;
    else
        *ret = reply->len > 0 && strspn(reply->str, "0123456789") == reply->len ? strtoll(reply->str, NULL, 10) : 0;
    return *ret > 0;
}

/* A list of so many, and the first of them is a number. */
static bool is_number_first(const redisReply *reply, size_t count) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == count && reply->element[0]->type == REDIS_REPLY_INTEGER;
}

bool pawl__redis_stamp(const redisReply *reply, struct pawl__stamp *ret) {
    bool list = is_number_first(reply, 3) && reply->element[0]->integer == 1;
    int64_t version, written_us;

    if (is_number_first(reply, 1) && reply->element[0]->integer == 2) {
        *ret = (struct pawl__stamp){0};
        return true;
    }
    if (reply->type != REDIS_REPLY_STRING && !list)
        return false;
    if (!take_digits(list ? reply->element[1] : reply, &version))
        return false;
    written_us = version;
    if ((list && !take_digits(reply->element[2], &written_us)) || !redis_time_makes_sense(written_us))
        return false;
    *ret = (struct pawl__stamp){.version = (uint64_t)version, .written_us = written_us};
    return true;
}

/* ---- Both ----------------------------------------------------------------------------------------------------------------- */

/* Of a key that is there already and is something else. */
static int is_no_value(const struct redis *redis, const char *name, enum pawl__part part, int code, struct pawl_error *reterr) {
    char key[REDIS_KEY_MAX];

    pawl__redis_part_key(redis, name, part, key);
    return pawl__fail(reterr, code, "the key '%.200s' holds something that pawl did not write: remove it, or choose another name",
                      key);
}

/* The server asks for replicas of its own (min-replicas-to-write): PAWL_EREPLICAS would say that it was written. */
static int not_now(struct pawl_error *reterr) {
    if (reterr->code == PAWL_EREPLICAS)
        reterr->code = PAWL_ECONNLOST;
    return reterr->code;
}

/* Do replicas have what was answered, by the deadline? SECURE_UNKNOWN: that connection was lost. */
static enum secured await_replicas(const struct redis_answer *answer, const char *name, int64_t deadline) {
    struct home *home = home_of(answer->server);
    struct secure_call call = {.name = name};

    pawl__redis_lock(home->server.redis);
    home->server.users++;
    if (home->server.commands.number == answer->number && pawl__server_up(&home->server)) {
        pawl__secure_call(home, &call);
        if (!pawl__home_wait(home, &call.done, deadline)) {
            pawl__secure_leave(home, &call);
            call.result = SECURE_SHORT;
        }
    }
    home->server.users--;
    pawl__redis_unlock(home->server.redis);
    return call.result;
}

/* Is there something in the answer that a failover could take back? Not where nothing was written: the hold is gone, or was broken. */
static bool has_to_last(const struct redis_ask *ask, const redisReply *reply) {
    struct pawl__stamp stamp;

    return ask->script != SCRIPT_WRITE || pawl__redis_stamp(reply, &stamp);
}

/* Ask, and with `lasting` have replicas confirm what was answered. 0: the answer is the caller's to free. */
static int ask(struct redis *redis, const char *name, const struct redis_ask *ask, bool lasting, int64_t deadline,
               struct redis_answer *ret, struct pawl_error *reterr) {
    enum secured secured;
    int rc;

    do {
        secured = SECURE_DONE;
        rc = pawl__call_until(redis, name, ask, deadline, ret, reterr);
        if (rc < 0)
            return not_now(reterr);
        if (lasting && redis->options.replicas && has_to_last(ask, ret->reply))
            secured = await_replicas(ret, name, deadline);
        if (secured == SECURE_DONE)
            return 0;
        freeReplyObject(ret->reply);
        ret->reply = NULL;
        ret->unsure = true;
    } while (secured == SECURE_UNKNOWN);
    return pawl__fail(reterr, PAWL_EREPLICAS,
                      "fewer replicas than the %u that the URL asks for have what lies beside '%s': look at them",
                      redis->options.replicas, name);
}

/* ---- Writing -------------------------------------------------------------------------------------------------------------- */

static void sign(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl__author *ret) {
    struct redis_author *author = (struct redis_author *)ret->bytes;

    strcpy(author->owner, rclaim_of(claim)->owner);
    author->in_hash = pawl__redis_is_hash(redis_of(engine), claim->kind);
}

/* A name that no other write has, of this client or of another. */
static void put_writer(struct redis *redis, char ret[REDIS_OWNER_MAX]) {
    pawl__redis_lock(redis);
    snprintf(ret, REDIS_OWNER_MAX, "%s/%llu", redis->uuid, (unsigned long long)++claims_of(redis)->writes);
    pawl__redis_unlock(redis);
}

static void fill_write(struct redis *redis, const struct pawl__write *write, struct write_call *call) {
    const struct redis_author *author = write->author ? (const struct redis_author *)write->author->bytes : NULL;
    int keys = author && author->in_hash ? WRITE_KEYS - 1 : WRITE_KEYS;
    const char **args = call->argv + keys;

    pawl__redis_keys(redis, write->name, PAWL_MUTEX, &call->keys);
    pawl__redis_part_key(redis, write->name, write->part, call->part);
    pawl__put_number(call->token, write->token);
    pawl__put_number(call->number, author ? write->number : 1);
    if (!author)
        put_writer(redis, call->writer);
    call->argv[0] = call->keys.lock;
    call->argv[1] = call->part;
    call->argv[2] = call->keys.token;
    call->argv[3] = call->keys.who;
    args[WRITE_OWNER] = author ? author->owner : "";
    args[WRITE_TOKEN] = call->token;
    args[WRITE_WRITER] = author ? "" : call->writer;
    args[WRITE_NUMBER] = call->number;
    for (int i = 0; i < keys + WRITE_BYTES; i++)
        call->lengths[i] = strlen(call->argv[i]);
    args[WRITE_BYTES] = write->bytes;
    call->lengths[keys + WRITE_BYTES] = write->size;
    call->ask = (struct redis_ask){.script = SCRIPT_WRITE,
                                   .keys = keys,
                                   .argc = keys + (write->bytes ? WRITE_ARGS : WRITE_BYTES),
                                   .argv = call->argv,
                                   .lengths = call->lengths};
}

/* What the script has answered instead of writing. */
static int refused(const struct pawl__write *write, int64_t result, struct pawl_error *reterr) {
    if (result == -2)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is a semaphore, or no lock: nothing was written beside it", write->name);
    if ((result == 0 || result == -1) && !write->author)
        return pawl__fail(reterr, PAWL_ETOKEN, "no hold of '%s' that stands has the token %llu: nothing was written", write->name,
                          (unsigned long long)write->token);
    if (result == 0)
        return pawl__fail(reterr, PAWL_ELOST, "the hold of '%s' is not on the server any more: nothing was written", write->name);
    if (result == -1)
        return pawl__fail(reterr, PAWL_ELOST,
                          "the hold of '%s' was broken by an operator: nothing was written; stop and release it", write->name);
    return pawl__fail(reterr, PAWL_EUNKNOWN,
                      "it is not known whether it was written beside '%s': the server's answer is of no known form; check that the "
                      "URL names a Redis server itself",
                      write->name);
}

/* What the script has answered; *ret only where it has written. */
static int take_stamp(const struct pawl__write *write, const redisReply *reply, struct pawl__stamp *ret,
                      struct pawl_error *reterr) {
    struct pawl__stamp stamp;

    if (!pawl__redis_stamp(reply, &stamp))
        return refused(write, is_number_first(reply, 1) ? reply->element[0]->integer : 1, reterr);
    stamp.token = write->token;
    *ret = stamp;
    return 0;
}

static int redis_set(struct pawl__engine *engine, const struct pawl__write *write, int64_t deadline, struct pawl__stamp *ret,
                     struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct redis_answer answer = {0};
    struct pawl_error why = {0};
    struct write_call call;
    int rc = pawl__redis_check_name(redis, write->name, reterr);

    if (rc < 0)
        return rc;
    fill_write(redis, write, &call);
    rc = ask(redis, write->name, &call.ask, true, deadline, &answer, &why);
    if (rc == 0)
        rc = take_stamp(write, answer.reply, ret, &why);
    freeReplyObject(answer.reply);
    if (rc == PAWL_EKIND && !answer.unsure && strstr(why.text, "WRONGTYPE"))
        return is_no_value(redis, write->name, write->part, rc, reterr);
    if (rc < 0 && rc != PAWL_EREPLICAS && rc != PAWL_EUNKNOWN && answer.unsure)
        return pawl__fail(reterr, PAWL_EUNKNOWN,
                          "it is not known whether it was written beside '%s': an answer was lost, and then: %s", write->name,
                          why.text);
    return rc < 0 ? pawl__fail(reterr, rc, "%s", why.text) : 0;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

/* The parts of the answer of lua/read.lua. */
enum { READ_NOW, READ_TOKEN, READ_VERSION, READ_TIME, READ_BYTES };

static int take_value(const struct redis *redis, const char *name, enum pawl__part part, const redisReply *reply,
                      struct pawl__value **ret, struct pawl_error *reterr) {
    const struct pawl__stamp stamp = {.token = (uint64_t)pawl__reply_number(reply, READ_TOKEN, 0),
                                      .version = (uint64_t)pawl__reply_number(reply, READ_VERSION, 0),
                                      .written_us = pawl__reply_number(reply, READ_TIME, 0)};
    const redisReply *bytes = reply->type == REDIS_REPLY_ARRAY && reply->elements > READ_BYTES ? reply->element[READ_BYTES] : NULL;

    *ret = NULL;
    if (!redis_time_makes_sense(pawl__reply_number(reply, READ_NOW, 0)) ||
        (bytes && (bytes->type != REDIS_REPLY_STRING || bytes->len > PAWL_VALUE_MAX || !stamp.token || !stamp.version)))
        return is_no_value(redis, name, part, PAWL_EFORMAT, reterr);
    if (bytes && !(*ret = pawl__value_new(bytes->str, bytes->len, &stamp)))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    return 0;
}

static int redis_get(struct pawl__engine *engine, const char *name, enum pawl__part part, enum pawl__fresh fresh, int64_t deadline,
                     struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct redis_answer answer = {0};
    struct pawl_error why = {0};
    char key[REDIS_KEY_MAX], most[24];
    const char *argv[] = {key, most};
    const struct redis_ask read = {.script = SCRIPT_READ, .keys = 1, .argc = 2, .argv = argv, .hurried = fresh == FRESH_TOLD};
    int rc = pawl__redis_check_name(redis, name, reterr);

    if (rc < 0)
        return rc;
    pawl__redis_part_key(redis, name, part, key);
    pawl__put_number(most, PAWL_VALUE_MAX);
    rc = ask(redis, name, &read, fresh != FRESH_TOLD, deadline, &answer, &why);
    if (rc == PAWL_EKIND)
        return is_no_value(redis, name, part, PAWL_EFORMAT, reterr);
    if (rc < 0)
        return pawl__fail(reterr, rc, "%s", why.text);
    rc = take_value(redis, name, part, answer.reply, ret, reterr);
    if (rc == 0 && retnow)
        *retnow = pawl__reply_number(answer.reply, READ_NOW, 0);
    freeReplyObject(answer.reply);
    return rc;
}

const struct pawl__values pawl__redis_values = {
    .sign = sign,
    .set = redis_set,
    .get = redis_get,
    .observe = pawl__redis_observe,
    .unobserve = pawl__redis_unobserve,
    .look = pawl__redis_look_by,
};
