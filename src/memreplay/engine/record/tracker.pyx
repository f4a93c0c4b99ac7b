# Classify a running program's allocations.
#
# When a thread allocates or frees a block, PyTorch calls these functions in that thread. The
# thread's context (module, optimizer, autograd node) is stored with the block. The block's category
# is determined when the block is freed or marked.
from cpython.pythread cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_release_lock, PyThread_type_lock,
    NOWAIT_LOCK, WAIT_LOCK,
)
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_item
from memreplay.engine.base.hashmap cimport (
    Map64, Slot64, map64_at, map64_find, map64_free, map64_get, map64_init,
)
from memreplay.engine.record.thread cimport DEEPEST, Thread, this_thread

cdef extern from *:
    """
    #include <time.h>
    static int64_t memreplay_now_us(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
    }
    /* A number that another thread may write concurrently, without the lock. */
    #if defined(__GNUC__)
    #define memreplay_peek(of) __atomic_load_n(of, __ATOMIC_RELAXED)
    #define memreplay_poke(of, n) __atomic_store_n(of, n, __ATOMIC_RELAXED)
    #elif defined(_MSC_VER)
    #define memreplay_peek(of) (*(const volatile uint32_t *) (of))
    #define memreplay_poke(of, n) (*(volatile uint32_t *) (of) = (n))
    #else
    #define memreplay_peek(of) (*(of))
    #define memreplay_poke(of, n) (*(of) = (n))
    #endif
    /* C++ returns such an object in memory provided by the caller, like a struct of this size. */
    struct memreplay_node { void *node, *shares, *not_used; };
    static void *memreplay_ask_node(void *ask, int shared) {
        struct memreplay_node got = ((struct memreplay_node (*)(void)) ask)();
        if (got.node == NULL)
            return NULL;
        /* The thread that runs the node also has a reference, so this never drops the last. */
        uint32_t *shares = (uint32_t *) ((char *) (shared ? got.shares : got.node) + 8);
    #if defined(__GNUC__)
        __atomic_fetch_sub(shares, 1, __ATOMIC_RELEASE);
    #else
        *shares -= 1;
    #endif
        return got.node;
    }
    """
    int64_t now_us "memreplay_now_us" () noexcept nogil
    uint32_t peek "memreplay_peek" (const uint32_t* of) noexcept nogil
    void poke "memreplay_poke" (uint32_t* of, uint32_t n) noexcept nogil
    void* ask_node "memreplay_ask_node" (void* ask, int shared) noexcept nogil

cdef enum:
    MOST_MADE = 1 << 20  # beyond this, the nodes created so far are forgotten

cdef Tracker one
# created early, because several threads read the lock
cdef PyThread_type_lock lock = PyThread_allocate_lock()
# Read without the lock.
cdef uint32_t recordings = 0
cdef uint32_t listening = 0  # 1: on; lets callers skip taking the lock


cdef inline Thread* thread_now() noexcept nogil:
    # Return this thread's state in the current recording. State from an earlier recording is reset,
    # because a step that was cut short by an exception isn't running any more.
    cdef Thread* here = this_thread()
    cdef uint32_t now = peek(&recordings)
    if here.recording != now:
        memset(here, 0, sizeof(Thread))
        here.recording = now
    return here


cdef Tracker* tracker() noexcept nogil:
    return &one


cdef void tracker_lock() noexcept nogil:
    # `lock` is NULL only in a forked process that had no memory for a lock, and such a process has
    # only one thread.
    if lock != NULL:
        PyThread_acquire_lock(lock, WAIT_LOCK)


cdef void tracker_unlock() noexcept nogil:
    if lock != NULL:
        PyThread_release_lock(lock)


cdef int tracker_begin(uint64_t seed, uint64_t keep) except -1:
    # Forget everything and start tracking. Raises MemoryError.
    global lock
    if lock == NULL:
        lock = PyThread_allocate_lock()
        if lock == NULL:
            raise MemoryError
    cdef Torch torch
    tracker_end()
    tracker_lock()
    torch = one.torch
    memset(&one, 0, sizeof(one))
    one.torch = torch
    one.keep = keep
    poke(&recordings, recordings + 1)
    one.last_task = -1
    one.outside = PHASE_START
    one.regions = 1
    one.pause = 1
    buf_init(&one.entries, sizeof(Entry))
    buf_init(&one.origins, sizeof(Origin))
    buf_init(&one.made, sizeof(Made))
    if map64_init(&one.live, seed) < 0:
        tracker_unlock()
        raise MemoryError
    one.on = True
    poke(&listening, 1)
    tracker_unlock()
    return 0


