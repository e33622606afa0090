/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.h - the arithmetic of leases. Pure: no clock is read here.
 *
 * A lease of L counts, at the server, from some moment between the request's departure and its reply. We know only the departure
 * (sent_at), so everything counts from there, and a clock that runs slow against the server's is allowed for:
 *
 *     sent_at          renew at         suspect at          assured until      the server's end, at the earliest
 *        |----------------|------------------|---------------------|--------------|
 *        0               L/3               2L/3              L - L/100 - 2ms      L
 *
 * Past `assured until` the hold is lost for its owner, also if the server still has it, and no renewal leaves any more: it could
 * revive at the server what here is over.
 */
#ifndef PAWL_LEASE_H
#define PAWL_LEASE_H

#include <stdint.h>

/* A point in time that never comes, or a span without end. */
#define PAWL__NEVER INT64_MAX

/* PAWL__NEVER as `lease` gives PAWL__NEVER everywhere. */
int64_t pawl__lease_renew_at(int64_t sent_at, int64_t lease);
int64_t pawl__lease_suspect_at(int64_t sent_at, int64_t lease);
int64_t pawl__lease_assured_until(int64_t sent_at, int64_t lease);

/* A point in time `span` ns after `from`, which may be PAWL__NEVER; never overflows. */
int64_t pawl__time_add(int64_t from, int64_t span);
/* The deadline of a call with `timeout_ms` that begins now. */
int64_t pawl__deadline(int64_t now, int64_t timeout_ms);

#endif
