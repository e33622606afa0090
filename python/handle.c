/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.c - the handle that a _pawl.Lock has, and who holds through it.
 *
 * The library knows who holds. What is counted here beside it (`holders`) is for the cases in which it cannot be asked: a lock that is
 * dropped while it is held, by any thread; and a child, where the holds are the parent's.
 */
#include "module.h"

#include <stdlib.h>

/* ---- Who holds ------------------------------------------------------------------------------------------------------------- */

static unsigned long holder_number(const struct py_lock *lock) {
    return lock->flags & PAWL_TASK ? 0 : PyThread_get_thread_ident();
}

struct py_holder *py_lock_holder(const struct py_lock *lock) {
    unsigned long number = holder_number(lock);

    for (unsigned i = 0; i < lock->holders.length; i++)
        if (lock->holders.list[i].thread == number)
            return &lock->holders.list[i];
    return NULL;
}

int py_lock_note_hold(struct py_lock *lock) {
    struct py_holders *holders = &lock->holders;
    struct py_holder *holder = py_lock_holder(lock);

    if (holder) {
        holder->count++;
        return 0;
    }
    if (holders->length == holders->room) {
        unsigned room = holders->room ? 2 * holders->room : 1;
        struct py_holder *list = realloc(holders->list, room * sizeof *list);

        if (!list) {
            PyErr_NoMemory();
            return -1;
        }
        holders->list = list;
        holders->room = room;
    }
    holders->list[holders->length++] = (struct py_holder){.thread = holder_number(lock), .count = 1};
    return 0;
}

void py_lock_note_release(struct py_lock *lock) {
    struct py_holder *holder = py_lock_holder(lock);

    if (holder && --holder->count == 0)
        *holder = lock->holders.list[--lock->holders.length];
}

/* ---- The handle ------------------------------------------------------------------------------------------------------------ */

enum pawl_kind py_kind_of(int kind) {
    return kind == PAWL_RWLOCK ? PAWL_RWLOCK : kind == PAWL_SEMAPHORE ? PAWL_SEMAPHORE : PAWL_MUTEX;
}

enum pawl_mode py_mode_of(int mode) {
    return mode == PAWL_SHARED ? PAWL_SHARED : mode == PAWL_PERMITS ? PAWL_PERMITS : PAWL_EXCLUSIVE;
}

int py_new_handle(struct pawl *pawl, const struct py_kind *kind, unsigned flags, struct pawl_lock **ret, struct pawl_error *error) {
    switch (kind->kind) {
    case PAWL_RWLOCK:
        return pawl_rwlock_new(pawl, kind->name, flags, ret, error);
    case PAWL_SEMAPHORE:
        return pawl_semaphore_new(pawl, kind->name, kind->limit, flags, ret, error);
    case PAWL_MUTEX:
        break;
    }
    return pawl_mutex_new(pawl, kind->name, flags, ret, error);
}

static int set_up_handle(struct py_lock *lock, struct pawl *pawl) {
    struct py_kind kind = {lock->kind, lock->name, lock->limit};
    struct pawl_lock *handle = NULL;
    struct pawl_error error;
    int rc = py_new_handle(pawl, &kind, lock->flags, &handle, &error);

    if (rc == 0 && lock->max_hold_ms)
        rc = pawl_set_max_hold(handle, lock->max_hold_ms, &error);
    if (rc == 0 && lock->keep_ms >= 0)
        rc = pawl_set_keep(handle, lock->keep_ms, &error);
    if (rc == 0 && lock->label)
        rc = pawl_set_label(handle, lock->label, &error);
    if (rc == 0 && lock->loss)
        rc = pawl_on_loss(handle, py_loss_note, (void *)(uintptr_t)lock->loss, &error);
    if (rc < 0) {
        pawl_lock_free(handle); /* it holds nothing: nothing is waited for */
        py_raise(&error);
        return -1;
    }
    lock->handle = handle;
    lock->generation = py_generation;
    return 0;
}

void py_lock_free_handle(struct py_lock *lock) {
    struct pawl_lock *handle = lock->handle;

    lock->handle = NULL;
    lock->holders.length = 0;
    Py_BEGIN_ALLOW_THREADS;
    pawl_lock_free(handle);
    Py_END_ALLOW_THREADS;
}

static int make_handle(struct py_lock *lock) {
    struct pawl *pawl;
    int rc = 0;

    if (lock->handle && py_lock_holder(lock))
        return 0; /* the parent's hold */
    if (lock->handle)
        py_lock_free_handle(lock);
    pawl = py_client_enter(lock->client);
    if (!pawl)
        return -1;
    if (!lock->handle) /* another thread may have made it while this one waited for the client */
        rc = set_up_handle(lock, pawl);
    py_client_leave(lock->client);
    return rc;
}

int py_lock_ready(struct py_lock *lock) {
    if (lock && lock->handle && lock->generation == py_generation)
        return 0;
    if (lock && lock->client)
        return make_handle(lock);
    PyErr_SetString(PyExc_RuntimeError, "the lock was not initialized: its class has to call super().__init__()");
    return -1;
}
