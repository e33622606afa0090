/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.c - what the lock recipes of ZooKeeper have in common. See recipe.h.
 *
 *     create (a lost answer: look for the name, which is nobody else's) --> list --nobody ahead--> held
 *                                                                           ^  \--> get, with a watch, of one ahead --fired--\
 *                                                                           \-------------------------------------------------/
 *
 * The libraries themselves believe that they hold for as long as they are connected. An actor is more careful, so that its own overruns
 * are never taken for pawl's: it believes what the leader has answered, for 5/12 of the session time, and asks again (a multi with a check,
 * which changes nothing and fires no watch).
 */
#include "recipe.h"

#include <stdio.h>
#include <string.h>

static struct recipe *of(struct actor *actor) {
    return (struct recipe *)actor;
}

static int pawl_code(int code) {
    switch (code) {
    case ZOK:
        return 0;
    case ZNONODE:
        return PAWL_ELOST;
    default:
        return PAWL_ECONNLOST;
    }
}

static void path_of(const struct recipe *recipe, const char *name, char ret[ACTOR_NAME]) {
    snprintf(ret, ACTOR_NAME, "%.120s/%.120s", recipe->dir, name);
}

void recipe_init(struct recipe *recipe, const struct actor_place *place, const struct actor_ops *ops,
                 const struct recipe_kind *kind) {
    memset(recipe, 0, sizeof *recipe);
    actor_init(&recipe->actor, place, ops);
    recipe->session.actor = &recipe->actor;
    recipe->kind = kind;
    snprintf(recipe->dir, sizeof recipe->dir, "%s", place->name);
}

int recipe_open(struct actor *actor) {
    int code = actor_session_open(&of(actor)->session);

    actor->lease_ns = actor_session_ns(&of(actor)->session) / 12 * 5;
    return code;
}

void recipe_close(struct actor *actor) {
    of(actor)->node[0] = '\0';
    actor_session_close(&of(actor)->session);
}

/* ---- Steps ---------------------------------------------------------------------------------------------------------------- */

int recipe_list(struct recipe *recipe, bool watch) {
    return pawl_code(actor_session_insist(&recipe->session,
                                          &(struct session_request){.verb = SESSION_LIST, .path = recipe->dir, .watch = watch}));
}

/* Was the node made whose answer was lost? */
static bool find_ours(struct recipe *recipe) {
    if (recipe_list(recipe, false) != 0)
        return false;
    for (int i = 0; i < recipe->session.child_count; i++)
        if (strncmp(recipe->session.children[i], recipe->prefix, strlen(recipe->prefix)) == 0) {
            snprintf(recipe->node, sizeof recipe->node, "%s", recipe->session.children[i]);
            return true;
        }
    return false;
}

int recipe_make(struct recipe *recipe, const char *data) {
    int64_t until = actor_now() + 4 * actor_session_ns(&recipe->session);
    char path[ACTOR_NAME];

    recipe->kind->name(recipe);
    path_of(recipe, recipe->prefix, path);
    while (actor_now() < until) {
        int code = actor_session_ask(
            &recipe->session,
            &(struct session_request){.verb = SESSION_CREATE, .path = path, .data = data, .flags = ZOO_EPHEMERAL | ZOO_SEQUENCE});

        if (code == ZOK) {
            snprintf(recipe->node, sizeof recipe->node, "%s", strrchr(recipe->session.created, '/') + 1);
            return 0;
        }
        if (code == ZNONODE)
            code = actor_session_make_path(&recipe->session, recipe->dir, recipe->kind->container ? ZOO_CONTAINER : 0);
        else if (actor_session_is_loss(code) && actor_session_mended(&recipe->session, until) && find_ours(recipe))
            return 0;
        if (code != ZOK && !actor_session_is_loss(code))
            return PAWL_ECONNLOST;
    }
    return PAWL_ECONNLOST;
}

int recipe_remove(struct recipe *recipe) {
    char path[ACTOR_NAME];

    if (recipe->node[0] == '\0')
        return PAWL_ELOST;
    path_of(recipe, recipe->node, path);
    recipe->node[0] = '\0';
    return pawl_code(actor_session_insist(&recipe->session, &(struct session_request){.verb = SESSION_DELETE, .path = path}));
}

/* Sleep until the one ahead is gone, or something else has happened. */
static int wait_for(struct recipe *recipe, int index) {
    char path[ACTOR_NAME];

    path_of(recipe, recipe->session.children[index], path);
    int code = actor_session_insist(&recipe->session, &(struct session_request){.verb = SESSION_GET, .path = path, .watch = true});

    if (code == ZNONODE)
        return 0;
    if (code == ZOK)
        return actor_session_sleep(&recipe->session) ? 0 : PAWL_ECONNLOST;
    return PAWL_ECONNLOST;
}

int recipe_prove(struct recipe *recipe) {
    char path[ACTOR_NAME];

    path_of(recipe, recipe->node, path);
    if (actor_now() - recipe->session.proven_at > recipe->actor.lease_ns / 3) {
        int code = actor_session_insist(&recipe->session, &(struct session_request){.verb = SESSION_CHECK, .path = path});

        if (code != ZOK)
            return pawl_code(code);
    }
    recipe->actor.sent_at = recipe->session.proven_at;
    return 0;
}

/* ---- A mutex, or what is like one ----------------------------------------------------------------------------------------- */

/* There is a node of ours. PAWL_ELOST: there is not any more. */
static int stand_in_line(struct recipe *recipe) {
    for (;;) {
        int code = recipe_list(recipe, false), ahead = code == 0 ? recipe->kind->ahead(recipe) : RECIPE_MISSING;

        if (code != 0)
            return code;
        if (ahead == RECIPE_OURS)
            return recipe_prove(recipe);
        if (ahead == RECIPE_MISSING)
            return PAWL_ELOST;
        if (actor_over(&recipe->actor) || ahead == RECIPE_UNREADABLE) {
            recipe_remove(recipe);
            return ahead == RECIPE_UNREADABLE ? PAWL_EFORMAT : PAWL_ECANCELED;
        }
        code = wait_for(recipe, ahead);
        if (code != 0)
            return code;
    }
}

int recipe_take(struct actor *actor) {
    struct recipe *recipe = of(actor);
    int code = PAWL_ELOST;

    for (int tries = 0; code == PAWL_ELOST && tries < 10; tries++) {
        code = recipe_make(recipe, "127.0.0.1");
        if (code == 0)
            code = stand_in_line(recipe);
    }
    return code;
}

/* A hold outlives its connection: it is asked for until it is not assured any more. */
int recipe_renew(struct actor *actor) {
    struct recipe *recipe = of(actor);
    int64_t until = actor->sent_at + actor->lease_ns;
    char path[ACTOR_NAME];
    int code = ZCONNECTIONLOSS;

    path_of(recipe, recipe->node, path);
    while (actor_session_is_loss(code) && actor_session_mended(&recipe->session, until))
        code = actor_session_ask(&recipe->session, &(struct session_request){.verb = SESSION_CHECK, .path = path});
    if (code != ZOK)
        return PAWL_ELOST;
    actor->sent_at = recipe->session.proven_at;
    return 0;
}

int recipe_drop(struct actor *actor) {
    return recipe_remove(of(actor));
}

void recipe_nap(struct actor *actor, int64_t until) {
    actor_session_nap(&of(actor)->session, until);
}
