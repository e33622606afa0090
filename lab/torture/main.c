/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - pawl torture: the command line, and the verdict.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../cli/common/options.h"
#include "check.h"
#include "nemesis.h"
#include "../servers/network.h"

static const char help[] = "Usage: pawl torture [-u URL | --start SERVICE] [OPTION]...\n"
                           "       pawl torture --check FILE\n"
                           "\n"
                           "Run clients that acquire and release locks under faults, write down what each of\n"
                           "them saw, and judge whether a lock was ever held twice, a token used twice, an\n"
                           "update or a wake-up lost, or anything left behind.\n"
                           "\n"
                           "  -u, --url URL        torture the locks there; only clients are hurt\n"
                           "      --start SERVICE  start servers of its own, and hurt them too (local)\n"
                           "      --clients N      client processes (8)\n"
                           "      --threads N      threads of each (2)\n"
                           "      --locks N        locks, of the kinds in turn (3)\n"
                           "      --kinds LIST     mutex,rwlock,semaphore (all)\n"
                           "      --time T         for how long (10s)\n"
                           "      --faults LIST    such as client-kill,cut; all, none (all that can be)\n"
                           "      --least N        how often each must take effect (1)\n"
                           "      --pace PERCENT   how fast they follow each other (100)\n"
                           "      --seed N         the same seed gives the same schedule (drawn)\n"
                           "      --lease T        lease or session time (2s)\n"
                           "      --options TEXT   options of the URL, such as handoff=0&layout=plain\n"
                           "      --hold T         hold for up to this long (mostly for a moment)\n"
                           "  -o, --output FILE    the history (pawl-torture.history)\n"
                           "      --schedule       print what would happen when, and do nothing\n"
                           "      --check FILE     judge a history that is there already\n"
                           "      --help           this text; the whole story is in pawl-torture(1)\n"
                           "\n"
                           "Services\n"
                           "  %s\n"
                           "\n"
                           "Exit status: 0 every check held and every fault took effect, 65 not so, and else\n"
                           "as of pawl run.\n"
                           "\n"
                           "Examples\n"
                           "  pawl torture --time 1m                          the embedded engine\n"
                           "  pawl torture --start redis --faults cut,server-stop\n"
                           "  pawl torture -u zk://zoo1,zoo2,zoo3/torture --faults client-kill\n";

enum {
    OPTION_START = 512,
    OPTION_CLIENTS,
    OPTION_THREADS,
    OPTION_LOCKS,
    OPTION_KINDS,
    OPTION_TIME,
    OPTION_FAULTS,
    OPTION_LEAST,
    OPTION_PACE,
    OPTION_SEED,
    OPTION_OPTIONS,
    OPTION_HOLD,
    OPTION_SCHEDULE,
    OPTION_CHECK,
    OPTION_WORKER,
};

static const struct option long_options[] = {
    {"url", required_argument, NULL, 'u'},
    {"output", required_argument, NULL, 'o'},
    {"start", required_argument, NULL, OPTION_START},
    {"clients", required_argument, NULL, OPTION_CLIENTS},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"locks", required_argument, NULL, OPTION_LOCKS},
    {"kinds", required_argument, NULL, OPTION_KINDS},
    {"time", required_argument, NULL, OPTION_TIME},
    {"faults", required_argument, NULL, OPTION_FAULTS},
    {"least", required_argument, NULL, OPTION_LEAST},
    {"pace", required_argument, NULL, OPTION_PACE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {"options", required_argument, NULL, OPTION_OPTIONS},
    {"hold", required_argument, NULL, OPTION_HOLD},
    {"schedule", no_argument, NULL, OPTION_SCHEDULE},
    {"check", required_argument, NULL, OPTION_CHECK},
    {"worker", required_argument, NULL, OPTION_WORKER}, /* of the rig's own */
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct arguments {
    struct rig_options rig;
    const char *faults, *check;
    bool has_seed, only_schedule;
    struct oracle oracle;
    char shim[PATH_MAX];
};

/* ---- Reading the command line --------------------------------------------------------------------------------------------- */

static int set_count(const char *name, const char *text, uint64_t limit, int *ret) {
    uint64_t number;

    if (!parse_number(text, limit, &number) || number == 0)
        return usage_error("--%s wants a number from 1 to %" PRIu64 ", not '%s'", name, limit, text);
    *ret = (int)number;
    return 0;
}

static int set_span(const char *name, const char *text, int64_t *ret) {
    if (!parse_duration(text, ret) || *ret == 0)
        return usage_error("--%s wants a length of time above 0, such as 30s or 5m, not '%s'", name, text);
    return 0;
}

static int set_kinds(const char *text, bool kinds[3]) {
    static const char *const words[] = {[PAWL_MUTEX] = "mutex", [PAWL_RWLOCK] = "rwlock", [PAWL_SEMAPHORE] = "semaphore"};

    kinds[0] = kinds[1] = kinds[2] = false;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int found = -1;

        for (int i = 0; i < 3; i++)
            if (strlen(words[i]) == length && memcmp(words[i], at, length) == 0)
                found = i;
        if (found < 0)
            return usage_error("--kinds wants a list of mutex, rwlock and semaphore, not '%s'", text);
        kinds[found] = true;
        at += length;
        if (*at == '\0')
            return 0;
    }
}

