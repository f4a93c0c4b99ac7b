# Search texts for many regular expressions at once.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.bits cimport ctz64
from memreplay.engine.base.growbuf cimport Buf

cdef enum:
    MAX_REGEXES = 64    # with alternatives counted separately; each has a bit in a 64-bit number
    MAX_LENGTH = 1000   # of an expression; bounds the recursion
    NO_END = 0x7FFFFFFF  # a repetition without an upper bound
    AT_END = 128        # stands for the byte after a text's last
    PAIRS = 1024
    NONE_FOUND = 64     # no expression was found in a string

cdef enum Syntax:
    # Result of adding an expression, besides OK and ERR_MEMORY.
    UNSUPPORTED = -1


cdef struct Regexes:
    Buf code             # Instruction: all expressions, one after the other
    Buf letters          # u8: the texts of LITERAL
    Buf sets             # Set: the sets of CLASS
    Buf rest             # First: what a match can begin with, for each instruction
    uint32_t begin[64]   # each alternative's first instruction
    uint64_t bits[64]    # each alternative's result
    uint32_t n
    # Where to try an expression, as one bit per expression: at the start of a text, by one byte;
    # elsewhere by two.
    uint64_t first[129]
    uint64_t pairs[1024]
    uint64_t last[129]   # the expressions that can match in a text that ends with a byte


cdef inline uint32_t pair_of(uint32_t c, uint32_t d) noexcept nogil:
    # Return the entry of `pairs`. Some pairs share one, which costs a vain try.
    return (c * 33 ^ d) & (PAIRS - 1)


cdef inline uint8_t lowest(uint64_t bits) noexcept nogil:
    return <uint8_t> ctz64(bits) if bits else <uint8_t> NONE_FOUND


cdef void regexes_init(Regexes* r) noexcept nogil
cdef void regexes_free(Regexes* r) noexcept nogil
cdef int regexes_add(Regexes* r, const uint8_t* pattern, size_t n, uint64_t bits) noexcept nogil
cdef uint64_t regexes_search(const Regexes* r, const uint8_t* text, size_t n) noexcept nogil
