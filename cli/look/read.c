/* SPDX-License-Identifier: Apache-2.0
 *
 * read.c - looks from a file.
 *
 * A line is read into a tree of values, and the tree into a place. What is missing or of another type is what it would be if it were not
 * known, so that files of older and newer versions are read; what is not JSON is refused. A file may hold anything: depth is bounded,
 * numbers are checked, and strings end where they end.
 */
#include "read.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ----------------------------------------------------------------------------------------------------------------- */

enum { DEEPEST = 16 };

struct value {
    enum { VALUE_NULL, VALUE_BOOLEAN, VALUE_NUMBER, VALUE_STRING, VALUE_ARRAY, VALUE_OBJECT } type;
    char *key; /* in an object */
    char *text;
    double number; /* of a boolean: 0 or 1 */
    struct value *first, *next;
};

static void value_free(struct value *value) {
    while (value != NULL) {
        struct value *next = value->next;

        value_free(value->first);
        free(value->key);
        free(value->text);
        free(value);
        value = next;
    }
}

/* \uNNNN. Half of a pair, which we never write, and 0, which would end the string, become U+FFFD. */
static bool read_code(const char **at, char *out, size_t *used) {
    uint32_t code;

    if (!json_code(at, &code))
        return false;
    *used += utf8_write(code == 0 || (code >= 0xd800 && code <= 0xdfff) ? 0xfffd : code, out + *used);
    return true;
}

/* What it stands for is never longer than what is written. */
static char *read_string(const char **at) {
    size_t length, used = 0;
    const char *text = *at;

    if (*text++ != '"')
        return NULL;
    for (length = 0; text[length] != '"' && text[length] != '\0'; length++)
        length += text[length] == '\\' && text[length + 1] != '\0';
    char *out = malloc(length + 1);
    while (out != NULL && *text != '"') {
        char meant = *text == '\\' ? json_escape(text[1]) : '\0';
        bool good = *text != '\0';

        if (meant != '\0') {
            out[used++] = meant;
            text += 2;
        } else if (*text == '\\') {
            good = text[1] == 'u';
            text += 2;
            good = good && read_code(&text, out, &used);
        } else if (good) {
            out[used++] = *text++;
        }
        if (!good) {
            free(out);
            return NULL;
        }
    }
    if (out == NULL)
        return NULL;
    out[used] = '\0';
    *at = text + 1;
    return out;
}

static struct value *read_value(const char **at, int depth);

/* What is between the brackets. */
static bool read_members(const char **at, struct value *value, char closing, int depth) {
    struct value **end = &value->first;

    ++*at;
    json_skip(at);
    if (**at == closing) {
        ++*at;
        return true;
    }
    for (;;) {
        char *key = NULL;

        json_skip(at);
        if (closing == '}') {
            key = read_string(at);
            json_skip(at);
            if (key == NULL || *(*at)++ != ':') {
                free(key);
                return false;
            }
        }
        *end = read_value(at, depth + 1);
        if (*end == NULL) {
            free(key);
            return false;
        }
        (*end)->key = key;
        end = &(*end)->next;
        json_skip(at);
        char separator = *(*at)++;
        if (separator == closing)
            return true;
        if (separator != ',')
            return false;
    }
}

static bool read_scalar(const char **at, struct value *value) {
    char *end;

    value->type = VALUE_BOOLEAN;
    value->number = **at == 't';
    if (json_word(at, "true") || json_word(at, "false"))
        return true;
    value->type = VALUE_NULL;
    if (json_word(at, "null"))
        return true;
    value->type = VALUE_NUMBER;
    if (strspn(*at, "-0123456789") == 0)
        return false;
    value->number = strtod(*at, &end);
    *at = end;
    return true;
}

static struct value *read_value(const char **at, int depth) {
    struct value *value = calloc(1, sizeof *value);
    bool good = false;

