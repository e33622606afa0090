/* SPDX-License-Identifier: Apache-2.0
 *
 * web.c - pawl web: the locks in a browser. The command line, and the loop.
 *
 *   this thread    serves, from what was seen last (http.h, site.h)
 *   looker.h       looks at all locks, while somebody is here
 *   errands.h      looks at one lock, and breaks
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/options.h"
#include "../common/signals.h"
#include "../http/key.h"
#include "../http/listen.h"
#include "site.h"

static const char help[] = "Usage: pawl web [OPTION]...\n"
                           "\n"
                           "Show the locks in a browser: who holds what, who waits for whom, what happened.\n"
                           "Prints the address to open, with the key that opens it behind the #.\n"
                           "\n"
                           "  -u, --url URL            where the locks are; several times for several places;\n"
                           "                           default $PAWL_URL, else local:\n"
                           "      --listen ADDRESS:PORT | unix:PATH\n"
                           "                           default localhost:7295; port 0: one that is free\n"
                           "      --host NAME          a name under which browsers reach it; several times\n"
                           "      --key-file FILE      keep the key there, so that it stays the same\n"
                           "      --allow-break[=now]  let the page ask holders to give up; with =now also\n"
                           "                           free locks at once\n"
                           "      --interval MS        look every MS milliseconds; default 1000\n"
                           "      --record             look also while no browser is here\n"
                           "      --help               this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Examples\n"
                           "  pawl web\n"
                           "  pawl web -u redis://db.example -u zk://zk1,zk2,zk3/locks --allow-break\n"
                           "  ssh -L 7295:127.0.0.1:7295 db.example pawl web\n";

static const struct option long_options[] = {
    {"url", required_argument, NULL, 'u'},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"host", required_argument, NULL, OPTION_HOST},
    {"key-file", required_argument, NULL, OPTION_KEY_FILE},
    {"allow-break", optional_argument, NULL, OPTION_ALLOW_BREAK},
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"record", no_argument, NULL, OPTION_RECORD},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

enum { EXAMINE_MS = 300000, INTERVAL_LEAST_MS = 100, INTERVAL_MOST_MS = 3600000 };

struct web {
    struct url_list urls;
    const char *listen, *key_file;
    struct host_list hosts;
    struct about about;
    struct listening listening;
    struct gate gate;
    struct watch watch;
    struct site site;
    struct http *http;
};

static int allow_break(struct web *web, const char *how) {
    if (how != NULL && strcmp(how, "now") != 0)
        return usage_error("--allow-break stands alone or is --allow-break=now, not '--allow-break=%s'", how);
    web->about.breaks = how != NULL ? "now" : "ask";
    return 0;
}

static int set_interval(struct web *web, const char *text) {
    uint64_t ms;

    if (!parse_number(text, INTERVAL_MOST_MS, &ms) || ms < INTERVAL_LEAST_MS)
        return usage_error("--interval wants %d to %d milliseconds, not '%s'", INTERVAL_LEAST_MS, INTERVAL_MOST_MS, text);
    web->about.interval_ms = (int64_t)ms;
    return 0;
}

static int apply(void *data, int option) {
    struct web *web = data;

    switch (option) {
    case OPTION_LISTEN:
        web->listen = optarg;
        return 0;
    case OPTION_HOST:
        return host_list_add(&web->hosts, optarg);
    case OPTION_KEY_FILE:
        web->key_file = optarg;
        return 0;
    case OPTION_ALLOW_BREAK:
        return allow_break(web, optarg);
    case OPTION_INTERVAL:
        return set_interval(web, optarg);
    case OPTION_RECORD:
        web->site.record = true;
        return 0;
    default:
        return url_list_add(&web->urls, optarg);
    }
}

static const struct syntax syntax = {.subcommand = "web", .help = help, .letters = ":u:", .options = long_options, .apply = apply};

/* ---- setting up ----------------------------------------------------------------------------------------------------------- */

static int set_up(struct web *web) {
    int status = key_get(web->key_file, web->gate.key);

    if (status == 0)
        status = watch_open(&web->watch, web->urls.urls, web->urls.count, NULL);
    if (status == 0)
        status = listen_open(web->listen, &web->listening);
    if (status == 0)
        status = listen_names(&web->listening, &web->hosts, &web->gate);
    if (status != 0)
        return status;
    web->watch.examine_ms = EXAMINE_MS;
    gethostname(web->about.host, sizeof web->about.host - 1);
    web->about.started_ms = wall_ms();
    web->site.about = &web->about;
    web->site.looker = looker_start(&web->watch, &web->about);
    if (web->site.looker != NULL)
        web->site.errands = errands_start(web->urls.urls, web->urls.count, web->site.looker);
    if (web->site.errands != NULL && site_init(&web->site))
        web->http = http_start(web->listening.fd, web->listening.beside, &web->gate, site_routes, &web->site);
    if (web->http == NULL) {
        say("can't start to serve: out of memory, threads or descriptors");
        return EXIT_SYSTEM;
    }
    return 0;
}

static void tear_down(struct web *web) {
    if (web->http != NULL)
        http_stop(web->http);
    if (web->site.errands != NULL)
        errands_stop(web->site.errands);
    if (web->site.looker != NULL)
        site_finish(&web->site);
    if (web->site.looker != NULL)
        looker_stop(web->site.looker);
    listen_close(&web->listening);
    watch_close(&web->watch);
    gate_finish(&web->gate);
}

static int print_address(const struct web *web) {
    char shown[512];

    if (web->listening.path != NULL)
        printf("unix:%s#%s\n", web->listening.path, web->gate.key);
    else
        printf("http://%s/#%s\n", listen_shown(&web->listening, &web->hosts, shown, sizeof shown), web->gate.key);
    return finish_output(0);
}

/* Until a signal that ends us; returns its number. */
static int serve(struct web *web) {
    struct pollfd ready[] = {
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = http_fd(web->http), .events = POLLIN},
        {.fd = looker_fd(web->site.looker), .events = POLLIN},
        {.fd = errands_fd(web->site.errands), .events = POLLIN},
    };

    for (;;) {
        poll(ready, sizeof ready / sizeof ready[0], poll_timeout(http_due(web->http)));
        for (int number; (number = signals_next()) != 0;)
            if (signal_ends_us(number))
                return number;
            else if (signal_stops_us(number))
                stop_by_signal(number, false);
        site_collect(&web->site);
        site_tick(&web->site);
        http_run(web->http);
    }
}

int command_web(int argc, char **argv) {
    struct web web = {
        .listen = "localhost:7295", .about = {.interval_ms = 1000, .breaks = "no"}, .listening = {.fd = -1, .beside = -1}};
    int status, number = 0;

    if (!read_options(&syntax, argc, argv, &web, &status))
        return status;
    if (optind < argc)
        return usage_error("pawl web takes no lock, and there is '%s'; the page can search", argv[optind]);
    if (!signals_take())
        return EXIT_SYSTEM;
    status = set_up(&web);
    if (status == 0)
        status = print_address(&web);
    if (status == 0)
        number = serve(&web);
    tear_down(&web);
    return number != 0 ? end_by_signal(number, false) : status;
}
