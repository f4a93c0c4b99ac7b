/* Make one system call of a program fail. Load this library before libc (LD_PRELOAD).

   FAULTS_UNDER      a folder: counts calls on files below it and, once the first of them has been
                     opened, threads, pipes, processes and memory requests
   FAULTS_STDOUT=1   also counts calls on standard output
   FAULTS_EARLY=1    counts everything from the start, including calls on standard input
   FAULTS_SHARED     a file created by the driver, in which all processes count: struct shared
   FAULTS_CALL       the group in which call number FAULTS_AT (from 0) is struck
   FAULTS_HOW        an errno number; "short": request only half of the bytes; "kill": SIGKILL before
                     the call; "after": SIGKILL after it
   FAULTS_ON=1       also strikes all later calls in the group
   FAULTS_CRASHES=1  records whose code crashed
   FAULTS_TRACE      prints the struck call's stack to stderr
   FAULTS_LARGE      counts memory requests outside memreplay's own module only from this many bytes up

   Works only with glibc, because it needs __libc_malloc. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define GROUPS(X) \
    X(OPEN, "open") X(READ, "read") X(WRITE, "write") X(STAT, "stat") X(CLOSE, "close") \
    X(RENAME, "rename") X(UNLINK, "unlink") X(MKDIR, "mkdir") X(FSYNC, "fsync") \
    X(TRUNCATE, "truncate") X(LINK, "link") X(CHMOD, "chmod") X(LIST, "list") X(SEEK, "seek") X(LOCK, "lock") \
    X(MMAP, "mmap") X(MALLOC, "malloc") X(MEMORY, "memory") X(THREAD, "thread") X(PIPE, "pipe") X(FORK, "fork")
#define AS_ENUM(name, text) name,
#define AS_TEXT(name, text) text,
enum group { GROUPS(AS_ENUM) N_GROUPS };
static const char *const NAMES[] = {GROUPS(AS_TEXT)};

struct shared {
    _Atomic uint32_t begun;             /* a file below the folder was opened */
    _Atomic uint32_t fired;             /* number of struck calls */
    _Atomic uint32_t fired_on_output;   /* a struck call was on a file open for writing */
    _Atomic uint32_t crashed;           /* enum crash, if SIGSEGV or SIGABRT was raised */
    _Atomic uint32_t counts[N_GROUPS];  /* in the order of GROUPS */
};

enum crash { NONE, OURS, THEIRS };
#define MOST_FRAMES 256
#define MOST_FILES 4096
enum { READING = 1, WRITING = 2 };
static struct shared *shared;
static _Atomic uint8_t files[MOST_FILES];
static char under[PATH_MAX];
static size_t under_length, large = SIZE_MAX;
static int struck_group = -1, struck_error, is_short, kills, goes_on;
static uint32_t struck_at;

static void catch_crashes(void);

