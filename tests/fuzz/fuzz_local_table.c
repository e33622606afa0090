/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_local_table.c - what lies in a lock directory, through the public functions alone.
 *
 * A client makes the directory; then somebody writes nonsense into its files, with the client still there or gone; then another
 * client comes and uses what it finds. Every call ends soon, with success or with a code and a sentence.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/local/format.h"

enum {
    /* The first byte of the input. */
    FIRST_STAYS = 1 << 0, /* the first client is still there when the second comes, ... */
    FIRST_HOLDS = 1 << 1, /* ... and holds a lock */
    REPLACE = 1 << 2,     /* the table is the rest of the input, and nothing else; only once the first is gone */
    REPLACE_TOKENS = 1 << 3,

    PATCHES_MAX = 16,
    SLOTS = 3, /* which of them are written to: those that are in use */
    NODES = 16,
};

static const char *const names[] = {"mutex", "rwlock", "semaphore"};
static char directory[PATH_MAX - 64], url[PATH_MAX];

struct tape {
    const uint8_t *data;
    size_t size;
};

static unsigned next_byte(struct tape *tape) {
    if (tape->size == 0)
        return 0;
    tape->size--;
    return *tape->data++;
}

static void expect(int rc, const struct pawl_error *error) {
    if (rc >= 0)
        return;
    CHECK(error->code == rc);
    CHECK(strcmp(pawl_error_name(rc), "PAWL_E?") != 0);
    CHECK(error->text[0] && memchr(error->text, '\0', sizeof error->text));
}

/* ---- The directory ---- */

static void make_directory(void) {
    const char *parent = getenv("TMPDIR");

    snprintf(directory, sizeof directory, "%s/pawl-fuzz-XXXXXX", parent ? parent : "/tmp");
    CHECK(mkdtemp(directory));
    snprintf(url, sizeof url, "local:%s", directory);
}

static void empty_directory(const char *path) {
    DIR *stream = opendir(path);
    struct dirent *entry;

    if (!stream)
        return;
    while ((entry = readdir(stream)))
        if (entry->d_name[0] != '.' && unlinkat(dirfd(stream), entry->d_name, 0) < 0) {
            char below[PATH_MAX];

            snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
            empty_directory(below);
        }
    closedir(stream);
}

static int open_file(const char *name, int flags) {
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return open(path, flags | O_RDWR | O_CLOEXEC);
}

static void write_file(const char *name, int flags, size_t offset, const void *data, size_t size) {
    int fd = open_file(name, flags);

    CHECK(fd >= 0);
    CHECK(pwrite(fd, data, size, (off_t)offset) == (ssize_t)size);
    close(fd);
}

/* ---- Nonsense ---- */

static size_t bucket_of(unsigned which) {
    const char *name = names[which % 3];

    return offsetof(struct table, buckets) + (pawl__name_hash(name, strlen(name)) & (BUCKET_COUNT - 1)) * sizeof(struct bucket);
}

static void patch(struct tape *tape) {
    unsigned region = next_byte(tape), index = next_byte(tape), at = next_byte(tape), length = 1 + next_byte(tape) % 8;
    size_t base, size;
    uint8_t bytes[8];

    switch (region % 8) {
    case 0:
        base = 0;
        size = 128; /* what is in use of the header */
        break;
    case 1:
        base = offsetof(struct table, words[0]) + index % SLOTS * sizeof(uint64_t);
        size = sizeof(uint64_t);
        break;
    case 2:
        base = offsetof(struct table, owners[0]) + index % (NODES / BLOCK_NODES) * sizeof(uint64_t);
        size = sizeof(uint64_t);
        break;
    case 3:
        base = offsetof(struct table, sessions[0]) + index % SLOTS * sizeof(struct session);
        size = sizeof(struct session);
        break;
    case 4:
    case 5:
        base = bucket_of(index);
        size = sizeof(struct bucket);
        break;
    default:
        base = offsetof(struct table, nodes[0]) + index % NODES * sizeof(struct node);
        size = sizeof(struct node);
        break;
    }
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = i < length ? (uint8_t)next_byte(tape) : 0;
    write_file("table", 0, base + at % (size - length + 1), bytes, length);
}

