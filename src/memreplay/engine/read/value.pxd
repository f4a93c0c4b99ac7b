# A value in the pickle VM: a kind, and a number, id or row.
from libc.stdint cimport uint32_t, uint64_t

# A container's kind is its role, determined by its position in the snapshot. Kinds fit into five
# bits, so that a memo entry (kind and index) takes four bytes.
cdef enum Kind:
    V_UNSET = 0
    # only on the stack; idx: the Inert that the MARK stands for (see op_inert); 0: plain MARK
    V_MARK = 0
    V_INERT = 1          # only in the memo: a function that is read as data; idx: Inert
    V_NONE = 2
    V_FALSE = 3
    V_TRUE = 4
    V_INT = 5            # num: int64
    V_UINT = 6           # num: uint64, at least 2**63
    V_BIG = 7            # an integer beyond 64 bits
    V_FLOAT = 8          # num: the bits of the double
    V_OPAQUE = 9         # unused data; idx: as V_SKIP_LIST for a tuple of frames; FILLED_FIRST; or
                         # 0
    V_STR = 10           # idx: string id
    V_PAIR = 11          # idx: pair id (a tuple of two integers: a pool id)
    V_STACK = 12         # idx: stack id (a complete frames list)
    V_NODE_LIST = 13     # idx: node (a kept value)
    V_NODE_DICT = 14
    V_SKIP_LIST = 15     # unknown, so its content is read and dropped; idx: into unknown_lists
    V_SKIP_DICT = 16     # like V_SKIP_LIST; idx: into unknown_dicts
    V_ROOT = 17
    V_SEGMENTS = 18      # list
    V_SEGMENT = 19       # dict, idx: row
    V_BLOCKS = 20        # list, idx: segment row
    V_BLOCK = 21         # dict, idx: row
    V_HISTORY = 22       # list, idx: block row (2.0-era)
    V_HIST = 23          # dict, idx: block row
    V_TRACES = 24        # list
    V_TRACE = 25         # list, idx: trace
    V_EVENT = 26         # dict, idx: row
    V_FRAMES = 27        # list, idx: into stack_of
    V_FRAME = 28         # dict, idx: into frame_of
    V_ANNOTATIONS = 29   # list
    V_ANNOTATION = 30    # dict, idx: row
    V_PAIR_LIST = 31     # list, idx: into pair_of (a pool id that was written as a list)

# Bit sets of kinds. The set for lists needs more bits than an int, which is the type of C enums.
cdef extern from *:
    """
    #define MEMREPLAY_LISTS (1u << 12 | 1u << 13 | 1u << 15 | 1u << 18 | 1u << 20 | 1u << 22 \\
                             | 1u << 24 | 1u << 25 | 1u << 27 | 1u << 29 | 1u << 31)
    """
    const uint32_t LISTS "MEMREPLAY_LISTS"

cdef enum:
    FILLED_FIRST = 1     # `idx` of a V_OPAQUE that is a list or dict filled before it was created
    UNKEPT = 1           # `num` of the marker for a value that can't be kept

cdef enum:
    DICTS = ((1 << 14) | (1 << 16) | (1 << 17) | (1 << 19) | (1 << 21) | (1 << 23) | (1 << 26)
             | (1 << 28) | (1 << 30))
    # need 64 bits in addition to the packed entry
    SCALARS_IN_MEMO = (1 << 5) | (1 << 6) | (1 << 8)


cdef struct Value:
    uint64_t num
    uint32_t idx
    uint32_t kind


cdef inline bint is_list(uint32_t kind) noexcept nogil:
    return (LISTS >> kind) & 1


cdef inline bint is_structural(uint32_t kind) noexcept nogil:
    # Whether a value is part of the snapshot itself: a list or dict whose items go to tables.
    return kind == V_STACK or kind >= V_ROOT


cdef inline bint is_dict(uint32_t kind) noexcept nogil:
    return (<uint32_t> DICTS >> kind) & 1
