# Find a snapshot inside a dict, list or tuple, or one of several snapshots in a file.
#
# A dict is a snapshot if it has a list under the key `segments` or `device_traces`, and all
# containers around it are unknown. Snapshots are counted in file order, across all pickles in the
# file. The wanted snapshot becomes V_ROOT; the others stay unknown data.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport strlen
from memreplay.engine.base.growbuf cimport push_u32
from memreplay.engine.base.hashmap cimport NONE32, spans_intern
from memreplay.engine.read.keys cimport K_DEVICE_TRACES, K_SEGMENTS
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport (
    V_INT, V_PAIR, V_ROOT, V_SEGMENT, V_SEGMENTS, V_SKIP_DICT, V_SKIP_LIST, V_STR, Value,
)

cdef enum:
    COUNTED = 1          # `num` of an unknown dict on the stack if it was counted as a snapshot
    NAMES_KEPT = 8
    # highest number of values below a snapshot on the stack; deeper snapshots aren't found
    DEEPEST_WRAPPED = 4096


cdef inline bint is_snapshot_list(uint32_t key, bint a_list) noexcept nogil:
    return a_list and (key == K_SEGMENTS or key == K_DEVICE_TRACES)


cdef inline bint is_counted(const Value* v) noexcept nogil:
    # Whether v is a snapshot, but not the wanted snapshot.
    return v.kind == V_SKIP_DICT and v.num == COUNTED


cdef inline bint may_wrap(const Tables* t, const Value* v) noexcept nogil:
    # Whether v, which is below a snapshot on the stack, can be a container around it, or an earlier
    # item. A snapshot only contains its own parts and unknown data.
    if v.kind == V_ROOT:
        return not t.adopted
    if v.kind == V_SEGMENTS or v.kind == V_SEGMENT:
        return t.bare_list and not t.adopted and t.blocks.len == 0
    if is_counted(v):
        return False
    return v.kind <= V_PAIR or v.kind == V_SKIP_LIST or v.kind == V_SKIP_DICT


cdef inline bint count_snapshot(Tables* t, const Value* name) noexcept nogil:
    # Count a snapshot, and return whether it's the wanted snapshot. `name` is its key, or NULL.
    cdef uint32_t id = NONE32
    cdef char[32] digits
    t.found += 1
    if t.found <= NAMES_KEPT:
        if name != NULL and name.kind == V_STR:
            id = name.idx
        elif name != NULL and name.kind == V_INT:
            snprintf(digits, sizeof(digits), b"%lld", <long long> <int64_t> name.num)
            id = spans_intern(&t.strings, digits, strlen(digits))
        push_u32(&t.found_names, id)
    if t.adopted or (t.pick and t.pick != t.found):
        return False
    t.adopted = True
    t.adopted_at = t.read_bytes
    return True


cdef inline void make_unknown(Value* v) noexcept nogil:
    # Reset a container below a snapshot that was mistaken for the snapshot itself.
    if v.kind == V_ROOT or v.kind == V_SEGMENT:
        v.kind = V_SKIP_DICT
        v.idx = 0
        v.num = 0
    elif v.kind == V_SEGMENTS:
        v.kind = V_SKIP_LIST
        v.idx = 0


cdef inline void forget_bare_list(Tables* t) noexcept nogil:
    # Reset the top-level list, because it contains snapshots, not segments.
    if t.bare_list:
        t.bare_list = False
        t.saw_segments = False
        t.segments.len = 0
        t.attached_segments = 0


cdef inline void settle_snapshot(Tables* t, Value* v, bint wanted) noexcept nogil:
    # Set the role of a dict that was counted as a snapshot.
    if v.kind != V_ROOT and wanted:
        t.unknown_keys = True    # earlier items were dropped
    v.kind = V_ROOT if wanted else V_SKIP_DICT
    v.idx = 0
    v.num = COUNTED
