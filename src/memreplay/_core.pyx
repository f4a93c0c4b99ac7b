"""Python interface to the reader:

`read()` runs its loop and returns `Tables`.

Contains no algorithms. Columns are objects with the buffer protocol: read-only, one-dimensional,
not copied, alive as long as they are referenced. NumPy isn't needed.
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

from memreplay.engine.base.diagnosis import (
    cut_stream, diagnose, no_such_snapshot, several_snapshots
)
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
    # Whether a block has a `history` (PyTorch 2.0 files).
    cdef size_t i
    for i in range(t.blocks.len):
        if (<const _tables.Block*> t.blocks.data)[i].flags & _tables.HAS_HISTORY:
            return True
    return False


cdef uint64_t whole_segments(const _tables.Tables* t) noexcept:
    # Count the complete segments of a truncated PyTorch 2.0 file, which has no trace. Return 0 for
    # other files, because their truncation cut off the trace. As in tables_salvage(), the last
    # segment may be incomplete.
    if not t.bare_list and not has_history(t):
        return 0
    return t.segments.len - (t.segments.len > t.attached_segments)


cdef object read_error(const _tables.Tables* t):
    return error_of(&t.status, t.read_events, whole_segments(t))


@cython.final
cdef class Tables:
    """A snapshot's content as columns, which `read()` returns. Never changes afterwards."""

    def __cinit__(self):
        self.decoded = {}
        self._spelled = {}

    def __init__(self):
        raise TypeError("use read() to create Tables")

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
        """Whether a time range was requested and an event without a time occurred."""
        cdef _tables.Trace* traces = <_tables.Trace*> self.t.traces.data
        return any([traces[i].window != NULL and traces[i].window.timeless
                    for i in range(self.t.traces.len)])

    @property
    def any_history(self) -> bool:
        """Whether a block has a `history` (PyTorch 2.0 files)."""
        return has_history(&self.t)

    @property
    def events_with_stack(self) -> int:
        return self.t.with_stack

    @property
    def found_snapshots(self) -> int:
        """Number of snapshots in the file; 0 for a bare list of segments."""
        return self.t.found

    @property
    def unknown_keys(self) -> bool:
        """Whether the snapshot's dict may have unknown items, which aren't in any table."""
        return self.t.unknown_keys

    @property
    def has_notes(self) -> bool:
        """Whether the file has memreplay's own key, with any value."""
        return self.t.own != 0

    @property
    def wrapped(self) -> bool:
        """Whether the snapshot is inside another dict, a list or a tuple."""
        return self.t.unwrapped

    @property
    def adopted_at(self) -> int:
        """Offset of the snapshot's first list in the pickle stream."""
        return self.t.adopted_at

    def found_names(self) -> list:
        """Return the keys under which the first few snapshots are stored; None for a snapshot
        without a key.
        """
        cdef const uint32_t* ids = <const uint32_t*> self.t.found_names.data
        return [None if ids[i] == NONE32 else self.string(ids[i])
                for i in range(self.t.found_names.len)]

    def traces(self) -> list:
        """Return (device, first row, rows, events) for each entry of device_traces, including empty
        ones.

        If only a range was read, there are fewer rows than events.
        """
        cdef _tables.Trace* traces = <_tables.Trace*> self.t.traces.data
        return [
            (traces[i].device, traces[i].first, traces[i].rows, traces[i].count)
            for i in range(self.t.traces.len) if traces[i].device >= 0
        ]

    def segment_devices(self) -> list:
        """Return the devices that have segments, in ascending order."""
        cdef _tables.Segment* segments = <_tables.Segment*> self.t.segments.data
        return sorted({segments[i].device for i in range(self.t.segments.len)})

    def idle_devices(self) -> list:
        """Return the devices whose only events are empty `snapshot` events, inside and outside the
        range.

        PyTorch writes such events for every device of the machine, used or not.
        """
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
        """Count a device's active blocks whose requested and real sizes are both missing from the
        file.
        """
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
        """Return the name of an action code; None if the event has no action."""
        if not 0 <= code < 256:
            raise IndexError(code)
        if code < len(ACTIONS):
            return ACTIONS[code]
        if code == _tables.A_NONE:
            return None
        if not 0 <= code - _tables.A_OTHER < <int> self.t.other_actions.len:
            return "other"
        return self.string((<uint32_t*> self.t.other_actions.data)[code - _tables.A_OTHER])

    # ---- interned values, by id

    def string(self, i: int) -> str:
        """Return string i; invalid UTF-8 becomes U+FFFD. Raises IndexError."""
        text = self.decoded.get(i)
        if text is None:
            raw = self._bytes(&self.t.strings, i)
            try:
                text = raw.decode("utf-8", "surrogatepass")   # as in pickle
            except UnicodeDecodeError:
                text = raw.decode("utf-8", "replace")
            # If several threads decode the same string, keep the first result, because `get`
            # returns borrowed references.
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
        """Return the frame ids of stack i, innermost first."""
        return tuple(memoryview(self._bytes(&self.t.stacks, i)).cast("I"))

    def frame(self, i: int) -> tuple:
        """Return (function string id, file string id, line) of frame i."""
        cdef int64_t at = -1
        cdef const _tables.FrameKey* f
        try:
            at = i
        except OverflowError:
            pass
        if not 0 <= at < spans_len(&self.t.frames):
            raise IndexError(i)
        f = <const _tables.FrameKey*> self.t.frames.data.data + at
        return f.name, f.file, f.line

    def pool(self, i: int) -> tuple:
        """Return pool id i as its two numbers."""
        return tuple(memoryview(self._bytes(&self.t.pairs, i)).cast("q"))

    def frame_strings(self) -> tuple:
        """Return two sets of string ids: the files and the functions that frames refer to."""
        cdef _tables.FrameKey* f = <_tables.FrameKey*> self.t.frames.data.data
        cdef size_t i
        files = set()
        functions = set()
        for i in range(spans_len(&self.t.frames)):
            files.add(f[i].file)
            functions.add(f[i].name)
        return files, functions

    def kept(self, name: str, max_items: int = 100_000):
        """Return a kept top-level value as Python data, or None.

        "settings", "overflowed", "max_entries", or "memreplay" (added by memreplay's recorders).
        Raises LimitError if the value is nested deeper than 32 or has more than `max_items` items
        (a shared item counts each time); SnapshotError if it contains something that can't be kept.
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
            raise LimitError("the allocator settings, or memreplay's notes, have too many items,"
                             " or are nested too deep", hint="PyTorch doesn't write such settings")
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
        """Return a column of events or interned stacks, or a plain number if the column is
        constant.

        Events: action (u8), address (u64), size (i64, requested bytes), stack (u32), time (i64,
        ABSENT_TIME if unknown), stream (u64), compile_context, user_metadata, pool (u32, ABSENT_ID
        if none). Events with `device_free`: oom_event (u32, row), oom_free (i64, bytes). Stacks:
        stack_offsets (u64, bytes into stack_frames), stack_frames (u32 frame ids). Raises KeyError
        for other names.
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
        if s.kept == _sparse.CONSTANT:
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
        """Return one row of an event column.

        Raises IndexError, and KeyError for an unknown name.
        """
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
        """Return one field of the rows of "segment", "block", "annotation" or "frame" (see FIELDS).
        """
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
    # A pickle doesn't begin with any of these bytes. JSON may begin with white space.
    cdef const uint8_t* p = cur.p
    while p < cur.end and p[0] and is_padding(p[0]):
        p += 1
    return p < cur.end and (p[0] == 123 or p[0] == 91 or p[0] == 0xEF)


