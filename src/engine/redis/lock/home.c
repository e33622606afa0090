/* SPDX-License-Identifier: Apache-2.0
 *
 * home.c - a server as claims see it: made and gone, its clock, and the threads that wait for it.
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/redis/lock/lock.h"
#include "os/bell.h"
#include "os/descriptor.h"

/* The older of a home's two clock samples is at least about this old: a push may have left before an answer that overtook it. */
#define OLDER_NS (100 * REDIS_MS)

int pawl__home_made(struct server *server) {
    struct home *home = home_of(server);

    home->read_bell = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (home->read_bell < 0)
        return -1;
    pawl__spin_init(&home->spin, server->redis->options.spin_ns);
    TAILQ_INIT(&home->to_renew);
    for (int i = 0; i < HEARERS; i++)
        TAILQ_INIT(&home->hearers[i].claims);
    pawl__kit_reader_init(&home->reader);
    TAILQ_INIT(&home->secure.waiting);
    TAILQ_INIT(&home->secure.asked);
    TAILQ_INIT(&home->secure.calls);
    return 0;
}

void pawl__home_gone(struct server *server) {
    close(home_of(server)->read_bell);
}

void pawl__home_called(struct home *home) {
    pthread_cond_broadcast(&claims_of(home->server.redis)->called);
    if (home->reader_sleeps)
        bell_ring(home->read_bell);
}

void pawl__home_wake_reader(struct home *home) {
    if (home->reader.taken)
        bell_ring(home->read_bell);
}

/* ---- Its clock ----------------------------------------------------------------------------------------------------------- */

void pawl__home_sample_clock(struct home *home, int64_t local, int64_t server_us) {
    if (!redis_time_makes_sense(server_us))
        return;
    if (!home_knows_clock(home))
        home->clock.sample_server = home->clock.older_server = home->clock.floor = 0;
    home->clock.number = home->server.commands.number;
    if (!home->clock.floor)
        home->clock.floor = server_us;
    if (local - home->clock.older_local >= OLDER_NS) {
        home->clock.older_local = home->clock.sample_local;
        home->clock.older_server = home->clock.sample_server;
    }
    home->clock.sample_local = local;
    home->clock.sample_server = server_us;
}

int64_t pawl__home_not_before(const struct home *home, int64_t server_us) {
    if (!home_knows_clock(home))
        return 0;
    if (home->clock.sample_server && server_us >= home->clock.sample_server)
        return home->clock.sample_local;
    return home->clock.older_server && server_us >= home->clock.older_server ? home->clock.older_local : 0;
}
