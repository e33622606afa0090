/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.c - pawl doctor: what about the engine's server endangers locks, and the setting to change.
 */
#include <stdio.h>

#include "common/cli.h"
#include "common/options.h"

static const char help[] = "Usage: pawl doctor [URL]\n"
                           "\n"
                           "Look at what the locks stand on: the server's settings that may make locks\n"
                           "vanish, and what to change. Nothing is changed.\n"
                           "\n"
                           "  -u, --url URL   where the locks are; default $PAWL_URL, else local:\n"
                           "      --help      this text; the whole story is in pawl(1)\n"
                           "\n"
                           "Exit status: 0 all is well, 65 there are warnings, and else as of pawl run.\n"
                           "\n"
                           "Example\n"
                           "  pawl doctor redis://db.example\n";

static const struct option long_options[] = {
    {"url", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int show(const struct pawl_finding *finding, void *data) {
    static const char *const signs[] = {
        [PAWL_FINDING_GOOD] = "good", [PAWL_FINDING_UNKNOWN] = "unknown", [PAWL_FINDING_WARNING] = "WARNING"};
    int *warnings = data;

    printf("%-8s %s\n", signs[finding->severity], finding->what);
    if (finding->advice[0] != '\0')
        printf("%-8s -> %s\n", "", finding->advice);
    *warnings += finding->severity == PAWL_FINDING_WARNING;
    return 0;
}

static int examine(const char *url) {
    struct pawl_options client_options = {.size = sizeof client_options, .flags = PAWL_OPEN_LOOK};
    struct pawl *client;
    struct pawl_error error;
    int warnings = 0, result;

    if (pawl_open(url, &client_options, &client, &error) < 0)
        return library_error(&error);
    result = pawl_examine(client, show, &warnings, &error);
    pawl_close(client);
    if (result == PAWL_EUNSUPPORTED) {
        printf("good     it can be opened; there is nothing else to look at here\n");
        return finish_output(0);
    }
    if (result < 0)
        return library_error(&error);
    return finish_output(warnings ? EXIT_MISMATCH : 0);
}

static int apply(void *data, int option) {
    const char **url = data;

    (void)option;
    *url = optarg;
    return 0;
}

static const struct syntax syntax = {
    .subcommand = "doctor", .help = help, .letters = ":u:", .options = long_options, .apply = apply};

int command_doctor(int argc, char **argv) {
    const char *url = NULL;
    int status;

    if (!read_options(&syntax, argc, argv, &url, &status))
        return status;
    if (optind + 1 < argc)
        return usage_error("pawl doctor takes one URL, and there are '%s' and '%s'", argv[optind], argv[optind + 1]);
    return examine(optind < argc ? argv[optind] : url);
}
