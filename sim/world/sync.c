/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.c - threads, mutexes, conditions and futexes, for the code in the world.
 *
 * A mutex keeps its owner in the memory of the real one. What is an error of the program (a mutex that is locked twice by one thread,
 * unlocked by another, or destroyed while it is locked) ends the process, with a word.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

#include "internal.h"
#include "names.h"

struct mutex {
    struct thread *owner;
    uint32_t waiting;
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "it lies in there");

/* One in so many waits on a condition or a futex ends without a reason, as the real ones may. */
enum { SPURIOUS_ONE_IN = 200 };

static struct process *self_process(void) {
    return world.current->process;
}

static int64_t local_deadline(const struct timespec *span) {
    if (span == NULL)
        return WORLD_NEVER;
    return process_clock(self_process()) + span->tv_sec * WORLD_SECOND + span->tv_nsec;
}

/* ---- Mutexes -------------------------------------------------------------------------------------------------------------- */

int sim_pthread_mutex_init(pthread_mutex_t *real, const pthread_mutexattr_t *attributes) {
    (void)attributes;
    memset(real, 0, sizeof *real);
    return 0;
}

int sim_pthread_mutex_destroy(pthread_mutex_t *real) {
    if (((struct mutex *)real)->owner != NULL)
        process_die(-6, "a mutex is destroyed while it is locked");
    return 0;
}

static void lock(struct mutex *mutex) {
    while (mutex->owner != NULL) {
        mutex->waiting++;
        world_block(mutex, false, WORLD_NEVER);
        mutex->waiting--;
    }
    mutex->owner = world.current;
}

int sim_pthread_mutex_lock(pthread_mutex_t *real) {
    struct mutex *mutex = (struct mutex *)real;

    if (mutex->owner == world.current)
        process_die(-6, "a thread locks a mutex that it has locked before");
    world_may_switch();
    lock(mutex);
    return 0;
}

int sim_pthread_mutex_trylock(pthread_mutex_t *real) {
    struct mutex *mutex = (struct mutex *)real;

    world_may_switch();
    if (mutex->owner != NULL)
        return EBUSY;
    mutex->owner = world.current;
    return 0;
}

static void unlock(struct mutex *mutex) {
    if (mutex->owner != world.current)
        process_die(-6, "a thread unlocks a mutex that it has not locked");
    mutex->owner = NULL;
    if (mutex->waiting > 0)
        world_wake(self_process(), mutex, 1);
}

int sim_pthread_mutex_unlock(pthread_mutex_t *real) {
    unlock((struct mutex *)real);
    world_may_switch();
    return 0;
}

/* ---- Conditions ----------------------------------------------------------------------------------------------------------- */

/* Of a condition and of its attributes nothing is kept but the clock by which it is timed; 0 is the wall clock, also in one that was
 * never made. */
int sim_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes) {
    memset(cond, 0, sizeof *cond);
    if (attributes != NULL)
        memcpy(cond, attributes, sizeof(clockid_t));
    return 0;
}

int sim_pthread_cond_destroy(pthread_cond_t *cond) {
    (void)cond;
    return 0;
}

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline) {
    bool woken = true;

    unlock((struct mutex *)mutex);
    if (dice_one_in(&world.schedule, SPURIOUS_ONE_IN))
        world_yield();
    else
        woken = world_block(cond, false, deadline);
    lock((struct mutex *)mutex);
    return woken ? 0 : ETIMEDOUT;
}

int sim_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    return wait_until(cond, mutex, WORLD_NEVER);
}

int sim_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    struct timespec now;

    sim_clock_gettime(clock, &now);
    int64_t left = (until->tv_sec - now.tv_sec) * WORLD_SECOND + until->tv_nsec - now.tv_nsec;

    return wait_until(cond, mutex, process_clock(self_process()) + left);
}

int sim_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    clockid_t clock;

    memcpy(&clock, cond, sizeof clock);
    return sim_pthread_cond_clockwait(cond, mutex, clock, until);
}

int sim_pthread_cond_signal(pthread_cond_t *cond) {
    world_wake(self_process(), cond, 1);
    world_may_switch();
    return 0;
}

int sim_pthread_cond_broadcast(pthread_cond_t *cond) {
    world_wake(self_process(), cond, -1);
    world_may_switch();
    return 0;
}

