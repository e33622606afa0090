/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - see plan.h: plans as text.
 */
#include "plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pawl.h"

static const char kind_letters[3] = {'m', 'r', 's'}; /* by enum pawl_kind */

/* A piece of text, up to but without its end. */
struct piece {
    const char *text;
    size_t length;
};

static bool is(struct piece piece, const char *word) {
    return strlen(word) == piece.length && memcmp(word, piece.text, piece.length) == 0;
}

/* The part before the next `separator`, which is skipped. False: nothing is left. */
static bool next_part(struct piece *rest, char separator, struct piece *ret) {
    if (rest->text == NULL)
        return false;
    const char *end = memchr(rest->text, separator, rest->length);

    *ret = (struct piece){rest->text, end != NULL ? (size_t)(end - rest->text) : rest->length};
    *rest = end != NULL ? (struct piece){end + 1, rest->length - ret->length - 1} : (struct piece){NULL, 0};
    return true;
}

static bool read_number(struct piece value, int64_t most, int64_t *ret) {
    int64_t number = 0;

    for (size_t i = 0; i < value.length; i++) {
        if (value.text[i] < '0' || value.text[i] > '9' || number > most)
            return false;
        number = number * 10 + (value.text[i] - '0');
    }
    *ret = number;
    return value.length > 0 && number <= most;
}

static bool read_kinds(struct piece value, bool kinds[3]) {
    struct piece part;
    bool any = false;

    kinds[0] = kinds[1] = kinds[2] = false;
    while (next_part(&value, '+', &part)) {
        const char *letter = part.length == 1 ? memchr(kind_letters, part.text[0], 3) : NULL;

        if (letter == NULL)
            return false;
        kinds[letter - kind_letters] = any = true;
    }
    return any;
}

static bool read_faults(const struct plan *plan, struct piece value, bool faults[SIM_FAULT_KINDS]) {
    struct piece part;

    memset(faults, 0, SIM_FAULT_KINDS * sizeof faults[0]);
    if (is(value, "none"))
        return true;
    if (is(value, "all")) {
        for (int i = 0; i < SIM_FAULT_KINDS; i++)
            faults[i] = service_has(plan->service, i);
        return true;
    }
    while (next_part(&value, '+', &part)) {
        int fault = sim_find(part.text, part.length);

        if (fault < 0 || !service_has(plan->service, fault))
            return false;
        faults[fault] = true;
    }
    return true;
}

static bool read_actors(struct piece value, bool actors[ACTOR_CLASSES]) {
    struct piece part;

    memset(actors, 0, ACTOR_CLASSES * sizeof actors[0]);
    while (!is(value, "none") && next_part(&value, '+', &part)) {
        int i = 0;

        while (i < ACTOR_CLASSES && !is(part, actor_classes[i].name))
            i++;
        if (i == ACTOR_CLASSES)
            return false;
        actors[i] = true;
    }
    return true;
}

static bool read_url(struct piece value, char *ret, size_t size) {
    if (value.length >= size)
        return false;
    memcpy(ret, value.text, value.length);
    ret[value.length] = '\0';
    return true;
}

static bool read_option(struct plan *plan, struct piece key, struct piece value) {
#define PLAN_READ(name, most)                                                                                                      \
    if (is(key, #name))                                                                                                            \
        return read_number(value, most, &plan->name);
    PLAN_NUMBERS(PLAN_READ)
#undef PLAN_READ
    if (is(key, "kinds"))
        return read_kinds(value, plan->kinds);
    if (is(key, "faults"))
        return read_faults(plan, value, plan->faults);
    if (is(key, "actors"))
        return read_actors(value, plan->actors);
    return is(key, "url") && read_url(value, plan->url, sizeof plan->url);
}

static const char *what_is_wrong(const struct plan *plan) {
    if (plan->clients < 1 || plan->threads < 1 || plan->locks < 1)
        return "there must be a client, a thread and a lock";
    if (plan->time < 1 || plan->lease < 100 || plan->pace < 1)
        return "time and pace must be above 0, and the lease at least 100";
    if (plan->far < plan->near)
        return "far is less than near";
    if (plan->service->mutex_only && (plan->kinds[1] || plan->kinds[2]))
        return "this service has mutexes alone";
    return NULL;
}

/* The plain layout has mutexes alone. Where it was drawn it gives way to kinds that were asked for. */
static void drop_plain(struct plan *plan) {
    char *plain = strstr(plan->url, "layout=plain");

    if (plain != NULL && (plan->kinds[PAWL_RWLOCK] || plan->kinds[PAWL_SEMAPHORE]))
        *(plain > plan->url ? plain - 1 : plain) = '\0'; /* it is the last one */
}

bool plan_read_options(struct plan *plan, const char *text, char *ret_why, size_t size) {
    struct piece rest = {text, strlen(text)}, part;

    plan->breaks = plan->extend = plan->peruse = plan->tries = 0; /* what was written down without it is to stay as it was */
    while (text[0] != '\0' && strcmp(text, "-") != 0 && next_part(&rest, ',', &part)) {
        struct piece value = part, key = {NULL, 0};

        if (memchr(part.text, '=', part.length) == NULL || !next_part(&value, '=', &key) || !read_option(plan, key, value)) {
            snprintf(ret_why, size, "'%.*s' is no option, or has a wrong value", (int)part.length, part.text);
            return false;
        }
    }
    if (strstr(text, "url=") == NULL)
        drop_plain(plan);
    const char *why = what_is_wrong(plan);

    if (why != NULL)
        snprintf(ret_why, size, "%s", why);
    return why == NULL;
}

/* ---- Writing -------------------------------------------------------------------------------------------------------------- */

/* Text that grows as far as there is room; its length goes on. */
struct text {
    char *at;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...) {
    bool room = text->used < text->size;
    va_list arguments;

    va_start(arguments, format);
    text->used += (size_t)vsnprintf(room ? text->at + text->used : NULL, room ? text->size - text->used : 0, format, arguments);
    va_end(arguments);
}

size_t plan_write_options(const struct plan *plan, char *ret, size_t size) {
    struct text text = {.at = ret, .size = size};
    const char *plus = "";

#define PLAN_WRITE(name, most) put(&text, "%s" #name "=%" PRId64, text.used > 0 ? "," : "", plan->name);
    PLAN_NUMBERS(PLAN_WRITE)
#undef PLAN_WRITE
    put(&text, ",kinds=");
    for (int i = 0; i < 3; i++)
        if (plan->kinds[i]) {
            put(&text, "%s%c", plus, kind_letters[i]);
            plus = "+";
        }
    put(&text, ",faults=");
    plus = "";
    for (int i = 0; i < SIM_FAULT_KINDS; i++)
        if (plan->faults[i]) {
            put(&text, "%s%s", plus, sim_word(i));
            plus = "+";
        }
    put(&text, "%s", plus[0] == '\0' ? "none" : "");
    put(&text, ",actors=");
    plus = "";
    for (int i = 0; i < ACTOR_CLASSES; i++)
        if (plan->actors[i]) {
            put(&text, "%s%s", plus, actor_classes[i].name);
            plus = "+";
        }
    put(&text, "%s,url=%s", plus[0] == '\0' ? "none" : "", plan->url);
    return text.used;
}
