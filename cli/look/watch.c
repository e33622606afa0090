/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - the URLs that are looked at again and again, and one look at them.
 *
 * A client is opened when it is first needed, and again by the next look if that failed. What pawl_examine() finds is asked for much more
 * rarely than the locks are: it opens connections.
 */
#include "look.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/options.h"

/* After a look that failed: so many times as long as it took, and this at most. */
enum { FAILED_SHARE = 5, FAILED_PAUSE_MS = 30000 };

static double exact_ms(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int open_watched(struct watched *watched, pawl_log_fn *log, struct pawl_error *error) {
    struct pawl_options options = {.size = sizeof options, .flags = PAWL_OPEN_LOOK, .log = log, .connect_ms = CONNECT_MS};
    struct pawl *client;

    if (watched->client != NULL)
        return 0;
    int result = pawl_open(watched->url, &options, &client, error);
    if (result == 0)
        watched->client = client;
    return result;
}

bool watch_prepare(struct watch *watch, const char *const urls[], size_t count, pawl_log_fn *log) {
    *watch = (struct watch){.count = count > 0 ? count : 1, .log = log};
    watch->urls = calloc(watch->count, sizeof watch->urls[0]);
    if (watch->urls == NULL)
        watch->count = 0;
    for (size_t i = 0; i < watch->count; i++)
        watch->urls[i].url = count > 0 ? urls[i] : NULL;
    return watch->urls != NULL;
}

int watch_open(struct watch *watch, const char *const urls[], size_t count, pawl_log_fn *log) {
    if (!watch_prepare(watch, urls, count, log)) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    for (size_t i = 0; i < watch->count; i++) {
        struct pawl_error error;

        if (open_watched(&watch->urls[i], log, &error) < 0 && exit_of(error.code) != EXIT_UNREACHABLE) {
            watch_close(watch);
            return library_error(&error);
        }
    }
    print_warnings();
    return 0;
}

void watch_close(struct watch *watch) {
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->urls[i].client != NULL)
            pawl_close(watch->urls[i].client);
        findings_finish(&watch->urls[i].findings);
        free(watch->urls[i].resolved);
    }
    free(watch->urls);
    *watch = (struct watch){0};
}

/* ---- their names ---------------------------------------------------------------------------------------------------------- */

/* As given, without what may be secret: user and password before '@', and the options. */
static char *url_without_secrets(const char *url) {
    const char *slashes = strstr(url, "//"), *start = slashes != NULL ? slashes + 2 : url;
    size_t end = strcspn(url, "?");
    const char *at = memrchr(url, '@', end);
    char *text = NULL;

    if (at == NULL || at < start)
        return strndup(url, end);
    return asprintf(&text, "%.*s%.*s", (int)(start - url), url, (int)(url + end - at - 1), at + 1) < 0 ? NULL : text;
}

static char *as_given(const struct watched *watched) {
    const char *given = watched->url != NULL ? watched->url : getenv("PAWL_URL");

    return url_without_secrets(given != NULL ? given : "local:");
}

/* The resolved URL may differ from the one that was given (a path, a database); a place keeps the name under which it was seen
 * first, for it is that of a series, and of a place on the page. */
static const char *name_of(struct watched *watched, const struct pawl_info *info) {
    if (watched->resolved == NULL)
        watched->resolved = watched->client != NULL ? strdup(info->url) : as_given(watched);
    return watched->resolved;
}

/* Who says `url` may have seen it before it was reached, or after. */
static bool is_named(const struct watched *watched, const char *url) {
    struct pawl_info info = {.url = ""};
    char *given = as_given(watched);
    bool same = given != NULL && strcmp(given, url) == 0;

    free(given);
    if (watched->client != NULL)
        pawl_describe(watched->client, &info);
    return same || strcmp(info.url, url) == 0;
}

struct pawl *watch_client(const struct watch *watch, const char *url) {
    for (size_t i = 0; i < watch->count; i++)
        if (watch->urls[i].client != NULL && is_named(&watch->urls[i], url))
            return watch->urls[i].client;
    return NULL;
}

/* Several places are looked at one after the other: one that does not answer must not keep the others from being seen. */
static void let_be(struct watched *watched, double took_ms) {
    double pause_ms = took_ms * FAILED_SHARE;

    watched->retry_at = deadline_in((int64_t)(pause_ms < FAILED_PAUSE_MS ? pause_ms : FAILED_PAUSE_MS));
}

struct pawl *watch_reach(struct watch *watch, const char *url) {
    struct pawl *client = watch_client(watch, url);

    for (size_t i = 0; i < watch->count && client == NULL; i++) {
        struct watched *watched = &watch->urls[i];
        double began = exact_ms();

        if (watched->client != NULL || now_ms() < watched->retry_at)
            continue;
        if (open_watched(watched, watch->log, &watched->error) < 0)
            let_be(watched, exact_ms() - began);
        else if (is_named(watched, url))
            client = watched->client;
    }
    return client;
}

/* ---- findings ------------------------------------------------------------------------------------------------------------- */

static int keep_finding(const struct pawl_finding *finding, void *data) {
    return findings_add(data, finding) ? 0 : 1;
}

static void examine(struct watched *watched, int64_t every_ms) {
    struct pawl_error ignored;

    if (every_ms == 0 || (watched->examined_at != 0 && now_ms() - watched->examined_at < every_ms))
        return;
    findings_finish(&watched->findings);
    pawl_examine(watched->client, keep_finding, &watched->findings, &ignored);
    watched->examined_at = now_ms();
}

/* ---- a look --------------------------------------------------------------------------------------------------------------- */

static bool copy_findings(struct findings *copy, const struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++)
        if (!findings_add(copy, &findings->items[i]))
            return false;
    return true;
}

static bool describe_place(struct place *place, struct watched *watched) {
    struct pawl_info info = {.engine = "", .lease_ms = PAWL_FOREVER};

    if (watched->client != NULL)
        pawl_describe(watched->client, &info);
    const char *name = name_of(watched, &info);
    place->url = name != NULL ? strdup(name) : NULL;
    place->engine = strdup(info.engine);
    place->lease_ms = info.lease_ms;
    place->notice_ms = info.notice_ms;
    place->error = strdup(place->code != 0 ? watched->error.text : "");
    return place->url != NULL && place->engine != NULL && place->error != NULL &&
           copy_findings(&place->findings, &watched->findings);
}

static bool look_at(struct place *place, struct watched *watched, const struct watch *watch) {
    double began = exact_ms();

    if (watched->error.code != 0 && watch->count > 1 && now_ms() < watched->retry_at) {
        place->code = watched->error.code;
        place->failures = watched->failures;
        return describe_place(place, watched);
    }
    watched->error = (struct pawl_error){0};
    place->code = open_watched(watched, watch->log, &watched->error);
    if (place->code == 0)
        place->code = snapshot_take(&place->snapshot, watched->client, watch->name, &watched->error);
    place->took_ms = exact_ms() - began;
    watched->error.code = place->code;
    place->failures = watched->failures += place->code != 0;
    if (place->code == 0)
        examine(watched, watch->examine_ms);
    else
        let_be(watched, place->took_ms);
    return describe_place(place, watched);
}

bool look_take(struct look *look, struct watch *watch) {
    if (!look_start(look, watch->count, wall_ms()))
        return false;
    bool good = true;
    for (size_t i = 0; i < watch->count && good; i++)
        good = look_at(&look->places[i], &watch->urls[i], watch);
    if (good && look_settle(look))
        return true;
    look_finish(look);
    return false;
}
