/* SPDX-License-Identifier: Apache-2.0
 *
 * page.h - what `pawl top` shows, as lines with a style each: the same for a terminal (paint.h) and for --once. Pure.
 */
#ifndef PAWL_CLI_PAGE_H
#define PAWL_CLI_PAGE_H

#include "../look/history.h"

enum style {
    STYLE_PLAIN,
    STYLE_HEAD,
    STYLE_DIM,
    STYLE_WARN,
    STYLE_BAD,
    STYLES,
};

struct page_line {
    char *text; /* no wider than the page */
    enum style style;
    bool selected;
};

struct page {
    int columns, rows; /* rows 0: as many as it takes */
    bool ascii;
    struct page_line *lines;
    size_t count, room;
    bool failed; /* out of memory */
};

/* A line; what is not printable is '?', and without UTF-8 so is what is not ASCII. */
__attribute__((format(printf, 3, 4))) void page_add(struct page *page, enum style style, const char *format, ...);
void page_finish(struct page *page);

enum view {
    VIEW_LOCKS,
    VIEW_WAITS,
    VIEW_EVENTS,
    VIEW_HEALTH,
    VIEW_LOCK,
    VIEW_HELP,
};

enum sort {
    SORT_ATTENTION,
    SORT_WAIT,
    SORT_WAITERS,
    SORT_HELD,
    SORT_RATE,
    SORT_NAME,
    SORTS,
};

/* What the user has chosen. */
struct shown {
    enum view view, from; /* `from`: where Esc leads */
    enum sort sort;
    char filter[64];
    size_t selected, offset;  /* of the lines of the view */
    char url[512], name[260]; /* the lock that is selected, or open */
    bool paused, ended, allow_break;
    int64_t interval_ms;
    const char *prompt; /* NULL: no question is asked */
    char answer[64];
    char message[1024]; /* for the last line; "": its keys */
};

/* Lay out all of it; `shown` is brought in step with what there is: the selection stays with its lock. */
void page_draw(struct page *page, struct shown *shown, const struct look *look, const struct history *history);
/* The lock that is selected or open; NULL: none, or it is gone. */
const struct lock_seen *shown_lock(const struct shown *shown, const struct look *look);

/* ---- for the parts of it -------------------------------------------------------------------------------------------------- */

/* locks.c, one_lock.c */
void draw_locks(struct page *page, struct shown *shown, const struct look *look, const struct history *history, size_t rows);
void draw_lock(struct page *page, const struct shown *shown, const struct look *look, const struct history *history);
/* Eight cells: what is left of a lease. */
const char *lease_bar(char *out, size_t size, const struct lock_seen *lock, bool ascii);
enum style style_of(const struct lock_seen *lock);

#endif
