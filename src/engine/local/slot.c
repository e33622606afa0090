/* SPDX-License-Identifier: Apache-2.0
 *
 * slot.c - who is attached, and who is alive.
 *
 * A session is a slot of the table and a FIFO, s/NNNNN: its lifeline. The process keeps the lifeline open for reading and writing and
 * has it flock()ed; nobody ever writes to it. The kernel closes it when the last process that has it is really gone. So
 *
 *     alive?   open(lifeline, O_WRONLY | O_NONBLOCK) succeeds while somebody has it open for reading; ENXIO: dead
 *     watch    keep that descriptor: poll() says POLLERR when the last reader goes
 *
 * Neither makes the tester a reader, so no test can keep the dead alive. A slot is claimed in this order: open the lifeline, flock it,
 * and only then turn the slot's word to LIVE; so LIVE without a reader is dead, never not yet born. The flock keeps a slot from being
 * claimed while a child of its former owner still has the lifeline. (It could keep the new session alive.)
 *
 * With PAWL_OPEN_INHERIT the lifeline says that somebody lives who may act under its holds. That the process itself does is said by
 * another FIFO of the same kind, s/NNNNN.p, its pulse, which nobody inherits: only the process is ever inside a guard.
 *
 * A lifeline that somebody removed is made anew by its process, unless others have inherited it. Till then, /proc is asked (process.c).
 * Versions of pawl that know of neither leave session.known alone; then it names another generation.
 *
 * Death is of a generation: the word is read before the test, and a word that has moved on is dead without one. recover.c cleans up.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/descriptor.h"
#include "engine/local/local.h"
#include "base/error.h"
#include "os/uncancelled.h"

static const char *lifeline_name(uint32_t slot, char buffer[16]) {
    snprintf(buffer, 16, "%05u", slot);
    return buffer;
}

static const char *pulse_name(uint32_t slot, char buffer[16]) {
    snprintf(buffer, 16, "%05u.p", slot);
    return buffer;
}

/* ---- Alive or dead ---- */

static int watch_fifo(struct local *local, const char *name) {
    return above_stdio(openat(local->sessions_fd, name, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
}

int pawl__local_watch(struct local *local, uint32_t slot) {
    char name[16];

    return watch_fifo(local, lifeline_name(slot, name));
}

bool pawl__local_dead(struct local *local, uint64_t owner) {
    uint64_t live = session_word(generation_of(owner), SESSION_LIVE);
    uint32_t slot = slot_of(owner);
    int fd;

    if (slot >= SESSION_COUNT || atomic_load(&local->table->words[slot]) != live)
        return true;
    if (slot == local->slot)
        return false;
    fd = pawl__local_watch(local, slot);
    if (fd >= 0)
        close(fd);
    else if (errno == ENXIO)
        return true;
    else if ((errno == ENOENT || errno == EACCES) && pawl__local_surely_over(local, owner, errno == ENOENT))
        return true;
    return atomic_load(&local->table->words[slot]) != live;
}

bool pawl__local_process_over(struct local *local, uint64_t owner) {
    uint32_t slot = slot_of(owner);
    const struct session *session = &local->table->sessions[slot];
    char name[16];
    int fd;

    if (slot >= GET(local->table->header.session_high) || atomic_load(&session->known) != owner || !session->inherits ||
        slot == local->slot)
        return false;
    fd = watch_fifo(local, pulse_name(slot, name));
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == ENXIO;
}

/* For when files in s/ were removed: does anybody live who has inherited the lifeline of one that is gone? */
static bool anybody_unnamed(struct local *local) {
    uint32_t slots = GET(local->table->header.session_high);
    const struct session *session = local->table->sessions;

    for (uint32_t slot = 0; slot < slots && slot < SESSION_COUNT; slot++, session++) {
        uint64_t word = atomic_load(&local->table->words[slot]), owner = owner_word(slot, generation_of(word));

        if (word & SESSION_LIVE && atomic_load(&session->known) == owner && session->inherits && !pawl__local_dead(local, owner))
            return true;
    }
    return false;
}

bool pawl__local_anybody(struct local *local) {
    DIR *directory = pawl__local_list(local->sessions_fd);
    struct dirent *entry;
    bool found = false;
    int lifeline;

    if (!directory)
        return false;
    while (!found && (entry = readdir(directory))) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || strchr(entry->d_name, '.'))
            continue;
        lifeline = watch_fifo(local, entry->d_name);
        found = lifeline >= 0;
        if (found)
            close(lifeline);
    }
    closedir(directory);
    return found || (local->table && anybody_unnamed(local));
}

