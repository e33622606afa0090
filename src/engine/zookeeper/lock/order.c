/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - see order.h.
 */
#include "engine/zookeeper/lock/order.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char pawl__zk_lock_name[] = "lock-", pawl__zk_lease_name[] = "lease-", pawl__zk_read_name[] = "__READ__",
           pawl__zk_write_name[] = "__WRIT__", pawl__zk_kazoo_name[] = "__lock__";

int64_t pawl__zk_sequence_limit = 2147483647 - 1000000;

const char *pawl__zk_child(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *pawl__zk_short(const char *path) {
    const char *child = pawl__zk_child(path);

    if (strncmp(child, "_c_", 3) == 0 && strlen(child) > 3 + ZK_GUID_SIZE && child[3 + ZK_GUID_SIZE - 1] == '-')
        return child + 3 + ZK_GUID_SIZE;
    return child;
}

bool pawl__zk_number(const char *child, int64_t *ret) {
    size_t length = strlen(child);
    const char *digits;

    if (length < ZK_DIGITS)
        return false;
    digits = child + length - ZK_DIGITS;
    for (int i = 0; i < ZK_DIGITS; i++)
        if (!isdigit((unsigned char)digits[i]) && !(i == 0 && digits[i] == '-'))
            return false;
    *ret = strtoll(digits, NULL, 10);
    return true;
}

/* The text after the last `marker`; NULL: it is not there. */
static const char *after_last(const char *child, const char *marker) {
    const char *found = NULL, *next = child;

    while ((next = strstr(next, marker)))
        found = next += strlen(marker);
    return found;
}

/* What Curator sorts by. */
static const char *sort_key(enum zk_layout layout, const char *child) {
    const char *key;

    if (layout == ZK_MUTEX)
        return (key = after_last(child, pawl__zk_lock_name)) ? key : child;
    if (!(key = after_last(child, pawl__zk_read_name)))
        key = after_last(child, pawl__zk_write_name);
    return key ? key : child;
}

bool pawl__zk_reads(const char *child) {
    return strstr(child, pawl__zk_read_name) != NULL;
}

static bool is_write(const char *child) {
    return strstr(child, pawl__zk_write_name) != NULL;
}

/* Contenders for the other kind of lock in the same directory don't see us, nor would we see them. */
static bool other_kind(enum zk_layout layout, const char *child) {
    if (layout == ZK_MUTEX)
        return strstr(child, pawl__zk_read_name) || is_write(child);
    return strstr(child, pawl__zk_lock_name) || strstr(child, pawl__zk_kazoo_name);
}

bool pawl__zk_has_guid(const char *child, const char *guid) {
    return strncmp(child, "_c_", 3) == 0 && strncmp(child + 3, guid, ZK_GUID_SIZE - 1) == 0 && child[3 + ZK_GUID_SIZE - 1] == '-';
}

/* Of two that are ahead, is `child` the nearer? */
static bool nearer(enum zk_layout layout, const char *child, const char *than) {
    int64_t a = INT64_MIN, b = INT64_MIN;

    pawl__zk_number(child, &a);
    pawl__zk_number(than, &b);
    return a != b ? a > b : strcmp(sort_key(layout, child), sort_key(layout, than)) > 0;
}

enum zk_rank pawl__zk_rank(enum zk_layout layout, bool shared, const char *own, const char *guid, const char *const *children,
                           size_t count, size_t *ret, size_t *second, size_t *ahead) {
    const char *key = sort_key(layout, own);
    int64_t number = INT64_MAX, other;
    bool found = false;
    size_t nearest = count;

    pawl__zk_number(own, &number);
    *ahead = 0;
    *second = count;
    for (size_t i = 0; i < count; i++) {
        const char *child = children[i];
        bool numbered;

        if (pawl__zk_has_guid(child, guid)) {
            found |= strcmp(child, own) == 0;
            continue;
        }
        numbered = pawl__zk_number(child, &other);
        if (numbered && other_kind(layout, child)) {
            *ret = i;
            return ZK_RANK_FOREIGN;
        }
        if (!(numbered && other < number) && strcmp(sort_key(layout, child), key) >= 0)
            continue;
        if (!numbered) {
            *ret = i;
            return ZK_RANK_STRAY;
        }
        if (layout == ZK_RWLOCK && shared && !is_write(child))
            continue;
        ++*ahead;
        if (nearest == count || nearer(layout, child, children[nearest])) {
            *second = nearest;
            nearest = i;
        } else if (*second == count || nearer(layout, child, children[*second])) {
            *second = i;
        }
    }
    if (!found)
        return ZK_RANK_ABSENT;
    *ret = nearest;
    return nearest == count ? ZK_RANK_FIRST : ZK_RANK_BEHIND;
}

static bool may_be_kept(const char *child) {
    return pawl__zk_guid_limit(child) == ZK_KEEPS;
}

bool pawl__zk_is_wanted(enum zk_layout layout, bool shared, const char *own, const char *guid, const char *const *children,
                        size_t count) {
    int64_t number = INT64_MAX, other;

    pawl__zk_number(own, &number);
    for (size_t i = 0; i < count; i++) {
        const char *child = children[i];

        if (strcmp(child, "locks") == 0 || strcmp(child, "leases") == 0)
            return true;
        if (!pawl__zk_number(child, &other) || other < number || pawl__zk_has_guid(child, guid))
            continue;
        if (!shared || is_write(child) || other_kind(layout, child))
            return true;
    }
    return false;
}

bool pawl__zk_kept_ahead(enum zk_layout layout, bool shared, const char *own, const char *guid, const char *const *children,
                         size_t count) {
    int64_t number = INT64_MAX, other;
    size_t ahead = 0, writers = 0;

    pawl__zk_number(own, &number);
    for (size_t i = 0; i < count; i++) {
        const char *child = children[i];

        if (!pawl__zk_number(child, &other) || pawl__zk_has_guid(child, guid) || pawl__zk_is_twin(child))
            continue;
        if ((other >= number && strcmp(sort_key(layout, child), sort_key(layout, own)) >= 0) || (shared && !is_write(child)))
            continue;
        if (!may_be_kept(child))
            return false;
        ahead++;
        writers += layout == ZK_MUTEX || is_write(child);
    }
    return ahead == 1 || (ahead && !writers);
}

bool pawl__zk_others_kept(enum zk_layout layout, const char *const *children, size_t count) {
    int64_t number;

    for (size_t i = 0; i < count; i++)
        if (pawl__zk_number(children[i], &number) && other_kind(layout, children[i]) && !may_be_kept(children[i]))
            return false;
    return true;
}

/* A name that contenders for a mutex have. Anything else in the directory is not in the queue, even if it ends in digits. */
static bool is_contender(const char *child) {
    return strstr(child, pawl__zk_lock_name) || strstr(child, pawl__zk_kazoo_name);
}

size_t pawl__zk_first_of(const char *const *children, size_t count) {
    int64_t lowest = INT64_MAX, number;
    size_t first = count;

    for (size_t i = 0; i < count; i++) {
        if (!pawl__zk_number(children[i], &number) || pawl__zk_is_twin(children[i]) || (first < count && number >= lowest))
            continue;
        lowest = number;
        first = i;
    }
    return first;
}

size_t pawl__zk_last_behind(const char *own, const char *const *children, size_t count, size_t *behind) {
    int64_t number = INT64_MAX, other, highest = 0;
    size_t last = count;

    pawl__zk_number(own, &number);
    *behind = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_contender(children[i]) || !pawl__zk_number(children[i], &other) || other <= number)
            continue;
        ++*behind;
        if (last == count || other > highest) {
            last = i;
            highest = other;
        }
    }
    return last;
}

void pawl__zk_guid_format(uint32_t limit, const unsigned char random[16], char ret[ZK_GUID_SIZE]) {
    snprintf(ret, ZK_GUID_SIZE, "%02x%02x%02x%02x-%02x%02x-8%03x-8%02x%01x-%02x%02x%02x%02x%02x%02x", random[0], random[1],
             random[2], random[3], random[4], random[5], (limit >> 8) & 0xfff, limit & 0xff, random[6] & 0xf, random[7], random[8],
             random[9], random[10], random[11], random[12]);
}

bool pawl__zk_is_twin(const char *child) {
    return pawl__zk_guid_limit(child) && strstr(child, pawl__zk_kazoo_name);
}

uint32_t pawl__zk_guid_limit(const char *child) {
    const char *guid = child + 3;
    char digits[6];

    if (strncmp(child, "_c_", 3) != 0 || strlen(guid) < ZK_GUID_SIZE || guid[8] != '-' || guid[13] != '-' || guid[14] != '8' ||
        guid[18] != '-' || guid[19] != '8' || guid[23] != '-')
        return 0;
    snprintf(digits, sizeof digits, "%.3s%.2s", guid + 15, guid + 20);
    return (uint32_t)strtoul(digits, NULL, 16);
}
