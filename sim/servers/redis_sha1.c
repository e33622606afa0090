/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_sha1.c - SHA-1 (FIPS 180-4), by which scripts are called. A second one beside the engine's, so that a mistake there would show.
 */
#include <stdio.h>

#include "redis_internal.h"

static uint32_t turn(uint32_t word, unsigned bits) {
    return word << bits | word >> (32 - bits);
}

static void take_block(uint32_t hash[5], const unsigned char *bytes) {
    static const uint32_t constants[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], v[5];

    for (unsigned t = 0; t < 80; t++)
        w[t] = t < 16 ? (uint32_t)bytes[4 * t] << 24 | (uint32_t)bytes[4 * t + 1] << 16 | (uint32_t)bytes[4 * t + 2] << 8 |
                            bytes[4 * t + 3]
                      : turn(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    memcpy(v, hash, sizeof v);
    for (unsigned t = 0; t < 80; t++) {
        uint32_t choice = t < 20              ? v[3] ^ (v[1] & (v[2] ^ v[3]))
                          : t < 40 || t >= 60 ? v[1] ^ v[2] ^ v[3]
                                              : (v[1] & v[2]) | (v[3] & (v[1] | v[2]));
        uint32_t next = turn(v[0], 5) + choice + v[4] + constants[t / 20] + w[t];

        v[4] = v[3];
        v[3] = v[2];
        v[2] = turn(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (unsigned i = 0; i < 5; i++)
        hash[i] += v[i];
}

void redis__sha1(const void *data, size_t size, unsigned char ret[20]) {
    uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char last[128] = {0};
    size_t rest = size % 64, end = rest < 56 ? 64 : 128;

    for (size_t at = 0; at + 64 <= size; at += 64)
        take_block(hash, (const unsigned char *)data + at);
    memcpy(last, (const unsigned char *)data + size - rest, rest);
    last[rest] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        last[end - 1 - i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
    for (size_t at = 0; at < end; at += 64)
        take_block(hash, last + at);
    for (unsigned i = 0; i < 20; i++)
        ret[i] = (unsigned char)(hash[i / 4] >> (24 - i % 4 * 8));
}

void redis__sha1_text(const unsigned char hash[20], char ret[SHA + 1]) {
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < 20; i++) {
        ret[2 * i] = digits[hash[i] >> 4];
        ret[2 * i + 1] = digits[hash[i] & 15];
    }
    ret[SHA] = '\0';
}

void redis__sha1_hex(const void *data, size_t size, char ret[SHA + 1]) {
    unsigned char hash[20];

    redis__sha1(data, size, hash);
    redis__sha1_text(hash, ret);
}
