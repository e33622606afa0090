/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict.c - see verdict.h.
 */
#include "verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "breaks.h"
#include "buffer.h"
#include "calm.h"
#include "circles.h"
#include "plan.h"
#include "torture/check.h"

static const char *const own_rules[] = {"calm", "hung", "livelock", "stuck", "late", "leak", "requests", "deadlock", "broken"};
enum { OWN_RULES = sizeof own_rules / sizeof own_rules[0] };

bool verdict_knows(const char *rule) {
    for (int i = 0; i < RULE_COUNT; i++)
        if (strcmp(rule_names[i], rule) == 0)
            return true;
    for (int i = 0; i < OWN_RULES; i++)
        if (strcmp(own_rules[i], rule) == 0)
            return true;
    return false;
}

bool outcome_breaks(const struct outcome *outcome, const char *rule) {
    for (unsigned i = 0; i < outcome->findings; i++)
        if (rule == NULL || strcmp(outcome->list[i].rule, rule) == 0)
            return true;
    return false;
}

__attribute__((format(printf, 3, 4))) static void find(struct outcome *outcome, const char *rule, const char *format, ...) {
    va_list arguments;

    outcome->violations++;
    if (outcome->findings == FINDINGS || outcome_breaks(outcome, rule))
        return;
    struct finding *finding = &outcome->list[outcome->findings++];

    snprintf(finding->rule, sizeof finding->rule, "%s", rule);
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

static const char *after_end(enum world_end end) {
    static const char *const rules[] = {
        [WORLD_DONE] = NULL, [WORLD_LATE] = "late", [WORLD_STUCK] = "stuck", [WORLD_LIVELOCK] = "livelock"};

    return rules[end];
}

/* A world that ended too early has no `end` in its history; that is said by a rule of its own. */
static void close_history(const struct facts *facts, struct outcome *ret) {
    size_t size;
    const char *text = buffer_text(&size), *last = size > 1 ? memrchr(text, '\n', size - 1) : NULL;
    char line[64];

    if (facts->end == WORLD_DONE)
        return;
    find(ret, after_end(facts->end), "the world came to this end after %" PRIu64 " steps", facts->steps);
    snprintf(line, sizeof line, "%" PRId64 " rig end\n", last != NULL ? (int64_t)strtoll(last + 1, NULL, 10) : 0);
    buffer_add(line);
}

static bool has_stroke(const struct plan *plan, int fault) {
    for (size_t i = 0; i < plan->strokes.count; i++)
        if (plan->strokes.list[i].fault == fault)
            return true;
    return false;
}

/* Of servers that lie nothing can be held against pawl, but that it lives and ends; of those that break off a script nothing but what they
 * left half done: docs/guarantees.md, "What is not promised". Who is asked to give a lock back before it knows that it has it, queues
 * anew. */
static bool counts(const struct plan *plan, const char *rule) {
    static const char *const always[] = {"crash", "livelock", "stuck", "late", "leak"}, *const of_halves[] = {"error", "residue",
                                                                                                              "try", "wakeup",
                                                                                                              "hung"};

    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        if (strcmp(always[i], rule) == 0)
            return true;
    for (size_t i = 0; has_stroke(plan, SIM_WRITE_INSIDE) && i < sizeof of_halves / sizeof of_halves[0]; i++)
        if (strcmp(of_halves[i], rule) == 0)
            return false;
    if (plan_breaks(plan) && strcmp(rule, "order") == 0)
        return false;
    return plan->nonsense == 0;
}

static void judge_history(const struct plan *plan, struct outcome *ret, struct calm *calm, struct circles *circles,
                          struct breaks *breaks) {
    struct check *check = check_new(oracle_text);
    struct verdict *verdict = malloc(sizeof *verdict);
    size_t size;
    const char *text = buffer_text(&size), *end = text + size, *newline;

    for (const char *line = text; line < end; line = newline + 1) {
        newline = memchr(line, '\n', (size_t)(end - line));
        check_line(check, line, (size_t)(newline - line));
        calm_line(calm, line, (size_t)(newline - line));
        if (plan->nests > 0)
            circles_line(circles, line, (size_t)(newline - line));
        if (plan_breaks(plan))
            breaks_line(breaks, line, (size_t)(newline - line));
    }
    check_finish(check, verdict);
    for (size_t i = 0; i < verdict->texts; i++)
        if (counts(plan, rule_names[verdict->first[i].rule]))
            find(ret, rule_names[verdict->first[i].rule], "%s", verdict->first[i].text);
    ret->holds = verdict->exclusive + verdict->shared + verdict->permits;
    ret->watched = verdict->watched;
    check_free(check);
    free(verdict);
}

static void judge_requests(const struct plan *plan, struct outcome *ret) {
    uint64_t most = ret->holds * (uint64_t)plan->requests / 100;

    if (plan->requests > 0 && plan_is_calm(plan) && plan->observer == 0 && plan->watch == 0 && ret->messages > most)
        find(ret, "requests", "%" PRIu64 " messages for %" PRIu64 " holds; %" PRIu64 " are allowed", ret->messages, ret->holds,
             most);
}

/* A waiter on a Redis asks again within this time, also if a message to it was lost: ALIVE_NS in
 * src/engine/redis/lock/answer.c, and a quarter. */
#define ASKS_AGAIN (2600 * WORLD_MS)

/* How much longer may it take because of this fault until somebody has a lock that it could have? -1: nobody knows. On Redis the dead are
 * passed over at once, a clock that is wrong makes nobody wait, and after a cut all is asked again. */
static int64_t delays(const struct plan *plan, int fault) {
    bool one = strcmp(plan->service->word, "redis") == 0;

    if (strncmp(plan->service->prefix, "redis", 5) != 0 || strcmp(plan->service->word, "redis-replicas") == 0)
        return -1;
    switch (fault) {
    case FAULT_CLIENT_KILL:
    case FAULT_CLIENT_CLOCK:
    case SIM_CLIENT_JUMP:
        return 0;
    case FAULT_SERVER_FAST:
    case SIM_SERVER_RATE: /* what the dead held lasts by that clock */
        return plan->faults[FAULT_CLIENT_KILL] ? -1 : 0;
    case FAULT_CUT:
    case SIM_REPLY_LOST:
    case SIM_CUT_INSIDE:
        return one ? ASKS_AGAIN : -1;
    default:
        return -1;
    }
}

/* A ZooKeeper that has too much to do refuses requests, and each is made again a tenth of a second later, together with those that it makes
 * sense with. */
#define REFUSED_AGAIN (2000 * WORLD_MS)

/* Is it known how long anybody may wait for what it could have? */
static bool bounds_waits(const struct plan *plan, int64_t *more) {
    *more = plan->throttle > 0 ? REFUSED_AGAIN : 0;
    if (plan_refuses_often(plan))
        return false;
    for (size_t i = 0; i < plan->strokes.count; i++) {
        int64_t longer = delays(plan, plan->strokes.list[i].fault);

        if (longer < 0)
            return false;
        *more = longer > *more ? longer : *more;
    }
    return counts(plan, "calm");
}

/* Nothing strikes that could take a hold from a client that lives, nor has any a limit. A slot that moves does not, unless that takes
 * long. A server that refuses many requests does: a client whose signs of life are refused does not know in time that its session
 * lives. */
static bool spares_holders(const struct plan *plan) {
    const struct oracle *oracle = service_oracle(plan->service);

    for (size_t i = 0; i < plan->strokes.count; i++) {
        const struct sim_stroke *stroke = &plan->strokes.list[i];

        if (oracle->faults[sim_row(stroke->fault)].told != TOLD_NEVER &&
            (stroke->fault != FAULT_SLOT_MIGRATION || stroke->span_ms > plan->lease / 3 || strstr(plan->url, "claim=") != NULL))
            return false;
    }
    return counts(plan, "calm") && !plan_has_foreigners(plan) && !plan_breaks(plan) && !plan_refuses_often(plan) &&
           plan->extend == 0;
}

/* Those who are handed the lock by each other leave a turn to foreigners that listen: after one release in 16, drawn by lot. That none came
 * in so many is as good as impossible. */
enum { TURN_COMES = 400 };

static bool gives_turns(const struct plan *plan) {
    for (int i = 0; i < ACTOR_CLASSES; i++)
        if (plan->actors[i] != (i == ACTOR_CLASS_redisson_lock))
            return false;
    return plan_is_calm(plan) && counts(plan, "calm");
}

static void judge_waits(const struct plan *plan, const struct calm *calm, struct outcome *ret) {
    if (!calm->hasty && calm->worst_ns > calm->bound_ns)
        find(ret, "calm", "client %d.%u waited for lock %d for %.3f s while it could have had it, until %.6f s", calm->worst.slot,
             calm->worst.life, calm->worst_lock, (double)calm->worst_ns / 1e9, (double)calm->worst_at / 1e9);
    if (calm->starved > TURN_COMES && gives_turns(plan))
        find(ret, "calm", "the lock was handed on %u times while a foreigner waited, and it never had its turn", calm->starved);
    if (calm->lost > 0 && spares_holders(plan))
        find(ret, "calm", "%u holds were told as lost, and nothing could have taken them", calm->lost);
}

/* Who waits is looked at after a second, and then every four: PAWL__LOOK_NS and PAWL__LOOK_AGAIN_NS in src/core/core.h; and a second. */
#define BROKEN_BY (6 * WORLD_SECOND)

/* Deadlocks are ended, those alone, and in time if nothing keeps pawl from seeing them. */
static void judge_circles(const struct plan *plan, const struct circles *circles, struct outcome *ret) {
    bool ends = strstr(plan->url, "deadlock=break") != NULL && plan_is_calm(plan) && plan->throttle == 0;

    if (!counts(plan, "deadlock"))
        return;
    if (circles->wrong > 0)
        find(ret, "deadlock", "client %d.%u: the wait of thread %d was ended at %.6f s, and it was in no deadlock",
             circles->first_wrong.slot, circles->first_wrong.life, circles->first_wrong.thread, (double)circles->wrong_at / 1e9);
    if (ends && circles->worst_ns > BROKEN_BY)
        find(ret, "deadlock", "client %d.%u: thread %d waited in a deadlock for %.3f s, until %.6f s", circles->worst.slot,
             circles->worst.life, circles->worst.thread, (double)circles->worst_ns / 1e9, (double)circles->worst_at / 1e9);
}

/* How often something is under way, at the most, until who is asked to give a hold back is told; and what else that may take. */
enum { BREAK_TRIPS = 12 };
#define BREAK_TOLD (300 * WORLD_MS)

static void begin_breaks(const struct plan *plan, struct breaks *breaks) {
    bool calm = plan_is_calm(plan) && plan->throttle == 0 && !plan_has_foreigners(plan);
    int64_t moment_ns = BREAK_TOLD + BREAK_TRIPS * plan->far * 1000;

    /* On ZooKeeper who has several permits has as many nodes, and watches one: by the others it is told by a heartbeat. */
    if (strncmp(plan->service->prefix, "zk", 2) == 0)
        moment_ns += plan->lease * WORLD_MS / 3;
    breaks_begin(breaks, service_oracle(plan->service), moment_ns, calm);
}

static void judge_breaks(const struct plan *plan, struct breaks *breaks, struct outcome *ret) {
    static const char *const words[BREAKS_WRONGS] = {
        [BREAKS_RENEWED] = "was renewed after that: assured for a lease and more after it, by",
        [BREAKS_NOT_TOLD] = "was not told of it for",
        [BREAKS_NOT_IN_THE_WAY] = "was in nobody's way before it was released, by",
    };

    if (!plan_breaks(plan) || !counts(plan, "broken"))
        return;
    breaks_judge(breaks);
    for (int i = 0; i < BREAKS_WRONGS; i++) {
        const struct breaks_hold *hold = breaks->first[i].hold;

        if (hold != NULL)
            find(ret, "broken", "client %d.%u: its hold of lock %d with token %" PRIu64 " was broken at %.6f s, and %s %.3f s",
                 hold->who.slot, hold->who.life, hold->lock, hold->token, (double)breaks->first[i].asked->known / 1e9, words[i],
                 (double)breaks->first[i].ns / 1e9);
    }
}

/* So long a write may take from one server of an ensemble to the leader and back: one that was asked for later may be ahead of it. */
#define THROUGH_ENSEMBLE (5 * WORLD_MS)

void verdict_give(const struct plan *plan, const struct facts *facts, struct outcome *ret) {
    static struct calm calm;
    static struct circles circles;
    static struct breaks breaks;
    int64_t more;

    *ret = (struct outcome){.hash = facts->hash,
                            .steps = facts->steps,
                            .strokes = facts->strokes,
                            .messages = facts->messages - facts->messages_before};
    memcpy(ret->at_site, facts->at_site, sizeof ret->at_site);
    calm_begin(&calm, (int)plan->clients, plan->far);
    if (strncmp(plan->service->prefix, "zk", 2) == 0) {
        calm.one_queue = true;
        calm.queues_ns += THROUGH_ENSEMBLE;
    }
    calm.hasty = !bounds_waits(plan, &more);
    calm.bound_ns += more;
    if (plan->patience > 0) {
        calm.hasty = false;
        calm.bound_ns = plan->patience * WORLD_MS;
    }
    close_history(facts, ret);
    circles_begin(&circles, (int)plan->threads);
    if (plan_breaks(plan))
        begin_breaks(plan, &breaks);
    judge_history(plan, ret, &calm, &circles, &breaks);
    judge_waits(plan, &calm, ret);
    judge_circles(plan, &circles, ret);
    judge_breaks(plan, &breaks, ret);
    if (calm.hung > 0 && counts(plan, "hung"))
        find(ret, "hung", "%u clients did not come to an end", calm.hung);
    if (facts->leaked > 0)
        find(ret, "leak", "clients did not free %zu bytes", facts->leaked);
    if (facts->words[0] != '\0')
        find(ret, "crash", "%s", facts->words);
    judge_requests(plan, ret);
}
