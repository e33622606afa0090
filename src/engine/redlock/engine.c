/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - the table of the engine for several Redis servers; opening and closing it.
 *
 *     redlock://[user:password@]host[:port],host[:port],...[/db][?option=value&...]       redlocks:// the same with TLS
 *
 * The options are those of redis:, for every server. open() succeeds when a majority can be reached: the others get a moment more, and are
 * told of through the log. It fails if the servers are fewer than three, if two of them are the same one, or one is a replica or a part of
 * a cluster: then a majority of them would not be a majority of anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/error.h"
#include "base/url.h"

enum { SERVERS_LEAST = 3, PORT = 6379, CONNECT_MS = 3000, GRACE_TIMES = 3 };
#define GRACE_NS (100 * REDLOCK_MS)
#define CLOSE_NS (500 * REDLOCK_MS)

/* ---- The URL -------------------------------------------------------------------------------------------------------------- */

static unsigned port_of(const struct pawl__url_host *host) {
    return host->port ? host->port : PORT;
}

static int check_hosts(const struct pawl__url *url, struct pawl_error *reterr) {
    if (url->host_count < SERVERS_LEAST)
        return pawl__fail(reterr, PAWL_EURL,
                          "%s: needs at least %d servers, and the URL names %zu: of two, one that fails takes the majority with it",
                          url->scheme, SERVERS_LEAST, url->host_count);
    if (url->host_count > PAWL__CREW_MOST)
        return pawl__fail(reterr, PAWL_EURL, "%s: takes at most %d servers, and the URL names %zu", url->scheme, PAWL__CREW_MOST,
                          url->host_count);
    for (size_t i = 0; i < url->host_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(url->hosts[i].name, url->hosts[j].name) == 0 && port_of(&url->hosts[i]) == port_of(&url->hosts[j]))
                return pawl__fail(reterr, PAWL_EURL, "the URL names the server %.200s:%u twice: each must be a server of its own",
                                  url->hosts[i].name, port_of(&url->hosts[i]));
    return 0;
}

/* What a server would take, or refuse in words that don't fit here. */
static int check_options(struct pawl__url *url, struct pawl_error *reterr) {
    static const char *const of_tls[] = {"ca", "cert", "key", "servername", "verify"};
    const char *layout = pawl__url_option(url, "layout");

    if (layout && strcmp(layout, "plain") != 0)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL's option layout=%.40s is not known over several servers: leave it out",
                          layout);
    for (size_t i = 0; i < sizeof of_tls / sizeof of_tls[0]; i++)
        if (strcmp(url->scheme, "redlock") == 0 && pawl__url_option(url, of_tls[i]))
            return pawl__fail(reterr, PAWL_EOPTION,
                              "the URL has the option %s of TLS, but its scheme is redlock: write redlocks:", of_tls[i]);
    if (pawl__url_option(url, "replicas"))
        return pawl__fail(reterr, PAWL_EOPTION,
                          "the URL's option replicas is for one server: over several, the majority takes the place of replicas");
    return 0;
}

static void describe_url(struct redlock *redlock, const struct pawl__url *url) {
    size_t used = (size_t)snprintf(redlock->url, sizeof redlock->url, "%s://", url->scheme);

    for (size_t i = 0; i < url->host_count && used < sizeof redlock->url; i++) {
        pawl__url_place(url->hosts[i].name, port_of(&url->hosts[i]), redlock->seats[i].where);
        used += (size_t)snprintf(redlock->url + used, sizeof redlock->url - used, "%s%s", i ? "," : "", redlock->seats[i].where);
    }
}

/* Database, prefix and the like: as a server of itself has them, behind its place. */
static void describe_rest(struct redlock *redlock, const char *of_one) {
    const char *place = strstr(of_one, "://"), *rest = place ? strchr(place + 3, '/') : NULL;
    size_t used = strlen(redlock->url);

    if (rest)
        snprintf(redlock->url + used, sizeof redlock->url - used, "%s", rest);
}

/* The URL of one server: the same but for the host. What it takes of the options is taken. */
static int open_voter(struct redlock *redlock, const struct pawl__setup *setup, size_t host, struct pawl_error *reterr) {
    struct pawl__url *one = malloc(sizeof *one);
    struct pawl__setup own = *setup;
    int rc;

    if (!one)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    *one = *setup->url; /* its strings are those of the original */
    one->scheme = strcmp(setup->url->scheme, "redlocks") == 0 ? "rediss" : "redis";
    one->hosts[0] = setup->url->hosts[host];
    one->host_count = 1;
    own.url = one;
    own.member = redlock->uuid;
    rc = pawl__crew_add(&redlock->crew, &pawl__redis_engine, &own,
                        (struct pawl__crew_place){&redlock->base, redlock->seats[host].where}, pawl__redlock_tell,
                        pawl__redlock_waits, reterr);
    for (size_t i = 0; i < one->option_count; i++)
        setup->url->options[i].taken |= one->options[i].taken;
    free(one);
    return rc;
}

