/* SPDX-License-Identifier: Apache-2.0
 *
 * sha1.c - SHA-1 (FIPS 180-4), the name by which a server knows a script. Nothing rests on its strength, and OpenSSL's, the only part of
 * that library which plain connections would need, would cost every program that links pawl a millisecond at its start.
 */
#include <string.h>

#include "engine/redis/redis.h"

enum { BLOCK = 64, LENGTH_SIZE = 8 };

static uint32_t rotate(uint32_t word, int bits) {
    return word << bits | word >> (32 - bits);
}

static uint32_t mix(int round, uint32_t b, uint32_t c, uint32_t d) {
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + 0x5a827999;
    case 1:
        return (b ^ c ^ d) + 0x6ed9eba1;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    default:
        return (b ^ c ^ d) + 0xca62c1d6;
    }
}

static void digest_block(uint32_t state[5], const unsigned char *block) {
    uint32_t words[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
                   block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t next = rotate(a, 5) + mix(i, b, c, d) + e + words[i];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void pawl__sha1_hex(const char *text, size_t length, char ret[SHA_HEX + 1]) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char tail[2 * BLOCK] = {0};
    size_t whole = length / BLOCK * BLOCK, rest = length - whole;
    size_t tail_size = rest + 1 + LENGTH_SIZE <= BLOCK ? BLOCK : 2 * BLOCK;

    for (size_t at = 0; at < whole; at += BLOCK)
        digest_block(state, (const unsigned char *)text + at);
    memcpy(tail, text + whole, rest);
    tail[rest] = 0x80;
    for (int i = 0; i < LENGTH_SIZE; i++)
        tail[tail_size - 1 - (size_t)i] = (unsigned char)((uint64_t)length * 8 >> (8 * i));
    for (size_t at = 0; at < tail_size; at += BLOCK)
        digest_block(state, tail + at);
    for (int i = 0; i < 5; i++)
        snprintf(ret + 8 * i, 9, "%08x", state[i]);
}
