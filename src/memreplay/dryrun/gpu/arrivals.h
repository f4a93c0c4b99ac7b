/* What other ranks have sent to device memory, and what is known there. */
#ifndef MEMREPLAY_ARRIVALS_H
#define MEMREPLAY_ARRIVALS_H

#include "messages.h"

/* Messages and copies of up to so many bytes are really made. */
enum { SMALL = 65536 };

struct arrival {
    uint64_t at, bytes; /* in device memory, never none */
    struct channel *by;
    int from; /* a rank; -1: of all ranks, reduced */
    int to;
    uint64_t number, offset; /* which message, and where in it */
    int ranks, type, operation;
};

/* Something will be there. */
void expect(struct arrival it);
/* Something else is there now. */
void expect_no_more(uint64_t at, uint64_t end);
/* Somebody looks: waits for what is expected there. */
void arrive(uint64_t at, uint64_t end);

/* In contents.c: what is known, or was. */
enum knowledge read_known(uint64_t at, void *into, uint64_t bytes);
void write_known(uint64_t at, const void *from, uint64_t bytes, enum knowledge as);
/* Nobody knows what is there. */
void forget_known(uint64_t at, uint64_t bytes);

#endif