static int set_service(const char *word, const struct service **ret) {
    *ret = service_find(word);
    return *ret != NULL ? 0 : usage_error("--start knows the services %s, not '%s'", service_words(), word);
}

static int take_argument(struct arguments *arguments, int option) {
    struct rig_options *rig = &arguments->rig;
    int pace = 0;
    int status = 0;

    switch (option) {
    case 'u':
        rig->url = optarg;
        return 0;
    case 'o':
        rig->history = optarg;
        return 0;
    case OPTION_START:
        return set_service(optarg, &rig->service);
    case OPTION_CLIENTS:
        return set_count("clients", optarg, RIG_CLIENTS_MAX, &rig->clients);
    case OPTION_THREADS:
        return set_count("threads", optarg, RIG_THREADS_MAX, &rig->threads);
    case OPTION_LOCKS:
        return set_count("locks", optarg, RIG_LOCKS_MAX, &rig->locks);
    case OPTION_KINDS:
        return set_kinds(optarg, rig->kinds);
    case OPTION_TIME:
        return set_span("time", optarg, &rig->schedule.time_ms);
    case OPTION_FAULTS:
        arguments->faults = optarg;
        return 0;
    case OPTION_LEAST:
        if (!parse_number(optarg, UINT32_MAX, &rig->least))
            return usage_error("--least wants a number, not '%s'", optarg);
        return 0;
    case OPTION_PACE:
        status = set_count("pace", optarg, 10000, &pace);
        rig->schedule.pace = status == 0 ? (unsigned)pace : 0;
        return status;
    case OPTION_SEED:
        arguments->has_seed = true;
        if (!parse_number(optarg, UINT64_MAX, &rig->schedule.seed))
            return usage_error("--seed wants a number, not '%s'", optarg);
        return 0;
    case OPTION_LEASE:
        return set_span("lease", optarg, &rig->schedule.lease_ms);
    case OPTION_HOLD:
        return set_span("hold", optarg, &rig->hold_ms);
    case OPTION_OPTIONS:
        rig->url_options = optarg;
        return 0;
    case OPTION_SCHEDULE:
        arguments->only_schedule = true;
        return 0;
    case OPTION_CHECK:
        arguments->check = optarg;
        return 0;
    default:
        return usage_error("option not understood");
    }
}

/* ---- Which faults --------------------------------------------------------------------------------------------------------- */

/* The engine's word in the table, by the URL's scheme. */
static const char *engine_of(const char *url) {
    if (url == NULL || strncmp(url, "local:", 6) == 0)
        return "local";
    if (strncmp(url, "zk", 2) == 0)
        return strchr(url, ',') != NULL ? "zookeeper3" : "zookeeper";
    return "redis";
}

/* NULL: it can be caused here; else why not. */
static const char *hindrance(const struct arguments *arguments, enum fault fault) {
    const struct rig_options *rig = &arguments->rig;
    unsigned needs = fault_classes[fault].needs;

    if (!arguments->oracle.faults[fault].known)
        return "docs/guarantees.md says nothing of it for this engine";
    if (needs & (NEEDS_SERVERS | NEEDS_PROXY | NEEDS_NAMESPACES | NEEDS_LOCAL | NEEDS_FILES) && rig->service == NULL)
        return "it can only be done to what pawl torture started itself: use --start";
    if (needs & (NEEDS_PROXY | NEEDS_SERVERS | NEEDS_NAMESPACES) && rig->service->topology->count == 0)
        return "there is no server";
    if (needs & NEEDS_LOCAL && rig->service->topology->count > 0)
        return "only local: has files here";
    if (needs & NEEDS_NAMESPACES)
        return network_hindrance();
    if (needs & NEEDS_CLOCK && rig->shim == NULL)
        return "the library that makes clocks lie is missing (it is built with the tests; $PAWL_CLOCK_SHIM names it)";
    if (rig->service != NULL && rig->service->lacks != NULL)
        return rig->service->lacks(fault);
    return NULL;
}

