"""The façade over grouping: what Python may call of the groups that allocations are in.

No algorithm is in here. Event indices count from the first event that was read; -1 is the start.
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
    """Which group each allocation and carried block of a replay is in; groups have names."""

    def __init__(self, *args):
        raise TypeError("groups are made by stack_keys(), row_keys(), pair() and renamed()")

    def __dealloc__(self):
        _keying.keys_free(&self.k)

    def names(self) -> Column:
        """u64 a group that was met so far: what it stands for."""
        return column(self, self.k.names.data, self.k.names.len, b"Q")

    def meet(self) -> int:
        """Meets all groups that any stack, allocation or carried block is in; how many there are.

        Until then only those that were asked for are known.
        """
        cdef int code
        with nogil:
            code = _keying.keys_meet(&self.k)
        if code != OK:
            raise MemoryError
        return self.k.names.len

    def of_stacks(self) -> Column | None:
        """u32 a stack: the group of what has it, then one for carried blocks without one. None
        where allocations of one stack may be in several groups. All groups are met."""
        if self.k.by_row:
            return None
        self.meet()
        return column(self, self.k.of_stack.data, self.k.of_stack.len, b"I")

    def keep(self, Measure measure not None, groups) -> Measure:
        """The same measure of some groups alone: u8 a group, 0 or 1. Changes `measure`.

        All groups must have been met.
        """
        cdef const uint8_t[::1] wanted = groups
        check_replay(measure, self)
        if wanted.shape[0] != <Py_ssize_t> self.k.names.len:
            raise ValueError(f"{self.k.names.len} groups need a number each")
        if self.k.names.len and _keying.keys_keep(&self.k, &measure.l, &wanted[0]) != OK:
            raise MemoryError
        return measure

    def numbers(self, events, blocks) -> tuple[Column, Column]:
        """u32 the group of each of these allocations (i64 events), and of each of these carried
        blocks (i64). Raises IndexError."""
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
        """A measure's bytes in each of the `wanted` groups, which have been met, and in all others,
        after each sample: a Column each. They add up to the measure.

        Samples are events in their order, -1 the start.
        """
        cdef Layering y = Layering(measure.replay, wanted, samples)
        cdef int code
        check_replay(measure, self)
        with nogil:
            code = _layers.layers_of_keys(&y.y, &self.k, &measure.l, <uint32_t*> y.keys.buf.data)
        return y.rows(code)

    def bests(self, Measure measure not None, top: int) -> tuple:
        """([(name, group, bytes, event)], how many) of the groups that ever hold anything of a
        measure: the most that each holds, and the first event after which it does; the largest
        first, `top` of them (0: all).
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
        """The frame ids of a group by "modules", outermost first."""
        cdef size_t n = 0
        cdef const uint32_t* ids
        if self.k.kind != _keying.BY_MODULES or not 0 <= name < self.k.paths.offsets.len - 1:
            raise IndexError(name)
        ids = <const uint32_t*> span_at(&self.k.paths, <uint32_t> name, &n)
        return tuple([ids[i] for i in range(n // 4)])

    def sums(self, live: tuple, Measure measure not None, top: int) -> tuple:
        """([(name, group, bytes, count, a stack)], groups, bytes, count in all) of a live set, as
        `Measure.live` gives it; sorted by bytes, the largest first; `top` cuts the list (0: all).
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
        raise ValueError("the groups are of another replay")
    return 0


cdef Keys made(Replay replay, int kind):
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
    """Groups by what the stack is or is put down to: a kind of KINDS.

    Names are stack, frame or string ids, by "modules" those of `Keys.path`; NO_STACK and CARRIED
    where there is none. The ranks hold a byte a string: what a stack is put down to is its
    innermost frame of the lowest rank, which is that of its file, or where that is over 1 (0 is the
    user's code, 1 a library's) that of its function.

    `forwards` is u32 a frame, for "modules" and "shown" alone. By "modules": the frame that stands
    for it in a path of modules, NONE32 where it is not of a module's forward function. By "shown",
    which makes one group of the stacks that look alike to people and names it by the first of them
    that it met: the frame that stands for the operator that it is, or with NODE_BIT for the node of
    autograd; NONE32 where it is neither. Raises KeyError and ValueError.
    """
    cdef Keys keys = made(replay, KINDS[kind])
    cdef Owned modules
    cdef uint64_t n = replay.tables.n_strings
    if len(file_rank) != n or len(function_rank) != n:
        raise ValueError("ranks need one byte a string")
    keys.owners = (file_rank, function_rank)
    keys.k.file_rank = file_rank
    keys.k.function_rank = function_rank
    if keys.k.kind in (_keying.BY_MODULES, _keying.BY_SHOWN):
        modules = numbers(forwards, replay.tables.n_frames)
        keys.k.forwards = <const uint32_t*> modules.buf.data
        keys.owners = (file_rank, function_rank, modules)
    return keys


cdef Owned numbers(object given, uint64_t n):
    # One u32 a row: of a buffer of them, or one number for all.
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
            raise ValueError(f"need {n} numbers of 32 bits")
        if n:
            memcpy(out.buf.data, view.buf, n * 4)
    finally:
        PyBuffer_Release(&view)
    return out


def row_keys(Replay replay not None, of_event, of_carried) -> Keys:
    """Groups by numbers that are given: u32 an event and a carried block, or one for all.

    Names are these numbers.
    """
    cdef Keys keys = made(replay, _keying.BY_ROW)
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
    """Groups of events that follow each other: (first event, number) each, ascending; before the
    first of them, and in what was carried over, it is `of_carried`."""
    cdef Keys keys = made(replay, _keying.BY_ROW)
    cdef Owned blocks = numbers(of_carried, replay.r.carried.len)
    cdef uint32_t number = of_carried
    cdef uint64_t i = 0
    cdef uint64_t until
    cdef int code = _keying.keys_begin_rows(&keys.k)
    for first, following in [*runs, (replay.r.events, of_carried)]:
        until = min(max(first, 0), replay.r.events)
        while i < until and code == OK:
            code = _keying.keys_tell(&keys.k, i, number)
            i += 1
        number = following
    if code != OK or _keying.keys_rows(&keys.k, NULL, 0, <const uint32_t*> blocks.buf.data) != OK:
        raise MemoryError
    return keys


def size_keys(Measure measure not None) -> Keys:
    """Groups by size: the name is n for 2**n to 2**(n + 1) - 1 bytes; 64 for none."""
    cdef Replay replay = measure.replay
    cdef Keys keys = made(replay, _keying.BY_ROW)
    cdef Owned blocks = owned(4)
    cdef const int64_t* carried_bytes = <const int64_t*> measure.l.carried_bytes.data
    cdef int code = _keying.keys_begin_rows(&keys.k)
    cdef uint64_t i
    if code != OK or buf_reserve(&blocks.buf, replay.r.carried.len) < 0:
        raise MemoryError
    for i in range(replay.r.events):
        if _keying.keys_tell(&keys.k, i, _keying.size_class(bytes_of(&measure.l, i))) != OK:
            raise MemoryError
    for i in range(replay.r.carried.len):
        (<uint32_t*> blocks.buf.data)[i] = _keying.size_class(carried_bytes[i])
    if _keying.keys_rows(&keys.k, NULL, 0, <const uint32_t*> blocks.buf.data) != OK:
        raise MemoryError
    return keys


@cython.final
cdef class _Origins:
    """Origins, while they are found."""

    cdef _origins.Origins o

    def __dealloc__(self):
        _origins.origins_free(&self.o)


def origin_keys(
    Replay replay not None, bint before, bint only_python, bytes marks, Keys categories not None,
    bytes roles, of_carried=None,
) -> Keys:
    """Groups by where allocations come from; names are the numbers of `Origin` in origins.pxd.

    `before`: what was there before the first event is told. `only_python`: all stacks are Python's.
    `marks` are the bits of FrameMark, a byte a frame, `categories` groups by `first_rule` under the
    numbers of rules, `roles` a Role for each number from 0 to NO_RULE. `of_carried`, where given,
    are the origins of carried blocks, u32 each.
    """
    cdef _Origins found = _Origins.__new__(_Origins)
    cdef Keys keys
    cdef Owned blocks
    cdef int code = _origins.origins_init(&found.o, &replay.r, new_seed())
    if code != OK:
        raise MemoryError
    if <uint64_t> len(marks) != replay.tables.n_frames or len(roles) <= _keying.NO_RULE:
        raise ValueError("need a mark for each frame, and a role for each rule")
    if categories.k.kind != _keying.BY_FIRST or categories.k.renamed.len:
        raise ValueError("need groups by their first rule")
    if categories.replay is not replay:
        raise ValueError("the groups are of another replay")
    found.o.before = before
    found.o.only_python = only_python
    found.o.mark = marks
    found.o.role = roles
    found.o.category = &categories.k
    with nogil:
        code = _origins.origins_find(&found.o)
    if code != OK:
        raise MemoryError
    keys = made(replay, _keying.BY_ROW)
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
    """What goes in an optimizer's step, while it is found."""

    cdef _passing.Passing p

    def __dealloc__(self):
        _passing.passing_free(&self.p)


def passing_keys(Replay replay not None, bytes marks) -> Keys:
    """Groups by the numbers of `End` in passing.pxd; `marks` are the bits of FrameMark, a byte a
    frame."""
    cdef _Passing found = _Passing.__new__(_Passing)
    cdef Keys keys
    cdef int code
    if <uint64_t> len(marks) != replay.tables.n_frames:
        raise ValueError("need a mark for each frame")
    _passing.passing_init(&found.p, &replay.r)
    found.p.mark = marks
    found.p.frees_tell = _before.have_stacks_of_their_own(&replay.r)
    with nogil:
        code = _passing.passing_find(&found.p)
    if code != OK:
        raise MemoryError
    keys = made(replay, _keying.BY_ROW)
    if _keying.keys_rows(&keys.k, <const uint32_t*> found.p.of_event.data, 0,
                         <const uint32_t*> found.p.of_carried.data) != OK:
        raise MemoryError
    return keys


cdef Keys derived(Keys first, Keys second, int kind):
    cdef Keys keys = made(first.replay, kind)
    keys.of = (first,) if second is None else (first, second)
    keys.k.first = &first.k
    keys.k.by_row = first.k.by_row
    if second is not None:
        if first.replay is not second.replay:
            raise ValueError("the groups are of different replays")
        keys.k.second = &second.k
        keys.k.by_row |= second.k.by_row
    return keys


def pair(Keys first not None, Keys second not None) -> Keys:
    """Groups by both: the name is first << 32 | second, each the number of a group of its own."""
    return derived(first, second, _keying.BY_PAIR)


def rule_keys(
    Replay replay not None, any_frame, own_frame, uint64_t always, bytes file_rank,
    bytes function_rank, masks=None,
) -> Keys:
    """Groups by which rules, a bit each, the frames of a stack meet; the name is that set.

    u64 a frame: the rules that it meets anywhere in a stack, and those that it meets where the
    stack is put down to it. `always`: the rules that ask nothing of frames. `masks`, where given,
    are three u64: the rules that can hold for what has a stack, for what was recorded without one,
    and for what was there before and has none.
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
    """Groups by the rules that are in the names of both."""
    return derived(first, second, _keying.BY_BOTH)


def first_rule(Keys rules not None, names=None) -> Keys:
    """Groups by the first rule, the lowest bit, of a set; NO_RULE where it is empty.

    `names` are u64 a rule, where they are not to be called by their numbers.
    """
    cdef Keys out = derived(rules, None, _keying.BY_FIRST)
    if names is not None:
        # A set has no bits past these.
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
    # u64 each, of a buffer of them.
    cdef Owned out = owned(8)
    cdef Py_buffer view
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    out.buf.len = n
    PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)
    try:
        if view.len != <Py_ssize_t> (n * 8):
            raise ValueError(f"need {n} numbers of 64 bits")
        if n:
            memcpy(out.buf.data, view.buf, n * 8)
    finally:
        PyBuffer_Release(&view)
    return out


def renamed(Keys keys not None, names) -> Keys:
    """The groups of another under other names: u64 a group; those of one name become one.

    All groups of `keys` must have been met by then: see `Keys.meet`.
    """
    cdef Keys out = derived(keys, None, _keying.BY_RENAMED)
    rename(out, names, keys.k.names.len)
    return out


@cython.final
cdef class _Tree:
    """A call tree, while its lines are made."""

    cdef _calltree.CallTree t

    def __dealloc__(self):
        _calltree.calltree_free(&self.t)


def call_tree(
    Keys stacks not None, live: tuple, Measure measure not None, bint whole, uint64_t depth,
    int64_t least, bint inverted=False,
) -> list:
    """[(level, frames, bytes, count, own bytes, own count, calls below)] of a live set, as
    `Measure.live` gives it, depth first and the largest first.

    A line is a call, with those that it leads to as long as that is one alone: frame ids,
    outermost first, or CALL_NO_STACK or CALL_CARRIED. Own is what is allocated in the last of
    them itself. `inverted` stacks are gone through from the innermost frame outward: a call leads
    to its callers, and own is what has no caller beyond it. `stacks` are groups by "stack"; frames
    that their `file_rank` does not say are the user's are left out unless `whole`. Calls deeper
    than `depth` (0: no limit), and of less than `least` bytes, have no line.
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
        raise ValueError("a tree is of stacks")
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
