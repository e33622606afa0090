/* SPDX-License-Identifier: Apache-2.0
 *
 * interactive.c - `pawl top` in a terminal: one loop over keys, looks and signals.
 *
 * A look is taken by the source's thread, so that keys are answered while a server is slow. A signal that ends us is a byte in a pipe: the
 * loop sees it, gives the terminal back, and ends by that signal.
 */
#include "interactive.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/options.h"
#include "../common/terminal.h"
#include "paint.h"

enum { FASTEST_MS = 100, SLOWEST_MS = 60000 };

struct top {
    struct source *source;
    struct shown *shown;
    struct look looks[2]; /* the last two; `latest` counts on */
    unsigned latest;
    bool seen; /* there is one */
    struct history history;
    struct page page;
    int64_t due; /* when to look again, of now_ms() */
    bool quit;
    int status;
};

/* ---- signals -------------------------------------------------------------------------------------------------------------- */

static int signal_pipe[2] = {-1, -1};
static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void on_signal(int number) {
    int saved = errno;
    char byte = (char)number;

    if (write(signal_pipe[1], &byte, 1) < 0)
        errno = saved;
    errno = saved;
}

static bool catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};

    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        sigaction(ends[i], &action, NULL);
    return true;
}

static void end_by(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- looks ---------------------------------------------------------------------------------------------------------------- */

static struct look *look_now(struct top *top) {
    return &top->looks[top->latest % 2];
}

static void take_in(struct top *top, const struct look *look) {
    struct look *before = top->seen ? look_now(top) : NULL;

    top->latest += top->seen;
    look_finish(look_now(top));
    *look_now(top) = *look;
    history_add(&top->history, before, look_now(top));
    top->seen = true;
}

/* Looking must not cost the servers more than a share of their time. */
static int64_t pause_after(const struct top *top, const struct look *look) {
    int64_t least = top->source->path == NULL ? look_pause_ms(look) : 0;

    return least > top->shown->interval_ms ? least : top->shown->interval_ms;
}

static void got(struct top *top, enum read_result result, const struct look *look) {
    if (result == READ_LOOK) {
        take_in(top, look);
        top->due = now_ms() + pause_after(top, look);
    } else if (result == READ_END) {
        top->shown->ended = true;
    } else {
        top->quit = true;
        top->status = top->source->path != NULL ? EXIT_USAGE : EXIT_SYSTEM;
    }
}

/* A file has its next look at once; a server when it has answered. */
static void look_on(struct top *top) {
    struct look look;

    if (top->shown->ended)
        return;
    if (top->source->path != NULL)
        got(top, source_next(top->source, &look), &look);
    else if (!source_ask(top->source)) {
        snprintf(top->shown->message, sizeof top->shown->message, "can't look: no thread can be started");
        top->due = now_ms() + SLOWEST_MS;
    }
}

/* ---- what keys do --------------------------------------------------------------------------------------------------------- */

/* The names are another program's words, and the line is pasted into a shell. */
static void copy_command(struct top *top) {
    char word[WORD_SIZE], name[QUOTED_SIZE], url[QUOTED_SIZE], command[2 * QUOTED_SIZE + 64];
    const struct lock_seen *lock = shown_lock(top->shown, look_now(top));

    if (lock == NULL)
        return;
    shell_quote(name, sizeof name, printable(word, sizeof word, lock->name));
    shell_quote(url, sizeof url, printable(word, sizeof word, lock->place->url));
    if (top->shown->view == VIEW_LOCK && lock->holders > 0)
        snprintf(command, sizeof command, "pawl break -u %s --token %" PRIu64 " -- %s", url, lock->entries[0].token, name);
    else
        snprintf(command, sizeof command, "pawl status -u %s -- %s", url, name);
    paint_copy(command);
    snprintf(top->shown->message, sizeof top->shown->message, "copied: %.400s", command);
}

static void ask_token(struct top *top) {
    const struct lock_seen *lock = shown_lock(top->shown, look_now(top));

    if (!top->shown->allow_break)
        snprintf(top->shown->message, sizeof top->shown->message, "breaking is off: start with pawl top --allow-break");
    else if (top->source->path != NULL)
        snprintf(top->shown->message, sizeof top->shown->message, "this is a file: there is nothing to break");
    else if (lock == NULL || lock->holders == 0)
        snprintf(top->shown->message, sizeof top->shown->message, "nobody holds it");
    else
        top->shown->prompt = "break which hold? its token, all of it: ";
}

static void break_hold(struct top *top, const char *answer) {
    struct shown *shown = top->shown;
    struct pawl *client = watch_client(&top->source->watch, shown->url);
    struct pawl_error error;
    uint64_t token;

    if (!parse_number(answer, UINT64_MAX, &token) || token == 0)
        snprintf(shown->message, sizeof shown->message, "'%s' is no token: nothing was done", answer);
    else if (client == NULL)
        snprintf(shown->message, sizeof shown->message, "%s can't be reached: nothing was done", shown->url);
    else if (pawl_break(client, shown->name, token, 0, &error) < 0)
        snprintf(shown->message, sizeof shown->message, "%s", error.text);
    else
        snprintf(shown->message, sizeof shown->message, "the holder of '%s' with token %" PRIu64 " is asked to give up",
                 shown->name, token);
    top->due = now_ms();
}

static void answer_key(struct top *top, int key) {
    struct shown *shown = top->shown;
    size_t length = strlen(shown->answer);
    bool filters = shown->prompt[0] == '/';

    if (key == PAINT_ESCAPE) {
        shown->prompt = NULL;
    } else if (key == PAINT_ENTER) {
        shown->prompt = NULL;
        if (!filters)
            break_hold(top, shown->answer);
    } else if (key == PAINT_BACKSPACE && length > 0) {
        do
            shown->answer[--length] = '\0';
        while (length > 0 && utf8_length(shown->answer) == 0);
    } else if (key >= ' ' && key < 256 && length + 1 < sizeof shown->answer) {
        shown->answer[length] = (char)key;
        shown->answer[length + 1] = '\0';
    }
    if (filters && key != PAINT_ESCAPE)
        snprintf(shown->filter, sizeof shown->filter, "%s", shown->answer);
    if (shown->prompt == NULL)
        shown->answer[0] = '\0';
}

/* In the list the selection moves, elsewhere the lines do. */
static void move(struct top *top, long by) {
    struct shown *shown = top->shown;
    size_t *at = shown->view == VIEW_LOCKS ? &shown->selected : &shown->offset;

    *at = by < 0 && (size_t)-by > *at ? 0 : *at + (size_t)by;
    if (shown->view == VIEW_LOCKS)
        shown->name[0] = shown->url[0] = '\0'; /* the line counts now */
}

static void show(struct shown *shown, enum view view) {
    if (shown->view != VIEW_LOCK && shown->view != VIEW_HELP)
        shown->from = shown->view;
    shown->view = view;
    shown->offset = 0;
}

static bool move_key(struct top *top, int key) {
    long page = top->page.rows > 6 ? top->page.rows - 5 : 1;

    switch (key) {
    case PAINT_UP:
    case 'k':
        move(top, -1);
        return true;
    case PAINT_DOWN:
    case 'j':
        move(top, 1);
        return true;
    case PAINT_PAGE_UP:
        move(top, -page);
        return true;
    case PAINT_PAGE_DOWN:
        move(top, page);
        return true;
    case PAINT_HOME:
        move(top, -1000000000);
        return true;
    case PAINT_END:
        move(top, 1000000000);
        return true;
    default:
        return false;
    }
}

static void faster(struct shown *shown, bool fast) {
    int64_t next = fast ? shown->interval_ms / 2 : shown->interval_ms * 2;

    shown->interval_ms = next < FASTEST_MS ? FASTEST_MS : next > SLOWEST_MS ? SLOWEST_MS : next;
    snprintf(shown->message, sizeof shown->message, "a look every %g s", (double)shown->interval_ms / 1000);
}

static void go_back(struct shown *shown) {
    if (shown->view == VIEW_LOCK || shown->view == VIEW_HELP)
        show(shown, shown->from);
    else
        shown->filter[0] = '\0';
}

static void command_key(struct top *top, int key) {
    struct shown *shown = top->shown;

    switch (key) {
    case '1':
    case '2':
    case '3':
    case '4':
        show(shown, (enum view)(key - '1'));
        return;
    case '?':
        show(shown, VIEW_HELP);
        return;
    case PAINT_ENTER:
        if (shown->view == VIEW_LOCKS && shown->name[0] != '\0')
            show(shown, VIEW_LOCK);
        return;
    case PAINT_ESCAPE:
    case PAINT_BACKSPACE:
        go_back(shown);
        return;
    case '/':
        shown->prompt = "/";
        return;
    case 's':
        shown->sort = (shown->sort + 1) % SORTS;
        return;
    case ' ':
        shown->paused = !shown->paused;
        return;
    case '+':
    case '-':
        faster(shown, key == '+');
        return;
    case 'y':
        copy_command(top);
        return;
    case 'b':
        ask_token(top);
        return;
    case 'q':
        top->quit = true;
        return;
    default:
        return;
    }
}

static void take_key(struct top *top, int key) {
    if (key == PAINT_RESIZE)
        return;
    if (top->shown->prompt != NULL) {
        answer_key(top, key);
        return;
    }
    top->shown->message[0] = '\0';
    if (!move_key(top, key))
        command_key(top, key);
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------- */

static void draw(struct top *top) {
    struct look none = {.time_ms = wall_ms()};

    paint_size(&top->page.columns, &top->page.rows);
    page_draw(&top->page, top->shown, top->seen ? look_now(top) : &none, &top->history);
    paint_page(&top->page);
}

static int time_to_wait(const struct top *top) {
    if (top->shown->paused || top->shown->ended || top->source->asked)
        return -1;
    return poll_timeout(top->due);
}

/* One turn. Returns the signal that is to end us; 0: none. */
static int turn(struct top *top) {
    struct pollfd fds[3] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = signal_pipe[0], .events = POLLIN},
                            {.fd = source_fd(top->source), .events = POLLIN}};
    struct look look;
    char number;
    int key;

    poll(fds, 3, time_to_wait(top));
    if (read(signal_pipe[0], &number, 1) == 1)
        return number;
    if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
        return SIGHUP;
    while (!top->quit && (key = paint_key()) != PAINT_NONE) {
        take_key(top, key);
        draw(top); /* the next key is about what this one has selected */
    }
    if (fds[2].revents & POLLIN)
        got(top, source_take(top->source, &look), &look);
    if (!top->shown->paused && !top->source->asked && now_ms() >= top->due)
        look_on(top);
    draw(top);
    return 0;
}

int top_run(struct source *source, struct shown *shown) {
    struct top top = {.source = source, .shown = shown, .page = {.ascii = !is_utf8()}};
    int ended_by = 0;

    if (!history_init(&top.history) || !catch_signals()) {
        say("out of memory or descriptors");
        return EXIT_SYSTEM;
    }
    if (!paint_start())
        return EXIT_USAGE;
    look_on(&top);
    draw(&top);
    while (!top.quit && ended_by == 0)
        ended_by = turn(&top);
    paint_end();
    for (int i = 0; i < 2; i++)
        look_finish(&top.looks[i]);
    history_finish(&top.history);
    page_finish(&top.page);
    if (ended_by != 0)
        end_by(ended_by);
    return top.status;
}
