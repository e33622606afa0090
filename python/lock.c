/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.c - _pawl.Part, a lock and how it is taken, and _pawl.Lock, which has the handle. A handle without PAWL_TASK belongs to whichever
 * thread acquires through it, so that threads share a lock as they share a threading.RLock.
 */
#include "module.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *py_part_type, *py_lock_type;

static struct py_part *part_of(PyObject *self) {
    return (struct py_part *)self;
}

/* ---- Acquire and release --------------------------------------------------------------------------------------------------- */

enum pawl_mode py_part_release_mode(struct py_part *part) {
    if (!part->downgraded)
        return part->mode;
    part->downgraded--;
    return PAWL_SHARED;
}

static int acquire_as(struct pawl_lock *handle, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                      struct pawl_error *error) {
    switch (mode) {
    case PAWL_SHARED:
        return pawl_acquire_shared(handle, timeout_ms, error);
    case PAWL_PERMITS:
        return pawl_acquire_permits(handle, permits, timeout_ms, error);
    case PAWL_EXCLUSIVE:
        break;
    }
    return pawl_acquire(handle, timeout_ms, error);
}

static int release_as(struct pawl_lock *handle, enum pawl_mode mode, struct pawl_error *error) {
    return mode == PAWL_SHARED ? pawl_release_shared(handle, error) : pawl_release(handle, error);
}

/* 0, or a code of pawl.h with its text; with PyErr_Occurred() the code does not count. */
static int acquire(struct py_part *part, unsigned permits, int64_t timeout_ms, struct pawl_error *error) {
    struct py_lock *lock = part->home;
    int rc;

    if (py_lock_ready(lock) < 0)
        return PAWL_EINVAL;
    Py_BEGIN_ALLOW_THREADS;
    rc = acquire_as(lock->handle, part->mode, permits, timeout_ms, error);
    Py_END_ALLOW_THREADS;
    rc = py_client_waited(lock->client, rc, error);
    if (rc < 0)
        return rc;
    /* The handler of a signal may have raised just when the lock was granted: then the program does not learn that it holds. */
    if (PyErr_Occurred() || py_lock_note_hold(lock) < 0) {
        Py_BEGIN_ALLOW_THREADS;
        release_as(lock->handle, part->mode, NULL);
        Py_END_ALLOW_THREADS;
    }
    return 0;
}

static int release(struct py_part *part, struct pawl_error *error) {
    struct py_lock *lock = part->home;
    enum pawl_mode mode;
    int rc;

    if (!lock || !lock->handle) {
        py_raise_text(PAWL_ENOTHELD, "'%s' is not held", lock && lock->name ? lock->name : "");
        return PAWL_ENOTHELD;
    }
    mode = py_part_release_mode(part);
    Py_BEGIN_ALLOW_THREADS;
    rc = release_as(lock->handle, mode, error);
    Py_END_ALLOW_THREADS;
    if (rc == 0 || rc == PAWL_ELOST || rc == PAWL_EFORKED || rc == PAWL_ECLOSED)
        py_lock_note_release(lock);
    else if (mode != part->mode)
        part->downgraded++; /* it is not over */
    return rc;
}

/* Of acquire(blocking=True, timeout=None, *, permits=...). */
static int read_arguments(struct py_part *part, PyObject *args, PyObject *kwargs, int64_t *rettimeout, unsigned *retpermits) {
    static char *names[] = {"blocking", "timeout", "permits", NULL};
    PyObject *timeout = Py_None;
    int blocking = 1;

    *rettimeout = part->timeout_ms;
    *retpermits = part->permits;
    if (PyTuple_Size(args) == 0 && !kwargs)
        return 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pO$O&:acquire", names, &blocking, &timeout, py_permits, retpermits))
        return -1;
    if (timeout != Py_None && py_milliseconds(timeout, PAWL_FOREVER, rettimeout) < 0)
        return -1;
    if (!blocking && timeout != Py_None && *rettimeout != PAWL_FOREVER) {
        PyErr_SetString(PyExc_ValueError, "an acquire that does not block has no timeout");
        return -1;
    }
    if (!blocking)
        *rettimeout = 0;
    return 0;
}

