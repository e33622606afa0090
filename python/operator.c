/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.c - what operators ask of a client: who holds and who waits, break a hold, examine the server. What the library shows in a
 * callback is copied there, and becomes Python's when the call is over.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

/* ---- Strings that were shown ----------------------------------------------------------------------------------------------- */

/* Entries of a fixed size, each with some strings behind it. */
struct shown {
    struct shown *next;
    union {
        struct pawl_entry entry;
        struct pawl_finding finding;
    } as;
    char text[];
};

struct list {
    struct shown *first, **last;
};

static struct shown *append(struct list *list, size_t text_size) {
    struct shown *shown = calloc(1, sizeof *shown + text_size);

    if (!shown)
        return NULL;
    *list->last = shown;
    list->last = &shown->next;
    return shown;
}

/* Copy a string to where the last one ended. */
static const char *copy(char **to, const char *text) {
    char *start = *to;

    *to = stpcpy(start, text) + 1;
    return start;
}

static int note_entry(const struct pawl_entry *entry, void *data) {
    size_t size = strlen(entry->name) + strlen(entry->host) + strlen(entry->command) + strlen(entry->label) + strlen(entry->raw) +
                  5;
    struct shown *shown = append(data, size);
    char *to;

    if (!shown)
        return PAWL_ENOMEM;
    to = shown->text;
    shown->as.entry = *entry;
    shown->as.entry.name = copy(&to, entry->name);
    shown->as.entry.host = copy(&to, entry->host);
    shown->as.entry.command = copy(&to, entry->command);
    shown->as.entry.label = copy(&to, entry->label);
    shown->as.entry.raw = copy(&to, entry->raw);
    shown->as.entry.agent = shown->as.entry.around = shown->as.entry.claim = ""; /* Python is not told */
    return 0;
}

static int note_finding(const struct pawl_finding *finding, void *data) {
    struct shown *shown = append(data, strlen(finding->what) + strlen(finding->advice) + 2);
    char *to;

    if (!shown)
        return PAWL_ENOMEM;
    to = shown->text;
    shown->as.finding.severity = finding->severity;
    shown->as.finding.what = copy(&to, finding->what);
    shown->as.finding.advice = copy(&to, finding->advice);
    return 0;
}

/* ---- To Python ------------------------------------------------------------------------------------------------------------- */

/* Bytes of others need not be UTF-8. */
static PyObject *text_of(const char *text) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *tuple_of(const struct pawl_entry *entry) {
    return Py_BuildValue("(NiiIIIIKNLNNLLN)", text_of(entry->name), (int)entry->kind, (int)entry->mode, entry->flags,
                         entry->position, entry->permits, entry->limit, (unsigned long long)entry->token, text_of(entry->host),
                         (long long)entry->pid, text_of(entry->command), text_of(entry->label), (long long)entry->since_ms,
                         (long long)entry->remaining_ms, text_of(entry->raw));
}

static PyObject *entry_tuple(const struct shown *shown) {
    return tuple_of(&shown->as.entry);
}

struct py_entry {
    struct shown shown;
};

struct py_entry *py_entry_copy(const struct pawl_entry *entry) {
    struct list list = {.last = &list.first};

    return note_entry(entry, &list) == 0 ? (struct py_entry *)list.first : NULL;
}

PyObject *py_entry_tuple(const struct py_entry *entry) {
    return entry_tuple(&entry->shown);
}

static PyObject *finding_tuple(const struct shown *shown) {
    const struct pawl_finding *finding = &shown->as.finding;

    return Py_BuildValue("(iNN)", (int)finding->severity, text_of(finding->what), text_of(finding->advice));
}

/* Frees what was shown. `rc` and `error` are those of the call. */
static PyObject *finish(struct list *list, PyObject *(*tuple)(const struct shown *), int rc, struct pawl_error *error) {
    PyObject *result = NULL, *item;
    struct shown *shown;

    if (rc == 0)
        result = PyList_New(0);
    else if (rc == PAWL_ENOMEM)
        PyErr_NoMemory();
    else
        py_raise(error);
    while ((shown = list->first)) {
        item = result ? tuple(shown) : NULL;
        if (result && (!item || PyList_Append(result, item) < 0))
            Py_CLEAR(result);
        Py_XDECREF(item);
        list->first = shown->next;
        free(shown);
    }
    return result;
}

PyObject *py_inspect(PyObject *self, PyObject *args) {
    struct py_client *client = (struct py_client *)self;
    struct list list = {.last = &list.first};
    struct pawl_error error;
    struct pawl *pawl;
    const char *name;
    int rc;

    if (!PyArg_ParseTuple(args, "z:inspect", &name))
        return NULL;
    pawl = py_client_enter(client);
    if (!pawl)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_inspect(pawl, name, note_entry, &list, &error);
    Py_END_ALLOW_THREADS;
    py_client_leave(client);
    return finish(&list, entry_tuple, rc, &error);
}

PyObject *py_examine(PyObject *self, PyObject *unused) {
    struct py_client *client = (struct py_client *)self;
    struct pawl *pawl = py_client_enter(client);
    struct list list = {.last = &list.first};
    struct pawl_error error;
    int rc;

    (void)unused;
    if (!pawl)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_examine(pawl, note_finding, &list, &error);
    Py_END_ALLOW_THREADS;
    py_client_leave(client);
    return finish(&list, finding_tuple, rc, &error);
}

PyObject *py_break(PyObject *self, PyObject *args) {
    struct py_client *client = (struct py_client *)self;
    unsigned long long token;
    struct pawl_error error;
    struct pawl *pawl;
    const char *name;
    int now, rc;

    if (!PyArg_ParseTuple(args, "sKp:break_", &name, &token, &now))
        return NULL;
    pawl = py_client_enter(client);
    if (!pawl)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = pawl_break(pawl, name, token, now ? PAWL_BREAK_NOW : 0, &error);
    Py_END_ALLOW_THREADS;
    py_client_leave(client);
    if (rc < 0)
        return py_raise(&error);
    Py_RETURN_NONE;
}
