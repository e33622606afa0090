/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.c - hold a lock while doing something that only one may do at a time.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs pawl)
 */
#include <err.h>
#include <pawl.h>
#include <stdio.h>

int main(void) {
    struct pawl *client;
    struct pawl_lock *lock;
    struct pawl_error error;

    if (pawl_open(NULL, NULL, &client, &error) < 0 || /* $PAWL_URL, else this machine */
        pawl_mutex_new(client, "nightly", 0, &lock, &error) < 0 ||
        pawl_acquire(lock, 10 * 1000, &error) < 0) /* wait ten seconds at most */
        errx(1, "%s", error.text);

    printf("mine, with token %llu\n", (unsigned long long)pawl_token(lock));
    /* ... do what only one may do, and send the token along with what you write ... */

    if (pawl_release(lock, &error) < 0)
        errx(1, "%s", error.text);
    pawl_lock_free(lock);
    pawl_close(client);
    return 0;
}
