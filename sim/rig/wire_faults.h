/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_faults.h - faults on the wire, between clients and servers: what the torture's proxies do, and what only a simulation can place.
 */
#ifndef PAWL_SIM_WIRE_FAULTS_H
#define PAWL_SIM_WIRE_FAULTS_H

#include "clients.h"
#include "services.h"

bool wire_faults_is(int fault);
/* Return how often it took effect; of the two, the sum counts. */
int wire_faults_begin(struct sim_servers *servers, struct sim_clients *clients, const struct sim_stroke *stroke);
int wire_faults_heal(struct sim_servers *servers, struct sim_clients *clients, const struct sim_stroke *stroke);

#endif
