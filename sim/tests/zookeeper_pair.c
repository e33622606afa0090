/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_pair.c - see zookeeper_pair.h.
 */
#include "zookeeper_pair.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SESSIONS_MAX = 65536, FRAMES_MAX = 64, PATIENCE_MS = 20000, TEXT = 65536, NEVER_MS = 1000000000, SETTLED_NS = 10000000 };

struct pair pair;

/* ---- Chance --------------------------------------------------------------------------------------------------------------- */

unsigned below(unsigned sides) {
    return (unsigned)dice_below(&pair.dice, sides);
}

/* ---- Bytes ---------------------------------------------------------------------------------------------------------------- */

/* Take away what was used. */
static void cut(struct bytes *bytes, size_t size) {
    memmove(bytes->at, bytes->at + size, bytes->used - size);
    bytes->used -= size;
}

/* ---- The two servers ------------------------------------------------------------------------------------------------------ */

struct link {
    struct bytes received;
    bool closed;
    bool used; /* by a connection of now */
};

void link_send(struct link *link, const void *bytes, size_t size) {
    if (link->used && !link->closed)
        add(&link->received, bytes, size);
}

void link_close(struct link *link) {
    link->closed = true;
}

struct session {
    int64_t ids[SIDES];
    char passwords[SIDES][16];
};

static struct session sessions[SESSIONS_MAX];
static int session_count;
static bool first_known[SIDES];

static int64_t real_ms(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void differ(const char *what, const char *real, const char *simulated) {
    fail_msg("%s\n  real:      %s\n  simulated: %s\n  after %lu requests, DIFFERENTIAL_SEED=%" PRIu64, what, real, simulated,
             pair.requests, pair.seed);
}

static void *member_of(const struct client *client) {
    return zookeeper_member(pair.model, (unsigned)((client->member - pair.leader + pair.count) % pair.count));
}

/* Let the members tell each other all that is on its way. */
static void settle(void) {
    int64_t due;

    while ((due = zookeeper_ops.due(zookeeper_member(pair.model, 0))) <= pair.now + SETTLED_NS) {
        pair.now = due > pair.now ? due : pair.now;
        zookeeper_ops.tick(zookeeper_member(pair.model, 0), pair.now);
    }
}

static void connect_both(struct client *client) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)pair.server.ports[client->member]),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;

    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client->fd, (struct sockaddr *)&address, sizeof address), 0);
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    client->link->used = true;
    client->link->closed = false;
    client->link->received.used = client->received.used = client->out.used = 0;
    client->real_ended = client->greeted = false;
    client->conn = zookeeper_ops.accept(member_of(client), client->link, ++pair.now);
}

void pair_disconnect(struct client *client) {
    if (client->fd < 0)
        return;
    close(client->fd);
    client->fd = -1;
    if (!client->link->closed)
        zookeeper_ops.gone(member_of(client), client->conn, ++pair.now);
    client->link->used = false;
    client->conn = NULL;
}

/* The simulated server gets it in pieces, now and then single bytes. */
void pair_feed(struct client *client, const char *bytes, size_t size) {
    bool small = below(8) == 0;

    while (size > 0 && !client->link->closed) {
        size_t piece = small ? 1 : 1 + below((unsigned)size);

        pair.now += 1000;
        zookeeper_ops.input(member_of(client), client->conn, bytes, piece, pair.now);
        bytes += piece;
        size -= piece;
    }
    settle();
}

static void trace_bytes(const struct client *client) {
    fprintf(stderr, "client %d sends ", (int)(client - pair.clients));
    for (size_t i = 0; i < client->out.used; i++)
        fprintf(stderr, client->out.at[i] >= 32 && client->out.at[i] < 127 ? "%c" : "\\%02x", (unsigned char)client->out.at[i]);
    fprintf(stderr, "\n");
}

/* Whether it has arrived shows in the answers: the real server may have closed the connection. */
void pair_send(struct client *client, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t n = send(client->fd, bytes, size, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        bytes += n;
        size -= (size_t)n;
    }
}

static void send_both(struct client *client) {
    if (pair.traced)
        trace_bytes(client);
    pair_send(client, client->out.at, client->out.used);
    pair_feed(client, client->out.at, client->out.used);
    client->out.used = 0;
}

/* ---- What came, as text --------------------------------------------------------------------------------------------------- */

struct scan {
    const unsigned char *at, *end;
    int side;
    char *text;
    size_t used;
};

