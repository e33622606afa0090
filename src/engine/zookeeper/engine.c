/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - the ZooKeeper engine's table: options, open, close, describe; and the one mutex, with the notes that wait for it to be free.
 */
#include "engine/zookeeper/zk.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/descriptor.h"
#include "base/error.h"
#include "base/url.h"

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

/* ---- The mutex ------------------------------------------------------------------------------------------------------------ */

pthread_mutex_t pawl__zk_mutex = PTHREAD_MUTEX_INITIALIZER;
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

void pawl__zk_lock(void) {
    pthread_mutex_lock(&pawl__zk_mutex);
}

static void speak(struct zk_engine *zk, struct zk_note *note) {
    note->claim.name = note->name;
    if (note->warning)
        pawl__warn(&zk->base, "%s", note->text);
    else
        pawl__note(&zk->base, note->about ? &note->claim : NULL, "%s", note->text);
    free(note);
}

void pawl__zk_unlock(struct zk_engine *zk) {
    struct zk_note_list notes = TAILQ_HEAD_INITIALIZER(notes);
    struct zk_note *note;

    pawl__zk_send_listings(zk);
    pawl__zk_uncork(zk);
    TAILQ_CONCAT(&notes, &zk->notes, link);
    pthread_mutex_unlock(&pawl__zk_mutex);
    while ((note = TAILQ_FIRST(&notes))) {
        TAILQ_REMOVE(&notes, note, link);
        speak(zk, note);
    }
}

static struct zk_note *new_note(struct zk_engine *zk, const char *format, va_list args) {
    struct zk_note *note = calloc(1, sizeof *note);

    if (!note)
        return NULL;
    vsnprintf(note->text, sizeof note->text, format, args);
    TAILQ_INSERT_TAIL(&zk->notes, note, link);
    return note;
}

void pawl__zk_say(struct zk_engine *zk, const struct zk_claim *claim, const char *format, ...) {
    struct zk_note *note;
    va_list args;

    if (!pawl__noting(&zk->base))
        return;
    va_start(args, format);
    note = new_note(zk, format, args);
    va_end(args);
    if (note && claim) {
        note->about = true;
        snprintf(note->name, sizeof note->name, "%s", claim->claim->name);
    }
}

void pawl__zk_warn(struct zk_engine *zk, const char *format, ...) {
    struct zk_note *note;
    va_list args;

    if (!zk->base.warn)
        return;
    va_start(args, format);
    note = new_note(zk, format, args);
    va_end(args);
    if (note)
        note->warning = true;
}

/* ---- Small things --------------------------------------------------------------------------------------------------------- */

char *pawl__zk_text(const char *format, ...) {
    char *text = NULL;
    va_list args;
    int length;

    va_start(args, format);
    length = vasprintf(&text, format, args);
    va_end(args);
    return length < 0 ? NULL : text;
}

const struct ACL_vector *pawl__zk_acl(const struct zk_engine *zk) {
    return zk->creator_acl ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

/* ---- Options -------------------------------------------------------------------------------------------------------------- */

static int take_hosts(struct zk_engine *zk, const struct pawl__url *url, struct pawl_error *reterr) {
    zk->host_count = url->host_count;
    if (zk->host_count == 0)
        return pawl__fail(reterr, PAWL_EURL, "the URL names no server: write zk://host:2181/path");
    zk->hosts = calloc(zk->host_count, sizeof *zk->hosts);
    if (!zk->hosts)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < zk->host_count; i++) {
        if (strlen(url->hosts[i].name) >= sizeof zk->hosts[i].name)
            return pawl__fail(reterr, PAWL_EURL, "a host's name in the URL is longer than %zu bytes", sizeof zk->hosts[i].name - 1);
        strcpy(zk->hosts[i].name, url->hosts[i].name);
        zk->hosts[i].port = url->hosts[i].port ? url->hosts[i].port : PORT;
        pawl__url_place(zk->hosts[i].name, zk->hosts[i].port, zk->hosts[i].where);
    }
    return 0;
}

