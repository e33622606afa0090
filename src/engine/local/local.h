/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h - the embedded engine's own objects, and what its files offer each other.
 *
 * From the top; a file calls files of the lines below its own, or to its left.
 *
 *     engine.c   the operations of the seam
 *     survey.c   inspection and break             examine.c  for `pawl doctor`            serve.c    claims that the service thread has
 *                                                 value.c    values beside locks
 *     attach.c   the table: create, heal          look.c     looking without taking part  wait.c     park and unpark
 *     claim.c    submit, withdraw, downgrade, rest, resume, retoken, check
 *     recover.c  cleaning up after the dead
 *     guard.c    the bucket's guard, and taking it from the dead
 *     list.c     the list, the grant rule: pure   pool.c     whose nodes are free         channel.c  waking those who poll
 *     process.c  what /proc knows of a process    slot.c     who is attached, and alive   token.c    the ceiling of tokens
 *     files.c    opening and making files; where the directory is
 *
 * Locks inside the process, all leaves: pool.mutex, channels.mutex, served.mutex. None is ever held together with a bucket's guard,
 * nor across a system call that may wait for anybody.
 */
#ifndef PAWL_LOCAL_H
#define PAWL_LOCAL_H

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/local/format.h"

enum {
    GRANTS_MAX = 32,            /* granted in one visit of the guard; the rest in the next */
    WAKES_MAX = GRANTS_MAX + 4, /* and whom else to wake: the one behind, the one passed over */
    WATCHES_MAX = 64, /* sessions that one waiter watches; the rest it tests now and then: the application needs descriptors, too */
    SPARES_MAX = 3,   /* buckets that keep a free node at hand, for who is in their guard */
    SPARE_SHELVES = 4,  /* free nodes that are taken without a lock */
    SPARE_NODES = 64,   /* free nodes that a process keeps */
    KEEPS_MAX = 1024,   /* claims of a process that may stay in the table while nobody holds them */
    CHANNELS_KEPT = 16, /* idle wake channels that a process keeps open */
};

#define MS INT64_C(1000000) /* of nanoseconds */

/* Free nodes of this process. Blocks are claimed in the table; which of their nodes are free only this process knows. */
struct pool {
    pthread_mutex_t mutex;
    uint8_t *free_mask;           /* per block, one bit per node */
    uint32_t *after, *before;     /* per block: list of the blocks with free nodes; index + 1 */
    _Atomic uint32_t *spares;     /* per bucket: a free node; SPARE_OUT: it is in use; 0: this bucket keeps none */
    _Atomic uint32_t spare_count; /* buckets that do */
    size_t map_size;
    uint32_t first;      /* of that list; index + 1 */
    uint32_t free_count; /* nodes */
    uint32_t rotor;      /* where to look for a free block next */
};

/* A FIFO of our own that others write to, to wake a thread of ours that polls. */
struct channel {
    int fd;
    uint32_t number;
    bool busy;
    struct channel *next;
};

struct shelf {
    _Atomic uint32_t ref;
    char padding[60]; /* no shelf shares a cache line */
};

/* The claims that the service thread waits for. All but the first three are the serving thread's own. */
struct served {
    pthread_mutex_t mutex;
    struct local_claim *claims; /* all of them; only serve() takes claims out */
    _Atomic bool woken;
    struct channel *_Atomic channel;
    LIST_HEAD(, wait) waits; /* theirs */
    uint32_t breaks_seen;
    struct pollfd *fds;
    size_t fd_count;
};

/* Where the directory was when it was opened. */
struct whereabouts {
    char *table; /* its path */
    dev_t device, root_device;
    ino_t inode, root_inode;
    ino_t mounts; /* the mount namespace */
    bool known;   /* the path led to the table when it was opened */
};

/* What the files of the directory are made as. */
struct file_modes {
    mode_t file, directory; /* what files and s/ get, under any umask */
    uid_t uid;              /* who should own them; -1: as they come */
    gid_t gid;
};

