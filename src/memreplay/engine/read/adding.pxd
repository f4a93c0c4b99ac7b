# Add the rows of an exported dataset to tables, as if the rows had just been read.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.read.tables cimport Tables

cdef extern from *:
    const uint64_t ALL_FIT "0xFFFFFFFFFFFFFFFFu"   # no wrong row


cdef struct Coded:
    # A dictionary-encoded column, as in Arrow: each row has an index into a dictionary.
    const int32_t* at
    # bitmap, lowest bit first, starting at bit `offset`; NULL if all rows are valid
    const uint8_t* valid
    uint64_t offset
    const uint32_t* codes     # one code per dictionary entry
    uint64_t words
    uint32_t missing          # the code for invalid rows


cdef struct EventColumns:
    # Columns with one item per row.
    const uint8_t* action
    const uint64_t* address
    const int64_t* size
    const int64_t* time
    const uint64_t* stream
    # the dataset's ids; the next three columns have the tables' ids
    const uint32_t* stack
    const uint32_t* pool
    const uint32_t* compile_context
    const uint32_t* user_metadata
    const int64_t* device_free
    const uint8_t* has_device_free


cdef struct SegmentColumns:
    const int32_t* device
    const uint64_t* address
    const int64_t* total
    const int64_t* allocated
    const int64_t* active
    const int64_t* requested
    const uint8_t* has_requested
    const uint64_t* stream
    const uint32_t* kind
    const uint32_t* pool
    const uint32_t* stack
    const uint8_t* expandable


cdef struct BlockColumns:
    const uint32_t* segment
    const uint64_t* address
    const int64_t* size
    const int64_t* requested
    const uint8_t* has_requested
    const uint8_t* state
    const uint32_t* stack


cdef struct AnnotationColumns:
    const int32_t* device
    const int64_t* time
    const uint32_t* stage
    const uint32_t* name


cdef uint64_t decode(const Coded* c, uint64_t n, uint32_t* out) noexcept nogil
cdef int add_trace(Tables* t, int32_t device) noexcept nogil
cdef uint64_t add_events(Tables* t, const EventColumns* c, uint64_t n, const uint32_t* stack_of,
                         uint64_t stacks) noexcept nogil
cdef uint64_t add_carried(Tables* t, uint64_t address, int64_t size, int64_t time) noexcept nogil
cdef uint64_t add_segments(Tables* t, const SegmentColumns* c, uint64_t n,
                           const uint32_t* stack_of, uint64_t stacks) noexcept nogil
cdef uint64_t add_blocks(Tables* t, const BlockColumns* c, uint64_t n, const uint32_t* stack_of,
                         uint64_t stacks) noexcept nogil
cdef uint64_t add_annotations(Tables* t, const AnnotationColumns* c, uint64_t n) noexcept nogil
cdef int add_code(Tables* t, const Tables* other, Buf* texts, Buf* pools, Buf* frames,
                  Buf* stacks) noexcept nogil
