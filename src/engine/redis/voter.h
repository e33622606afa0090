/* SPDX-License-Identifier: Apache-2.0
 *
 * voter.h - a Redis server as one of several that vote about a lock (Redlock): what that needs of it beyond the seam.
 *
 * A voter's key is that of the plain family, a string that holds the owner. Beside it lies a ballot: the counter of tokens, and who
 * took the lock last (lua/voter_acquire.lua). But it has no queue and hands nothing on: a claim that finds the lock held is told so
 * (upcall `waits`), is written down as one that waits, and asks again when the one who counts the votes says so. The client's threads
 * never wait for one voter, so there is no park(): every claim is served.
 */
#ifndef PAWL_VOTER_H
#define PAWL_VOTER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

/* What is known of a voter, without asking it. */
struct pawl__voter_view {
    bool up;
    bool tracks;           /* tells of changes of keys by itself */
    bool is_replica;       /* was, when it was asked */
    bool in_cluster;       /* likewise */
    char run_id[48];       /* "": not known */
    unsigned failures;     /* to connect, in a row */
    struct pawl_error why; /* of the last one; code 0: there was none */
};
void pawl__voter_look(struct pawl__engine *engine, struct pawl__voter_view *ret);
/* About what its clock shows now, in us; 0: not known. */
int64_t pawl__voter_time(struct pawl__engine *engine);

/* A name for a client in all its votes; 37 bytes. */
int pawl__redis_uuid(char *ret, struct pawl_error *reterr);
/* How long open() may wait for it. */
int64_t pawl__voter_patience(struct pawl__engine *engine);
/* How long a thread that waits for its answers may look for them. */
int64_t pawl__voter_spin(struct pawl__engine *engine);
/* Once it was up: what an operator should know about it, through the log. */
void pawl__voter_warn(struct pawl__engine *engine);

/* Before submit, in claim memory that is zeroed: the least that the token is to be, and since when (Unix time, ms) its owner has waited. */
void pawl__voter_prepare(struct pawl__claim *claim, uint64_t floor, int64_t since_ms);
/* Likewise: it does not want the lock ahead of those that wait already. */
void pawl__voter_line_up(struct pawl__claim *claim);
/* While it waits: how many others did, when it asked last. */
unsigned pawl__voter_crowd(struct pawl__claim *claim);
/* Before it is withdrawn: it was a hold, so those that wait are to be told. */
void pawl__voter_pass_on(struct pawl__claim *claim);
/* A claim that waits asks again, for a token from `floor` on. */
void pawl__voter_ask(struct pawl__engine *engine, struct pawl__claim *claim, uint64_t floor);
/* Renew a held claim, and have no later holder get a token below `token + count`; its record gets this token. Answered by RENEWED,
 * then the claim's token is this one; or by LOST. */
void pawl__voter_raise(struct pawl__engine *engine, struct pawl__claim *claim, uint64_t token, uint32_t count);
/* In LOST: did an operator free the lock? In GONE: was it not held any more when it was withdrawn? */
bool pawl__voter_freed(struct pawl__claim *claim);
bool pawl__voter_was_lost(struct pawl__claim *claim);
/* In GONE: do others wait for the lock? */
bool pawl__voter_awaited(struct pawl__claim *claim);

#endif
