/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_others.c - Kazoo's Lock and go-zookeeper's Lock, as they are on the wire; and one that leaves other things in a lock's
 * directory.
 *
 * Kazoo: `<32 hex digits>__lock__<number>`, the digits fixed for each lock object; children of other names do not count. go-zookeeper:
 * `_c_<32 hex digits>-lock-<number>`, ordered by the number after the last `lock-`, else after the last `__`; a child without one is an
 * error. Both have persistent directories, and watch the one right before them.
 */
#include "recipe.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct actor_ops recipe_ops = {recipe_open, recipe_close, recipe_take, recipe_renew, recipe_drop, recipe_nap};

/* The nearest of those with a lower number. */
static int nearest_below(const struct recipe *recipe, bool (*number_of)(const char *name, int64_t *ret), bool must) {
    int64_t own = -1, best = -1, number;
    int found = RECIPE_OURS;

    for (int i = 0; i < recipe->session.child_count; i++)
        if (strcmp(recipe->session.children[i], recipe->node) == 0)
            number_of(recipe->node, &own);
    if (own < 0)
        return RECIPE_MISSING;
    for (int i = 0; i < recipe->session.child_count; i++) {
        if (!number_of(recipe->session.children[i], &number)) {
            if (must)
                return RECIPE_UNREADABLE;
        } else if (number < own && number > best) {
            best = number;
            found = i;
        }
    }
    return found;
}

/* ---- Kazoo ---------------------------------------------------------------------------------------------------------------- */

static bool kazoo_number(const char *name, int64_t *ret) {
    size_t size = strlen(name);

    if (size < 18 || strncmp(name + size - 18, "__lock__", 8) != 0)
        return false;
    for (size_t i = size - 10; i < size; i++)
        if (!isdigit((unsigned char)name[i]))
            return false;
    *ret = strtoll(name + size - 10, NULL, 10);
    return true;
}

/* Drawn once. */
static void kazoo_name(struct recipe *recipe) {
    char hex[ACTOR_UUID];

    if (recipe->prefix[0] != '\0')
        return;
    actor_hex(&recipe->actor, hex);
    snprintf(recipe->prefix, sizeof recipe->prefix, "%s__lock__", hex);
}

static int kazoo_ahead(const struct recipe *recipe) {
    return nearest_below(recipe, kazoo_number, false);
}

int actor_kazoo_lock(const struct actor_place *place) {
    static const struct recipe_kind kind = {kazoo_name, kazoo_ahead, false};
    struct recipe recipe;

    recipe_init(&recipe, place, &recipe_ops, &kind);
    return actor_run(&recipe.actor, &(struct actor_style){.mode = 'x', .renew_part = 3});
}

/* ---- go-zookeeper --------------------------------------------------------------------------------------------------------- */

static const char *after_last(const char *text, const char *mark) {
    const char *found = NULL;

    for (const char *next = text; (next = strstr(next, mark)) != NULL;)
        found = next += strlen(mark);
    return found;
}

static bool go_number(const char *name, int64_t *ret) {
    const char *text = after_last(name, "lock-");
    char *end;

    if (text == NULL)
        text = after_last(name, "__");
    if (text == NULL || *text == '\0')
        return false;
    *ret = strtoll(text, &end, 10);
    return *end == '\0';
}

static void go_name(struct recipe *recipe) {
    char hex[ACTOR_UUID];

    actor_hex(&recipe->actor, hex);
    snprintf(recipe->prefix, sizeof recipe->prefix, "_c_%s-lock-", hex);
}

static int go_ahead(const struct recipe *recipe) {
    return nearest_below(recipe, go_number, true);
}

int actor_go_lock(const struct actor_place *place) {
    static const struct recipe_kind kind = {go_name, go_ahead, false};
    struct recipe recipe;

    recipe_init(&recipe, place, &recipe_ops, &kind);
    return actor_run(&recipe.actor, &(struct actor_style){.mode = 'x', .renew_part = 3});
}

/* ---- Strays --------------------------------------------------------------------------------------------------------------- */

/* Those that come first have ten digits at their end. */
enum { STRAYS = 4, NUMBERED = 2, TRIES = 3 };

/* Names that nobody takes for a contender: they sort behind all numbers, and a number at their end is above all that the server gives. */
static void draw_stray(struct actor *actor, int place, char ret[ACTOR_NAME]) {
    static const char *const names[] = {"notes", "tmp.x", "z-", "owner_of_this"};
    int64_t number = dice_between(&actor->dice, 1600000000, 2099999999);

    if (place < NUMBERED)
        snprintf(ret, ACTOR_NAME, "%.200s/run-%lld", actor->place->name, (long long)number);
    else
        snprintf(ret, ACTOR_NAME, "%.200s/%s%d", actor->place->name, names[dice_below(&actor->dice, 4)], place);
}

/* Make one that is not there, or remove one that is. */
static int change_stray(struct actor *actor, struct actor_session *session, int place, char path[ACTOR_NAME]) {
    bool there = path[0] != '\0';

    if (!there)
        draw_stray(actor, place, path);
    int code = actor_session_insist(
        session, &(struct session_request){.verb = there ? SESSION_DELETE : SESSION_CREATE, .path = path, .data = "stray"});

    /* When the session is over nobody knows: then it counts as there, and is removed some time. */
    if (there ? code == ZOK || code == ZNONODE : code != ZOK && code != ZNODEEXISTS && code != ZSESSIONEXPIRED)
        path[0] = '\0';
    return code;
}

/* In the beginning there may be no directory to put them into. */
int actor_zk_stray(const struct actor_place *place) {
    char paths[STRAYS][ACTOR_NAME] = {{0}};
    struct actor actor;
    struct actor_session session = {.actor = &actor};

    actor_init(&actor, place, NULL);
    for (int made = 0; !actor_over(&actor);) {
        int which = made < NUMBERED ? made : (int)dice_below(&actor.dice, STRAYS);
        int code = session.handle != NULL || actor_session_open(&session) == 0 ? change_stray(&actor, &session, which, paths[which])
                                                                               : ZSESSIONEXPIRED;

        made += code == ZOK;
        if (code == ZSESSIONEXPIRED)
            actor_session_close(&session);
        int64_t rest_ms = code == ZOK && made > NUMBERED ? dice_between(&actor.dice, 1, 1 + place->rest_ms) : 5;

        actor_session_nap(&session, actor_now() + rest_ms * ACTOR_MS);
    }
    for (int i = 0, tries = 0; i < STRAYS; i++) {
        if (session.handle == NULL)
            actor_session_open(&session);
        if (paths[i][0] == '\0' || session.handle == NULL || change_stray(&actor, &session, i, paths[i]) != ZSESSIONEXPIRED)
            continue;
        actor_session_close(&session);
        i -= ++tries < TRIES; /* the same once more */
    }
    actor_session_close(&session);
    return 0;
}
