/* Streams, events and captured graphs. Everything is done immediately, in the order of the
 * calls. */
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t handles = 0x100000; /* used to make unique numbers */

void *new_handle(void) {
    return (void *)(uintptr_t)__atomic_add_fetch(&handles, 16, __ATOMIC_RELAXED);
}

/* --- capture ------------------------------------------------------------------------------------ */

/* A capture includes the stream in which it began and all streams that have waited for one of its
 * events. */
enum { MOST_CAPTURED = 256 };

static struct captured {
    void *stream;
    uint64_t capture; /* its number */
    void *graph;
    int began; /* whether the capture began in this stream, rather than joining through an event */
} captured[MOST_CAPTURED];
static int n_captured;
static uint64_t n_captures;

/* The caller must hold the lock. */
static struct captured *capture_of(void *stream) {
    for (int i = 0; i < n_captured; i++)
        if (captured[i].stream == stream)
            return &captured[i];
    return NULL;
}

API int cudaStreamBeginCapture(void *stream, int mode) {
    CALLED;
    (void)mode;
    pthread_mutex_lock(&lock);
    int error = n_captured == MOST_CAPTURED || capture_of(stream) ? INVALID_VALUE : SUCCESS;
    if (!error)
        captured[n_captured++] = (struct captured){stream, ++n_captures, new_handle(), 1};
    pthread_mutex_unlock(&lock);
    return error ? failed(error) : SUCCESS;
}

API int cudaStreamEndCapture(void *stream, void **graph) {
    CALLED;
    pthread_mutex_lock(&lock);
    struct captured *found = capture_of(stream);
    int error = found && found->began ? SUCCESS : INVALID_VALUE;
    *graph = NULL;
    if (!error) {
        uint64_t ended = found->capture;
        int n = 0;
        *graph = found->graph;
        for (int i = 0; i < n_captured; i++)
            if (captured[i].capture != ended)
                captured[n++] = captured[i];
        n_captured = n;
    }
    pthread_mutex_unlock(&lock);
    return error ? failed(error) : SUCCESS;
}

static int capture_info(void *stream, int *status, unsigned long long *id, void **graph) {
    pthread_mutex_lock(&lock);
    struct captured *found = capture_of(stream);
    *status = found != NULL; /* cudaStreamCaptureStatusActive */
    if (found && id)
        *id = found->capture;
    if (found && graph)
        *graph = found->graph;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int is_captured(void *stream) {
    int status;
    capture_info(stream, &status, NULL, NULL);
    return status;
}

API int cudaStreamIsCapturing(void *stream, int *status) {
    return capture_info(stream, status, NULL, NULL);
}

API int cuStreamIsCapturing(void *stream, int *status) {
    return capture_info(stream, status, NULL, NULL);
}

API int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph,
                                    const void **dependencies, size_t *count) {
    if (dependencies)
        *dependencies = NULL;
    if (count)
        *count = 0;
    return capture_info(stream, status, id, graph);
}

API int cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph,
                                    const void **dependencies, const void **edges, size_t *count) {
    if (edges)
        *edges = NULL;
    return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}

/* CUDA 11's function has only the first three arguments. CUDA 13's is _v3 under the old name. */
API int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void **graph,
                                 const void **dependencies, const void **edges, size_t *count) {
    if (card()->cuda < 13)
        return capture_info(stream, status, id, NULL);
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}

API int cudaThreadExchangeStreamCaptureMode(int *mode) {
    static __thread int before;
    int asked = *mode;
    *mode = before;
    before = asked;
    return SUCCESS;
}

API int cudaGraphInstantiate(void **made, void *graph, unsigned long long flags) {
    CALLED;
    (void)graph, (void)flags;
    *made = new_handle();
    return SUCCESS;
}

API int cudaGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) {
    return cudaGraphInstantiate(made, graph, flags);
}

/* The memory that a graph's kernels write was marked as doubtful during capture, but its contents
 * may have become known again since. */
