/* SPDX-License-Identifier: Apache-2.0
 *
 * ticket.c - _pawl.Ticket: one acquire that is waited for by an event loop, and its hold. It is a handle of its own (PAWL_TASK), so tasks
 * that share a lock exclude each other, and to free it is all that a cancelled acquire needs: what is pending ends, what was granted is
 * released.
 *
 * The callbacks of the library only take a note, with the ticket's number: the ticket may be gone by then. Client._dispatch() runs the
 * callbacks that are due and returns their notes, in one go with the GIL held: so it never returns those of another loop. None of the
 * calls here waits for a server, but for extend().
 */
#include "module.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static PyTypeObject *ticket_type;

struct ticket {
    PyObject_HEAD struct py_client *client;
    struct pawl_lock *handle; /* NULL: freed */
    enum pawl_mode mode;
    unsigned extending;        /* calls of extend() under way */
    struct pawl_lock *to_free; /* by the last of them */
};

/* ---- Notes ----------------------------------------------------------------------------------------------------------------- */

struct note {
    struct note *next;
    uint64_t number, token;
    bool lost; /* a loss; else the end of an acquire */
    int code;
    char text[];
};

/* pawl_close() runs the callbacks that are due, and has not the GIL. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct note *first, **last = &first;

static void take_note(uint64_t number, bool lost, uint64_t token, const struct pawl_error *error) {
    size_t size = error ? strlen(error->text) + 1 : 1;
    struct note *note = malloc(sizeof *note + size);

    if (!note)
        abort(); /* a task would wait for ever */
    *note = (struct note){.number = number, .lost = lost, .token = token, .code = error ? error->code : 0};
    memcpy(note->text, error ? error->text : "", size);
    pthread_mutex_lock(&mutex);
    *last = note;
    last = &note->next;
    pthread_mutex_unlock(&mutex);
}

static void note_end(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    (void)lock, (void)result;
    take_note((uintptr_t)data, false, 0, error);
}

static void note_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lock;
    if (state == PAWL_LOST)
        take_note((uintptr_t)data, true, token, why);
}

static struct note *take_notes(void) {
    struct note *notes;

    pthread_mutex_lock(&mutex);
    notes = first;
    first = NULL;
    last = &first;
    pthread_mutex_unlock(&mutex);
    return notes;
}

PyObject *py_client_dispatch(PyObject *client, PyObject *unused) {
    struct pawl *pawl = py_client_enter((struct py_client *)client);
    PyObject *list = pawl ? PyList_New(0) : NULL, *item;
    struct note *note, *next;

    (void)unused;
    if (!pawl)
        return NULL;
    pawl_dispatch(pawl);
    for (note = take_notes(); note; note = next) {
        item = list ? Py_BuildValue("(KiKis)", (unsigned long long)note->number, note->lost, (unsigned long long)note->token,
                                    note->code, note->text)
                    : NULL;
        if (list && (!item || PyList_Append(list, item) < 0))
            Py_CLEAR(list);
        Py_XDECREF(item);
        next = note->next;
        free(note);
    }
    py_client_leave((struct py_client *)client);
    return list;
}

PyObject *py_client_fd(PyObject *client, PyObject *unused) {
    struct pawl *pawl = py_client_enter((struct py_client *)client);
    int fd;

    (void)unused;
    if (!pawl)
        return NULL;
    fd = pawl_fd(pawl);
    py_client_leave((struct py_client *)client);
    return fd < 0 ? py_raise_text(fd, "%s", pawl_error_text(fd)) : PyLong_FromLong(fd);
}

/* In the child: the notes are the parent's. */
void py_ticket_forked(void) {
    pthread_mutex_init(&mutex, NULL);
    first = NULL;
    last = &first;
}

/* ---- Tickets --------------------------------------------------------------------------------------------------------------- */

static struct ticket *ticket_of(PyObject *self) {
    return (struct ticket *)self;
}

static int release_handle(struct ticket *ticket, struct pawl_error *reterr) {
    if (ticket->mode == PAWL_SHARED)
        return pawl_release_shared(ticket->handle, reterr);
    return pawl_release(ticket->handle, reterr);
}

/* A thread that is in extend() may be using the handle: then it is only released, and that thread frees it. */
static void free_handle(struct ticket *ticket) {
    struct pawl_lock *handle = ticket->handle;

    if (handle && ticket->extending) {
        release_handle(ticket, NULL);
        ticket->to_free = handle;
    } else {
        pawl_lock_free(handle);
    }
    ticket->handle = NULL;
}

/* What is wanted of the lock. */
struct terms {
    unsigned permits;
    int64_t timeout_ms, max_hold_ms;
    const char *label; /* NULL: the client's */
    unsigned long long number;
};

static int start(struct ticket *ticket, struct pawl *pawl, const struct py_kind *kind, const struct terms *terms) {
    void *number = (void *)(uintptr_t)terms->number;
    struct pawl_error error;
    int rc = py_new_handle(pawl, kind, PAWL_TASK, &ticket->handle, &error);

    if (rc == 0 && terms->max_hold_ms)
        rc = pawl_set_max_hold(ticket->handle, terms->max_hold_ms, &error);
    if (rc == 0 && terms->label)
        rc = pawl_set_label(ticket->handle, terms->label, &error);
    if (rc == 0)
        rc = pawl_on_loss(ticket->handle, note_loss, number, &error);
    if (rc == 0)
        rc = pawl_acquire_start(ticket->handle, ticket->mode, terms->permits, terms->timeout_ms, note_end, number, &error);
    if (rc == 0)
        return 0;
    free_handle(ticket);
    py_raise(&error);
    return -1;
}

