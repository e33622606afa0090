/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_two.h - two clients of pawl's at one server, and the name of an owner of Redisson's: for the tests of what lies on the server.
 */
#ifndef PAWL_REDIS_TWO_H
#define PAWL_REDIS_TWO_H

#include "redis_one.h"

/* As Redisson names its owners: a UUID of version 4, and a thread's number. */
#define REDISSON "0f8fad5b-d9cb-469f-a165-70867728950e:77"

static struct pawl *one, *two;

static int set_up(void **state) {
    empty_server(state);
    one = open_at(server.port, "", 0);
    two = open_at(server.port, "", 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    pawl_close(one);
    pawl_close(two);
    return 0;
}

#endif
