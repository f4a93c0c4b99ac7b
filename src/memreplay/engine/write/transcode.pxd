# Rewrite a pickle in another protocol, opcode by opcode.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf

cdef struct Transcode:
    int protocol
    Out out
    size_t frame           # where the open frame in `out` starts
    bint framing           # whether a frame is open
    Buf memo               # u32: old memo index -> 1 + new memo index
    uint32_t stored        # number of distinct memo entries so far
    uint64_t offset        # number of input bytes processed so far
    bint began, ended
    const char* wrong      # the error, which is at `offset`


cdef int transcode_init(Transcode* t, int protocol) noexcept nogil
cdef void transcode_free(Transcode* t) noexcept nogil
cdef int transcode_feed(Transcode* t, const uint8_t* p, size_t n, size_t* taken) noexcept nogil
