/* Which call was the last, how many there were, how many asked for memory, and for how many cards: in a
 * file a process, PID.calls in the folder that MEMREPLAY_GPU_CALLS names, so that a process that dies
 * has said it. */
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
    uint64_t before; /* what `asked` was when the process became this program (exec) */
} nowhere, *page;

/* A page of its own for each process that calls anything; `nowhere` where none can be had. */
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

/* The child of a fork is another process. */
static void forked(void) {
    page = NULL;
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked);
}

static struct page *our_page(void) {
    struct page *to = page;
    if (!to)
        to = page = open_page(); /* two threads at once map the same file: one of them in vain */
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
