/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - pawl bench --json. Keys are added, never changed; what is not known is not there. Times are in ns, memory in bytes.
 */
#include <inttypes.h>

#include "bench.h"

enum { FORMAT = 1 };

static const char *const measure_keys[MEASURES] = {
    [RATE] = "rate",
    [P50] = "p50_ns",
    [P99] = "p99_ns",
    [P999] = "p999_ns",
    [LONGEST] = "longest_ns",
    [SHARE] = "share",
    [REQUESTS] = "requests",
    [CLIENT_CPU] = "client_cpu_ns",
    [SERVER_CPU] = "server_cpu_ns",
    [CLIENT_MEMORY] = "client_memory",
    [SERVER_MEMORY] = "server_memory",
};

static const double shares[] = {0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1};

static void print_figure(FILE *out, const struct figure *figure) {
    fprintf(out, "{\"median\":%.6g,\"low\":%.6g,\"high\":%.6g,\"rounds\":[", figure_median(figure), figure_low(figure),
            figure_high(figure));
    for (int i = 0; i < figure->count; i++)
        fprintf(out, "%s%.6g", i > 0 ? "," : "", figure->values[i]);
    fputs("]}", out);
}

static void print_percentiles(FILE *out, const struct histogram *histogram) {
    fprintf(out, ",\"count\":%" PRIu64 ",\"percentiles\":[", histogram_total(histogram));
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        fprintf(out, "%s[%.6g,%.6g]", i > 0 ? "," : "", shares[i] * 100, histogram_at(histogram, shares[i]));
    fputc(']', out);
}

static void print_row(FILE *out, const struct target *target, enum row row) {
    const struct result *result = &target->results[row];
    double ratio = ratio_to_limit(target, row);

    fprintf(out, "{\"row\":\"%s\",\"title\":", row_descriptions[row].key);
    json_string(out, row_descriptions[row].title);
    for (int i = 0; i < MEASURES; i++)
        if (result->figures[i].count > 0) {
            fprintf(out, ",\"%s\":", measure_keys[i]);
            print_figure(out, &result->figures[i]);
        }
    if (histogram_total(&result->latency) > 0)
        print_percentiles(out, &result->latency);
    if (limit_name(target, row)[0] != '\0') {
        fputs(row_is_bare(row) ? ",\"bare\":" : ",\"against\":", out);
        json_string(out, limit_name(target, row));
    }
    if (ratio > 0)
        fprintf(out, ",\"ratio\":%.4g", ratio);
    if (result->missing[0] != '\0') {
        fputs(",\"missing\":", out);
        json_string(out, result->missing);
    }
    fputc('}', out);
}

static void print_target(FILE *out, const struct target *target) {
    const char *separator = "";

    fputs("{\"url\":", out);
    json_string(out, target->shown);
    fprintf(out, ",\"engine\":\"%s\"", target->engine);
    if (target->server[0] != '\0') {
        fputs(",\"server\":", out);
        json_string(out, target->server);
    }
    if (target->lease_ms != PAWL_FOREVER)
        fprintf(out, ",\"lease_ms\":%" PRId64, target->lease_ms);
    fprintf(out, ",\"notice_ms\":%" PRId64 ",\"servers_here\":%zu,\"rows\":[", target->notice_ms, target->server_count);
    for (enum row row = 0; row < ROWS; row++) {
        if (!row_is_known(target, row) && target->results[row].missing[0] == '\0')
            continue;
        fputs(separator, out);
        print_row(out, target, row);
        separator = ",\n ";
    }
    fputs("]}", out);
}

void bench_print_json(FILE *out, const struct bench *bench) {
    fprintf(out, "{\"format\":%d,\"time_ms\":%" PRId64 ",\"version\":\"%s\",\"rounds\":%d,\"span_ms\":%" PRId64 ",\"targets\":[\n",
            FORMAT, bench->began_ms, pawl_version(), bench->rounds, bench->span_ms);
    for (size_t i = 0; i < bench->count; i++) {
        fputs(i > 0 ? ",\n" : "", out);
        print_target(out, &bench->targets[i]);
    }
    fputs("\n]}\n", out);
}
