/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h - pawl value: the value beside a lock. value.c reads the command line and writes, value_show.c reads and prints.
 */
#ifndef PAWL_CLI_VALUE_H
#define PAWL_CLI_VALUE_H

#include "common/options.h"

struct value_options {
    struct take_options take; /* of one lock */
    uint64_t token;           /* --token; 0: not given */
    bool json;
};

/* What pawl value get and pawl value watch do. They return the exit status. */
int value_get(const struct value_options *options);
int value_watch(const struct value_options *options);

#endif
