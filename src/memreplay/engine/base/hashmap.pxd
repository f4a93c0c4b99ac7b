# Two open-addressing hash tables: interned byte spans (span -> u32 id), and u64 -> u32.
#
# Both use a secret seed, so that a crafted file can't cause collisions.
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from memreplay.engine.base.bits cimport product
from memreplay.engine.base.growbuf cimport (
    Buf, buf_free, buf_init, buf_reserve, push_bytes, push_u64,
)

cdef extern from *:
    const uint32_t NONE32 "0xFFFFFFFFu"   # marks a missing id or index


cdef inline uint64_t mix(uint64_t a, uint64_t b) noexcept nogil:
    # Fold the 128-bit product (the mixing step of the wyhash family).
    cdef uint64_t high
    cdef uint64_t low = product(a, b, &high)
    return low ^ high


cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return v


cdef inline uint64_t hash_span(const uint8_t* p, size_t n, uint64_t seed) noexcept nogil:
    # The seed goes into both factors of each product, so an attacker can't force either to 0.
    cdef uint64_t h = mix(seed ^ n, seed ^ <uint64_t> 0xE7037ED1A0B428DB)
    cdef uint64_t tail = 0
    while n >= 16:
        h = mix(load64(p) ^ h, load64(p + 8) ^ seed ^ <uint64_t> 0x8EBC6AF09C88C6E3)
        p += 16
        n -= 16
    if n >= 8:
        h = mix(load64(p) ^ h, seed ^ <uint64_t> 0x589965CC75374CC3)
        p += 8
        n -= 8
    if n:
        memcpy(&tail, p, n)
        h = mix(tail ^ h, seed ^ <uint64_t> 0x1D8E4E27C47D124F)
    return mix(h ^ seed, seed ^ <uint64_t> 0xA0761D6478BD642F)


cdef struct Slot32:
    uint32_t id     # id + 1; 0: free
    uint32_t tag    # low half of the hash; also determines the slot, so growing doesn't read spans


cdef struct Spans:
    # Interned byte spans: equal bytes share an id; ids count up from 0.
    Buf data        # u8: all spans, concatenated
    Buf offsets     # u64, number of ids + 1: span i is data[offsets[i]:offsets[i + 1]]
    Slot32* slots
    uint64_t mask   # slots - 1
    uint64_t seed


cdef inline int spans_init(Spans* t, uint64_t seed) noexcept nogil:
    buf_init(&t.data, 1)
    buf_init(&t.offsets, 8)
    t.seed = seed
    t.mask = 1023
    t.slots = <Slot32*> calloc(t.mask + 1, sizeof(Slot32))
    if t.slots == NULL:
        return -1
    return push_u64(&t.offsets, 0)


cdef inline void spans_free(Spans* t) noexcept nogil:
    buf_free(&t.data)
    buf_free(&t.offsets)
    spans_drop_index(t)


cdef inline void spans_drop_index(Spans* t) noexcept nogil:
    # Free the index. The table can still be read by id, but not extended.
    free(t.slots)
    t.slots = NULL


cdef inline uint32_t spans_len(const Spans* t) noexcept nogil:
    return <uint32_t> (t.offsets.len - 1) if t.offsets.len else 0


cdef inline const uint8_t* span_at(const Spans* t, uint32_t i, size_t* n) noexcept nogil:
    cdef uint64_t* o = <uint64_t*> t.offsets.data
    n[0] = <size_t> (o[i + 1] - o[i])
    return <const uint8_t*> t.data.data + o[i]


cdef inline int spans_grow(Spans* t) noexcept nogil:
    cdef uint64_t mask = t.mask * 2 + 1
    cdef uint64_t i, j
    cdef Slot32* slots = <Slot32*> calloc(mask + 1, sizeof(Slot32))
    if slots == NULL:
        return -1
    for i in range(t.mask + 1):
        if t.slots[i].id:
            j = t.slots[i].tag & mask
            while slots[j].id:
                j = (j + 1) & mask
            slots[j] = t.slots[i]
    free(t.slots)
    t.slots = slots
    t.mask = mask
    return 0


cdef inline uint32_t spans_find(const Spans* t, const void* p, size_t n, uint64_t h) noexcept nogil:
    cdef uint32_t tag = <uint32_t> h
    cdef uint64_t j = tag & t.mask
    cdef size_t m
    cdef const uint8_t* q
    while t.slots[j].id:
        if t.slots[j].tag == tag:
            q = span_at(t, t.slots[j].id - 1, &m)
            if m == n and (n == 0 or memcmp(p, q, n) == 0):
                return t.slots[j].id - 1
        j = (j + 1) & t.mask
    return NONE32


