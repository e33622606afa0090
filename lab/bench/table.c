/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - pawl bench, for people: two tables, of speed and of load; in each a block per row, a line in it per target. Targets have
 * numbers, since their URLs are long.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { COLUMNS = 9, CELL = 96 };

struct line {
    char cells[COLUMNS][CELL];
};

struct layout {
    struct line titles;
    bool to_the_left[COLUMNS]; /* words; numbers stand to the right */
    enum measure first, last;  /* a row is in it that has one of these */
    void (*fill)(struct line *line, const struct target *target, enum row row);
    bool tells_missing;
};

typedef char *in_words(char *out, size_t size, double value);

static char *as_it_is(char *out, size_t size, double value) {
    snprintf(out, size, "%.2f", value);
    return out;
}

static char *in_bytes(char *out, size_t size, double value) {
    in_thousands(out, size, value);
    snprintf(out + strlen(out), size - strlen(out), "%sB", value < 999.5 ? " " : "");
    return out;
}

static void put(char *cell, const struct figure *figure, in_words *words) {
    if (figure->count > 0)
        words(cell, CELL, figure_median(figure));
}

/* The median, and in the next cell from the lowest to the highest. */
static void put_with_spread(char cells[][CELL], const struct figure *figure, in_words *words) {
    char low[32], high[32];

    put(cells[0], figure, words);
    if (figure->count > 1)
        snprintf(cells[1], CELL, "[%s .. %s]", words(low, sizeof low, figure_low(figure)),
                 words(high, sizeof high, figure_high(figure)));
}

static void put_ratio(char *cell, const struct target *target, enum row row) {
    double ratio = ratio_to_limit(target, row);

    if (row_is_bare(row))
        snprintf(cell, CELL, "%s", limit_name(target, row));
    else if (ratio > 0)
        snprintf(cell, CELL, "%.2f x %s", ratio, limit_name(target, row));
}

static void fill_speed(struct line *line, const struct target *target, enum row row) {
    const struct figure *figures = target->results[row].figures;

    put_with_spread(&line->cells[1], &figures[RATE], in_thousands);
    put_with_spread(&line->cells[3], &figures[P50], in_time_units);
    put(line->cells[5], &figures[P99], in_time_units);
    put(line->cells[6], &figures[P999], in_time_units);
    put(line->cells[7], &figures[LONGEST], in_time_units);
    put_ratio(line->cells[8], target, row);
}

static void fill_load(struct line *line, const struct target *target, enum row row) {
    const struct figure *figures = target->results[row].figures;

    put_with_spread(&line->cells[1], &figures[REQUESTS], as_it_is);
    put_with_spread(&line->cells[3], &figures[CLIENT_CPU], in_time_units);
    put_with_spread(&line->cells[5], &figures[SERVER_CPU], in_time_units);
    put(line->cells[7], &figures[CLIENT_MEMORY], in_bytes);
    put(line->cells[8], &figures[SERVER_MEMORY], in_bytes);
}

