"""The façade over what a running program allocates: what Python may call of it.

No algorithm is in here but the last: what was noted is found again in PyTorch's traces.
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
    /* PyTorch tells of blocks by a table of virtual functions, PyInterpreterVTable. Python's,
     * behind torch.cuda._gpu_trace, loses an exception that is on its way while a block is
     * freed. */
    enum { MEMREPLAY_SLOTS = 256 };
    static void (*memreplay_table[MEMREPLAY_SLOTS])(void);
    static const void *memreplay_object = memreplay_table;
    static const void *memreplay_interpreter = &memreplay_object;
    static void (*memreplay_taken)(uint64_t), (*memreplay_let_go)(uint64_t);
    static void memreplay_nothing(void) {}
    static void memreplay_take(void *self, int kind, uint64_t at) { memreplay_taken(at); }
    static void memreplay_let(void *self, int kind, uint64_t at) { memreplay_let_go(at); }
    /* Before PyTorch 2.2 the kind of device is not told. */
    static void memreplay_take_old(void *self, uint64_t at) { memreplay_taken(at); }
    static void memreplay_let_old(void *self, uint64_t at) { memreplay_let_go(at); }
    static const void *memreplay_listen(int taken, int let_go, int kind,
                                        void (*take)(uint64_t), void (*let)(uint64_t)) {
        int i;
        memreplay_taken = take;
        memreplay_let_go = let;
        for (i = 0; i < MEMREPLAY_SLOTS; i++)
            memreplay_table[i] = memreplay_nothing;
        memreplay_table[taken] = kind ? (void (*)(void)) memreplay_take
                                      : (void (*)(void)) memreplay_take_old;
        memreplay_table[let_go] = kind ? (void (*)(void)) memreplay_let
                                       : (void (*)(void)) memreplay_let_old;
        return &memreplay_interpreter;
    }
    """
    const void* listen "memreplay_listen" (
        int taken, int let_go, int kind, void (*take)(uint64_t) noexcept nogil,
        void (*let)(uint64_t) noexcept nogil
    ) noexcept nogil
    enum: SLOTS "MEMREPLAY_SLOTS"


# --- listening ------------------------------------------------------------------------------------

def interpreter(int taken, int let_go, bint kind) -> int:
    """Where an object is of which the table of virtual functions has, at these places, those that
    note blocks; for c10::impl::GPUTrace::set_trace. It lives as long as the process."""
    if not (0 <= taken < SLOTS and 0 <= let_go < SLOTS):
        raise ValueError("no such place in the table")
    return <size_t> listen(taken, let_go, kind, _tracker.tracker_alloc, _tracker.tracker_free)


def functions() -> tuple[int, int]:
    """Where the functions are that note a block taken, and one let go: void (uint64_t address)."""
    return (<size_t> <void*> _tracker.tracker_alloc, <size_t> <void*> _tracker.tracker_free)


def use_torch(size_t task, size_t sequence, size_t node, bint shared, size_t sequence_at) -> None:
    """Where functions of the PyTorch that is loaded are; 0 for those that it has not."""
    cdef Torch torch
    torch.task = <int (*)() noexcept nogil> <void*> task
    torch.sequence = <uint64_t (*)() noexcept nogil> <void*> sequence
    torch.node = <void*> node
    torch.shared = shared
    torch.sequence_at = sequence_at
    _tracker.tracker_torch(&torch)


def _forked() -> None:
    _tracker.tracker_forked()


cdef bint told_of_forks = False


def begin(keep: int) -> None:
    """Begins to note; what was noted before is forgotten. What ended more than `keep` allocations
    and frees ago is."""
    global told_of_forks
    _tracker.tracker_begin(new_seed(), min(keep, 1 << 62))
    if not told_of_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
        told_of_forks = True


def end() -> None:
    """Notes no more, and forgets all."""
    _tracker.tracker_end()


def taken(uint64_t address) -> None:
    """A block was taken."""
    _tracker.tracker_alloc(address)


def let_go(uint64_t address) -> None:
    """A block was let go."""
    _tracker.tracker_free(address)


# --- where the program is -------------------------------------------------------------------------

