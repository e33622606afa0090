/* SPDX-License-Identifier: Apache-2.0
 *
 * nemesis.c - see nemesis.h.
 *
 *     set up: directory, page, history, servers, proxies
 *     run:    strokes begin and end as the schedule says; who was killed is started again; a live line
 *     finish: all is healed; clients end what they began, and are idle: what litters the servers now is a leak
 *     leave:  clients close; the rig takes every lock once; what is still there is residue
 *
 * The rig ends what it started, also after a failure.
 */
#include "nemesis.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clients.h"
#include "ending.h"
#include "oracle.h"
#include "progress.h"

/* A fault that has not taken effect as often as was asked gets more time, up to so many times what was given. */
enum {
    FINISH_MS = 5000,
    KILLS_AT_ONCE = 8,
    OVERTIME = 3,
    SETS = 5,
    VALUES = 20,
    NOTES = 25,
    BY_TOKEN = 15,
    EXTEND = 10,
    LIMIT_MS = 50
};

struct active {
    bool used;
    size_t number; /* of the record */
    struct stroke stroke;
    unsigned hits;
    int64_t ends_ms;
};

struct rig {
    const struct rig_options *options;
    struct oracle oracle;
    struct servers servers;
    struct clients clients;
    struct history history;
    struct page *page;
    struct schedule schedule;
    size_t next[LANES], strokes;
    struct active active[LANES]; /* one in each lane at most */
    uint64_t hits, took_effect[FAULT_KINDS];
    int64_t began_ms;
    bool calm; /* nothing begins any more */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    interrupted = number;
}

/* ---- Strokes -------------------------------------------------------------------------------------------------------------- */

static void note(struct rig *rig, enum record_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void note(struct rig *rig, enum record_kind kind, const char *format, ...) {
    char text[HISTORY_LINE / 2];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!history_append(&rig->history, history_now(&rig->history), history_rig, kind, "%s", text)) {
        say("cannot write %s: %s", rig->options->history, strerror(errno));
        interrupted = SIGTERM;
    }
}

static unsigned begin_fault(struct rig *rig, const struct stroke *stroke) {
    switch (stroke->fault) {
    case FAULT_CLIENT_KILL:
        return clients_kill(&rig->clients, stroke->target);
    case FAULT_CLIENT_STOP:
        return clients_stop(&rig->clients, stroke->target);
    case FAULT_CLIENT_CLOCK:
    case FAULT_CLIENT_FAST:
        clients_distort(&rig->clients, stroke->target, stroke->fault == FAULT_CLIENT_FAST);
        return 0;
    case FAULT_PARTITION_CLIENT: {
        uint32_t address = clients_cut_off(&rig->clients, stroke->target);

        return address != 0 ? service_count_from(&rig->servers, address) : 0;
    }
    case FAULT_BREAK_NOW:
        atomic_store(&rig->page->breaks.wanted, atomic_load(&rig->page->breaks.done) + 1);
        return 0;
    case FAULT_CORRUPTION: {
        unsigned hits;

        clients_kill_all(&rig->clients);
        hits = service_begin(rig->options->service, &rig->servers, stroke, rig->options->schedule.lease_ms);
        clients_start_all(&rig->clients);
        return hits;
    }
    default:
        return service_begin(rig->options->service, &rig->servers, stroke, rig->options->schedule.lease_ms);
    }
}

