"""Python interface for tracking a running program's allocations.

Contains only one algorithm, which finds the tracked allocations in PyTorch's traces.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GetItem, PyList_Size
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from memreplay._core cimport new_seed
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve, push_u32, push_u64
from memreplay.engine.base.hashmap cimport (
    Map64, Slot64, map64_at, map64_free, map64_get, map64_init,
)
from memreplay.engine.record cimport tracker as _tracker
from memreplay.engine.record.tracker cimport Entry, Origin, Torch, Tracker

import os

PHASES = (
    "start",
    "data",
    "forward",
    "backward",
    "recomputation",
    "optimizer",
    "other",
    "before the recording",
)
CATEGORIES = (
    "",
    "unsharded parameters",
    "parameters",
    "buffers",
    "unsharded gradients",
    "gradients",
    "optimizer state",
    "inputs",
    "communication",
    "activations",
    "temporary",
    "autograd detail",
    "other",
)
PARAMETER = _tracker.CATEGORY_PARAMETER
BUFFER = _tracker.CATEGORY_BUFFER
UNSHARDED = _tracker.CATEGORY_UNSHARDED
UNSHARDED_GRADIENT = _tracker.CATEGORY_UNSHARDED_GRADIENT
GRADIENT = _tracker.CATEGORY_GRADIENT
STATE = _tracker.CATEGORY_STATE
INPUT = _tracker.CATEGORY_INPUT
COMMUNICATION = _tracker.CATEGORY_COMMUNICATION
OTHER = _tracker.CATEGORY_OTHER

cdef extern from *:
    """
    /* PyTorch reports blocks through a virtual table, PyInterpreterVTable. Python's own
     * table, behind torch.cuda._gpu_trace, loses an exception that is propagating while a block is
     * freed. */
    enum { MEMREPLAY_SLOTS = 256 };
    static void (*memreplay_table[MEMREPLAY_SLOTS])(void);
    static const void *memreplay_object = memreplay_table;
    static const void *memreplay_interpreter = &memreplay_object;
    static void (*memreplay_on_alloc)(uint64_t), (*memreplay_on_free)(uint64_t);
    static void memreplay_nothing(void) {}
    static void memreplay_take(void *self, int kind, uint64_t at) { memreplay_on_alloc(at); }
    static void memreplay_let(void *self, int kind, uint64_t at) { memreplay_on_free(at); }
    /* PyTorch before 2.2 doesn't pass the kind of device. */
    static void memreplay_take_old(void *self, uint64_t at) { memreplay_on_alloc(at); }
    static void memreplay_let_old(void *self, uint64_t at) { memreplay_on_free(at); }
    static const void *memreplay_listen(int alloc_slot, int free_slot, int kind,
                                        void (*take)(uint64_t), void (*let)(uint64_t)) {
        int i;
        memreplay_on_alloc = take;
        memreplay_on_free = let;
        for (i = 0; i < MEMREPLAY_SLOTS; i++)
            memreplay_table[i] = memreplay_nothing;
        memreplay_table[alloc_slot] = kind ? (void (*)(void)) memreplay_take
                                      : (void (*)(void)) memreplay_take_old;
        memreplay_table[free_slot] = kind ? (void (*)(void)) memreplay_let
                                       : (void (*)(void)) memreplay_let_old;
        return &memreplay_interpreter;
    }
    """
    const void* listen "memreplay_listen" (
        int alloc_slot, int free_slot, int kind, void (*take)(uint64_t) noexcept nogil,
        void (*let)(uint64_t) noexcept nogil
    ) noexcept nogil
    enum: SLOTS "MEMREPLAY_SLOTS"


# --- listening ------------------------------------------------------------------------------------

def interpreter(int alloc_slot, int free_slot, bint kind) -> int:
    """Return the address of an object for c10::impl::GPUTrace::set_trace.

    Its virtual table has the tracking functions in these slots. The object is never freed.
    """
    if not (0 <= alloc_slot < SLOTS and 0 <= free_slot < SLOTS):
        raise ValueError("no such slot in the virtual table")
    return <size_t> listen(
        alloc_slot, free_slot, kind, _tracker.tracker_alloc, _tracker.tracker_free
    )


def functions() -> tuple[int, int]:
    """Return the addresses of two functions of type `void (uint64_t address)`: the first is to be
    called for an alloc, the second for a free.
    """
    return (<size_t> <void*> _tracker.tracker_alloc, <size_t> <void*> _tracker.tracker_free)


def use_torch(size_t task, size_t sequence, size_t node, bint shared, size_t sequence_at) -> None:
    """Set the addresses of functions in the loaded PyTorch; 0 for missing functions."""
    cdef Torch torch
    torch.task = <int (*)() noexcept nogil> <void*> task
    torch.sequence = <uint64_t (*)() noexcept nogil> <void*> sequence
    torch.node = <void*> node
    torch.shared = shared
    torch.sequence_at = sequence_at
    _tracker.tracker_torch(&torch)


def _forked() -> None:
    _tracker.tracker_forked()


cdef bint fork_hook_set = False


def begin(keep: int) -> None:
    """Start tracking, and forget earlier data.

    An allocation is dropped `keep` allocations and frees after its own free.
    """
    global fork_hook_set
    _tracker.tracker_begin(new_seed(), min(keep, 1 << 62))
    if not fork_hook_set and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
        fork_hook_set = True


def end() -> None:
    """Stop tracking, and forget everything."""
    _tracker.tracker_end()


def track_alloc(uint64_t address) -> None:
    """Track an allocated block."""
    _tracker.tracker_alloc(address)


def track_free(uint64_t address) -> None:
    """Track a freed block."""
    _tracker.tracker_free(address)


# --- the program's current context ----------------------------------------------------------------

def enter(uint32_t module) -> None:
    """Mark that this thread runs a module."""
    _tracker.tracker_enter(module)


def leave(uint32_t module) -> None:
    """Mark that this thread has left a module."""
    _tracker.tracker_leave(module)


def recompute(bint begins) -> None:
    """Mark the beginning or end of a checkpoint's recomputation in this thread."""
    _tracker.tracker_recompute(begins)


