/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - what a redis URL says:
 *
 *     redis://[user[:password]@]host[:port][/db][?option=value&...]      rediss:// the same with TLS
 *     redis+unix:///path/to/socket[?db=N&...]                            unix:// is the same
 *     redis-cluster://[user[:password]@]host[:port],...[?...]            redis+cluster:// is the same; rediss-cluster:// with TLS
 *     redis-sentinel://[user[:password]@]host[:port],.../name[/db][?...] redis+sentinel:// is the same; rediss-sentinel:// with TLS
 *
 * docs/redis.md lists the options. Secrets come from the URL alone and leave it only towards the server.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/wire/wire.h"
#include "base/error.h"
#include "base/url.h"

enum {
    PORT = 6379,
    SENTINEL_PORT = 26379,
    CONNECT_MS = 3000,
    COMMAND_MS = 3000,
    COMMAND_MS_LEAST = 500,
    LEASE_MS = 30000,
    CLAIM_MS = 2000
};
/* Looking for an answer costs no more than to be woken, where that is dear. */
enum { SPIN_US = 70, SPIN_US_MAX = 10000 };
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

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);

    return length >= size && strcmp(text + length - size, end) == 0;
}

static int put_host(struct redis_options *ret, const char *host, unsigned port, struct pawl_error *reterr) {
    struct redis_host_port *to = &ret->hosts[ret->host_count++];

    to->port = port ? port : ret->topology == TOPOLOGY_SENTINEL ? SENTINEL_PORT : PORT;
    return copy("host", host, to->host, sizeof to->host, reterr);
}

static int take_hosts(const struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    bool socket = strcmp(url->scheme, "unix") == 0 || strcmp(url->scheme, "redis+unix") == 0;
    int rc = 0;

    ret->tls.on = strncmp(url->scheme, "rediss", 6) == 0;
    ret->topology = ends_with(url->scheme, "sentinel")  ? TOPOLOGY_SENTINEL
                    : ends_with(url->scheme, "cluster") ? TOPOLOGY_CLUSTER
                                                        : TOPOLOGY_ONE;
    if (socket) {
        if (url->host_count || url->path[0] != '/' || !url->path[1])
            return pawl__fail(reterr, PAWL_EURL, "a Unix socket's URL is %s:///path/to/socket, with three slashes", url->scheme);
        return copy("socket path", url->path, ret->socket_path, sizeof ret->socket_path, reterr);
    }
    if (url->host_count > 1 && ret->topology == TOPOLOGY_ONE)
        return pawl__fail(reterr, PAWL_EURL,
                          "the URL names several servers: its scheme must say what they are together: "
                          "redis-sentinel:, redis-cluster: or redlock:");
    if (url->host_count == 0)
        rc = put_host(ret, "localhost", 0, reterr);
    for (size_t i = 0; i < url->host_count && rc == 0; i++)
        rc = put_host(ret, url->hosts[i].name, url->hosts[i].port, reterr);
    return rc;
}

/* Under Sentinel the path begins with the primary's name: /name[/db]; or /[db]#name, as other clients write it. Returns what is left of
 * the path, or NULL. */
static const char *take_name(const char *path, struct redis_options *ret) {
    const char *hash = strchr(path, '#'), *name = hash ? hash + 1 : path + (path[0] == '/');
    size_t length = hash ? strlen(name) : strcspn(name, "/");

    if (!length || length >= sizeof ret->primary_name)
        return NULL;
    memcpy(ret->primary_name, name, length);
    return hash ? path : name + length;
}

