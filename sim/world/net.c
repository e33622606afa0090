/* SPDX-License-Identifier: Apache-2.0
 *
 * net.c - servers and the connections to them, and what can go wrong on the way.
 *
 * A connection is two lanes of segments, each with the time at which it arrives; within a lane the order is kept, between lanes it is not.
 * Only net_carry() gives bytes to a server: one segment at a time, the earliest first.
 *
 *     client's socket  -- to_server -->  server            a lane is held up by a hole (nothing arrives, nobody is told), and the way to
 *                      <-- to_client --                    a server that is paused is held up, too
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "names.h"

enum { LANE_ROOM = 1 << 16, RULES_MAX = 32 };
#define RETRANSMIT (200 * WORLD_MS)

enum segment_kind { SEGMENT_DATA, SEGMENT_OPEN /* SYN; its answer */, SEGMENT_END /* FIN */, SEGMENT_RESET };

struct segment {
    TAILQ_ENTRY(segment) link;
    enum segment_kind kind;
    int error; /* RESET */
    int64_t sent, at;
    size_t size;
    char bytes[];
};

struct lane {
    TAILQ_HEAD(, segment) segments;
    int64_t latest; /* nothing arrives before what was sent earlier */
    size_t bytes;
};

struct link {
    TAILQ_ENTRY(link) all;
    struct site *site;
    struct file *socket;           /* NULL: the client has closed */
    struct process *process;       /* NULL: it is gone */
    char name[48];                 /* of the client, for the trace */
    void *session;                 /* NULL: not accepted, or over */
    bool over;                     /* the server has nothing to do with it any more */
    bool hole, silent, cut_inside; /* `silent`: a hole that never ends */
    int64_t slow;
    struct dice chance;
    struct lane to_server, to_client;
};

struct site {
    TAILQ_ENTRY(site) all;
    unsigned port;
    char name[32];
    const struct server_ops *ops;
    void *server;
    bool up, paused;
    int64_t due;
    uint64_t messages, lose_at;
    bool lose_before;
};

/* What is wrong with the way between some processes and some servers. */
struct rule {
    struct site *site;
    struct process *process;
    bool hole;
    int64_t slow;
};

static TAILQ_HEAD(, link) links;
static TAILQ_HEAD(, site) sites;
static struct rule rules[RULES_MAX];
static size_t rule_count;
static uint64_t link_count;

/* ---- Lanes ---------------------------------------------------------------------------------------------------------------- */

static void lane_clear(struct lane *lane) {
    struct segment *segment;

    while ((segment = TAILQ_FIRST(&lane->segments)) != NULL) {
        TAILQ_REMOVE(&lane->segments, segment, link);
        free(segment);
    }
    lane->bytes = 0;
}

static struct segment *lane_add(struct link *link, struct lane *lane, enum segment_kind kind, const void *bytes, size_t size) {
    struct segment *segment = malloc(sizeof *segment + size);
    int64_t travels = dice_between(&link->chance, world.options.near_ns, world.options.far_ns);

    if (link->slow > 0)
        travels += dice_between(&link->chance, 0, link->slow);
    *segment = (struct segment){.kind = kind, .sent = world.now, .at = world.now + travels, .size = size};
    if (segment->at < lane->latest)
        segment->at = lane->latest;
    lane->latest = segment->at;
    if (size > 0)
        memcpy(segment->bytes, bytes, size);
    lane->bytes += size;
    TAILQ_INSERT_TAIL(&lane->segments, segment, link);
    world_due(segment->at);
    return segment;
}

static bool is_held_up(const struct link *link, const struct lane *lane) {
    if (link->hole)
        return true;
    const struct segment *first = TAILQ_FIRST(&lane->segments);

    /* A connection is made by the server's kernel, which is never paused. */
    return lane == &link->to_server && link->site->paused && first != NULL && first->kind != SEGMENT_OPEN;
}

/* ---- Links ---------------------------------------------------------------------------------------------------------------- */

