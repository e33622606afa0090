/* SPDX-License-Identifier: Apache-2.0
 *
 * clients.c - see clients.h. What is done to a client is written down before it is done: a client that is about to be killed counts as
 * dead from then on, so nothing that it could still do is held against the lock.
 */
#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../servers/clock.h"
#include "../servers/files.h"
#include "service.h"

enum { OBSERVER_MS = 20000 };

static void note(struct clients *clients, enum record_kind kind, int slot) {
    history_append(clients->history, history_now(clients->history), history_rig, kind, "%d.%u", slot, clients->list[slot].life);
}

static void note_exit(struct clients *clients, int slot, int status) {
    int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);

    history_append(clients->history, history_now(clients->history), history_rig, RECORD_EXIT, "%d.%u %d", slot,
                   clients->list[slot].life, code);
}

/* ---- Start and end -------------------------------------------------------------------------------------------------------- */

/* In the child: this program again, as a worker. It does not outlive the rig. */
static void become_worker(struct clients *clients, const char *what, int slot) {
    char role[96];
    const char *const arguments[] = {"pawl-torture", "--worker", role, NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(clients->page_fd, F_SETFD, 0);
    fcntl(clients->history->fd, F_SETFD, 0);
    if (slot >= 0 && clients->list[slot].clock != NULL)
        clock_lie(clients->shim, clients->list[slot].clock->fd);
    if (slot >= 0 && !network_enter(&clients->network, slot))
        _exit(EXIT_SYSTEM);
    snprintf(role, sizeof role, "%s,%d,%u,%d,%d", what, slot, slot >= 0 ? clients->list[slot].life : 0, clients->page_fd,
             clients->history->fd);
    execv("/proc/self/exe", (char *const *)arguments);
    _exit(EXIT_NOT_FOUND);
}

static void start(struct clients *clients, int slot) {
    struct client_process *client = &clients->list[slot];
    pid_t pid;

    client->life++;
    client->stopped = false;
    atomic_store(&clients->page->slots[slot].holds, 0);
    pid = fork();
    if (pid == 0)
        become_worker(clients, "client", slot);
    client->pid = pid > 0 ? pid : 0;
    atomic_store(&clients->page->slots[slot].life, client->life);
    atomic_store(&clients->page->slots[slot].pid, client->pid);
}

static void end(struct clients *clients, int slot) {
    struct client_process *client = &clients->list[slot];

    if (client->pid == 0)
        return;
    note(clients, RECORD_KILL, slot);
    kill(client->pid, SIGKILL);
    waitpid(client->pid, NULL, 0);
    note_exit(clients, slot, 0);
    client->pid = 0;
}

bool clients_open(struct clients *clients) {
    clients->list = calloc((size_t)clients->page->clients, sizeof *clients->list);
    if (clients->list == NULL)
        return false;
    for (int i = 0; clients->shim != NULL && i < clients->page->clients; i++) {
        clients->list[i].clock = clock_new();
        if (clients->list[i].clock == NULL)
            return false;
    }
    return true;
}

void clients_close(struct clients *clients) {
    for (int i = 0; clients->list != NULL && i < clients->page->clients; i++) {
        if (clients->list[i].pid > 0) {
            kill(clients->list[i].pid, SIGKILL);
            waitpid(clients->list[i].pid, NULL, 0);
        }
        clock_free(clients->list[i].clock);
    }
    if (clients->observer > 0) {
        kill(clients->observer, SIGKILL);
        waitpid(clients->observer, NULL, 0);
    }
    free(clients->list);
    clients->list = NULL;
}

void clients_start_all(struct clients *clients) {
    for (int i = 0; i < clients->page->clients; i++)
        if (clients->list[i].pid == 0)
            start(clients, i);
    if (clients->observer != 0)
        return;
    pid_t pid = fork();

    if (pid == 0)
        become_worker(clients, "observer", -1);
    clients->observer = pid > 0 ? pid : 0;
}

void clients_reap(struct clients *clients) {
    int status;

    for (int i = 0; i < clients->page->clients; i++)
        if (clients->list[i].pid > 0 && waitpid(clients->list[i].pid, &status, WNOHANG) == clients->list[i].pid) {
            note_exit(clients, i, status);
            clients->list[i].pid = 0;
            if (atomic_load(&clients->page->phase) == PHASE_RUN)
                start(clients, i);
        }
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

/* The target, or the next one after it that runs; for every second target, the next one that holds something, if any does. -1: none
 * runs. */
static int choose(const struct clients *clients, uint64_t target) {
    int count = clients->page->clients, first = -1;

    for (int i = 0; i < count; i++) {
        int slot = (int)((target / 2 + (uint64_t)i) % (uint64_t)count);

        if (clients->list[slot].pid == 0 || clients->list[slot].stopped)
            continue;
        if (target % 2 == 0 || atomic_load(&clients->page->slots[slot].holds) > 0)
            return slot;
        if (first < 0)
            first = slot;
    }
    return first;
}

unsigned clients_kill(struct clients *clients, uint64_t target) {
    int slot = choose(clients, target);

    if (slot < 0)
        return 0;
    end(clients, slot);
    start(clients, slot);
    return 1;
}

void clients_kill_all(struct clients *clients) {
    for (int i = 0; i < clients->page->clients; i++)
        end(clients, i);
    /* It is attached too, and what is done next wants nobody to be. */
    if (clients->observer > 0)
        kill(clients->observer, SIGTERM);
    for (int64_t deadline = deadline_in(OBSERVER_MS); clients->observer > 0; poll(NULL, 0, 1)) {
        if (poll_timeout(deadline) == 0)
            kill(clients->observer, SIGKILL);
        if (waitpid(clients->observer, NULL, WNOHANG) == clients->observer)
            clients->observer = 0;
    }
}

unsigned clients_stop(struct clients *clients, uint64_t target) {
    int slot = choose(clients, target);

    if (slot < 0)
        return 0;
    note(clients, RECORD_STOP, slot);
    clients->list[slot].stopped = kill(clients->list[slot].pid, SIGSTOP) == 0;
    return 0; /* counted when it goes on */
}

unsigned clients_continue(struct clients *clients) {
    unsigned hits = 0;

    for (int i = 0; i < clients->page->clients; i++)
        if (clients->list[i].stopped && clients->list[i].pid > 0) {
            hits += process_is_stopped(clients->list[i].pid);
            note(clients, RECORD_CONT, i);
            kill(clients->list[i].pid, SIGCONT);
            clients->list[i].stopped = false;
        }
    return hits;
}

uint32_t clients_cut_off(struct clients *clients, uint64_t target) {
    int slot = choose(clients, target);

    if (slot < 0 || !network_cut(&clients->network, slot))
        return 0;
    clients->cut_off = slot + 1;
    return network_address(slot);
}

bool clients_reconnect(struct clients *clients) {
    bool mended = clients->cut_off > 0 && network_mend(&clients->network, clients->cut_off - 1);

    clients->cut_off = 0;
    return mended;
}

void clients_distort(struct clients *clients, uint64_t target, bool fast) {
    clock_distort(clients->list[target % (uint64_t)clients->page->clients].clock, fast, target);
}

unsigned clients_straighten(struct clients *clients, uint64_t target) {
    return clock_straighten(clients->list[target % (uint64_t)clients->page->clients].clock, false);
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

static int count_running(const struct clients *clients) {
    int running = 0;

    for (int i = 0; i < clients->page->clients; i++)
        running += clients->list[i].pid > 0;
    return running;
}

bool clients_await_idle(struct clients *clients, int64_t patience_ms) {
    int64_t deadline = deadline_in(patience_ms);
    bool idle;

    clients_continue(clients);
    while (clients_reap(clients), idle = atomic_load(&clients->page->idle) >= count_running(clients),
           !idle && poll_timeout(deadline) > 0)
        poll(NULL, 0, 5);
    return idle;
}

void clients_await_end(struct clients *clients, int64_t patience_ms) {
    int64_t deadline = deadline_in(patience_ms);

    while (clients_reap(clients), count_running(clients) > 0 && poll_timeout(deadline) > 0)
        poll(NULL, 0, 5);
    for (int i = 0; i < clients->page->clients; i++)
        if (clients->list[i].pid > 0) {
            note(clients, RECORD_HUNG, i);
            end(clients, i);
        }
    if (clients->observer > 0)
        waitpid(clients->observer, NULL, 0);
    clients->observer = 0;
}
