# An array that takes one byte per number while all numbers are below 255, else four.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32

cdef enum:
    NONE8 = 0xFF


cdef struct Slim:
    Buf items     # u8, or u32 once widened; all ones mean NONE32


cdef inline void slim_init(Slim* s) noexcept nogil:
    buf_init(&s.items, 1)


cdef inline void slim_free(Slim* s) noexcept nogil:
    buf_free(&s.items)


cdef inline int slim_unset(Slim* s, uint64_t n) noexcept nogil:
    # Set the length to n and all items to NONE32. Returns -1 when out of memory.
    if buf_reserve(&s.items, n) < 0:
        return -1
    s.items.len = n
    if n:
        memset(s.items.data, 0xFF, n * s.items.itemsize)
    return 0


cdef inline uint32_t slim_at(const Slim* s, uint64_t i) noexcept nogil:
    cdef uint8_t small
    if s.items.itemsize == 4:
        return (<const uint32_t*> s.items.data)[i]
    small = (<const uint8_t*> s.items.data)[i]
    return small if small != NONE8 else NONE32


cdef inline int slim_widen(Slim* s) noexcept nogil:
    cdef Buf wide
    cdef uint64_t i
    buf_init(&wide, 4)
    if buf_reserve(&wide, s.items.len) < 0:
        return -1
    wide.len = s.items.len
    for i in range(wide.len):
        (<uint32_t*> wide.data)[i] = slim_at(s, i)
    buf_free(&s.items)
    s.items = wide
    return 0


cdef inline int slim_set(Slim* s, uint64_t i, uint32_t value) noexcept nogil:
    # Returns -1 when out of memory; the item is then unchanged.
    if s.items.itemsize == 1 and value >= NONE8 and value != NONE32 and slim_widen(s) < 0:
        return -1
    if s.items.itemsize == 4:
        (<uint32_t*> s.items.data)[i] = value
    else:
        (<uint8_t*> s.items.data)[i] = <uint8_t> value
    return 0
