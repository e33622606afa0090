/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - see crash.h. The handler runs on a stack of its own; a simulated process that dies leaves it by going back to the
 * scheduler, and nobody returns to it.
 */
#include "crash.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "world/internal.h"
#include "world/names.h"

static char playing[200];

/* Is it the code of a process that is at fault? The rig's own runs in the first one. */
static bool is_of_a_process(int number) {
    return number != SIGPROF && number != SIGABRT && world.current != NULL && world.current->process != world.main;
}

static void on_crash(int number, siginfo_t *info, void *context) {
    static const char first[] = "\npawl-sim: a signal, or no end, in: ";

    (void)context;
    if (is_of_a_process(number)) {
        fprintf(sim_stderr, "signal %d, at %s\n", number, info->si_addr == NULL ? "no address" : "an address that is not its own");
        fflush(sim_stderr);
        sim__exit(-number);
    }
    if (write(STDERR_FILENO, first, sizeof first - 1) < 0 || write(STDERR_FILENO, playing, strlen(playing)) < 0)
        _exit(3);
    signal(number, SIG_DFL);
    raise(number);
}

void crash_watch(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGPROF};
    static char stack[1 << 17];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};

    sigaltstack(&other, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &(struct sigaction){.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER},
                  NULL);
}

void crash_begin(int seconds, const char *format, ...) {
    struct itimerval limit = {.it_value.tv_sec = seconds};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(playing, sizeof playing, format, arguments);
    va_end(arguments);
    setitimer(ITIMER_PROF, &limit, NULL);
}

void crash_end(void) {
    struct itimerval none = {0};

    setitimer(ITIMER_PROF, &none, NULL);
    playing[0] = '\0';
}
