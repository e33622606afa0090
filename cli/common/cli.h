/* SPDX-License-Identifier: Apache-2.0
 *
 * cli.h - what every part of the `pawl` command shares: exit statuses, messages, text for a terminal.
 *
 * The command uses pawl.h and nothing else of the library. Each subcommand is one function that returns the exit status; it prints
 * what was asked for on stdout and everything else, one sentence each, on stderr.
 */
#ifndef PAWL_CLI_H
#define PAWL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pawl.h"

/* Exit statuses of pawl itself. Where a command is run, those below 64 are only ever its own. The numbers are those of sysexits.h where
 * it has a word for the case; pawl(1) lists them all, and exit_of() in message.c maps the library's errors to them. */
enum {
    EXIT_NO = 1,           /* what was asked is not so: pawl status --check, pawl leader, pawl value get */
    EXIT_USAGE = 64,       /* the command line, a name, a URL */
    EXIT_MISMATCH = 65,    /* the lock is there, and is not what was asked for: another kind, limit, token */
    EXIT_UNREACHABLE = 69, /* the engine's server */
    EXIT_INTERNAL = 70,
    EXIT_SYSTEM = 71,    /* memory, processes, descriptors */
    EXIT_STORAGE = 74,   /* disk full, foreign or damaged files; also: the output could not be written */
    EXIT_NOT_TAKEN = 75, /* held by others until the time was over */
    EXIT_LOST = 76,      /* the hold ended before the command did */
    EXIT_PERMISSION = 77,
    EXIT_OTHER_USE = 78, /* what lies beside the lock is another program's */
    EXIT_CANNOT_EXECUTE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_BY_SIGNAL = 128, /* plus its number */
};

/* ---- message.c ------------------------------------------------------------------------------------------------------------ */

/* One sentence on stderr, after `pawl: `. Control characters are shown as '?': no name or record plays with the terminal. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* say(), and return EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *format, ...);
/* Say what the library says; return the exit status for it. */
int library_error(const struct pawl_error *error);
int exit_of(int code);
/* Descriptors 0, 1 and 2 are open; those that were not are /dev/null, closed on exec, so that a command finds them as pawl did. */
bool open_standard_descriptors(void);
/* What is in stdout's buffer has been written, or EXIT_STORAGE was said and is returned. */
int finish_output(int status);
/* The library's log callback: the lines of --trace on stderr, and warnings from print_warnings() on. (Not log_message: libzookeeper calls a
 * function of that name, and would get this one.) */
void print_log(enum pawl_log_level level, const char *text, void *data);
/* How long who does not want to wait does so for servers; in all that is less than two seconds. */
enum { CONNECT_MS = 1200 };
/* The client is open. */
void print_warnings(void);

/* ---- text.c --------------------------------------------------------------------------------------------------------------- */

/* Copy, with what is not printable UTF-8 shown as '?'. Returns `out`. */
char *printable(char *out, size_t size, const char *in);
/* Bytes of the character at the start of `text`; 0 if it is not well-formed UTF-8. */
size_t utf8_length(const char *text);
/* Write a character, at most four bytes and without a NUL behind them; returns how many. */
size_t utf8_write(uint32_t code, char *out);
/* How many columns a terminal needs for printable UTF-8. */
int columns_of(const char *text);
/* Shorten to this many columns. */
void cut_to_columns(char *text, int columns);
/* 850 ms, 12 s, 3 min 20 s, 2 h 5 min, 4 d 3 h: two units at most. */
char *duration_in_words(char *out, size_t size, int64_t ms);
/* For a shell: in single quotes, in which nothing but they themselves mean anything. */
void shell_quote(char *out, size_t size, const char *text);
/* Room for a name or a URL, and for either when it was quoted: each byte may be four. */
enum { WORD_SIZE = 1100, QUOTED_SIZE = 4 * WORD_SIZE + 3 };
/* With quotes, as JSON has it. */
void json_string(FILE *out, const char *text);
/* Behind the spaces of JSON. */
void json_skip(const char **at);
/* Behind this word, if it is next. */
bool json_word(const char **at, const char *word);
/* What a letter means behind a backslash in JSON; '\0': nothing, or it is the 'u'. */
char json_escape(char letter);
/* The four digits behind \u. False: there are none. */
bool json_code(const char **at, uint32_t *ret);
/* The columns of the terminal behind `fd`; 80 if it does not say. */
int terminal_columns(int fd);

/* ---- clock ---------------------------------------------------------------------------------------------------------------- */

/* Milliseconds of a clock that never jumps and counts suspend. */
int64_t now_ms(void);
/* Unix time, for people. */
int64_t wall_ms(void);
/* A moment so many ms from now, PAWL_FOREVER included; and how long it is till then, as poll(2) wants it. */
int64_t deadline_in(int64_t ms);
int poll_timeout(int64_t deadline);

/* ---- subcommands ---------------------------------------------------------------------------------------------------------- */

int command_run(int argc, char **argv);
int command_hold(int argc, char **argv);
int command_elect(int argc, char **argv);
int command_leader(int argc, char **argv);
int command_status(int argc, char **argv);
int command_break(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_export(int argc, char **argv);
int command_top(int argc, char **argv);
int command_value(int argc, char **argv);
int command_wait(int argc, char **argv);
#ifdef PAWL_HTTP
int command_web(int argc, char **argv);
#endif

#endif
