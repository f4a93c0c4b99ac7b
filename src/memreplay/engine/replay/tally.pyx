"""Count a device's events by action and its final segments and blocks, and find the range of times.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.read.tables cimport (
    ABSENT_TIME, A_SEGMENT_ALLOC, A_SEGMENT_FREE, A_SEGMENT_MAP, A_SEGMENT_UNMAP, Block, DeviceRows,
    EMPTY_STACK, EXPANDABLE, STATE_INACTIVE, Segment, Tables, block_requested, rows_of,
)
from memreplay.engine.read.sparse cimport sparse_at


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    # Sums computed from a forged file may wrap.
    return <int64_t> (<uint64_t> a + <uint64_t> b)


cdef void count_events(const Replay* r, Tally* out) noexcept nogil:
    cdef const Tables* t = r.tables
    cdef const uint8_t* action = <const uint8_t*> t.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> t.stack.data + r.first
    cdef int64_t time
    cdef uint64_t i
    for i in range(r.events):
        out.actions[action[i]] += 1
        out.with_stack += stack[i] != EMPTY_STACK
        time = <int64_t> sparse_at(&t.time, r.first + i)
        if time == ABSENT_TIME:
            continue
        if not out.timed or time < out.first_time:
            out.first_time = time
        if not out.timed or time > out.last_time:
            out.last_time = time
        out.timed = True


cdef void tally(const Replay* r, Tally* out) noexcept nogil:
    cdef const Segment* segments = <const Segment*> r.tables.segments.data
    cdef const Block* blocks = <const Block*> r.tables.blocks.data
    cdef DeviceRows rows = rows_of(r.tables, r.device)
    cdef StateTally* state
    cdef uint64_t i
    memset(out, 0, sizeof(Tally))
    count_events(r, out)
    out.growing = out.actions[<int> A_SEGMENT_MAP] + out.actions[<int> A_SEGMENT_UNMAP]
    out.fixed = out.actions[<int> A_SEGMENT_ALLOC] + out.actions[<int> A_SEGMENT_FREE]
    for i in range(rows.first_segment, rows.end_segment):
        if segments[i].device == r.device:
            out.segments += 1
            if segments[i].flags & EXPANDABLE:
                out.growing += 1
            else:
                out.fixed += 1
            out.reserved = plus(out.reserved, segments[i].total_size)
    for i in range(rows.first_block, rows.end_block):
        if segments[blocks[i].segment].device != r.device or blocks[i].state >= STATES:
            continue
        state = &out.states[blocks[i].state]
        state.blocks += 1
        state.size = plus(state.size, blocks[i].size)
        if blocks[i].state != STATE_INACTIVE:
            state.requested = plus(state.requested, block_requested(&blocks[i]))