/* All channels of this process. */
struct channels {
    pthread_mutex_t mutex;
    struct channel *all; /* the newest first; each stays until the end */
    uint32_t count;
};

/* With `look`: what is only looked at. */
struct looking {
    pthread_mutex_t mutex;          /* guards the copy */
    struct pawl__identity identity; /* for a break */
    bool absent;                    /* it is a copy of nothing: there are no locks */
};

struct local {
    struct pawl__engine engine;
    struct table *table;
    uint32_t slot, generation;
    uint64_t owner;           /* owner_word, */
    uint64_t guard;           /* guard_word, */
    uint64_t live;            /* session_word of this session */
    _Atomic int64_t look_ms;  /* when to look next whether the directory is still there */
    _Atomic int64_t looked_s; /* in which second we looked last */
    _Atomic bool gone;
    _Atomic uint32_t keeping; /* claims that may be kept, held or not */
    bool inherit;
    bool is_default; /* the directory was chosen by us, and its parents are made, too */
    bool look;       /* only to look: `table` is a copy (look.c), and there is no session */
    char *path, *url;
    int directory_fd, sessions_fd, table_fd;
    _Atomic int lifeline_fd;
    int pulse_fd; /* with `inherit`; else -1 */
    struct whereabouts whereabouts;
    struct file_modes modes;
    struct shelf shelves[SPARE_SHELVES];
    struct pool pool;
    struct channels channels;
    struct served served;
    struct looking looking;
};

/* What a claim waits for. */
enum phase {
    PHASE_NONE,        /* held, or gone */
    PHASE_UNLINKED,    /* has a node that is in no list yet: to be linked */
    PHASE_WAITING,     /* linked */
    PHASE_LEAVING,     /* to be taken out */
    PHASE_DOWNGRADING, /* to be made shared */
    PHASES,
};

/* What moves it on: claim.c has the table. */
enum phase_event {
    EVENT_POSTPONED,   /* the guard was busy at submit, or somebody is in the way of one that does not queue */
    EVENT_QUEUED,      /* linked behind others */
    EVENT_HELD,        /* linked with nobody in the way, or granted */
    EVENT_PASSED_OVER, /* was granted, and did not claim in time */
    EVENT_WITHDRAWN,   /* to be let go, and not yet */
    EVENT_DOWNGRADED,  /* to be made shared, and not yet */
    EVENT_SHARED,      /* was made so */
    EVENT_GONE,        /* refused or let go: it has no node */
    EVENTS,
};

struct watch {
    uint64_t owner;
    int fd;
    bool mark; /* still wanted, while the set is renewed */
};

/* A set of sessions whose death is to be noticed. */
struct watches {
    unsigned count;
    struct watch all[WATCHES_MAX];
};

/* A node that was granted and has not claimed: its process is stopped, or will claim in a moment. */
struct slow_claimer {
    uint32_t ref; /* 0: none */
    uint64_t token;
    int64_t until; /* how long it may take, by the clock of who watches it */
};
#define CLAIM_WITHIN (100 * MS)

/* What a waiter remembers between two looks at the queue. */
struct wait {
    LIST_ENTRY(wait) link; /* served.waits */
    struct watches watches;
    uint64_t *owners; /* of those in the way, as the last look found them: `few`, or more on the heap */
    size_t room;
    uint64_t few[WATCHES_MAX];
    size_t turn;              /* where among them to go on testing */
    int64_t tick;             /* when to look again in any case */
    unsigned immediate_looks; /* consecutive immediate looks */
    unsigned refused;         /* how often in a row the guard was busy */
    struct slow_claimer slow_claimer;
};

struct local_claim {
    struct pawl__claim *claim;
    _Atomic uint32_t ref; /* its node; 0: none */
    uint8_t phase;        /* enum phase */
    bool waited_long;     /* it has waited long enough to be worth a channel */
    bool keeps;           /* counted in local->keeping */
    _Atomic bool let_go;  /* released, and its node stands as one that is kept */
    _Atomic bool unparked;
    struct channel *_Atomic channel; /* that its parked thread polls */

