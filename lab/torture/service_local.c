/* SPDX-License-Identifier: Apache-2.0
 *
 * service_local.c - `--start local`: a directory of the rig's own. There is no server to hurt, but there is a disk.
 *
 * Its full disk is a small file system in memory, mounted where only the rig and its clients see it; without the right to mount, a full
 * disk can't be played.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service.h"

enum { DISK_MB = 8, PAGE = 4096 };

static void path_of(const struct servers *servers, const char *name, char *ret, size_t size) {
    snprintf(ret, size, "%s/locks%s%s", servers->directory, name[0] != '\0' ? "/" : "", name);
}

static char mounted[SERVERS_PATH + 16]; /* a small file system of our own; "" */

static bool prepare(struct servers *servers) {
    char path[SERVERS_PATH + 16], options[32];

    path_of(servers, "", path, sizeof path);
    if (mkdir(path, 0700) < 0)
        return false;
    snprintf(options, sizeof options, "size=%dm,mode=700", DISK_MB);
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("pawl-torture", path, "tmpfs", 0, options) == 0)
        snprintf(mounted, sizeof mounted, "%s", path);
    return true;
}

static void finish(struct servers *servers) {
    (void)servers;
    if (mounted[0] != '\0')
        umount2(mounted, MNT_DETACH);
    mounted[0] = '\0';
}

/* Mounting must be tried, by somebody who is not missed: it may be forbidden in more ways than can be asked for. */
static bool may_mount(void) {
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static const char *lacks(enum fault fault) {
    return fault == FAULT_DISK_FULL && !may_mount() ? "a small file system can't be mounted; it takes root" : NULL;
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    (void)proxied;
    snprintf(ret, size, "local:%s/locks", servers->directory);
}

/* Fill it to the last byte. */
static unsigned fill(const struct servers *servers) {
    char path[SERVERS_PATH + 32], block[PAGE] = "";

    path_of(servers, "ballast", path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return 0;
    while (write(fd, block, sizeof block) > 0)
        continue;
    bool full = errno == ENOSPC;

    close(fd);
    return full;
}

/* While nobody is attached: some pages of the table become something else. */
static unsigned scribble(const struct servers *servers, uint64_t target) {
    struct dice dice = dice_new(target, 77);
    char path[SERVERS_PATH + 32];
    unsigned hits = 0;

    path_of(servers, "table", path, sizeof path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    for (int i = 0; fd >= 0 && i < 8; i++) {
        uint64_t bytes[8];

        for (int j = 0; j < 8; j++)
            bytes[j] = dice_number(&dice);
        /* The header now and then; else anywhere in what is surely there. */
        off_t at = i == 0 && dice_percent(&dice, 25) ? 0 : (off_t)dice_below(&dice, 1 << 20);

        hits += pwrite(fd, bytes, sizeof bytes, at) == sizeof bytes;
    }
    if (fd >= 0)
        close(fd);
    return hits > 0;
}

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    if (fault == FAULT_DISK_FULL)
        return fill(servers);
    if (fault == FAULT_CORRUPTION)
        return scribble(servers, target);
    return 0;
}

static unsigned heal(struct servers *servers, enum fault fault, uint64_t target) {
    char path[SERVERS_PATH + 32];

    (void)target;
    if (fault == FAULT_DISK_FULL) {
        path_of(servers, "ballast", path, sizeof path);
        unlink(path);
    }
    return 0;
}

static const char *missing(void) {
    return NULL;
}

static const struct topology local_topology = {
    .word = "local",
    .missing = missing,
    .prepare = prepare,
    .finish = finish,
    .url = url,
};

const struct service local_service = {
    .word = "local",
    .engine = "local",
    .topology = &local_topology,
    .lacks = lacks,
    .begin = begin,
    .heal = heal,
};