static void apply_rules(struct link *link) {
    bool was = link->hole;

    link->hole = link->silent;
    link->slow = 0;
    for (size_t i = 0; i < rule_count; i++) {
        if (rules[i].site != NULL && rules[i].site != link->site)
            continue;
        if (rules[i].process != NULL && rules[i].process != link->process)
            continue;
        link->hole |= rules[i].hole;
        link->slow = rules[i].slow > link->slow ? rules[i].slow : link->slow;
    }
    if (!was || link->hole)
        return;
    /* What was lost meanwhile is sent again, when its sender's timer says so. */
    struct lane *lanes[] = {&link->to_server, &link->to_client};

    for (int i = 0; i < 2; i++) {
        int64_t least = world.now + dice_between(&link->chance, 0, RETRANSMIT);
        struct segment *segment;

        TAILQ_FOREACH(segment, &lanes[i]->segments, link) {
            if (segment->at < least)
                segment->at = least;
        }
        if (lanes[i]->latest < least)
            lanes[i]->latest = least;
        world_due(least);
    }
}

static struct site *find_site(unsigned port) {
    struct site *site;

    TAILQ_FOREACH(site, &sites, all) {
        if (site->port == port)
            return site;
    }
    return NULL;
}

int net_connect(struct file *file, unsigned port) {
    struct site *site = find_site(port);
    struct link *link;

    if (site == NULL)
        return ECONNREFUSED;
    link = calloc(1, sizeof *link);
    link->site = site;
    link->socket = file;
    link->process = file->process;
    snprintf(link->name, sizeof link->name, "%s (%d)", file->process->name, (int)file->process->pid);
    link->chance = chance_new(world.options.seed, ++link_count << 8 | 6);
    TAILQ_INIT(&link->to_server.segments);
    TAILQ_INIT(&link->to_client.segments);
    TAILQ_INSERT_TAIL(&links, link, all);
    apply_rules(link);
    file->state = SOCKET_CONNECTING;
    file->far = link;
    lane_add(link, &link->to_server, SEGMENT_OPEN, NULL, 0);
    return 0;
}

size_t net_room(const struct link *link) {
    return link->to_server.bytes < LANE_ROOM ? LANE_ROOM - link->to_server.bytes : 0;
}

size_t net_send(struct link *link, const void *bytes, size_t size) {
    size_t room = net_room(link);

    size = size < room ? size : room;
    if (size > 0)
        lane_add(link, &link->to_server, SEGMENT_DATA, bytes, size);
    return size;
}

/* What a hole swallowed lies with the sender, which goes on sending it after the end, unless it forgets it. What else is on its way
 * arrives. */
void net_close(struct link *link, bool forgets) {
    link->socket = NULL;
    link->process = NULL;
    lane_clear(&link->to_client);
    if (forgets && link->hole)
        lane_clear(&link->to_server);
    lane_add(link, &link->to_server, SEGMENT_END, NULL, 0);
}

void link_send(struct link *link, const void *bytes, size_t size) {
    struct segment *segment;

    if (link->over || link->socket == NULL || size == 0)
        return;
    segment = lane_add(link, &link->to_client, SEGMENT_DATA, bytes, size);
    if (!link->cut_inside || size < 2)
        return;
    segment->size = 1 + dice_below(&link->chance, size - 1);
    lane_add(link, &link->to_client, SEGMENT_RESET, NULL, 0)->error = ECONNRESET;
    link->cut_inside = false;
}

void link_close(struct link *link) {
    if (link->over)
        return;
    link->over = true;
    link->session = NULL;
    if (link->socket != NULL)
        lane_add(link, &link->to_client, SEGMENT_END, NULL, 0);
}

/* The server hears that the client is gone. */
static void end_session(struct link *link) {
    void *session = link->session;

    link->over = true;
    link->session = NULL;
    lane_clear(&link->to_server);
    if (session != NULL)
        link->site->ops->gone(link->site->server, session, world.now);
}

static void break_socket(struct link *link, int error) {
    struct file *socket = link->socket;

    if (socket == NULL)
        return;
    socket->state = SOCKET_BROKEN;
    socket->error = error;
    socket->far = NULL;
    link->socket = NULL;
    link->process = NULL;
    world_notify(socket->process);
}

/* ---- Arrivals ------------------------------------------------------------------------------------------------------------- */

static void note_wire(const struct link *link, const char *way, const struct segment *segment) {
    int64_t at[2] = {world.now, link->site->port};
    char text[161];
    size_t used = 0;

    world_hash_add(at, sizeof at);
    world_hash_add(segment->bytes, segment->size);
    if (!world_traced())
        return;
    for (size_t i = 0; i < segment->size && used + 2 < sizeof text; i++)
        if (isprint((unsigned char)segment->bytes[i]))
            text[used++] = segment->bytes[i];
        else if (used > 0 && text[used - 1] != ' ')
            text[used++] = ' ';
    text[used] = '\0';
    world_trace("%s %s %s: %s%s%s", link->name, way, link->site->name,
                segment->kind == SEGMENT_OPEN    ? "(open)"
                : segment->kind == SEGMENT_END   ? "(end)"
                : segment->kind == SEGMENT_RESET ? "(reset)"
                                                 : "",
                text, used + 2 >= sizeof text ? " ..." : "");
}

