/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_wire.c - jute, the format of ZooKeeper's records: big-endian numbers; strings and buffers after their length, of which
 * -1 is null; records are their fields one after another. A frame is a length of four bytes and what it counts.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

void *zk_memory(size_t size) {
    void *memory = calloc(1, size);

    if (!memory)
        abort();
    return memory;
}

uint32_t zk_hash(const char *bytes, size_t size) {
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash ^ hash >> 15;
}

struct zk_blob *zk_blob_new(const void *bytes, size_t size) {
    struct zk_blob *blob = malloc(sizeof *blob + size + 1);

    if (!blob)
        abort();
    blob->refs = 1;
    blob->size = (uint32_t)size;
    if (size > 0)
        memcpy(blob->bytes, bytes, size);
    blob->bytes[size] = '\0';
    return blob;
}

struct zk_blob *zk_blob_ref(struct zk_blob *blob) {
    if (blob)
        blob->refs++;
    return blob;
}

void zk_blob_unref(struct zk_blob *blob) {
    if (blob && --blob->refs == 0)
        free(blob);
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

static bool has(struct zk_reader *reader, size_t size) {
    if (!reader->bad && (size_t)(reader->end - reader->at) < size)
        reader->bad = true;
    return !reader->bad;
}

static uint64_t read_number(struct zk_reader *reader, size_t size) {
    uint64_t number = 0;

    if (!has(reader, size))
        return 0;
    for (size_t i = 0; i < size; i++)
        number = number << 8 | (unsigned char)*reader->at++;
    return number;
}

int32_t zk_read_int(struct zk_reader *reader) {
    return (int32_t)(uint32_t)read_number(reader, 4);
}

int64_t zk_read_long(struct zk_reader *reader) {
    return (int64_t)read_number(reader, 8);
}

bool zk_read_bool(struct zk_reader *reader) {
    return read_number(reader, 1) != 0;
}

struct zk_text zk_read_buffer(struct zk_reader *reader) {
    struct zk_text text = {.size = zk_read_int(reader)};

    if (text.size < -1)
        reader->bad = true;
    if (reader->bad || text.size < 0 || !has(reader, (size_t)text.size))
        return (struct zk_text){.size = -1};
    text.bytes = reader->at;
    reader->at += text.size;
    return text;
}

struct zk_text zk_read_string(struct zk_reader *reader) {
    struct zk_text text = zk_read_buffer(reader);

    if (text.size < 0) {
        reader->bad = true;
        return (struct zk_text){.bytes = "", .size = 0};
    }
    return text;
}

/* ---- Writing -------------------------------------------------------------------------------------------------------------- */

void zk_writer_begin(struct zk_writer *writer) {
    writer->bytes = writer->small;
    writer->size = sizeof writer->small;
    writer->used = 4;
}

void zk_writer_end(struct zk_writer *writer) {
    if (writer->bytes != writer->small)
        free(writer->bytes);
}

static char *room(struct zk_writer *writer, size_t size) {
    char *place;

    if (writer->size - writer->used < size) {
        size_t grown = 2 * (writer->size + size);
        char *bytes = writer->bytes == writer->small ? malloc(grown) : realloc(writer->bytes, grown);

        if (!bytes)
            abort();
        if (writer->bytes == writer->small)
            memcpy(bytes, writer->small, writer->used);
        writer->bytes = bytes;
        writer->size = grown;
    }
    place = writer->bytes + writer->used;
    writer->used += size;
    return place;
}

static void put_number(char *place, uint64_t number, size_t size) {
    for (size_t i = size; i > 0; i--, number >>= 8)
        place[i - 1] = (char)(number & 255);
}

void zk_write_int(struct zk_writer *writer, int32_t number) {
    put_number(room(writer, 4), (uint32_t)number, 4);
}

void zk_write_long(struct zk_writer *writer, int64_t number) {
    put_number(room(writer, 8), (uint64_t)number, 8);
}

void zk_write_bool(struct zk_writer *writer, bool value) {
    *room(writer, 1) = value;
}

void zk_write_raw(struct zk_writer *writer, const char *bytes, size_t size) {
    if (size > 0)
        memcpy(room(writer, size), bytes, size);
}

void zk_write_buffer(struct zk_writer *writer, const char *bytes, int32_t size) {
    zk_write_int(writer, size);
    if (size > 0)
        zk_write_raw(writer, bytes, (size_t)size);
}

void zk_write_blob(struct zk_writer *writer, const struct zk_blob *blob) {
    zk_write_buffer(writer, blob ? blob->bytes : NULL, blob ? (int32_t)blob->size : -1);
}

void zk_write_frame(struct zk_writer *writer, struct link *link) {
    put_number(writer->bytes, writer->used - 4, 4);
    link_send(link, writer->bytes, writer->used);
}