static const struct layout layouts[] = {
    {
        .titles.cells = {"Speed", "a second", "", "median", "", "p99", "p99.9", "longest", "of bare"},
        .to_the_left = {true, false, true, false, true, false, false, false, true},
        .first = RATE,
        .last = LONGEST,
        .fill = fill_speed,
        .tells_missing = true,
    },
    {
        .titles.cells = {"Load", "requests", "", "CPU here", "", "there", "", "memory here", "there"},
        .to_the_left = {true, false, true, false, true, false, true},
        .first = REQUESTS,
        .last = SERVER_MEMORY,
        .fill = fill_load,
    },
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static bool is_in(const struct layout *layout, const struct target *target, enum row row) {
    for (enum measure measure = layout->first; measure <= layout->last; measure++)
        if (target->results[row].figures[measure].count > 0)
            return true;
    return false;
}

static void fill(struct line *line, const struct layout *layout, const struct bench *bench, size_t target, enum row row) {
    memset(line, 0, sizeof *line);
    snprintf(line->cells[0], CELL, "  %zu %s", target + 1, bench->targets[target].engine);
    layout->fill(line, &bench->targets[target], row);
}

static void widen(int widths[COLUMNS], const struct line *line) {
    for (int i = 0; i < COLUMNS; i++)
        if (columns_of(line->cells[i]) > widths[i])
            widths[i] = columns_of(line->cells[i]);
}

static void measure_widths(const struct layout *layout, const struct bench *bench, int widths[COLUMNS]) {
    struct line line;

    widen(widths, &layout->titles);
    for (enum row row = 0; row < ROWS; row++)
        for (size_t i = 0; i < bench->count; i++)
            if (is_in(layout, &bench->targets[i], row)) {
                fill(&line, layout, bench, i, row);
                widen(widths, &line);
            }
}

static void print_line(FILE *out, const struct layout *layout, const int widths[COLUMNS], const struct line *line) {
    int last = COLUMNS - 1;

    while (last > 0 && (line->cells[last][0] == '\0' || widths[last] == 0))
        last--;
    for (int i = 0; i <= last; i++) {
        int blanks = widths[i] - columns_of(line->cells[i]);

        if (widths[i] == 0)
            continue;
        if (layout->to_the_left[i])
            fprintf(out, "%s%*s", line->cells[i], i < last ? blanks : 0, "");
        else
            fprintf(out, "%*s%s", blanks, "", line->cells[i]);
        fputs(i < last ? "  " : "\n", out);
    }
}

static void print_block(FILE *out, const struct layout *layout, const struct bench *bench, enum row row,
                        const int widths[COLUMNS]) {
    struct line line;
    bool said = false;

    for (size_t i = 0; i < bench->count; i++) {
        const struct target *target = &bench->targets[i];
        const char *missing = layout->tells_missing ? target->results[row].missing : "";
        bool known = is_in(layout, target, row);

        if (!known && missing[0] == '\0')
            continue;
        if (!said)
            fprintf(out, "%s\n", row_descriptions[row].title);
        said = true;
        fill(&line, layout, bench, i, row);
        if (known)
            print_line(out, layout, widths, &line);
        if (missing[0] != '\0')
            fprintf(out, "%s  not measured: %s\n", line.cells[0], missing);
    }
}

static int total_width(const int widths[COLUMNS]) {
    int total = -2;

    for (int i = 0; i < COLUMNS; i++)
        total += widths[i] > 0 ? widths[i] + 2 : 0;
    return total;
}

/* A terminal that is too narrow gets the spread of fewer figures, from the left, and is told so: lines that wrap can't be read. */
static void fit(FILE *out, const struct layout *layout, int widths[COLUMNS]) {
    int room = isatty(fileno(out)) ? terminal_columns(fileno(out)) : INT_MAX, wanted = total_width(widths);

    for (int i = 0; i < COLUMNS && total_width(widths) > room; i++)
        if (i > 0 && layout->titles.cells[i][0] == '\0')
            widths[i] = 0;
    if (total_width(widths) < wanted)
        fprintf(out, "(some brackets are left out: they need %d columns; --json has them)\n", wanted);
}

static void print_layout(FILE *out, const struct layout *layout, const struct bench *bench) {
    int widths[COLUMNS] = {0};

    measure_widths(layout, bench, widths);
    fputc('\n', out);
    fit(out, layout, widths);
    print_line(out, layout, widths, &layout->titles);
    for (enum row row = 0; row < ROWS; row++)
        print_block(out, layout, bench, row, widths);
}

static void print_targets(FILE *out, const struct bench *bench) {
    for (size_t i = 0; i < bench->count; i++) {
        const struct target *target = &bench->targets[i];
        char lease[32];

        fprintf(out, "%zu %s", i + 1, target->shown);
        if (target->server[0] != '\0')
            fprintf(out, ", %s", target->server);
        if (target->lease_ms != PAWL_FOREVER)
            fprintf(out, ", lease %s", duration_in_words(lease, sizeof lease, target->lease_ms));
        fputc('\n', out);
    }
}

void bench_print_table(FILE *out, const struct bench *bench) {
    print_targets(out, bench);
    if (bench->rounds > 1)
        fprintf(out, "medians of %d rounds, with the lowest and the highest in brackets\n", bench->rounds);
    fputs("requests and CPU are for each turn, of held locks for each second;\n"
          "memory is of one client, and of all servers here\n",
          out);
    for (int i = 0; i < LAYOUTS; i++)
        print_layout(out, &layouts[i], bench);
}
