/* Which blocks PyTorch's allocator takes and lets go, as it tells whoever traces it. It does so by a
 * table of virtual functions (PyInterpreterVTable); Python's own, behind torch.cuda._gpu_trace, loses
 * an exception that is on its way while a block is freed. This one stays out of Python. */
#include "gpu.h"

enum { MOST_SLOTS = 256 };

static void *table[MOST_SLOTS];
static void *const *object = table; /* an object begins with where its virtual functions are … */
static const void *interpreter = &object; /* … and a PyInterpreter with where that object is */

/* Who else wants to know, in the program itself: PyTorch tells one alone. */
static void (*also_taken)(uint64_t at), (*also_let_go)(uint64_t at);

API void memreplay_also(void (*if_taken)(uint64_t at), void (*if_let_go)(uint64_t at)) {
    also_taken = if_taken;
    also_let_go = if_let_go;
}

static void nothing(void) {
}

static void tell(uint64_t at, int is_taken) {
    memreplay_block(at, is_taken);
    if (is_taken && also_taken)
        also_taken(at);
    if (!is_taken && also_let_go)
        also_let_go(at);
}

/* Arguments: the object; since PyTorch 2.2 the kind of device; the address. */
static void taken(void *self, int kind, uint64_t at) {
    (void)self, (void)kind;
    tell(at, 1);
}

static void let_go(void *self, int kind, uint64_t at) {
    (void)self, (void)kind;
    tell(at, 0);
}

static void taken_before_2_2(void *self, uint64_t at) {
    (void)self;
    tell(at, 1);
}

static void let_go_before_2_2(void *self, uint64_t at) {
    (void)self;
    tell(at, 0);
}

/* A PyInterpreter whose functions at these places of the table are told of blocks, NULL where there are
 * no such places. `kind`: whether they are told the kind of device, too. */
API const void *memreplay_trace(int taken_slot, int let_go_slot, int kind) {
    if (taken_slot < 0 || taken_slot >= MOST_SLOTS || let_go_slot < 0 || let_go_slot >= MOST_SLOTS)
        return NULL;
    for (int i = 0; i < MOST_SLOTS; i++)
        table[i] = (void *)nothing;
    table[taken_slot] = kind ? (void *)taken : (void *)taken_before_2_2;
    table[let_go_slot] = kind ? (void *)let_go : (void *)let_go_before_2_2;
    return &interpreter;
}
