/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c - _pawl.Client. It is opened with the first call that needs it. In a child after fork() that is a new one, since the parent's
 * is of no use there; what is left of that one in memory stays, a copy of pages that nobody touches.
 *
 * `pawl` may go away while a call on it runs without the GIL: `users` counts these calls, and the last closes it. An acquire is not one
 * of them, since to close is what ends it. But a handler of a signal runs within the acquire that it interrupts, and pawl_close() would
 * wait for that one: so a client that is closed in a handler is closed when the acquire has ended, as it does then (`asking`).
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

PyTypeObject *py_client_type;

static struct py_client *clients;

/* After fork() all but the options is the parent's; its lock may be one that a thread of the parent holds. */
static int renew(struct py_client *client) {
    PyThread_type_lock opening = PyThread_allocate_lock();

    if (!opening) {
        PyErr_NoMemory();
        return -1;
    }
    client->opening = opening;
    client->pawl = NULL;
    client->users = client->asking = 0;
    client->generation = py_generation;
    return 0;
}

/* Python runs handlers of signals in this thread. */
static bool is_main_thread(void) {
    return gettid() == getpid();
}

static void close_if_unused(struct py_client *client) {
    struct pawl *pawl = client->pawl;

    if (!client->closed || client->users || !pawl || client->generation != py_generation)
        return;
    if (client->asking && is_main_thread())
        return;
    client->pawl = NULL;
    Py_BEGIN_ALLOW_THREADS;
    pawl_close(pawl);
    Py_END_ALLOW_THREADS;
}

static int open_now(struct py_client *client, struct pawl_error *reterr) {
    struct pawl *pawl = NULL;
    int rc;

    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_open(client->url, &client->options, &pawl, reterr);
    Py_END_ALLOW_THREADS;
    if (rc == 0)
        client->pawl = pawl;
    return rc;
}

/* One thread opens; the others wait for it. No Python runs meanwhile: a signal handler could want the same client. */
static int open_once(struct py_client *client) {
    PyThread_type_lock opening;
    struct pawl_error error;
    int rc = 0;

    if (client->generation != py_generation && renew(client) < 0)
        return -1;
    opening = client->opening;
    Py_BEGIN_ALLOW_THREADS;
    PyThread_acquire_lock(opening, WAIT_LOCK);
    Py_END_ALLOW_THREADS;
    if (!client->pawl && !client->closed)
        rc = open_now(client, &error);
    PyThread_release_lock(opening);
    if (rc < 0)
        py_raise(&error);
    return rc;
}

struct pawl *py_client_enter(struct py_client *client) {
    bool is_open = client->pawl && client->generation == py_generation;

    if (!client->opening) {
        PyErr_SetString(PyExc_RuntimeError, "the client was not initialized: its class has to call super().__init__()");
        return NULL;
    }
    if (!client->closed && !is_open && open_once(client) < 0)
        return NULL;
    if (client->closed) {
        close_if_unused(client); /* it may have been closed while it was being opened */
        py_raise_text(PAWL_ECLOSED, "the client is closed: make another");
        return NULL;
    }
    client->users++;
    return client->pawl;
}

void py_client_leave(struct py_client *client) {
    client->users--;
    close_if_unused(client);
}

/* Asked in a thread that waits, without the GIL. Threads other than the main one must not wait for the GIL here, since who takes long to
 * answer may be passed over. */
static int interrupted(void *data) {
    struct py_client *client = data;
    unsigned generation = py_generation;
    PyGILState_STATE state;
    bool ended;

    if (!is_main_thread())
        return 0;
    state = PyGILState_Ensure();
    client->asking++;
    /* A set asks for each of its locks; no handler may run once one has raised. */
    ended = PyErr_Occurred() || PyErr_CheckSignals() < 0 || client->closed;
    if (generation == py_generation) /* else the handler has forked, and this is the child */
        client->asking--;
    PyGILState_Release(state);
    return ended;
}

int py_client_waited(struct py_client *client, int rc, struct pawl_error *reterr) {
    if (!client->closed)
        return rc;
    close_if_unused(client);
    if (rc != 0 && rc != PAWL_ECANCELED)
        return rc;
    *reterr = (struct pawl_error){.code = PAWL_ECLOSED, .text = "the wait was ended: the client was closed"};
    return PAWL_ECLOSED;
}

/* ---- For Python ------------------------------------------------------------------------------------------------------------ */

static int take_text(const char *text, char **ret) {
    if (!text)
        return 0;
    *ret = strdup(text);
    if (!*ret)
        PyErr_NoMemory();
    return *ret ? 0 : -1;
}

