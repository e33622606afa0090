/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - the simulated engine, for tests: a server inside the process, with clients that reach it by messages which can be slow, get
 * lost, come twice; and leases that run out. `sim://NAME` opens a client of the server NAME.
 *
 * On a virtual clock (pawl__sim_server_new(name, true)) nothing happens by itself and no thread runs: the test moves time on, and
 * the same test gives the same transcript to the byte. On the real clock the clients have their service threads, as with any engine
 * that has a loop.
 */
#ifndef PAWL_SIM_H
#define PAWL_SIM_H

#include "core.h"

struct sim_server;

struct sim_server *pawl__sim_server_new(const char *name, bool virtual_clock);
void pawl__sim_server_free(struct sim_server *server); /* after all its clients are closed */

/* Virtual clock only: let the clients (those of this server) live until `ns` from now. */
void pawl__sim_run(struct sim_server *server, struct pawl *const *clients, size_t count, int64_t ns);

/* Faults, for one client. */
void pawl__sim_delay(struct pawl *client, int64_t ns);         /* each way; 1 ms at first */
void pawl__sim_cut(struct pawl *client, bool cut);             /* nothing gets through */
void pawl__sim_drop_replies(struct pawl *client, unsigned n);  /* the next n messages from the server are lost */
void pawl__sim_duplicate(struct pawl *client, bool duplicate); /* every message comes twice */
/* The server forgets all claims of the client, as after an expired session. */
void pawl__sim_forget(struct pawl *client);

/* How many entries the server has: 0 when nothing was left behind. */
size_t pawl__sim_entries(struct sim_server *server);
/* How many requests of a client the server has seen. */
unsigned pawl__sim_requests(struct pawl *client);

#endif
