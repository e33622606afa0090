/* SPDX-License-Identifier: Apache-2.0
 *
 * enumerate.c - a small scene, played once for every message that may get lost: the n-th to each server, before it is carried out and
 * after. What is drawn elsewhere is complete here.
 */
#include <stdio.h>
#include <stdlib.h>

#include "many.h"
#include "run.h"

/* Two clients and one lock, for some hand-overs. */
static const char scene[] = "clients=2,threads=1,locks=1,time=40,lease=1000,hold=3,pace=100,preempt=0,priorities=0,near=0,far=0,"
                            "onebyte=0,observer=0,down=1000,version=0,requests=0,kinds=%c,faults=%s,url=";
enum { SPAN_MS = 32 };

static bool make_scene(const struct many *many, const struct sim_service *service, char kind, const char *faults,
                       struct plan *ret) {
    char options[512], why[160];

    plan_draw(ret, service, many->seed);
    ret->strokes.count = 0;
    snprintf(options, sizeof options, scene, kind, faults);
    if (plan_read_options(ret, options, why, sizeof why) &&
        plan_read_options(ret, many->options != NULL ? many->options : "", why, sizeof why))
        return true;
    fprintf(stderr, "pawl-sim: the scene: %s\n", why);
    return false;
}

static void play(const struct many *many, const struct plan *plan, struct tally *tally, struct outcome *ret) {
    run_plan(plan, NULL, ret);
    tally_add(tally, ret, many->rule);
    if (outcome_breaks(ret, many->rule))
        violation_print(many, plan, ret, true);
}

static void lose_each(const struct many *many, struct plan *plan, const struct outcome *calm, struct tally *tally) {
    struct outcome outcome;

    plan->strokes.count = 1;
    for (unsigned site = 0; site < SITES_MAX; site++)
        for (unsigned n = 1; n <= calm->at_site[site] && n <= REPLY_NUMBERS; n++)
            for (int before = 0; before < 2; before++) {
                plan->strokes.list[0] = (struct sim_stroke){
                    .span_ms = SPAN_MS, .fault = SIM_REPLY_LOST, .target = reply_target(n, before, site)};
                play(many, plan, tally, &outcome);
                if (many->until_violation && tally->violations > 0)
                    return;
            }
}

uint64_t enumerate_play(const struct many *many) {
    static const char kinds[] = "mrs";
    struct plan *plan = malloc(sizeof *plan);
    struct tally tally = {0};
    struct outcome calm;

    for (int i = 0; plan != NULL && i < many->service_count; i++)
        for (const char *kind = kinds; *kind != '\0'; kind++) {
            if (many->services[i]->mutex_only && *kind != 'm')
                continue;
            if (!make_scene(many, many->services[i], *kind, "none", plan))
                break;
            play(many, plan, &tally, &calm);
            make_scene(many, many->services[i], *kind, "reply-lost", plan);
            lose_each(many, plan, &calm, &tally);
        }
    free(plan);
    tally_print(&tally);
    return tally.violations;
}
