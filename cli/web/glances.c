/* SPDX-License-Identifier: Apache-2.0
 *
 * glances.c - what single locks looked like a moment ago. See glances.h.
 */
#include "glances.h"

#include <stdlib.h>
#include <string.h>

#include "../common/cli.h"

/* Since it was asked for. The page asks every second, and may be a little early. */
enum { GOOD_MS = 900 };

struct onlooker {
    LIST_ENTRY(onlooker) link;
    struct exchange *exchange;
};

struct glance {
    LIST_ENTRY(glance) link;
    LIST_HEAD(, onlooker) onlookers; /* wait for the look */
    bool taken;
    struct document *document;
    unsigned status;
    int64_t good_until; /* a moment of now_ms() */
    char *url, *name;
};

void glances_init(struct glances *glances) {
    LIST_INIT(&glances->list);
}

static void drop(struct glance *glance) {
    LIST_REMOVE(glance, link);
    while (!LIST_EMPTY(&glance->onlookers)) {
        struct onlooker *onlooker = LIST_FIRST(&glance->onlookers);

        LIST_REMOVE(onlooker, link);
        free(onlooker);
    }
    document_drop(glance->document);
    free(glance->url);
    free(glance->name);
    free(glance);
}

/* All that were taken, and are too old at that moment. */
static void drop_until(struct glances *glances, int64_t when) {
    struct glance *glance = LIST_FIRST(&glances->list);

    while (glance != NULL) {
        struct glance *next = LIST_NEXT(glance, link);

        if (glance->taken && glance->good_until <= when)
            drop(glance);
        glance = next;
    }
}

void glances_forget(struct glances *glances) {
    drop_until(glances, PAWL_FOREVER);
}

void glances_finish(struct glances *glances) {
    while (!LIST_EMPTY(&glances->list))
        drop(LIST_FIRST(&glances->list));
}

static struct glance *find(struct glances *glances, const char *url, const char *name) {
    struct glance *glance;

    LIST_FOREACH(glance, &glances->list, link)
    if (strcmp(glance->url, url) == 0 && strcmp(glance->name, name) == 0)
        return glance;
    return NULL;
}

static struct glance *begin(struct glances *glances, const char *url, const char *name) {
    struct glance *glance = calloc(1, sizeof *glance);

    if (glance == NULL)
        return NULL;
    *glance = (struct glance){.good_until = deadline_in(GOOD_MS), .url = strdup(url), .name = strdup(name)};
    LIST_INSERT_HEAD(&glances->list, glance, link);
    if (glance->url != NULL && glance->name != NULL)
        return glance;
    drop(glance);
    return NULL;
}

enum glance_asked glances_ask(struct glances *glances, const char *url, const char *name, struct exchange *exchange,
                              bool has_room) {
    drop_until(glances, now_ms());
    struct glance *glance = find(glances, url, name);
    struct onlooker *onlooker;
    enum glance_asked asked = glance == NULL ? GLANCE_LOOK : GLANCE_WAITS;

    if (glance != NULL && glance->taken) {
        exchange_answer(exchange, glance->status, glance->document);
        return GLANCE_ANSWERED;
    }
    if (!has_room)
        return GLANCE_FULL;
    onlooker = malloc(sizeof *onlooker);
    if (onlooker != NULL && glance == NULL)
        glance = begin(glances, url, name);
    if (onlooker == NULL || glance == NULL) {
        free(onlooker);
        return GLANCE_NO_MEMORY;
    }
    onlooker->exchange = exchange;
    LIST_INSERT_HEAD(&glance->onlookers, onlooker, link);
    return asked;
}

size_t glances_answer(struct glances *glances, const char *url, const char *name, unsigned status, struct document *document) {
    struct glance *glance = find(glances, url, name);
    size_t count = 0;

    if (glance == NULL)
        return 0;
    while (!LIST_EMPTY(&glance->onlookers)) {
        struct onlooker *onlooker = LIST_FIRST(&glance->onlookers);

        LIST_REMOVE(onlooker, link);
        exchange_answer(onlooker->exchange, status, document);
        free(onlooker);
        count++;
    }
    glance->taken = true;
    glance->status = status;
    glance->document = document_keep(document);
    if (status != 200 || document == NULL) /* what failed is tried again at once */
        drop(glance);
    return count;
}