cdef void tracker_end() noexcept nogil:
    if lock == NULL:
        return
    poke(&listening, 0)
    tracker_lock()
    one.on = False
    buf_free(&one.entries)
    buf_free(&one.origins)
    buf_free(&one.made)
    map64_free(&one.live)
    tracker_unlock()


cdef void tracker_forked() noexcept:
    # Called in a forked child. Stop tracking: if a thread of the parent was tracking at that
    # moment, it doesn't exist here and never releases the lock, and its data may be inconsistent.
    # The parent can't take the lock before forking, because Python code runs in between, and other
    # threads would wait for the lock while holding the GIL.
    global lock
    if lock == NULL:
        return
    if PyThread_acquire_lock(lock, NOWAIT_LOCK):
        PyThread_release_lock(lock)
        return
    poke(&listening, 0)
    memset(&one, 0, sizeof(one))
    lock = PyThread_allocate_lock()


cdef void tracker_torch(const Torch* torch) noexcept nogil:
    tracker_lock()
    one.torch = torch[0]
    tracker_unlock()


# --- thread context -------------------------------------------------------------------------------

cdef inline int task_now() noexcept nogil:
    return one.torch.task() if one.torch.task != NULL else -1


cdef inline uint64_t node_now() noexcept nogil:
    # Return the address of the autograd node that is running in this thread; 0 if none or unknown.
    if one.torch.node == NULL:
        return 0
    return <uint64_t> ask_node(one.torch.node, one.torch.shared)


cdef inline uint64_t number_of_node(uint64_t node) noexcept nogil:
    return (<const uint64_t*> (<const char*> node + one.torch.sequence_at))[0]


cdef uint32_t module_of_node(uint64_t number) noexcept nogil:
    # Return the module that created the node with this number; 0 if none or unknown. Numbers
    # increase.
    cdef const Made* made = <const Made*> one.made.data
    cdef size_t low = one.made.len, high = one.made.len, middle, back = 1
    while low > 0 and made[low - 1].sequence > number:  # most nodes are from the last step
        high = low - 1
        low = high - back if high > back else 0
        back <<= 1
    while low < high:
        middle = (low + high) >> 1
        if made[middle].sequence <= number:
            low = middle + 1
        else:
            high = middle
    # Nodes that no module creates, like AccumulateGrad, have the highest number.
    return made[low - 1].module if low and number != <uint64_t> -1 else 0


cdef inline void look_for_nodes(Thread* here) noexcept nogil:
    # Count this thread's autograd nodes from now on.
    here.pause = one.pause
    here.sequence = one.torch.sequence() if one.torch.sequence != NULL else 0


cdef inline void pause(Thread* here, uint32_t phase) noexcept nogil:
    # Set the phase that applies outside modules, backward passes and optimizers.
    if one.outside != phase:
        one.outside = phase
        one.regions += 1
        one.pause = one.regions
    look_for_nodes(here)


cdef inline void pause_or_forward(Thread* here) noexcept nogil:
    # In programs without modules, the forward pass has begun if this thread has created a node in
    # this pause. A node is created before its outputs are allocated.
    if one.outside == PHASE_FORWARD or one.torch.sequence == NULL:
        return
    if here.pause != one.pause:
        look_for_nodes(here)  # the number of nodes at the start of the pause isn't known
    elif one.torch.sequence() > here.sequence:
        pause(here, PHASE_FORWARD)


cdef inline int backward_now(Thread* here) noexcept nogil:
    # Return this thread's backward pass, and detect whether it's a new one.
    cdef int task = task_now()
    if task > one.last_task:
        one.last_task = task
        one.graphs += 1
        pause(here, PHASE_OTHER)
    return task


cdef inline uint32_t module_now(const Thread* here) noexcept nogil:
    if here.depth == 0:
        return 0
    return here.modules[(here.depth if here.depth < DEEPEST else DEEPEST) - 1]


