/* Record the last call, the number of calls, the number of memory requests, and the number of cards
 * used. Each process has a file PID.calls in the folder named by MEMREPLAY_GPU_CALLS, so that these
 * numbers survive a crash. */
#include "gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAME = 64 };
static struct page {
    char last[NAME];
    uint64_t calls, asked, cards;
    uint64_t before; /* `asked` as of the last exec */
} nowhere, *page;

/* Open this process's page. Returns `nowhere` if that fails. */
static struct page *open_page(void) {
    char path[4096];
    const char *folder = getenv("MEMREPLAY_GPU_CALLS");
    if (!folder || snprintf(path, sizeof path, "%s/%d.calls", folder, (int)getpid()) >= 4096)
        return &nowhere;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return &nowhere;
    void *at = ftruncate(file, sizeof *page) ? MAP_FAILED
                                             : mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE,
                                                    MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED)
        return &nowhere;
    ((struct page *)at)->before = ((struct page *)at)->asked;
    return at;
}

/* A forked child is another process, so it needs its own page. */
static void forked(void) {
    page = NULL;
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked);
}

static struct page *our_page(void) {
    struct page *to = page;
    if (!to)
        /* if two threads do this at once, both map the same file, and one mapping is wasted */
        to = page = open_page();
    return to;
}

void asked_for_memory(void) {
    our_page()->asked++;
}

void asked_for_card(int device) {
    if (device >= 0 && (uint64_t)device >= our_page()->cards)
        our_page()->cards = (uint64_t)device + 1;
}

void called(const char *name) {
    struct page *to = our_page();
    size_t i = 0;
    for (; i < NAME - 1 && name[i]; i++)
        to->last[i] = name[i];
    to->last[i] = 0;
    to->calls++;
}
