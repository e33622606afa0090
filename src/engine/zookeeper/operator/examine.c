/* SPDX-License-Identifier: Apache-2.0
 *
 * examine.c - for `pawl doctor`: what about the ensemble matters to locks, asked for anew, and what to change.
 *
 * Three sources: the session that we have (what was granted, how far the leader is, who is in the ensemble); four-letter words to every
 * host of the URL (who is up, in which role, with which times); and the locks' directories (how much of their sequences is used up).
 * Nothing is changed anywhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/examine.h"
#include "engine/zookeeper/lock/order.h"
#include "engine/zookeeper/lock/path.h"
#include "engine/zookeeper/operator/operator.h"

#define PATIENCE_NS (10 * ZK_S)
#define WORD_NS (2 * ZK_S)

enum { DEPTH = 8, DIRECTORIES_MAX = 2000, ANSWER_SIZE = 8192, HOSTS_MAX = 32 };

struct examination {
    struct pawl__exam exam;
    struct zk_session *session;
    int64_t deadline;
    int64_t asked, granted;     /* session time, ms */
    int64_t tick;               /* as the servers say, ms; 0: none does */
    int directories;            /* how many more are looked at */
    int64_t used;               /* of the longest sequence, and ... */
    char where[200];            /* ... where that is */
    char mixed[200], below[64]; /* the first lock that has others below it, and one of those; "": none */
};

/* ---- The hosts ------------------------------------------------------------------------------------------------------------ */

static void take_times(struct examination *it, const struct zk_host *host) {
    char answer[ANSWER_SIZE];
    int64_t tick, size;

    if (pawl__zk_word(host, "conf", pawl__boottime() + WORD_NS, answer, sizeof answer) != ZK_WORD_ANSWER ||
        !pawl__zk_word_number(answer, "tickTime=", &tick))
        return;
    if (it->tick && it->tick != tick)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "give all servers the same tickTime", "%s has tickTime=%lld, another has %lld",
                    host->where, (long long)tick, (long long)it->tick);
    if (tick > it->tick)
        it->tick = tick;
    if (pawl__zk_word_number(answer, "dataLogSize=", &size) && size >> 30 >= 10)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "set autopurge.purgeInterval=24 and autopurge.snapRetainCount=3",
                    "the logs of %s take %lld GB: are old ones removed? A full disk stops it", host->where,
                    (long long)(size >> 30));
}

/* How often heartbeats leave, in ms; a hold is suspect after two of that. */
static int64_t beat_ms(const struct examination *it) {
    return pawl__zk_assured(it->granted, it->session->options.tick_ns / ZK_MS) / 3;
}

/* A server that once took long to answer, since it began to count, may do so again. */
static void judge_latency(struct examination *it, const struct zk_host *host, const char *answer) {
    const char *line = pawl__zk_word_line(answer, "Latency min/avg/max: ");
    int64_t limit = beat_ms(it);
    long long longest = 0;

    if (!line || sscanf(line, "%*[0-9.]/%*[0-9.]/%lld", &longest) != 1 || longest <= limit)
        return;
    pawl__found(&it->exam, PAWL_FINDING_WARNING,
                "give its log a disk of its own (dataLogDir) and its JVM enough memory; or ask for a longer session (?session=)",
                "%s once took %lld ms to answer: holds are in doubt after %lld ms", host->where, longest, (long long)limit * 2);
}

static void judge_server(struct examination *it, const struct zk_host *host, const char *answer) {
    const char *version = pawl__zk_word_line(answer, "Zookeeper version: "), *mode = pawl__zk_word_line(answer, "Mode: ");
    int length = version ? (int)strcspn(version, "-,\n") : 0, mode_length = mode ? (int)strcspn(mode, "\n") : 0;
    int major = 0, minor = 0;

    if (!version || !mode) {
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "look at its log, and whether it reaches the others of its ensemble",
                    "%s is up, but serves nobody: %.60s", host->where, answer);
        return;
    }
    if (strncmp(mode, "read-only", 9) == 0) {
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "look at its log, and whether it reaches the others of its ensemble",
                    "%s is cut off from its ensemble, and only read from: no locks there", host->where);
        return;
    }
    if (sscanf(version, "%d.%d", &major, &minor) == 2 && (major < 3 || (major == 3 && minor < 5)))
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "upgrade it to 3.5 or later",
                    "%s is ZooKeeper %.*s, which has no container nodes: acquires fail", host->where, length, version);
    else
        pawl__found(&it->exam, PAWL_FINDING_GOOD, "", "%s is ZooKeeper %.*s, %.*s", host->where, length, version, mode_length,
                    mode);
    judge_latency(it, host, answer);
}

