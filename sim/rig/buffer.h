/* SPDX-License-Identifier: Apache-2.0
 *
 * buffer.h - the history of a simulated run, in memory. Clients, the observer and the rig append to it by lab/torture/history.c as they
 * would to a file: what they write to the world's sink lands here, goes into the hash, and into the trace.
 */
#ifndef PAWL_SIM_BUFFER_H
#define PAWL_SIM_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* In a world: forget what was there, and return the descriptor to be written to. */
int buffer_open(void);
/* After it: all lines, each with its newline. Valid until the next one is opened. */
const char *buffer_text(size_t *ret_size);
/* Without a world: a line more. */
void buffer_add(const char *line);
/* False: errno says why. */
bool buffer_save(const char *path);

#endif
