/* Learn which blocks PyTorch's allocator allocates and frees. It reports them through a table of
 * virtual functions (PyInterpreterVTable). Python's own table, behind torch.cuda._gpu_trace, loses
 * an exception that is propagating while a block is freed. This one doesn't run any Python code. */
#include "gpu.h"

enum { MOST_SLOTS = 256 };

static void *table[MOST_SLOTS];
static void *const *object = table; /* an object begins with a pointer to its virtual functions … */
static const void *interpreter = &object; /* … and a PyInterpreter with a pointer to that object */

/* Another listener in the same program. PyTorch itself supports only one. */
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

/* Arguments: the object; since PyTorch 2.2, the device type; the address. */
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

/* Return a PyInterpreter whose functions in these slots of the table are called for blocks; NULL if
 * there are no such slots. `kind`: whether they also get the device type. */
API const void *memreplay_trace(int taken_slot, int let_go_slot, int kind) {
    if (taken_slot < 0 || taken_slot >= MOST_SLOTS || let_go_slot < 0 || let_go_slot >= MOST_SLOTS)
        return NULL;
    for (int i = 0; i < MOST_SLOTS; i++)
        table[i] = (void *)nothing;
    table[taken_slot] = kind ? (void *)taken : (void *)taken_before_2_2;
    table[let_go_slot] = kind ? (void *)let_go : (void *)let_go_before_2_2;
    return &interpreter;
}
