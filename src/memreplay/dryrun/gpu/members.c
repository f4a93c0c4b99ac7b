/* Which ranks of a communicator run, if only some of a program's ranks do. Python says so before it
 * is made (inside/memreplay_world.py). */
#include "members.h"
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct members *announced; /* the latest first; they stay */
static const struct members *next;

/* `id`: NULL for the group that's being made. `run`: for each rank, whether it runs; NULL if no group
 * is being made any more. */
API int memreplay_members(const char *id, const char *name, int ranks, int rank,
                          const unsigned char *run) {
    struct members *it = run ? calloc(1, sizeof *it + ranks) : NULL;
    if (run && !it)
        return 0;
    if (it) {
        it->run = (unsigned char *)(it + 1);
        it->ranks = ranks;
        it->rank = rank;
        strncpy(it->name, name, NAME_BYTES - 1);
        memcpy(it->run, run, ranks);
    }
    pthread_mutex_lock(&lock);
    if (id && it) {
        memcpy(it->id, id, ID_BYTES);
        it->before = announced;
        announced = it;
    } else {
        next = it;
    }
    pthread_mutex_unlock(&lock);
    return 1;
}

const struct members *members_of(const char *id) {
    pthread_mutex_lock(&lock);
    const struct members *it = announced;
    while (it && memcmp(it->id, id, ID_BYTES))
        it = it->before;
    pthread_mutex_unlock(&lock);
    return it;
}

const struct members *members_of_next(void) {
    pthread_mutex_lock(&lock);
    const struct members *it = next;
    pthread_mutex_unlock(&lock);
    return it;
}
