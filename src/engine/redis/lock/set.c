/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c - several claims in one script: all are granted, or none.
 *
 * The claims are ordinary ones that are asked for by one request. Its answer decides all of them; from then on, and if no answer comes,
 * each is on its own: a claim whose answer was lost asks again by itself, finds what the script has done for it, and the core gives
 * back what it got if others got nothing. After an error that will pass the claims are refused as unsupported
 * (pawl__rclaim_not_now), and the core acquires them one by one.
 *
 * In a cluster they go together if their names have one slot. While that moves, its keys are at two nodes, and scripts over several of them
 * at neither.
 *
 * A claim that was withdrawn before the answer came has another ask_number by then, and is passed over. One server answers in order,
 * so it can't be gone; in a cluster, where its release may be answered by another node, it is cut out (pawl__rclaim_detach).
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"
#include "base/error.h"

enum { ARGS_EACH = REDIS_ACQUIRE_ARGS - REDIS_CALL_KEYS + 1 };

/* KEYS: those of each; ARGV: those of each, and its kind. */
static bool send_calls(const struct group *group, struct redis_call *calls, const struct request *request) {
    static const char *const kinds[] = {[PAWL_MUTEX] = "0", [PAWL_RWLOCK] = "1", [PAWL_SEMAPHORE] = "2"};
    struct home *home = group->members[0].claim->home;
    size_t keys = group->count * REDIS_CALL_KEYS, used = keys;
    const char **argv = calloc(keys + group->count * ARGS_EACH, sizeof *argv);
    bool ok;

    if (!argv)
        return false;
    for (size_t i = 0; i < group->count; i++) {
        const struct rclaim *claim = group->members[i].claim;

        memcpy(argv + i * REDIS_CALL_KEYS, calls[i].argv, REDIS_CALL_KEYS * sizeof *argv);
        memcpy(argv + used, calls[i].argv + REDIS_CALL_KEYS, (ARGS_EACH - 1) * sizeof *argv);
        used += ARGS_EACH;
        argv[used - 1] = kinds[claim->kit.claim->kind];
    }
    ok = pawl__script_send(&home->server, SCRIPT_ACQUIRE_ALL, (int)keys, (int)used, argv, NULL, request);
    free(argv);
    return ok;
}

/* Ask for all of them; `group` belongs to the request from here on. Where there is no memory for that, each asks by itself. */
static void send_all(struct redis *redis, struct group *group) {
    struct redis_call *calls = calloc(group->count, sizeof *calls);
    struct request request = {.what = ASKED_SET, .data = group};

    for (size_t i = 0; i < group->count && calls; i++) {
        struct rclaim *claim = group->members[i].claim;

        pawl__rclaim_fill_acquire(redis, claim, &calls[i]);
        claim->asked = true;
        group->members[i].ask_number = ++claim->ask_number;
    }
    if (!calls || !send_calls(group, calls, &request)) {
        for (size_t i = 0; i < group->count; i++) {
            group->members[i].claim->asked = false;
            pawl__rclaim_drive(redis, group->members[i].claim);
        }
        free(group);
    }
    free(calls);
}

/* ---- The answer ----------------------------------------------------------------------------------------------------------- */

/* Was nothing else asked about it since? In a cluster it may be gone: pawl__rclaim_detach. */
static bool still_asks(const struct group_member *member) {
    return member->claim && member->claim->ask_number == member->ask_number && member->claim->state == RCLAIM_ASKING;
}

/* Keep those about which nothing else was asked since. */
static void sift(struct group *group) {
    size_t kept = 0;

    for (size_t i = 0; i < group->count; i++) {
        const struct group_member *member = &group->members[i];

        if (still_asks(member))
            group->members[kept++] = *member;
    }
    group->count = kept;
}

static void all_refused(struct redis *redis, struct group *group, const struct pawl_error *why) {
    sift(group);
    for (size_t i = 0; i < group->count; i++)
        pawl__rclaim_refuse(redis, group->members[i].claim, why);
}

/* Those that follow their slot to another server ask there, each by itself. */
static void all_not_now(struct redis *redis, struct group *group, const struct pawl_error *why) {
    sift(group);
    for (size_t i = 0; i < group->count; i++)
        if (!pawl__rclaim_slot_moved(redis, group->members[i].claim))
            pawl__rclaim_not_now(redis, group->members[i].claim, why);
}