    /* adopted ones */
    bool adopted;
    _Atomic int wanted;   /* EVENT_WITHDRAWN or EVENT_DOWNGRADED, for serve() to start; 0: nothing */
    _Atomic bool at_rest; /* held, and serve() has nothing to do for it: its node is the core's threads' */
    struct local_claim *next;
    struct wait *wait;
    uint32_t seen;    /* the node's state when we looked last */
    int64_t retry_at; /* when to try again or look again; 0: at once */
    int64_t pause;    /* how long the guard was waited for last */

    struct slow_claimer slow_claimer; /* in the way of one that does not queue */
};

/* Unix time, coarse. */
static inline int64_t pawl__local_wall_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
/* What a free lock does not need, and what hardly anybody does: out of its way, an uncontended pair is 5 % faster. */
#define APART __attribute__((noinline))
#define COLD __attribute__((cold, noinline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

static inline struct local *local_of(const struct pawl__engine *engine) {
    return (struct local *)engine;
}
static inline struct local_claim *state_of_claim(struct pawl__claim *claim) {
    return pawl__engine_state(claim);
}

/* ---- guard.c: inside a bucket ---- */

struct wake {
    uint32_t ref, slot, channel;
};

/* A visit inside a bucket's guard, and what is to be done on leaving. */
struct guard_visit {
    struct bucket *bucket;
    unsigned wake_count;
    bool damaged;        /* the list is not what we write */
    bool more;           /* more is to be granted, or to be woken, in another visit */
    bool need_tokens;    /* a grant failed since the ceiling of tokens is reached */
    uint32_t taken_from; /* slot + 1 of the dead session that the guard was taken from; 0: it was free */
    struct wake wakes[WAKES_MAX];
};

/* Try for a moment to get inside. Never blocks, and never takes the guard from the dead. */
bool pawl__local_enter_try(struct local *local, struct guard_visit *visit, uint32_t hash);
/* Get inside; takes the guard from a dead process and repairs the list. PAWL__DONE; PAWL__PENDING at the deadline or once *stop. */
int pawl__local_enter(struct local *local, struct guard_visit *visit, uint32_t hash, int64_t deadline, const _Atomic bool *stop);
/* Leave, then wake whom we granted or poked. */
void pawl__local_leave(struct local *local, struct guard_visit *visit);
/* The session that stands in the guard of the bucket; 0: nobody. */
uint64_t pawl__local_guard_owner(struct local *local, uint32_t bucket);

/* ---- list.c: the list of a bucket. All with the guard held, and no system calls ---- */

enum verdict {
    VERDICT_HELD,
    VERDICT_WAITING,
    VERDICT_BLOCKED, /* try_only: somebody is in the way */
    VERDICT_KIND,    /* the name is in use as another kind of lock */
    VERDICT_LIMIT,   /* ... with another limit */
    VERDICT_TOKENS,  /* fits, but there is no token below the ceiling; not linked */
    VERDICT_DAMAGED,
};

uint32_t pawl__local_ref(const struct local *local, const struct node *node);
bool pawl__local_same_name(const struct node *a, const struct node *b);
/* Decide about the claim of node `ref`, which is filled and in no list, and link it unless the verdict says otherwise. */
enum verdict pawl__local_enqueue(struct local *local, struct guard_visit *visit, uint32_t ref, bool try_only);
/* Is it in the list at all? */
bool pawl__local_linked(struct local *local, struct guard_visit *visit, uint32_t ref);
/* Grant in order, among the nodes with this one's name, until the first that does not fit. */
void pawl__local_regrant(struct local *local, struct guard_visit *visit, const struct node *like);
/* Take the node out for good: unlink, FREE, grant and poke those behind. */
void pawl__local_drop(struct local *local, struct guard_visit *visit, uint32_t ref);
/* After the guard was taken from the dead: throw out half-removed nodes, rebuild the hints, grant every name again. */
void pawl__local_repair(struct local *local, struct guard_visit *visit);
/* Grant every name in the bucket again. */
void pawl__local_regrant_all(struct local *local, struct guard_visit *visit);
/* Time is up for one that was granted and does not claim: out with it; it queues again. False: it has claimed. */
bool pawl__local_pass_over(struct local *local, struct guard_visit *visit, struct node *slow_claimer);
/* The node, of which that was read before, outside of the guard: if it is still granted with this token. Meanwhile it may have gone to
 * another bucket, where tokens are counted anew, and is to be left alone in the guard of this one: NULL. */
