/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - free nodes.
 *
 * In the table, nodes belong to sessions in blocks of four; which of them are free only their process knows. So there is no shared
 * list of free nodes that a crash could break: a block is claimed by one CAS, and what a dead session owned is found by its name.
 * A process keeps at most SPARE_NODES free ones, so that a hundred thousand locks held once leave nothing behind.
 *
 * In the process, the three buckets that were used first keep a free node each: who is in the guard takes it and puts it back by a
 * store, so that a lock that is taken again and again costs nothing here. For the others, a few lie on shelves that are emptied and
 * filled by one atomic exchange: what a thread puts down, the next claim of the same name picks up. Behind them is a list of blocks
 * under a mutex.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/local/local.h"
#include "base/error.h"
#include "os/uncancelled.h"

int pawl__local_pool_open(struct local *local, struct pawl_error *reterr) {
    struct pool *pool = &local->pool;
    size_t links = BLOCK_COUNT * sizeof(uint32_t), spares = BUCKET_COUNT * sizeof(uint32_t);
    char *map;

    pool->map_size = BLOCK_COUNT + 2 * links + spares;
    map = mmap(NULL, pool->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    pool->after = (uint32_t *)(void *)map;
    pool->before = pool->after + BLOCK_COUNT;
    pool->spares = (_Atomic uint32_t *)(pool->before + BLOCK_COUNT);
    pool->free_mask = (uint8_t *)map + 2 * links + spares;
    pthread_mutex_init(&pool->mutex, NULL);
    return 0;
}

void pawl__local_pool_close(struct local *local) {
    if (!local->pool.after)
        return;
    pthread_mutex_destroy(&local->pool.mutex);
    munmap(local->pool.after, local->pool.map_size);
    local->pool.after = NULL;
}

static void list_add(struct pool *pool, uint32_t block) {
    pool->after[block] = pool->first;
    pool->before[block] = 0;
    if (pool->first)
        pool->before[pool->first - 1] = block + 1;
    pool->first = block + 1;
}

static void list_remove(struct pool *pool, uint32_t block) {
    uint32_t after = pool->after[block], before = pool->before[block];

    if (after)
        pool->before[after - 1] = before;
    if (before)
        pool->after[before - 1] = after;
    else
        pool->first = after;
}

/* Claim one block in the table. */
static bool claim_block(struct local *local, uint32_t block) {
    struct node *node = &local->table->nodes[(size_t)block * BLOCK_NODES];
    uint64_t nobody = 0;

    if (GET(local->table->owners[block]) != 0 ||
        !atomic_compare_exchange_strong(&local->table->owners[block], &nobody, local->owner))
        return false;
    for (int i = 0; i < BLOCK_NODES; i++, node++) {
        node_move(node, NODE_LEAVE);
        SET(node->channel, 0);
        atomic_store(&node->owner, local->owner);
    }
    return true;
}

/* Reserve space for more blocks. 0 or errno; EMLINK: the table is full. */
static int more_blocks(struct local *local, uint32_t high) {
    uint32_t expected = high;
    int rc;

    if (high >= BLOCK_COUNT)
        return EMLINK;
    rc = pawl__local_reserve(local, offsetof(struct table, nodes) + (size_t)high * BLOCK_NODES * sizeof(struct node),
                             BLOCK_CHUNK * BLOCK_NODES * sizeof(struct node));
    if (rc == 0)
        atomic_compare_exchange_strong(&local->table->header.block_high, &expected, high + BLOCK_CHUNK);
    return rc;
}

/* Find a free block and claim it. 0 or errno. */
static int more_nodes(struct local *local) {
    struct pool *pool = &local->pool;

    for (;;) {
        uint32_t high = GET(local->table->header.block_high), block;
        int rc;

        high = high < BLOCK_COUNT ? high : BLOCK_COUNT;
        for (uint32_t i = 0; i < high; i++) {
            block = pool->rotor < high ? pool->rotor : 0;
            pool->rotor = block + 1;
            if (claim_block(local, block)) {
                pool->free_mask[block] = (1 << BLOCK_NODES) - 1;
                pool->free_count += BLOCK_NODES;
                list_add(pool, block);
                return 0;
            }
        }
        pool->rotor = high;
        rc = more_blocks(local, high);
        if (rc != 0)
            return rc;
    }
}

static int get_slowly(struct local *local, uint32_t *ret, struct pawl_error *reterr) {
    struct pool *pool = &local->pool;
    uint32_t block, node;
    int rc = 0;
    UNCANCELLED;

    pthread_mutex_lock(&pool->mutex);
    if (!pool->first)
        rc = more_nodes(local);
    if (rc != 0) {
        pthread_mutex_unlock(&pool->mutex);
        errno = rc;
        if (rc == EMLINK)
            return pawl__fail(reterr, PAWL_EFULL, "%s is full: %u locks are held or waited for", local->path, NODE_COUNT);
        return pawl__fail_errno(reterr, "can't enlarge %s/table", local->path);
    }
    block = pool->first - 1;
    node = (uint32_t)__builtin_ctz(pool->free_mask[block]);
    pool->free_mask[block] &= (uint8_t) ~(1u << node);
    pool->free_count--;
    if (pool->free_mask[block] == 0)
        list_remove(pool, block);
    pthread_mutex_unlock(&pool->mutex);
    *ret = block * BLOCK_NODES + node + 1;
    return 0;
}

/* Let the bucket keep the node, if it keeps none and not many do. Nobody writes there now: in the guard only those do that find one. */
static COLD bool settle_down(struct pool *pool, uint32_t ref, uint32_t hash) {
    _Atomic uint32_t *spare = &pool->spares[hash & (BUCKET_COUNT - 1)];
    bool first;

    pthread_mutex_lock(&pool->mutex);
    first = GET(pool->spare_count) < SPARES_MAX && GET(*spare) == 0;
    if (first) {
        SET(pool->spare_count, GET(pool->spare_count) + 1);
        COMMIT(*spare, ref);
    }
    pthread_mutex_unlock(&pool->mutex);
    return first;
}

static void put_slowly(struct local *local, uint32_t ref) {
    struct pool *pool = &local->pool;
    uint32_t block = (ref - 1) / BLOCK_NODES;
    uint64_t owner = local->owner;

    pthread_mutex_lock(&pool->mutex);
    if (pool->free_mask[block] == 0)
        list_add(pool, block);
    pool->free_mask[block] |= (uint8_t)(1u << (ref - 1) % BLOCK_NODES);
    pool->free_count++;
    if (pool->free_count > SPARE_NODES && pool->free_mask[block] == (1 << BLOCK_NODES) - 1) {
        list_remove(pool, block);
        pool->free_mask[block] = 0;
        pool->free_count -= BLOCK_NODES;
        pool->rotor = block < pool->rotor ? block : pool->rotor;
        atomic_compare_exchange_strong(&local->table->owners[block], &owner, 0);
    }
    pthread_mutex_unlock(&pool->mutex);
}

int pawl__local_node_get(struct local *local, uint32_t hash, uint32_t *ret, struct pawl_error *reterr) {
    struct shelf *shelf = &local->shelves[hash % SPARE_SHELVES];
    uint32_t ref = GET(shelf->ref) != 0 ? atomic_exchange_explicit(&shelf->ref, 0, memory_order_acquire) : 0;

    if (ref == 0)
        return get_slowly(local, ret, reterr);
    *ret = ref;
    return 0;
}

void pawl__local_node_put(struct local *local, uint32_t ref, uint32_t hash) {
    struct shelf *shelf = &local->shelves[hash % SPARE_SHELVES];
    uint32_t empty = 0;

    if (!LIKELY(GET(local->pool.spare_count) == SPARES_MAX) && settle_down(&local->pool, ref, hash))
        return;
    if (GET(shelf->ref) != 0 ||
        !atomic_compare_exchange_strong_explicit(&shelf->ref, &empty, ref, memory_order_release, memory_order_relaxed))
        put_slowly(local, ref);
}
