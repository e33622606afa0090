/* SPDX-License-Identifier: Apache-2.0
 *
 * write.c - writing a value: one multi, which checks the claim's znode and sets the value's. The server carries out both or none.
 *
 *     blind: check, set            --set: no such znode--> check, create, set
 *        |                                                     | somebody else was first; the answer was lost
 *        +--the answer was lost--> look: is it this write? ----+--> compare: check, set at the version that was seen
 *
 * Rules
 *   - The check is of the version with which the claim's znode was made: a break changes its data. So who is deposed or broken writes
 *     nothing.
 *   - A lost answer is made good by looking: the line before the bytes says whose write it is, and which. What was sent before the look is
 *     decided by then: requests of one session are carried out in their order, those over an old connection before the first of the new
 *     one or never (SESSIONMOVED), and the look goes through the leader first (pawl__zk_catch_up says why).
 *   - The writes of a claim to one value take turns, in any order of their numbers. One that comes late, when a higher number was written,
 *     was overwritten before it was seen: it is not sent.
 *   - A write by token does not know what was written in the meantime. It always compares; so, sent again, it undoes nothing. It is sent
 *     again only where what is there tells that it was not carried out: nothing has changed since the look before, or once, by another.
 *     Else it may have been overwritten, or never have left.
 *   - "Not written" is said only if that is certain. Where a later holder has written since, or there is nothing, nobody can know.
 */
#include "engine/zookeeper/value/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/zookeeper/lock/path.h"

/* Versions of the value's znode beside those that a server tells. */
enum { ANY = -1, ABSENT = -2 };

/* What an attempt comes to, beside the codes of pawl's, which end it. */
enum { WRITTEN = 1, AT_ONCE, LATER, GONE };

/* What sign() copies. */
struct author {
    char guid[ZK_GUID_SIZE];
    char child[ZK_GUID_SIZE + 64]; /* the claim's znode; "": none */
    bool leased;                   /* below home/leases */
};
_Static_assert(sizeof(struct author) <= sizeof(struct pawl__author), "an author must fit");

struct writing {
    struct zk_engine *zk;
    const struct pawl__write *write;
    int64_t deadline;
    struct pawl_error *reterr;
    char *entry; /* the znode of the claim that writes */
    char *path;  /* the value's */
    struct zk_value value;
    char *data; /* what is written */
    int length;
    int version;  /* of the value's znode, as far as is known */
    int64_t born; /* ... and its czxid */
    bool unsure;  /* an answer was lost */
    bool unknown; /* what is there does not tell whether it was written before, or can't be read */
    struct pawl__stamp stamp;
};

/* ---- Who writes ------------------------------------------------------------------------------------------------------------ */

void pawl__zk_value_sign(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl__author *ret) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim = zk_claim_of(seam);
    struct author author = {.leased = zk_is_leased(claim)};
    const char *path;

    pawl__zk_lock();
    path = author.leased ? (claim->at.lease_count ? claim->at.leases[0] : NULL) : claim->at.own;
    snprintf(author.guid, sizeof author.guid, "%s", claim->at.guid);
    if (path)
        snprintf(author.child, sizeof author.child, "%s", pawl__zk_child(path));
    if (!claim->values.listed && claim->state != ZK_OVER) {
        TAILQ_INSERT_TAIL(&zk->authors, claim, values.link);
        claim->values.listed = true;
    }
    pawl__zk_engine_unlock(zk);
    memcpy(ret, &author, sizeof author);
}

static const struct author *author_of(const struct writing *it) {
    return (const struct author *)(const void *)it->write->author;
}

/* Its latest write to this value; NULL: the claim is over. */
static struct zk_written *latest(const struct writing *it) {
    struct zk_claim *claim;

    TAILQ_FOREACH(claim, &it->zk->authors, values.link) {
        if (strcmp(claim->at.guid, author_of(it)->guid) == 0)
            return &claim->values.latest[it->write->part];
    }
    return NULL;
}

static int fail_lost(const struct writing *it) {
    return pawl__fail(it->reterr, PAWL_ELOST, "the hold of '%s' was lost: its value was not written", it->write->name);
}

static int fail_unknown(const struct writing *it, bool gone) {
    return pawl__fail(it->reterr, PAWL_EUNKNOWN,
                      gone ? "the hold of '%s' was lost, and so was the answer: its value may have been written before"
                           : "no answer from ZooKeeper: the value of '%s' may be written or not",
                      it->write->name);
}

/* Wait until no other write of the same claim is under way. WRITTEN: a later one was. 0: it is this one's turn. */
static int take_turn(struct writing *it) {
    struct zk_session *session = &it->zk->session;
    struct zk_written *last;

    while ((last = latest(it)) && last->busy && pawl__boottime() < it->deadline) {
        pawl__zk_uncork(session);
        pawl__wait_until(&session->answered, &pawl__zk_mutex, it->deadline);
    }
    if (!last || !*author_of(it)->child)
        return fail_lost(it);
    if (last->busy)
        return pawl__zk_value_no_answer(session, it->write->name, it->reterr);
    if (last->number > it->write->number) {
        it->stamp = last->stamp;
        return last->unsure ? fail_unknown(it, false) : WRITTEN;
    }
    last->busy = true;
    return 0;
}

