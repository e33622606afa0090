/* SPDX-License-Identifier: Apache-2.0
 *
 * one_lock.c - one lock: its holders, its queue, its last holds as strokes in time, its events, and what is stored.
 */
#include "page.h"

#include <inttypes.h>
#include <string.h>

static void draw_entry(struct page *page, const struct pawl_entry *entry, int64_t time_ms) {
    char name[256], age[32] = "?", left[32] = "", token[32] = "", mode[32] = "", place[16] = "";
    int64_t ms = age_ms(entry, time_ms);

    if (ms >= 0)
        duration_in_words(age, sizeof age, ms);
    if (is_waiter(entry))
        snprintf(place, sizeof place, "%3u  ", entry->position);
    else
        snprintf(token, sizeof token, "  token %" PRIu64, entry->token);
    if (!is_waiter(entry) && entry->remaining_ms >= 0 && entry->remaining_ms != PAWL_FOREVER)
        duration_in_words(left, sizeof left, entry->remaining_ms);
    if (entry->kind == PAWL_SEMAPHORE)
        snprintf(mode, sizeof mode, "  %u of %u", entry->permits, entry->limit);
    else if (entry->kind == PAWL_RWLOCK)
        snprintf(mode, sizeof mode, "  %s", mode_name(entry->mode));
    page_add(page,
             is_suspect(entry, time_ms) || (entry->flags & (PAWL_ENTRY_BROKEN | PAWL_ENTRY_STOPPED)) ? STYLE_WARN : STYLE_PLAIN,
             "  %s%s  %s %s%s%s%s%s%s%s%s%s", place, who(name, sizeof name, entry), is_waiter(entry) ? "waits" : "for", age, token,
             mode, left[0] != '\0' ? "  left " : "", left, entry->flags & PAWL_ENTRY_STOPPED ? "  STOPPED" : "",
             entry->flags & PAWL_ENTRY_BROKEN ? "  broken" : "", entry->label[0] != '\0' ? "  " : "", entry->label);
}

static void draw_entries(struct page *page, const struct lock_seen *lock, int64_t time_ms) {
    page_add(page, STYLE_DIM, "%s", lock->holders > 0 ? "holds" : "nobody holds it");
    for (size_t i = 0; i < lock->holders; i++)
        draw_entry(page, &lock->entries[i], time_ms);
    page_add(page, STYLE_DIM, "%s", lock->waiters > 0 ? "waits" : "nobody waits");
    for (size_t i = lock->holders; i < lock->holders + lock->waiters; i++)
        draw_entry(page, &lock->entries[i], time_ms);
}

/* ---- the last holds ------------------------------------------------------------------------------------------------------- */

/* One hold as a stroke, from its beginning to its end, between the left edge (`from`) and now. */
static void draw_stroke(struct page *page, const struct hold_seen *hold, int64_t from, int64_t now, int width) {
    char bar[1024] = "", name[sizeof hold->who];
    int64_t span = now > from ? now - from : 1, end = hold->to_ms != 0 ? hold->to_ms : now;
    int first = (int)((hold->from_ms > from ? hold->from_ms - from : 0) * width / span), last = (int)((end - from) * width / span);

    for (int i = 0; i < width; i++)
        strcat(bar, i >= first && (i < last || i == first) ? (page->ascii ? "=" : "━") : (page->ascii ? "." : "·"));
    snprintf(name, sizeof name, "%s", hold->who);
    cut_to_columns(name, 20);
    page_add(page, hold->to_ms != 0 && hold->end != EVENT_WENT ? STYLE_WARN : STYLE_PLAIN, "  %s%*s %s %s", name,
             20 - columns_of(name), "", bar, hold->to_ms == 0 ? "holds" : event_name(hold->end));
}

static void draw_holds(struct page *page, const struct lock_past *past, int64_t now) {
    enum { MOST = 10, WIDEST = 200 };
    size_t count = past != NULL ? past->hold_count : 0, first = count > MOST ? count - MOST : 0;
    int width = page->columns - 32;
    char words[32];

    if (count == 0)
        return;
    width = width < 8 ? 8 : width > WIDEST ? WIDEST : width;
    int64_t from = past->holds[first].from_ms;
    page_add(page, STYLE_DIM, "its last holds, over %s", duration_in_words(words, sizeof words, now - from));
    for (size_t i = first; i < count; i++)
        draw_stroke(page, &past->holds[i], from, now, width);
}

/* ---- what is stored ------------------------------------------------------------------------------------------------------- */

static void draw_raw(struct page *page, const struct lock_seen *lock) {
    page_add(page, STYLE_DIM, "as it is stored");
    for (size_t i = 0; i < lock->holders + lock->waiters; i++)
        for (const char *text = lock->entries[i].raw; *text != '\0';) {
            size_t length = strcspn(text, "\n");

            page_add(page, STYLE_PLAIN, "  %.*s", (int)length, text);
            text += length + (text[length] == '\n');
        }
}

void draw_lock(struct page *page, const struct shown *shown, const struct look *look, const struct history *history) {
    const struct lock_seen *lock = shown_lock(shown, look);
    const struct lock_past *past = history_of(history, shown->url, shown->name);
    char bar[64];

    if (lock == NULL) {
        page_add(page, STYLE_HEAD, "%s  free  at %s", shown->name, shown->url);
    } else {
        page_add(page, style_of(lock) == STYLE_PLAIN ? STYLE_HEAD : style_of(lock), "%s  %s%s  %s  lease %s", lock->name,
                 state_name(lock->state), lock->in_cycle ? ", in a likely deadlock" : "", kind_name(lock->entries[0].kind),
                 lease_bar(bar, sizeof bar, lock, page->ascii));
        page_add(page, STYLE_DIM, "at %s", shown->url);
        draw_entries(page, lock, look->time_ms);
    }
    draw_holds(page, past, look->time_ms);
    if (lock != NULL)
        draw_raw(page, lock);
}
