/* What ranks send each other: processes of one machine, by a file that each of them writes its own part
 * of. */
#ifndef MEMREPLAY_MESSAGES_H
#define MEMREPLAY_MESSAGES_H

#include "gpu.h"

struct channel;

/* The one of that name, which all ranks open. NULL where there can be none. */
struct channel *open_channel(const char *name, int ranks, int rank);

/* To all ranks. */
enum { EVERYBODY = -1 };

/* Of a stretch of device memory: DOUBTFUL where a kernel may have changed it since it was known. */
enum knowledge { UNKNOWN, KNOWN, DOUBTFUL };

/* Sends the message of that number, whose bytes are known so. It never waits. Numbers of messages to
 * the same receiver ascend. */
void post(struct channel *by, int to, uint64_t number, const void *data, uint64_t bytes,
          enum knowledge as);

/* Waits for a message, and copies a part of it. UNKNOWN where it was sent so, or so long ago that it is
 * gone, or its sender has ended or has not sent it for long. */
enum knowledge fetch(struct channel *by, int from, int to, uint64_t number, void *into,
                     uint64_t offset, uint64_t bytes);

/* Waits until each rank has sent its message of that number to everybody. */
void await_all(struct channel *by, uint64_t number);

#endif
