/* SPDX-License-Identifier: Apache-2.0
 *
 * strokes.h - the faults of a simulated run: all of the torture's (lab/torture/faults.h), and those that only a simulation can place.
 *
 * The checker knows the torture's words alone, and each of them has its rows in docs/guarantees.md. So a fault of the simulation's own is
 * written down by the word whose promise it must keep: a reply that is lost is a cut.
 *
 * A stroke is written as FAULT@AT+SPAN#TARGET, times in ms; several are parted by commas; `-` is none.
 */
#ifndef PAWL_SIM_STROKES_H
#define PAWL_SIM_STROKES_H

#include "torture/schedule.h"

/* Own lanes: what they do comes beside what the torture's lanes do at that time. */
enum sim_lane { LANE_WIRE = LANES, LANE_MOMENT, LANE_RATE, SIM_LANES };

#define SIM_FAULTS(X)                                                                                                              \
    /* the answer to the n-th message is lost, or the message itself */                                                            \
    X(REPLY_LOST, "reply-lost", FAULT_CUT, LANE_WIRE)                                                                              \
    X(CUT_INSIDE, "cut-inside", FAULT_CUT, LANE_WIRE)         /* in the middle of a frame */                                       \
    X(WRITE_ERROR, "write-error", FAULT_DISK_FULL, LANE_WIRE) /* the next write fails: a script is refused */                      \
    X(WRITE_INSIDE, "write-inside", FAULT_DISK_FULL,                                                                               \
      LANE_WIRE)                                      /* the k-th does, also within a script: the rest of it is not done */        \
    X(PAUSE, "pause", FAULT_CLIENT_STOP, LANE_MOMENT) /* a client stands still, at its k-th switch from now on */                  \
    X(CLIENT_JUMP, "client-jump", FAULT_CLIENT_CLOCK, LANE_RATE) /* its wall clock is set, by little or much, back or forth */     \
    X(SERVER_JUMP, "server-jump", FAULT_SERVER_CLOCK, LANE_RATE) /* a server's is set forward, by little */                        \
    X(CLIENT_RATE, "client-rate", FAULT_CLIENT_FAST, LANE_RATE)  /* its clocks run at another rate */                              \
    X(SERVER_RATE, "server-rate", FAULT_SERVER_FAST, LANE_RATE)                                                                    \
    X(MOST_AWAY, "most-away", FAULT_HALF_OPEN, LANE_WIRE) /* clients reach a minority of the servers alone */                      \
    X(SILENT, "silent", FAULT_HALF_OPEN, LANE_WIRE)       /* connections that are there are dead for good, and nobody is told */

/* They go on where enum fault ends. */
enum sim_fault {
    SIM_FIRST = FAULT_KINDS - 1,
#define SIM_FAULT_ENUM(name, word, row, lane) SIM_##name,
    SIM_FAULTS(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        SIM_FAULT_KINDS
};

/* `fault` in what follows is of either enum. */
const char *sim_word(int fault);
enum fault sim_row(int fault); /* whose promise it must keep */
int sim_lane(int fault);
/* By its word; -1: there is none. */
int sim_find(const char *word, size_t length);

struct sim_stroke {
    int64_t at_ms, span_ms;
    int fault;
    uint64_t target;
};

enum { STROKES_MAX = 512 };
struct strokes {
    struct sim_stroke list[STROKES_MAX]; /* by at_ms */
    size_t count;
};

/* What a target means to a lost reply: which message, before it is carried out or after, and at which server. */
enum { REPLY_NUMBERS = 4096 };
static inline uint64_t reply_target(unsigned number, bool before, unsigned site) {
    return ((uint64_t)site * REPLY_NUMBERS + (number - 1) % REPLY_NUMBERS) << 1 | before;
}
static inline unsigned reply_number(uint64_t target) {
    return (unsigned)((target >> 1) % REPLY_NUMBERS) + 1;
}
static inline bool reply_before(uint64_t target) {
    return target & 1;
}
static inline unsigned reply_site(uint64_t target) {
    return (unsigned)((target >> 1) / REPLY_NUMBERS);
}

/* Those that may be caused, from the seed; what is in `faults` decides. */
void strokes_draw(const struct schedule_options *options, const bool faults[SIM_FAULT_KINDS], struct strokes *ret);
/* False: it is not a list of strokes. */
bool strokes_read(const char *text, struct strokes *ret);
/* The length, as of snprintf. */
size_t strokes_write(const struct strokes *strokes, char *ret, size_t size);

#endif