struct node *pawl__local_find_granted(struct local *local, struct guard_visit *visit, uint32_t ref, uint64_t token);
/* Take it from its holder, who does not know. False: it does not hold. */
bool pawl__local_revoke(struct local *local, struct guard_visit *visit, struct node *holder);
/* Walk: first (ref 0) or next node; NULL at the end, or with visit->damaged. *steps bounds it. */
struct node *pawl__local_next(struct local *local, struct guard_visit *visit, const struct node *node, uint32_t *steps);
#define FOR_NODES(each, local, visit, steps)                                                                                       \
    for (struct node *each = pawl__local_next(local, visit, NULL, steps); each; each = pawl__local_next(local, visit, each, steps))
/* The nearest node with the name of `like` before this one (NULL: before the end). Who goes on from what was found goes on counting
 * steps: a damaged list may lead in a circle. */
struct node *pawl__local_before(struct local *local, struct guard_visit *visit, const struct node *from, const struct node *like,
                                uint32_t *steps);
/* One more token for the bucket. 0: the ceiling is reached. */
uint64_t pawl__local_token(struct local *local, struct bucket *bucket);

/* ---- slot.c: who is alive ---- */

/* Is this session over? Opens files: not inside a guard. What can't be told counts as alive. */
bool pawl__local_dead(struct local *local, uint64_t owner);
/* Is the process itself over, though something that it left behind may keep its holds? It is not inside any guard then. */
bool pawl__local_process_over(struct local *local, uint64_t owner);
/* The lifeline of a slot, for poll(): POLLERR when the process is gone. -1 with errno; ENXIO: it is gone already. */
int pawl__local_watch(struct local *local, uint32_t slot);
/* Claim a slot for this process. *ret_was_full: there was none, and more were made; those of the dead are to be freed. */
int pawl__local_slot_open(struct local *local, const struct pawl__identity *identity, bool *ret_was_full,
                          struct pawl_error *reterr);
void pawl__local_slot_close(struct local *local);
/* Does any process hold a lifeline under s/? For a table whose own words can't be trusted. */
bool pawl__local_anybody(struct local *local);
/* For the trace, outside of the guard: a session was passed over. */
void pawl__local_note_passed_over(struct local *local, uint32_t slot);
/* Who it is, for people. False: nobody, or it can't be read. */
bool pawl__local_identify(struct local *local, uint32_t slot, struct pawl__identity *ret);
/* The same in words: "pid 123 backup.sh". */
const char *pawl__local_who(struct local *local, uint32_t slot, char *buffer, size_t size);
#define WHO_SIZE 128
/* Has the directory been removed or renamed, or our slot been taken away? Looks at the files; makes a lifeline anew that was removed. */
bool pawl__local_gone(struct local *local);
#define LOOK_MS 5
/* The same, at the cost of a comparison, but for every LOOK_MS. */
static inline bool pawl__local_gone_cheaply(struct local *local, int64_t wall_ms) {
    int64_t look = GET(local->look_ms);

    if (__builtin_expect(wall_ms < look && wall_ms > look - 1000, 1)) /* unless the clock was set back */
        return GET(local->gone);
    return pawl__local_gone(local);
}
/* The same, but for every second: its number is the cheapest of all clocks, and releases need no other. */
static inline bool pawl__local_gone_roughly(struct local *local) {
    return __builtin_expect(time(NULL) == GET(local->looked_s), 1) ? GET(local->gone) : pawl__local_gone(local);
}
int pawl__local_fail_gone(struct local *local, struct pawl_error *reterr);
int pawl__local_fail_damaged(struct local *local, uint32_t hash, struct pawl_error *reterr);

