/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c - the list of a bucket, and the grant rule over it. Pure: everything here runs with the bucket's guard held, looks at the
 * table and at nothing else, and makes no system call.
 *
 * The grant rule, over the nodes of one name in the order of the list, where "before" counts holders and waiters alike:
 *
 *     exclusive   nobody is before it
 *     shared      nobody exclusive is before it
 *     permits     what all before it hold or want, and what it wants, is within the limit
 *
 * So the holders of a name always form a prefix of its nodes: what fits beside all before it was granted no later than they were.
 * Two short cuts follow. Whether a newcomer fits is told by the last node of its name alone (but for the sum of permits), and so does
 * not cost more the longer the queue is. And granting stops at the first that does not fit.
 *
 * What is KEPT is held by nobody, and is taken out by who comes and does not fit beside it. So that nobody has to wait for it, the first
 * that waits makes WANTED all that hold before it, and so does who lets others in before it. Those behind the first need not.
 *
 * Crash-proof: the only stores that change what is in the list are the COMMITs to `head` and `next`; see format.h. A release that
 * dies between taking itself out and granting the next one leaves the guard to be taken from it, and repair() grants again.
 */
#include <string.h>

#include "engine/local/local.h"

/* NULL: no such node. */
static struct node *node_at(const struct local *local, uint32_t ref) {
    uint32_t high = GET(local->table->header.block_high);

    if (ref == 0 || ref > NODE_COUNT || (ref - 1) / BLOCK_NODES >= high)
        return NULL;
    return &local->table->nodes[ref - 1];
}

uint32_t pawl__local_ref(const struct local *local, const struct node *node) {
    return (uint32_t)(node - local->table->nodes) + 1;
}

bool pawl__local_same_name(const struct node *a, const struct node *b) {
    return GET(a->hash) == GET(b->hash) && a->name_length == b->name_length && memcmp(a->name, b->name, a->name_length) == 0;
}

static uint32_t bucket_of(const struct local *local, const struct guard_visit *visit) {
    return (uint32_t)(visit->bucket - local->table->buckets);
}

/* The node behind a reference found in this bucket's list; NULL at its end and where the list is not what we write. */
static struct node *step(struct local *local, struct guard_visit *visit, uint32_t ref, uint32_t *steps) {
    struct node *node;

    if (ref == 0)
        return NULL;
    node = node_at(local, ref);
    if (!node || ++*steps > NODE_COUNT || (GET(node->hash) & (BUCKET_COUNT - 1)) != bucket_of(local, visit) ||
        slot_of(GET(node->owner)) >= SESSION_COUNT) {
        visit->damaged = true;
        return NULL;
    }
    return node;
}

struct node *pawl__local_next(struct local *local, struct guard_visit *visit, const struct node *node, uint32_t *steps) {
    return step(local, visit, node ? GET(node->next) : GET(visit->bucket->head), steps);
}

static struct node *previous_of(struct local *local, struct guard_visit *visit, const struct node *node, uint32_t *steps) {
    return step(local, visit, node ? GET(node->prev) : GET(visit->bucket->tail), steps);
}

struct node *pawl__local_before(struct local *local, struct guard_visit *visit, const struct node *from, const struct node *like,
                                uint32_t *steps) {
    struct node *node = previous_of(local, visit, from, steps);

    while (node && !pawl__local_same_name(node, like))
        node = previous_of(local, visit, node, steps);
    return node;
}

static struct node *behind(struct local *local, struct guard_visit *visit, const struct node *from) {
    uint32_t steps = 0;
    struct node *node = pawl__local_next(local, visit, from, &steps);

    while (node && !pawl__local_same_name(node, from))
        node = pawl__local_next(local, visit, node, &steps);
    return node;
}

uint64_t pawl__local_token(struct local *local, struct bucket *bucket) {
    uint64_t token = GET(bucket->token) + 1;

    if (token > GET(local->table->header.token_ceiling))
        return 0;
    SET(bucket->token, token);
    return token;
}

/* ---- Waking ---- */

/* Remember to wake the node's waiter on leaving. There is room: regrant() leaves some. */
static void wake_later(struct guard_visit *visit, struct local *local, struct node *node) {
    if (visit->wake_count == WAKES_MAX)
        visit->more = true;
    else
        visit->wakes[visit->wake_count++] = (struct wake){
            .ref = pawl__local_ref(local, node),
            .slot = slot_of(GET(node->owner)),
            /* After the change of state, in one order with the waiter's: it publishes its channel, then looks at the state. */
            .channel = atomic_load(&node->channel),
        };
}

/* Make it look at the queue again. */
static void poke(struct local *local, struct guard_visit *visit, struct node *node) {
    atomic_fetch_add(&node->state, NODE_POKE);
    wake_later(visit, local, node);
}

