/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - see crew.h.
 */
#include "engine/crew.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "os/bell.h"
#include "os/descriptor.h"
#include "base/error.h"

#define NS_PER_S INT64_C(1000000000)

static const struct pawl__member_ops *ops_of(const struct pawl__engine *member) {
    return member->impl->member;
}

/* ---- Opening and closing -------------------------------------------------------------------------------------------------- */

int pawl__crew_init(struct pawl__crew *crew, struct pawl_error *reterr) {
    pthread_mutex_init(&crew->turn, NULL);
    crew->spin = (struct spin){0};
    crew->count = 0;
    crew->wake_fd = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    crew->lead_fd = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    crew->timer_fd = above_stdio(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    if (crew->wake_fd < 0 || crew->lead_fd < 0 || crew->timer_fd < 0)
        return pawl__fail_errno(reterr, "cannot create an eventfd");
    return 0;
}

static void note_with_place(void *data, const struct pawl__claim *claim, const char *text) {
    const struct pawl__crew_place *place = data;

    pawl__note(place->front, claim, "%s: %s", place->name, text);
}

int pawl__crew_add(struct pawl__crew *crew, const struct pawl__engine_impl *impl, const struct pawl__setup *setup,
                   struct pawl__crew_place place, pawl__tell_fn *tell, pawl__waits_fn *waits, struct pawl_error *reterr) {
    struct pawl__engine *member = calloc(1, impl->engine_size), *front = place.front;
    int rc;

    if (!member)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    member->impl = impl;
    member->tell = tell;
    member->waits = waits;
    member->core = front;
    atomic_init(&member->link, PAWL_ECONNLOST); /* until it says otherwise */
    crew->places[crew->count] = place;
    member->note = front->note ? note_with_place : NULL;
    member->note_data = &crew->places[crew->count];
    member->warn = front->warn;
    member->warn_data = front->warn_data;
    rc = impl->open(member, setup, reterr);
    if (rc < 0) {
        free(member);
        return rc;
    }
    crew->members[crew->count++] = member;
    return 0;
}

static void close_descriptors(const struct pawl__crew *crew) {
    const int fds[] = {crew->wake_fd, crew->lead_fd, crew->timer_fd};

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

void pawl__crew_close(struct pawl__crew *crew, int64_t deadline) {
    for (unsigned i = 0; i < crew->count; i++) {
        crew->members[i]->impl->close(crew->members[i], deadline);
        free(crew->members[i]);
    }
    crew->count = 0;
    close_descriptors(crew);
    pthread_mutex_destroy(&crew->turn);
}

void pawl__crew_forked(struct pawl__crew *crew) {
    for (unsigned i = 0; i < crew->count; i++)
        crew->members[i]->impl->forked(crew->members[i]);
    close_descriptors(crew);
}

/* ---- Sleeping ------------------------------------------------------------------------------------------------------------- */

void pawl__crew_wake(struct pawl__crew *crew) {
    bell_ring(crew->wake_fd);
}

void pawl__crew_rouse(struct pawl__crew *crew) {
    bell_ring(crew->lead_fd);
}

void pawl__crew_alarm(struct pawl__crew *crew, int64_t when) {
    struct itimerspec at = {.it_value = {.tv_sec = when / NS_PER_S, .tv_nsec = when % NS_PER_S}};

    timerfd_settime(crew->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* ---- The service thread --------------------------------------------------------------------------------------------------- */

enum { AT_WAKE, AT_TIMER, AT_MEMBERS };

void pawl__crew_serve(struct pawl__crew *crew, int64_t until, uint32_t answers) {
    struct pollfd fds[AT_MEMBERS + 2 * PAWL__CREW_MOST];
    struct pollfd *own = fds + AT_MEMBERS, *answered = own + crew->count;
    int64_t since, now;

    fds[AT_WAKE] = (struct pollfd){.fd = crew->wake_fd, .events = POLLIN};
    fds[AT_TIMER] = (struct pollfd){.fd = crew->timer_fd, .events = POLLIN};
    for (unsigned i = 0; i < crew->count; i++) {
        struct pawl__engine *member = crew->members[i];
        int64_t due = ops_of(member)->due(member);

        until = due < until ? due : until;
        own[i] = (struct pollfd){.fd = ops_of(member)->descriptor(member), .events = POLLIN};
        answered[i] = (struct pollfd){.fd = answers >> i & 1 ? ops_of(member)->answers(member, &since) : -1, .events = POLLIN};
    }
    pawl__sleep(fds, AT_MEMBERS + 2 * crew->count, until, NULL);
    if (fds[AT_WAKE].revents)
        bell_silence(crew->wake_fd);
    if (fds[AT_TIMER].revents)
        bell_silence(crew->timer_fd);
    now = pawl__boottime();
    pthread_mutex_lock(&crew->turn);
    for (unsigned i = 0; i < crew->count; i++) {
        struct pawl__engine *member = crew->members[i];

        if (answered[i].revents)
            ops_of(member)->take(member);
        if (own[i].revents || ops_of(member)->due(member) <= now)
            member->impl->serve(member, now);
    }
    pthread_mutex_unlock(&crew->turn);
}

/* ---- A caller ------------------------------------------------------------------------------------------------------------- */

void pawl__crew_lead(struct pawl__crew *crew, int64_t until, bool eager) {
    struct pollfd fds[1 + PAWL__CREW_MOST];
    int64_t since;
    bool any = false;

    fds[0] = (struct pollfd){.fd = crew->lead_fd, .events = POLLIN};
    for (unsigned i = 0; i < crew->count; i++) {
        int fd = ops_of(crew->members[i])->answers(crew->members[i], &since);

        fds[1 + i] = (struct pollfd){.fd = fd, .events = POLLIN}; /* also of one that owes nothing: it may be asked meanwhile */
    }
    pawl__sleep(fds, 1 + crew->count, until, eager ? &crew->spin : NULL);
    if (fds[0].revents)
        bell_silence(crew->lead_fd);
    for (unsigned i = 0; i < crew->count; i++)
        any |= fds[1 + i].revents != 0;
    if (!any)
        return;
    pthread_mutex_lock(&crew->turn);
    for (unsigned i = 0; i < crew->count; i++)
        if (fds[1 + i].revents)
            ops_of(crew->members[i])->take(crew->members[i]);
    pthread_mutex_unlock(&crew->turn);
}

bool pawl__crew_owes(struct pawl__crew *crew, unsigned member, int64_t then) {
    struct pawl__engine *engine = crew->members[member];
    int64_t since;
    struct pollfd answer = {.fd = ops_of(engine)->answers(engine, &since), .events = POLLIN};

    return since < then && poll(&answer, 1, 0) == 0;
}

int64_t pawl__crew_oldest(struct pawl__crew *crew, int64_t then, uint32_t *retset) {
    int64_t oldest = PAWL__NEVER, since;

    *retset = 0;
    for (unsigned i = 0; i < crew->count; i++) {
        ops_of(crew->members[i])->answers(crew->members[i], &since);
        if (since < then)
            *retset |= UINT32_C(1) << i;
        else if (since < oldest)
            oldest = since;
    }
    return oldest;
}
