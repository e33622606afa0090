/* SPDX-License-Identifier: Apache-2.0
 *
 * site.c - the routes of pawl web. See site.h.
 */
#include "site.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/options.h"
#include "../look/metrics.h"
#include "assets.h"

/* Far fewer than there may be connections, so that a request for anything else is always let in. */
enum { SILENCE_MS = 15000, STREAMS_MAX = 64, ERRANDS_MAX = 64 };

struct stream {
    LIST_ENTRY(stream) link;
    struct site *site;
    struct exchange *exchange;
    struct reader reader;
    int64_t silent_until; /* then a comment shows that we are here */
    bool ended;
};

static void want_looks(struct site *site) {
    looker_want(site->looker, site->record || !LIST_EMPTY(&site->streams) || site->patients.count > 0);
}

/* ---- the page ------------------------------------------------------------------------------------------------------------- */

static void serve_asset(struct exchange *exchange, struct site *site, int which) {
    const char *known = exchange_header(exchange, "If-None-Match");

    if (known != NULL && strcmp(known, assets[which].tag) == 0)
        exchange_answer(exchange, 304, site->unchanged[which]);
    else
        exchange_answer(exchange, 200, site->pages[which]);
}

static void serve_page(struct exchange *exchange, void *data) {
    serve_asset(exchange, data, ASSET_PAGE);
}

static void serve_style(struct exchange *exchange, void *data) {
    serve_asset(exchange, data, ASSET_STYLE);
}

static void serve_script(struct exchange *exchange, void *data) {
    serve_asset(exchange, data, ASSET_SCRIPT);
}

/* ---- what was seen -------------------------------------------------------------------------------------------------------- */

static void refuse(struct exchange *exchange, const char *whom) {
    exchange_say(exchange, 503, "there are as many %s as may be; try again later\n", whom);
}

static void answer_view(struct site *site, struct exchange *exchange, enum view view) {
    if (site->views[view] != NULL)
        exchange_answer(exchange, 200, site->views[view]);
    else
        exchange_say(exchange, 503, "out of memory\n");
}

/* From the last look, or from the next. */
static void serve_view(struct exchange *exchange, struct site *site, enum view view) {
    bool fresh = site->views[view] != NULL && now_ms() < site->good_until;

    if (!fresh && patients_are_full(&site->patients))
        refuse(exchange, "who wait for a look");
    else if (fresh || !patients_add(&site->patients, exchange, (int)view))
        answer_view(site, exchange, view);
    else
        want_looks(site);
}

static void serve_state(struct exchange *exchange, void *data) {
    serve_view(exchange, data, VIEW_STATE);
}

static void serve_metrics(struct exchange *exchange, void *data) {
    serve_view(exchange, data, exchange_accepts(exchange, "application/openmetrics-text") ? VIEW_OPENMETRICS : VIEW_METRICS);
}

static void answer_patients(struct site *site) {
    struct exchange *exchange;
    int view;

    while ((exchange = patients_take(&site->patients, &view)) != NULL)
        answer_view(site, exchange, (enum view)view);
}

/* ---- the stream ----------------------------------------------------------------------------------------------------------- */

static ssize_t pull(void *data, char *out, size_t room) {
    static const char anew[] = "event: anew\ndata: {}\n\n", silence[] = ": nothing new\n\n";
    struct stream *stream = data;
    size_t length = 0;

    if (stream->ended)
        return -1;
    if (!frames_read(&stream->site->frames, &stream->reader, out, room, &length)) {
        if (stream->reader.offset > 0) /* amid an event: what we say now would be taken for the rest of it */
            return -1;
        stream->ended = true;
        length = sizeof anew - 1;
        memcpy(out, anew, length);
    } else if (length == 0 && now_ms() >= stream->silent_until) {
        length = sizeof silence - 1;
        memcpy(out, silence, length);
    }
    if (length > 0)
        stream->silent_until = deadline_in(SILENCE_MS);
    return (ssize_t)length;
}

