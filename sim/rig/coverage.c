/* SPDX-License-Identifier: Apache-2.0
 *
 * coverage.c - see coverage.h.
 *
 * At each event of a process its memory is looked at, from outside: the clients that it has opened (fork.c keeps the list), their engines,
 * and the claims in them. What is counted are pairs: each column against each other one, of the claims that were there.
 */
#include "coverage.h"

#include <string.h>

#include "core/core.h"
#include "engine/redis/lock/lock.h"
#include "engine/zookeeper/lock/lock.h"

#include "world/world.h"

enum column { COLUMN_CORE, COLUMN_ENGINE, COLUMN_READER, COLUMN_LINK, COLUMN_EVENT, COLUMNS };
enum { WORDS_MOST = 12 };
enum book { BOOK_REDIS, BOOK_ZOOKEEPER, BOOKS };

static const char *const column_names[COLUMNS] = {"claim", "engine", "reader", "connection", "event"};
static const char *const core_words[] = {"new", "pending", "held", "kept", "leaving", "gone", "lost", NULL};
static const char *const reader_words[] = {"nobody", "leads", "follows", "adopted", NULL};
static const char *const event_words[] = {"bytes", "open", "end", "reset", "timer", NULL};

static const char *const *const words[BOOKS][COLUMNS] = {
    [BOOK_REDIS] = {core_words,
                    (const char *const[]){"none", "asking", "waiting", "securing", "undoing", "holding", "downgrading", "lost",
                                          "releasing", "leaving", NULL},
                    reader_words, (const char *const[]){"down", "connecting", "shaking", "greeting", "up", NULL}, event_words},
    [BOOK_ZOOKEEPER] = {core_words,
                        (const char *const[]){"new", "offline", "creating", "finding", "queued", "leasing", "proving", "held",
                                              "downgrading", "over", NULL},
                        (const char *const[]){"service", NULL}, (const char *const[]){"away", "connected", "expired", NULL},
                        event_words},
};

/* How often value `a` of one column was seen with value `b` of another. */
static uint64_t seen[BOOKS][COLUMNS][COLUMNS][WORDS_MOST][WORDS_MOST];

/* TLS is not simulated, and a claim that its engine does not know, or has done with, is not looked at. */
static bool is_possible(enum book book, enum column column, int value) {
    if (column == COLUMN_CORE)
        return value == CLAIM_PENDING || value == CLAIM_HELD || value == CLAIM_KEPT || value == CLAIM_LEAVING;
    if (book == BOOK_REDIS)
        return !(column == COLUMN_ENGINE && value == RCLAIM_NONE) && !(column == COLUMN_LINK && value == LINK_SHAKING);
    return !(column == COLUMN_ENGINE && (value == ZK_NEW || value == ZK_OVER)) && !(column == COLUMN_LINK && value == 2);
}

/* What the core knows and what the engine does. It is told of a grant when the engine is through with it, a hold is never asked for again,
 * and a claim that it gives back is being given back by the engine from then on; ZooKeeper's node is left to others by then (sweep.c).
 * With a claim that is kept nothing is done; but it may be lost. */
static bool core_fits(enum book book, int core, int engine) {
    if (core == CLAIM_PENDING)
        return engine != (book == BOOK_REDIS ? (int)RCLAIM_DOWNGRADING : (int)ZK_DOWNGRADING);
    if (core == CLAIM_KEPT)
        return book == BOOK_REDIS ? engine == RCLAIM_HOLDING || engine == RCLAIM_LOST : engine == ZK_HELD;
    if (book == BOOK_REDIS)
        return core == CLAIM_LEAVING ? engine >= RCLAIM_RELEASING : engine >= RCLAIM_HOLDING;
    return core == CLAIM_HELD && engine >= ZK_HELD;
}

/* May the two ever meet? Between two events an expired session is replaced; who waits for a connection has none; and what waits for
 * replicas is asked anew when its connection ends. */
