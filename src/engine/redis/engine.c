/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - the table of the Redis engine; opening and closing it.
 *
 * open() drives the connections itself until they are up, or until it knows why not; from then on serve() does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/redis/redis.h"
#include "os/descriptor.h"
#include "base/error.h"

static int make_random(struct redis *redis, struct pawl_error *reterr) {
    if (!pawl__random(&redis->kit.random, sizeof redis->kit.random))
        return pawl__fail_errno(reterr, "cannot read random numbers");
    return pawl__redis_uuid(redis->uuid, reterr);
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
    struct pawl__identity identity = setup->identity;

    pawl__kit_init(&redis->kit, &redis->base, &pawl__redis_kit);
    pthread_cond_init(&claims->called, NULL);
    claims->epoll_fd = -1;
    pawl__wire_init(redis);
    redis->server_size = sizeof(struct home);
    redis->made = pawl__home_made;
    redis->gone = pawl__home_gone;
    redis->call = pawl__server_call;
    pawl__subscriptions_init(redis);
    pawl__watches_init(redis);
    TAILQ_INIT(&claims->all);
    TAILQ_INIT(&claims->undos);
    claims->undos_due = PAWL__NEVER;
    for (int i = 0; i < REDIS_BUCKETS; i++)
        TAILQ_INIT(&claims->buckets[i]);
    identity.lease_ms = redis->options.lease_ns / REDIS_MS;
    pawl__record_format(&identity, claims->record, sizeof claims->record);
}

/* lua/ */
extern const struct pawl__script pawl__redisson_scripts[SCRIPT_COUNT], pawl__redisson_cluster_scripts[SCRIPT_COUNT],
    pawl__plain_scripts[SCRIPT_COUNT], pawl__plain_cluster_scripts[SCRIPT_COUNT];

/* By the layout, and by whether keys have slots. */
static const struct pawl__script *const scripts[][2] = {
    [LAYOUT_REDISSON] = {pawl__redisson_scripts, pawl__redisson_cluster_scripts},
    [LAYOUT_PLAIN] = {pawl__plain_scripts, pawl__plain_cluster_scripts},
};

/* Connect, in this thread, until the route has what it needs. */
static int begin(struct redis *redis, struct pawl_error *reterr) {
    int rc = pawl__route_open(redis, reterr);
    int64_t deadline = pawl__boottime() + pawl__route_patience(redis);
    bool late = false;

    if (rc < 0)
        return rc;
    redis->scripts = scripts[redis->options.layout][redis->traits.sharded];
    while (rc == 0 && !late) {
        pawl__redis_serve(&redis->base, deadline);
        late = pawl__boottime() >= deadline;
        rc = pawl__route_ready(redis, late, reterr);
    }
    if (rc > 0 && pawl__route_only(redis))
        pawl__server_warn(pawl__route_only(redis));
    return rc < 0 ? rc : 0;
}

static void redis_close(struct pawl__engine *engine, int64_t deadline) {
    struct redis *redis = redis_of(engine);
    struct claims *claims = claims_of(redis);
    struct link *link;

    (void)deadline; /* what is unanswered by now ends with its lease */
    redis->closing = true;
    TAILQ_FOREACH(link, &redis->links, entry) {
        pawl__link_close(link);
    }
    pawl__redis_end_events(redis);
    pawl__undos_free(redis);
    while (!TAILQ_EMPTY(&redis->servers))
        pawl__server_free(TAILQ_FIRST(&redis->servers));
    if (claims->epoll_fd >= 0)
        close(claims->epoll_fd);
    if (redis->kit.bell >= 0)
        close(redis->kit.bell);
    pawl__route_free(redis);
    pawl__subscriptions_free(redis);
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

static int redis_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct pawl_error why;
    int rc = pawl__redis_options(setup, &redis->options, reterr);

    if (rc < 0)
        return rc;
    pawl__redis_describe_url(&redis->options, redis->url, sizeof redis->url);
    init(redis, setup);
    if ((rc = make_random(redis, &why)) < 0 || (rc = pawl__tls_setup(&redis->options.tls, &redis->tls, &why)) < 0 ||
        (rc = pawl__tls_setup(&redis->options.sentinel_tls, &redis->sentinel_tls, &why)) < 0 ||
        (rc = make_descriptors(redis, &why)) < 0 || (rc = begin(redis, &why)) < 0) {
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
    TAILQ_FOREACH(link, &redis->links, entry) {
        if (link->fd >= 0)
            close(link->fd);
    }
    TAILQ_FOREACH(server, &redis->servers, entry) {
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
    .parking =
        &(const struct pawl__parking){
            .park = pawl__redis_park,
            .unpark = pawl__redis_unpark,
            .adopt = pawl__redis_adopt,
        },
    .values = &pawl__redis_values,
    .keeping = &(const struct pawl__keeping){.hears = true, .rest = pawl__redis_rest, .resume = pawl__redis_resume},
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
            .why = pawl__redis_why,
        },
};
