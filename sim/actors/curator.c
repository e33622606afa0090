/* SPDX-License-Identifier: Apache-2.0
 *
 * curator.c - Curator's InterProcessMutex, ReadWriteLock and SemaphoreV2, as they are on the wire.
 *
 * Nodes are `_c_<uuid>-<name><number>`, in directories that are containers. Every child counts. They are sorted by the text after the last
 * occurrence of the name (`lock-`, and for read-write locks `__READ__` and `__WRIT__`), or by the whole where that is absent, as strings. A
 * mutex is held by the first; others watch the one before them. A reader waits for the first writer of the line if that is before it.
 * A semaphore is a mutex in `locks`, whose holder makes a node in `leases` and waits until there are no more of them than permits.
 */
#include "recipe.h"

#include <stdio.h>
#include <string.h>

static struct recipe *of(struct actor *actor) {
    return (struct recipe *)actor;
}

/* ---- Order ---------------------------------------------------------------------------------------------------------------- */

/* What follows the last `mark`; the whole, if there is none. */
static const char *after_last(const char *text, const char *mark) {
    for (const char *next; (next = strstr(text, mark)) != NULL;)
        text = next + strlen(mark);
    return text;
}

static const char *mutex_key(const char *name) {
    return after_last(name, "lock-");
}

static const char *rw_key(const char *name) {
    return after_last(after_last(name, "__READ__"), "__WRIT__");
}

static int own_index(const struct recipe *recipe) {
    for (int i = 0; i < recipe->session.child_count; i++)
        if (strcmp(recipe->session.children[i], recipe->node) == 0)
            return i;
    return RECIPE_MISSING;
}

/* Does the i-th stand before the j-th? Equal keys: in the order of the list. */
static bool is_before(const struct recipe *recipe, const char *(*key)(const char *name), int i, int j) {
    int order = strcmp(key(recipe->session.children[i]), key(recipe->session.children[j]));

    return order < 0 || (order == 0 && i < j);
}

/* The last one before us; or, of those that have `mark` in their names, the first. */
static int ahead_by(const struct recipe *recipe, const char *(*key)(const char *name), const char *mark) {
    int own = own_index(recipe), found = RECIPE_OURS;

    if (own < 0)
        return RECIPE_MISSING;
    for (int i = 0; i < recipe->session.child_count; i++) {
        if (!is_before(recipe, key, i, own) || (mark != NULL && strstr(recipe->session.children[i], mark) == NULL))
            continue;
        if (found == RECIPE_OURS || is_before(recipe, key, mark != NULL ? i : found, mark != NULL ? found : i))
            found = i;
    }
    return found;
}

/* ---- Mutex ---------------------------------------------------------------------------------------------------------------- */

static void draw_name(struct recipe *recipe, const char *what) {
    char uuid[ACTOR_UUID];

    actor_uuid(&recipe->actor, uuid);
    snprintf(recipe->prefix, sizeof recipe->prefix, "_c_%s-%s", uuid, what);
}

static void mutex_name(struct recipe *recipe) {
    draw_name(recipe, "lock-");
}

static int mutex_ahead(const struct recipe *recipe) {
    return ahead_by(recipe, mutex_key, NULL);
}

static const struct recipe_kind mutex_kind = {mutex_name, mutex_ahead, true};
static const struct actor_ops recipe_ops = {recipe_open, recipe_close, recipe_take, recipe_renew, recipe_drop, recipe_nap};

int actor_curator_mutex(const struct actor_place *place) {
    struct recipe recipe;

    recipe_init(&recipe, place, &recipe_ops, &mutex_kind);
    return actor_run(&recipe.actor, &(struct actor_style){.mode = 'x', .renew_part = 3});
}

/* ---- Read-write lock ------------------------------------------------------------------------------------------------------ */

static void rw_name(struct recipe *recipe) {
    draw_name(recipe, recipe->actor.mode == 's' ? "__READ__" : "__WRIT__");
}

static int rw_ahead(const struct recipe *recipe) {
    return ahead_by(recipe, rw_key, recipe->actor.mode == 's' ? "__WRIT__" : NULL);
}

int actor_curator_rwlock(const struct actor_place *place) {
    static const struct recipe_kind kind = {rw_name, rw_ahead, true};
    struct recipe recipe;

    recipe_init(&recipe, place, &recipe_ops, &kind);
    return actor_run(&recipe.actor, &(struct actor_style){.mode = 'x', .shared = 60, .renew_part = 3});
}

/* ---- Semaphore ------------------------------------------------------------------------------------------------------------ */

/* The recipe's own node is the lease; the node of the mutex is there while the lease is being had. */
static void lease_name(struct recipe *recipe) {
    draw_name(recipe, "lease-");
}

static const struct recipe_kind lease_kind = {lease_name, NULL, true};

static void work_at(struct recipe *recipe, const char *part, const struct recipe_kind *kind) {
    snprintf(recipe->dir, sizeof recipe->dir, "%.200s/%s", recipe->actor.place->name, part);
    recipe->kind = kind;
}

/* There is a lease of ours: wait until all of them fit. */
static int wait_for_room(struct recipe *recipe) {
    for (;;) {
        int code = recipe_list(recipe, true);

        if (code != 0)
            return code;
        if (own_index(recipe) < 0)
            return PAWL_ELOST;
        if ((unsigned)recipe->session.child_count <= recipe->actor.place->limit)
            return recipe_prove(recipe);
        if (actor_over(&recipe->actor))
            return PAWL_ECANCELED;
        if (!actor_session_sleep(&recipe->session))
            return PAWL_ECONNLOST;
    }
}

static int semaphore_take(struct actor *actor) {
    struct recipe *recipe = of(actor);
    char guard[ACTOR_NAME], lease[ACTOR_NAME];

    work_at(recipe, "locks", &mutex_kind);
    int code = recipe_take(actor);

    if (code != 0)
        return code;
    memcpy(guard, recipe->node, sizeof guard);
    work_at(recipe, "leases", &lease_kind);
    code = recipe_make(recipe, NULL);
    if (code == 0)
        code = wait_for_room(recipe);
    if (code == PAWL_ECANCELED || code == PAWL_ELOST)
        recipe_remove(recipe);
    memcpy(lease, recipe->node, sizeof lease);
    work_at(recipe, "locks", &mutex_kind);
    memcpy(recipe->node, guard, sizeof guard);
    int left = recipe_remove(recipe);

    work_at(recipe, "leases", &lease_kind);
    memcpy(recipe->node, lease, sizeof lease);
    return code == 0 && left == PAWL_ECONNLOST ? PAWL_ECONNLOST : code == PAWL_ELOST ? PAWL_ECONNLOST : code;
}

int actor_curator_semaphore(const struct actor_place *place) {
    static const struct actor_ops ops = {recipe_open, recipe_close, semaphore_take, recipe_renew, recipe_drop, recipe_nap};
    struct recipe recipe;

    recipe_init(&recipe, place, &ops, &mutex_kind);
    return actor_run(&recipe.actor, &(struct actor_style){.mode = 'p', .permits = 1, .renew_part = 3});
}