static void say(struct scan *scan, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct scan *scan, const char *format, ...) {
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(scan->text + scan->used, TEXT - scan->used, format, arguments);
    va_end(arguments);
    scan->used += (size_t)size < TEXT - scan->used ? (size_t)size : TEXT - scan->used - 1;
}

/* 0, when there is not enough: the other side will have it, or not either. */
static int64_t take(struct scan *scan, int size) {
    int64_t number = scan->end - scan->at >= size ? number_at((const char *)scan->at, size) : 0;

    scan->at += scan->end - scan->at >= size ? size : scan->end - scan->at;
    return number;
}

static void say_bytes(struct scan *scan) {
    int64_t size = take(scan, 4);

    if (size < 0 || size > scan->end - scan->at) {
        say(scan, " [%" PRId64 "]", size);
        return;
    }
    say(scan, " '");
    for (int64_t i = 0; i < size; i++, scan->at++)
        say(scan, *scan->at >= 32 && *scan->at < 127 ? "%c" : "\\%02x", *scan->at);
    say(scan, "'");
}

static void say_zxid(struct scan *scan) {
    int64_t zxid = take(scan, 8);

    if (!first_known[scan->side] && zxid > 0) {
        first_known[scan->side] = true;
        pair.first_zxid[scan->side] = zxid;
    }
    say(scan, " %" PRId64, zxid <= 0 ? zxid : zxid - pair.first_zxid[scan->side] + 1000);
}

static void say_owner(struct scan *scan) {
    int64_t owner = take(scan, 8);
    int number = session_count - 1;

    while (number >= 0 && sessions[number].ids[scan->side] != owner)
        number--;
    say(scan, owner == 0 ? " nobody" : " session %d", number);
}

