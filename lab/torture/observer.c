/* SPDX-License-Identifier: Apache-2.0
 *
 * observer.c - a client that holds nothing: it writes down who waits for what, and breaks a hold when the nemesis asks for it.
 *
 * From outside nobody can tell when an acquire has joined its queue. This can: who is seen waiting, by an entry that was made after its
 * acquire began, is queued; a client that asks after that must come after it.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "dice.h"
#include "rig.h"

enum { PAUSE_MS = 20, FOR_BREAKS = 0x62726b /* its stream */ };

/* A hold that is to be asked back, or was: pawl break without --now. */
struct asked {
    uint64_t token; /* 0: none */
    struct who holder;
};

struct view {
    struct page *page;
    size_t used;
    char text[HISTORY_LINE - 128];
    char name[64]; /* a holder that could be broken */
    uint64_t token;
    struct dice *dice;
    struct asked back, broken;
};

/* Which client is this? False: none of ours. */
static bool find_client(const struct page *page, int64_t pid, int *ret_slot, unsigned *ret_life) {
    for (int i = 0; i < page->clients; i++)
        if (atomic_load(&page->slots[i].pid) == pid) {
            *ret_slot = i;
            *ret_life = atomic_load(&page->slots[i].life);
            return true;
        }
    return false;
}

/* Once is enough: a second break would make up for the first one, should that be lost on its way. */
static void choose_holder(struct view *view, const struct pawl_entry *entry) {
    struct asked asked = {.token = entry->token};

    if (view->page->breaks.share == 0 || !find_client(view->page, entry->pid, &asked.holder.slot, &asked.holder.life))
        return;
    if (entry->flags & PAWL_ENTRY_BROKEN)
        view->broken = asked;
    else if (dice_percent(view->dice, (unsigned)view->page->breaks.share))
        view->back = asked;
}

static int note_entry(const struct pawl_entry *entry, void *data) {
    struct view *view = data;
    int slot;
    unsigned life;

    if (!(entry->flags & PAWL_ENTRY_WAITER)) {
        snprintf(view->name, sizeof view->name, "%s", entry->name);
        view->token = entry->token;
        choose_holder(view, entry);
        return 0;
    }
    if (entry->since_ms <= 0 || entry->since_ms > INT64_MAX / 1000000) /* a server may say anything */
        return 0;
    /* The beginning of the ms in which the entry was made: no more than that is known of it. */
    int64_t since = entry->since_ms * 1000000 - view->page->began_wall;

    if (since < 0 || !find_client(view->page, entry->pid, &slot, &life) || view->used + 64 > sizeof view->text)
        return 0;
    view->used += (size_t)snprintf(view->text + view->used, sizeof view->text - view->used, "%s%d.%u@%" PRId64,
                                   view->used > 0 ? " " : "", slot, life, since);
    return 0;
}

/* False: it could not be written down. */
static bool try_break(const struct history *history, struct pawl *pawl, int lock, const struct view *view) {
    struct page *page = view->page;

    if (view->token == 0 || atomic_load(&page->breaks.wanted) <= atomic_load(&page->breaks.done))
        return true;
    if (!history_append(history, history_now(history), history_rig, RECORD_BROKE, "%d", lock))
        return false;
    if (pawl_break(pawl, view->name, view->token, PAWL_BREAK_NOW, NULL) == 0)
        atomic_fetch_add(&page->breaks.done, 1);
    return true;
}

/* It is sure to have been asked back, and to have been on the servers at `since` or later. */
static bool note_asked(const struct history *history, int lock, const struct asked *asked, int64_t since) {
    return history_append(history, history_now(history), history_rig, RECORD_ASKED_BACK, "%d %d.%u %" PRIu64 " %" PRId64, lock,
                          asked->holder.slot, asked->holder.life, asked->token, since);
}

/* As an operator does it who does not insist. What was asked back before, and is still there, is written down each time that it is seen.
 * `since`: when that was. */
static bool ask_back(const struct history *history, struct pawl *pawl, int lock, const struct view *view, int64_t since) {
    if (view->broken.token > 0 && !note_asked(history, lock, &view->broken, since))
        return false;
    if (view->back.token == 0)
        return true;
    since = history_now(history);
    return pawl_break(pawl, view->page->lock[lock].name, view->back.token, 0, NULL) < 0 ||
           note_asked(history, lock, &view->back, since);
}

/* Where holds are asked back it looks at any moment, also soon after they were granted. */
static int pause_of(const struct page *page, struct dice *dice) {
    return page->breaks.share > 0 ? (int)dice_between(dice, 1, PAUSE_MS) : PAUSE_MS;
}

static volatile sig_atomic_t asked_to_leave;

static void on_term(int number) {
    asked_to_leave = number;
}

int observer_main(struct page *page, const struct history *history) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = page->lease_ms, .label = "observer"};
    struct pawl *pawl = NULL;
    struct dice dice = dice_new(page->seed, FOR_BREAKS);

    /* It writes in the rig's name: it must not be killed while it does. */
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    for (int lock = 0; atomic_load(&page->phase) == PHASE_RUN && asked_to_leave == 0; lock = (lock + 1) % page->locks) {
        struct view view = {.page = page, .dice = &dice};

        if (pawl == NULL && pawl_open(page->direct, &options, &pawl, NULL) < 0)
            pawl = NULL;
        int64_t begin = history_now(history);

        if (pawl != NULL && pawl_inspect(pawl, page->lock[lock].name, note_entry, &view, NULL) == 0) {
            if (view.used > 0 && !history_append(history, history_now(history), history_rig, RECORD_SEEN, "%d %" PRId64 " %s", lock,
                                                 begin, view.text))
                return 1;
            if (!try_break(history, pawl, lock, &view) || !ask_back(history, pawl, lock, &view, begin))
                return 1;
        }
        poll(NULL, 0, pause_of(page, &dice));
    }
    pawl_close(pawl);
    return 0;
}
