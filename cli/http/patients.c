/* SPDX-License-Identifier: Apache-2.0
 *
 * patients.c - see patients.h.
 */
#include "patients.h"

#include <stdlib.h>

enum { PATIENTS_MAX = 64 };

struct patient {
    LIST_ENTRY(patient) link;
    struct exchange *exchange;
    int form;
};

void patients_init(struct patients *patients) {
    LIST_INIT(&patients->list);
    patients->count = 0;
}

bool patients_are_full(const struct patients *patients) {
    return patients->count >= PATIENTS_MAX;
}

bool patients_add(struct patients *patients, struct exchange *exchange, int form) {
    struct patient *patient = malloc(sizeof *patient);

    if (patient == NULL)
        return false;
    patient->exchange = exchange;
    patient->form = form;
    LIST_INSERT_HEAD(&patients->list, patient, link);
    patients->count++;
    return true;
}

struct exchange *patients_take(struct patients *patients, int *retform) {
    struct patient *patient = LIST_FIRST(&patients->list);
    struct exchange *exchange;

    if (patient == NULL)
        return NULL;
    exchange = patient->exchange;
    *retform = patient->form;
    LIST_REMOVE(patient, link);
    patients->count--;
    free(patient);
    return exchange;
}

void patients_finish(struct patients *patients) {
    int form;

    while (patients_take(patients, &form) != NULL)
        ;
}
