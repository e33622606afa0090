/* SPDX-License-Identifier: Apache-2.0
 *
 * calling.c - callbacks of the user's that run in this thread. What would wait for their end must not be called in them, and is refused.
 *
 * Each callback has a frame on the stack of its thread for as long as it runs; one may run within another. Not those of asynchronous
 * acquires: nothing waits for them, and all of pawl may be called.
 */
#include "core/core.h"
#include "base/error.h"

_Thread_local struct calling *pawl__calling __attribute__((tls_model("initial-exec")));

static const char *const names[] = {
    [CALLING_LOG] = "pawl_options.log",           [CALLING_INTERRUPTED] = "pawl_options.interrupted",
    [CALLING_DEADLOCK] = "pawl_options.deadlock", [CALLING_LOSS] = "pawl_on_loss",
    [CALLING_OBSERVED] = "pawl_observe",          [CALLING_VISIT] = "pawl_inspect or pawl_examine",
};

void pawl__calling_begin(struct calling *calling, enum callback kind, const struct pawl *client) {
    *calling = (struct calling){.around = pawl__calling, .kind = kind, .client = client};
    pawl__calling = calling;
}

void pawl__calling_end(const struct calling *calling) {
    pawl__calling = calling->around;
}

int pawl__refuse_in_log(struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_EDEADLK, "nothing of pawl may be called in the callback for its log: note it, and call later");
}

/* Would pawl_close of this client wait for the callback? */
static bool is_waited_for(const struct calling *calling, const struct pawl *client) {
    if (calling->client == client)
        return true;
    for (struct pawl *const *other = calling->others; other && *other; other++)
        if (*other == client)
            return true;
    return false;
}

const char *pawl__close_waits_for(const struct pawl *client) {
    for (const struct calling *calling = pawl__calling; calling; calling = calling->around)
        if (is_waited_for(calling, client) || calling->kind == CALLING_LOG)
            return names[calling->kind];
    return NULL;
}

bool pawl__ask_interrupted(const struct pawl *client, const struct cohort *cohort) {
    struct calling calling;
    bool over;

    if (!client->callbacks.interrupted)
        return false;
    pawl__calling_begin(&calling, CALLING_INTERRUPTED, client);
    calling.cohort = cohort;
    over = client->callbacks.interrupted(client->callbacks.interrupted_data) != 0;
    pawl__calling_end(&calling);
    return over;
}

bool pawl__calling_waits_for(const struct cohort *cohort) {
    for (const struct calling *calling = pawl__calling; calling; calling = calling->around)
        if (calling->cohort == cohort)
            return true;
    return false;
}
