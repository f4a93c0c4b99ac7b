/* Which ranks of a communicator run, if only some of a program's ranks do. */
#ifndef MEMREPLAY_MEMBERS_H
#define MEMREPLAY_MEMBERS_H

enum { ID_BYTES = 128, NAME_BYTES = 33 }; /* NCCL_UNIQUE_ID_BYTES; 32 digits and a zero */

struct members {
    char id[ID_BYTES];
    char name[NAME_BYTES]; /* for the communicator's channel */
    int ranks, rank;
    unsigned char *run; /* for each rank */
    struct members *before;
};

/* The communicator that will be made with this ID; NULL if all its ranks run. */
const struct members *members_of(const char *id);
/* The group that's being made, for communicators that are split from another; NULL if unknown. */
const struct members *members_of_next(void);

#endif
