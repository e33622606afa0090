/* SPDX-License-Identifier: Apache-2.0
 *
 * paint.h - the terminal of `pawl top`, by ncurses. It is as it was before when paint_end() returns, and while the program is stopped.
 */
#ifndef PAWL_CLI_PAINT_H
#define PAWL_CLI_PAINT_H

#include "page.h"

/* Keys that are no characters; characters are their bytes. */
enum paint_key {
    PAINT_NONE = -1,
    PAINT_UP = 1000,
    PAINT_DOWN,
    PAINT_PAGE_UP,
    PAINT_PAGE_DOWN,
    PAINT_HOME,
    PAINT_END,
    PAINT_ENTER,
    PAINT_ESCAPE,
    PAINT_BACKSPACE,
    PAINT_RESIZE,
};

/* False: this terminal is not known, and that was said. */
bool paint_start(void);
void paint_end(void);
/* How large the terminal is now. */
void paint_size(int *columns, int *rows);
void paint_page(const struct page *page);
/* The next key that was pressed; PAINT_NONE: none. Never waits. */
int paint_key(void);
/* Ask the terminal to put this into its clipboard (OSC 52). */
void paint_copy(const char *text);

#endif
