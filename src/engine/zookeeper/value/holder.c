/* SPDX-License-Identifier: Apache-2.0
 *
 * holder.c - who has a token? For a write in the name of a hold that another process has (pawl_value_set_as).
 *
 * A token is the czxid of the holder's znode, times 128. Only the first contender of a directory can hold exclusively; so its znode alone
 * is looked at, of any client's making, however many wait. In a semaphore's layout it is a lease, whose data says what it is of.
 *
 * Nothing is decided here: the write checks the znode that is found.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/zookeeper/lock/path.h"
#include "engine/zookeeper/value/value.h"

struct search {
    struct zk_session *session;
    const char *name;
    uint64_t token;
    int64_t deadline;
    struct pawl_error *reterr;
};

static int refuse_token(const struct search *it) {
    return pawl__fail(it->reterr, PAWL_ETOKEN, "no hold of '%s' has the token %llu: it has ended, or was broken", it->name,
                      (unsigned long long)it->token);
}

/* What the answer comes to: 0 where there is one, or no such znode. */
static int judge(const struct search *it, int rc, const char *path) {
    if (rc == ZOK || rc == ZNONODE)
        return 0;
    if (pawl__zk_reply_lost(rc))
        return pawl__zk_value_no_answer(it->session, it->name, it->reterr);
    return pawl__zk_explain(it->name, rc, "read", path, it->reterr);
}

/* List as it is now. *ret is to be freed; it has no children where there is no such directory. */
static int list(const struct search *it, const char *path, struct zk_call **ret) {
    struct zk_call *sync = pawl__zk_call(it->session, ZK_CALL_SYNC, path, NULL);
    int rc;

    *ret = pawl__zk_call(it->session, ZK_CALL_LIST, path, NULL);
    rc = judge(it, pawl__zk_call_wait(it->session, *ret, it->deadline), path);
    pawl__zk_call_free(sync);
    return rc;
}

/* A lease's token is that of its claim, which stood in `locks` before; foreign ones do not tell. */
static uint64_t token_of(const struct zk_call *get, bool leased) {
    const char *word = leased && get->data ? strstr(get->data, " token=") : NULL;

    return word ? strtoull(word + strlen(" token="), NULL, 10) : (uint64_t)get->stat.czxid << ZK_TOKEN_BITS;
}

/* Is it the one? 1; 0: no. Negative: why that can't be said, or it is a semaphore's. */
static int is_it(const struct search *it, const char *path, bool leased) {
    struct zk_call *get = pawl__zk_call(it->session, ZK_CALL_GET, path, NULL);
    int answer = pawl__zk_call_wait(it->session, get, it->deadline), rc = judge(it, answer, path);

    if (rc == 0 && answer == ZOK && get->stat.version == 0 && token_of(get, leased) >> ZK_TOKEN_BITS == it->token >> ZK_TOKEN_BITS)
        rc = 1;
    if (rc == 1 && leased && (!get->data || !strstr(get->data, " kind=mutex")))
        rc = pawl__fail(it->reterr, PAWL_EKIND, "'%s' is a semaphore: it has no value", it->name);
    pawl__zk_call_free(get);
    return rc;
}

/* As is_it(); 1: *ret is the path. */
static int try_child(const struct search *it, const char *dir, const char *child, bool leased, char **ret) {
    char *path = pawl__zk_text("%s/%s", dir, child);
    int rc = path ? is_it(it, path, leased) : pawl__fail(it->reterr, PAWL_ENOMEM, "out of memory");

    if (rc == 1)
        *ret = path;
    else
        free(path);
    return rc;
}

static int try_leases(const struct search *it, const char *home, char **ret) {
    char *dir = pawl__zk_text("%s/leases", home);
    struct zk_call *listing = NULL;
    int rc = dir ? list(it, dir, &listing) : pawl__fail(it->reterr, PAWL_ENOMEM, "out of memory");

    for (int i = 0; rc == 0 && i < listing->count; i++)
        rc = try_child(it, dir, listing->children[i], true, ret);
    pawl__zk_call_free(listing);
    free(dir);
    return rc;
}

static int try_home(const struct search *it, const char *home, char **ret) {
    struct zk_call *listing;
    int rc = list(it, home, &listing);
    size_t count = rc == 0 ? (size_t)listing->count : 0, first;

    first = pawl__zk_first_of((const char *const *)(count ? listing->children : NULL), count);
    if (rc == 0 && first < count)
        rc = pawl__zk_reads(listing->children[first]) ? 0 : try_child(it, home, listing->children[first], false, ret);
    else if (rc == 0)
        rc = try_leases(it, home, ret);
    pawl__zk_call_free(listing);
    return rc;
}

char *pawl__zk_holder(struct zk_session *session, const char *name, uint64_t token, int64_t deadline, int *ret,
                      struct pawl_error *reterr) {
    const struct search it = {.session = session, .name = name, .token = token, .deadline = deadline, .reterr = reterr};
    char *home = pawl__zk_home(session->options.base_path, name, reterr, ret), *found = NULL;
    int rc;

    if (!home)
        return NULL;
    rc = pawl__zk_call_connected(session, deadline) ? try_home(&it, home, &found) : pawl__zk_value_no_answer(session, name, reterr);
    while (rc == PAWL_ECONNLOST && pawl__zk_value_again(session, deadline))
        rc = try_home(&it, home, &found);
    *ret = rc == 0 ? refuse_token(&it) : rc;
    free(home);
    return found;
}
