/* SPDX-License-Identifier: Apache-2.0
 *
 * path.c - names of locks to paths: the URL's path, a slash, the name as it is. So a lock `nightly` at zk://h/team is the one that
 * Curator's users call `/team/nightly`.
 *
 * A name may have slashes: `team/nightly` at zk://h is that lock too. But then `team/nightly` is a child of `team`, which may be a lock
 * as well, and Curator counts every child. So each part after a slash must be one that no client takes for a contender: it begins with
 * a byte above the digits, so that it sorts behind all numbers; it does not end in ten digits; it is not a directory of a semaphore's
 * and has none of the markers in it.
 *
 * Values (value/) lie beside the locks, never in one's directory, in one of their own that no lock may be, at no depth: what is the name
 * `a/b` at zk://h is `b` at zk://h/a.
 */
#include "engine/zookeeper/lock/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/zookeeper/lock/order.h"
#include "engine/zookeeper/session/session.h"

const char pawl__zk_values_name[] = "pawl.values";

static bool is(const char *part, size_t length, const char *word) {
    return strlen(word) == length && memcmp(part, word, length) == 0;
}

static bool contains(const char *part, size_t length, const char *word) {
    return memmem(part, length, word, strlen(word)) != NULL;
}

/* Would the part be taken for a contender, or for the directory of contenders, of the lock above it? */
static bool in_the_way(const char *part, size_t length) {
    static const char *const markers[] = {"lock-", "lease-", "__READ__", "__WRIT__", "__lock__", "__rlock__"};
    char copy[256];
    int64_t number;

    snprintf(copy, sizeof copy, "%.*s", (int)length, part);
    if ((unsigned char)*part <= '9' || pawl__zk_number(copy, &number) || is(part, length, "locks") || is(part, length, "leases"))
        return true;
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++)
        if (contains(part, length, markers[i]))
            return true;
    return false;
}

static const char *wrong_with(const char *name, const char *part, size_t length) {
    if (length == 0)
        return "has an empty part: a path has no double slash, and none at its ends";
    if (is(part, length, ".") || is(part, length, ".."))
        return "has '.' or '..' as a part of its path";
    if (is(part, length, pawl__zk_values_name))
        return "is in the directory of values: give it a name without the part 'pawl.values'";
    if (part != name && in_the_way(part, length))
        return "would lie in the way of the lock above it: begin each part after a slash with a letter, and leave out the names of "
               "lock nodes";
    return NULL;
}

char *pawl__zk_home(const char *base_path, const char *name, struct pawl_error *reterr, int *rc) {
    const char *part = name, *wrong;
    char *home;

    *rc = PAWL_ENAME;
    for (;;) {
        size_t length = strcspn(part, "/");

        wrong = wrong_with(name, part, length);
        if (!wrong && !*base_path && part == name && is(part, length, "zookeeper"))
            wrong = "begins with ZooKeeper's own directory";
        if (wrong) {
            pawl__fail(reterr, PAWL_ENAME, "the name '%.100s' %s", name, wrong);
            return NULL;
        }
        if (!part[length])
            break;
        part += length + 1;
    }
    home = pawl__zk_text("%s/%s", base_path, name);
    if (!home)
        *rc = pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    return home;
}

/* A slash is written %2F, and % itself %25: all lie in one directory, and no name ends in what marks a note. */
char *pawl__zk_value_path(const char *base_path, const char *name, bool note) {
    char escaped[3 * 256], *at = escaped;

    for (; *name && at < escaped + sizeof escaped - 4; name++) {
        if (*name == '/' || *name == '%')
            at += snprintf(at, 4, "%%%02X", (unsigned char)*name);
        else
            *at++ = *name;
    }
    *at = '\0';
    return pawl__zk_text("%s/%s/%s%s", base_path, pawl__zk_values_name, escaped, note ? "%note" : "");
}
