/* NCCL. Ranks find each other immediately. A small message really arrives if its contents are
 * known, as they are for counts, flags and pickled objects. The contents of all other messages are
 * unknown. A rank that doesn't run is assumed to send what this one sends. */
#include "arrivals.h"
#include "contents.h"
#include "members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ncclResult_t */
enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

struct communicator {
    int ranks, rank, device;
    char name[NAME_BYTES];   /* the same on all ranks, and unique */
    struct channel *channel; /* NULL if messages aren't transferred */
    unsigned char *run;      /* whether each rank runs; NULL if all do */
    uint64_t number;         /* collectives so far; all ranks agree on the number */
    uint64_t made;           /* communicators split from this one so far */
    uint64_t *sent, *received; /* messages to and from each rank */
};

API int ncclGetVersion(int *version) {
    *version = 22000;
    return SUCCESS;
}

API const char *ncclGetErrorString(int error) {
    return error ? "an error of NCCL, which is not there" : "no error";
}

API const char *ncclGetLastError(struct communicator *of) {
    (void)of;
    return "";
}

/* --- communicators ------------------------------------------------------------------------------ */

/* ncclUniqueId is passed by value, that is, on the stack. */
struct unique_id {
    char bytes[ID_BYTES];
};

API int ncclGetUniqueId(struct unique_id *id) {
    CALLED;
    memset(id, 0, sizeof *id);
    return getrandom(id->bytes, 16, 0) == 16 ? SUCCESS : SYSTEM_ERROR;
}

/* Make a name of 32 digits from any bytes (FNV-1a with two bases). */
static void name_of(const void *bytes, size_t n, char *name) {
    uint64_t hash[2] = {14695981039346656037u, 1099511628211u};
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < n; at++)
            hash[i] = (hash[i] ^ ((const unsigned char *)bytes)[at]) * 1099511628211u;
    snprintf(name, NAME_BYTES, "%016llx%016llx", (unsigned long long)hash[0],
             (unsigned long long)hash[1]);
}

/* `run`: whether each rank runs; NULL if all do. */
static int made(struct communicator **out, int ranks, int rank, const char *name,
                const unsigned char *run) {
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return INVALID_ARGUMENT;
    struct communicator *it = calloc(1, sizeof *it);
    uint64_t *counts = calloc(2 * (size_t)ranks, sizeof *counts);
    unsigned char *kept = run ? malloc(ranks) : NULL;
    if (!it || !counts || (run && !kept)) {
        free(it);
        free(counts);
        free(kept);
        return SYSTEM_ERROR;
    }
    if (run)
        memcpy(kept, run, ranks);
    *it = (struct communicator){.ranks = ranks, .rank = rank, .device = current_device(),
                                .run = kept, .sent = counts, .received = counts + ranks};
    snprintf(it->name, sizeof it->name, "%s", name);
    it->channel = ranks > 1 ? open_channel(name, ranks, rank, run) : NULL;
    if (ranks > 1)
        outside_each(COMMUNICATOR);
    *out = it;
    return SUCCESS;
}

static int runs(const struct communicator *of, int rank) {
    return !of->run || of->run[rank];
}

static int made_by_id(struct communicator **out, int ranks, int rank, const struct unique_id *id) {
    char name[NAME_BYTES];
    const struct members *members = members_of(id->bytes);
    if (members)
        return members->ranks == ranks ? made(out, ranks, rank, members->name, members->run)
                                       : INVALID_ARGUMENT;
    name_of(id->bytes, sizeof id->bytes, name);
    return made(out, ranks, rank, name, NULL);
}

API int ncclCommInitRank(struct communicator **out, int ranks, struct unique_id id, int rank) {
    CALLED;
    return made_by_id(out, ranks, rank, &id);
}

API int ncclCommInitRankConfig(struct communicator **out, int ranks, struct unique_id id, int rank,
                               void *configuration) {
    CALLED;
    (void)configuration;
    return made_by_id(out, ranks, rank, &id);
}

