# The live set at one event folded into groups: by stack, or by the frame, file or function it is
# put down to.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay._native.growbuf cimport Buf
from memreplay._native.lives cimport Lives
from memreplay._native.replay cimport Replay

cdef enum By:
    BY_STACK = 0
    BY_FRAME = 1
    BY_FILE = 2
    BY_FUNCTION = 3

cdef extern from *:
    # Keys of the groups that have no stack.
    const uint32_t KEY_NO_STACK "0xFFFFFFFFu"    # recorded without one
    const uint32_t KEY_BASELINE "0xFFFFFFFEu"    # allocated before the recording


cdef struct Group:
    int64_t bytes
    uint64_t count
    uint32_t key     # stack, frame or string id by By, or KEY_*
    uint32_t pad


cdef struct Folder:
    # Sums by stack and by key, all zero between two uses, and which of them are not.
    const Replay* replay
    uint32_t stacks
    Group* sums        # a stack; then the baseline's blocks without one
    Group* keys        # a frame or string, when they are first asked for
    Buf touched, touched_keys


cdef int folder_init(Folder* f, const Replay* r) noexcept nogil
cdef void folder_free(Folder* f) noexcept nogil
cdef int add_listed(Folder* f, const Lives* l, const Buf* allocs,
                    const Buf* baseline) noexcept nogil
cdef int folder_groups(Folder* f, int by, const uint8_t* file_rank, const uint8_t* function_rank,
                       Buf* groups) noexcept nogil
cdef int fold_live(const Lives* l, int64_t event, int by, const uint8_t* file_rank,
                   const uint8_t* function_rank, Buf* groups) noexcept nogil
cdef uint32_t label_frame(const Replay* r, uint32_t stack, const uint8_t* file_rank,
                          const uint8_t* function_rank) noexcept nogil
cdef uint32_t key_of(const Replay* r, uint32_t stack, int by, const uint8_t* file_rank,
                     const uint8_t* function_rank) noexcept nogil
