/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c - threads as coroutines: each has a stack of its own, and runs until it leaves.
 *
 * Stacks are kept for the next thread, also over the end of a world: making one is what costs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define WITH_ASAN 0
#endif

enum { STACK_SIZE = WITH_ASAN ? 1 << 20 : 256 << 10, SPARE_MAX = 256 };

static void *spare[SPARE_MAX];
static int spare_count;

/* The variables of the code in the world that are one per thread: that code is compiled so that they lie in a section of their own. */
extern char __start_sim_locals[], __stop_sim_locals[];

static size_t locals_size(void) {
    return (size_t)(__stop_sim_locals - __start_sim_locals);
}

/* ---- The switch ----------------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Save what a call must keep, and go on where the other one did so. */
void sim_switch(void **save, void *to);
__asm__(".text\n"
        ".globl sim_switch\n"
        ".type sim_switch, @function\n"
        "sim_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_switch, .-sim_switch\n");

enum { SAVED_REGISTERS = 6 };
static void *scheduler_pointer;

static void *first_pointer(char *stack, void (*entry)(void)) {
    void **top = (void **)(stack + STACK_SIZE);

    *--top = NULL; /* the entry never returns; and so the stack is aligned as after a call */
    *--top = (void *)(uintptr_t)entry;
    for (int i = 0; i < SAVED_REGISTERS; i++)
        *--top = NULL;
    return top;
}
#else
#include <ucontext.h>

static ucontext_t scheduler_context;
static void *scheduler_pointer = &scheduler_context;

static void sim_switch(void **save, void *to) {
    swapcontext(*save, to);
}

static void *first_pointer(char *stack, void (*entry)(void)) {
    /* At the far end of the stack, where nothing gets to. */
    ucontext_t *context = (ucontext_t *)stack;

    getcontext(context);
    context->uc_stack.ss_sp = stack + sizeof *context;
    context->uc_stack.ss_size = STACK_SIZE - sizeof *context;
    context->uc_link = NULL;
    makecontext(context, entry, 0);
    return context;
}
#endif

#if WITH_ASAN
static const void *scheduler_bottom;
static size_t scheduler_size;
#endif

static void leave_to_scheduler(bool for_good) {
    struct thread *self = world.current;

#if WITH_ASAN
    __sanitizer_start_switch_fiber(for_good ? NULL : &self->fake_stack, scheduler_bottom, scheduler_size);
#else
    (void)for_good;
#endif
    sim_switch(&self->stack_pointer, scheduler_pointer);
#if WITH_ASAN
    __sanitizer_finish_switch_fiber(self->fake_stack, &scheduler_bottom, &scheduler_size);
#endif
}

static void entry(void) {
    struct thread *self = world.current;

#if WITH_ASAN
    __sanitizer_finish_switch_fiber(NULL, &scheduler_bottom, &scheduler_size);
#endif
    self->result = self->start(self->data);
    self->state = THREAD_DEAD;
    leave_to_scheduler(true);
    abort(); /* nobody runs the dead */
}

void thread_run(struct thread *thread) {
    char *locals = __start_sim_locals;

    process_load(thread->process);
    if (locals_size() > 0)
        memcpy(locals, thread->locals, locals_size());
    world.current = thread;
    errno = thread->errno_kept;
#if WITH_ASAN
    void *fake = NULL;

    __sanitizer_start_switch_fiber(&fake, thread->stack, STACK_SIZE);
#endif
    sim_switch(&scheduler_pointer, thread->stack_pointer);
#if WITH_ASAN
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
    thread->errno_kept = errno;
    if (locals_size() > 0)
        memcpy(thread->locals, locals, locals_size());
    world.current = NULL;
}

void thread_leave(void) {
    leave_to_scheduler(false);
}

/* ---- Their lives ---------------------------------------------------------------------------------------------------------- */

static void *new_stack(void) {
    if (spare_count > 0)
        return spare[--spare_count];
    void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED)
        abort();
    return stack;
}

struct thread *thread_new(struct process *process, void *(*start)(void *), void *data) {
    struct thread *thread = calloc(1, sizeof *thread);

    if (thread == NULL)
        abort();
    thread->process = process;
    thread->start = start;
    thread->data = data;
    thread->until = WORLD_NEVER;
    thread->number = ++process->thread_count;
    thread->priority = (unsigned)dice_below(&world.schedule, 1u << 20) + 1000;
    if (locals_size() > 0)
        thread->locals = calloc(1, locals_size());
    thread->stack = new_stack();
    thread->stack_pointer = first_pointer(thread->stack, entry);
    TAILQ_INSERT_TAIL(&process->threads, thread, link);
    return thread;
}

void thread_free(struct thread *thread) {
    TAILQ_REMOVE(&thread->process->threads, thread, link);
#if WITH_ASAN
    __asan_unpoison_memory_region(thread->stack, STACK_SIZE);
#endif
    if (spare_count < SPARE_MAX)
        spare[spare_count++] = thread->stack;
    else
        munmap(thread->stack, STACK_SIZE);
    free(thread->locals);
    free(thread);
}