static void all_granted(struct redis *redis, struct group *group, const struct request *request, const redisReply *reply) {
    for (size_t i = 0; i < group->count; i++) {
        const struct group_member *member = &group->members[i];

        if (still_asks(member))
            pawl__rclaim_entered(redis, member->claim, request, reply->element[i + 1]);
    }
}

/* Is it a list with the word that all are held, and a list for each? */
static bool grants(const redisReply *reply, size_t count) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count + 1 || pawl__reply_number(reply, 0, 0) != 1)
        return false;
    for (size_t i = 1; i <= count; i++)
        if (!pawl__reply_grants(reply->element[i]))
            return false;
    return true;
}

/* Each is to ask by itself: `now`, or when the connection is there again. */
static void part_ways(struct redis *redis, struct group *group, bool now) {
    sift(group);
    for (size_t i = 0; i < group->count; i++) {
        group->members[i].claim->asked = false;
        if (now)
            pawl__rclaim_drive(redis, group->members[i].claim);
    }
}

static void decided(struct redis *redis, struct group *group, const struct request *request, const redisReply *reply) {
    size_t which = (size_t)pawl__reply_number(reply, 1, 1) - 1;
    const struct rclaim *refused = group->members[which < group->count ? which : 0].claim;
    struct pawl_error why;

    if (grants(reply, group->count)) {
        all_granted(redis, group, request, reply);
        return;
    }
    if (pawl__reply_number(reply, 2, 0) == 1) { /* they may only be kept: each waits a little for its own */
        part_ways(redis, group, true);
    } else if (refused) {
        pawl__answer_why_refused(refused->kit.claim, pawl__reply_number(reply, 0, -3), &why);
        all_refused(redis, group, &why);
    } else {
        part_ways(redis, group, true);
    }
}

void pawl__redis_set_answer(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct group *group = request->data;
    struct pawl_error why;
    enum reply_class class = reply ? pawl__reply_class(reply, &why) : REPLY_READONLY;

    switch (class) {
    case REPLY_OK:
        decided(redis, group, request, reply);
        break;
    case REPLY_NOSCRIPT:
        sift(group);
        if (group->count) {
            send_all(redis, group);
            group = NULL;
        }
        break;
    case REPLY_MOVED:
        pawl__cluster_moved(request->server, reply, &why);
        all_not_now(redis, group, &why);
        break;
    case REPLY_ASK:
        pawl__cluster_asked(request->server, reply);
        all_not_now(redis, group, &why);
        break;
    case REPLY_AGAIN:
        all_not_now(redis, group, &why);
        break;
    case REPLY_REFUSED: /* of several slots, say; or it ended halfway: who asks by itself finds what it has, or undoes it */
        part_ways(redis, group, true);
        break;
    case REPLY_READONLY:
        part_ways(redis, group, false);
        break;
    }
    free(group);
    if (reply && class == REPLY_READONLY)
        pawl__link_drop(&request->server->commands, why.code, "%s", why.text);
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

/* Are they where one script can have all of them? */
static bool in_one_place(const struct redis *redis, struct pawl__claim *const seams[], size_t count) {
    for (size_t i = 1; i < count; i++)
        if (pawl__route_slot(redis, seams[i]->name) != pawl__route_slot(redis, seams[0]->name))
            return false;
    return true;
}

int pawl__redis_set_ask(struct redis *redis, struct pawl__claim *const seams[], size_t count, struct pawl_error *reterr) {
    struct home *home = home_of(pawl__route_server(redis, seams[0]->name));
    struct group *group;

    if (!in_one_place(redis, seams, count))
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "the %zu locks are in different slots", count);
    if (!pawl__server_up(&home->server))
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "%s", pawl__server_errortext(&home->server));
    group = malloc(sizeof *group + count * sizeof group->members[0]);
    if (!group)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    group->count = count;
    for (size_t i = 0; i < count; i++) {
        group->members[i].claim = rclaim_of(seams[i]);
        group->members[i].claim->in_set = true;
        pawl__rclaim_begin(redis, seams[i], home);
    }
    send_all(redis, group);
    return PAWL__PENDING;
}
