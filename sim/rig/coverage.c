/* SPDX-License-Identifier: Apache-2.0
 *
 * coverage.c - see coverage.h.
 *
 * At each event of a process its memory is looked at, from outside: the clients that it has opened (fork.c keeps the list), their engines,
 * and the claims in them. What is counted are pairs: each column against each other one, of the claims that were there.
 */
#include "coverage.h"

#include <string.h>

#include "core/claim.h"
#include "engine/redis/lock/lock.h"
#include "engine/zookeeper/lock/lock.h"

#include "world/world.h"

enum column { COLUMN_CORE, COLUMN_ENGINE, COLUMN_READER, COLUMN_LINK, COLUMN_EVENT, COLUMNS };
enum { WORDS_MAX = 16 };
enum book { BOOK_REDIS, BOOK_ZOOKEEPER, BOOKS };

static const char *const column_names[COLUMNS] = {"claim", "engine", "reader", "connection", "event"};

/* By the enums of the code, so that each has its word, also when one is added. */
static const char *const core_words[] = {
    [CLAIM_NEW] = "new",         [CLAIM_PENDING] = "pending", [CLAIM_HELD] = "held", [CLAIM_OPEN] = "open", [CLAIM_KEPT] = "kept",
    [CLAIM_LEAVING] = "leaving", [CLAIM_GONE] = "gone",       [CLAIM_LOST] = "lost", [CLAIM_STATES] = NULL};
static const char *const redis_words[] = {[RCLAIM_NONE] = "none",
                                          [RCLAIM_ASKING] = "asking",
                                          [RCLAIM_WAITING] = "waiting",
                                          [RCLAIM_SECURING] = "securing",
                                          [RCLAIM_UNDOING] = "undoing",
                                          [RCLAIM_HOLDING] = "holding",
                                          [RCLAIM_LOST] = "lost",
                                          [RCLAIM_DOWNGRADING] = "downgrading",
                                          [RCLAIM_RELEASING] = "releasing",
                                          [RCLAIM_LEAVING] = "leaving",
                                          [RCLAIM_STATES] = NULL};
static const char *const zookeeper_words[] = {
    [ZK_NEW] = "new",         [ZK_OFFLINE] = "offline",   [ZK_ADMISSION] = "admission",     [ZK_CREATING] = "creating",
    [ZK_FINDING] = "finding", [ZK_CLEARING] = "clearing", [ZK_QUEUED] = "queued",           [ZK_LEASING] = "leasing",
    [ZK_PROVING] = "proving", [ZK_HELD] = "held",         [ZK_DOWNGRADING] = "downgrading", [ZK_LOST] = "lost",
    [ZK_OVER] = "over",       [ZK_STATES] = NULL};
static const char *const link_words[] = {[LINK_DOWN] = "down",       [LINK_CONNECTING] = "connecting",
                                         [LINK_SHAKING] = "shaking", [LINK_GREETING] = "greeting",
                                         [LINK_UP] = "up",           [LINK_STATES] = NULL};
static const char *const session_words[] = {
    [ZK_CLOSED] = "closed",   [ZK_CONNECTING] = "connecting", [ZK_CONNECTED] = "connected", [ZK_TORN] = "torn",
    [ZK_EXPIRED] = "expired", [ZK_USER_REFUSED] = "refused",  [ZK_SESSION_STATES] = NULL};
enum reader { READER_NOBODY, READER_LEADS, READER_FOLLOWS, READER_ADOPTED, READERS };
static const char *const reader_words[] = {[READER_NOBODY] = "nobody",
                                           [READER_LEADS] = "leads",
                                           [READER_FOLLOWS] = "follows",
                                           [READER_ADOPTED] = "adopted",
                                           [READERS] = NULL};
static const char *const event_words[] = {[EVENT_BYTES] = "bytes", [EVENT_OPEN] = "open",   [EVENT_END] = "end",
                                          [EVENT_RESET] = "reset", [EVENT_TIMER] = "timer", [EVENT_TIMER + 1] = NULL};

static const char *const *const words[BOOKS][COLUMNS] = {
    [BOOK_REDIS] = {core_words, redis_words, reader_words, link_words, event_words},
    [BOOK_ZOOKEEPER] = {core_words, zookeeper_words, (const char *const[]){"service", NULL}, session_words, event_words},
};

