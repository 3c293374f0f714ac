/* A disk that fails when a test says so, for one process: preloaded, it stands under the calls that reach files.

   The file that $FAILING_DISK names holds one rule, `CALL PART GOOD BAD AT`: of the calls of this kind (sync, write,
   read) on files whose path contains PART, GOOD more go well and then BAD fail with EIO; only such as touch the byte
   at offset AT are counted, where that is not -1. A new rule counts anew. Each failure adds a byte to the file of
   that name and `.failures`.

   With the call "hang", syncs of such files wait until there is another rule.

   A failed sync takes what it should have saved, as kernels do that drop pages they could not write: the file reads
   from then on as the platter has it, and the next sync succeeds. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PATH_BYTES_MAX 1024

struct overwritten {
    struct overwritten *earlier;
    int fd;
    off_t offset;
    size_t size;
    char was[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char rule[PATH_BYTES_MAX], rule_call[16], rule_part[256];
static int good, bad;
static long at;
static struct overwritten *unsynced;

static void read_rule(const char *path) {
    char now[sizeof rule] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, now, sizeof now - 1) < 0) abort();
        syscall(SYS_close, fd);
    }
    if (strcmp(now, rule) == 0) return;
    strcpy(rule, now);
    if (sscanf(rule, "%15s %255s %d %d %ld", rule_call, rule_part, &good, &bad, &at) != 5) rule_call[0] = 0;
}

static int is_meant(int fd) {
    char link[64], path[PATH_BYTES_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return rule_call[0] && strstr(path, rule_part) != NULL;
}

static void note_failure(const char *path) {
    char name[PATH_BYTES_MAX];
    snprintf(name, sizeof name, "%s.failures", path);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "!", 1) != 1) abort();
    syscall(SYS_close, fd);
}

static void forget(int fd, int take_back) {
    for (struct overwritten **at = &unsynced; *at;) {
        struct overwritten *one = *at;
        if (one->fd != fd) {
            at = &one->earlier;
            continue;
        }
        if (take_back && syscall(SYS_pwrite64, fd, one->was, one->size, one->offset) != (long)one->size) abort();
        *at = one->earlier;
        free(one);
    }
}

/* What a write is about to replace is kept until it is synced; each write to an O_DSYNC file is by itself. */
static void remember(int fd, off_t offset, size_t size) {
    if (fcntl(fd, F_GETFL) & O_DSYNC) return;
    struct overwritten *one = calloc(1, sizeof *one + size);
    if (one == NULL || syscall(SYS_pread64, fd, one->was, size, offset) < 0) abort();
    one->fd = fd, one->offset = offset, one->size = size, one->earlier = unsynced;
    unsynced = one;
}

/* Whether this call fails. */
static int fails(const char *call, int fd, off_t offset, size_t size) {
    int failing = 0, saved = errno;
    const char *path = getenv("FAILING_DISK");
    if (path == NULL) return 0;
    pthread_mutex_lock(&mutex);
    read_rule(path);
    if (is_meant(fd)) {
        int touches = at < 0 || (offset <= at && at < offset + (off_t)size);
        if (touches && strcmp(call, rule_call) == 0) failing = good > 0 ? (good--, 0) : bad > 0 ? (bad--, 1) : 0;
        if (failing) note_failure(path);
        if (strcmp(call, "sync") == 0) forget(fd, failing);
        if (strcmp(call, "write") == 0 && !failing) {
            remember(fd, offset, size);
        }
    }
    pthread_mutex_unlock(&mutex);
    errno = failing ? EIO : saved;
    return failing;
}

static void wait_while_hanging(int fd) {
    const char *path = getenv("FAILING_DISK");
    for (int hangs = path != NULL; hangs;) {
        pthread_mutex_lock(&mutex);
        read_rule(path);
        hangs = strcmp(rule_call, "hang") == 0 && is_meant(fd);
        pthread_mutex_unlock(&mutex);
        if (hangs) usleep(10000);
    }
}

static size_t total(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}

int fdatasync(int fd) {
    wait_while_hanging(fd);
    return fails("sync", fd, 0, 0) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd) { return fails("sync", fd, 0, 0) ? -1 : (int)syscall(SYS_fsync, fd); }

int close(int fd) {
    pthread_mutex_lock(&mutex);
    forget(fd, 0);
    pthread_mutex_unlock(&mutex);
    return (int)syscall(SYS_close, fd);
}

ssize_t pread(int fd, void *to, size_t size, off_t offset) {
    return fails("read", fd, offset, size) ? -1 : syscall(SYS_pread64, fd, to, size, offset);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t offset) {
    return fails("write", fd, offset, size) ? -1 : syscall(SYS_pwrite64, fd, from, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return fails("write", fd, lseek(fd, 0, SEEK_CUR), total(parts, count)) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
    return fails("write", fd, offset, total(parts, count)) ? -1
                                                           : syscall(SYS_pwritev2, fd, parts, count, offset, 0, flags);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return pwritev2(fd, parts, count, offset, 0);
}

ssize_t pread64(int, void *, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t) __attribute__((alias("pwritev")));
ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int) __attribute__((alias("pwritev2")));
