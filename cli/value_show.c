/* SPDX-License-Identifier: Apache-2.0
 *
 * value_show.c - pawl value get and watch: print the value beside a lock.
 *
 * get prints the bytes and nothing else, so that they can go into a file. watch prints text, for a script that reads lines; what of it was
 * a value, and which, only --json tells without doubt.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "value.h"

/* ---- JSON ------------------------------------------------------------------------------------------------------------------ */

/* The value as a string; NULL: it is not text. */
static const char *as_text(const struct pawl_value *value) {
    static char text[PAWL_VALUE_MAX + 1];

    if (value->size > PAWL_VALUE_MAX || memchr(value->bytes, '\0', value->size) != NULL)
        return NULL;
    memcpy(text, value->bytes, value->size);
    text[value->size] = '\0';
    for (size_t at = 0, length; text[at] != '\0'; at += length)
        if ((length = utf8_length(text + at)) == 0)
            return NULL;
    return text;
}

static void print_base64(const unsigned char *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < size; i += 3) {
        unsigned group = (unsigned)bytes[i] << 16 | (i + 1 < size ? (unsigned)bytes[i + 1] << 8 : 0) |
                         (i + 2 < size ? bytes[i + 2] : 0);

        putchar(digits[group >> 18]);
        putchar(digits[group >> 12 & 63]);
        putchar(i + 1 < size ? digits[group >> 6 & 63] : '=');
        putchar(i + 2 < size ? digits[group & 63] : '=');
    }
}

/* Text as a string, other bytes as base64. */
static void print_json(const char *name, const struct pawl_value *value) {
    const char *text = value != NULL ? as_text(value) : NULL;

    printf("{\"name\":");
    json_string(stdout, name);
    if (value != NULL)
        printf(",\"token\":\"%" PRIu64 "\",\"version\":\"%" PRIu64 "\",\"written_ms\":%" PRId64 ",\"size\":%zu", value->token,
               value->version, value->written_ms, value->size);
    if (text != NULL) {
        printf(",\"value\":");
        json_string(stdout, text);
    } else if (value != NULL) {
        printf(",\"base64\":\"");
        print_base64(value->bytes, value->size);
        printf("\"");
    } else {
        printf(",\"value\":null");
    }
    printf("}\n");
}

static unsigned trace_of(const struct value_options *options) {
    return options->take.trace ? PAWL_OPEN_TRACE : 0;
}

/* ---- get ------------------------------------------------------------------------------------------------------------------- */

static void tell_of_value(const char *name, const struct pawl_value *value) {
    char words[32];

    say("%zu bytes beside '%s', written %s ago by the hold with token %" PRIu64 "; version %" PRIu64, value->size, name,
        duration_in_words(words, sizeof words, wall_ms() > value->written_ms ? wall_ms() - value->written_ms : 0), value->token,
        value->version);
}

static int print_value(const struct value_options *options, const struct pawl_value *value) {
    const char *name = options->take.names[0];

    if (options->json)
        print_json(name, value);
    else if (value != NULL)
        fwrite(value->bytes, 1, value->size, stdout);
    if (value == NULL && !options->json && !options->take.quiet)
        say("'%s' has no value", name);
    if (value != NULL && options->take.verbose)
        tell_of_value(name, value);
    return finish_output(value == NULL ? EXIT_NO : 0);
}

int value_get(const struct value_options *options) {
    const struct pawl_value *value;
    struct pawl *client;
    struct pawl_error error;
    int status = open_client(options->take.url, trace_of(options), &client);

    if (status != 0)
        return status;
    if (pawl_value_read(client, options->take.names[0], &value, &error) < 0) {
        status = library_error(&error);
    } else {
        status = print_value(options, value);
        pawl_value_free(value);
    }
    pawl_close(client);
    return status;
}

/* ---- watch ----------------------------------------------------------------------------------------------------------------- */

struct watching {
    const struct value_options *options;
    bool told;        /* what is, once */
    uint64_t version; /* the last that was printed; 0: there was none */
};

static void print_line(const struct pawl_value *value) {
    if (value != NULL && value->size > 0)
        fwrite(value->bytes, 1, value->size, stdout);
    if (value == NULL || value->size == 0 || ((const char *)value->bytes)[value->size - 1] != '\n')
        putchar('\n');
}

/* Observers are told of holders, too. */
static void on_observed(const struct pawl_observed *observed, void *data) {
    struct watching *watching = data;
    const struct pawl_value *value = observed->value;
    uint64_t version = value != NULL ? value->version : 0;
    bool first = !watching->told;

    if (!first && version == watching->version)
        return;
    watching->told = true;
    watching->version = version;
    if (watching->options->json)
        print_json(observed->name, value);
    else if (value != NULL || !first)
        print_line(value);
    else if (!watching->options->take.quiet)
        say("'%s' has no value yet", observed->name);
    if (value != NULL && watching->options->take.verbose)
        tell_of_value(observed->name, value);
    fflush(stdout);
}

/* Until a signal ends us, or nobody reads any more. */
static int watch_until_the_end(struct pawl *client) {
    struct pollfd sources[] = {{.events = POLLIN}, {.fd = STDOUT_FILENO}};
    int status = open_events(client, &sources[0].fd);

    if (status != 0)
        return status;
    while (!ferror(stdout) && !(sources[1].revents & (POLLERR | POLLHUP | POLLNVAL))) {
        poll(sources, 2, -1);
        pawl_dispatch(client);
    }
    return ferror(stdout) ? finish_output(EXIT_STORAGE) : 0;
}

int value_watch(const struct value_options *options) {
    struct watching watching = {.options = options};
    struct pawl_observer *observer;
    struct pawl *client;
    struct pawl_error error;
    int status = open_client(options->take.url, PAWL_OPEN_LOSS_BY_DISPATCH | trace_of(options), &client);

    if (status != 0)
        return status;
    if (pawl_observe(client, options->take.names[0], on_observed, &watching, &observer, &error) < 0)
        status = library_error(&error);
    else
        status = watch_until_the_end(client);
    pawl_close(client);
    return status;
}
