/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - a whole screen of `pawl top`: two lines of head, a third if there is a likely deadlock, the view, and a line of keys.
 *
 * A view is laid out in full and then cut to the rows that are there, but for the list of locks, which may be long: of that, only what is
 * in sight is laid out (locks.c).
 */
#include "page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../look/tree.h"

/* As many '?' as the character is columns wide, which is never more than its bytes. */
static void make_ascii(char *text) {
    while (*text != '\0') {
        char character[8] = "";
        size_t length = utf8_length(text);

        if (length < 2) {
            text++;
            continue;
        }
        memcpy(character, text, length);
        size_t width = (size_t)columns_of(character);
        memset(text, '?', width);
        memmove(text + width, text + length, strlen(text + length) + 1);
        text += width;
    }
}

void page_add(struct page *page, enum style style, const char *format, ...) {
    char text[4096], safe[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printable(safe, sizeof safe, text);
    cut_to_columns(safe, page->columns);
    if (page->ascii)
        make_ascii(safe);
    if (page->count == page->room) {
        size_t room = page->room == 0 ? 64 : page->room * 2;
        struct page_line *lines = reallocarray(page->lines, room, sizeof lines[0]);

        page->failed |= lines == NULL;
        if (lines == NULL)
            return;
        page->lines = lines;
        page->room = room;
    }
    char *copy = strdup(safe);
    page->failed |= copy == NULL;
    if (copy != NULL)
        page->lines[page->count++] = (struct page_line){.text = copy, .style = style};
}

void page_finish(struct page *page) {
    for (size_t i = 0; i < page->count; i++)
        free(page->lines[i].text);
    free(page->lines);
    page->lines = NULL;
    page->count = page->room = 0;
}

enum style style_of(const struct lock_seen *lock) {
    if (lock->in_cycle || lock->state == LOCK_STOPPED)
        return STYLE_BAD;
    return lock->state == LOCK_SUSPECT || lock->state == LOCK_BROKEN ? STYLE_WARN : STYLE_PLAIN;
}

const struct lock_seen *shown_lock(const struct shown *shown, const struct look *look) {
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < look->places[i].count && strcmp(look->places[i].url, shown->url) == 0; j++)
            if (strcmp(look->places[i].locks[j].name, shown->name) == 0)
                return &look->places[i].locks[j];
    return NULL;
}

/* ---- the head ------------------------------------------------------------------------------------------------------------- */

static void add_count(char *out, size_t size, size_t count, const char *what) {
    size_t used = strlen(out);

    if (count > 0)
        snprintf(out + used, size - used, "  %s %zu", what, count);
}

static void draw_totals(struct page *page, const struct shown *shown, const struct look *look, const struct history *history) {
    struct totals totals = {0};
    char text[512], words[32], clock[16] = "";
    size_t lost = 0;
    time_t seconds = (time_t)(look->time_ms / 1000);
    struct tm local;

    for (size_t i = 0; i < look->count; i++) {
        totals_add(&totals, &look->places[i]);
        lost += history_count(history, look->places[i].url, EVENT_LOST);
    }
    if (localtime_r(&seconds, &local) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    snprintf(text, sizeof text, "%s%s  held %zu  waiting %zu", clock,
             shown->paused  ? " paused"
             : shown->ended ? " end"
                            : "",
             totals.holders, totals.waiters);
    add_count(text, sizeof text, totals_of_state(&totals, LOCK_STOPPED), "stopped");
    add_count(text, sizeof text, totals_of_state(&totals, LOCK_SUSPECT), "suspect");
    add_count(text, sizeof text, lost, "lost");
    add_count(text, sizeof text, totals_of_state(&totals, LOCK_BROKEN), "broken");
    add_count(text, sizeof text, look->graph.cycle_count, "deadlocks");
    if (totals.wait_ms > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "  longest wait %s",
                 duration_in_words(words, sizeof words, totals.wait_ms));
    page_add(page, STYLE_HEAD, "%s", text);
}

static void draw_places(struct page *page, const struct look *look) {
    char text[2048] = "";
    enum style style = STYLE_DIM;

    for (size_t i = 0; i < look->count; i++) {
        const struct place *place = &look->places[i];
        size_t used = strlen(text);

        if (place->code != 0)
            style = STYLE_BAD;
        if (place->code != 0)
            snprintf(text + used, sizeof text - used, "%s%s %s unreachable", used > 0 ? "  " : "", page->ascii ? "!" : "○",
                     place->url);
        else
            snprintf(text + used, sizeof text - used, "%s%s %s %.1f ms", used > 0 ? "  " : "", page->ascii ? "*" : "●", place->url,
                     place->took_ms);
    }
    page_add(page, style, "%s", text);
}

/* The first circle, by its locks. */
static void draw_cycle(struct page *page, const struct look *look) {
    const struct graph *graph = &look->graph;
    const struct lock_seen *last = NULL; /* of a nested edge it is that of the next one */
    char text[1024] = "";

    if (graph->cycle_count == 0)
        return;
    for (size_t i = 0; i < graph->cycles[0].count; i++) {
        const struct lock_seen *lock = graph->edges[graph->cycles[0].edges[i]].lock;
        size_t used = strlen(text);

        if (lock != last)
            snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "", lock->name);
        last = lock;
    }
    page_add(page, STYLE_BAD, "likely deadlock over %s (2 shows it)", text);
}

