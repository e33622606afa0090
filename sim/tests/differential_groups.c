/* SPDX-License-Identifier: Apache-2.0
 *
 * differential_groups.c - what the servers of a cluster, replicas and sentinels say, beside what simulated ones say: the same words to
 * both, the same answers, but for numbers that count bytes and time. Ports are called P0, P1, ... on both sides.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../tests/support/redis_topology.h"
#include "../../tests/support/test.h"
#include "../servers/redis.h"

enum { NODES_MAX = 6, LINKS = 2 * NODES_MAX, TEXT = 65536, MODEL_PORT = 7000 };

/* A connection to each node of either side; a second one that only listens. */
struct link {
    char said[TEXT];
    size_t size;
    void *session;
    int fd;
};

static struct link links[LINKS];
static struct redis_group *model;
static unsigned ports[NODES_MAX], count;
static int64_t now;
static unsigned marks;

void link_send(struct link *link, const void *bytes, size_t size) {
    assert_true(link->size + size < TEXT);
    memcpy(link->said + link->size, bytes, size);
    link->size += size;
    link->said[link->size] = '\0';
}

void link_close(struct link *link) {
    link->session = NULL;
}

/* ---- Both sides ----------------------------------------------------------------------------------------------------------- */

static void let_go_on(int64_t ns) {
    int64_t until = now + ns;

    for (;;) {
        int64_t first = until;
        unsigned who = NODES_MAX;

        for (unsigned i = 0; i < count; i++) {
            int64_t due = redis_ops.due(redis_group_server(model, i));

            if (due < first) {
                first = due;
                who = i;
            }
        }
        now = first > now ? first : now;
        if (who == NODES_MAX)
            return;
        redis_ops.tick(redis_group_server(model, who), now);
    }
}

static void begin(enum redis_group_kind kind, const unsigned *real_ports, unsigned all) {
    unsigned replicas = kind == REDIS_CLUSTERED ? 1 : kind == REDIS_WATCHED ? 2 : 0;
    struct redis_group_settings settings = {.kind = kind, .replicas = replicas, .sentinels = 3};

    settings.server = (struct redis_settings){.seed = 1, .port = MODEL_PORT};
    now = 3600 * INT64_C(1000000000);
    count = all;
    model = redis_group_new(&settings, now);
    for (unsigned i = 0; i < all; i++)
        ports[i] = real_ports[i];
    for (int i = 0; i < 1000 && !redis_group_whole(model); i++)
        let_go_on(10000000);
    for (unsigned i = 0; i < LINKS; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)ports[i % count])};

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        links[i] = (struct link){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        assert_int_equal(connect(links[i].fd, (struct sockaddr *)&address, sizeof address), 0);
        links[i].session = redis_ops.accept(redis_group_server(model, i % count), &links[i], now);
    }
}

static void end(void) {
    for (unsigned i = 0; i < LINKS; i++) {
        if (links[i].session)
            redis_ops.gone(redis_group_server(model, i % count), links[i].session, now);
        close(links[i].fd);
    }
    redis_group_free(model);
}