static int take_db(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    const char *path = ret->socket_path[0] ? "" : url->path;
    long long db = 0;
    char *end;
    int rc;

    if (ret->topology == TOPOLOGY_SENTINEL && !(path = take_name(path, ret)))
        return pawl__fail(reterr, PAWL_EURL, "the URL lacks the name by which the sentinels know the primary: write %s://%s/NAME",
                          url->scheme, ret->hosts[0].host);
    if (path[0] == '/' && path[1] && path[1] != '#') {
        db = strtoll(path + 1, &end, 10);
        if (!isdigit((unsigned char)path[1]) || (*end && *end != '#') || db > 1000000)
            return url->host_count == 0
                       ? pawl__fail(reterr, PAWL_EURL, "the URL names no host before '%.60s': write %s://HOST...", url->path,
                                    url->scheme)
                       : pawl__fail(reterr, PAWL_EURL, "the URL's path '%.60s' is not the number of a database: write /0, /1, ...",
                                    path);
    }
    rc = pawl__url_number(url, "db", 0, 1000000, &db, reterr);
    ret->db = (unsigned)db;
    if (rc == 0 && db && ret->topology == TOPOLOGY_CLUSTER)
        return pawl__fail(reterr, PAWL_EURL, "a cluster has database 0 alone: leave the %lld out of the URL", db);
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

/* The options of TLS; those for sentinels begin with `prefix`. */
static int take_tls_options(struct pawl__url *url, const char *prefix, struct tls_options *ret, bool *any,
                            struct pawl_error *reterr) {
    struct {
        const char *name;
        char *to;
        size_t size;
    } texts[] = {
        {"ca", ret->ca, sizeof ret->ca},
        {"cert", ret->cert, sizeof ret->cert},
        {"key", ret->key, sizeof ret->key},
        {"servername", ret->name, sizeof ret->name},
    };
    char key[32];
    const char *value;
    int rc = 0, either;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && rc == 0; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, texts[i].name);
        *any |= (value = pawl__url_option(url, key)) != NULL;
        rc = value ? copy(key, value, texts[i].to, texts[i].size, reterr) : 0;
    }
    snprintf(key, sizeof key, "%sverify", prefix);
    *any |= pawl__url_option(url, key) != NULL;
    if ((either = pawl__url_either(url, key, "full", "none", &ret->verify, reterr)) < 0)
        return either;
    if (rc == 0 && !ret->cert[0] != !ret->key[0])
        return pawl__fail(reterr, PAWL_EOPTION, "the URL needs both %scert= and %skey= for a client certificate, or neither",
                          prefix, prefix);
    return rc;
}

static int take_tls(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    bool any = false;
    int rc;

    ret->tls.verify = true;
    rc = take_tls_options(url, "", &ret->tls, &any, reterr);
    if (rc == 0 && any && !ret->tls.on)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL has options of TLS, but its scheme is %s: write rediss%s:", url->scheme,
                          url->scheme + strlen("redis"));
    return rc;
}

/* What the sentinels want to see: a user of their own, and TLS as the servers have it unless the URL says otherwise. */
static int take_sentinel(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    bool any = false;
    int rc;

    if (ret->topology != TOPOLOGY_SENTINEL)
        return 0;
    if ((rc = take_text(url, "sentinel-user", ret->sentinel_user, sizeof ret->sentinel_user, reterr)) < 0 ||
        (rc = take_text(url, "sentinel-password", ret->sentinel_password, sizeof ret->sentinel_password, reterr)) < 0)
        return rc;
    if (ret->sentinel_user[0] && !ret->sentinel_password[0])
        return pawl__fail(reterr, PAWL_EURL, "the URL has sentinel-user= but no sentinel-password=");
    ret->sentinel_tls = ret->tls;
    if ((rc = pawl__url_either(url, "sentinel-tls", "yes", "no", &ret->sentinel_tls.on, reterr)) < 0)
        return rc;
    rc = take_tls_options(url, "sentinel-", &ret->sentinel_tls, &any, reterr);
    if (rc == 0 && any && !ret->sentinel_tls.on)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL has options of the sentinels' TLS, but no sentinel-tls=yes");
    return rc;
}

static int take_times(struct pawl__url *url, int64_t lease_ns, int64_t patience_ns, struct redis_options *ret,
                      struct pawl_error *reterr) {
    long long connect = CONNECT_MS, command = 0, claim = CLAIM_MS, replicas = 0, spin = SPIN_US;
    int rc;

    ret->lease_ns = lease_ns ? lease_ns : LEASE_MS * REDIS_MS;
    if ((rc = pawl__url_number(url, "connect", 10, TIME_MS_MAX, &connect, reterr)) < 0 ||
        (rc = pawl__url_number(url, "command", 10, TIME_MS_MAX, &command, reterr)) < 0 ||
        (rc = pawl__url_number(url, "claim", 100, TIME_MS_MAX, &claim, reterr)) < 0 ||
        (rc = pawl__url_number(url, "replicas", 0, REPLICAS_MAX, &replicas, reterr)) < 0 ||
        (rc = pawl__url_number(url, "spin", 0, SPIN_US_MAX, &spin, reterr)) < 0)
        return rc;
    /* So that a connection that is only half there is given up while there is time to renew over another one. */
    if (!command)
        command = ret->lease_ns / REDIS_MS / 4;
    if (!pawl__url_option(url, "command"))
        command = command < COMMAND_MS_LEAST ? COMMAND_MS_LEAST : command > COMMAND_MS ? COMMAND_MS : command;
    ret->connect_ns = connect * REDIS_MS;
    ret->patience_ns = patience_ns;
    ret->command_ns = command * REDIS_MS;
    ret->replicas = (unsigned)replicas;
    ret->spin_ns = spin * REDIS_US;
    ret->claim_ns = claim * REDIS_MS < ret->lease_ns ? claim * REDIS_MS : ret->lease_ns;
    ret->retry = (struct kit_retry){RETRY_BASE_MS * REDIS_MS, RETRY_MAX_MS * REDIS_MS, 0};
    return pawl__kit_take_retry(url, &ret->retry, reterr);
}

