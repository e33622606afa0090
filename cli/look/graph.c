/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c - who waits for whom, and likely deadlocks. Pure.
 *
 *   claims   every holder and waiter of every place, in the order of the look; claims of the same process belong to one agent
 *   edges    from a waiter to each holder that keeps it out (hard), and to those ahead of it that it can't pass (soft). Who stands behind
 *            somebody ahead is reached through that one's own edges, so a queue of n has about 2n edges, not n * n
 *   stuck    reduction: everybody who can go on ends and gives back what it has, again and again; who is left can't go on. With permits a
 *            circle alone is not enough: another holder may give back what is wanted
 *   cycles   circles of edges among those who are stuck, no agent in two of them
 *
 * A process never waits for itself here: it may have other threads. A hold that was broken, and has a lease, ends by itself.
 */
#include "look.h"

#include <stdlib.h>
#include <string.h>

/* Of several holders, as readers and permits have, the first waiter has an edge to all, and the others to so many. */
enum { MOST_HOLDERS = 16 };
#define NOBODY SIZE_MAX

struct claim {
    const struct pawl_entry *entry;
    size_t agent;
    bool granted; /* by the reduction */
};

struct builder {
    struct look *look;
    struct graph *graph;
    struct claim *claims;
    size_t count;
    bool failed; /* out of memory */
};

/* Called for each lock with its claims, which are those of its entries in the same order. */
typedef void lock_fn(struct builder *builder, const struct lock_seen *lock, struct claim *claims, void *data);

static void for_each_lock(struct builder *builder, lock_fn *visit, void *data) {
    size_t first = 0;

    for (size_t i = 0; i < builder->look->count; i++)
        for (size_t j = 0; j < builder->look->places[i].count; j++) {
            const struct lock_seen *lock = &builder->look->places[i].locks[j];

            visit(builder, lock, &builder->claims[first], data);
            first += lock->holders + lock->waiters;
        }
}

/* ---- agents --------------------------------------------------------------------------------------------------------------- */

static bool is_known(const struct pawl_entry *entry) {
    return entry->agent[0] != '\0' || (entry->pid != 0 && entry->host[0] != '\0');
}

