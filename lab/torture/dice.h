/* SPDX-License-Identifier: Apache-2.0
 *
 * dice.h - pseudo-random numbers: splitmix64. Streams of different salts have nothing to do with each other.
 */
#ifndef PAWL_TORTURE_DICE_H
#define PAWL_TORTURE_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
    uint64_t state;
};

static inline uint64_t dice_number(struct dice *dice) {
    uint64_t z = dice->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The streams of a `family` differ from those of any other, also where seed and salt are the same. */
static inline struct dice dice_of_family(uint64_t family, uint64_t seed, uint64_t salt) {
    struct dice dice = {.state = seed * UINT64_C(0x9e3779b97f4a7c15) ^ (salt + 1) * family};

    dice_number(&dice);
    return dice;
}

static inline struct dice dice_new(uint64_t seed, uint64_t salt) {
    return dice_of_family(UINT64_C(0xd1342543de82ef95), seed, salt);
}

/* 0 to sides - 1; `sides` above 0. */
static inline uint64_t dice_below(struct dice *dice, uint64_t sides) {
    return dice_number(dice) % sides;
}

/* Both included. */
static inline int64_t dice_between(struct dice *dice, int64_t low, int64_t high) {
    return low + (int64_t)dice_below(dice, (uint64_t)(high - low) + 1);
}

static inline bool dice_percent(struct dice *dice, unsigned percent) {
    return dice_below(dice, 100) < percent;
}

/* 0 sides: never. */
static inline bool dice_one_in(struct dice *dice, unsigned sides) {
    return sides > 0 && dice_below(dice, sides) == 0;
}

#endif