static void open_at_server(struct link *link) {
    struct site *site = link->site;

    if (site->up)
        lane_add(link, &link->to_client, SEGMENT_OPEN, NULL, 0);
    else
        lane_add(link, &link->to_client, SEGMENT_RESET, NULL, 0)->error = ECONNREFUSED;
    /* Who sits in accept() hears of it at once, other servers when there is something to read. */
    if (site->up && site->ops == &listener_ops)
        link->session = site->ops->accept(site->server, link, world.now);
}

static void hand_in(struct link *link, const char *bytes, size_t size) {
    if (link->session != NULL && !link->over)
        link->site->ops->input(link->site->server, link->session, bytes, size, world.now);
}

static void input(struct link *link, const struct segment *segment) {
    struct site *site = link->site;

    if (link->over || !site->up) {
        if (link->socket != NULL)
            lane_add(link, &link->to_client, SEGMENT_RESET, NULL, 0)->error = ECONNRESET;
        return;
    }
    if (link->session == NULL)
        link->session = site->ops->accept(site->server, link, world.now);
    bool lost = ++site->messages == site->lose_at;

    if (!lost || !site->lose_before) {
        if (dice_one_in(&link->chance, world.options.one_byte)) {
            for (size_t i = 0; i < segment->size; i++)
                hand_in(link, segment->bytes + i, 1);
        } else {
            hand_in(link, segment->bytes, segment->size);
        }
    }
    if (lost) {
        world_trace("%s: message %llu is lost %s it was carried out", site->name, (unsigned long long)site->messages,
                    site->lose_before ? "before" : "after");
        lane_clear(&link->to_client);
        lane_add(link, &link->to_client, SEGMENT_RESET, NULL, 0)->error = ECONNRESET;
        end_session(link);
    }
}

static void arrive_at_server(struct link *link, struct segment *segment) {
    switch (segment->kind) {
    case SEGMENT_OPEN:
        open_at_server(link);
        break;
    case SEGMENT_DATA:
        input(link, segment);
        /* There is room in the lane again. */
        if (link->socket != NULL)
            world_notify(link->socket->process);
        break;
    case SEGMENT_END:
    case SEGMENT_RESET:
        end_session(link);
        break;
    }
}

static void arrive_at_client(struct link *link, struct segment *segment) {
    struct file *socket = link->socket;

    static const enum world_event events[] = {
        [SEGMENT_DATA] = EVENT_BYTES, [SEGMENT_OPEN] = EVENT_OPEN, [SEGMENT_END] = EVENT_END, [SEGMENT_RESET] = EVENT_RESET};

    if (socket == NULL)
        return;
    world_event(socket->process, events[segment->kind]);
    switch (segment->kind) {
    case SEGMENT_OPEN:
        socket->state = SOCKET_OPEN;
        break;
    case SEGMENT_DATA:
        socket_take(socket, segment->bytes, segment->size);
        if (dice_one_in(&link->chance, world.options.one_byte))
            socket->dribble += segment->size;
        break;
    case SEGMENT_END:
        socket->state = SOCKET_ENDED;
        break;
    case SEGMENT_RESET:
        break_socket(link, segment->error);
        return;
    }
    world_notify(socket->process);
}

/* ---- The carrier ---------------------------------------------------------------------------------------------------------- */

/* Of all lanes, the one whose next segment arrives first. */
static struct lane *earliest_lane(struct link **ret, int64_t *ret_at) {
    struct lane *best = NULL;
    struct link *link;

    *ret_at = WORLD_NEVER;
    TAILQ_FOREACH(link, &links, all) {
        struct lane *lanes[] = {&link->to_server, &link->to_client};

        for (int i = 0; i < 2; i++) {
            const struct segment *first = TAILQ_FIRST(&lanes[i]->segments);

            if (first != NULL && first->at < *ret_at && !is_held_up(link, lanes[i])) {
                *ret_at = first->at;
                *ret = link;
                best = lanes[i];
            }
        }
    }
    return best;
}

