/* SPDX-License-Identifier: Apache-2.0
 *
 * numbers.c - see numbers.h.
 */
#include "numbers.h"

#include <stdalign.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What getdents64(2) writes. */
struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

bool visit_numbers(int directory, number_fn *visit, void *data) {
    alignas(struct directory_entry) char buffer[8192];
    long size;

    while ((size = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0) {
        struct directory_entry *entry;

        for (long at = 0; at < size; at += entry->length) {
            entry = (struct directory_entry *)(void *)(buffer + at);
            if (entry->name[0] >= '0' && entry->name[0] <= '9' && visit(directory, entry->name, data))
                return true;
        }
    }
    return false;
}
