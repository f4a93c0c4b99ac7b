"""Find allocations that an optimizer's step both makes and frees.

Optimizer state lasts from one step to the next; temporaries are freed before the step ends. Both
have the optimizer's stacks, often the same ones. A step is a run of events with such stacks and no
other allocation in between. It ends at the last of these events, which is an allocation, or may be
a free if frees have their own stacks. So if the program frees memory between two steps, for example
by deleting an optimizer, that isn't part of a step.

A recording may end within a step. If an allocation in that step isn't freed yet, it's treated like
the other allocations with the same stack, provided none of these outlived their steps.

A step may call a closure that runs the model, as in Lightning's trainer. Allocations in the closure
are the program's, not the optimizer's.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, span_at, spans_len
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, Carried

cdef enum StackBit:
    ASKED = 1         # whether OPTIMIZER is known
    OPTIMIZER = 2     # whether an optimizer's step is running
    WENT = 4          # whether an allocation was freed within its step
    STAYED = 8        # whether an allocation outlived its step
    CALLED = 16       # whether the step called the program


cdef void passing_init(Passing* p, const Replay* r) noexcept nogil:
    # `p` must be zeroed. The caller sets mark and frees_have_stacks afterwards.
    p.replay = r
    buf_init(&p.of_event, 4)
    buf_init(&p.of_carried, 4)
    buf_init(&p.of_stack, 1)


cdef void passing_free(Passing* p) noexcept nogil:
    buf_free(&p.of_event)
    buf_free(&p.of_carried)
    buf_free(&p.of_stack)


cdef bint of_optimizer(Passing* p, uint32_t stack) noexcept nogil:
    cdef uint8_t* at = <uint8_t*> p.of_stack.data + stack
    cdef const uint32_t* ids
    cdef bint program = False    # whether the program runs in an inner frame
    cdef size_t n = 0
    cdef size_t i
    if not at[0] & ASKED:
        at[0] |= ASKED
        ids = <const uint32_t*> span_at(&p.replay.tables.stacks, stack, &n)
        for i in range(n // 4):
            if p.mark[ids[i]] & OF_OPTIMIZER:
                at[0] |= CALLED if program else OPTIMIZER
                break
            program |= (p.mark[ids[i]] & OF_PROGRAM) != 0
    return (at[0] & OPTIMIZER) != 0


cdef uint64_t walk(Passing* p) noexcept nogil:
    # Go backwards, so that a step's end is known before its events are visited. Returns the event
    # after the last allocation that isn't the optimizer's.
    cdef const Replay* r = p.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const uint32_t* end = <const uint32_t*> r.match.data
    cdef uint8_t* of_stack = <uint8_t*> p.of_stack.data
    cdef uint32_t* out = <uint32_t*> p.of_event.data
    cdef uint64_t other = r.events    # the next allocation that isn't the optimizer's
    cdef uint64_t tail = 0
    cdef uint64_t last = 0            # if `open`, the last event of the step
    cdef bint open = False            # whether an event of a step was seen since `other`
    cdef uint64_t i = r.events
    while i:
        i -= 1
        if action[i] == A_ALLOC:
            if not of_optimizer(p, stack[i]):
                if of_stack[stack[i]] & CALLED:
                    out[i] = CALLED_BACK
                tail = tail or i + 1
                other = i
                open = False
                continue
        elif (not p.frees_have_stacks
                or (action[i] != A_FREE_REQUESTED and action[i] != A_FREE_COMPLETED)
                or not of_optimizer(p, stack[i])):
            continue
        if not open:
            open = True
            # Frees without their own stack may belong to the step, up to the next allocation.
            last = i if p.frees_have_stacks or other == r.events else other - 1
        if action[i] != A_ALLOC or (end[i] == NONE32 and other == r.events):
            continue
        if end[i] != NONE32 and action[end[i]] != A_ALLOC and end[i] <= last:
            out[i] = IN_STEP
            of_stack[stack[i]] |= WENT
        else:
            of_stack[stack[i]] |= STAYED
    return tail


cdef int passing_find(Passing* p) noexcept nogil:
    cdef const Replay* r = p.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const uint32_t* end = <const uint32_t*> r.match.data
    cdef uint64_t stacks = spans_len(&r.tables.stacks)
    cdef const uint8_t* of_stack
    cdef uint64_t i
    cdef uint64_t tail
    cdef const Carried* carried = <const Carried*> r.carried.data
    if (buf_reserve(&p.of_event, r.events + 1) < 0 or buf_reserve(&p.of_stack, stacks + 1) < 0
            or buf_reserve(&p.of_carried, r.carried.len + 1) < 0):
        return ERR_MEMORY
    p.of_event.len = r.events
    p.of_stack.len = stacks
    p.of_carried.len = r.carried.len
    memset(p.of_event.data, 0, 4 * (r.events + 1))
    memset(p.of_stack.data, 0, stacks + 1)
    memset(p.of_carried.data, 0, 4 * (r.carried.len + 1))
    tail = walk(p)
    of_stack = <const uint8_t*> p.of_stack.data
    for i in range(tail, r.events):
        if (action[i] == A_ALLOC and end[i] == NONE32
                and of_stack[stack[i]] & (WENT | STAYED) == WENT):
            (<uint32_t*> p.of_event.data)[i] = IN_STEP
    for i in range(r.carried.len):
        of_optimizer(p, carried[i].stack)
        if of_stack[carried[i].stack] & CALLED:
            (<uint32_t*> p.of_carried.data)[i] = CALLED_BACK
    return OK
