/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.h - the clock, samples of rounds, and histograms of latencies.
 */
#ifndef PAWL_CLI_BENCH_STATS_H
#define PAWL_CLI_BENCH_STATS_H

#include <stdatomic.h>
#include <stdint.h>

int64_t bench_now_ns(void);

enum { MAX_ROUNDS = 99 };

/* One value per round. */
struct figure {
    int count;
    double values[MAX_ROUNDS];
};

void figure_add(struct figure *figure, double value);
double figure_median(const struct figure *figure); /* 0 if there is none */
double figure_low(const struct figure *figure);
double figure_high(const struct figure *figure);

/* Counts of nanoseconds in buckets that are as wide as a 128th of what is in them, or one: so any percentile is right within 0.8 %. Up
 * to 2^41 ns, which is half an hour. Many processes may count into one at the same time. */
enum { HISTOGRAM_STEPS = 128, HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * 36 };

struct histogram {
    _Atomic uint32_t counts[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, int64_t ns);
void histogram_merge(struct histogram *into, const struct histogram *from);
uint64_t histogram_total(const struct histogram *histogram);
double histogram_mean(const struct histogram *histogram); /* 0 if there is none */
/* The value that this share (0 to 1) of all is not above; 0 if there is none. */
double histogram_at(const struct histogram *histogram, double share);

#endif
