/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_replicas.c - ?replicas=N: a primary with two replicas that are stopped and started at the worst moments. What is granted or
 * renewed is on the replicas, and what is not is neither granted nor renewed.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lab/servers/clock.h"
#include "../../lab/servers/proxy.h"
#include "../support/findings.h"
#include "../support/names.h"
#include "../support/redis_keep.h"
#include "../support/redis_test.h"
#include "../support/redis_topology.h"

static struct redis_watched watched;
static struct redis_server *primary = &watched.servers[0];

#define LEASE_MS 3000

static int set_up(void **state) {
    (void)state;
    if (!primary->pid)
        redis_watched_start(&watched);
    freeReplyObject(redis_server_command(primary, "FLUSHALL"));
    return 0;
}

static int stop_servers(void **state) {
    (void)state;
    redis_watched_free(&watched);
    return 0;
}

static void replicas_signal(int number) {
    assert_int_equal(kill(watched.servers[1].pid, number), 0);
    assert_int_equal(kill(watched.servers[2].pid, number), 0);
}

static void let_replicas_go(void) {
    replicas_signal(SIGCONT);
    redis_await_replicas(primary, 2);
}

static void test_a_grant_is_on_the_replicas(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=2", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_int_equal(redis_server_integer(&watched.servers[1], "HLEN lock"), 2);
        assert_int_equal(redis_server_integer(&watched.servers[2], "HLEN lock"), 2);
        assert_works(pawl_release(lock, &error), &error);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Redisson #4706, #4822: what too few replicas have is undone, and said so. */
static void test_a_shortfall_is_undone(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=2&command=600", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_int_equal(kill(watched.servers[2].pid, SIGSTOP), 0);
    assert_fails(PAWL_EREPLICAS, pawl_acquire(lock, 0, &error), &error);
    assert_contains(error.text, "1 of the 2 replicas");
    assert_int_equal(redis_server_integer(primary, "EXISTS lock pawl:who:{lock}"), 0);
    assert_fails(PAWL_EREPLICAS, pawl_acquire(lock, 2000, &error), &error);
    await_integer(primary, "EXISTS lock pawl:queue:{lock}", 0);
    assert_int_equal(kill(watched.servers[2].pid, SIGCONT), 0);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(&watched.servers[2], "HLEN lock"), 2);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* An acquire that waits is granted when the replicas are there again. */
static void test_waits_for_replicas(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=1&command=600", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct taker taker;

    (void)state;
    replicas_signal(SIGSTOP);
    start_taker(&taker, lock, PATIENCE_MS);
    await_integer(primary, "EXISTS pawl:witness:{lock}", 1);
    await_integer(primary, "EXISTS lock", 0); /* undone at least once */
    assert_true(taker_waits(&taker));
    let_replicas_go();
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

struct shortfall {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool seen;
};

static void see_shortfall(enum pawl_log_level level, const char *text, void *data) {
    struct shortfall *shortfall = data;

    if (level != PAWL_LOG_TRACE || !strstr(text, "0 of 1 replicas have it"))
        return;
    pthread_mutex_lock(&shortfall->mutex);
    shortfall->seen = true;
    pthread_cond_signal(&shortfall->changed);
    pthread_mutex_unlock(&shortfall->mutex);
}

static void await_shortfall(struct shortfall *shortfall) {
    pthread_mutex_lock(&shortfall->mutex);
    while (!shortfall->seen)
        pthread_cond_wait(&shortfall->changed, &shortfall->mutex);
    shortfall->seen = false;
    pthread_mutex_unlock(&shortfall->mutex);
}

static void note_result(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)why;
    *(int *)data = result;
}

/* An acquire is given up while its hold, which too few replicas have, is being taken back: it is released twice, and only the second answer
 * is the end of it. */
static void test_given_up_while_it_is_undone(void **state) {
    struct shortfall shortfall = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    struct pawl_options how = {
        .size = sizeof how, .flags = PAWL_OPEN_TRACE, .log = see_shortfall, .log_data = &shortfall, .lease_ms = LEASE_MS};
    struct pawl *client;
    struct pawl_lock *lock, *beside;
    char url[100];

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?replicas=1&command=150&handoff=0", primary->port);
    assert_works(pawl_open(url, &how, &client, &error), &error);
    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &lock, &error), &error);
    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &beside, &error), &error);
    replicas_signal(SIGSTOP);
    for (int i = 0; i < 16; i++) {
        int result = 1;

        assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, note_result, &result, &error), &error);
        assert_true(pawl_acquire(beside, 0, &error) < 0); /* the claim that is kept for the next acquire is this one now */
        await_shortfall(&shortfall);
        nanosleep(&(struct timespec){.tv_nsec = i * 10000}, NULL); /* so that the two answers do not come together */
        pawl_cancel(lock);
        await(pawl_dispatch(client) == 1, "it never ends");
        assert_int_equal(result, PAWL_ECANCELED);
        await(!owes_answers(server_of(client)), "the primary never answers");
        assert_int_equal(redis_server_integer(primary, "EXISTS lock"), 0);
    }
    let_replicas_go();
    pawl_lock_free(lock);
    pawl_lock_free(beside);
    pawl_close(client);
}

