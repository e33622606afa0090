/* SPDX-License-Identifier: Apache-2.0
 *
 * message.c - how pawl speaks on stderr, and which exit status goes with which error.
 *
 * A message is one write(2), so that those of several pawls on one terminal or log do not mix, and none waits in a buffer when the
 * process ends. A stderr that cannot be written is nobody's business: the exit status still tells.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wait_line.h"

/* Room for the longest text of the library around two names. */
enum { MESSAGE_SIZE = 2048 };

static void write_line(const char *prefix, const char *text) {
    char safe[MESSAGE_SIZE], line[MESSAGE_SIZE + 64];
    int length = snprintf(line, sizeof line, "%s%s%s\n", wait_line_eraser(), prefix, printable(safe, sizeof safe, text));

    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        return;
}

static void say_list(const char *format, va_list arguments) {
    char text[MESSAGE_SIZE];

    vsnprintf(text, sizeof text, format, arguments);
    write_line("pawl: ", text);
}

void say(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    say_list(format, arguments);
    va_end(arguments);
}

int usage_error(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    say_list(format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

int library_error(const struct pawl_error *error) {
    say("%s", error->text);
    return exit_of(error->code);
}

int exit_of(int code) {
    switch (code) {
    case PAWL_EINVAL:
    case PAWL_ENAME:
    case PAWL_EURL:
    case PAWL_EENGINE:
    case PAWL_EOPTION:
    case PAWL_EDURATION:
    case PAWL_EPERMITS:
    case PAWL_ETOOLARGE:
    case PAWL_EUNSUPPORTED:
        return EXIT_USAGE;
    case PAWL_EKIND:
    case PAWL_ELIMIT:
    case PAWL_ETOKEN:
    case PAWL_EORPHAN:
        return EXIT_MISMATCH;
    case PAWL_ECONNLOST:
    case PAWL_EUNKNOWN:
    case PAWL_EREPLICAS:
    case PAWL_ETOPOLOGY:
        return EXIT_UNREACHABLE;
    case PAWL_ENOMEM:
    case PAWL_ESYSTEM:
        return EXIT_SYSTEM;
    case PAWL_ENOSPACE:
    case PAWL_EFORMAT:
    case PAWL_EVERSION:
    case PAWL_EFILESYSTEM:
    case PAWL_EFULL:
    case PAWL_EGONE:
    case PAWL_EOVERFLOW:
        return EXIT_STORAGE;
    case PAWL_EHELD:
    case PAWL_ETIMEOUT:
        return EXIT_NOT_TAKEN;
    case PAWL_ELOST:
    case PAWL_EBROKEN:
    case PAWL_EEXPIRED:
        return EXIT_LOST;
    case PAWL_EACCES:
        return EXIT_PERMISSION;
    default:
        return EXIT_INTERNAL;
    }
}

bool open_standard_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
            return false;
    return true;
}

int finish_output(int status) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    /* A reader that went away has all it wanted, and hears no complaint; nor does a person. */
    if (errno != EPIPE)
        say("cannot write the output: %s", strerror(errno));
    return status == 0 ? EXIT_STORAGE : status;
}

/* What is said while a client is being opened is true of every command, today and tomorrow: cron would mail it each time. It is pawl
 * doctor's to say. */
static atomic_bool warnings_count;

void print_warnings(void) {
    atomic_store(&warnings_count, true);
}

void print_log(enum pawl_log_level level, const char *text, void *data) {
    (void)data;
    if (level == PAWL_LOG_WARNING && !atomic_load(&warnings_count))
        return;
    write_line(level == PAWL_LOG_WARNING ? "pawl: warning: " : "", text);
}