API int cudaGraphLaunch(void *graph, void *stream) {
    CALLED;
    (void)graph, (void)stream;
    doubt_all();
    return SUCCESS;
}

/* Report one node, because PyTorch warns about graphs without nodes. */
API int cudaGraphGetNodes(void *graph, void **nodes, size_t *count) {
    (void)graph;
    if (nodes && *count)
        nodes[0] = (void *)0x10;
    *count = 1;
    return SUCCESS;
}

/* --- streams ------------------------------------------------------------------------------------ */

API int cudaStreamCreate(void **stream) {
    CALLED;
    *stream = new_handle();
    return SUCCESS;
}

API int cudaStreamCreateWithFlags(void **stream, unsigned flags) {
    (void)flags;
    return cudaStreamCreate(stream);
}

API int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    (void)flags, (void)priority;
    return cudaStreamCreate(stream);
}

API int cudaStreamGetPriority(void *stream, int *priority) {
    (void)stream;
    *priority = 0;
    return SUCCESS;
}

API int cudaStreamQuery(void *stream) {
    (void)stream;
    return SUCCESS;
}

API int cudaStreamSynchronize(void *stream) {
    CALLED;
    (void)stream;
    return SUCCESS;
}

API int cudaDeviceSynchronize(void) {
    CALLED;
    return SUCCESS;
}

/* --- events ------------------------------------------------------------------------------------- */

struct event {
    int queries;      /* number of queries since the event was recorded */
    uint64_t capture; /* the capture in which the event was recorded; 0: none */
};

API int cudaEventCreateWithFlags(void **made, unsigned flags) {
    CALLED;
    (void)flags;
    *made = calloc(1, sizeof(struct event));
    return *made ? SUCCESS : failed(OUT_OF_MEMORY);
}

API int cudaEventCreate(void **made) {
    return cudaEventCreateWithFlags(made, 0);
}

API int cudaEventDestroy(void *event) {
    free(event);
    return SUCCESS;
}

API int cudaEventRecord(void *handle, void *stream) {
    CALLED;
    struct event *event = handle;
    if (!event)
        return failed(INVALID_HANDLE);
    pthread_mutex_lock(&lock);
    struct captured *found = capture_of(stream);
    event->capture = found ? found->capture : 0;
    event->queries = 0;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

API int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) {
    (void)flags;
    return cudaEventRecord(event, stream);
}

API int cudaStreamWaitEvent(void *stream, void *handle, unsigned flags) {
    CALLED;
    struct event *event = handle;
    (void)flags;
    if (!event)
        return failed(INVALID_HANDLE);
    pthread_mutex_lock(&lock);
    /* The stream joins the event's capture, if that hasn't ended. */
    if (event->capture && !capture_of(stream) && n_captured < MOST_CAPTURED)
        for (int i = 0; i < n_captured; i++)
            if (captured[i].capture == event->capture) {
                captured[n_captured] = captured[i];
                captured[n_captured].stream = stream;
                captured[n_captured++].began = 0;
                break;
            }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

/* If the launcher requests it, an event becomes ready only after some queries, as on a busy GPU. */
API int cudaEventQuery(void *handle) {
    CALLED;
    struct event *event = handle;
    if (!event)
        return failed(INVALID_HANDLE);
    return event->queries++ < card()->lag ? NOT_READY : SUCCESS;
}

API int cudaEventSynchronize(void *handle) {
    CALLED;
    struct event *event = handle;
    if (!event)
        return failed(INVALID_HANDLE);
    event->queries = card()->lag;
    return SUCCESS;
}

API int cudaEventElapsedTime(float *ms, void *one, void *other) {
    CALLED;
    (void)one, (void)other;
    /* Code that picks the fastest variant, as compilers do, may pick a different one. */
    unknown_time();
    *ms = 1;
    return SUCCESS;
}

API int cudaEventElapsedTime_v2(float *ms, void *one, void *other) {
    return cudaEventElapsedTime(ms, one, other);
}
