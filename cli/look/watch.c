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

static double exact_ms(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int open_watched(struct watched *watched, pawl_log_fn *log, struct pawl_error *error) {
    struct pawl_options options = {.size = sizeof options, .flags = PAWL_OPEN_LOOK, .log = log, .connect_ms = CONNECT_MS};

    return watched->client != NULL ? 0 : pawl_open(watched->url, &options, &watched->client, error);
}

int watch_open(struct watch *watch, const char *const urls[], size_t count, pawl_log_fn *log) {
    *watch = (struct watch){.count = count > 0 ? count : 1, .log = log};
    watch->urls = calloc(watch->count, sizeof watch->urls[0]);
    if (watch->urls == NULL) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    for (size_t i = 0; i < watch->count; i++) {
        struct pawl_error error;

        watch->urls[i].url = count > 0 ? urls[i] : NULL;
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
    }
    free(watch->urls);
    *watch = (struct watch){0};
}

struct pawl *watch_client(const struct watch *watch, const char *url) {
    struct pawl_info info;

    for (size_t i = 0; i < watch->count; i++)
        if (watch->urls[i].client != NULL) {
            pawl_describe(watch->urls[i].client, &info);
            if (strcmp(info.url, url) == 0)
                return watch->urls[i].client;
        }
    return NULL;
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

static bool describe_place(struct place *place, const struct watched *watched, const struct pawl_error *error) {
    struct pawl_info info = {.engine = "", .lease_ms = PAWL_FOREVER};
    const char *given = watched->url != NULL ? watched->url : getenv("PAWL_URL");

    if (watched->client != NULL)
        pawl_describe(watched->client, &info);
    place->url = watched->client != NULL ? strdup(info.url) : url_without_secrets(given != NULL ? given : "local:");
    place->engine = strdup(info.engine);
    place->lease_ms = info.lease_ms;
    place->notice_ms = info.notice_ms;
    place->error = strdup(place->code != 0 ? error->text : "");
    return place->url != NULL && place->engine != NULL && place->error != NULL &&
           copy_findings(&place->findings, &watched->findings);
}

static bool look_at(struct place *place, struct watched *watched, const struct watch *watch) {
    struct pawl_error error = {0};
    double began = exact_ms();

    place->code = open_watched(watched, watch->log, &error);
    if (place->code == 0)
        place->code = snapshot_take(&place->snapshot, watched->client, watch->name, &error);
    place->took_ms = exact_ms() - began;
    place->failures = watched->failures += place->code != 0;
    if (place->code == 0)
        examine(watched, watch->examine_ms);
    return describe_place(place, watched, &error);
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