static void examine_host(struct examination *it, const struct zk_host *host) {
    char answer[ANSWER_SIZE];

    take_times(it, host);
    switch (pawl__zk_word(host, "srvr", pawl__boottime() + WORD_NS, answer, sizeof answer)) {
    case ZK_WORD_NOBODY:
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "start it, or take it out of the URL", "nobody answers at %s", host->where);
        break;
    case ZK_WORD_SILENCE:
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "look at its log; if it is stopped or hangs, restart it",
                    "%s takes connections, but says nothing", host->where);
        break;
    case ZK_WORD_REFUSED:
        pawl__found(&it->exam, PAWL_FINDING_UNKNOWN, "set 4lw.commands.whitelist=srvr,conf on the server, or look at it yourself",
                    "version and role of %s could not be read", host->where);
        break;
    case ZK_WORD_ANSWER:
        judge_server(it, host, answer);
        break;
    }
}

static void examine_hosts(struct examination *it) {
    for (size_t i = 0; i < it->session->options.host_count && i < HOSTS_MAX && it->exam.rc == 0; i++)
        examine_host(it, &it->session->options.hosts[i]);
}

/* ---- The session ---------------------------------------------------------------------------------------------------------- */

static void examine_session(struct examination *it) {
    long long tick = it->tick, named = it->session->options.tick_ns / ZK_MS, granted = it->granted;

    if (it->granted == it->asked)
        pawl__found(&it->exam, PAWL_FINDING_GOOD, "", "a session of %lld ms is granted as it was asked for", granted);
    else
        pawl__found(&it->exam, PAWL_FINDING_WARNING,
                    it->granted < it->asked ? "raise the servers' maxSessionTimeout, or ask for less (?session=)"
                                            : "lower the servers' minSessionTimeout, or ask for more (?session=)",
                    "a session of %lld ms was asked for, and %lld ms granted", (long long)it->asked, granted);
    if (!tick) {
        pawl__found(&it->exam, PAWL_FINDING_UNKNOWN, "set 4lw.commands.whitelist=srvr,conf on the servers, or look at it yourself",
                    "tickTime could not be read");
        return;
    }
    if (named && named < tick)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "say the truth in the URL: a hold is taken for assured that is not",
                    "the URL says ?tick=%lld, and the servers have tickTime=%lld", named, tick);
    else if (!named && granted < 2 * tick)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "add the servers' tickTime to the URL (?tick=), or ask for a longer session",
                    "the session, %lld ms, is shorter than two ticks of %lld ms: a hold is taken for assured that is not", granted,
                    tick);
    else
        pawl__found(&it->exam, PAWL_FINDING_GOOD, "", "tickTime is %lld ms: a hold is assured for %lld ms after a heartbeat%s",
                    tick, (long long)(pawl__zk_assured(granted * ZK_MS, named * ZK_MS) / ZK_MS),
                    named ? "" : ", and for longer with ?tick= in the URL");
}

/* One request. Its answer is to be freed; NULL: there is none. */
static struct zk_call *ask(struct examination *it, enum zk_call_what what, const char *path) {
    struct zk_call *call;

    pawl__zk_lock();
    call = pawl__zk_call(it->session, what, path, NULL);
    pawl__zk_call_wait(it->session, call, it->deadline);
    if (call && !call->done) {
        pawl__zk_call_free(call);
        call = NULL;
    }
    pawl__zk_unlock(it->session);
    return call;
}

