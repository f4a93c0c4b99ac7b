# Find each allocation's group: by stack, by row, or by two groupings at once.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.bits cimport clz64
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport NONE32, Map64, Spans
from memreplay.engine.base.slim cimport Slim, slim_at
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.replay.replay cimport Replay

cdef enum Kind:
    BY_STACK = 0         # names are stack ids
    BY_INNERMOST = 1     # ids of the innermost frame
    BY_FRAME = 2         # ids of the frame that the stack is attributed to
    BY_FILE = 3          # string ids of the file of the frame that the stack is attributed to
    BY_FUNCTION = 4
    BY_MODULES = 5       # path ids; a path is the forward functions in a stack, outermost first
    BY_ROW = 6           # arbitrary numbers, given per row
    BY_PAIR = 7          # pairs of groups: first << 32 | second
    BY_RENAMED = 8       # another Keys' groups, renamed
    BY_MASK = 9          # sets of rules, one bit each, that the stack's frames match
    BY_BOTH = 10         # sets of rules: the intersection of two others
    BY_FIRST = 11        # number of the first rule in another Keys' set
    BY_SHOWN = 12        # ids of the first stack among stacks that look the same to users

cdef enum:
    NO_RULE = 64         # BY_FIRST's name for stacks that no rule matches

cdef extern from *:
    # Names of the groups for allocations without a stack.
    const uint64_t NAME_NO_STACK "0xFFFFFFFFFFFFFFFFu"     # recorded without a stack
    const uint64_t NAME_CARRIED "0xFFFFFFFFFFFFFFFEu"     # allocated before the recording
    # In `forwards` of BY_SHOWN, marks an autograd node rather than an operator.
    const uint32_t NODE_BIT "0x80000000u"


cdef struct Keys:
    # Groups are numbered in the order in which they are first seen. `of_stack`, `of_event` and
    # `of_group` are filled lazily; NONE32 means not looked up yet.
    const Replay* replay
    int kind
    bint by_row            # whether allocations with the same stack may be in several groups
    const uint8_t* file_rank
    const uint8_t* function_rank
    # u64 per frame, for BY_MASK: rules that the frame matches anywhere in a stack
    const uint64_t* any_frame
    # u64 per frame: rules that the frame matches if the stack is attributed to it
    const uint64_t* own_frame
    uint64_t always            # rules without conditions on frames
    # u32 per frame. BY_MODULES: the frame that represents a module's forward function, or NONE32.
    # BY_SHOWN: the frame that represents an operator or, with NODE_BIT, an autograd node.
    const uint32_t* forwards
    Keys* first            # first Keys of a pair, or the Keys from which these are derived
    Keys* second
    Buf of_stack           # u32 per stack, then one for carried-over blocks without a stack
    Slim of_event          # per event; empty if the group is determined by the group in `first`
    Buf of_group           # u32 per group of `first`, if that determines the group (see by_group)
    uint32_t every         # for BY_ROW, the group that all events share, else NONE32
    uint64_t last_name     # name and number of the group that keys_set used last
    uint32_t last_group
    Buf of_carried         # u32 per carried-over block
    Buf names              # u64 per group
    Map64 known            # name -> group
    Spans paths            # for BY_MODULES and BY_SHOWN: frame ids, as u32
    Buf first_stack        # u32 per path, for BY_SHOWN: the first stack with that path
    Buf path               # scratch: the current path
    Buf renamed            # u64 per group of `first` known when renaming; for BY_MASK see rules_of
    Buf sums, touched      # while summing a live set: a Sum per group, and the groups in use


cdef struct Sum:
    int64_t bytes
    uint64_t count
    uint64_t name
    uint32_t group
    uint32_t stack     # the group's first stack


cdef inline uint32_t size_class(int64_t n_bytes) noexcept nogil:
    # Return n for 2**n to 2**(n + 1) - 1 bytes, 64 for 0.
    return 64 if n_bytes <= 0 else <uint32_t> (63 - clz64(<uint64_t> n_bytes))


cdef int keys_init(Keys* k, const Replay* r, int kind, uint64_t seed) noexcept nogil
cdef void keys_free(Keys* k) noexcept nogil
cdef int keys_begin_rows(Keys* k) noexcept nogil
cdef int keys_set(Keys* k, uint64_t event, uint64_t name) noexcept nogil
cdef int keys_rows(Keys* k, const uint32_t* of_event, uint32_t of_all,
                   const uint32_t* of_carried) noexcept nogil
cdef uint32_t group_of_stack(Keys* k, uint32_t stack) noexcept nogil
cdef uint32_t group_of_event(Keys* k, uint64_t event) noexcept nogil
cdef uint32_t group_of_carried(Keys* k, uint64_t block) noexcept nogil
cdef inline bint by_group(const Keys* k) noexcept nogil:
    # Whether an allocation's group is determined by its group in `first`.
    return k.by_row and k.first != NULL and k.second == NULL


cdef inline uint32_t group_at(Keys* k, uint64_t event) noexcept nogil:
    # Like group_of_event, with the lookup of known groups inlined, for loops over all events.
    cdef const Keys* source = k.first if by_group(k) else k
    cdef uint32_t group = NONE32
    if not source.by_row:
        if source.of_stack.len:
            group = (<const uint32_t*> source.of_stack.data)[
                (<const uint32_t*> k.replay.tables.stack.data)[k.replay.first + event]]
    elif source.of_event.items.len:
        group = slim_at(&source.of_event, event)
    if by_group(k) and group != NONE32:
        group = (<const uint32_t*> k.of_group.data)[group] if group < k.of_group.len else NONE32
    return group if group != NONE32 else group_of_event(k, event)


cdef int keys_sum(Keys* k, const Lives* l, const Buf* allocs, const Buf* blocks,
                  Buf* out) noexcept nogil
cdef int keys_find_all(Keys* k) noexcept nogil
cdef int keys_keep(Keys* k, Lives* l, const uint8_t* wanted) noexcept nogil
