/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_acl.c - who may do what. A right names a scheme and an identity: world:anyone, digest:user:hash, ip:address. A client
 * is a list of identities: its address from the start, and all that it has told by `auth`. The scheme `auth` in a list that a
 * client sends means: who I am; it is replaced at once.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

/* All clients have this address. */
static const char client_address[] = "127.0.0.1";

struct zk_acl *zk_acl_ref(struct zk_acl *acl) {
    acl->refs++;
    return acl;
}

void zk_acl_unref(struct zk_acl *acl) {
    if (acl && --acl->refs == 0)
        free(acl);
}

/* A list of its own, with its strings behind it. */
static struct zk_acl *acl_new(const struct zk_right *rights, unsigned count) {
    size_t size = sizeof(struct zk_acl) + count * sizeof *rights;
    struct zk_acl *acl;
    char *text;

    for (unsigned i = 0; i < count; i++)
        size += strlen(rights[i].scheme) + strlen(rights[i].id) + 2;
    acl = malloc(size);
    if (!acl)
        abort();
    acl->refs = 1;
    acl->count = count;
    text = (char *)&acl->rights[count];
    for (unsigned i = 0; i < count; i++) {
        acl->rights[i].perms = rights[i].perms;
        acl->rights[i].scheme = strcpy(text, rights[i].scheme);
        text += strlen(text) + 1;
        acl->rights[i].id = strcpy(text, rights[i].id);
        text += strlen(text) + 1;
    }
    return acl;
}

struct zk_acl *zk_acl_world(int32_t perms) {
    return acl_new(&(struct zk_right){perms, "world", "anyone"}, 1);
}

struct zk_acl *zk_client_new(void) {
    return acl_new(&(struct zk_right){0, "ip", client_address}, 1);
}

/* ---- Schemes -------------------------------------------------------------------------------------------------------------- */

/* An address of four numbers, and how many bits of it count. */
static bool parse_address(const char *text, uint32_t *ret, int *ret_bits) {
    uint32_t address = 0;
    char *end;

    for (int i = 0; i < 4; i++) {
        unsigned long part;

        if (!isdigit((unsigned char)*text))
            return false;
        part = strtoul(text, &end, 10);
        if (part > 255 || (i < 3 && *end != '.'))
            return false;
        address = address << 8 | (uint32_t)part;
        text = i < 3 ? end + 1 : end;
    }
    *ret_bits = 32;
    if (*text == '/') {
        if (!isdigit((unsigned char)text[1]))
            return false;
        *ret_bits = (int)strtol(text + 1, &end, 10);
        text = end;
    }
    *ret = address;
    return *text == '\0' && *ret_bits <= 32;
}

/* user:hash, and nothing more. */
static bool digest_is_valid(const char *id) {
    const char *colon = strchr(id, ':');

    return colon && colon[1] && colon[1] != ':' && !strchr(colon + 1, ':');
}

static bool is_valid(const char *scheme, const char *id) {
    uint32_t address;
    int bits;

    if (strcmp(scheme, "digest") == 0)
        return digest_is_valid(id);
    return strcmp(scheme, "ip") == 0 && parse_address(id, &address, &bits);
}

static bool matches(const struct zk_right *right, const struct zk_right *who) {
    uint32_t wanted, found, mask;
    int bits, all;

    if (strcmp(right->scheme, who->scheme) != 0)
        return false;
    if (strcmp(right->scheme, "ip") != 0)
        return strcmp(right->id, who->id) == 0;
    if (!parse_address(right->id, &wanted, &bits) || !parse_address(who->id, &found, &all))
        return false;
    mask = bits == 0 ? 0 : UINT32_MAX << (32 - bits);
    return (wanted & mask) == (found & mask);
}

bool zk_acl_allows(const struct zk_acl *acl, int32_t perm, const struct zk_acl *client) {
    if (acl->count == 0)
        return true;
    for (unsigned i = 0; i < acl->count; i++) {
        const struct zk_right *right = &acl->rights[i];

        if (!(right->perms & perm))
            continue;
        if (strcmp(right->scheme, "world") == 0 && strcmp(right->id, "anyone") == 0)
            return true;
        for (unsigned j = 0; j < client->count; j++)
            if (matches(right, &client->rights[j]))
                return true;
    }
    return false;
}

/* ---- Lists on the wire ---------------------------------------------------------------------------------------------------- */

enum { RIGHTS_MAX = 16, ID_MAX = 256 };

/* As it was sent. Returns how many; -1: that is no list. Texts end by '\0' in `store`. */
static int read_rights(struct zk_reader *reader, struct zk_right rights[RIGHTS_MAX], char store[RIGHTS_MAX][2][ID_MAX]) {
    int32_t count = zk_read_int(reader);

    if (count < 0)
        return reader->bad || count < -1 ? -1 : 0;
    if (count > RIGHTS_MAX)
        return -1;
    for (int i = 0; i < count; i++) {
        rights[i].perms = zk_read_int(reader);
        for (int j = 0; j < 2; j++) {
            struct zk_text text = zk_read_string(reader);

            if (reader->bad || text.size >= ID_MAX)
                return -1;
            memcpy(store[i][j], text.bytes, (size_t)text.size);
            store[i][j][text.size] = '\0';
        }
        rights[i].scheme = store[i][0];
        rights[i].id = store[i][1];
    }
    return reader->bad ? -1 : count;
}

