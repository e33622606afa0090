/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook_main.c - `pawl torture` and nothing else, with the textbook engine: whatever it starts, it tortures the textbook's locks on it.
 */
#include "../cli/cli.h"

int main(int argc, char **argv) {
    return command_torture(argc - 1, argv + 1);
}
