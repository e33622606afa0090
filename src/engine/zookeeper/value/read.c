/* SPDX-License-Identifier: Apache-2.0
 *
 * read.c - reading a value, and the servers' clock.
 *
 * Who holds the lock has heard from its own server that the holder before it has gone; so that server has all that holder wrote. Who
 * observes it has heard from its own server that there is something new. Who does neither reads behind a write that changes nothing, so
 * that the server has caught up with all that was answered before. A sync is not enough: a leader that is cut off answers it, and one
 * that is not may itself be behind those followers which were quicker to carry out what it let them.
 *
 * The servers' clock is the leader's, and is told with what is written: so who wants to know it writes to the directory of values, which
 * has no data, and reads on behind that.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/zookeeper/lock/path.h"
#include "engine/zookeeper/value/value.h"

/* Before what could not be answered though there is a connection is asked again. */
#define AGAIN_NS (20 * ZK_MS)

struct reading {
    struct zk_session *session;
    const char *name;
    char *path;
    bool latest; /* it must be, and nothing else makes it so */
    bool timed;  /* the clock is asked for */
    int64_t deadline;
    struct pawl_error *reterr;
    struct pawl__value *value;
    int64_t now_us;
};

int pawl__zk_value_no_answer(const struct zk_session *session, const char *name, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_ECONNLOST, "'%s': no answer from %s; check that the servers are running", name,
                      session->options.url);
}

bool pawl__zk_value_again(struct zk_session *session, int64_t deadline) {
    int64_t until = pawl__boottime() + AGAIN_NS < deadline ? pawl__boottime() + AGAIN_NS : deadline;

    pawl__zk_uncork(session);
    while (zk_is_connected(session) && pawl__boottime() < until)
        pawl__wait_until(&session->answered, &pawl__zk_mutex, until);
    return pawl__zk_call_connected(session, deadline) && pawl__boottime() < deadline;
}

struct zk_call *pawl__zk_value_barrier(struct zk_session *session, const char *path) {
    char *nowhere = pawl__zk_text("%s%%", path); /* no value's name */
    struct zk_call *call = nowhere ? pawl__zk_call(session, ZK_CALL_DELETE, nowhere, NULL) : NULL;

    free(nowhere);
    return call;
}

/* The deepest one first: those above may be others', who let nobody make anything there. `path` is cut at its slashes, and mended. */
static int make(struct zk_session *session, char *path, int64_t deadline, struct Stat *ret) {
    char *slash = strrchr(path, '/');
    bool parent_made = false;
    struct zk_call *call;
    int rc;

    for (;;) {
        call = pawl__zk_call(session, ZK_CALL_MAKE, path, NULL);
        rc = pawl__zk_call_wait(session, call, deadline);
        if (rc == ZOK)
            *ret = call->stat;
        pawl__zk_call_free(call);
        if (rc != ZNONODE || slash == path || parent_made)
            return rc;
        *slash = '\0';
        rc = make(session, path, deadline, ret);
        *slash = '/';
        if (rc != ZOK && rc != ZNODEEXISTS)
            return rc;
        parent_made = true;
    }
}

int pawl__zk_value_directory(struct zk_session *session, int64_t deadline, struct Stat *ret) {
    char *path = pawl__zk_text("%s/%s", session->options.base_path, pawl__zk_values_name);
    int rc = path ? make(session, path, deadline, ret) : ZSYSTEMERROR;

    free(path);
    return rc;
}

/* The clock, by a write to the directory. ZooKeeper's code. */
static int ask_clock(struct reading *it) {
    char *directory = pawl__zk_text("%s/%s", it->session->options.base_path, pawl__zk_values_name);
    struct zk_call *call = directory ? pawl__zk_call(it->session, ZK_CALL_SET, directory, "") : NULL;
    int rc = pawl__zk_call_wait(it->session, call, it->deadline);
    struct Stat stat = {0};

    if (rc == ZOK)
        stat = call->stat;
    else if (rc == ZNONODE)
        rc = pawl__zk_value_directory(it->session, it->deadline, &stat);
    it->now_us = stat.mtime * 1000;
    pawl__zk_call_free(call);
    free(directory);
    return rc == ZNODEEXISTS ? ZCONNECTIONLOSS : rc; /* just made by another: ask again */
}

static int take(struct reading *it, const struct zk_call *get) {
    struct zk_value found;
    struct pawl__stamp stamp;

    if (!pawl__zk_value_parse(get->data, get->length, &found))
        return pawl__fail(it->reterr, PAWL_EFORMAT,
                          "'%s': what is in %.190s was not written by a pawl: delete the node, or write the "
                          "value anew",
                          it->name, it->path);
    stamp = (struct pawl__stamp){.token = found.token, .version = (uint64_t)get->stat.mzxid, .written_us = get->stat.mtime * 1000};
    it->value = pawl__value_new(found.bytes, found.size, &stamp);
    return it->value ? 0 : pawl__fail(it->reterr, PAWL_ENOMEM, "out of memory");
}

/* PAWL_ECONNLOST: once more, if there is time. */
static int attempt(struct reading *it) {
    int clock = it->timed ? ask_clock(it) : ZOK;
    struct zk_call *barrier = it->latest ? pawl__zk_value_barrier(it->session, it->path) : NULL,
                   *get = pawl__zk_call(it->session, ZK_CALL_GET, it->path, NULL);
    int rc = pawl__zk_call_wait(it->session, get, it->deadline);

    if (clock != ZOK)
        rc = clock;
    else if (it->latest && !pawl__zk_caught_up(pawl__zk_call_wait(it->session, barrier, it->deadline)))
        rc = ZCONNECTIONLOSS;
    if (pawl__zk_reply_lost(rc))
        rc = pawl__zk_value_no_answer(it->session, it->name, it->reterr);
    else if (rc == ZOK)
        rc = take(it, get);
    else if (rc != ZNONODE || clock != ZOK)
        rc = pawl__zk_explain(it->name, rc, "read", it->path, it->reterr);
    else
        rc = 0;
    pawl__zk_call_free(barrier);
    pawl__zk_call_free(get);
    return rc;
}

static int read_value(struct reading *it) {
    int rc = PAWL_ECONNLOST;

    if (pawl__zk_call_connected(it->session, it->deadline))
        rc = attempt(it);
    while (rc == PAWL_ECONNLOST && pawl__zk_value_again(it->session, it->deadline))
        rc = attempt(it);
    return rc == PAWL_ECONNLOST ? pawl__zk_value_no_answer(it->session, it->name, it->reterr) : rc;
}

int pawl__zk_value_get(struct pawl__engine *engine, const char *name, enum pawl__part part, enum pawl__fresh fresh,
                       int64_t deadline, struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr) {
    struct zk_engine *zk = zk_of(engine);
    const char *base_path = zk->session.options.base_path;
    struct reading it = {.session = &zk->session,
                         .name = name,
                         .latest = fresh == FRESH_LATEST && !retnow,
                         .timed = retnow,
                         .deadline = deadline,
                         .reterr = reterr};
    int rc;
    char *home = pawl__zk_home(base_path, name, reterr, &rc); /* is it a name at all? */

    if (!home)
        return rc;
    free(home);
    if (!(it.path = pawl__zk_value_path(base_path, name, part == PART_NOTE)))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    pawl__zk_lock();
    rc = read_value(&it);
    pawl__zk_engine_unlock(zk);
    free(it.path);
    if (rc < 0)
        return rc;
    *ret = it.value;
    if (retnow)
        *retnow = it.now_us;
    return 0;
}
