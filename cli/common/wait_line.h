/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_line.h - what a person sees while pawl waits for a lock.
 */
#ifndef PAWL_CLI_WAIT_LINE_H
#define PAWL_CLI_WAIT_LINE_H

#include "cli.h"

/* Begin to wait for `name`. With `verbose`, one full line says so for good; on a terminal, a live line follows. */
void wait_line_begin(struct pawl *client, const char *name, bool verbose);
/* When wait_line_draw() wants to be called next; PAWL_FOREVER: never. */
int64_t wait_line_due(void);
void wait_line_draw(void);
/* Erase the live line. It comes back with the next draw, unless this is the end of the wait. */
void wait_line_hide(void);
void wait_line_end(void);

/* What must be written before anything else that goes to stderr: it erases the live line, if there is one now. */
const char *wait_line_eraser(void);

/* Who holds the lock, as the line says it. False: nobody does, or it can't be told. */
bool holders_in_words(struct pawl *client, const char *name, char *out, size_t size);

#endif
