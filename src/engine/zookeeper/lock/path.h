/* SPDX-License-Identifier: Apache-2.0
 *
 * path.h - see path.c.
 */
#ifndef PAWL_ZK_PATH_H
#define PAWL_ZK_PATH_H

#include <stdbool.h>

struct pawl_error;

/* The directory of values, below the URL's path. */
extern const char pawl__zk_values_name[];

/* The path of the lock `name`; to be freed. NULL: *rc says why, and so does *reterr. */
char *pawl__zk_home(const char *base_path, const char *name, struct pawl_error *reterr, int *rc);

/* Where the value of the lock `name` lies, or the note beside it; to be freed. NULL: out of memory. */
char *pawl__zk_value_path(const char *base_path, const char *name, bool note);

#endif
