/* SPDX-License-Identifier: Apache-2.0
 *
 * circles.h - which threads of a client wait for each other? Read off a history, line by line, and compared with what pawl said of it.
 *
 * A thread that waits for nothing goes on, and so does one that waits only for threads that do; who is left waits for ever. Other clients
 * are taken to go on: no circle goes over two of them (lab/torture/client.c).
 */
#ifndef PAWL_SIM_CIRCLES_H
#define PAWL_SIM_CIRCLES_H

#include "torture/history.h"

enum { CIRCLES_SLOTS = 64, CIRCLES_PARTS = 48, CIRCLES_THREADS = 16 };

struct circles {
    int threads; /* of each client; part number N is one of thread N % threads */
    struct {
        struct circles_part {
            short lock; /* plus 1; 0: none */
            char mode;
            bool holds;
        } parts[CIRCLES_PARTS];
        int64_t since[CIRCLES_THREADS]; /* when it began to wait for ever; -1: it does not */
    } slots[CIRCLES_SLOTS];
    int64_t worst_ns, worst_at; /* the longest that one waited in a circle */
    struct who worst;
    unsigned wrong; /* waits that were ended for a deadlock that was none, */
    struct who first_wrong;
    int64_t wrong_at; /* ... the first of them */
};

void circles_begin(struct circles *circles, int threads);
void circles_line(struct circles *circles, const char *line, size_t length);

#endif