cdef inline uint32_t spans_add(Spans* t, const void* p, size_t n, uint64_t h) noexcept nogil:
    # Add a span that isn't in the table yet. Returns NONE32 when out of memory.
    cdef uint64_t j
    cdef uint32_t id = spans_len(t)
    if (<uint64_t> id + 1) * 4 > (t.mask + 1) * 3 and spans_grow(t) < 0:
        return NONE32
    # Reserve space in both buffers first: if only one was extended, the next span would be wrong.
    if buf_reserve(&t.data, n) < 0 or buf_reserve(&t.offsets, 1) < 0:
        return NONE32
    push_bytes(&t.data, p, n)
    push_u64(&t.offsets, t.data.len)
    j = <uint32_t> h & t.mask
    while t.slots[j].id:
        j = (j + 1) & t.mask
    t.slots[j].id = id + 1
    t.slots[j].tag = <uint32_t> h
    return id


cdef inline uint32_t spans_intern(Spans* t, const void* p, size_t n) noexcept nogil:
    # Return the id of these bytes, adding them if new; NONE32 when out of memory.
    cdef uint64_t h = hash_span(<const uint8_t*> p, n, t.seed)
    cdef uint32_t id = spans_find(t, p, n, h)
    return id if id != NONE32 else spans_add(t, p, n, h)


cdef inline uint32_t spans_intern_sized(Spans* t, const void* p, size_t n) noexcept nogil:
    # Like spans_intern, but faster, for a table in which every span has n bytes.
    cdef uint64_t h = hash_span(<const uint8_t*> p, n, t.seed)
    cdef uint32_t tag = <uint32_t> h
    cdef uint64_t j = tag & t.mask
    while t.slots[j].id:
        if (t.slots[j].tag == tag
                and memcmp(p, t.data.data + <size_t> (t.slots[j].id - 1) * n, n) == 0):
            return t.slots[j].id - 1
        j = (j + 1) & t.mask
    return spans_add(t, p, n, h)


cdef inline bint span_is(const Spans* t, uint32_t i, const void* p, size_t n) noexcept nogil:
    # Whether span i exists and equals these bytes.
    cdef size_t m = 0
    cdef const uint8_t* q
    if i >= spans_len(t):
        return False
    q = span_at(t, i, &m)
    return m == n and memcmp(p, q, n) == 0


cdef struct Slot64:
    uint64_t key
    uint32_t value
    uint32_t used


cdef struct Map64:
    # u64 -> u32. Keys are never removed; to mark a key as gone, set its value.
    Slot64* slots
    uint64_t mask
    uint64_t used
    uint64_t seed


cdef inline int map64_init(Map64* m, uint64_t seed) noexcept nogil:
    m.mask = 255
    m.used = 0
    m.seed = seed | 1
    m.slots = <Slot64*> calloc(m.mask + 1, sizeof(Slot64))
    return 0 if m.slots != NULL else -1


cdef inline void map64_free(Map64* m) noexcept nogil:
    free(m.slots)
    m.slots = NULL


cdef inline int map64_grow(Map64* m) noexcept nogil:
    cdef uint64_t mask = m.mask * 2 + 1
    cdef uint64_t i, j
    cdef Slot64* slots = <Slot64*> calloc(mask + 1, sizeof(Slot64))
    if slots == NULL:
        return -1
    for i in range(m.mask + 1):
        if m.slots[i].used:
            j = mix(m.slots[i].key ^ m.seed, m.seed ^ <uint64_t> 0x9E3779B97F4A7C15) & mask
            while slots[j].used:
                j = (j + 1) & mask
            slots[j] = m.slots[i]
    free(m.slots)
    m.slots = slots
    m.mask = mask
    return 0


cdef inline Slot64* map64_find(const Map64* m, uint64_t key) noexcept nogil:
    # Return the slot of key, or NULL. Doesn't allocate.
    cdef uint64_t j = mix(key ^ m.seed, m.seed ^ <uint64_t> 0x9E3779B97F4A7C15) & m.mask
    while m.slots[j].used:
        if m.slots[j].key == key:
            return &m.slots[j]
        j = (j + 1) & m.mask
    return NULL


cdef inline uint32_t map64_get(const Map64* m, uint64_t key, uint32_t absent) noexcept nogil:
    # Return the value of key, or `absent`.
    cdef const Slot64* at = map64_find(m, key)
    return absent if at == NULL else at.value


cdef inline Slot64* map64_at(Map64* m, uint64_t key, uint32_t fresh) noexcept nogil:
    # Return the slot of key, adding it with value `fresh`; NULL when out of memory.
    cdef uint64_t j
    if m.used * 3 > (m.mask + 1) * 2 and map64_grow(m) < 0:
        return NULL
    j = mix(key ^ m.seed, m.seed ^ <uint64_t> 0x9E3779B97F4A7C15) & m.mask
    while m.slots[j].used:
        if m.slots[j].key == key:
            return &m.slots[j]
        j = (j + 1) & m.mask
    m.slots[j].key = key
    m.slots[j].value = fresh
    m.slots[j].used = 1
    m.used += 1
    return &m.slots[j]
