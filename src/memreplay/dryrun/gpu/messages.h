/* Messages between ranks, which are processes on one machine. They use a file in which each rank
 * writes its own part. */
#ifndef MEMREPLAY_MESSAGES_H
#define MEMREPLAY_MESSAGES_H

#include "gpu.h"

struct channel;

/* Open the channel with this name, as all ranks do that run. `runs`: whether each rank runs; NULL if
 * all do. Returns NULL if that's impossible. */
struct channel *open_channel(const char *name, int ranks, int rank, const unsigned char *runs);
/* Whether this rank runs. If it doesn't, it's assumed to send what this process's rank sends. */
int does_run(const struct channel *by, int rank);

/* To all ranks. */
enum { EVERYBODY = -1 };

/* Whether the contents of a range of device memory are known, the less certain the higher (but for
 * UNKNOWN). SAMPLED: they come from random numbers. ASSUMED: a rank that doesn't run would have sent
 * them. CHOSEN: they depend on indices, such as a router's experts, that an operator chose by unknown
 * values. BLANK: unknown values were taken for zeros. DOUBTFUL: a kernel may have changed them since. */
enum knowledge { UNKNOWN, KNOWN, SAMPLED, ASSUMED, CHOSEN, BLANK, DOUBTFUL };

/* Send the message with this number. `as`: how well its bytes are known. Never waits. The
 * numbers of messages to the same receiver must ascend. */
void post(struct channel *by, int to, uint64_t number, const void *data, uint64_t bytes,
          enum knowledge as);

/* Wait for a message, and copy a part of it. Returns UNKNOWN if the message was sent as unknown or
 * so long ago that it's gone, or if its sender has ended or takes too long. */
enum knowledge fetch(struct channel *by, int from, int to, uint64_t number, void *into,
                     uint64_t offset, uint64_t bytes);

/* Wait until each rank that runs has sent its message with this number to everyone. */
void await_all(struct channel *by, uint64_t number);

#endif
