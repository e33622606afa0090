/* SPDX-License-Identifier: Apache-2.0
 *
 * export_listen.c - pawl export --listen: the metrics for those who ask for them, by HTTP.
 *
 * One thread serves, another looks, and only while somebody waits for an answer: a look that is fresh enough answers at once, else those
 * who ask wait for the next. Looking takes a fiftieth of the servers' time at most, as in `pawl top`.
 */
#include "export.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "common/signals.h"
#include "http/http.h"
#include "http/key.h"
#include "http/listen.h"
#include "http/patients.h"
#include "look/source.h"

enum { FRESH_MS = 1000 };
enum form { FORM_TEXT, FORM_OPENMETRICS, FORMS };

struct server {
    const struct export_options *options;
    struct source source;
    struct history history;
    struct look look; /* the last; count 0: none yet */
    struct document *documents[FORMS];
    int64_t fresh_until; /* of now_ms() */
    struct patients patients;
    struct listening listening;
    struct gate gate;
    struct http *http;
};

/* ---- routes --------------------------------------------------------------------------------------------------------------- */

static void answer(struct server *server, struct exchange *exchange, enum form form) {
    if (server->documents[form] != NULL)
        exchange_answer(exchange, 200, server->documents[form]);
    else
        exchange_say(exchange, 503, "out of memory\n");
}

static void serve_metrics(struct exchange *exchange, void *data) {
    struct server *server = data;
    enum form form = exchange_accepts(exchange, "application/openmetrics-text") ? FORM_OPENMETRICS : FORM_TEXT;
    bool fresh = server->documents[form] != NULL && now_ms() < server->fresh_until;

    if (patients_are_full(&server->patients))
        exchange_say(exchange, 503, "as many wait for this look as may; try again later\n");
    else if (fresh || !source_ask(&server->source) || !patients_add(&server->patients, exchange, (int)form))
        answer(server, exchange, form);
}

static void serve_front(struct exchange *exchange, void *data) {
    (void)data;
    exchange_say(exchange, 200, "pawl export: the metrics are at /metrics\n");
}

static const struct route open_routes[] = {
    {"GET", "/", ROUTE_LANDING, serve_front},
    {"GET", "/metrics", 0, serve_metrics},
    {NULL, NULL, 0, NULL},
};
static const struct route private_routes[] = {
    {"GET", "/", ROUTE_LANDING, serve_front},
    {"GET", "/metrics", ROUTE_PRIVATE, serve_metrics},
    {NULL, NULL, 0, NULL},
};

/* ---- looks ---------------------------------------------------------------------------------------------------------------- */

static struct document *write_document(const struct server *server, enum form form) {
    struct metrics_options options = {.history = &server->history,
                                      .per_lock = server->options->per_lock,
                                      .most = server->options->most,
                                      .openmetrics = form == FORM_OPENMETRICS};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out != NULL)
        metrics_write(out, &server->look, &options);
    if (out == NULL || fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return document_new(form == FORM_OPENMETRICS ? OPENMETRICS_TYPE : METRICS_TYPE, text, size);
}

static void take_in(struct server *server, struct look *look) {
    int64_t pause_ms = look_pause_ms(look);

    history_add(&server->history, server->look.count > 0 ? &server->look : NULL, look);
    look_finish(&server->look);
    server->look = *look;
    for (int form = 0; form < FORMS; form++) {
        document_drop(server->documents[form]);
        server->documents[form] = write_document(server, (enum form)form);
    }
    server->fresh_until = deadline_in(pause_ms > FRESH_MS ? pause_ms : FRESH_MS);
}

static void answer_patients(struct server *server) {
    struct exchange *exchange;
    int form;

    while ((exchange = patients_take(&server->patients, &form)) != NULL)
        answer(server, exchange, (enum form)form);
}

/* ---- the server ----------------------------------------------------------------------------------------------------------- */

static int set_up(struct server *server) {
    const struct export_options *options = server->options;
    int status = source_open(&server->source, NULL, options->urls.urls, options->urls.count);

    if (status == 0 && options->key_file != NULL)
        status = key_get(options->key_file, server->gate.key);
    if (status == 0)
        status = listen_open(options->listen, &server->listening);
    if (status == 0)
        status = listen_names(&server->listening, &options->hosts, &server->gate);
    if (status != 0)
        return status;
    if (history_init(&server->history))
        server->http = http_start(server->listening.fd, server->listening.beside, &server->gate,
                                  options->key_file != NULL ? private_routes : open_routes, server);
    if (server->http == NULL) {
        say("can't start to serve: out of memory, threads or descriptors");
        return EXIT_SYSTEM;
    }
    return 0;
}

static void tear_down(struct server *server) {
    if (server->http != NULL)
        http_stop(server->http);
    patients_finish(&server->patients);
    for (int form = 0; form < FORMS; form++)
        document_drop(server->documents[form]);
    source_close(&server->source);
    look_finish(&server->look);
    history_finish(&server->history);
    listen_close(&server->listening);
    gate_finish(&server->gate);
}

static int print_address(const struct server *server) {
    char shown[512];

    if (server->listening.path != NULL)
        printf("unix:%s\n", server->listening.path);
    else
        printf("http://%s/metrics\n", listen_shown(&server->listening, &server->options->hosts, shown, sizeof shown));
    return finish_output(0);
}

/* Until a signal that ends us; returns its number. */
static int serve(struct server *server) {
    for (;;) {
        struct pollfd ready[] = {
            {.fd = signals_fd(), .events = POLLIN},
            {.fd = http_fd(server->http), .events = POLLIN},
            {.fd = source_fd(&server->source), .events = POLLIN},
        };
        struct look look;

        poll(ready, sizeof ready / sizeof ready[0], poll_timeout(http_due(server->http)));
        for (int number; (number = signals_next()) != 0;)
            if (signal_ends_us(number))
                return number;
            else if (signal_stops_us(number))
                stop_by_signal(number, false);
        if (ready[2].revents & POLLIN) {
            if (source_take(&server->source, &look) == READ_LOOK)
                take_in(server, &look);
            answer_patients(server);
        }
        http_run(server->http);
    }
}

int export_listen(const struct export_options *options) {
    struct server server = {.options = options, .listening = {.fd = -1, .beside = -1}, .source = {.ask_fd = -1, .done_fd = -1}};
    int number = 0;

    patients_init(&server.patients);
    if (!signals_take())
        return EXIT_SYSTEM;
    int status = set_up(&server);
    if (status == 0)
        status = print_address(&server);
    if (status == 0)
        number = serve(&server);
    tear_down(&server);
    return number != 0 ? end_by_signal(number, false) : status;
}