/* What the proxy has kept: the first script after WAIT, which releases what too few replicas have. */
struct kept_release {
    bool waited;
    atomic_size_t length;
    unsigned char bytes[32768];
};

static enum proxy_verdict keep_release(void *data, unsigned connection, enum proxy_side from, const unsigned char *message,
                                       size_t length) {
    struct kept_release *kept = data;

    (void)connection;
    if (from == PROXY_SERVER || atomic_load(&kept->length))
        return PROXY_PASS;
    if (!kept->waited || !memmem(message, length, "\r\nEVAL", 6)) {
        kept->waited |= memmem(message, length, "\r\nWAIT\r\n", 8) != NULL;
        return PROXY_PASS;
    }
    assert_true(length <= sizeof kept->bytes);
    memcpy(kept->bytes, message, length);
    atomic_store(&kept->length, length);
    return PROXY_CUT_BEFORE;
}

/* It comes to the server after all, over the connection that is cut at the other end. */
static void deliver(const struct kept_release *kept) {
    redisContext *connection = redisConnect("127.0.0.1", (int)primary->port);
    void *answer = NULL;

    assert_int_equal(redisAppendFormattedCommand(connection, (const char *)kept->bytes, atomic_load(&kept->length)), REDIS_OK);
    assert_int_equal(redisGetReply(connection, &answer), REDIS_OK);
    assert_int_equal(((redisReply *)answer)->type, REDIS_REPLY_INTEGER);
    freeReplyObject(answer);
    redisFree(connection);
}

/* The release of what too few replicas had is on its way when its connection is cut, and comes when the lock has been granted since: it
 * must not free that. */
static void test_undone_late(void **state) {
    static struct kept_release kept;
    struct proxy *proxy = proxy_new(primary->port, NULL, keep_release, &kept);
    struct pawl *client = open_at(proxy_port(proxy), "?replicas=1&command=600", 20000);
    struct pawl *other = open_at(primary->port, "", 0);
    struct pawl_lock *lock, *others = mutex_of(other, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &lock, &error), &error);
    replicas_signal(SIGSTOP);
    start_holder(&taker, lock, PATIENCE_MS);
    await(atomic_load(&kept.length), "nothing is undone");
    let_replicas_go();
    assert_int_equal(end_taker(&taker), 0);
    deliver(&kept);
    assert_int_equal(redis_server_integer(primary, "EXISTS lock"), 1);
    assert_fails(PAWL_EHELD, pawl_acquire(others, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(primary, "EXISTS lock pawl:queue:{lock}"), 0);
    pawl_lock_free(lock);
    pawl_lock_free(others);
    pawl_close(client);
    pawl_close(other);
    proxy_free(proxy);
}

