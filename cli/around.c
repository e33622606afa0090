/* SPDX-License-Identifier: Apache-2.0
 *
 * around.c - what pawl tells the command that it runs of the holds around it.
 *
 *     PAWL_LOCK    the names, one on a line          PAWL_TOKEN   their tokens, with blanks between
 *     PAWL_MODE    exclusive, shared, permits        PAWL_URL     where they are
 *     PAWL_OUTER   the holds of the runs around that: on each line token, mode, name and URL, with tabs between; the innermost first
 *
 * A pawl in the command thus finds the same locks without -u, and knows which of them are held for it. In PAWL_URL there is no password:
 * in a log of the environment it would be for all to see. It comes from ?password-file= or $PAWL_PASSWORD, as it came here. A PAWL_URL that
 * pawl found is left as it is.
 */
#include "around.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/snapshot.h"

/* ---- The holds of the run around this process ----------------------------------------------------------------------------- */

/* One of several holds, as the variables have it. */
struct held {
    const char *name;
    int length; /* of the name */
    uint64_t token;
};

static bool parse_token(const char *text, size_t length, uint64_t *ret) {
    char digits[24];

    if (length >= sizeof digits)
        return false;
    snprintf(digits, sizeof digits, "%.*s", (int)length, text);
    return parse_number(digits, UINT64_MAX, ret);
}

/* The next of PAWL_LOCK and PAWL_TOKEN. False: there is none, or what is there is not pawl's. */
static bool next_held(const char **names, const char **tokens, struct held *ret) {
    if (*names == NULL || *tokens == NULL)
        return false;
    size_t length = strcspn(*tokens, " ");
    ret->name = *names;
    ret->length = (int)strcspn(*names, "\n");
    if (ret->length == 0 || !parse_token(*tokens, length, &ret->token))
        return false;
    *names = ret->name[ret->length] == '\n' ? ret->name + ret->length + 1 : NULL;
    *tokens = (*tokens)[length] == ' ' ? *tokens + length + 1 : NULL;
    return true;
}