static void end_stream(void *data) {
    struct stream *stream = data;

    LIST_REMOVE(stream, link);
    stream->site->stream_count--;
    want_looks(stream->site);
    free(stream);
}

static void serve_stream(struct exchange *exchange, void *data) {
    struct site *site = data;
    const char *after = exchange_argument(exchange, "after");
    uint64_t look = site->frames.newest;

    if (site->stream_count == STREAMS_MAX) {
        refuse(exchange, "streams");
        return;
    }
    struct stream *stream = malloc(sizeof *stream);
    if (after != NULL && !parse_number(after, UINT64_MAX - 1, &look)) {
        exchange_say(exchange, 400, "after= wants the number of a look\n");
        free(stream);
        return;
    }
    if (stream == NULL) {
        exchange_say(exchange, 503, "out of memory\n");
        return;
    }
    *stream = (struct stream){
        .site = site, .exchange = exchange, .reader = {.read = look}, .silent_until = deadline_in(SILENCE_MS)};
    LIST_INSERT_HEAD(&site->streams, stream, link);
    site->stream_count++;
    want_looks(site);
    exchange_stream(exchange, "text/event-stream; charset=utf-8", pull, end_stream, stream);
}

void site_tick(struct site *site) {
    struct stream *stream;

    LIST_FOREACH(stream, &site->streams, link)
    if (now_ms() >= stream->silent_until)
        exchange_wake(stream->exchange);
}

/* ---- errands -------------------------------------------------------------------------------------------------------------- */

/* False: out of memory. */
static bool send(struct site *site, struct exchange *exchange, const struct errand *wanted) {
    struct errand *errand = malloc(sizeof *errand);

    if (errand == NULL) {
        exchange_say(exchange, 503, "out of memory\n");
        return false;
    }
    *errand = *wanted;
    errand->exchange = exchange;
    errands_add(site->errands, errand);
    return true;
}

static bool has_room(const struct site *site) {
    return site->errand_count < ERRANDS_MAX;
}

static void refuse_errand(struct exchange *exchange) {
    refuse(exchange, "who wait for a lock");
}

static void serve_lock(struct exchange *exchange, void *data) {
    struct site *site = data;
    struct errand *errand = calloc(1, sizeof *errand);
    const char *url = exchange_argument(exchange, "url"), *name = exchange_argument(exchange, "name");
    enum glance_asked asked = GLANCE_NO_MEMORY;

    if (url == NULL || name == NULL || name[0] == '\0' || strlen(url) >= sizeof errand->what.url ||
        strlen(name) >= sizeof errand->what.name) {
        exchange_say(exchange, 400, "this wants url= and name=\n");
        errand_free(errand);
        return;
    }
    if (errand != NULL)
        asked = glances_ask(&site->glances, url, name, exchange, has_room(site));
    if (asked == GLANCE_NO_MEMORY)
        exchange_say(exchange, 503, "out of memory\n");
    else if (asked == GLANCE_FULL)
        refuse_errand(exchange);
    site->errand_count += asked == GLANCE_LOOK || asked == GLANCE_WAITS;
    if (asked == GLANCE_LOOK) {
        strcpy(errand->what.url, url);
        strcpy(errand->what.name, name);
        errands_add(site->errands, errand);
    } else {
        errand_free(errand);
    }
}

static void serve_break(struct exchange *exchange, void *data) {
    struct site *site = data;
    struct errand errand = {.breaks = true, .who = "somebody with the key"};
    size_t length;
    uid_t uid;
    char address[64];
    const char *body = exchange_body(exchange, &length);

    if (strcmp(site->about->breaks, "no") == 0) {
        exchange_say(exchange, 403, "this page may only look; pawl web --allow-break lets it break holds\n");
        return;
    }
    const char *wrong = breaking_read(body, length, &errand.what);
    if (wrong != NULL) {
        exchange_say(exchange, 400, "%s\n", wrong);
        return;
    }
    if (errand.what.now && strcmp(site->about->breaks, "now") != 0) {
        exchange_say(exchange, 403,
                     "this page may ask holders to give up, and no more; pawl web --allow-break=now lets it free locks at once\n");
        return;
    }
    if (exchange_peer(exchange, &uid))
        snprintf(errand.who, sizeof errand.who, "uid %u", (unsigned)uid);
    else if (exchange_address(exchange, address, sizeof address))
        snprintf(errand.who, sizeof errand.who, "somebody with the key at %s", address);
    if (has_room(site))
        site->errand_count += send(site, exchange, &errand);
    else
        refuse_errand(exchange);
}

