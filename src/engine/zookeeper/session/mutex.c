/* SPDX-License-Identifier: Apache-2.0
 *
 * mutex.c - the one mutex; what waits for it to be free: requests and notes; and the bell that wakes the service thread.
 */
#include "engine/zookeeper/session/session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "os/bell.h"

pthread_mutex_t pawl__zk_mutex = PTHREAD_MUTEX_INITIALIZER;

void pawl__zk_lock(void) {
    pthread_mutex_lock(&pawl__zk_mutex);
}

/* The library writes each request's length and body by themselves, and the server wakes up for each. What is sent under one hold of the
 * mutex is kept back, and leaves together when the mutex is let go. */
void pawl__zk_cork(struct zk_session *session) {
    int fd = atomic_load(&session->fd), on = 1;

    if (session->corked || fd < 0)
        return;
    session->corked = setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0;
}

void pawl__zk_uncork(struct zk_session *session) {
    int fd = atomic_load(&session->fd), off = 0;

    if (session->corked && fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    session->corked = false;
}

void pawl__zk_ring(struct zk_session *session) {
    if (!atomic_exchange(&session->woken, true))
        bell_ring(session->event_fd);
}

void pawl__zk_unlock(struct zk_session *session) {
    struct kit_notes notes;

    pawl__zk_uncork(session);
    notes = pawl__kit_notes_take(&session->notes);
    pthread_mutex_unlock(&pawl__zk_mutex);
    pawl__kit_notes_tell(session->engine, notes);
}

void pawl__zk_say(struct zk_session *session, const struct pawl__claim *about, const char *format, ...) {
    va_list args;

    if (!pawl__noting(session->engine))
        return;
    va_start(args, format);
    pawl__kit_notes_add(&session->notes, KIT_NOTE, about ? about->name : NULL, format, args);
    va_end(args);
}

void pawl__zk_warn(struct zk_session *session, const char *format, ...) {
    va_list args;

    if (!session->engine->warn)
        return;
    va_start(args, format);
    pawl__kit_notes_add(&session->notes, KIT_WARNING, NULL, format, args);
    va_end(args);
}

char *pawl__zk_text(const char *format, ...) {
    char *text = NULL;
    va_list args;
    int length;

    va_start(args, format);
    length = vasprintf(&text, format, args);
    va_end(args);
    return length < 0 ? NULL : text;
}
