/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.c - notes of holds that were lost, and of what the library has to log. Threads of the library's write them and ring; a thread of
 * Python's, which is there only if a program asked to be told, waits in losses() and reads them. A note has the number of its lock or
 * client, not the object: that may be gone by then.
 */
#include "module.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct note {
    struct note *next;
    uint64_t number, token;
    int code; /* of a loss, below 0; else a level of the log */
    char text[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct note *first, **last = &first;
static int bell = -1;
static bool stopped;

/* With the mutex. Without a bell the notes wait for the one who makes it. */
static void ring(void) {
    if (bell >= 0)
        (void)!eventfd_write(bell, 1);
}

static void take_note(uint64_t number, uint64_t token, int code, const char *text) {
    size_t size = strlen(text) + 1;
    struct note *note = malloc(sizeof *note + size);

    if (!note)
        return; /* of a loss, state and remaining still tell */
    *note = (struct note){.number = number, .token = token, .code = code};
    memcpy(note->text, text, size);
    pthread_mutex_lock(&mutex);
    *last = note;
    last = &note->next;
    ring();
    pthread_mutex_unlock(&mutex);
}

void py_loss_note(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lock;
    if (state == PAWL_LOST)
        take_note((uintptr_t)data, token, why->code, why->text);
}

void py_log_note(enum pawl_log_level level, const char *text, void *data) {
    take_note((uintptr_t)data, 0, (int)level, text);
}

void py_loss_ring(uint64_t number) {
    take_note(number, 0, 0, "");
}

/* A note for who wants to know that all before it were read. */
PyObject *py_losses_mark(PyObject *module, PyObject *number) {
    unsigned long long value = PyLong_AsUnsignedLongLong(number);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    py_loss_ring(value);
    Py_RETURN_NONE;
}

static struct note *take_all(bool *retstopped) {
    struct note *notes;
    eventfd_t count;

    pthread_mutex_lock(&mutex);
    if (bell < 0)
        bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    else
        (void)!eventfd_read(bell, &count);
    notes = first;
    first = NULL;
    last = &first;
    *retstopped = stopped;
    pthread_mutex_unlock(&mutex);
    return notes;
}

static PyObject *to_list(struct note *note) {
    PyObject *list = PyList_New(0), *item;
    struct note *next;

    for (; note; note = next) {
        item = list ? Py_BuildValue("(KKis)", (unsigned long long)note->number, (unsigned long long)note->token, note->code,
                                    note->text)
                    : NULL;
        if (list && (!item || PyList_Append(list, item) < 0))
            Py_CLEAR(list);
        Py_XDECREF(item);
        next = note->next;
        free(note);
    }
    return list;
}

PyObject *py_losses(PyObject *module, PyObject *unused) {
    struct note *notes;
    bool end;

    (void)module, (void)unused;
    notes = take_all(&end);
    while (!notes && !end) {
        struct pollfd wait = {.fd = bell, .events = POLLIN};

        if (bell < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
        Py_BEGIN_ALLOW_THREADS;
        poll(&wait, 1, -1);
        Py_END_ALLOW_THREADS;
        notes = take_all(&end);
    }
    return to_list(notes);
}

PyObject *py_losses_stop(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    pthread_mutex_lock(&mutex);
    stopped = true;
    ring();
    pthread_mutex_unlock(&mutex);
    Py_RETURN_NONE;
}

/* In the child: the notes and the bell are the parent's, and the mutex may be held by a thread that is not there. */
void py_loss_forked(void) {
    pthread_mutex_init(&mutex, NULL);
    first = NULL;
    last = &first;
    stopped = false;
    if (bell >= 0)
        close(bell);
    bell = -1;
}
