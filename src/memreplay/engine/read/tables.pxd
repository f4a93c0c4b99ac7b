# The columns of a snapshot: struct of arrays that grow while it is read, and are fixed afterwards.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_reserve, push_item, push_u32, push_u64
from memreplay.engine.base.hashmap cimport (
    NONE32, Map64, Spans, map64_get, span_at, spans_intern, spans_len
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK, Status, fail, fail_limit
from memreplay.engine.read.sparse cimport Sparse, sparse_at, sparse_put

cdef extern from *:
    const int64_t ABSENT_TIME "INT64_MIN"       # this event has no time
    const int64_t MAX_BYTES "(INT64_MAX / 2)"   # the largest size, and the largest sum of sizes
    const uint32_t SEALED "0x80000000u"         # in frame_of, stack_of, unknown_dicts: used, fixed
    const uint32_t UNKNOWN_DICT "0x80000000u"   # in unknown_items: of unknown_dicts, not frame_of
    const uint32_t NOT_FRAMES "0xfffffffeu"     # in unknown_lists: it holds something else

cdef enum:
    EMPTY_STACK = 0         # the stack of no frames
    MAX_ROWS = 1 << 27      # what a packed memo entry can name: no limit is above it
    MAX_DEVICES = 0x7FFFFFFF

# Actions, in the order of their names in shapes.pxd. A name that is not among them gets the next
# code from A_OTHER on, and A_LAST when those have run out.
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
    A_KNOWN = 13          # how many are known
    A_NONE = 31           # the event has no action
    A_OTHER = 32
    A_LAST = 255

# Block states; a block in any of them but STATE_INACTIVE is active.
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
    HAS_BLOCKS = 32       # its list of blocks was set: they are this segment's
    HAS_HISTORY_LIST = 64
    HAS_FRAMES = 128
    HAS_ENTRIES = 256     # its history was begun
    OPENED_BLOCKS = 512   # its list of blocks was begun


cdef struct Event:
    # One event while it is read; it becomes a row when it is complete.
    uint64_t address
    int64_t size
    uint64_t stream
    int64_t time
    uint32_t stack
    uint32_t compile_context   # string id, or NONE32
    uint32_t user_metadata     # string id, or NONE32
    uint32_t pool              # pair id, or NONE32
    uint8_t action
    bint has_device_free
    int64_t device_free        # oom events only
    bint carried               # it stands for what was live before the first event


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
    # The segments of one device, and their blocks, are among these rows.
    uint64_t first_segment, end_segment
    uint64_t first_block, end_block


cdef struct Annotation:
    int64_t time
    uint32_t name
    uint32_t stage
    int32_t device


cdef enum Bound:
    # What a bound of a range is given in.
    AT_NONE = 0
    AT_EVENT = 1       # the event's index in its trace
    AT_ELAPSED = 2     # microseconds after the trace's first event
    AT_TIME = 3        # microseconds since the epoch


cdef enum:
    ALL_DEVICES = -2       # -1 is one: of segments that say so


cdef struct Range:
    # What to keep of each trace; the rest only leaves its mark on what was carried over.
    bint on
    int start_kind, stop_kind      # Bound
    int64_t start, stop            # half open
    int32_t device                 # keep this device's events only, or ALL_DEVICES


cdef enum AfterMark:
    AFTER_NAMED = 1        # by an alloc or a free_completed
    AFTER_REQUESTED = 2    # by a free_requested, before any of those


cdef enum Pending:
    # Whether a carried block's free had been requested before the first event.
    PENDING_NO = 0
    PENDING_UNLESS_SEEN = 1    # it had, unless the request is among the events
    PENDING_YES = 2


cdef struct SegmentEvent:
    uint64_t address
    int64_t size
    uint64_t stream
    uint32_t pool        # pair id, or NONE32
    uint32_t action


cdef struct Window:
    # Of one trace that is read through a range: what the events outside of it leave behind.
    int phase            # Phase
    bint dropped         # of a device that nobody asked for
    bint happened        # an event was no `snapshot` of 0 bytes
    uint64_t index       # of the next event
    uint64_t begin       # of the first event of the range, once it is reached
    int64_t first_time   # of the first event that has one
    bint timeless        # a bound in time met an event without one
    Map64 before         # address -> carried block, or NONE32 when it was seen but is free
    Map64 asked          # address that was not seen when its free was requested -> 1
    Buf carried          # Carried: the blocks live when the range begins (with gaps: size -1)
    Buf gaps             # u32: free places in carried
    Map64 after          # address -> AfterMark of the events after the range that name it
    Buf late             # Carried: blocks that such an event frees without their having been named
    Buf segment_events   # SegmentEvent: those after the range
    bint requests        # there was a free_requested outside of the range
    uint64_t same_stack, other_stack


cdef struct Carried:
    # A block that was live before the first event.
    uint64_t address
    int64_t size        # requested
    uint32_t stack
    uint32_t end        # the event that freed it, or NONE32
    uint32_t block      # its row in blocks where the segments still hold it, or NONE32
    uint64_t made       # the index in the trace of the event that allocated it, + 1; 0: none did
    uint8_t doubtful    # its stack is that of the free: the allocation's, perhaps
    uint8_t pending     # Pending


cdef struct Trace:
    uint64_t first     # its rows are events[first : first + rows]
    uint64_t rows
    uint64_t base      # index of the first of them in the trace
    uint64_t count     # events in the trace, those outside of the range too
    uint64_t read_first     # number of its first event among all that were read
    int32_t device     # its place in device_traces; -1 until the list is known
    int32_t place      # that place as the trace's own list says it, when it is opened
    bint shared        # it stands there more than once (which only an empty one may)
    Window* window     # NULL without a range


cdef struct FrameKey:
    # No padding: interned by its bytes.
    int64_t line
    uint32_t file
    uint32_t name
    uint32_t fx_op
    uint32_t fx_name
    uint32_t fx_target
    uint32_t fx_trace


cdef struct UnknownList:
    uint32_t first, last       # of unknown_items, or NONE32
    uint32_t stack             # once used; NONE32 before; NOT_FRAMES


cdef struct UnknownItem:
    uint32_t dict              # its place in frame_of, or in unknown_dicts (| UNKNOWN_DICT)
    uint32_t next


cdef struct Node:
    # A value that is kept as it is (settings, dict metadata): a tree in one array. `next` links the
    # items of a container; a container that is an item is one node that refers to another.
    uint64_t num
    uint32_t kind
    uint32_t key       # string id, in dicts
    uint32_t next
    uint32_t first
    uint32_t last
    uint32_t idx
    uint32_t text      # string id of the container rendered as metadata, or NONE32 (metadata.pyx)


cdef struct Tables:
    Status status
    # events
    uint64_t events         # rows
    uint64_t read_events    # events read, those outside of the range too
    Range range
    Buf action, address, size, stack
    Sparse time, stream, compile_context, user_metadata, pool
    Buf oom_event, oom_free          # device_free, only where an event has it
    Buf traces                       # Trace
    Buf other_actions                # string id of action code A_OTHER + i
    # what the final state says
    Buf segments, blocks, annotations
    Buf device_rows                  # DeviceRows
    Map64 rows_at                    # a segment's device -> its place there
    # interned
    Spans strings, frames, stacks, pairs
    # kept values
    Buf nodes
    uint32_t settings, overflowed, max_entries, own   # node + 1, 0 is none
    Status unkept           # why the first value that can't be kept can't; OK if there is none
    # containers being read, by the order they were opened in
    Buf frame_of                     # u32 a frame dict -> frame id (| SEALED)
    Buf stack_of                     # u32 a frames list -> stack id (| SEALED)
    FrameKey frame
    uint32_t frame_owner             # the frame dict that `frame` belongs to, or NONE32
    Buf list                         # u32 frame ids of the open frames list
    uint32_t list_owner              # the frames list that `list` belongs to, or NONE32
    Buf unknown_dicts                # u32 an unknown dict -> unknown_frames (| SEALED), or NONE32
    Buf unknown_frames               # FrameKey of those that have a frame's keys; 0 is no dict's
    Buf unknown_lists                # UnknownList
    Buf unknown_items                # UnknownItem
    Buf pair_of                      # int64 x 3: count, first, second of a pool id given as a list
    uint32_t hist_block, hist_count  # history entries seen in the open block
    uint64_t read_history, attached_history  # and in all
    uint64_t attached_events, attached_segments, attached_blocks, attached_annotations
    uint64_t attached_traces
    Buf text                         # scratch
    uint64_t max_nodes
    uint64_t max_rows, max_devices
    uint64_t read_bytes              # input read so far, or a little less
    uint64_t rendered                # bytes of metadata rendered so far
    bint nul_strings                 # one begins with a NUL byte (pickles): see want_metadata()
    bint saw_segments, saw_traces, saw_annotations       # such a list was opened
    bint has_segments, has_traces, has_annotations       # and set in the dict it belongs to
    bint bare_list
    # Snapshots inside of other data, or of several in one file: see wrapped.pxd.
    uint64_t pick                    # which of them is wanted, from 1; 0 is the only one
    uint64_t found                   # how many there are so far
    bint adopted                     # the one that is wanted was found
    bint unwrapped                   # and it does not stand at the top
    Buf found_names                  # u32 string id or NONE32: where each of the first few stands
    bint salvaged                    # the input was cut off: what is here is its whole part
    bint windowed                    # a trace begins with carried events: it has a window
    bint open_event                  # row `events` is being filled, in `event`
    Event event
    bint any_time, any_missing_time
    uint64_t with_stack
    # Of the snapshot that is wanted: the byte at which its first list of segments or traces begins,
    # and whether it may have items that nobody knows.
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


cdef enum Phase:
    # Where the next event of a trace lies.
    BEFORE = 0
    WINDOW_IN = 1
    AFTER = 2

cdef int window_pass(Tables* t, const Event* e) noexcept nogil


cdef inline int push_event(Tables* t, const Event* e) noexcept nogil:
    # One more event: a row, unless it lies outside of the range. ERR_MEMORY or ERR_LIMIT otherwise.
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
        # The actions last: their room is that of all four.
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


cdef inline int64_t block_requested(const Block* b) noexcept nogil:
    # requested_size, or the history's real_size (kept in the same field), or the block's size.
    return b.requested if b.flags & (HAS_REQUESTED | HAS_HISTORY) else b.size


cdef inline bint is_pending(const Block* b) noexcept nogil:
    # Its free was requested, and waits for another stream.
    return b.state == STATE_ACTIVE_PENDING_FREE or b.state == STATE_ACTIVE_AWAITING_FREE


cdef inline DeviceRows rows_of(const Tables* t, int32_t device) noexcept nogil:
    # Where to look for the segments and blocks of a device; with those of one device in a row, as
    # PyTorch writes them, a look at each device is one look at all rows.
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
