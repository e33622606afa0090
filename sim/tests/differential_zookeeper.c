/* SPDX-License-Identifier: Apache-2.0
 *
 * differential_zookeeper.c - is the simulated ZooKeeper like the real one? Several sessions send the same random requests to both
 * (see zookeeper_pair.h), and what comes back is compared: errors, zxids, Stat, names and their numbers, results of multis, events
 * and their order, the ends of sessions and connections.
 *
 * An ensemble is compared too, when DIFFERENTIAL_SERVERS says so (3): with clients at all members, that move from one to another.
 * There each writes something before it does anything else, since what a member shows without that depends on how fast it is.
 *
 * DIFFERENTIAL_SECONDS: for how long (5). DIFFERENTIAL_SEED: the seed, which is said when something differs. DIFFERENTIAL_TRACE:
 * all requests and answers on stderr.
 */
#include "zookeeper_pair.h"

#include <arpa/inet.h>
#include <inttypes.h>

enum { SENDERS = CLIENTS - 1 };  /* the last one is for sessions that end by themselves */
enum { SHORT_MS = 2 * TICK_MS }; /* what such a session has */

static char directory[32]; /* of the nodes, for some time */
static bool more_follow;   /* requests that are sent before this one was answered */

static int64_t real_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void open_session(struct client *client) {
    static const int32_t timeouts[] = {30000, 40000, 60000, 90000};

    client->session = -1;
    pair_handshake(client, 0, timeouts[below(4)], false);
}

/* ---- Requests ------------------------------------------------------------------------------------------------------------- */

static const char *any_path(void) {
    static const char *const names[] = {"",     "/a",     "/a",   "/b",     "/b",   "/c",      "/a/x",   "/a/y",
                                        "/b/x", "/a/x/p", "/c/q", "/b/x/p", "/a/x", "/c/lock", "/b/y-z", "/none/x"};
    static const char *const odd[] = {
        "",   "a",   "/",    "/zookeeper",      "/zookeeper/quota", "//", "/a/", "/..", "/a/./b", "/a//b", "/a/../b",
        "/.", "/x.", "/...", "/bad\1character", "/zookeeper/config"};
    static char path[128];

    if (below(40) == 0)
        return odd[below(sizeof odd / sizeof *odd - (pair.count > 1))]; /* the last one says who the members are */
    snprintf(path, sizeof path, "%s%s", directory, names[below(sizeof names / sizeof *names)]);
    return path;
}

static int32_t any_version(void) {
    return below(3) ? -1 : (int32_t)below(4);
}

static void add_data(struct bytes *bytes) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    unsigned size = below(26);

    if (below(12) == 0) {
        add_int(bytes, -1);
        return;
    }
    add_int(bytes, (int32_t)size);
    add(bytes, letters, size);
}

static void add_right(struct bytes *bytes, int32_t perms, const char *scheme, const char *id) {
    add_int(bytes, perms);
    add_string(bytes, scheme);
    add_string(bytes, id);
}

static void add_acl(struct bytes *bytes) {
    unsigned kind = below(24);

    if (kind >= 8) {
        add_int(bytes, 1);
        add_right(bytes, 31, "world", "anyone");
    } else if (kind == 0) {
        add_int(bytes, (int32_t)below(2) - 1); /* none, or nothing at all */
    } else if (kind == 1) {
        add_int(bytes, 1);
        add_right(bytes, 31, "auth", "");
    } else if (kind == 2) {
        add_int(bytes, 2);
        add_right(bytes, (int32_t)below(32), "digest", "user:5w9W4eL3797Y4Wq8AcKUPPk8ha4=");
        add_right(bytes, (int32_t)below(32), "world", "anyone");
    } else if (kind == 3) {
        add_int(bytes, 2);
        add_right(bytes, 31, "ip", below(2) ? "127.0.0.1" : "127.0.0.0/8");
        add_right(bytes, 31, "ip", below(2) ? "127.0.0.1" : "10.0.0.0/8");
    } else if (kind == 4) {
        add_int(bytes, 1);
        add_right(bytes, 31, below(2) ? "digest" : "nobody", below(2) ? "one:two:three" : "one");
    } else if (kind == 5) {
        add_int(bytes, 1);
        add_right(bytes, 31, "ip", below(2) ? "10.0.0.1" : "127.0.0.300");
    } else {
        add_int(bytes, 1);
        add_right(bytes, (int32_t)below(32), "world", "anyone");
    }
}

