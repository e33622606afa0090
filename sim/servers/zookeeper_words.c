/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_words.c - four-letter words: what a server answers to a connection that begins with one, before it closes it.
 * They come where the length of the first frame would be.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

static void say(struct zk_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct zk_writer *writer, const char *format, ...) {
    char line[512];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    zk_write_raw(writer, line, size < (int)sizeof line ? (size_t)size : sizeof line - 1);
}

static const char *version_of(const struct zookeeper *zk) {
    static const char *const versions[] = {
        [ZOOKEEPER_3_8] = "3.8.0", [ZOOKEEPER_3_6] = "3.6.4", [ZOOKEEPER_3_5] = "3.5.10", [ZOOKEEPER_3_4] = "3.4.14"};

    return versions[zk->options.version];
}

static const char *mode_of(const struct zookeeper_member *member) {
    if (member->read_only)
        return "read-only";
    if (member->zk->count == 1)
        return "standalone";
    return member->role == ROLE_LEADING ? "leader" : "follower";
}

/* The root is there under two names. */
static unsigned node_count(const struct zookeeper_member *member) {
    return member->tree.count + 2;
}

static void say_server(struct zk_writer *writer, const struct zookeeper_member *member, bool with_clients) {
    say(writer, "Zookeeper version: %s-simulated, built on 2022-02-25 08:49 UTC\n", version_of(member->zk));
    if (member->read_only)
        say(writer, "READ-ONLY mode; serving only read-only clients\n");
    if (with_clients) {
        say(writer, "Clients:\n");
        for (const struct zk_conn *conn = member->conns; conn; conn = conn->after)
            say(writer, " /127.0.0.1:0[1](queued=0,recved=0,sent=0)\n");
        say(writer, "\n");
    }
    say(writer,
        "Latency min/avg/max: 0/0.0/0\nReceived: %llu\nSent: %llu\nConnections: %u\nOutstanding: 0\nZxid: 0x%llx\nMode: %s\n",
        (unsigned long long)member->received, (unsigned long long)member->sent, member->conn_count,
        (unsigned long long)member->tree.zxid, mode_of(member));
    say(writer, "Node count: %u\n", node_count(member));
    if (member->role == ROLE_LEADING && member->zk->count > 1)
        say(writer, "Proposal sizes last/min/max: -1/-1/-1\n");
}

static void say_settings(struct zk_writer *writer, const struct zookeeper_member *member) {
    const struct zookeeper_options *options = &member->zk->options;

    say(writer,
        "clientPort=2181\nsecureClientPort=-1\ndataDir=/simulated/version-2\ndataDirSize=%u\ndataLogDir=/simulated/version-2\n",
        node_count(member) * 100);
    say(writer, "dataLogSize=%u\ntickTime=%u\nmaxClientCnxns=0\nminSessionTimeout=%u\nmaxSessionTimeout=%u\n", 1024u,
        options->tick_ms, options->min_session_ms, options->max_session_ms);
    say(writer, "clientPortListenBacklog=-1\nserverId=%u\n", member->zk->count == 1 ? 0 : member->index + 1);
}

static void say_numbers(struct zk_writer *writer, const struct zookeeper_member *member) {
    static const char *const names[] = {
        [EVENT_CREATED] = "created", [EVENT_DELETED] = "deleted", [EVENT_CHANGED] = "changed", [EVENT_CHILD] = "children"};

    say(writer, "zk_version\t%s-simulated, built on 2022-02-25 08:49 UTC\nzk_server_state\t%s\n", version_of(member->zk),
        mode_of(member));
    say(writer, "zk_znode_count\t%u\nzk_ephemerals_count\t%u\nzk_watch_count\t%u\n", node_count(member), member->tree.ephemerals,
        member->watches.count);
    say(writer, "zk_num_alive_connections\t%u\nzk_global_sessions\t%u\nzk_outstanding_requests\t0\n", member->conn_count,
        member->zk->session_count);
    say(writer, "zk_packets_received\t%llu\nzk_packets_sent\t%llu\n", (unsigned long long)member->received,
        (unsigned long long)member->sent);
    for (int event = EVENT_CREATED; event <= EVENT_CHILD; event++)
        say(writer, "zk_sum_node_%s_watch_count\t%llu\n", names[event], (unsigned long long)member->watches.triggered[event]);
}