/* A grant that was pushed is confirmed, and counts when replicas have it; not before. */
static void test_a_pushed_grant_waits_for_replicas(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=1&command=5000", 0), *other = open_at(primary->port, "", 0);
    struct pawl_lock *lock = mutex_of(client, "lock"), *held = mutex_of(other, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taker(&taker, lock, PATIENCE_MS);
    await_integer(primary, "ZCARD pawl:queue:{lock}", 1);
    replicas_signal(SIGSTOP);
    assert_works(pawl_release(held, &error), &error);
    await_integer(primary, "EXISTS pawl:witness:{lock}", 1);
    assert_true(taker_waits(&taker));
    let_replicas_go();
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

/* A renewal that replicas don't have is none: the hold is lost at the end of its lease, and told. */
static void test_a_renewal_needs_replicas(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=1", 1500);
    struct losses losses = LOSSES_INIT;
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL); /* two leases */
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    replicas_signal(SIGSTOP);
    await_loss(&losses);
    let_replicas_go();
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* A kept lock whose renewals are short of replicas is not entered; it is again when they are not. */
static void test_not_entered_short_of_replicas(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=1&command=600", 20000);
    struct keeper *keeper = keep_mutex(client, "lock");

    (void)state;
    assert_int_equal(keeper_resumes(keeper), PAWL__DONE);
    replicas_signal(SIGSTOP);
    await(keeper_resumes(keeper) == PAWL_EHELD, "it is entered, though no replica has its renewal");
    let_replicas_go();
    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered again");
    assert_int_equal(atomic_load(&keeper->lost) + atomic_load(&keeper->wanted), 0);
    keeper_leave(keeper);
    pawl_close(client);
    keepers_free();
}

/* A hold whose renewals were short for a while, and then were not, stays. */
static void test_a_hold_survives_a_pause_of_the_replicas(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=1&command=500", 20000);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    replicas_signal(SIGSTOP);
    freeReplyObject(redis_server_command(primary, "DEL pawl:witness:{lock}"));
    await_integer(primary, "EXISTS pawl:witness:{lock}", 1); /* a renewal is being secured */
    let_replicas_go();
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* A hold is broken while its renewal is on the way to the replicas: that they have it at last does not bring it back. */
static void test_a_renewal_after_a_break(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client = open_at(primary->port, "?replicas=1&command=20000", 20000), *operator= open_at(primary->port, "", 0);
    struct pawl_lock *lock = mutex_of(client, "lock");
    char list[8192];

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    replicas_signal(SIGSTOP);
    freeReplyObject(redis_server_command(primary, "DEL pawl:witness:{lock}"));
    await_integer(primary, "EXISTS pawl:witness:{lock}", 1); /* a renewal is being secured */
    assert_works(pawl_break(operator, "lock", pawl_token(lock), false, &error), &error);
    await_loss(&losses);
    assert_non_null(strstr(redis_server_text(primary, list, sizeof list, "CLIENT LIST"), "cmd=wait"));
    let_replicas_go();
    await(!strstr(redis_server_text(primary, list, sizeof list, "CLIENT LIST"), "cmd=wait"), "WAIT never ends");
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    assert_int_equal(pawl_state(lock), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
    pawl_close(operator);
}

/* A hold is broken while its grant is on the way to the replicas: who has just acquired it is told. Or it is gone with that: then there
 * was none, and the acquire goes on. */
static void test_a_grant_that_is_broken(void **state) {
    (void)state;
    for (unsigned flags = 0; flags <= PAWL_BREAK_NOW; flags += PAWL_BREAK_NOW) {
        struct losses losses = LOSSES_INIT;
        struct pawl *client = open_at(primary->port, "?replicas=1&command=20000", 6 * PATIENCE_MS);
        struct pawl *operator= open_at(primary->port, "", 0);
        struct pawl_lock *lock;
        struct taker taker;

        assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &lock, &error), &error);
        assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
        replicas_signal(SIGSTOP);
        freeReplyObject(redis_server_command(primary, "DEL pawl:witness:{lock}"));
        start_holder(&taker, lock, PATIENCE_MS);
        await_integer(primary, "EXISTS pawl:witness:{lock}", 1); /* the grant is being secured */
        assert_works(
            pawl_break(operator, "lock", (uint64_t)redis_server_integer(primary, "GET redisson_lock_token:{lock}"), flags, &error),
            &error);
        let_replicas_go();
        assert_int_equal(end_taker(&taker), 0);
        assert_int_equal(redis_server_integer(primary, "EXISTS lock"), 1);
        if (!flags) {
            await_loss(&losses);
            assert_int_equal(losses.why.code, PAWL_EBROKEN);
        }
        assert_int_equal(pawl_release(lock, &error), flags ? 0 : PAWL_ELOST);
        assert_int_equal(redis_server_integer(primary, "EXISTS lock"), 0);
        pawl_lock_free(lock);
        pawl_close(client);
        pawl_close(operator);
    }
}

/* The connection breaks while WAIT is under way: nobody knows, so it is asked again. */
static void test_the_witness_is_cut_off(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=1&command=20000", 0);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct taker taker;
    char list[8192], *line;

    (void)state;
    replicas_signal(SIGSTOP);
    start_taker(&taker, lock, PATIENCE_MS);
    await(strstr(redis_server_text(primary, list, sizeof list, "CLIENT LIST"), "cmd=wait"), "nobody waits for replicas");
    for (line = strstr(list, "cmd=wait"); line > list && line[-1] != '\n'; line--)
        continue;
    assert_int_equal(redis_server_integer(primary, "CLIENT KILL ID %ld", strtol(line + strlen("id="), NULL, 10)), 1);
    let_replicas_go();
    assert_int_equal(end_taker(&taker), 0);
    assert_int_equal(redis_server_integer(primary, "EXISTS lock"), 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Redisson #4573, #6223: a primary that becomes a replica under WAIT. It says so (READONLY, or it closes), and nothing is granted. */
static void test_a_primary_is_demoted(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=1&command=1000&retry=10,100", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct taker taker;

    (void)state;
    replicas_signal(SIGSTOP);
    start_taker(&taker, lock, PATIENCE_MS);
    await_integer(primary, "EXISTS pawl:witness:{lock}", 1);
    freeReplyObject(redis_server_command(primary, "REPLICAOF 127.0.0.1 1"));
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, 1000, &error), &error);
    assert_true(taker_waits(&taker));
    freeReplyObject(redis_server_command(primary, "REPLICAOF NO ONE"));
    let_replicas_go();
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_many_at_once(void **state) {
    enum { LOCKS = 40 };
    struct pawl *client = open_at(primary->port, "?replicas=2", LEASE_MS);
    struct taker takers[LOCKS];
    struct pawl_lock *locks[LOCKS];
    char name[16];

    (void)state;
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "lock%d", i / 2);
        locks[i] = mutex_of(client, name);
        start_taker(&takers[i], locks[i], PATIENCE_MS);
    }
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(end_taker(&takers[i]), 0);
        pawl_lock_free(locks[i]);
    }
    pawl_close(client);
}

