/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_local_list.c - the lists of the local table, without files or processes.
 *
 * The input is a program: who queues, who leaves, who downgrades, in one bucket. As long as nobody wrote nonsense into the table,
 * the holders of every name are exactly those whom the grant rule lets in. Once the program has done so, every operation must
 * still come to its end and stay within the table.
 */
#include "fuzz.h"

#include <sys/mman.h>

#include "engine/local/local.h"

enum { NODES = 24, NAMES = 4, BLOCKS = NODES / BLOCK_NODES, OPERATIONS_MAX = 200, PAGE = 4096 };

/* What the process that owns the nodes knows without looking at the table. */
struct model {
    struct local local;
    struct guard_visit visit;
    bool linked[NODES];
    bool corrupt;
};

/* The program, read byte by byte. */
struct tape {
    const uint8_t *data;
    size_t size;
};

static unsigned next_byte(struct tape *tape) {
    if (tape->size == 0)
        return 0;
    tape->size--;
    return *tape->data++;
}

/* The table lies between two pages that can't be touched. */
static struct table *make_table(void) {
    size_t size = (sizeof(struct table) + PAGE - 1) / PAGE * PAGE;
    char *memory = mmap(NULL, size + (size_t)2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(memory != MAP_FAILED);
    CHECK(mprotect(memory + PAGE, size, PROT_READ | PROT_WRITE) == 0);
    return (struct table *)(memory + PAGE);
}

static void begin(struct model *model) {
    struct table *table = model->local.table;

    memset(&table->header, 0, sizeof table->header);
    memset(&table->buckets[0], 0, sizeof table->buckets[0]);
    memset(table->nodes, 0, sizeof table->nodes[0] * NODES);
    SET(table->header.block_high, BLOCKS);
    SET(table->header.token_ceiling, UINT64_MAX / 2);
    model->local.directory_fd = model->local.sessions_fd = model->local.table_fd = -1;
    atomic_store(&model->local.lifeline_fd, -1);
}

static void enter(struct model *model) {
    memset(&model->visit, 0, sizeof model->visit);
    model->visit.bucket = &model->local.table->buckets[0];
}

/* Each name is of one kind; now and then somebody asks for it as another. */
static void fill(struct node *node, struct tape *tape) {
    unsigned name = next_byte(tape), want = next_byte(tape), kind = name % NAMES % 3;

    if (want > 250)
        kind = (kind + 1) % 3;
    SET(node->hash, (uint32_t)(1 + name % NAMES) * BUCKET_COUNT);
    node->name_length = 1;
    node->name[0] = (char)('a' + name % NAMES);
    node->kind = (uint8_t)kind;
    node->limit = kind == PAWL_SEMAPHORE ? 5 : 1;
    node->permits = kind == PAWL_SEMAPHORE ? 1 + want % 5 : 1;
    SET(node->mode, kind == PAWL_SEMAPHORE ? PAWL_PERMITS : kind == PAWL_RWLOCK && want % 3 ? PAWL_SHARED : PAWL_EXCLUSIVE);
    SET(node->watching, (uint8_t)(want % 3));
    SET(node->owner, owner_word(0, 1));
}

static void enqueue(struct model *model, uint32_t index, struct tape *tape) {
    struct node *node = &model->local.table->nodes[index];
    enum verdict verdict;

    if (model->linked[index])
        return;
    fill(node, tape);
    verdict = pawl__local_enqueue(&model->local, &model->visit, index + 1, next_byte(tape) % 4 == 0);
    model->linked[index] = verdict == VERDICT_HELD || verdict == VERDICT_WAITING;
    CHECK(verdict != VERDICT_DAMAGED || model->corrupt);
}

static void drop(struct model *model, uint32_t index) {
    if (!model->linked[index])
        return;
    pawl__local_drop(&model->local, &model->visit, index + 1);
    model->linked[index] = false;
}

static void downgrade(struct model *model, uint32_t index) {
    struct node *node = &model->local.table->nodes[index];

    if (!model->linked[index] || node->kind != PAWL_RWLOCK || state_of(GET(node->state)) != NODE_HELD)
        return;
    SET(node->mode, PAWL_SHARED);
    pawl__local_regrant(&model->local, &model->visit, node);
}

/* Somebody writes what he should not: anywhere in the bucket, its nodes, or how many of them there are. */
static void corrupt(struct model *model, struct tape *tape) {
    struct table *table = model->local.table;
    unsigned where = next_byte(tape), offset = next_byte(tape), length = 1 + next_byte(tape) % 8;
    char *area = where < NODES ? (char *)&table->nodes[where] : (char *)&table->buckets[0];
    size_t size = where < NODES ? sizeof table->nodes[0] : sizeof table->buckets[0];

    if (where == 255) {
        SET(table->header.block_high, next_byte(tape) << 16 | next_byte(tape));
    } else {
        offset %= (unsigned)(size - length);
        for (unsigned i = 0; i < length; i++)
            area[offset + i] = (char)next_byte(tape);
    }
    model->corrupt = true;
}

static void operate(struct model *model, struct tape *tape) {
    unsigned what = next_byte(tape);
    uint32_t index = next_byte(tape) % NODES;

    enter(model);
    switch (what % 16) {
    default:
        enqueue(model, index, tape);
        break;
    case 8:
    case 9:
    case 10:
        drop(model, index);
        break;
    case 11:
        node_move(&model->local.table->nodes[index], NODE_CLAIM);
        break;
    case 12:
        downgrade(model, index);
        break;
    case 13:
        pawl__local_repair(&model->local, &model->visit);
        break;
    case 14:
        pawl__local_regrant_all(&model->local, &model->visit);
        break;
    case 15:
        corrupt(model, tape);
        break;
    }
    CHECK(!model->visit.damaged || model->corrupt);
}

/* Is the node let in beside those of its name that stand before it? Told anew, from the documented rule. */
static bool let_in(struct model *model, const struct node *node, const uint32_t *order, uint32_t count) {
    uint64_t permits = node->permits;

    for (uint32_t i = 0; i < count; i++) {
        const struct node *other = &model->local.table->nodes[order[i]];

        if (!pawl__local_same_name(node, other))
            continue;
        if (!holds(GET(other->state)))
            return false;
        if (GET(node->mode) == PAWL_EXCLUSIVE || GET(other->mode) == PAWL_EXCLUSIVE)
            return false;
        permits += other->permits;
    }
    return GET(node->mode) == PAWL_SHARED || permits <= node->limit;
}

static void check(struct model *model) {
    uint32_t order[NODES], count = 0, steps = 0, linked = 0;
    uint64_t token = GET(model->local.table->buckets[0].token);
    struct node *node = NULL;

    enter(model);
    while ((node = pawl__local_next(&model->local, &model->visit, node, &steps))) {
        uint32_t index = pawl__local_ref(&model->local, node) - 1;

        CHECK(count < NODES && index < NODES && model->linked[index]);
        CHECK(holds(GET(node->state)) == let_in(model, node, order, count));
        CHECK(!holds(GET(node->state)) || (GET(node->token) > 0 && GET(node->token) <= token));
        CHECK(GET(node->prev) == (count ? order[count - 1] + 1 : 0));
        order[count++] = index;
    }
    CHECK(GET(model->local.table->buckets[0].tail) == (count ? order[count - 1] + 1 : 0));
    for (uint32_t i = 0; i < NODES; i++)
        linked += model->linked[i];
    CHECK(!model->visit.damaged && linked == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct table *table;
    struct model model = {0};
    struct tape tape = {data, size};

    if (!table)
        table = make_table();
    model.local.table = table;
    begin(&model);
    for (int i = 0; tape.size && i < OPERATIONS_MAX; i++) {
        operate(&model, &tape);
        if (!model.corrupt)
            check(&model);
    }
    return 0;
}
