/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - what a redis URL says:
 *
 *     redis://[user[:password]@]host[:port][/db][?option=value&...]      rediss:// the same with TLS
 *     redis+unix:///path/to/socket[?db=N&...]                            unix:// is the same
 *
 * docs/redis.md lists the options. Secrets come from the URL alone and leave it only towards the server.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/redis.h"
#include "error.h"
#include "url.h"

enum { PORT = 6379, CONNECT_MS = 3000, COMMAND_MS = 3000, COMMAND_MS_LEAST = 500, LEASE_MS = 30000, CLAIM_MS = 2000 };
enum { RETRY_BASE_MS = 50, RETRY_MAX_MS = 2000, TIME_MS_MAX = 3600000, REPLICAS_MAX = 100 };

static int copy(const char *what, const char *from, char *to, size_t size, struct pawl_error *reterr) {
    if (strlen(from) >= size)
        return pawl__fail(reterr, PAWL_EURL, "the URL's %s is longer than %zu bytes", what, size - 1);
    strcpy(to, from);
    return 0;
}

static int take_text(struct pawl__url *url, const char *key, char *to, size_t size, struct pawl_error *reterr) {
    const char *value = pawl__url_option(url, key);

    return value ? copy(key, value, to, size, reterr) : 0;
}

static int take_place(const struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    bool socket = strcmp(url->scheme, "unix") == 0 || strcmp(url->scheme, "redis+unix") == 0;

    ret->tls = strcmp(url->scheme, "rediss") == 0;
    if (socket) {
        if (url->host_count || url->path[0] != '/' || !url->path[1])
            return pawl__fail(reterr, PAWL_EURL, "a Unix socket's URL is %s:///path/to/socket, with three slashes", url->scheme);
        return copy("socket path", url->path, ret->socket_path, sizeof ret->socket_path, reterr);
    }
    if (url->host_count > 1)
        return pawl__fail(
            reterr, PAWL_EENGINE,
            "the URL names several servers: locks over several (Sentinel, Cluster, Redlock) are not in this engine yet");
    ret->port = url->host_count && url->hosts[0].port ? url->hosts[0].port : PORT;
    return copy("host", url->host_count ? url->hosts[0].name : "localhost", ret->host, sizeof ret->host, reterr);
}

static int take_db(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    const char *path = ret->socket_path[0] ? "" : url->path;
    long long db = 0;
    char *end;
    int rc;

    if (path[0] == '/' && path[1]) {
        db = strtoll(path + 1, &end, 10);
        if (!isdigit((unsigned char)path[1]) || *end || db > 1000000)
            return pawl__fail(reterr, PAWL_EURL, "the URL's path '%.60s' is not the number of a database: write /0, /1, ...", path);
    }
    rc = pawl__url_number(url, "db", 0, 1000000, &db, reterr);
    ret->db = (unsigned)db;
    return rc;
}

static int take_secrets(const struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    int rc = 0;

    if (url->user)
        rc = copy("user name", url->user, ret->user, sizeof ret->user, reterr);
    if (rc == 0 && url->password)
        rc = copy("password", url->password, ret->password, sizeof ret->password, reterr);
    if (rc == 0 && ret->user[0] && !url->password)
        rc = pawl__fail(reterr, PAWL_EURL, "the URL has a user but no password: write user:password@host, or :password@host");
    return rc;
}

static int take_tls(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    const char *verify = pawl__url_option(url, "verify");
    int rc;

    ret->tls_verify = true;
    if (verify && strcmp(verify, "none") == 0)
        ret->tls_verify = false;
    else if (verify && strcmp(verify, "full") != 0)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL's option verify=%.20s is neither full nor none", verify);
    if ((rc = take_text(url, "ca", ret->tls_ca, sizeof ret->tls_ca, reterr)) < 0 ||
        (rc = take_text(url, "cert", ret->tls_cert, sizeof ret->tls_cert, reterr)) < 0 ||
        (rc = take_text(url, "key", ret->tls_key, sizeof ret->tls_key, reterr)) < 0 ||
        (rc = take_text(url, "servername", ret->tls_name, sizeof ret->tls_name, reterr)) < 0)
        return rc;
    if (!ret->tls && (verify || ret->tls_ca[0] || ret->tls_cert[0] || ret->tls_key[0] || ret->tls_name[0]))
        return pawl__fail(reterr, PAWL_EOPTION, "the URL has options of TLS, but its scheme is %s: write rediss:", url->scheme);
    if (!ret->tls_cert[0] != !ret->tls_key[0])
        return pawl__fail(reterr, PAWL_EOPTION, "the URL needs both cert= and key= for a client certificate, or neither");
    return 0;
}