/* "" or "/a/b": no slash at the end, no empty part. */
static int take_path(struct zk_engine *zk, const struct pawl__url *url, struct pawl_error *reterr) {
    size_t length = strlen(url->path);

    while (length && url->path[length - 1] == '/')
        length--;
    if (length > PATH_MAX_BYTES)
        return pawl__fail(reterr, PAWL_EURL, "the URL's path is longer than %d bytes", PATH_MAX_BYTES);
    zk->base_path = strndup(url->path, length);
    if (!zk->base_path)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    for (const char *part = zk->base_path; *part; part += 1 + strcspn(part + 1, "/")) {
        size_t size = strcspn(part + 1, "/");

        if (size == 0 || (size == 1 && part[1] == '.') || (size == 2 && part[1] == '.' && part[2] == '.'))
            return pawl__fail(reterr, PAWL_EURL, "the URL's path '%.100s' has an empty part, '.' or '..'", zk->base_path);
    }
    return 0;
}

static int take_user(struct zk_engine *zk, const struct pawl__url *url, struct pawl_error *reterr) {
    if (!url->user)
        return 0;
    if (!*url->user || !url->password)
        return pawl__fail(reterr, PAWL_EURL, "the URL's user needs a name and a secret: zk://user:secret@host");
    zk->secret = pawl__zk_text("%s:%s", url->user, url->password);
    return zk->secret ? 0 : pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
}

/* ?acl=creator|world; who comes with a user means the former. */
static int take_acl(struct zk_engine *zk, struct pawl__url *url, struct pawl_error *reterr) {
    const char *acl = pawl__url_option(url, "acl");

    zk->creator_acl = zk->secret != NULL;
    if (!acl)
        return 0;
    zk->creator_acl = strcmp(acl, "creator") == 0;
    if (!zk->creator_acl && strcmp(acl, "world") != 0)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL's option acl=%.40s is neither creator nor world", acl);
    if (zk->creator_acl && !zk->secret)
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

/* ?retry=BASE,MAX,TRIES */
static int take_retry(struct zk_engine *zk, struct pawl__url *url, struct pawl_error *reterr) {
    const char *text = pawl__url_option(url, "retry");
    unsigned base = RETRY_BASE_MS, max = RETRY_MAX_MS, tries = 0;
    int used = 0;

    if (text && (!isdigit((unsigned char)*text) || sscanf(text, "%6u,%6u,%6u%n", &base, &max, &tries, &used) != 3 || text[used] ||
                 base < 1 || base > max))
        return pawl__fail(
            reterr, PAWL_EOPTION,
            "the URL's option retry=%.40s is not BASE,MAX,TRIES: two numbers of ms, the second not the smaller, and how often "
            "(0: for ever)",
            text);
    zk->retry_base = base * ZK_MS;
    zk->retry_max = max * ZK_MS;
    zk->retry_tries = tries;
    return 0;
}

static int refuse_tls(struct pawl__url *url, struct pawl_error *reterr) {
    if (strcmp(url->scheme, "zks") != 0 && !pawl__url_option(url, "tls"))
        return 0;
    return pawl__fail(
        reterr, PAWL_EUNSUPPORTED,
        "the libzookeeper of this build has no TLS: use zk:// through a tunnel, or a build against a library that has it");
}

static int take_times(struct zk_engine *zk, const struct pawl__setup *setup, struct pawl_error *reterr) {
    long long session = setup->lease_ns ? setup->lease_ns / ZK_MS : SESSION_MS, tick = 0, connect = CONNECT_MS;
    int rc;

    if ((rc = pawl__url_number(setup->url, "session", 100, SESSION_MS_MAX, &session, reterr)) < 0 ||
        (rc = pawl__url_number(setup->url, "tick", 1, SESSION_MS_MAX, &tick, reterr)) < 0 ||
        (rc = pawl__url_number(setup->url, "connect", 1, SESSION_MS_MAX, &connect, reterr)) < 0)
        return rc;
    zk->asked_ms = session < SESSION_MS_MAX ? session : SESSION_MS_MAX;
    zk->tick_ns = tick * ZK_MS;
    zk->connect_ns = connect * ZK_MS < setup->patience_ns ? connect * ZK_MS : setup->patience_ns;
    return 0;
}

static int take_options(struct zk_engine *zk, const struct pawl__setup *setup, struct pawl_error *reterr) {
    int rc;

    if ((rc = refuse_tls(setup->url, reterr)) < 0 || (rc = take_hosts(zk, setup->url, reterr)) < 0 ||
        (rc = take_path(zk, setup->url, reterr)) < 0 || (rc = take_user(zk, setup->url, reterr)) < 0 ||
        (rc = take_acl(zk, setup->url, reterr)) < 0 || (rc = take_compat(zk, setup->url, reterr)) < 0 ||
        (rc = take_retry(zk, setup->url, reterr)) < 0)
        return rc;
    return take_times(zk, setup, reterr);
}

/* The URL as it may be shown: without user and secret. */
static int make_url(struct zk_engine *zk, struct pawl_error *reterr) {
    size_t used = (size_t)snprintf(zk->url, sizeof zk->url, "zk://");

    for (size_t i = 0; i < zk->host_count && used < sizeof zk->url; i++)
        used += (size_t)snprintf(zk->url + used, sizeof zk->url - used, "%s%s", i ? "," : "", zk->hosts[i].where);
    if (used < sizeof zk->url)
        used += (size_t)snprintf(zk->url + used, sizeof zk->url - used, "%s", zk->base_path);
    return used < sizeof zk->url ? 0 : pawl__fail(reterr, PAWL_EURL, "the URL is too long");
}

/* ---- Open and close ------------------------------------------------------------------------------------------------------- */

static void release(struct zk_engine *zk) {
    struct zk_doomed *doomed;
    struct zk_note *note;

    while ((doomed = TAILQ_FIRST(&zk->doomed))) {
        TAILQ_REMOVE(&zk->doomed, doomed, link);
        free(doomed);
    }
    while ((note = TAILQ_FIRST(&zk->notes))) {
        TAILQ_REMOVE(&zk->notes, note, link);
        free(note);
    }
    if (zk->event_fd >= 0)
        close(zk->event_fd);
    pthread_cond_destroy(&zk->changed);
    if (zk->secret)
        explicit_bzero(zk->secret, strlen(zk->secret));
    free(zk->secret);
    free(zk->hosts);
    free(zk->base_path);
    pawl__zk_forget_memory(zk);
}

static int zk_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct zk_engine *zk = zk_of(engine);
    pthread_condattr_t attributes;
    int rc;

    pthread_once(&once, set_up);
    TAILQ_INIT(&zk->ops);
    TAILQ_INIT(&zk->watches);
    TAILQ_INIT(&zk->claims);
    TAILQ_INIT(&zk->news);
    TAILQ_INIT(&zk->line);
    TAILQ_INIT(&zk->timed);
    TAILQ_INIT(&zk->listings);
    TAILQ_INIT(&zk->doomed);
    TAILQ_INIT(&zk->notes);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&zk->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_init(&zk->fd, -1);
    zk->identity = setup->identity;
    pawl__record_format(&zk->identity, zk->record, sizeof zk->record);
    zk->event_fd = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (zk->event_fd < 0)
        rc = pawl__fail_errno(reterr, "no event descriptor can be had");
    else if ((rc = take_options(zk, setup, reterr)) == 0 && (rc = make_url(zk, reterr)) == 0)
        rc = pawl__zk_session_open(zk, reterr);
    if (rc < 0)
        release(zk);
    return rc;
}

