/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_line.c - what a person sees while pawl waits for a lock.
 *
 * Who waits wants to know, in this order: for how long already, for what, who has it and since when, how many come first, whether a
 * dead holder would be noticed, and where all this is (root's local: is not the user's). A narrow terminal cuts from the end.
 *
 * The live line never wraps: it is cut to the terminal's width as of now, starts with a carriage return and clears what is behind
 * it. It is drawn only by a process in the foreground: a job in the background must not scribble over the user's typing.
 */
#include "wait_line.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "snapshot.h"

enum { LINE_SIZE = 1024, REFRESH_MS = 1000, FIRST_DRAW_MS = 150 };

static struct {
    struct pawl *client;
    const char *name;
    int64_t since; /* now_ms() when the wait began */
    int64_t due;
    atomic_bool shown; /* the library's log callback asks from another thread */
} line = {.due = PAWL_FOREVER};

/* Text that grows at its end and stops at its limit. */
struct text {
    size_t used;
    char bytes[LINE_SIZE];
};

__attribute__((format(printf, 2, 3))) static void append(struct text *text, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->used += (size_t)length;
    if (text->used >= sizeof text->bytes)
        text->used = sizeof text->bytes - 1;
}

static const char *time_of_day(char *out, size_t size, int64_t unix_ms) {
    time_t then = (time_t)(unix_ms / 1000), now = (time_t)(wall_ms() / 1000);
    struct tm parts;

    localtime_r(&then, &parts);
    strftime(out, size, now - then < 20 * 3600 ? "%H:%M:%S" : "%F %H:%M", &parts);
    return out;
}

static void append_holder(struct text *text, const struct pawl_entry *holder, const struct pawl_info *info) {
    const char *unknown = holder->flags & PAWL_ENTRY_FOREIGN ? "a program that is not pawl" : "unknown host";
    char since[32];

    append(text, "%s", holder->host[0] != '\0' ? holder->host : unknown);
    if (holder->pid != 0)
        append(text, " pid %lld", (long long)holder->pid);
    if (holder->command[0] != '\0')
        append(text, " (%s)", holder->command);
    if (holder->since_ms != 0)
        append(text, " since %s", time_of_day(since, sizeof since, holder->since_ms));
    if (is_gone(holder))
        append(text, ", pid gone: what it left behind holds on");
    if (holder->flags & PAWL_ENTRY_BROKEN)
        append(text, ", asked to give up");
    if (holder->flags & PAWL_ENTRY_STOPPED)
        append(text, ", STOPPED, nobody moves until it goes on");
    if (is_endless(holder, info->lease_ms))
        append(text, ", which never ends by itself: pawl break frees it");
}

/* Which of the waiters is this process? Its own pid and host say so; with none found, it would be the last. */
static size_t count_ahead(const struct snapshot *snapshot) {
    size_t ahead = 0;

    for (size_t i = 0; i < snapshot->count; i++) {
        const struct pawl_entry *entry = &snapshot->entries[i];

        if (!is_waiter(entry))
            continue;
        if (is_own(entry))
            return ahead;
        ahead++;
    }
    return ahead;
}

/* Returns whether they are such that a crash of theirs is noticed. */
static bool append_queue(struct text *text, const struct snapshot *snapshot, const struct pawl_info *info) {
    size_t holders = 0;
    bool noticed = true;

    for (size_t i = 0; i < snapshot->count; i++) {
        const struct pawl_entry *entry = &snapshot->entries[i];

        if (!is_waiter(entry) && holders++ == 0)
            append_holder(text, entry, info);
        noticed = noticed && !is_endless(entry, info->lease_ms);
    }
    if (holders == 0)
        append(text, "nobody right now");
    else if (holders > 1)
        append(text, " and %zu more", holders - 1);
    return noticed;
}

static void append_place(struct text *text, const struct snapshot *snapshot) {
    size_t ahead = count_ahead(snapshot);

    if (ahead == 0)
        append(text, ", you are next");
    else
        append(text, ", %zu ahead", ahead);
}

static void append_notice(struct text *text, const struct pawl_info *info) {
    char words[32];

    if (info->notice_ms == 0)
        append(text, ", a crash shows at once");
    else
        append(text, ", a crash shows within %s", duration_in_words(words, sizeof words, info->notice_ms));
}

