/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h - small things with files, ports and processes that every kind of server needs.
 */
#ifndef PAWL_SERVERS_FILES_H
#define PAWL_SERVERS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Remove a directory with all that is in it. */
bool remove_tree(const char *path);
/* Is there such a command in $PATH? */
bool has_command(const char *name);
/* Write a file from a format. */
bool write_file(const char *directory, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* So many different ports of loopback that nobody has at the moment. */
bool free_ports(unsigned *ports, size_t count);
/* Send a text to a port of an address, and read the answer until `until` is in it (or, if NULL, to the end). False: none in time. */
bool ask_at(const char *address, unsigned port, const char *text, const char *until, char *answer, size_t size);
/* Start a process that ends with this thread: `run` is to become the program; what it says goes to `output` in this directory. */
pid_t start_process(const char *directory, void (*run)(void *data), void *data);
/* Is it alive, and stopped (SIGSTOP)? */
bool process_is_stopped(pid_t pid);

#endif
