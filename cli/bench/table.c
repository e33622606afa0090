/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - pawl bench, for people: a block per row, a line in it per target.
 */
#include <string.h>

#include "bench.h"

enum { COLUMNS = 11, CELL = 96 };

static const char *const titles[COLUMNS] = {"",        "a second", "median",   "[lowest .. highest]", "p99",           "p99.9",
                                            "of bare", "requests", "CPU here", "at the server",       "memory of each"};

struct line {
    char cells[COLUMNS][CELL];
};

static void put_time(char *cell, const struct figure *figure) {
    if (figure->count > 0)
        in_time_units(cell, CELL, figure_median(figure));
}

static void put_spread(char *cell, const struct figure *figures) {
    const struct figure *figure = figures[P50].count > 0 ? &figures[P50] : &figures[RATE];
    char *(*in_words)(char *, size_t, double) = figures[P50].count > 0 ? in_time_units : in_thousands;
    char low[32], high[32];

    if (figure->count > 1)
        snprintf(cell, CELL, "[%s .. %s]", in_words(low, sizeof low, figure_low(figure)),
                 in_words(high, sizeof high, figure_high(figure)));
}

static void put_ratio(char *cell, const struct target *target, enum row row) {
    double ratio = ratio_to_limit(target, row);

    if (row <= ROW_READ)
        snprintf(cell, CELL, "%s", limit_name(target, row));
    else if (ratio > 0)
        snprintf(cell, CELL, "%.2f x %s", ratio, limit_name(target, row));
}

static void put_memory(char *cell, const struct figure *figures) {
    char here[32], server[32];

    if (figures[CLIENT_MEMORY].count == 0)
        return;
    snprintf(cell, CELL, "%sB", in_thousands(here, sizeof here, figure_median(&figures[CLIENT_MEMORY])));
    if (figures[SERVER_MEMORY].count > 0)
        snprintf(cell + strlen(cell), CELL - strlen(cell), " and %sB",
                 in_thousands(server, sizeof server, figure_median(&figures[SERVER_MEMORY])));
}

static void fill(struct line *line, const struct target *target, enum row row) {
    const struct figure *figures = target->results[row].figures;

    memset(line, 0, sizeof *line);
    snprintf(line->cells[0], CELL, "  %.90s", target->shown);
    if (figures[RATE].count > 0)
        in_thousands(line->cells[1], CELL, figure_median(&figures[RATE]));
    put_time(line->cells[2], &figures[P50]);
    put_spread(line->cells[3], figures);
    put_time(line->cells[4], &figures[P99]);
    put_time(line->cells[5], &figures[P999]);
    put_ratio(line->cells[6], target, row);
    if (figures[REQUESTS].count > 0)
        snprintf(line->cells[7], CELL, "%.2f", figure_median(&figures[REQUESTS]));
    put_time(line->cells[8], &figures[CLIENT_CPU]);
    put_time(line->cells[9], &figures[SERVER_CPU]);
    put_memory(line->cells[10], figures);
}

static void widen(int widths[COLUMNS], const struct line *line) {
    for (int i = 0; i < COLUMNS; i++)
        if (columns_of(line->cells[i]) > widths[i])
            widths[i] = columns_of(line->cells[i]);
}

/* Numbers stand to the right, words to the left. */
static void print_line(FILE *out, const int widths[COLUMNS], const struct line *line) {
    int last = COLUMNS - 1;

    while (last > 0 && line->cells[last][0] == '\0')
        last--;
    for (int i = 0; i <= last; i++) {
        bool left = i == 0 || i == 3 || i == 6 || i == 10;
        int blanks = widths[i] - columns_of(line->cells[i]);

        if (left)
            fprintf(out, "%s%*s", line->cells[i], i < last ? blanks : 0, "");
        else
            fprintf(out, "%*s%s", blanks, "", line->cells[i]);
        fputs(i < last ? "  " : "\n", out);
    }
}

static void print_block(FILE *out, const struct bench *bench, enum row row, const int widths[COLUMNS]) {
    struct line line;
    bool said = false;

    for (size_t i = 0; i < bench->count; i++) {
        const struct target *target = &bench->targets[i];
        const char *missing = target->results[row].missing;

        if (!row_is_known(target, row) && missing[0] == '\0')
            continue;
        if (!said)
            fprintf(out, "%s\n", row_descriptions[row].title);
        said = true;
        fill(&line, target, row);
        if (row_is_known(target, row))
            print_line(out, widths, &line);
        if (missing[0] != '\0')
            fprintf(out, "  %s: not measured: %s\n", target->shown, missing);
    }
}

static void print_targets(FILE *out, const struct bench *bench) {
    for (size_t i = 0; i < bench->count; i++) {
        const struct target *target = &bench->targets[i];
        char lease[32];

        fprintf(out, "%s", target->shown);
        if (target->server[0] != '\0')
            fprintf(out, ", %s", target->server);
        if (target->lease_ms != PAWL_FOREVER)
            fprintf(out, ", lease %s", duration_in_words(lease, sizeof lease, target->lease_ms));
        fputc('\n', out);
    }
}

void bench_print_table(FILE *out, const struct bench *bench) {
    int widths[COLUMNS] = {0};
    struct line line = {0};

    for (int i = 0; i < COLUMNS; i++)
        snprintf(line.cells[i], CELL, "%s", titles[i]);
    struct line title = line;
    widen(widths, &title);
    for (enum row row = 0; row < ROWS; row++)
        for (size_t i = 0; i < bench->count; i++) {
            fill(&line, &bench->targets[i], row);
            if (row_is_known(&bench->targets[i], row))
                widen(widths, &line);
        }
    print_targets(out, bench);
    fprintf(out, "medians of %d round%s; requests and CPU are for each turn\n\n", bench->rounds, bench->rounds > 1 ? "s" : "");
    print_line(out, widths, &title);
    for (enum row row = 0; row < ROWS; row++)
        print_block(out, bench, row, widths);
}