static const char *variable(const char *name) {
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

/* ---- For the command ------------------------------------------------------------------------------------------------------ */

static void write_names(FILE *out, const struct take *take) {
    for (size_t i = 0; i < take->held; i++)
        fprintf(out, "%s%s", i > 0 ? "\n" : "", take->options->names[i]);
}

static void write_tokens(FILE *out, const struct take *take) {
    for (size_t i = 0; i < take->held; i++)
        fprintf(out, "%s%llu", i > 0 ? " " : "", (unsigned long long)pawl_token(take->parts[i].lock));
}

static void write_mode(FILE *out, const struct take *take) {
    fputs(mode_name(take->options->mode), out);
}

static void write_holder(FILE *out, const struct take *take) {
    char host[256] = "";

    (void)take;
    gethostname(host, sizeof host - 1);
    fprintf(out, "%s:%ld", host, (long)getpid());
}

static void write_agent(FILE *out, const struct take *take) {
    fputs(pawl_agent(take->client), out);
}

/* What is there already is of the run around this process; or our own, where a command is run again. */
static void write_outer(FILE *out, const struct take *take) {
    static bool told;
    const char *names = told ? NULL : getenv("PAWL_LOCK"), *tokens = getenv("PAWL_TOKEN");
    struct held held;

    (void)take;
    while (next_held(&names, &tokens, &held))
        fprintf(out, "%llu\t%s\t%.*s\t%s\n", (unsigned long long)held.token, variable("PAWL_MODE"), held.length, held.name,
                variable("PAWL_URL"));
    fputs(variable("PAWL_OUTER"), out);
    told = true;
}

/* ---- The URL --------------------------------------------------------------------------------------------------------------- */

/* A bare `local:` is a place of this user's, and to the command it may be another one. */
static void write_default(FILE *out, const char *resolved, const char *options) {
    for (; *resolved != '\0'; resolved++)
        if (*resolved == '%' || *resolved == '?')
            fprintf(out, "%%%02X", (unsigned)*resolved);
        else
            fputc(*resolved, out);
    fputs(options, out);
}

/* user:password@host and what follows up to the options, without the password. */
static void write_authority(FILE *out, const char *text, size_t length) {
    const char *end = text + strcspn(text, "/?"), *at = memrchr(text, '@', (size_t)(end - text));
    const char *colon = at != NULL ? memchr(text, ':', (size_t)(at - text)) : NULL;

    if (colon != NULL)
        fprintf(out, "%.*s%.*s", (int)(colon - text), text, (int)(text + length - at), at);
    else
        fprintf(out, "%.*s", (int)length, text);
}

/* Sentinels may have a password of their own, among the options. The name of an option may be written with escapes, of which none has need:
 * what is so hidden is not passed on. */
static bool is_secret(const char *option) {
    static const char secret[] = "sentinel-password";
    size_t length = strcspn(option, "=&");

    return strncmp(option, secret, sizeof secret - 1) == 0 || memchr(option, '%', length) != NULL;
}

static void write_options(FILE *out, const char *options) {
    char separator = '?';

    for (size_t length; *options != '\0'; options += length) {
        length = 1 + strcspn(options + 1, "&");
        if (!is_secret(options + 1)) {
            fprintf(out, "%c%.*s", separator, (int)length - 1, options + 1);
            separator = '&';
        }
    }
}

static void write_url(FILE *out, const struct take *take) {
    const char *given = take->options->url != NULL ? take->options->url : getenv("PAWL_URL");
    size_t scheme = given != NULL ? strcspn(given, ":") + 1 : 0;
    size_t length = given != NULL ? strcspn(given, "?") : 0;

    if (given == NULL || (strcmp(take->info.engine, "local") == 0 && length == scheme)) {
        write_default(out, take->info.url, given != NULL ? given + length : "");
    } else if (take->options->url == NULL) {
        fputs(given, out);
    } else {
        scheme += strncmp(given + scheme, "//", 2) == 0 ? 2 : 0;
        fprintf(out, "%.*s", (int)scheme, given);
        write_authority(out, given + scheme, length - scheme);
        write_options(out, given + length);
    }
}

/* ---- All of them ----------------------------------------------------------------------------------------------------------- */

/* In this order: what the run around has said is read for PAWL_OUTER before it is replaced. */
static const struct {
    const char *name;
    void (*write)(FILE *out, const struct take *take);
} variables[] = {
    {"PAWL_OUTER", write_outer}, {"PAWL_LOCK", write_names},    {"PAWL_TOKEN", write_tokens}, {"PAWL_MODE", write_mode},
    {"PAWL_URL", write_url},     {"PAWL_HOLDER", write_holder}, {"PAWL_AGENT", write_agent},
};

bool around_tell(const struct take *take) {
    bool done = true;

    for (size_t i = 0; i < sizeof variables / sizeof variables[0] && done; i++) {
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        if (out != NULL)
            variables[i].write(out, take);
        done = out != NULL && fclose(out) == 0 &&
               (size > 0 ? setenv(variables[i].name, text, 1) : unsetenv(variables[i].name)) == 0;
        free(text);
    }
    return done;
}

/* ---- In the command -------------------------------------------------------------------------------------------------------- */

static bool is_name(const char *name, const char *text, size_t length) {
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

static bool is_exclusive(const char *mode, size_t length) {
    return is_name("exclusive", mode, length);
}

/* A line of PAWL_OUTER. False: it speaks of another lock. */
static bool read_outer(const char *line, const char *name, struct around *ret) {
    size_t token = strcspn(line, "\t\n"), mode, length, url;
    const char *at = line + token;

    if (!parse_token(line, token, &ret->token) || *at != '\t')
        return false;
    mode = strcspn(++at, "\t\n");
    ret->exclusive = is_exclusive(at, mode);
    at += mode;
    if (*at != '\t')
        return false;
    length = strcspn(++at, "\t\n");
    if (at[length] != '\t' || !is_name(name, at, length))
        return false;
    at += length + 1;
    url = strcspn(at, "\n");
    return (size_t)snprintf(ret->url, sizeof ret->url, "%.*s", (int)url, at) < sizeof ret->url;
}

bool around_find(const char *name, struct around *ret) {
    const char *names = getenv("PAWL_LOCK"), *tokens = getenv("PAWL_TOKEN"), *mode = variable("PAWL_MODE");
    struct held held;

    while (next_held(&names, &tokens, &held))
        if (is_name(name, held.name, (size_t)held.length)) {
            *ret = (struct around){.token = held.token, .exclusive = is_exclusive(mode, strlen(mode))};
            return true;
        }
    for (const char *line = variable("PAWL_OUTER"); *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        if (read_outer(line, name, ret))
            return true;
    return false;
}
