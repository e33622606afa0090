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

/* Taken within each round, where the machine was the same for both; then the median of that. Samples of one round stand at the same place:
 * a row that failed is not measured again. */
double ratio_to_limit(const struct target *target, enum row row) {
    enum row limit = row_descriptions[row].limit;
    bool by_rate = row_descriptions[row].limit_by_rate && strcmp(target->engine, "local") == 0;
    enum measure measure = by_rate ? RATE : P50;
    struct figure ratios = {0};

    if (limit == ROWS)
        return 0;
    const struct figure *ours = &target->results[row].figures[measure], *bare = &target->results[limit].figures[measure];
    for (int round = 0; round < ours->count && round < bare->count; round++) {
        double one = ours->values[round], other = bare->values[round];

        if (one > 0 && other > 0)
            figure_add(&ratios, by_rate ? other / one : one / other);
    }
    return figure_median(&ratios);
}

const char *limit_name(const struct target *target, enum row row) {
    enum row limit = row_is_bare(row) ? row : row_descriptions[row].limit;
    const struct raw_impl *impl = target->raw != NULL ? target->raw->impl : NULL;
    const char *name = impl == NULL || limit > ROW_SET ? NULL
                       : limit == ROW_SET              ? impl->set
                       : limit == ROW_MESSAGE          ? impl->message
                                                       : impl->names[limit - ROW_TRIP];

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
