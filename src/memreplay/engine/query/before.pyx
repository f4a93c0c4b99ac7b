"""What was live before the recording, and has no stack: what it likely is.

What the backward pass makes and leaves behind are gradients, and there is one of each trainable
parameter: their sizes are the parameters' sizes. Where what was there before, and stays, has as
many blocks of these sizes, or more, so many are parameters. An optimizer that is seen to step says
how many sets of the same sizes it keeps beside them; where its step lets go of two sets, it makes
its states anew. What goes in `zero_grad` is a gradient, and what the first backward pass lets go of
was saved for it.

Autocast's cache of casts tells parameters, too: one cast each, of half the bytes.

Which of the blocks of one size are which is not known: the first are the parameters.
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
    UNASKED = 0xFF         # in of_stack
    COUNTER_BYTES = 4      # what counts a parameter's steps on the device
    FEWEST_COUNTERS = 4
    MOST_OTHERS = 8        # blocks of that size beside the counters


cdef enum Needed:          # what `most` counts
    GRADIENTS = 0
    CASTS = 1
    RENEWED = 2            # gradients, by what optimizers' steps let go of


cdef bint any_stackless(const Replay* r) noexcept nogil:
    # Whether anything was there before and has no stack.
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef uint64_t i
    for i in range(r.carried.len):
        if carried[i].stack == EMPTY_STACK:
            return True
    return False


cdef int before_init(Before* b, const Replay* r, uint64_t seed) noexcept nogil:
    # What the caller knows (marks, only_python) is set afterwards; `b` is zero.
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
    # That of a size; NULL when memory is out.
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
    # NULL where nothing has this size.
    cdef uint32_t at = map64_get(&b.of_size, <uint64_t> n_bytes, 0)
    return <Tally*> b.tallies.data + (at - 1) if at else NULL


cdef uint8_t marks_of(Before* b, uint32_t stack) noexcept nogil:
    # The marks of all frames of a stack.
    cdef uint8_t* at = <uint8_t*> b.of_stack.data + stack
    cdef const uint32_t* ids
    cdef size_t n = 0
    cdef size_t i
    cdef uint8_t found = 0
    if at[0] == UNASKED:
        ids = <const uint32_t*> span_at(&b.replay.tables.stacks, stack, &n)
        n //= 4
        for i in range(n):
            found |= b.mark[ids[i]] & ~OF_BACKWARD
        # Where stacks are Python's, autograd's own threads have none.
        if n == 0 and b.only_python or n and b.mark[ids[n - 1]] & OF_BACKWARD:
            found |= IN_BACKWARD
        at[0] = found
        b.seen |= found
    return at[0]


cdef void outlived(Before* b) noexcept nogil:
    # A backward pass is over: what it made and is live are gradients.
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
    # Whether autocast gives it back where it ends.
    cdef const uint8_t* action = <const uint8_t*> b.replay.tables.action.data + b.replay.first
    cdef uint32_t end = (<const uint32_t*> b.replay.match.data)[alloc]
    return (b.frees_tell and end != NONE32 and action[end] != A_ALLOC
            and (marks_of(b, stack_at(b, end)) & AT_EXIT) != 0)


cdef int made(Before* b, uint64_t event, int64_t n_bytes, bint backward) noexcept nogil:
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


cdef void ended(Before* b, uint64_t alloc) noexcept nogil:
    cdef int64_t n_bytes = (<const int64_t*> b.replay.tables.size.data)[b.replay.first + alloc]
    if was_cached(b, alloc):
        known_tally(b, 2 * n_bytes).cached -= 1
    if marks_of(b, stack_at(b, alloc)) & IN_BACKWARD:
        known_tally(b, n_bytes).live -= 1


cdef bint have_stacks_of_their_own(const Replay* r) noexcept nogil:
    # Whether frees say where they are: else they have their alloc's stack (see replay), or none.
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
    # Counts what the backward passes leave behind, and what autocast keeps; says of what was there
    # before and goes where it goes.
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
    cdef uint64_t passes = 0     # backward passes that have begun
    cdef bint backward = False   # one is under way
    cdef bint begun = False      # an event has been seen
    cdef bint midway = False     # the recording begins in one
    cdef uint8_t marks
    for i in range(r.events):
        if action[i] == A_OOM:
            b.ran_out = True
        if action[i] != A_ALLOC and action[i] != A_FREE_REQUESTED and action[i] != A_FREE_COMPLETED:
            continue
        marks = 0
        if b.frees_tell or action[i] == A_ALLOC:
            marks = marks_of(b, stack_at(b, i))
            if backward and not marks & IN_BACKWARD:
                if passes > 1 or not midway:
                    outlived(b)
            elif marks & IN_BACKWARD and not backward:
                passes += 1
                midway |= not begun
            backward = (marks & IN_BACKWARD) != 0
            begun = True
        # Carried blocks are in the order in which they end.
        while block < r.carried.len and carried[block].end <= i:
            if (carried[block].stack == EMPTY_STACK and carried[block].end == i
                    and action[i] != A_ALLOC):
                if marks & AT_ZERO_GRAD:
                    out[block] = A_GRADIENT
                elif passes and not backward:
                    # What was in use before the backward pass is gone: parameters or states.
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
                ended(b, end[i])
            continue
        while twice < r.doubles.len and doubles[twice].at <= i:
            ended(b, doubles[twice].closed)
            twice += 1
        if made(b, i, size[i], backward) != OK:
            return ERR_MEMORY
    # Where the recording ends in a backward pass, it may be halfway through. One in which it begins
    # made a part of the gradients before.
    b.open_ended = backward and passes == 1 and not midway and not b.ran_out
    if b.open_ended or not backward and (passes > 1 or not midway):
        outlived(b)
    return OK


cdef bint began_state(Before* b) noexcept nogil:
    # Whether the optimizer makes, in the recording, what stays and has a gradient's size.
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
    # Whether a part is 95 % of the whole, or more.
    return wide_order(wide_times(part, 20), wide_times(every, 19)) >= 0


cdef bint most(const Before* b, Needed what, uint32_t sets) noexcept nogil:
    # Whether what was there before has, of nearly all bytes of gradients (or of parameters that are
    # cast), so many sets.
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
    # Whether the parameters that are cast are half of what stays, or more: of a model that computes
    # its backward pass from the casts, the cache has few that nobody else keeps.
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
    # Whether what was there before has, of nearly all bytes of gradients, the same number of sets:
    # that of the size that has most of them.
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
    # Whether hardly any bytes of gradients have a size of which something goes.
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
    # How many blocks count the steps of a parameter each, where there are such.
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
    # How many blocks of each size are parameters, and how many an optimizer's.
    cdef Tally* t = <Tally*> b.tallies.data
    cdef bint cast = most(b, CASTS, 1) and cast_by_half(b)
    cdef bint trained = most(b, GRADIENTS, 1)
    cdef uint32_t counting = counters(b) if trained else 0
    cdef uint32_t states = 0
    cdef uint64_t i
    # A step that makes two sets anew makes its states. One set may be the parameters: what stays is
    # the state, then.
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
    memset(b.of_stack.data, UNASKED, stacks)
    out = <uint32_t*> b.of_carried.data
    for i in range(r.carried.len):
        out[i] = A_RIDDLE if carried[i].stack == EMPTY_STACK else NOT_SAID
        if out[i] == A_RIDDLE and carried[i].end == NONE32:
            t = tally(b, carried[i].size)
            if t == NULL:
                return ERR_MEMORY
            t.carried += 1
    b.frees_tell = have_stacks_of_their_own(r)
    if walk(b) != OK:
        return ERR_MEMORY
    share(b)
    for i in range(r.carried.len):
        if out[i] != A_RENEWED and (out[i] != A_RIDDLE or carried[i].end != NONE32):
            continue
        t = known_tally(b, carried[i].size)
        if out[i] == A_RIDDLE and t.parameters:
            t.parameters -= 1
            out[i] = A_PARAMETER
        elif t.states and (out[i] == A_RENEWED) == b.renewed:
            t.states -= 1
            out[i] = A_STATE
        else:
            out[i] = A_RIDDLE
    return OK