static unsigned heal_fault(struct rig *rig, const struct active *active) {
    switch (active->stroke.fault) {
    case FAULT_CLIENT_KILL:
    case FAULT_CORRUPTION:
        return 0;
    case FAULT_CLIENT_STOP:
        return clients_continue(&rig->clients);
    case FAULT_CLIENT_CLOCK:
    case FAULT_CLIENT_FAST:
        return clients_straighten(&rig->clients, active->stroke.target);
    case FAULT_PARTITION_CLIENT:
        if (!clients_reconnect(&rig->clients))
            say("a client that was cut off could not be connected again");
        return 0;
    case FAULT_BREAK_NOW: {
        /* The observer does it as soon as it sees a holder; a moment is enough where locks are in use all the time. */
        int64_t deadline = deadline_in(5000);

        while (atomic_load(&rig->page->breaks.done) < atomic_load(&rig->page->breaks.wanted) && poll_timeout(deadline) > 0)
            poll(NULL, 0, 5);
        /* What has not come about by now is not to come when nobody expects it any more. */
        uint64_t done = atomic_load(&rig->page->breaks.done);

        return done >= atomic_exchange(&rig->page->breaks.wanted, done);
    }
    default:
        return service_heal(rig->options->service, &rig->servers, &active->stroke);
    }
}

static void heal(struct rig *rig, struct active *active) {
    active->hits += heal_fault(rig, active);
    active->used = false;
    rig->hits += active->hits > 0;
    rig->took_effect[active->stroke.fault] += active->hits > 0;
    note(rig, RECORD_HEALED, "%zu %u", active->number, active->hits);
}

static void begin(struct rig *rig, struct active *active, const struct stroke *stroke) {
    *active = (struct active){.used = true, .number = rig->strokes++, .stroke = *stroke, .ends_ms = now_ms() + stroke->span_ms};
    note(rig, RECORD_FAULT, "%zu %s %" PRIu64, active->number, fault_classes[stroke->fault].word, stroke->target);
    active->hits = begin_fault(rig, stroke);
    if (stroke->span_ms == 0 || stroke->fault == FAULT_CLIENT_KILL)
        heal(rig, active);
}

/* The next stroke of a lane; NULL: there is none. */
static const struct stroke *upcoming(struct rig *rig, int lane) {
    while (rig->next[lane] < rig->schedule.count && (int)fault_classes[rig->schedule.strokes[rig->next[lane]].fault].lane != lane)
        rig->next[lane]++;
    return rig->next[lane] < rig->schedule.count ? &rig->schedule.strokes[rig->next[lane]] : NULL;
}

/* Begin or end what is due in a lane. One fault ends before the next begins: a lane that is late, since a server took its time to come
 * back, stays late. Returns when to look again. */
static int64_t strike_lane(struct rig *rig, int lane) {
    struct active *active = &rig->active[lane];
    const struct stroke *stroke = upcoming(rig, lane);
    int most = lane == LANE_KILL ? KILLS_AT_ONCE : 1; /* a lane that can't keep up must not keep the others from their turn */

    if (active->used && active->ends_ms <= now_ms())
        heal(rig, active);
    while (most-- > 0 && !active->used && !rig->calm && stroke != NULL && rig->began_ms + stroke->at_ms <= now_ms()) {
        rig->next[lane]++;
        begin(rig, active, stroke);
        stroke = upcoming(rig, lane);
    }
    return active->used ? active->ends_ms : stroke != NULL && !rig->calm ? rig->began_ms + stroke->at_ms : INT64_MAX;
}

static int64_t strike(struct rig *rig) {
    int64_t next = now_ms() + 200;

    for (int lane = 0; lane < LANES; lane++) {
        int64_t due = strike_lane(rig, lane);

        next = due < next ? due : next;
    }
    return next;
}

/* ---- Set up --------------------------------------------------------------------------------------------------------------- */

/* How long a lock is kept that nobody holds, in ms. */
static long keep_of(const struct rig_options *options) {
    const char *option = options->url_options ? strstr(options->url_options, "keep=") : NULL;

    return option ? strtol(option + strlen("keep="), NULL, 10) : 0;
}