/* How far is the leader? Heartbeats go there and back. */
static void examine_leader(struct examination *it) {
    int64_t start = pawl__boottime(), took;
    struct zk_call *call = ask(it, ZK_CALL_SYNC, "/");
    int rc = call ? call->rc : ZOPERATIONTIMEOUT;

    pawl__zk_call_free(call);
    took = (pawl__boottime() - start) / ZK_MS;
    if (rc != ZOK)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "look at the servers' logs: is there a leader?",
                    "the leader did not answer within %lld ms", (long long)took);
    else if (took > beat_ms(it))
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "look at the servers' disks and load, or ask for a longer session (?session=)",
                    "the leader took %lld ms to answer: heartbeats leave every %lld ms", (long long)took, (long long)beat_ms(it));
    else
        pawl__found(&it->exam, PAWL_FINDING_GOOD, "", "the leader answered within %lld ms", (long long)took + 1);
}

/* ---- The ensemble --------------------------------------------------------------------------------------------------------- */

/* Members with a vote, from the node where every server writes its configuration; -1: it could not be read. */
static int members(struct examination *it) {
    struct zk_call *call = ask(it, ZK_CALL_GET, "/zookeeper/config");
    int count = -1;

    if (call && call->rc == ZOK) {
        count = 0;
        for (const char *line = call->data; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL)
            count += strncmp(line, "server.", 7) == 0 && memmem(line, strcspn(line, "\n"), ":observer", 9) == NULL;
    }
    pawl__zk_call_free(call);
    return count;
}

static void examine_ensemble(struct examination *it) {
    int count = members(it);

    if (count < 0)
        pawl__found(&it->exam, PAWL_FINDING_UNKNOWN, "let the user read /zookeeper/config",
                    "the ensemble's size could not be read");
    else if (count <= 1)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "run three servers, or five",
                    "there is one server: while it is down nothing can be locked, and what is held runs out");
    else if (count % 2 == 0)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "run an odd number of servers",
                    "the ensemble has %d servers: it bears the loss of %d, as %d would", count, (count - 1) / 2, count - 1);
    else
        pawl__found(&it->exam, PAWL_FINDING_GOOD, "", "the ensemble has %d servers, and bears the loss of %d", count,
                    (count - 1) / 2);
    if (count > 1 && it->session->options.host_count == 1)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "name all servers in the URL: zk://h1,h2,h3/...",
                    "the URL names one of %d servers: when it is down, the others are not asked", count);
}

/* ---- Access --------------------------------------------------------------------------------------------------------------- */

static void examine_access(struct examination *it) {
    const char *base = *it->session->options.base_path ? it->session->options.base_path : "/";
    struct zk_call *call = ask(it, ZK_CALL_ACL, base);
    int world = call && call->rc == ZOK ? call->world : 0;

    pawl__zk_call_free(call);
    if (it->session->options.acl != &ZOO_CREATOR_ALL_ACL)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "give the URL a user (zk://user:secret@...), so that nodes are its own",
                    "anybody who reaches the servers may delete the nodes that hold locks here (acl=world)");
    else if (world & ZOO_PERM_DELETE)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "set an ACL on it, by zkCli.sh's setAcl",
                    "nodes of locks are the URL's user's own, but everybody may remove what is in %s", base);
    else
        pawl__found(&it->exam, PAWL_FINDING_GOOD, "", "nodes of locks are the URL's user's own (acl=creator)");
}

/* ---- Directories ---------------------------------------------------------------------------------------------------------- */

/* How many children a directory ever had, which is the next one's number: the version that clients see counts each of them twice, but for
 * those that are still there. */
static int64_t numbers_used(const struct Stat *stat) {
    return ((uint32_t)stat->cversion + (uint32_t)stat->numChildren) / 2;
}

static bool is_contender(const char *child) {
    int64_t number;

    return pawl__zk_number(child, &number) && (strstr(child, pawl__zk_lock_name) || strstr(child, pawl__zk_kazoo_name));
}