API int ncclCommInitRankScalable(struct communicator **out, int ranks, int rank, int ids,
                                 struct unique_id *id, void *configuration) {
    CALLED;
    (void)configuration;
    return ids > 0 ? made_by_id(out, ranks, rank, id) : INVALID_ARGUMENT;
}

/* Create one communicator per device, all in this process. */
API int ncclCommInitAll(struct communicator **out, int devices, const int *list) {
    CALLED;
    struct unique_id id;
    int error = ncclGetUniqueId(&id);
    int before = current_device();
    for (int rank = 0; rank < devices && !error; rank++) {
        error = cudaSetDevice(list ? list[rank] : rank);
        if (!error)
            error = made_by_id(&out[rank], devices, rank, &id);
    }
    cudaSetDevice(before);
    return error;
}

/* Create a communicator for some of this communicator's ranks. They all pass the same number. */
static int made_of(struct communicator *of, struct communicator **out, int ranks, int rank,
                   int64_t number, const unsigned char *run) {
    struct {
        char name[40];
        uint64_t made;
        int64_t number;
    } together = {.made = of->made, .number = number};
    char name[NAME_BYTES];
    memcpy(together.name, of->name, sizeof of->name);
    name_of(&together, sizeof together, name);
    return made(out, ranks, rank, name, run);
}

/* Create a communicator for the ranks with the same colour, in the order of their keys. As in NCCL,
 * all ranks must call this. */
API int ncclCommSplit(struct communicator *of, int color, int key, struct communicator **out,
                      void *configuration) {
    CALLED;
    (void)configuration;
    int32_t mine[2] = {color, key}, other[2];
    uint64_t number = of->number++;
    int ranks = 0, rank = 0;
    *out = NULL;
    of->made++;
    if (of->run) { /* the colours of ranks that don't run are unknown, so Python says who is in */
        const struct members *next = members_of_next();
        if (color < 0)
            return SUCCESS;
        return next ? made_of(of, out, next->ranks, next->rank, color, next->run) : INVALID_USAGE;
    }
    post(of->channel, EVERYBODY, number, mine, sizeof mine, KNOWN);
    for (int i = 0; i < of->ranks; i++) {
        if (i == of->rank)
            memcpy(other, mine, sizeof mine);
        else if (!fetch(of->channel, i, EVERYBODY, number, other, 0, sizeof other))
            return SYSTEM_ERROR;
        if (other[0] == color) {
            ranks++;
            rank += other[1] < key || (other[1] == key && i < of->rank);
        }
    }
    return color < 0 ? SUCCESS /* NCCL_SPLIT_NOCOLOR */ : made_of(of, out, ranks, rank, color, NULL);
}

/* Create a communicator for all of this communicator's ranks except some. */
API int ncclCommShrink(struct communicator *of, const int *without, int n, struct communicator **out,
                       void *configuration, int flags) {
    CALLED;
    (void)configuration, (void)flags;
    int rank = of->rank, kept = 0;
    unsigned char *run = of->run ? malloc(of->ranks) : NULL;
    if (of->run && !run)
        return SYSTEM_ERROR;
    for (int i = 0; i < n; i++)
        rank -= without[i] < of->rank;
    for (int i = 0; i < of->ranks && run; i++) {
        int is_kept = 1;
        for (int j = 0; j < n; j++)
            is_kept &= without[j] != i;
        run[kept] = of->run[i];
        kept += is_kept;
    }
    of->made++;
    int error = made_of(of, out, of->ranks - n, rank, -1, run);
    free(run);
    return error;
}

API int ncclCommCount(const struct communicator *of, int *count) {
    *count = of->ranks;
    return SUCCESS;
}

API int ncclCommUserRank(const struct communicator *of, int *rank) {
    *rank = of->rank;
    return SUCCESS;
}

API int ncclCommCuDevice(const struct communicator *of, int *device) {
    *device = of->device;
    return SUCCESS;
}

API int ncclCommGetAsyncError(struct communicator *of, int *error) {
    (void)of;
    *error = SUCCESS;
    return SUCCESS;
}