static bool set_up_page(struct rig *rig) {
    static const char *const names[] = {[PAWL_MUTEX] = "mutex", [PAWL_RWLOCK] = "rwlock", [PAWL_SEMAPHORE] = "semaphore"};
    const struct rig_options *options = rig->options;
    int fd = memfd_create("pawl-torture", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, sizeof *rig->page) < 0)
        return false;
    rig->page = mmap(NULL, sizeof *rig->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rig->page == MAP_FAILED)
        return false;
    rig->clients.page_fd = fd;
    rig->page->seed = options->schedule.seed;
    rig->page->lease_ms = options->schedule.lease_ms;
    rig->page->longest_ms = options->schedule.lease_ms > 0 ? options->schedule.lease_ms * 5 / 4 : 100;
    rig->page->hold_ms = options->hold_ms;
    rig->page->pause_ms = keep_of(options);
    rig->page->clients = options->clients;
    rig->page->threads = options->threads;
    rig->page->locks = options->locks;
    rig->page->sets = SETS;
    rig->page->values = VALUES;
    rig->page->notes = NOTES;
    rig->page->by_token = BY_TOKEN;
    rig->page->uses.extend = EXTEND;
    rig->page->uses.limit_ms = LIMIT_MS;
    for (int i = 0, kind = 0; i < options->locks; i++, kind++) {
        while (!options->kinds[kind % 3])
            kind++;
        rig->page->lock[i].kind = (enum pawl_kind)(kind % 3);
        rig->page->lock[i].limit = kind % 3 == PAWL_SEMAPHORE ? 3 : 1;
        snprintf(rig->page->lock[i].name, sizeof rig->page->lock[i].name, "torture-%s-%d", names[kind % 3], i);
    }
    return true;
}

/* How often a hold may be handed on inside a client: one thread hands on to nobody. */
static long handoffs_of(const struct rig_options *options) {
    const char *option = options->url_options ? strstr(options->url_options, "handoff=") : NULL;

    if (options->threads < 2)
        return 0;
    return option ? strtol(option + strlen("handoff="), NULL, 10) : PAWL_HANDOFFS;
}

/* The first records: what a checker must know. */
static void write_head(struct rig *rig, int64_t lease_ms) {
    static const char *const names[] = {[PAWL_MUTEX] = "mutex", [PAWL_RWLOCK] = "rwlock", [PAWL_SEMAPHORE] = "semaphore"};

    note(rig, RECORD_VERSION, "%d", HISTORY_VERSION);
    note(rig, RECORD_ENGINE, "%s", rig->options->engine);
    note(rig, RECORD_SEED, "%" PRIu64, rig->options->schedule.seed);
    note(rig, RECORD_LEASE, "%" PRId64, lease_ms == PAWL_FOREVER ? 0 : lease_ms * 1000000);
    note(rig, RECORD_HANDOFF, "%ld", handoffs_of(rig->options));
    if (rig->page->pause_ms > 0)
        note(rig, RECORD_KEEP, "%" PRId64, rig->page->pause_ms * 1000000);
    for (int i = 0; i < rig->page->locks; i++)
        note(rig, RECORD_LOCK, "%d %s %u", i, names[rig->page->lock[i].kind], rig->page->lock[i].limit);
    for (int i = 0; i < FAULT_KINDS; i++)
        if (rig->options->schedule.faults[i])
            note(rig, RECORD_ASKS, "%s %" PRIu64, fault_classes[i].word, rig->options->least);
}

/* Can the place be opened at all? What it says of itself goes into the history. */
static int examine_place(struct rig *rig, int64_t *ret_lease_ms) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = rig->page->lease_ms, .label = "torture"};
    struct pawl *pawl;
    struct pawl_info info;
    struct pawl_error error;

    if (pawl_open(rig->page->direct, &options, &pawl, &error) < 0)
        return library_error(&error);
    pawl_describe(pawl, &info);
    *ret_lease_ms = info.lease_ms;
    pawl_close(pawl);
    return 0;
}

/* The tests' own build puts the textbook's locks in the place of pawl's. */
#ifndef TORTURE_PREFIX
#define TORTURE_PREFIX ""
#endif