int sim_pthread_condattr_init(pthread_condattr_t *attributes) {
    memset(attributes, 0, sizeof *attributes);
    return 0;
}

int sim_pthread_condattr_destroy(pthread_condattr_t *attributes) {
    (void)attributes;
    return 0;
}

int sim_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock) {
    _Static_assert(sizeof *attributes >= sizeof clock, "there is room for it");
    memcpy(attributes, &clock, sizeof clock);
    return 0;
}

/* ---- Futexes -------------------------------------------------------------------------------------------------------------- */

long sim_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    switch (operation & ~FUTEX_PRIVATE_FLAG) {
    case FUTEX_WAIT:
        world_charge();
        world_may_switch();
        if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
            errno = EAGAIN;
            return -1;
        }
        if (dice_one_in(&world.schedule, SPURIOUS_ONE_IN))
            return 0;
        if (!world_block(word, false, local_deadline(timeout))) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (world.current->interrupted) {
            errno = EINTR;
            return -1;
        }
        return 0;
    case FUTEX_WAKE: {
        int woken = world_wake(self_process(), word, (int)value);

        world_may_switch();
        return woken;
    }
    default:
        process_die(-6, "futex operation %d is not known in this world", operation);
    }
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------- */

int sim_pthread_attr_init(pthread_attr_t *attributes) {
    memset(attributes, 0, sizeof *attributes);
    return 0;
}

int sim_pthread_attr_destroy(pthread_attr_t *attributes) {
    (void)attributes;
    return 0;
}

int sim_pthread_attr_setdetachstate(pthread_attr_t *attributes, int state) {
    *(int *)attributes = state;
    return 0;
}

int sim_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*start)(void *), void *data) {
    struct thread *thread = thread_new(self_process(), start, data);

    thread->detached = attributes != NULL && *(const int *)attributes == PTHREAD_CREATE_DETACHED;
    *ret = (pthread_t)thread->number;
    world_may_switch();
    return 0;
}

/* No handler runs; but what the thread sleeps in ends. */
int sim_pthread_kill(pthread_t id, int number) {
    (void)number;
    world_interrupt(self_process(), (uint64_t)id);
    world_may_switch();
    return 0;
}

pthread_t sim_pthread_self(void) {
    return (pthread_t)world.current->number;
}

int sim_pthread_join(pthread_t id, void **ret) {
    struct thread *thread;

    TAILQ_FOREACH(thread, &self_process()->threads, link) {
        if (thread->number != (uint64_t)id)
            continue;
        while (thread->state != THREAD_DEAD)
            world_block(&thread->result, false, WORLD_NEVER);
        if (ret != NULL)
            *ret = thread->result;
        thread_free(thread);
        return 0;
    }
    return ESRCH;
}

int sim_pthread_tryjoin_np(pthread_t id, void **ret) {
    const struct thread *thread;

    world_charge();
    TAILQ_FOREACH(thread, &self_process()->threads, link) {
        if (thread->number == (uint64_t)id && thread->state != THREAD_DEAD)
            return EBUSY;
    }
    return sim_pthread_join(id, ret);
}

int sim_pthread_once(pthread_once_t *once, void (*init)(void)) {
    enum { FRESH, RUNS, OVER };

    if (*once == FRESH) {
        *once = RUNS;
        init();
        *once = OVER;
    }
    while (*once == RUNS)
        world_yield();
    return 0;
}

/* Nobody is cancelled here. */
int sim_pthread_setcancelstate(int state, int *before) {
    (void)state;
    if (before != NULL)
        *before = PTHREAD_CANCEL_ENABLE;
    return 0;
}

int sim_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    (void)how;
    (void)set;
    if (before != NULL)
        memset(before, 0, sizeof *before);
    return 0;
}

/* Nobody forks here. */
int sim_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    (void)before;
    (void)parent;
    (void)child;
    return 0;
}

int sim_sched_yield(void) {
    world_charge();
    world_yield();
    return 0;
}

/* ---- Sleeping ------------------------------------------------------------------------------------------------------------- */

int sim_nanosleep(const struct timespec *span, struct timespec *left) {
    (void)left;
    world_block(NULL, false, local_deadline(span));
    return 0;
}

int sim_usleep(useconds_t us) {
    return sim_nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

unsigned sim_sleep(unsigned seconds) {
    sim_nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
    return 0;
}
