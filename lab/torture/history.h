/* SPDX-License-Identifier: Apache-2.0
 *
 * history.h - what everybody saw, as lines that are only ever appended: docs/torture.md has the format.
 *
 * Every process of a run appends to the same file, each record by one write(2) with O_APPEND: so the order of the file is an order in
 * which all of them agree, and a record is whole or is not there, but for one case. The kernel copies page by page, and stops between two
 * if the writer is killed: a record that goes over a page may be cut off there, and the next one stands right behind it. Who reads knows
 * where pages end, and who is being killed (`kill` is written before, `exit` after), and can tell that from a file that is broken.
 *
 * Times are of CLOCK_BOOTTIME, asked of the kernel itself, since a client's C library may have been told to lie; all processes are on one
 * machine, so they can be compared.
 */
#ifndef PAWL_TORTURE_HISTORY_H
#define PAWL_TORTURE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_VERSION 1

/* What the arguments of a record are, one letter each: n a number, i a number that may be negative, l a lock, m a mode, p a process
 * (SLOT.LIFE), w a word, t the rest of the line. */
#define RECORDS(X)                                                                                                                 \
    /* of the rig */                                                                                                               \
    X(VERSION, "version", "n")                                                                                                     \
    X(ENGINE, "engine", "w")                                                                                                       \
    X(SEED, "seed", "n")                                                                                                           \
    X(LEASE, "lease", "n")                                                                                                         \
    X(HANDOFF, "handoff", "n")                                                                                                     \
    X(KEEP, "keep", "n")                                                                                                           \
    X(NESTS, "nests", "n")                                                                                                         \
    X(APART, "apart", "n")                                                                                                         \
    X(LOCK, "lock", "lwn")                                                                                                         \
    X(ASKS, "asks", "wn")                                                                                                          \
    X(FAULT, "fault", "nwn")                                                                                                       \
    X(HEALED, "healed", "nn")                                                                                                      \
    X(KILL, "kill", "p")                                                                                                           \
    X(STOP, "stop", "p")                                                                                                           \
    X(CONT, "cont", "p")                                                                                                           \
    X(EXIT, "exit", "pi")                                                                                                          \
    X(HUNG, "hung", "p")                                                                                                           \
    X(SEEN, "seen", "lnt")                                                                                                         \
    X(BROKE, "broke", "l")                                                                                                         \
    X(ASKED_BACK, "asked-back", "lpnn")                                                                                            \
    X(WAKES, "wakes", "n")                                                                                                         \
    X(RESIDUE, "residue", "t")                                                                                                     \
    X(END, "end", "")                                                                                                              \
    /* of a client's thread */                                                                                                     \
    X(START, "start", "n")                                                                                                         \
    X(FOREIGN, "foreign", "w")                                                                                                     \
    X(WANT, "want", "lmni")                                                                                                        \
    X(PART, "part", "lmni")                                                                                                        \
    X(GOT, "got", "lni")                                                                                                           \
    X(FAIL, "fail", "li")                                                                                                          \
    X(AGAIN, "again", "ln")                                                                                                        \
    X(INNER, "inner", "l")                                                                                                         \
    X(SURE, "sure", "li")                                                                                                          \
    X(EXTEND, "extend", "li")                                                                                                      \
    X(EXTENDED, "extended", "liii")                                                                                                \
    X(READ, "read", "ln")                                                                                                          \
    X(WRITE, "write", "ln")                                                                                                        \
    X(PUT, "put", "lnn")                                                                                                           \
    X(PUT_BY_TOKEN, "put-by-token", "lnn")                                                                                         \
    X(PUT_NOTE, "put-note", "lnn")                                                                                                 \
    X(STORED, "stored", "li")                                                                                                      \
    X(LOOK, "look", "ln")                                                                                                          \
    X(LOOK_NOTE, "look-note", "ln")                                                                                                \
    X(SAW, "saw", "linnn")                                                                                                         \
    X(SHOWN, "shown", "lnnn")                                                                                                      \
    X(BLIND, "blind", "l")                                                                                                         \
    X(DOWN, "down", "l")                                                                                                           \
    X(DROP, "drop", "l")                                                                                                           \
    X(GONE, "gone", "li")                                                                                                          \
    X(LOST, "lost", "ln")                                                                                                          \
    X(BLINK, "blink", "l")                                                                                                         \
    X(BLINKED, "blinked", "l")                                                                                                     \
    X(BYE, "bye", "")

enum record_kind {
#define RECORD_ENUM(name, word, arguments) RECORD_##name,
    RECORDS(RECORD_ENUM)
#undef RECORD_ENUM
        RECORD_KINDS
};

enum { HISTORY_LOCKS = 256, HISTORY_SLOTS = 4096, HISTORY_THREADS = 64, HISTORY_LINE = 4096 };
enum { HISTORY_PAGE = 4096 }; /* or pages are a multiple of it */

/* A process of the run: the place it has, and which of the processes that had it one after the other. The rig itself: slot -1. */
struct who {
    int slot, thread;
    unsigned life;
};

struct record {
    int64_t time; /* ns since the run began */
    struct who who;
    enum record_kind kind;
    int lock;
    char mode; /* x exclusive, s shared, p permits */
    struct who process;
    int64_t numbers[4]; /* the arguments n and i, in order */
    const char *text;   /* the argument t or w: within the line that was read */
    size_t text_length;
};

/* Read a line, without its newline. False: it is not one. */
bool history_parse(const char *line, size_t length, struct record *ret);

/* Where to append; and what time it was when the run began. */
struct history {
    int fd;
    int64_t began; /* history_clock() */
};

/* ns of CLOCK_BOOTTIME by the kernel. */
int64_t history_clock(void);
static inline int64_t history_now(const struct history *history) {
    return history_clock() - history->began;
}

/* Append a record. False: it could not be written, and the run is worth nothing. */
bool history_append(const struct history *history, int64_t time, struct who who, enum record_kind kind, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

extern const struct who history_rig;

#endif