static void deliver(struct link *link, struct lane *lane) {
    struct segment *segment = TAILQ_FIRST(&lane->segments);

    TAILQ_REMOVE(&lane->segments, segment, link);
    lane->bytes -= segment->size < lane->bytes ? segment->size : lane->bytes;
    note_wire(link, lane == &link->to_server ? "->" : "<-", segment);
    if (lane == &link->to_server)
        arrive_at_server(link, segment);
    else
        arrive_at_client(link, segment);
    free(segment);
}

/* A socket whose bytes are not acknowledged for longer than it wants gives up, and sends them no more. Returns when the next one would. */
static int64_t give_up(void) {
    int64_t next = WORLD_NEVER;
    struct link *link;

    TAILQ_FOREACH(link, &links, all) {
        const struct segment *first = TAILQ_FIRST(&link->to_server.segments);

        if (!link->hole || link->socket == NULL || link->socket->user_timeout_ns == 0 || first == NULL)
            continue;
        int64_t at = first->sent + link->socket->user_timeout_ns;

        if (at <= world.now) {
            lane_clear(&link->to_server);
            break_socket(link, ETIMEDOUT);
        } else if (at < next)
            next = at;
    }
    return next;
}

static int64_t tick_sites(void) {
    int64_t next = WORLD_NEVER;
    struct site *site;

    TAILQ_FOREACH(site, &sites, all) {
        if (!site->up || site->paused)
            continue;
        int64_t due = site->ops->due(site->server);

        if (due <= world.now) {
            site->ops->tick(site->server, world.now);
            due = site->ops->due(site->server);
            if (due <= world.now)
                due = world.now + 1;
        }
        next = due < next ? due : next;
    }
    return next;
}

static void forget_ended(void) {
    struct link *link, *next;

    for (link = TAILQ_FIRST(&links); link != NULL; link = next) {
        next = TAILQ_NEXT(link, all);
        if (link->socket != NULL || !link->over || !TAILQ_EMPTY(&link->to_server.segments))
            continue;
        TAILQ_REMOVE(&links, link, all);
        lane_clear(&link->to_client);
        free(link);
    }
}

int64_t net_carry(void) {
    struct link *link = NULL;
    struct lane *lane;
    int64_t at, ticks, gives_up;

    ticks = tick_sites();
    while ((lane = earliest_lane(&link, &at)) != NULL && at <= world.now) {
        deliver(link, lane);
        ticks = tick_sites();
    }
    gives_up = give_up();
    forget_ended();
    at = ticks < at ? ticks : at;
    return gives_up < at ? gives_up : at;
}

/* ---- Sites ---------------------------------------------------------------------------------------------------------------- */

void net_begin(void) {
    TAILQ_INIT(&links);
    TAILQ_INIT(&sites);
    rule_count = 0;
    link_count = 0;
}

void net_end(void) {
    struct link *link;
    struct site *site;

    while ((link = TAILQ_FIRST(&links)) != NULL) {
        TAILQ_REMOVE(&links, link, all);
        lane_clear(&link->to_server);
        lane_clear(&link->to_client);
        free(link);
    }
    while ((site = TAILQ_FIRST(&sites)) != NULL) {
        TAILQ_REMOVE(&sites, site, all);
        free(site);
    }
}

struct site *world_site(unsigned port, const char *name, const struct server_ops *ops, void *server) {
    struct site *site = calloc(1, sizeof *site);

    *site = (struct site){.port = port, .ops = ops, .server = server, .up = true};
    snprintf(site->name, sizeof site->name, "%s", name);
    TAILQ_INSERT_TAIL(&sites, site, all);
    world_due(world.now);
    return site;
}

enum { FIRST_SITE = 100000 };

pid_t world_site_pid(const struct site *site) {
    return FIRST_SITE + (pid_t)site->port;
}

int sim_kill(pid_t pid, int number) {
    struct site *site = pid > FIRST_SITE ? find_site((unsigned)(pid - FIRST_SITE)) : NULL;

    if (site == NULL || (number != SIGSTOP && number != SIGCONT))
        process_die(-6, "kill(%d, %d) was called: there are no such signals in this world", (int)pid, number);
    if (number == SIGSTOP)
        world_site_pause(site);
    else
        world_site_resume(site);
    world_charge();
    return 0;
}