static void end_turn(const struct writing *it, int rc) {
    struct zk_written *last = latest(it);

    if (!last)
        return;
    last->busy = false;
    if (rc == 0 || rc == PAWL_EUNKNOWN) {
        last->number = it->write->number;
        last->unsure = rc != 0;
        last->stamp = it->stamp;
    }
    pthread_cond_broadcast(&it->zk->session.answered);
}

/* ---- One attempt ------------------------------------------------------------------------------------------------------------ */

static void take_stamp(struct writing *it, uint64_t token, const struct Stat *stat) {
    it->stamp = (struct pawl__stamp){.token = token, .version = (uint64_t)stat->mzxid, .written_us = stat->mtime * 1000};
}

/* The operations that write; returns how many. */
static int operations_of(const struct writing *it, zoo_op_t operations[3]) {
    int count = 0;

    zoo_check_op_init(&operations[count++], it->entry, 0);
    if (!it->write->bytes) {
        if (it->version != ABSENT)
            zoo_delete_op_init(&operations[count++], it->path, it->version);
        return count;
    }
    if (it->version == ABSENT) /* its Stat is told only by the one that follows */
        zoo_create_op_init(&operations[count++], it->path, "", 0, it->zk->session.options.acl, 0, NULL, 0);
    zoo_set_op_init(&operations[count++], it->path, it->data, it->length, it->version == ABSENT ? 0 : it->version, NULL);
    return count;
}

/* Nothing was written, since there is no znode: neither the value's, nor, if that was to be made, its directory. */
static int no_znode(struct writing *it) {
    struct Stat stat;
    int rc;

    if (it->version != ABSENT) {
        it->version = ABSENT;
        return it->write->bytes ? AT_ONCE : WRITTEN; /* the claim stood, and what was to be deleted is not there */
    }
    rc = pawl__zk_value_directory(&it->zk->session, it->deadline, &stat);
    if (rc == ZOK || rc == ZNODEEXISTS)
        return AT_ONCE;
    if (pawl__zk_reply_lost(rc))
        return LATER;
    return pawl__zk_explain(it->write->name, rc, "make the directory of", it->path, it->reterr);
}

static int judge(struct writing *it, const struct zk_call *call, int rc) {
    if (rc == ZOK) {
        take_stamp(it, it->value.token, &call->stat);
        return WRITTEN;
    }
    if (pawl__zk_reply_lost(rc)) {
        it->unsure |= !pawl__zk_is_busy(rc);
        return LATER;
    }
    if (call->failed == 0 && (rc == ZNONODE || rc == ZBADVERSION))
        return GONE;
    if (rc == ZNONODE)
        return no_znode(it);
    if (rc == ZBADVERSION || rc == ZNODEEXISTS) { /* somebody else's was first */
        it->version = ANY;
        return AT_ONCE;
    }
    return pawl__zk_explain(it->write->name, rc, it->write->bytes ? "write" : "delete", it->path, it->reterr);
}

static int put(struct writing *it) {
    struct zk_session *session = &it->zk->session;
    zoo_op_t operations[3];
    struct zk_call *call = pawl__zk_call_multi(session, operations, operations_of(it, operations));
    int rc = judge(it, call, pawl__zk_call_wait(session, call, it->deadline));

    pawl__zk_call_free(call);
    return rc;
}

/* ---- Looking ---------------------------------------------------------------------------------------------------------------- */

/* Is what is there this write, or a later one of the same claim? */
static bool is_mine(const struct writing *it, const struct zk_value *found) {
    return strcmp(found->by, it->value.by) == 0 && found->number >= it->value.number;
}

/* By token, after a lost answer: can this write have been overwritten, or deleted, since the look before? It is not what is there. So not
 * if the znode has seen one write since, or none; nor, of a deletion, if it is still the same. NULL: there is none; so a deletion may want
 * it. */
static bool may_be_under(const struct writing *it, const struct Stat *found) {
    if (it->write->author || !it->unsure || it->version == ANY)
        return false;
    if (!found)
        return it->write->bytes && it->version != ABSENT;
    return it->version == ABSENT || found->czxid != it->born || (it->write->bytes && found->version > it->version + 1);
}

/* It is not this write, of a claim of ours. Was that one there before, then? Nobody with a lower token could have followed it, nor an
 * earlier write of the same claim; but one by its token could. */
static bool may_have_been(const struct writing *it, const struct zk_value *found) {
    uint64_t theirs = found->token >> ZK_TOKEN_BITS, own = it->value.token >> ZK_TOKEN_BITS;

    return it->write->author && (theirs > own || (theirs == own && strcmp(found->by, it->value.by) != 0));
}

/* By token: has a later hold under the same claim written? */
static bool is_passed(const struct writing *it, const struct zk_value *found) {
    return !it->write->author && found->token > it->value.token &&
           found->token >> ZK_TOKEN_BITS == it->value.token >> ZK_TOKEN_BITS;
}

