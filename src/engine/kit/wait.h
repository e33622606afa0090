/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.h - who reads answers: one of the threads that wait for them, so that no wake-up lies between the server and its caller.
 *
 * A thread in park() reads, if no other does already, and works on all that comes, for others too. Those others follow: each sleeps on a
 * word of its claim's, until the claim is decided, until it is to read itself, or until unpark(). Who stops reading while others follow
 * makes the first of them the next reader, and `taken` stays true in between. Where nobody is left, the service thread reads.
 */
#ifndef PAWL_KIT_WAIT_H
#define PAWL_KIT_WAIT_H

#include "engine/kit/claim.h"

void pawl__kit_reader_init(struct kit_reader *reader);

/* park(), with the mutex held: wait until the claim is decided, or until the deadline or unpark(). */
int pawl__kit_park(struct kit *kit, struct kit_claim *claim, int64_t deadline, struct pawl_error *reterr);
void pawl__kit_unpark(struct kit *kit, struct kit_claim *claim);
/* A signal ended the sleep for the claim, which may be NULL: where the core is to hear of that its park() returns. */
void pawl__kit_interrupt(struct kit *kit, struct kit_claim *claim);
/* Its answers come in elsewhere from now on; its thread, if one waits, goes along. */
void pawl__kit_move(struct kit *kit, struct kit_claim *claim, struct kit_reader *reader);

/* Wait for something that is about no claim: read if nobody else does. False: another reads, or nothing can be read. */
bool pawl__kit_take_reading(struct kit *kit, struct kit_reader *reader);
/* Stop reading: one of the followers goes on, or the service thread. */
void pawl__kit_pass_reading(struct kit *kit, struct kit_reader *reader);

#endif
