/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - malloc and its like for the code in the world: each block belongs to a process, and goes with it.
 *
 * What malloc returns is filled with a pattern: what is read before it was written must be the same in every run. What is freed is filled
 * with another, of which no address is one, and stays so for a while: code that follows a pointer in there dies at once, and a write
 * into it is found when its time is up. (AddressSanitizer does that by itself, and better.) With PAWL_SIM_FENCE in the environment each
 * block has pages of its own, and a read of what is freed is fatal as well; that is slow.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"
#include "names.h"

struct block {
    TAILQ_ENTRY(block) link;
    struct process *process; /* NULL: allocated while no thread of the world ran */
    void *raw;               /* what the real malloc returned */
    size_t size;
    bool freed;
    char unused[7]; /* so that what follows is aligned */
};
_Static_assert(sizeof(struct block) % 16 == 0, "what follows is aligned");

static struct block *block_of(void *pointer) {
    return (struct block *)pointer - 1;
}

/* ---- Fences --------------------------------------------------------------------------------------------------------------- */

enum { PAGE = 4096 };

static bool has_fences(void) {
    static int fences = -1;

    if (fences < 0)
        fences = getenv("PAWL_SIM_FENCE") != NULL;
    return fences;
}

static size_t whole_pages(size_t size) {
    return (size + PAGE - 1) / PAGE * PAGE;
}

/* The pages of a block, but for the one before it, which ends with its head. */
static void open_fence(struct block *block, bool open) {
    if (has_fences() && mprotect(block + 1, whole_pages(block->size), open ? PROT_READ | PROT_WRITE : PROT_NONE) < 0)
        abort();
}

/* ---- What is taken -------------------------------------------------------------------------------------------------------- */

/* Where it begins, with room for its head before it. */
static char *place(size_t size, size_t alignment, char **ret_raw) {
    size_t extra = alignment > 16 ? alignment : 0;
    char *raw = has_fences() ? aligned_alloc(PAGE, PAGE + whole_pages(size)) : malloc(sizeof(struct block) + extra + size), *at;

    if (raw == NULL)
        abort();
    *ret_raw = raw;
    if (has_fences())
        return raw + PAGE;
    at = raw + sizeof(struct block);
    return extra > 0 ? at + (alignment - (uintptr_t)at % alignment) % alignment : at;
}

static void *take(size_t size, size_t alignment) {
    char *raw, *at = place(size, alignment, &raw);
    struct block *block = block_of(at);

    *block = (struct block){.process = world.current != NULL ? world.current->process : NULL, .raw = raw, .size = size};
    if (block->process != NULL) {
        block->process->allocated += size;
        TAILQ_INSERT_TAIL(&block->process->blocks, block, link);
    }
    return at;
}

/* ---- What is freed -------------------------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__)
enum { FREED_MAX = 0 };
#else
enum { FREED_MAX = 128 }; /* blocks of a process that are kept */
#endif
enum { FREED_BYTE = 0xdd };

static bool is_untouched(const struct block *block) {
    const unsigned char *bytes = (const unsigned char *)(block + 1);

    return block->size == 0 || (bytes[0] == FREED_BYTE && memcmp(bytes, bytes + 1, block->size - 1) == 0);
}

/* The one that was freed first. */
static void forget_freed(struct process *process) {
    struct block *block = TAILQ_FIRST(&process->freed);
    bool untouched;

    open_fence(block, true);
    untouched = is_untouched(block);
    TAILQ_REMOVE(&process->freed, block, link);
    process->freed_count--;
    free(block->raw);
    if (!untouched && world.current != NULL && world.current->process == process)
        process_die(1, "a block of memory was written to after it was freed");
}

static void give_back(struct block *block) {
    struct process *process = block->process;

    if (process == NULL) {
        free(block->raw);
        return;
    }
    process->allocated -= block->size;
    TAILQ_REMOVE(&process->blocks, block, link);
    if (FREED_MAX == 0) {
        free(block->raw);
        return;
    }
    memset(block + 1, FREED_BYTE, block->size);
    block->freed = true;
    open_fence(block, false);
    TAILQ_INSERT_TAIL(&process->freed, block, link);
    if (++process->freed_count > FREED_MAX)
        forget_freed(process);
}

void memory_free_all(struct process *process) {
    struct block *block;

    while (!TAILQ_EMPTY(&process->freed))
        forget_freed(process);
    while ((block = TAILQ_FIRST(&process->blocks)) != NULL) {
        TAILQ_REMOVE(&process->blocks, block, link);
        free(block->raw);
    }
}

void *sim_malloc(size_t size) {
    void *pointer = take(size, 16);

    memset(pointer, 0xa5, size);
    return pointer;
}

/* There is memory for everything but what no machine has. */
void *sim_calloc(size_t count, size_t size) {
    size_t all;
    void *pointer;

    if (__builtin_mul_overflow(count, size, &all) || all > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    pointer = take(all, 16);
    memset(pointer, 0, all);
    return pointer;
}

void sim_free(void *pointer) {
    if (pointer == NULL)
        return;
    if (block_of(pointer)->freed)
        process_die(1, "a block of memory was freed twice");
    give_back(block_of(pointer));
}

void *sim_realloc(void *pointer, size_t size) {
    void *bigger = sim_malloc(size);

    if (pointer != NULL) {
        size_t before = block_of(pointer)->size;

        memcpy(bigger, pointer, before < size ? before : size);
        sim_free(pointer);
    }
    return bigger;
}

void *sim_reallocarray(void *pointer, size_t count, size_t size) {
    return sim_realloc(pointer, count * size);
}

int sim_posix_memalign(void **ret, size_t alignment, size_t size) {
    *ret = take(size, alignment);
    memset(*ret, 0xa5, size);
    return 0;
}

char *sim_strndup(const char *text, size_t most) {
    size_t length = strnlen(text, most);
    char *copy = sim_malloc(length + 1);

    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *sim_strdup(const char *text) {
    return sim_strndup(text, strlen(text));
}

int sim_vasprintf(char **ret, const char *format, va_list arguments) {
    va_list again;
    int length;

    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    *ret = sim_malloc((size_t)length + 1);
    return vsnprintf(*ret, (size_t)length + 1, format, arguments);
}

int sim_asprintf(char **ret, const char *format, ...) {
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = sim_vasprintf(ret, format, arguments);
    va_end(arguments);
    return length;
}

/* ---- A stream into memory ------------------------------------------------------------------------------------------------- */

struct stream {
    char **text;
    size_t *size;
};

static ssize_t stream_write(void *cookie, const char *bytes, size_t size) {
    struct stream *stream = cookie;

    *stream->text = sim_realloc(*stream->text, *stream->size + size + 1);
    memcpy(*stream->text + *stream->size, bytes, size);
    *stream->size += size;
    (*stream->text)[*stream->size] = '\0';
    return (ssize_t)size;
}

static int stream_close(void *cookie) {
    free(cookie);
    return 0;
}

FILE *sim_open_memstream(char **text, size_t *size) {
    struct stream *stream = malloc(sizeof *stream);

    *stream = (struct stream){.text = text, .size = size};
    *text = sim_calloc(1, 1);
    *size = 0;
    return fopencookie(stream, "w", (cookie_io_functions_t){.write = stream_write, .close = stream_close});
}