static int32_t any_flags(void) {
    return below(40) == 0 ? (int32_t)below(9) - 1 : (int32_t)below(4);
}

/* Until a request is committed, the real server goes by what it made of it at first, and in two cases that is not what comes of it. A
 * container that is asked for with the flag of an ephemeral is an ephemeral at first, and may have no children. And of a multi that is
 * refused for the flag of a time to live, the parts before that one are there at first, with the numbers that they took of their parents.
 * For how long is a matter of the server's speed: so nothing follows these. */
static int32_t create_flags(int type, bool in_multi) {
    int32_t flags = type == OP_CREATE_CONTAINER && below(8) ? 4 : any_flags();

    if (!more_follow)
        return flags;
    if (in_multi)
        return flags == 5 || flags == 6 ? 4 : flags;
    return type == OP_CREATE_CONTAINER && (flags == 1 || flags == 3) ? flags - 1 : flags;
}

static void add_create(struct bytes *bytes, int type, bool in_multi) {
    add_string(bytes, any_path());
    add_data(bytes);
    add_acl(bytes);
    add_int(bytes, create_flags(type, in_multi));
    if (type == OP_CREATE_TTL)
        add_long(bytes, (int64_t)below(3) * 1000);
}

static void add_part(struct bytes *bytes, int type) {
    add_int(bytes, type);
    add_bool(bytes, false);
    add_int(bytes, -1);
    if (type == OP_CREATE || type == OP_CREATE2 || type == OP_CREATE_CONTAINER) {
        add_create(bytes, type, true);
        return;
    }
    add_string(bytes, any_path());
    if (type == OP_SET_DATA)
        add_data(bytes);
    add_int(bytes, any_version());
}

static void add_multi(struct bytes *bytes) {
    static const int types[] = {OP_CREATE, OP_CREATE, OP_CREATE2, OP_CREATE_CONTAINER, OP_DELETE, OP_SET_DATA, OP_CHECK};
    unsigned count = below(5);

    for (unsigned i = 0; i < count; i++)
        add_part(bytes, types[below(sizeof types / sizeof *types)]);
    add_int(bytes, -1);
    add_bool(bytes, true);
    add_int(bytes, -1);
}

static void add_paths(struct bytes *bytes) {
    unsigned count = below(3);

    add_int(bytes, (int32_t)count);
    for (unsigned i = 0; i < count; i++)
        add_string(bytes, any_path());
}

static void add_body(struct bytes *bytes, int type) {
    const char *path;

    switch (type) {
    case OP_CREATE:
    case OP_CREATE2:
    case OP_CREATE_CONTAINER:
    case OP_CREATE_TTL:
        add_create(bytes, type, false);
        break;
    case OP_MULTI:
        add_multi(bytes);
        break;
    case OP_EXISTS:
    case OP_GET_DATA:
    case OP_GET_CHILDREN:
    case OP_GET_CHILDREN2:
        add_string(bytes, any_path());
        add_bool(bytes, below(2));
        break;
    case OP_SET_ACL:
        path = any_path();
        add_string(bytes, strcmp(path, "/") == 0 ? directory : path); /* all must go on */
        add_acl(bytes);
        add_int(bytes, any_version());
        break;
    case OP_CHECK_WATCHES:
    case OP_REMOVE_WATCHES:
        add_string(bytes, any_path());
        add_int(bytes, below(20) ? 1 + (int32_t)below(3) : 7);
        break;
    case OP_GET_ACL:
    case OP_SYNC:
        add_string(bytes, any_path());
        break;
    case OP_SET_DATA:
        add_string(bytes, any_path());
        add_data(bytes);
        add_int(bytes, any_version());
        break;
    case OP_DELETE:
    case OP_CHECK:
        add_string(bytes, any_path());
        add_int(bytes, any_version());
        break;
    default:
        break;
    }
}