static PyObject *part_acquire(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct pawl_error error;
    int64_t timeout_ms;
    unsigned permits;
    int rc;

    if (read_arguments(part_of(self), args, kwargs, &timeout_ms, &permits) < 0)
        return NULL;
    rc = acquire(part_of(self), permits, timeout_ms, &error);
    if (PyErr_Occurred())
        return NULL;
    if (rc == PAWL_EHELD || rc == PAWL_ETIMEOUT)
        Py_RETURN_FALSE;
    if (rc < 0)
        return py_raise(&error);
    Py_RETURN_TRUE;
}

static PyObject *part_enter(PyObject *self, PyObject *unused) {
    struct py_part *part = part_of(self);
    struct pawl_error error;
    int rc = acquire(part, part->permits, part->timeout_ms, &error);

    (void)unused;
    if (PyErr_Occurred())
        return NULL;
    if (rc < 0)
        return py_raise(&error);
    Py_INCREF(self);
    return self;
}

static PyObject *part_release(PyObject *self, PyObject *unused) {
    struct pawl_error error;

    (void)unused;
    if (release(part_of(self), &error) < 0)
        return py_raise(&error);
    Py_RETURN_NONE;
}

/* What the body has raised is never hidden by what the release has to say. */
static PyObject *part_exit(PyObject *self, PyObject *args) {
    PyObject *released = part_release(self, NULL);

    if (!released) {
        if (PyTuple_Size(args) == 0 || PyTuple_GetItem(args, 0) == Py_None)
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return released;
}

static PyObject *part_downgrade(PyObject *self, PyObject *unused) {
    struct py_part *part = part_of(self);
    struct pawl_error error;
    int rc;

    (void)unused;
    if (!part->home || !part->home->handle)
        return py_raise_text(PAWL_ENOTHELD, "what is not held cannot be downgraded");
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_downgrade(part->home->handle, &error);
    Py_END_ALLOW_THREADS;
    if (rc < 0)
        return py_raise(&error);
    part->downgraded++;
    Py_RETURN_NONE;
}

static PyObject *part_extend(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"max_hold", "timeout", NULL};
    struct py_lock *lock = part_of(self)->home;
    PyObject *max_hold = Py_None, *timeout = Py_None;
    int64_t max_hold_ms = lock && lock->max_hold_ms ? lock->max_hold_ms : PAWL_FOREVER, timeout_ms;
    struct pawl_error error;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:extend", names, &max_hold, &timeout) ||
        (max_hold != Py_None && py_milliseconds(max_hold, PAWL_FOREVER, &max_hold_ms) < 0) ||
        py_milliseconds(timeout, PAWL_FOREVER, &timeout_ms) < 0)
        return NULL;
    if (!lock || !lock->handle)
        return py_raise_text(PAWL_ENOTHELD, "what is not held cannot be extended");
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_extend(lock->handle, max_hold_ms, timeout_ms, &error);
    Py_END_ALLOW_THREADS;
    rc = py_client_waited(lock->client, rc, &error);
    if (rc < 0 || PyErr_Occurred())
        return py_raise(&error);
    Py_RETURN_NONE;
}

static PyObject *part_cancel(PyObject *self, PyObject *unused) {
    struct py_lock *lock = part_of(self)->home;
    int count = 0;

    (void)unused;
    if (lock && lock->handle) {
        Py_BEGIN_ALLOW_THREADS;
        count = pawl_cancel(lock->handle);
        Py_END_ALLOW_THREADS;
    }
    return PyLong_FromLong(count < 0 ? 0 : count);
}

/* ---- What one holds -------------------------------------------------------------------------------------------------------- */

static struct pawl_lock *handle_of(PyObject *self) {
    return part_of(self)->home ? part_of(self)->home->handle : NULL;
}

static PyObject *part_token(PyObject *self, void *unused) {
    struct pawl_lock *handle = handle_of(self);

    (void)unused;
    return PyLong_FromUnsignedLongLong(handle ? pawl_token(handle) : 0);
}

static PyObject *part_remaining(PyObject *self, void *unused) {
    struct pawl_lock *handle = handle_of(self);
    int64_t remaining = handle ? pawl_remaining_ms(handle) : 0;

    (void)unused;
    return PyFloat_FromDouble(remaining == PAWL_FOREVER ? HUGE_VAL : (double)remaining / 1000);
}

