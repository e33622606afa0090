/* SPDX-License-Identifier: Apache-2.0
 *
 * script.c - how scripts are run. lua/build.py puts them together from lua/ when pawl is built.
 *
 * A script is sent with its body (EVAL) the first time on a connection, and by its SHA-1 (EVALSHA) once the server has answered that. When
 * the server has forgotten it (NOSCRIPT: SCRIPT FLUSH, a restart) the request is made again, with the body.
 *
 * Where keys have slots, what changes a lock is sent with a key that is nowhere, so that it is not run in a slot that moves.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redis/wire/wire.h"
#include "base/error.h"

/* The body, to be freed; NULL: out of memory. */
static char *make_body(const struct pawl__script *script) {
    char *body = malloc(script->length + 1), *end = body;

    for (int i = 0; body && script->parts[i]; i++)
        end = stpcpy(end, script->parts[i]);
    return body;
}

static bool keeps_to_a_slot(const struct redis *redis) {
    return redis->traits.sharded;
}

size_t pawl__script_locks(const struct redis *redis, size_t count) {
    return keeps_to_a_slot(redis) ? 1 : count;
}

/* While a slot moves, a script runs where all the keys are that it was sent with; a key that it touches besides, and that is at the other
 * node, not written yet, or gone by the script's own doing, ends it halfway. So in a cluster what changes a lock is sent with one key
 * more, which is nowhere: then neither node runs it until the slot has moved. Renewals are run: they only set times, of keys that are
 * there. */
static bool wants_whole_slot(const struct redis *redis, int number) {
    return keeps_to_a_slot(redis) && number != SCRIPT_SURVEY && number != SCRIPT_READ &&
           (number < SCRIPT_RENEW || number >= SCRIPT_BREAK);
}

/* A key in the slot of the lock's that nobody ever writes. */
static void put_absent_key(const char *lock, char ret[REDIS_KEY_MAX]) {
    bool bare = strchr(lock, '{');

    strcpy(stpcpy(stpcpy(stpcpy(ret, "pawl:absent:"), bare ? "" : "{"), lock), bare ? "" : "}");
}

bool pawl__script_send(struct server *server, int number, int keys, int argc, const char **argv, const size_t *lengths,
                       const struct request *request) {
    enum { FEW = 32 };
    bool with_body = !server->script_loaded[number];
    const struct pawl__script *script = &server->redis->scripts[number];
    char *body = with_body ? make_body(script) : NULL;
    const char *few[FEW], **all = few;
    size_t few_lengths[FEW], *all_lengths = few_lengths;
    struct request copy = *request;
    int guard = wants_whole_slot(server->redis, number), total = 3 + guard + argc;
    char count[16], absent[REDIS_KEY_MAX];
    bool ok = false;

    if (total > FEW) {
        all = calloc((size_t)total, sizeof *all);
        all_lengths = calloc((size_t)total, sizeof *all_lengths);
    }
    if (all && all_lengths && (body || !with_body)) {
        copy.script = number;
        copy.with_body = with_body;
        all[0] = with_body ? "EVAL" : "EVALSHA";
        all_lengths[0] = strlen(all[0]);
        all[1] = with_body ? body : script->sha1;
        all_lengths[1] = with_body ? script->length : strlen(script->sha1);
        all_lengths[2] = (size_t)(pawl__put_number(count, (uint64_t)(keys + guard)) - count);
        all[2] = count;
        for (int i = 0; i < argc; i++) {
            int at = 3 + i + (i >= keys ? guard : 0);

            all[at] = argv[i];
            all_lengths[at] = lengths ? lengths[i] : strlen(argv[i]);
        }
        if (guard) {
            put_absent_key(argv[0], absent);
            all[3 + keys] = absent;
            all_lengths[3 + keys] = strlen(absent);
        }
        ok = pawl__link_send(&server->commands, total, all, all_lengths, &copy);
    }
    free(body);
    if (all != few) {
        free(all);
        free(all_lengths);
    }
    return ok;
}

void pawl__script_answered(struct server *server, const struct request *request, const redisReply *reply) {
    struct pawl_error ignored;

    if (request->script < 0 || !reply)
        return;
    if (request->with_body && reply->type != REDIS_REPLY_ERROR)
        server->script_loaded[request->script] = true;
    else if (pawl__reply_class(reply, &ignored) == REPLY_NOSCRIPT)
        server->script_loaded[request->script] = false;
}
