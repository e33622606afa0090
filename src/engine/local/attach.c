/* SPDX-License-Identifier: Apache-2.0
 *
 * attach.c - the directory and the table in it: find, create, validate, heal.
 *
 * Each process that uses the table holds a shared flock on it. So an exclusive one, had without waiting, means that nobody does (but for a
 * child that inherited a lifeline: those are asked too). That is the moment to create the table, to replace one of another version,
 * another boot or no sense, and to wipe what the last process left when it was killed. Everything else is done with others alive.
 *
 * Dying in here does no harm: the exclusive flock goes with the process, the header's magic is written last and erased first, and
 * token.hi is there before the table has a byte; so the next one finds either a table that is good, or one that it may replace.
 *
 * Who may lock here is decided by the directory: all files get its mode, its group and, from root, its owner.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "os/descriptor.h"
#include "engine/local/local.h"
#include "base/error.h"
#include "base/url.h"

#define PATIENCE (5000 * MS)     /* with a process that creates or heals the table */
#define PATIENCE_FAULT (20 * MS) /* with a table that nobody heals */

/* ---- The directory ---- */

/* Make every directory on the way that is missing, for the user alone. */
static int make_parents(const char *path, struct pawl_error *reterr) {
    char *copy = strdup(path);
    int rc = 0;

    if (!copy)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    for (char *slash = strchr(copy + 1, '/'); slash && rc == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
            rc = pawl__fail_errno(reterr, "can't make the directory %s", copy);
        *slash = '/';
    }
    free(copy);
    return rc;
}

/* Where `local:` is. */
static int default_path(struct local *local, struct pawl_error *reterr) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int rc;

    if (geteuid() == 0)
        rc = asprintf(&local->path, "/var/lib/pawl");
    else if (state && state[0] == '/')
        rc = asprintf(&local->path, "%s/pawl", state);
    else if (home && home[0] == '/')
        rc = asprintf(&local->path, "%s/.local/state/pawl", home);
    else
        return pawl__fail(reterr, PAWL_EURL,
                          "`local:` needs $HOME or $XDG_STATE_HOME to find its directory: set one, or say local:/dir");
    if (rc < 0) {
        local->path = NULL;
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    return local->look ? 0 : make_parents(local->path, reterr);
}

const struct filesystem *pawl__local_filesystem(int fd) {
    static const struct filesystem known[] = {
        {NFS_SUPER_MAGIC, "NFS", true},    {SMB_SUPER_MAGIC, "SMB", true},     {SMB2_SUPER_MAGIC, "SMB", true},
        {CIFS_SUPER_MAGIC, "SMB", true},   {FUSE_SUPER_MAGIC, "FUSE", true},   {V9FS_MAGIC, "9p", true},
        {AFS_SUPER_MAGIC, "AFS", true},    {AFS_FS_MAGIC, "AFS", true},        {CEPH_SUPER_MAGIC, "Ceph", true},
        {CODA_SUPER_MAGIC, "Coda", true},  {0x0bd00bd0, "Lustre", true},       {0x47504653, "GPFS", true},
        {0x01161970, "GFS2", true},        {OCFS2_SUPER_MAGIC, "OCFS2", true}, {NCP_SUPER_MAGIC, "NCP", true},
        {0x19830326, "BeeGFS", true},      {TMPFS_MAGIC, "tmpfs", false},      {OVERLAYFS_SUPER_MAGIC, "overlay", false},
        {EXT4_SUPER_MAGIC, "ext4", false}, {XFS_SUPER_MAGIC, "XFS", false},    {BTRFS_SUPER_MAGIC, "btrfs", false},
    };
    static const struct filesystem other = {0, "a local file system", false};
    struct statfs status;

    if (fstatfs(fd, &status) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].magic == (uint32_t)status.f_type)
            return &known[i];
    return &other;
}

