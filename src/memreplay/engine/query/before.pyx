"""Guess what carried-over blocks without a stack contain.

A backward pass leaves behind gradients, one per trainable parameter, so the gradients' sizes are
the parameters' sizes. If at least as many carried-over blocks of these sizes are never freed, that
many are taken as parameters. The recorded stacks show the kind of optimizer, which determines how
many more sets of blocks of these sizes are its state. If the optimizer's step frees two sets, it
recreates its state. Blocks freed in `zero_grad` are gradients, and blocks freed in the first
backward pass were saved for it. Autocast's cache reveals parameters too, because it has one cast
per parameter, with half the parameter's bytes.

Blocks of one size can't be told apart, so the first ones are taken as the parameters.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item, push_u32
from memreplay.engine.base.hashmap cimport (
    NONE32, Slot64, map64_at, map64_free, map64_get, map64_init, span_at, spans_len
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.base.wide cimport (
    Wide, add_product, wide_order, wide_product, wide_times
)
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, A_OOM, EMPTY_STACK, Carried
)
from memreplay.engine.replay.replay cimport Double

cdef enum:
    NOT_COMPUTED = 0xFF         # in of_stack
    COUNTER_BYTES = 4      # a parameter's step counter on the device
    FEWEST_COUNTERS = 4
    MOST_OTHERS = 8        # other blocks of that size that are tolerated


cdef enum Needed:          # what `most` compares
    GRADIENTS = 0
    CASTS = 1
    RENEWED = 2            # gradients, compared with the blocks that optimizer steps free


cdef bint any_stackless(const Replay* r) noexcept nogil:
    # Whether any carried-over block has no stack.
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef uint64_t i
    for i in range(r.carried.len):
        if carried[i].stack == EMPTY_STACK:
            return True
    return False


cdef int before_init(Before* b, const Replay* r, uint64_t seed) noexcept nogil:
    # `b` must be zeroed. The caller sets mark and only_python afterwards.
    b.replay = r
    buf_init(&b.of_carried, 4)
    buf_init(&b.of_stack, 1)
    buf_init(&b.tallies, sizeof(Tally))
    buf_init(&b.touched, 4)
    return OK if map64_init(&b.of_size, seed) == 0 else ERR_MEMORY


cdef void before_free(Before* b) noexcept nogil:
    buf_free(&b.of_carried)
    buf_free(&b.of_stack)
    buf_free(&b.tallies)
    buf_free(&b.touched)
    map64_free(&b.of_size)


cdef Tally* tally(Before* b, int64_t n_bytes) noexcept nogil:
    # Return the tally for a size; NULL when out of memory.
    cdef Slot64* slot = map64_at(&b.of_size, <uint64_t> n_bytes, 0)
    cdef Tally fresh
    if slot == NULL:
        return NULL
    if slot.value == 0:
        memset(&fresh, 0, sizeof(Tally))
        fresh.bytes = n_bytes
        if push_item(&b.tallies, &fresh) < 0:
            return NULL
        slot.value = <uint32_t> b.tallies.len
    return <Tally*> b.tallies.data + (slot.value - 1)


cdef inline Tally* known_tally(const Before* b, int64_t n_bytes) noexcept nogil:
    # Return the tally for a size, or NULL if there is none.
    cdef uint32_t at = map64_get(&b.of_size, <uint64_t> n_bytes, 0)
    return <Tally*> b.tallies.data + (at - 1) if at else NULL


cdef uint8_t marks_of(Before* b, uint32_t stack) noexcept nogil:
    # Return the union of the marks of a stack's frames.
    cdef uint8_t* at = <uint8_t*> b.of_stack.data + stack
    cdef const uint32_t* ids
    cdef size_t n = 0
    cdef size_t i
    cdef uint8_t found = 0
    if at[0] == NOT_COMPUTED:
        ids = <const uint32_t*> span_at(&b.replay.tables.stacks, stack, &n)
        n //= 4
        for i in range(n):
            found |= b.mark[ids[i]] & ~OF_BACKWARD
        # Without C++ frames, autograd's own threads have empty stacks.
        if n == 0 and b.only_python or n and b.mark[ids[n - 1]] & OF_BACKWARD:
            found |= IN_BACKWARD
        at[0] = found
        b.seen |= found
    return at[0]


cdef void end_backward(Before* b) noexcept nogil:
    # The allocations of a backward pass that are still live at its end are gradients.
    cdef const uint32_t* touched = <const uint32_t*> b.touched.data
    cdef Tally* t
    cdef uint64_t i
    for i in range(b.touched.len):
        t = <Tally*> b.tallies.data + touched[i]
        t.gradients = max(t.gradients, t.live)
        t.touched = False
    b.touched.len = 0


cdef inline uint32_t stack_at(const Before* b, uint64_t event) noexcept nogil:
    return (<const uint32_t*> b.replay.tables.stack.data)[b.replay.first + event]


cdef bint was_cached(Before* b, uint64_t alloc) noexcept nogil:
    # Whether autocast frees the allocation on exit.
    cdef const uint8_t* action = <const uint8_t*> b.replay.tables.action.data + b.replay.first
    cdef uint32_t end = (<const uint32_t*> b.replay.match.data)[alloc]
    return (b.frees_have_stacks and end != NONE32 and action[end] != A_ALLOC
            and (marks_of(b, stack_at(b, end)) & AT_EXIT) != 0)


cdef int note_alloc(Before* b, uint64_t event, int64_t n_bytes, bint backward) noexcept nogil:
    cdef Tally* t
    if was_cached(b, event):
        t = tally(b, 2 * n_bytes)
        if t == NULL:
            return ERR_MEMORY
        t.cached += 1
        t.cast = max(t.cast, t.cached)
    if backward:
        t = tally(b, n_bytes)
        if t == NULL:
            return ERR_MEMORY
        t.live += 1
        if not t.touched:
            t.touched = True
            if push_u32(&b.touched, <uint32_t> (t - <Tally*> b.tallies.data)) < 0:
                return ERR_MEMORY
    return OK


cdef void note_free(Before* b, uint64_t alloc) noexcept nogil:
    cdef int64_t n_bytes = (<const int64_t*> b.replay.tables.size.data)[b.replay.first + alloc]
    if was_cached(b, alloc):
        known_tally(b, 2 * n_bytes).cached -= 1
    if marks_of(b, stack_at(b, alloc)) & IN_BACKWARD:
        known_tally(b, n_bytes).live -= 1


cdef bint frees_have_own_stacks(const Replay* r) noexcept nogil:
    # Whether frees have their own stacks, rather than their alloc's stack (see replay) or none.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef uint64_t i
    if r.same_stack and not r.other_stack:
        return False
    for i in range(r.events):
        if action[i] == A_FREE_COMPLETED and stack[i] != EMPTY_STACK:
            return True
    return False


cdef int walk(Before* b) noexcept nogil:
    # Count the blocks that backward passes leave behind and the blocks that autocast keeps, and
    # classify carried-over blocks by where they are freed.
    cdef const Replay* r = b.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* end = <const uint32_t*> r.match.data
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef const Double* doubles = <const Double*> r.doubles.data
    cdef uint32_t* out = <uint32_t*> b.of_carried.data
    cdef Tally* t
    cdef uint64_t block = 0
    cdef uint64_t twice = 0
    cdef uint64_t i
    cdef uint64_t passes = 0     # backward passes begun
    cdef bint backward = False   # one is running
    cdef bint begun = False      # whether an event has been seen
    cdef bint midway = False     # whether the recording begins in a backward pass
    cdef uint8_t marks
    for i in range(r.events):
        if action[i] == A_OOM:
            b.ran_out = True
        if action[i] != A_ALLOC and action[i] != A_FREE_REQUESTED and action[i] != A_FREE_COMPLETED:
            continue
        marks = 0
        if b.frees_have_stacks or action[i] == A_ALLOC:
            marks = marks_of(b, stack_at(b, i))
            if backward and not marks & IN_BACKWARD:
                if passes > 1 or not midway:
                    end_backward(b)
            elif marks & IN_BACKWARD and not backward:
                passes += 1
                midway |= not begun
            backward = (marks & IN_BACKWARD) != 0
            begun = True
        # Carried-over blocks are sorted by their end.
        while block < r.carried.len and carried[block].end <= i:
            if (carried[block].stack == EMPTY_STACK and carried[block].end == i
                    and action[i] != A_ALLOC):
                if marks & AT_ZERO_GRAD:
                    out[block] = A_GRADIENT
                elif passes and not backward:
                    # Freed, but still in use after the backward pass: a parameter or optimizer
                    # state.
                    t = tally(b, carried[block].size)
                    if t == NULL:
                        return ERR_MEMORY
                    t.replaced += 1
                    if marks & IN_OPTIMIZER:
                        t.renewed += 1
                        out[block] = A_RENEWED
                elif marks & IN_BACKWARD and passes == 1 and not midway:
                    out[block] = A_SAVED
            block += 1
        if action[i] != A_ALLOC:
            if end[i] != NONE32:
                note_free(b, end[i])
            continue
        while twice < r.doubles.len and doubles[twice].at <= i:
            note_free(b, doubles[twice].closed)
            twice += 1
        if note_alloc(b, i, size[i], backward) != OK:
            return ERR_MEMORY
    # If the recording ends during a backward pass, some gradients may be missing. If the recording
    # begins during a backward pass, some gradients may have been allocated earlier.
    b.open_ended = backward and passes == 1 and not midway and not b.ran_out
    if b.open_ended or not backward and (passes > 1 or not midway):
        end_backward(b)
    return OK


cdef bint began_state(Before* b) noexcept nogil:
    # Whether the optimizer allocates state during the recording: memory of a gradient's size that
    # is never freed.
    cdef const Replay* r = b.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* end = <const uint32_t*> r.match.data
    cdef const Tally* t
    cdef uint64_t i
    for i in range(r.events):
        if (action[i] == A_ALLOC and end[i] == NONE32
                and marks_of(b, stack_at(b, i)) & IN_OPTIMIZER):
            t = known_tally(b, size[i])
            if t != NULL and t.gradients:
                return True
    return False


cdef inline bint some(Wide n) noexcept nogil:
    return n.low != 0 or n.high != 0


cdef inline bint nearly(Wide part, Wide every) noexcept nogil:
    # Whether a part is at least 95% of the whole.
    return wide_order(wide_times(part, 20), wide_times(every, 19)) >= 0


cdef bint most(const Before* b, Needed what, uint32_t sets) noexcept nogil:
    # Whether, for at least 95% of the bytes, each size has enough carried-over blocks for this many
    # sets of gradients (or of cast parameters).
    cdef const Tally* t = <const Tally*> b.tallies.data
    cdef Wide every = Wide(0, 0)
    cdef Wide fit = Wide(0, 0)
    cdef uint64_t i
    cdef uint32_t n, there
    for i in range(b.tallies.len):
        n = t[i].cast if what == CASTS else t[i].gradients
        there = t[i].renewed if what == RENEWED else t[i].carried
        add_product(&every, <uint64_t> t[i].bytes, n)
        if there >= <uint64_t> n * sets:
            add_product(&fit, <uint64_t> t[i].bytes, n)
    return some(every) and nearly(fit, every)


cdef bint cast_by_half(const Before* b) noexcept nogil:
    # Whether the cast parameters are at least half of the memory that is never freed. If a model's
    # backward pass needs the casts, the cache is rarely their only owner.
    cdef const Tally* t = <const Tally*> b.tallies.data
    cdef Wide every = Wide(0, 0)
    cdef Wide fit = Wide(0, 0)
    cdef uint64_t i
    for i in range(b.tallies.len):
        add_product(&every, <uint64_t> t[i].bytes, t[i].carried)
        if t[i].carried >= t[i].cast:
            add_product(&fit, <uint64_t> t[i].bytes, t[i].cast)
    return wide_order(wide_times(fit, 2), every) >= 0


cdef bint whole_sets(const Before* b) noexcept nogil:
    # Whether, for at least 95% of the gradients' bytes, the carried-over blocks make up the same
    # number of complete sets. This number is taken from the size that accounts for most of these
    # bytes.
    cdef const Tally* t = <const Tally*> b.tallies.data
    cdef Wide every = Wide(0, 0)
    cdef Wide fit = Wide(0, 0)
    cdef Wide largest = Wide(0, 0)
    cdef uint64_t sets = 0
    cdef uint64_t i
    cdef int order
    for i in range(b.tallies.len):
        every = wide_product(<uint64_t> t[i].bytes, t[i].gradients)
        order = wide_order(every, largest)
        if order > 0 or (order == 0 and some(every) and t[i].carried // t[i].gradients < sets):
            largest = every
            sets = t[i].carried // t[i].gradients
    every = Wide(0, 0)
    for i in range(b.tallies.len):
        add_product(&every, <uint64_t> t[i].bytes, t[i].gradients)
        if t[i].carried == t[i].gradients * sets:
            add_product(&fit, <uint64_t> t[i].bytes, t[i].gradients)
    return some(every) and nearly(fit, every)


cdef bint few_replaced(const Before* b) noexcept nogil:
    # Whether sizes whose carried-over blocks are freed account for at most 5% of the gradients'
    # bytes.
    cdef const Tally* t = <const Tally*> b.tallies.data
    cdef Wide every = Wide(0, 0)
    cdef Wide gone = Wide(0, 0)
    cdef uint64_t i
    for i in range(b.tallies.len):
        add_product(&every, <uint64_t> t[i].bytes, t[i].gradients)
        if t[i].replaced:
            add_product(&gone, <uint64_t> t[i].bytes, t[i].gradients)
    return wide_order(wide_times(gone, 20), every) <= 0


cdef uint32_t counters(const Before* b) noexcept nogil:
    # Return the number of blocks that hold a parameter's step counter; 0 if there seem to be none.
    cdef const Tally* t = <const Tally*> b.tallies.data
    cdef const Tally* small = known_tally(b, COUNTER_BYTES)
    cdef uint64_t parameters = 0
    cdef uint64_t others
    cdef uint64_t i
    for i in range(b.tallies.len):
        parameters += t[i].gradients
    if small == NULL or parameters < FEWEST_COUNTERS:
        return 0
    others = parameters + <uint64_t> small.gradients * 3
    if not others <= small.carried <= others + MOST_OTHERS:
        return 0
    return <uint32_t> parameters


cdef void share(Before* b) noexcept nogil:
    # Decide how many blocks of each size are parameters, and how many are optimizer state.
    cdef Tally* t = <Tally*> b.tallies.data
    cdef bint cast = most(b, CASTS, 1) and cast_by_half(b)
    cdef bint trained = most(b, GRADIENTS, 1)
    cdef uint32_t counting = counters(b) if trained else 0
    cdef uint32_t states = 0
    cdef uint64_t i
    # If optimizer steps recreate two sets of blocks, both are state. A single recreated set may be
    # the parameters; the blocks that stay are then the state.
    b.renewed = trained and most(b, RENEWED, 2)
    trained = (trained and (b.renewed or few_replaced(b))
               and (whole_sets(b) or not b.open_ended))
    if trained and not b.renewed and not began_state(b):
        if b.seen & ONE_STATE:
            states = 0 if b.seen & TWO_STATES else 1
        elif b.seen & TWO_STATES or counting:
            states = 2
        if not most(b, GRADIENTS, 1 + states):
            states = 0
    for i in range(b.tallies.len):
        if trained and t[i].carried >= t[i].gradients:
            t[i].parameters = t[i].gradients
        if cast and t[i].carried >= t[i].cast:
            t[i].parameters = max(t[i].parameters, t[i].cast)
        if b.renewed:
            t[i].states = 2 * t[i].gradients
            continue
        if t[i].carried >= t[i].parameters + <uint64_t> states * t[i].gradients:
            t[i].states = states * t[i].gradients
        if states == 2 and t[i].bytes == COUNTER_BYTES:
            t[i].states += counting


cdef int before_find(Before* b) noexcept nogil:
    cdef const Replay* r = b.replay
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef uint64_t stacks = spans_len(&r.tables.stacks)
    cdef uint32_t* out
    cdef Tally* t
    cdef uint64_t i
    if buf_reserve(&b.of_carried, r.carried.len + 1) < 0 or buf_reserve(&b.of_stack, stacks) < 0:
        return ERR_MEMORY
    b.of_carried.len = r.carried.len
    b.of_stack.len = stacks
    memset(b.of_stack.data, NOT_COMPUTED, stacks)
    out = <uint32_t*> b.of_carried.data
    for i in range(r.carried.len):
        out[i] = UNKNOWN_ORIGIN if carried[i].stack == EMPTY_STACK else HAS_STACK
        if out[i] == UNKNOWN_ORIGIN and carried[i].end == NONE32:
            t = tally(b, carried[i].size)
            if t == NULL:
                return ERR_MEMORY
            t.carried += 1
    b.frees_have_stacks = frees_have_own_stacks(r)
    if walk(b) != OK:
        return ERR_MEMORY
    share(b)
    for i in range(r.carried.len):
        if out[i] != A_RENEWED and (out[i] != UNKNOWN_ORIGIN or carried[i].end != NONE32):
            continue
        t = known_tally(b, carried[i].size)
        if out[i] == UNKNOWN_ORIGIN and t.parameters:
            t.parameters -= 1
            out[i] = A_PARAMETER
        elif t.states and (out[i] == A_RENEWED) == b.renewed:
            t.states -= 1
            out[i] = A_STATE
        else:
            out[i] = UNKNOWN_ORIGIN
    return OK