/* ---- recover.c: after the dead ---- */

/* Take the nodes of a dead session out, free its blocks and its slot. False: a guard could not be had by the deadline. */
bool pawl__local_recover(struct local *local, uint64_t owner, int64_t deadline);
/* The same for all the dead: those in slots, and those whose slot has gone on to another generation. */
void pawl__local_recover_all(struct local *local);

/* ---- process.c ---- */

/* Write down who this process is. */
void pawl__local_introduce_process(struct session *session);
/* Is the session surely over, whose lifeline can't be opened? `removed`: since it is not there. */
bool pawl__local_surely_over(struct local *local, uint64_t owner, bool removed);
/* How many processes have the lifeline of this session, or may have it? Their numbers, as far as there is room. `removed`: its file was. */
size_t pawl__local_inheritors(const struct session *session, bool removed, int64_t pids[], size_t room);

/* ---- files.c ---- */

/* Open an existing file of this type (S_IFREG, S_IFIFO, S_IFDIR). -1 with errno; EINVAL, EISDIR, ELOOP: it is something else; EMLINK: it
 * has other names, too. */
int pawl__local_open(int at, const char *name, int flags, mode_t type);
/* Give what was found, and is ours to change, the mode that the directory says. */
void pawl__local_adjust(struct local *local, int fd);
/* The same, but make it if it is not there, with all that belongs to it; a file gets `text`, unless NULL, on the disk. */
int pawl__local_open_or_make(struct local *local, int at, const char *name, int flags, mode_t type, const char *text);
/* The same for a FIFO in s/, for reading and writing. */
int pawl__local_fifo(struct local *local, const char *name);
/* Reserve space in the table. 0 or errno. */
int pawl__local_reserve(struct local *local, size_t offset, size_t length);
/* Read a small file of the kernel's, as text. False: it can't be read. */
bool pawl__local_read(const char *path, char *ret, size_t size);
/* The number of this process's namespace of a kind, as /proc/self/ns has it; 0: not known. */
ino_t pawl__local_namespace(const char *kind);
/* Has the file been removed, that we have open? */
bool pawl__local_is_removed(int fd);
/* What is in the directory. NULL with errno. */
DIR *pawl__local_list(int at);
/* Remember what the path leads to now: later it may be something else. */
int pawl__local_note_whereabouts(struct local *local, struct pawl_error *reterr);
/* Does a process that opens the directory by our path find another table than ours? */
bool pawl__local_displaced(const struct local *local);
static inline void pawl__local_close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
/* A new file with all that belongs to it but its content, under a name that nobody looks for: rename it. -1 with errno. */
int pawl__local_draft(struct local *local, int at, char *ret, size_t size);
/* Remove what makers left that were killed. Alone. */
void pawl__local_sweep(struct local *local);
/* May this process write so much to a file? If it does all the same, that may end it (SIGXFSZ). */
bool pawl__local_may_be_long(uint64_t size);

/* ---- attach.c ---- */

/* The path that the URL says, or the default one, whose parents are made. */
int pawl__local_choose_path(struct local *local, const struct pawl__url *url, struct pawl_error *reterr);
int pawl__local_attach(struct local *local, struct pawl_error *reterr);
/* Open the directory, and make it if it is not there; who only looks finds then that there is none: -1 in directory_fd. */
int pawl__local_open_directory(struct local *local, struct pawl_error *reterr);
/* Is the table, of which we have a copy, one to be looked at? DONE; PENDING: there is nothing in it. Negative: it makes no sense. */
int pawl__local_judge(struct local *local, struct pawl_error *reterr);
void pawl__local_close_files(struct local *local);
void pawl__local_detach(struct local *local);
struct filesystem {
    uint32_t magic;
    const char *name;
    bool shared; /* between machines: its locks and FIFOs are not those of one kernel */
};
/* What a file is on; NULL with errno. */
const struct filesystem *pawl__local_filesystem(int fd);

