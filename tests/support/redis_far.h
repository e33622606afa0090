/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_far.h - two clients at one server, one of them behind a proxy: for the tests of servers and connections that misbehave.
 */
#ifndef PAWL_REDIS_FAR_H
#define PAWL_REDIS_FAR_H

#include "../../lab/servers/proxy.h"
#include "redis_one.h"

static struct proxy *proxy;
static struct pawl *far, *near; /* through the proxy; straight */

#define LEASE_MS 1500

static inline int set_up(void **state) {
    empty_server(state);
    proxy = proxy_new(server.port, NULL, NULL, NULL);
    far = open_at(proxy_port(proxy), "?retry=10,200", LEASE_MS);
    near = open_at(server.port, "", LEASE_MS);
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    proxy_isolate(proxy, false);
    proxy_freeze(proxy, false);
    pawl_close(far);
    pawl_close(near);
    proxy_free(proxy);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