/* ---- Two servers behind one name ---------------------------------------------------------------------------------------------- */

/* So many connections from now, one leads to 127.0.0.2; 0: none does. The linker takes this for the library's. */
static atomic_int stray;

int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size) {
    const struct sockaddr *address = to.__sockaddr__;
    struct sockaddr_in other;

    if (address->sa_family != AF_INET || atomic_load(&stray) == 0 || atomic_fetch_sub(&stray, 1) != 1)
        return (int)syscall(SYS_connect, fd, address, size);
    memcpy(&other, address, sizeof other);
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    return (int)syscall(SYS_connect, fd, &other, sizeof other);
}

static void count_strangers(enum pawl_log_level level, const char *text, void *data) {
    (void)level;
    if (strstr(text, "lead to different servers"))
        atomic_fetch_add((atomic_int *)data, 1);
}

/* One connection leads to another server than the others. Were it what counts replicas, that would prove nothing; were it the inbox,
 * nothing would ever be heard. Such as when a primary is replaced at its address while a client connects. */
static void test_two_servers_at_one_address(void **state) {
    struct redis_server stranger = {.port = primary->port, .extra = "bind 127.0.0.2\n"};
    atomic_int strangers = 0;
    struct pawl_options how = {
        .size = sizeof how, .flags = PAWL_OPEN_TRACE, .log = count_strangers, .log_data = &strangers, .lease_ms = LEASE_MS};
    struct pawl *client;
    struct pawl_lock *lock;
    char url[100];

    (void)state;
    redis_server_start(&stranger);
    if (stranger.port != primary->port) { /* somebody has that address already */
        redis_server_free(&stranger);
        skip();
    }
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?replicas=1&connect=20000", primary->port);
    for (int which = 1; which <= 3; which++) {
        atomic_store(&strangers, 0);
        atomic_store(&stray, which);
        assert_works(pawl_open(url, &how, &client, &error), &error);
        assert_true(atomic_load(&strangers) > 0);
        lock = mutex_of(client, "lock");
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_int_equal(redis_server_integer(primary, "EXISTS lock"), 1);
        assert_int_equal(redis_server_integer(&stranger, "EXISTS lock"), 0);
        assert_works(pawl_release(lock, &error), &error);
        pawl_lock_free(lock);
        pawl_close(client);
    }
    redis_server_free(&stranger);
}

