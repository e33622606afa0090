/* SPDX-License-Identifier: Apache-2.0
 *
 * foreigners.c - see foreigners.h.
 */
#include "foreigners.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char kind_letters[] = {[PAWL_MUTEX] = 'm', [PAWL_RWLOCK] = 'r', [PAWL_SEMAPHORE] = 's'};

/* They connect to one server, and know one layout each. */
bool foreigner_fits(const struct plan *plan, int class) {
    const struct actor_class *actor = &actor_classes[class];
    bool plain = strstr(plan->url, "layout=plain") != NULL;
    bool kazoo = strstr(plan->url, "compat=kazoo") != NULL, any = actor->kind == '*';

    for (int i = 0; i < 3; i++)
        any = any || (plan->kinds[i] && kind_letters[i] == actor->kind);
    if (!any || (class == ACTOR_CLASS_kazoo_lock && !kazoo))
        return false;
    if (plan->service == &sim_redis)
        return actor->server == 'r' && plain == (class == ACTOR_CLASS_redis_py);
    return (plan->service == &sim_zookeeper || plan->service == &sim_zookeeper3) && actor->server == 'z';
}

int foreigner_lock(const struct page *page, const struct actor_class *class, uint64_t draw) {
    for (int i = 0; i < page->locks; i++) {
        int lock = (int)((draw + (uint64_t)i) % (uint64_t)page->locks);

        if (class->kind == '*' || class->kind == kind_letters[page->lock[lock].kind])
            return lock;
    }
    return -1;
}

/* ---- In the process --------------------------------------------------------------------------------------------------------- */

static bool is_over(void *data) {
    const struct foreigner *foreigner = data;

    return atomic_load(&foreigner->page->phase) != PHASE_RUN;
}

__attribute__((format(printf, 3, 4))) static void note(const struct foreigner *foreigner, enum record_kind kind, const char *format,
                                                       ...) {
    char text[128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    history_append(foreigner->history, history_now(foreigner->history), foreigner->who, kind, "%s", text);
}

static void on_note(void *data, enum actor_word word, const struct actor_note *said) {
    const struct foreigner *foreigner = data;
    int lock = foreigner->lock;

    switch (word) {
    case ACTOR_WANT:
        note(foreigner, RECORD_WANT, "%d %c %u -1", lock, said->mode, said->permits);
        break;
    case ACTOR_GOT:
        note(foreigner, RECORD_GOT, "%d 0 %" PRId64, lock, said->assured_ns);
        break;
    case ACTOR_FAIL:
        note(foreigner, RECORD_FAIL, "%d %d", lock, said->code);
        break;
    case ACTOR_SURE:
        note(foreigner, RECORD_SURE, "%d %" PRId64, lock, said->assured_ns);
        break;
    case ACTOR_LOST:
        note(foreigner, RECORD_LOST, "%d 0", lock);
        break;
    case ACTOR_DROP:
        note(foreigner, RECORD_DROP, "%d", lock);
        break;
    default:
        note(foreigner, RECORD_GONE, "%d %d", lock, said->code);
    }
}

static int run(void *data) {
    const struct foreigner *foreigner = data;

    note(foreigner, RECORD_FOREIGN, "%s", foreigner->class->name);
    int status = foreigner->class->run(&foreigner->place);

    note(foreigner, RECORD_BYE, "%s", "");
    return status;
}

/* ---- From outside ----------------------------------------------------------------------------------------------------------- */

static void start(struct foreigner *foreigner, const struct plan *plan, struct page *page, const struct history *history) {
    const struct rig_lock *lock = &page->lock[foreigner->lock];

    foreigner->page = page;
    foreigner->history = history;
    snprintf(foreigner->name, sizeof foreigner->name, "%s%s", foreigner->class->server == 'z' ? "/torture/" : "", lock->name);
    foreigner->place = (struct actor_place){
        .host = "127.0.0.1",
        .port = SERVICE_PORT,
        .name = foreigner->name,
        .kind = kind_letters[lock->kind],
        .seed = plan->seed + (uint64_t)foreigner->who.slot,
        .lease_ms = plan->lease,
        .hold_ms = plan->hold > 0 ? plan->hold : 20,
        .rest_ms = foreigner->class->holds ? 2 * plan->hold + 20 : 3000,
        .limit = lock->limit,
        .over = is_over,
        .note = on_note,
        .data = foreigner,
    };
    foreigner->process = world_spawn(foreigner->class->name, run, foreigner);
}

void foreigners_start(struct foreigners *foreigners, const struct plan *plan, struct page *page, const struct history *history) {
    for (int i = 0; i < ACTOR_CLASSES; i++) {
        struct foreigner *foreigner = &foreigners->list[foreigners->count];
        int lock = plan->actors[i] ? foreigner_lock(page, &actor_classes[i], plan->seed) : -1;

        if (lock < 0)
            continue;
        *foreigner = (struct foreigner){
            .class = &actor_classes[i], .lock = lock, .who = {.slot = (int)plan->clients + foreigners->count, .life = 1}};
        start(foreigner, plan, page, history);
        foreigners->count++;
    }
}

static bool are_gone(void *data) {
    const struct foreigners *foreigners = data;

    for (int i = 0; i < foreigners->count; i++)
        if (!world_ended(foreigners->list[i].process))
            return false;
    return true;
}

int foreigners_await_end(struct foreigners *foreigners, int64_t patience_ns) {
    int bad = 0;

    world_wait(are_gone, foreigners, world_now() + patience_ns);
    for (int i = 0; i < foreigners->count; i++) {
        struct foreigner *foreigner = &foreigners->list[i];

        bad += !world_ended(foreigner->process) || world_status(foreigner->process) != 0;
        history_append(foreigner->history, history_now(foreigner->history), history_rig, RECORD_EXIT, "%d.1 0",
                       foreigner->who.slot);
        world_kill(foreigner->process);
        world_reap(foreigner->process);
    }
    foreigners->count = 0;
    return bad;
}
