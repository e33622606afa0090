/* SPDX-License-Identifier: Apache-2.0
 *
 * test_cohorts.c - the table of names that a client has handles on, which grows with them; and the numbers of claims, of which each
 * cohort has some for itself.
 */
#include <ftw.h>
#include <limits.h>
#include <unistd.h>

#include "core/claim.h"
#include "../support/test.h"

enum { NAMES = 100000, CHAIN = 32 };

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

/* The most that have to be looked at to find one. */
static size_t longest_chain(const struct pawl *client) {
    const struct cohort *cohort;
    size_t longest = 0;

    for (size_t i = 0; i < client->table.bucket_count; i++) {
        size_t length = 0;

        TAILQ_FOREACH(cohort, &client->table.buckets[i], link) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

static struct pawl_lock *make(struct pawl *client, int number) {
    struct pawl_lock *lock = NULL;
    struct pawl_error error;
    char name[32];

    snprintf(name, sizeof name, "name %d", number);
    assert_works(pawl_mutex_new(client, name, 0, &lock, &error), &error);
    return lock;
}

static struct pawl *open_in(char directory[PATH_MAX]) {
    struct pawl_error error;
    struct pawl *client;
    char url[PATH_MAX + 8];

    snprintf(directory, PATH_MAX, "%s/pawl-cohorts-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "local:%s", directory);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    return client;
}

static void test_table_grows(void **state) {
    struct pawl_lock **locks = calloc(NAMES, sizeof *locks), *again;
    char directory[PATH_MAX];
    struct pawl_error error;
    struct pawl *client = open_in(directory);

    (void)state;
    for (int i = 0; i < NAMES; i++)
        locks[i] = make(client, i);
    assert_true(longest_chain(client) <= CHAIN);
    for (int i = 0; i < NAMES; i += 997) { /* each is found again, and is the same */
        again = make(client, i);
        assert_ptr_equal(again->cohort, locks[i]->cohort);
        pawl_lock_free(again);
    }
    for (int i = 0; i < NAMES; i += 2)
        pawl_lock_free(locks[i]);
    for (int i = 1; i < NAMES; i += 2000)
        assert_works(pawl_acquire(locks[i], 0, &error), &error);
    pawl_close(client);
    for (int i = 1; i < NAMES; i += 2)
        pawl_lock_free(locks[i]);
    free(locks);
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- The numbers of claims ------------------------------------------------------------------------------------------------ */

/* The number of a claim that the lock is held by from now on. */
static uint64_t hold(struct pawl_lock *lock) {
    struct pawl_error error;

    assert_works(pawl_acquire(lock, 0, &error), &error);
    return TAILQ_LAST(&lock->cohort->claims, claim_list)->seam.id[1];
}

/* A program that makes a handle for each use has a new cohort each time: after some hours there were millions. What servers send back of a
 * number is read as a signed one. */
static void test_numbers_are_used_once(void **state) {
    enum { LOCKS = 3 };
    char directory[PATH_MAX];
    struct pawl *client = open_in(directory);
    struct pawl_lock *locks[LOCKS];
    uint64_t number, last = 0;

    (void)state;
    for (int i = 0; i < LOCKS; i++) {
        locks[i] = make(client, i);
        number = hold(locks[i]);
        assert_true((i == 0 || number > last) && number <= INT64_MAX);
        last = number;
        client->blocks += 1 << 23;
    }
    pawl_close(client);
    for (int i = 0; i < LOCKS; i++)
        pawl_lock_free(locks[i]);
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_grows),
        cmocka_unit_test(test_numbers_are_used_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