cdef inline void make_from_here(uint32_t module) noexcept nogil:
    # Attribute autograd nodes created from now on to this module.
    cdef Made made
    if one.torch.sequence == NULL or one.torch.node == NULL:
        return
    made.sequence = one.torch.sequence()
    made.module = module
    if one.made.len:
        # Sequence numbers restart at 0 in a new thread, so they no longer identify nodes.
        if made.sequence < (<Made*> one.made.data)[one.made.len - 1].sequence:
            one.made.len = 0
        elif made.sequence == (<Made*> one.made.data)[one.made.len - 1].sequence:
            one.made.len -= 1
    if one.made.len >= MOST_MADE:
        one.made.len = 0
    if push_item(&one.made, &made) < 0:
        # Out of memory: don't attribute nodes to the previous module.
        one.made.len = 0
        if one.made.cap:
            push_item(&one.made, &made)


cdef void tracker_enter(uint32_t module) noexcept nogil:
    # Record that this thread has started running a module.
    cdef Thread* here = thread_now()
    cdef bint inside
    if here.depth < DEEPEST:
        here.modules[here.depth] = module
    here.depth += 1
    tracker_lock()
    # Take the lock first, because starting a recording clears `one`, including its functions.
    inside = task_now() >= 0
    if one.on:
        if inside or here.recomputing:
            if not here.recomputing:
                one.regions += 1
                here.region = one.regions
            here.recomputing += 1
        else:
            make_from_here(module)
            if here.depth == 1:
                pause(here, PHASE_FORWARD)
    tracker_unlock()


cdef void tracker_leave(uint32_t module) noexcept nogil:
    # Leave a module, and the modules inside it that an exception cut short.
    cdef Thread* here = thread_now()
    cdef int32_t i = here.depth
    while i > 0 and i <= DEEPEST and here.modules[i - 1] != module:
        i -= 1
    if i == 0:
        return
    tracker_lock()
    if here.recomputing:
        here.recomputing -= here.depth - i + 1
        if here.recomputing < 0:
            here.recomputing = 0
    here.depth = i - 1
    if one.on and not here.recomputing:
        make_from_here(module_now(here))
    tracker_unlock()


cdef void tracker_recompute(bint begins) noexcept nogil:
    # A checkpoint recomputes.
    cdef Thread* here = thread_now()
    tracker_lock()
    if begins:
        if not here.recomputing:
            one.regions += 1
            here.region = one.regions
        here.recomputing += 1
    elif here.recomputing:
        here.recomputing -= 1
    tracker_unlock()


cdef void tracker_optimize(bint begins) noexcept nogil:
    # An optimizer steps.
    cdef Thread* here = thread_now()
    tracker_lock()
    if begins:
        if not here.optimizing:
            one.regions += 1
            here.step = one.regions
        here.optimizing += 1
    elif here.optimizing:
        here.optimizing -= 1
        if not here.optimizing and not here.recomputing and task_now() < 0:
            pause(here, PHASE_DATA)
    tracker_unlock()


cdef uint32_t tracker_give(uint32_t category) noexcept nogil:
    # Set the category for this thread's allocations from now on (CATEGORY_NONE: detect it). Returns
    # the previous category.
    cdef Thread* here = thread_now()
    cdef uint32_t before = here.given
    here.given = category
    return before


cdef int tracker_optimizing() noexcept nogil:
    return thread_now().optimizing


cdef int tracker_evaluate(int steps) noexcept nogil:
    # Set the number of running optimizer steps, which is 0 while a step evaluates the model.
    # Returns the previous number.
    cdef Thread* here = thread_now()
    cdef int before = here.optimizing
    here.optimizing = steps
    return before


cdef bint tracker_in_backward() noexcept nogil:
    cdef bint inside
    tracker_lock()
    inside = task_now() >= 0
    tracker_unlock()
    return inside


cdef int tracker_depth() noexcept nogil:
    return thread_now().depth


cdef uint32_t tracker_module() noexcept nogil:
    return module_now(thread_now())


cdef void tracker_step() noexcept nogil:
    tracker_lock()
    poke(&one.steps, one.steps + 1)
    tracker_unlock()


cdef void tracker_resume() noexcept nogil:
    cdef Thread* here = thread_now()
    tracker_lock()
    pause(here, PHASE_DATA)
    tracker_unlock()


cdef int64_t tracker_now_us() noexcept nogil:
    return now_us()


