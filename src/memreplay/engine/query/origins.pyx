"""Find where allocations come from if their own stacks don't show it.

Autocast casts weights and activations in the same function, so their casts share a stack. They can
be told apart as follows:

- A cast of a weight is cached until the autocast context ends, so memory freed there came from that
  cache.
- A cast has half the bytes of its source, which is live at that moment. If only weights of the
  source's size are live, it's a weight's cast; if no weight of that size is live, it isn't.
- That function casts cached weights in one place and everything else in another. If frames have
  lines or addresses, all casts in one place are of the same kind as the certain ones.

The remaining casts may be of either kind.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport (
    NONE32, Slot64, map64_at, map64_free, map64_get, map64_init, span_at, spans_len
)
from memreplay.engine.query.keying cimport group_of_carried, group_of_event
from memreplay.engine.replay.replay cimport Double
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_ALLOC, EMPTY_STACK, Carried, FrameKey

cdef extern from *:
    const uint32_t NOT_COMPUTED "0xFFFFFFFEu"   # in of_stack

cdef enum:
    FEW = 16    # a place has only one kind of cast if the other kind is this many times rarer


cdef int origins_init(Origins* o, const Replay* r, uint64_t seed) noexcept nogil:
    # `o` must be zeroed. The caller sets mark, category and role afterwards.
    o.replay = r
    buf_init(&o.of_event, 4)
    buf_init(&o.of_carried, 4)
    buf_init(&o.of_stack, 4)
    buf_init(&o.exits, 1)
    buf_init(&o.weights, 4)
    buf_init(&o.activations, 4)
    return OK if map64_init(&o.live, seed) == 0 else ERR_MEMORY


cdef void origins_free(Origins* o) noexcept nogil:
    buf_free(&o.of_event)
    buf_free(&o.of_carried)
    buf_free(&o.of_stack)
    buf_free(&o.exits)
    buf_free(&o.weights)
    buf_free(&o.activations)
    map64_free(&o.live)


cdef int filled(Buf* b, uint64_t n, int byte, size_t itemsize) noexcept nogil:
    if buf_reserve(b, n + 1) < 0:
        return ERR_MEMORY
    b.len = n
    memset(b.data, byte, (n + 1) * itemsize)
    return OK


cdef uint32_t cast_of(Origins* o, uint32_t stack) noexcept nogil:
    # Return the frame that casts to a lower precision in this stack, or NONE32.
    cdef uint32_t* at = <uint32_t*> o.of_stack.data + stack
    cdef const uint32_t* ids
    cdef size_t n = 0
    cdef size_t i
    cdef bint lower = False
    if at[0] == NOT_COMPUTED:
        at[0] = NONE32
        ids = <const uint32_t*> span_at(&o.replay.tables.stacks, stack, &n)
        for i in range(n // 4):
            if o.mark[ids[i]] & IS_CAST and at[0] == NONE32:
                at[0] = ids[i]
            lower |= (o.mark[ids[i]] & IS_LOWER) != 0
        if not lower:
            at[0] = NONE32
    return at[0]


cdef bint exits_at(Origins* o, uint32_t stack) noexcept nogil:
    # Whether autocast ends in this stack.
    cdef uint8_t* at = <uint8_t*> o.exits.data + stack
    cdef const uint32_t* ids
    cdef size_t n = 0
    cdef size_t i
    if at[0] == 2:
        at[0] = 0
        ids = <const uint32_t*> span_at(&o.replay.tables.stacks, stack, &n)
        for i in range(n // 4):
            at[0] |= (o.mark[ids[i]] & IS_EXIT) != 0
    return at[0]


cdef inline uint8_t role_of(const Origins* o, uint32_t group) noexcept nogil:
    return o.role[(<const uint64_t*> o.category.names.data)[group]]


cdef inline uint8_t role_before(const Origins* o, uint32_t group) noexcept nogil:
    # Treat carried-over blocks as weights unless their stack shows something else.
    cdef uint8_t role = role_of(o, group)
    return A_WEIGHT if role == UNSURE else role


cdef inline uint64_t slot_of(int64_t bytes, uint8_t role) noexcept nogil:
    return (<uint64_t> bytes << 2) | role


cdef int count(Origins* o, int64_t bytes, uint8_t role, int by) noexcept nogil:
    # Add `by` to the number of live blocks of this size and role.
    cdef Slot64* slot
    if role == NO_SOURCE:
        return OK
    slot = map64_at(&o.live, slot_of(bytes, role), 0)
    if slot == NULL:
        return ERR_MEMORY
    slot.value = <uint32_t> (<int64_t> slot.value + by)
    return OK


cdef inline bint is_live(const Origins* o, int64_t bytes, uint8_t role) noexcept nogil:
    return map64_get(&o.live, slot_of(bytes, role), 0) > 0


cdef uint32_t of_sources(const Origins* o, int64_t bytes) noexcept nogil:
    # Classify a cast of this many bytes by the live allocations that may be its source. NOWHERE
    # means an activation.
    cdef bint unsure = is_live(o, 2 * bytes, UNSURE)
    cdef bint weight = unsure or is_live(o, 2 * bytes, A_WEIGHT)
    cdef bint activation = unsure or is_live(o, 2 * bytes, AN_ACTIVATION)
    if weight:
        return CAST_EITHER if activation else CAST_WEIGHT
    return NOWHERE


cdef int ended(Origins* o, uint32_t alloc) noexcept nogil:
    # Record that an allocation was freed, so it can no longer be a source.
    cdef const Replay* r = o.replay
    cdef uint32_t group
    if ((<const uint32_t*> o.of_event.data)[alloc] == CAST_WEIGHT
            or cast_of(o, (<const uint32_t*> r.tables.stack.data)[r.first + alloc]) != NONE32):
        return OK
    group = group_of_event(o.category, alloc)
    if group == NONE32:
        return ERR_MEMORY
    return count(o, (<const int64_t*> r.tables.size.data)[r.first + alloc], role_of(o, group), -1)


cdef int find_casts(Origins* o) noexcept nogil:
    # Classify each cast separately.
    cdef const Replay* r = o.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const uint32_t* end = <const uint32_t*> r.match.data
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef const Double* doubles = <const Double*> r.doubles.data
    cdef uint32_t* out = <uint32_t*> o.of_event.data
    cdef uint32_t* weights = <uint32_t*> o.weights.data
    cdef uint32_t* activations = <uint32_t*> o.activations.data
    cdef uint32_t group, site
    cdef uint64_t i
    cdef uint64_t block = 0
    cdef uint64_t twice = 0
    cdef bint cached
    cdef int code = OK
    for i in range(r.carried.len):
        group = group_of_carried(o.category, i)
        if group == NONE32:
            return ERR_MEMORY
        code |= count(o, carried[i].size, role_before(o, group), 1)
    for i in range(r.events):
        # Carried-over blocks are sorted by their end; `match` of a free is its alloc.
        while block < r.carried.len and carried[block].end <= i:
            group = group_of_carried(o.category, block)
            if group == NONE32:
                return ERR_MEMORY
            code |= count(o, carried[block].size, role_before(o, group), -1)
            block += 1
        if action[i] != A_ALLOC:
            if end[i] != NONE32:
                code |= ended(o, end[i])
            continue
        while twice < r.doubles.len and doubles[twice].at <= i:
            code |= ended(o, doubles[twice].closed)
            twice += 1
        cached = (end[i] != NONE32 and action[end[i]] != A_ALLOC
                  and exits_at(o, stack[end[i]]))
        site = cast_of(o, stack[i])
        if site == NONE32:
            # Without C++ frames, only the free's stack shows that this is a cast.
            if cached and o.only_python:
                out[i] = CAST_WEIGHT
                continue
            group = group_of_event(o.category, i)
            if group == NONE32:
                return ERR_MEMORY
            code |= count(o, size[i], role_of(o, group), 1)
            continue
        out[i] = CAST_WEIGHT if cached else of_sources(o, size[i])
        if out[i] == CAST_WEIGHT:
            weights[site] += 1
        elif out[i] == NOWHERE:
            activations[site] += 1
    return code


cdef inline bint few(uint32_t these, uint32_t those) noexcept nogil:
    # Whether a place has hardly any of `these` casts compared with `those`.
    return those != 0 and <uint64_t> these * FEW <= those


cdef inline bint of_weights(const Origins* o, uint64_t frame) noexcept nogil:
    return few((<const uint32_t*> o.activations.data)[frame],
               (<const uint32_t*> o.weights.data)[frame])


cdef void settle_places(Origins* o) noexcept nogil:
    # Classify a place's uncertain casts by its certain casts.
    cdef const Replay* r = o.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const FrameKey* frames = <const FrameKey*> r.tables.frames.data.data
    cdef const uint32_t* weights = <const uint32_t*> o.weights.data
    cdef const uint32_t* activations = <const uint32_t*> o.activations.data
    cdef uint32_t* out = <uint32_t*> o.of_event.data
    cdef uint64_t i
    cdef uint32_t site
    # whether the place that casts weights is known; no other place then casts weights
    cdef bint known = False
    for i in range(o.weights.len):
        known |= frames[i].line != 0 and of_weights(o, i)
    for i in range(r.events):
        site = cast_of(o, stack[i]) if action[i] == A_ALLOC else NONE32
        if site == NONE32 or frames[site].line == 0:
            continue
        if of_weights(o, site):
            out[i] = CAST_WEIGHT
        elif out[i] == CAST_EITHER and (few(weights[site], activations[site])
                                        or (known and weights[site] == 0)):
            out[i] = NOWHERE


cdef int origins_find(Origins* o) noexcept nogil:
    cdef const Replay* r = o.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef uint64_t stacks = spans_len(&r.tables.stacks)
    cdef uint64_t frames = spans_len(&r.tables.frames)
    cdef uint64_t i
    cdef int code = filled(&o.of_event, r.events, 0, 4)
    code |= filled(&o.of_carried, r.carried.len, 0, 4)
    if code != OK:
        return ERR_MEMORY
    if o.before:
        for i in range(r.carried.len):
            if carried[i].stack == EMPTY_STACK:
                (<uint32_t*> o.of_carried.data)[i] = BEFORE
    if o.only_python:
        for i in range(r.events):
            if action[i] == A_ALLOC and stack[i] == EMPTY_STACK:
                (<uint32_t*> o.of_event.data)[i] = NO_PYTHON
    code |= filled(&o.of_stack, stacks, 0xFF, 4) | filled(&o.exits, stacks, 2, 1)
    code |= filled(&o.weights, frames, 0, 4) | filled(&o.activations, frames, 0, 4)
    if code != OK:
        return ERR_MEMORY
    for i in range(stacks):
        (<uint32_t*> o.of_stack.data)[i] = NOT_COMPUTED
    if find_casts(o) != OK:
        return ERR_MEMORY
    settle_places(o)
    return OK