static int take_layout(struct pawl__url *url, struct redis_options *ret, struct pawl_error *reterr) {
    bool redisson = true;
    int rc;

    if ((rc = pawl__url_either(url, "layout", "redisson", "plain", &redisson, reterr)) < 0)
        return rc;
    ret->layout = redisson ? LAYOUT_REDISSON : LAYOUT_PLAIN;
    if ((rc = take_text(url, "prefix", ret->prefix, sizeof ret->prefix, reterr)) < 0)
        return rc;
    for (const char *c = ret->prefix; *c; c++)
        if ((unsigned char)*c < ' ')
            return pawl__fail(reterr, PAWL_EURL, "the URL's prefix has a control character (0x%02x): leave it out",
                              (unsigned char)*c);
    return 0;
}

int pawl__redis_options(const struct pawl__setup *setup, struct redis_options *ret, struct pawl_error *reterr) {
    int rc;

    memset(ret, 0, sizeof *ret);
    if ((rc = take_hosts(setup->url, ret, reterr)) < 0 || (rc = take_db(setup->url, ret, reterr)) < 0 ||
        (rc = take_secrets(setup->url, ret, reterr)) < 0 || (rc = take_tls(setup->url, ret, reterr)) < 0 ||
        (rc = take_sentinel(setup->url, ret, reterr)) < 0 ||
        (rc = take_times(setup->url, setup->lease_ns, setup->patience_ns, ret, reterr)) < 0)
        return rc;
    return take_layout(setup->url, ret, reterr);
}

static void add_hosts(const struct redis_options *options, FILE *to) {
    char where[PAWL__URL_HOST_PORT];

    for (size_t i = 0; i < options->host_count; i++)
        fprintf(to, "%s%s", i ? "," : "", pawl__url_host_port(options->hosts[i].host, options->hosts[i].port, where));
}

/* As it must stand in a URL. */
static void add_text(const char *text, FILE *to) {
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        fprintf(to, isalnum(*c) || strchr("-._~:/", *c) ? "%c" : "%%%02X", *c);
}

/* Two URLs are the same if their locks are: pawl_acquire_all sorts by that. */
void pawl__redis_describe_url(const struct redis_options *options, char *buffer, size_t size) {
    FILE *to = fmemopen(buffer, size, "w");
    const char *separator = "?";

    buffer[0] = '\0';
    if (!to)
        return;
    if (options->socket_path[0]) {
        fprintf(to, "redis+unix://%s?db=%u", options->socket_path, options->db);
        separator = "&";
    } else {
        fprintf(to, "redis%s%s://", options->tls.on ? "s" : "",
                options->topology == TOPOLOGY_SENTINEL  ? "-sentinel"
                : options->topology == TOPOLOGY_CLUSTER ? "-cluster"
                                                        : "");
        add_hosts(options, to);
        if (options->topology == TOPOLOGY_SENTINEL)
            fprintf(to, "/%s", options->primary_name);
        if (options->topology != TOPOLOGY_CLUSTER)
            fprintf(to, "/%u", options->db);
    }
    if (options->prefix[0]) {
        fprintf(to, "%sprefix=", separator);
        add_text(options->prefix, to);
        separator = "&";
    }
    if (options->layout == LAYOUT_PLAIN) {
        fprintf(to, "%slayout=plain", separator);
        separator = "&";
    }
    if (options->replicas) {
        fprintf(to, "%sreplicas=%u", separator, options->replicas);
        separator = "&";
    }
    if (options->spin_ns != SPIN_US * REDIS_US)
        fprintf(to, "%sspin=%lld", separator, (long long)(options->spin_ns / REDIS_US));
    fclose(to);
    buffer[size - 1] = '\0';
}