cdef Sums tracker_sums() noexcept nogil:
    # Return the totals so far.
    cdef Sums found
    memset(&found, 0, sizeof(found))
    if lock == NULL:
        return found
    tracker_lock()
    found.count = one.count
    found.dropped = one.dropped
    found.noted = one.entries.len
    tracker_unlock()
    return found


# --- allocations ---------------------------------------------------------------------------------

cdef void tracker_alloc(uint64_t address) noexcept nogil:
    # Called when the allocator has allocated a block.
    cdef Thread* here = thread_now()
    cdef Origin o
    cdef int task
    cdef int64_t now
    cdef uint32_t module
    if not peek(&listening) or address == 0:
        return
    now = now_us()
    memset(&o, 0, sizeof(o))
    o.mark = here.given
    module = module_now(here)
    tracker_lock()
    if not one.on:
        tracker_unlock()
        return
    task = backward_now(here)
    o.graphs = one.graphs
    o.steps = one.steps
    o.region = here.region
    if here.optimizing:
        o.phase = PHASE_OPTIMIZER
        o.region = here.step
    elif here.recomputing:
        o.phase = PHASE_RECOMPUTATION
    elif task >= 0:
        o.phase = PHASE_BACKWARD
        o.node = node_now()
        # Gradients are summed between two nodes. Attribute such allocations to the last node's
        # module.
        if o.node:
            o.number = number_of_node(o.node)
        if o.node and (o.node != here.node or o.number != here.number):
            here.node = o.node
            here.number = o.number
            here.node_module = module_of_node(o.number)
        module = here.node_module
    elif here.depth:
        o.phase = PHASE_FORWARD
    else:
        pause_or_forward(here)
        o.phase = one.outside
        o.region = one.pause
    note(address, now, module, &o)
    tracker_unlock()


cdef uint32_t note(uint64_t address, int64_t born_us, uint32_t module,
                   const Origin* o) noexcept nogil:
    # Add an entry and return its number + 1; 0 when out of memory.
    cdef Slot64* slot = map64_at(&one.live, address, 0)
    cdef Entry e
    cdef Origin* room
    one.count += 1
    if slot == NULL or one.entries.len >= <size_t> 4294967294u:
        one.dropped += 1
        return 0
    if slot.value:  # the free of the previous block was missed
        end(&(<Entry*> one.entries.data)[slot.value - 1])
        slot.value = 0
    e.address = address
    e.born_us = born_us
    e.died_at = 0
    e.module = module
    if not one.free:
        if push_item(&one.origins, o) < 0:
            one.dropped += 1
            return 0
        (<Origin*> one.origins.data)[one.origins.len - 1].owner = 0
        one.free = <uint32_t> one.origins.len
    e.what = one.free
    if push_item(&one.entries, &e) < 0:
        one.dropped += 1
        return 0
    room = &(<Origin*> one.origins.data)[one.free - 1]
    one.free = room.owner
    room[0] = o[0]
    slot.value = <uint32_t> one.entries.len
    return slot.value


cdef inline void end(Entry* e) noexcept nogil:
    cdef uint32_t at = e.what
    cdef Origin* o = &(<Origin*> one.origins.data)[at - 1]
    e.what = tracker_what(o, True)
    if o.owner:
        e.module = o.owner
    e.died_at = one.count
    o.owner = one.free
    one.free = at


cdef void tracker_free(uint64_t address) noexcept nogil:
    # Called when the program frees a block.
    cdef Slot64* slot
    cdef Thread* here = thread_now()
    if not peek(&listening) or address == 0:
        return
    tracker_lock()
    if one.on:
        if backward_now(here) < 0 and here.pause != one.pause:
            look_for_nodes(here)
        one.count += 1
        slot = map64_find(&one.live, address)
        if slot != NULL and slot.value:
            end(&(<Entry*> one.entries.data)[slot.value - 1])
            slot.value = 0
        if (one.keep < one.count and one.entries.len > 65536 + 4 * one.keep
                and one.entries.len > one.most):
            forget()
    tracker_unlock()


