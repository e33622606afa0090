/* SPDX-License-Identifier: Apache-2.0
 *
 * locks.c - the list of locks: sorted, filtered, and as many columns as there is room for. From the left they matter most.
 */
#include "page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 11, CELL_SIZE = 512, NAME_LEAST = 8 };

/* The widest that each may become; the name gets what is left. */
static const struct column {
    const char *title;
    int most;
    bool right;
} columns[COLUMNS] = {
    {"S", 7, false},    {"LOCK", 60, false}, {"WAIT", 5, true},  {"LONGEST", 13, true}, {"HOLDER", 36, false}, {"FOR", 13, true},
    {"LEFT", 8, false}, {"TOKEN", 20, true}, {"KIND", 9, false}, {"RATE", 16, true},    {"LABEL", 40, false},
};
enum { NAME = 1 };

struct row {
    char cells[COLUMNS][CELL_SIZE];
};

const char *lease_bar(char *out, size_t size, const struct lock_seen *lock, bool ascii) {
    enum { CELLS = 8 };
    int64_t lease = lock->holders > 0 ? lock->entries[0].lease_ms : -1;

    if (lock->holders == 0 || lock->left_ms == PAWL_FOREVER)
        return "-";
    if (lock->left_ms < 0 || lease <= 0 || lease == PAWL_FOREVER)
        return lock->left_ms < 0 ? "?" : duration_in_words(out, size, lock->left_ms);
    int64_t full = (lock->left_ms * CELLS + lease / 2) / lease;
    out[0] = '\0';
    for (int i = 0; i < CELLS; i++)
        strcat(out, i < full ? (ascii ? "#" : "▰") : (ascii ? "." : "▱"));
    return out;
}

