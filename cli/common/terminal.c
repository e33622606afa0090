/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal.c - who may read the terminal: pawl's process group or the command's.
 *
 * The command has a process group of its own, so that all of it can be signalled and nothing else. A terminal serves one group, the
 * foreground; any other that reads is stopped by SIGTTIN. Two ways to live with that, and both are needed:
 *
 *   eager  The command's group becomes the foreground before the command starts, as a shell does it. rsync, wget and pv show their
 *          progress only then.
 *   lazy   Ours stays the foreground, and what the terminal sends (SIGINT, SIGTSTP, SIGWINCH...) is passed on. When the command
 *          stops because it wants the terminal, it gets it. In a pipeline (`pawl run x -- make | less`) this is the only way: less
 *          is in our group, and would be stopped if ours were not the foreground.
 *
 * So: eager, unless stdin or stdout is a pipe or a socket; then lazy.
 */
#include "terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool leads_to_another_process(int fd) {
    struct stat status;

    return fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

void terminal_open(struct terminal *terminal) {
    terminal->given = false;
    terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    terminal->eager = terminal->fd >= 0 && !leads_to_another_process(STDIN_FILENO) && !leads_to_another_process(STDOUT_FILENO);
}

void terminal_close(struct terminal *terminal) {
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

bool terminal_is_ours(const struct terminal *terminal) {
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

void terminal_give(struct terminal *terminal, pid_t group) {
    terminal->given = tcsetpgrp(terminal->fd, group) == 0;
}

void terminal_take_back(struct terminal *terminal) {
    if (!terminal->given)
        return;
    terminal->given = false;
    tcsetpgrp(terminal->fd, getpgrp());
    /* Others of our pipeline may have wanted the terminal meanwhile, and been stopped for it. */
    if (!terminal->eager)
        kill(0, SIGCONT);
}

void terminal_look_again(struct terminal *terminal, pid_t group) {
    terminal->given = terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group;
}

bool is_utf8(void) {
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);

        if (value != NULL && value[0] != '\0')
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
    }
    return false;
}