static int client_init(PyObject *self, PyObject *args, PyObject *unused) {
    struct py_client *client = (struct py_client *)self;
    PyObject *lease, *max_hold, *connect;
    unsigned long long log;
    const char *url, *label;
    unsigned flags;

    (void)unused;
    if (client->url) {
        PyErr_SetString(PyExc_TypeError, "a client is initialized once");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "sOzOOIK:Client", &url, &lease, &label, &max_hold, &connect, &flags, &log) ||
        py_milliseconds(lease, 0, &client->options.lease_ms) < 0 ||
        py_milliseconds(max_hold, 0, &client->options.max_hold_ms) < 0 ||
        py_milliseconds(connect, 0, &client->options.connect_ms) < 0)
        return -1;
    if (take_text(url, &client->url) < 0 || take_text(label, &client->label) < 0 || renew(client) < 0)
        return -1;
    client->options.size = sizeof client->options;
    client->options.flags = flags;
    client->options.label = client->label;
    client->options.interrupted = interrupted;
    client->options.interrupted_data = client;
    client->options.log = log ? py_log_note : NULL;
    client->options.log_data = (void *)(uintptr_t)log;
    client->next = clients;
    client->link = &clients;
    if (clients)
        clients->link = &client->next;
    clients = client;
    return 0;
}

static void client_dealloc(PyObject *self) {
    struct py_client *client = (struct py_client *)self;

    client->closed = true;
    close_if_unused(client);
    if (client->link) {
        *client->link = client->next;
        if (client->next)
            client->next->link = client->link;
    }
    if (client->opening && client->generation == py_generation)
        PyThread_free_lock(client->opening);
    free(client->url);
    free(client->label);
    py_free(self);
}

static PyObject *client_open(PyObject *self, PyObject *unused) {
    struct py_client *client = (struct py_client *)self;

    (void)unused;
    if (!py_client_enter(client))
        return NULL;
    py_client_leave(client);
    Py_RETURN_NONE;
}

static PyObject *client_close(PyObject *self, PyObject *unused) {
    struct py_client *client = (struct py_client *)self;

    (void)unused;
    client->closed = true;
    close_if_unused(client);
    Py_RETURN_NONE;
}

/* (url, engine, lease, notice), both times in milliseconds; a lease of PAWL_FOREVER: nothing expires. */
static PyObject *client_describe(PyObject *self, PyObject *unused) {
    struct py_client *client = (struct py_client *)self;
    struct pawl *pawl = py_client_enter(client);
    struct pawl_info info;
    PyObject *told;

    (void)unused;
    if (!pawl)
        return NULL;
    pawl_describe(pawl, &info);
    told = Py_BuildValue("(ssLL)", info.url, info.engine, (long long)info.lease_ms, (long long)info.notice_ms);
    py_client_leave(client);
    return told;
}

static PyObject *client_closed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((struct py_client *)self)->closed);
}

/* A client that another thread is using is left to the end of the process. */
PyObject *py_close_all(PyObject *module, PyObject *unused) {
    struct py_client *client = clients;

    (void)module, (void)unused;
    while (client) {
        if (client->closed) {
            client = client->next;
            continue;
        }
        Py_INCREF(client);
        client->closed = true;
        close_if_unused(client);
        Py_DECREF(client);
        client = clients; /* the list may be another by now */
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"open", client_open, METH_NOARGS,
     "open($self, /)\n--\n\nConnect now. Otherwise the first call that needs the connection does, and waits for it."},
    {"close", client_close, METH_NOARGS,
     "close($self, /)\n--\n\nRelease what is held, end what waits, close. It takes two seconds at most."},
    {"_describe", client_describe, METH_NOARGS, "_describe($self, /)\n--\n\n"},
    {"_dispatch", py_client_dispatch, METH_NOARGS,
     "_dispatch($self, /)\n--\n\nRun what is due. [(number, lost, token, code, text)]"},
    {"_fd", py_client_fd, METH_NOARGS, "_fd($self, /)\n--\n\nReadable while something is due."},
    {"_inspect", py_inspect, METH_VARARGS, "_inspect($self, name, /)\n--\n\n"},
    {"_break", py_break, METH_VARARGS, "_break($self, name, token, now, /)\n--\n\n"},
    {"_value_set_as", py_value_set_as, METH_VARARGS, "_value_set_as($self, name, token, bytes, /)\n--\n\n"},
    {"_value_read", py_value_read, METH_VARARGS, "_value_read($self, name, /)\n--\n\n"},
    {"_examine", py_examine, METH_NOARGS, "_examine($self, /)\n--\n\n"},
    {0},
};

static PyGetSetDef attributes[] = {
    {"closed", client_closed, NULL, "Whether close() was called.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Client(url, lease, label, max_hold, connect, flags, log, /)\n--\n\n"},
    {Py_tp_init, client_init},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0},
};

static PyType_Spec spec = {
    .name = "pawl._pawl.Client",
    .basicsize = sizeof(struct py_client),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

int py_client_init(PyObject *module) {
    py_client_type = py_add_type(module, &spec, NULL);
    return py_client_type ? 0 : -1;
}