/* The server's kernel says so in its place: what was sent before may still arrive. */
static void hang_up(struct link *link) {
    if (link->over)
        return;
    end_session(link);
    if (link->socket == NULL)
        return;
    if (dice_one_in(&link->chance, 2)) {
        lane_add(link, &link->to_client, SEGMENT_END, NULL, 0);
    } else {
        lane_clear(&link->to_client);
        lane_add(link, &link->to_client, SEGMENT_RESET, NULL, 0)->error = ECONNRESET;
    }
}

void world_site_down(struct site *site) {
    struct link *link;

    world_trace("%s goes down", site->name);
    TAILQ_FOREACH(link, &links, all) {
        if (link->site == site)
            hang_up(link);
    }
    site->up = false;
    site->paused = false;
}

void world_site_up(struct site *site) {
    world_trace("%s is up", site->name);
    site->up = true;
    world_due(world.now);
}

bool world_site_is_up(const struct site *site) {
    return site->up;
}

void world_site_pause(struct site *site) {
    world_trace("%s is stopped", site->name);
    site->paused = true;
}

void world_site_resume(struct site *site) {
    world_trace("%s goes on", site->name);
    site->paused = false;
    world_due(world.now);
}

void world_site_touch(struct site *site) {
    (void)site;
    world_due(world.now);
}

unsigned world_site_links(const struct site *site) {
    const struct link *link;
    unsigned count = 0;

    TAILQ_FOREACH(link, &links, all) {
        count += link->site == site && link->session != NULL;
    }
    return count;
}

uint64_t world_site_messages(const struct site *site) {
    return site->messages;
}

void world_lose_reply(struct site *site, unsigned number, bool before) {
    site->lose_at = site->messages + number;
    site->lose_before = before;
}

/* ---- Faults on the way ---------------------------------------------------------------------------------------------------- */

static bool is_meant(const struct link *link, const struct site *site, const struct process *process) {
    return (site == NULL || link->site == site) && (process == NULL || link->process == process) && link->socket != NULL;
}

static void cut(struct link *link, enum world_cut how) {
    switch (how) {
    case CUT_RESET:
        lane_clear(&link->to_client);
        end_session(link);
        if (link->process != NULL)
            world_event(link->process, EVENT_RESET);
        break_socket(link, ECONNRESET);
        break;
    case CUT_CLOSE:
        lane_add(link, &link->to_client, SEGMENT_END, NULL, 0);
        lane_add(link, &link->to_server, SEGMENT_END, NULL, 0);
        break;
    case CUT_INSIDE:
        link->cut_inside = true;
        break;
    case CUT_SILENT:
        link->hole = link->silent = true;
        break;
    }
}

unsigned world_cut(struct site *site, struct process *process, enum world_cut how) {
    unsigned count = 0;
    struct link *link;

    TAILQ_FOREACH(link, &links, all) {
        if (is_meant(link, site, process)) {
            world_trace("cut: %s from %s", link->name, link->site->name);
            cut(link, how);
            count++;
        }
    }
    return count;
}

static unsigned set_rule(struct rule rule, bool on) {
    unsigned count = 0;
    struct link *link;

    for (size_t i = 0; i < rule_count; i++)
        if (rules[i].site == rule.site && rules[i].process == rule.process && rules[i].hole == rule.hole)
            rules[i--] = rules[--rule_count];
    if (on && rule_count < RULES_MAX)
        rules[rule_count++] = rule;
    TAILQ_FOREACH(link, &links, all) {
        apply_rules(link);
        count += is_meant(link, rule.site, rule.process);
    }
    world_due(world.now);
    return count;
}

/* What is wrong with the way of one ends with it: another may come to lie at its address. */
void net_forget(const struct process *process) {
    for (size_t i = 0; i < rule_count; i++)
        if (rules[i].process == process)
            rules[i--] = rules[--rule_count];
}

unsigned world_hole(struct site *site, struct process *process, bool on) {
    world_trace("nothing gets through: %s, %s: %s", site != NULL ? site->name : "all servers",
                process != NULL ? process->name : "all clients", on ? "begins" : "ends");
    return set_rule((struct rule){.site = site, .process = process, .hole = true}, on);
}

unsigned world_slow(struct site *site, struct process *process, int64_t up_to_ns) {
    return set_rule((struct rule){.site = site, .process = process, .slow = up_to_ns}, up_to_ns > 0);
}
