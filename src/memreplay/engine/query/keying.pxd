# Which group each allocation is in: by its stack, or one by one, or by two such at once.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.bits cimport clz64
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport NONE32, Map64, Spans
from memreplay.engine.base.slim cimport Slim, slim_at
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.replay.replay cimport Replay

cdef enum Kind:
    BY_STACK = 0         # names are stack ids
    BY_INNERMOST = 1     # frame ids: the innermost
    BY_FRAME = 2         # frame ids: what the stack is put down to
    BY_FILE = 3          # string ids: of that frame
    BY_FUNCTION = 4
    BY_MODULES = 5       # path ids: the forward functions in it, outermost first
    BY_ROW = 6           # what the rows say: any numbers
    BY_PAIR = 7          # two groups: first << 32 | second
    BY_RENAMED = 8       # what the groups of another are called
    BY_MASK = 9          # sets of rules, a bit each: those that the stack's frames meet
    BY_BOTH = 10         # sets of rules: those in both of two others
    BY_FIRST = 11        # the number of the first rule in another's set
    BY_SHOWN = 12        # stack ids: the first that was met of those that look alike to people

cdef enum:
    NO_RULE = 64         # the name by BY_FIRST of what no rule catches

cdef extern from *:
    # Names of what has no stack.
    const uint64_t NAME_NO_STACK "0xFFFFFFFFFFFFFFFFu"     # recorded without one
    const uint64_t NAME_CARRIED "0xFFFFFFFFFFFFFFFEu"     # allocated before the recording
    # In `forwards` of BY_SHOWN: not an operator, but a node of autograd.
    const uint32_t NODE_BIT "0x80000000u"


cdef struct Keys:
    # Groups are numbered in the order in which they are met. `of_stack`, `of_event` and `of_group`
    # hold NONE32 where nobody has asked yet.
    const Replay* replay
    int kind
    bint by_row            # whether allocations of one stack may be in several groups
    const uint8_t* file_rank
    const uint8_t* function_rank
    const uint64_t* any_frame  # u64 a frame, of BY_MASK: the rules that it meets in any stack
    const uint64_t* own_frame  # u64 a frame: those that it meets where the stack is put down to it
    uint64_t always            # the rules that ask nothing of frames
    const uint32_t* forwards   # u32 a frame, of BY_MODULES: the frame that stands for a module's
    #                            forward function, NONE32 where it is none; of BY_SHOWN the
    #                            frame that stands for an operator or, with NODE_BIT, for a node
    Keys* first            # of a pair, or what is renamed
    Keys* second
    Buf of_stack           # u32 a stack, then one for carried blocks without one
    Slim of_event          # an event; none where it is told by the group in `first`
    Buf of_group           # u32 a group of `first`, where that alone tells: see by_group
    uint32_t every         # the group of every event of BY_ROW, where it is one; else NONE32
    uint64_t last_name     # the group that was told last, and its name
    uint32_t last_group
    Buf of_carried         # u32 a carried block
    Buf names              # u64 a group
    Map64 known            # name -> group
    Spans paths            # of BY_MODULES and BY_SHOWN: frame ids, as u32
    Buf first_stack        # u32 a path of BY_SHOWN: the first stack that was met of it
    Buf path               # the one that is being made
    Buf renamed            # u64 a group of `first`, as far as known; of BY_MASK see rules_of
    Buf sums, touched      # a Sum and its group, while one live set is added up


cdef struct Sum:
    int64_t bytes
    uint64_t count
    uint64_t name
    uint32_t group
    uint32_t stack     # the first that was met


cdef inline uint32_t size_class(int64_t n_bytes) noexcept nogil:
    # n for 2**n to 2**(n + 1) - 1 bytes, 64 for none.
    return 64 if n_bytes <= 0 else <uint32_t> (63 - clz64(<uint64_t> n_bytes))


cdef int keys_init(Keys* k, const Replay* r, int kind, uint64_t seed) noexcept nogil
cdef void keys_free(Keys* k) noexcept nogil
cdef int keys_begin_rows(Keys* k) noexcept nogil
cdef int keys_tell(Keys* k, uint64_t event, uint64_t name) noexcept nogil
cdef int keys_rows(Keys* k, const uint32_t* of_event, uint32_t of_all,
                   const uint32_t* of_carried) noexcept nogil
cdef uint32_t group_of_stack(Keys* k, uint32_t stack) noexcept nogil
cdef uint32_t group_of_event(Keys* k, uint64_t event) noexcept nogil
cdef uint32_t group_of_carried(Keys* k, uint64_t block) noexcept nogil
cdef inline bint by_group(const Keys* k) noexcept nogil:
    # Whether the group of an allocation follows from its group in `first`.
    return k.by_row and k.first != NULL and k.second == NULL


cdef inline uint32_t group_at(Keys* k, uint64_t event) noexcept nogil:
    # As group_of_event, without a call where somebody has asked before: for all events in a row.
    cdef const Keys* told = k.first if by_group(k) else k
    cdef uint32_t group = NONE32
    if not told.by_row:
        if told.of_stack.len:
            group = (<const uint32_t*> told.of_stack.data)[
                (<const uint32_t*> k.replay.tables.stack.data)[k.replay.first + event]]
    elif told.of_event.items.len:
        group = slim_at(&told.of_event, event)
    if by_group(k) and group != NONE32:
        group = (<const uint32_t*> k.of_group.data)[group] if group < k.of_group.len else NONE32
    return group if group != NONE32 else group_of_event(k, event)


cdef int keys_sum(Keys* k, const Lives* l, const Buf* allocs, const Buf* blocks,
                  Buf* out) noexcept nogil
cdef int keys_meet(Keys* k) noexcept nogil
cdef int keys_keep(Keys* k, Lives* l, const uint8_t* wanted) noexcept nogil
