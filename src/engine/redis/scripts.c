/* SPDX-License-Identifier: Apache-2.0
 *
 * scripts.c - the scripts, put together from lua/, and how they are run.
 *
 * A script is sent with its body (EVAL) the first time on a connection, and by its SHA-1 (EVALSHA) once the server has answered that. When
 * the server has forgotten it (NOSCRIPT: SCRIPT FLUSH, a restart) the request is made again, with the body.
 *
 * The texts are the same for all clients of a process, and made once. Those for a cluster publish to shards, and what changes a lock
 * there is sent with a key that is nowhere, so that it is not run in a slot that moves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/redis.h"
#include "error.h"

extern const char pawl__lua_acquire[], pawl__lua_acquire_all[], pawl__lua_break[], pawl__lua_common[], pawl__lua_downgrade[],
    pawl__lua_extend[], pawl__lua_fast_acquire[], pawl__lua_fast_extend[], pawl__lua_fast_queue[], pawl__lua_fast_release[],
    pawl__lua_held[], pawl__lua_holders[], pawl__lua_mutex[], pawl__lua_mutex_holder[], pawl__lua_mutex_key[],
    pawl__lua_mutex_look[], pawl__lua_plain_holder[], pawl__lua_plain_key[], pawl__lua_plain_look[], pawl__lua_probe[],
    pawl__lua_queue[], pawl__lua_release[], pawl__lua_renew[], pawl__lua_renew_mutex[], pawl__lua_renew_plain[],
    pawl__lua_renew_rw[], pawl__lua_renew_semaphore[], pawl__lua_rw[], pawl__lua_semaphore[], pawl__lua_survey[],
    pawl__lua_voter_acquire[], pawl__lua_voter_held[], pawl__lua_voter_look[], pawl__lua_voter_raise[], pawl__lua_voter_release[];

enum { LAYOUTS = 3 };

/* In a cluster a message goes to a channel of its own slot. */
static const char *const sharded[][2] = {{"'PUBLISH'", "'SPUBLISH'"}, {"'NUMSUB'", "'SHARDNUMSUB'"}};

struct script {
    char *body;
    size_t length;
    char sha[SHA_HEX + 1];
};

