/* SPDX-License-Identifier: Apache-2.0
 *
 * network.h - networks of the rig's own, so that a client can be cut off as by a pulled cable: packets vanish, nobody is told.
 *
 *      the rig's namespace: servers, proxies, observer        one namespace for each client
 *      198.18.0.1 on lo ------- c0  198.18.64.1 --X-- 198.18.64.2
 *                       ------- c1  198.18.64.5 ----- 198.18.64.6
 *
 * Nothing of it is seen outside, and it ends with the processes that are in it.
 */
#ifndef PAWL_TORTURE_NETWORK_H
#define PAWL_TORTURE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#define NETWORK_HOST "198.18.0.1" /* where clients in namespaces find the proxies */

struct network {
    int home;   /* the rig's own; 0: there are none */
    int *rooms; /* one for each client */
    int count;
};

/* NULL: they can be made here; else why not. */
const char *network_hindrance(void);
/* Leave the host's network, for good. Before there is any thread. */
bool network_leave(struct network *network);
/* One namespace for each client. */
bool network_open(struct network *network, int clients);
void network_close(struct network *network);

/* In a child: go to where this client is. */
bool network_enter(const struct network *network, int client);
bool network_cut(const struct network *network, int client);
bool network_mend(const struct network *network, int client);
/* Where it comes from, in the order of bytes of this machine. */
uint32_t network_address(int client);

#endif
