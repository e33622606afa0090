/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - the table of the Redis engine; opening and closing it.
 *
 * open() drives the connections itself until they are up, or until it knows why not; from then on serve() does.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/redis/redis.h"
#include "os/descriptor.h"
#include "base/error.h"

/* A random UUID, version 8: by that the scripts tell our owners from Redisson's, whose UUIDs are of version 4. */
int pawl__redis_uuid(char *ret, struct pawl_error *reterr) {
    unsigned char b[16];

    if (!pawl__random(b, sizeof b))
        return pawl__fail_errno(reterr, "cannot read random numbers");
    b[6] = (b[6] & 0x0f) | 0x80;
    b[8] = (b[8] & 0x3f) | 0x80;
    snprintf(ret, REDIS_UUID + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
             b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return 0;
}

static int make_random(struct redis *redis, const char *uuid, struct pawl_error *reterr) {
    if (!pawl__random(&redis->kit.random, sizeof redis->kit.random))
        return pawl__fail_errno(reterr, "cannot read random numbers");
    if (!uuid)
        return pawl__redis_uuid(redis->uuid, reterr);
    memcpy(redis->uuid, uuid, REDIS_UUID);
    return 0;
}

static int make_descriptors(struct redis *redis, struct pawl_error *reterr) {
    struct claims *claims = claims_of(redis);
    struct epoll_event event = {.events = EPOLLIN};

    claims->epoll_fd = above_stdio(epoll_create1(EPOLL_CLOEXEC));
    redis->kit.bell = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (claims->epoll_fd < 0 || redis->kit.bell < 0 || epoll_ctl(claims->epoll_fd, EPOLL_CTL_ADD, redis->kit.bell, &event) < 0)
        return pawl__fail_errno(reterr, "cannot create an eventfd");
    return 0;
}

static void init(struct redis *redis, const struct pawl__setup *setup) {
    struct claims *claims = claims_of(redis);

    pawl__kit_init(&redis->kit, &redis->base, &pawl__redis_kit);
    pthread_cond_init(&claims->called, NULL);
    claims->epoll_fd = -1;
    TAILQ_INIT(&redis->servers);
    TAILQ_INIT(&redis->speaking);
    redis->server_size = sizeof(struct home);
    redis->made = pawl__home_made;
    redis->gone = pawl__home_gone;
    redis->call = pawl__server_call;
    pawl__ears_init(redis);
    TAILQ_INIT(&claims->all);
    for (int i = 0; i < REDIS_BUCKETS; i++)
        TAILQ_INIT(&claims->buckets[i]);
    pawl__record_format(&setup->identity, claims->record, sizeof claims->record);
}

/* Find the server's addresses, and wait for them as long as for a connection. One of a crew does so in its own time. */
static int find_server(struct server *server, bool member, struct pawl_error *reterr) {
    const struct redis_options *options = &server->redis->options;
    int rc;

    if (options->socket_path[0])
        return 0;
    if (options->topology == TOPOLOGY_SENTINEL)
        return pawl__sentinel_setup(server, reterr);
    if (!pawl__server_put_at(server, options->places[0].host, options->places[0].port))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    if (member || !pawl__addresses_begin(server->addresses))
        return 0;
    rc = pawl__addresses_await(server->addresses, pawl__redis_names_until(options));
    return rc == 0 ? 0
                   : pawl__fail(reterr, PAWL_ECONNLOST, "the host '%.100s' of the URL is not known: %s", options->places[0].host,
                                gai_strerror(rc));
}

/* Have all of the server's addresses failed? Under Sentinel another server may take the place of one that is unreachable. */
static bool has_failed(const struct link *link) {
    const struct server *server = link->server;

    if (!link->failures || !server->addresses)
        return link->failures;
    return server->redis->options.topology == TOPOLOGY_ONE && link->failures >= pawl__addresses_count(server->addresses);
}

/* Why there is no connection; NULL: that is not known yet. */
static const struct pawl_error *why_not(struct server *server, bool late) {
    const struct link *link;

    for (int i = 0; (link = pawl__server_link(server, i)) && link != &server->guide; i++)
        if (link->state != LINK_UP && (has_failed(link) || (late && link->why.code)))
            return &link->why;
    return NULL;
}

/* Connect, in this thread. Some failures come with the first try; a server that is just starting gets the whole time. */
static int connect_now(struct server *server, struct pawl_error *reterr) {
    struct redis *redis = server->redis;
    int64_t patience = redis->options.topology == TOPOLOGY_ONE ? redis->options.connect_ns : 2 * redis->options.connect_ns;
    int64_t deadline;
    const struct pawl_error *why;

    patience = patience < redis->options.patience_ns ? patience : redis->options.patience_ns;
    deadline = pawl__boottime() + patience;
    for (;;) {
        pawl__redis_serve(&redis->base, deadline);
        if (pawl__server_up(server))
            return 0;
        why = why_not(server, pawl__boottime() >= deadline);
        if (why)
            return pawl__fail(reterr, why->code, "%s", why->text);
        if (pawl__boottime() >= deadline)
            return pawl__fail(reterr, PAWL_ECONNLOST, "%.200s: %s within %lld ms", redis->url,
                              pawl__link_missing(&server->commands), (long long)(patience / REDIS_MS));
    }
}

/* Connect to the nodes until one has told the map. */
static int connect_cluster(struct redis *redis, struct pawl_error *reterr) {
    struct route *route = route_of(redis);
    int64_t patience = 2 * redis->options.connect_ns, deadline;
    const struct pawl_error *why = NULL;

    patience = patience < redis->options.patience_ns ? patience : redis->options.patience_ns;
    deadline = pawl__boottime() + patience;
    while (!route->mapped && !why && pawl__boottime() < deadline) {
        pawl__redis_serve(&redis->base, deadline);
        why = pawl__cluster_failed(redis);
    }
    if (!route->mapped && why)
        return pawl__fail(reterr, why->code, "%s", why->text);
    if (!route->mapped)
        return pawl__fail(reterr, PAWL_ECONNLOST, "%.200s: none of the %zu nodes answers", redis->url, redis->options.place_count);
    if (route->uncovered)
        return pawl__fail(reterr, PAWL_ETOPOLOGY, "%.200s: %u of the cluster's %d slots have no primary: see CLUSTER INFO",
                          redis->url, route->uncovered, REDIS_SLOTS);
    return 0;
}

/* Where the URL asks for more replicas than there are no lock could be had. */
static int enough_replicas(const struct server *server, struct pawl_error *reterr) {
    const struct redis *redis = server->redis;

    if (!server->facts.known || server->facts.replicas >= redis->options.replicas)
        return 0;
    return pawl__fail(reterr, PAWL_EREPLICAS,
                      "%.200s has %u replicas, and the URL asks for %u: look at the replicas, or ask for fewer", redis->url,
                      server->facts.replicas, redis->options.replicas);
}

static void redis_close(struct pawl__engine *engine, int64_t deadline) {
    struct redis *redis = redis_of(engine);
    struct claims *claims = claims_of(redis);
    struct route *route = route_of(redis);
    struct server *server;

    (void)deadline; /* what is unanswered by now ends with its lease */
    redis->closing = true;
    TAILQ_FOREACH(server, &redis->servers, entry) {
        pawl__server_close(server);
    }
    pawl__events_end(redis);
    while (!TAILQ_EMPTY(&redis->servers))
        pawl__server_free(TAILQ_FIRST(&redis->servers));
    if (claims->epoll_fd >= 0)
        close(claims->epoll_fd);
    if (redis->kit.bell >= 0)
        close(redis->kit.bell);
    pawl__sentinel_free(redis);
    pawl__ears_free(redis);
    free(route->slots);
    route->slots = NULL;
    /* Without TLS there is no OpenSSL to ask. */
    if (redis->tls)
        SSL_CTX_free(redis->tls);
    if (redis->sentinel_tls)
        SSL_CTX_free(redis->sentinel_tls);
    redis->tls = redis->sentinel_tls = NULL;
    explicit_bzero(redis->options.password, sizeof redis->options.password);
    explicit_bzero(redis->options.sentinel_password, sizeof redis->options.sentinel_password);
    pthread_cond_destroy(&claims->called);
    pawl__kit_free(&redis->kit);
}

/* Connect to the server, or to one that knows the cluster; one of a crew does so in its own time. */
static int begin(struct redis *redis, bool member, struct pawl_error *reterr) {
    struct server *server;
    int rc;

    if (in_cluster(redis)) {
        rc = pawl__cluster_setup(redis, reterr);
        return rc < 0 ? rc : connect_cluster(redis, reterr);
    }
    server = pawl__server_new(redis, reterr);
    if (!server)
        return reterr->code;
    if ((rc = find_server(server, member, reterr)) < 0 || member)
        return rc;
    if ((rc = connect_now(server, reterr)) < 0 || (rc = enough_replicas(server, reterr)) < 0)
        return rc;
    pawl__server_warn(server);
    return 0;
}

static int redis_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct pawl_error why;
    int rc = pawl__redis_options(setup, &redis->options, reterr);

    if (rc < 0)
        return rc;
    pawl__redis_describe_url(&redis->options, redis->url, sizeof redis->url);
    init(redis, setup);
    if ((rc = make_random(redis, setup->member, &why)) < 0 || (rc = pawl__tls_setup(&redis->options.tls, &redis->tls, &why)) < 0 ||
        (rc = pawl__tls_setup(&redis->options.sentinel_tls, &redis->sentinel_tls, &why)) < 0 ||
        (rc = make_descriptors(redis, &why)) < 0 || (rc = begin(redis, setup->member, &why)) < 0) {
        redis_close(engine, 0);
        return pawl__fail(reterr, rc, "%s", why.text);
    }
    return 0;
}

