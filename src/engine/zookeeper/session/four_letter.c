/* SPDX-License-Identifier: Apache-2.0
 *
 * four_letter.c - four-letter words: what a ZooKeeper server tells anybody who connects, writes one, and reads to the end.
 *
 * Most servers answer only those that their administrator has listed (4lw.commands.whitelist), by default `srvr` alone; the others they
 * refuse by a sentence.
 */
#include "engine/zookeeper/session/session.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/resolve.h"
#include "os/sleep.h"
#include "os/socket.h"

#define WHY_NS (500 * ZK_MS)

/* Wait until the socket is ready. False: the time is up. */
static bool ready(int fd, short events, int64_t deadline) {
    struct pollfd wait = {.fd = fd, .events = events};

    while (pawl__boottime() < deadline)
        if (pawl__sleep(&wait, 1, deadline, NULL) > 0)
            return true;
    return false;
}

static int connect_to(const struct sockaddr_storage *address, socklen_t length, int64_t deadline) {
    int error, fd = pawl__socket_connect((const void *)address, length, deadline - pawl__boottime(), &error);

    if (fd >= 0 && (error || !ready(fd, POLLOUT, deadline) || pawl__socket_error(fd) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Its name is looked up in a thread: a DNS server that says nothing must not hold us longer than the server itself might. */
static int connect_any(const struct zk_host *host, int64_t deadline) {
    struct addresses *addresses = pawl__addresses_new(host->name, host->port);
    struct sockaddr_storage address;
    socklen_t length;
    size_t number;
    int fd = -1;

    if (!addresses)
        return -1;
    pawl__addresses_begin(addresses);
    pawl__addresses_await(addresses, deadline);
    for (size_t left = pawl__addresses_count(addresses); left > 0 && fd < 0; left--) {
        length = pawl__addresses_choose(addresses, &address, &number);
        fd = connect_to(&address, length, deadline);
        pawl__addresses_failed(addresses, number); /* so that the next one is chosen */
    }
    pawl__addresses_put(addresses);
    return fd;
}

static void read_all(int fd, int64_t deadline, char *ret, size_t size) {
    size_t used = 0;
    ssize_t n;

    while (used + 1 < size && ready(fd, POLLIN, deadline)) {
        n = read(fd, ret + used, size - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    ret[used] = '\0';
}

enum zk_word pawl__zk_word(const struct zk_host *host, const char *word, int64_t deadline, char *ret, size_t size) {
    int fd = connect_any(host, deadline);

    *ret = '\0';
    if (fd < 0)
        return ZK_WORD_NOBODY;
    if (pawl__socket_write(fd, word, strlen(word)) == (ssize_t)strlen(word))
        read_all(fd, deadline, ret, size);
    close(fd);
    if (!*ret)
        return ZK_WORD_SILENCE;
    return strstr(ret, "not in the whitelist") ? ZK_WORD_REFUSED : ZK_WORD_ANSWER;
}

const char *pawl__zk_word_line(const char *answer, const char *key) {
    for (const char *line = answer; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            return line + strlen(key);
    return NULL;
}

bool pawl__zk_word_number(const char *answer, const char *key, int64_t *ret) {
    const char *value = pawl__zk_word_line(answer, key);

    if (!value || !(isdigit((unsigned char)*value) || *value == '-'))
        return false;
    *ret = strtoll(value, NULL, 10);
    return true;
}

/* The host's state in a few words. False: there is nothing wrong that it would tell. */
static bool complain(const struct zk_host *host, int64_t deadline, char *ret, size_t size) {
    char answer[2048];
    enum zk_word word = pawl__zk_word(host, "srvr", deadline, answer, sizeof answer);
    const char *mode = pawl__zk_word_line(answer, "Mode: ");

    if (word == ZK_WORD_SILENCE)
        snprintf(ret, size, "%.100s takes connections and says nothing: does it hang?", host->where);
    else if (word == ZK_WORD_ANSWER && !mode)
        snprintf(ret, size, "%.100s is up and has no quorum: start the other servers", host->where);
    else if (word == ZK_WORD_ANSWER && strncmp(mode, "read-only", 9) == 0)
        snprintf(ret, size, "%.100s is read-only, since it does not reach the other servers: start or connect them", host->where);
    else
        return false;
    return true;
}

void pawl__zk_word_why(const struct zk_options *options, char *ret, size_t size) {
    int64_t deadline = pawl__boottime() + WHY_NS;

    for (size_t i = 0; i < options->host_count && pawl__boottime() < deadline; i++)
        if (complain(&options->hosts[i], deadline, ret, size))
            return;
    snprintf(ret, size, "look whether the servers run and can be reached");
}
