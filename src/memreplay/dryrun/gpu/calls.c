/* Which call was the last, and how many there were: in a file of the launcher's, so that a process that
 * dies has said it. */
#include "gpu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAME = 64 };
static struct page {
    char last[NAME];
    uint64_t calls;
} nowhere, *page = &nowhere;

__attribute__((constructor)) static void open_page(void) {
    const char *path = getenv("MEMREPLAY_GPU_CALLS");
    if (!path)
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at != MAP_FAILED)
        page = at;
    close(file);
}

void called(const char *name) {
    size_t i = 0;
    for (; i < NAME - 1 && name[i]; i++)
        page->last[i] = name[i];
    page->last[i] = 0;
    page->calls++;
}
