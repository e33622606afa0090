/* SPDX-License-Identifier: Apache-2.0
 *
 * paint.c - the terminal of `pawl top`, by ncurses.
 *
 * ncurses repaints what has changed, knows terminals, sizes and keys, and hands the terminal back on SIGTSTP and takes it again on SIGCONT.
 * Colour is a help and never the only sign; with NO_COLOR there is none.
 */
#include "paint.h"

#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SCREEN *screen;

bool paint_start(void) {
    const char *terminal = getenv("TERM");

    setlocale(LC_CTYPE, ""); /* numbers stay as files have them */
    set_escdelay(50);
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        say("the terminal '%s' is not known: set TERM, or use pawl top --once", terminal != NULL ? terminal : "");
        return false;
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    const char *no_color = getenv("NO_COLOR");
    if ((no_color == NULL || no_color[0] == '\0') && has_colors()) {
        start_color();
        use_default_colors();
        init_pair(STYLE_WARN, COLOR_YELLOW, -1);
        init_pair(STYLE_BAD, COLOR_RED, -1);
    }
    return true;
}

void paint_end(void) {
    if (screen == NULL)
        return;
    endwin();
    delscreen(screen);
    screen = NULL;
}

void paint_size(int *columns, int *rows) {
    getmaxyx(stdscr, *rows, *columns);
}

static attr_t attributes_of(const struct page_line *line) {
    static const attr_t styles[STYLES] = {[STYLE_HEAD] = A_BOLD, [STYLE_DIM] = A_DIM, [STYLE_BAD] = A_BOLD};

    return styles[line->style] | (line->selected ? A_REVERSE : 0);
}

void paint_page(const struct page *page) {
    erase();
    for (size_t i = 0; i < page->count && (int)i < page->rows; i++) {
        const struct page_line *line = &page->lines[i];

        attr_set(attributes_of(line), (short)(line->style == STYLE_WARN || line->style == STYLE_BAD ? line->style : 0), NULL);
        if (line->selected)
            mvhline((int)i, 0, ' ', page->columns);
        mvaddstr((int)i, 0, line->text);
    }
    attr_set(A_NORMAL, 0, NULL);
    refresh();
}

int paint_key(void) {
    static const struct {
        int ours, theirs;
    } keys[] = {{PAINT_UP, KEY_UP},     {PAINT_DOWN, KEY_DOWN},    {PAINT_PAGE_UP, KEY_PPAGE}, {PAINT_PAGE_DOWN, KEY_NPAGE},
                {PAINT_HOME, KEY_HOME}, {PAINT_END, KEY_END},      {PAINT_ENTER, KEY_ENTER},   {PAINT_ENTER, '\r'},
                {PAINT_ENTER, '\n'},    {PAINT_ESCAPE, 27},        {PAINT_BACKSPACE, 127},     {PAINT_BACKSPACE, KEY_BACKSPACE},
                {PAINT_BACKSPACE, 8},   {PAINT_RESIZE, KEY_RESIZE}};
    int key = getch();

    if (key == ERR)
        return PAINT_NONE;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (key == keys[i].theirs)
            return keys[i].ours;
    return key < 256 ? key : PAINT_NONE;
}

static void write_base64(FILE *out, const char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = strlen(text);

    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        unsigned three = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);

        fprintf(out, "%c%c%c%c", digits[three >> 18], digits[three >> 12 & 63], left > 1 ? digits[three >> 6 & 63] : '=',
                left > 2 ? digits[three & 63] : '=');
    }
}

void paint_copy(const char *text) {
    fputs("\033]52;c;", stdout);
    write_base64(stdout, text);
    fputs("\a", stdout);
    fflush(stdout);
}