cdef void forget() noexcept nogil:
    # Drop entries that were freed too long ago to be in the recording.
    cdef Entry* e = <Entry*> one.entries.data
    cdef size_t i, n = 0
    cdef uint64_t before = one.count - one.keep
    cdef Slot64* slot
    for i in range(one.entries.len):
        if e[i].died_at and e[i].died_at < before:
            continue
        if not e[i].died_at:
            # Find the slot without allocating, because this must not fail: a slot that keeps its
            # old index would refer to another entry.
            slot = map64_find(&one.live, e[i].address)
            if slot != NULL:
                slot.value = <uint32_t> (n + 1)
        e[n] = e[i]
        n += 1
    one.entries.len = n
    one.most = 2 * n  # so that this doesn't run at each free if many entries are live
    # Otherwise, addresses that are no longer used would fill the table.
    if one.live.used > 4 * n + 65536:
        renew()


cdef void renew() noexcept nogil:
    cdef Map64 fresh
    cdef Entry* e = <Entry*> one.entries.data
    cdef Slot64* slot
    cdef size_t i
    if map64_init(&fresh, one.live.seed) < 0:
        return
    for i in range(one.entries.len):
        if not e[i].died_at:
            slot = map64_at(&fresh, e[i].address, 0)
            if slot == NULL:
                map64_free(&fresh)
                return
            slot.value = <uint32_t> (i + 1)
    map64_free(&one.live)
    one.live = fresh


cdef inline void mark_entry(uint32_t at, uint32_t category, uint32_t module) noexcept nogil:
    cdef const Entry* e = &(<const Entry*> one.entries.data)[at - 1]
    cdef Origin* o = &(<Origin*> one.origins.data)[e.what - 1]
    if category == CATEGORY_INPUT and e.module:
        return  # a module's output stays an output even if it's detached
    if not o.mark or category < o.mark:
        o.mark = category
        o.owner = module
    elif category == o.mark and not o.owner:
        o.owner = module


cdef bint tracker_mark_live(uint64_t address, uint32_t category, uint32_t module) noexcept nogil:
    # Mark the block at this address with a category (e.g. parameter) and a module. Returns whether
    # there is such a block.
    cdef uint32_t at = 0
    tracker_lock()
    if one.on and address:
        at = map64_get(&one.live, address, 0)
        if at:
            mark_entry(at, category, module)
    tracker_unlock()
    return at != 0


cdef void tracker_mark(uint64_t address, uint32_t category, uint32_t module) noexcept nogil:
    # Like tracker_mark_live, but an unknown block counts as allocated before the recording.
    cdef uint32_t at
    cdef Origin o
    tracker_lock()
    if one.on and address:
        at = map64_get(&one.live, address, 0)
        if at == 0:
            memset(&o, 0, sizeof(o))
            o.phase = PHASE_BEFORE
            at = note(address, 0, 0, &o)
        if at:
            mark_entry(at, category, module)
    tracker_unlock()


cdef uint32_t tracker_what(const Origin* o, bint ended) noexcept nogil:
    # Return the phase and category of an allocation that this thread frees or that is live at the
    # end.
    return (o.phase << 4) | category_of(o, ended)


cdef uint32_t category_of(const Origin* o, bint ended) noexcept nogil:
    cdef const Thread* here = thread_now()
    if o.mark:
        return o.mark
    if o.phase == PHASE_OPTIMIZER:
        return (CATEGORY_TEMPORARY if here.optimizing and o.region == here.step
                else CATEGORY_STATE)
    if o.phase == PHASE_RECOMPUTATION and ended and here.recomputing and o.region == here.region:
        return CATEGORY_TEMPORARY
    # Memory that is freed by the node that allocated it was never passed on.
    if (o.phase == PHASE_BACKWARD and o.node and task_now() >= 0 and node_now() == o.node
            and number_of_node(o.node) == o.number):
        return CATEGORY_TEMPORARY
    if o.phase in (PHASE_FORWARD, PHASE_BACKWARD, PHASE_RECOMPUTATION):
        if peek(&one.steps) > o.steps + 1:  # the lock isn't held when a recording is read
            return CATEGORY_OTHER
        if o.phase == PHASE_FORWARD and ended and one.graphs == o.graphs:
            return CATEGORY_TEMPORARY
        return CATEGORY_DETAIL if o.phase == PHASE_BACKWARD else CATEGORY_ACTIVATION
    if ended and o.region == one.pause:
        return CATEGORY_TEMPORARY
    return CATEGORY_INPUT if o.phase == PHASE_DATA else CATEGORY_OTHER
