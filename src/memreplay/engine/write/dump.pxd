# Write all rows of the tables as lines of text or JSON.
from libc.stdint cimport uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.read.tables cimport Tables


cdef struct Dump:
    const Tables* tables
    Out out
    bint ndjson          # else text
    int stage            # Stage
    uint64_t row         # row in the stage's table; for events, among all events
    uint64_t trace
    uint64_t oom         # the next row of oom_event
    Buf known_stacks     # u8 per stack or frame: whether it's already written
    Buf known_frames


cdef class Lines:
    cdef object owner    # owns the tables
    cdef Dump d
    cdef bint busy


cdef Lines dump_lines(object owner, const Tables* t, bint ndjson)
