/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - the ZooKeeper engine's table: options, open, close, describe. On the claims (lock/) and what operators ask (operator/), which
 * are both on the session (session/), and on values (value/), which are on claims.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/url.h"
#include "engine/zookeeper/lock/lock.h"
#include "engine/zookeeper/operator/operator.h"
#include "engine/zookeeper/value/value.h"

enum {
    PORT = 2181,
    SESSION_MS = 15000,
    SESSION_MS_MAX = 3600000,
    CONNECT_MS = 15000,
    RETRY_BASE_MS = 100,
    RETRY_MAX_MS = 2000,
    TICK_MS = 2000, /* what servers have unless told otherwise */
    PATH_MAX_BYTES = 2048,
};

/* ---- Options -------------------------------------------------------------------------------------------------------------- */

static int take_hosts(struct zk_options *options, const struct pawl__url *url, struct pawl_error *reterr) {
    options->host_count = url->host_count;
    if (options->host_count == 0)
        return pawl__fail(reterr, PAWL_EURL, "the URL names no server: write zk://host:2181/path");
    options->hosts = calloc(options->host_count, sizeof *options->hosts);
    if (!options->hosts)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < options->host_count; i++) {
        if (strlen(url->hosts[i].name) >= sizeof options->hosts[i].name)
            return pawl__fail(reterr, PAWL_EURL, "a host's name in the URL is longer than %zu bytes",
                              sizeof options->hosts[i].name - 1);
        strcpy(options->hosts[i].name, url->hosts[i].name);
        options->hosts[i].port = url->hosts[i].port ? url->hosts[i].port : PORT;
        pawl__url_host_port(options->hosts[i].name, options->hosts[i].port, options->hosts[i].where);
    }
    return 0;
}

/* "" or "/a/b": no slash at the end, no empty part. */
static int take_path(struct zk_options *options, const struct pawl__url *url, struct pawl_error *reterr) {
    size_t length = strlen(url->path);

    while (length && url->path[length - 1] == '/')
        length--;
    if (length > PATH_MAX_BYTES)
        return pawl__fail(reterr, PAWL_EURL, "the URL's path is longer than %d bytes", PATH_MAX_BYTES);
    options->base_path = strndup(url->path, length);
    if (!options->base_path)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    for (const char *part = options->base_path; *part; part += 1 + strcspn(part + 1, "/")) {
        size_t size = strcspn(part + 1, "/");

        if (size == 0 || (size == 1 && part[1] == '.') || (size == 2 && part[1] == '.' && part[2] == '.'))
            return pawl__fail(reterr, PAWL_EURL, "the URL's path '%.100s' has an empty part, '.' or '..'", options->base_path);
    }
    return 0;
}

static int take_user(struct zk_options *options, const struct pawl__url *url, struct pawl_error *reterr) {
    if (!url->user)
        return 0;
    if (!*url->user || !url->password)
        return pawl__fail(reterr, PAWL_EURL, "the URL's user needs a name and a secret: zk://user:secret@host");
    options->secret = pawl__zk_text("%s:%s", url->user, url->password);
    return options->secret ? 0 : pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
}

/* ?acl=creator|world; who comes with a user means the former. */
static int take_acl(struct zk_options *options, struct pawl__url *url, struct pawl_error *reterr) {
    bool creator = options->secret != NULL;
    int rc = pawl__url_either(url, "acl", "creator", "world", &creator, reterr);

    if (rc < 0)
        return rc;
    options->acl = creator ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    if (creator && !options->secret)
        return pawl__fail(reterr, PAWL_EOPTION, "acl=creator needs a user: zk://user:secret@host");
    return 0;
}

static int take_compat(struct zk_engine *zk, struct pawl__url *url, struct pawl_error *reterr) {
    const char *compat = pawl__url_option(url, "compat");

    if (compat && strcmp(compat, "kazoo") != 0)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL's option compat=%.40s is not kazoo, the only one there is", compat);
    zk->kazoo = compat != NULL;
    return 0;
}

static int refuse_tls(struct pawl__url *url, struct pawl_error *reterr) {
    if (strcmp(url->scheme, "zks") != 0 && !pawl__url_option(url, "tls"))
        return 0;
    return pawl__fail(
        reterr, PAWL_EUNSUPPORTED,
        "the libzookeeper of this build has no TLS: use zk:// through a tunnel, or a build against a library that has it");
}

static int take_times(struct zk_options *options, const struct pawl__setup *setup, struct pawl_error *reterr) {
    long long session = setup->lease_ns ? setup->lease_ns / ZK_MS : SESSION_MS, tick = 0, connect = CONNECT_MS;
    int rc;

    if ((rc = pawl__url_number(setup->url, "session", 100, SESSION_MS_MAX, &session, reterr)) < 0 ||
        (rc = pawl__url_number(setup->url, "tick", 1, SESSION_MS_MAX, &tick, reterr)) < 0 ||
        (rc = pawl__url_number(setup->url, "connect", 1, SESSION_MS_MAX, &connect, reterr)) < 0)
        return rc;
    options->asked_ms = session < SESSION_MS_MAX ? session : SESSION_MS_MAX;
    options->tick_ns = tick * ZK_MS;
    options->connect_ns = connect * ZK_MS < setup->patience_ns ? connect * ZK_MS : setup->patience_ns;
    return 0;
}

