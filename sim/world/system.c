/* SPDX-License-Identifier: Apache-2.0
 *
 * system.c - clocks, chance, identity and the end, for the code in the world.
 */
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>

#include "internal.h"
#include "names.h"

/* ---- Clocks --------------------------------------------------------------------------------------------------------------- */

#define TICK (4 * WORLD_MS) /* of the clock that is cheap to read */

static int64_t read_clock(clockid_t clock) {
    const struct process *process = world.current->process;
    int64_t wall;

    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return process_clock(process);
    /* What its own clock gained shows on the wall as well. */
    wall = world_wall_ms() * WORLD_MS + world.now % WORLD_MS + process_clock(process) - world.now + process->wall_ahead;
    return clock == CLOCK_REALTIME ? wall : wall - wall % TICK;
}

/* A test may have its own. */
__attribute__((weak)) int sim_clock_gettime(clockid_t clock, struct timespec *ret) {
    int64_t ns;

    world_charge();
    ns = read_clock(clock);
    *ret = (struct timespec){.tv_sec = ns / WORLD_SECOND, .tv_nsec = ns % WORLD_SECOND};
    return 0;
}

int sim_gettimeofday(struct timeval *ret, void *zone) {
    int64_t ns = read_clock(CLOCK_REALTIME);

    (void)zone;
    *ret = (struct timeval){.tv_sec = ns / WORLD_SECOND, .tv_usec = ns % WORLD_SECOND / 1000};
    return 0;
}

time_t sim_time(time_t *ret) {
    time_t seconds = read_clock(CLOCK_REALTIME) / WORLD_SECOND;

    if (ret != NULL)
        *ret = seconds;
    return seconds;
}

/* The kernel's own answer, as those ask for it who must not be lied to (the history): the true time. */
static long true_time(clockid_t clock, struct timespec *ret) {
    int64_t ns;

    world_charge();
    ns = clock == CLOCK_REALTIME ? world_wall_ms() * WORLD_MS + world.now % WORLD_MS : world.now;
    *ret = (struct timespec){.tv_sec = ns / WORLD_SECOND, .tv_nsec = ns % WORLD_SECOND};
    return 0;
}

long sim_syscall(long number, ...) {
    va_list arguments;
    long result;

    va_start(arguments, number);
    if (number == SYS_futex) {
        uint32_t *word = va_arg(arguments, uint32_t *);
        int operation = va_arg(arguments, int);
        uint32_t value = va_arg(arguments, uint32_t);

        result = sim_futex(word, operation, value, va_arg(arguments, const struct timespec *));
    } else if (number == SYS_clock_gettime) {
        clockid_t clock = va_arg(arguments, int);

        result = true_time(clock, va_arg(arguments, struct timespec *));
    } else if (number == SYS_sendto) {
        int fd = va_arg(arguments, int);
        const void *from = va_arg(arguments, const void *);
        size_t size = va_arg(arguments, size_t);

        result = socket_send(fd, from, size, va_arg(arguments, int));
    } else if (number == SYS_connect) {
        int fd = va_arg(arguments, int);
        const struct sockaddr *address = va_arg(arguments, const struct sockaddr *);

        result = socket_connect(fd, address, va_arg(arguments, socklen_t));
    } else if (number == SYS_gettid) {
        result = world.current->process->pid * 100 + (long)world.current->number;
    } else {
        va_end(arguments);
        process_die(-6, "system call %ld is not known in this world", number);
    }
    va_end(arguments);
    return result;
}

/* ---- Chance --------------------------------------------------------------------------------------------------------------- */

ssize_t sim_getrandom(void *to, size_t size, unsigned flags) {
    unsigned char *at = to;

    (void)flags;
    for (size_t i = 0; i < size; i++)
        at[i] = (unsigned char)dice_number(&world.current->process->chance);
    return (ssize_t)size;
}

long sim_random(void) {
    return (long)(dice_number(&world.current->process->chance) & 0x7fffffff);
}

double sim_drand48(void) {
    return (double)sim_random() / 2147483648.0;
}

void sim_srandom(unsigned seed) {
    (void)seed;
}

void sim_srand48(long seed) {
    (void)seed;
}

/* ---- Identity ------------------------------------------------------------------------------------------------------------- */

static char program[] = "pawl-sim";
char *sim_program_invocation_short_name = program;

