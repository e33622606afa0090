/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - what the files of the world share: the world itself, its processes, and their threads.
 *
 *     world.c      the scheduler and the clock           memory.c   malloc and its like, counted per process
 *     thread.c     coroutines and how they switch         sync.c     mutexes, conditions, futexes, threads as pawl sees them
 *     process.c    processes: globals, clocks, their end  files.c    descriptors, poll, epoll, eventfd, timerfd
 *     net.c        servers, connections, their faults     sockets.c  sockets as pawl sees them; listen.c: those that listen
 *     system.c     clocks, chance and identity as pawl sees them
 *
 * Functions called sim_NAME stand in for the C library's NAME in the code that lives in the world, and in no other.
 */
#ifndef PAWL_SIM_INTERNAL_H
#define PAWL_SIM_INTERNAL_H

#include <sys/queue.h>

#include "../../lab/torture/dice.h"
#include "world.h"

/* Each purpose has a stream of its own, so that one does not shuffle the other; none is one of the rig's. */
static inline struct dice chance_new(uint64_t seed, uint64_t salt) {
    return dice_of_family(UINT64_C(0xbf58476d1ce4e5b9), seed, salt);
}

enum thread_state { THREAD_READY, THREAD_BLOCKED, THREAD_DEAD };

struct thread {
    TAILQ_ENTRY(thread) link; /* process->threads */
    struct process *process;
    enum thread_state state;
    uint64_t number; /* what pthread_self() says */
    void *(*start)(void *data);
    void *data, *result;
    bool detached;
    const void *key;  /* blocked: what a wake-up must name; NULL: nothing but the time */
    bool polls;       /* blocked: until a descriptor of the process may have changed */
    bool timed_out;   /* why it goes on */
    bool interrupted; /* a signal came while it was blocked */
    int64_t until;    /* blocked: true time; WORLD_NEVER */
    int64_t deadline; /* the same by the process's clock, from which `until` is made anew when that clock is set */
    unsigned priority;
    uint64_t restless;    /* places where it might have lost its turn since it slept last */
    unsigned for_nothing; /* so often in a row it would have slept until a moment that is over, and nothing was there */
    int errno_kept;
    char *locals; /* its copy of the variables that are one per thread */
    void *stack, *stack_pointer;
    void *fake_stack; /* AddressSanitizer's */
};
TAILQ_HEAD(thread_list, thread);

struct file;
struct block;
TAILQ_HEAD(block_list, block);

struct process {
    TAILQ_ENTRY(process) link;
    char name[32];
    pid_t pid;
    int (*main)(void *data);
    void *data;
    bool ended, paused;
    int status;
    int64_t resume_at; /* paused by itself: until then; else WORLD_NEVER */
    unsigned pause_in; /* after so many switches; 0: not */
    int64_t pause_span;
    struct server_clock clock; /* BOOTTIME and MONOTONIC */
    int64_t wall_ahead;
    struct dice chance;
    struct thread_list threads;
    uint64_t thread_count; /* numbers given so far */
    struct file **files;
    int file_room;
    struct block_list blocks, freed;
    unsigned freed_count;
    size_t allocated;
    char *globals; /* its copy of the variables of the code that lives in the world, while another process runs */
    char words[512];
};
TAILQ_HEAD(process_list, process);

struct world {
    struct world_options options;
    int64_t now, due; /* `due`: nothing happens by the clock before; may be too early */
    int64_t second;   /* the virtual second in which `steps_in_second` and `dribbled` were counted */
    uint64_t steps, steps_in_second, hash;
    bool restless;     /* a thread runs on and on, and never sleeps */
    uint64_t dribbled; /* bytes that were read one at a time */
    struct process_list processes;
    struct process *loaded; /* whose globals are in place */
    struct thread *current; /* NULL: the scheduler */
    struct process *main;
    bool (*done)(void *data);
    void *done_data;
    struct dice schedule, cost, wire, fate;
    uint64_t priority_changes; /* still to come */
    pid_t next_pid;
    unsigned ports_given;
    bool ending;
};
extern struct world world;

/* ---- thread.c ------------------------------------------------------------------------------------------------------------- */

struct thread *thread_new(struct process *process, void *(*start)(void *), void *data);
/* Give back its stack; it does not run and never will. */
void thread_free(struct thread *thread);
/* From the scheduler: let it run until it comes back. */
void thread_run(struct thread *thread);
/* From a thread: back to the scheduler. */
void thread_leave(void);

