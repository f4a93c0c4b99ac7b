/* Limits that no pickle reader can beat: just stepping from opcode to opcode, and memcpy.

   cc -O3 -o limits limits.c
   ./limits walk FILE     read FILE in windows, step over each opcode, print their number
   ./limits copy FILE     copy as many bytes as FILE has, in memory; print the seconds to stderr */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 1 << 20, LONGEST = 9, COPIED = 64 << 20 };

static uint8_t window[WINDOW];

static uint64_t number(const uint8_t *p, int bytes) {
    uint64_t n = 0;
    memcpy(&n, p, bytes);     /* little-endian machines only */
    return n;
}

/* Move [p, end) to the front of the window and read more after it; return the new end. */
static uint8_t *refill(int file, const uint8_t *p, const uint8_t *end) {
    uint8_t *at = window + (end - p);
    ssize_t n;
    memmove(window, p, end - p);
    while (at < window + WINDOW && (n = read(file, at, window + WINDOW - at)) > 0)
        at += n;
    return at;
}

static int walk(int file) {
    uint64_t opcodes = 0, skip = 0;      /* skip: bytes of a value still to be skipped */
    int lines = 0;                       /* lines of a text opcode still to be skipped */
    uint8_t *p = window, *end = refill(file, window, window);
    for (;;) {
        if (end - p < LONGEST || skip || lines) {
            if (skip) {
                uint64_t n = skip < (uint64_t) (end - p) ? skip : (uint64_t) (end - p);
                p += n;
                skip -= n;
            }
            while (lines && p < end)
                lines -= *p++ == '\n';
            if (end - p < LONGEST)
                end = refill(file, p, end), p = window;
            if (p == end)
                return fprintf(stderr, "the pickle is cut off\n"), 1;
            if (skip || lines)
                continue;
        }
        opcodes++;
        switch (*p) {
        case 'h': case 'q': case 'K': case 0x80: case 0x82:         /* BINGET BINPUT BININT1 PROTO */
            p += 2; break;
        case 'j': case 'r': case 'J': case 0x84:                    /* LONG_BINGET LONG_BINPUT BININT */
            p += 5; break;
        case 'M': case 0x83:                                        /* BININT2 */
            p += 3; break;
        case 'G': case 0x95:                                        /* BINFLOAT FRAME */
            p += 9; break;
        case 0x8A: case 0x8C: case 'U': case 'C':                   /* LONG1 SHORT_BINUNICODE … */
            skip = p[1]; p += 2; break;
        case 'X': case 'T': case 'B': case 0x8B:                    /* BINUNICODE BINSTRING … */
            skip = number(p + 1, 4); p += 5; break;
        case 0x8D: case 0x8E: case 0x96:                            /* BINUNICODE8 … */
            skip = number(p + 1, 8); p += 9; break;
        case 'I': case 'L': case 'F': case 'S': case 'V': case 'p': case 'g': case 'P':
            lines = 1; p += 1; break;
        case 'c': case 'i':
            lines = 2; p += 1; break;
        case '.':
            return printf("%llu\n", (unsigned long long) opcodes), 0;
        default:
            p += 1;
        }
        if (p > end)
            return fprintf(stderr, "the pickle is cut off\n"), 1;
        if (skip < (uint64_t) (end - p))                            /* nearly always */
            p += skip, skip = 0;
    }
}

static int copy(uint64_t left) {
    char *from = malloc(COPIED), *to = malloc(COPIED);
    struct timespec begin, end;
    if (!from || !to)
        return fprintf(stderr, "no memory\n"), 1;
    memset(from, 1, COPIED);
    memset(to, 2, COPIED);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (left) {
        uint64_t n = left < COPIED ? left : COPIED;
        memcpy(to, from, n);
        __asm__ volatile("" : : "r"(to) : "memory");                /* keeps the compiler from dropping the copy */
        left -= n;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    fprintf(stderr, "%.9f\n",
            (double) (end.tv_sec - begin.tv_sec) + 1e-9 * (double) (end.tv_nsec - begin.tv_nsec));
    return 0;
}

int main(int argc, char **argv) {
    struct stat status;
    int file = argc == 3 ? open(argv[2], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &status))
        return fprintf(stderr, "usage: limits walk|copy FILE\n"), 2;
    return strcmp(argv[1], "walk") ? copy((uint64_t) status.st_size) : walk(file);
}