int pawl__local_open_directory(struct local *local, struct pawl_error *reterr) {
    const struct filesystem *filesystem;
    const char *path = local->path;
    struct stat status;

    local->directory_fd = above_stdio(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (local->directory_fd < 0 && errno == ENOENT && local->look)
        return 0;
    if (local->directory_fd < 0 && errno == ENOENT) {
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return pawl__fail_errno(reterr, "can't make the lock directory %s", path);
        local->directory_fd = above_stdio(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    if (local->directory_fd < 0)
        return errno == ENOTDIR ? pawl__fail(reterr, PAWL_EURL, "%s is not a directory: name one", path)
                                : pawl__fail_errno(reterr, "can't open the lock directory %s", path);
    filesystem = pawl__local_filesystem(local->directory_fd);
    if (!filesystem || fstat(local->directory_fd, &status) < 0)
        return pawl__fail_errno(reterr, "can't examine the lock directory %s", path);
    if (filesystem->shared)
        return pawl__fail(reterr, PAWL_EFILESYSTEM,
                          "%s is on %s, which is shared between machines: choose a directory on a local disk", path,
                          filesystem->name);
    local->modes.directory = status.st_mode & 07777;
    local->modes.file = status.st_mode & 0666;
    local->modes.uid = geteuid() == 0 && status.st_uid != 0 ? status.st_uid : (uid_t)-1;
    local->modes.gid = status.st_gid;
    return 0;
}

/* Something of this name is there, but not what it should be. */
static bool is_something_else(int error) {
    return error == EINVAL || error == EISDIR || error == ENOTDIR || error == ELOOP || error == ENXIO;
}

/* s/, where the FIFOs are. */
static int open_sessions(struct local *local, struct pawl_error *reterr) {
    local->sessions_fd = pawl__local_open_or_make(local, local->directory_fd, "s", O_RDONLY | O_DIRECTORY, S_IFDIR, NULL);
    if (local->sessions_fd < 0 && is_something_else(errno))
        return pawl__fail(reterr, PAWL_EFORMAT, "%s/s is not a directory: %s holds something else than locks", local->path,
                          local->path);
    if (local->sessions_fd < 0)
        return pawl__fail_errno(reterr, "can't open or make %s/s", local->path);
    pawl__local_adjust(local, local->sessions_fd);
    return 0;
}

/* ---- The table ---- */

static void read_boot_id(char buffer[BOOT_ID_SIZE]) {
    memset(buffer, 0, BOOT_ID_SIZE);
    pawl__local_read("/proc/sys/kernel/random/boot_id", buffer, BOOT_ID_SIZE);
}

/* Its mode is left alone until it is known to be ours. */
static int open_table(struct local *local, struct pawl_error *reterr) {
    local->table_fd = pawl__local_open_or_make(local, local->directory_fd, "table", O_RDWR, S_IFREG, NULL);
    if (local->table_fd >= 0)
        return 0;
    if (is_something_else(errno))
        return pawl__fail(reterr, PAWL_EFORMAT, "%s/table is not a file: %s holds something else than locks", local->path,
                          local->path);
    if (errno == EMLINK)
        return pawl__fail(reterr, PAWL_EFORMAT,
                          "%s/table is linked to another name, and may be another's file: remove it, and the directory",
                          local->path);
    return pawl__fail_errno(reterr, "can't open %s/table for reading and writing", local->path);
}

/* The whole of a good header; NULL, or what is wrong with it. */
static const char *find_fault(const struct header *header) {
    if (atomic_load(&header->magic) != TABLE_MAGIC)
        return "magic";
    if (header->major != FORMAT_MAJOR || header->format != TABLE_FORMAT || header->size != sizeof(struct table))
        return "version";
    if (GET(header->session_high) > SESSION_COUNT || GET(header->session_high) % SESSION_CHUNK != 0 ||
        GET(header->block_high) > BLOCK_COUNT || GET(header->block_high) % BLOCK_CHUNK != 0)
        return "sizes";
    if (GET(header->damaged) != 0)
        return "a bucket";
    if (GET(header->token_ceiling) == 0 || GET(header->token_ceiling) > UINT64_MAX / 2)
        return "tokens";
    return NULL;
}

/* What is wrong with the table as it lies there; NULL: nothing. */
static const char *examine(const struct local *local) {
    struct header header;
    struct stat status;

    if (fstat(local->table_fd, &status) < 0 || (size_t)status.st_size < sizeof header ||
        pread(local->table_fd, &header, sizeof header, 0) != sizeof header)
        return "length";
    if ((size_t)status.st_size < sizeof(struct table) && header.size == sizeof(struct table))
        return "length";
    return find_fault(&header);
}

static int map_table(struct local *local, struct pawl_error *reterr) {
    void *map;

    if (local->table)
        return 0;
    map = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, local->table_fd, 0);
    if (map == MAP_FAILED)
        return pawl__fail_errno(reterr, "can't map %s/table", local->path);
    local->table = map;
    return 0;
}

/* Make an empty table whose tokens start above `base`. Alone. */
static int create(struct local *local, uint64_t base, const char boot_id[BOOT_ID_SIZE], struct pawl_error *reterr) {
    struct header *header;
    int rc;

    if (!pawl__local_may_be_long(sizeof(struct table)))
        return pawl__fail(reterr, PAWL_ENOSPACE, "%s/table is a (sparse) file of %zu MiB, and `ulimit -f` allows no such: raise it",
                          local->path, sizeof(struct table) >> 20);
    rc = pawl__local_tokens_write(local, base + TOKEN_STEP, reterr);
    if (rc < 0)
        return rc;
    pawl__local_adjust(local, local->table_fd);
    if (ftruncate(local->table_fd, 0) < 0 || ftruncate(local->table_fd, sizeof(struct table)) < 0)
        return pawl__fail_errno(reterr, "can't enlarge %s/table", local->path);
    errno = pawl__local_reserve(local, 0, offsetof(struct table, sessions));
    if (errno != 0)
        return pawl__fail_errno(reterr, "can't enlarge %s/table", local->path);
    rc = map_table(local, reterr);
    if (rc < 0)
        return rc;
    header = &local->table->header;
    header->major = FORMAT_MAJOR;
    header->minor = FORMAT_MINOR;
    header->format = TABLE_FORMAT;
    header->size = sizeof(struct table);
    memcpy(header->boot_id, boot_id, BOOT_ID_SIZE);
    SET(header->token_ceiling, base + TOKEN_STEP);
    for (int i = 0; base != 0 && i < BUCKET_COUNT; i++)
        SET(local->table->buckets[i].token, base);
    COMMIT(header->magic, TABLE_MAGIC);
    return 0;
}

/* Are all slots and blocks free, so that nothing is left of anybody? */
static bool clean(const struct table *table) {
    uint32_t slots = GET(table->header.session_high), blocks = GET(table->header.block_high);

    for (uint32_t slot = 0; slot < slots; slot++)
        if (GET(table->words[slot]) & SESSION_LIVE)
            return false;
    for (uint32_t block = 0; block < blocks; block++)
        if (GET(table->owners[block]) != 0)
            return false;
    return true;
}

/* Empty the lists that the dead left; tokens go on from where they are. Alone. False: the counters make no sense either. */
static bool wipe(struct table *table) {
    uint64_t ceiling = GET(table->header.token_ceiling);
    uint32_t blocks = GET(table->header.block_high), slots = GET(table->header.session_high);

    for (int i = 0; i < BUCKET_COUNT; i++)
        if (GET(table->buckets[i].token) > ceiling)
            return false;
    for (int i = 0; i < BUCKET_COUNT; i++) {
        SET(table->buckets[i].head, 0);
        SET(table->buckets[i].tail, 0);
        SET(table->buckets[i].guard, 0);
    }
    for (uint32_t i = 0; i < blocks * BLOCK_NODES; i++)
        node_move(&table->nodes[i], NODE_LEAVE);
    for (uint32_t i = 0; i < blocks; i++)
        COMMIT(table->owners[i], 0);
    for (uint32_t i = 0; i < slots; i++) /* last: while one is LIVE the table is not clean */
        if (GET(table->words[i]) & SESSION_LIVE)
            COMMIT(table->words[i], session_word(generation_of(GET(table->words[i])) + 1, 0));
    return true;
}

/* With nobody else there: make the table good, even if all of it is damaged. */
static int heal(struct local *local, struct pawl_error *reterr) {
    const char *fault = examine(local);
    struct stat status = {0};
    char boot_id[BOOT_ID_SIZE];
    uint64_t ceiling;
    int rc;

    read_boot_id(boot_id);
    pawl__local_sweep(local);
    if (!fault) {
        rc = map_table(local, reterr);
        if (rc < 0)
            return rc;
        if (strncmp(local->table->header.boot_id, boot_id, BOOT_ID_SIZE) == 0) {
            if (clean(local->table))
                return 0;
            if (pawl__local_anybody(local))
                return 0; /* a child of a dead process keeps its holds: nothing to wipe, the others are recovered as they are met */
            if (wipe(local->table))
                return 0;
        }
        munmap(local->table, sizeof(struct table));
        local->table = NULL;
    }
    if (pawl__local_anybody(local))
        return pawl__fail(reterr, PAWL_EGONE,
                          "%s/table was removed or overwritten while processes use the directory: stop them first", local->path);
    rc = pawl__local_tokens_read(local, &ceiling, reterr);
    if (rc < 0)
        return rc;
    if (ceiling == 0 && fstat(local->table_fd, &status) == 0 && status.st_size > 0)
        return pawl__fail(reterr, PAWL_EFORMAT,
                          "%s/token.hi is missing, so it is not known which tokens were given: remove the directory to start at 1 "
                          "again, if nothing relies on them",
                          local->path);
    return create(local, ceiling, boot_id, reterr);
}

static int fail_fault(struct local *local, const char *fault, struct pawl_error *reterr) {
    if (strcmp(fault, "version") == 0)
        return pawl__fail(reterr, PAWL_EVERSION,
                          "%s is in use by processes with another version of pawl: stop them, or use the same", local->path);
    return pawl__fail(reterr, PAWL_EFORMAT,
                      "the table in %s is damaged (%s): stop all processes that use it, the next one to start repairs it",
                      local->path, fault);
}

int pawl__local_judge(struct local *local, struct pawl_error *reterr) {
    const struct header *header = &local->table->header;
    const char *fault = find_fault(header);
    char boot_id[BOOT_ID_SIZE];

    if (atomic_load(&header->magic) == 0)
        return PAWL__PENDING; /* it is being made */
    if (fault)
        return fail_fault(local, fault, reterr);
    read_boot_id(boot_id);
    return strncmp(header->boot_id, boot_id, BOOT_ID_SIZE) == 0 ? PAWL__DONE : PAWL__PENDING;
}

/* The table is in use by others: it must be good as it is. *ret_fault: what it is not, else NULL. */
static int join(struct local *local, const char **ret_fault, struct pawl_error *reterr) {
    int rc;

    *ret_fault = examine(local);
    if (*ret_fault)
        return 0;
    rc = map_table(local, reterr);
    if (rc == 0)
        *ret_fault = find_fault(&local->table->header);
    return rc;
}

/* Get a shared flock on a good table. */
static int lock_table(struct local *local, struct pawl_error *reterr) {
    int64_t start = pawl__boottime(), now = start, nap = MS / 5;
    const char *fault;
    int rc;

    for (;; pawl__pause(nap), now = pawl__boottime()) {
        if (flock(local->table_fd, LOCK_EX | LOCK_NB) == 0) {
            rc = heal(local, reterr);
            if (rc < 0)
                return rc;
        } else if (errno != EWOULDBLOCK && errno != EINTR) {
            return pawl__fail_errno(reterr, "can't lock %s/table", local->path);
        }
        if (flock(local->table_fd, LOCK_SH | LOCK_NB) == 0) {
            rc = join(local, &fault, reterr);
            if (rc < 0 || !fault)
                return rc;
            flock(local->table_fd, LOCK_UN); /* its maker may have died: then we are alone next time */
            if (now - start > PATIENCE_FAULT)
                return fail_fault(local, fault, reterr);
        } else if (now - start > PATIENCE) {
            return pawl__fail(reterr, PAWL_ESYSTEM, "another process is preparing %s/table and does not finish: is it stopped?",
                              local->path);
        }
        if (nap < 5 * MS)
            nap *= 2;
    }
}

/* ---- Together ---- */

int pawl__local_choose_path(struct local *local, const struct pawl__url *url, struct pawl_error *reterr) {
    int rc = 0;

    if (url->host_count > 0 || url->user)
        return pawl__fail(reterr, PAWL_EURL, "`local:` takes no host: say local:/dir");
    if (url->path[0] != '\0' && url->path[0] != '/')
        return pawl__fail(reterr, PAWL_EURL, "`local:%s` is not absolute: say local:/dir", url->path);
    local->is_default = url->path[0] == '\0';
    if (local->is_default)
        rc = default_path(local, reterr);
    else if (!(local->path = strdup(url->path)))
        rc = pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    if (rc < 0)
        return rc;
    for (size_t n = strlen(local->path); n > 1 && local->path[n - 1] == '/'; n--)
        local->path[n - 1] = '\0';
    if (asprintf(&local->url, "local:%s", local->path) < 0) {
        local->url = NULL;
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    return 0;
}

int pawl__local_attach(struct local *local, struct pawl_error *reterr) {
    int rc = pawl__local_open_directory(local, reterr);

    if (rc == 0)
        rc = open_table(local, reterr);
    if (rc == 0)
        rc = open_sessions(local, reterr);
    if (rc == 0)
        rc = lock_table(local, reterr);
    if (rc == 0)
        rc = pawl__local_note_whereabouts(local, reterr);
    if (rc == 0)
        pawl__local_adjust(local, local->table_fd);
    return rc;
}

void pawl__local_close_files(struct local *local) {
    int lifeline = local->lifeline_fd;

    pawl__local_close_fd(&lifeline);
    local->lifeline_fd = -1;
    pawl__local_close_fd(&local->pulse_fd);
    pawl__local_close_fd(&local->table_fd);
    pawl__local_close_fd(&local->sessions_fd);
    pawl__local_close_fd(&local->directory_fd);
}

void pawl__local_detach(struct local *local) {
    if (local->table)
        munmap(local->table, sizeof(struct table));
    local->table = NULL;
    pawl__local_close_files(local);
    free(local->whereabouts.table);
    free(local->path);
    free(local->url);
}
