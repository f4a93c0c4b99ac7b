# A snapshot's columns: a struct of arrays that grow while the snapshot is read and are constant
# afterwards.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_reserve, push_item, push_u32, push_u64
from memreplay.engine.base.hashmap cimport (
    NONE32, Map64, Spans, map64_get, span_at, spans_intern, spans_len
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK, Status, fail, fail_limit
from memreplay.engine.read.sparse cimport DENSE, Sparse, sparse_is, sparse_put, sparse_write

cdef extern from *:
    const int64_t ABSENT_TIME "INT64_MIN"       # an event without a time
    const int64_t MAX_BYTES "(INT64_MAX / 2)"   # the largest size and the largest sum of sizes
    # in frame_of, stack_of, unknown_dicts: already used, so must not change
    const uint32_t SEALED "0x80000000u"
    # in unknown_items: an index into unknown_dicts instead of frame_of
    const uint32_t UNKNOWN_DICT "0x80000000u"
    # in unknown_lists: contains something other than frames
    const uint32_t NOT_FRAMES "0xfffffffeu"

cdef enum:
    EMPTY_STACK = 0         # id of the stack without frames
    MAX_ROWS = 1 << 27      # a memo entry has no room for a higher index; limits can't be higher
    MAX_DEVICES = 0x7FFFFFFF

# Actions, in the order of their names in keys.pyx. Other names get codes from A_OTHER on, and
# A_LAST once these run out.
cdef enum Action:
    A_ALLOC = 0
    A_FREE_REQUESTED = 1
    A_FREE_COMPLETED = 2
    A_SEGMENT_ALLOC = 3
    A_SEGMENT_FREE = 4
    A_SEGMENT_MAP = 5
    A_SEGMENT_UNMAP = 6
    A_OOM = 7
    A_SNAPSHOT = 8
    A_USER_DEFINED = 9
    A_ANNOTATE = 10
    A_WORKSPACE_SNAPSHOT = 11
    A_EMPTY_CACHE = 12
    A_KNOWN = 13          # number of known actions
    A_NONE = 31           # an event without an action
    A_OTHER = 32
    A_LAST = 255

# Block states. All but STATE_INACTIVE are active.
cdef enum State:
    STATE_UNKNOWN = 0
    STATE_INACTIVE = 1
    STATE_ACTIVE_ALLOCATED = 2
    STATE_ACTIVE_PENDING_FREE = 3
    STATE_ACTIVE_AWAITING_FREE = 4
    STATES = 5

cdef enum RowFlag:
    HAS_ADDRESS = 1
    HAS_REQUESTED = 2
    HAS_TOTAL = 4
    HAS_HISTORY = 8
    EXPANDABLE = 16
    HAS_BLOCKS = 32       # the segment's list of blocks was set, so the blocks belong to it
    HAS_HISTORY_LIST = 64
    HAS_FRAMES = 128
    HAS_ENTRIES = 256     # the block's history was opened
    OPENED_BLOCKS = 512   # the segment's list of blocks was opened


cdef struct Event:
    # An event that is being read. Once complete, it becomes a row.
    uint64_t address
    int64_t size
    uint64_t stream
    int64_t time
    uint32_t stack
    uint32_t compile_context   # string id or NONE32
    uint32_t user_metadata     # string id or NONE32
    uint32_t pool              # pair id, or NONE32
    uint8_t action
    bint has_device_free
    int64_t device_free        # oom events only
    bint carried               # stands for an allocation that was live before the first event
    int64_t block_size         # if carried: its block's size; 0: unknown


cdef struct Segment:
    uint64_t address
    int64_t total_size
    int64_t allocated_size
    int64_t active_size
    int64_t requested_size
    uint64_t stream
    int32_t device
    uint32_t pool
    uint32_t stack
    uint32_t kind              # string id of segment_type
    uint32_t flags


cdef struct Block:
    uint64_t address
    int64_t size
    int64_t requested
    uint32_t segment
    uint32_t stack
    uint32_t state
    uint32_t flags


cdef struct DeviceRows:
    # The row ranges that contain one device's segments and blocks.
    uint64_t first_segment, end_segment
    uint64_t first_block, end_block


cdef struct Annotation:
    int64_t time
    uint32_t name
    uint32_t stage
    int32_t device


cdef enum Bound:
    # Unit of a range's bound.
    AT_NONE = 0
    AT_EVENT = 1       # the event's index in its trace
    AT_ELAPSED = 2     # microseconds after the trace's first event
    AT_TIME = 3        # microseconds since the epoch


cdef enum:
    ALL_DEVICES = -2       # not -1, because segments may have that device number


cdef struct Range:
    # The events of each trace to keep. The others only affect carried-over memory.
    bint on
    int start_kind, stop_kind      # Bound
    int64_t start, stop            # half open
    int32_t device                 # keep only this device's events, or ALL_DEVICES


cdef enum AfterMark:
    AFTER_NAMED = 1        # an alloc or free_completed named the address
    AFTER_REQUESTED = 2    # a free_requested named the address before any alloc or free_completed


cdef enum Pending:
    # Whether the free of a carried-over block was requested before the first event.
    PENDING_NO = 0
    PENDING_UNLESS_SEEN = 1    # requested, unless the request is one of the events
    PENDING_YES = 2


cdef struct SegmentEvent:
    uint64_t address
    int64_t size
    uint64_t stream
    uint32_t pool        # pair id, or NONE32
    uint32_t action


cdef struct Window:
    # State for reading a trace through a range: the effects of the events outside the range.
    int phase            # Phase
    bint dropped         # the device wasn't selected
    bint happened        # an event other than an empty `snapshot` occurred
    uint64_t index       # index of the next event
    uint64_t begin       # index of the range's first event, once reached
    int64_t first_time   # time of the first event that has one
    bint timeless        # the range has a time bound, and there was an event without a time
    # address -> carried-over block; NONE32 for an address that was freed
    Map64 before
    # 1 for each address whose free was requested before any other event named the address
    Map64 freed_early
    Buf carried          # Carried: blocks live when the range begins; gaps have size -1
    Buf gaps             # u32: unused entries in carried
    Map64 after          # address -> AfterMark of the events after the range
    Buf late             # Carried: blocks freed after the range and not named by earlier events
    Buf segment_events   # SegmentEvent: the segment events after the range
    bint requests        # a free_requested occurred outside the range
    uint64_t same_stack, other_stack


cdef struct Carried:
    # A carried-over block, that is, a block that was live before the first event.
    uint64_t address
    int64_t size        # requested
    uint32_t stack
    uint32_t end        # index of the event that freed it, or NONE32
    uint32_t block      # row in `blocks` if it's still live at the end, else NONE32
    uint64_t alloc_index       # 1 + index (in the trace) of the event that allocated it; 0: none
    int64_t block_size  # its block's size, if the file has it; else 0
    uint8_t doubtful    # `stack` is from the free, so it may differ from the allocation's
    uint8_t pending     # Pending


cdef struct Trace:
    uint64_t first     # the trace's rows are events[first : first + rows]
    uint64_t rows
    uint64_t base      # the first row's index in the trace
    uint64_t count     # events in the trace, including those outside the range
    uint64_t read_first     # total number of events read before this trace's first event
    int32_t device     # the trace's index in device_traces; -1 until the list is known
    int32_t place      # the same index, derived from the trace's position when it was opened
    bint shared        # the trace is listed more than once (only allowed if empty)
    Window* window     # NULL without a range


cdef struct FrameKey:
    # Must have no padding, because frames are interned by their bytes.
    int64_t line
    uint32_t file
    uint32_t name
    uint32_t fx_op
    uint32_t fx_name
    uint32_t fx_target
    uint32_t fx_trace


cdef struct UnknownList:
    uint32_t first, last       # indices into unknown_items, or NONE32
    # the stack id, once the list is used as a frames list; NONE32 before that; or NOT_FRAMES
    uint32_t stack


cdef struct UnknownItem:
    uint32_t dict              # index into frame_of, or into unknown_dicts (| UNKNOWN_DICT)
    uint32_t next


cdef struct Node:
    # A value that is kept as it is (settings, dict metadata). Nodes form a tree in one array.
    # `next` links a container's items. A container inside a container is a node that refers to
    # another node.
    uint64_t num
    uint32_t kind
    uint32_t key       # string id, in dicts
    uint32_t next
    uint32_t first
    uint32_t last
    uint32_t idx
    # string id of the container when rendered as metadata, or NONE32 (see metadata.pyx)
    uint32_t text


cdef struct Tables:
    Status status
    # events
    uint64_t events         # rows
    uint64_t read_events    # events read, including those outside the range
    Range range
    Buf action, address, size, stack
    Sparse time, stream, compile_context, user_metadata, pool
    Buf oom_event, oom_free          # device_free, only for events that have it
    Buf traces                       # Trace
    Buf other_actions                # string id for action code A_OTHER + i
    # final state
    Buf segments, blocks, annotations
    Buf device_rows                  # DeviceRows
    Map64 rows_at                    # a segment's device -> index in device_rows
    # interned
    Spans strings, frames, stacks, pairs
    # kept values
    Buf nodes
    uint32_t settings, overflowed, max_entries, own   # node + 1; 0: none
    Status unkept           # error for the first value that can't be kept; OK if there is none
    # containers that are being read, in the order in which they were opened
    Buf frame_of                     # u32, frame id of each frame dict (| SEALED)
    Buf stack_of                     # u32, stack id of each frames list (| SEALED)
    FrameKey frame
    uint32_t frame_owner             # the frame dict in `frame`, or NONE32
    Buf list                         # u32 frame ids of the open frames list
    uint32_t list_owner              # the frames list in `list`, or NONE32
    # u32 per unknown dict: index into unknown_frames (| SEALED), or NONE32
    Buf unknown_dicts
    # FrameKey, for unknown dicts with a frame's keys; entry 0 is unused
    Buf unknown_frames
    Buf unknown_lists                # UnknownList
    Buf unknown_items                # UnknownItem
    # int64 x 3 for a pool id written as a list: number of items, first, second
    Buf pair_of
    uint32_t hist_block, hist_count  # the open block, and the history entries seen in it
    uint64_t read_history, attached_history  # of all blocks
    uint64_t attached_events, attached_segments, attached_blocks, attached_annotations
    uint64_t attached_traces
    Buf text                         # scratch
    uint64_t max_nodes
    uint64_t max_rows, max_devices
    uint64_t read_bytes              # lower bound on the bytes of input read so far
    uint64_t rendered                # bytes of metadata rendered so far
    # a string begins with a NUL byte (pickles): see want_metadata()
    bint nul_strings
    bint saw_segments, saw_traces, saw_annotations       # whether a list of this kind was opened
    bint has_segments, has_traces, has_annotations       # whether this list was set in its dict
    bint bare_list
    # Snapshots inside other data, or several in one file: see wrapped.pxd.
    # number of the wanted snapshot, from 1; 0: the file must have only one
    uint64_t pick
    uint64_t found                   # number of snapshots found so far
    bint adopted                     # the wanted snapshot was found
    bint unwrapped                   # the wanted snapshot isn't the top-level value
    Buf found_names                  # u32 string id or NONE32: the first few snapshots' keys
    bint salvaged                    # the input was truncated; these are the complete rows
    bint windowed                    # a trace begins with carried-over events, so it has a window
    bint open_event                  # row `events` is being filled, in `event`
    Event event
    bint any_time, any_missing_time
    uint64_t with_stack
    # The offset at which the wanted snapshot's first list of segments or traces begins, and whether
    # the snapshot may have unknown items.
    uint64_t adopted_at
    bint unknown_keys


cdef inline void event_clear(Event* e) noexcept nogil:
    e.address = 0
    e.size = 0
    e.stream = 0
    e.time = ABSENT_TIME
    e.stack = EMPTY_STACK
    e.compile_context = NONE32
    e.user_metadata = NONE32
    e.pool = NONE32
    e.action = A_NONE
    e.has_device_free = False
    e.carried = False
    e.block_size = 0


cdef enum Phase:
    # The position of a trace's next event relative to the range.
    BEFORE = 0
    WINDOW_IN = 1
    AFTER = 2

cdef int window_pass(Tables* t, const Event* e) noexcept nogil


cdef inline int push_event(Tables* t, const Event* e) noexcept nogil:
    # Add an event, which becomes a row unless it's outside the range. May fail with ERR_MEMORY or
    # ERR_LIMIT.
    cdef uint64_t row = t.events
    cdef uint64_t room
    cdef int code
    if t.read_events >= t.max_rows:
        return fail_limit(&t.status, "rows of events", t.read_events + 1, t.max_rows)
    t.read_events += 1
    if t.range.on or t.windowed or e.carried:
        code = window_pass(t, e)
        if code != WINDOW_IN:
            return t.status.code
    if e.has_device_free and (push_u32(&t.oom_event, <uint32_t> row) < 0
                              or push_u64(&t.oom_free, <uint64_t> e.device_free) < 0):
        return fail(&t.status, ERR_MEMORY, "events")
    if row >= t.action.cap:
        # Reserve the actions last, because only their capacity is checked for all four columns.
        room = (row >> 1) + 64
        if (buf_reserve(&t.address, room) < 0 or buf_reserve(&t.size, room) < 0
                or buf_reserve(&t.stack, room) < 0 or buf_reserve(&t.action, room) < 0):
            return fail(&t.status, ERR_MEMORY, "events")
    (<uint8_t*> t.action.data)[row] = e.action
    (<uint64_t*> t.address.data)[row] = e.address
    (<int64_t*> t.size.data)[row] = e.size
    (<uint32_t*> t.stack.data)[row] = e.stack
    if (sparse_put(&t.time, row, <uint64_t> e.time) < 0
            or sparse_put(&t.stream, row, e.stream) < 0
            or sparse_put(&t.compile_context, row, e.compile_context) < 0
            or sparse_put(&t.user_metadata, row, e.user_metadata) < 0
            or sparse_put(&t.pool, row, e.pool) < 0):
        return fail(&t.status, ERR_MEMORY, "events")
    t.any_time |= e.time != ABSENT_TIME
    t.any_missing_time |= e.time == ABSENT_TIME
    t.with_stack += e.stack != EMPTY_STACK
    row += 1
    t.events = row
    t.action.len = row
    t.address.len = row
    t.size.len = row
    t.stack.len = row
    return OK


cdef inline bint is_plain(const Tables* t, const Event* e) noexcept nogil:
    # Whether an event can be added by push_plain(): there's no range, and it has the same context,
    # metadata and pool as all rows.
    return (not t.range.on and not t.windowed and not e.carried and not e.has_device_free
            and sparse_is(&t.compile_context, e.compile_context)
            and sparse_is(&t.user_metadata, e.user_metadata) and sparse_is(&t.pool, e.pool))


cdef inline bint push_plain(Tables* t, const Event* e) noexcept nogil:
    # Add an event for which is_plain() is true. False if push_event() must add it.
    cdef uint64_t row = t.events
    if (t.read_events >= t.max_rows or row >= t.action.cap or row >= t.time.b.cap
            or t.time.kept != DENSE or e.time == ABSENT_TIME
            or sparse_put(&t.stream, row, e.stream) < 0):
        return False
    (<uint8_t*> t.action.data)[row] = e.action
    (<uint64_t*> t.address.data)[row] = e.address
    (<int64_t*> t.size.data)[row] = e.size
    (<uint32_t*> t.stack.data)[row] = e.stack
    sparse_write(&t.time.b, row, <uint64_t> e.time)
    t.any_time = True
    t.with_stack += e.stack != EMPTY_STACK
    row += 1
    t.read_events += 1
    t.events = row
    t.action.len = row
    t.address.len = row
    t.size.len = row
    t.stack.len = row
    t.time.b.len = row
    return True


cdef inline int64_t block_requested(const Block* b) noexcept nogil:
    # Return requested_size if known, else the history's real_size (stored in the same field), else
    # the block's size.
    return b.requested if b.flags & (HAS_REQUESTED | HAS_HISTORY) else b.size


cdef inline bint is_pending(const Block* b) noexcept nogil:
    # Whether the block's free was requested but has to wait for another stream.
    return b.state == STATE_ACTIVE_PENDING_FREE or b.state == STATE_ACTIVE_AWAITING_FREE


cdef inline DeviceRows rows_of(const Tables* t, int32_t device) noexcept nogil:
    # Return the rows in which to look for a device's segments and blocks. PyTorch writes each
    # device's rows together, so visiting every device visits each row once.
    cdef DeviceRows rows
    cdef uint32_t at = map64_get(&t.rows_at, <uint64_t> device, NONE32)
    if at == NONE32:
        memset(&rows, 0, sizeof(DeviceRows))
        return rows
    return (<const DeviceRows*> t.device_rows.data)[at]


cdef void tables_init(Tables* t, uint64_t seed) noexcept nogil
cdef void tables_free(Tables* t) noexcept nogil
cdef int tables_finish(Tables* t) noexcept nogil
cdef void tables_salvage(Tables* t) noexcept nogil
