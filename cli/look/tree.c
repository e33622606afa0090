/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - who waits for whom, as lines for people. Pure.
 *
 * Each waiter stands once, below the first that keeps it out: a holder, or who is ahead of it. What stands below a process is shown once,
 * too; where it is met again, the line says so. The roots are those who hold and wait for nothing, and who is in a circle.
 */
#include "tree.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 40, PREFIX_SIZE = DEEPEST * 8 + 16 };
#define NONE SIZE_MAX

struct strokes {
    const char *fork, *last, *pipe, *hard, *soft;
};
static const struct strokes drawn = {"├─ ", "└─ ", "│  ", "─>", "╌>"}, typed = {"|- ", "`- ", "|  ", "->", "..>"};

struct planter {
    struct tree *tree;
    const struct look *look;
    const struct strokes *strokes;
    size_t *first, *next; /* of each agent the first edge below it, of each edge the next one below the same agent */
    bool *shown;          /* of each agent: what stands below it */
    bool failed;
};

__attribute__((format(printf, 4, 5))) static void add_line(struct planter *planter, bool in_cycle, const struct lock_seen *lock,
                                                           const char *format, ...) {
    struct tree *tree = planter->tree;
    va_list arguments;

    if (tree->count == tree->room) {
        size_t room = tree->room == 0 ? 64 : tree->room * 2;
        struct tree_line *lines = reallocarray(tree->lines, room, sizeof lines[0]);

        if (lines == NULL) {
            planter->failed = true;
            return;
        }
        tree->lines = lines;
        tree->room = room;
    }
    struct tree_line *line = &tree->lines[tree->count];
    *line = (struct tree_line){.in_cycle = in_cycle, .lock = lock};
    va_start(arguments, format);
    if (vasprintf(&line->text, format, arguments) < 0)
        planter->failed = true;
    else
        tree->count++;
    va_end(arguments);
}

static const char *wait_in_words(char *out, size_t size, const struct pawl_entry *waiter, int64_t time_ms) {
    char words[32];
    int64_t age = age_ms(waiter, time_ms);

    snprintf(out, size, age >= 0 && is_waiter(waiter) ? "  %s" : "%s",
             age >= 0 && is_waiter(waiter) ? duration_in_words(words, sizeof words, age) : "");
    return out;
}

/* ---- circles -------------------------------------------------------------------------------------------------------------- */

/* Of those who wait, the one that has waited least has least to lose: the edge that leads to its hold. */
static const struct edge *cheapest(const struct graph *graph, const struct cycle *cycle) {
    const struct edge *best = NULL;
    int64_t since = INT64_MIN;

    for (size_t i = 0; i < cycle->count; i++) {
        const struct edge *edge = &graph->edges[cycle->edges[i]];
        const struct edge *its_wait = &graph->edges[cycle->edges[(i + 1) % cycle->count]];

        if (edge->kind == EDGE_HARD && edge->blocker->token != 0 && its_wait->waiter->since_ms > since) {
            best = edge;
            since = its_wait->waiter->since_ms;
        }
    }
    return best;
}

/* The name is another program's word, and the line is to be typed as it stands. */
static void add_way_out(struct planter *planter, const struct edge *edge) {
    char word[WORD_SIZE], name[QUOTED_SIZE], url[QUOTED_SIZE];

    shell_quote(name, sizeof name, printable(word, sizeof word, edge->lock->name));
    shell_quote(url, sizeof url, printable(word, sizeof word, edge->lock->place->url));
    add_line(planter, true, edge->lock, "  a way out: pawl break -u %s --token %" PRIu64 " -- %s", url, edge->blocker->token, name);
}

static void add_cycle(struct planter *planter, const struct cycle *cycle) {
    const struct graph *graph = &planter->look->graph;
    char name[256], other[256], lock[256], wait[48];

    add_line(planter, true, NULL, "likely deadlock: %zu processes wait for each other", cycle->count);
    for (size_t i = 0; i < cycle->count; i++) {
        const struct edge *edge = &graph->edges[cycle->edges[i]];
        static const char *const words[][2] = {[EDGE_HARD] = {"waits for", "held by"},
                                               [EDGE_SOFT] = {"waits for", "behind"},
                                               [EDGE_NESTED] = {"does not end before the wait for", "of"}};

        printable(lock, sizeof lock, edge->lock->name);
        who(other, sizeof other, edge->blocker);
        add_line(planter, true, edge->lock, "  %s %s %s, %s %s%s", who(name, sizeof name, edge->waiter), words[edge->kind][0], lock,
                 words[edge->kind][1], other, wait_in_words(wait, sizeof wait, edge->waiter, planter->look->time_ms));
    }
    const struct edge *way_out = cheapest(graph, cycle);
    if (way_out != NULL)
        add_way_out(planter, way_out);
}

