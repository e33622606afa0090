/* SPDX-License-Identifier: Apache-2.0
 *
 * module.h - the extension `pawl._pawl`: objects of Python around clients and handles of pawl.h, on the limited API (3.9 and later).
 *
 *   - Only C runs in a callback of the library. It may come on the service thread, or on one that is closing a client, and neither has the
 *     GIL. It notes what came; Python reads the notes later (loss.c, ticket.c).
 *   - The service thread never takes the GIL: another extension may keep it for as long as it likes, and renewals would stop meanwhile.
 *   - A call that may wait lets the GIL go. Fields of the objects are read and written with the GIL only.
 *   - A client is opened, and a handle made, when it is first needed, and again in a child after fork(): py_generation tells.
 *
 * Functions that can fail return NULL or -1 with an exception of Python's set, as is usual there.
 */
#ifndef PAWL_PYTHON_MODULE_H
#define PAWL_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pythread.h>

#include <stdbool.h>

#include "pawl.h"

/* ---- module.c: the process, errors, types --------------------------------------------------------------------------------- */

/* How many forks lie between the first process and this one. */
extern unsigned py_generation;

/* Set the exception that belongs to the code, unless one is set: that of a signal handler, which ended the wait. Returns NULL. */
PyObject *py_raise(const struct pawl_error *error);
/* The same, with a text of its own. */
PyObject *py_raise_text(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Seconds of a program to milliseconds, rounded up. None and -1 are `forever`; other negative numbers are a
 * ValueError, and so is 0 where `forever` is. */
int py_milliseconds(PyObject *seconds, int64_t forever, int64_t *ret);

/* For PyArg_Parse...'s O&: a number of permits, as unsigned. */
int py_permits(PyObject *number, void *ret);

/* Make a type and put it into the module. `base` may be NULL. Returns what it made, borrowed. */
PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base);
/* Free the object's memory, as the last step of its dealloc. */
void py_free(PyObject *self);

/* ---- client.c -------------------------------------------------------------------------------------------------------------- */

struct py_client {
    PyObject_HEAD char *url, *label;
    struct pawl_options options;
    struct pawl *pawl;   /* NULL: not open */
    unsigned generation; /* in which it was opened */
    unsigned users;      /* calls on `pawl` that are under way: it is closed after the last */
    unsigned asking;     /* waits of the main thread that are running a signal handler now */
    bool closed;         /* for good */
    PyThread_type_lock opening;
    struct py_client *next, **link; /* all clients */
};

extern PyTypeObject *py_client_type;

/* Open it, if it is not open, and keep it from being closed until py_client_leave(). */
struct pawl *py_client_enter(struct py_client *client);
void py_client_leave(struct py_client *client);
/* A wait has ended with `rc`: if a signal handler has closed the client meanwhile, close it now, and return PAWL_ECLOSED. */
int py_client_waited(struct py_client *client, int rc, struct pawl_error *reterr);

PyObject *py_close_all(PyObject *module, PyObject *unused);
int py_client_init(PyObject *module);

/* ---- operator.c ------------------------------------------------------------------------------------------------------------ */

PyObject *py_inspect(PyObject *client, PyObject *args);
PyObject *py_break(PyObject *client, PyObject *args);
PyObject *py_examine(PyObject *client, PyObject *unused);
/* A copy of what the library shows, to be freed by free(); NULL: out of memory. No GIL is needed. */
struct py_entry;
struct py_entry *py_entry_copy(const struct pawl_entry *entry);
PyObject *py_entry_tuple(const struct py_entry *entry);

/* ---- handle.c, lock.c ---------------------------------------------------------------------------------------------------------------- */

/* How many acquires each thread has made and not released. A thread number of 0 is a handle that owns itself (PAWL_TASK). */
struct py_holders {
    struct py_holder {
        unsigned long thread;
        unsigned count;
    } * list;
    unsigned length, room;
};

/* A lock, and how it is taken: one side of a read-write lock, so many permits of a semaphore. */
struct py_part {
    PyObject_HEAD struct py_lock *home; /* has the handle; of a struct py_lock, itself */
    enum pawl_mode mode;
    unsigned permits;
    unsigned downgraded; /* acquires that became shared ones */
    int64_t timeout_ms;  /* of an acquire that says nothing else */
};

struct py_lock {
    struct py_part part;
    struct py_client *client;
    char *name;
    enum pawl_kind kind;
    unsigned limit;
    unsigned flags; /* of enum pawl_lock_flags */
    int64_t max_hold_ms;
    int64_t keep_ms; /* -1: as the client says */
    char *label;     /* NULL: likewise */
    uint64_t loss;   /* its number in the notes of loss.c; 0: nobody wants to know */
    struct pawl_lock *handle;
    unsigned generation; /* in which the handle was made */
    struct py_holders holders;
};

extern PyTypeObject *py_part_type, *py_lock_type;

/* Which lock. */
struct py_kind {
    enum pawl_kind kind;
    const char *name;
    unsigned limit;
};

/* A number of Python's as what it stands for. */
enum pawl_kind py_kind_of(int kind);
enum pawl_mode py_mode_of(int mode);
int py_new_handle(struct pawl *pawl, const struct py_kind *kind, unsigned flags, struct pawl_lock **ret, struct pawl_error *error);

/* Have a handle that is of use in this process. One that its thread held when it forked stays, and answers PAWL_EFORKED. */
int py_lock_ready(struct py_lock *lock);
void py_lock_free_handle(struct py_lock *lock);
/* What the calling thread holds; NULL: nothing. */
struct py_holder *py_lock_holder(const struct py_lock *lock);
/* The calling thread has acquired, or has released. Failure: out of memory; the caller releases. */
int py_lock_note_hold(struct py_lock *lock);
void py_lock_note_release(struct py_lock *lock);
/* With which mode the part is released now. */
enum pawl_mode py_part_release_mode(struct py_part *part);

int py_lock_init(PyObject *module);

/* ---- set.c ----------------------------------------------------------------------------------------------------------------- */

PyObject *py_acquire_all(PyObject *module, PyObject *args);
PyObject *py_release_all(PyObject *module, PyObject *parts);

/* ---- loss.c ---------------------------------------------------------------------------------------------------------------- */

pawl_loss_fn py_loss_note; /* `data` is the number of the lock */
pawl_log_fn py_log_note;   /* ... of the client */
/* A note with nothing but the number. No GIL is needed. */
void py_loss_ring(uint64_t number);
PyObject *py_losses(PyObject *module, PyObject *unused);
PyObject *py_losses_mark(PyObject *module, PyObject *number);
PyObject *py_losses_stop(PyObject *module, PyObject *unused);
void py_loss_forked(void);

/* ---- value.c --------------------------------------------------------------------------------------------------------------- */

PyObject *py_part_value_get(PyObject *part, PyObject *unused);
PyObject *py_part_value_set(PyObject *part, PyObject *args);
PyObject *py_value_read(PyObject *client, PyObject *args);
PyObject *py_value_set_as(PyObject *client, PyObject *args);
int py_value_init(PyObject *module);

/* ---- ticket.c -------------------------------------------------------------------------------------------------------------- */

PyObject *py_client_dispatch(PyObject *client, PyObject *unused);
PyObject *py_client_fd(PyObject *client, PyObject *unused);
void py_ticket_forked(void);
int py_ticket_init(PyObject *module);

#endif