/* Who finds a living process inside a guard waits for it while there is time: sound, but too slow for here. Let it be dead. */
static void kill_guards(void) {
    int fd = open_file("table", 0);

    CHECK(fd >= 0);
    for (unsigned i = 0; i < 3; i++) {
        off_t offset = (off_t)(bucket_of(i) + offsetof(struct bucket, guard));
        uint64_t guard;

        CHECK(pread(fd, &guard, sizeof guard, offset) == sizeof guard);
        if (guard != 0)
            guard |= UINT64_C(0x7f) << 56;
        CHECK(pwrite(fd, &guard, sizeof guard, offset) == sizeof guard);
    }
    close(fd);
}

static void damage(unsigned how, struct tape *tape) {
    if (how & REPLACE_TOKENS) {
        size_t size = next_byte(tape) % 32;

        size = size < tape->size ? size : tape->size;
        write_file("token.hi", O_TRUNC, 0, tape->data, size);
        tape->data += size;
        tape->size -= size;
    }
    /* Cutting a table that is mapped would end the process by SIGBUS: nobody does that to others. */
    if ((how & REPLACE) && !(how & FIRST_STAYS)) {
        write_file("table", O_TRUNC, 0, tape->data, tape->size);
        return;
    }
    for (int i = 0; tape->size && i < PATCHES_MAX; i++)
        patch(tape);
    kill_guards();
}

/* ---- Use ---- */

static struct pawl_lock *make_lock(struct pawl *client, unsigned which) {
    struct pawl_lock *lock = NULL;
    struct pawl_error error;
    int rc;

    if (which == 0)
        rc = pawl_mutex_new(client, names[which], PAWL_TASK, &lock, &error);
    else if (which == 1)
        rc = pawl_rwlock_new(client, names[which], PAWL_TASK, &lock, &error);
    else
        rc = pawl_semaphore_new(client, names[which], 3, PAWL_TASK, &lock, &error);
    expect(rc, &error);
    CHECK(rc == 0);
    return lock;
}

static int visit(const struct pawl_entry *entry, void *data) {
    uint64_t *token = data;

    CHECK(strlen(entry->name) <= PAWL__NAME_MAX);
    CHECK(entry->host && entry->command && entry->label && entry->raw && entry->agent && entry->around && entry->claim);
    if (entry->token)
        *token = entry->token;
    return 0;
}

static void use(struct pawl *client) {
    struct pawl_error error;
    uint64_t token = 1;

    for (unsigned i = 0; i < 3; i++) {
        struct pawl_lock *lock = make_lock(client, i);
        int rc = i == 1 ? pawl_acquire_shared(lock, 0, &error) : pawl_acquire(lock, 1, &error);

        expect(rc, &error);
        CHECK(rc < 0 || pawl_token(lock) > 0);
        expect(pawl_inspect(client, NULL, visit, &token, &error), &error);
        expect(pawl_break(client, names[i], token, i == 2 ? PAWL_BREAK_NOW : 0, &error), &error);
        if (rc == 0)
            expect(i == 1 ? pawl_release_shared(lock, &error) : pawl_release(lock, &error), &error);
        pawl_lock_free(lock);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tape tape = {data, size};
    unsigned how = next_byte(&tape);
    struct pawl *first, *second;
    struct pawl_lock *lock = NULL;
    struct pawl_error error;
    int rc;

    if (!directory[0])
        make_directory();
    empty_directory(directory);
    rc = pawl_open(url, NULL, &first, &error);
    expect(rc, &error);
    CHECK(rc == 0);
    if (how & FIRST_HOLDS) {
        lock = make_lock(first, how >> 4 & 1);
        CHECK(pawl_acquire(lock, 0, NULL) == 0);
    }
    if (!(how & FIRST_STAYS))
        pawl_close(first);
    damage(how, &tape);
    rc = pawl_open(url, NULL, &second, &error);
    expect(rc, &error);
    if (rc == 0) {
        use(second);
        pawl_close(second);
    }
    if (how & FIRST_STAYS)
        pawl_close(first);
    pawl_lock_free(lock);
    return 0;
}
