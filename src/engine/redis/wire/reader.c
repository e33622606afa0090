/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c - hiredis' reader within bounds: no server decides how much memory, or how much time with the mutex held, an answer costs.
 *
 *   elements   room for an array is made when its length is announced, at once: *2147483647 would be 16 GiB. More than ELEMENTS_MAX
 *              are refused before that, on every level; hiredis allows nine.
 *   bytes      a text is not made before all of it is there, and takes no more than what was sent: one answer
 *              with all its parts is at most ANSWER_MAX bytes.
 *   lines      a line is looked through again from its beginning whenever more of it comes: at most REPLY_LINE_MAX bytes.
 *
 * All of what pawl asks for is answered by far less.
 */
#include <string.h>

#include "engine/redis/wire/wire.h"

enum { ELEMENTS_MAX = 1 << 20, ANSWER_MAX = 32 << 20, REPLY_LINE_MAX = 1 << 16 };

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static redisReplyObjectFunctions bounded;
static void *(*make_array)(const redisReadTask *, element_count);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *make_bounded_array(const redisReadTask *task, element_count count) {
    return (size_t)count > ELEMENTS_MAX ? NULL : make_array(task, count);
}

/* hiredis has its own functions from nowhere else. */
static void take_functions(void) {
    redisReader *reader = redisReaderCreate();

    if (!reader)
        return;
    bounded = *reader->fn;
    make_array = bounded.createArray;
    bounded.createArray = make_bounded_array;
    redisReaderFree(reader);
}

redisReader *pawl__reader_new(void) {
    redisReader *reader;

    pthread_once(&once, take_functions);
    reader = make_array ? redisReaderCreate() : NULL;
    if (reader)
        reader->fn = &bounded;
    return reader;
}

bool pawl__reader_bounded(const redisReader *reader, size_t fed) {
    size_t left = reader->len - reader->pos;

    return fed <= ANSWER_MAX && (left <= REPLY_LINE_MAX || memchr(reader->buf + reader->pos, '\n', REPLY_LINE_MAX));
}