static int choose_fault(struct arguments *arguments, const char *word, size_t length) {
    enum fault fault = fault_find(word, length);

    if (fault == FAULT_KINDS)
        return usage_error("there is no fault '%.*s'; docs/guarantees.md lists them", (int)length, word);
    const char *why = hindrance(arguments, fault);

    if (why != NULL)
        return usage_error("%.*s can't be caused: %s", (int)length, word, why);
    arguments->rig.schedule.faults[fault] = true;
    return 0;
}

static int choose_faults(struct arguments *arguments) {
    const char *list = arguments->faults;
    int status = 0;

    if (list == NULL || strcmp(list, "all") == 0) {
        for (int i = 0; i < FAULT_KINDS; i++) {
            const char *why = hindrance(arguments, (enum fault)i);

            arguments->rig.schedule.faults[i] = why == NULL;
            if (why != NULL && arguments->oracle.faults[i].known)
                printf("left out   %s: %s\n", fault_classes[i].word, why);
        }
        return 0;
    }
    if (strcmp(list, "none") == 0)
        return 0;
    for (const char *at = list; status == 0; at++) {
        size_t length = strcspn(at, ",");

        status = choose_fault(arguments, at, length);
        at += length;
        if (*at == '\0')
            break;
    }
    return status;
}

/* It is beside the tests of the build that this program is of. */
static void find_shim(struct arguments *arguments) {
    const char *given = getenv("PAWL_CLOCK_SHIM");
    char self[PATH_MAX] = "";

    if (given == NULL) {
        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 64);
        char *slash = length > 0 ? strrchr(self, '/') : NULL;

        if (slash == NULL)
            return;
        snprintf(arguments->shim, sizeof arguments->shim, "%.*s/tests/libclock_shim.so", (int)(slash - self), self);
    } else {
        snprintf(arguments->shim, sizeof arguments->shim, "%s", given);
    }
    if (access(arguments->shim, R_OK) == 0)
        arguments->rig.shim = arguments->shim;
}

/* ---- The verdict ---------------------------------------------------------------------------------------------------------- */

static void print_faults(const struct verdict *verdict) {
    for (int i = 0; i < FAULT_KINDS; i++)
        if (verdict->strokes[i] > 0)
            printf("%-10s %-20s %8" PRIu64 " times, %" PRIu64 " took effect\n", i == 0 ? "faults" : "", fault_classes[i].word,
                   verdict->strokes[i], verdict->hits[i]);
}

static void print_verdict(const struct verdict *verdict, const char *file) {
    printf("acquires   %" PRIu64 ": %" PRIu64 " exclusive, %" PRIu64 " shared, %" PRIu64 " of semaphores; %" PRIu64
           " refused, %" PRIu64 " timed out, %" PRIu64 " cancelled, %" PRIu64 " without a server, %" PRIu64 " otherwise\n",
           verdict->attempts, verdict->exclusive, verdict->shared, verdict->permits, verdict->held, verdict->timed_out,
           verdict->cancelled, verdict->unreachable, verdict->other);
    printf("           %" PRIu64 " entered again, %" PRIu64 " downgraded, %" PRIu64 " told as lost, %" PRIu64
           " seen waiting, %" PRIu64 " clients killed",
           verdict->reentries, verdict->downgrades, verdict->lost, verdict->watched, verdict->kills);
    if (verdict->torn > 0)
        printf(", %" PRIu64 " of them in mid-record", verdict->torn);
    putchar('\n');
    printf("store      %" PRIu64 " updates, %" PRIu64 " refused for an old token\n", verdict->accepted, verdict->refused);
    printf("values     %" PRIu64 " written or read\n", verdict->values);
    printf("overlaps   %" PRIu64 " that docs/guarantees.md allows\n", verdict->overlaps);
    print_faults(verdict);
    for (size_t i = 0; i < verdict->texts; i++)
        printf("VIOLATION  %s: %s\n", rule_names[verdict->first[i].rule], verdict->first[i].text);
    if (verdict->total == 0) {
        printf("verdict    every check held (%s)\n", file);
        return;
    }
    printf("verdict    %" PRIu64 " violations:", verdict->total);
    for (int i = 0; i < RULE_COUNT; i++)
        if (verdict->violations[i] > 0)
            printf(" %s %" PRIu64, rule_names[i], verdict->violations[i]);
    printf(" (%s)\n", file);
}