/* The channel stays open, because messages from it may still be awaited. */
API int ncclCommDestroy(struct communicator *of) {
    CALLED;
    if (of && of->ranks > 1)
        outside_gone(COMMUNICATOR, of->device);
    if (of) {
        free(of->sent);
        free(of->run);
    }
    free(of);
    return SUCCESS;
}

API int ncclCommAbort(struct communicator *of) {
    return ncclCommDestroy(of);
}

API int ncclCommMemStats(struct communicator *of, int which, uint64_t *bytes) {
    (void)of, (void)which;
    *bytes = 0; /* it isn't known how much memory NCCL takes, and the allocator doesn't count it */
    return SUCCESS;
}

/* --- buffers ------------------------------------------------------------------------------------ */

API int ncclMemAlloc(void **at, size_t bytes) {
    return cudaMalloc(at, bytes);
}

API int ncclMemFree(void *at) {
    return cudaFree(at);
}

API int ncclCommRegister(struct communicator *of, void *at, size_t bytes, void **handle) {
    CALLED;
    (void)of, (void)at, (void)bytes;
    *handle = HANDLE;
    return SUCCESS;
}

API int ncclCommWindowRegister(struct communicator *of, void *at, size_t bytes, void **window,
                               int flags) {
    CALLED;
    (void)of, (void)at, (void)bytes, (void)flags;
    *window = HANDLE;
    return SUCCESS;
}

/* Functions that need another rank's memory aren't supported. */
#define NOT_SUPPORTED(function) \
    API int function(void) {    \
        CALLED;                 \
        return INVALID_USAGE;   \
    }

NOT_SUPPORTED(ncclCommGetUniqueId)
NOT_SUPPORTED(ncclCommGrow)
NOT_SUPPORTED(ncclDevCommCreate)
NOT_SUPPORTED(ncclWinGetUserPtr)
NOT_SUPPORTED(ncclGetPeerDevicePointer)
NOT_SUPPORTED(ncclGetLsaMultimemDevicePointer)

/* --- groups of calls ---------------------------------------------------------------------------- */

/* An exchange between all ranks may be a group of calls, one for each rank. In such a group, a rank
 * that doesn't run is assumed to send what this one sends to itself, if that's as long. */
static __thread struct {
    int depth;
    struct arrival *them; /* from ranks that don't run */
    int64_t n, room;
    struct arrival own; /* what this rank sends to itself; 0 bytes if nothing */
} group;

enum { NOTHING = -2 }; /* the sender of an arrival that only the group's end may tell */

static void end_group(void) {
    for (int64_t i = 0; i < group.n; i++) {
        struct arrival it = group.them[i];
        if (it.bytes == group.own.bytes && it.by == group.own.by) {
            it.to = group.own.to;
            it.number = group.own.number;
            expect(it);
        } else if (it.to != NOTHING) {
            expect(it);
        }
    }
    group.n = 0;
    group.own.bytes = 0;
}

API int ncclGroupStart(void) {
    CALLED;
    group.depth++;
    return SUCCESS;
}

API int ncclGroupEnd(void) {
    CALLED;
    if (group.depth > 0 && !--group.depth)
        end_group();
    return SUCCESS;
}

/* Expect data from a rank that doesn't run. `to`: NOTHING if this rank has sent nothing like it. */
static void take_later(struct arrival it, int to) {
    it.to = to;
    if (group.depth &&
        have_room((void **)&group.them, group.n + 1, &group.room, sizeof *group.them))
        group.them[group.n++] = it;
    else if (to != NOTHING)
        expect(it);
}

/* --- collectives -------------------------------------------------------------------------------- */

static uint64_t bytes_of(size_t count, int type) {
    static const int bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return type >= 0 && type < 12 ? count * bytes[type] : 0;
}

/* A reduction defined by PyTorch. Its result isn't known. */
API int ncclRedOpCreatePreMulSum(int *operation) {
    CALLED;
    *operation = 1000;
    return SUCCESS;
}