static void say_stat(struct scan *scan) {
    say(scan, " czxid");
    say_zxid(scan);
    say(scan, " mzxid");
    say_zxid(scan);
    take(scan, 8);
    take(scan, 8);
    say(scan, " versions %d", (int)take(scan, 4));
    say(scan, " %d", (int)take(scan, 4));
    say(scan, " %d", (int)take(scan, 4));
    say_owner(scan);
    say(scan, " size %d", (int)take(scan, 4));
    say(scan, " children %d", (int)take(scan, 4));
    say(scan, " pzxid");
    say_zxid(scan);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void say_children(struct scan *scan) {
    int64_t count = take(scan, 4);
    char *names[1024], *text = scan->text;
    size_t used = scan->used;

    assert_true(count >= 0 && count < 1024);
    for (int64_t i = 0; i < count; i++) {
        char name[TEXT / 16];

        scan->text = name;
        scan->used = 0;
        say_bytes(scan);
        names[i] = strdup(name);
    }
    scan->text = text;
    scan->used = used;
    qsort(names, (size_t)count, sizeof *names, by_text);
    say(scan, " %" PRId64 " children:", count);
    for (int64_t i = 0; i < count; i++) {
        say(scan, "%s", names[i]);
        free(names[i]);
    }
}

static void say_acl(struct scan *scan) {
    int64_t count = take(scan, 4);

    for (int64_t i = 0; i < count && i < 64; i++) {
        say(scan, " perms %d", (int)take(scan, 4));
        say_bytes(scan);
        say_bytes(scan);
    }
}

static void say_multi(struct scan *scan) {
    for (int i = 0; i < 64; i++) {
        int type = (int)take(scan, 4), done = (int)take(scan, 1), error = (int)take(scan, 4);

        say(scan, " | %d %d %d", type, done, error);
        if (done)
            return;
        if (type == OP_CREATE || type == OP_CREATE2)
            say_bytes(scan);
        if (type == OP_CREATE2 || type == OP_SET_DATA)
            say_stat(scan);
        if (type == -1)
            say(scan, " %d", (int)take(scan, 4));
    }
}

static void say_body(struct scan *scan, int type) {
    if (type == OP_CREATE || type == OP_CREATE2 || type == OP_CREATE_CONTAINER || type == OP_GET_DATA || type == OP_SYNC)
        say_bytes(scan);
    else if (type == OP_GET_CHILDREN || type == OP_GET_CHILDREN2)
        say_children(scan);
    else if (type == OP_GET_ACL)
        say_acl(scan);
    else if (type == OP_MULTI)
        say_multi(scan);
    if (type == OP_CREATE2 || type == OP_CREATE_CONTAINER || type == OP_GET_DATA || type == OP_GET_CHILDREN2 ||
        type == OP_GET_ACL || type == OP_EXISTS || type == OP_SET_DATA || type == OP_SET_ACL)
        say_stat(scan);
}

/* The answer to the handshake; what both sides call the session is kept. */
static void say_greeting(struct scan *scan, struct client *client) {
    int64_t id;

    take(scan, 4);
    say(scan, "handshake: %d ms,", (int)take(scan, 4));
    id = take(scan, 8);
    say(scan, id ? " a session," : " no session,");
    say(scan, " %d bytes of password", (int)take(scan, 4));
    if (client->session >= 0 && id && scan->end - scan->at >= 16) {
        struct session *session = &sessions[client->session];

        if (session->ids[scan->side] && session->ids[scan->side] != id)
            say(scan, ", another one than before");
        session->ids[scan->side] = id;
        memcpy(session->passwords[scan->side], scan->at, 16);
    }
    scan->at += scan->end - scan->at >= 16 ? 16 : 0;
    say(scan, " read-only %d", (int)take(scan, 1));
}

static void describe(struct client *client, int side, const char *frame, size_t size, bool greeting, char *text) {
    struct scan scan = {.at = (const unsigned char *)frame, .end = (const unsigned char *)frame + size, .side = side, .text = text};
    int xid, error;

    if (greeting) {
        say_greeting(&scan, client);
    } else if ((xid = (int)take(&scan, 4)) == -1) {
        take(&scan, 12);
        say(&scan, "event %d", (int)take(&scan, 4));
        say(&scan, " state %d", (int)take(&scan, 4));
        say_bytes(&scan);
    } else {
        int type = xid > 0 ? client->types[xid % XIDS] : 0;

        say(&scan, "answer %d to %d:", xid, type);
        say_zxid(&scan);
        error = (int)take(&scan, 4);
        say(&scan, " error %d", error);
        pair.errors += side == REAL && error != 0;
        if (error == 0)
            say_body(&scan, type);
    }
    say(&scan, ", %d bytes more", (int)(scan.end - scan.at));
}

/* ---- Comparing ------------------------------------------------------------------------------------------------------------ */

static size_t frame_size(const struct bytes *bytes) {
    size_t size = bytes->used < 4 ? 0 : 4 + (size_t)number_at(bytes->at, 4);

    return size <= bytes->used ? size : 0;
}

/* Wait for more from the real server. False: it has closed the connection. */
static bool receive(struct client *client, int64_t deadline) {
    struct pollfd wait = {.fd = client->fd, .events = POLLIN};
    char piece[65536];
    ssize_t n;

    if (client->real_ended)
        return false;
    if (poll(&wait, 1, deadline > real_ms() ? (int)(deadline - real_ms()) : 0) != 1)
        return true;
    n = recv(client->fd, piece, sizeof piece, 0);
    if (n > 0)
        add(&client->received, piece, (size_t)n);
    else
        client->real_ended = true;
    return n > 0;
}

/* The next `count` frames of a side, as texts. Returns how many there are. */
static int take_frames(struct client *client, int side, int count, char *texts[FRAMES_MAX]) {
    struct bytes *bytes = side == REAL ? &client->received : &client->link->received;
    int64_t deadline = real_ms() + PATIENCE_MS;
    char text[TEXT];
    int taken = 0;

    while (taken < count) {
        size_t size = frame_size(bytes);

        if (size == 0 && (side == SIMULATED || real_ms() >= deadline || !receive(client, deadline)))
            break;
        if (size == 0)
            continue;
        describe(client, side, bytes->at + 4, size - 4, !client->greeted && taken == 0, text);
        texts[taken++] = strdup(text);
        cut(bytes, size);
    }
    return taken;
}

/* Events that come together, in any order. */
static void sort_events(char *texts[], int count) {
    for (int begin = 0, end; begin < count; begin = end + 1) {
        for (end = begin; end < count && strncmp(texts[end], "event", 5) == 0;)
            end++;
        qsort(texts + begin, (size_t)(end - begin), sizeof *texts, by_text);
    }
}

static void compare_frames(struct client *client) {
    char *texts[SIDES][FRAMES_MAX];
    int count = take_frames(client, SIMULATED, FRAMES_MAX, texts[SIMULATED]), real;

    real = take_frames(client, REAL, count, texts[REAL]);
    if (pair.any_order)
        for (int side = 0; side < SIDES; side++)
            sort_events(texts[side], side == REAL ? real : count);
    for (int i = 0; i < count; i++) {
        if (pair.traced)
            fprintf(stderr, "client %d gets %s\n", (int)(client - pair.clients), texts[SIMULATED][i]);
        if (i >= real || strcmp(texts[REAL][i], texts[SIMULATED][i]) != 0)
            differ("not the same", i < real ? texts[REAL][i] : client->real_ended ? "closed" : "nothing", texts[SIMULATED][i]);
        pair.events += strncmp(texts[REAL][i], "event", 5) == 0;
        free(texts[REAL][i]);
        free(texts[SIMULATED][i]);
    }
    pair.frames += (unsigned)count;
    client->greeted = client->greeted || count > 0;
}

static void compare_end(struct client *client) {
    int64_t deadline = real_ms() + PATIENCE_MS;

    if (!client->link->closed) {
        if (client->real_ended)
            differ("the connection", "closed", "open");
        return;
    }
    while (receive(client, deadline))
        if (real_ms() >= deadline)
            differ("the connection", "open", "closed");
    if (frame_size(&client->received))
        differ("before the connection was closed", "one more frame", "none");
    pair_disconnect(client);
}

void pair_compare(void) {
    for (int i = 0; i < CLIENTS; i++)
        if (pair.clients[i].fd >= 0)
            compare_frames(&pair.clients[i]);
    for (int i = 0; i < CLIENTS; i++)
        if (pair.clients[i].fd >= 0)
            compare_end(&pair.clients[i]);
    pair.any_order = false;
}

void pair_exchange(struct client *client) {
    send_both(client);
    compare_frames(client);
    pair_compare();
}

/* ---- Handshakes ----------------------------------------------------------------------------------------------------------- */

/* It differs between the two: the session, its password, the last zxid. */
static void add_handshake(struct bytes *bytes, int side, int64_t seen, int32_t timeout_ms, const struct session *session) {
    static const char nothing[16];
    bool known = session && session->ids[side];

    add_int(bytes, 45);
    add_int(bytes, 0);
    add_long(bytes, seen);
    add_int(bytes, timeout_ms);
    add_long(bytes, known ? session->ids[side] : 0);
    add_int(bytes, 16);
    add(bytes, known ? session->passwords[side] : nothing, 16);
    add_bool(bytes, false);
}

void pair_handshake(struct client *client, int64_t seen, int32_t timeout_ms, bool wrong_password) {
    struct session *session = client->session >= 0 ? &sessions[client->session] : NULL;
    struct bytes bytes[SIDES] = {{0}, {0}};

    if (!session) {
        assert_true(session_count < SESSIONS_MAX);
        client->session = session_count++;
        session = &sessions[client->session];
    }
    connect_both(client);
    for (int side = 0; side < SIDES; side++) {
        add_handshake(&bytes[side], side, seen, timeout_ms, session);
        if (wrong_password)
            bytes[side].at[bytes[side].used - 2] ^= 1;
    }
    pair_send(client, bytes[REAL].at, bytes[REAL].used);
    pair_feed(client, bytes[SIMULATED].at, bytes[SIMULATED].used);
    free(bytes[REAL].at);
    free(bytes[SIMULATED].at);
    pair_compare();
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* The connection may be closed before that, being idle. */
void pair_await_end(const struct client *client) {
    int64_t until = pair.now + 4 * TICK_MS * INT64_C(1000000);
    unsigned count = zookeeper_session_count(pair.model);

    while (zookeeper_ops.due(zookeeper_member(pair.model, 0)) <= until && zookeeper_session_count(pair.model) == count) {
        pair.now = zookeeper_ops.due(zookeeper_member(pair.model, 0));
        zookeeper_ops.tick(zookeeper_member(pair.model, 0), pair.now);
    }
    settle();
    assert_int_equal(zookeeper_session_count(pair.model), count - 1);
    assert_true(client->link->closed);
}

void pair_begin(void) {
    struct zookeeper_options options = {
        .seed = pair.seed, .tick_ms = TICK_MS, .min_session_ms = 1000, .max_session_ms = 60000, .container_check_ms = NEVER_MS};

    pair.dice.state = pair.seed;
    options.count = (unsigned)pair.count;
    pair.leader = pair.count > 1 ? zookeeper_server_leader(&pair.server) : 0;
    assert_true(pair.leader >= 0);
    pair.now = INT64_C(3600000000000);
    pair.model = zookeeper_new(&options);
    for (int i = 0; i < CLIENTS; i++) {
        pair.clients[i].fd = pair.clients[i].session = -1;
        pair.clients[i].link = calloc(1, sizeof *pair.clients[i].link);
        assert_non_null(pair.clients[i].link);
    }
}

void pair_end(void) {
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &pair.clients[i];

        pair_disconnect(client);
        free(client->link->received.at);
        free(client->link);
        free(client->received.at);
        free(client->out.at);
    }
    zookeeper_free(pair.model);
}