/* A number, and the last looks as strokes, the highest of which is as high as a line. */
static void describe_rate(char *out, size_t size, const struct lock_past *past, bool ascii) {
    static const char *const strokes[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, *const typed[] = {" ", ".", ".", ":", ":",
                                                                                                          "+", "+", "#", "#"};
    double rate = hand_off_rate(past), cells[RATE_CELLS], highest = 0;

    out[0] = '\0';
    if (rate < 0)
        return;
    hand_off_cells(past, cells);
    for (int i = 0; i < RATE_CELLS; i++)
        highest = cells[i] > highest ? cells[i] : highest;
    snprintf(out, size, rate >= 100 ? "%.0f/s " : "%.2g/s ", rate);
    for (int i = 0; i < RATE_CELLS && highest > 0; i++) {
        int height = cells[i] > 0 ? 1 + (int)(cells[i] / highest * 7) : 0;

        strncat(out, ascii ? typed[height] : strokes[height], size - strlen(out) - 1);
    }
}

/* Another host's clock is not ours. */
static void describe_age(char *out, size_t size, const struct lock_seen *lock) {
    char host[256] = "", words[32];

    gethostname(host, sizeof host - 1);
    out[0] = '\0';
    if (lock->held_ms >= 0)
        snprintf(out, size, "%s%s", strcmp(host, lock->entries[0].host) == 0 ? "" : "~",
                 duration_in_words(words, sizeof words, lock->held_ms));
}

static void describe_holder(char *out, size_t size, const struct lock_seen *lock) {
    out[0] = '\0';
    if (lock->holders == 0)
        return;
    who(out, size, &lock->entries[0]);
    if (lock->holders > 1)
        snprintf(out + strlen(out), size - strlen(out), " +%zu", lock->holders - 1);
}

static void fill_row(struct row *row, const struct page *page, const struct lock_seen *lock, const struct history *history) {
    const struct pawl_entry *first = &lock->entries[0];
    bool sound = !lock->in_cycle && lock->state == LOCK_HELD;
    char bar[64];

    snprintf(row->cells[0], CELL_SIZE, "%s", sound ? "" : lock->in_cycle ? "cycle" : state_name(lock->state));
    if (page->columns < 60)
        row->cells[0][1] = '\0';
    printable(row->cells[NAME], CELL_SIZE, lock->name);
    snprintf(row->cells[2], CELL_SIZE, lock->waiters > 0 ? "%zu" : "", lock->waiters);
    row->cells[3][0] = '\0';
    if (lock->waiters > 0 && lock->wait_ms >= 0)
        duration_in_words(row->cells[3], CELL_SIZE, lock->wait_ms);
    describe_holder(row->cells[4], CELL_SIZE, lock);
    describe_age(row->cells[5], CELL_SIZE, lock);
    snprintf(row->cells[6], CELL_SIZE, "%s", lease_bar(bar, sizeof bar, lock, page->ascii));
    snprintf(row->cells[7], CELL_SIZE, first->token != 0 ? "%" PRIu64 : "", first->token);
    snprintf(row->cells[8], CELL_SIZE, "%s", kind_name(first->kind));
    describe_rate(row->cells[9], CELL_SIZE, history_of(history, lock->place->url, lock->name), page->ascii);
    printable(row->cells[10], CELL_SIZE, first->label);
}

/* ---- how wide each is ----------------------------------------------------------------------------------------------------- */

/* As wide as what is in it, within bounds; then columns are left out from the right until a name has room. Returns how many stay. */
static int choose_widths(int widths[COLUMNS], const struct row *rows, size_t count, int room) {
    int used = 0, stay = COLUMNS;

    for (int i = 0; i < COLUMNS; i++) {
        widths[i] = (int)strlen(columns[i].title);
        for (size_t j = 0; j < count; j++) {
            int width = columns_of(rows[j].cells[i]);

            widths[i] = width > widths[i] ? width : widths[i];
        }
        widths[i] = widths[i] > columns[i].most ? columns[i].most : widths[i];
        used += widths[i] + (i > 0);
    }
    int least = widths[NAME] < NAME_LEAST * 2 ? widths[NAME] : NAME_LEAST * 2;
    while (used - (widths[NAME] - least) > room && stay > NAME + 1) {
        stay--;
        used -= widths[stay] + 1;
    }
    if (used > room)
        widths[NAME] = widths[NAME] - (used - room) > 1 ? widths[NAME] - (used - room) : 1;
    return stay;
}

static void append_cell(char *line, size_t size, const char *cell, int width, bool right) {
    char cut[CELL_SIZE];
    size_t used = strlen(line);

    snprintf(cut, sizeof cut, "%s", cell);
    cut_to_columns(cut, width);
    int pad = width - columns_of(cut);
    snprintf(line + used, size - used, "%*s%s%*s", right ? pad : 0, "", cut, right ? 0 : pad, "");
}

static void add_row(struct page *page, enum style style, const struct row *row, const int widths[COLUMNS], int stay) {
    char line[4096] = "";

    for (int i = 0; i < stay; i++) {
        if (i > 0)
            strcat(line, " ");
        append_cell(line, sizeof line, row->cells[i], widths[i], columns[i].right);
    }
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == ' ')
        line[--length] = '\0';
    page_add(page, style, "%s", line);
}

/* ---- which, and in which order -------------------------------------------------------------------------------------------- */

struct ranked {
    const struct lock_seen *lock;
    double rank; /* the highest first */
    size_t attention;
};

static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;

    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return a->attention < b->attention ? -1 : a->attention > b->attention;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const struct ranked *)left)->lock->name, ((const struct ranked *)right)->lock->name);
}

static double rank_of(const struct lock_seen *lock, enum sort sort, const struct history *history) {
    switch (sort) {
    case SORT_WAIT:
        return (double)lock->wait_ms;
    case SORT_WAITERS:
        return (double)lock->waiters;
    case SORT_HELD:
        return (double)lock->held_ms;
    case SORT_RATE:
        return hand_off_rate(history_of(history, lock->place->url, lock->name));
    default:
        return 0;
    }
}

