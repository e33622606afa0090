/* SPDX-License-Identifier: Apache-2.0
 *
 * key.h - the key that is needed to see locks: drawn anew, or kept in a file.
 */
#ifndef PAWL_CLI_KEY_H
#define PAWL_CLI_KEY_H

#include "gate.h"

/* `path` NULL: a new one. Else the one in the file; a file that is not there is made, readable for its owner alone, and with a new
 * one. Returns 0, or the exit status after having said what is wrong. */
int key_get(const char *path, char ret[KEY_DIGITS + 1]);

#endif
