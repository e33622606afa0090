/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.c - see oracle.h. A table is known by its head; a row ends at the end of its line; a table at the first line without '|'.
 */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 5 };

struct cell {
    const char *text;
    size_t length;
};

static bool is(struct cell cell, const char *word) {
    return strlen(word) == cell.length && memcmp(cell.text, word, cell.length) == 0;
}

/* The cells of the line at `text`; how many. Blanks around them don't count. */
static int split(const char *text, struct cell cells[CELLS]) {
    size_t length = strcspn(text, "\n");
    const char *at = text, *end = text + length;
    int count = 0;

    while (at < end && *at == '|' && count < CELLS) {
        const char *bar = memchr(at + 1, '|', (size_t)(end - at - 1));

        if (bar == NULL)
            break;
        cells[count] = (struct cell){at + 1, (size_t)(bar - at - 1)};
        while (cells[count].length > 0 && *cells[count].text == ' ')
            cells[count].text++, cells[count].length--;
        while (cells[count].length > 0 && cells[count].text[cells[count].length - 1] == ' ')
            cells[count].length--;
        count++;
        at = bar;
    }
    return count;
}

static const char *next_line(const char *text) {
    const char *newline = strchr(text, '\n');

    return newline != NULL ? newline + 1 : text + strlen(text);
}

/* The first row below a head that begins with these cells; NULL: there is no such table. */
static const char *table(const char *text, const char *const head[], int columns) {
    struct cell cells[CELLS];

    for (; *text != '\0'; text = next_line(text)) {
        bool same = split(text, cells) == columns;

        for (int i = 0; same && i < columns; i++)
            same = is(cells[i], head[i]);
        if (same)
            return next_line(next_line(text));
    }
    return NULL;
}

static int choose(struct cell cell, const char *const words[], int count) {
    for (int i = 0; i < count; i++)
        if (is(cell, words[i]))
            return i;
    return -1;
}

static bool fail(char *why, size_t size, const char *what, struct cell cell) {
    snprintf(why, size, "%s '%.*s'", what, (int)cell.length, cell.text);
    return false;
}

static bool read_promise(const struct cell cells[CELLS], struct oracle *oracle, char *why, size_t size) {
    static const char *const promises[] = {"EXCLUSIVE", "FENCED", "LOSS"};
    static const char *const tolds[] = {"-", "now", "renewal", "lease", "resume"};
    enum fault fault = fault_find(cells[1].text, cells[1].length);
    int promise = choose(cells[2], promises, 3), told = choose(cells[3], tolds, 5);

    if (promise < 0)
        return fail(why, size, "there is no oracle", cells[2]);
    if (told < 0)
        return fail(why, size, "there is no bound", cells[3]);
    /* Some faults are others' to cause: a reboot, for one. */
    if (fault == FAULT_KINDS)
        return true;
    oracle->faults[fault].known = true;
    oracle->faults[fault].promise = (enum promise)promise;
    oracle->faults[fault].told = (enum told)told;
    return true;
}

/* "10 s", or "2 leases + 10 s". */
static bool read_bound(struct cell cell, struct bound *ret) {
    char text[64];
    int leases = 0, seconds = 0, used = 0;

    if (cell.length >= sizeof text)
        return false;
    memcpy(text, cell.text, cell.length);
    text[cell.length] = '\0';
    *ret = (struct bound){0};
    if (sscanf(text, "%d lease%*[s] + %d s%n", &leases, &seconds, &used) != 2 &&
        sscanf(text, "%d lease + %d s%n", &leases, &seconds, &used) != 2) {
        leases = 0;
        if (sscanf(text, "%d s%n", &seconds, &used) != 1)
            return false;
    }
    *ret = (struct bound){.leases = leases, .ms = (int64_t)seconds * 1000};
    return (size_t)used == cell.length && leases >= 0 && seconds >= 0;
}

/* "none client-kill": without faults, and under these. "-": nowhere. */
static bool read_order(struct cell cell, struct oracle *oracle) {
    const char *at = cell.text, *end = cell.text + cell.length;

    while (!is(cell, "-") && at < end) {
        size_t length = 0;

        while (at + length < end && at[length] != ' ')
            length++;
        enum fault fault = fault_find(at, length);

        if (fault != FAULT_KINDS)
            oracle->faults[fault].ordered = true;
        else if (is((struct cell){at, length}, "none"))
            oracle->ordered = true;
        else
            return false;
        at += length + (at + length < end);
    }
    return true;
}

static bool read_progress(const char *text, const char *engine, struct oracle *ret, char *why, size_t size) {
    static const char *const head[] = {"engine", "order is kept", "idle", "after a fault"};
    struct cell cells[CELLS];

    for (const char *row = table(text, head, 4); row != NULL && *row == '|'; row = next_line(row))
        if (split(row, cells) == 4 && is(cells[0], engine)) {
            if (!read_order(cells[1], ret))
                return fail(why, size, "not a list of faults:", cells[1]);
            if (!read_bound(cells[2], &ret->idle))
                return fail(why, size, "not a time:", cells[2]);
            return read_bound(cells[3], &ret->mend) || fail(why, size, "not a time:", cells[3]);
        }
    snprintf(why, size, "'%s' has no row that says how long a lock may be free while somebody waits", engine);
    return false;
}

bool oracle_read(const char *text, const char *engine, struct oracle *ret, char *ret_why, size_t size) {
    static const char *const head[] = {"engine", "fault", "oracle", "bound", "test"};
    struct cell cells[CELLS];
    bool found = false;

    *ret = (struct oracle){0};
    for (const char *row = table(text, head, CELLS); row != NULL && *row == '|'; row = next_line(row))
        if (split(row, cells) == CELLS && is(cells[0], engine)) {
            found = true;
            if (!read_promise(cells, ret, ret_why, size))
                return false;
        }
    if (!found) {
        snprintf(ret_why, size, "the table of guarantees has no engine '%s'", engine);
        return false;
    }
    return read_progress(text, engine, ret, ret_why, size);
}
