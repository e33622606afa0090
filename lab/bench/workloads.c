/* SPDX-License-Identifier: Apache-2.0
 *
 * workloads.c - what all workloads share: names of locks, and how a sample gets into a row.
 */
#include "workloads.h"

void name_lock(struct job *job) {
    snprintf(job->lock, sizeof job->lock, "%s-%s", job->bench->id, row_descriptions[job->row].key);
}

void add_latency(struct result *result, const struct histogram *histogram) {
    if (histogram_total(histogram) == 0)
        return;
    figure_add(&result->figures[P50], histogram_at(histogram, 0.5));
    figure_add(&result->figures[P99], histogram_at(histogram, 0.99));
    figure_add(&result->figures[P999], histogram_at(histogram, 0.999));
    histogram_merge(&result->latency, histogram);
}

void add_usage(struct result *result, const struct target *target, const struct usage *used) {
    if (used->turns < 1)
        return;
    if (used->requests >= 0)
        figure_add(&result->figures[REQUESTS], used->requests / used->turns);
    figure_add(&result->figures[CLIENT_CPU], used->client_cpu_ns / used->turns);
    figure_add(&result->figures[CLIENT_MEMORY], used->client_memory);
    if (target->server_count > 0) {
        figure_add(&result->figures[SERVER_CPU], used->server_cpu_ns / used->turns);
        figure_add(&result->figures[SERVER_MEMORY], used->server_memory);
    }
}