static void make_url(const struct rig *rig, bool proxied, char ret[RIG_URL]) {
    const char *more = rig->options->url_options != NULL && rig->options->url_options[0] != '\0' ? rig->options->url_options : NULL;
    char place[RIG_URL / 2];

    if (rig->options->service != NULL)
        rig->options->service->topology->url(&rig->servers, proxied, place, sizeof place);
    else
        snprintf(place, sizeof place, "%s", rig->options->url);
    snprintf(ret, RIG_URL, TORTURE_PREFIX "%s%s%s", place,
             more == NULL                 ? ""
             : strchr(place, '?') != NULL ? "&"
                                          : "?",
             more == NULL ? "" : more);
}

static int64_t wall_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int set_up(struct rig *rig) {
    const struct rig_options *options = rig->options;
    const bool *faults = options->schedule.faults;
    int64_t lease_ms = 0;

    rig->history.fd = open(options->history, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (rig->history.fd < 0) {
        say("cannot write the history %s: %s", options->history, strerror(errno));
        return EXIT_STORAGE;
    }
    if (!set_up_page(rig) || !schedule_make(&options->schedule, OVERTIME * options->schedule.time_ms, &rig->schedule)) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    if (faults[FAULT_PARTITION_CLIENT]) {
        if (!network_leave(&rig->clients.network) || !network_open(&rig->clients.network, options->clients)) {
            say("networks for the clients cannot be made: %s", strerror(errno));
            return EXIT_SYSTEM;
        }
        rig->servers.host = NETWORK_HOST;
    }
    rig->servers.shim = faults[FAULT_SERVER_CLOCK] || faults[FAULT_SERVER_FAST] ? options->shim : NULL;
    if (options->service != NULL && !service_start(options->service, &rig->servers, options->schedule.lease_ms)) {
        say("%s cannot be started: %s", options->service->word, rig->servers.why);
        return EXIT_UNREACHABLE;
    }
    make_url(rig, true, rig->page->url);
    make_url(rig, false, rig->page->direct);
    int status = examine_place(rig, &lease_ms);

    if (status != 0)
        return status;
    rig->history.began = rig->page->began = history_clock();
    rig->page->began_wall = wall_ns();
    write_head(rig, lease_ms);
    rig->clients.page = rig->page;
    rig->clients.history = &rig->history;
    rig->clients.shim = options->schedule.faults[FAULT_CLIENT_CLOCK] || options->schedule.faults[FAULT_CLIENT_FAST] ? options->shim
                                                                                                                    : NULL;
    if (!clients_open(&rig->clients)) {
        say("clients cannot be started: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    return 0;
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

static void on_residue(const char *what, void *data) {
    note(data, RECORD_RESIDUE, "%s", what);
}

static bool is_alive(const struct rig *rig, int64_t pid) {
    for (int i = 0; i < rig->page->clients; i++)
        if (rig->clients.list[i].pid == pid)
            return true;
    return false;
}

static bool pause_a_moment(void) {
    poll(NULL, 0, 50);
    return interrupted == 0;
}

/* Clients are idle: what is theirs now is a leak. But a replica that was promoted may not have heard of the end of a wait, and shows it
 * until somebody asks. */
static void look_for_litter(struct rig *rig, const struct ending *ending) {
    const struct service *service = rig->options->service;

    if (ending_look(ending, true, service != NULL && service->replicated) && service != NULL && service->litter != NULL)
        service->litter(&rig->servers, on_residue, rig);
}

/* What the killed left goes when its time is up, or when the next client asks; what is there after that stays for ever. */
static void look_for_residue(struct rig *rig, const struct ending *ending) {
    const struct service *service = rig->options->service;

    if (ending_look(ending, false, true) && service != NULL && service->residue != NULL)
        service->residue(&rig->servers, on_residue, rig);
}

static void finish(struct rig *rig) {
    const struct service *service = rig->options->service;
    int64_t lease = rig->options->schedule.lease_ms * 1000000, idle_ns = bound_ns(rig->oracle.idle, lease);
    const struct ending ending = {rig,           rig->page,     bound_ns(rig->oracle.mend, lease), false, note, is_alive,
                                  history_clock, pause_a_moment};

    for (int i = 0; i < LANES; i++)
        if (rig->active[i].used)
            heal(rig, &rig->active[i]);
    atomic_store(&rig->page->phase, PHASE_FINISH);
    /* Those that finish serve the ones that wait: all come to an end, or a wake-up was lost. */
    if (clients_await_idle(&rig->clients, FINISH_MS + (ending.mend_ns + idle_ns) / 1000000))
        look_for_litter(rig, &ending);
    if (service != NULL && service->wakes != NULL)
        note(rig, RECORD_WAKES, "%" PRId64, service->wakes(&rig->servers));
    atomic_store(&rig->page->phase, PHASE_LEAVE);
    clients_await_end(&rig->clients, FINISH_MS);
    look_for_residue(rig, &ending);
    note(rig, RECORD_END, "%s", "");
}

static void show(struct rig *rig) {
    progress_draw(&(struct progress){
        .elapsed_ms = now_ms() - rig->began_ms,
        .total_ms = rig->options->schedule.time_ms,
        .acquired = atomic_load(&rig->page->acquired),
        .failed = atomic_load(&rig->page->failed),
        .lost = atomic_load(&rig->page->lost),
        .strokes = rig->strokes,
        .hits = rig->hits,
        .fault = rig->active[LANE_SERVER].used ? fault_classes[rig->active[LANE_SERVER].stroke.fault].word : "",
    });
}

static void go_on(struct rig *rig) {
    int64_t next = strike(rig);

    clients_reap(&rig->clients);
    show(rig);
    poll(NULL, 0, poll_timeout(next));
}

static bool has_enough(const struct rig *rig) {
    for (int i = 0; i < FAULT_KINDS; i++)
        if (rig->options->schedule.faults[i] && rig->took_effect[i] < rig->options->least)
            return false;
    return true;
}

static bool is_struck(const struct rig *rig) {
    for (int lane = 0; lane < LANES; lane++)
        if (rig->active[lane].used)
            return true;
    return false;
}

static void run(struct rig *rig) {
    int64_t calm = schedule_calm_ms(&rig->options->schedule), time = rig->options->schedule.time_ms - calm;

    rig->began_ms = now_ms();
    clients_start_all(&rig->clients);
    while (interrupted == 0 &&
           (now_ms() < rig->began_ms + time || (now_ms() < rig->began_ms + OVERTIME * time && !has_enough(rig))))
        go_on(rig);
    rig->calm = true;
    while (is_struck(rig) && interrupted == 0)
        go_on(rig);
    /* What was hurt has healed: from now on it is calm, so that every lock is asked for once more. */
    for (int64_t end = now_ms() + calm; now_ms() < end && interrupted == 0;)
        go_on(rig);
    progress_end();
}

int rig_run(const struct rig_options *options) {
    struct rig *rig = calloc(1, sizeof *rig);
    struct sigaction action = {.sa_handler = on_signal};
    char why[SERVERS_TEXT];
    int status;

    if (rig == NULL || !oracle_read(oracle_text, options->engine, &rig->oracle, why, sizeof why)) {
        say("%s", rig == NULL ? "out of memory" : why);
        free(rig);
        return EXIT_INTERNAL;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    rig->options = options;
    status = set_up(rig);
    if (status == 0) {
        run(rig);
        finish(rig);
    }
    clients_close(&rig->clients);
    if (!servers_stop(&rig->servers))
        say("%s could not be removed", rig->servers.directory);
    network_close(&rig->clients.network);
    schedule_free(&rig->schedule);
    if (rig->page != NULL && rig->page != MAP_FAILED)
        munmap(rig->page, sizeof *rig->page);
    if (rig->history.fd >= 0)
        close(rig->history.fd);
    free(rig);
    if (status == 0 && interrupted != 0) {
        say("stopped by a signal: the history is not complete");
        return EXIT_BY_SIGNAL + interrupted;
    }
    return status;
}
