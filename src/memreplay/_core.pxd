# The parts of the reader that other Python interfaces share: tables, seeds and errors.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.read cimport sparse as _sparse
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.base.cursor cimport Cursor
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.base.status cimport Status
from memreplay.engine.read.intake cimport Intake

cdef class Tables:
    cdef _tables.Tables t
    cdef readonly int protocol
    cdef readonly uint64_t stream_bytes
    cdef readonly uint64_t fast_events, alike_events
    cdef readonly bint beside          # whether anything follows the first pickle
    cdef public object truncation      # the error that salvage suppressed, or None
    cdef dict decoded    # strings by id, each decoded only once
    cdef dict _spelled   # columns stored as codes, in expanded form

    cdef bytes _bytes(self, Spans* spans, object i)
    cdef object _node(self, uint32_t i, int depth, list budget)
    cdef object _node_items(self, _tables.Node node, int depth, list budget)
    cdef object _numbers(self, name, const _sparse.Sparse* s, bytes fmt)

cdef uint64_t new_seed()
cdef Limits begin_reading(_tables.Tables* t, Intake intake, limits, Cursor* start) except *
cdef object error_of(const Status* status, uint64_t events=*, uint64_t segments=*)
