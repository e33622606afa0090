/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.c - what all actors do: want, take, hold for a moment, drop, rest. See actors.h.
 */
#include "actor.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SLICE_MS = 100, REOPEN_MS = 50 };

const char *const actor_words[ACTOR_WORD_COUNT] = {
#define ACTOR_WORD_TEXT(name, word) word,
    ACTOR_WORDS(ACTOR_WORD_TEXT)
#undef ACTOR_WORD_TEXT
};

const struct actor_class actor_classes[ACTOR_CLASSES] = {
#define ACTOR_CLASS(name, server, kind, holds) {#name, actor_##name, server, kind, holds},
    ACTORS(ACTOR_CLASS)
#undef ACTOR_CLASS
};

/* ---- Clocks and chance ---------------------------------------------------------------------------------------------------- */

static int64_t read_clock(clockid_t which) {
    struct timespec time;

    clock_gettime(which, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t actor_now(void) {
    return read_clock(CLOCK_BOOTTIME);
}

int64_t actor_wall_ms(void) {
    return read_clock(CLOCK_REALTIME) / ACTOR_MS;
}

bool actor_over(const struct actor *actor) {
    return actor->place->over(actor->place->data);
}

int actor_slice_ms(int64_t until) {
    int64_t now = actor_now(), left = until <= now ? 0 : (until - now + ACTOR_MS - 1) / ACTOR_MS;

    return (int)(left < SLICE_MS ? left : SLICE_MS);
}

void actor_nap(const struct actor *actor, int64_t until) {
    while (actor_now() < until && !actor_over(actor))
        poll(NULL, 0, actor_slice_ms(until));
}

void actor_uuid(struct actor *actor, char ret[ACTOR_UUID]) {
    uint64_t high = dice_number(&actor->dice), low = dice_number(&actor->dice);

    snprintf(ret, ACTOR_UUID, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32), (unsigned)(high >> 16) & 0xffff,
             (unsigned)high & 0xfff, 0x8000 | (unsigned)(low >> 48 & 0x3fff), (unsigned long long)(low & 0xffffffffffff));
}

void actor_hex(struct actor *actor, char ret[ACTOR_UUID]) {
    size_t used = 0;

    actor_uuid(actor, ret);
    for (size_t i = 0; ret[i] != '\0'; i++)
        if (ret[i] != '-')
            ret[used++] = ret[i];
    ret[used] = '\0';
}

/* ---- Holding -------------------------------------------------------------------------------------------------------------- */

static void note(const struct actor *actor, enum actor_word word, int64_t assured_ns, int code) {
    struct actor_note said = {.mode = actor->mode, .permits = actor->permits, .assured_ns = assured_ns, .code = code};

    actor->place->note(actor->place->data, word, &said);
}

/* A tenth less than the server keeps it: clocks differ. */
static int64_t assured_until(const struct actor *actor) {
    return actor->sent_at + actor->lease_ns / 10 * 9;
}

static int64_t assured_ns(const struct actor *actor) {
    int64_t left = assured_until(actor) - actor_now();

    return left > 0 ? left : 0;
}

/* False: the hold is lost. A renewal that was not answered is made again, for as long as there is time. */
static bool renew(struct actor *actor) {
    int code = actor->ops->renew(actor);

    if (code == PAWL_ECONNLOST) {
        actor->ops->close(actor);
        actor->ops->open(actor);
        actor_nap(actor, actor_now() + REOPEN_MS * ACTOR_MS);
        return true;
    }
    if (code == 0)
        note(actor, ACTOR_SURE, assured_ns(actor), 0);
    return code == 0;
}

static void nap(struct actor *actor, int64_t until) {
    if (actor->ops->nap != NULL)
        actor->ops->nap(actor, until);
    else
        actor_nap(actor, until);
}

static int64_t earliest(int64_t one, int64_t other) {
    return one < other ? one : other;
}

/* For the moment that was drawn. False: it was lost meanwhile. */
static bool hold(struct actor *actor, unsigned renew_part) {
    int64_t until = actor_now() + dice_between(&actor->dice, 0, actor->place->hold_ms * 1000) * 1000;

    while (actor_now() < until && !actor_over(actor)) {
        int64_t renew_at = actor->ops->renew != NULL ? actor->sent_at + actor->lease_ns / renew_part : INT64_MAX;

        nap(actor, earliest(earliest(until, renew_at), assured_until(actor)));
        if (actor_now() >= assured_until(actor))
            return false;
        if (actor_now() >= renew_at && !renew(actor))
            return false;
    }
    return actor_now() < assured_until(actor);
}

static void draw(struct actor *actor, const struct actor_style *style) {
    unsigned most = style->permits < actor->place->limit ? style->permits : actor->place->limit;

    actor->mode = dice_percent(&actor->dice, style->shared) ? 's' : style->mode;
    actor->permits = most > 1 ? (unsigned)dice_between(&actor->dice, 1, most) : 1;
}

/* Once round. False: the connection is gone. */
static bool turn(struct actor *actor, const struct actor_style *style) {
    draw(actor, style);
    note(actor, ACTOR_WANT, 0, 0);
    int code = actor->ops->take(actor);

    if (code != 0) {
        note(actor, ACTOR_FAIL, 0, code);
        return code != PAWL_ECONNLOST;
    }
    note(actor, ACTOR_GOT, assured_ns(actor), 0);
    if (!hold(actor, style->renew_part))
        note(actor, ACTOR_LOST, 0, 0);
    note(actor, ACTOR_DROP, 0, 0);
    code = actor->ops->drop(actor);
    note(actor, ACTOR_GONE, 0, code);
    return code != PAWL_ECONNLOST;
}

void actor_init(struct actor *actor, const struct actor_place *place, const struct actor_ops *ops) {
    *actor = (struct actor){.place = place, .ops = ops, .lease_ns = place->lease_ms * ACTOR_MS, .permits = 1};
    actor->dice = dice_new(place->seed, 77);
}

int actor_run(struct actor *actor, const struct actor_style *style) {
    bool open = false;

    while (!actor_over(actor)) {
        if (!open) {
            actor->ops->close(actor);
            open = actor->ops->open(actor) == 0;
        }
        if (open)
            open = turn(actor, style);
        actor_nap(actor,
                  actor_now() + (open ? dice_between(&actor->dice, 0, actor->place->rest_ms * 1000) * 1000 : REOPEN_MS * ACTOR_MS));
    }
    actor->ops->close(actor);
    return 0;
}
