/* SPDX-License-Identifier: Apache-2.0
 *
 * interactive.h - `pawl top` in a terminal: keys in, screens out.
 */
#ifndef PAWL_CLI_INTERACTIVE_H
#define PAWL_CLI_INTERACTIVE_H

#include "../look/source.h"
#include "page.h"

/* Until it is left. Returns the exit status. */
int top_run(struct source *source, struct shown *shown);

#endif
