/* SPDX-License-Identifier: Apache-2.0
 *
 * findings.h - what `pawl doctor` would say, as text: for the tests of the engines' examinations.
 */
#ifndef PAWL_FINDINGS_H
#define PAWL_FINDINGS_H

#include "test.h"

struct findings {
    int warnings, count;
    char text[8192];
};

static int add_finding(const struct pawl_finding *finding, void *data) {
    static const char *const signs[] = {
        [PAWL_FINDING_GOOD] = "good", [PAWL_FINDING_UNKNOWN] = "unknown", [PAWL_FINDING_WARNING] = "warning"};
    struct findings *findings = data;
    size_t used = strlen(findings->text);

    findings->warnings += finding->severity == PAWL_FINDING_WARNING;
    findings->count++;
    snprintf(findings->text + used, sizeof findings->text - used, "%s: %s -> %s\n", signs[finding->severity], finding->what,
             finding->advice);
    return 0;
}

#endif