/* ---- Unlinking, and what is kept ---- */

/* False: it is not in the list. */
static bool unlink_node(struct local *local, struct guard_visit *visit, uint32_t ref) {
    struct bucket *bucket = visit->bucket;
    struct node *node = &local->table->nodes[ref - 1];
    uint32_t previous = GET(node->prev), next = GET(node->next);
    struct node *previous_node = node_at(local, previous), *next_node = node_at(local, next);

    if (next != 0 && !next_node) {
        visit->damaged = true;
        return false;
    }
    if (previous == 0 && GET(bucket->head) == ref) {
        COMMIT(bucket->head, next);
    } else if (previous_node && GET(previous_node->next) == ref) {
        COMMIT(previous_node->next, next);
    } else {
        visit->damaged = true;
        return false;
    }
    if (next_node)
        SET(next_node->prev, previous);
    else
        SET(bucket->tail, previous);
    return true;
}

/* Take a kept node out. Its owner learns of it when it wants to hold it again. False: it is not kept. */
static bool take(struct local *local, struct guard_visit *visit, struct node *node) {
    return node_move(node, NODE_TAKE) && unlink_node(local, visit, pawl__local_ref(local, node));
}

/* Somebody waits behind this one: it is not to be kept from now on, and if it is, it goes. True: it is gone. */
static bool want(struct local *local, struct guard_visit *visit, struct node *node) {
    if (take(local, visit, node))
        return true;
    if (!(node->kind & NODE_KEEPS) || GET(node->state) & NODE_WANTED)
        return false;
    atomic_fetch_or(&node->state, NODE_WANTED);
    return take(local, visit, node); /* it may have been kept between the two */
}

/* The same for all of its name, from `last` back, unless that one waits: then all before it are wanted already. True: some are gone. */
static bool want_all(struct local *local, struct guard_visit *visit, struct node *last) {
    struct node *previous;
    uint32_t steps = 0;
    bool gone = false;

    if (last && state_of(GET(last->state)) == NODE_WAITING)
        return false;
    for (; last && !visit->damaged; last = previous) {
        previous = pawl__local_before(local, visit, last, last, &steps);
        gone |= want(local, visit, last);
    }
    return gone;
}

/* ---- The grant rule ---- */

/* What stands before a node. */
struct ahead {
    uint32_t count;
    bool exclusive;
    uint64_t permits;
};

static void ahead_add(struct ahead *ahead, const struct node *node) {
    ahead->count++;
    ahead->exclusive |= GET(node->mode) == PAWL_EXCLUSIVE;
    ahead->permits += node->permits;
}

static bool fits(const struct node *node, const struct ahead *before_it) {
    switch (GET(node->mode)) {
    case PAWL_EXCLUSIVE:
        return before_it->count == 0;
    case PAWL_SHARED:
        return !before_it->exclusive;
    default:
        return before_it->permits + node->permits <= node->limit;
    }
}

static bool grant(struct local *local, struct guard_visit *visit, struct node *node) {
    uint64_t token = pawl__local_token(local, visit->bucket);

    if (token == 0) {
        visit->need_tokens = true;
        visit->damaged |= GET(visit->bucket->token) > GET(local->table->header.token_ceiling);
        poke(local, visit, node); /* it can raise the ceiling; the one that releases may not have the time */
        return false;
    }
    SET(node->token, token);
    node->granted_ms = pawl__local_wall_ms();
    if (node_move(node, NODE_GRANT))
        wake_later(visit, local, node);
    return true;
}

void pawl__local_regrant(struct local *local, struct guard_visit *visit, const struct node *like) {
    struct ahead ahead = {0};
    uint32_t steps = 0;

    if (visit->wake_count >= GRANTS_MAX) {
        visit->more = true;
        return;
    }
    FOR_NODES(node, local, visit, &steps) {
        uint32_t word = GET(node->state);

        if (!pawl__local_same_name(node, like))
            continue;
        if (!holds(word) && state_of(word) != NODE_KEPT) {
            if (state_of(word) != NODE_WAITING) {
                visit->damaged = true;
                return;
            }
            if (!fits(node, &ahead)) {
                uint32_t back = 0;

                if (want_all(local, visit, pawl__local_before(local, visit, node, node, &back))) {
                    pawl__local_regrant(local, visit, like); /* once: none of them can be kept again */
                    return;
                }
                /* It has become the first that waits. With one holder it watches that one, its predecessor; with more it must look. */
                if (ahead.count > 1 && GET(node->watching) == WATCHING_PREDECESSOR)
                    poke(local, visit, node);
                return;
            }
            if (visit->wake_count >= GRANTS_MAX) {
                visit->more = true;
                return;
            }
            if (!grant(local, visit, node))
                return;
        }
        ahead_add(&ahead, node);
    }
}

