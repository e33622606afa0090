/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c - the module `pawl._pawl`: its functions, and what all its files need: errors, lengths of time, types, forks.
 */
#include "module.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

unsigned py_generation;

static void after_in_child(void) {
    py_generation++;
    py_loss_forked();
    py_ticket_forked();
}

/* ---- Errors ---------------------------------------------------------------------------------------------------------------- */

/* The classes are Python's own (pawl/_errors.py), which the package has loaded by now. */
PyObject *py_raise(const struct pawl_error *error) {
    PyObject *errors, *exception;

    if (PyErr_Occurred())
        return NULL;
    errors = PyImport_ImportModule("pawl._errors");
    if (!errors)
        return NULL;
    exception = PyObject_CallMethod(errors, "make", "is", error->code, error->text);
    Py_DECREF(errors);
    if (!exception)
        return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
    return NULL;
}

PyObject *py_raise_text(int code, const char *format, ...) {
    struct pawl_error error = {.code = code};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    return py_raise(&error);
}

/* ---- Lengths of time ------------------------------------------------------------------------------------------------------- */

int py_milliseconds(PyObject *seconds, int64_t forever, int64_t *ret) {
    double value;

    if (seconds == Py_None) {
        *ret = forever;
        return 0;
    }
    value = PyFloat_AsDouble(seconds);
    if (value == -1.0) {
        if (PyErr_Occurred())
            return -1;
        *ret = forever;
        return 0;
    }
    if (isnan(value) || value < 0) {
        PyErr_Format(PyExc_ValueError, "a length of time is a number of seconds, not %R", seconds);
        return -1;
    }
    if (value == 0 && forever == 0) { /* where 0 stands for no limit in pawl.h */
        PyErr_SetString(PyExc_ValueError, "a limit of 0 seconds is none: leave it out, or give more");
        return -1;
    }
    value = ceil(value * 1000);
    *ret = value < 9e18 ? (int64_t)value : PAWL_FOREVER;
    return 0;
}

int py_permits(PyObject *number, void *ret) {
    unsigned long value = PyLong_AsUnsignedLong(number);
    bool failed = PyErr_Occurred();

    if (failed && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return 0;
    PyErr_Clear();
    if (failed || value > PAWL_PERMITS_MAX) {
        py_raise_text(PAWL_EPERMITS, "so many permits are not possible: choose 1 to %u", PAWL_PERMITS_MAX);
        return 0;
    }
    *(unsigned *)ret = (unsigned)value;
    return 1;
}

/* ---- Types ----------------------------------------------------------------------------------------------------------------- */

PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base) {
    PyObject *bases = base ? PyTuple_Pack(1, base) : NULL; /* 3.9 takes a tuple only */
    PyObject *type = base && !bases ? NULL : PyType_FromSpecWithBases(spec, bases);

    Py_XDECREF(bases);
    if (!type)
        return NULL;
    if (PyModule_AddObject(module, strrchr(spec->name, '.') + 1, type) < 0) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

void py_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(self);
    Py_DECREF(type);
}

/* ---- The module ------------------------------------------------------------------------------------------------------------ */

static PyObject *engines(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyUnicode_FromString(pawl_engines());
}

static PyObject *version(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyUnicode_FromString(pawl_version());
}

/* {number: (name, meaning)} of all codes. */
static PyObject *codes(PyObject *module, PyObject *unused) {
    static const int all[] = {
#define NUMBER(name, number, text) PAWL_##name,
        PAWL_ERRORS(NUMBER)
#undef NUMBER
    };
    PyObject *dict = PyDict_New(), *key, *value;
    bool failed = !dict;

    (void)module, (void)unused;
    for (size_t i = 0; i < sizeof all / sizeof *all && !failed; i++) {
        key = PyLong_FromLong(all[i]);
        value = Py_BuildValue("(ss)", pawl_error_name(all[i]), pawl_error_text(all[i]));
        failed = !key || !value || PyDict_SetItem(dict, key, value) < 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    if (failed)
        Py_CLEAR(dict);
    return dict;
}

/* Clients, and the notes of losses, are the process's: another interpreter would close them at its end, and be told of others' losses. */
static PyObject *is_main(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyBool_FromLong(PyInterpreterState_GetID(PyInterpreterState_Get()) == 0);
}

static PyMethodDef functions[] = {
    {"acquire_all", py_acquire_all, METH_VARARGS, "acquire_all(parts, timeout, /)\n--\n\n"},
    {"close_all", py_close_all, METH_NOARGS, "close_all()\n--\n\nClose every client of the process."},
    {"codes", codes, METH_NOARGS, "codes()\n--\n\nEvery error code of pawl.h, its name and its meaning."},
    {"engines", engines, METH_NOARGS, "engines()\n--\n\n"},
    {"is_main", is_main, METH_NOARGS, "is_main()\n--\n\nIs this the main interpreter of the process?"},
    {"losses", py_losses, METH_NOARGS, "losses()\n--\n\nWait for notes of losses. An empty list: losses_stop() was called."},
    {"losses_mark", py_losses_mark, METH_O,
     "losses_mark(number, /)\n--\n\nHave losses() return a note with this number, after all before it."},
    {"losses_stop", py_losses_stop, METH_NOARGS, "losses_stop()\n--\n\n"},
    {"release_all", py_release_all, METH_O, "release_all(parts, /)\n--\n\n"},
    {"version", version, METH_NOARGS, "version()\n--\n\n"},
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,  .m_name = "_pawl", .m_doc = "What the package pawl is made of. Import pawl instead.",
    .m_size = -1, /* one for the process: clients are the process's, too */
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__pawl(void); /* Python calls it by its name */

PyMODINIT_FUNC PyInit__pawl(void) {
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return NULL;
    if (py_client_init(module) < 0 || py_lock_init(module) < 0 || py_ticket_init(module) < 0 || py_value_init(module) < 0 ||
        pthread_atfork(NULL, NULL, after_in_child) != 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