/* ---- chains --------------------------------------------------------------------------------------------------------------- */

static void add_below(struct planter *planter, size_t agent, char *prefix, int depth);

static void add_waiter(struct planter *planter, const struct edge *edge, char *prefix, int depth, bool is_last) {
    char name[256], lock[256], wait[48];
    size_t length = strlen(prefix);
    bool has_more = planter->first[edge->from] != NONE, again = has_more && planter->shown[edge->from];
    const char *note = again ? "  (see above)" : depth == DEEPEST && has_more ? "  (and so on)" : "";

    add_line(planter, edge->in_cycle, edge->lock, "%s%s%s %s %s%s%s", prefix,
             is_last ? planter->strokes->last : planter->strokes->fork, printable(lock, sizeof lock, edge->lock->name),
             edge->kind == EDGE_HARD ? planter->strokes->hard : planter->strokes->soft, who(name, sizeof name, edge->waiter),
             wait_in_words(wait, sizeof wait, edge->waiter, planter->look->time_ms), note);
    if (again || depth == DEEPEST)
        return;
    snprintf(prefix + length, PREFIX_SIZE - length, "%s", is_last ? "   " : planter->strokes->pipe);
    add_below(planter, edge->from, prefix, depth + 1);
    prefix[length] = '\0';
}

static void add_below(struct planter *planter, size_t agent, char *prefix, int depth) {
    planter->shown[agent] = true;
    for (size_t edge = planter->first[agent]; edge != NONE; edge = planter->next[edge])
        add_waiter(planter, &planter->look->graph.edges[edge], prefix, depth, planter->next[edge] == NONE);
}

static void add_root(struct planter *planter, size_t index) {
    char name[256], prefix[PREFIX_SIZE] = "";

    if (planter->first[index] == NONE || planter->shown[index])
        return;
    add_line(planter, false, NULL, "%s", who(name, sizeof name, planter->look->graph.agents[index].entry));
    add_below(planter, index, prefix, 0);
}

/* Each waiter's first edge, below the agent that it leads to; from the end, so that they come out in order. */
static void link_edges(struct planter *planter) {
    const struct graph *graph = &planter->look->graph;

    for (size_t i = 0; i < graph->agent_count; i++)
        planter->first[i] = NONE;
    for (size_t i = graph->edge_count; i-- > 0;) {
        const struct edge *edge = &graph->edges[i];

        if (edge->kind == EDGE_NESTED || (i > 0 && graph->edges[i - 1].waiter == edge->waiter))
            continue;
        planter->next[i] = planter->first[edge->to];
        planter->first[edge->to] = i;
    }
}

bool tree_build(struct tree *tree, const struct look *look, bool ascii) {
    const struct graph *graph = &look->graph;
    struct planter planter = {.tree = tree, .look = look, .strokes = ascii ? &typed : &drawn};

    *tree = (struct tree){0};
    planter.first = calloc(graph->agent_count + 1, sizeof planter.first[0]);
    planter.next = calloc(graph->edge_count + 1, sizeof planter.next[0]);
    planter.shown = calloc(graph->agent_count + 1, sizeof planter.shown[0]);
    planter.failed = planter.first == NULL || planter.next == NULL || planter.shown == NULL;
    if (!planter.failed) {
        link_edges(&planter);
        for (size_t i = 0; i < graph->cycle_count; i++)
            add_cycle(&planter, &graph->cycles[i]);
        for (size_t i = 0; i < graph->agent_count; i++)
            if (graph->agents[i].waits == 0)
                add_root(&planter, i);
        for (size_t i = 0; i < graph->cycle_count; i++)
            add_root(&planter, graph->edges[graph->cycles[i].edges[0]].from);
        for (size_t i = 0; i < graph->agent_count; i++)
            add_root(&planter, i);
    }
    free(planter.first);
    free(planter.next);
    free(planter.shown);
    if (planter.failed)
        tree_finish(tree);
    return !planter.failed;
}

void tree_finish(struct tree *tree) {
    for (size_t i = 0; i < tree->count; i++)
        free(tree->lines[i].text);
    free(tree->lines);
    *tree = (struct tree){0};
}
