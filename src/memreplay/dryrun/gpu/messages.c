/* Messages between ranks, which are processes on one machine. They use a file in which each rank
 * writes its own part. The file is written and read rather than mapped, so that a full disk causes
 * an error instead of a signal. */
#define _GNU_SOURCE
#include "messages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 1024, DATA = 1 << 20 };

/* A message. The position of its bytes counts from the first byte that its sender ever sent. */
struct entry {
    uint64_t number, at;
    int64_t bytes; /* -1 if the bytes aren't known */
    int32_t to, as;
};

/* A rank's part of the file: its latest messages, in the order in which they were sent, and their
 * bytes. */
struct part {
    uint64_t posted; /* how many */
    int64_t process;
    struct entry entries[ENTRIES];
    char data[DATA];
};

struct channel {
    struct channel *before; /* the channel that was opened before this one */
    int file, ranks, rank;
    int given_up; /* whether waiting for a rank ever timed out */
    uint64_t posted, at;
    unsigned char *runs; /* whether each rank runs; NULL if all do */
    pthread_mutex_t lock;
    char path[PATH_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel *opened;

/* Remove files that some ranks never opened, unless the launcher will remove their folder. */
__attribute__((destructor)) static void remove_files(void) {
    for (struct channel *it = opened; it && !getenv("MEMREPLAY_GPU_MESSAGES"); it = it->before)
        unlink(it->path);
}

static off_t place(int rank, size_t offset) {
    return (off_t)rank * (off_t)sizeof(struct part) + (off_t)offset;
}

static int read_at(const struct channel *by, int rank, size_t offset, void *into, size_t bytes) {
    return pread(by->file, into, bytes, place(rank, offset)) == (ssize_t)bytes;
}

static int write_at(const struct channel *by, size_t offset, const void *from, size_t bytes) {
    return pwrite(by->file, from, bytes, place(by->rank, offset)) == (ssize_t)bytes;
}

static int64_t process_of(const struct channel *by, int rank) {
    int64_t process = 0;
    if (!read_at(by, rank, offsetof(struct part, process), &process, sizeof process))
        return 0;
    return process;
}

int does_run(const struct channel *by, int rank) {
    return !by->runs || by->runs[rank];
}

/* Keep the file's name until all ranks have opened the file. */
static void remove_when_all_are_there(const struct channel *by) {
    for (int rank = 0; rank < by->ranks; rank++)
        if (does_run(by, rank) && !process_of(by, rank))
            return;
    unlink(by->path);
}

struct channel *open_channel(const char *name, int ranks, int rank, const unsigned char *runs) {
    struct channel *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    if (runs) {
        made->runs = malloc(ranks);
        if (!made->runs) {
            free(made);
            return NULL;
        }
        memcpy(made->runs, runs, ranks);
    }
    const char *folder = getenv("MEMREPLAY_GPU_MESSAGES");
    snprintf(made->path, sizeof made->path, "%s/memreplay-%s", folder ? folder : "/dev/shm", name);
    made->file = open(made->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (made->file < 0) {
        free(made->runs);
        free(made);
        return NULL;
    }
    made->ranks = ranks;
    made->rank = rank;
    pthread_mutex_init(&made->lock, NULL);
    int64_t process = getpid();
    write_at(made, offsetof(struct part, process), &process, sizeof process);
    pthread_mutex_lock(&lock);
    made->before = opened;
    opened = made;
    pthread_mutex_unlock(&lock);
    remove_when_all_are_there(made);
    return made;
}

void post(struct channel *by, int to, uint64_t number, const void *data, uint64_t bytes,
          enum knowledge as) {
    if (!by || (to != EVERYBODY && !does_run(by, to)))
        return;
    pthread_mutex_lock(&by->lock);
    struct entry entry = {number, by->at, -1, to, as};
    if (data && as != UNKNOWN && bytes <= DATA) {
        size_t from = by->at % DATA, first = bytes < DATA - from ? bytes : DATA - from;
        if (write_at(by, offsetof(struct part, data) + from, data, first) &&
            write_at(by, offsetof(struct part, data), (const char *)data + first, bytes - first)) {
            entry.bytes = (int64_t)bytes;
            by->at += bytes;
        }
    }
    size_t slot = by->posted % ENTRIES;
    write_at(by, offsetof(struct part, entries) + slot * sizeof entry, &entry, sizeof entry);
    by->posted++;
    write_at(by, offsetof(struct part, posted), &by->posted, sizeof by->posted);
    pthread_mutex_unlock(&by->lock);
}

/* --- waiting ------------------------------------------------------------------------------------ */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* As long as NCCL waits by default: a rank may prepare its data while the others wait. */
static double longest_wait(void) {
    const char *seconds = getenv("MEMREPLAY_GPU_WAIT");
    return seconds ? strtod(seconds, NULL) : 600;
}

static int has_ended(const struct channel *by, int rank) {
    int64_t process = process_of(by, rank);
    return process && kill((pid_t)process, 0) && errno == ESRCH;
}

enum { NOT_YET, FOUND, GONE };

static int look(const struct channel *by, int from, int to, uint64_t number, struct entry *found,
                uint64_t *posted) {
    struct entry entries[ENTRIES];
    *posted = 0;
    read_at(by, from, offsetof(struct part, posted), posted, sizeof *posted);
    int64_t n = *posted < ENTRIES ? (int64_t)*posted : ENTRIES;
    if (!read_at(by, from, offsetof(struct part, entries), entries, n * sizeof *entries))
        return NOT_YET;
    int outcome = NOT_YET;
    for (int64_t i = 0; i < n; i++)
        if (entries[i].to == to && entries[i].number == number) {
            *found = entries[i];
            return FOUND;
        } else if (entries[i].to == to && entries[i].number > number) {
            outcome = GONE;
        }
    return outcome;
}

static int wait_for(struct channel *by, int from, int to, uint64_t number, struct entry *found) {
    double begun = now(), limit = longest_wait();
    uint64_t posted, before = UINT64_MAX;
    for (long microseconds = 50;; microseconds = microseconds < 2000 ? 2 * microseconds : 2000) {
        read_at(by, from, offsetof(struct part, posted), &posted, sizeof posted);
        if (posted != before) {
            int outcome = look(by, from, to, number, found, &before);
            if (outcome != NOT_YET)
                return outcome == FOUND;
        } else if (has_ended(by, from)) {
            return look(by, from, to, number, found, &before) == FOUND;
        }
        if (by->given_up)
            return 0;
        if (now() - begun > limit) {
            by->given_up = 1;
            return 0;
        }
        nanosleep(&(struct timespec){0, 1000 * microseconds}, NULL);
    }
}

enum knowledge fetch(struct channel *by, int from, int to, uint64_t number, void *into,
                     uint64_t offset, uint64_t bytes) {
    struct entry found;
    int is_assumed = by && !does_run(by, from);
    if (is_assumed)
        from = by->rank;
    if (!by || !wait_for(by, from, to, number, &found) || found.bytes < 0 ||
        offset + bytes > (uint64_t)found.bytes)
        return UNKNOWN;
    size_t at = (found.at + offset) % DATA, first = bytes < DATA - at ? bytes : DATA - at;
    if (!read_at(by, from, offsetof(struct part, data) + at, into, first) ||
        !read_at(by, from, offsetof(struct part, data), (char *)into + first, bytes - first))
        return UNKNOWN;
    /* The bytes are still there unless too many others have been sent since. */
    struct entry again;
    uint64_t posted;
    if (look(by, from, to, number, &again, &posted) != FOUND)
        return UNKNOWN;
    struct entry last;
    size_t slot = (posted - 1) % ENTRIES;
    int there = read_at(by, from, offsetof(struct part, entries) + slot * sizeof last, &last,
                        sizeof last) &&
                last.at + (last.bytes > 0 ? (uint64_t)last.bytes : 0) - found.at <= DATA;
    if (!there || found.as == UNKNOWN)
        return UNKNOWN;
    return is_assumed && found.as < ASSUMED ? ASSUMED : (enum knowledge)found.as;
}

void await_all(struct channel *by, uint64_t number) {
    struct entry found;
    for (int rank = 0; by && rank < by->ranks; rank++)
        if (rank != by->rank && does_run(by, rank))
            wait_for(by, rank, EVERYBODY, number, &found);
}
