# State of the JSON reader, which reads snapshots that json.dump wrote.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.cursor cimport Cursor
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.read.profile cimport Profile
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef enum Expect:
    A_VALUE = 0          # at the top level, after a comma in a list, after a colon
    A_VALUE_OR_END = 1   # after "["
    A_KEY = 2            # after a comma in a dict
    A_KEY_OR_END = 3     # after "{"
    A_COLON = 4
    A_COMMA_OR_END = 5
    NOTHING = 6          # after the top-level value: only white space


cdef struct Level:
    Value container
    uint32_t key         # string id of the pending value's key
    uint8_t expect


cdef struct JSONReader:
    Cursor cur
    Tables* tables
    Limits limits
    Buf levels           # Level: open containers
    uint64_t need        # minimum size of the token at the cursor
    uint8_t expect       # at the top
    bint skipped_mark    # whether a byte order mark was already looked for
    # receives a torch.profiler trace's values instead of the tables; else NULL
    Profile* profile


cdef int json_init(JSONReader* r, Tables* tables, const Limits* limits) noexcept nogil
cdef void json_free(JSONReader* r) noexcept nogil
cdef int json_step(JSONReader* r) noexcept nogil
cdef int json_step_any(void* reader) noexcept nogil