/* ---- Are they what a majority can be made of? ----------------------------------------------------------------------------- */

static int check_voter(const struct redlock *redlock, const struct pawl__voter_view *views, unsigned i, struct pawl_error *reterr) {
    const char *where = redlock->seats[i].where;

    if (views[i].is_replica)
        return pawl__fail(reterr, PAWL_ETOPOLOGY,
                          "%s is a replica: every server must be a primary of its own, or their majority is not one", where);
    if (views[i].in_cluster)
        return pawl__fail(reterr, PAWL_ETOPOLOGY,
                          "%s is part of a Redis Cluster, which is one server to its users: name independent ones", where);
    for (unsigned j = 0; j < i && views[i].run_id[0]; j++)
        if (strcmp(views[i].run_id, views[j].run_id) == 0)
            return pawl__fail(reterr, PAWL_ETOPOLOGY, "%s and %s are the same server: each must be one of its own",
                              redlock->seats[j].where, where);
    /* A password that is wrong, a certificate that is not trusted: not a failure of the moment. */
    if (views[i].failures && views[i].why.code != PAWL_ECONNLOST)
        return pawl__fail(reterr, views[i].why.code, "%s", views[i].why.text);
    return 0;
}

static int check_voters(struct redlock *redlock, unsigned *retup, unsigned *rettrying, struct pawl_error *reterr) {
    struct pawl__voter_view views[PAWL__CREW_MOST];
    int rc;

    *retup = *rettrying = 0;
    for (unsigned i = 0; i < redlock->crew.count; i++) {
        pawl__voter_look(redlock->crew.members[i], &views[i]);
        *retup += views[i].up;
        *rettrying += !views[i].up && !views[i].failures;
        rc = check_voter(redlock, views, i, reterr);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Too few: with the reason of the first that is not there. */
static int too_few(struct redlock *redlock, unsigned missing, struct pawl_error *reterr) {
    struct pawl__voter_view view;
    const char *why = "they don't answer";

    for (unsigned i = 0; i < redlock->crew.count; i++) {
        pawl__voter_look(redlock->crew.members[i], &view);
        if (view.up || !view.why.code)
            continue;
        why = view.why.text;
        break;
    }
    return pawl__fail(reterr, PAWL_ECONNLOST, "%u of the %u servers of %.200s can't be reached, and %u are needed: %s", missing,
                      redlock->crew.count, redlock->url, redlock->quorum, why);
}

/* Connect to all, in this thread; until a majority is there and the others have had their time. */
static int connect_now(struct redlock *redlock, struct pawl_error *reterr) {
    int64_t start = pawl__boottime(), now = start, deadline = start + redlock->connect_ns, until = deadline;
    unsigned up = 0, trying = 0;
    int rc;

    for (;;) {
        pawl__crew_serve(&redlock->crew, until, 0);
        rc = check_voters(redlock, &up, &trying, reterr);
        now = pawl__boottime();
        if (rc < 0)
            return rc;
        if (up == redlock->crew.count || (!trying && up >= redlock->quorum))
            return 0;
        if (up >= redlock->quorum && until == deadline) {
            until = now + (now - start) * GRACE_TIMES + GRACE_NS;
            until = until < deadline ? until : deadline - 1;
        }
        if (now >= until || up + trying < redlock->quorum)
            break;
    }
    if (up >= redlock->quorum)
        return 0;
    /* Those that are still being tried may be there: it does not matter any more. */
    return too_few(redlock, redlock->crew.count - up - (now < until ? trying : 0), reterr);
}

static void warn_of_voters(struct redlock *redlock) {
    struct pawl__voter_view view;

    if (redlock->crew.count % 2 == 0)
        pawl__warn(&redlock->base, "%.200s names %u servers: of an even number no more may fail than of one less; use %u or %u",
                   redlock->url, redlock->crew.count, redlock->crew.count - 1, redlock->crew.count + 1);
    for (unsigned i = 0; i < redlock->crew.count; i++) {
        pawl__voter_look(redlock->crew.members[i], &view);
        if (view.up)
            pawl__voter_warn(redlock->crew.members[i]);
        else
            pawl__warn(&redlock->base, "%s, one of the %u servers, can't be reached: %s", redlock->seats[i].where,
                       redlock->crew.count, view.why.code ? view.why.text : "it does not answer");
    }
}

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

static int init(struct redlock *redlock, struct pawl_error *reterr) {
    int rc = pawl__crew_init(&redlock->crew, reterr);

    pawl__kit_init(&redlock->kit, &redlock->base, &pawl__redlock_kit);
    pawl__kit_reader_init(&redlock->reader);
    redlock->kit.bell = redlock->crew.wake_fd;
    TAILQ_INIT(&redlock->bids);
    TAILQ_INIT(&redlock->holding);
    TAILQ_INIT(&redlock->votes);
    if (rc < 0)
        return rc;
    if (!pawl__random(&redlock->kit.random, sizeof redlock->kit.random))
        return pawl__fail_errno(reterr, "cannot read random numbers");
    return pawl__redis_uuid(redlock->uuid, reterr);
}

/* Give the voters that answer a moment to take back what is on its way to them. */
static void flush(struct redlock *redlock, int64_t deadline) {
    int64_t now = pawl__boottime();

    deadline = deadline < now + CLOSE_NS ? deadline : now + CLOSE_NS;
    for (;;) {
        unsigned owing = 0;
        struct vote *vote;

        pawl__kit_lock(&redlock->kit);
        pawl__seats_listen(redlock, pawl__boottime());
        TAILQ_FOREACH(vote, &redlock->votes, all) {
            pawl__vote_return(redlock, vote);
            owing += pawl__seat_usable(redlock, vote->seat);
        }
        pawl__kit_unlock(&redlock->kit);
        if (!owing || pawl__boottime() >= deadline)
            return;
        pawl__crew_serve(&redlock->crew, deadline, UINT32_MAX);
    }
}

static void redlock_close(struct pawl__engine *engine, int64_t deadline) {
    struct redlock *redlock = redlock_of(engine);
    struct vote *vote;

    flush(redlock, deadline);
    pawl__crew_close(&redlock->crew, deadline);
    while ((vote = TAILQ_FIRST(&redlock->votes))) {
        TAILQ_REMOVE(&redlock->votes, vote, all);
        free(vote);
    }
    pawl__kit_free(&redlock->kit);
}

static int open_voters(struct redlock *redlock, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct pawl_info info;
    int rc;

    for (size_t i = 0; i < setup->url->host_count; i++)
        if ((rc = open_voter(redlock, setup, i, reterr)) < 0)
            return rc;
    redlock->quorum = redlock->crew.count / 2 + 1;
    pawl__redis_engine.describe(redlock->crew.members[0], &info);
    describe_rest(redlock, info.url);
    redlock->lease_ns = info.lease_ms * REDLOCK_MS;
    redlock->connect_ns = pawl__voter_patience(redlock->crew.members[0]);
    redlock->connect_ns = redlock->connect_ns < setup->patience_ns ? redlock->connect_ns : setup->patience_ns;
    pawl__spin_init(&redlock->crew.spin, pawl__voter_spin(redlock->crew.members[0]));
    return connect_now(redlock, reterr);
}

static int redlock_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    struct pawl_error why;
    int rc;

    if ((rc = check_hosts(setup->url, reterr)) < 0 || (rc = check_options(setup->url, reterr)) < 0)
        return rc;
    describe_url(redlock, setup->url);
    rc = init(redlock, &why);
    if (rc < 0 || (rc = open_voters(redlock, setup, &why)) < 0) {
        redlock_close(engine, 0);
        return pawl__fail(reterr, why.code, "%s", why.text);
    }
    pawl__kit_lock(&redlock->kit);
    pawl__seats_look(redlock);
    pawl__kit_unlock(&redlock->kit);
    warn_of_voters(redlock);
    return 0;
}

static void redlock_forked(struct pawl__engine *engine) {
    pawl__crew_forked(&redlock_of(engine)->crew);
}

static void redlock_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct redlock *redlock = (const struct redlock *)engine;

    ret->url = redlock->url;
    ret->lease_ms = redlock->lease_ns / REDLOCK_MS;
    ret->notice_ms = ret->lease_ms;
}

static const char *const redlock_schemes[] = {"redlock", "redlocks", NULL};

const struct pawl__engine_impl pawl__redlock_engine = {
    .name = "redlock",
    .schemes = redlock_schemes,
    .engine_size = sizeof(struct redlock),
    .claim_size = sizeof(struct bid),
    .open = redlock_open,
    .close = redlock_close,
    .forked = redlock_forked,
    .describe = redlock_describe,
    .submit = pawl__redlock_submit,
    .withdraw = pawl__redlock_withdraw,
    .serve = pawl__redlock_serve,
    .wake = pawl__redlock_wake,
    .renew = pawl__redlock_renew,
    .parking =
        &(const struct pawl__parking){
            .park = pawl__redlock_park,
            .unpark = pawl__redlock_unpark,
            .adopt = pawl__redlock_adopt,
        },
    .operators =
        &(const struct pawl__operators){
            .survey = pawl__redlock_survey,
            .break_hold = pawl__redlock_break,
            .examine = pawl__redlock_examine,
        },
    .extras =
        &(const struct pawl__extras){
            .downgrade = pawl__redlock_downgrade,
        },
};
