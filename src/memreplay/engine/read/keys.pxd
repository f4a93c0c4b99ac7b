# PyTorch's names (keys, actions, states), and the role of a value under each key.
#
# Only this file and keys.pyx know PyTorch's spelling.
from libc.stdint cimport uint32_t
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport (
    V_ANNOTATION, V_ANNOTATIONS, V_BLOCK, V_BLOCKS, V_EVENT, V_FRAME, V_FRAMES, V_HIST, V_HISTORY,
    V_NODE_DICT, V_NODE_LIST, V_PAIR_LIST, V_ROOT, V_SEGMENT, V_SEGMENTS, V_TRACE, V_TRACES,
    V_UNSET,
)

# String ids of the known names, which are interned first, in this order. keys.pyx has their
# spelling.
cdef enum Key:
    S_EMPTY = 0
    # events
    K_ACTION = 1
    K_ADDR = 2
    K_SIZE = 3
    K_STREAM = 4
    K_TIME_US = 5
    K_FRAMES = 6
    K_COMPILE_CONTEXT = 7
    K_USER_METADATA = 8
    K_POOL_ID = 9
    K_DEVICE_FREE = 10
    K_CARRIED = 11         # memreplay's own key, for events that stand for carried-over allocations
    # segments and blocks
    K_DEVICE = 12
    K_ADDRESS = 13
    K_TOTAL_SIZE = 14
    K_ALLOCATED_SIZE = 15
    K_ACTIVE_SIZE = 16
    K_REQUESTED_SIZE = 17
    K_SEGMENT_TYPE = 18
    K_SEGMENT_POOL_ID = 19
    K_IS_EXPANDABLE = 20
    K_BLOCKS = 21
    K_STATE = 22
    K_HISTORY = 23
    K_REAL_SIZE = 24
    # frames
    K_FILENAME = 25
    K_LINE = 26
    K_NAME = 27
    K_FX_NODE_OP = 28
    K_FX_NODE_NAME = 29
    K_FX_NODE_TARGET = 30
    K_FX_ORIGINAL_TRACE = 31
    # top level
    K_SEGMENTS = 32
    K_DEVICE_TRACES = 33
    K_ALLOCATOR_SETTINGS = 34
    K_EXTERNAL_ANNOTATIONS = 35
    K_TRACE_ALLOC_OVERFLOWED = 36
    K_TRACE_ALLOC_MAX_ENTRIES = 37
    K_STAGE = 38
    K_MEMREPLAY = 39
    # actions, in the order of tables.Action
    S_ACTION = 40
    # states, in the order of tables.State from STATE_INACTIVE on
    S_STATE = 40 + 13
    S_KNOWN = 40 + 13 + 4

cdef int keys_init(Tables* t) noexcept nogil
cdef const char* key_name(uint32_t key) noexcept nogil


cdef inline bint is_frame_key(uint32_t key) noexcept nogil:
    return K_FILENAME <= key <= K_FX_ORIGINAL_TRACE


cdef inline uint32_t role_of_item(uint32_t parent, bint a_list) noexcept nogil:
    # Return the role of a container in a list, or V_UNSET.
    if a_list:
        if parent == V_TRACES:
            return V_TRACE
        if parent == V_NODE_LIST:
            return V_NODE_LIST
        return V_UNSET
    if parent == V_TRACE:
        return V_EVENT
    if parent == V_FRAMES:
        return V_FRAME
    if parent == V_SEGMENTS:
        return V_SEGMENT
    if parent == V_BLOCKS:
        return V_BLOCK
    if parent == V_HISTORY:
        return V_HIST
    if parent == V_ANNOTATIONS:
        return V_ANNOTATION
    if parent == V_NODE_LIST:
        return V_NODE_DICT
    return V_UNSET


cdef inline uint32_t role_of_value(uint32_t parent, uint32_t key, bint a_list) noexcept nogil:
    # Return the role of a container that is the value of `key` in a dict, or V_UNSET.
    if parent == V_NODE_DICT:
        return V_NODE_LIST if a_list else V_NODE_DICT
    if parent == V_ROOT:
        if key == K_TRACE_ALLOC_OVERFLOWED or key == K_TRACE_ALLOC_MAX_ENTRIES:
            return V_NODE_LIST if a_list else V_NODE_DICT
        if (key == K_ALLOCATOR_SETTINGS or key == K_MEMREPLAY) and not a_list:
            return V_NODE_DICT
        if a_list:
            if key == K_SEGMENTS:
                return V_SEGMENTS
            if key == K_DEVICE_TRACES:
                return V_TRACES
            if key == K_EXTERNAL_ANNOTATIONS:
                return V_ANNOTATIONS
    elif parent == V_EVENT:
        if a_list and key == K_FRAMES:
            return V_FRAMES
        if a_list and key == K_POOL_ID:
            return V_PAIR_LIST
        if key == K_USER_METADATA or key == K_COMPILE_CONTEXT:
            return V_NODE_LIST if a_list else V_NODE_DICT
    elif parent == V_SEGMENT and a_list:
        if key == K_BLOCKS:
            return V_BLOCKS
        if key == K_FRAMES:
            return V_FRAMES
        if key == K_SEGMENT_POOL_ID:
            return V_PAIR_LIST
    elif parent == V_BLOCK and a_list:
        if key == K_FRAMES:
            return V_FRAMES
        if key == K_HISTORY:
            return V_HISTORY
    elif parent == V_HIST and a_list and key == K_FRAMES:
        return V_FRAMES
    return V_UNSET