/* A name whose first address nobody answers at: the second will do, for all connections. */
static void test_the_second_address(void **state) {
    struct pawl *client;
    char url[100];

    (void)state;
    snprintf(url, sizeof url, "redis://" NAME_OF_BOTH ":%u?replicas=1&connect=20000", primary->port);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    pawl_close(client);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* A descriptor of a clock that is an hour ahead. */
static int clock_ahead(void) {
    struct clock_page page = {.wall_offset_ns = INT64_C(3600) * 1000000000};
    int fd = memfd_create("clock", 0);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, &page, sizeof page), sizeof page);
    return fd;
}

/* The primary's clock and ours are right, and a replica's is not: after a failover to it and back tokens could fall. Of one that can't be
 * reached that is said. */
static void test_doctor_reads_the_clocks_of_replicas(void **state) {
    struct redis_server first = {.extra = "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n"},
                        second = {.clock_fd = clock_ahead()};
    struct findings findings = {.text = ""};
    struct pawl *client;
    char part[128];

    (void)state;
    if (SANITIZED) {
        close(second.clock_fd);
        print_message("a library with a sanitizer can't be loaded into a server without\n");
        skip();
    }
    redis_server_start(&first);
    snprintf(second.extra, sizeof second.extra, "replicaof 127.0.0.1 %u\n", first.port);
    redis_server_start(&second);
    redis_await_replicas(&first, 1);
    client = open_at(first.port, "?connect=20000&command=20000", LEASE_MS);
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text, "its clock agrees with this machine's");
    assert_contains(findings.text, "warning: the clocks of the 2 servers are up to 3");
    snprintf(part, sizeof part, "127.0.0.1:%u/0 behind and 127.0.0.1:%u ahead", first.port, second.port);
    assert_contains(findings.text, part);

    freeReplyObject(redis_server_command(&second, "CONFIG SET requirepass secret"));
    findings.text[0] = '\0';
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    snprintf(part, sizeof part, "unknown: the clock of its replica 127.0.0.1:%u could not be read from here", second.port);
    assert_contains(findings.text, part);
    assert_null(strstr(findings.text, "apart"));
    pawl_close(client);
    redis_server_free(&second);
    redis_server_free(&first);
    close(second.clock_fd);
}

/* Over TLS too, as everything else that the URL says. */
static void test_doctor_reads_the_clocks_of_replicas_over_tls(void **state) {
    struct redis_server first = {.tls = true, .extra = "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n"},
                        second = {.tls = true};
    struct findings findings = {.text = ""};
    const char *papers = first.directory;
    struct pawl *client;

    (void)state;
    redis_server_certify(&first);
    redis_server_certify(&second); /* of another authority, so it uses the first one's */
    redis_server_start(&first);
    snprintf(second.extra, sizeof second.extra,
             "tls-replication yes\nreplicaof 127.0.0.1 %u\n"
             "tls-cert-file %s/server.crt\ntls-key-file %s/server.key\ntls-ca-cert-file %s/ca.crt\n",
             first.tls_port, papers, papers, papers);
    redis_server_start(&second);
    redis_await_replicas(&first, 1);
    client = open_client(LEASE_MS,
                         "rediss://127.0.0.1:%u?connect=20000&command=20000&servername=localhost&ca=%s/ca.crt&cert=%s/client.crt"
                         "&key=%s/client.key",
                         first.tls_port, papers, papers, papers);
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text, "the clocks of the 2 servers are");
    freeReplyObject(redis_server_command(&second, "CONFIG SET requirepass secret"));
    findings.text[0] = '\0';
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text, "could not be read from here");
    pawl_close(client);
    redis_server_free(&second);
    redis_server_free(&first);
}

static void test_fewer_than_asked_for(void **state) {
    struct pawl *client;
    char url[128];

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?replicas=3", primary->port);
    assert_fails(PAWL_EREPLICAS, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, "2 replicas, and the URL asks for 3");
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?replicas=-1", primary->port);
    assert_fails(PAWL_EOPTION, pawl_open(url, NULL, &client, &error), &error);
}

