/* The driver's virtual memory, which expandable segments use: addresses are reserved, memory is
 * created separately and then mapped there. Only created memory counts against the card. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>

static const uint64_t GRANULE = 2 << 20;

/* The fields of CUmemAllocationProp that are read. */
struct properties {
    int type, handle_types;
    int location_type, device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct created {
    uint64_t bytes; /* 0: released */
    int device;
} *made;
static int64_t n_made, room;

API int cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
    (void)properties, (void)option;
    *bytes = GRANULE;
    return SUCCESS;
}

API int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t alignment, uint64_t wish,
                            unsigned long long flags) {
    CALLED;
    (void)alignment, (void)wish, (void)flags;
    *at = take_addresses(bytes, current_device());
    return *at ? SUCCESS : no_addresses();
}

API int cuMemAddressFree(uint64_t at, size_t bytes) {
    CALLED;
    int device;
    (void)bytes;
    return give_addresses(at, &device) ? SUCCESS : INVALID_VALUE;
}

API int cuMemCreate(uint64_t *handle, size_t bytes, const struct properties *properties,
                    unsigned long long flags) {
    CALLED;
    int device = properties ? properties->device : current_device();
    (void)flags;
    if (!bytes || bytes % GRANULE)
        return INVALID_VALUE;
    if (!take_bytes(device, bytes))
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    int enough = have_room((void **)&made, n_made + 1, &room, sizeof *made);
    if (enough) {
        made[n_made++] = (struct created){bytes, device};
        *handle = n_made; /* from 1 on */
    }
    pthread_mutex_unlock(&lock);
    if (!enough)
        give_bytes(device, bytes);
    return enough ? SUCCESS : OUT_OF_MEMORY;
}

/* The memory is free from now on. The allocators that run here unmap memory before they release
 * it. */
API int cuMemRelease(uint64_t handle) {
    CALLED;
    uint64_t bytes = 0;
    int device = 0;
    pthread_mutex_lock(&lock);
    if (handle && handle <= (uint64_t)n_made) {
        bytes = made[handle - 1].bytes;
        device = made[handle - 1].device;
        made[handle - 1].bytes = 0;
    }
    pthread_mutex_unlock(&lock);
    if (!bytes)
        return INVALID_VALUE;
    give_bytes(device, bytes);
    return SUCCESS;
}

static int is_made(uint64_t handle) {
    pthread_mutex_lock(&lock);
    int found = handle && handle <= (uint64_t)n_made && made[handle - 1].bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

API int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle,
                 unsigned long long flags) {
    CALLED;
    (void)offset, (void)flags;
    if (!bytes || !is_device_address((void *)(uintptr_t)at) || !is_made(handle))
        return INVALID_VALUE;
    return SUCCESS;
}

API int cuMemUnmap(uint64_t at, size_t bytes) {
    CALLED;
    (void)bytes;
    return is_device_address((void *)(uintptr_t)at) ? SUCCESS : INVALID_VALUE;
}

API int cuMemSetAccess(uint64_t at, size_t bytes, const void *access, size_t count) {
    CALLED;
    (void)at, (void)bytes, (void)access, (void)count;
    return SUCCESS;
}

/* --- memory shared with other processes or cards (refused) --------------------------------------- */

/* Older versions of torch look these functions up in the driver's library before they create the
 * first expandable segment, and stop if one is missing. */

API int cuMemExportToShareableHandle(void) {
    return NOT_SUPPORTED;
}

API int cuMemImportFromShareableHandle(void) {
    return NOT_SUPPORTED;
}

API int cuMulticastCreate(void) {
    return NOT_SUPPORTED;
}

API int cuMulticastAddDevice(void) {
    return NOT_SUPPORTED;
}

API int cuMulticastBindMem(void) {
    return NOT_SUPPORTED;
}

/* --- the driver's functions by name -------------------------------------------------------------- */

static int nothing(void) {
    return SUCCESS;
}

/* Return the function with this name. If these libraries lack it, return one that does nothing. */
static void *entry_point(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    return found ? found : (void *)nothing;
}

API int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                int *status) {
    (void)flags;
    *function = entry_point(name);
    if (status)
        *status = SUCCESS;
    return SUCCESS;
}

API int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                         unsigned long long flags, int *status) {
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, status);
}

API int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                            int *status) {
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, status);
}
