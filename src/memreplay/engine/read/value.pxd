# A value of the pickle machine: its kind, and the number, id or row that stands for it.
from libc.stdint cimport uint32_t, uint64_t

# A container's kind is its role: what its place in the snapshot says that it is. Kinds fit five
# bits, so that a memo entry (kind and index) is four bytes.
cdef enum Kind:
    V_UNSET = 0
    V_MARK = 0           # on the stack only, where nothing is unset; idx: of V_INERT, or 0
    V_INERT = 1          # in the memo only: a function that hands back its argument; idx: Inert
    V_NONE = 2
    V_FALSE = 3
    V_TRUE = 4
    V_INT = 5            # num: int64
    V_UINT = 6           # num: uint64 of 2**63 or more
    V_BIG = 7            # an integer that 64 bits do not hold
    V_FLOAT = 8          # num: the bits of the double
    V_OPAQUE = 9         # data that no snapshot needs; idx: of a tuple of frames, as V_SKIP_LIST;
                         # FILLED_FIRST; or 0
    V_STR = 10           # idx: string id
    V_PAIR = 11          # idx: pair id (a tuple of two integers: a pool id)
    V_STACK = 12         # idx: stack id (a frames list that is complete)
    V_NODE_LIST = 13     # idx: node (a value kept as it is)
    V_NODE_DICT = 14
    V_SKIP_LIST = 15     # unknown: its content is read and dropped; idx: into unknown_lists
    V_SKIP_DICT = 16     # the same; idx: into unknown_dicts
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
    V_PAIR_LIST = 31     # list, idx: into pair_of (a pool id written as a list)

# Bit sets over kinds. That of lists has a bit more than an int has, which is what C's enums are.
cdef extern from *:
    """
    #define MEMREPLAY_LISTS (1u << 12 | 1u << 13 | 1u << 15 | 1u << 18 | 1u << 20 | 1u << 22 \\
                             | 1u << 24 | 1u << 25 | 1u << 27 | 1u << 29 | 1u << 31)
    """
    const uint32_t LISTS "MEMREPLAY_LISTS"

cdef enum:
    FILLED_FIRST = 1     # an unknown list that a list or a dict is which was filled before made
    UNKEPT = 1           # `num` of what stands in a kept value for what can't be kept

cdef enum:
    DICTS = ((1 << 14) | (1 << 16) | (1 << 17) | (1 << 19) | (1 << 21) | (1 << 23) | (1 << 26)
             | (1 << 28) | (1 << 30))
    SCALARS_IN_MEMO = (1 << 5) | (1 << 6) | (1 << 8)   # need 64 bits beside the packed entry


cdef struct Value:
    uint64_t num
    uint32_t idx
    uint32_t kind


cdef inline bint is_list(uint32_t kind) noexcept nogil:
    return (LISTS >> kind) & 1


cdef inline bint is_structural(uint32_t kind) noexcept nogil:
    # A part of the snapshot itself: a list or a dict whose items went to tables, or will.
    return kind == V_STACK or kind >= V_ROOT


cdef inline bint is_dict(uint32_t kind) noexcept nogil:
    return (<uint32_t> DICTS >> kind) & 1
