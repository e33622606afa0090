/* SPDX-License-Identifier: Apache-2.0
 *
 * no_local.c - `local:` is not simulated: it is shared memory between real processes. Here no URL leads to it.
 */
#include "engine/engine.h"

static const char *const no_schemes[] = {NULL};

const struct pawl__engine_impl pawl__local_engine = {.name = "local", .schemes = no_schemes};
