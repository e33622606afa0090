/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_server.c - the simulated server: one list of entries in the order of their tickets, and the queue rule (queue.c) applied to it. sim.c
 * has the picture of what it is asked and what it answers.
 */
#include "engine/sim_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "lease.h"
#include "queue.h"

static pthread_mutex_t servers_mutex = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, sim_server) servers = TAILQ_HEAD_INITIALIZER(servers);

struct sim_server *pawl__sim_server_new(const char *name, bool virtual_clock) {
    struct sim_server *server = calloc(1, sizeof *server);

    if (!server)
        abort();
    snprintf(server->name, sizeof server->name, "%s", name);
    server->virtual_clock = virtual_clock;
    pthread_mutex_init(&server->mutex, NULL);
    pthread_cond_init(&server->changed, NULL);
    TAILQ_INIT(&server->messages);
    TAILQ_INIT(&server->entries);
    pthread_mutex_lock(&servers_mutex);
    TAILQ_INSERT_TAIL(&servers, server, link);
    pthread_mutex_unlock(&servers_mutex);
    return server;
}

void pawl__sim_server_free(struct sim_server *server) {
    pthread_mutex_lock(&servers_mutex);
    TAILQ_REMOVE(&servers, server, link);
    pthread_mutex_unlock(&servers_mutex);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

struct sim_server *pawl__sim_server_find(const char *name) {
    struct sim_server *server;

    pthread_mutex_lock(&servers_mutex);
    TAILQ_FOREACH(server, &servers, link) {
        if (strcmp(server->name, name) == 0)
            break;
    }
    pthread_mutex_unlock(&servers_mutex);
    return server;
}

size_t pawl__sim_entries(struct sim_server *server) {
    struct sim_entry *entry;
    size_t count = 0;

    pthread_mutex_lock(&server->mutex);
    TAILQ_FOREACH(entry, &server->entries, link) {
        count++;
    }
    pthread_mutex_unlock(&server->mutex);
    return count;
}

int64_t pawl__sim_now(const struct pawl__engine *engine) {
    const struct sim_server *server = ((const struct sim_engine *)engine)->server;

    return server && server->virtual_clock ? server->clock : pawl__boottime();
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

static void enqueue(struct sim_server *server, const struct message *message) {
    struct message *copy = malloc(sizeof *copy), *other;

    if (!copy)
        abort();
    *copy = *message;
    TAILQ_FOREACH_REVERSE(other, &server->messages, message_list, link) {
        if (other->arrives <= copy->arrives)
            break;
    }
    if (other)
        TAILQ_INSERT_AFTER(&server->messages, other, copy, link);
    else
        TAILQ_INSERT_HEAD(&server->messages, copy, link);
    pthread_cond_broadcast(&server->changed);
}

void pawl__sim_transmit(struct sim_engine *sim, struct message *message) {
    if (sim->is_cut)
        return;
    if (message->kind >= GRANTED && sim->drops) {
        sim->drops--;
        return;
    }
    message->client = sim;
    message->arrives = pawl__sim_now(&sim->base) + sim->delay_ns;
    enqueue(sim->server, message);
    if (sim->duplicates)
        enqueue(sim->server, message);
}

static void reply(struct sim_engine *sim, enum message_kind kind, const struct message *request, struct sim_entry *entry,
                  int code) {
    struct message message = {
        .kind = kind,
        .id = entry ? entry->id : request->id,
        .asked_at = request ? request->asked_at : 0,
        .code = code,
        .request = request ? request->request : (struct wish){.limit = 0},
        .token = entry ? entry->token : 0,
    };

    pawl__sim_transmit(sim, &message);
}

/* ---- The server ----------------------------------------------------------------------------------------------------------- */

static struct sim_entry *find_entry(struct sim_engine *sim, uint64_t id) {
    struct sim_entry *entry;

    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if (entry->client == sim && entry->id == id)
            return entry;
    }
    return NULL;
}

/* May the entry hold, by the rule, among those of its name? */
static bool may_hold(struct sim_server *server, const struct sim_entry *wanted) {
    struct pawl__ticket queue[1024];
    struct sim_entry *entry;
    size_t count = 0;

    TAILQ_FOREACH(entry, &server->entries, link) {
        if (strcmp(entry->wish.name, wanted->wish.name) != 0)
            continue;
        queue[count++] = (struct pawl__ticket){entry->wish.mode, entry->wish.permits};
        if (entry == wanted || count == sizeof queue / sizeof queue[0])
            break;
    }
    return pawl__queue_holds(queue, count - 1, wanted->wish.limit);
}

static void hold(struct sim_server *server, struct sim_entry *entry, int64_t now) {
    entry->held = true;
    entry->token = (server->token += SIM_TOKENS);
    entry->expires = pawl__time_add(now, entry->lease_ns);
}

/* After a change: who may hold now? */
static void grant_next(struct sim_server *server, const char *name, int64_t now) {
    struct sim_entry *entry;

    TAILQ_FOREACH(entry, &server->entries, link) {
        if (entry->held || strcmp(entry->wish.name, name) != 0 || !may_hold(server, entry))
            continue;
        hold(server, entry, now);
        reply(entry->client, OFFER, NULL, entry, 0);
    }
}

static void remove_entry(struct sim_server *server, struct sim_entry *entry, int64_t now) {
    char name[sizeof entry->wish.name];

    strcpy(name, entry->wish.name);
    TAILQ_REMOVE(&server->entries, entry, link);
    free(entry);
    grant_next(server, name, now);
}

static int misfit(struct sim_server *server, const struct wish *wish) {
    struct sim_entry *entry;

    TAILQ_FOREACH(entry, &server->entries, link) {
        if (strcmp(entry->wish.name, wish->name) != 0)
            continue;
        if (entry->wish.kind != wish->kind)
            return PAWL_EKIND;
        if (entry->wish.limit != wish->limit)
            return PAWL_ELIMIT;
    }
    return 0;
}

static struct sim_entry *new_entry(struct sim_engine *sim, uint64_t id, const struct wish *wish) {
    struct sim_entry *entry = calloc(1, sizeof *entry);

    if (!entry)
        abort();
    entry->client = sim;
    entry->identity = sim->identity;
    entry->id = id;
    entry->wish = *wish;
    entry->lease_ns = sim->lease_ns;
    TAILQ_INSERT_TAIL(&sim->server->entries, entry, link);
    return entry;
}

static void serve_submit(struct sim_engine *sim, const struct message *message, int64_t now) {
    struct sim_entry *entry = find_entry(sim, message->id);
    int rc;

    if (!entry) {
        rc = misfit(sim->server, &message->request);
        if (rc < 0) {
            reply(sim, REFUSED, message, NULL, rc);
            return;
        }
        entry = new_entry(sim, message->id, &message->request);
        if (may_hold(sim->server, entry)) {
            hold(sim->server, entry, now);
        } else if (message->request.try_only) {
            TAILQ_REMOVE(&sim->server->entries, entry, link);
            free(entry);
            reply(sim, REFUSED, message, NULL, PAWL_EHELD);
            return;
        }
    }
    reply(sim, entry->held ? GRANTED : QUEUED, message, entry, 0);
}

/* Make entries for what has none yet. 0, or why not all of them can hold. */
static int enter_all(struct sim_engine *sim, const struct message *message, struct sim_entry *entries[], size_t *culprit) {
    int rc = 0;

    for (size_t i = 0; i < message->count; i++) {
        entries[i] = find_entry(sim, message->all[i].id);
        if (!entries[i] && rc == 0)
            rc = misfit(sim->server, &message->all[i].wish);
        if (!entries[i])
            entries[i] = new_entry(sim, message->all[i].id, &message->all[i].wish);
        if (rc == 0 && !entries[i]->held && !may_hold(sim->server, entries[i]))
            rc = PAWL_EHELD;
        if (rc == 0)
            *culprit = i + 1;
    }
    return rc;
}

static void serve_submit_all(struct sim_engine *sim, const struct message *message, int64_t now) {
    struct sim_entry *entries[SIM_TOGETHER];
    size_t culprit = 0;
    int rc = enter_all(sim, message, entries, &culprit);

    for (size_t i = 0; i < message->count; i++) {
        struct message one = {.id = message->all[i].id, .asked_at = message->asked_at};

        if (rc < 0)
            one.request = message->all[culprit].wish;
        if (entries[i]->held || rc == 0) {
            if (!entries[i]->held)
                hold(sim->server, entries[i], now);
            reply(sim, GRANTED, &one, entries[i], 0);
        } else {
            TAILQ_REMOVE(&sim->server->entries, entries[i], link);
            free(entries[i]);
            reply(sim, REFUSED, &one, NULL, rc);
        }
    }
}

void pawl__sim_receive(struct sim_engine *sim, const struct message *message, int64_t now) {
    struct sim_entry *entry = find_entry(sim, message->id);

    sim->requests++;
    if (message->kind == SUBMIT) {
        serve_submit(sim, message, now);
    } else if (message->kind == SUBMIT_ALL) {
        serve_submit_all(sim, message, now);
    } else if (message->kind == WITHDRAW) {
        if (entry)
            remove_entry(sim->server, entry, now);
        reply(sim, GONE, message, NULL, 0);
    } else if (!entry || !entry->held) {
        reply(sim, LOST, message, NULL, 0);
    } else if (message->kind == RENEW) {
        entry->expires = pawl__time_add(now, entry->lease_ns);
        reply(sim, RENEWED, message, entry, 0);
    } else {
        entry->wish.mode = PAWL_SHARED;
        reply(sim, DOWNGRADED, message, entry, 0);
        grant_next(sim->server, entry->wish.name, now);
    }
}

void pawl__sim_expire(struct sim_server *server, int64_t now) {
    struct sim_entry *entry;

restart:
    TAILQ_FOREACH(entry, &server->entries, link) {
        if (entry->held && entry->expires <= now) {
            remove_entry(server, entry, now);
            goto restart;
        }
    }
}

void pawl__sim_forget_client(struct sim_engine *sim) {
    struct sim_entry *entry;
    struct message *message, *next;

    for (message = TAILQ_FIRST(&sim->server->messages); message; message = next) {
        next = TAILQ_NEXT(message, link);
        if (message->client == sim) {
            TAILQ_REMOVE(&sim->server->messages, message, link);
            free(message);
        }
    }
restart:
    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if (entry->client == sim) {
            remove_entry(sim->server, entry, pawl__sim_now(&sim->base));
            goto restart;
        }
    }
}

