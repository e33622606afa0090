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
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/redlock/redlock.h"
#include "engine/redis/view/view.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "base/error.h"
#include "base/url.h"

enum { SERVERS_LEAST = 3, PORT = 6379, GRACE_TIMES = 3 };
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
    if (url->host_count > REDLOCK_MAX)
        return pawl__fail(reterr, PAWL_EURL, "%s: takes at most %d servers, and the URL names %zu", url->scheme, REDLOCK_MAX,
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

/* All servers; and behind them database, prefix and the like, as the URL of one has them. */
static void describe_url(struct redlock *redlock, const struct pawl__url *url, const char *of_one) {
    char *to = redlock->wire.url;
    const char *place = strstr(of_one, "://"), *rest = place ? strchr(place + 3, '/') : NULL;
    size_t size = sizeof redlock->wire.url, used = (size_t)snprintf(to, size, "%s://", url->scheme);
    char where[PAWL__URL_HOST_PORT];

    for (size_t i = 0; i < url->host_count && used < size; i++)
        used += (size_t)snprintf(to + used, size - used, "%s%s", i ? "," : "",
                                 pawl__url_host_port(url->hosts[i].name, port_of(&url->hosts[i]), where));
    if (rest && used < size)
        snprintf(to + used, size - used, "%s", rest);
}

/* The options of one server: the URL is the same but for the host. What it takes of them is taken. */
static int take_options(struct redlock *redlock, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct pawl__url *one = malloc(sizeof *one);
    struct pawl__setup own = *setup;
    char url[sizeof redlock->wire.url];
    int rc;

    if (!one)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    *one = *setup->url; /* its strings are those of the original */
    one->scheme = strcmp(setup->url->scheme, "redlocks") == 0 ? "rediss" : "redis";
    one->host_count = 1;
    own.url = one;
    rc = pawl__redis_options(&own, &redlock->wire.options, reterr);
    for (size_t i = 0; i < one->option_count; i++)
        setup->url->options[i].taken |= one->options[i].taken;
    free(one);
    if (rc < 0)
        return rc;
    redlock->wire.options.layout = LAYOUT_OWN;
    pawl__redis_describe_url(&redlock->wire.options, url, sizeof url);
    describe_url(redlock, setup->url, url);
    return 0;
}

static int add_voter(struct redlock *redlock, const struct pawl__url_host *host, struct pawl_error *reterr) {
    struct redis_options *options = &redlock->wire.options;
    struct server *server = pawl__server_new(&redlock->wire, reterr);
    struct voter *voter = voter_of(server);

    if (!server)
        return reterr->code;
    voter->index = redlock->count;
    redlock->voters[redlock->count++] = voter;
    if (strlen(host->name) >= sizeof options->hosts[0].host)
        return pawl__fail(reterr, PAWL_EURL, "the URL's host is longer than %zu bytes", sizeof options->hosts[0].host - 1);
    strcpy(options->hosts[0].host, host->name);
    options->hosts[0].port = port_of(host);
    pawl__url_host_port(host->name, port_of(host), voter->where);
    pawl__redis_describe_url(options, voter->url, sizeof voter->url);
    server->url = voter->url;
    if (!pawl__server_put_at(server, host->name, port_of(host)))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    return 0;
}

static int voter_made(struct server *server) {
    TAILQ_INIT(&voter_of(server)->to_renew);
    return 0;
}

static void voter_gone(struct server *server) {
    (void)server;
}

/* ---- Are they what a majority can be made of? ----------------------------------------------------------------------------- */

/* The connection that failed, if one did. */
static const struct link *weakest(const struct voter *voter) {
    return voter->server.commands.failures ? &voter->server.commands : &voter->server.inbox;
}

static int check_voter(const struct redlock *redlock, unsigned i, struct pawl_error *reterr) {
    const struct voter *voter = redlock->voters[i];
    const struct server_facts *facts = &voter->server.facts;
    const struct link *link = weakest(voter);

    if (facts->is_replica)
        return pawl__fail(reterr, PAWL_ETOPOLOGY,
                          "%s is a replica: every server must be a primary of its own, or their majority is not one", voter->where);
    if (facts->in_cluster)
        return pawl__fail(reterr, PAWL_ETOPOLOGY,
                          "%s is part of a Redis Cluster, which is one server to its users: name independent ones", voter->where);
    for (unsigned j = 0; j < i && facts->run_id[0]; j++)
        if (strcmp(facts->run_id, redlock->voters[j]->server.facts.run_id) == 0)
            return pawl__fail(reterr, PAWL_ETOPOLOGY, "%s and %s are the same server: each must be one of its own",
                              redlock->voters[j]->where, voter->where);
    /* A password that is wrong, a certificate that is not trusted: not a failure of the moment. */
    if (link->failures && link->why.code != PAWL_ECONNLOST)
        return pawl__fail(reterr, link->why.code, "%s", link->why.text);
    return 0;
}

static int check_voters(const struct redlock *redlock, unsigned *retup, unsigned *rettrying, struct pawl_error *reterr) {
    int rc;

    *retup = *rettrying = 0;
    for (unsigned i = 0; i < redlock->count; i++) {
        bool up = pawl__server_up(&redlock->voters[i]->server);

        *retup += up;
        *rettrying += !up && !weakest(redlock->voters[i])->failures;
        rc = check_voter(redlock, i, reterr);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Too few: with the reason of the first that is not there. */
static int too_few(const struct redlock *redlock, unsigned missing, struct pawl_error *reterr) {
    const char *why = "they don't answer";

    for (unsigned i = 0; i < redlock->count; i++) {
        const struct voter *voter = redlock->voters[i];

        if (pawl__server_up(&voter->server) || !weakest(voter)->why.code)
            continue;
        why = weakest(voter)->why.text;
        break;
    }
    return pawl__fail(reterr, PAWL_ECONNLOST, "%u of the %u servers of %.200s can't be reached, and %u are needed: %s", missing,
                      redlock->count, redlock->wire.url, redlock->quorum, why);
}

/* Connect to all, in this thread; until a majority is there and the others have had their time. */
static int connect_now(struct redlock *redlock, struct pawl_error *reterr) {
    const struct redis_options *options = &redlock->wire.options;
    int64_t patience = options->connect_ns < options->patience_ns ? options->connect_ns : options->patience_ns;
    int64_t start = pawl__boottime(), now = start, deadline = start + patience, until = deadline;
    unsigned up = 0, trying = 0;
    int rc;

    for (;;) {
        pawl__kit_lock(&redlock->wire.kit);
        pawl__redlock_run(redlock, until, 0);
        pawl__kit_unlock(&redlock->wire.kit);
        rc = check_voters(redlock, &up, &trying, reterr);
        now = pawl__boottime();
        if (rc < 0)
            return rc;
        if (up == redlock->count || (!trying && up >= redlock->quorum))
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
    return too_few(redlock, redlock->count - up - (now < until ? trying : 0), reterr);
}

static void warn_of_voters(struct redlock *redlock) {
    if (redlock->count % 2 == 0)
        pawl__warn(&redlock->wire.base,
                   "%.200s names %u servers: of an even number no more may fail than of one less; use %u or %u", redlock->wire.url,
                   redlock->count, redlock->count - 1, redlock->count + 1);
    for (unsigned i = 0; i < redlock->count; i++) {
        struct voter *voter = redlock->voters[i];
        const struct link *link = weakest(voter);

        if (pawl__server_up(&voter->server))
            pawl__server_warn(&voter->server);
        else
            pawl__warn(&redlock->wire.base, "%s, one of the %u servers, can't be reached: %s", voter->where, redlock->count,
                       link->why.code ? link->why.text : "it does not answer");
    }
}

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

static int make_descriptors(struct redlock *redlock, struct pawl_error *reterr) {
    redlock->wire.kit.bell = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    redlock->read_bell = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    redlock->timer_fd = pawl__timer();
    if (redlock->wire.kit.bell < 0 || redlock->read_bell < 0 || redlock->timer_fd < 0)
        return pawl__fail_errno(reterr, "cannot create an eventfd");
    return 0;
}

static int init(struct redlock *redlock, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct redis *wire = &redlock->wire;
    struct pawl__identity identity = setup->identity;
    int rc;

    pawl__kit_init(&wire->kit, &wire->base, &pawl__redlock_kit);
    pthread_cond_init(&redlock->called, NULL);
    redlock->read_bell = redlock->timer_fd = -1;
    pawl__wire_init(wire);
    wire->server_size = sizeof(struct voter);
    wire->made = voter_made;
    wire->gone = voter_gone;
    wire->call = pawl__redlock_call;
    wire->scripts = pawl__redlock_scripts;
    pawl__kit_reader_init(&redlock->reader);
    pawl__spin_init(&redlock->spin, wire->options.spin_ns);
    TAILQ_INIT(&redlock->bids);
    TAILQ_INIT(&redlock->holding);
    TAILQ_INIT(&redlock->votes);
    TAILQ_INIT(&redlock->retries);
    identity.lease_ms = wire->options.lease_ns / REDLOCK_MS;
    pawl__record_format(&identity, redlock->record, sizeof redlock->record);
    if ((rc = make_descriptors(redlock, reterr)) < 0)
        return rc;
    if (!pawl__random(&wire->kit.random, sizeof wire->kit.random))
        return pawl__fail_errno(reterr, "cannot read random numbers");
    rc = pawl__redis_uuid(wire->uuid, reterr);
    return rc < 0 ? rc : pawl__tls_setup(&wire->options.tls, &wire->tls, reterr);
}

/* Give the voters that answer a moment to take back what is on its way to them. */
static void flush(struct redlock *redlock, int64_t deadline) {
    int64_t now = pawl__boottime();

    deadline = deadline < now + CLOSE_NS ? deadline : now + CLOSE_NS;
    for (;;) {
        unsigned owing = 0;
        struct vote *vote;

        pawl__kit_lock(&redlock->wire.kit);
        pawl__voters_listen(redlock, pawl__boottime());
        TAILQ_FOREACH(vote, &redlock->votes, all) {
            pawl__vote_return(redlock, vote);
            owing += pawl__voter_usable(redlock, vote->voter);
        }
        if (owing && pawl__boottime() < deadline)
            pawl__redlock_run(redlock, deadline, UINT32_MAX);
        else
            deadline = 0;
        pawl__kit_unlock(&redlock->wire.kit);
        if (!deadline)
            return;
    }
}

/* What connections have lost is nobody's any more. */
static void drain(struct redlock *redlock) {
    struct wire_event event;

    while (pawl__wire_next(&redlock->wire, &event)) {
        if (event.request && event.request->script == SCRIPT_RENEW)
            free(event.request->data);
        freeReplyObject(event.reply);
        free(event.request);
    }
}

static void close_descriptors(const struct redlock *redlock) {
    const int fds[] = {redlock->wire.kit.bell, redlock->read_bell, redlock->timer_fd};

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void redlock_close(struct pawl__engine *engine, int64_t deadline) {
    struct redlock *redlock = redlock_of(engine);
    struct vote *vote;

    flush(redlock, deadline);
    redlock->wire.closing = true;
    for (unsigned i = 0; i < redlock->count; i++)
        pawl__server_close(&redlock->voters[i]->server);
    drain(redlock);
    for (unsigned i = 0; i < redlock->count; i++)
        pawl__server_free(&redlock->voters[i]->server);
    redlock->count = 0;
    while ((vote = TAILQ_FIRST(&redlock->votes))) {
        TAILQ_REMOVE(&redlock->votes, vote, all);
        free(vote);
    }
    close_descriptors(redlock);
    if (redlock->wire.tls) /* without TLS there is no OpenSSL to ask */
        SSL_CTX_free(redlock->wire.tls);
    redlock->wire.tls = NULL;
    explicit_bzero(redlock->wire.options.password, sizeof redlock->wire.options.password);
    pthread_cond_destroy(&redlock->called);
    pawl__kit_free(&redlock->wire.kit);
}

static int open_voters(struct redlock *redlock, const struct pawl__url *url, struct pawl_error *reterr) {
    int rc;

    for (size_t i = 0; i < url->host_count; i++)
        if ((rc = add_voter(redlock, &url->hosts[i], reterr)) < 0)
            return rc;
    redlock->quorum = redlock->count / 2 + 1;
    return connect_now(redlock, reterr);
}

static int redlock_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    struct pawl_error why;
    int rc;

    if ((rc = check_hosts(setup->url, reterr)) < 0 || (rc = check_options(setup->url, reterr)) < 0 ||
        (rc = take_options(redlock, setup, reterr)) < 0)
        return rc;
    rc = init(redlock, setup, &why);
    if (rc < 0 || (rc = open_voters(redlock, setup->url, &why)) < 0) {
        redlock_close(engine, 0);
        return pawl__fail(reterr, why.code, "%s", why.text);
    }
    pawl__kit_lock(&redlock->wire.kit);
    pawl__voters_look(redlock);
    pawl__kit_unlock(&redlock->wire.kit);
    warn_of_voters(redlock);
    return 0;
}

static void redlock_forked(struct pawl__engine *engine) {
    struct redlock *redlock = redlock_of(engine);
    struct link *link;

    /* The parent's connections are not the child's to use, and must end when the parent does. */
    for (unsigned i = 0; i < redlock->count; i++)
        for (int j = 0; (link = pawl__server_link(&redlock->voters[i]->server, j)); j++)
            if (link->fd >= 0)
                close(link->fd);
    close_descriptors(redlock);
}

static void redlock_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct redlock *redlock = (const struct redlock *)engine;

    ret->url = redlock->wire.url;
    ret->lease_ms = redlock->wire.options.lease_ns / REDLOCK_MS;
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
            .why = pawl__redlock_why,
        },
};
