/* SPDX-License-Identifier: Apache-2.0
 *
 * recover.c - cleaning up after the dead: their nodes leave the lists, their blocks and their slot become free.
 *
 * recover() is idempotent, touches only that generation, and frees the slot last. Any number of processes may run it at once, and die
 * in it. A process that meets a dead session runs it, and a process that ends runs it for itself.
 */
#include "engine/local/local.h"

/* How long to wait for one guard: somebody may be stopped in it, and there are other nodes to free. */
#define PATIENCE (5 * MS)

/* Take one node of the session out of its bucket's list, if it is in one, and free it. */
static bool recover_node(struct local *local, uint32_t ref, uint64_t owner, int64_t deadline, unsigned *count) {
    struct node *node = &local->table->nodes[ref - 1];
    int64_t patience = pawl__boottime() + PATIENCE;
    struct guard_visit visit;
    uint32_t hash;
    bool damaged;

    deadline = deadline < patience ? deadline : patience;
    for (;;) {
        if (state_of(atomic_load(&node->state)) == NODE_FREE || atomic_load(&node->owner) != owner)
            return true;
        hash = GET(node->hash);
        if (pawl__local_enter(local, &visit, hash, deadline, NULL) != PAWL__DONE)
            return false;
        if (GET(node->hash) == hash)
            break;
        pawl__local_leave(local, &visit); /* somebody was faster, and it is in use again */
    }
    if (state_of(GET(node->state)) != NODE_FREE && GET(node->owner) == owner) {
        if (pawl__local_linked(local, &visit, ref))
            pawl__local_drop(local, &visit, ref);
        else if (!visit.damaged)
            node_move(node, NODE_LEAVE);
        ++*count;
    }
    damaged = visit.damaged;
    pawl__local_leave(local, &visit);
    return !damaged;
}

bool pawl__local_recover(struct local *local, uint64_t owner, int64_t deadline) {
    struct table *table = local->table;
    uint64_t expected, live = session_word(generation_of(owner), SESSION_LIVE);
    uint32_t slot = slot_of(owner), high = GET(table->header.block_high);
    char who[WHO_SIZE];
    unsigned count = 0;
    bool all = true, whole;

    if (slot >= SESSION_COUNT)
        return false;
    for (uint32_t block = 0; block < high && block < BLOCK_COUNT; block++) {
        if (GET(table->owners[block]) != owner)
            continue;
        whole = true;
        for (uint32_t i = 0; i < BLOCK_NODES; i++)
            whole &= recover_node(local, block * BLOCK_NODES + i + 1, owner, deadline, &count);
        expected = owner;
        if (whole)
            atomic_compare_exchange_strong(&table->owners[block], &expected, 0);
        all &= whole;
    }
    if (!all)
        return false;
    if (pawl__noting(&local->engine) && slot != local->slot && GET(table->words[slot]) == live)
        pawl__note(&local->engine, NULL, "session %u (%s) is dead: recovered %u nodes", slot,
                   pawl__local_who(local, slot, who, sizeof who), count);
    atomic_compare_exchange_strong(&table->words[slot], &live, session_word(generation_of(owner) + 1, 0));
    return true;
}

void pawl__local_recover_all(struct local *local) {
    struct table *table = local->table;
    uint32_t sessions = GET(table->header.session_high), blocks = GET(table->header.block_high);
    int64_t deadline = pawl__boottime() + 100 * MS;
    uint64_t word, owner;

    for (uint32_t slot = 0; slot < sessions && slot < SESSION_COUNT; slot++) {
        word = atomic_load(&table->words[slot]);
        owner = owner_word(slot, generation_of(word));
        if (word & SESSION_LIVE && pawl__local_dead(local, owner))
            pawl__local_recover(local, owner, deadline);
    }
    for (uint32_t block = 0; block < blocks && block < BLOCK_COUNT; block++) {
        owner = atomic_load(&table->owners[block]);
        if (slot_of(owner) < SESSION_COUNT && GET(table->words[slot_of(owner)]) != session_word(generation_of(owner), SESSION_LIVE))
            pawl__local_recover(local, owner, deadline);
    }
}