static void note_lifeline(struct session *session, int fd) {
    struct stat status = {0};

    fstat(fd, &status);
    session->lifeline_inode = status.st_ino;
    session->lifeline_device = status.st_dev;
}

/* Its file was removed: make another, which is open before it has its name, so that it is never found without its reader. */
static void renew_lifeline(struct local *local) {
    char name[16];
    int fd;
    UNCANCELLED;

    pthread_mutex_lock(&local->channels.mutex);
    if (pawl__local_is_removed(GET(local->lifeline_fd))) { /* and no other thread was faster */
        fd = pawl__local_fifo(local, lifeline_name(local->slot, name));
        if (fd >= 0) {
            flock(fd, LOCK_EX | LOCK_NB); /* who may have it for a moment sees that the slot is taken */
            note_lifeline(&local->table->sessions[local->slot], fd);
            close(atomic_exchange(&local->lifeline_fd, fd));
        }
    }
    pthread_mutex_unlock(&local->channels.mutex);
}

bool pawl__local_gone(struct local *local) {
    if (GET(local->gone) || local->look)
        return GET(local->gone);
    SET(local->look_ms, pawl__local_wall_ms() + LOOK_MS);
    SET(local->looked_s, time(NULL));
    if (GET(local->table->words[local->slot]) != local->live || pawl__local_displaced(local)) {
        atomic_store(&local->gone, true);
        return true;
    }
    if (!local->inherit && pawl__local_is_removed(GET(local->lifeline_fd)))
        renew_lifeline(local);
    return false;
}

int pawl__local_fail_gone(struct local *local, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_EGONE,
                      "the lock directory %s was removed or renamed while this process used it: open a new client", local->path);
}

int pawl__local_fail_damaged(struct local *local, uint32_t hash, struct pawl_error *reterr) {
    atomic_store(&local->table->header.damaged, 1);
    return pawl__fail(reterr, PAWL_EFORMAT,
                      "the table in %s is damaged (bucket %u): stop all processes that use it, the next one to start repairs it",
                      local->path, hash & (BUCKET_COUNT - 1));
}

static bool is_slot(const struct local *local, uint32_t slot) {
    return slot < SESSION_COUNT && slot < GET(local->table->header.session_high);
}

bool pawl__local_identify(struct local *local, uint32_t slot, struct pawl__identity *ret) {
    const struct session *session;
    char record[PAWL__RECORD_MAX];
    uint32_t length;

    if (!is_slot(local, slot))
        return false;
    session = &local->table->sessions[slot];
    length = session->record_length;
    memcpy(record, session->record, sizeof record); /* its process may be writing */
    return length <= sizeof record && pawl__record_parse(record, length, ret);
}

const char *pawl__local_who(struct local *local, uint32_t slot, char *buffer, size_t size) {
    struct pawl__identity identity;

    if (!is_slot(local, slot))
        snprintf(buffer, size, "nobody");
    else if (pawl__local_identify(local, slot, &identity))
        snprintf(buffer, size, "pid %lld %s", (long long)identity.pid, identity.command);
    else
        snprintf(buffer, size, "pid %lld", (long long)local->table->sessions[slot].pid);
    return buffer;
}

void pawl__local_note_passed_over(struct local *local, uint32_t slot) {
    char who[WHO_SIZE];

    if (pawl__noting(&local->engine))
        pawl__note(&local->engine, NULL, "session %u (%s) was granted and did not move: passed over", slot,
                   pawl__local_who(local, slot, who, sizeof who));
}

/* ---- Coming and going ---- */

static void introduce(struct local *local, struct session *session, const struct pawl__identity *identity, int lifeline) {
    pawl__local_introduce_process(session);
    session->started_ms = pawl__local_wall_ms();
    SET(session->serve_channel, 0);
    SET(session->breaks, 0);
    session->record_length = (uint32_t)pawl__record_format(identity, session->record, sizeof session->record);
    note_lifeline(session, lifeline);
    session->inherits = local->inherit;
    atomic_store(&session->known, local->owner);
    local->served.breaks_seen = 0;
}

/* Open the lifeline, and the pulse if there is to be one. -1 with errno. */
static int open_lifeline(struct local *local, uint32_t slot) {
    char name[16];
    int fd = pawl__local_fifo(local, lifeline_name(slot, name));

    if (fd < 0 || !local->inherit)
        return fd;
    local->pulse_fd = pawl__local_fifo(local, pulse_name(slot, name));
    if (local->pulse_fd >= 0 && fcntl(fd, F_SETFD, 0) == 0)
        return fd;
    close(fd);
    return -1;
}