static PyObject *part_state(PyObject *self, void *unused) {
    struct pawl_lock *handle = handle_of(self);

    (void)unused;
    return PyLong_FromLong(handle ? (long)pawl_state(handle) : PAWL_NOT_HELD);
}

static PyObject *part_lost(PyObject *self, void *unused) {
    struct pawl_lock *handle = handle_of(self);

    (void)unused;
    return PyBool_FromLong(handle && pawl_state(handle) == PAWL_LOST);
}

static PyObject *part_check(PyObject *self, PyObject *unused) {
    struct py_lock *lock = part_of(self)->home;
    const char *name = lock && lock->name ? lock->name : "";

    (void)unused;
    if (lock && lock->handle && lock->generation != py_generation && py_lock_holder(lock))
        return py_raise_text(PAWL_EFORKED, "'%s' is held by the parent process, not by this one", name);
    switch (lock && lock->handle ? pawl_state(lock->handle) : PAWL_NOT_HELD) {
    case PAWL_NOT_HELD:
        return py_raise_text(PAWL_ENOTHELD, "'%s' is not held", name);
    case PAWL_LOST:
        return py_raise_text(PAWL_ELOST, "the hold of '%s' was lost: stop, and release it", name);
    default:
        Py_RETURN_NONE;
    }
}

static PyObject *part_name(PyObject *self, void *unused) {
    struct py_lock *lock = part_of(self)->home;

    (void)unused;
    return PyUnicode_FromString(lock && lock->name ? lock->name : "");
}

/* ---- Types ----------------------------------------------------------------------------------------------------------------- */

static int part_init(PyObject *self, PyObject *args, PyObject *unused) {
    struct py_part *part = part_of(self);
    struct py_lock *home;
    unsigned permits;
    int mode;

    (void)unused;
    if (!PyArg_ParseTuple(args, "O!iO&:Part", py_lock_type, &home, &mode, py_permits, &permits))
        return -1;
    if (part->home || !home->client) {
        PyErr_SetString(PyExc_TypeError, "a part is initialized once, with a lock that is");
        return -1;
    }
    Py_INCREF(home);
    part->home = home;
    part->mode = py_mode_of(mode);
    part->permits = permits;
    part->timeout_ms = home->part.timeout_ms;
    return 0;
}

static int lock_init(PyObject *self, PyObject *args, PyObject *unused) {
    struct py_lock *lock = (struct py_lock *)self;
    PyObject *timeout, *max_hold, *keep;
    unsigned long long loss;
    struct py_client *client;
    const char *name, *label;
    int kind, mode;

    (void)unused;
    if (lock->client) {
        PyErr_SetString(PyExc_TypeError, "a lock is initialized once");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "O!siO&IiO&OOOzK:Lock", py_client_type, &client, &name, &kind, py_permits, &lock->limit,
                          &lock->flags, &mode, py_permits, &lock->part.permits, &timeout, &max_hold, &keep, &label, &loss) ||
        py_milliseconds(timeout, PAWL_FOREVER, &lock->part.timeout_ms) < 0 ||
        py_milliseconds(max_hold, 0, &lock->max_hold_ms) < 0 || py_milliseconds(keep, -1, &lock->keep_ms) < 0)
        return -1;
    lock->name = strdup(name);
    lock->label = label ? strdup(label) : NULL;
    if (!lock->name || (label && !lock->label)) {
        PyErr_NoMemory();
        return -1;
    }
    Py_INCREF(client);
    lock->client = client;
    lock->kind = py_kind_of(kind);
    lock->loss = loss;
    lock->part.home = lock;
    lock->part.mode = py_mode_of(mode);
    return 0;
}

static int part_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if ((PyObject *)part_of(self)->home != self)
        Py_VISIT(part_of(self)->home);
    return 0;
}

/* No clear of its own: a client that knows the lock does so through its dictionary, which Python clears. */
static int lock_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((struct py_lock *)self)->client);
    return part_traverse(self, visit, arg);
}

static int part_clear(PyObject *self) {
    if ((PyObject *)part_of(self)->home != self)
        Py_CLEAR(part_of(self)->home);
    return 0;
}

static void part_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    part_clear(self);
    py_free(self);
}

