/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c - several locks taken as one: pawl_acquire_all() for parts of Python's.
 */
#include "module.h"

#include <stdlib.h>

struct set {
    PyObject *parts; /* a tuple: it keeps them alive */
    size_t count;
    struct pawl_part *list;
};

static struct py_part *part_at(const struct set *set, size_t i) {
    return (struct py_part *)PyTuple_GetItem(set->parts, (Py_ssize_t)i);
}

static void set_free(struct set *set) {
    Py_XDECREF(set->parts);
    free(set->list);
}

static int set_of(PyObject *parts, struct set *ret) {
    struct set set = {.parts = PySequence_Tuple(parts)};

    if (!set.parts)
        return -1;
    set.count = (size_t)PyTuple_Size(set.parts);
    set.list = calloc(set.count ? set.count : 1, sizeof *set.list);
    if (!set.list) {
        PyErr_NoMemory();
        set_free(&set);
        return -1;
    }
    for (size_t i = 0; i < set.count; i++)
        if (!PyObject_TypeCheck((PyObject *)part_at(&set, i), py_part_type) || !part_at(&set, i)->home) {
            PyErr_Format(PyExc_TypeError, "all_of takes locks, sides of them and semaphores, not %R", part_at(&set, i));
            set_free(&set);
            return -1;
        }
    *ret = set;
    return 0;
}

static void release(const struct set *set, int *retrc, struct pawl_error *reterr) {
    Py_BEGIN_ALLOW_THREADS;
    *retrc = pawl_release_all(set->list, set->count, reterr);
    Py_END_ALLOW_THREADS;
}

/* All are held: note it. If that fails, or a handler of a signal has raised, none is. */
static int note_holds(const struct set *set) {
    size_t noted = 0;
    int rc;

    while (noted < set->count && !PyErr_Occurred() && py_lock_note_hold(part_at(set, noted)->home) == 0)
        noted++;
    if (!PyErr_Occurred())
        return 0;
    while (noted > 0)
        py_lock_note_release(part_at(set, --noted)->home);
    release(set, &rc, NULL);
    return -1;
}

/* A client that a signal handler closed has to be closed yet, and with it the acquire of all has failed. */
static int waited(const struct set *set, int rc, struct pawl_error *reterr) {
    bool closed = false;

    for (size_t i = 0; i < set->count; i++)
        closed |= part_at(set, i)->home->client->closed;
    if (closed && rc == 0)
        release(set, &(int){0}, NULL);
    for (size_t i = 0; i < set->count; i++)
        rc = py_client_waited(part_at(set, i)->home->client, rc, reterr);
    return rc;
}

/* How long to wait where nothing is said: as long as the least patient of them. */
static int64_t patience(const struct set *set) {
    int64_t least = PAWL_FOREVER;

    for (size_t i = 0; i < set->count; i++)
        if (part_at(set, i)->timeout_ms < least)
            least = part_at(set, i)->timeout_ms;
    return least;
}

/* True, or False: not in time. */
PyObject *py_acquire_all(PyObject *module, PyObject *args) {
    PyObject *parts, *timeout;
    struct pawl_error error;
    int64_t timeout_ms;
    struct set set;
    int rc = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO:acquire_all", &parts, &timeout) || py_milliseconds(timeout, PAWL_FOREVER, &timeout_ms) < 0 ||
        set_of(parts, &set) < 0)
        return NULL;
    if (timeout == Py_None)
        timeout_ms = patience(&set);
    for (size_t i = 0; i < set.count && rc == 0; i++) {
        rc = py_lock_ready(part_at(&set, i)->home);
        set.list[i] = (struct pawl_part){part_at(&set, i)->home->handle, part_at(&set, i)->mode, part_at(&set, i)->permits};
    }
    if (rc == 0) {
        Py_BEGIN_ALLOW_THREADS;
        rc = pawl_acquire_all(set.list, set.count, timeout_ms, &error);
        Py_END_ALLOW_THREADS;
        rc = waited(&set, rc, &error);
        if (rc == 0)
            rc = note_holds(&set);
        else if (PyErr_Occurred() || (rc != PAWL_EHELD && rc != PAWL_ETIMEOUT))
            py_raise(&error);
    }
    set_free(&set);
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(rc == 0);
}

PyObject *py_release_all(PyObject *module, PyObject *parts) {
    const struct py_part *unused = NULL; /* one that was never acquired, and has no handle */
    struct pawl_error error;
    struct set set;
    int rc;

    (void)module;
    if (set_of(parts, &set) < 0)
        return NULL;
    for (size_t i = 0; i < set.count; i++) {
        struct py_part *part = part_at(&set, i);

        set.list[i] = (struct pawl_part){part->home->handle, py_part_release_mode(part), part->permits};
        if (!part->home->handle)
            unused = part;
    }
    release(&set, &rc, &error);
    for (size_t i = 0; i < set.count; i++)
        py_lock_note_release(part_at(&set, i)->home);
    if (rc == PAWL_EINVAL && unused)
        py_raise_text(PAWL_ENOTHELD, "'%s' is not held", unused->home->name ? unused->home->name : "");
    else if (rc < 0)
        py_raise(&error);
    set_free(&set);
    if (rc < 0)
        return NULL;
    Py_RETURN_NONE;
}
