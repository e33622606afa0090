/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - pawl status --json. docs/status-json.md is the contract: keys are added, never changed.
 *
 * Tokens are strings: they have 64 bits, and most readers of JSON keep 53 of a number. What is not known is null, never 0 or "".
 */
#include "status.h"

#include <inttypes.h>

enum { FORMAT = 1 };

static void print_known_string(FILE *out, const char *key, const char *text) {
    fprintf(out, ",\"%s\":", key);
    if (text[0] == '\0')
        fputs("null", out);
    else
        json_string(out, text);
}

static void print_known_number(FILE *out, const char *key, bool known, int64_t number) {
    if (known)
        fprintf(out, ",\"%s\":%" PRId64, key, number);
    else
        fprintf(out, ",\"%s\":null", key);
}

static void print_flag(FILE *out, const char *key, const struct pawl_entry *entry, unsigned flag) {
    fprintf(out, ",\"%s\":%s", key, entry->flags & flag ? "true" : "false");
}

static void print_entry(FILE *out, const struct pawl_entry *entry, bool raw) {
    fprintf(out, "{\"position\":%u,\"mode\":\"%s\"", entry->position, mode_name(entry->mode));
    print_known_number(out, "permits", entry->kind == PAWL_SEMAPHORE, entry->permits);
    if (entry->token != 0)
        fprintf(out, ",\"token\":\"%" PRIu64 "\"", entry->token);
    else
        fputs(",\"token\":null", out);
    print_known_string(out, "host", entry->host);
    print_known_number(out, "pid", entry->pid != 0, entry->pid);
    print_known_string(out, "command", entry->command);
    print_known_string(out, "label", entry->label);
    print_known_number(out, "since_ms", entry->since_ms != 0, entry->since_ms);
    print_known_number(out, "remaining_ms", entry->remaining_ms >= 0 && entry->remaining_ms != PAWL_FOREVER, entry->remaining_ms);
    print_flag(out, "broken", entry, PAWL_ENTRY_BROKEN);
    print_flag(out, "stopped", entry, PAWL_ENTRY_STOPPED);
    print_flag(out, "foreign", entry, PAWL_ENTRY_FOREIGN);
    print_flag(out, "keeps", entry, PAWL_ENTRY_KEEPS);
    if (raw)
        print_known_string(out, "raw", entry->raw);
    fputc('}', out);
}

static void print_entries(FILE *out, const struct pawl_entry *entries, size_t count, bool waiters, bool raw) {
    const char *separator = "";

    for (size_t i = 0; i < count; i++) {
        if (is_waiter(&entries[i]) != waiters)
            continue;
        fputs(separator, out);
        print_entry(out, &entries[i], raw);
        separator = ",";
    }
}

static void print_lock(FILE *out, const struct pawl_entry *entries, size_t count, bool raw) {
    fputs("{\"name\":", out);
    json_string(out, entries[0].name);
    fprintf(out, ",\"kind\":\"%s\"", kind_name(entries[0].kind));
    print_known_number(out, "limit", entries[0].kind == PAWL_SEMAPHORE, entries[0].limit);
    fputs(",\"holders\":[", out);
    print_entries(out, entries, count, false, raw);
    fputs("],\"waiters\":[", out);
    print_entries(out, entries, count, true, raw);
    fputs("]}", out);
}

void print_json(FILE *out, const struct status_view *view, const struct snapshot *snapshot) {
    const struct pawl_info *info = view->info;

    fprintf(out, "{\"format\":%d,\"time_ms\":%" PRId64 ",\"url\":", FORMAT, wall_ms());
    json_string(out, info->url);
    fputs(",\"engine\":", out);
    json_string(out, info->engine);
    print_known_number(out, "lease_ms", info->lease_ms != PAWL_FOREVER, info->lease_ms);
    fprintf(out, ",\"notice_ms\":%" PRId64 ",\"locks\":[", info->notice_ms);
    for (size_t i = 0, next; i < snapshot->count; i = next) {
        next = snapshot_next_lock(snapshot, i);
        if (i > 0)
            fputc(',', out);
        print_lock(out, snapshot->entries + i, next - i, view->raw);
    }
    fputs("]}\n", out);
}