/* ?retry=BASE,MAX,TRIES in ms; as few of them as one likes. */
static int take_retry(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    const char *text = pawl__url_option(url, "retry");
    long base = RETRY_BASE_MS, most = RETRY_MAX_MS, tries = 0;
    char *end = NULL;

    if (text) {
        base = strtol(text, &end, 10);
        if (*end == ',')
            most = strtol(end + 1, &end, 10);
        if (*end == ',')
            tries = strtol(end + 1, &end, 10);
        if (!isdigit((unsigned char)*text) || *end || base < 1 || most < base || most > TIME_MS_MAX || tries < 0 || tries > 1000000)
            return pawl__fail(
                reterr, PAWL_EOPTION,
                "the URL's option retry=%.40s is not BASE,MAX,TRIES: ms before the first retry, ms at most, and how often", text);
    }
    ret->retry_base_ns = base * REDIS_MS;
    ret->retry_max_ns = most * REDIS_MS;
    ret->retry_tries = (unsigned)tries;
    return 0;
}

static int take_times(struct pawl__url *url, int64_t lease_ns, struct redis_options *ret, struct pawl_error *reterr) {
    long long connect = CONNECT_MS, command = 0, claim = CLAIM_MS, replicas = 0;
    int rc;

    ret->lease_ns = lease_ns ? lease_ns : LEASE_MS * REDIS_MS;
    if ((rc = pawl__url_number(url, "connect", 10, TIME_MS_MAX, &connect, reterr)) < 0 ||
        (rc = pawl__url_number(url, "command", 10, TIME_MS_MAX, &command, reterr)) < 0 ||
        (rc = pawl__url_number(url, "claim", 100, TIME_MS_MAX, &claim, reterr)) < 0 ||
        (rc = pawl__url_number(url, "replicas", 0, REPLICAS_MAX, &replicas, reterr)) < 0)
        return rc;
    /* So that a connection that is only half there is given up while there is time to renew over another one. */
    if (!command)
        command = ret->lease_ns / REDIS_MS / 4;
    if (!pawl__url_option(url, "command"))
        command = command < COMMAND_MS_LEAST ? COMMAND_MS_LEAST : command > COMMAND_MS ? COMMAND_MS : command;
    ret->connect_ns = connect * REDIS_MS;
    ret->command_ns = command * REDIS_MS;
    ret->replicas = (unsigned)replicas;
    ret->claim_ns = claim * REDIS_MS < ret->lease_ns ? claim * REDIS_MS : ret->lease_ns;
    return take_retry(url, ret, reterr);
}

static int take_layout(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    const char *layout = pawl__url_option(url, "layout");

    if (layout && strcmp(layout, "plain") == 0)
        ret->layout = LAYOUT_PLAIN;
    else if (layout && strcmp(layout, "redisson") != 0)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL's option layout=%.40s is neither redisson nor plain", layout);
    return take_text(url, "prefix", ret->prefix, sizeof ret->prefix, reterr);
}

int pawl__redis_options(const struct pawl__setup *setup, struct redis_options *ret, struct pawl_error *reterr) {
    int rc;

    memset(ret, 0, sizeof *ret);
    if ((rc = take_place(setup->url, ret, reterr)) < 0 || (rc = take_db(setup->url, ret, reterr)) < 0 ||
        (rc = take_secrets(setup->url, ret, reterr)) < 0 || (rc = take_tls(setup->url, ret, reterr)) < 0 ||
        (rc = take_times(setup->url, setup->lease_ns, ret, reterr)) < 0)
        return rc;
    return take_layout(setup->url, ret, reterr);
}

void pawl__redis_describe_url(const struct redis_options *options, char *buffer, size_t size) {
    const char *layout = options->layout == LAYOUT_PLAIN ? "layout=plain" : "";
    int used;

    if (options->socket_path[0])
        used = snprintf(buffer, size, "redis+unix://%s?db=%u", options->socket_path, options->db);
    else
        used = snprintf(buffer, size, "%s://%s%s%s:%u/%u", options->tls ? "rediss" : "redis", strchr(options->host, ':') ? "[" : "",
                        options->host, strchr(options->host, ':') ? "]" : "", options->port, options->db);
    if (layout[0] && used > 0 && (size_t)used < size)
        snprintf(buffer + used, size - (size_t)used, "%c%s", options->socket_path[0] ? '&' : '?', layout);
}
