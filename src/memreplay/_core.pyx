"""The façade over the reader: `read()` runs its loop and gives `Tables`.

No algorithm is in here. Columns cross as objects with the buffer protocol: read-only,
one-dimensional, without a copy, alive as long as anyone holds them. NumPy is not needed for any of
it.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset, strcmp
from memreplay.engine.read cimport json as _json
from memreplay.engine.read cimport sparse as _sparse
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.read cimport value as _value
from memreplay.engine.read cimport vm as _vm
from memreplay.engine.read.column cimport Column, Owned, column, field_column, owned
from memreplay.engine.base.cursor cimport Cursor, cursor_offset
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, Spans, span_at, spans_len
from memreplay.engine.read.intake cimport Intake
from memreplay.engine.read.opcodes cimport EMPTY_DICT, EMPTY_LIST, MARK, PROTO
from memreplay.engine.read.keys cimport S_ACTION, S_STATE, key_name
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.base.status cimport (
    DONE, ERR_MEMORY, ERR_SHAPE, ERR_TRUNCATED, OK, Status
)

import os

from memreplay.engine.base.diagnosis import cut_stream, diagnose, no_such_snapshot, several
from memreplay.errors import LimitError

ABSENT_TIME = _tables.ABSENT_TIME
ABSENT_ID = NONE32
ALL_DEVICES = _tables.ALL_DEVICES
ACTIONS = tuple((<bytes> key_name(S_ACTION + i)).decode() for i in range(_tables.A_KNOWN))
HAS_REQUESTED = _tables.HAS_REQUESTED | _tables.HAS_HISTORY
EXPANDABLE = _tables.EXPANDABLE
OWN_REQUESTED = _tables.HAS_REQUESTED
HAS_ADDRESS = _tables.HAS_ADDRESS
STATES = ("unknown", *((<bytes> key_name(S_STATE + i)).decode()
                       for i in range(_tables.STATES - _tables.STATE_INACTIVE)))


cdef uint64_t new_seed():
    return int.from_bytes(os.urandom(8), "little")


cdef object error_of(const Status* status, uint64_t events=0, uint64_t segments=0):
    return diagnose(
        status.code, status.offset, status.opcode, status.a, status.b,
        (<bytes> status.detail).decode("utf-8", "replace"), events, segments,
    )


cdef bint has_history(const _tables.Tables* t) noexcept:
    # Whether a block has a `history` (2.0-era files).
    cdef size_t i
    for i in range(t.blocks.len):
        if (<const _tables.Block*> t.blocks.data)[i].flags & _tables.HAS_HISTORY:
            return True
    return False


cdef uint64_t whole_segments(const _tables.Tables* t) noexcept:
    # Those that tell something without a trace, which 2.0-era files don't have; of others the trace
    # lies behind the cut. As tables_salvage() counts: whether the last one is whole cannot be told.
    if not t.bare_list and not has_history(t):
        return 0
    return t.segments.len - (t.segments.len > t.attached_segments)


cdef object read_error(const _tables.Tables* t):
    return error_of(&t.status, t.read_events, whole_segments(t))


@cython.final
cdef class Tables:
    """All that a snapshot holds, in columns. Made by `read()`, fixed from then on."""

    def __cinit__(self):
        self.decoded = {}
        self._spelled = {}

    def __init__(self):
        raise TypeError("tables are made by read()")

    def __dealloc__(self):
        _tables.tables_free(&self.t)

    # ---- whole-file facts

    @property
    def n_events(self) -> int:
        return self.t.events

    @property
    def n_ooms(self) -> int:
        return self.t.oom_event.len

    @property
    def n_strings(self) -> int:
        return spans_len(&self.t.strings)

    @property
    def n_stacks(self) -> int:
        return spans_len(&self.t.stacks)

    @property
    def n_frames(self) -> int:
        return spans_len(&self.t.frames)

    @property
    def n_pools(self) -> int:
        return spans_len(&self.t.pairs)

    @property
    def n_segments(self) -> int:
        return self.t.segments.len

    @property
    def n_blocks(self) -> int:
        return self.t.blocks.len

    @property
    def n_annotations(self) -> int:
        return self.t.annotations.len

    @property
    def has_traces(self) -> bool:
        return self.t.has_traces

    @property
    def has_segments(self) -> bool:
        return self.t.has_segments

    @property
    def has_annotations(self) -> bool:
        return self.t.has_annotations

    @property
    def bare_list(self) -> bool:
        return self.t.bare_list

    @property
    def any_time(self) -> bool:
        return self.t.any_time

    @property
    def any_missing_time(self) -> bool:
        return self.t.any_missing_time

    @property
    def range_without_times(self) -> bool:
        """Whether a range in time was asked for, and an event without a time was met."""
        cdef _tables.Trace* traces = <_tables.Trace*> self.t.traces.data
        return any([traces[i].window != NULL and traces[i].window.timeless
                    for i in range(self.t.traces.len)])

    @property
    def any_history(self) -> bool:
        """Whether a block has a `history` (2.0-era files)."""
        return has_history(&self.t)

    @property
    def events_with_stack(self) -> int:
        return self.t.with_stack

    @property
    def found_snapshots(self) -> int:
        """How many snapshots the file holds: 0 of segments alone, as a list."""
        return self.t.found

    @property
    def unknown_keys(self) -> bool:
        """Whether the snapshot's dict may have items that nobody knows: they are in no table."""
        return self.t.unknown_keys

    @property
    def has_notes(self) -> bool:
        """Whether something stands under memreplay's own key, whatever it is."""
        return self.t.own != 0

    @property
    def wrapped(self) -> bool:
        """Whether the snapshot stands in another dict, a list or a tuple."""
        return self.t.unwrapped

    @property
    def adopted_at(self) -> int:
        """The byte of a pickle's stream at which the snapshot's first list begins."""
        return self.t.adopted_at

    def found_names(self) -> list:
        """Under which key each of the first few snapshots stands; None of one that has none."""
        cdef const uint32_t* ids = <const uint32_t*> self.t.found_names.data
        return [None if ids[i] == NONE32 else self.string(ids[i])
                for i in range(self.t.found_names.len)]

    def traces(self) -> list:
        """(device, first row, rows, events) of each entry of device_traces, empty ones too.

        Rows are fewer than events where a range was read.
        """
        cdef _tables.Trace* traces = <_tables.Trace*> self.t.traces.data
        return [
            (traces[i].device, traces[i].first, traces[i].rows, traces[i].count)
            for i in range(self.t.traces.len) if traces[i].device >= 0
        ]

    def segment_devices(self) -> list:
        """The devices that have segments, ascending."""
        cdef _tables.Segment* segments = <_tables.Segment*> self.t.segments.data
        return sorted({segments[i].device for i in range(self.t.segments.len)})

    def idle_devices(self) -> list:
        """The devices whose events, those outside of a range too, are all `snapshot`s of 0 bytes,
        which PyTorch writes for every device of the machine, used or not."""
        cdef _tables.Trace* traces = <_tables.Trace*> self.t.traces.data
        cdef const uint8_t* action = <uint8_t*> self.t.action.data
        cdef const int64_t* size = <int64_t*> self.t.size.data
        cdef uint64_t row
        found = []
        for i in range(self.t.traces.len):
            if traces[i].count == 0:
                continue
            if traces[i].window != NULL and traces[i].window.happened:
                continue
            for row in range(traces[i].first, traces[i].first + traces[i].rows):
                if action[row] != _tables.A_SNAPSHOT or size[row]:
                    break
            else:
                found.append(traces[i].device)
        return found

    def blocks_without_requested_size(self, device: int) -> int:
        """Active blocks of a device for which the file gives neither requested nor real size."""
        cdef _tables.Segment* segments = <_tables.Segment*> self.t.segments.data
        cdef _tables.Block* b = <_tables.Block*> self.t.blocks.data
        cdef int32_t wanted = device
        cdef _tables.DeviceRows rows = _tables.rows_of(&self.t, wanted)
        cdef size_t i
        cdef size_t found = 0
        for i in range(rows.first_block, rows.end_block):
            if (b[i].state != _tables.STATE_INACTIVE and segments[b[i].segment].device == wanted
                    and not b[i].flags & (_tables.HAS_REQUESTED | _tables.HAS_HISTORY)):
                found += 1
        return found

    def action_name(self, code: int) -> str | None:
        """The name of an action code; None for an event without action."""
        if not 0 <= code < 256:
            raise IndexError(code)
        if code < len(ACTIONS):
            return ACTIONS[code]
        if code == _tables.A_NONE:
            return None
        if not 0 <= code - _tables.A_OTHER < <int> self.t.other_actions.len:
            return "other"
        return self.string((<uint32_t*> self.t.other_actions.data)[code - _tables.A_OTHER])

    # ---- interned things, by id

    def string(self, i: int) -> str:
        """String i; bytes that are not UTF-8 become U+FFFD. Raises IndexError."""
        text = self.decoded.get(i)
        if text is None:
            raw = self._bytes(&self.t.strings, i)
            try:
                text = raw.decode("utf-8", "surrogatepass")   # as pickle decodes it
            except UnicodeDecodeError:
                text = raw.decode("utf-8", "replace")
            # The first of several threads keeps its own: what `get` has borrowed is never let go.
            text = self.decoded.setdefault(i, text)
        return text

    cdef bytes _bytes(self, Spans* spans, object i):
        cdef size_t n = 0
        cdef const uint8_t* p
        if not 0 <= i < spans_len(spans):
            raise IndexError(i)
        p = span_at(spans, <uint32_t> i, &n)
        return p[:n]

    def stack(self, i: int) -> tuple:
        """The frame ids of stack i, innermost first."""
        return tuple(memoryview(self._bytes(&self.t.stacks, i)).cast("I"))

    def frame(self, i: int) -> tuple:
        """(function string id, file string id, line) of frame i."""
        if not 0 <= i < self.n_frames:
            raise IndexError(i)
        cdef _tables.FrameKey* f = <_tables.FrameKey*> self.t.frames.data.data + <size_t> i
        return f.name, f.file, f.line

    def pool(self, i: int) -> tuple:
        """Pool id i as its two numbers."""
        return tuple(memoryview(self._bytes(&self.t.pairs, i)).cast("q"))

    def frame_strings(self) -> tuple:
        """(file string ids, function string ids) that frames use, each once, as two sets."""
        cdef _tables.FrameKey* f = <_tables.FrameKey*> self.t.frames.data.data
        cdef size_t i
        files = set()
        functions = set()
        for i in range(spans_len(&self.t.frames)):
            files.add(f[i].file)
            functions.add(f[i].name)
        return files, functions

    def kept(self, name: str, max_items: int = 100_000):
        """A kept top-level value as Python data: "settings", "overflowed", "max_entries", or
        "memreplay", what memreplay's recorders add; else None.

        Raises LimitError when it has more than `max_items` items, shared ones counted each time, or
        nests deeper than 32; SnapshotError when it holds what can't be kept.
        """
        cdef uint32_t node
        if name == "settings":
            node = self.t.settings
        elif name == "overflowed":
            node = self.t.overflowed
        elif name == "max_entries":
            node = self.t.max_entries
        elif name == "memreplay":
            node = self.t.own
        else:
            raise KeyError(name)
        budget = [max_items]
        return self._node(node - 1, 0, budget) if node else None

    cdef object _node(self, uint32_t i, int depth, list budget):
        cdef _tables.Node node = (<_tables.Node*> self.t.nodes.data)[i]
        cdef double real
        budget[0] -= 1
        if budget[0] < 0 or depth > 32:
            raise LimitError("the allocator settings, or what memreplay adds, hold too many items,"
                             " or nest too deep", hint="no PyTorch writes such settings")
        if node.kind == _value.V_NODE_LIST or node.kind == _value.V_NODE_DICT:
            return self._node_items(node, depth, budget)
        if node.kind == _value.V_STR:
            return self.string(node.idx)
        if node.kind == _value.V_INT:
            return <int64_t> node.num
        if node.kind == _value.V_UINT:
            return node.num
        if node.kind == _value.V_FLOAT:
            memcpy(&real, &node.num, sizeof(real))
            return real
        if node.kind == _value.V_TRUE or node.kind == _value.V_FALSE:
            return node.kind == _value.V_TRUE
        if node.kind == _value.V_PAIR:
            return list(self.pool(node.idx))
        if node.kind == _value.V_OPAQUE and node.num == _value.UNKEPT:
            raise error_of(&self.t.unkept)
        return None

    cdef object _node_items(self, _tables.Node node, int depth, list budget):
        cdef _tables.Node* nodes = <_tables.Node*> self.t.nodes.data
        cdef uint32_t item = nodes[node.idx].first
        found = [] if node.kind == _value.V_NODE_LIST else {}
        while item != NONE32:
            value = self._node(item, depth + 1, budget)
            if node.kind == _value.V_NODE_LIST:
                found.append(value)
            else:
                found[self.string(nodes[item].key)] = value
            item = nodes[item].next
        return found

    # ---- columns

    def column(self, name: str) -> Column | int:
        """A column of events, or of the interned stacks; where all rows are one number, that
        number.

        Events: action (u8), address (u64), size (i64, requested bytes), stack (u32), time (i64,
        ABSENT_TIME where there is none), stream (u64), compile_context, user_metadata, pool (u32,
        ABSENT_ID where there is none). Events that carry `device_free`: oom_event (u32, row),
        oom_free (i64, bytes). Stacks: stack_offsets (u64, bytes into stack_frames), stack_frames
        (u32 frame ids). Raises KeyError for any other name.
        """
        cdef _tables.Tables* t = &self.t
        if name == "action":
            return column(self, t.action.data, t.events, b"B")
        if name == "address":
            return column(self, t.address.data, t.events, b"Q")
        if name == "size":
            return column(self, t.size.data, t.events, b"q")
        if name == "stack":
            return column(self, t.stack.data, t.events, b"I")
        if name == "time":
            return self._numbers(name, &t.time, b"q")
        if name == "stream":
            return self._numbers(name, &t.stream, b"Q")
        if name == "compile_context":
            return self._numbers(name, &t.compile_context, b"I")
        if name == "user_metadata":
            return self._numbers(name, &t.user_metadata, b"I")
        if name == "pool":
            return self._numbers(name, &t.pool, b"I")
        if name == "oom_event":
            return column(self, t.oom_event.data, t.oom_event.len, b"I")
        if name == "oom_free":
            return column(self, t.oom_free.data, t.oom_free.len, b"q")
        if name == "stack_offsets":
            return column(self, t.stacks.offsets.data, t.stacks.offsets.len, b"Q")
        if name == "stack_frames":
            return column(self, t.stacks.data.data, t.stacks.data.len // 4, b"I")
        raise KeyError(name)

    cdef object _numbers(self, name, const _sparse.Sparse* s, bytes fmt):
        cdef Owned out
        cdef uint64_t i
        if s.kept == _sparse.DENSE:
            return column(self, s.b.data, s.b.len, fmt)
        if s.kept == _sparse.ALIKE:
            return <int64_t> s.constant if fmt == b"q" else s.constant
        if name not in self._spelled:
            out = owned(s.itemsize)
            if buf_reserve(&out.buf, s.b.len) < 0:
                raise MemoryError
            for i in range(s.b.len):
                _sparse.sparse_write(&out.buf, i, _sparse.sparse_at(s, i))
            self._spelled.setdefault(name, column(out, out.buf.data, s.b.len, fmt))
        return self._spelled[name]

    def number(self, name: str, row: int) -> int:
        """What one row of a column of events has. Raises IndexError, and KeyError for a name."""
        cdef _tables.Tables* t = &self.t
        if not 0 <= row < <int64_t> t.events:
            raise IndexError(row)
        if name == "action":
            return (<uint8_t*> t.action.data)[<uint64_t> row]
        if name == "address":
            return (<uint64_t*> t.address.data)[<uint64_t> row]
        if name == "size":
            return (<int64_t*> t.size.data)[<uint64_t> row]
        if name == "stack":
            return (<uint32_t*> t.stack.data)[<uint64_t> row]
        if name == "time":
            return <int64_t> _sparse.sparse_at(&t.time, row)
        if name == "stream":
            return _sparse.sparse_at(&t.stream, row)
        if name == "compile_context":
            return _sparse.sparse_at(&t.compile_context, row)
        if name == "user_metadata":
            return _sparse.sparse_at(&t.user_metadata, row)
        if name == "pool":
            return _sparse.sparse_at(&t.pool, row)
        raise KeyError(name)

    def rows(self, table: str, field: str) -> Column:
        """One field of the rows of "segment", "block", "annotation" or "frame" (see FIELDS)."""
        cdef _tables.Tables* t = &self.t
        if table == "segment":
            return field_column(self, &t.segments, t.segments.len, table, field)
        if table == "block":
            return field_column(self, &t.blocks, t.blocks.len, table, field)
        if table == "annotation":
            return field_column(self, &t.annotations, t.annotations.len, table, field)
        if table == "frame":
            return field_column(self, &t.frames.data, spans_len(&t.frames), table, field)
        raise KeyError(table)


cdef inline bint is_padding(uint8_t byte) noexcept:
    return byte == 0 or byte == 9 or byte == 10 or byte == 13 or byte == 32


cdef bint is_json(const Cursor* cur) noexcept:
    # A pickle begins with none of these bytes. White space may precede JSON.
    cdef const uint8_t* p = cur.p
    while p < cur.end and p[0] and is_padding(p[0]):
        p += 1
    return p < cur.end and (p[0] == 123 or p[0] == 91 or p[0] == 0xEF)


cdef int read_one(Tables out, Intake intake, Cursor* at, const Limits* limit) except -1:
    # The pickle at the cursor, which moves behind it.
    cdef _vm.VM vm
    cdef int code = _vm.vm_init(&vm, &out.t, limit, new_seed())
    cdef uint64_t begin = cursor_offset(at)
    cdef bint adopted = out.t.adopted
    vm.cur = at[0]
    try:
        if code == OK:
            code = intake.drive(&vm, _vm.vm_step_any, &vm.cur, &vm.need)
        if begin == 0 or out.t.adopted != adopted:
            out.protocol = vm.protocol
            out.fast_events = vm.fast_events
            out.stream_bytes = intake.consumed - begin
        at[0] = vm.cur
    finally:
        _vm.vm_free(&vm)
    return code


cdef bint another(Tables out, Intake intake, Cursor* at) except -1:
    # Whether another pickle may follow, after zeros or white space: PROTO, or what a dict, a list
    # or a tuple begins with in the protocols that have no PROTO. Of anything else a file has behind
    # its pickle nobody needs to know.
    while True:
        while at.p < at.end and is_padding(at.p[0]):
            at.p += 1
        if at.p < at.end:
            out.beside = True
            return (at.p[0] == PROTO or at.p[0] == EMPTY_DICT or at.p[0] == EMPTY_LIST
                    or at.p[0] == MARK)
        if at.eof:
            return False
        intake.refill(at, 1)


cdef bint is_other_data(int code, const Status* status) noexcept:
    # A whole pickle, and no snapshot.
    return code == ERR_SHAPE and strcmp(status.detail, b"top") == 0


cdef int read_pickle(Tables out, Intake intake, const Cursor* start, const Limits* limit) except -1:
    cdef Cursor at = start[0]
    cdef int code = read_one(out, intake, &at, limit)
    cdef Status status = out.t.status
    cdef int later
    cdef bint adopted
    if code != DONE and not is_other_data(code, &status):
        return code
    if code != DONE:
        at.p += 1    # it ends with its STOP
    while another(out, intake, &at):
        adopted = out.t.adopted
        out.t.status.code = OK
        later = read_one(out, intake, &at, limit)
        if later == ERR_MEMORY or out.t.adopted != adopted:
            code = later
            status = out.t.status
            if code != DONE:
                break
        elif is_other_data(later, &out.t.status):
            at.p += 1
        elif later != DONE:
            break    # what follows is no pickle, or no whole one: nobody needs it
    out.t.status = status
    return code


cdef int read_json(Tables out, Intake intake, const Cursor* start, const Limits* limit) except -1:
    cdef _json.JSONReader reader
    cdef int code = _json.json_init(&reader, &out.t, limit)
    reader.cur = start[0]
    try:
        if code == OK:
            code = intake.drive(&reader, _json.json_step_any, &reader.cur, &reader.need)
        out.protocol = -1
    finally:
        _json.json_free(&reader)
    return code


cdef Limits begin_reading(_tables.Tables* t, Intake intake, limits, Cursor* start) except *:
    # Tables to read into, within these limits (see read()), and the first window of the input.
    cdef Limits limit
    (limit.depth, limit.string_bytes, limit.values, limit.memo, limit.nodes, limit.rows,
     limit.devices) = limits
    _tables.tables_init(t, new_seed())
    t.max_rows = min(limit.rows, <uint64_t> _tables.MAX_ROWS)
    t.max_devices = min(limit.devices, <uint64_t> _tables.MAX_DEVICES)
    if t.status.code != OK:
        raise MemoryError
    memset(start, 0, sizeof(Cursor))
    intake.refill(start, 1)
    return limit


cdef int check_settings(Tables out) except -1:
    # Raises SnapshotError for settings that hold what can't be kept: blocks depend on them.
    for name in ("settings", "overflowed", "max_entries"):
        try:
            out.kept(name)
        except LimitError:
            pass    # whoever asks for them is told


def read(
    readinto, limits, progress=None, salvage=False, bounds=None, ahead=None, then=None, pick=0
) -> Tables:
    """Reads a whole snapshot: a pickle, or JSON of the same dict, by its first byte.

    It may stand in a dict, a list or a tuple, or in a pickle after another one.

    Parameters
    ----------
    readinto : callable
        Fills a writable buffer with bytes of the plain input and returns how many; 0 ends it.
    limits : tuple of int
        nesting depth, bytes of a string, values on the stack, memo entries, kept values, rows of a
        kind, devices.
    progress : callable, optional
        Called about once a MiB with the bytes (of the plain input) consumed so far.
    salvage : bool, optional
        Of an input that is cut off, give what is whole; `truncation` then holds the error.
    bounds : tuple of int, optional
        (start kind, start, stop kind, stop, device): events to keep. Kinds: 0 no bound, 1 event
        index, 2 microseconds after the first event, 3 microseconds since the epoch.
        ALL_DEVICES keeps all.
    ahead : callable, optional
        Takes over from `readinto` after the first window, as ReadAhead.next() does.
    then : callable, optional
        Called with the tables when the input has been read, to add rows of other sources to them
        (`_adding.Adding`) before they are closed. Returns the protocol and the bytes of the pickle
        that those rows were of.
    pick : int, optional
        Which snapshot of a file that holds several, from 1; 0 for the only one.

    Raises SnapshotError and its kin with the byte at fault; KeyboardInterrupt within one window.
    """
    cdef Tables out = Tables.__new__(Tables)
    cdef Intake intake = Intake(readinto, ahead, progress)
    cdef Cursor start
    cdef Limits limit = begin_reading(&out.t, intake, limits, &start)
    cdef int code
    out.t.pick = <uint64_t> pick
    if bounds is not None:
        (out.t.range.start_kind, out.t.range.start, out.t.range.stop_kind, out.t.range.stop,
         out.t.range.device) = bounds
        out.t.range.on = True
    if is_json(&start):
        code = read_json(out, intake, &start, &limit)
    else:
        code = read_pickle(out, intake, &start, &limit)
    if out.protocol < 0:
        out.stream_bytes = intake.consumed
    if intake.cut is not None:
        out.truncation = cut_stream(intake.cut, out.t.read_events, whole_segments(&out.t))
    elif code == ERR_TRUNCATED:
        out.truncation = read_error(&out.t)
    if out.truncation is not None and code in (DONE, ERR_TRUNCATED):
        if not salvage:
            raise out.truncation
        if code == ERR_TRUNCATED:
            _tables.tables_salvage(&out.t)
            code = DONE
    if code == DONE:
        if out.t.found > 1 and not pick:
            raise several(out.t.found, out.found_names())
        if pick > max(out.t.found, 1):
            raise no_such_snapshot(pick, max(out.t.found, 1))
        if then is not None:
            out.protocol, out.stream_bytes = then(out)
        if out.t.unkept.code != OK:
            check_settings(out)
        with nogil:
            code = _tables.tables_finish(&out.t)
        if code == OK:
            return out
        out.t.status.offset = out.stream_bytes
    raise read_error(&out.t)
