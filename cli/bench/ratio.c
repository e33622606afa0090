/* SPDX-License-Identifier: Apache-2.0
 *
 * ratio.c - each row beside the bare operation it is compared with, and numbers as people write them.
 */
#include <string.h>

#include "raw.h"

bool row_is_known(const struct target *target, enum row row) {
    for (int measure = 0; measure < MEASURES; measure++)
        if (target->results[row].figures[measure].count > 0)
            return true;
    return false;
}

/* ns of one, by the rate or by the median. */
static double one_takes(const struct target *target, enum row row, bool by_rate) {
    const struct figure *figures = target->results[row].figures;
    double rate = figure_median(&figures[RATE]);

    if (by_rate)
        return rate > 0 ? 1e9 / rate : 0;
    return figure_median(&figures[P50]);
}

double ratio_to_limit(const struct target *target, enum row row) {
    enum row limit = row_descriptions[row].limit;
    bool by_rate = row_descriptions[row].limit_by_rate && strcmp(target->engine, "local") == 0;

    if (limit == ROWS)
        return 0;
    double bare = one_takes(target, limit, by_rate);
    return bare > 0 ? one_takes(target, row, by_rate) / bare : 0;
}

const char *limit_name(const struct target *target, enum row row) {
    enum row limit = row_is_bare(row) ? row : row_descriptions[row].limit;
    const char *name = limit == ROWS || target->raw == NULL ? NULL : target->raw->impl->names[limit - ROW_TRIP];

    return name != NULL ? name : "";
}

static char *with_unit(char *out, size_t size, double value, const char *unit) {
    snprintf(out, size, "%.*f%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, unit);
    return out;
}

char *in_time_units(char *out, size_t size, double ns) {
    if (ns < 999.5)
        return with_unit(out, size, ns, " ns");
    if (ns < 999.5e3)
        return with_unit(out, size, ns / 1e3, " us");
    if (ns < 999.5e6)
        return with_unit(out, size, ns / 1e6, " ms");
    return with_unit(out, size, ns / 1e9, " s");
}

char *in_thousands(char *out, size_t size, double number) {
    if (number < 999.5)
        return with_unit(out, size, number, "");
    if (number < 999.5e3)
        return with_unit(out, size, number / 1e3, " k");
    return with_unit(out, size, number / 1e6, " M");
}
