/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - of pawl-bench, pawl-servers and pawl-torture; `pawl bench` and `pawl torture` become two of them. PAWL_LAB is the function
 * that does the work.
 */
#include "../cli/common/cli.h"

int PAWL_LAB(int argc, char **argv);

int main(int argc, char **argv) {
    return open_standard_descriptors() ? PAWL_LAB(argc, argv) : EXIT_SYSTEM;
}
