/* SPDX-License-Identifier: Apache-2.0
 *
 * path.h - see path.c.
 */
#ifndef PAWL_ZK_PATH_H
#define PAWL_ZK_PATH_H

struct pawl_error;

/* The path of the lock `name`; to be freed. NULL: *rc says why, and so does *reterr. */
char *pawl__zk_home(const char *base_path, const char *name, struct pawl_error *reterr, int *rc);

#endif
