/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - the command, and the supervisor between pawl and it. supervisor.c draws the three processes.
 */
#ifndef PAWL_CLI_CHILD_H
#define PAWL_CLI_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/terminal.h"

enum child_event_kind {
    CHILD_STARTED,      /* `pid` is the command's; also its process group */
    CHILD_NOT_STARTED,  /* `value` is the errno of fork */
    CHILD_NOT_EXECUTED, /* `value` is the errno of exec; CHILD_EXITED follows. child_next() keeps it in exec_errno */
    CHILD_STOPPED,      /* by the signal `value` */
    CHILD_EXITED,       /* with the exit status `value` */
    CHILD_KILLED,       /* by the signal `value` */
};

struct child_event {
    enum child_event_kind kind;
    int value;
    pid_t pid;
};

/* What pawl says to the supervisor. Saying nothing and hanging up means: kill what is left of the group. GUARD: leave it alone, but stay
 * until those who have inherited the hold have ended, and see to it that they do in time. */
enum { SUPERVISOR_LEAVE = 'l', SUPERVISOR_GUARD = 'g' };

/* How long those who have inherited the hold may keep it; and how they are ended. */
struct inheritors_limit {
    int64_t until;    /* now_ms(); PAWL_FOREVER: as long as they like */
    int64_t grace_ms; /* between TERM and KILL; 0: KILL at once */
};

struct child {
    pid_t pid; /* of the command, and of its process group */
    pid_t supervisor;
    int channel;    /* to the supervisor: readable when an event waits */
    int lifeline;   /* hangs up when no process is left that inherited its other end; -1: nothing is to be inherited */
    int exec_errno; /* why the command could not be executed; 0: it could */
    bool supervisor_lost;
};

/* Start `argv`. `inherit`: watch for processes that the command leaves behind; `limit` is for them. Returns 0, or an exit status after
 * saying why. */
int child_start(struct child *child, char **argv, bool inherit, const struct inheritors_limit *limit, struct terminal *terminal);
/* The next event, for which it waits. False: the supervisor is gone. */
bool child_next(struct child *child, struct child_event *event);
/* Signal the whole process group. False: it may not be signalled, being another user's. */
bool child_signal(const struct child *child, int number);
/* KILL what is left of the group, and wait until it is gone. */
void child_end_group(struct child *child);
/* Leave alone what is left of the group. If anybody is left who inherited the hold, and may not keep it for ever, the supervisor stays. */
void child_leave_group(struct child *child, bool limited);
/* Does any process live that inherited the hold? */
bool child_has_inheritors(const struct child *child);
/* Signal all of them, also those that left the group; and KILL them, and wait until they are gone. */
void child_signal_inheritors(const struct child *child, int number);
void child_end_inheritors(const struct child *child);

/* group.c: wait until no process of the group lives. Not bounded: as long as one does, the hold must stay. */
void await_end_of_group(pid_t group);

/* inheritors.c: by the lifeline, of which we have the end for reading. */
void signal_inheritors(int lifeline, int number);
/* Have all of them ended, or do they within this time (of poll)? */
bool await_inheritors(int lifeline, int ms);
/* KILL them until they are gone. Not bounded: who may not be killed, being another user's, keeps the hold. */
void end_inheritors(int lifeline);

/* supervisor.c: what the supervisor does after fork. */
struct supervisor_setup {
    char **argv;
    int channel;
    int pawls_channel;  /* to be closed: pawl's end */
    int lifeline;       /* the end to be inherited, or -1 */
    int pawls_lifeline; /* the other end, or -1 */
    struct inheritors_limit limit;
    struct terminal *terminal;
    bool give_terminal;
};
/* The argv of main(), for the supervisor to overwrite in its own memory. */
void supervisor_note_arguments(char **argv);
_Noreturn void supervisor_main(const struct supervisor_setup *setup);

#endif