static void close_lifeline(struct local *local, int fd) {
    close(fd);
    pawl__local_close_fd(&local->pulse_fd);
}

/* 1: claimed; 0: not to be had; negative: errno of a failure that the next slot would meet too. With `usurp`, a slot whose owner is
 * dead is taken over as it stands: the next generation, whose first duty is to clean up after the last. */
static int claim_slot(struct local *local, uint32_t slot, bool usurp, const struct pawl__identity *identity) {
    _Atomic uint64_t *place = &local->table->words[slot];
    int fd = open_lifeline(local, slot);
    uint64_t word;

    if (fd < 0)
        return errno == EACCES || errno == EINVAL || errno == ELOOP || errno == EMLINK ? 0 : -errno;
    word = atomic_load(place);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || (word & SESSION_LIVE && !usurp)) {
        close_lifeline(local, fd);
        return 0;
    }
    local->slot = slot;
    local->generation = generation_of(word) + (word & SESSION_LIVE ? 1 : 0);
    local->owner = owner_word(slot, local->generation);
    local->guard = guard_word(slot, local->generation);
    local->live = session_word(local->generation, SESSION_LIVE);
    introduce(local, &local->table->sessions[slot], identity, fd);
    if (!atomic_compare_exchange_strong(place, &word, local->live)) {
        close_lifeline(local, fd);
        return 0;
    }
    local->lifeline_fd = fd;
    return 1;
}

/* The lowest slot that is free. But if others are claiming too, somewhere else: else they would all meet again at the next. */
static int find_slot(struct local *local, uint32_t high, bool usurp, const struct pawl__identity *identity) {
    uint32_t start = 0, missed = 0;
    int rc = 0;

    for (uint32_t i = 0; i < high && rc == 0; i++) {
        uint32_t slot = (start + i) % high;
        uint64_t word = atomic_load(&local->table->words[slot]);

        if (word & SESSION_LIVE && !(usurp && pawl__local_dead(local, owner_word(slot, generation_of(word)))))
            continue;
        rc = claim_slot(local, slot, usurp, identity);
        if (rc == 0 && ++missed % 2 == 1 && missed < 64) {
            start = slot + ((uint32_t)getpid() * 2654435761u >> 12);
            i = (uint32_t)-1; /* once around from there */
        }
    }
    return rc;
}

/* Reserve space for more slots: half as many again, so that looking for dead ones then stays cheap on the whole. 0 or errno. */
static int more_slots(struct local *local, uint32_t high, bool *ret_first) {
    uint32_t more = high / 2 / SESSION_CHUNK * SESSION_CHUNK, expected = high, wanted;
    int rc;

    wanted = high + (more > SESSION_CHUNK ? more : SESSION_CHUNK);
    wanted = wanted < SESSION_COUNT ? wanted : SESSION_COUNT;
    rc = pawl__local_reserve(local, offsetof(struct table, sessions) + high * sizeof(struct session),
                             (wanted - high) * sizeof(struct session));
    *ret_first = rc == 0 && atomic_compare_exchange_strong(&local->table->header.session_high, &expected, wanted);
    return rc;
}

int pawl__local_slot_open(struct local *local, const struct pawl__identity *identity, bool *ret_was_full,
                          struct pawl_error *reterr) {
    bool first;
    uint32_t high;
    int rc = 0;

    *ret_was_full = false;
    while (rc == 0) {
        local->slot = SESSION_COUNT; /* nobody's */
        high = GET(local->table->header.session_high);
        high = high < SESSION_COUNT ? high : SESSION_COUNT;
        rc = find_slot(local, high, false, identity);
        if (rc == 0 && high == SESSION_COUNT) {
            rc = find_slot(local, high, true, identity);
            if (rc == 0)
                return pawl__fail(reterr, PAWL_EFULL, "%s is full: %u processes use it", local->path, SESSION_COUNT);
        }
        if (rc == 0) {
            rc = -more_slots(local, high, &first);
            *ret_was_full |= first && high > 0;
        }
    }
    if (rc > 0)
        return 0;
    errno = -rc;
    return pawl__fail_errno(reterr, "can't make or open a file in %s/s", local->path);
}

void pawl__local_slot_close(struct local *local) {
    close_lifeline(local, local->lifeline_fd);
    local->lifeline_fd = -1;
}
