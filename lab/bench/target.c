/* SPDX-License-Identifier: Apache-2.0
 *
 * target.c - a place with locks: can it be opened, what is it, and how is it left as it was found?
 *
 * `local:` without a directory is measured in a directory of its own, which is removed: nobody's locks are in
 * the way, and none of ours stay.
 */
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workers.h"

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static int make_scratch(struct target *target) {
    const char *temporary = getenv("TMPDIR");

    snprintf(target->scratch, sizeof target->scratch, "%s/pawl-bench-XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(target->scratch) == NULL) {
        say("cannot make a directory %s for the benchmark: %s", target->scratch, strerror(errno));
        target->scratch[0] = '\0';
        return EXIT_SYSTEM;
    }
    snprintf(target->url, sizeof target->url, "local:%.*s", (int)sizeof target->url - 8, target->scratch);
    return 0;
}

/* Can it be opened so that locks are kept? */
static bool can_keep(const struct job *job) {
    struct job kept = *job;
    char url[ADDRESS_SIZE + 64];
    struct pawl *client;

    kept.options = "keep=1000";
    member_url(&kept, url, sizeof url);
    if (pawl_open(url, NULL, &client, NULL) < 0)
        return false;
    pawl_close(client);
    return true;
}

/* Opens it, and says what it is. */
static void probe(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct board *board = job->board;

    (void)number;
    pawl_describe(client, &board->info);
    snprintf(board->url, sizeof board->url, "%s", board->info.url);
    snprintf(board->engine, sizeof board->engine, "%s", board->info.engine);
    pawl_close(client);
    board->keeps = can_keep(job);
    member_ready(job);
}

static int look_at(struct target *target, const struct bench *bench, struct board *board) {
    struct job job = {.bench = bench, .target = target, .board = board};
    struct workers workers;
    bool good = workers_start(&workers, &job, 1, probe) && workers_await_ready(&workers);

    workers_finish(&workers);
    if (!good) {
        say("%s", workers_trouble(&workers));
        return board->failure.code != 0 ? exit_of(board->failure.code) : EXIT_UNREACHABLE;
    }
    snprintf(target->shown, sizeof target->shown, "%s", target->scratch[0] != '\0' ? "local:" : board->url);
    snprintf(target->engine, sizeof target->engine, "%s", board->engine);
    target->lease_ms = board->info.lease_ms;
    target->notice_ms = board->info.notice_ms;
    target->keeps = board->keeps;
    return 0;
}

static int probe_target(struct target *target, const struct bench *bench) {
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (board == MAP_FAILED) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    int status = look_at(target, bench, board);
    munmap(board, sizeof *board);
    return status;
}

static void open_raw(struct target *target, const struct bench *bench) {
    if (!address_parse(&target->address, target->url)) {
        snprintf(target->raw_missing, sizeof target->raw_missing, "the URL is too long");
        return;
    }
    if (!raw_resolve(&target->address, target->raw_missing, sizeof target->raw_missing))
        return;
    target->raw = raw_open(&target->address, bench->id, target->raw_missing, sizeof target->raw_missing);
    if (target->raw != NULL)
        target->raw->impl->describe(target->raw->connection, target->server, sizeof target->server);
}

int target_open(struct target *target, const struct bench *bench, const char *url) {
    int status = 0;

    memset(target, 0, sizeof *target);
    target->results = calloc(ROWS, sizeof target->results[0]);
    if (target->results == NULL || strlen(url) >= sizeof target->url) {
        say(target->results == NULL ? "out of memory" : "a URL is too long");
        return target->results == NULL ? EXIT_SYSTEM : EXIT_USAGE;
    }
    snprintf(target->url, sizeof target->url, "%s", url);
    if (strcmp(url, "local:") == 0)
        status = make_scratch(target);
    if (status == 0)
        status = probe_target(target, bench);
    if (status != 0)
        return status;
    open_raw(target, bench);
    servers_find(target);
    return 0;
}

void target_close(struct target *target, const struct bench *bench) {
    bool clean = target->raw != NULL && target->raw->impl->clean(target->raw->connection);

    if (!clean && target->engine[0] != '\0')
        say("warning: at %s something may be left whose name contains %s: %s", target->shown, bench->id,
            target->raw != NULL ? "it could not be removed" : target->raw_missing);
    raw_close(target->raw);
    if (target->scratch[0] != '\0')
        nftw(target->scratch, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(target->results);
}

void note_missing(struct result *result, const char *why) {
    snprintf(result->missing, sizeof result->missing, "%s", why);
}