/* ---- world.c -------------------------------------------------------------------------------------------------------------- */

/* Something happens at this time: look then. */
void world_due(int64_t when);
/* A thread has asked the system for something: that takes a moment, in which other things may happen. */
void world_charge(void);
/* A place where the thread may lose its turn. */
void world_may_switch(void);
/* Let others run. */
void world_yield(void);
/* Block the running thread: until a wake-up that names the key, or until the time by its process's clock has come. False: it has. */
bool world_block(const void *key, bool polls, int64_t deadline);
/* The running thread has looked whether there is something. For nothing: there was not, and the time to sleep until is over. */
void world_looked(bool for_nothing);
/* A signal for one thread: what it sleeps in ends with EINTR. */
void world_interrupt(struct process *process, uint64_t number);
/* Wake so many of the threads that wait for this key. Returns how many. */
int world_wake(struct process *process, const void *key, int count);
void world_event(struct process *process, enum world_event event);
/* A descriptor of the process may have become ready. */
void world_notify(struct process *process);

/* ---- process.c ------------------------------------------------------------------------------------------------------------ */

static inline int64_t process_clock(const struct process *process) {
    return server_clock_read(&process->clock, world.now);
}
/* When the process's clock will show that. */
int64_t process_true_time(const struct process *process, int64_t deadline);
void process_load(struct process *process);
/* The running process ends here, with this status; does not return if its own thread asks. */
void process_end(struct process *process, int status);
__attribute__((noreturn)) void process_die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void process_free(struct process *process);

/* ---- memory.c ------------------------------------------------------------------------------------------------------------- */

void memory_free_all(struct process *process);

/* ---- files.c, sockets.c --------------------------------------------------------------------------------------------------- */

enum file_kind { FILE_EVENT, FILE_TIMER, FILE_EPOLL, FILE_SOCKET };

struct watch {
    int fd;
    uint32_t events;
    uint64_t data;
};

enum socket_state {
    SOCKET_NEW,
    SOCKET_CONNECTING,
    SOCKET_OPEN,
    SOCKET_ENDED, /* the other side closed */
    SOCKET_BROKEN,
    SOCKET_LISTENS,
};

struct file {
    enum file_kind kind;
    bool nonblocking;
    struct process *process;
    uint64_t count;        /* of an event */
    int64_t expires;       /* of a timer, by the process's clock; WORLD_NEVER */
    struct watch *watches; /* of an epoll */
    size_t watch_count, watch_room;
    /* of a socket: */
    enum socket_state state;
    int error;            /* not told yet */
    struct link *far;     /* the connection; NULL: none any more, or it was accepted */
    struct link *client;  /* the same of one that was accepted */
    struct site *site;    /* of one that listens */
    struct file *waiting; /* the first that came to one that listens; of that one, the next */
    char *in;             /* what has come */
    size_t in_at, in_used, in_room;
    size_t dribble; /* so many bytes of it are read one at a time */
    int64_t receive_ns, user_timeout_ns;
    bool forgets; /* when it is closed, what was not acknowledged */
    unsigned port;
};

struct file *file_of(int fd, enum file_kind kind);
int file_add(enum file_kind kind, bool nonblocking);
/* Give a descriptor to one that has none. */
int file_place(struct file *file);
void files_close_all(struct process *process);
unsigned socket_ready(const struct file *file);
void socket_close(struct file *file);
/* Bytes have come. */
void socket_take(struct file *file, const char *bytes, size_t size);
void listener_close(struct file *file);
extern const struct server_ops listener_ops;
/* What connect(), send() and getaddrinfo() are, unless a test has its own. */
struct sockaddr;
struct addrinfo;
int socket_connect(int fd, const struct sockaddr *address, unsigned length);
ssize_t socket_send(int fd, const void *from, size_t size, int flags);
int socket_look_up(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret);

/* ---- net.c ---------------------------------------------------------------------------------------------------------------- */

void net_begin(void);
/* The process is no more. */
void net_forget(const struct process *process);
void net_end(void);
/* Carry what is due. Returns when the next is. */
int64_t net_carry(void);
/* A socket connects; 0 or an errno that is known at once. */
int net_connect(struct file *file, unsigned port);
/* How much of it the connection takes; 0: nothing now. */
size_t net_send(struct link *link, const void *bytes, size_t size);
size_t net_room(const struct link *link);
/* The client's end is closed. `forgets`: what has not arrived yet never does (SO_LINGER of 0). */
void net_close(struct link *link, bool forgets);

#endif