void pawl__local_regrant_all(struct local *local, struct guard_visit *visit) {
    uint32_t steps = 0;

    FOR_NODES(node, local, visit, &steps) {
        struct node *previous;
        uint32_t back = 0;

        if (visit->more || visit->damaged)
            return;
        if (state_of(GET(node->state)) != NODE_WAITING)
            continue;
        previous = pawl__local_before(local, visit, node, node, &back);
        if (!previous || state_of(GET(previous->state)) != NODE_WAITING)
            pawl__local_regrant(local, visit, node);
    }
}

/* ---- In and out ---- */

static void append(struct guard_visit *visit, struct node *node, struct node *tail, uint32_t ref) {
    SET(node->next, 0);
    SET(node->prev, GET(visit->bucket->tail));
    if (tail)
        COMMIT(tail->next, ref);
    else
        COMMIT(visit->bucket->head, ref);
    SET(visit->bucket->tail, ref);
}

/* Does the node fit beside a kept one of its name? */
static bool fits_beside(const struct node *node, const struct node *kept) {
    return kind_of(node) == kind_of(kept) && GET(node->mode) == PAWL_SHARED && GET(kept->mode) == PAWL_SHARED;
}

/* The last node of this one's name, after those at the end are taken out that are kept and in its way. */
static struct node *last_in_the_way(struct local *local, struct guard_visit *visit, const struct node *node) {
    uint32_t steps = 0;
    struct node *last = pawl__local_before(local, visit, NULL, node, &steps), *previous;

    for (; last && !fits_beside(node, last) && state_of(GET(last->state)) == NODE_KEPT; last = previous) {
        previous = pawl__local_before(local, visit, last, last, &steps);
        if (!take(local, visit, last))
            break;
    }
    return last;
}

/* Would the node, put at the end, be granted at once? */
static enum verdict judge(struct local *local, struct guard_visit *visit, struct node *node, struct node **ret_last) {
    struct node *last = last_in_the_way(local, visit, node);
    struct ahead ahead = {0};
    uint32_t steps = 0;

    *ret_last = last;
    if (!last)
        return visit->damaged ? VERDICT_DAMAGED : VERDICT_HELD;
    if (kind_of(last) != kind_of(node))
        return VERDICT_KIND;
    if (last->limit != node->limit)
        return VERDICT_LIMIT;
    if (GET(node->mode) == PAWL_EXCLUSIVE || state_of(GET(last->state)) == NODE_WAITING)
        return VERDICT_WAITING; /* FIFO: who does not fit yet is not passed by */
    if (GET(node->mode) == PAWL_SHARED)
        return GET(last->mode) == PAWL_SHARED ? VERDICT_HELD : VERDICT_WAITING;
    for (; last && fits(node, &ahead); last = pawl__local_before(local, visit, last, node, &steps))
        ahead_add(&ahead, last);
    return visit->damaged ? VERDICT_DAMAGED : fits(node, &ahead) ? VERDICT_HELD : VERDICT_WAITING;
}

/* Link it behind `tail`; NULL: the list is empty. */
static inline enum verdict link_node(struct local *local, struct guard_visit *visit, uint32_t ref, struct node *tail,
                                     enum node_event event) {
    struct node *node = &local->table->nodes[ref - 1];
    struct bucket *bucket = visit->bucket;
    uint64_t ticket = GET(bucket->ticket) + 1, token = event == NODE_HOLD ? pawl__local_token(local, bucket) : 0;

    if (event == NODE_HOLD && token == 0)
        return GET(bucket->token) > GET(local->table->header.token_ceiling) ? VERDICT_DAMAGED : VERDICT_TOKENS;
    COMMIT(node->token, token);
    COMMIT(node->ticket, ticket); /* before it is held: who writes a value knows its hold by that, and looks without the guard */
    node->granted_ms = node->since_ms;
    if (!node_move(node, event))
        return VERDICT_DAMAGED;
    SET(bucket->ticket, ticket);
    append(visit, node, tail, ref);
    return event == NODE_HOLD ? VERDICT_HELD : VERDICT_WAITING;
}

/* Others are in the bucket. */
static APART enum verdict enqueue_behind(struct local *local, struct guard_visit *visit, uint32_t ref, bool try_only) {
    struct node *node = &local->table->nodes[ref - 1], *last, *tail;
    enum verdict verdict;
    uint32_t steps = 0;

    do
        verdict = judge(local, visit, node, &last);
    while (verdict == VERDICT_WAITING && !try_only && want_all(local, visit, last));
    tail = previous_of(local, visit, NULL, &steps);
    if (visit->damaged || (tail ? GET(tail->next) : GET(visit->bucket->head)) != 0)
        return VERDICT_DAMAGED;
    if (verdict == VERDICT_HELD)
        return link_node(local, visit, ref, tail, NODE_HOLD);
    if (verdict == VERDICT_WAITING)
        return try_only ? VERDICT_BLOCKED : link_node(local, visit, ref, tail, NODE_QUEUE);
    return verdict;
}