/* What the real one says, up to the mark. */
static void ask_real(unsigned link, const char *line, char *ret) {
    char text[2048], mark[32];
    size_t size = 0;
    char *found;

    snprintf(mark, sizeof mark, "mark%u", ++marks);
    snprintf(text, sizeof text, "%s\r\nPING %s\r\n", line, mark);
    assert_int_equal(send(links[link].fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    ret[0] = '\0';
    while (!(found = strstr(ret, mark))) {
        ssize_t n;

        assert_int_equal(poll(&(struct pollfd){.fd = links[link].fd, .events = POLLIN}, 1, 20000), 1);
        n = recv(links[link].fd, ret + size, TEXT - 1 - size, 0);
        assert_true(n > 0);
        size += (size_t)n;
        ret[size] = '\0';
    }
}

static void ask_model(unsigned link, const char *line, char *ret) {
    struct redis *redis = redis_group_server(model, link % count);
    char text[2048];

    snprintf(text, sizeof text, "%s\r\nPING mark%u\r\n", line, marks);
    redis_ops.input(redis, links[link].session, text, strlen(text), now);
    let_go_on(INT64_C(2000000000));
    memcpy(ret, links[link].said, links[link].size + 1);
    links[link].size = 0;
}

/* Ports by their names; lengths, and numbers that nobody can know, are left out. */
static void normalize(char *text, bool is_real, bool shape_only) {
    static char result[TEXT];
    size_t used = 0;

    for (const char *at = text; *at && used < TEXT - 32;) {
        char *end_of;
        unsigned long long number = isdigit((unsigned char)*at) ? strtoull(at, &end_of, 10) : 0;
        unsigned i;

        if (!isdigit((unsigned char)*at) || (at > text && isalpha((unsigned char)at[-1]))) {
            result[used++] = *at++;
            continue;
        }
        for (i = 0; i < count && number != (is_real ? ports[i] : MODEL_PORT + i); i++)
            continue;
        if (i < count)
            used += (size_t)snprintf(result + used, 16, "P%u", i);
        else if (shape_only || (at > text && at[-1] == '$'))
            result[used++] = '#';
        else
            used += (size_t)snprintf(result + used, 32, "%.*s", (int)(end_of - at < 24 ? end_of - at : 24), at);
        at = end_of;
    }
    result[used] = '\0';
    strcpy(text, result);
}

static void compare(unsigned link, const char *line, bool shape_only) {
    static char real[TEXT], simulated[TEXT];

    ask_real(link, line, real);
    ask_model(link, line, simulated);
    normalize(real, true, shape_only);
    normalize(simulated, false, shape_only);
    if (strcmp(real, simulated) != 0)
        fail_msg("node %u, %s\nreal:\n%s\nsimulated:\n%s", link % count, line, real, simulated);
}

static void same(unsigned link, const char *line) {
    compare(link, line, false);
}

/* The same kind of answer; numbers may differ. */
static void alike(unsigned link, const char *line) {
    compare(link, line, true);
}

/* ---- Cluster -------------------------------------------------------------------------------------------------------------- */

/* a is in slot 15495, which node 2 has; b in 3300, at node 0. */
static void compare_redirections(void) {
    static const char *const lines[] = {"GET a",
                                        "GET b",
                                        "SET a 1",
                                        "MGET a b",
                                        "MGET {a}1 {a}2",
                                        "DEL a b",
                                        "SELECT 1",
                                        "SELECT 0",
                                        "CLUSTER KEYSLOT {a}xyz",
                                        "CLUSTER COUNTKEYSINSLOT 15495",
                                        "CLUSTER SETSLOT 99999 STABLE",
                                        "CLUSTER SETSLOT 15495 MIGRATING 0000000000000000000000000000000000000009",
                                        "CLUSTER ADDSLOTS 15495",
                                        "CLUSTER FOO",
                                        "CLUSTER MYID",
                                        "ASKING",
                                        "READWRITE",
                                        "PUBLISH a x",
                                        "SPUBLISH a x",
                                        "SPUBLISH b x",
                                        "EVAL 'return 1' 0",
                                        "EVAL 'return 1' 1 a",
                                        "EVAL 'return 1' 2 a b",
                                        "EVAL \"return redis.call('GET', 'a')\" 0",
                                        "EVAL \"return redis.call('GET', 'b')\" 1 a",
                                        "EVAL \"return redis.call('SPUBLISH', 'b', 'x')\" 1 a",
                                        "EVAL \"return redis.pcall('GET', 'b').err\" 1 a"};

    for (unsigned node = 0; node < 4; node += 1 + (node > 0))
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            same(node, lines[i]);
}

static void compare_a_move(void) {
    char line[256];

    same(2, "MSET {a}1 x {a}2 y {a}3 z");
    same(count + 2, "SSUBSCRIBE a");
    same(0, "CLUSTER SETSLOT 15495 IMPORTING 0000000000000000000000000000000000000003");
    same(2, "CLUSTER SETSLOT 15495 MIGRATING 0000000000000000000000000000000000000001");
    for (int i = 0; i < 2; i++) { /* each side has ports of its own */
        static char answer[TEXT];

        snprintf(line, sizeof line, "MIGRATE 127.0.0.1 %u {a}2 0 5000", i ? MODEL_PORT : ports[0]);
        (i ? ask_model : ask_real)(2, line, answer);
        assert_contains(answer, "+OK");
    }
    for (int node = 0; node <= 2; node += 2) {
        static const char *const lines[] = {"GET {a}1",
                                            "GET {a}2",
                                            "GET {a}9",
                                            "MGET {a}1 {a}2",
                                            "MGET {a}2 {a}9",
                                            "MGET {a}1 {a}3",
                                            "MGET {a}8 {a}9",
                                            "EVAL \"return redis.call('GET', '{a}2')\" 1 {a}1",
                                            "EVAL \"return redis.call('GET', KEYS[1])\" 2 {a}1 {a}2",
                                            "EVAL \"return redis.call('SET', '{a}7', 1)\" 1 {a}1",
                                            "SPUBLISH a x",
                                            "ASKING",
                                            "GET {a}2",
                                            "ASKING",
                                            "GET {a}9",
                                            "ASKING",
                                            "MGET {a}2 {a}9",
                                            "ASKING",
                                            "MGET {a}8 {a}9",
                                            "ASKING",
                                            "EVAL \"return redis.call('GET', KEYS[1])\" 1 {a}2",
                                            "ASKING",
                                            "EVAL \"return redis.call('SET', '{a}7', 1)\" 1 {a}2",
                                            "EVAL \"return redis.call('DEL', '{a}7', '{a}2')\" 1 {a}2",
                                            "CLUSTER COUNTKEYSINSLOT 15495"};

        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
            same((unsigned)node, lines[i]);
            if (strcmp(lines[i], "ASKING") == 0) /* the mark has used it up */
                continue;
        }
    }
    same(2, "CLUSTER SETSLOT 15495 NODE 0000000000000000000000000000000000000001");
    same(2, "DEL {a}1 {a}3 {a}7 a");
    same(2, "DEL {a}1");
    same(2, "DEL {a}3");
    same(2, "DEL a");
    same(0, "CLUSTER SETSLOT 15495 NODE 0000000000000000000000000000000000000001");
    same(2, "CLUSTER SETSLOT 15495 NODE 0000000000000000000000000000000000000001");
    same(count + 2, "PING");
    same(2, "GET {a}1");
}

/* Does a real node know of all replicas by now? */
static bool shows_all(unsigned node) {
    static char answer[TEXT];
    char port[16];

    ask_real(node, "CLUSTER SLOTS", answer);
    for (unsigned i = 0; i < NODES_MAX; i++) {
        snprintf(port, sizeof port, ":%u\r", ports[i]);
        if (!strstr(answer, port))
            return false;
    }
    return true;
}

static void test_a_cluster(void **state) {
    static struct redis_cluster cluster;
    unsigned real_ports[NODES_MAX];

    (void)state;
    redis_cluster_start(&cluster);
    for (unsigned i = 0; i < NODES_MAX; i++)
        real_ports[i] = cluster.nodes[i].port;
    begin(REDIS_CLUSTERED, real_ports, NODES_MAX);
    compare_redirections();
    for (unsigned i = 0; i < 4; i += 3) {
        await(shows_all(i), "node %u does not know all replicas", i);
        same(i, "CLUSTER SLOTS");
    }
    same(2, "WAIT 1 5000");
    same(5, "READONLY");
    same(5, "GET a");
    same(5, "SET a 2");
    alike(5, "ROLE");
    alike(2, "ROLE");
    compare_a_move();
    end();
    redis_cluster_free(&cluster);
}

/* ---- Replicas and sentinels ----------------------------------------------------------------------------------------------- */

static void compare_replicas(void) {
    static const char *const lines[] = {"SET a 2",
                                        "DEL a",
                                        "GET a",
                                        "EVAL \"return redis.call('SET', 'a', 3)\" 0",
                                        "EVAL \"return redis.pcall('SET', 'a', 3).err\" 0",
                                        "EVAL \"return redis.call('GET', 'a')\" 0",
                                        "WAIT 1 10",
                                        "PUBLISH c x",
                                        "CONFIG GET min-replicas-to-write",
                                        "CONFIG GET maxmemory-policy"};

    same(0, "SET a 1");
    same(0, "WAIT 2 5000");
    same(0, "WAIT 3 50");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        same(1, lines[i]);
    alike(0, "ROLE");
    alike(1, "ROLE");
    same(0, "CONFIG SET min-replicas-to-write 3");
    same(0, "SET a 4");
    same(0, "EVAL \"return redis.call('SET', 'a', 3)\" 0");
    same(0, "CONFIG SET min-replicas-to-write 0");
    same(0, "SET a 4");
}

static void compare_sentinels(void) {
    static const char *const lines[] = {"SENTINEL get-master-addr-by-name mymaster",
                                        "SENTINEL GET-MASTER-ADDR-BY-NAME nobody",
                                        "SENTINEL MASTER nobody",
                                        "SENTINEL REPLICAS nobody",
                                        "SENTINEL FOO",
                                        "SENTINEL MASTER",
                                        "ROLE",
                                        "GET a",
                                        "SET a 1",
                                        "EVAL 'return 1' 0"};

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        same(3, lines[i]);
    same(count + 3, "SUBSCRIBE +switch-master");
}

/* The names of what is told, in their order. */
static void compare_names(unsigned link, const char *line) {
    static char texts[2][TEXT], names[2][TEXT];

    ask_real(link, line, texts[0]);
    ask_model(link, line, texts[1]);
    for (int side = 0; side < 2; side++) {
        int number = 0;

        names[side][0] = '\0';
        for (char *word = strtok(texts[side], "\r\n"); word; word = strtok(NULL, "\r\n"))
            if (word[0] != '$' && word[0] != '*' && number++ % 2 == 0)
                strcat(strcat(names[side], word), "\n");
    }
    assert_string_equal(names[0], names[1]);
}

static void test_replicas_and_sentinels(void **state) {
    static struct redis_watched watched;
    unsigned real_ports[NODES_MAX];

    (void)state;
    redis_watched_start(&watched);
    for (unsigned i = 0; i < NODES_MAX; i++)
        real_ports[i] = i < WATCHED ? watched.servers[i].port : watched.sentinels[i - WATCHED].port;
    begin(REDIS_WATCHED, real_ports, NODES_MAX);
    compare_replicas();
    compare_sentinels();
    compare_names(3, "SENTINEL MASTER mymaster");
    same(1, "REPLICAOF NO ONE");
    same(1, "SET own 1");
    same(1, "GET own");
    end();
    redis_watched_free(&watched);
}

/* ---- Users ---------------------------------------------------------------------------------------------------------------- */

/* What a user with few rights is refused. */
static void compare_rights(void) {
    static const char *const before[] = {
        "AUTH nobody",
        "AUTH nobody wrong",
        "ACL WHOAMI",
        "ACL SETUSER few on >secret resetkeys ~own:* "
        "resetchannels &own:* -@all +get +set +eval +incrby +publish +subscribe +ping +client|id +auth",
        "ACL SETUSER few +nosuch",
        "ACL SETUSER few on +client|nosuch",
        "AUTH few wrong",
        "ACL FOO"};
    static const char *const after[] = {"AUTH few secret",
                                        "GET own:a",
                                        "GET a",
                                        "SET own:a 1",
                                        "DEL own:a",
                                        "MGET own:a",
                                        "PUBLISH own:c x",
                                        "PUBLISH c x",
                                        "CLIENT LIST",
                                        "CLIENT GETNAME",
                                        "INFO server",
                                        "CONFIG GET maxmemory",
                                        "EVAL 'return 1' 1 a",
                                        "EVAL 'return 1' 1 own:a",
                                        "EVAL \"return redis.call('GET', 'a')\" 0",
                                        "EVAL \"return redis.call('DEL', 'own:a')\" 0",
                                        "EVAL \"return redis.call('PUBLISH', 'c', 'x')\" 0",
                                        "EVAL \"return redis.pcall('DEL', 'own:a').err\" 0",
                                        "EVAL \"redis.call('SET', 'own:a', 2) return redis.call('INCRBY', 'b', 2)\" 0",
                                        "GET own:a",
                                        "SUBSCRIBE c",
                                        "SELECT 1",
                                        "MULTI",
                                        "SCRIPT FLUSH",
                                        "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
                                        "NOSUCH",
                                        "GET"};

    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        same(0, before[i]);
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++)
        same(1, after[i]);
    same(0, "ACL DELUSER few nobody");
    same(0, "CONFIG SET requirepass secret");
    same(2, "GET a");
}

static void test_users(void **state) {
    /* In one go: the mark is answered only to who is logged in. */
    static const char outside[] =
        "GET a\r\nAUTH wrong\r\nAUTH default wrong\r\nNOSUCH\r\nHELLO 2\r\nEXEC\r\nPING\r\nAUTH secret\r\nGET a";
    struct redis_server one = {0};

    (void)state;
    redis_server_start(&one);
    begin(REDIS_REPLICATED, &one.port, 1);
    compare_rights();
    end();
    begin(REDIS_REPLICATED, &one.port, 1);
    redis_do(redis_group_server(model, 0), now, NULL, 0, "CONFIG SET requirepass secret");
    for (unsigned i = 0; i < LINKS; i++) { /* anew: those were there before the password */
        redis_ops.gone(redis_group_server(model, 0), links[i].session, now);
        links[i].session = redis_ops.accept(redis_group_server(model, 0), &links[i], now);
    }
    same(0, outside);
    end();
    redis_server_free(&one);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_cluster), cmocka_unit_test(test_replicas_and_sentinels),
                                       cmocka_unit_test(test_users)};
    const char *why;

    if (!redis_server_exists(&why)) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("differential redis groups", tests, NULL, NULL);
}
