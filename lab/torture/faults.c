/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.c - see faults.h.
 */
#include "faults.h"

#include <string.h>

const struct fault_class fault_classes[FAULT_KINDS] = {
#define FAULT_CLASS(name, word, lane, needs) {word, lane, needs},
    FAULTS(FAULT_CLASS)
#undef FAULT_CLASS
};

enum fault fault_find(const char *word, size_t length) {
    for (int i = 0; i < FAULT_KINDS; i++)
        if (strlen(fault_classes[i].word) == length && memcmp(fault_classes[i].word, word, length) == 0)
            return (enum fault)i;
    return FAULT_KINDS;
}
