/* SPDX-License-Identifier: Apache-2.0
 *
 * histories.h - for the tests of the checker of `pawl torture`: histories that are written by hand, and judged.
 */
#ifndef PAWL_TESTS_HISTORIES_H
#define PAWL_TESTS_HISTORIES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "../../lab/torture/check.h"

/* A table of its own, so that the tests of the rules do not depend on what is promised at the moment. */
static const char table[] = "| engine | fault | oracle | bound | test |\n"
                            "|---|---|---|---|---|\n"
                            "| leased | client-kill | EXCLUSIVE | - | t |\n"
                            "| leased | client-stop | EXCLUSIVE | resume | t |\n"
                            "| leased | flushall | FENCED | renewal | t |\n"
                            "| leased | failover | LOSS | lease | t |\n"
                            "| leased | break-now | FENCED | renewal | t |\n"
                            "| redis-replicas | client-kill | EXCLUSIVE | - | t |\n"
                            "| redlock | client-fast | EXCLUSIVE | - | t |\n"
                            "| redlock | flushall | FENCED | lease | t |\n"
                            "| local | client-kill | EXCLUSIVE | - | t |\n"
                            "| local | break-now | FENCED | now | t |\n"
                            "| local | reboot | EXCLUSIVE | - | t |\n"
                            "\n"
                            "| engine | order is kept | idle | after a fault |\n"
                            "|---|---|---|---|\n"
                            "| leased | none client-kill | 1 lease + 1 s | 2 leases + 3 s |\n"
                            "| redis-replicas | - | 1 lease + 1 s | 2 leases + 3 s |\n"
                            "| redlock | - | 1 lease + 1 s | 2 leases + 3 s |\n"
                            "| local | none | 1 s | 2 s |\n";

/* Times in the histories below are in ms, for the eye; a lease is 1000. */
static inline void put_line(struct check *check, const char *line, size_t length) {
    char text[512];
    int64_t ms = strtoll(line, NULL, 10);
    const char *rest = memchr(line, ' ', length);

    /* Lines that are not of that form go in as they are. */
    if (!rest) {
        check_line(check, line, length);
        return;
    }
    snprintf(text, sizeof text, "%lld%.*s", (long long)ms * 1000000, (int)(length - (size_t)(rest - line)), rest);
    check_line(check, text, strlen(text));
}

static struct verdict verdict;

static inline void judge(const char *engine, const char *lease, const char *body) {
    struct check *check = check_new(table);
    char head[512];
    const char *end;

    assert_non_null(check);
    snprintf(head, sizeof head,
             "0 rig version 1\n0 rig engine %s\n0 rig lease %s\n0 rig handoff 1\n0 rig lock 0 mutex 1\n0 rig lock 1 rwlock 1\n"
             "0 rig lock 2 semaphore 3\n",
             engine, lease);
    for (const char *part = head; part; part = part == head ? body : NULL)
        for (const char *line = part; *line; line = end + 1) {
            end = strchr(line, '\n');
            put_line(check, line, (size_t)(end - line));
        }
    check_finish(check, &verdict);
    check_free(check);
}

static inline void breaks(enum rule rule, const char *body) {
    judge("leased", "1000000000", body);
    for (size_t i = 0; i < verdict.texts; i++)
        if (verdict.first[i].rule != rule)
            fail_msg("%s: %s\n%s", rule_names[verdict.first[i].rule], verdict.first[i].text, body);
    if (!verdict.violations[rule])
        fail_msg("%s was not seen in\n%s", rule_names[rule], body);
}

static inline void holds(const char *body) {
    judge("leased", "1000000000", body);
    if (verdict.total)
        fail_msg("%s: %s\n%s", rule_names[verdict.first[0].rule], verdict.first[0].text, body);
}

#define TWO "0 0.1.0 start 100\n0 1.1.0 start 101\n"
#define END "9000 rig end\n"
#define NS "000000"

#endif
