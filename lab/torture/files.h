/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h - small things with files and ports that every service needs.
 */
#ifndef PAWL_TORTURE_FILES_H
#define PAWL_TORTURE_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Remove a directory with all that is in it. */
bool remove_tree(const char *path);
/* In a child: what it says goes to `output` in this directory. */
void redirect_output(const char *directory);
/* Write a file from a format. */
bool write_file(const char *directory, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A port of loopback that nobody has at the moment; 0: none. */
unsigned free_port(void);
/* Send a text to a port of loopback, and read the answer until `until` is in it (or, if NULL, to the end). False: none in time. */
bool ask_port(unsigned port, const char *text, const char *until, char *answer, size_t size);

#endif
