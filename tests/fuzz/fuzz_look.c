/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_look.c - any file is a recording of looks or is refused. In each lock of a look those who hold come first; and what is written of a
 * look is read again, and written the same.
 */
#include "fuzz.h"

#include "../../cli/look/json.h"
#include "../../cli/look/read.h"

static char *write_place(const struct look *look, const struct place *place) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    CHECK(out);
    json_place(out, look, place, &(struct json_options){.raw = true});
    fclose(out);
    return text;
}

static char *read_and_write(const char *text) {
    struct look look;

    CHECK(look_start(&look, 1, 0));
    CHECK(place_read(text, &look.places[0], &look.time_ms) && look_settle(&look));
    char *again = write_place(&look, &look.places[0]);
    look_finish(&look);
    return again;
}

static void check_lock(const struct lock_seen *lock) {
    CHECK(lock->name[0] != '\0' && lock->holders + lock->waiters > 0);
    for (size_t i = 0; i < lock->holders + lock->waiters; i++)
        CHECK(is_waiter(&lock->entries[i]) == (i >= lock->holders));
}

static void check_place(const struct look *look, const struct place *place) {
    for (size_t i = 0; i < place->count; i++)
        check_lock(&place->locks[i]);
    /* The first may still differ: where a text was no UTF-8, or a lock stood there twice. */
    char *first = write_place(look, place), *second = read_and_write(first), *third = read_and_write(second);
    CHECK(strcmp(second, third) == 0);
    free(first);
    free(second);
    free(third);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_copy(data, size, 1);
    struct recording recording = {.file = fmemopen(text, size > 0 ? size : 1, "r")};
    struct look look;

    CHECK(recording.file);
    while (look_read(&recording, &look) == READ_LOOK) {
        for (size_t i = 0; i < look.count; i++)
            check_place(&look, &look.places[i]);
        look_finish(&look);
    }
    recording_finish(&recording);
    free(text);
    return 0;
}