/* Of those on data alone: the real server does not count the others. */
static void say_watches(struct zk_writer *writer, const struct zookeeper_member *member, const char *word) {
    unsigned watching = 0;

    for (const struct zk_conn *conn = member->conns; conn; conn = conn->after) {
        bool said = false;

        for (const struct zk_watch *watch = conn->watches; watch; watch = watch->conn_after) {
            if (watch->kind != WATCH_DATA)
                continue;
            watching += !said;
            if (!said && memcmp(word, "wchc", 4) == 0)
                say(writer, "0x%llx\n", (unsigned long long)conn->session);
            said = true;
            if (memcmp(word, "wchc", 4) == 0)
                say(writer, "\t%s\n", watch->path->bytes);
            if (memcmp(word, "wchp", 4) == 0)
                say(writer, "%s\n\t0x%llx\n", watch->path->bytes, (unsigned long long)conn->session);
        }
    }
    if (memcmp(word, "wchs", 4) == 0)
        say(writer, "%u connections watching %u paths\nTotal watches:%u", watching, member->watches.data_count,
            member->watches.data_count);
    say(writer, "\n");
}

static void say_ephemerals(struct zk_writer *writer, const struct zookeeper_member *member) {
    say(writer, "SessionTracker dump:\nGlobal Sessions(%u):\n", member->zk->session_count);
    for (const struct zk_session *session = member->zk->oldest; session; session = session->after)
        say(writer, "0x%llx\t%dms\n", (unsigned long long)session->id, session->timeout_ms);
    say(writer, "ephemeral nodes dump:\nSessions with Ephemerals (%u):\n", member->tree.ephemerals);
    for (const struct zk_node *node = member->tree.owned; node; node = node->owned_after)
        if (node->owner > 0)
            say(writer, "0x%llx:\n\t%s\n", (unsigned long long)node->owner, node->path->bytes);
    say(writer, "Connections dump:\n");
}

static bool is_word(const char *four) {
    static const char words[] = "ruok srvr stat mntr conf wchs wchc wchp isro dump cons envi dirs srst crst";

    for (size_t i = 0; i < sizeof words - 4; i += 5)
        if (memcmp(words + i, four, 4) == 0)
            return true;
    return false;
}

static bool is_allowed(const struct zookeeper *zk, const char *four) {
    char word[5] = {four[0], four[1], four[2], four[3], '\0'};

    return !zk->words || strcmp(word, "srvr") == 0 || strstr(zk->words, word) || strchr(zk->words, '*') ||
           (zk->options.read_only && strcmp(word, "isro") == 0);
}

static void answer(struct zk_writer *writer, const struct zookeeper_member *member, const char *word) {
    if (!is_allowed(member->zk, word))
        say(writer, "%.4s is not executed because it is not in the whitelist.\n", word);
    else if (memcmp(word, "ruok", 4) == 0)
        say(writer, "imok");
    else if (memcmp(word, "isro", 4) == 0)
        say(writer, "%s", !zk_serves(member) ? "null" : member->read_only ? "ro" : "rw");
    else if (memcmp(word, "envi", 4) == 0)
        say(writer, "Environment:\nzookeeper.version=%s-simulated\n", version_of(member->zk));
    else if (!zk_serves(member))
        say(writer, "This ZooKeeper instance is not currently serving requests\n");
    else if (memcmp(word, "srvr", 4) == 0 || memcmp(word, "stat", 4) == 0)
        say_server(writer, member, word[1] == 't');
    else if (memcmp(word, "conf", 4) == 0)
        say_settings(writer, member);
    else if (memcmp(word, "mntr", 4) == 0)
        say_numbers(writer, member);
    else if (memcmp(word, "wch", 3) == 0)
        say_watches(writer, member, word);
    else if (memcmp(word, "dump", 4) == 0)
        say_ephemerals(writer, member);
    else
        say(writer, "\n");
}

bool zk_word(struct zk_conn *conn, const char *four) {
    struct zk_writer writer;

    if (!is_word(four))
        return false;
    zk_writer_begin(&writer);
    answer(&writer, conn->member, four);
    link_send(conn->link, writer.bytes + 4, writer.used - 4);
    zk_writer_end(&writer);
    zk_conn_drop(conn, true);
    return true;
}