/* A lock that is dropped while it is held: release it, and say so. */
static void lock_finalize(PyObject *self) {
    struct py_lock *lock = (struct py_lock *)self;
    PyObject *type, *value, *traceback;

    if (!lock->handle)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    if (lock->holders.length && lock->generation == py_generation && !lock->client->closed &&
        PyErr_ResourceWarning(self, 1, "the lock '%s' was dropped while it was held; it is released now", lock->name) < 0)
        PyErr_WriteUnraisable(self);
    py_lock_free_handle(lock);
    PyErr_Restore(type, value, traceback);
}

static void lock_dealloc(PyObject *self) {
    struct py_lock *lock = (struct py_lock *)self;

    PyObject_GC_UnTrack(self);
    if (lock->handle)
        py_lock_free_handle(lock);
    Py_XDECREF(lock->client);
    free(lock->name);
    free(lock->label);
    free(lock->holders.list);
    py_free(self);
}

static PyMethodDef methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))part_acquire, METH_VARARGS | METH_KEYWORDS,
     "Take it. True; or False: not in time. `timeout` is in seconds; None: that of the lock; -1: for ever."},
    {"release", part_release, METH_NOARGS, "release($self, /)\n--\n\nEnd one acquire of this thread."},
    {"__enter__", part_enter, METH_NOARGS, "__enter__($self, /)\n--\n\n"},
    {"__exit__", part_exit, METH_VARARGS, "__exit__($self, /, *args)\n--\n\n"},
    {"cancel", part_cancel, METH_NOARGS, "cancel($self, /)\n--\n\nEnd the acquires that wait, in any thread. Returns how many."},
    {"check", part_check, METH_NOARGS,
     "check($self, /)\n--\n\nRaise LostError if the hold was lost, NotHeldError if there is none."},
    {"extend", (PyCFunction)(void (*)(void))part_extend, METH_VARARGS | METH_KEYWORDS,
     "Let this thread's hold last `max_hold` seconds from now (None: those of the lock; -1: no limit), once the server has "
     "confirmed it. "
     "Timeout: it has not within `timeout` seconds; None: wait as long as the hold lasts."},
    {"_value_get", py_part_value_get, METH_NOARGS, "_value_get($self, /)\n--\n\n"},
    {"_value_set", py_part_value_set, METH_VARARGS, "_value_set($self, bytes, /)\n--\n\n"},
    {"_downgrade", part_downgrade, METH_NOARGS, "_downgrade($self, /)\n--\n\n"},
    {0},
};

static PyGetSetDef attributes[] = {
    {"name", part_name, NULL, "The name of the lock.", NULL},
    {"token", part_token, NULL, "The number of this thread's hold; it only rises. 0: not held.", NULL},
    {"remaining", part_remaining, NULL, "For how many seconds the hold is still assured. 0: stop.", NULL},
    {"_state", part_state, NULL, NULL, NULL},
    {"lost", part_lost, NULL, "Whether this thread's hold was lost.", NULL},
    {0},
};

static PyType_Slot part_slots[] = {
    {Py_tp_doc, "Part(lock, mode, permits, /)\n--\n\n"},
    {Py_tp_init, part_init},
    {Py_tp_dealloc, part_dealloc},
    {Py_tp_traverse, part_traverse},
    {Py_tp_clear, part_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0},
};

static PyType_Slot lock_slots[] = {
    {Py_tp_doc, "Lock(client, name, kind, limit, flags, mode, permits, timeout, max_hold, keep, label, loss, /)\n--\n\n"},
    {Py_tp_init, lock_init},
    {Py_tp_finalize, lock_finalize},
    {Py_tp_dealloc, lock_dealloc},
    {Py_tp_traverse, lock_traverse},
    {Py_tp_clear, part_clear},
    {0},
};

static PyType_Spec part_spec = {
    .name = "pawl._pawl.Part",
    .basicsize = sizeof(struct py_part),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = part_slots,
};

static PyType_Spec lock_spec = {
    .name = "pawl._pawl.Lock",
    .basicsize = sizeof(struct py_lock),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = lock_slots,
};

int py_lock_init(PyObject *module) {
    py_part_type = py_add_type(module, &part_spec, NULL);
    if (!py_part_type)
        return -1;
    py_lock_type = py_add_type(module, &lock_spec, py_part_type);
    return py_lock_type ? 0 : -1;
}
