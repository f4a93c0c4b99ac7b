# The window over the input, and little-endian reads that never go past its end.
#
#     origin ─┐
#   stream  ──┴──[ base ......... p ......... end )──── not read yet
#                        consumed ^   available
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t, int32_t
from libc.string cimport memcpy

cdef struct Cursor:
    const uint8_t* base
    const uint8_t* p
    const uint8_t* end
    uint64_t origin      # stream offset of base
    bint eof             # nothing follows end


cdef inline uint64_t cursor_offset(const Cursor* c) noexcept nogil:
    return c.origin + <uint64_t> (c.p - c.base)


cdef inline uint16_t read_u16(const uint8_t* p) noexcept nogil:
    return <uint16_t> (p[0] | (<uint16_t> p[1] << 8))


cdef inline uint32_t read_u32(const uint8_t* p) noexcept nogil:
    return (<uint32_t> read_u16(p)) | (<uint32_t> read_u16(p + 2) << 16)


cdef inline uint64_t read_u64(const uint8_t* p) noexcept nogil:
    return (<uint64_t> read_u32(p)) | (<uint64_t> read_u32(p + 4) << 32)


cdef inline int64_t read_long(const uint8_t* p, size_t n) noexcept nogil:
    # Read a two's complement integer of 0 to 8 bytes (the argument of LONG1).
    cdef uint64_t v = 0
    cdef size_t i
    if n == 0:
        return 0
    for i in range(n):
        v |= <uint64_t> p[i] << (8 * i)
    # Sign-extend: shift the sign bit to the top and back.
    return (<int64_t> (v << (64 - 8 * n))) >> (64 - 8 * n)