/* ---- pool.c ---- */

int pawl__local_pool_open(struct local *local, struct pawl_error *reterr);
void pawl__local_pool_close(struct local *local);
/* A free node of ours. 0, or PAWL_EFULL, PAWL_ENOSPACE, ... */
int pawl__local_node_get(struct local *local, uint32_t hash, uint32_t *ret, struct pawl_error *reterr);
void pawl__local_node_put(struct local *local, uint32_t ref, uint32_t hash);
/* The same in the guard of the bucket, at the cost of a store. 0, false: not there. */
#define SPARE_OUT UINT32_MAX
static inline bool pawl__local_has_spare(const struct local *local, uint32_t hash) {
    uint32_t ref = GET(local->pool.spares[hash & (BUCKET_COUNT - 1)]);

    return ref != 0 && ref != SPARE_OUT;
}
static inline uint32_t pawl__local_take_spare(struct local *local, uint32_t hash) {
    _Atomic uint32_t *spare = &local->pool.spares[hash & (BUCKET_COUNT - 1)];
    uint32_t ref = atomic_load_explicit(spare, memory_order_acquire);

    if (ref == 0 || ref == SPARE_OUT)
        return 0;
    SET(*spare, SPARE_OUT);
    return ref;
}
static inline bool pawl__local_put_spare(struct local *local, uint32_t ref, uint32_t hash) {
    _Atomic uint32_t *spare = &local->pool.spares[hash & (BUCKET_COUNT - 1)];

    if (GET(*spare) != SPARE_OUT)
        return false;
    SET(*spare, ref);
    return true;
}

/* ---- channel.c ---- */

/* A channel that nobody else of this process uses. NULL: no descriptors left. */
struct channel *pawl__local_channel_get(struct local *local);
void pawl__local_channel_put(struct local *local, struct channel *channel);
/* Its descriptor, to be polled by the owner of the channel; a new one if the file was removed meanwhile: nobody would find it any more. */
int pawl__local_channel_mend(struct local *local, struct channel *channel);
void pawl__local_channel_drain(const struct channel *channel);
void pawl__local_channel_ring(struct local *local, struct channel *channel); /* our own */
/* Somebody else's, which may be gone. */
void pawl__local_channel_poke(struct local *local, uint32_t slot, uint32_t number);
void pawl__local_channels_close(struct local *local);

/* ---- token.c ---- */

/* Read token.hi: the ceiling. 0, or PAWL_EFORMAT; *ret 0 if there is no such file. */
int pawl__local_tokens_read(struct local *local, uint64_t *ret, struct pawl_error *reterr);
/* Create or replace it, on the disk. */
int pawl__local_tokens_write(struct local *local, uint64_t ceiling, struct pawl_error *reterr);
/* Raise the ceiling, on the disk first. 0; PAWL_ETIMEOUT if another stands in the way till the deadline; or what went wrong. */
int pawl__local_tokens_extend(struct local *local, int64_t deadline, struct pawl_error *reterr);
#define TOKEN_STEP (UINT64_C(1) << 20)

/* ---- claim.c ---- */

