/* SPDX-License-Identifier: Apache-2.0
 *
 * label.c - pawl_set_label: what the claims of one handle say of themselves, instead of what the client says.
 *
 * A claim has the text that its handle had when it was made, for all of its life: engines write it when they queue and find it by it when
 * they give up (redis/lock/send.c). So handle and claims share one text that is never changed, and another label is another text. Who joins
 * a claim of another handle, or enters one that is kept, is shown by that one's label (keep.c).
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "base/error.h"
#include "os/uncancelled.h"

int pawl__label_check(const char *what, const char *text, struct pawl_error *reterr) {
    for (const char *c = text; *c; c++)
        if (iscntrl((unsigned char)*c))
            return pawl__fail(reterr, PAWL_EOPTION, "%s has a control character (0x%02x): leave it out", what, (unsigned char)*c);
    if (strlen(text) >= PAWL__LABEL_SIZE)
        return pawl__fail(reterr, PAWL_EOPTION, "%s is longer than %d bytes", what, PAWL__LABEL_SIZE - 1);
    return 0;
}

/* NULL: out of memory. */
static struct label *new_label(const char *text) {
    size_t size = strlen(text) + 1;
    struct label *label = malloc(sizeof *label + size);

    if (label) {
        label->references = 1;
        memcpy(label->text, text, size);
    }
    return label;
}

int pawl_set_label(struct pawl_lock *lock, const char *label, struct pawl_error *reterr) {
    struct label *made = NULL;
    int rc = label ? pawl__label_check("the label", label, reterr) : 0;
    UNCANCELLED;

    if (rc < 0)
        return rc;
    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    if (label && !(made = new_label(label)))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    if ((rc = pawl__lock_cohort(lock, reterr)) < 0) {
        free(made);
        return rc;
    }
    pawl__label_put(lock->label);
    lock->label = made;
    pawl__cohort_unlock(lock->cohort);
    return 0;
}
