/* SPDX-License-Identifier: Apache-2.0
 *
 * break.c - breaking a hold.
 */
#include <string.h>

#include "base/error.h"
#include "engine/redis/view/view.h"

/* How long a holder that is asked to give up may be deaf: it may be connecting anew, or in a cluster not have subscribed yet. */
#define DEAF_NS (3000 * REDIS_MS)
#define DEAF_STEP_NS (20 * REDIS_MS)

struct search {
    uint64_t token;
    struct holder found;
    bool any;
};

static int match_token(const struct lock_view *view, const struct holder *holder, void *data) {
    struct search *search = data;
    uint64_t first = holder->token, count = holder->facts.known ? holder->facts.count : 1;

    (void)view;
    if (search->token < first || search->token - first >= count)
        return 0;
    search->found = *holder;
    search->any = true;
    return 1;
}

/* The script, and what it is sent. */
struct breaking {
    struct server *server;
    int script;
    const char **argv;
    size_t lengths[VIEW_ARGS];
};

/* How many were told; -1: it does not hold; else reterr says why. */
static int call_break(const struct breaking *breaking, int *rettold, struct pawl_error *reterr) {
    redisReply *reply = breaking->server->redis->call(breaking->server, breaking->script, VIEW_KEYS, VIEW_ARGS, breaking->argv,
                                                      breaking->lengths, reterr);

    if (!reply)
        return reterr->code;
    *rettold = reply->type == REDIS_REPLY_INTEGER ? (int)reply->integer : -1;
    freeReplyObject(reply);
    return 0;
}

/* A holder that is asked to give up is told until it hears. It may be dead: then its lease ends it. */
static int run_break(const struct breaking *breaking, const char *name, bool now, struct pawl_error *reterr) {
    int64_t deadline = pawl__boottime() + DEAF_NS;
    int told, rc = call_break(breaking, &told, reterr);

    if (rc == 0 && told < 0)
        return pawl__fail(reterr, PAWL_ETOKEN, "the hold of '%s' was released meanwhile", name);
    while (rc == 0 && told == 0 && !now && pawl__boottime() < deadline) {
        pawl__pause(DEAF_STEP_NS);
        rc = call_break(breaking, &told, reterr);
    }
    return rc;
}

int pawl__view_break(const struct lock_view *view, struct server *server, int script, const char *argv[VIEW_ARGS], uint64_t token,
                     bool now, struct pawl_error *reterr) {
    struct search search = {.token = token};
    struct breaking breaking = {.server = server, .script = script, .argv = argv};

    pawl__view_holders(view, match_token, &search);
    if (!search.any)
        return pawl__fail(reterr, PAWL_ETOKEN, "no hold of '%s' has token %llu: pawl status shows them", view->name,
                          (unsigned long long)token);
    if (!search.found.facts.known && !now)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "the holder of '%s' is not pawl and can't be asked: only --now frees it",
                          view->name);
    argv[VIEW_OWNER] = search.found.owner;
    argv[VIEW_LAST] = now ? "1" : "0";
    for (int i = 0; i < VIEW_ARGS; i++) /* Redisson's permits are bytes of any kind */
        breaking.lengths[i] = i == VIEW_OWNER ? search.found.length : strlen(argv[i]);
    return run_break(&breaking, view->name, now, reterr);
}
