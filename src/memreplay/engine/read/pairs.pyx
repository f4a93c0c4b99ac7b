"""Set a dict's keys that have plain values, without the value stack.

Apart from events, for which there is the hot path, most of a snapshot consists of such dicts:
blocks, segments, histories.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.read.fast cimport ROOM, fast_get, fast_int, is_get
from memreplay.engine.read.keys cimport (
    K_ADDR, K_ADDRESS, K_DEVICE, K_FRAMES, K_IS_EXPANDABLE, K_NAME, K_REAL_SIZE, K_REQUESTED_SIZE,
    K_SEGMENT_TYPE, K_SIZE, K_STAGE, K_STATE, K_STREAM, K_TIME_US, is_frame_key,
)
from memreplay.engine.read.memo cimport INDEX_BITS, INDEX_MASK
from memreplay.engine.read.opcodes cimport (
    BINUNICODE, NEWFALSE, NEWTRUE, NONE, SETITEMS, SHORT_BINUNICODE,
)
from memreplay.engine.read.shapes cimport set_item
from memreplay.engine.read.stack cimport ITEMS_SET, values
from memreplay.engine.base.status cimport OK
from memreplay.engine.read.value cimport (
    V_EVENT, V_FALSE, V_FRAMES, V_INT, V_NONE, V_STR, V_TRUE, Value,
)
from memreplay.engine.read.vm cimport VM


cdef inline bint plain_value(VM* vm, const uint8_t** pp, Value* v) noexcept nogil:
    # Read a GET, a number or a constant. False for another opcode or if the value isn't plain.
    cdef const uint8_t* p = pp[0]
    cdef int64_t number = 0
    v.num = 0
    v.idx = 0
    if is_get(p[0]):
        v.idx = fast_get(pp, <const uint32_t*> vm.memo.data, vm.memo.len)
        v.kind = v.idx >> INDEX_BITS
        v.idx &= INDEX_MASK
        return v.kind >= V_STR and v.kind != V_EVENT
    if p[0] == NONE or p[0] == NEWTRUE or p[0] == NEWFALSE:
        v.kind = V_NONE if p[0] == NONE else V_TRUE if p[0] == NEWTRUE else V_FALSE
        pp[0] += 1
        return True
    v.kind = V_INT
    if not fast_int(pp, &number):
        return False
    v.num = <uint64_t> number
    return True


cdef inline bint takes_plain(uint32_t role, uint32_t key) noexcept nogil:
    # Whether `key` belongs to this kind of dict and its value is never a tuple. A number or string
    # is then the complete value, whatever follows.
    if role == V_BLOCK:
        return (K_ADDRESS == key or key == K_SIZE or key == K_REQUESTED_SIZE or key == K_STATE
                or key == K_FRAMES)
    if role == V_FRAME:
        return is_frame_key(key)
    if role == V_SEGMENT:
        return (K_DEVICE <= key <= K_SEGMENT_TYPE or key == K_STREAM or key == K_IS_EXPANDABLE
                or key == K_FRAMES)
    if role == V_HIST:
        return key == K_ADDR or key == K_REAL_SIZE or key == K_FRAMES
    if role == V_ANNOTATION:
        return key == K_NAME or key == K_STAGE or key == K_DEVICE or key == K_TIME_US
    return False


cdef const uint8_t* set_pairs(VM* vm, const uint8_t* at) noexcept nogil:
    # Set at most MOST_PAIRS keys with plain values, starting after the dict's MARK, and return the
    # position of the first key with another value. SETITEMS handles the rest, and reports any
    # error. The caller provides PAIRS_ROOM bytes if the input has as many, so that the result never
    # depends on where the window ends.
    cdef Value* d = &values(vm)[vm.stack.len - 2]
    cdef const uint8_t* p
    cdef Value key, value
    cdef int left = MOST_PAIRS
    while left and vm.cur.end - at >= ROOM and is_get(at[0]):
        left -= 1
        p = at
        if (not plain_value(vm, &p, &key) or key.kind != V_STR or not takes_plain(d.kind, key.idx)
                or not plain_value(vm, &p, &value)):
            break
        # The value may be a tuple of frames, which begins with a frame.
        if key.idx == K_FRAMES and value.kind != V_FRAMES:
            break
        if not (is_get(p[0]) or p[0] == SETITEMS or p[0] == SHORT_BINUNICODE
                or p[0] == BINUNICODE):
            break
        if set_item(vm.tables, d, &key, &value) != OK:
            vm.tables.status.code = OK
            break
        (<uint32_t*> vm.marks.data)[vm.marks.len - 1] |= ITEMS_SET
        at = p
    return at