def optimize(bint begins) -> None:
    """Mark the beginning or end of an optimizer's step in this thread."""
    _tracker.tracker_optimize(begins)


def give(uint32_t category) -> int:
    """Set the category for all later allocations by this thread (0: detect it).

    Returns the previous category.
    """
    return _tracker.tracker_give(category if category < _tracker.CATEGORIES else 0)


def optimizing() -> int:
    """Return the number of nested optimizer steps that are running in this thread."""
    return _tracker.tracker_optimizing()


def evaluate(int steps) -> int:
    """Set the number of nested optimizer steps that are running in this thread (0 while a step
    evaluates the model).

    Returns the previous number.
    """
    return _tracker.tracker_evaluate(steps)


def in_backward() -> bool:
    """Return whether this thread is in a backward pass."""
    return _tracker.tracker_in_backward()


def depth() -> int:
    """Return the number of nested modules that are running in this thread."""
    return _tracker.tracker_depth()


def module() -> int:
    """Return the number of the innermost running module; 0 if none."""
    return _tracker.tracker_module()


def step() -> None:
    """Mark the end of a step."""
    _tracker.tracker_step()


def mark(uint64_t address, uint32_t category, uint32_t module) -> None:
    """Mark the live block at this address with a category and module."""
    if 0 < category < _tracker.CATEGORIES:
        _tracker.tracker_mark(address, category, module)


def resume() -> None:
    """Mark the end of startup. Later allocations belong to a step's data."""
    _tracker.tracker_resume()


def now_us() -> int:
    """Return the current time of the clock that times allocations."""
    return _tracker.tracker_now_us()


def count() -> int:
    """Return the number of allocations and frees so far."""
    return _tracker.tracker_sums().count


def dropped() -> int:
    """Return the number of allocations that weren't tracked because memory ran out."""
    return _tracker.tracker_sums().dropped


def noted() -> int:
    """Return the number of tracked allocations."""
    return _tracker.tracker_sums().noted


# --- find tracked allocations in the traces -------------------------------------------------------

cdef struct Joined:
    Map64 of            # number that combines category, phase and module -> kind + 1
    Buf kinds           # u32, three each
    Map64 last          # address -> 1 + the newest entry that isn't matched yet
    # address -> its first event in the traces: 1 for an allocation, 2 for a free
    Map64 first
    Buf previous        # u32 per entry: 1 + the previous entry for the same address
    # Copies, because running threads may move the originals.
    Buf entries
    Buf origins


cdef uint32_t kind_of(Joined* j, const Entry* e) except 0:
    # Return 1 + the index of the entry's kind.
    cdef const Origin* o
    cdef uint32_t what = e.what
    cdef uint32_t module = e.module
    if not e.died_at:
        o = &(<const Origin*> j.origins.data)[e.what - 1]
        what = _tracker.tracker_what(o, False)
        module = o.owner if o.owner else module
    cdef uint64_t key = (<uint64_t> module << 8) | what
    cdef Slot64* slot = map64_at(&j.of, key, 0)
    if slot == NULL:
        raise MemoryError
    if slot.value == 0:
        if (push_u32(&j.kinds, what & 15) < 0 or push_u32(&j.kinds, what >> 4) < 0
                or push_u32(&j.kinds, module) < 0):
            raise MemoryError
        slot.value = <uint32_t> (j.kinds.len / 3)
    return slot.value