pawl__submit_fn pawl__local_submit;
/* It is to be withdrawn, which takes a while. For the thread whose the node is: adopted claims have `at_rest`. */
void pawl__local_let_go(struct local *local, struct local_claim *state);
/* Of a claim that is not adopted. */
int pawl__local_withdraw(struct local *local, struct local_claim *state);
int pawl__local_downgrade(struct local *local, struct local_claim *state);
/* struct pawl__keeping */
int pawl__local_rest(struct pawl__engine *engine, struct pawl__claim *claim);
int pawl__local_resume(struct pawl__engine *engine, struct pawl__claim *claim);
bool pawl__local_is_wanted(const struct pawl__engine *engine, const struct pawl__claim *claim);
pawl__retoken_fn pawl__local_retoken;
pawl__check_fn pawl__local_check;
/* The one writer of a claim's phase. False: the event can't come now, and nothing has changed. */
bool pawl__local_step(struct local_claim *state, enum phase_event event);
/* Link a claim that is UNLINKED, waiting for the guard. DONE: held. PENDING: see state->phase. Negative: gone. */
int pawl__local_link(struct local *local, struct local_claim *state, int64_t deadline, struct pawl_error *reterr);
/* Finish what withdraw or downgrade began. */
int pawl__local_finish(struct local *local, struct local_claim *state, int64_t deadline, struct pawl_error *reterr);
/* Something went wrong while the claim waited: take it out, so that the error may be the end of it. PENDING: not possible now. */
int pawl__local_abandon(struct local *local, struct local_claim *state, int64_t deadline, int rc);
/* The node was granted (and is HELD now): tell the claim. */
void pawl__local_granted(struct local *local, struct local_claim *state);

/* ---- wait.c ---- */

pawl__park_fn pawl__local_park;
pawl__unpark_fn pawl__local_unpark;

void pawl__local_wait_init(struct wait *wait);
void pawl__local_wait_finish(struct wait *wait);
/* Fill in what to poll for them, one each. */
void pawl__local_watches_poll(const struct watches *watches, struct pollfd fds[]);
/* Close those that spoke: opening them again, in the next look, tells who is dead. True: there were some. */
bool pawl__local_watches_polled(struct watches *watches, const struct pollfd fds[]);
/* Look at the queue and at the sessions in the way, recover the dead ones, renew the watches. DONE: granted. PENDING: sleep until
 * wait->tick at most (0: don't sleep, look again); phase UNLINKED: it was passed over and must be linked again. Negative: gone. */
int pawl__local_inspect_queue(struct local *local, struct local_claim *state, struct wait *wait, int64_t deadline,
                              struct pawl_error *reterr);

/* ---- serve.c ---- */

pawl__adopt_fn pawl__local_adopt;
pawl__serve_fn pawl__local_serve;
pawl__wake_fn pawl__local_wake;
void pawl__local_serve_finish(struct local *local);
/* Have serve() start on this for an adopted claim. */
void pawl__local_serve_wants(struct local *local, struct local_claim *state, enum phase_event wanted);

/* ---- look.c ---- */

/* Make room for the copy, and read it. */
int pawl__local_look_open(struct local *local, struct pawl_error *reterr);
/* Read it anew. */
int pawl__local_look_again(struct local *local, struct pawl_error *reterr);
/* Does somebody living stand in the guard of the bucket, and not move for a moment? */
bool pawl__local_stands_still(struct local *local, uint32_t bucket);

/* ---- survey.c ---- */

int pawl__local_survey(struct local *local, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr);
int pawl__local_break(struct local *local, const char *name, uint64_t token, bool now, struct pawl_error *reterr);

/* The holder with this token, under the guard; else NULL, and the token of one that holds. */
struct node *pawl__local_find_holder(struct local *local, struct guard_visit *visit, const char *name, uint64_t token,
                                     uint64_t *ret_other);

/* ---- value.c: struct pawl__values ---- */

void pawl__local_value_sign(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl__author *ret);
int pawl__local_value_set(struct pawl__engine *engine, const struct pawl__write *write, int64_t deadline, struct pawl__stamp *ret,
                          struct pawl_error *reterr);
int pawl__local_value_get(struct pawl__engine *engine, const char *name, enum pawl__part part, enum pawl__fresh fresh,
                          int64_t deadline, struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr);
int pawl__local_observe(struct pawl__engine *engine, struct pawl__observer *observer, struct pawl_error *reterr);
void pawl__local_unobserve(struct pawl__engine *engine, struct pawl__observer *observer);

/* ---- examine.c ---- */

int pawl__local_examine(struct local *local, pawl_finding_fn *visit, void *data, struct pawl_error *reterr);

#endif
