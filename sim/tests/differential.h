/* SPDX-License-Identifier: Apache-2.0
 *
 * differential.h - the same commands to a real redis-server and to the simulated one: what differs is a mistake of the simulated one.
 *
 * There are a few connections, to both. A step is one command on one of them; steps are carried out one after the other, on both sides in
 * the same order. In the end of a sequence everything that came over each connection is compared, byte by byte. Only times, which are
 * numbers near each other, may differ.
 */
#ifndef PAWL_SIM_DIFFERENTIAL_H
#define PAWL_SIM_DIFFERENTIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONNECTIONS = 4, WORDS = 64 };

/* Chance: the same seed, the same sequence. */
uint64_t draw(uint64_t below);
const char *pick(const char *const *list, size_t count);
#define PICK(list) pick(list, sizeof(list) / sizeof *(list))

/* One command. `lengths` NULL: they are strings. */
void step(int connection, int count, const char *const *words, const size_t *lengths);
/* The same, of words that are parted by spaces. */
void say(int connection, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Wait until the real server says that the key is gone. */
void await_gone(const char *key);
/* Is it a hash whose order nobody knows? */
bool is_large(const char *key);

/* differential_scripts.c: one call of one of pawl's scripts; and of one that was made for this. */
void script_step(int connection);
void odd_script_step(int connection);
void begin_scripts(void);

#endif