/* ---- the views ------------------------------------------------------------------------------------------------------------ */

static void draw_waits(struct page *page, const struct look *look) {
    struct tree tree;

    if (!tree_build(&tree, look, page->ascii)) {
        page->failed = true;
        return;
    }
    if (tree.count == 0)
        page_add(page, STYLE_DIM, "nobody waits for anybody");
    for (size_t i = 0; i < tree.count; i++)
        page_add(page, tree.lines[i].in_cycle ? STYLE_BAD : STYLE_PLAIN, "%s", tree.lines[i].text);
    tree_finish(&tree);
}

static void draw_event(struct page *page, const struct event *event) {
    char clock[16] = "", words[32], token[32] = "";
    time_t seconds = (time_t)(event->time_ms / 1000);
    struct tm local;
    bool usual = event->kind == EVENT_TOOK || event->kind == EVENT_WENT || event->kind == EVENT_REACHED;

    if (localtime_r(&seconds, &local) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    if (event->token != 0)
        snprintf(token, sizeof token, "  token %" PRIu64, event->token);
    page_add(page, usual ? STYLE_PLAIN : STYLE_WARN, "%s  %-11s %s  %s%s%s%s", clock, event_name(event->kind),
             event->lock[0] != '\0' ? event->lock : event->url, event->what, token, event->ms > 0 ? "  after " : "",
             event->ms > 0 ? duration_in_words(words, sizeof words, event->ms) : "");
}

static void draw_events(struct page *page, const struct shown *shown, const struct history *history) {
    enum { MOST = 512 };
    const struct event *events[MOST];
    size_t count = history_events(history, NULL, NULL, events, MOST);

    if (count == 0)
        page_add(page, STYLE_DIM, "nothing has happened since this began to look");
    for (size_t i = 0; i < count; i++)
        if (shown->filter[0] == '\0' || strstr(events[i]->lock, shown->filter) != NULL)
            draw_event(page, events[i]);
}

static void draw_health(struct page *page, const struct look *look) {
    static const char *const signs[] = {
        [PAWL_FINDING_GOOD] = "good", [PAWL_FINDING_UNKNOWN] = "unknown", [PAWL_FINDING_WARNING] = "WARNING"};

    for (size_t i = 0; i < look->count; i++) {
        const struct place *place = &look->places[i];
        char words[32];

        page_add(page, STYLE_HEAD, "%s", place->url);
        if (place->code != 0)
            page_add(page, STYLE_BAD, "  %s", place->error);
        else
            page_add(page, STYLE_PLAIN, "  %s  lease %s  %zu locks seen in %.1f ms", place->engine,
                     place->lease_ms == PAWL_FOREVER ? "none" : duration_in_words(words, sizeof words, place->lease_ms),
                     place->count, place->took_ms);
        for (size_t j = 0; j < place->findings.count; j++) {
            const struct pawl_finding *finding = &place->findings.items[j];

            page_add(page, finding->severity == PAWL_FINDING_WARNING ? STYLE_WARN : STYLE_PLAIN, "  %-8s %s",
                     signs[finding->severity], finding->what);
            if (finding->advice[0] != '\0')
                page_add(page, STYLE_DIM, "           -> %s", finding->advice);
        }
    }
}

static void draw_help(struct page *page) {
    static const char *const lines[] = {
        "1 locks   2 who waits for whom   3 events   4 health",
        "Enter     the lock that is selected; Esc goes back",
        "/         show only locks whose name has this in it",
        "s         sort: attention, wait, waiters, held, rate, name",
        "Space     pause        + -   look more or less often",
        "y         copy the command about this lock",
        "b         break a hold (with --allow-break)",
        "q         quit",
        "",
        "cycle: part of a likely deadlock. stopped: a stopped process is in everybody's way.",
        "suspect: less than a third of the lease is left. broken: asked to give up.",
        "foreign: not pawl. ~ before a time: by another host's clock.",
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        page_add(page, STYLE_PLAIN, "%s", lines[i]);
}

/* Of the lines from `first` on, keep those that are in sight. */
static void cut_to_rows(struct page *page, struct shown *shown, size_t first, size_t rows) {
    size_t count = page->count - first;

    if (page->rows == 0)
        return;
    if (shown->offset + rows > count)
        shown->offset = count > rows ? count - rows : 0;
    size_t stay = count - shown->offset < rows ? count - shown->offset : rows;
    for (size_t i = 0; i < count; i++)
        if (i < shown->offset || i >= shown->offset + stay)
            free(page->lines[first + i].text);
    memmove(page->lines + first, page->lines + first + shown->offset, stay * sizeof page->lines[0]);
    page->count = first + stay;
}

static void draw_view(struct page *page, struct shown *shown, const struct look *look, const struct history *history, size_t rows) {
    size_t first = page->count;

    switch (shown->view) {
    case VIEW_LOCKS:
        draw_locks(page, shown, look, history, rows);
        return;
    case VIEW_WAITS:
        draw_waits(page, look);
        break;
    case VIEW_EVENTS:
        draw_events(page, shown, history);
        break;
    case VIEW_HEALTH:
        draw_health(page, look);
        break;
    case VIEW_LOCK:
        draw_lock(page, shown, look, history);
        break;
    case VIEW_HELP:
        draw_help(page);
        break;
    }
    cut_to_rows(page, shown, first, rows);
}

static void draw_last_line(struct page *page, const struct shown *shown) {
    static const char *const sorts[SORTS] = {"attention", "wait", "waiters", "held", "rate", "name"};

    if (shown->prompt != NULL)
        page_add(page, STYLE_HEAD, "%s%s_", shown->prompt, shown->answer);
    else if (shown->message[0] != '\0')
        page_add(page, STYLE_HEAD, "%s", shown->message);
    else if (shown->view == VIEW_LOCK)
        page_add(page, STYLE_DIM, "Esc back  y copy%s  Space pause  ? help  q quit", shown->allow_break ? "  b break" : "");
    else if (shown->filter[0] != '\0')
        page_add(page, STYLE_DIM, "/%s  Esc all  s %s  ? help  q quit", shown->filter, sorts[shown->sort]);
    else
        page_add(page, STYLE_DIM, "1 locks 2 waits 3 events 4 health  ? help  q quit  / filter  s %s  Space pause",
                 sorts[shown->sort]);
}

void page_draw(struct page *page, struct shown *shown, const struct look *look, const struct history *history) {
    page_finish(page);
    draw_totals(page, shown, look, history);
    draw_places(page, look);
    draw_cycle(page, look);
    size_t used = page->count + 1, rows = page->rows > (int)used ? (size_t)page->rows - used : 1;
    draw_view(page, shown, look, history, rows);
    if (page->rows == 0)
        return;
    while (page->count + 1 < (size_t)page->rows && !page->failed)
        page_add(page, STYLE_PLAIN, "%s", "");
    draw_last_line(page, shown);
}