static int take_options(struct zk_engine *zk, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct zk_options *options = &zk->session.options;
    int rc;

    options->retry = (struct kit_retry){RETRY_BASE_MS * ZK_MS, RETRY_MAX_MS * ZK_MS, 0};
    if ((rc = refuse_tls(setup->url, reterr)) < 0 || (rc = take_hosts(options, setup->url, reterr)) < 0 ||
        (rc = take_path(options, setup->url, reterr)) < 0 || (rc = take_user(options, setup->url, reterr)) < 0 ||
        (rc = take_acl(options, setup->url, reterr)) < 0 || (rc = take_compat(zk, setup->url, reterr)) < 0 ||
        (rc = pawl__kit_take_retry(setup->url, &options->retry, reterr)) < 0)
        return rc;
    return take_times(options, setup, reterr);
}

/* The URL as it may be shown: without user and secret. */
static int make_url(struct zk_options *options, struct pawl_error *reterr) {
    size_t used = (size_t)snprintf(options->url, sizeof options->url, "zk://");

    for (size_t i = 0; i < options->host_count && used < sizeof options->url; i++)
        used += (size_t)snprintf(options->url + used, sizeof options->url - used, "%s%s", i ? "," : "", options->hosts[i].where);
    if (used < sizeof options->url)
        used += (size_t)snprintf(options->url + used, sizeof options->url - used, "%s", options->base_path);
    return used < sizeof options->url ? 0 : pawl__fail(reterr, PAWL_EURL, "the URL is too long");
}

/* ---- Open and close ------------------------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A child that opens a client of its own must not find the mutex taken by a thread that it does not have. It is not taken before fork: that
 * would order it against the core's. What it guarded is the parent's, but for the library's counter, of which any value is good. */
static void after_fork_in_child(void) {
    pthread_mutex_init(&pawl__zk_mutex, NULL);
}

static void set_up(void) {
    pthread_atfork(NULL, NULL, after_fork_in_child);
    zoo_set_debug_level((ZooLogLevel)0);
}

static int zk_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct zk_engine *zk = zk_of(engine);
    struct pawl__identity identity = setup->identity;
    int rc;

    pthread_once(&once, set_up);
    TAILQ_INIT(&zk->claims);
    TAILQ_INIT(&zk->news);
    TAILQ_INIT(&zk->admission);
    TAILQ_INIT(&zk->timed);
    TAILQ_INIT(&zk->listings);
    TAILQ_INIT(&zk->leftovers);
    TAILQ_INIT(&zk->authors);
    TAILQ_INIT(&zk->observers.locks);
    TAILQ_INIT(&zk->observers.changed);
    if ((rc = pawl__zk_session_init(&zk->session, engine, reterr)) == 0 && (rc = take_options(zk, setup, reterr)) == 0 &&
        (rc = make_url(&zk->session.options, reterr)) == 0)
        rc = pawl__zk_open(zk, reterr);
    if (rc < 0)
        pawl__zk_session_free(&zk->session);
    identity.lease_ms = zk->session.timeout_ns / ZK_MS; /* what the server has granted */
    pawl__record_format(&identity, zk->record, sizeof zk->record);
    return rc;
}

static void zk_close(struct pawl__engine *engine, int64_t deadline) {
    struct zk_engine *zk = zk_of(engine);

    pawl__zk_close(zk, deadline);
    pawl__zk_session_free(&zk->session);
}

static void zk_forked(struct pawl__engine *engine) {
    struct zk_session *session = &zk_of(engine)->session;
    int fd = atomic_load(&session->fd);

    if (fd >= 0)
        close(fd); /* the child's copy: else the server would not see the parent's end */
    close(session->event_fd);
}

static void zk_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct zk_session *session = &((const struct zk_engine *)engine)->session;
    int64_t tick_ns = session->options.tick_ns;

    ret->url = session->options.url;
    ret->lease_ms = session->timeout_ns / ZK_MS;
    /* The server rounds up to its tick, and a tick may just have begun. */
    ret->notice_ms = ret->lease_ms + (tick_ns ? tick_ns / ZK_MS : TICK_MS);
}

static int look(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                struct pawl_error *reterr) {
    return pawl__zk_look_by(&zk_of(engine)->session, name, visit, data, deadline, reterr);
}

static int survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    return pawl__zk_survey(&zk_of(engine)->session, name, visit, data, reterr);
}

static int break_hold(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    return pawl__zk_break(&zk_of(engine)->session, name, token, now, reterr);
}

static int examine(struct pawl__engine *engine, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    return pawl__zk_examine(&zk_of(engine)->session, visit, data, reterr);
}

const struct pawl__engine_impl pawl__zookeeper_engine = {
    .name = "zk",
    .schemes = (const char *const[]){"zk", "zks", NULL},
    .engine_size = sizeof(struct zk_engine),
    .claim_size = sizeof(struct zk_claim),
    .open = zk_open,
    .close = zk_close,
    .forked = zk_forked,
    .describe = zk_describe,
    .submit = pawl__zk_submit,
    .withdraw = pawl__zk_withdraw,
    .serve = pawl__zk_serve,
    .wake = pawl__zk_wake,
    .renew = pawl__zk_renew,
    .operators = &(const struct pawl__operators){.survey = survey, .break_hold = break_hold, .examine = examine},
    .extras = &(const struct pawl__extras){.downgrade = pawl__zk_downgrade, .why = pawl__zk_why},
    .values = &(const struct pawl__values){.sign = pawl__zk_value_sign,
                                           .set = pawl__zk_value_set,
                                           .get = pawl__zk_value_get,
                                           .observe = pawl__zk_observe,
                                           .unobserve = pawl__zk_unobserve,
                                           .look = look},
    .keeping = &(const struct pawl__keeping){.rest = pawl__zk_rest, .resume = pawl__zk_resume},
};
