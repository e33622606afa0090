/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.c - the clock, samples of rounds, and histograms of latencies.
 */
#include "stats.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t bench_now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void figure_add(struct figure *figure, double value) {
    if (figure->count < MAX_ROUNDS)
        figure->values[figure->count++] = value;
}

static int compare(const void *left, const void *right) {
    double one = *(const double *)left, two = *(const double *)right;

    return (one > two) - (one < two);
}

/* The value of the round at this place, when they are sorted. */
static double sorted_at(const struct figure *figure, int place) {
    double sorted[MAX_ROUNDS];

    if (figure->count == 0)
        return 0;
    memcpy(sorted, figure->values, (size_t)figure->count * sizeof sorted[0]);
    qsort(sorted, (size_t)figure->count, sizeof sorted[0], compare);
    return sorted[place];
}

/* Between the two in the middle where their number is even. */
double figure_median(const struct figure *figure) {
    return figure->count == 0 ? 0 : (sorted_at(figure, (figure->count - 1) / 2) + sorted_at(figure, figure->count / 2)) / 2;
}

double figure_low(const struct figure *figure) {
    return sorted_at(figure, 0);
}

double figure_high(const struct figure *figure) {
    return sorted_at(figure, figure->count - 1);
}

static size_t bucket_of(int64_t ns) {
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;

    if (value < HISTOGRAM_STEPS)
        return value;
    int shift = 63 - __builtin_clzll(value) - 7;
    size_t bucket = ((size_t)shift + 1) * HISTOGRAM_STEPS + (size_t)(value >> shift) - HISTOGRAM_STEPS;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static double middle_of(size_t bucket) {
    if (bucket < HISTOGRAM_STEPS)
        return (double)bucket;
    int shift = (int)(bucket / HISTOGRAM_STEPS) - 1;
    double low = (double)((HISTOGRAM_STEPS + bucket % HISTOGRAM_STEPS) << shift);
    return low + (double)((UINT64_C(1) << shift) - 1) / 2;
}

void histogram_clear(struct histogram *histogram) {
    memset(histogram, 0, sizeof *histogram);
}

void histogram_add(struct histogram *histogram, int64_t ns) {
    atomic_fetch_add_explicit(&histogram->counts[bucket_of(ns)], 1, memory_order_relaxed);
}

void histogram_merge(struct histogram *into, const struct histogram *from) {
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        atomic_fetch_add_explicit(&into->counts[i], from->counts[i], memory_order_relaxed);
}

uint64_t histogram_total(const struct histogram *histogram) {
    uint64_t total = 0;

    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        total += histogram->counts[i];
    return total;
}

double histogram_mean(const struct histogram *histogram) {
    double total = (double)histogram_total(histogram), sum = 0;

    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        sum += histogram->counts[i] * middle_of(i);
    return total > 0 ? sum / total : 0;
}

double histogram_at(const struct histogram *histogram, double share) {
    uint64_t total = histogram_total(histogram), seen = 0;

    for (size_t i = 0; i < HISTOGRAM_BUCKETS && total > 0; i++) {
        seen += histogram->counts[i];
        if ((double)seen >= share * (double)total && seen > 0)
            return middle_of(i);
    }
    return 0;
}