/* ---- For operators -------------------------------------------------------------------------------------------------------- */

static int visit_entry(const struct sim_entry *entry, unsigned position, int64_t now, pawl_visit_fn *visit, void *data) {
    struct pawl_entry shown = {
        .name = entry->wish.name,
        .kind = entry->wish.kind,
        .mode = entry->wish.mode,
        .flags = (entry->held ? 0 : PAWL_ENTRY_WAITER) | (entry->broken ? PAWL_ENTRY_BROKEN : 0),
        .position = position,
        .permits = entry->wish.permits,
        .limit = entry->wish.limit,
        .token = entry->held ? entry->token : 0,
        .host = entry->identity.host,
        .pid = entry->identity.pid,
        .command = entry->identity.command,
        .label = entry->identity.label,
        .since_ms = 1,
        .remaining_ms = entry->held ? (entry->expires - now) / SIM_MS : -1,
        .raw = "simulated",
    };

    return visit(&shown, data);
}

/* All entries of the name that `first` is the first of. */
static int survey_name(struct sim_engine *sim, const struct sim_entry *first, pawl_visit_fn *visit, void *data) {
    unsigned waiting = 0;
    const struct sim_entry *entry;
    int rc = 0;

    for (int held = 1; held >= 0 && rc == 0; held--)
        for (entry = first; entry && rc == 0; entry = TAILQ_NEXT(entry, link))
            if (entry->held == held && strcmp(entry->wish.name, first->wish.name) == 0)
                rc = visit_entry(entry, held ? 0 : ++waiting, pawl__sim_now(&sim->base), visit, data);
    return rc;
}