int sim_gethostname(char *name, size_t size) {
    snprintf(name, size, "simulated");
    return 0;
}

pid_t sim_getpid(void) {
    return world.current->process->pid;
}

uid_t sim_getuid(void) {
    return 1000;
}

uid_t sim_geteuid(void) {
    return 1000;
}

char *sim_getlogin(void) {
    return NULL;
}

int sim_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **ret) {
    (void)uid;
    (void)entry;
    (void)buffer;
    (void)size;
    *ret = NULL;
    return ENOENT;
}

char *sim_getcwd(char *to, size_t size) {
    snprintf(to, size, "/");
    return to;
}

int sim_uname(struct utsname *ret) {
    memset(ret, 0, sizeof *ret);
    strcpy(ret->sysname, "Linux");
    strcpy(ret->nodename, "simulated");
    return 0;
}

/* Only where a test finds the sources: nothing else of the real environment may make a difference. */
char *sim_getenv(const char *name) {
    return strcmp(name, "SOURCE_DIR") == 0 ? getenv(name) : NULL;
}

char *sim_secure_getenv(const char *name) {
    (void)name;
    return NULL;
}

int sim_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    (void)pid;
    memset(set, 0, size);
    CPU_SET(0, set);
    CPU_SET(1, set);
    return 0;
}

/* TLS is not simulated. Names are looked up by those who have a getaddrinfo() of their own, too. */
void *sim_dlopen(const char *file, int flags) {
    (void)file;
    (void)flags;
    return NULL;
}

void *sim_dlsym(void *handle, const char *name) {
    (void)handle;
    return strcmp(name, "getaddrinfo") == 0 ? (void *)(uintptr_t)socket_look_up : NULL;
}

/* ---- Signals: nobody sends any -------------------------------------------------------------------------------------------- */

int sim_sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    (void)number;
    (void)action;
    (void)before;
    return 0;
}

/* ---- Words and the end ---------------------------------------------------------------------------------------------------- */

FILE *sim_stderr, *sim_stdout; /* one stream: what a process said last is kept */

static ssize_t keep_words(void *cookie, const char *bytes, size_t size) {
    struct process *process = world.current != NULL ? world.current->process : world.main;

    (void)cookie;
    snprintf(process->words, sizeof process->words, "%.*s", (int)(size < 500 ? size : 500), bytes);
    world_trace("%s (%d) says: %.*s", process->name, (int)process->pid, (int)size, bytes);
    return (ssize_t)size;
}

__attribute__((constructor)) static void open_stderr(void) {
    sim_stderr = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep_words});
    setvbuf(sim_stderr, NULL, _IOLBF, 0);
    sim_stdout = sim_stderr;
}

void sim_abort(void) {
    process_die(-6, "abort() was called");
}

void sim___assert_fail(const char *assertion, const char *file, unsigned line, const char *function) {
    process_die(-6, "%s:%u: %s: the assertion '%s' failed", file, line, function, assertion);
}

void sim__exit(int status) {
    process_end(world.current->process, status);
    abort(); /* it does not come back */
}

void sim_exit(int status) {
    sim__exit(status);
}

int sim_open64(const char *path, int flags, ...) __attribute__((alias("sim_open")));

int sim_open(const char *path, int flags, ...) {
    (void)path;
    (void)flags;
    errno = ENOENT;
    return -1;
}

/* What some tests ask for: files to be made, other programs, signals. There are none here, and who asks for one ends. */
#define NO_CALLS(X)                                                                                                                \
    X(execl)                                                                                                                       \
    X(execlp)                                                                                                                      \
    X(execv)                                                                                                                       \
    X(execvp)                                                                                                                      \
    X(fork)                                                                                                                        \
    X(ioctl)                                                                                                                       \
    X(isatty)                                                                                                                      \
    X(memfd_create)                                                                                                                \
    X(mkdtemp)                                                                                                                     \
    X(pipe)                                                                                                                        \
    X(pthread_cancel)                                                                                                              \
    X(pthread_testcancel)                                                                                                          \
    X(raise)                                                                                                                       \
    X(system)                                                                                                                      \
    X(waitpid)
#define NO_CALL(name)                                                                                                              \
    void sim_##name(void);                                                                                                         \
    void sim_##name(void) {                                                                                                        \
        process_die(-6, #name "() was called, and there is no such thing in this world");                                          \
    }
NO_CALLS(NO_CALL)
