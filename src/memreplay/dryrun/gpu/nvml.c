/* NVML, which programs query about other processes and the fabric. MEMREPLAY_GPU_PROCESSES names other
 * processes that hold memory on each card: "4711 python 1073741824;…". With MEMREPLAY_GPU_MIG=1, the
 * cards are parts of cards. */
#include "gpu.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7
};

enum { MAX_PROCESSES = 16 };

static struct {
    unsigned pid;
    char name[64];
    uint64_t bytes;
} others[MAX_PROCESSES];
static unsigned n_others;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_processes(void) {
    const char *at = getenv("MEMREPLAY_GPU_PROCESSES");
    for (; at && n_others < MAX_PROCESSES; at = strchr(at, ';'), at = at ? at + 1 : NULL)
        if (sscanf(at, "%u %63s %" SCNu64, &others[n_others].pid, others[n_others].name,
                   &others[n_others].bytes) == 3)
            n_others++;
}

uint64_t bytes_of_others(void) {
    uint64_t bytes = 0;
    pthread_once(&once, read_processes);
    for (unsigned i = 0; i < n_others; i++)
        bytes += others[i].bytes;
    return bytes < card()->bytes - card()->context ? bytes : card()->bytes - card()->context;
}

API int nvmlInit_v2(void) {
    return SUCCESS;
}

API int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return SUCCESS;
}

API int nvmlShutdown(void) {
    return SUCCESS;
}

API const char *nvmlErrorString(int error) {
    return error ? "the fake card can't answer this" : "no error";
}

/* --- devices: a handle is made from the device's number ------------------------------------------ */

static int handle_of(unsigned index, void **device) {
    if (index >= (unsigned)card()->count)
        return NVML_INVALID_ARGUMENT;
    *device = (void *)(uintptr_t)(0x100 + index);
    return SUCCESS;
}

API int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = card()->count;
    return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    return handle_of(index, device);
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    (void)bus;
    return handle_of(0, device);
}

static int is_mig(void) {
    const char *given = getenv("MEMREPLAY_GPU_MIG");
    return given && given[0] == '1';
}

/* The first two bytes of a card's uuid are 'm' and its number (card.c). */
API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char kind[4];
    unsigned index;
    if (sscanf(uuid, "%3s-6d%2x", kind, &index) != 2 || strcmp(kind, is_mig() ? "MIG" : "GPU"))
        return NVML_NOT_FOUND;
    return handle_of(index, device);
}

API int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    (void)device;
    snprintf(name, length, "%s", card()->name);
    return SUCCESS;
}

API int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    snprintf(uuid, length, "%s-6d%02x0000-0000-0000-0000-000000000000", is_mig() ? "MIG" : "GPU",
             (unsigned)((uintptr_t)device - 0x100));
    return SUCCESS;
}

/* nvmlMemory_t */
struct memory {
    unsigned long long total, free, used;
};

API int nvmlDeviceGetMemoryInfo(void *device, struct memory *found) {
    found->total = card()->bytes;
    found->free = free_bytes_of((int)((uintptr_t)device - 0x100));
    found->used = found->total - found->free;
    return SUCCESS;
}

API int nvmlDeviceIsMigDeviceHandle(void *device, unsigned *is) {
    (void)device;
    *is = is_mig();
    return SUCCESS;
}

/* --- processes ---------------------------------------------------------------------------------- */

/* nvmlProcessInfo_t, and nvmlProcessInfo_v1_t, which ends with the bytes. */
struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                                struct process *found) {
    int index = (int)((uintptr_t)device - 0x100);
    unsigned whole, room = *count;
    uint64_t taken = card()->bytes - bytes_of_others() - free_bytes_of(index);
    whole = n_others + (taken > 0);
    *count = whole;
    if (room < whole || !found)
        return whole ? NVML_INSUFFICIENT_SIZE : SUCCESS;
    for (unsigned i = 0; i < n_others; i++)
        found[i] = (struct process){others[i].pid, others[i].bytes, ~0u, ~0u};
    if (taken)
        found[n_others] = (struct process){(unsigned)getpid(), taken, ~0u, ~0u};
    return SUCCESS;
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count,
                                                 struct process *found) {
    (void)device, (void)found;
    *count = 0;
    return SUCCESS;
}

/* Before CUDA 11, with nvmlProcessInfo_v1_t. */
API int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *found) {
    (void)device, (void)found;
    *count = 0;
    return SUCCESS;
}

API int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length) {
    pthread_once(&once, read_processes);
    for (unsigned i = 0; i < n_others; i++)
        if (others[i].pid == pid) {
            snprintf(name, length, "/usr/bin/%s", others[i].name);
            return SUCCESS;
        }
    return NVML_NOT_FOUND;
}

/* --- the fabric and the driver ------------------------------------------------------------------ */

API int nvmlDeviceGetGpuFabricInfoV(void *device, void *info) {
    (void)device, (void)info; /* state 0: not part of a fabric */
    return SUCCESS;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type) {
    (void)device, (void)link;
    *type = 255; /* not known */
    return NVML_NOT_SUPPORTED;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *pci) {
    (void)device, (void)link, (void)pci;
    return NVML_NOT_SUPPORTED;
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return cudaDriverGetVersion(version);
}
