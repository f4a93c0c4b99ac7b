"""Python interface for grouping allocations.

Contains no algorithms. Event indices count from the first event read; -1 is the state before that
event.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from memreplay._core cimport new_seed
from memreplay.engine.query cimport before as _before
from memreplay.engine.query cimport calltree as _calltree
from memreplay.engine.query cimport keying as _keying
from memreplay.engine.query cimport layers as _layers
from memreplay.engine.query cimport origins as _origins
from memreplay.engine.query cimport passing as _passing
from memreplay.engine.query._layers cimport Layering
from memreplay.engine.read.column cimport Column, Owned, column, owned
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, span_at
from memreplay.engine.base.status cimport OK
from memreplay.engine.replay._timeline cimport Measure, Replay
from memreplay.engine.replay.lives cimport bytes_of

KINDS = {"stack": _keying.BY_STACK, "innermost": _keying.BY_INNERMOST, "line": _keying.BY_FRAME,
         "file": _keying.BY_FILE, "function": _keying.BY_FUNCTION, "modules": _keying.BY_MODULES,
         "shown": _keying.BY_SHOWN}
NO_STACK = _keying.NAME_NO_STACK
CARRIED = _keying.NAME_CARRIED
NO_RULE = _keying.NO_RULE
NODE_BIT = 0x80000000
CALL_NO_STACK = _calltree.CALL_NO_STACK
CALL_CARRIED = _calltree.CALL_CARRIED
OF_OPTIMIZER = _passing.OF_OPTIMIZER
OF_PROGRAM = _passing.OF_PROGRAM
CALLED_BACK = _passing.CALLED_BACK
IS_CAST = _origins.IS_CAST
IS_EXIT = _origins.IS_EXIT
IS_LOWER = _origins.IS_LOWER
NO_SOURCE = _origins.NO_SOURCE
A_WEIGHT = _origins.A_WEIGHT
AN_ACTIVATION = _origins.AN_ACTIVATION
UNSURE = _origins.UNSURE


@cython.final
cdef class Keys:
    """The groups of a replay's allocations and carried-over blocks.

    A group's name is a number.
    """

    def __init__(self, *args):
        raise TypeError("use stack_keys(), row_keys(), pair() or renamed() to create Keys")

    def __dealloc__(self):
        _keying.keys_free(&self.k)

    def names(self) -> Column:
        """Return the names of all groups known so far (u64)."""
        return column(self, self.k.names.data, self.k.names.len, b"Q")

    def find_all(self) -> int:
        """Find the groups of all stacks, allocations and carried-over blocks, and return the number
        of groups.

        Before this call, only the groups that were looked up are known.
        """
        cdef int code
        with nogil:
            code = _keying.keys_find_all(&self.k)
        if code != OK:
            raise MemoryError
        return self.k.names.len

    def of_stacks(self) -> Column | None:
        """Return the group of each stack (u32), then the group of carried-over blocks without a
        stack.

        None if allocations with the same stack may be in several groups. All groups are known
        afterwards.
        """
        if self.k.by_row:
            return None
        self.find_all()
        return column(self, self.k.of_stack.data, self.k.of_stack.len, b"I")

    def keep(self, Measure measure not None, groups) -> Measure:
        """Limit `measure` to some groups, and return it.

        `groups` has one u8 per group: 1 to include the group, else 0.

        All groups must be known.
        """
        cdef const uint8_t[::1] wanted = groups
        check_replay(measure, self)
        if wanted.shape[0] != <Py_ssize_t> self.k.names.len:
            raise ValueError(f"groups needs {self.k.names.len} numbers")
        if self.k.names.len and _keying.keys_keep(&self.k, &measure.l, &wanted[0]) != OK:
            raise MemoryError
        return measure

    def numbers(self, events, blocks) -> tuple[Column, Column]:
        """Return the groups (u32) of these allocations (i64 events) and carried-over blocks (i64).

        Raises IndexError.
        """
        return self._numbers(events, True), self._numbers(blocks, False)

    cdef Column _numbers(self, const int64_t[::1] rows, bint are_events):
        cdef uint64_t n = self.replay.r.events if are_events else self.replay.r.carried.len
        cdef Owned out = owned(4)
        cdef uint32_t* group
        cdef Py_ssize_t i
        if buf_reserve(&out.buf, rows.shape[0]) < 0:
            raise MemoryError
        group = <uint32_t*> out.buf.data
        for i in range(rows.shape[0]):
            if rows[i] < 0 or <uint64_t> rows[i] >= n:
                raise IndexError(rows[i])
            group[i] = (_keying.group_of_event(&self.k, rows[i]) if are_events
                        else _keying.group_of_carried(&self.k, rows[i]))
            if group[i] == NONE32:
                raise MemoryError
        return column(out, out.buf.data, rows.shape[0], b"I")

    def layers(self, Measure measure not None, wanted, samples) -> list:
        """Return a Column for each `wanted` group, plus one for all other groups, with the bytes
        held after each sampled event.

        The columns add up to the measure. Wanted groups must be known. `samples` are events in
        ascending order; -1 is the start.
        """
        cdef Layering y = Layering(measure.replay, wanted, samples)
        cdef int code
        check_replay(measure, self)
        with nogil:
            code = _layers.layers_of_keys(&y.y, &self.k, &measure.l, <uint32_t*> y.keys.buf.data)
        return y.rows(code)

    def bests(self, Measure measure not None, top: int) -> tuple:
        """Return ([(name, group, bytes, event)], number of groups) for the groups that ever hold
        memory: a group's highest byte count, and the first event after which it's reached.

        Largest first; `top` limits the list (0: all).
        """
        cdef Owned out = owned(sizeof(_layers.Best))
        cdef _layers.Best* best
        cdef size_t i, shown
        cdef int code
        check_replay(measure, self)
        with nogil:
            code = _layers.bests_of_keys(&self.k, &measure.l, &out.buf)
        if code != OK:
            raise MemoryError
        best = <_layers.Best*> out.buf.data
        shown = out.buf.len if top <= 0 else min(<size_t> top, out.buf.len)
        rows = [(best[i].name, best[i].group, best[i].bytes, best[i].at) for i in range(shown)]
        return rows, out.buf.len

    def path(self, name: int) -> tuple:
        """Return the frame ids of a "modules" group, outermost first."""
        cdef size_t n = 0
        cdef const uint32_t* ids
        if self.k.kind != _keying.BY_MODULES or not 0 <= name < self.k.paths.offsets.len - 1:
            raise IndexError(name)
        ids = <const uint32_t*> span_at(&self.k.paths, <uint32_t> name, &n)
        return tuple([ids[i] for i in range(n // 4)])

    def sums(self, live: tuple, Measure measure not None, top: int) -> tuple:
        """Sum up a live set from `Measure.live` by group.

        Returns ([(name, group, bytes, count, one stack)], groups, total bytes, total count),
        largest first; `top` limits the list (0: all).
        """
        cdef Owned out = owned(sizeof(_keying.Sum))
        cdef Column allocs = live[0]
        cdef Column carried = live[1]
        cdef _keying.Sum* s
        cdef uint64_t total = 0
        cdef uint64_t count = 0
        cdef size_t i, shown
        cdef int code
        check_replay(measure, self)
        with nogil:
            code = _keying.keys_sum(&self.k, &measure.l, &(<Owned> allocs.owner).buf,
                                    &(<Owned> carried.owner).buf, &out.buf)
        if code != OK:
            raise MemoryError
        s = <_keying.Sum*> out.buf.data
        for i in range(out.buf.len):
            total += <uint64_t> s[i].bytes
            count += s[i].count
        shown = out.buf.len if top <= 0 else min(<size_t> top, out.buf.len)
        rows = [(s[i].name, s[i].group, s[i].bytes, s[i].count, s[i].stack) for i in range(shown)]
        return rows, out.buf.len, <int64_t> total, count


cdef int check_replay(Measure measure, Keys keys) except -1:
    if measure.replay is not keys.replay:
        raise ValueError("the groups belong to another replay")
    return 0


cdef Keys new_keys(Replay replay, int kind):
    cdef Keys keys = Keys.__new__(Keys)
    keys.replay = replay
    keys.of = ()
    keys.owners = ()
    if _keying.keys_init(&keys.k, &replay.r, kind, new_seed()) != OK:
        raise MemoryError
    return keys


def stack_keys(
    Replay replay not None, kind: str, bytes file_rank, bytes function_rank, forwards=b""
) -> Keys:
    """Group by stack, or by the frame a stack is attributed to. `kind` is a key of KINDS.

    Names are stack, frame or string ids (for "modules", ids for `Keys.path`), or NO_STACK and
    CARRIED for allocations without a stack. Each rank argument has one byte per string. A stack is
    attributed to its innermost frame with the lowest rank. A frame has the rank of its file (0 for
    the user's code, 1 for a library), or that of its function if the file's rank exceeds 1.

    `forwards` is u32 per frame, only for "modules" and "shown". For "modules", it's the frame that
    represents this one in a module path, or NONE32 if this one isn't a module's forward function.
    "shown" groups stacks that look the same to users and names each group by its first stack.
    There, it's the frame that represents this one's operator, or with NODE_BIT its autograd node;
    NONE32 for other frames. Raises KeyError and ValueError.
    """
    cdef Keys keys = new_keys(replay, KINDS[kind])
    cdef Owned modules
    cdef uint64_t n = replay.tables.n_strings
    if len(file_rank) != n or len(function_rank) != n:
        raise ValueError("ranks must have one byte per string")
    keys.owners = (file_rank, function_rank)
    keys.k.file_rank = file_rank
    keys.k.function_rank = function_rank
    if keys.k.kind in (_keying.BY_MODULES, _keying.BY_SHOWN):
        modules = numbers(forwards, replay.tables.n_frames)
        keys.k.forwards = <const uint32_t*> modules.buf.data
        keys.owners = (file_rank, function_rank, modules)
    return keys


cdef Owned numbers(object given, uint64_t n):
    # Return one u32 per row. `given` is a buffer, or one number for all rows.
    cdef Owned out = owned(4)
    cdef Py_buffer view
    cdef uint64_t i
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    out.buf.len = n
    if isinstance(given, int):
        for i in range(n):
            (<uint32_t*> out.buf.data)[i] = given
        return out
    PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)
    try:
        if view.len != <Py_ssize_t> (n * 4):
            raise ValueError(f"expected {n} 32-bit numbers")
        if n:
            memcpy(out.buf.data, view.buf, n * 4)
    finally:
        PyBuffer_Release(&view)
    return out


def row_keys(Replay replay not None, of_event, of_carried) -> Keys:
    """Group by the given numbers: a u32 for each event and carried-over block, or one for all.

    The numbers are the groups' names.
    """
    cdef Keys keys = new_keys(replay, _keying.BY_ROW)
    cdef Owned events
    cdef Owned blocks = numbers(of_carried, replay.r.carried.len)
    cdef const uint32_t* each = NULL
    cdef uint32_t every = NONE32
    if isinstance(of_event, int):
        every = of_event
    else:
        events = numbers(of_event, replay.r.events)
        each = <const uint32_t*> events.buf.data
    if _keying.keys_rows(&keys.k, each, every, <const uint32_t*> blocks.buf.data) != OK:
        raise MemoryError
    return keys


def run_keys(Replay replay not None, runs: list, uint32_t of_carried) -> Keys:
    """Group by runs of consecutive events, given as (first event, group name) in ascending order.

    Carried-over blocks and events before the first run are in group `of_carried`.
    """
    cdef Keys keys = new_keys(replay, _keying.BY_ROW)
    cdef Owned blocks = numbers(of_carried, replay.r.carried.len)
    cdef uint32_t number = of_carried
    cdef uint64_t i = 0
    cdef uint64_t until
    cdef int code = _keying.keys_begin_rows(&keys.k)
    for first, following in [*runs, (replay.r.events, of_carried)]:
        until = min(max(first, 0), replay.r.events)
        while i < until and code == OK:
            code = _keying.keys_set(&keys.k, i, number)
            i += 1
        number = following
    if code != OK or _keying.keys_rows(&keys.k, NULL, 0, <const uint32_t*> blocks.buf.data) != OK:
        raise MemoryError
    return keys


def size_keys(Measure measure not None) -> Keys:
    """Group by size: group n is for 2**n to 2**(n + 1) - 1 bytes, and group 64 for 0 bytes."""
    cdef Replay replay = measure.replay
    cdef Keys keys = new_keys(replay, _keying.BY_ROW)
    cdef Owned blocks = owned(4)
    cdef const int64_t* carried_bytes = <const int64_t*> measure.l.carried_bytes.data
    cdef int code = _keying.keys_begin_rows(&keys.k)
    cdef uint64_t i
    if code != OK or buf_reserve(&blocks.buf, replay.r.carried.len) < 0:
        raise MemoryError
    for i in range(replay.r.events):
        if _keying.keys_set(&keys.k, i, _keying.size_class(bytes_of(&measure.l, i))) != OK:
            raise MemoryError
    for i in range(replay.r.carried.len):
        (<uint32_t*> blocks.buf.data)[i] = _keying.size_class(carried_bytes[i])
    if _keying.keys_rows(&keys.k, NULL, 0, <const uint32_t*> blocks.buf.data) != OK:
        raise MemoryError
    return keys


@cython.final
cdef class _Origins:
    """Owns the native state."""

    cdef _origins.Origins o

    def __dealloc__(self):
        _origins.origins_free(&self.o)


def origin_keys(
    Replay replay not None, bint before, bint only_python, bytes marks, Keys categories not None,
    bytes roles, of_carried=None,
) -> Keys:
    """Group by origin. Names are `Origin` values (see origins.pxd).

    `before`: guess what carried-over blocks contain. `only_python`: no stack has C++ frames.
    `marks` has one byte of FrameMark bits per frame. `categories` comes from `first_rule` and has
    rule numbers as names; `roles` has a Role for each number from 0 to NO_RULE. `of_carried` is
    optional: the origin (u32) of each carried-over block.
    """
    cdef _Origins found = _Origins.__new__(_Origins)
    cdef Keys keys
    cdef Owned blocks
    cdef int code = _origins.origins_init(&found.o, &replay.r, new_seed())
    if code != OK:
        raise MemoryError
    if <uint64_t> len(marks) != replay.tables.n_frames or len(roles) <= _keying.NO_RULE:
        raise ValueError("marks needs a byte per frame, and roles one per rule")
    if categories.k.kind != _keying.BY_FIRST or categories.k.renamed.len:
        raise ValueError("categories must come from first_rule()")
    if categories.replay is not replay:
        raise ValueError("the groups belong to another replay")
    found.o.before = before
    found.o.only_python = only_python
    found.o.mark = marks
    found.o.role = roles
    found.o.category = &categories.k
    with nogil:
        code = _origins.origins_find(&found.o)
    if code != OK:
        raise MemoryError
    keys = new_keys(replay, _keying.BY_ROW)
    if of_carried is None:
        code = _keying.keys_rows(&keys.k, <const uint32_t*> found.o.of_event.data, 0,
                                 <const uint32_t*> found.o.of_carried.data)
    else:
        blocks = numbers(of_carried, replay.r.carried.len)
        code = _keying.keys_rows(&keys.k, <const uint32_t*> found.o.of_event.data, 0,
                                 <const uint32_t*> blocks.buf.data)
    if code != OK:
        raise MemoryError
    return keys


@cython.final
cdef class _Passing:
    """Owns the native state."""

    cdef _passing.Passing p

    def __dealloc__(self):
        _passing.passing_free(&self.p)


def passing_keys(Replay replay not None, bytes marks) -> Keys:
    """Group by where an allocation is freed: an `End` value (see passing.pxd).

    `marks` has one byte of FrameMark bits per frame.
    """
    cdef _Passing found = _Passing.__new__(_Passing)
    cdef Keys keys
    cdef int code
    if <uint64_t> len(marks) != replay.tables.n_frames:
        raise ValueError("marks needs a byte per frame")
    _passing.passing_init(&found.p, &replay.r)
    found.p.mark = marks
    found.p.frees_have_stacks = _before.frees_have_own_stacks(&replay.r)
    with nogil:
        code = _passing.passing_find(&found.p)
    if code != OK:
        raise MemoryError
    keys = new_keys(replay, _keying.BY_ROW)
    if _keying.keys_rows(&keys.k, <const uint32_t*> found.p.of_event.data, 0,
                         <const uint32_t*> found.p.of_carried.data) != OK:
        raise MemoryError
    return keys


cdef Keys derived(Keys first, Keys second, int kind):
    cdef Keys keys = new_keys(first.replay, kind)
    keys.of = (first,) if second is None else (first, second)
    keys.k.first = &first.k
    keys.k.by_row = first.k.by_row
    if second is not None:
        if first.replay is not second.replay:
            raise ValueError("the groups belong to different replays")
        keys.k.second = &second.k
        keys.k.by_row |= second.k.by_row
    return keys


def pair(Keys first not None, Keys second not None) -> Keys:
    """Combine two groupings. A group's name is `first << 32 | second`, from the two group numbers.
    """
    return derived(first, second, _keying.BY_PAIR)


def rule_keys(
    Replay replay not None, any_frame, own_frame, uint64_t always, bytes file_rank,
    bytes function_rank, masks=None,
) -> Keys:
    """Group by the set of rules (one bit each) that a stack's frames match; the set is the group's
    name.

    Two arguments have a u64 per frame: `any_frame` has the rules that the frame matches anywhere in
    a stack, `own_frame` those that it matches if the stack is attributed to it. `always`: rules
    without conditions on frames. `masks`, if given, are three u64: the rules that can apply to
    allocations with a stack, to recorded allocations without a stack, and to carried-over blocks
    without a stack.
    """
    cdef Keys keys = stack_keys(replay, "stack", file_rank, function_rank)
    cdef Owned anywhere = words(any_frame, replay.tables.n_frames)
    cdef Owned own = words(own_frame, replay.tables.n_frames)
    keys.k.kind = _keying.BY_MASK
    keys.k.always = always
    keys.k.any_frame = <const uint64_t*> anywhere.buf.data
    keys.k.own_frame = <const uint64_t*> own.buf.data
    keys.owners = (*keys.owners, anywhere, own)
    if masks is not None:
        rename(keys, masks, 3)
    return keys


def rules_of_both(Keys first not None, Keys second not None) -> Keys:
    """Group by the intersection of two sets of rules."""
    return derived(first, second, _keying.BY_BOTH)


def first_rule(Keys rules not None, names=None) -> Keys:
    """Group by a set's first rule (its lowest bit), or NO_RULE if the set is empty.

    `names` has a u64 per rule that replaces the rule's number.
    """
    cdef Keys out = derived(rules, None, _keying.BY_FIRST)
    if names is not None:
        # A set has at most 64 bits.
        rename(out, names, 64 if len(names) > 64 else len(names))
    return out


cdef int rename(Keys out, names, uint64_t n) except -1:
    cdef Owned given = words(names, n)
    if buf_reserve(&out.k.renamed, n) < 0:
        raise MemoryError
    out.k.renamed.len = n
    if n:
        memcpy(out.k.renamed.data, given.buf.data, n * 8)
    return 0


cdef Owned words(object given, uint64_t n):
    # Return the u64 items of a buffer.
    cdef Owned out = owned(8)
    cdef Py_buffer view
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    out.buf.len = n
    PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)
    try:
        if view.len != <Py_ssize_t> (n * 8):
            raise ValueError(f"expected {n} 64-bit numbers")
        if n:
            memcpy(out.buf.data, view.buf, n * 8)
    finally:
        PyBuffer_Release(&view)
    return out


def renamed(Keys keys not None, names) -> Keys:
    """Rename groups, and merge groups with equal names. The new names are one u64 per group.

    All groups of `keys` must be known: see `Keys.find_all`.
    """
    cdef Keys out = derived(keys, None, _keying.BY_RENAMED)
    rename(out, names, keys.k.names.len)
    return out


@cython.final
cdef class _Tree:
    """Owns the native state."""

    cdef _calltree.CallTree t

    def __dealloc__(self):
        _calltree.calltree_free(&self.t)


def call_tree(
    Keys stacks not None, live: tuple, Measure measure not None, bint whole, uint64_t depth,
    int64_t least, bint inverted=False,
) -> list:
    """Fold a live set into a call tree, depth first, largest first.

    Returns [(level, frames, bytes, count, own bytes, own count, calls below)]. A line is a chain of
    calls, all but the last of which have a single callee. `frames` are frame ids, outermost first,
    or CALL_NO_STACK or CALL_CARRIED. "Own" means allocated directly in the last of these calls.
    With `inverted`, stacks are read from the innermost frame outward: a call leads to its callers,
    and "own" means that there is no further caller. `stacks` groups by "stack". Frames that aren't
    the user's according to `file_rank` are skipped unless `whole`. Calls deeper than `depth` (0: no
    limit) or with fewer than `least` bytes get no line.
    """
    cdef _Tree tree = _Tree.__new__(_Tree)
    cdef Owned sums = owned(sizeof(_keying.Sum))
    cdef Column allocs = live[0]
    cdef Column carried = live[1]
    cdef _calltree.Line* line
    cdef const uint32_t* frames
    cdef uint64_t i, at
    cdef int code
    check_replay(measure, stacks)
    if stacks.k.kind != _keying.BY_STACK:
        raise ValueError("a call tree needs groups by stack")
    tree.t.file_rank = stacks.k.file_rank
    tree.t.function_rank = stacks.k.function_rank
    code = _calltree.calltree_init(&tree.t, &stacks.replay.r, new_seed())
    with nogil:
        if code == OK:
            code = _keying.keys_sum(&stacks.k, &measure.l, &(<Owned> allocs.owner).buf,
                                    &(<Owned> carried.owner).buf, &sums.buf)
        if code == OK:
            code = _calltree.calltree_fold(&tree.t, &sums.buf, whole, inverted)
        if code == OK:
            code = _calltree.calltree_lines(&tree.t, depth, least)
    if code != OK:
        raise MemoryError
    found = []
    frames = <const uint32_t*> tree.t.frames.data
    line = <_calltree.Line*> tree.t.lines.data
    for i in range(tree.t.lines.len):
        ids = tuple([frames[at] for at in range(line[i].frames, line[i].frames + line[i].n_frames)])
        found.append((line[i].level, ids, line[i].bytes, line[i].count, line[i].own_bytes,
                      line[i].own_count, line[i].n_children))
    return found