enum verdict pawl__local_enqueue(struct local *local, struct guard_visit *visit, uint32_t ref, bool try_only) {
    if (LIKELY(GET(visit->bucket->head) == 0))
        return link_node(local, visit, ref, NULL, NODE_HOLD);
    return enqueue_behind(local, visit, ref, try_only);
}

bool pawl__local_linked(struct local *local, struct guard_visit *visit, uint32_t ref) {
    uint32_t steps = 0;

    FOR_NODES(node, local, visit, &steps) {
        if (pawl__local_ref(local, node) == ref)
            return true;
    }
    return false;
}

/* Can the end of this holder let anybody in? Not that of one reader among several: then there are still others in the way. */
static bool matters(struct local *local, struct guard_visit *visit, const struct node *node, uint32_t word) {
    struct node *previous, *next;
    uint32_t steps = 0;

    if (GET(node->mode) != PAWL_SHARED || !holds(word))
        return true;
    previous = pawl__local_before(local, visit, node, node, &steps);
    if (previous && holds(GET(previous->state)))
        return false;
    next = behind(local, visit, node);
    return next && !holds(GET(next->state));
}

/* Take the node out; who stays in its state has been passed over, or revoked. */
static void take_out(struct local *local, struct guard_visit *visit, struct node *node, bool stays) {
    uint32_t ref = pawl__local_ref(local, node), word = GET(node->state);
    struct node *successor = NULL;
    bool regrant;

    /* Who watched a waiter, or one that was passed over, must look whom to watch now. */
    if (!holds(word))
        successor = behind(local, visit, node);
    regrant = matters(local, visit, node, word);
    if (!unlink_node(local, visit, ref))
        return; /* damaged: leave the node as it is, for ever */
    if (!stays)
        node_move(node, NODE_LEAVE);
    if (regrant)
        pawl__local_regrant(local, visit, node);
    if (successor && state_of(GET(successor->state)) == NODE_WAITING)
        poke(local, visit, successor);
}

void pawl__local_drop(struct local *local, struct guard_visit *visit, uint32_t ref) {
    struct node *node = &local->table->nodes[ref - 1];
    struct bucket *bucket = visit->bucket;

    if (LIKELY(GET(bucket->head) == ref && GET(node->next) == 0)) { /* alone in the bucket */
        COMMIT(bucket->head, 0);
        SET(bucket->tail, 0);
        node_move(node, NODE_LEAVE);
    } else {
        take_out(local, visit, node, false);
    }
}

struct node *pawl__local_find_granted(struct local *local, struct guard_visit *visit, uint32_t ref, uint64_t token) {
    struct node *node = &local->table->nodes[ref - 1];

    if (!pawl__local_linked(local, visit, ref) || state_of(GET(node->state)) != NODE_GRANTED || GET(node->token) != token)
        return NULL;
    return node;
}

bool pawl__local_pass_over(struct local *local, struct guard_visit *visit, struct node *slow_claimer) {
    if (!node_move(slow_claimer, NODE_PASS_OVER))
        return false;
    take_out(local, visit, slow_claimer, true);
    poke(local, visit, slow_claimer);
    return true;
}

bool pawl__local_revoke(struct local *local, struct guard_visit *visit, struct node *holder) {
    if (!node_move(holder, NODE_REVOKE))
        return false;
    take_out(local, visit, holder, true);
    return true;
}

void pawl__local_repair(struct local *local, struct guard_visit *visit) {
    struct bucket *bucket = visit->bucket;
    struct node *last = NULL;
    uint32_t steps = 0;

    FOR_NODES(node, local, visit, &steps) {
        uint32_t word = GET(node->state);

        if (stands(word)) {
            SET(node->prev, last ? pawl__local_ref(local, last) : 0);
            last = node;
            /* The process that granted may have died before waking. What it granted has the last tokens of the bucket. */
            if (state_of(word) == NODE_GRANTED && GET(node->token) + GRANTS_MAX > GET(bucket->token))
                wake_later(visit, local, node);
        } else if (last) {
            COMMIT(last->next, GET(node->next));
        } else {
            COMMIT(bucket->head, GET(node->next));
        }
    }
    if (visit->damaged)
        return;
    SET(bucket->tail, last ? pawl__local_ref(local, last) : 0);
    pawl__local_regrant_all(local, visit);
}
