/* SPDX-License-Identifier: Apache-2.0
 *
 * world.h - a simulated world: one process, one thread, virtual time.
 *
 * pawl's own objects, and the client libraries that they use, run in here unchanged. The names that they take from the C library are
 * renamed when the program is linked (sim/renamed): `send` is `sim_send`. So what they think is a process is a `struct process` with
 * descriptors, memory, global variables and clocks of its own; what they think is a thread is a coroutine of such a process. A coroutine
 * runs until it blocks (or until the seed says that it is somebody else's turn); when nobody can run, the clock goes on to the next event.
 *
 * The same seed gives the same bytes: nothing here reads a real clock, a real address or real chance.
 *
 * The rig or the test that drives a world runs inside of it too: world_run() calls it as the main coroutine of a process of its own, in
 * which world_sleep() lets the time go on. It may call pawl's functions as any process may.
 */
#ifndef PAWL_SIM_WORLD_H
#define PAWL_SIM_WORLD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../servers/server.h"

#define WORLD_NEVER INT64_MAX
#define WORLD_MS INT64_C(1000000)
#define WORLD_SECOND INT64_C(1000000000)

struct process;
struct site; /* a server with its port */

struct world_options {
    uint64_t seed;
    unsigned preempt;        /* a thread loses its turn at one in so many places where it may; 0: only where it blocks */
    unsigned priorities;     /* not 0: threads have random priorities, changed at so many places (PCT), instead of equal chances */
    int64_t near_ns, far_ns; /* how long bytes travel: between the two; 0, 0: 20 to 200 us */
    unsigned one_byte;       /* one in so many deliveries comes as single bytes; 0: none */
    unsigned short_writes;   /* one in so many writes is taken in part only; 0: none */
    int64_t limit_ns;        /* the world ends here at the latest */
    FILE *trace;             /* the wire, the switches and the strokes, one line each; NULL */
};

enum world_end {
    WORLD_DONE,     /* main returned */
    WORLD_LATE,     /* limit_ns has come */
    WORLD_STUCK,    /* nobody can run, and nothing will ever happen */
    WORLD_LIVELOCK, /* too many steps in one virtual second */
};

/* Make a world, run main(data) in it, and take everything away again. */
enum world_end world_run(const struct world_options *options, void (*main)(void *data), void *data);

/* Of the world that runs. */
int64_t world_now(void);     /* ns of true time; begins at one hour */
int64_t world_wall_ms(void); /* true wall clock */
uint64_t world_hash(void);   /* over all bytes on the wire, with their times, and all that world_hash_add was given */
void world_hash_add(const void *bytes, size_t size);
uint64_t world_steps(void); /* how often a coroutine was run */
void world_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool world_traced(void);

/* A descriptor, the same in every process: what is written to it is handed to `take`. There is one at most. */
int world_sink(void (*take)(const void *bytes, size_t size));

/* In the main coroutine: let the time go on. */
void world_sleep(int64_t until);
/* Until `done` says so or the time is up, looked at after every event. Returns the last answer. */
bool world_wait(bool (*done)(void *data), void *data, int64_t until);

/* ---- Processes ------------------------------------------------------------------------------------------------------------ */

/* Start a process whose main thread is main(data). Its memory is freed when it has ended and world_reap() was called, or with the world. */
struct process *world_spawn(const char *name, int (*main)(void *data), void *data);
pid_t world_pid(const struct process *process);
bool world_ended(const struct process *process);
int world_status(const struct process *process); /* of one that ended: what main returned, or _exit got; -9: killed; -6: aborted */
const char *world_words(const struct process *process); /* what it said last on stderr, or of an assertion that failed; "" */
size_t world_leaked(const struct process *process);     /* of one that returned: bytes that it did not free */
void world_reap(struct process *process);
void world_kill(struct process *process);  /* SIGKILL: bytes that it sent still arrive */
void world_pause(struct process *process); /* SIGSTOP, SIGCONT */
void world_resume(struct process *process);
bool world_paused(const struct process *process);
/* Pause it by itself after so many more switches to it, for that long. */
void world_pause_later(struct process *process, unsigned switches, int64_t span_ns);
/* Its clocks: what the wall clock is ahead by, and how fast all of them run. */
void world_set_clock(struct process *process, int64_t wall_ahead_ns, double rate);

/* Its own value of a global variable of the code in the world. */
const void *world_global(const struct process *process, const void *variable);

/* What happens to processes, as it happens, for one that counts it; NULL: nobody does. */
enum world_event { EVENT_BYTES, EVENT_OPEN, EVENT_END, EVENT_RESET, EVENT_TIMER };
void world_on_event(void (*seen)(struct process *process, enum world_event event));

/* ---- Servers and the network ---------------------------------------------------------------------------------------------- */

struct site *world_site(unsigned port, const char *name, const struct server_ops *ops, void *server);
/* The process that it would be: kill() by code in the world, with SIGSTOP or SIGCONT, pauses it and lets it go on. */
pid_t world_site_pid(const struct site *site);
/* Down: every connection is reset, and new ones are refused. */
void world_site_down(struct site *site);
void world_site_up(struct site *site);
bool world_site_is_up(const struct site *site);
/* SIGSTOP, SIGCONT: bytes wait, connections are made and not accepted. */
void world_site_pause(struct site *site);
void world_site_resume(struct site *site);
/* The server has changed by other means than its own input: ask it anew when it is due. */
void world_site_touch(struct site *site);
unsigned world_site_links(const struct site *site);

/* Which connections: of this site (NULL: all), of this process (NULL: all). Each returns how many it met. */
enum world_cut {
    CUT_RESET,  /* both ends hear of it at once; what is under way is lost */
    CUT_CLOSE,  /* what is under way arrives, then it ends */
    CUT_SILENT, /* nothing gets through it ever again, and nobody is told */
    CUT_INSIDE, /* what is under way to the client arrives in part: the cut is inside a frame */
};
unsigned world_cut(struct site *site, struct process *process, enum world_cut how);
/* From now on: nothing arrives, and nobody is told (a cable that is out). Bytes come later, as retransmissions do; or never, if it is
 * cut meanwhile. New connections hang. */
unsigned world_hole(struct site *site, struct process *process, bool on);
/* From now on every delivery takes up to so much longer, drawn for each; 0: no longer. */
unsigned world_slow(struct site *site, struct process *process, int64_t up_to_ns);
/* The n-th message from now on that reaches the site (1: the next): it is carried out, the answer is lost, and the connection is reset.
 * Before: it is lost before it is carried out. */
void world_lose_reply(struct site *site, unsigned number, bool before);
/* Messages that have reached it so far. */
uint64_t world_site_messages(const struct site *site);

#endif
