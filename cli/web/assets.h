/* SPDX-License-Identifier: Apache-2.0
 *
 * assets.h - the page, as page/build.py puts it into the program.
 */
#ifndef PAWL_CLI_ASSETS_H
#define PAWL_CLI_ASSETS_H

#include <stddef.h>

struct asset {
    const char *type;
    const unsigned char *text; /* without a NUL */
    size_t length;
    const char *tag; /* of this version, as in ETag */
};

enum { ASSET_PAGE, ASSET_STYLE, ASSET_SCRIPT, ASSETS };

extern const struct asset assets[ASSETS];

#endif