/* Does it lie below a directory by its name? `locks` and `leases` are those of a semaphore. */
static bool is_named(const char *child) {
    int64_t number;

    return !pawl__zk_number(child, &number) && strcmp(child, "locks") != 0 && strcmp(child, "leases") != 0;
}

/* Is it a mutex, and a directory of others as well? */
static void look_at_children(struct examination *it, const char *path, const struct zk_call *list) {
    const char *named = NULL;
    bool contended = false;

    for (int i = 0; i < list->count; i++) {
        contended |= is_contender(list->children[i]);
        named = is_named(list->children[i]) ? list->children[i] : named;
    }
    if (!contended || !named || *it->mixed)
        return;
    snprintf(it->mixed, sizeof it->mixed, "%s", *path ? path : "/");
    snprintf(it->below, sizeof it->below, "%s", named);
}

static bool is_walked(const char *path, const char *child) {
    int64_t number;

    return !pawl__zk_number(child, &number) && strcmp(child, pawl__zk_values_name) != 0 &&
           (*path || strcmp(child, "zookeeper") != 0);
}

/* Look at a directory and at those below it. The mutex is held. */
static void look_below(struct examination *it, const char *path, int deep) {
    struct zk_call *get = pawl__zk_call(it->session, ZK_CALL_GET, *path ? path : "/", NULL),
                   *list = pawl__zk_call(it->session, ZK_CALL_LIST, *path ? path : "/", NULL);

    it->directories--;
    if (pawl__zk_call_wait(it->session, get, it->deadline) == ZOK && numbers_used(&get->stat) > it->used) {
        it->used = numbers_used(&get->stat);
        snprintf(it->where, sizeof it->where, "%s", *path ? path : "/");
    }
    if (pawl__zk_call_wait(it->session, list, it->deadline) == ZOK) {
        look_at_children(it, path, list);
        for (int i = 0; deep > 0 && i < list->count && it->directories > 0; i++) {
            char *below = is_walked(path, list->children[i]) ? pawl__zk_text("%s/%s", path, list->children[i]) : NULL;

            if (below)
                look_below(it, below, deep - 1);
            free(below);
        }
    }
    pawl__zk_call_free(get);
    pawl__zk_call_free(list);
}

static void examine_directories(struct examination *it) {
    pawl__zk_lock();
    look_below(it, it->session->options.base_path, DEPTH);
    pawl__zk_unlock(it->session);
    if (it->used >= pawl__zk_sequence_limit / 4 * 3)
        pawl__found(&it->exam, PAWL_FINDING_WARNING, "let all its holders and waiters leave once: an empty directory begins anew",
                    "the sequence of %s is at %lld, and ends at %lld", it->where, (long long)it->used,
                    (long long)pawl__zk_sequence_limit);
    else
        pawl__found(&it->exam, PAWL_FINDING_GOOD, "", "no sequence is near its end%s",
                    it->directories > 0 ? "" : ", of those looked at");
    if (*it->mixed)
        pawl__found(&it->exam, PAWL_FINDING_WARNING,
                    "if programs in Go use that lock, give it a name that no other begins with and a slash",
                    "%s is a lock, and has others below it, as %s: go-zookeeper's Lock fails there, and stops all others",
                    it->mixed, it->below);
}

int pawl__zk_examine(struct zk_session *session, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    struct examination it = {.exam = {.visit = visit, .data = data},
                             .session = session,
                             .deadline = pawl__boottime() + PATIENCE_NS,
                             .asked = session->options.asked_ms,
                             .directories = DIRECTORIES_MAX};
    bool connected;

    pawl__zk_lock();
    connected = zk_is_connected(session);
    it.granted = session->timeout_ns / ZK_MS;
    pawl__zk_unlock(session);
    if (!connected)
        return pawl__fail(reterr, PAWL_ECONNLOST, "no connection to %s: look whether the servers run", session->options.url);
    examine_hosts(&it);
    examine_ensemble(&it);
    examine_leader(&it);
    examine_session(&it);
    examine_access(&it);
    examine_directories(&it);
    return it.exam.rc;
}
