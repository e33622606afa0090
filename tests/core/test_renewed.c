/* SPDX-License-Identifier: Apache-2.0
 *
 * test_renewed.c - what the core makes of NEWS_RENEWED, on the engine of keep_fake.h.
 */
#include "../support/keep_fake.h"

static int told[PAWL_LOST + 1];

static void note_state(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lock, (void)token, (void)why, (void)data;
    told[state]++;
}

/* A suspect hold whose lease becomes shorter has not recovered; one that was confirmed has. */
static void test_shorter_is_not_renewed(void **state) {
    struct pawl_lock *lock = mutex("lock", PAWL_TASK);
    struct claim *claim;
    int64_t sent_at;

    (void)state;
    memset(told, 0, sizeof told);
    assert_works(pawl_on_loss(lock, note_state, NULL, &error), &error);
    acquire(lock);
    claim = last_claim(lock);
    sent_at = claim->seam.sent_at;
    claim->lease.suspect = true;
    claim->seam.lease_ns = LEASE_NS / 2;
    tell(lock, NEWS_RENEWED);
    pawl__events_serve(client);
    assert_true(claim->lease.suspect);
    assert_true(claim->lease.sent_at == sent_at && claim->lease.ns == LEASE_NS / 2);
    assert_true(claim->lease.assured_until < sent_at + LEASE_NS / 2);
    assert_int_equal(told[PAWL_HELD], 0);
    claim->seam.sent_at++;
    tell(lock, NEWS_RENEWED);
    pawl__events_serve(client);
    assert_false(claim->lease.suspect);
    assert_int_equal(told[PAWL_HELD], 1);
    release(lock);
    pawl_lock_free(lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shorter_is_not_renewed, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