static void redis_forked(struct pawl__engine *engine) {
    struct redis *redis = redis_of(engine);
    struct server *server;
    struct link *link;

    /* The parent's connections are not the child's to use, and must end when the parent does. */
    TAILQ_FOREACH(server, &redis->servers, entry) {
        for (int i = 0; (link = pawl__server_link(server, i)); i++)
            if (link->fd >= 0)
                close(link->fd);
        close(home_of(server)->read_bell);
    }
    close(claims_of(redis)->epoll_fd);
    close(redis->kit.bell);
}

static void redis_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct redis *redis = (const struct redis *)engine;

    ret->url = redis->url;
    ret->lease_ms = redis->options.lease_ns / REDIS_MS;
    ret->notice_ms = ret->lease_ms;
}

static const char *const redis_schemes[] = {"redis",
                                            "rediss",
                                            "redis+unix",
                                            "unix",
                                            "redis-sentinel",
                                            "redis+sentinel",
                                            "redis-cluster",
                                            "redis+cluster",
                                            "rediss-sentinel",
                                            "rediss+sentinel",
                                            "rediss-cluster",
                                            "rediss+cluster",
                                            NULL};

const struct pawl__engine_impl pawl__redis_engine = {
    .name = "redis",
    .schemes = redis_schemes,
    .engine_size = sizeof(struct claims),
    .claim_size = sizeof(struct rclaim),
    .open = redis_open,
    .close = redis_close,
    .forked = redis_forked,
    .describe = redis_describe,
    .submit = pawl__redis_submit,
    .withdraw = pawl__redis_withdraw,
    .serve = pawl__redis_serve,
    .wake = pawl__redis_wake,
    .renew = pawl__redis_renew,
    .member = &pawl__redis_member,
    .parking =
        &(const struct pawl__parking){
            .park = pawl__redis_park,
            .unpark = pawl__redis_unpark,
            .adopt = pawl__redis_adopt,
        },
    .operators =
        &(const struct pawl__operators){
            .survey = pawl__redis_survey,
            .break_hold = pawl__redis_break,
            .examine = pawl__redis_examine,
        },
    .extras =
        &(const struct pawl__extras){
            .submit_all = pawl__redis_submit_all,
            .downgrade = pawl__redis_downgrade,
            .tokens = pawl__redis_tokens,
            .hindered = pawl__redis_hindered,
        },
};