static int compare_agents(const struct pawl_entry *a, const struct pawl_entry *b) {
    int order = strcmp(a->agent, b->agent);

    if (order != 0 || a->agent[0] != '\0')
        return order;
    if (is_known(a) != is_known(b))
        return is_known(a) ? -1 : 1;
    if (!is_known(a))
        return a < b ? -1 : a > b;
    order = strcmp(a->host, b->host);
    return order != 0 ? order : a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int compare_claims(const void *left, const void *right) {
    return compare_agents((*(struct claim *const *)left)->entry, (*(struct claim *const *)right)->entry);
}

static void note_claims(struct builder *builder, const struct lock_seen *lock, struct claim *claims, void *data) {
    (void)data;
    for (size_t i = 0; i < lock->holders + lock->waiters; i++)
        claims[i].entry = &lock->entries[i];
    builder->count += lock->holders + lock->waiters;
}

static bool find_agents(struct builder *builder) {
    struct graph *graph = builder->graph;
    struct claim **sorted = calloc(builder->count + 1, sizeof sorted[0]);

    graph->agents = calloc(builder->count + 1, sizeof graph->agents[0]);
    if (sorted == NULL || graph->agents == NULL) {
        free(sorted);
        return false;
    }
    for (size_t i = 0; i < builder->count; i++)
        sorted[i] = &builder->claims[i];
    if (builder->count > 0)
        qsort(sorted, builder->count, sizeof sorted[0], compare_claims);
    for (size_t i = 0; i < builder->count; i++) {
        if (i == 0 || compare_claims(&sorted[i - 1], &sorted[i]) != 0)
            graph->agents[graph->agent_count++].entry = sorted[i]->entry;
        sorted[i]->agent = graph->agent_count - 1;
        struct agent *agent = &graph->agents[sorted[i]->agent];
        agent->holds += !is_waiter(sorted[i]->entry);
        agent->waits += is_waiter(sorted[i]->entry);
    }
    free(sorted);
    return true;
}

/* ---- edges ---------------------------------------------------------------------------------------------------------------- */

static void add_edge(struct builder *builder, const struct lock_seen *lock, const struct claim *waiter, const struct claim *blocker,
                     enum edge_kind kind) {
    struct graph *graph = builder->graph;

    if (waiter->agent == blocker->agent || builder->failed)
        return;
    if (graph->edge_count == graph->edge_room) {
        size_t room = graph->edge_room == 0 ? 64 : graph->edge_room * 2;
        struct edge *edges = reallocarray(graph->edges, room, sizeof edges[0]);

        builder->failed = edges == NULL;
        if (builder->failed)
            return;
        graph->edges = edges;
        graph->edge_room = room;
    }
    graph->edges[graph->edge_count++] = (struct edge){.from = waiter->agent,
                                                      .to = blocker->agent,
                                                      .kind = kind,
                                                      .lock = lock,
                                                      .waiter = waiter->entry,
                                                      .blocker = blocker->entry};
}

static bool conflict(const struct pawl_entry *a, const struct pawl_entry *b) {
    return a->mode != PAWL_SHARED || b->mode != PAWL_SHARED;
}

/* Those ahead that it can't pass: the last one that shares with nobody, and who is between that one and itself. */
static void add_soft_edges(struct builder *builder, const struct lock_seen *lock, const struct claim *claims, size_t waiter,
                           size_t last_alone) {
    size_t first = last_alone != NOBODY ? last_alone : lock->holders;

    if (claims[waiter].entry->mode == PAWL_SHARED) {
        if (last_alone != NOBODY)
            add_edge(builder, lock, &claims[waiter], &claims[last_alone], EDGE_SOFT);
        return;
    }
    for (size_t i = first; i < waiter; i++)
        add_edge(builder, lock, &claims[waiter], &claims[i], EDGE_SOFT);
}

static void add_lock(struct builder *builder, const struct lock_seen *lock, struct claim *claims, void *data) {
    size_t last_alone = NOBODY; /* the last waiter so far that shares with nobody */

    (void)data;
    for (size_t i = lock->holders; i < lock->holders + lock->waiters; i++) {
        size_t most = i == lock->holders || lock->holders < MOST_HOLDERS ? lock->holders : MOST_HOLDERS;

        for (size_t j = 0; j < most; j++)
            if (conflict(claims[j].entry, claims[i].entry))
                add_edge(builder, lock, &claims[i], &claims[j], EDGE_HARD);
        add_soft_edges(builder, lock, claims, i, last_alone);
        if (claims[i].entry->mode != PAWL_SHARED)
            last_alone = i;
    }
}

static const struct agent *find_around(const struct graph *graph, const char *id) {
    size_t low = 0, high = graph->agent_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(graph->agents[middle].entry->agent, id);

        if (order == 0)
            return &graph->agents[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* pawl run A -- ... pawl run B: the outer one holds A until the inner one has ended. */
static void add_nested(struct builder *builder, const struct lock_seen *lock, struct claim *claims, void *data) {
    (void)data;
    for (size_t i = lock->holders; i < lock->holders + lock->waiters; i++) {
        const char *around = claims[i].entry->around;
        const struct agent *outer = around[0] != '\0' ? find_around(builder->graph, around) : NULL;

        if (outer != NULL) {
            struct claim from = {.entry = outer->entry, .agent = (size_t)(outer - builder->graph->agents)};

            add_edge(builder, lock, &from, &claims[i], EDGE_NESTED);
        }
    }
}

/* ---- reduction ------------------------------------------------------------------------------------------------------------ */

struct reduction {
    size_t *left;   /* of each agent: what it waits for */
    bool *released; /* of each nested edge */
    bool changed;
};

static bool gives_way(const struct pawl_entry *entry) {
    return (entry->flags & PAWL_ENTRY_BROKEN) != 0 && entry->remaining_ms >= 0 && entry->remaining_ms != PAWL_FOREVER;
}

/* Can it be granted when all agents who wait for nothing have ended? `first`: before it all have. */
static bool can_go(const struct reduction *reduction, const struct claim *claims, size_t first, size_t waiter) {
    const struct pawl_entry *wanted = claims[waiter].entry;
    uint64_t taken = 0;

    for (size_t i = first; i < waiter; i++) {
        const struct pawl_entry *entry = claims[i].entry;

        if (reduction->left[claims[i].agent] == 0 || claims[i].agent == claims[waiter].agent || !conflict(entry, wanted) ||
            gives_way(entry))
            continue;
        if (wanted->mode != PAWL_PERMITS || is_waiter(entry))
            return false;
        taken += entry->permits;
    }
    return wanted->mode != PAWL_PERMITS || taken + wanted->permits <= wanted->limit;
}

static void reduce_lock(struct builder *builder, const struct lock_seen *lock, struct claim *claims, void *data) {
    struct reduction *reduction = data;
    size_t first = 0;

    (void)builder;
    for (size_t i = 0; i < lock->holders + lock->waiters; i++) {
        while (first < i && reduction->left[claims[first].agent] == 0)
            first++;
        if (i < lock->holders || claims[i].granted || !can_go(reduction, claims, first, i))
            continue;
        claims[i].granted = reduction->changed = true;
        reduction->left[claims[i].agent]--;
    }
}

static void reduce_nested(struct graph *graph, struct reduction *reduction) {
    for (size_t i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].kind == EDGE_NESTED && !reduction->released[i] && reduction->left[graph->edges[i].to] == 0) {
            reduction->released[i] = reduction->changed = true;
            reduction->left[graph->edges[i].from]--;
        }
}

static bool may_be_stuck(const struct graph *graph) {
    for (size_t i = 0; i < graph->agent_count; i++)
        if (graph->agents[i].holds > 0 && graph->agents[i].waits > 0)
            return true;
    return graph->edge_count > 0 && graph->edges[graph->edge_count - 1].kind == EDGE_NESTED;
}

static bool reduce(struct builder *builder) {
    struct graph *graph = builder->graph;
    struct reduction reduction = {.left = calloc(graph->agent_count + 1, sizeof(size_t)),
                                  .released = calloc(graph->edge_count + 1, sizeof(bool))};
    bool good = reduction.left != NULL && reduction.released != NULL;

    for (size_t i = 0; good && i < graph->agent_count; i++)
        reduction.left[i] = graph->agents[i].waits;
    for (size_t i = 0; good && i < graph->edge_count; i++)
        reduction.left[graph->edges[i].from] += graph->edges[i].kind == EDGE_NESTED;
    do {
        reduction.changed = false;
        if (good) {
            for_each_lock(builder, reduce_lock, &reduction);
            reduce_nested(graph, &reduction);
        }
    } while (reduction.changed);
    for (size_t i = 0; good && i < graph->agent_count; i++)
        graph->agents[i].stuck = reduction.left[i] > 0;
    free(reduction.left);
    free(reduction.released);
    return good;
}

/* ---- cycles --------------------------------------------------------------------------------------------------------------- */

/* A walk along the edges of those who are stuck. A step is on the path, or done with: no circle leads through it any more. */
struct walk {
    size_t *order, *starts; /* the edges by where they begin: those of agent a are order[starts[a]] to order[starts[a + 1] - 1] */
    size_t *next;           /* of each agent: the edge to follow */
    size_t *place;          /* of each agent: its place on the path, from 1; 0: not met yet; DONE */
    size_t *path;           /* the edges that were followed: path[i] leads to the agent in place i + 2 */
    size_t length;          /* agents on the path */
};
#define DONE SIZE_MAX

static bool walk_init(struct walk *walk, const struct graph *graph) {
    size_t agents = graph->agent_count;
    size_t *memory = calloc(graph->edge_count + agents * 4 + 2, sizeof memory[0]);

    if (memory == NULL)
        return false;
    *walk = (struct walk){.order = memory, .starts = memory + graph->edge_count};
    walk->next = walk->starts + agents + 2;
    walk->place = walk->next + agents;
    walk->path = walk->place + agents;
    for (size_t i = 0; i < graph->edge_count; i++)
        walk->starts[graph->edges[i].from + 2]++;
    for (size_t i = 2; i < agents + 2; i++)
        walk->starts[i] += walk->starts[i - 1];
    for (size_t i = 0; i < graph->edge_count; i++)
        walk->order[walk->starts[graph->edges[i].from + 1]++] = i;
    memcpy(walk->next, walk->starts, agents * sizeof walk->next[0]);
    return true;
}

/* The edges from that place on the path to its end, and the one that closes the circle. */
static bool add_cycle(struct graph *graph, const struct walk *walk, size_t place, size_t closing) {
    struct cycle *cycles = reallocarray(graph->cycles, graph->cycle_count + 1, sizeof cycles[0]);

    if (cycles == NULL)
        return false;
    graph->cycles = cycles;
    struct cycle *cycle = &cycles[graph->cycle_count];
    *cycle = (struct cycle){.edges = calloc(walk->length - place + 1, sizeof cycle->edges[0])};
    if (cycle->edges == NULL)
        return false;
    for (size_t i = place; i < walk->length; i++)
        cycle->edges[cycle->count++] = walk->path[i - 1];
    cycle->edges[cycle->count++] = closing;
    for (size_t i = 0; i < cycle->count; i++)
        graph->edges[cycle->edges[i]].in_cycle = true;
    graph->cycle_count++;
    return true;
}

/* The next edge of this agent that leads to somebody who is stuck and not done with; DONE: none. */
static size_t next_edge(struct walk *walk, const struct graph *graph, size_t agent) {
    while (walk->next[agent] < walk->starts[agent + 1]) {
        size_t edge = walk->order[walk->next[agent]++], to = graph->edges[edge].to;

        if (graph->agents[to].stuck && walk->place[to] != DONE)
            return edge;
    }
    return DONE;
}

static bool walk_from(struct walk *walk, struct graph *graph, size_t start) {
    size_t agent = start;

    walk->place[start] = walk->length = 1;
    while (walk->length > 0) {
        size_t edge = next_edge(walk, graph, agent), to = edge != DONE ? graph->edges[edge].to : 0;
        size_t back = walk->length - 1; /* as far as the path stays */

        if (edge != DONE && walk->place[to] == 0) {
            walk->path[walk->length - 1] = edge;
            walk->place[to] = ++walk->length;
            agent = to;
            continue;
        }
        if (edge != DONE) {
            if (!add_cycle(graph, walk, walk->place[to], edge))
                return false;
            back = walk->place[to] - 1;
        }
        while (walk->length > back) {
            walk->place[agent] = DONE;
            walk->length--;
            agent = walk->length > 0 ? graph->edges[walk->path[walk->length - 1]].from : 0;
        }
    }
    return true;
}

static bool find_cycles(struct graph *graph) {
    struct walk walk;

    if (!walk_init(&walk, graph))
        return false;
    bool good = true;
    for (size_t i = 0; i < graph->agent_count && good; i++)
        if (graph->agents[i].stuck && walk.place[i] == 0)
            good = walk_from(&walk, graph, i);
    free(walk.order);
    return good;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------ */

static void mark_locks(struct graph *graph) {
    for (size_t i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].in_cycle)
            ((struct lock_seen *)graph->edges[i].lock)->in_cycle = true;
}

static size_t count_entries(const struct look *look) {
    size_t count = 0;

    for (size_t i = 0; i < look->count; i++)
        count += look->places[i].snapshot.count;
    return count;
}

bool graph_build(struct look *look) {
    struct builder builder = {.look = look, .graph = &look->graph};

    builder.claims = calloc(count_entries(look) + 1, sizeof builder.claims[0]);
    if (builder.claims == NULL)
        return false;
    for_each_lock(&builder, note_claims, NULL);
    bool good = find_agents(&builder);
    if (good) {
        for_each_lock(&builder, add_lock, NULL);
        for_each_lock(&builder, add_nested, NULL);
        good = !builder.failed;
    }
    if (good && may_be_stuck(&look->graph))
        good = reduce(&builder) && find_cycles(&look->graph);
    free(builder.claims);
    mark_locks(&look->graph);
    return good;
}

void graph_finish(struct graph *graph) {
    for (size_t i = 0; i < graph->cycle_count; i++)
        free(graph->cycles[i].edges);
    free(graph->cycles);
    free(graph->edges);
    free(graph->agents);
    *graph = (struct graph){0};
}

const char *edge_name(enum edge_kind kind) {
    static const char *const names[] = {[EDGE_HARD] = "hard", [EDGE_SOFT] = "soft", [EDGE_NESTED] = "nested"};

    return names[kind];
}