static struct ranked *choose_locks(const struct shown *shown, const struct look *look, const struct history *history,
                                   size_t *count) {
    size_t total;
    const struct lock_seen **locks = look_by_attention(look, &total);
    struct ranked *ranked = calloc(total + 1, sizeof ranked[0]);

    *count = 0;
    for (size_t i = 0; i < total && ranked != NULL; i++)
        if (shown->filter[0] == '\0' || strstr(locks[i]->name, shown->filter) != NULL)
            ranked[(*count)++] = (struct ranked){locks[i], rank_of(locks[i], shown->sort, history), i};
    free(locks);
    if (ranked != NULL && *count > 1 && shown->sort != SORT_ATTENTION)
        qsort(ranked, *count, sizeof ranked[0], shown->sort == SORT_NAME ? compare_names : compare_ranked);
    return ranked;
}

/* The selection stays with its lock; if that is gone, with its line. */
static void follow_selection(struct shown *shown, const struct ranked *ranked, size_t count, size_t rows) {
    size_t found = count;

    for (size_t i = 0; i < count && found == count; i++)
        if (strcmp(ranked[i].lock->name, shown->name) == 0 && strcmp(ranked[i].lock->place->url, shown->url) == 0)
            found = i;
    if (found < count)
        shown->selected = found;
    else if (shown->selected >= count)
        shown->selected = count > 0 ? count - 1 : 0;
    if (count > 0) {
        snprintf(shown->name, sizeof shown->name, "%s", ranked[shown->selected].lock->name);
        snprintf(shown->url, sizeof shown->url, "%s", ranked[shown->selected].lock->place->url);
    }
    if (shown->selected < shown->offset)
        shown->offset = shown->selected;
    if (shown->selected >= shown->offset + rows)
        shown->offset = shown->selected - rows + 1;
}

static bool was_any_seen(const struct look *look) {
    for (size_t i = 0; i < look->count; i++)
        if (look->places[i].code == 0)
            return true;
    return look->count == 0;
}

static void say_why_empty(struct page *page, const struct shown *shown, const struct look *look) {
    if (!was_any_seen(look)) {
        page_add(page, STYLE_DIM, "what is held and waited for is not known");
        for (size_t i = 0; i < look->count && page->rows > 0; i++) /* without a terminal it is said beside the page */
            page_add(page, STYLE_DIM, "%s", look->places[i].error);
    } else if (shown->filter[0] != '\0') {
        page_add(page, STYLE_DIM, "no lock has '%s' in its name", shown->filter);
    } else {
        page_add(page, STYLE_DIM, "no lock is held or waited for");
    }
}

void draw_locks(struct page *page, struct shown *shown, const struct look *look, const struct history *history, size_t rows) {
    size_t count, in_sight = rows > 1 ? rows - 1 : 1;
    struct ranked *ranked = choose_locks(shown, look, history, &count);
    struct row title;
    int widths[COLUMNS];

    if (page->rows == 0)
        in_sight = count;
    if (ranked != NULL)
        follow_selection(shown, ranked, count, in_sight > 0 ? in_sight : 1);
    if (shown->offset + in_sight > count)
        shown->offset = count > in_sight ? count - in_sight : 0;
    size_t stay = count - shown->offset < in_sight ? count - shown->offset : in_sight;
    struct row *cells = calloc(stay + 1, sizeof cells[0]);
    if (ranked == NULL || cells == NULL) {
        page->failed = true;
        free(ranked);
        free(cells);
        return;
    }
    for (size_t i = 0; i < stay; i++)
        fill_row(&cells[i], page, ranked[shown->offset + i].lock, history);
    for (int i = 0; i < COLUMNS; i++)
        snprintf(title.cells[i], CELL_SIZE, "%s", columns[i].title);
    int kept = choose_widths(widths, cells, stay, page->columns);
    if (count > 0)
        add_row(page, STYLE_DIM, &title, widths, kept);
    else
        say_why_empty(page, shown, look);
    for (size_t i = 0; i < stay; i++) {
        size_t line = page->count;

        add_row(page, style_of(ranked[shown->offset + i].lock), &cells[i], widths, kept);
        if (page->count > line)
            page->lines[line].selected = page->rows > 0 && shown->offset + i == shown->selected;
    }
    free(ranked);
    free(cells);
}
