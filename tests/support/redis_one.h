/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_one.h - for programs whose tests share one server: the first of them starts it, and each finds it empty.
 */
#ifndef PAWL_REDIS_ONE_H
#define PAWL_REDIS_ONE_H

#include "redis_test.h"

static struct redis_server server;

static inline int empty_server(void **state) {
    (void)state;
    if (!server.pid)
        redis_server_start(&server);
    freeReplyObject(redis_server_command(&server, "FLUSHALL"));
    return 0;
}

static inline int stop_server(void **state) {
    (void)state;
    redis_server_free(&server);
    return 0;
}

#endif