static int ticket_init(PyObject *self, PyObject *args, PyObject *unused) {
    struct ticket *ticket = ticket_of(self);
    PyObject *timeout, *max_hold;
    struct py_client *client;
    struct terms terms;
    struct py_kind kind;
    struct pawl *pawl;
    int number, mode, rc;

    (void)unused;
    if (!PyArg_ParseTuple(args, "O!siO&iO&OOzK:Ticket", py_client_type, &client, &kind.name, &number, py_permits, &kind.limit,
                          &mode, py_permits, &terms.permits, &timeout, &max_hold, &terms.label, &terms.number) ||
        py_milliseconds(timeout, PAWL_FOREVER, &terms.timeout_ms) < 0 || py_milliseconds(max_hold, 0, &terms.max_hold_ms) < 0)
        return -1;
    if (ticket->client) {
        PyErr_SetString(PyExc_TypeError, "a ticket is initialized once");
        return -1;
    }
    kind.kind = py_kind_of(number);
    ticket->mode = py_mode_of(mode);
    pawl = py_client_enter(client);
    if (!pawl)
        return -1;
    Py_INCREF(client);
    ticket->client = client;
    rc = start(ticket, pawl, &kind, &terms);
    py_client_leave(client);
    return rc;
}

/* End it, whatever it is: pending or held. */
static PyObject *ticket_free(PyObject *self, PyObject *unused) {
    (void)unused;
    free_handle(ticket_of(self));
    Py_RETURN_NONE;
}

/* Release, and free. */
static PyObject *ticket_release(PyObject *self, PyObject *unused) {
    struct ticket *ticket = ticket_of(self);
    struct pawl_error error;
    int rc;

    (void)unused;
    if (!ticket->handle)
        return py_raise_text(PAWL_ENOTHELD, "the hold was released already");
    rc = release_handle(ticket, &error);
    free_handle(ticket);
    if (rc < 0)
        return py_raise(&error);
    Py_RETURN_NONE;
}

static PyObject *ticket_downgrade(PyObject *self, PyObject *unused) {
    struct ticket *ticket = ticket_of(self);
    struct pawl_error error;

    (void)unused;
    if (!ticket->handle)
        return py_raise_text(PAWL_ENOTHELD, "what is not held cannot be downgraded");
    if (pawl_downgrade(ticket->handle, &error) < 0)
        return py_raise(&error);
    ticket->mode = PAWL_SHARED;
    Py_RETURN_NONE;
}

/* Waits: called in a thread of the loop's executor, while the loop may free the ticket. */
static PyObject *ticket_extend(PyObject *self, PyObject *args) {
    struct ticket *ticket = ticket_of(self);
    struct pawl_lock *handle = ticket->handle;
    PyObject *max_hold, *timeout;
    int64_t max_hold_ms, timeout_ms;
    struct pawl_error error;
    int rc;

    if (!PyArg_ParseTuple(args, "OO:extend", &max_hold, &timeout) || py_milliseconds(max_hold, PAWL_FOREVER, &max_hold_ms) < 0 ||
        py_milliseconds(timeout, PAWL_FOREVER, &timeout_ms) < 0)
        return NULL;
    if (!handle)
        return py_raise_text(PAWL_ENOTHELD, "what is not held cannot be extended");
    ticket->extending++;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_extend(handle, max_hold_ms, timeout_ms, &error);
    Py_END_ALLOW_THREADS;
    rc = py_client_waited(ticket->client, rc, &error);
    if (--ticket->extending == 0 && ticket->to_free) {
        pawl_lock_free(ticket->to_free);
        ticket->to_free = NULL;
    }
    if (rc < 0)
        return py_raise(&error);
    Py_RETURN_NONE;
}

static PyObject *ticket_token(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(pawl_token(ticket_of(self)->handle));
}

static PyObject *ticket_remaining(PyObject *self, void *unused) {
    int64_t remaining = pawl_remaining_ms(ticket_of(self)->handle);

    (void)unused;
    return PyFloat_FromDouble(remaining == PAWL_FOREVER ? HUGE_VAL : (double)remaining / 1000);
}

static PyObject *ticket_state(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong((long)pawl_state(ticket_of(self)->handle));
}

/* No clear, as with locks. */
static int ticket_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(ticket_of(self)->client);
    return 0;
}

static void ticket_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    free_handle(ticket_of(self));
    Py_XDECREF(ticket_of(self)->client);
    py_free(self);
}

static PyMethodDef methods[] = {
    {"free", ticket_free, METH_NOARGS, "free($self, /)\n--\n\nEnd it, pending or held. It does not wait."},
    {"release", ticket_release, METH_NOARGS, "release($self, /)\n--\n\nRelease it, and say what became of it. It does not wait."},
    {"extend", ticket_extend, METH_VARARGS, "extend($self, max_hold, timeout, /)\n--\n\nIt waits for the server."},
    {"downgrade", ticket_downgrade, METH_NOARGS, "downgrade($self, /)\n--\n\n"},
    {0},
};

static PyGetSetDef attributes[] = {
    {"token", ticket_token, NULL, NULL, NULL},
    {"remaining", ticket_remaining, NULL, NULL, NULL},
    {"state", ticket_state, NULL, NULL, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Ticket(client, name, kind, limit, mode, permits, timeout, max_hold, label, number, /)\n--\n\n"},
    {Py_tp_init, ticket_init},
    {Py_tp_dealloc, ticket_dealloc},
    {Py_tp_traverse, ticket_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0},
};

static PyType_Spec spec = {
    .name = "pawl._pawl.Ticket",
    .basicsize = sizeof(struct ticket),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int py_ticket_init(PyObject *module) {
    ticket_type = py_add_type(module, &spec, NULL);
    return ticket_type ? 0 : -1;
}