static void begin_frame(struct bytes *out, int32_t xid, int type, size_t *ret_begin) {
    *ret_begin = out->used;
    add_int(out, 0);
    add_int(out, xid);
    add_int(out, type);
}

static void end_frame(struct bytes *out, size_t begin) {
    uint32_t length = htonl((uint32_t)(out->used - begin - 4));

    memcpy(out->at + begin, &length, 4);
    pair.requests++;
}

static void add_request(struct client *client, int type) {
    int32_t xid = type == OP_PING ? -2 : ++client->xid;
    size_t begin;

    if (xid > 0)
        client->types[xid % XIDS] = type;
    begin_frame(&client->out, xid, type, &begin);
    add_body(&client->out, type);
    if (below(200) == 0 && client->out.used - begin > 16)
        client->out.used -= 1 + below(3); /* not all of it */
    end_frame(&client->out, begin);
}

static int any_type(void) {
    static const int types[] = {
        OP_CREATE,   OP_CREATE,   OP_CREATE,       OP_CREATE2,       OP_CREATE2,       OP_CREATE2,       OP_CREATE_CONTAINER,
        OP_DELETE,   OP_DELETE,   OP_DELETE,       OP_EXISTS,        OP_EXISTS,        OP_GET_DATA,      OP_GET_DATA,
        OP_SET_DATA, OP_SET_DATA, OP_GET_CHILDREN, OP_GET_CHILDREN2, OP_GET_CHILDREN2, OP_SYNC,          OP_GET_ACL,
        OP_PING,     OP_MULTI,    OP_MULTI,        OP_MULTI,         OP_CHECK_WATCHES, OP_REMOVE_WATCHES};

    int type = types[below(sizeof types / sizeof *types)];

    if (below(100) == 0)
        return below(2) || pair.count > 1 ? OP_CREATE_TTL : OP_CHECK;   /* by a check alone a real ensemble is confused */
    return type == OP_CHECK_WATCHES && pair.count > 1 ? OP_PING : type; /* a connection of before may not be gone yet */
}

/* Requests one behind the other. Rights come last: until they are committed, the real server goes by the old ones. */
static void send_requests(struct client *client) {
    static const int last[] = {OP_SET_ACL, OP_CREATE_CONTAINER, OP_MULTI};
    unsigned count = below(3) ? 1 : 2 + below(6);

    more_follow = true;
    for (unsigned i = 0; i < count; i++)
        add_request(client, any_type());
    more_follow = false;
    add_request(client, below(8) ? OP_PING : last[below(3)]); /* a check alone may have no answer, which could be waited for */
    pair_exchange(client);
}

static void send_auth(struct client *client) {
    size_t begin;

    begin_frame(&client->out, -4, OP_AUTH, &begin);
    add_int(&client->out, 0);
    add_string(&client->out, below(20) ? "digest" : "riddle");
    add_string(&client->out,
               client == &pair.clients[0] ? "other:secret" : "user:secret"); /* one each: a list would be in any order */
    end_frame(&client->out, begin);
    pair_exchange(client);
}

/* Watches that a client takes along to a new connection. What it has seen before is some zxid, which is not the same for both. */
static void send_watches(struct client *client) {
    int64_t back = (int64_t)below(200), last = zookeeper_zxid(pair.model, 0);
    int64_t seen = last > back ? last - back : 0;
    struct bytes real = {0};
    size_t begin, number;

    begin_frame(&client->out, -8, OP_SET_WATCHES, &begin);
    number = client->out.used;
    add_long(&client->out, seen);
    for (int i = 0; i < 3; i++)
        add_paths(&client->out);
    end_frame(&client->out, begin);
    add(&real, client->out.at, number);
    add_long(&real, seen == 0 ? 0 : seen - pair.first_zxid[SIMULATED] + pair.first_zxid[REAL]);
    add(&real, client->out.at + real.used, client->out.used - real.used);
    pair_feed(client, client->out.at, client->out.used);
    pair_send(client, real.at, real.used);
    free(real.at);
    client->out.used = 0;
    pair_compare();
}