cdef object column_of(Joined* j, list trace, const Entry* e, uint64_t sure):
    # Return the kind for each event in a trace. Starts at the end, because old events may be
    # missing.
    cdef Py_ssize_t i, n = PyList_Size(trace)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, n * 4)
    cdef uint32_t* out = <uint32_t*> <char*> made
    cdef PyObject* found
    cdef object event, action
    cdef uint64_t address
    cdef int64_t time
    cdef uint32_t at
    cdef Slot64* slot
    cdef Slot64* first
    memset(out, 0, n * 4)
    for i in range(n - 1, -1, -1):
        event = <object> PyList_GetItem(trace, i)
        action = event["action"]
        if (action == "alloc" or action == "free_requested" or action == "free_completed"
                or action == "free"):
            address = event["addr"]
            first = map64_at(&j.first, address, 0)
            if first == NULL:
                raise MemoryError
            first.value = 1 if action == "alloc" else 2
            if action != "alloc" or not map64_get(&j.last, address, 0):
                continue
            found = PyDict_GetItem(event, "time_us")
            time = <object> found if found != NULL else 0
            slot = map64_at(&j.last, address, 0)
            at = slot.value
            # Skip allocations that other threads made after the traces were taken.
            while at and at > sure and (not time or e[at - 1].born_us > time + 1000):
                at = (<uint32_t*> j.previous.data)[at - 1]
            slot.value = at
            # Restoring a pool's checkpoint allocates blocks without reporting them, so check the
            # time.
            if at and not (time and e[at - 1].born_us and e[at - 1].born_us < time - 100_000):
                out[i] = kind_of(j, &e[at - 1])
                slot.value = (<uint32_t*> j.previous.data)[at - 1]
    return made


def joined(traces: list, uint64_t sure) -> tuple[bytes, list[bytes], bytes, bytes]:
    """Match tracked allocations with these traces (lists of dicts from PyTorch's _snapshot()).

    The first `sure` tracked allocations are either in the traces or predate the traces. Returns
    (kinds, columns, addresses, kinds of the addresses). kinds: three u32 each (category, phase,
    module). columns: one per trace, with a u32 per event: 1 + the allocation's kind, or 0 if the
    event isn't an allocation or its kind is unknown. addresses (u64): blocks allocated before the
    traces, with 1 + their kinds (u32). Raises MemoryError; KeyError or TypeError for events that
    aren't PyTorch's.
    """
    cdef Tracker* t = _tracker.tracker()
    cdef Joined j
    cdef Buf addresses, kinds
    cdef const Entry* e
    cdef Slot64* slot
    cdef size_t i
    cdef uint32_t at, first
    cdef int code
    memset(&j, 0, sizeof(j))
    buf_init(&j.entries, sizeof(Entry))
    buf_init(&j.origins, sizeof(Origin))
    buf_init(&j.kinds, 4)
    buf_init(&j.previous, 4)
    buf_init(&addresses, 8)
    buf_init(&kinds, 4)
    try:
        if (map64_init(&j.of, new_seed()) < 0 or map64_init(&j.last, new_seed()) < 0
                or map64_init(&j.first, new_seed()) < 0):
            raise MemoryError
        # Other threads wait for the lock while holding the GIL, so release the GIL.
        with nogil:
            _tracker.tracker_lock()
            code = copied(&j.entries, &t.entries) + copied(&j.origins, &t.origins)
            _tracker.tracker_unlock()
        if code < 0:
            raise MemoryError
        e = <const Entry*> j.entries.data
        if buf_reserve(&j.previous, j.entries.len) < 0:
            raise MemoryError
        for i in range(j.entries.len):
            slot = map64_at(&j.last, e[i].address, 0)
            if slot == NULL:
                raise MemoryError
            (<uint32_t*> j.previous.data)[i] = slot.value
            slot.value = <uint32_t> (i + 1)
        columns = [column_of(&j, trace, e, sure) for trace in traces]
        for i in range(j.entries.len):
            # An unmatched allocation was made before the traces if the address's first event is a
            # free, or if the address has no event and is still allocated.
            at = map64_get(&j.last, e[i].address, 0)
            if at != i + 1 or at > sure:
                continue
            first = map64_get(&j.first, e[i].address, 0)
            if first == 2 or (first == 0 and not e[i].died_at):
                if (push_u64(&addresses, e[i].address) < 0
                        or push_u32(&kinds, kind_of(&j, &e[i])) < 0):
                    raise MemoryError
        return (
            _bytes(&j.kinds), columns, _bytes(&addresses), _bytes(&kinds),
        )
    finally:
        map64_free(&j.of)
        map64_free(&j.last)
        map64_free(&j.first)
        buf_free(&j.kinds)
        buf_free(&j.previous)
        buf_free(&addresses)
        buf_free(&kinds)
        buf_free(&j.entries)
        buf_free(&j.origins)


cdef int copied(Buf* to, const Buf* of) noexcept nogil:
    if buf_reserve(to, of.len) < 0:
        return -1
    if of.len:
        memcpy(to.data, of.data, of.len * of.itemsize)
    to.len = of.len
    return 0


cdef bytes _bytes(const Buf* b):
    return PyBytes_FromStringAndSize(b.data, b.len * b.itemsize)
