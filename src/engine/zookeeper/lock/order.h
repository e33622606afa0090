/* SPDX-License-Identifier: Apache-2.0
 *
 * order.h - names of nodes, and who stands ahead of whom in one directory. Pure: no I/O, no state.
 *
 * A contender's node is `_c_<guid>-<marker><ten digits>`, as Curator makes it; the digits are the server's. Curator sorts by the text
 * after the last marker, or by the whole name where there is none, and lets every child count; go-zookeeper and Kazoo sort by the
 * number. Both orders are honoured: ahead of us is a node that is ahead by either. They agree on all nodes with a number; a child without
 * one that Curator sorts first blocks Curator for ever, and us.
 */
#ifndef PAWL_ZK_ORDER_H
#define PAWL_ZK_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZK_GUID_SIZE = 37,
    ZK_TOKEN_BITS = 7,   /* tokens per znode: 128 */
    ZK_CHILD_MAX = 4096, /* a node's path, with its NUL */
    ZK_DIGITS = 10,
    ZK_KEEPS = 0xfffff, /* in a GUID instead of a limit, which no semaphore has: the claim may be kept */
};

enum zk_layout { ZK_MUTEX, ZK_RWLOCK };

extern const char pawl__zk_lock_name[], pawl__zk_lease_name[], pawl__zk_read_name[], pawl__zk_write_name[], pawl__zk_kazoo_name[];

/* Beyond this a directory's sequence is too near to its end, where all later nodes would get the same number. A variable for tests. */
extern int64_t pawl__zk_sequence_limit;

const char *pawl__zk_child(const char *path); /* its last component */
const char *pawl__zk_short(const char *path); /* likewise, without what every reader knows: "lock-0000000003" */

/* The number at the end; false: there is none. */
bool pawl__zk_number(const char *child, int64_t *ret);

enum zk_rank {
    ZK_RANK_FIRST,   /* nobody is ahead that matters */
    ZK_RANK_BEHIND,  /* wait for *ret */
    ZK_RANK_ABSENT,  /* our own node is not in the list */
    ZK_RANK_STRAY,   /* *ret is no contender and stands in the way */
    ZK_RANK_FOREIGN, /* *ret belongs to another kind of lock */
};

/* Where does `own`, a child of the directory, stand? `guid` marks its twin as ours too. With ZK_RWLOCK `shared` waits for writers
 * only. *ret is an index, *second that of the next one ahead of it (`count`: there is none), and *ahead how many count. */
enum zk_rank pawl__zk_rank(enum zk_layout layout, bool shared, const char *own, const char *guid, const char *const *children,
                           size_t count, size_t *ret, size_t *second, size_t *ahead);

/* The index of the last one behind `own`, a child or its path, and how many there are; `count`: none. */
size_t pawl__zk_last_behind(const char *own, const char *const *children, size_t count, size_t *behind);

/* The index of the contender with the lowest number, who holds a mutex, or a read-write lock with others of its mode; `count`: none. */
size_t pawl__zk_first_of(const char *const *children, size_t count);
bool pawl__zk_reads(const char *child); /* is it a reader's? */

/* Does anybody behind `own` want what it has, or is about to have? `shared`: writers and other kinds do, readers don't. A semaphore of
 * the same name does as soon as it has its directories: who comes to them is not seen here. */
bool pawl__zk_is_wanted(enum zk_layout layout, bool shared, const char *own, const char *guid, const char *const *children,
                        size_t count);
/* Is every contender ahead of `own` that matters one that may be kept, and a holder? */
bool pawl__zk_kept_ahead(enum zk_layout layout, bool shared, const char *own, const char *guid, const char *const *children,
                         size_t count);
/* Is every contender of the other layout one that may be kept? */
bool pawl__zk_others_kept(enum zk_layout layout, const char *const *children, size_t count);

/* Does the child belong to the GUID? */
bool pawl__zk_has_guid(const char *child, const char *guid);

/* GUIDs: random, marked as pawl's, and telling the limit of the semaphore, so that a different one is seen without a further
 * request. They are UUIDs of version 8, the one for everybody's own use: xxxxxxxx-xxxx-8LLL-8LLx-xxxxxxxxxxxx, L the limit, or ZK_KEEPS. */
void pawl__zk_guid_format(uint32_t limit, const unsigned char random[16], char ret[ZK_GUID_SIZE]);
/* The limit that a pawl's child tells, or ZK_KEEPS; 0: not a pawl's. */
uint32_t pawl__zk_guid_limit(const char *child);
bool pawl__zk_is_twin(const char *child); /* the second znode of a pawl's claim, for Kazoo */

#endif