/* ---- Sessions ------------------------------------------------------------------------------------------------------------- */

/* Its member has applied everything, once it has answered a write, be it by an error. A sync is not enough: at the leader it waits
 * for nothing. */
static void catch_up(struct client *client) {
    size_t begin;

    if (pair.count == 1)
        return;
    client->types[++client->xid % XIDS] = OP_DELETE;
    begin_frame(&client->out, client->xid, OP_DELETE, &begin);
    add_string(&client->out, "/there/is/no/such/node");
    add_int(&client->out, -1);
    end_frame(&client->out, begin);
    pair_exchange(client);
}

static void end_session(struct client *client) {
    pair.any_order = true;
    add_request(client, OP_CLOSE);
    pair_exchange(client);
}

static void close_session(struct client *client) {
    end_session(client);
    open_session(client);
}

static void come_back(struct client *client) {
    pair_disconnect(client);
    client->member = (int)below((unsigned)pair.count);
    if (below(10) == 0) {
        pair_handshake(client, INT64_C(1) << 40, 30000, false); /* it has seen what no server has */
        pair_disconnect(client);
    }
    if (below(10) == 0) {
        pair_handshake(client, 0, 30000, true);
        pair_disconnect(client);
    }
    pair_handshake(client, 0, 30000, false);
    if (below(2))
        send_watches(client);
}

/* The session is taken over by another connection. Who writes by the old one is sent away; at the leader, who reads, too. */
static void take_over(struct client *client) {
    struct client *other = &pair.clients[SENDERS];

    other->session = client->session;
    other->member = (int)below((unsigned)pair.count);
    pair_handshake(other, 0, 30000, false);
    if (client->fd >= 0) {
        add_request(client, below(2) ? OP_CREATE : OP_GET_DATA);
        pair_exchange(client);
    }
    catch_up(other);
    add_request(other, OP_GET_CHILDREN);
    pair_exchange(other);
    pair_disconnect(other);
    come_back(client);
}

static void send_unknown(struct client *client) {
    add_request(client, OP_UNKNOWN);
    pair_exchange(client);
    pair_handshake(client, 0, 30000, false);
}

/* A node that everybody may see. */
static void create_node(struct client *client, const char *path, int32_t flags) {
    size_t begin;

    client->types[++client->xid % XIDS] = OP_CREATE;
    begin_frame(&client->out, client->xid, OP_CREATE, &begin);
    add_string(&client->out, path);
    add_int(&client->out, -1);
    add_int(&client->out, 1);
    add_right(&client->out, 31, "world", "anyone");
    add_int(&client->out, flags);
    end_frame(&client->out, begin);
    pair_exchange(client);
}

static void watch_node(struct client *client, const char *path) {
    size_t begin;

    client->types[++client->xid % XIDS] = OP_EXISTS;
    begin_frame(&client->out, client->xid, OP_EXISTS, &begin);
    add_string(&client->out, path);
    add_bool(&client->out, true);
    end_frame(&client->out, begin);
    pair_exchange(client);
}

/* Nothing may be left before the answer. */
static void ping_all(void) {
    for (int i = 0; i < SENDERS; i++)
        if (pair.clients[i].fd >= 0) {
            catch_up(&pair.clients[i]);
            add_request(&pair.clients[i], OP_PING);
            pair_exchange(&pair.clients[i]);
        }
}

/* The real server tells of the end of a session, and then closes what is connected for it: that may be a new connection, which is not told
 * that it is over. When it has made another session it has done so. */
static void await_all_of_the_end(struct client *client) {
    int ended = client->session;

    open_session(client);
    end_session(client);
    client->session = ended;
}

/* One falls silent, and its nodes go, with all who watch them being told. Then it comes back, and hears that it is over. Its time is short
 * from the moment only in which it has nothing more to say: on a busy machine it may be over before the next request. In an ensemble it is
 * short from the beginning: a follower may go on telling the leader the longer one. */
