/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.h - signals as events in a poll loop.
 */
#ifndef PAWL_CLI_SIGNALS_H
#define PAWL_CLI_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

/* Block every signal that can be passed on, and open the descriptor they are read from. Before any thread starts. False: said
 * why. */
bool signals_take(void);
/* Readable while a signal waits; only poll it. */
int signals_fd(void);
/* The next signal that arrived; 0: none. */
int signals_next(void);
/* Leave this child alone: the code that started it waits for it. Orphans are reaped by themselves (see signals.c). */
void signals_spare(pid_t child);
/* In a process that is about to exec: mask and dispositions as this program found them. Async-signal-safe. */
void signals_give_back(void);

/* Would this signal end a program that does nothing about it? Not if it was ignored when pawl was started. */
bool signal_ends_us(int number);
bool signal_stops_us(int number);
/* Stop as a program does that does nothing about this signal. Returns after SIGCONT; false: nothing stopped us, since nobody could
 * have continued us (an orphaned process group) or the signal is ignored. `whole_group`: others of our group (a pipeline, the
 * script around us) would have got it too, had the terminal sent it to us. */
bool stop_by_signal(int number, bool whole_group);
/* The last act: 128 + number, but for SIGINT, which must be seen as such. A shell script goes on after a program that merely
 * exits. */
int end_by_signal(int number, bool whole_group);

#endif
