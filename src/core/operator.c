/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.c - for operators: who holds, who waits; and breaking a hold.
 */
#include "core/core.h"
#include "base/error.h"
#include "base/name.h"
#include "os/uncancelled.h"

int pawl__client_check(const struct pawl *client, struct pawl_error *reterr) {
    if (!client)
        return pawl__fail(reterr, PAWL_EINVAL, "the client is NULL");
    if (atomic_load(&client->forked))
        return pawl__fail(reterr, PAWL_EFORKED, "the client was opened before fork(): open one of its own in the child");
    return pawl__in_log() ? pawl__refuse_in_log(reterr) : 0;
}

int pawl_inspect(struct pawl *client, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    int rc = pawl__client_check(client, reterr);
    struct calling calling;
    UNCANCELLED;

    if (rc < 0 || (name && (rc = pawl__name_check(name, reterr)) < 0))
        return rc;
    if (!visit)
        return pawl__fail(reterr, PAWL_EINVAL, "an inspection needs a function that is shown the entries");
    if ((rc = pawl__client_check_asks(client, reterr)) < 0)
        return rc;
    pawl__calling_begin(&calling, CALLING_VISIT, client);
    rc = impl_of(client)->operators->survey(client->engine, name, visit, data, reterr);
    pawl__calling_end(&calling);
    return rc;
}

int pawl_break(struct pawl *client, const char *name, uint64_t token, unsigned flags, struct pawl_error *reterr) {
    int rc = pawl__client_check(client, reterr);
    UNCANCELLED;

    if (rc < 0 || (rc = pawl__name_check(name, reterr)) < 0)
        return rc;
    if (flags & ~(unsigned)PAWL_BREAK_NOW)
        return pawl__fail(reterr, PAWL_EINVAL, "pawl_break does not know flag 0x%x", flags & ~(unsigned)PAWL_BREAK_NOW);
    if (token == 0)
        return pawl__fail(reterr, PAWL_ETOKEN, "breaking '%s' needs the token of the hold to be broken", name);
    if ((rc = pawl__client_check_asks(client, reterr)) < 0)
        return rc;
    return impl_of(client)->operators->break_hold(client->engine, name, token, flags & PAWL_BREAK_NOW, reterr);
}

int pawl_examine(struct pawl *client, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    int rc = pawl__client_check(client, reterr);
    struct calling calling;
    UNCANCELLED;

    if (rc < 0)
        return rc;
    if (!visit)
        return pawl__fail(reterr, PAWL_EINVAL, "an examination needs a function that is shown the findings");
    if (!impl_of(client)->operators->examine)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "there is nothing to examine about %s", client->info.url);
    if ((rc = pawl__client_check_asks(client, reterr)) < 0)
        return rc;
    pawl__calling_begin(&calling, CALLING_VISIT, client);
    rc = impl_of(client)->operators->examine(client->engine, visit, data, reterr);
    pawl__calling_end(&calling);
    return rc;
}