static void let_expire(void) {
    struct client *silent = &pair.clients[SENDERS], *other = &pair.clients[0];

    if (other->fd < 0)
        pair_handshake(other, 0, 30000, false);
    silent->session = -1;
    silent->member = (int)below((unsigned)pair.count);
    pair_handshake(silent, 0, pair.count == 1 ? 30000 : SHORT_MS, false);
    create_node(silent, "/silent", 1);
    catch_up(other);
    watch_node(other, "/silent");
    for (int i = 0; i < 6; i++)
        send_requests(silent);
    ping_all();
    if (pair.count == 1) {
        pair_disconnect(silent);
        pair_handshake(silent, 0, SHORT_MS, false);
    }
    pair_await_end(silent);
    pair_disconnect(silent);
    pair.any_order = true;
    pair_compare();
    await_all_of_the_end(silent);
    pair_handshake(silent, 0, SHORT_MS, false);
    assert_true(silent->fd < 0);
}

static void begin_round(unsigned number) {
    if (pair.clients[0].fd < 0)
        pair_handshake(&pair.clients[0], 0, 30000, false);
    snprintf(directory, sizeof directory, "/round%u", number);
    create_node(&pair.clients[0], directory, 0);
}

static void step(void) {
    struct client *client = &pair.clients[below(SENDERS)];
    unsigned kind = below(400);

    pair.now += 1000000;
    if (client->fd >= 0)
        catch_up(client);
    if (client->fd < 0)
        pair_handshake(client, 0, 30000, false);
    else if (kind < 4)
        close_session(client);
    else if (kind < 9)
        come_back(client);
    else if (kind < 15)
        send_auth(client);
    else if (kind < 20)
        send_watches(client);
    else if (kind < 21)
        send_unknown(client);
    else if (kind < 23)
        take_over(client);
    else
        send_requests(client);
}

/* ---- The test ------------------------------------------------------------------------------------------------------------- */

static void the_same_for_both(void **state) {
    const char *seconds = getenv("DIFFERENTIAL_SECONDS");
    int64_t until = real_ms() + (seconds ? atoi(seconds) : 5) * 1000;
    unsigned rounds = 0;

    (void)state;
    for (int i = 0; i < SENDERS; i++) {
        pair.clients[i].member = i % pair.count;
        open_session(&pair.clients[i]);
    }
    for (; real_ms() < until; rounds++) {
        begin_round(rounds);
        for (int i = 0; i < 200; i++)
            step();
        ping_all();
        if (rounds % 8 == 0)
            let_expire();
    }
    printf("# %lu requests in %u rounds, %lu answers and events (%lu events, %lu errors), seed %" PRIu64 "\n", pair.requests,
           rounds, pair.frames, pair.events, pair.errors, pair.seed);
}

static int set_up(void **state) {
    (void)state;
    pair_begin();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    pair_end();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(the_same_for_both, set_up, tear_down)};
    const char *given = getenv("DIFFERENTIAL_SEED"), *servers = getenv("DIFFERENTIAL_SERVERS"),
               *missing = zookeeper_server_missing();
    int failures;

    pair.seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    pair.count = servers ? atoi(servers) : 1;
    pair.traced = getenv("DIFFERENTIAL_TRACE") != NULL;
    if (missing) {
        printf("1..1\nok 1 - differential_zookeeper # SKIP %s\n", missing);
        return 0;
    }
    /* Containers that are empty would go at some moment, and not at the same one. What is on a disk is not looked at. */
    setenv("JAVA_TOOL_OPTIONS", "-Dznode.container.checkIntervalMs=1000000000 -Dzookeeper.forceSync=no", 1);
    if (!zookeeper_server_start(&pair.server, pair.count)) {
        printf("1..1\nnot ok 1 - differential_zookeeper: ZooKeeper does not start\n");
        return 1;
    }
    failures = cmocka_run_group_tests_name("differential_zookeeper", tests, NULL, NULL);
    zookeeper_server_stop(&pair.server);
    return failures ? 1 : 0;
}
