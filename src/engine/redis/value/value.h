/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h - what lies beside locks.
 */
#ifndef PAWL_REDIS_VALUE_H
#define PAWL_REDIS_VALUE_H

#include "engine/engine.h"

/* value.c */
extern const struct pawl__values pawl__redis_values;

#endif
