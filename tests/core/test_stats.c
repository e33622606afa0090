/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stats.c - the counters as text, and that promtool takes it.
 */
#include "../support/test.h"

#include <stdlib.h>
#include <unistd.h>

static struct pawl_error error;

static char *write_stats(struct pawl *client) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(pawl_stats_write(client, out), 0);
    fclose(out);
    return text;
}

static struct pawl *open_here(char dir[64]) {
    struct pawl *client;
    char url[128];

    strcpy(dir, "/tmp/pawl \"s\\\xff\xc3\xa9XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "local:%s", dir);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    return client;
}

static void remove_dir(const char *dir) {
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

/* What is counted stays when the handles, and all that was known of their lock, are gone. */
static void test_text(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;
    char dir[64], *text;

    (void)state;
    client = open_here(dir);
    assert_works(pawl_semaphore_new(client, "s", 2, 0, &lock, &error), &error);
    assert_works(pawl_acquire_permits(lock, 2, 0, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    pawl_lock_free(lock);
    text = write_stats(client);
    assert_contains(text,
                    "# HELP pawl_client_acquires_total Acquires, by how they ended.\n# TYPE pawl_client_acquires_total counter\n"
                    "pawl_client_acquires_total{url=\"local:/tmp/pawl \\\"s\\\\\\\\xff\xc3\xa9");
    assert_contains(text, "\",kind=\"semaphore\",result=\"granted\"} 1\n");
    assert_contains(text, "\",kind=\"semaphore\",result=\"held\"} 1\n");
    assert_contains(text, "\",kind=\"mutex\",result=\"granted\"} 0\n");
    assert_contains(text, "\",kind=\"semaphore\",le=\"+Inf\"} ");
    assert_null(strstr(text, "rwlock"));
    free(text);
    pawl_close(client);
    remove_dir(dir);
}

static void test_promtool(void **state) {
    struct pawl *client;
    char dir[64], *text;
    FILE *tool;

    (void)state;
    if (system("command -v promtool >/dev/null") != 0) {
        print_message("# no promtool: install Debian's prometheus\n");
        skip();
    }
    client = open_here(dir);
    text = write_stats(client);
    tool = popen("promtool check metrics", "w");
    assert_non_null(tool);
    fputs(text, tool);
    assert_int_equal(pclose(tool), 0);
    free(text);
    pawl_close(client);
    remove_dir(dir);
}

static void test_bad_input(void **state) {
    struct pawl_counters stats = {.size = 0}, older = {.size = offsetof(struct pawl_counters, held), .held = 4711};
    struct pawl *client;
    char dir[64];

    (void)state;
    client = open_here(dir);
    assert_int_equal(pawl_stats(client, &stats), PAWL_EINVAL);
    assert_int_equal(pawl_stats(client, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_stats(NULL, &older), PAWL_EINVAL);
    assert_int_equal(pawl_stats_write(client, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_stats(client, &older), 0); /* a program that was built when the struct was shorter */
    assert_int_equal(older.held, 4711);
    pawl_close(client);
    remove_dir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_promtool),
        cmocka_unit_test(test_bad_input),
    };

    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
