/* Memory that the driver and NVIDIA's libraries take outside the program's allocator: kernels' code,
 * cuBLAS's and cuDNN's handles, cuSOLVER, cuFFT, NCCL's buffers. Each part is taken when the program
 * first needs it. The launcher passes the sizes; snapshot/cards.py says where they come from. */
#include "gpu.h"

/* For each device and part, how often it's taken now, and at most. */
static uint32_t now[MAX_DEVICES][OUTSIDE_PARTS];
API uint32_t memreplay_outside[MAX_DEVICES][OUTSIDE_PARTS];

int outside_each(enum outside part) {
    int device = current_device();
    uint32_t count = __atomic_add_fetch(&now[device][part], 1, __ATOMIC_RELAXED);
    if (count > memreplay_outside[device][part])
        memreplay_outside[device][part] = count;
    take_outside(device, card()->outside[part]);
    return (int)count;
}

void outside_once(enum outside part) {
    int device = current_device();
    if (!__atomic_load_n(&now[device][part], __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&now[device][part], 1, __ATOMIC_RELAXED)) {
        memreplay_outside[device][part] = 1;
        take_outside(device, card()->outside[part]);
    }
}

void outside_gone(enum outside part, int device) {
    __atomic_sub_fetch(&now[device][part], 1, __ATOMIC_RELAXED);
    give_outside(device, card()->outside[part]);
}

/* Forget that kernels ran, because only the probe of values did so (inside/memreplay_values.py). */
API void memreplay_forget_kernels(void) {
    int device = current_device();
    if (!__atomic_exchange_n(&now[device][KERNELS], 0, __ATOMIC_RELAXED))
        return;
    memreplay_outside[device][KERNELS] = 0;
    give_outside(device, card()->outside[KERNELS]);
}

/* Return the most memory that a card has had taken outside the program's allocator, including the
 * context. */
API uint64_t memreplay_outside_bytes(int device) {
    uint64_t bytes = card()->context;
    for (int part = 0; part < OUTSIDE_PARTS; part++)
        bytes += memreplay_outside[device][part] * card()->outside[part];
    return bytes;
}
