/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - what pawl export was told, and its server.
 */
#ifndef PAWL_CLI_EXPORT_H
#define PAWL_CLI_EXPORT_H

#include "common/options.h"
#include "http/listen.h"
#include "look/metrics.h"

struct export_options {
    struct url_list urls;
    const char *textfile;
    const char *listen, *key_file;
    struct host_list hosts;
    char *per_lock;
    size_t most;
};

/* Serve until a signal ends it. Returns the exit status. */
int export_listen(const struct export_options *options);

#endif