def enter(uint32_t module) -> None:
    """This thread runs a module."""
    _tracker.tracker_enter(module)


def leave(uint32_t module) -> None:
    """This thread has run it."""
    _tracker.tracker_leave(module)


def recompute(bint begins) -> None:
    """A checkpoint computes again in this thread, or has."""
    _tracker.tracker_recompute(begins)


def optimize(bint begins) -> None:
    """An optimizer steps in this thread, or has."""
    _tracker.tracker_optimize(begins)


def give(uint32_t category) -> int:
    """Whatever this thread allocates is of this category from now on; 0: what it is. What was
    before is returned."""
    return _tracker.tracker_give(category if category < _tracker.CATEGORIES else 0)


def optimizing() -> int:
    """How many optimizers this thread is in, one called by the other."""
    return _tracker.tracker_optimizing()


def evaluate(int steps) -> int:
    """An optimizer's step has the model evaluated: this thread is in so many steps until it says
    otherwise, 0 to begin with. How many it was in."""
    return _tracker.tracker_evaluate(steps)


def in_backward() -> bool:
    """Whether this thread is in a backward pass."""
    return _tracker.tracker_in_backward()


def depth() -> int:
    """How many modules run in this thread, one called by the other."""
    return _tracker.tracker_depth()


def module() -> int:
    """The innermost of them; 0: none."""
    return _tracker.tracker_module()


def step() -> None:
    """A step ends."""
    _tracker.tracker_step()


def mark(uint64_t address, uint32_t category, uint32_t module) -> None:
    """The live block at this address is of this category and module."""
    if 0 < category < _tracker.CATEGORIES:
        _tracker.tracker_mark(address, category, module)


def resume() -> None:
    """The program is past its start: what comes is the data of a step."""
    _tracker.tracker_resume()


def now_us() -> int:
    """The time, as allocations are noted with it."""
    return _tracker.tracker_now_us()


def count() -> int:
    """Allocations and frees so far."""
    return _tracker.tracker_sums().count


def dropped() -> int:
    """Allocations that there was no memory to note."""
    return _tracker.tracker_sums().dropped


def noted() -> int:
    """How many allocations are noted."""
    return _tracker.tracker_sums().noted


# --- what was noted, in the traces ----------------------------------------------------------------

cdef struct Joined:
    Map64 of            # category, phase and module as a number -> kind + 1
    Buf kinds           # u32, three each
    Map64 last          # address -> the newest entry that is not used, + 1
    Map64 first         # address -> 1: its first event here takes it, 2: lets it go
    Buf previous        # u32 of each entry: the one before it at its address, + 1
    # Copies: threads that go on may move the originals.
    Buf entries
    Buf origins


cdef uint32_t kind_of(Joined* j, const Entry* e) except 0:
    # Its number among the kinds, + 1.
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
    # The kinds of a trace's events; the last first, as old ones may be missing.
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
            # Those of other threads since the traces were taken are in none.
            while at and at > sure and (not time or e[at - 1].born_us > time + 1000):
                at = (<uint32_t*> j.previous.data)[at - 1]
            slot.value = at
            # A pool that is set back takes blocks of which nobody is told.
            if at and not (time and e[at - 1].born_us and e[at - 1].born_us < time - 100_000):
                out[i] = kind_of(j, &e[at - 1])
                slot.value = (<uint32_t*> j.previous.data)[at - 1]
    return made


def joined(traces: list, uint64_t sure) -> tuple[bytes, list[bytes], bytes, bytes]:
    """(kinds, columns, addresses, their kinds): what was noted of the allocations of these traces,
    the lists of dicts that PyTorch's _snapshot() has. The first `sure` allocations that were noted
    are in them or older.

    kinds: three u32 each: category, phase, module. columns: of each trace a u32 for each event, the
    kind of what it allocates + 1, 0 for no allocation and what nothing is known of. addresses
    (u64): of blocks that were there before the traces, with the kinds (u32, + 1) of them.

    Raises MemoryError, KeyError and TypeError for events that are not PyTorch's.
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
        # Other threads wait for the lock with the GIL: it is not waited for in between.
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
            # What is left of an address was there before, if the first that is heard of it is that
            # it is let go, or nothing is.
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