/* A call that every rank makes. */
struct call {
    struct communicator *of;
    uint64_t number;
    /* Whether messages are transferred. A captured call transfers none, because it only happens
     * when its graph is launched. */
    int carried;
    enum knowledge known; /* how well this rank's input is known */
    int type, operation;
};

/* A part of a message. */
struct range_of {
    uint64_t offset, n;
};

/* Bytes that repeated messages may take in memory, because the host holds them. */
enum { MOST_REPEATED = 1 << 20 };

static int called_by_all(struct communicator *of, int type, int operation, void *stream,
                         struct call *made) {
    *made = (struct call){.of = of, .carried = of->channel && !is_captured(stream), .type = type,
                          .operation = operation};
    if (made->carried)
        made->number = of->number++;
    return made->carried;
}

/* Send the same data to all ranks, if it's known. */
static void give(struct call *call, const void *from, uint64_t bytes) {
    char *data = bytes <= SMALL ? malloc(bytes + 1) : NULL;
    call->known = data ? read_known((uint64_t)(uintptr_t)from, data, bytes) : UNKNOWN;
    post(call->of->channel, EVERYBODY, call->number, data, bytes, call->known);
    free(data);
}

static char *part(void *of, int i, uint64_t bytes) {
    return (char *)of + (uint64_t)i * bytes;
}

/* Note that data will arrive `times` times in a row: one rank's data or, if `from` is -1, the
 * reduction over all ranks. */
static void take_often(const struct call *call, void *to, int from, struct range_of bytes,
                       int times) {
    uint64_t at = (uint64_t)(uintptr_t)to, all = bytes.n * times;
    if (!all)
        return;
    forget_known(at, all);
    if (call->carried && bytes.n <= SMALL && all <= MOST_REPEATED && (from >= 0 || call->known))
        expect((struct arrival){at, all, call->of->channel, from, EVERYBODY, call->number,
                                bytes.offset, call->of->ranks, call->type, call->operation, times});
}

static void take(const struct call *call, void *to, int from, uint64_t offset, uint64_t bytes) {
    take_often(call, to, from, (struct range_of){offset, bytes}, 1);
}

/* Note that data will arrive from each rank. Ranks that don't run are assumed to send the same. */
static void take_from_all(const struct call *call, void *to, uint64_t offset, uint64_t bytes) {
    const struct communicator *of = call->of;
    for (int rank = 0, n; rank < of->ranks; rank += n) {
        n = 1;
        while (rank + n < of->ranks && !runs(of, rank) && !runs(of, rank + n))
            n++;
        take_often(call, part(to, rank, bytes), rank, (struct range_of){offset, bytes}, n);
    }
}

/* If there's only one rank, copy its data. */
static int alone(const struct communicator *of, const void *from, void *to, uint64_t bytes,
                 void *stream) {
    if (of->ranks > 1)
        return 0;
    if (from != to)
        cudaMemcpyAsync(to, from, bytes, 3, stream);
    return 1;
}

API int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                      struct communicator *of, void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, operation, stream, &call)) {
        give(&call, from, bytes);
        /* PyTorch's barriers are reductions of one number. Actually wait, because the ranks may
         * then exchange data through files. */
        if (count == 1 && from == to)
            await_all(of->channel, call.number);
    }
    take(&call, to, -1, 0, bytes);
    return SUCCESS;
}

API int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
                   struct communicator *of, void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, operation, stream, &call))
        give(&call, from, bytes);
    if (of->rank == root)
        take(&call, to, -1, 0, bytes);
    return SUCCESS;
}

API int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                          struct communicator *of, void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, operation, stream, &call))
        give(&call, from, of->ranks * bytes);
    take(&call, to, -1, of->rank * bytes, bytes);
    return SUCCESS;
}

