/* SPDX-License-Identifier: Apache-2.0
 *
 * numbers.h - the entries of a directory of /proc whose names are numbers: processes, or descriptors.
 */
#ifndef PAWL_CLI_NUMBERS_H
#define PAWL_CLI_NUMBERS_H

#include <stdbool.h>

/* Return true to end the visits. */
typedef bool number_fn(int directory, const char *number, void *data);

/* Visit all of them, in an open directory that was not read yet. Returns whether a visit has ended it. Async-signal-safe: there is no
 * readdir in it. */
bool visit_numbers(int directory, number_fn *visit, void *data);

#endif
