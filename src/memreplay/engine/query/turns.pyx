"""Find the parts of a trace in which an optimizer's step() runs, called turns.

PyTorch wraps step() of every optimizer (`wrapper` of torch/optim/optimizer.py), so the optimizer's
allocations can be recognised by their stacks. If step() allocates nothing (SGD, fused kernels),
frees in zero_grad() are used instead.

A turn ends when something else is allocated, except for small allocations by another thread.
Several optimizers are distinguished by their callers; the optimizer with the most turns is used, or
the first one on a tie. An optimizer that only allocates lasting state doesn't allocate in every
step, so no turns are reported for it.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcmp
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_u32
from memreplay.engine.base.hashmap cimport NONE32, span_at, spans_len
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.query.named cimport MOST_FILE
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, EMPTY_STACK, FrameKey
)

cdef enum:
    # The kinds of frames, by function name and file.
    PLAIN
    OPTIMIZER    # the optimizer runs in this frame and in the frames it calls
    ZERO_GRAD
    PROGRAM      # the program, which the optimizer may call back
    WRAPPED      # torch's wrappers around optimizers and zero_grad()
    # Take the longest gaps that together contain this many tenths of the other allocations between
    # turns. A gap ends a turn if it's at least a quarter as long as the shortest of these gaps.
    TENTHS = 8


cdef inline bint is_text(const uint8_t* text, size_t n, const char* wanted,
                         size_t m) noexcept nogil:
    return n == m and memcmp(text, wanted, m) == 0


cdef inline bint has_text(const uint8_t* text, size_t n, const char* wanted,
                          size_t m) noexcept nogil:
    cdef size_t i
    for i in range(m, n + 1):
        if memcmp(text + i - m, wanted, m) == 0:
            return True
    return False


cdef int kind_of(const Replay* r, const FrameKey* frame) noexcept nogil:
    cdef size_t n = 0
    cdef size_t m = 0
    cdef const uint8_t* name = span_at(&r.tables.strings, frame.name, &n)
    cdef const uint8_t* file = span_at(&r.tables.strings, frame.file, &m)
    if m > MOST_FILE:
        file += m - MOST_FILE
        m = MOST_FILE
    if is_text(name, n, b"forward", 7) or is_text(name, n, b"backward", 8) \
            or is_text(name, n, b"closure", 7):
        return PROGRAM
    if is_text(name, n, b"zero_grad", 9):
        return ZERO_GRAD
    if has_text(file, m, b"torch/_dynamo/", 14) or has_text(file, m, b"torch/_compile.py", 17):
        return WRAPPED
    if not is_text(name, n, b"step", 4) and not is_text(name, n, b"wrapper", 7):
        return PLAIN
    if name[0] == b"w":
        # The learning-rate scheduler wraps step() again.
        return OPTIMIZER if has_text(file, m, b"optim/optimizer.py", 18) \
            or has_text(file, m, b"optim/lr_scheduler.py", 21) else PLAIN
    if has_text(file, m, b"lr_scheduler", 12) or has_text(file, m, b"swa_utils", 9):
        return PLAIN
    return OPTIMIZER if has_text(file, m, b"/optim/", 7) or has_text(file, m, b"optimizer", 9) \
        else PLAIN


cdef uint32_t caller_of(const uint8_t* kinds, const uint32_t* stack, size_t n,
                        int wanted) noexcept nogil:
    # Return the frame that calls the optimizer, or the optimizer's own outermost frame if the stack
    # was cut off there. Returns NONE32 if the optimizer isn't running. Frames are innermost first.
    cdef uint32_t found = NONE32
    cdef bint inside = False
    cdef size_t i
    for i in range(n):
        if kinds[stack[i]] == wanted:
            inside = True
            found = stack[i]
        elif inside and kinds[stack[i]] != WRAPPED:
            found = stack[i]
            inside = False
        elif kinds[stack[i]] == PROGRAM and found == NONE32:
            return NONE32
    return found


cdef uint32_t* callers(const Replay* r, int wanted) noexcept nogil:
    # Return the optimizer's caller in each stack; NULL when out of memory.
    cdef const FrameKey* frames = <const FrameKey*> r.tables.frames.data.data
    cdef uint32_t n_frames = spans_len(&r.tables.frames)
    cdef uint32_t n_stacks = spans_len(&r.tables.stacks)
    cdef uint8_t* kinds = <uint8_t*> calloc(<uint64_t> n_frames + 1, 1)
    cdef uint32_t* found = <uint32_t*> calloc(<uint64_t> n_stacks + 1, sizeof(uint32_t))
    cdef const uint32_t* stack
    cdef size_t n = 0
    cdef uint32_t i
    if kinds == NULL or found == NULL:
        free(kinds)
        free(found)
        return NULL
    for i in range(n_frames):
        kinds[i] = kind_of(r, &frames[i])
    for i in range(n_stacks):
        stack = <const uint32_t*> span_at(&r.tables.stacks, i, &n)
        found[i] = caller_of(kinds, stack, n // 4, wanted) if i != EMPTY_STACK else NONE32
    free(kinds)
    return found


cdef inline uint32_t turn_of(const uint8_t* action, const uint32_t* stack, const uint32_t* caller,
                             bint zeroed, uint64_t i) noexcept nogil:
    # Return the caller of the optimizer that runs at an event, or NONE32 if none is running.
    if zeroed:
        if action[i] != A_FREE_REQUESTED and action[i] != A_FREE_COMPLETED:
            return NONE32
    elif action[i] != A_ALLOC:
        return NONE32
    return caller[stack[i]]


cdef uint32_t busiest(const Replay* r, const uint32_t* caller, bint zeroed,
                      uint32_t* turns, uint32_t* before) noexcept nogil:
    # Return the caller with the most turns, or the first one on a tie. `before` is 1 + the number
    # of other allocations before a caller's optimizer last ran.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef uint32_t best = NONE32
    cdef uint32_t others = 1
    cdef uint32_t who
    cdef uint64_t i
    for i in range(r.events):
        who = turn_of(action, stack, caller, zeroed, i)
        if who == NONE32:
            others += action[i] == A_ALLOC and caller[stack[i]] == NONE32
            continue
        turns[who] += before[who] != others
        before[who] = others
        if best == NONE32 or turns[who] > turns[best] + 1:
            # Ignore a lead of one turn, because the trace may end between the two optimizers'
            # turns.
            best = who
    return best


cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*> a)[0]
    cdef uint32_t y = (<const uint32_t*> b)[0]
    return (x > y) - (x < y)


cdef uint32_t least_gap(const Buf* gaps) noexcept nogil:
    # Return the minimum number of other allocations between two turns.
    cdef uint32_t* gap = <uint32_t*> gaps.data
    cdef uint64_t total = 0
    cdef uint64_t held = 0
    cdef uint64_t i
    if gaps.len == 0:
        return 1    # `gap` is NULL, which qsort doesn't accept
    qsort(gap, gaps.len, sizeof(uint32_t), ascending)
    for i in range(gaps.len):
        total += gap[i]
    i = gaps.len
    while i > 0 and held * 10 < total * TENTHS:
        i -= 1
        held += gap[i]
    return max(<uint32_t> 1, gap[i] // 4)


cdef int cut(const Replay* r, const uint32_t* caller, bint zeroed, uint32_t who, uint32_t least,
             Buf* gaps, Buf* at) noexcept nogil:
    # Fill `gaps` with the number of other allocations in each gap, or `at` with the event after
    # each turn, which is the next other allocation or the end of the trace.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef uint32_t gap = 0
    cdef uint32_t stop = NONE32     # the event after the turn, if already known
    cdef bint begun = False
    cdef uint64_t i
    for i in range(r.events):
        if turn_of(action, stack, caller, zeroed, i) == who:
            if begun and gap > 0 and gaps != NULL and push_u32(gaps, gap) < 0:
                return ERR_MEMORY
            if begun and gap >= least and at != NULL and push_u32(at, stop) < 0:
                return ERR_MEMORY
            begun = True
            gap = 0
            stop = NONE32
        elif action[i] == A_ALLOC and caller[stack[i]] == NONE32:
            if stop == NONE32:
                stop = <uint32_t> i
            gap += 1
    if begun and at != NULL:
        return OK if push_u32(at, min(stop, <uint32_t> r.events)) == 0 else ERR_MEMORY
    return OK


cdef bint only_state(const Replay* r, const uint32_t* caller, uint32_t who,
                     const Buf* at) noexcept nogil:
    # Whether all allocations from the second turn on outlive the next turn, in a trace with frees.
    # These allocations are then state: SGD with momentum allocates state for new parameters, and
    # nothing in its other steps.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const uint32_t* match = <const uint32_t*> r.match.data
    cdef const uint32_t* stop = <const uint32_t*> at.data
    cdef bint frees = False
    cdef size_t turn = 0
    cdef uint64_t i
    if at.len < 2:
        return False
    for i in range(r.events):
        while turn < at.len and i >= stop[turn]:
            turn += 1
        if action[i] != A_ALLOC:
            continue
        frees = frees or match[i] != NONE32
        if (turn and turn < at.len and caller[stack[i]] == who
                and match[i] < stop[min(turn + 1, at.len - 1)]):
            return False
    return frees


cdef int find_optimizer_steps(const Replay* r, bint zeroed, Buf* at) noexcept nogil:
    # Fill `at` with the event after each turn. `at` stays empty if there are no turns, or if the
    # trace doesn't show all steps.
    cdef uint32_t* caller = callers(r, ZERO_GRAD if zeroed else OPTIMIZER)
    cdef uint64_t n = <uint64_t> spans_len(&r.tables.frames) + 1
    cdef uint32_t* turns = <uint32_t*> calloc(n, sizeof(uint32_t))
    cdef uint32_t* before = <uint32_t*> calloc(n, sizeof(uint32_t))
    cdef uint32_t who
    cdef Buf gaps
    cdef int code = OK
    buf_init(&gaps, sizeof(uint32_t))
    if caller == NULL or turns == NULL or before == NULL:
        code = ERR_MEMORY
    if code == OK:
        who = busiest(r, caller, zeroed, turns, before)
        if who != NONE32:
            code = cut(r, caller, zeroed, who, 1, &gaps, NULL)
            if code == OK:
                code = cut(r, caller, zeroed, who, least_gap(&gaps), NULL, at)
            if code == OK and not zeroed and only_state(r, caller, who, at):
                at.len = 0
    free(caller)
    free(turns)
    free(before)
    buf_free(&gaps)
    return code


cdef int64_t count_optimizers(const Replay* r) noexcept nogil:
    # Count the call sites of optimizers' step() that allocate in more than one turn. Returns
    # ERR_MEMORY, which is negative, when out of memory.
    cdef uint32_t* caller = callers(r, OPTIMIZER)
    cdef uint64_t n = <uint64_t> spans_len(&r.tables.frames) + 1
    cdef uint32_t* turns = <uint32_t*> calloc(n, sizeof(uint32_t))
    cdef uint32_t* before = <uint32_t*> calloc(n, sizeof(uint32_t))
    cdef int64_t found = 0
    cdef uint64_t i
    if caller == NULL or turns == NULL or before == NULL:
        found = -1
    else:
        busiest(r, caller, False, turns, before)
        for i in range(n):
            found += turns[i] > 1
    free(caller)
    free(turns)
    free(before)
    return found