static void keep_log(enum pawl_log_level level, const char *text, void *data) {
    (void)level;
    strncat(data, text, 1023 - strlen(data));
}

/* At open it is said that a failover may forget what is held; not where either side waits for replicas. */
static void test_replicas_that_nobody_waits_for(void **state) {
    static const struct {
        const char *options, *min_replicas;
        bool warned;
    } cases[] = {{"", "0", true}, {"?replicas=1", "0", false}, {"", "1", false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char logged[1024] = "", url[128];
        struct pawl_options how = {.size = sizeof how, .log = keep_log, .log_data = logged};
        struct pawl *client;

        freeReplyObject(redis_server_command(primary, "CONFIG SET min-replicas-to-write %s", cases[i].min_replicas));
        snprintf(url, sizeof url, "redis://127.0.0.1:%u%s", primary->port, cases[i].options);
        assert_works(pawl_open(url, &how, &client, &error), &error);
        assert_true(!strstr(logged, "has replicas but does not wait") == !cases[i].warned);
        pawl_close(client);
    }
    freeReplyObject(redis_server_command(primary, "CONFIG SET min-replicas-to-write 0"));
}

static _Atomic uint64_t seen_token;

static void see(const struct pawl_observed *seen, void *data) {
    (void)data;
    atomic_store(&seen_token, seen->holder ? seen->holder->token : 0);
}

/* Who observes is told who holds also while replicas are missing. */
static void test_observers_do_not_wait_for_replicas(void **state) {
    struct pawl *client = open_at(primary->port, "?replicas=2", LEASE_MS), *other = open_at(primary->port, "", LEASE_MS);
    struct pawl_lock *lock = mutex_of(other, "lock");
    struct pawl_observer *observer;

    (void)state;
    replicas_signal(SIGSTOP);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_value_set(lock, "x", 1, &error), &error);
    assert_works(pawl_observe(client, "lock", see, NULL, &observer, &error), &error);
    await(atomic_load(&seen_token) == pawl_token(lock), "it is not told of the holder");
    let_replicas_go();
    pawl_unobserve(observer);
    pawl_close(client);
    pawl_lock_free(lock);
    pawl_close(other);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_grant_is_on_the_replicas, set_up),
        cmocka_unit_test_setup(test_a_shortfall_is_undone, set_up),
        cmocka_unit_test_setup(test_waits_for_replicas, set_up),
        cmocka_unit_test_setup(test_given_up_while_it_is_undone, set_up),
        cmocka_unit_test_setup(test_undone_late, set_up),
        cmocka_unit_test_setup(test_a_pushed_grant_waits_for_replicas, set_up),
        cmocka_unit_test_setup(test_a_renewal_needs_replicas, set_up),
        cmocka_unit_test_setup(test_not_entered_short_of_replicas, set_up),
        cmocka_unit_test_setup(test_a_hold_survives_a_pause_of_the_replicas, set_up),
        cmocka_unit_test_setup(test_a_renewal_after_a_break, set_up),
        cmocka_unit_test_setup(test_a_grant_that_is_broken, set_up),
        cmocka_unit_test_setup(test_the_witness_is_cut_off, set_up),
        cmocka_unit_test_setup(test_many_at_once, set_up),
        cmocka_unit_test_setup(test_fewer_than_asked_for, set_up),
        cmocka_unit_test_setup(test_replicas_that_nobody_waits_for, set_up),
        cmocka_unit_test_setup(test_two_servers_at_one_address, set_up),
        cmocka_unit_test_setup(test_the_second_address, set_up),
        cmocka_unit_test_setup(test_doctor_reads_the_clocks_of_replicas, set_up),
        cmocka_unit_test_setup(test_doctor_reads_the_clocks_of_replicas_over_tls, set_up),
        cmocka_unit_test_setup(test_observers_do_not_wait_for_replicas, set_up),
        cmocka_unit_test_setup(test_a_primary_is_demoted, set_up),
    };

    return run_redis_tests(argc, argv, "redis replicas", tests,
                           "test_two_servers_at_one_address test_the_second_address test_doctor_reads_the_clocks_of_replicas "
                           "test_doctor_reads_the_clocks_of_replicas_over_tls",
                           NULL, stop_servers);
}
