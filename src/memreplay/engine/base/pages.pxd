# Allocate large blocks with mmap, which can use huge pages. A block then grows by moving its pages
# instead of copying them.
#
# On systems without huge pages, and outside Linux, this is realloc. A block's size determines which
# allocator it came from, so callers pass the size when they free or resize the block.
cdef extern from *:
    """
    #include <stdlib.h>
    #include <string.h>
    #if defined(__linux__) && !defined(MEMREPLAY_PORTABLE)
    #include <stdint.h>
    #include <sys/mman.h>
    #endif
    #if defined(MREMAP_FIXED) && defined(MADV_HUGEPAGE)

    #define BLOCK_HUGE ((size_t) 2 << 20)     /* size of a huge page on x86-64 and arm64 */
    #define BLOCK_LARGE BLOCK_HUGE            /* smaller blocks would waste most of a page */

    static inline size_t block_length(size_t n) {
        return (n + BLOCK_HUGE - 1) & ~(BLOCK_HUGE - 1);
    }

    /* Reserve unused addresses, aligned to a huge page; NULL on failure. */
    static char *block_addresses(size_t length) {
        size_t before;
        char *p = (char *) mmap(NULL, length + BLOCK_HUGE, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == (char *) MAP_FAILED)
            return NULL;
        before = (size_t) (-(uintptr_t) p & (BLOCK_HUGE - 1));
        if (before)
            munmap(p, before);
        munmap(p + before + length, BLOCK_HUGE - before);
        return p + before;
    }

    static char *block_map(size_t length) {
        char *p = block_addresses(length);
        if (p == NULL)
            return NULL;
        if (mprotect(p, length, PROT_READ | PROT_WRITE)) {
            munmap(p, length);
            return NULL;
        }
        madvise(p, length, MADV_HUGEPAGE);
        return p;
    }

    static void block_free(void *p, size_t size) {
        if (p != NULL && size >= BLOCK_LARGE)
            munmap(p, block_length(size));
        else
            free(p);
    }

    static char *block_grow_or_shrink(char *p, size_t from, size_t to) {
        char *q;
        if (to <= from) {
            if (to < from)
                munmap(p + to, from - to);
            return p;
        }
        q = block_addresses(to);
        if (q == NULL)
            return NULL;
        /* Both addresses are aligned to huge pages, so huge pages move whole. If mremap fails, the
           addresses at q are lost, because they may no longer be ours. */
        p = (char *) mremap(p, from, to, MREMAP_MAYMOVE | MREMAP_FIXED, q);
        return p == (char *) MAP_FAILED ? NULL : p;
    }

    /* realloc(p, size) for a block of `old` bytes. */
    static void *block_resize(void *p, size_t old, size_t size) {
        char *q;
        if (p != NULL && old >= BLOCK_LARGE && size >= BLOCK_LARGE)
            return block_grow_or_shrink((char *) p, block_length(old), block_length(size));
        if (size < BLOCK_LARGE && (p == NULL || old < BLOCK_LARGE))
            return realloc(p, size);
        q = size < BLOCK_LARGE ? (char *) malloc(size) : block_map(block_length(size));
        if (q != NULL && p != NULL) {
            memcpy(q, p, old < size ? old : size);
            block_free(p, old);
        }
        return q;
    }

    #else
    static inline void block_free(void *p, size_t size) { (void) size; free(p); }
    static inline void *block_resize(void *p, size_t old, size_t size) {
        (void) old;
        return realloc(p, size);
    }
    #endif
    """
    void* block_resize(void* p, size_t old, size_t size) nogil
    void block_free(void* p, size_t size) nogil