static bool same(const struct zk_right *a, const struct zk_right *b) {
    return a->perms == b->perms && strcmp(a->scheme, b->scheme) == 0 && strcmp(a->id, b->id) == 0;
}

/* Who the client is, but for its address: with these rights. False: it is nobody. */
static bool add_client(struct zk_right *kept, unsigned *count, int32_t perms, const struct zk_acl *client) {
    bool anybody = false;

    for (unsigned i = 0; i < client->count && *count < 2 * RIGHTS_MAX; i++)
        if (strcmp(client->rights[i].scheme, "ip") != 0) {
            kept[*count] = client->rights[i];
            kept[(*count)++].perms = perms;
            anybody = true;
        }
    return anybody;
}

int32_t zk_acl_read(struct zk_reader *reader, const struct zk_acl *client, struct zk_acl **ret) {
    struct zk_right sent[RIGHTS_MAX], kept[2 * RIGHTS_MAX];
    char store[RIGHTS_MAX][2][ID_MAX];
    int count = read_rights(reader, sent, store);
    unsigned used = 0;
    bool valid = count > 0;

    if (count < 0)
        return ZK_MARSHALLING;
    for (int i = 0; valid && i < count; i++) {
        bool twice = false;

        for (int j = 0; j < i; j++)
            twice = twice || same(&sent[i], &sent[j]);
        if (twice || used == 2 * RIGHTS_MAX)
            continue;
        if (strcmp(sent[i].scheme, "auth") == 0) {
            valid = add_client(kept, &used, sent[i].perms, client);
            continue;
        }
        valid = (strcmp(sent[i].scheme, "world") == 0 && strcmp(sent[i].id, "anyone") == 0) || is_valid(sent[i].scheme, sent[i].id);
        kept[used++] = sent[i];
    }
    if (valid)
        *ret = acl_new(kept, used);
    return valid ? 0 : ZK_INVALID_ACL;
}

void zk_acl_write(struct zk_writer *writer, const struct zk_acl *acl, bool hide_secrets) {
    zk_write_int(writer, (int32_t)acl->count);
    for (unsigned i = 0; i < acl->count; i++) {
        const struct zk_right *right = &acl->rights[i];
        const char *id = right->id;
        char hidden[ID_MAX + 4];

        if (hide_secrets && strcmp(right->scheme, "digest") == 0) {
            snprintf(hidden, sizeof hidden, "%.*s:x", (int)strcspn(id, ":"), id);
            id = hidden;
        }
        zk_write_int(writer, right->perms);
        zk_write_buffer(writer, right->scheme, (int32_t)strlen(right->scheme));
        zk_write_buffer(writer, id, (int32_t)strlen(id));
    }
}

/* ---- Digests -------------------------------------------------------------------------------------------------------------- */

static void base64(const unsigned char *bytes, size_t size, char *ret) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < size; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;

        three |= i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < size ? bytes[i + 2] : 0;
        *ret++ = digits[three >> 18];
        *ret++ = digits[three >> 12 & 63];
        *ret++ = i + 1 < size ? digits[three >> 6 & 63] : '=';
        *ret++ = i + 2 < size ? digits[three & 63] : '=';
    }
    *ret = '\0';
}

/* user:secret becomes user:base64(sha1(user:secret)). */
static void digest_of(struct zk_text secret, char ret[ID_MAX]) {
    size_t user = 0;
    unsigned char hash[20];
    char text[32];

    while (user < (size_t)secret.size && secret.bytes[user] != ':')
        user++;
    if (user > ID_MAX / 2)
        user = ID_MAX / 2;
    redis__sha1(secret.bytes, (size_t)secret.size, hash);
    base64(hash, sizeof hash, text);
    snprintf(ret, ID_MAX, "%.*s:%s", (int)user, secret.bytes, text);
}

struct zk_acl *zk_client_add(const struct zk_acl *client, struct zk_text scheme, struct zk_text secret) {
    struct zk_right all[RIGHTS_MAX];
    char id[ID_MAX];

    if (scheme.size == 2 && memcmp(scheme.bytes, "ip", 2) == 0)
        return acl_new(client->rights, client->count);
    if (scheme.size != 6 || memcmp(scheme.bytes, "digest", 6) != 0 || secret.size < 0 || client->count == RIGHTS_MAX)
        return NULL;
    digest_of(secret, id);
    memcpy(all, client->rights, client->count * sizeof *all);
    all[client->count] = (struct zk_right){0, "digest", id};
    for (unsigned i = 0; i < client->count; i++)
        if (matches(&all[i], &all[client->count]))
            return acl_new(client->rights, client->count);
    return acl_new(all, client->count + 1);
}