static struct script scripts[LAYOUTS][SCRIPT_COUNT], cluster_scripts[LAYOUTS][SCRIPT_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT, cluster_once = PTHREAD_ONCE_INIT;
static bool made, cluster_made;

static void digest_body(struct script *script) {
    script->length = strlen(script->body);
    pawl__sha1_hex(script->body, script->length, script->sha);
}

/* Put the parts together; NULL ends them. */
static bool make(struct script *script, const char *const *parts) {
    size_t length = 0;
    char *end;

    for (int i = 0; parts[i]; i++)
        length += strlen(parts[i]);
    script->body = malloc(length + 1);
    if (!script->body)
        return false;
    end = script->body;
    for (int i = 0; parts[i]; i++)
        end = stpcpy(end, parts[i]);
    digest_body(script);
    return true;
}

/* The same script for a cluster. */
static bool make_sharded(const struct script *from, struct script *to) {
    FILE *body = open_memstream(&to->body, &to->length);
    const char *text = from->body;

    if (!body)
        return false;
    while (*text) {
        size_t i, count = sizeof sharded / sizeof sharded[0];

        for (i = 0; i < count && strncmp(text, sharded[i][0], strlen(sharded[i][0])) != 0; i++)
            continue;
        if (i == count) {
            fputc(*text++, body);
        } else {
            fputs(sharded[i][1], body);
            text += strlen(sharded[i][0]);
        }
    }
    if (fclose(body) != 0)
        return false;
    digest_body(to);
    return true;
}

#define MAKE(script, ...) make(&all[script], (const char *const[]){__VA_ARGS__, NULL})

/* All kinds in one: each is acquire, with the keys and arguments of one claim, as a function. */
static bool make_acquire_all(struct script *all, const char *key, const char *look) {
    const char *common = pawl__lua_common, *queue = pawl__lua_queue, *probe = pawl__lua_probe, *acquire = pawl__lua_acquire;

    return MAKE(SCRIPT_ACQUIRE_ALL, "local kinds = {}\nkinds['0'] = function(KEYS, ARGV, PROBE)\n", key, common, look,
                pawl__lua_mutex, queue, probe, acquire, "end\nkinds['1'] = function(KEYS, ARGV, PROBE)\n", common,
                pawl__lua_holders, pawl__lua_rw, queue, probe, acquire, "end\nkinds['2'] = function(KEYS, ARGV, PROBE)\n", common,
                pawl__lua_holders, pawl__lua_semaphore, queue, probe, acquire, "end\n", pawl__lua_acquire_all);
}

static bool make_layout(enum redis_layout layout) {
    static const char no_fast_path[] = "local DROPPED, TURN_DUE = false, false\n";
    struct script *all = scripts[layout];
    bool plain = layout == LAYOUT_PLAIN, ok = true;
    const char *key = plain ? pawl__lua_plain_key : pawl__lua_mutex_key,
               *look = plain ? pawl__lua_plain_look : pawl__lua_mutex_look;
    const char *common = pawl__lua_common, *queue = pawl__lua_queue;
    const char *renews[] = {plain ? pawl__lua_renew_plain : pawl__lua_renew_mutex, pawl__lua_renew_rw, pawl__lua_renew_semaphore};
    const char *kinds[] = {NULL, pawl__lua_rw, pawl__lua_semaphore};

    ok = ok && MAKE(SCRIPT_ACQUIRE, key, pawl__lua_fast_acquire, plain ? pawl__lua_plain_holder : pawl__lua_mutex_holder,
                    pawl__lua_fast_queue, common, look, pawl__lua_mutex, queue, pawl__lua_acquire);
    ok = ok && MAKE(SCRIPT_RELEASE, key, pawl__lua_fast_release, common, look, pawl__lua_mutex, queue, pawl__lua_release);
    ok = ok && MAKE(SCRIPT_BREAK, key, common, look, pawl__lua_mutex, queue, pawl__lua_break);
    for (int kind = PAWL_RWLOCK; kind <= PAWL_SEMAPHORE; kind++) {
        ok = ok && MAKE(SCRIPT_ACQUIRE + kind, common, pawl__lua_holders, kinds[kind], queue, pawl__lua_acquire);
        ok = ok && MAKE(SCRIPT_RELEASE + kind, no_fast_path, common, pawl__lua_holders, kinds[kind], queue, pawl__lua_release);
        ok = ok && MAKE(SCRIPT_BREAK + kind, common, pawl__lua_holders, kinds[kind], queue, pawl__lua_break);
    }
    for (int kind = PAWL_MUTEX; kind <= PAWL_SEMAPHORE; kind++)
        ok = ok && MAKE(SCRIPT_RENEW + kind, renews[kind], pawl__lua_renew);
    ok = ok && MAKE(SCRIPT_EXTEND, plain ? "" : pawl__lua_fast_extend, common, look, pawl__lua_mutex, pawl__lua_extend);
    ok = ok && MAKE(SCRIPT_EXTEND + PAWL_RWLOCK, common, pawl__lua_holders, pawl__lua_rw, pawl__lua_extend);
    ok = ok && MAKE(SCRIPT_DOWNGRADE, common, pawl__lua_holders, pawl__lua_rw, queue, pawl__lua_downgrade);
    ok = ok && make_acquire_all(all, key, look);
    ok = ok && MAKE(SCRIPT_HELD, pawl__lua_held);
    return ok && MAKE(SCRIPT_SURVEY, common, pawl__lua_plain_look, pawl__lua_survey);
}

/* Mutexes alone, and short ways through all of it. */
static bool make_voter(void) {
    struct script *all = scripts[LAYOUT_VOTER];

    return MAKE(SCRIPT_ACQUIRE, pawl__lua_voter_acquire) && MAKE(SCRIPT_RELEASE, pawl__lua_voter_release) &&
           MAKE(SCRIPT_RENEW, pawl__lua_renew_plain, pawl__lua_renew) && MAKE(SCRIPT_RAISE, pawl__lua_voter_raise) &&
           MAKE(SCRIPT_HELD, pawl__lua_voter_held) && MAKE(SCRIPT_BREAK, pawl__lua_common, pawl__lua_voter_look, pawl__lua_break) &&
           MAKE(SCRIPT_SURVEY, pawl__lua_common, pawl__lua_voter_look, pawl__lua_survey);
}

static void make_all(void) {
    made = make_layout(LAYOUT_REDISSON) && make_layout(LAYOUT_PLAIN) && make_voter();
}

static void make_cluster(void) {
    cluster_made = made;
    for (int layout = LAYOUT_REDISSON; layout <= LAYOUT_PLAIN; layout++) /* the ones that a cluster can have */
        for (int i = 0; i < SCRIPT_COUNT && cluster_made; i++)
            cluster_made = !scripts[layout][i].body || make_sharded(&scripts[layout][i], &cluster_scripts[layout][i]);
}

int pawl__scripts_setup(struct redis *redis, struct pawl_error *reterr) {
    bool cluster = in_cluster(redis);

    pthread_once(&once, make_all);
    if (cluster)
        pthread_once(&cluster_once, make_cluster);
    if (!made || (cluster && !cluster_made))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    return 0;
}

/* While a slot moves, a script runs where all the keys are that it was sent with; a key that it touches besides, and that is at the other
 * node, not written yet, or gone by the script's own doing, ends it halfway. So in a cluster what changes a lock is sent with one key
 * more, which is nowhere: then neither node runs it until the slot has moved. Renewals are run: they only set times, of keys that are
 * there. */
static bool wants_whole_slot(const struct node *node, int number) {
    return in_cluster(node->redis) && number != SCRIPT_SURVEY && number != SCRIPT_HELD &&
           (number < SCRIPT_RENEW || number >= SCRIPT_BREAK);
}

bool pawl__script_send(struct node *node, int number, int keys, int argc, const char **argv, const size_t *lengths,
                       const struct request *request) {
    enum { FEW = 32 };
    bool cluster = in_cluster(node->redis);
    const struct script *script = &(cluster ? cluster_scripts : scripts)[node->redis->options.layout][number];
    const char *few[FEW], **all = few;
    size_t few_lengths[FEW], *all_lengths = few_lengths;
    struct request copy = *request;
    int guard = wants_whole_slot(node, number), total = 3 + guard + argc;
    char count[16], absent[REDIS_KEY_MAX];
    bool ok = false;

    if (total > FEW) {
        all = calloc((size_t)total, sizeof *all);
        all_lengths = calloc((size_t)total, sizeof *all_lengths);
    }
    if (all && all_lengths) {
        copy.script = number;
        copy.with_body = !node->script_loaded[number];
        all[0] = copy.with_body ? "EVAL" : "EVALSHA";
        all_lengths[0] = strlen(all[0]);
        all[1] = copy.with_body ? script->body : script->sha;
        all_lengths[1] = copy.with_body ? script->length : SHA_HEX;
        all_lengths[2] = (size_t)(pawl__put_number(count, (uint64_t)(keys + guard)) - count);
        all[2] = count;
        for (int i = 0; i < argc; i++) {
            int at = 3 + i + (i >= keys ? guard : 0);

            all[at] = argv[i];
            all_lengths[at] = lengths ? lengths[i] : strlen(argv[i]);
        }
        if (guard) {
            pawl__redis_absent_key(argv[0], absent);
            all[3 + keys] = absent;
            all_lengths[3 + keys] = strlen(absent);
        }
        ok = pawl__link_send(&node->commands, total, all, all_lengths, &copy);
    }
    if (all != few) {
        free(all);
        free(all_lengths);
    }
    return ok;
}

void pawl__script_answered(struct node *node, const struct request *request, const redisReply *reply) {
    struct pawl_error ignored;

    if (request->script < 0 || !reply)
        return;
    if (request->with_body && reply->type != REDIS_REPLY_ERROR)
        node->script_loaded[request->script] = true;
    else if (pawl__reply_class(reply, &ignored) == REPLY_NOSCRIPT)
        node->script_loaded[request->script] = false;
}
