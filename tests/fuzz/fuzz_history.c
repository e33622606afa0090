/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_history.c - any bytes are a history, a bad one mostly: the checker of `pawl torture` reads them to the end, and judges. What is
 * not a whole history never passes.
 */
#include "fuzz.h"

#include "../../lab/torture/check.h"

static const char table[] =
    "| engine | fault | oracle | bound | test |\n|---|---|---|---|---|\n"
    "| redis | client-kill | EXCLUSIVE | - | t |\n| redis | flushall | FENCED | renewal | t |\n"
    "| redis | failover | LOSS | lease | t |\n\n"
    "| engine | order is kept | idle | after a fault |\n|---|---|---|---|\n| redis | none | 1 lease + 1 s | 1 s |\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct verdict *verdict = malloc(sizeof(*verdict));
    struct check *check = check_new(table);
    char *text = fuzz_copy(data, size, 0);
    bool ends = false;

    CHECK(verdict && check);
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - text) - at : size - at;
        struct record record;

        if (history_parse(text + at, length, &record)) {
            CHECK(record.lock >= 0 && record.lock < HISTORY_LOCKS && record.who.slot < HISTORY_SLOTS);
            CHECK(record.text_length <= length);
            ends |= record.kind == RECORD_END;
        }
        check_line(check, text + at, length);
        at += length + 1;
    }
    check_finish(check, verdict);
    CHECK(ends || verdict->total > 0);
    check_free(check);
    free(verdict);
    free(text);
    return 0;
}
