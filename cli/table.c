/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - pawl status, for people: one line per holder and waiter, columns as wide as what is in them.
 *
 * The name of the lock stands in every line, so that grep finds it.
 */
#include "status.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 10, CELL_SIZE = 512 };

static const char *const titles[COLUMNS] = {"LOCK", "STATE", "TOKEN", "MODE", "HOST", "PID", "COMMAND", "FOR", "LEFT", "LABEL"};

struct row {
    char cells[COLUMNS][CELL_SIZE];
};

static const char *or_unknown(const char *text) {
    return text[0] != '\0' ? text : "?";
}

static void describe_state(char *out, size_t size, const struct pawl_entry *entry) {
    const char *note = "";

    if (entry->flags & PAWL_ENTRY_STOPPED)
        note = ", STOPPED";
    else if (entry->flags & PAWL_ENTRY_BROKEN)
        note = ", broken";
    else if (is_gone(entry))
        note = ", pid gone";
    else if (entry->flags & PAWL_ENTRY_FOREIGN)
        note = ", foreign";
    else if (entry->flags & PAWL_ENTRY_KEEPS)
        note = ", keeps";
    if (is_waiter(entry))
        snprintf(out, size, "waits %u%s", entry->position, note);
    else
        snprintf(out, size, "holds%s", note);
}

static void describe_mode(char *out, size_t size, const struct pawl_entry *entry) {
    if (entry->kind == PAWL_SEMAPHORE)
        snprintf(out, size, "%u of %u", entry->permits, entry->limit);
    else
        snprintf(out, size, "%s", entry->kind == PAWL_MUTEX ? "mutex" : mode_name(entry->mode));
}

/* Another host's clock is not ours: what is told from it is about right. */
static void describe_age(char *out, size_t size, const struct pawl_entry *entry) {
    char host[256] = "", words[32];

    gethostname(host, sizeof host - 1);
    if (entry->since_ms == 0)
        snprintf(out, size, "?");
    else
        snprintf(out, size, "%s%s", strcmp(host, entry->host) == 0 ? "" : "~",
                 duration_in_words(words, sizeof words, wall_ms() - entry->since_ms));
}

static void describe_left(char *out, size_t size, const struct pawl_entry *entry, const struct place *place) {
    if (is_endless(entry, place->lease_ms))
        snprintf(out, size, "no end");
    else if (is_waiter(entry) || entry->remaining_ms == PAWL_FOREVER)
        snprintf(out, size, "-");
    else if (entry->remaining_ms < 0)
        snprintf(out, size, "?");
    else
        duration_in_words(out, size, entry->remaining_ms);
}

static void fill_row(struct row *row, const struct pawl_entry *entry, const struct place *place) {
    printable(row->cells[0], CELL_SIZE, entry->name);
    describe_state(row->cells[1], CELL_SIZE, entry);
    snprintf(row->cells[2], CELL_SIZE, entry->token != 0 ? "%" PRIu64 : "-", entry->token);
    describe_mode(row->cells[3], CELL_SIZE, entry);
    printable(row->cells[4], CELL_SIZE, or_unknown(entry->host));
    snprintf(row->cells[5], CELL_SIZE, entry->pid != 0 ? "%" PRId64 : "?", entry->pid);
    printable(row->cells[6], CELL_SIZE, or_unknown(entry->command));
    describe_age(row->cells[7], CELL_SIZE, entry);
    describe_left(row->cells[8], CELL_SIZE, entry, place);
    printable(row->cells[9], CELL_SIZE, entry->label);
}

static void widen(int widths[COLUMNS], const struct row *row) {
    for (int i = 0; i < COLUMNS; i++) {
        int width = columns_of(row->cells[i]);

        if (width > widths[i])
            widths[i] = width;
    }
}

static void print_row(FILE *out, const int widths[COLUMNS], const struct row *row) {
    int last = COLUMNS - 1;

    while (last > 0 && row->cells[last][0] == '\0')
        last--;
    for (int i = 0; i < last; i++)
        fprintf(out, "%s%*s", row->cells[i], widths[i] - columns_of(row->cells[i]) + 2, "");
    fprintf(out, "%s\n", row->cells[last]);
}

static void print_nothing(FILE *out, const struct status_view *view) {
    if (view->name != NULL)
        fprintf(out, "'%s' is free: nobody holds it or waits for it at %s\n", view->name, view->place->url);
    else
        fprintf(out, "no lock is held or waited for at %s\n", view->place->url);
}

void print_table(FILE *out, const struct status_view *view) {
    const struct snapshot *snapshot = &view->place->snapshot;
    int widths[COLUMNS] = {0};
    struct row row;

    if (snapshot->count == 0) {
        print_nothing(out, view);
        return;
    }
    fprintf(out, "%s\n", view->place->url);
    for (int i = 0; i < COLUMNS; i++)
        snprintf(row.cells[i], CELL_SIZE, "%s", titles[i]);
    widen(widths, &row);
    struct row title = row;
    for (size_t i = 0; i < snapshot->count; i++) {
        fill_row(&row, &snapshot->entries[i], view->place);
        widen(widths, &row);
    }
    print_row(out, widths, &title);
    for (size_t i = 0; i < snapshot->count; i++) {
        fill_row(&row, &snapshot->entries[i], view->place);
        print_row(out, widths, &row);
    }
}

static void print_indented(FILE *out, const char *text) {
    while (*text != '\0') {
        char line[CELL_SIZE * 8], safe[CELL_SIZE * 8];
        size_t length = strcspn(text, "\n");

        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        fprintf(out, "    %s\n", printable(safe, sizeof safe, line));
        text += length + (text[length] == '\n');
    }
}

void print_raw(FILE *out, const struct status_view *view) {
    const struct snapshot *snapshot = &view->place->snapshot;
    char name[CELL_SIZE], state[64];

    if (snapshot->count == 0)
        print_nothing(out, view);
    else
        fprintf(out, "%s\n", view->place->url);
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct pawl_entry *entry = &snapshot->entries[i];

        describe_state(state, sizeof state, entry);
        fprintf(out, "%s  %s\n", printable(name, sizeof name, entry->name), state);
        print_indented(out, entry->raw);
    }
}
