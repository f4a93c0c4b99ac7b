# What the other façades need of the reader's: the tables, seeds, and errors.
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
    cdef readonly uint64_t fast_events
    cdef readonly bint beside          # there are other pickles, or something behind them
    cdef public object truncation      # what a salvaged input would have ended in, or None
    cdef dict decoded    # strings by id: a file may refer to one any number of times
    cdef dict _spelled   # columns that are kept as codes, as they are handed out

    cdef bytes _bytes(self, Spans* spans, object i)
    cdef object _node(self, uint32_t i, int depth, list budget)
    cdef object _node_items(self, _tables.Node node, int depth, list budget)
    cdef object _numbers(self, name, const _sparse.Sparse* s, bytes fmt)

cdef uint64_t new_seed()
cdef Limits begin_reading(_tables.Tables* t, Intake intake, limits, Cursor* start) except *
cdef object error_of(const Status* status, uint64_t events=*, uint64_t segments=*)
