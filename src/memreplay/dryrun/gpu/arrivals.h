/* Data that other ranks have sent to device memory but nothing has read yet. */
#ifndef MEMREPLAY_ARRIVALS_H
#define MEMREPLAY_ARRIVALS_H

#include "messages.h"

/* Only messages and copies of at most this many bytes are actually transferred. */
enum { SMALL = 65536 };

struct arrival {
    uint64_t at, bytes; /* in device memory; never 0 bytes */
    struct channel *by;
    int from; /* sending rank; -1: the reduction over all ranks */
    int to;
    uint64_t number, offset; /* the message's number, and the position in the message */
    int ranks, type, operation;
    int times; /* how often the message is repeated in memory */
};

/* Note that data will arrive at this address. */
void expect(struct arrival it);
/* Forget arrivals in this range, because it has been overwritten. */
void expect_no_more(uint64_t at, uint64_t end);
/* Wait for the next message expected between two addresses. Returns its bytes, which the caller
 * must free, and describes it in `it`; NULL if no more messages are expected there. Messages whose
 * bytes aren't known are dropped. */
void *next_arrival(uint64_t at, uint64_t end, struct arrival *it, enum knowledge *as);

#endif
