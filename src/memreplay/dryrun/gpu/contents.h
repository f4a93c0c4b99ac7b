/* Which bytes of device memory are known. */
#ifndef MEMREPLAY_CONTENTS_H
#define MEMREPLAY_CONTENTS_H

#include "messages.h"

/* Copy bytes if they are known, after waiting for data that other ranks have sent there. */
enum knowledge read_known(uint64_t at, void *into, uint64_t bytes);
/* Mark these bytes as unknown, and drop data expected there. */
void forget_known(uint64_t at, uint64_t bytes);

/* How much is known of a range, after waiting for data that other ranks have sent there. */
enum knowledge look_up(uint64_t at, uint64_t bytes);
/* Whether any byte of a range is known. */
int is_any_known(uint64_t at, uint64_t bytes);
/* Mark bytes that were written as known. Returns 0 if too much is known already. */
int set_known(uint64_t at, uint64_t bytes, enum knowledge as);

/* --- values.c ------------------------------------------------------------------------------------- */

/* Whether Python notes what the running operator writes. `code`: the kernel, or the code that called
 * this library; NULL if unknown. */
int are_writes_noted(const void *code);
/* The number that the running operator reads next, if the host has computed it. */
enum knowledge next_answer(void *into, uint64_t bytes);

#endif
