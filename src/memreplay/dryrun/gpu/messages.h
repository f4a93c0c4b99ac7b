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

/* Sends the message of that number, of `data` or of what nobody knows (NULL). It never waits. Numbers
 * of messages to the same receiver ascend. */
void post(struct channel *by, int to, uint64_t number, const void *data, uint64_t bytes);

/* Waits for a message, and copies a part of it. Returns 0 where nobody knows it: it was sent so, or so
 * long ago that it is gone, or its sender has ended or has not sent it for long. */
int fetch(struct channel *by, int from, int to, uint64_t number, void *into, uint64_t offset,
          uint64_t bytes);

/* Waits until each rank has sent its message of that number to everybody. */
void await_all(struct channel *by, uint64_t number);

#endif