/* Who asks after a break sees what came of it. */
static void answer_errand(struct site *site, struct errand *errand) {
    bool look = errand->status == 200 && !errand->breaks;
    struct document *document = errand->text != NULL ? document_new(look ? "application/json" : "text/plain; charset=utf-8",
                                                                    errand->text, errand->length)
                                                     : NULL;

    errand->text = NULL;
    if (errand->breaks) {
        exchange_answer(errand->exchange, errand->status, document);
        glances_forget(&site->glances);
        site->errand_count--;
    } else {
        site->errand_count -= glances_answer(&site->glances, errand->what.url, errand->what.name, errand->status, document);
    }
    document_drop(document);
    errand_free(errand);
}

/* ---- the site ------------------------------------------------------------------------------------------------------------- */

const struct route site_routes[] = {
    {"GET", "/", ROUTE_LANDING, serve_page},
    {"GET", "/app.css", 0, serve_style},
    {"GET", "/app.js", 0, serve_script},
    {"GET", "/api/state", ROUTE_PRIVATE, serve_state},
    {"GET", "/api/stream", ROUTE_PRIVATE, serve_stream},
    {"GET", "/api/lock", ROUTE_PRIVATE, serve_lock},
    {"GET", "/metrics", ROUTE_PRIVATE, serve_metrics},
    {"POST", "/api/break", ROUTE_PRIVATE | ROUTE_BODY, serve_break},
    {NULL, NULL, 0, NULL},
};

bool site_init(struct site *site) {
    frames_init(&site->frames);
    LIST_INIT(&site->streams);
    patients_init(&site->patients);
    glances_init(&site->glances);
    for (int i = 0; i < ASSETS; i++) {
        site->pages[i] = document_of(assets[i].type, assets[i].text, assets[i].length, assets[i].tag);
        site->unchanged[i] = document_of(assets[i].type, "", 0, assets[i].tag);
        if (site->pages[i] == NULL || site->unchanged[i] == NULL)
            return false;
    }
    want_looks(site);
    return true;
}

void site_finish(struct site *site) {
    patients_finish(&site->patients);
    glances_finish(&site->glances);
    for (int i = 0; i < ASSETS; i++) {
        document_drop(site->pages[i]);
        document_drop(site->unchanged[i]);
    }
    for (int view = 0; view < VIEW_DIFFERENCE; view++)
        document_drop(site->views[view]);
    frames_finish(&site->frames);
}

static void take_look(struct site *site, struct seen *seen) {
    static const char *const types[] = {
        [VIEW_STATE] = "application/json", [VIEW_METRICS] = METRICS_TYPE, [VIEW_OPENMETRICS] = OPENMETRICS_TYPE};
    struct stream *stream;

    for (int view = 0; view < VIEW_DIFFERENCE; view++) {
        document_drop(site->views[view]);
        site->views[view] = document_new(types[view], seen->texts[view], seen->lengths[view]);
    }
    site->good_until = seen->good_until;
    frames_add(&site->frames, seen->texts[VIEW_DIFFERENCE], seen->lengths[VIEW_DIFFERENCE]);
    answer_patients(site);
    LIST_FOREACH(stream, &site->streams, link)
    exchange_wake(stream->exchange);
    want_looks(site);
}

void site_collect(struct site *site) {
    struct seen seen;
    struct errand *errand;

    if (looker_collect(site->looker, &seen))
        take_look(site, &seen);
    while ((errand = errands_collect(site->errands)) != NULL)
        answer_errand(site, errand);
}
