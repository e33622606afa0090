/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook.c - see textbook.h: the settings.
 */
#include "textbook.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/url.h"

void pawl__textbook_pause(const struct textbook *textbook) {
    poll(NULL, 0, (int)textbook->gap_ms);
}

/* Which of the words, by its number; the first if the option is not given. */
static int take_switch(struct pawl__url *url, const char *key, const char *const words[], int *ret, struct pawl_error *reterr) {
    const char *value = pawl__url_option(url, key);

    for (*ret = 0; value && words[*ret] && strcmp(words[*ret], value) != 0;)
        ++*ret;
    return words[*ret] ? 0 : pawl__fail(reterr, PAWL_EOPTION, "%s=%s is no setting of the textbook", key, value);
}

static int take_options(struct textbook *textbook, struct pawl__url *url, struct pawl_error *reterr) {
    const struct {
        const char *key, *words[4];
        int *place;
    } switches[] = {
        {"expiry", {"atomic", "second", "none"}, &textbook->expiry},
        {"release", {"script", "check", "delete"}, &textbook->release},
        {"renew", {"checked", "unchecked", "off"}, &textbook->renew},
        {"watch", {"get", "exists", "children"}, &textbook->watch},
        {"node", {"ephemeral", "persistent"}, &textbook->persistent},
        {"wake", {"heard", "dropped"}, &textbook->drops_wakes},
        {"token", {"rising", "reused"}, &textbook->reuses_tokens},
    };
    int rc;

    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if ((rc = take_switch(url, switches[i].key, switches[i].words, switches[i].place, reterr)) < 0)
            return rc;
    return pawl__url_number(url, "gap", 0, 60000, &textbook->gap_ms, reterr);
}

static int textbook_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct textbook *textbook = (struct textbook *)engine;
    const struct pawl__url *url = setup->url;
    int rc = take_options(textbook, setup->url, reterr);

    if (rc < 0)
        return rc;
    textbook->port = url->host_count ? url->hosts[0].port : 0;
    snprintf(textbook->simple.url, sizeof textbook->simple.url, "%s://127.0.0.1:%u", url->scheme, textbook->port);
    return pawl__simple_open(&textbook->simple, strstr(url->scheme, "zk") ? &pawl__textbook_zk : &pawl__textbook_redis, setup,
                             reterr);
}

void pawl__textbook_granted(const struct textbook *textbook, struct textbook_claim *claim, uint64_t token) {
    struct kit_grant *grant = &claim->simple.kit.grant;

    claim->taken = true;
    grant->token = textbook->reuses_tokens ? 1 : token;
    if (textbook->renew != RENEW_CHECKED || textbook->expiry == EXPIRY_NONE)
        grant->lease_ns = PAWL__NEVER;
}

int pawl__textbook_unreachable(const struct textbook *textbook, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_ECONNLOST, "the textbook can't reach its server at port %u", textbook->port);
}

const struct pawl__engine_impl pawl__textbook_engine = {
    .name = "textbook",
    .schemes = (const char *const[]){"textbook+redis", "textbook+zk", NULL},
    .engine_size = sizeof(struct textbook),
    .claim_size = sizeof(struct textbook_claim),
    .open = textbook_open,
    PAWL__SIMPLE_IMPL,
};
