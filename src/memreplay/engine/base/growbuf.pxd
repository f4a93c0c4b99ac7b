# Typed append buffers: one contiguous allocation that grows by half.
from libc.stdint cimport uint32_t, uint64_t, int64_t, uint8_t
from libc.string cimport memset, memcpy
from memreplay.engine.base.pages cimport block_free, block_resize

cdef struct Buf:
    char* data
    size_t len        # items in use
    size_t cap        # items allocated
    size_t itemsize   # bytes per item


cdef inline void buf_init(Buf* b, size_t itemsize) noexcept nogil:
    b.data = NULL
    b.len = 0
    b.cap = 0
    b.itemsize = itemsize


cdef inline void buf_free(Buf* b) noexcept nogil:
    block_free(b.data, b.cap * b.itemsize)
    b.data = NULL
    b.len = 0
    b.cap = 0


cdef inline int buf_reserve(Buf* b, size_t extra) noexcept nogil:
    # Make room for `extra` more items. Returns -1 when out of memory; the buffer is then unchanged.
    cdef size_t need = b.len + extra
    cdef size_t cap
    cdef char* data
    if need <= b.cap:
        return 0
    cap = b.cap + (b.cap >> 1) + 64
    if cap < need:
        cap = need
    data = <char*> block_resize(b.data, b.cap * b.itemsize, cap * b.itemsize)
    if data == NULL:
        return -1
    b.data = data
    b.cap = cap
    return 0


cdef inline int buf_begin(Buf* b, size_t n) noexcept nogil:
    # Give an empty buffer room for exactly n items, so that many short buffers waste less memory.
    if b.cap:
        return 0
    b.data = <char*> block_resize(NULL, 0, n * b.itemsize)
    if b.data == NULL:
        return -1
    b.cap = n
    return 0


cdef inline void buf_trim(Buf* b) noexcept nogil:
    # Return unused memory. Failing to shrink isn't an error.
    cdef char* data
    if b.data == NULL or b.len == b.cap:
        return
    if b.len == 0:
        buf_free(b)
        return
    data = <char*> block_resize(b.data, b.cap * b.itemsize, b.len * b.itemsize)
    if data != NULL:
        b.data = data
        b.cap = b.len


cdef inline int push_u32(Buf* b, uint32_t v) noexcept nogil:
    if b.len == b.cap and buf_reserve(b, 1) < 0:
        return -1
    (<uint32_t*> b.data)[b.len] = v
    b.len += 1
    return 0


cdef inline int push_u64(Buf* b, uint64_t v) noexcept nogil:
    if b.len == b.cap and buf_reserve(b, 1) < 0:
        return -1
    (<uint64_t*> b.data)[b.len] = v
    b.len += 1
    return 0


cdef inline int push_bytes(Buf* b, const void* p, size_t n) noexcept nogil:
    # Append n bytes. The buffer's itemsize must be 1.
    if buf_reserve(b, n) < 0:
        return -1
    if n:
        memcpy(b.data + b.len, p, n)
    b.len += n
    return 0


cdef inline int push_item(Buf* b, const void* p) noexcept nogil:
    # Append one item of `itemsize` bytes.
    if b.len == b.cap and buf_reserve(b, 1) < 0:
        return -1
    memcpy(b.data + b.len * b.itemsize, p, b.itemsize)
    b.len += 1
    return 0


cdef inline int push_zeroed(Buf* b) noexcept nogil:
    if b.len == b.cap and buf_reserve(b, 1) < 0:
        return -1
    memset(b.data + b.len * b.itemsize, 0, b.itemsize)
    b.len += 1
    return 0