/* How often value `a` of one column was seen with value `b` of another. */
static uint64_t seen[BOOKS][COLUMNS][COLUMNS][WORDS_MAX][WORDS_MAX];

/* TLS and users who are refused are not simulated, and a claim that its engine does not know, or has done with, is not looked at.
 * Thousands of claims at once (ZK_ADMISSION), and a directory that was used two billion times (ZK_CLEARING), are left to
 * tests/zookeeper/. Between two events an expired session is replaced, and one that was torn is mended as soon as its thread runs. */
static bool is_possible(enum book book, enum column column, int value) {
    if (column == COLUMN_CORE)
        return value == CLAIM_PENDING || value == CLAIM_HELD || value == CLAIM_OPEN || value == CLAIM_KEPT ||
               value == CLAIM_LEAVING;
    if (book == BOOK_REDIS)
        return !(column == COLUMN_ENGINE && value == RCLAIM_NONE) && !(column == COLUMN_LINK && value == LINK_SHAKING);
    if (column == COLUMN_ENGINE)
        return value != ZK_NEW && value != ZK_OVER && value != ZK_ADMISSION && value != ZK_CLEARING;
    return column != COLUMN_LINK || value == ZK_CONNECTING || value == ZK_CONNECTED;
}

/* Nobody holds it, and no caller waits for it in the engine. */
static bool is_idle(int core) {
    return core == CLAIM_OPEN || core == CLAIM_KEPT;
}

/* What the core knows and what the engine does. It is told of a grant when the engine is through with it, a hold is never asked for again,
 * and a claim that it gives back is being given back by the engine from then on; ZooKeeper's node is left to others by then (sweep.c).
 * With a claim that is idle nothing is done; but it may be lost. */
static bool core_fits(enum book book, int core, int engine) {
    if (core == CLAIM_PENDING)
        return engine != (book == BOOK_REDIS ? (int)RCLAIM_DOWNGRADING : (int)ZK_DOWNGRADING);
    if (is_idle(core))
        return book == BOOK_REDIS ? engine == RCLAIM_HOLDING || engine == RCLAIM_LOST : engine == ZK_HELD || engine == ZK_LOST;
    if (book == BOOK_REDIS)
        return core == CLAIM_LEAVING ? engine >= RCLAIM_RELEASING : engine >= RCLAIM_HOLDING;
    return core == CLAIM_HELD && engine >= ZK_HELD;
}

/* May the two ever meet? Who waits for a connection has none; and what waits for replicas is asked anew when its connection ends.
 *
 * Two may, and were never seen. Redis, held and leaving: the connection ends with the release in it after the engine has let go of its
 * mutex, and before the core notes the withdrawal, two lines later. Redis, lost and leads: another thread hears of the grant and of the
 * loss while the one that reads for all still sleeps; but what grants is read by that one, as a rule. */
static bool may_meet(enum book book, enum column left, int one, enum column right, int other) {
    if (!is_possible(book, left, one) || !is_possible(book, right, other))
        return false;
    if (left == COLUMN_CORE && right == COLUMN_ENGINE)
        return core_fits(book, one, other);
    if (left == COLUMN_CORE && is_idle(one) && right == COLUMN_READER && book == BOOK_REDIS)
        return other == READER_NOBODY || other == READER_ADOPTED;
    if (book == BOOK_REDIS)
        return !(left == COLUMN_ENGINE && one == RCLAIM_SECURING && right == COLUMN_LINK && other != LINK_UP);
    return !(left == COLUMN_CORE && one == CLAIM_LEAVING) &&
           !(left == COLUMN_ENGINE && one == ZK_OFFLINE && right == COLUMN_LINK && other == ZK_CONNECTED) &&
           !(left == COLUMN_LINK && one == ZK_CONNECTED && right == COLUMN_EVENT && other == EVENT_OPEN);
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
        int reader = home->reader.sleeper == &claim->kit ? READER_LEADS
                     : claim->kit.waits == KIT_FOLLOWS   ? READER_FOLLOWS
                     : claim->kit.adopted                ? READER_ADOPTED
                                                         : READER_NOBODY;

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
