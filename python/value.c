/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - the value beside a lock, and _pawl.Observer, who is told when the holder or the value changes.
 *
 * The library tells an observer on a thread without the GIL. What it shows is copied there, and a note is taken (loss.c); a thread of
 * Python's reads the note and takes what was seen last. What came in between is passed over: an observer wants to know how it is now.
 */
#include "module.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values ---------------------------------------------------------------------------------------------------------------- */

/* (bytes, token, version, Unix time in milliseconds), or None. */
static PyObject *to_tuple(const struct pawl_value *value) {
    if (!value)
        Py_RETURN_NONE;
    return Py_BuildValue("(y#KKL)", value->bytes, (Py_ssize_t)value->size, (unsigned long long)value->token,
                         (unsigned long long)value->version, (long long)value->written_ms);
}

static PyObject *finish(int rc, const struct pawl_value *value, const struct pawl_error *error) {
    PyObject *tuple;

    if (rc < 0)
        return py_raise(error);
    tuple = to_tuple(value);
    pawl_value_free(value);
    return tuple;
}

PyObject *py_part_value_get(PyObject *self, PyObject *unused) {
    struct py_lock *lock = ((struct py_part *)self)->home;
    const struct pawl_value *value = NULL;
    struct pawl_error error;
    int rc;

    (void)unused;
    if (py_lock_ready(lock) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_value_get(lock->handle, &value, &error);
    Py_END_ALLOW_THREADS;
    return finish(rc, value, &error);
}

/* None is no value. Text is none either: it would have to be said which bytes it is. */
static int take_bytes(PyObject *data, const char **ret, Py_ssize_t *retsize) {
    *ret = NULL;
    *retsize = 0;
    return data == Py_None || PyArg_Parse(data, "y#:value", ret, retsize) ? 0 : -1;
}

PyObject *py_part_value_set(PyObject *self, PyObject *args) {
    struct py_lock *lock = ((struct py_part *)self)->home;
    struct pawl_error error;
    const char *bytes;
    PyObject *data;
    Py_ssize_t size;
    int rc;

    if (!PyArg_ParseTuple(args, "O:value", &data) || take_bytes(data, &bytes, &size) < 0 || py_lock_ready(lock) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_value_set(lock->handle, bytes, (size_t)size, &error);
    Py_END_ALLOW_THREADS;
    if (rc < 0)
        return py_raise(&error);
    Py_RETURN_NONE;
}

PyObject *py_value_read(PyObject *self, PyObject *args) {
    struct py_client *client = (struct py_client *)self;
    const struct pawl_value *value = NULL;
    struct pawl_error error;
    struct pawl *pawl;
    const char *name;
    int rc;

    if (!PyArg_ParseTuple(args, "s:value", &name) || !(pawl = py_client_enter(client)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_value_read(pawl, name, &value, &error);
    Py_END_ALLOW_THREADS;
    py_client_leave(client);
    return finish(rc, value, &error);
}

/* In the name of the hold with this token. */
PyObject *py_value_set_as(PyObject *self, PyObject *args) {
    struct py_client *client = (struct py_client *)self;
    const char *name, *bytes;
    unsigned long long token;
    struct pawl_error error;
    struct pawl *pawl;
    PyObject *data;
    Py_ssize_t size;
    int rc;

    if (!PyArg_ParseTuple(args, "sKO:value", &name, &token, &data) || take_bytes(data, &bytes, &size) < 0 ||
        !(pawl = py_client_enter(client)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_value_set_as(pawl, name, token, bytes, (size_t)size, &error);
    Py_END_ALLOW_THREADS;
    py_client_leave(client);
    if (rc < 0)
        return py_raise(&error);
    Py_RETURN_NONE;
}

/* ---- Observers ------------------------------------------------------------------------------------------------------------- */

/* What was seen at one moment. */
struct observation {
    struct py_entry *holder; /* NULL: nobody */
    struct pawl_value *value, *holders_value;
};

struct observer {
    PyObject_HEAD struct py_client *client;
    struct pawl_observer *handle; /* NULL: stopped */
    unsigned generation;
    uint64_t number;
    pthread_mutex_t mutex;
    struct observation *latest; /* NULL: it was taken */
};

static struct observer *observer_of(PyObject *self) {
    return (struct observer *)self;
}

static struct pawl_value *copy_value(const struct pawl_value *value) {
    struct pawl_value *copy = value ? malloc(sizeof *copy + value->size) : NULL;

    if (!copy)
        return NULL;
    *copy = *value;
    copy->bytes = memcpy(copy + 1, value->bytes, value->size);
    return copy;
}

static void observation_free(struct observation *observation) {
    if (!observation)
        return;
    free(observation->holder);
    free(observation->value);
    free(observation->holders_value);
    free(observation);
}

static struct observation *exchange(struct observer *observer, struct observation *observation) {
    struct observation *before;

    pthread_mutex_lock(&observer->mutex);
    before = observer->latest;
    observer->latest = observation;
    pthread_mutex_unlock(&observer->mutex);
    return before;
}

static void see(const struct pawl_observed *observed, void *data) {
    struct observer *observer = data;
    struct observation *observation = calloc(1, sizeof *observation);

    if (!observation)
        return;
    observation->holder = observed->holder ? py_entry_copy(observed->holder) : NULL;
    observation->value = copy_value(observed->value);
    observation->holders_value = copy_value(observed->holders_value);
    observation_free(exchange(observer, observation));
    py_loss_ring(observer->number);
}

static int observer_init(PyObject *self, PyObject *args, PyObject *unused) {
    struct observer *observer = observer_of(self);
    unsigned long long number;
    struct py_client *client;
    struct pawl_error error;
    struct pawl *pawl;
    const char *name;
    int rc;

    (void)unused;
    if (!PyArg_ParseTuple(args, "O!sK:Observer", py_client_type, &client, &name, &number))
        return -1;
    if (observer->client) {
        PyErr_SetString(PyExc_TypeError, "an observer is initialized once");
        return -1;
    }
    if (!(pawl = py_client_enter(client))) /* and stays until stop() */
        return -1;
    pthread_mutex_init(&observer->mutex, NULL);
    Py_INCREF(client);
    observer->client = client;
    observer->number = number;
    observer->generation = py_generation;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_observe(pawl, name, see, observer, &observer->handle, &error);
    Py_END_ALLOW_THREADS;
    if (rc == 0)
        return 0;
    py_client_leave(client);
    py_raise(&error);
    return -1;
}

/* In a child it is the parent's. */
static void stop(struct observer *observer) {
    struct pawl_observer *handle = observer->handle;

    observer->handle = NULL;
    if (!handle || observer->generation != py_generation)
        return;
    Py_BEGIN_ALLOW_THREADS;
    pawl_unobserve(handle);
    Py_END_ALLOW_THREADS;
    py_client_leave(observer->client);
}

static PyObject *observer_stop(PyObject *self, PyObject *unused) {
    (void)unused;
    stop(observer_of(self));
    Py_RETURN_NONE;
}

/* (holder, value, holders_value), or None: it was taken already. */
static PyObject *observer_take(PyObject *self, PyObject *unused) {
    struct observation *observation = exchange(observer_of(self), NULL);
    PyObject *holder = NULL, *tuple;

    (void)unused;
    if (!observation)
        Py_RETURN_NONE;
    if (observation->holder)
        holder = py_entry_tuple(observation->holder);
    else
        Py_INCREF(holder = Py_None);
    tuple = Py_BuildValue("(NNN)", holder, to_tuple(observation->value), to_tuple(observation->holders_value));
    observation_free(observation);
    return tuple;
}

/* No clear, as with locks. */
static int observer_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(observer_of(self)->client);
    return 0;
}

static void observer_dealloc(PyObject *self) {
    struct observer *observer = observer_of(self);

    PyObject_GC_UnTrack(self);
    stop(observer);
    if (observer->client)
        observation_free(observer->latest);
    Py_XDECREF(observer->client);
    py_free(self);
}

static PyMethodDef methods[] = {
    {"stop", observer_stop, METH_NOARGS, "stop($self, /)\n--\n\nNothing is told any more."},
    {"_take", observer_take, METH_NOARGS, "_take($self, /)\n--\n\n"},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Observer(client, name, number, /)\n--\n\n"},
    {Py_tp_init, observer_init},
    {Py_tp_dealloc, observer_dealloc},
    {Py_tp_traverse, observer_traverse},
    {Py_tp_methods, methods},
    {0},
};

static PyType_Spec spec = {
    .name = "pawl._pawl.Observer",
    .basicsize = sizeof(struct observer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int py_value_init(PyObject *module) {
    return py_add_type(module, &spec, NULL) ? 0 : -1;
}
