/* Which bytes of device memory are known. */
#ifndef MEMREPLAY_CONTENTS_H
#define MEMREPLAY_CONTENTS_H

#include "messages.h"

/* Copy bytes if they are known, after waiting for data that other ranks have sent there. */
enum knowledge read_known(uint64_t at, void *into, uint64_t bytes);
/* Mark these bytes as unknown, and drop data expected there. */
void forget_known(uint64_t at, uint64_t bytes);

#endif