API int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                      struct communicator *of, void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, 0, stream, &call)) {
        if (of->rank == root || !runs(of, root))
            give(&call, from, bytes);
        else
            post(of->channel, EVERYBODY, call.number, NULL, 0, UNKNOWN);
    }
    if (of->rank == root) {
        if (call.carried && bytes <= SMALL && group.depth)
            group.own = (struct arrival){.by = of->channel, .bytes = bytes, .to = EVERYBODY,
                                         .number = call.number};
        if (from != to)
            cudaMemcpyAsync(to, from, bytes, 3, stream);
    } else if (runs(of, root) || !call.carried || !bytes || bytes > SMALL) {
        take(&call, to, root, 0, bytes);
    } else {
        forget_known((uint64_t)(uintptr_t)to, bytes);
        take_later((struct arrival){.at = (uint64_t)(uintptr_t)to, .bytes = bytes,
                                    .by = of->channel, .from = root, .number = call.number,
                                    .times = 1},
                   EVERYBODY);
    }
    return SUCCESS;
}

API int ncclBcast(void *at, size_t count, int type, int root, struct communicator *of,
                  void *stream) {
    return ncclBroadcast(at, at, count, type, root, of, stream);
}

API int ncclAllGather(const void *from, void *to, size_t count, int type, struct communicator *of,
                      void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, 0, stream, &call))
        give(&call, from, bytes);
    take_from_all(&call, to, 0, bytes);
    return SUCCESS;
}

API int ncclGather(const void *from, void *to, size_t count, int type, int root,
                   struct communicator *of, void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, 0, stream, &call))
        give(&call, from, bytes);
    if (of->rank == root)
        take_from_all(&call, to, 0, bytes);
    return SUCCESS;
}

API int ncclScatter(const void *from, void *to, size_t count, int type, int root,
                    struct communicator *of, void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, 0, stream, &call)) {
        if (of->rank == root)
            give(&call, from, of->ranks * bytes);
        else
            post(of->channel, EVERYBODY, call.number, NULL, 0, UNKNOWN);
    }
    take(&call, to, root, of->rank * bytes, bytes);
    return SUCCESS;
}

API int ncclAlltoAll(const void *from, void *to, size_t count, int type, struct communicator *of,
                     void *stream) {
    CALLED;
    struct call call;
    uint64_t bytes = bytes_of(count, type);
    if (alone(of, from, to, bytes, stream))
        return SUCCESS;
    if (called_by_all(of, type, 0, stream, &call))
        give(&call, from, of->ranks * bytes);
    take_from_all(&call, to, of->rank * bytes, bytes);
    return SUCCESS;
}

/* --- from one rank to another ------------------------------------------------------------------- */

static void take_from_one(struct arrival it) {
    if (does_run(it.by, it.from))
        expect(it);
    else
        take_later(it, NOTHING);
}

API int ncclSend(const void *from, size_t count, int type, int peer, struct communicator *of,
                 void *stream) {
    CALLED;
    uint64_t bytes = bytes_of(count, type);
    if (peer < 0 || peer >= of->ranks)
        return INVALID_ARGUMENT;
    if (!of->channel || is_captured(stream))
        return SUCCESS;
    char *data = bytes <= SMALL ? malloc(bytes + 1) : NULL;
    enum knowledge known = data ? read_known((uint64_t)(uintptr_t)from, data, bytes) : UNKNOWN;
    if (peer == of->rank && group.depth && bytes <= SMALL)
        group.own = (struct arrival){.by = of->channel, .bytes = bytes, .to = peer,
                                     .number = of->sent[peer]};
    post(of->channel, peer, of->sent[peer]++, data, bytes, known);
    free(data);
    return SUCCESS;
}

API int ncclRecv(void *to, size_t count, int type, int peer, struct communicator *of,
                 void *stream) {
    CALLED;
    uint64_t bytes = bytes_of(count, type), at = (uint64_t)(uintptr_t)to;
    if (peer < 0 || peer >= of->ranks)
        return INVALID_ARGUMENT;
    if (bytes)
        forget_known(at, bytes);
    if (!of->channel || is_captured(stream))
        return SUCCESS;
    uint64_t number = of->received[peer]++;
    if (bytes && bytes <= SMALL)
        take_from_one((struct arrival){.at = at, .bytes = bytes, .by = of->channel, .from = peer,
                                       .to = of->rank, .number = number, .times = 1});
    return SUCCESS;
}