static void describe(struct text *text, int64_t waited_ms) {
    struct snapshot snapshot;
    struct pawl_info info;
    struct pawl_error error;
    bool noticed = true;
    char words[32];

    pawl_describe(line.client, &info);
    text->used = 0;
    append(text, "waiting ");
    if (waited_ms >= 1000)
        append(text, "%s ", duration_in_words(words, sizeof words, waited_ms));
    append(text, "for '%s': held by ", line.name);
    if (snapshot_take(&snapshot, line.client, line.name, &error) < 0) {
        append(text, "somebody (%s)", error.text);
    } else {
        noticed = append_queue(text, &snapshot, &info);
        append_place(text, &snapshot);
        snapshot_finish(&snapshot);
    }
    if (noticed)
        append_notice(text, &info);
    append(text, ", %s", info.url);
}

bool holders_in_words(struct pawl *client, const char *name, char *out, size_t size) {
    struct snapshot snapshot;
    struct pawl_info info;
    struct pawl_error ignored;
    struct text text = {0};
    bool held = false;

    if (snapshot_take(&snapshot, client, name, &ignored) < 0)
        return false;
    for (size_t i = 0; i < snapshot.count; i++)
        held = held || !is_waiter(&snapshot.entries[i]);
    pawl_describe(client, &info);
    append_queue(&text, &snapshot, &info);
    snapshot_finish(&snapshot);
    snprintf(out, size, "%s", text.bytes);
    return held;
}

/* Is this the command of a `pawl run` that holds the very lock? Then the two may wait for each other for ever, and only the user
 * knows whether they do. */
static void warn_of_nesting(void) {
    const char *around = getenv("PAWL_HOLDER");
    struct snapshot snapshot;
    struct pawl_error error;
    char holder[300];

    if (around == NULL || snapshot_take(&snapshot, line.client, line.name, &error) < 0)
        return;
    for (size_t i = 0; i < snapshot.count; i++) {
        const struct pawl_entry *entry = &snapshot.entries[i];

        snprintf(holder, sizeof holder, "%s:%lld", entry->host, (long long)entry->pid);
        if (!is_waiter(entry) && strcmp(holder, around) == 0)
            say("'%s' is held by the pawl run around this one (%s): if that waits for this, both wait for ever", line.name, around);
    }
    snapshot_finish(&snapshot);
}

static bool in_foreground(void) {
    pid_t group = tcgetpgrp(STDERR_FILENO);

    /* A terminal that is not the one that controls us has no foreground of ours to respect. */
    return group < 0 || group == getpgrp();
}

void wait_line_begin(struct pawl *client, const char *name, bool verbose) {
    line.client = client;
    line.name = name;
    line.since = now_ms();
    /* A wait that is over in a blink should not flicker. */
    line.due = isatty(STDERR_FILENO) ? line.since + FIRST_DRAW_MS : PAWL_FOREVER;
    if (verbose) {
        struct text text;

        describe(&text, 0);
        say("%s", text.bytes);
    }
    warn_of_nesting();
}

int64_t wait_line_due(void) {
    return line.due;
}

void wait_line_draw(void) {
    struct text text;
    char safe[LINE_SIZE], output[LINE_SIZE + 16];

    line.due = now_ms() + REFRESH_MS;
    if (!in_foreground())
        return;
    describe(&text, now_ms() - line.since);
    printable(safe, sizeof safe, text.bytes);
    /* The terminal's own `^C` must fit behind it: once it wraps, the line can't be erased. */
    cut_to_columns(safe, terminal_columns(STDERR_FILENO) - 3);
    int length = snprintf(output, sizeof output, "\r%s\033[K", safe);
    line.shown = write(STDERR_FILENO, output, (size_t)length) == length;
}

void wait_line_hide(void) {
    const char *eraser = wait_line_eraser();

    if (write(STDERR_FILENO, eraser, strlen(eraser)) < 0)
        return;
}

void wait_line_end(void) {
    wait_line_hide();
    line.due = PAWL_FOREVER;
}

const char *wait_line_eraser(void) {
    return atomic_exchange(&line.shown, false) ? "\r\033[K" : "";
}
