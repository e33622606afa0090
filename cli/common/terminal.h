/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal.h - who may read the terminal: pawl's process group or the command's.
 */
#ifndef PAWL_CLI_TERMINAL_H
#define PAWL_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int fd;     /* the controlling terminal; -1: none */
    bool eager; /* the command gets it from the start; otherwise when it asks by stopping */
    bool given; /* the command's group has it, as far as we know */
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);

/* Is our own process group the one in the foreground? */
bool terminal_is_ours(const struct terminal *terminal);
/* Make the command's group the foreground. Async-signal-safe; SIGTTOU must be blocked. */
void terminal_give(struct terminal *terminal, pid_t group);
/* Make our own group the foreground again, if the command's was. */
void terminal_take_back(struct terminal *terminal);
/* We were stopped: what we knew may be wrong. */
void terminal_look_again(struct terminal *terminal, pid_t group);

/* Does the environment say that the terminal shows UTF-8? */
bool is_utf8(void);

#endif
