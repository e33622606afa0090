/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - see watch.h.
 *
 * What is told may be old when it comes, and states may be skipped: so a record says no more than that this value was there before. But
 * the last state is always told, which is looked at in the end.
 */
#include "watch.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_BROKEN = 3, LOOK_MS = 20 };

struct watch {
    struct watches *watches;
    struct pawl_observer *observer; /* NULL: this lock is not observed */
    int lock;
    _Atomic uint64_t version; /* of the value that it was told of last */
    _Atomic bool held;
};

struct watches {
    struct page *page;
    const struct history *history;
    struct who who;
    struct pawl *pawl;
    struct watch list[];
};

/* Whose value it is follows from the two tokens: a dead holder's is never its successor's. */
static bool is_odd(const struct pawl_observed *observed) {
    const struct pawl_value *theirs = observed->holders_value;

    return theirs != NULL && (observed->holder == NULL || observed->value == NULL || theirs->token < observed->holder->token);
}

static void on_observed(const struct pawl_observed *observed, void *data) {
    struct watch *watch = data;
    const struct watches *watches = watch->watches;
    const struct pawl_value *value = observed->value;
    uint64_t number = is_odd(observed) ? UINT64_MAX : value_number(value), version = value != NULL ? value->version : 0;

    if (!history_append(watches->history, history_now(watches->history), watches->who, RECORD_SHOWN,
                        "%d %" PRIu64 " %" PRIu64 " %" PRIu64, watch->lock, number, version, value != NULL ? value->token : 0))
        _exit(EXIT_BROKEN);
    atomic_store(&watch->version, version);
    atomic_store(&watch->held, observed->holder != NULL);
}

struct watches *watches_begin(struct page *page, const struct history *history, struct who who, struct pawl *pawl) {
    struct dice dice = dice_new(page->seed, (uint64_t)who.slot << 40 | (uint64_t)who.life << 8 | 9);
    struct watches *watches = calloc(1, sizeof *watches + (size_t)page->locks * sizeof watches->list[0]);

    if (watches == NULL)
        _exit(EXIT_BROKEN);
    *watches = (struct watches){.page = page, .history = history, .who = who, .pawl = pawl};
    for (int i = 0; i < page->locks; i++) {
        struct watch *watch = &watches->list[i];
        bool wanted = dice_percent(&dice, (unsigned)page->watch) && page->lock[i].kind != PAWL_SEMAPHORE;

        watch->watches = watches;
        watch->lock = i;
        if (wanted && pawl_observe(pawl, page->lock[i].name, on_observed, watch, &watch->observer, NULL) < 0)
            watch->observer = NULL;
    }
    return watches;
}

/* Was it told of what is there now? */
static bool has_seen_all(const struct watch *watch) {
    const struct watches *watches = watch->watches;
    const struct pawl_value *value = NULL;
    bool same = pawl_value_read(watches->pawl, watches->page->lock[watch->lock].name, &value, NULL) == 0 &&
                atomic_load(&watch->version) == (value != NULL ? value->version : 0);

    pawl_value_free(value);
    return same && !atomic_load(&watch->held);
}

static void catch_up(struct watches *watches) {
    const struct page *page = watches->page;
    int64_t deadline = now_ms() + page->watch_ms;

    for (int i = 0; i < page->locks; i++) {
        const struct watch *watch = &watches->list[i];

        while (watch->observer != NULL && !has_seen_all(watch)) {
            if (now_ms() < deadline) {
                poll(NULL, 0, LOOK_MS);
                continue;
            }
            if (!history_append(watches->history, history_now(watches->history), watches->who, RECORD_BLIND, "%d", i))
                _exit(EXIT_BROKEN);
            break;
        }
    }
}

void watches_end(struct watches *watches) {
    if (watches == NULL)
        return;
    catch_up(watches);
    for (int i = 0; i < watches->page->locks; i++)
        pawl_unobserve(watches->list[i].observer);
    free(watches);
}