static void zk_close(struct pawl__engine *engine, int64_t deadline) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim;

    pawl__zk_session_close(zk, deadline);
    pawl__zk_lock();
    while ((claim = TAILQ_FIRST(&zk->claims))) /* abandoned: their memory is the core's, what hangs on them is ours */
        pawl__zk_refuse(claim, PAWL_ECLOSED, "the client is closed");
    pawl__zk_unlock(zk);
    release(zk);
}

static void zk_forked(struct pawl__engine *engine) {
    struct zk_engine *zk = zk_of(engine);
    int fd = atomic_load(&zk->fd);

    if (fd >= 0)
        close(fd); /* the child's copy: else the server would not see the parent's end */
    close(zk->event_fd);
}

static void zk_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct zk_engine *zk = (const struct zk_engine *)engine;

    ret->url = zk->url;
    ret->lease_ms = zk->timeout_ns / ZK_MS;
    /* The server rounds up to its tick, and a tick may just have begun. */
    ret->notice_ms = ret->lease_ms + (zk->tick_ns ? zk->tick_ns / ZK_MS : TICK_MS);
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
    .operators =
        &(const struct pawl__operators){
            .survey = pawl__zk_survey,
            .break_hold = pawl__zk_break,
            .examine = pawl__zk_examine,
        },
    .extras =
        &(const struct pawl__extras){
            .downgrade = pawl__zk_downgrade,
        },
};
