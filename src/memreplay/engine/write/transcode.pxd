# A pickle rewritten in another protocol, opcode by opcode.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf

cdef struct Transcode:
    int protocol
    Out out
    size_t frame           # where the open frame begins in `out`
    bint framing           # a frame is open
    Buf memo               # u32: old memo index -> new one + 1
    uint32_t stored        # distinct entries so far, in both
    uint64_t offset        # bytes of the input that are done
    bint began, ended
    const char* wrong      # why it stopped; at `offset`


cdef int transcode_init(Transcode* t, int protocol) noexcept nogil
cdef void transcode_free(Transcode* t) noexcept nogil
cdef int transcode_feed(Transcode* t, const uint8_t* p, size_t n, size_t* taken) noexcept nogil