    json_skip(at);
    if (value == NULL || depth == DEEPEST) {
        free(value);
        return NULL;
    }
    if (**at == '"') {
        value->type = VALUE_STRING;
        value->text = read_string(at);
        good = value->text != NULL;
    } else if (**at == '[' || **at == '{') {
        value->type = **at == '[' ? VALUE_ARRAY : VALUE_OBJECT;
        good = read_members(at, value, **at == '[' ? ']' : '}', depth);
    } else {
        good = read_scalar(at, value);
    }
    if (good)
        return value;
    value_free(value);
    return NULL;
}

static const struct value *member(const struct value *object, const char *key) {
    if (object->type != VALUE_OBJECT)
        return NULL;
    for (const struct value *value = object->first; value != NULL; value = value->next)
        if (strcmp(value->key, key) == 0)
            return value;
    return NULL;
}

static const char *string_of(const struct value *object, const char *key) {
    const struct value *value = member(object, key);

    return value != NULL && value->type == VALUE_STRING ? value->text : "";
}

static int64_t number_of(const struct value *object, const char *key, int64_t otherwise) {
    const struct value *value = member(object, key);
    bool fits = value != NULL && value->type == VALUE_NUMBER && value->number > -9e15 && value->number < 9e15;

    return fits ? (int64_t)value->number : otherwise;
}

static bool is_true(const struct value *object, const char *key) {
    const struct value *value = member(object, key);

    return value != NULL && value->type == VALUE_BOOLEAN && value->number != 0;
}

static const struct value *elements(const struct value *object, const char *key) {
    const struct value *value = member(object, key);

    return value != NULL && value->type == VALUE_ARRAY ? value->first : NULL;
}

/* ---- places --------------------------------------------------------------------------------------------------------------- */

static unsigned flags_of(const struct value *entry) {
    static const struct {
        const char *key;
        unsigned flag;
    } flags[] = {{"broken", PAWL_ENTRY_BROKEN},
                 {"stopped", PAWL_ENTRY_STOPPED},
                 {"foreign", PAWL_ENTRY_FOREIGN},
                 {"keeps", PAWL_ENTRY_KEEPS}};
    unsigned result = 0;

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        result |= is_true(entry, flags[i].key) ? flags[i].flag : 0;
    return result;
}

static enum pawl_mode mode_of(const char *name) {
    return strcmp(name, "shared") == 0 ? PAWL_SHARED : strcmp(name, "permits") == 0 ? PAWL_PERMITS : PAWL_EXCLUSIVE;
}

static enum pawl_kind kind_of(const char *name) {
    return strcmp(name, "rwlock") == 0 ? PAWL_RWLOCK : strcmp(name, "semaphore") == 0 ? PAWL_SEMAPHORE : PAWL_MUTEX;
}

/* `position`: among the waiters of the list; 0: it holds. The file can't make a holder of a waiter. Where the place has no lease, null is
 * 'never'; else it is 'not known'. */
static bool add_entry(struct place *place, const struct value *lock, const struct value *entry, unsigned position) {
    int64_t unknown = place->lease_ms == PAWL_FOREVER ? PAWL_FOREVER : -1, told = number_of(entry, "position", 0);
    struct pawl_entry copy = {
        .name = string_of(lock, "name"),
        .kind = kind_of(string_of(lock, "kind")),
        .mode = mode_of(string_of(entry, "mode")),
        .flags = flags_of(entry) | (position > 0 ? PAWL_ENTRY_WAITER : 0),
        .position = position > 0 && told > 0 && told <= UINT_MAX ? (unsigned)told : position,
        .permits = (unsigned)number_of(entry, "permits", 0),
        .limit = (unsigned)number_of(lock, "limit", 0),
        .token = strtoull(string_of(entry, "token"), NULL, 10),
        .host = string_of(entry, "host"),
        .pid = number_of(entry, "pid", 0),
        .command = string_of(entry, "command"),
        .label = string_of(entry, "label"),
        .since_ms = number_of(entry, "since_ms", 0),
        .remaining_ms = number_of(entry, "remaining_ms", unknown),
        .raw = string_of(entry, "raw"),
        .agent = string_of(entry, "agent"),
        .around = string_of(entry, "around"),
        .claim = string_of(entry, "claim"),
        .lease_ms = number_of(entry, "lease_ms", unknown),
        .turns = (uint64_t)number_of(entry, "turns", 0),
    };

    return snapshot_add(&place->snapshot, &copy);
}

