/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c - pawl status --graph: who waits for whom, as text, for Graphviz, or as JSON.
 */
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/terminal.h"
#include "look/tree.h"

static bool print_text(FILE *out, const struct look *look) {
    struct tree tree;

    if (!tree_build(&tree, look, !is_utf8()))
        return false;
    for (size_t i = 0; i < tree.count; i++)
        fprintf(out, "%s\n", tree.lines[i].text);
    if (tree.count == 0)
        fputs("nobody waits for anybody\n", out);
    tree_finish(&tree);
    return true;
}

/* In quotes, as DOT has it. */
static void dot_string(FILE *out, const char *text) {
    char safe[600];

    fputc('"', out);
    for (printable(safe, sizeof safe, text), text = safe; *text != '\0'; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc('"', out);
}

static void print_dot(FILE *out, const struct look *look) {
    static const char *const styles[] = {[EDGE_HARD] = "solid", [EDGE_SOFT] = "dashed", [EDGE_NESTED] = "dotted"};
    const struct graph *graph = &look->graph;
    char name[256];

    fputs("digraph pawl {\n    rankdir=LR;\n    node [shape=box];\n", out);
    for (size_t i = 0; i < graph->agent_count; i++) {
        fprintf(out, "    a%zu [label=", i);
        dot_string(out, who(name, sizeof name, graph->agents[i].entry));
        fputs("];\n", out);
    }
    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct edge *edge = &graph->edges[i];

        fprintf(out, "    a%zu -> a%zu [style=%s%s,label=", edge->from, edge->to, styles[edge->kind],
                edge->in_cycle ? ",color=red" : "");
        dot_string(out, edge->lock->name);
        fputs("];\n", out);
    }
    fputs("}\n", out);
}

bool print_graph(FILE *out, const struct look *look, enum graph_form form) {
    switch (form) {
    case GRAPH_DOT:
        print_dot(out, look);
        return true;
    case GRAPH_JSON:
        json_graph(out, look);
        fputc('\n', out);
        return true;
    default:
        return print_text(out, look);
    }
}