static bool first_of_name(struct sim_server *server, const struct sim_entry *entry) {
    struct sim_entry *other;

    TAILQ_FOREACH(other, &server->entries, link) {
        if (strcmp(other->wish.name, entry->wish.name) == 0)
            return other == entry;
    }
    return false;
}

int pawl__sim_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct sim_engine *sim = (struct sim_engine *)engine;
    struct sim_entry *entry;
    int rc = 0;

    (void)reterr;
    pthread_mutex_lock(&sim->server->mutex);
    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if ((!name || strcmp(name, entry->wish.name) == 0) && first_of_name(sim->server, entry) &&
            (rc = survey_name(sim, entry, visit, data)) != 0)
            break;
    }
    pthread_mutex_unlock(&sim->server->mutex);
    return rc;
}

int pawl__sim_break(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct sim_engine *sim = (struct sim_engine *)engine;
    struct sim_entry *entry;
    int rc = 0;

    pthread_mutex_lock(&sim->server->mutex);
    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if (entry->held && strcmp(entry->wish.name, name) == 0 && token >= entry->token && token < entry->token + SIM_TOKENS)
            break;
    }
    if (!entry) {
        rc = pawl__fail(reterr, PAWL_ETOKEN, "no hold of '%s' has token %llu", name, (unsigned long long)token);
    } else {
        entry->broken = true;
        reply(entry->client, LOST, NULL, entry, 1);
        if (now)
            remove_entry(sim->server, entry, pawl__sim_now(engine));
    }
    pthread_mutex_unlock(&sim->server->mutex);
    return rc;
}