cdef int read_one(Tables out, Intake intake, Cursor* at, const Limits* limit) except -1:
    # Read the pickle at the cursor, and move the cursor past it.
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
            out.alike_events = vm.alike_events
            out.stream_bytes = intake.consumed - begin
        at[0] = vm.cur
    finally:
        _vm.vm_free(&vm)
    return code


cdef bint another(Tables out, Intake intake, Cursor* at) except -1:
    # Whether another pickle may follow, after zeros or white space: PROTO, or the first byte of a
    # dict, list or tuple in protocols without PROTO. Anything else after a pickle is ignored.
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
    # The pickle is complete but isn't a snapshot.
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
        at.p += 1    # behind its STOP
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
            break    # not a (complete) pickle: ignored
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
    # Initialize tables for reading within these limits (see read()), and read the first window.
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
    # Raise SnapshotError if the settings can't be kept, because block sizes depend on them.
    for name in ("settings", "overflowed", "max_entries"):
        try:
            out.kept(name)
        except LimitError:
            pass    # raised again on access


def read(
    readinto, limits, progress=None, salvage=False, bounds=None, ahead=None, then=None, pick=0
) -> Tables:
    """Read a snapshot from a pickle or JSON, recognized by the first byte.

    The snapshot may be inside a dict, list or tuple, or in a pickle that follows another.

    Parameters
    ----------
    readinto : callable
        Fills a writable buffer with uncompressed input and returns the number of bytes; 0 at the
        end.
    limits : tuple of int
        `Limits.numbers()`: nesting depth, string bytes, stack values, memo entries, kept values,
        rows per kind, devices.
    progress : callable, optional
        Called about once per MiB with the number of uncompressed bytes consumed.
    salvage : bool, optional
        Return the intact part of a truncated input and store the error in `truncation`.
    bounds : tuple of int, optional
        The events to keep: (start kind, start, stop kind, stop, device). Kinds: 0 unbounded, 1
        event index, 2 µs after the first event, 3 µs since the epoch. The device may be
        ALL_DEVICES.
    ahead : callable, optional
        Replaces `readinto` after the first window; see ReadAhead.next().
    then : callable, optional
        Called with the tables before they are closed, to add rows from another source
        (`_adding.Adding`). Returns the pickle protocol and the number of bytes of that source.
    pick : int, optional
        Which of the file's snapshots to read, counting from 1; 0 if the file must have only one.

    Raises
    ------
    SnapshotError
        Has the byte offset of the error; truncated input and limits have their own subclasses.
    KeyboardInterrupt
        Raised at most one window after the signal.
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
            raise several_snapshots(out.t.found, out.found_names())
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
