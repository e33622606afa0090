/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - pawl status --check: a question that the exit status answers, for scripts and monitoring.
 */
#include "status.h"

#include <string.h>

#include "common/cli.h"

bool check_fits(const struct check_options *options, const struct lock_seen *lock) {
    if (options->held_longer_ms < 0 && options->waiters == 0)
        return lock->holders > 0;
    return (options->held_longer_ms >= 0 && lock->held_ms > options->held_longer_ms) ||
           (options->waiters > 0 && lock->waiters >= options->waiters);
}

static void print_lock(FILE *out, const struct lock_seen *lock) {
    char name[1024], held[64];

    printable(name, sizeof name, lock->name);
    if (lock->holders == 0)
        fprintf(out, "'%s' is free", name);
    else if (lock->held_ms < 0)
        fprintf(out, "'%s' is held", name);
    else
        fprintf(out, "'%s' is held for %s", name, duration_in_words(held, sizeof held, lock->held_ms));
    fprintf(out, lock->waiters == 1 ? ", and %zu waits\n" : ", and %zu wait\n", lock->waiters);
}

/* Of a lock that was asked for by name what was seen is said in any case. */
static bool check_place(FILE *out, const struct check_options *options, const struct place *place, const char *name) {
    char shown[1024];
    bool fits = false;

    for (size_t i = 0; i < place->count; i++) {
        bool this_one = check_fits(options, &place->locks[i]);

        fits |= this_one;
        if (!options->quiet && options->held_longer_ms >= 0 && place->locks[i].holders > 0 && place->locks[i].held_ms < 0)
            say("'%s' is held by a program that does not tell since when: --held-longer can't say",
                printable(shown, sizeof shown, place->locks[i].name));
        if (!options->quiet && (this_one || name != NULL))
            print_lock(out, &place->locks[i]);
    }
    if (!options->quiet && name != NULL && place->count == 0)
        print_lock(out, &(struct lock_seen){.name = name, .held_ms = -1});
    return fits;
}

int check_look(FILE *out, const struct check_options *options, const struct look *look, const char *name) {
    bool fits = false;

    for (size_t i = 0; i < look->count; i++)
        if (look->places[i].code == 0)
            fits |= check_place(out, options, &look->places[i], name);
    return fits ? 0 : EXIT_NO;
}