/* Processes forked for a run call this again, after changing their environment. */
__attribute__((constructor)) void faults_begin(void) {
    const char *folder = getenv("FAULTS_UNDER"), *path = getenv("FAULTS_SHARED"), *text;
    int file;
    void *at;
    if (folder == NULL || path == NULL || strlen(folder) >= sizeof under)
        return;
    strcpy(under, folder);
    under_length = strlen(under);
    file = (int) syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    at = (void *) syscall(SYS_mmap, NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (at == MAP_FAILED)
        return;
    if ((text = getenv("FAULTS_STDOUT")) != NULL && *text == '1')
        files[1] = WRITING;
    if ((text = getenv("FAULTS_EARLY")) != NULL && *text == '1') {
        files[0] = READING;
        atomic_store(&((struct shared *) at)->begun, 1);
    }
    if ((text = getenv("FAULTS_LARGE")) != NULL)
        large = strtoull(text, NULL, 10);
    if ((text = getenv("FAULTS_ON")) != NULL)
        goes_on = *text == '1';
    if ((text = getenv("FAULTS_AT")) != NULL)
        struck_at = (uint32_t) strtoul(text, NULL, 10);
    if ((text = getenv("FAULTS_HOW")) != NULL) {
        is_short = strcmp(text, "short") == 0;
        kills = strcmp(text, "kill") == 0 ? 1 : strcmp(text, "after") == 0 ? 2 : 0;
        struck_error = atoi(text);
    }
    if ((text = getenv("FAULTS_CALL")) != NULL)
        for (int i = 0; i < N_GROUPS; i++)
            if (strcmp(text, NAMES[i]) == 0)
                struck_group = i;
    shared = at;
    if ((text = getenv("FAULTS_CRASHES")) != NULL && *text == '1')
        catch_crashes();
}

static int is_below(const char *path) {
    return path != NULL && strncmp(path, under, under_length) == 0;
}

static int file_kind(int file) {
    return shared != NULL && file >= 0 && file < MOST_FILES ? files[file] : 0;
}

static int concerns(int folder, const char *path) {
    if (shared == NULL)
        return 0;
    return path != NULL && path[0] == '/' ? is_below(path) : file_kind(folder) != 0;
}

/* Count this call, and return whether it is the one to strike. */
static int is_struck(enum group group, int output) {
    uint32_t number = atomic_fetch_add(&shared->counts[group], 1);
    if ((int) group != struck_group || (goes_on ? number < struck_at : number != struck_at))
        return 0;
    atomic_fetch_add(&shared->fired, 1);
    if (output)
        atomic_store(&shared->fired_on_output, 1);
    if (getenv("FAULTS_TRACE") != NULL) {
        void *frames[40];
        backtrace_symbols_fd(frames, backtrace(frames, 40), 2);
    }
    if (kills == 1)
        kill(getpid(), SIGKILL);
    return 1;
}

static void over(int struck) {
    if (struck && kills == 2)
        kill(getpid(), SIGKILL);
}

static int fails(int struck) {
    if (!struck || is_short || kills)
        return 0;
    errno = struck_error;
    return 1;
}

static size_t shortened(int struck, size_t size) {
    return struck && is_short && size > 1 ? size / 2 : size;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) \
        real = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

/* ---- calls that take a file name -------------------------------------------------------------- */

static int opened(const char *path, int file, int flags) {
    if (file >= 0 && file < MOST_FILES) {
        /* Nothing is written to a lock file, even if it is open for writing. */
        size_t length = strlen(path);
        int is_lock = length > 5 && strcmp(path + length - 5, "/lock") == 0;
        files[file] = (flags & O_ACCMODE) == O_RDONLY || is_lock ? READING : WRITING;
        atomic_store(&shared->begun, 1);
    }
    return file;
}

#define OPEN_AS(name, params, folder, args) \
    int name params { \
        mode_t mode = 0; \
        int struck, file; \
        REAL(name); \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        if (!concerns(folder, path)) { \
            file = real args; \
            if (shared != NULL && file >= 0 && file < MOST_FILES) \
                files[file] = 0; \
            return file; \
        } \
        struck = is_struck(OPEN, (flags & O_ACCMODE) != O_RDONLY); \
        if (fails(struck)) \
            return -1; \
        file = opened(path, real args, flags); \
        over(struck); \
        return file; \
    }
OPEN_AS(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN_AS(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN_AS(openat, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))
OPEN_AS(openat64, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))

#define BY_NAME(type, failed, group, name, params, of, args) \
    type name params { \
        int struck; \
        type got; \
        REAL(name); \
        if (!(of)) \
            return real args; \
        struck = is_struck(group, 0); \
        if (fails(struck)) \
            return failed; \
        got = real args; \
        over(struck); \
        return got; \
    }
#define ON_PATH(group, name, params, args) \
    BY_NAME(int, -1, group, name, params, concerns(AT_FDCWD, path), args)
#define ON_PATH_AT(group, name, params, args) \
    BY_NAME(int, -1, group, name, params, concerns(at, path), args)
ON_PATH(STAT, stat, (const char *path, struct stat *to), (path, to))
ON_PATH(STAT, stat64, (const char *path, struct stat64 *to), (path, to))
ON_PATH(STAT, lstat, (const char *path, struct stat *to), (path, to))
ON_PATH(STAT, lstat64, (const char *path, struct stat64 *to), (path, to))
ON_PATH_AT(STAT, fstatat, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags))
ON_PATH_AT(STAT, fstatat64, (int at, const char *path, struct stat64 *to, int flags), (at, path, to, flags))
ON_PATH(STAT, access, (const char *path, int how), (path, how))
ON_PATH(UNLINK, unlink, (const char *path), (path))
ON_PATH_AT(UNLINK, unlinkat, (int at, const char *path, int flags), (at, path, flags))
ON_PATH(UNLINK, rmdir, (const char *path), (path))
ON_PATH(MKDIR, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH_AT(MKDIR, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
ON_PATH(CHMOD, chmod, (const char *path, mode_t mode), (path, mode))
ON_PATH_AT(CHMOD, fchmodat, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags))
ON_PATH(TRUNCATE, truncate, (const char *path, off_t size), (path, size))
ON_PATH(TRUNCATE, truncate64, (const char *path, off64_t size), (path, size))
ON_PATH(RENAME, rename, (const char *path, const char *to), (path, to))
ON_PATH_AT(RENAME, renameat, (int at, const char *path, int at2, const char *to), (at, path, at2, to))
ON_PATH_AT(RENAME, renameat2, (int at, const char *path, int at2, const char *to, unsigned flags),
           (at, path, at2, to, flags))
ON_PATH(LINK, link, (const char *path, const char *to), (path, to))
ON_PATH_AT(LINK, linkat, (int at, const char *path, int at2, const char *to, int flags),
           (at, path, at2, to, flags))
BY_NAME(ssize_t, -1, STAT, readlink, (const char *path, char *to, size_t size),
        concerns(AT_FDCWD, path), (path, to, size))
BY_NAME(DIR *, NULL, LIST, opendir, (const char *path), concerns(AT_FDCWD, path), (path))
BY_NAME(DIR *, NULL, LIST, fdopendir, (int file), file_kind(file), (file))

/* ---- calls that take a file descriptor -------------------------------------------------------- */

#define ON_FILE(type, group, name, params, args) \
    BY_NAME(type, -1, group, name, params, file_kind(file), args)
ON_FILE(int, STAT, fstat, (int file, struct stat *to), (file, to))
ON_FILE(int, STAT, fstat64, (int file, struct stat64 *to), (file, to))
ON_FILE(int, CHMOD, fchmod, (int file, mode_t mode), (file, mode))
ON_FILE(int, LOCK, flock, (int file, int how), (file, how))
ON_FILE(off_t, SEEK, lseek, (int file, off_t to, int whence), (file, to, whence))
ON_FILE(off64_t, SEEK, lseek64, (int file, off64_t to, int whence), (file, to, whence))

#define OF_OUTPUT(type, group, name, params, args) \
    type name params { \
        int struck; \
        type got; \
        REAL(name); \
        if (!file_kind(file)) \
            return real args; \
        struck = is_struck(group, file_kind(file) == WRITING); \
        if (fails(struck)) \
            return -1; \
        got = real args; \
        over(struck); \
        return got; \
    }
OF_OUTPUT(int, FSYNC, fsync, (int file), (file))
OF_OUTPUT(int, FSYNC, fdatasync, (int file), (file))
OF_OUTPUT(int, TRUNCATE, ftruncate, (int file, off_t size), (file, size))
OF_OUTPUT(int, TRUNCATE, ftruncate64, (int file, off64_t size), (file, size))

/* Wrap a call that transfers `some` bytes. A call for 0 bytes transfers nothing and isn't counted. */
#define TRANSFER(group, name, params, some, args) \
    ssize_t name params { \
        int struck = 0; \
        ssize_t got; \
        REAL(name); \
        if (!file_kind(file) || !(some)) \
            return real args; \
        struck = is_struck(group, file_kind(file) == WRITING); \
        if (fails(struck)) \
            return -1; \
        got = real args; \
        over(struck); \
        return got; \
    }
TRANSFER(READ, read, (int file, void *to, size_t size), size, (file, to, shortened(struck, size)))
TRANSFER(READ, pread, (int file, void *to, size_t size, off_t at), size,
         (file, to, shortened(struck, size), at))
TRANSFER(READ, pread64, (int file, void *to, size_t size, off64_t at), size,
         (file, to, shortened(struck, size), at))
TRANSFER(READ, readv, (int file, const struct iovec *to, int n), n,
         (file, to, (int) shortened(struck, (size_t) n)))
TRANSFER(WRITE, write, (int file, const void *from, size_t size), size,
         (file, from, shortened(struck, size)))
TRANSFER(WRITE, pwrite, (int file, const void *from, size_t size, off_t at), size,
         (file, from, shortened(struck, size), at))
TRANSFER(WRITE, pwrite64, (int file, const void *from, size_t size, off64_t at), size,
         (file, from, shortened(struck, size), at))
TRANSFER(WRITE, writev, (int file, const struct iovec *from, int n), n,
         (file, from, (int) shortened(struck, (size_t) n)))
TRANSFER(WRITE, sendfile, (int file, int from, off_t *at, size_t size), size,
         (file, from, at, shortened(struck, size)))

/* A struck close still closes the file, as on Linux. */
int close(int file) {
    int struck, got, kind = file_kind(file);
    REAL(close);
    if (!kind || file == 1)
        return real(file);
    struck = is_struck(CLOSE, kind == WRITING);
    files[file] = 0;
    got = real(file);
    over(struck);
    return fails(struck) ? -1 : got;
}

int closedir(DIR *folder) {
    int file = dirfd(folder);
    REAL(closedir);
    if (shared != NULL && file >= 0 && file < MOST_FILES)
        files[file] = 0;
    return real(folder);
}

/* Only locks duplicate a descriptor; data is written through the original. */
int dup(int file) {
    int got;
    REAL(dup);
    got = real(file);
    if (got >= 0 && got < MOST_FILES && file_kind(file))
        files[got] = READING;
    return got;
}

int fcntl64(int file, int what, ...);

#define FCNTL(name) \
    int name(int file, int what, ...) { \
        va_list more; \
        void *value; \
        int got; \
        REAL(name); \
        va_start(more, what); \
        value = va_arg(more, void *); \
        va_end(more); \
        got = real(file, what, value); \
        if ((what == F_DUPFD || what == F_DUPFD_CLOEXEC) && got >= 0 && got < MOST_FILES && file_kind(file)) \
            files[got] = READING; \
        return got; \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

/* ---- other calls that can fail ---------------------------------------------------------------- */

static int has_begun(void) { return shared != NULL && atomic_load(&shared->begun); }

#define ONCE_BEGUN(group, failed, name, params, args) \
    int name params { \
        int struck, got; \
        REAL(name); \
        if (!has_begun()) \
            return real args; \
        struck = is_struck(group, 0); \
        if (fails(struck)) \
            return failed; \
        got = real args; \
        over(struck); \
        return got; \
    }
ONCE_BEGUN(PIPE, -1, pipe, (int to[2]), (to))
ONCE_BEGUN(PIPE, -1, pipe2, (int to[2], int flags), (to, flags))
ONCE_BEGUN(PIPE, -1, socketpair, (int a, int b, int c, int to[2]), (a, b, c, to))
ONCE_BEGUN(FORK, -1, fork, (void), ())
ONCE_BEGUN(FORK, struck_error, posix_spawn,
           (pid_t *pid, const char *path, const posix_spawn_file_actions_t *what,
            const posix_spawnattr_t *how, char *const *args, char *const *env),
           (pid, path, what, how, args, env))
ONCE_BEGUN(THREAD, struck_error, pthread_create,
           (pthread_t *to, const pthread_attr_t *how, void *(*run)(void *), void *with),
           (to, how, run, with))

/* vfork returns twice, so it can't be wrapped; fork can replace it. */
pid_t vfork(void) { return fork(); }

static int is_large(size_t size) { return size >= large && has_begun(); }

static int is_ours(const void *caller);

/* Return the group: MMAP for memreplay's own module, MEMORY for any other caller. */
static enum group mapping(const void *caller) { return is_ours(caller) ? MMAP : MEMORY; }

#define MAP(name, offset) \
    void *name(void *to, size_t size, int how, int flags, int file, offset at) { \
        int struck; \
        void *got; \
        REAL(name); \
        if (!is_large(size)) \
            return real(to, size, how, flags, file, at); \
        struck = is_struck(mapping(__builtin_return_address(0)), 0); \
        if (fails(struck)) \
            return MAP_FAILED; \
        got = real(to, size, how, flags, file, at); \
        over(struck); \
        return got; \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)

void *mremap(void *from, size_t old, size_t size, int flags, ...) {
    va_list more;
    void *to;
    REAL(mremap);
    va_start(more, flags);
    to = va_arg(more, void *);
    va_end(more);
    return is_large(size) && fails(is_struck(mapping(__builtin_return_address(0)), 0)) ? MAP_FAILED : real(from, old, size, flags, to);
}

int mprotect(void *at, size_t size, int how) {
    REAL(mprotect);
    return is_large(size) && fails(is_struck(mapping(__builtin_return_address(0)), 0)) ? -1 : real(at, size, how);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

/* Return whether the caller is in memreplay's own module, where requests of any size count. The module's address is
   looked up once; only callers near it are looked up again. */
static int is_ours(const void *caller) {
    static _Atomic uintptr_t first;
    uintptr_t at = (uintptr_t) caller;
    Dl_info found;
    if (first != 0 && (at < first || at - first > (64u << 20)))
        return 0;
    if (!dladdr(caller, &found) || found.dli_fname == NULL || strstr(found.dli_fname, "/_core.") == NULL)
        return 0;
    first = (uintptr_t) found.dli_fbase;
    return 1;
}

static int memory_fails(size_t size, const void *caller) {
    int ours;
    if (!has_begun())
        return 0;
    ours = is_ours(caller);
    if (!ours && size < large)
        return 0;
    return fails(is_struck(ours ? MALLOC : MEMORY, 0));
}

void *malloc(size_t size) {
    return memory_fails(size, __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    return memory_fails(n * size, __builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *from, size_t size) {
    return memory_fails(size, __builtin_return_address(0)) ? NULL : __libc_realloc(from, size);
}

/* ---- whose code crashed ----------------------------------------------------------------------- */

static struct sigaction before_segv, before_abrt;

static int is_named(const char *path, const char *const *names) {
    const char *name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    for (; *names != NULL; names++)
        if (strncmp(name, *names, strlen(*names)) == 0)
            return 1;
    return 0;
}

/* The innermost module decides, skipping the C and C++ libraries and Python's own: a crash in those may be due to wrong
   arguments from the module that called them. */
static enum crash whose(void **frames, int n) {
    static const char *const PASSED[] = {"libc.", "libc-", "libstdc++", "libgcc_s", "libpthread", "libm.", "ld-linux",
                                         "shim.", "python", "libpython", "linux-vdso", NULL};
    for (int i = 0; i < n; i++) {
        Dl_info found;
        if (!dladdr(frames[i], &found) || found.dli_fname == NULL || is_named(found.dli_fname, PASSED))
            continue;
        return strstr(found.dli_fname, "/_core.") != NULL ? OURS : THEIRS;
    }
    /* Only Python's own code is in the stack, so no module called it, unless the stack is cut. */
    return n < MOST_FRAMES ? THEIRS : NONE;
}

static void crashed(int number, siginfo_t *info, void *context) {
    void *frames[MOST_FRAMES];
    (void) info, (void) context;
    sigaction(SIGSEGV, &before_segv, NULL);
    sigaction(SIGABRT, &before_abrt, NULL);
    atomic_store(&shared->crashed, (uint32_t) whose(frames, backtrace(frames, MOST_FRAMES)));
    raise(number);
}

static void catch_crashes(void) {
    struct sigaction how;
    void *frame;
    backtrace(&frame, 1); /* the first call loads libgcc, which a signal handler must not do */
    memset(&how, 0, sizeof how);
    how.sa_sigaction = crashed;
    how.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &how, &before_segv);
    sigaction(SIGABRT, &how, &before_abrt);
}
