/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h - what the lock recipes of ZooKeeper have in common: a node with a number, a list, and a watch on somebody ahead.
 */
#ifndef PAWL_SIM_RECIPE_H
#define PAWL_SIM_RECIPE_H

#include "zookeeper_session.h"

struct recipe;

/* Whom to wait for, among session.children; or one of these. */
enum { RECIPE_OURS = -1, RECIPE_MISSING = -2 /* our own node is not there */, RECIPE_UNREADABLE = -3 };

struct recipe_kind {
    /* What our next node is called, without its number: to be drawn anew, or not. */
    void (*name)(struct recipe *recipe);
    int (*ahead)(const struct recipe *recipe);
    bool container; /* are directories containers, or persistent? */
};

struct recipe {
    struct actor actor;
    struct actor_session session;
    const struct recipe_kind *kind;
    char dir[ACTOR_NAME];
    char prefix[ACTOR_NAME]; /* the node's name, without its number */
    char node[ACTOR_NAME];   /* the node's name; "": there is none */
};

void recipe_init(struct recipe *recipe, const struct actor_place *place, const struct actor_ops *ops,
                 const struct recipe_kind *kind);
int recipe_open(struct actor *actor);
void recipe_close(struct actor *actor);
int recipe_take(struct actor *actor);
int recipe_renew(struct actor *actor);
int recipe_drop(struct actor *actor);
void recipe_nap(struct actor *actor, int64_t until);

/* The steps of take, for recipes that need more of them. Codes are PAWL_E... */
int recipe_make(struct recipe *recipe, const char *data);
int recipe_list(struct recipe *recipe, bool watch);
int recipe_remove(struct recipe *recipe);
/* Does the leader know the node? Answered lately, or asked now. */
int recipe_prove(struct recipe *recipe);

#endif