/* What is there, read after all that was sent before. */
static int take_look(struct writing *it, const struct zk_call *get, int rc) {
    struct zk_value found = {0};
    bool parsed = rc == ZOK && pawl__zk_value_parse(get->data, get->length, &found);

    if (parsed && is_mine(it, &found)) {
        take_stamp(it, found.token, &get->stat);
        return WRITTEN;
    }
    it->unknown = true;
    if (rc != ZOK && rc != ZNONODE)
        return pawl__zk_reply_lost(rc) ? LATER : pawl__zk_explain(it->write->name, rc, "read", it->path, it->reterr);
    if (may_be_under(it, rc == ZOK ? &get->stat : NULL))
        return fail_unknown(it, false);
    it->unknown = !parsed || may_have_been(it, &found);
    if (parsed && is_passed(it, &found))
        return GONE;
    it->version = rc == ZOK ? get->stat.version : ABSENT;
    it->born = get->stat.czxid;
    return 0;
}

/* 0: it is not written yet, as far as can be seen, and it->version is what to compare with. */
static int look(struct writing *it) {
    struct zk_session *session = &it->zk->session;
    struct zk_call *barrier = pawl__zk_value_barrier(session, it->path), *get = pawl__zk_call(session, ZK_CALL_GET, it->path, NULL);
    int caught_up = pawl__zk_call_wait(session, barrier, it->deadline), rc = pawl__zk_call_wait(session, get, it->deadline);

    rc = pawl__zk_caught_up(caught_up) ? take_look(it, get, rc) : LATER;
    pawl__zk_call_free(barrier);
    pawl__zk_call_free(get);
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------------------------------------- */

static int attempt(struct writing *it) {
    bool blind = it->write->author && !it->unsure;
    int rc = blind ? 0 : look(it);

    return rc == 0 ? put(it) : rc;
}

/* Until the deadline. */
static int write_value(struct writing *it) {
    struct zk_session *session = &it->zk->session;
    int rc = LATER;

    it->version = ANY;
    if (pawl__zk_call_connected(session, it->deadline))
        rc = attempt(it);
    while ((rc == AT_ONCE && pawl__boottime() < it->deadline) || (rc == LATER && pawl__zk_value_again(session, it->deadline)))
        rc = attempt(it);
    if (rc == AT_ONCE || rc == LATER)
        return it->unsure ? fail_unknown(it, false) : pawl__zk_value_no_answer(session, it->write->name, it->reterr);
    if ((rc == GONE || rc < 0) && it->unsure && it->unknown)
        return fail_unknown(it, rc == GONE);
    if (rc == GONE && !it->write->author)
        return pawl__fail(it->reterr, PAWL_ETOKEN, "the hold of '%s' that has the token %llu has ended, or was broken",
                          it->write->name, (unsigned long long)it->write->token);
    return rc == GONE ? fail_lost(it) : rc == WRITTEN ? 0 : rc;
}

static int write_as_author(struct writing *it) {
    int rc = take_turn(it);

    if (rc != 0)
        return rc == WRITTEN ? 0 : rc;
    rc = write_value(it);
    end_turn(it, rc);
    return rc;
}

static int write_by_token(struct writing *it) {
    int rc;

    it->entry = pawl__zk_holder(&it->zk->session, it->write->name, it->write->token, it->deadline, &rc, it->reterr);
    return it->entry ? write_value(it) : rc;
}

/* Paths and data. By token it has a GUID of its own, under which its write is known again. */
static int prepare(struct writing *it) {
    const struct pawl__write *write = it->write;
    const struct author *author = author_of(it);
    unsigned char random[16];
    int rc;
    char *home = pawl__zk_home(it->zk->session.options.base_path, write->name, it->reterr, &rc);

    if (!home)
        return rc;
    it->value = (struct zk_value){.token = write->token, .number = write->number, .bytes = write->bytes, .size = write->size};
    if (author)
        snprintf(it->value.by, sizeof it->value.by, "%s", author->guid);
    else if (pawl__random(random, sizeof random))
        pawl__zk_guid_format(0, random, it->value.by);
    if (author)
        it->entry = pawl__zk_text("%s%s/%s", home, author->leased ? "/leases" : "", author->child);
    it->path = pawl__zk_value_path(it->zk->session.options.base_path, write->name, write->part == PART_NOTE);
    it->data = pawl__zk_value_format(&it->value, &it->length);
    free(home);
    if ((author && !it->entry) || !it->path || !it->data || !*it->value.by)
        return pawl__fail(it->reterr, PAWL_ENOMEM, "out of memory");
    return 0;
}

int pawl__zk_value_set(struct pawl__engine *engine, const struct pawl__write *write, int64_t deadline, struct pawl__stamp *ret,
                       struct pawl_error *reterr) {
    struct writing it = {.zk = zk_of(engine), .write = write, .deadline = deadline, .reterr = reterr};
    int rc = prepare(&it);

    if (rc == 0) {
        pawl__zk_lock();
        rc = write->author ? write_as_author(&it) : write_by_token(&it);
        pawl__zk_engine_unlock(it.zk);
    }
    if (rc == 0)
        *ret = it.stamp;
    free(it.entry);
    free(it.path);
    free(it.data);
    return rc;
}
