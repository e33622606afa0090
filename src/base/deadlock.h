/* SPDX-License-Identifier: Apache-2.0
 *
 * deadlock.h - who waits for ever? Pure: over what is held and waited for at one moment.
 *
 * A stake is what one owner holds of one lock, or what it waits for. An owner goes on when all that it waits for can be granted; then it
 * hands back what it has. An exclusive wait needs that nobody holds the lock, a shared one that nobody holds it exclusively, permits that
 * there are enough; and nobody who is ahead in the same line and conflicts may be left. So the question is answered by letting everybody
 * who can go on finish, again and again, until nobody can: those who are left wait for ever. It is right for permits, too, where a circle
 * is not always a deadlock.
 *
 * What is not known does not count: a hold of another process is no stake, and who waits only for it goes on. So fewer stakes than there
 * are never make a deadlock, and what is found in some of them is there in all.
 *
 * Of those who are left, some only wait behind others. A deadlock is a smallest set of owners each of whom waits, directly or through
 * others, for every other of the set, and for nobody else who is left. To end the wait of one of them opens it; to end the wait of one
 * behind it would not.
 */
#ifndef PAWL_DEADLOCK_H
#define PAWL_DEADLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pawl.h"

struct pawl__stake {
    uint64_t lock; /* the number of the lock */
    uint64_t line; /* waits: the number of a queue for it whose order is known */
    /* Waits: where in the line. Those with the same do not wait for each other; 0: nobody is known to be ahead or behind. */
    uint32_t place;
    bool waits;
    bool may_end; /* waits: it may be ended for the others' sake */
    enum pawl_mode mode;
    uint32_t permits, limit; /* PAWL_PERMITS: how many of how many */
    uint64_t owner;          /* who waits; or holds, and is not to let go while it waits */
    uint64_t id[3];          /* no other stake ever has it, but for the holds of several owners */
    int64_t since;           /* waits: when it began */
    int64_t until;           /* when it ends by itself; PAWL__NEVER: it does not */
    size_t tag;              /* the caller's own */
};

struct pawl__fate {
    unsigned deadlock; /* 0: none, or the number of the one that it is in; of a hold always 0 */
    bool is_victim;    /* the youngest that may be ended, where the deadlock does not end by itself */
    size_t by;         /* the stake of another in the same deadlock that keeps it waiting */
    int64_t until;     /* when the deadlock has ended by itself, at the latest; PAWL__NEVER: it does not */
};

/* Find all deadlocks. `ret` has one for each stake. Returns how many; -1: out of memory. */
int pawl__deadlock_find(const struct pawl__stake *stakes, size_t count, struct pawl__fate *ret);

/* Of the stakes that were seen second, those that were seen first, too; both are put in another order. Each of them was there all the time
 * between the two looks, so at one moment all were. Returns how many, at the beginning of `second`. */
size_t pawl__deadlock_confirm(struct pawl__stake *first, size_t first_count, struct pawl__stake *second, size_t second_count);

#endif
