/* SPDX-License-Identifier: Apache-2.0
 *
 * retry.c - see retry.h.
 */
#include "engine/kit/retry.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/url.h"

#define MS INT64_C(1000000)
enum { PAUSE_MS_MAX = 3600000, TRIES_MAX = 1000000 };

int pawl__kit_take_retry(struct pawl__url *url, struct kit_retry *ret, struct pawl_error *reterr) {
    const char *text = pawl__url_option(url, "retry");
    long base = (long)(ret->base_ns / MS), most = (long)(ret->max_ns / MS), tries = (long)ret->tries;
    char *end;

    if (!text)
        return 0;
    base = strtol(text, &end, 10);
    if (*end == ',')
        most = strtol(end + 1, &end, 10);
    if (*end == ',')
        tries = strtol(end + 1, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || base < 1 || most < base || most > PAUSE_MS_MAX || tries < 0 || tries > TRIES_MAX)
        return pawl__fail(
            reterr, PAWL_EOPTION,
            "the URL's option retry=%.40s is not BASE,MAX,TRIES: ms before the first retry, ms at most, and how often "
            "(0: for ever)",
            text);
    *ret = (struct kit_retry){base * MS, most * MS, (unsigned)tries};
    return 0;
}