static int judge(const char *path) {
    struct verdict *verdict = malloc(sizeof *verdict);
    struct check *check = check_new(oracle_text);
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int status = EXIT_SYSTEM;

    if (file == NULL) {
        say("cannot read %s: %s", path, strerror(errno));
        status = EXIT_STORAGE;
    } else if (verdict == NULL || check == NULL) {
        say("out of memory");
    } else {
        while ((length = getline(&line, &room, file)) > 0)
            check_line(check, line, (size_t)length - (line[length - 1] == '\n'));
        check_finish(check, verdict);
        print_verdict(verdict, path);
        status = finish_output(verdict->total == 0 ? 0 : EXIT_MISMATCH);
    }
    if (file != NULL)
        fclose(file);
    free(line);
    check_free(check);
    free(verdict);
    return status;
}

/* ---- Modes ---------------------------------------------------------------------------------------------------------------- */

static int print_schedule(const struct schedule_options *options) {
    struct schedule schedule;

    if (!schedule_make(options, options->time_ms - schedule_calm_ms(options), &schedule)) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    for (size_t i = 0; i < schedule.count; i++)
        printf("%8" PRId64 " ms  %-18s for %6" PRId64 " ms, target %" PRIu64 "\n", schedule.strokes[i].at_ms,
               fault_classes[schedule.strokes[i].fault].word, schedule.strokes[i].span_ms, schedule.strokes[i].target);
    schedule_free(&schedule);
    return finish_output(0);
}

/* `--worker client,SLOT,LIFE,PAGE,HISTORY`: the rig's own doing. */
static int work(const char *role) {
    int slot, page_fd;
    unsigned life;
    struct history history;
    struct page *page;

    if (sscanf(role, "%*[a-z],%d,%u,%d,%d", &slot, &life, &page_fd, &history.fd) != 4)
        return usage_error("--worker is for pawl torture itself");
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
    if (page == MAP_FAILED)
        return EXIT_SYSTEM;
    history.began = page->began;
    return role[0] == 'o' ? observer_main(page, &history) : client_main(page, &history, slot, life);
}

static int prepare(struct arguments *arguments) {
    struct rig_options *rig = &arguments->rig;
    char why[256];

    if (rig->url != NULL && rig->service != NULL)
        return usage_error("-u and --start exclude each other: torture what is there, or start something");
    if (rig->url == NULL && rig->service == NULL)
        rig->service = &local_service;
    if (rig->service != NULL && rig->service->mutex_only)
        rig->kinds[PAWL_RWLOCK] = rig->kinds[PAWL_SEMAPHORE] = false;
    rig->engine = rig->service != NULL ? rig->service->engine : engine_of(rig->url);
    if (!oracle_read(oracle_text, rig->engine, &arguments->oracle, why, sizeof why))
        return usage_error("%s", why);
    if (strcmp(rig->engine, "local") == 0)
        rig->schedule.lease_ms = 0;
    if (!arguments->has_seed)
        rig->schedule.seed = (uint64_t)wall_ms() % 1000000;
    find_shim(arguments);
    return choose_faults(arguments);
}

int command_torture(int argc, char **argv);

int command_torture(int argc, char **argv) {
    struct arguments arguments = {
        .rig = {.history = "pawl-torture.history",
                .clients = 8,
                .threads = 2,
                .locks = 3,
                .kinds = {true, true, true},
                .least = 1,
                .schedule = {.time_ms = 10000, .lease_ms = 2000, .pace = 100}},
    };
    int option, status;

    opterr = 0;
    while ((option = getopt_long(argc, argv, ":u:o:", long_options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            printf(help, service_words());
            return finish_output(0);
        }
        if (option == OPTION_WORKER)
            return work(optarg);
        if (option == ':' || option == '?')
            return bad_option(option, argv, "torture");
        status = take_argument(&arguments, option);
        if (status != 0)
            return status;
    }
    if (optind < argc)
        return usage_error("pawl torture takes options only, and there is '%s'", argv[optind]);
    if (arguments.check != NULL)
        return judge(arguments.check);
    status = prepare(&arguments);
    if (status != 0)
        return status;
    if (arguments.only_schedule)
        return print_schedule(&arguments.rig.schedule);
    printf("torture    %s, seed %" PRIu64 ", %" PRId64 " s\n", arguments.rig.engine, arguments.rig.schedule.seed,
           arguments.rig.schedule.time_ms / 1000);
    fflush(stdout);
    status = rig_run(&arguments.rig);
    return status != 0 ? status : judge(arguments.rig.history);
}
