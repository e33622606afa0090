/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - what stands in for the C library in the code that lives in the world; each as the function whose name it has.
 */
#ifndef PAWL_SIM_NAMES_H
#define PAWL_SIM_NAMES_H

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* memory.c */
void *sim_malloc(size_t size);
void *sim_calloc(size_t count, size_t size);
void *sim_realloc(void *pointer, size_t size);
void *sim_reallocarray(void *pointer, size_t count, size_t size);
void sim_free(void *pointer);
int sim_posix_memalign(void **ret, size_t alignment, size_t size);
char *sim_strdup(const char *text);
char *sim_strndup(const char *text, size_t most);
int sim_vasprintf(char **ret, const char *format, va_list arguments);
int sim_asprintf(char **ret, const char *format, ...);
FILE *sim_open_memstream(char **text, size_t *size);

/* sync.c */
int sim_pthread_mutex_init(pthread_mutex_t *real, const pthread_mutexattr_t *attributes);
int sim_pthread_mutex_destroy(pthread_mutex_t *real);
int sim_pthread_mutex_lock(pthread_mutex_t *real);
int sim_pthread_mutex_trylock(pthread_mutex_t *real);
int sim_pthread_mutex_unlock(pthread_mutex_t *real);
int sim_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int sim_pthread_cond_destroy(pthread_cond_t *cond);
int sim_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int sim_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int sim_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);
int sim_pthread_cond_signal(pthread_cond_t *cond);
int sim_pthread_cond_broadcast(pthread_cond_t *cond);
int sim_pthread_condattr_init(pthread_condattr_t *attributes);
int sim_pthread_condattr_destroy(pthread_condattr_t *attributes);
int sim_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);
long sim_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout);
int sim_pthread_attr_init(pthread_attr_t *attributes);
int sim_pthread_attr_destroy(pthread_attr_t *attributes);
int sim_pthread_attr_setdetachstate(pthread_attr_t *attributes, int state);
int sim_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*start)(void *), void *data);
pthread_t sim_pthread_self(void);
int sim_pthread_join(pthread_t id, void **ret);
int sim_pthread_kill(pthread_t id, int number);
int sim_pthread_tryjoin_np(pthread_t id, void **ret);
int sim_pthread_once(pthread_once_t *once, void (*init)(void));
int sim_pthread_setcancelstate(int state, int *before);
int sim_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int sim_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int sim_sched_yield(void);
int sim_nanosleep(const struct timespec *span, struct timespec *left);
int sim_usleep(useconds_t us);
unsigned sim_sleep(unsigned seconds);

/* files.c */
int sim_close(int fd);
int sim_fcntl(int fd, int command, ...);
int sim_fcntl64(int fd, int command, ...);
int sim_eventfd(unsigned count, int flags);
int sim_timerfd_create(int clock, int flags);
int sim_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *before);
ssize_t sim_read(int fd, void *to, size_t size);
ssize_t sim_write(int fd, const void *from, size_t size);
int sim_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int sim_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int sim_epoll_create1(int flags);
int sim_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int sim_epoll_wait(int epoll_fd, struct epoll_event *events, int most, int timeout_ms);

/* sockets.c */
int sim_socket(int family, int type, int protocol);
int sim_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t sim_recv(int fd, void *to, size_t size, int flags);
ssize_t sim_send(int fd, const void *from, size_t size, int flags);
int sim_shutdown(int fd, int how);
int sim_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int sim_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int sim_getpeername(int fd, struct sockaddr *to, socklen_t *size);
int sim_getsockname(int fd, struct sockaddr *to, socklen_t *size);
int sim_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret);
void sim_freeaddrinfo(struct addrinfo *info);

/* net.c */
int sim_kill(pid_t pid, int number);

/* listen.c */
int sim_bind(int fd, const struct sockaddr *address, socklen_t length);
int sim_listen(int fd, int most);
int sim_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int sim_accept(int fd, struct sockaddr *address, socklen_t *size);

/* system.c */
int sim_clock_gettime(clockid_t clock, struct timespec *ret);
int sim_gettimeofday(struct timeval *ret, void *zone);
time_t sim_time(time_t *ret);
long sim_syscall(long number, ...);
ssize_t sim_getrandom(void *to, size_t size, unsigned flags);
long sim_random(void);
double sim_drand48(void);
void sim_srandom(unsigned seed);
void sim_srand48(long seed);
extern char *sim_program_invocation_short_name;
int sim_gethostname(char *name, size_t size);
pid_t sim_getpid(void);
uid_t sim_getuid(void);
uid_t sim_geteuid(void);
char *sim_getlogin(void);
int sim_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **ret);
char *sim_getcwd(char *to, size_t size);
int sim_uname(struct utsname *ret);
char *sim_getenv(const char *name);
char *sim_secure_getenv(const char *name);
int sim_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
void *sim_dlopen(const char *file, int flags);
void *sim_dlsym(void *handle, const char *name);
int sim_sigaction(int number, const struct sigaction *action, struct sigaction *before);
extern FILE *sim_stderr, *sim_stdout;
__attribute__((noreturn)) void sim_abort(void);
__attribute__((noreturn)) void sim___assert_fail(const char *assertion, const char *file, unsigned line, const char *function);
__attribute__((noreturn)) void sim__exit(int status);
__attribute__((noreturn)) void sim_exit(int status);
int sim_open(const char *path, int flags, ...);
int sim_open64(const char *path, int flags, ...);

#endif
