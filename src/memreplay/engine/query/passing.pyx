"""Which allocations of an optimizer's step are gone when the step ends.

State stays from one step to the next; what a step computes on the way goes before the step is over.
Both have stacks of the optimizer, and often the same ones. A step is a run of events of its stacks
with no other allocation in between, and it is over after the last of these events: the last
allocation, and where frees have stacks of their own the last free, too. So what the program lets go
of between two steps (an optimizer that is deleted) does not go in a step.

A recording may end within a step. What is left of that one counts as the others of its stack do, if
none of those outlived their steps.

A step may call a closure, which runs the model (as Lightning's trainer does for each step): what is
allocated there is the program's, and not the optimizer's.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, span_at, spans_len
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, Carried

cdef enum StackBit:
    ASKED = 1         # whether OPTIMIZER is known
    OPTIMIZER = 2     # an optimizer's step runs in a frame
    WENT = 4          # one of its allocations went in its step
    STAYED = 8        # one outlived it
    CALLED = 16       # the step has called the program


cdef void passing_init(Passing* p, const Replay* r) noexcept nogil:
    # What the caller knows (mark, frees_tell) is set afterwards; `p` is zero.
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
    cdef bint program = False    # whether it's at work further in
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
    # From the last event to the first: where a step is over is known when its events are met. The
    # first event after the last allocation of another stack.
    cdef const Replay* r = p.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const uint32_t* end = <const uint32_t*> r.match.data
    cdef uint8_t* of_stack = <uint8_t*> p.of_stack.data
    cdef uint32_t* out = <uint32_t*> p.of_event.data
    cdef uint64_t other = r.events    # the next allocation of another stack
    cdef uint64_t tail = 0
    cdef uint64_t last = 0            # the last event of the step, where `open`
    cdef bint open = False            # whether a step's event was met since `other`
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
        elif (not p.frees_tell
                or (action[i] != A_FREE_REQUESTED and action[i] != A_FREE_COMPLETED)
                or not of_optimizer(p, stack[i])):
            continue
        if not open:
            open = True
            # Frees that tell nothing may be of the step until the next allocation.
            last = i if p.frees_tell or other == r.events else other - 1
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
