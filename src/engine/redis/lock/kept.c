/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - claims that their process may keep while nobody there holds them: they hear when others wait for them.
 *
 * Such a claim has a mark in its owner's name (lua/common.lua, hears()): who becomes the first to wait sends `w` to its client, grants and
 * renewals say whether others wait. So the claim knows it (`wanted`), unless a message was lost.
 *
 * Invariants
 *   - `heard`: those who queue from now on will be heard of. The server has granted or renewed the claim by an answer to what left
 *     after all of its connections, and in a cluster the subscription, were up; and none has ended since. Who came before that was told
 *     of with the answer.
 *   - A claim that holds, has the mark and is not heard is renewed as soon as it can be heard.
 *   - The claims in home->hearers hold and have the mark. While there are any, the service thread reads the inbox at once.
 *
 * Claims with `hears` hear in the same way, though they are not kept.
 */
#include "engine/redis/lock/lock.h"

const char *pawl__kept_begin(struct rclaim *claim) {
    const struct pawl__claim *seam = claim->kit.claim;

    claim->keeping.marked = seam->keep_ns || seam->hears;
    return seam->keep_ns ? "+" : seam->hears ? "+0" : "";
}

void pawl__kept_unheard(struct rclaim *claim) {
    atomic_store(&claim->keeping.heard, false);
}

void pawl__kept_wanted(struct redis *redis, struct rclaim *claim) {
    if (!claim->keeping.marked || atomic_load_explicit(&claim->keeping.wanted, memory_order_relaxed))
        return;
    if (!rclaim_holds(claim) && claim->state != RCLAIM_ASKING && claim->state != RCLAIM_WAITING && claim->state != RCLAIM_SECURING)
        return;
    pawl__kit_note(&redis->kit, &claim->kit, "others want it");
    atomic_store(&claim->keeping.wanted, true);
    claim->kit.wanted = true;
    if (rclaim_holds(claim))
        pawl__kit_tell(&redis->kit, &claim->kit, KIT_WANTED);
}

void pawl__kept_drive(struct redis *redis, struct rclaim *claim) {
    int64_t until = pawl__time_add(claim->held_since, claim->kit.claim->keep_ns);

    if (!claim->keeping.listed || !claim->kit.claim->keep_ns || redis->options.layout != LAYOUT_PLAIN)
        return;
    if (pawl__boottime() >= until)
        pawl__kept_wanted(redis, claim);
    if (atomic_load_explicit(&claim->keeping.wanted, memory_order_relaxed) || until >= claim->timer.at)
        return;
    pawl__kit_timer_set(&redis->kit.timers, &claim->timer, until, true);
    pawl__redis_due(redis, until);
}

static void look_by(struct rclaim *claim, int64_t when) {
    rclaim_hearers(claim)->look_at = when;
    pawl__redis_due(claim->home->server.redis, when);
}

static void list(struct rclaim *claim) {
    struct redis *redis = claim->home->server.redis;
    struct hearers *hearers = rclaim_hearers(claim);
    int64_t look_at = pawl__boottime() + hearers_look_ns(!claim->kit.claim->keep_ns);

    claim->keeping.listed = true;
    TAILQ_INSERT_TAIL(&hearers->claims, claim, keeping.entry);
    claims_of(redis)->hearer_count++;
    claim->home->inbox_due = 0;
    pawl__kept_drive(redis, claim);
    if (!hearers->look_at || look_at < hearers->look_at)
        look_by(claim, look_at);
}

void pawl__kept_unlist(struct rclaim *claim) {
    if (!claim->keeping.listed)
        return;
    pawl__kept_unheard(claim);
    claim->keeping.listed = false;
    TAILQ_REMOVE(&rclaim_hearers(claim)->claims, claim, keeping.entry);
    claims_of(claim->home->server.redis)->hearer_count--;
}

void pawl__kept_follow(struct rclaim *claim) {
    if (!claim->keeping.marked || rclaim_holds(claim) == claim->keeping.listed)
        return;
    if (claim->keeping.listed)
        pawl__kept_unlist(claim);
    else
        list(claim);
}

void pawl__kept_confirmed(struct rclaim *claim, int64_t sent_at) {
    int64_t since = pawl__subscription_since(claim);

    if (!claim->keeping.listed || !pawl__server_up(&claim->home->server))
        return;
    since = since < claim->home->up_since ? claim->home->up_since : since;
    atomic_store(&claim->keeping.heard, sent_at >= since);
    if (sent_at >= since || since == PAWL__NEVER)
        return;
    TAILQ_REMOVE(&rclaim_hearers(claim)->claims, claim, keeping.entry); /* it is the next */
    TAILQ_INSERT_HEAD(&rclaim_hearers(claim)->claims, claim, keeping.entry);
    look_by(claim, pawl__boottime());
}

void pawl__kept_unheard_all(struct home *home) {
    struct rclaim *claim;

    for (int i = 0; i < HEARERS; i++)
        TAILQ_FOREACH(claim, &home->hearers[i].claims, keeping.entry) {
            pawl__kept_unheard(claim);
        }
}