static bool may_meet(enum book book, enum column left, int one, enum column right, int other) {
    if (!is_possible(book, left, one) || !is_possible(book, right, other))
        return false;
    if (left == COLUMN_CORE && right == COLUMN_ENGINE)
        return core_fits(book, one, other);
    if (left == COLUMN_CORE && one == CLAIM_KEPT && right == COLUMN_READER && book == BOOK_REDIS)
        return other == 0 || other == 3; /* no caller waits for it */
    if (book == BOOK_REDIS)
        return !(left == COLUMN_ENGINE && one == RCLAIM_SECURING && right == COLUMN_LINK && other != LINK_UP);
    return !(left == COLUMN_CORE && one == CLAIM_LEAVING) &&
           !(left == COLUMN_ENGINE && one == ZK_OFFLINE && right == COLUMN_LINK && other == 1) &&
           !(left == COLUMN_LINK && one == 1 && right == COLUMN_EVENT && other == EVENT_OPEN);
}

static void count(enum book book, const int values[COLUMNS]) {
    for (int i = 0; i < COLUMNS; i++)
        for (int j = i + 1; j < COLUMNS; j++)
            seen[book][i][j][values[i]][values[j]]++;
}

/* ---- The engines ---------------------------------------------------------------------------------------------------------- */

static void look_at_redis(const struct claims *claims, int event) {
    const struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims->all, all) {
        const struct home *home = claim->home;
        int reader = home->reader.sleeper == &claim->kit ? 1 : claim->kit.waits == KIT_FOLLOWS ? 2 : claim->kit.adopted ? 3 : 0;

        count(BOOK_REDIS, (int[COLUMNS]){(int)claim_of(claim->kit.claim)->state, (int)claim->state, reader,
                                         (int)home->server.commands.state, event});
    }
}

static void look_at_zookeeper(const struct zk_engine *zk, int event) {
    const struct zk_claim *claim;

    TAILQ_FOREACH(claim, &zk->claims, link) {
        count(BOOK_ZOOKEEPER,
              (int[COLUMNS]){(int)claim_of(claim->claim)->state, (int)claim->state, 0, (int)zk->session.state, event});
    }
}

static void look_at(const struct pawl *client, int event) {
    const char *name = client->engine->impl->name;

    if (strcmp(name, "redis") == 0)
        look_at_redis((const struct claims *)client->engine, event);
    else if (strcmp(name, "zk") == 0)
        look_at_zookeeper((const struct zk_engine *)client->engine, event);
}

/* fork.c's list of the clients that are open: sim/meson.build shows it. */
TAILQ_HEAD(client_list, pawl);
extern struct client_list sim_clients;

static void on_event(struct process *process, enum world_event event) {
    const struct client_list *list = world_global(process, &sim_clients);
    const struct pawl *client;

    TAILQ_FOREACH(client, list, all) {
        if (!atomic_load_explicit(&client->closed, memory_order_relaxed))
            look_at(client, (int)event);
    }
}

void coverage_begin(void) {
    world_on_event(on_event);
}

/* ---- The report ----------------------------------------------------------------------------------------------------------- */

static void print_pairs(FILE *to, enum book book, int left, int right) {
    int pairs = 0, met = 0;

    for (int i = 0; words[book][left][i] != NULL; i++)
        for (int j = 0; words[book][right][j] != NULL; j++) {
            if (!may_meet(book, (enum column)left, i, (enum column)right, j))
                continue;
            pairs++;
            met += seen[book][left][right][i][j] > 0;
        }
    fprintf(to, "  %s and %s: %d of %d\n", column_names[left], column_names[right], met, pairs);
    for (int i = 0; words[book][left][i] != NULL; i++)
        for (int j = 0; words[book][right][j] != NULL; j++)
            if (may_meet(book, (enum column)left, i, (enum column)right, j) && seen[book][left][right][i][j] == 0)
                fprintf(to, "      never: %s, %s\n", words[book][left][i], words[book][right][j]);
}

void coverage_print(FILE *to) {
    static const char *const titles[BOOKS] = {"Redis", "ZooKeeper"};

    for (int book = 0; book < BOOKS; book++) {
        fprintf(to, "%s\n", titles[book]);
        for (int left = 0; left < COLUMNS; left++)
            for (int right = left + 1; right < COLUMNS; right++)
                print_pairs(to, (enum book)book, left, right);
    }
}