static bool add_lock(struct place *place, const struct value *lock) {
    unsigned position = 0;

    if (string_of(lock, "name")[0] == '\0')
        return false;
    for (const struct value *entry = elements(lock, "holders"); entry != NULL; entry = entry->next)
        if (!add_entry(place, lock, entry, 0))
            return false;
    for (const struct value *entry = elements(lock, "waiters"); entry != NULL; entry = entry->next)
        if (!add_entry(place, lock, entry, ++position))
            return false;
    return true;
}

static bool fill_place(struct place *place, const struct value *document) {
    const struct value *took = member(document, "took_ms");
    bool fits = took != NULL && took->type == VALUE_NUMBER && took->number >= 0 && took->number < 9e15;

    place->url = strdup(string_of(document, "url"));
    place->engine = strdup(string_of(document, "engine"));
    place->error = strdup(string_of(document, "error"));
    place->lease_ms = number_of(document, "lease_ms", PAWL_FOREVER);
    place->notice_ms = number_of(document, "notice_ms", 0);
    place->took_ms = fits ? took->number : 0;
    if (place->url == NULL || place->engine == NULL || place->error == NULL || place->url[0] == '\0')
        return false;
    place->code = place->error[0] != '\0' ? PAWL_ECONNLOST : 0;
    for (const struct value *lock = elements(document, "locks"); lock != NULL; lock = lock->next)
        if (!add_lock(place, lock))
            return false;
    snapshot_sort(&place->snapshot);
    return true;
}

bool place_read(const char *text, struct place *ret, int64_t *time_ms) {
    struct value *document = read_value(&text, 0);

    if (document == NULL)
        return false;
    json_skip(&text);
    bool good = *text == '\0' && document->type == VALUE_OBJECT && number_of(document, "format", 0) == 1 &&
                fill_place(ret, document);
    *time_ms = number_of(document, "time_ms", 0);
    value_free(document);
    return good;
}

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

/* The next line, to be freed; NULL: the end. */
static char *next_line(struct recording *recording) {
    char *line = recording->line;
    size_t room = 0;

    recording->line = NULL;
    if (line != NULL)
        return line;
    if (getline(&line, &room, recording->file) < 0) {
        free(line);
        return NULL;
    }
    recording->number++;
    return line;
}

static bool has_place(const struct look *look, const char *url) {
    for (size_t i = 0; i < look->count; i++)
        if (strcmp(look->places[i].url, url) == 0)
            return true;
    return false;
}

/* Takes over what it is given; false: out of memory. */
static bool add_place(struct look *look, struct place *place) {
    struct place *places = reallocarray(look->places, look->count + 1, sizeof places[0]);

    if (places == NULL)
        return false;
    look->places = places;
    places[look->count++] = *place;
    *place = (struct place){0};
    return true;
}

enum read_result look_read(struct recording *recording, struct look *ret) {
    struct look look = {0};
    char *line;

    while ((line = next_line(recording)) != NULL) {
        struct look one = {.places = calloc(1, sizeof one.places[0]), .count = 1};
        int64_t time_ms;
        bool good = one.places != NULL && place_read(line, &one.places[0], &time_ms);

        if (good && has_place(&look, one.places[0].url)) {
            recording->line = line;
            look_finish(&one);
            break;
        }
        free(line);
        if (good)
            look.time_ms = time_ms;
        good = good && add_place(&look, &one.places[0]);
        if (one.places == NULL)
            one.count = 0;
        look_finish(&one);
        if (!good) {
            look_finish(&look);
            return READ_BAD;
        }
    }
    if (look.count == 0)
        return READ_END;
    if (!look_settle(&look)) {
        look_finish(&look);
        return READ_BAD;
    }
    *ret = look;
    return READ_LOOK;
}

void recording_finish(struct recording *recording) {
    free(recording->line);
    if (recording->file != NULL)
        fclose(recording->file);
    *recording = (struct recording){0};
}
