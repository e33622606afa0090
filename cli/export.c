/* SPDX-License-Identifier: Apache-2.0
 *
 * export.c - pawl export: how locks are, as metrics for Prometheus. look/metrics.c writes them.
 */
#include "export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] = "Usage: pawl export [OPTION]...\n"
                           "\n"
                           "Say how the locks are as metrics, in the text format of Prometheus.\n"
                           "\n"
                           "      --textfile PATH     write them to this file instead, which is replaced in\n"
                           "                          one step: for node_exporter, and by cron\n"
                           "      --listen ADDRESS:PORT\n"
                           "                          serve them at /metrics, by HTTP, until a signal ends it\n"
                           "      --host NAME         a name under which others reach that address\n"
                           "      --key-file PATH     who asks must send the key in this file, which is\n"
                           "                          made if it is not there (Authorization: Bearer)\n"
                           "      --per-lock GLOB[,MOST]\n"
                           "                          also of single locks whose names match: at most 100\n"
                           "                          or as many as you say\n"
                           "  -u, --url URL           where the locks are; default $PAWL_URL, else local:.\n"
                           "                          Several times: at all of these\n"
                           "      --help              this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Exit status: 0, or 69 if a URL could not be reached (pawl_up tells which).\n"
                           "\n"
                           "Examples\n"
                           "  pawl export --listen 127.0.0.1:9472\n"
                           "  pawl export --textfile /var/lib/prometheus/node-exporter/pawl.prom\n";

static const struct option long_options[] = {
    {"textfile", required_argument, NULL, OPTION_TEXTFILE},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"host", required_argument, NULL, OPTION_HOST},
    {"key-file", required_argument, NULL, OPTION_KEY_FILE},
    {"per-lock", required_argument, NULL, OPTION_PER_LOCK},
    {"url", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* pawl_examine() opens connections: so rarely. */
enum { MOST_LOCKS = 100, EXAMINE_MS = 300000 };

static int set_per_lock(struct export_options *options, char *text) {
    char *comma = strrchr(text, ',');
    uint64_t most = MOST_LOCKS;

    if (comma != NULL && !parse_number(comma + 1, 1000000, &most))
        return usage_error("--per-lock wants GLOB or GLOB,MOST, such as 'orders.*,50', not '%s'", text);
    if (comma != NULL)
        *comma = '\0';
    options->per_lock = text;
    options->most = (size_t)most;
    return 0;
}

#ifdef PAWL_HTTP
static int add_host(struct export_options *options, const char *name) {
    return host_list_add(&options->hosts, name);
}
#else
static int without_http(void) {
    say("this pawl was built without libmicrohttpd, which --listen needs: install libmicrohttpd-dev, and build it with "
        "-Dhttp=enabled");
    return EXIT_NOT_FOUND;
}

static int add_host(struct export_options *options, const char *name) {
    (void)options, (void)name;
    return without_http();
}

int export_listen(const struct export_options *options) {
    (void)options;
    return without_http();
}
#endif

static int apply(void *data, int option) {
    struct export_options *options = data;

    switch (option) {
    case OPTION_TEXTFILE:
        options->textfile = optarg;
        return 0;
    case OPTION_LISTEN:
        options->listen = optarg;
        return 0;
    case OPTION_HOST:
        return add_host(options, optarg);
    case OPTION_KEY_FILE:
        options->key_file = optarg;
        return 0;
    case OPTION_PER_LOCK:
        return set_per_lock(options, optarg);
    default:
        return url_list_add(&options->urls, optarg);
    }
}

static const struct syntax syntax = {
    .subcommand = "export", .help = help, .letters = ":u:", .options = long_options, .apply = apply};

/* ---- once ----------------------------------------------------------------------------------------------------------------- */

static int file_error(const char *what, const char *path) {
    say("can't %s %s: %s", what, path, strerror(errno));
    return errno == EACCES || errno == EPERM ? EXIT_PERMISSION : EXIT_STORAGE;
}

static bool write_all(FILE *file, const char *text, mode_t mask) {
    bool good = fputs(text, file) >= 0 && fflush(file) == 0 && fchmod(fileno(file), 0666 & ~mask) == 0 && fsync(fileno(file)) == 0;

    return fclose(file) == 0 && good;
}

/* Beside it and renamed, so that a reader sees the old one or the new one. Its name does not end in .prom: node_exporter reads those. */
static int replace_file(const char *path, const char *text) {
    char beside[4096];
    mode_t mask = umask(0);

    umask(mask);
    if (snprintf(beside, sizeof beside, "%s.XXXXXX", path) >= (int)sizeof beside)
        return usage_error("--textfile: the path is too long");
    int fd = mkstemp(beside);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        int status = file_error("write beside", path);

        if (fd >= 0) {
            close(fd);
            unlink(beside);
        }
        return status;
    }
    if (write_all(file, text, mask) && rename(beside, path) == 0)
        return 0;
    int status = file_error("write", path);
    unlink(beside);
    return status;
}

static int print_once(const struct export_options *options, const struct look *look) {
    struct metrics_options metrics = {.per_lock = options->per_lock, .most = options->most};
    char *text = NULL;
    size_t size;
    int status = 0;
    FILE *out = open_memstream(&text, &size);

    if (out != NULL)
        metrics_write(out, look, &metrics);
    if (out == NULL || fclose(out) != 0) {
        say("out of memory");
        free(text);
        return EXIT_SYSTEM;
    }
    if (options->textfile != NULL)
        status = replace_file(options->textfile, text);
    else
        fputs(text, stdout);
    free(text);
    return finish_output(status);
}

static int export_once(const struct export_options *options, struct watch *watch) {
    struct look look;

    if (!look_take(&look, watch)) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    int status = print_once(options, &look);
    for (size_t i = 0; i < look.count; i++)
        if (look.places[i].code != 0) {
            say("%s", look.places[i].error);
            status = status != 0 ? status : exit_of(look.places[i].code);
        }
    look_finish(&look);
    return status;
}

int command_export(int argc, char **argv) {
    struct export_options options = {0};
    struct watch watch;
    int status;

    if (!read_options(&syntax, argc, argv, &options, &status))
        return status;
    if (optind < argc)
        return usage_error("pawl export takes no argument, and there is '%s'; locks are chosen by --per-lock", argv[optind]);
    if (options.listen == NULL && (options.hosts.count > 0 || options.key_file != NULL))
        return usage_error("--host and --key-file are for --listen");
    if (options.listen != NULL && options.textfile != NULL)
        return usage_error("--listen and --textfile exclude each other");
    if (options.listen != NULL)
        return export_listen(&options);
    status = watch_open(&watch, options.urls.urls, options.urls.count, print_log);
    if (status != 0)
        return status;
    watch.examine_ms = EXAMINE_MS;
    status = export_once(&options, &watch);
    watch_close(&watch);
    return status;
}
