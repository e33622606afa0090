/* SPDX-License-Identifier: Apache-2.0
 *
 * regressions.c - see regressions.h.
 */
#include "regressions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

enum { FIELDS = 6 };

static bool fail(char *why, size_t size, const char *what, const char *text) {
    snprintf(why, size, "%s '%.60s'", what, text);
    return false;
}

static bool read_fields(char *const fields[FIELDS], int count, struct regression *ret, char *why, size_t size) {
    const struct sim_service *service = service_find(fields[0], strlen(fields[0]));
    char *end;

    if (service == NULL)
        return fail(why, size, "there is no service", fields[0]);
    uint64_t seed = strtoull(fields[1], &end, 10);

    if (*end != '\0')
        return fail(why, size, "not a seed:", fields[1]);
    plan_draw(&ret->plan, service, seed);
    /* A line that does not say so is from before. */
    ret->plan.sets = ret->plan.nests = ret->plan.values = ret->plan.notes = ret->plan.bytoken = ret->plan.watch =
        ret->plan.together = ret->plan.apart = ret->plan.keep = 0;
    if (!plan_read_options(&ret->plan, fields[2], why, size))
        return false;
    if (!strokes_read(fields[3], &ret->plan.strokes))
        return fail(why, size, "not a list of strokes:", fields[3]);
    if (!verdict_knows(fields[4]))
        return fail(why, size, "there is no rule", fields[4]);
    snprintf(ret->rule, sizeof ret->rule, "%s", fields[4]);
    ret->known = count == FIELDS;
    return !ret->known || strcmp(fields[5], "known") == 0 || fail(why, size, "only `known` may follow, not", fields[5]);
}

bool regression_read(const char *line, struct regression *ret, char *ret_why, size_t size) {
    char *copy = strdup(line), *rest = copy, *field, *fields[FIELDS + 1];
    int count = 0;
    bool good;

    ret_why[0] = '\0';
    while (copy != NULL && line[0] != '#' && count <= FIELDS && (field = strsep(&rest, " \t\r\n")) != NULL)
        if (field[0] != '\0')
            fields[count++] = field;
    if (count == FIELDS || count == FIELDS - 1)
        good = read_fields(fields, count, ret, ret_why, size);
    else
        good = count > 0 && fail(ret_why, size, "not SERVICE SEED OPTIONS STROKES RULE [known]:", line);
    free(copy);
    return good;
}

size_t regression_write(const struct plan *plan, const char *rule, bool known, char *ret, size_t size) {
    static char options[4096], strokes[STROKES_MAX * 64];

    plan_write_options(plan, options, sizeof options);
    strokes_write(&plan->strokes, strokes, sizeof strokes);
    return (size_t)snprintf(ret, size, "%s %" PRIu64 " %s %s %s%s", plan->service->word, plan->seed, options, strokes, rule,
                            known ? " known" : "");
}

/* ---- Playing -------------------------------------------------------------------------------------------------------------- */

static bool play(const struct regression *regression, int number) {
    struct outcome outcome;

    run_plan(&regression->plan, NULL, &outcome);
    bool broken = outcome_breaks(&outcome, regression->rule);
    bool good = regression->known ? broken : outcome.findings == 0;

    printf("%s %d - %s %" PRIu64 " %s%s\n", good ? "ok" : "not ok", number, regression->plan.service->word, regression->plan.seed,
           regression->rule, regression->known ? " (known)" : "");
    if (!good && regression->known)
        printf("# it does not fail any more: take the word `known` away\n");
    for (unsigned i = 0; !good && i < outcome.findings; i++)
        printf("# %s: %s\n", outcome.list[i].rule, outcome.list[i].text);
    return good;
}

int regressions_play(const char *path) {
    FILE *file = fopen(path, "re");
    struct regression *regression = malloc(sizeof *regression);
    char *line = NULL, why[160];
    size_t room = 0;
    int number = 0, failed = 0;

    if (file == NULL || regression == NULL) {
        fprintf(stderr, "pawl-sim: cannot read %s: %s\n", path, strerror(errno));
        free(regression);
        return -1;
    }
    while (getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (regression_read(line, regression, why, sizeof why)) {
            failed += !play(regression, ++number);
        } else if (why[0] != '\0') {
            printf("not ok %d - %s\n", ++number, why);
            failed++;
        }
        fflush(stdout);
    }
    printf("1..%d\n", number);
    fclose(file);
    free(line);
    free(regression);
    return failed;
}
