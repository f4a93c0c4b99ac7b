# Arithmetic on columns of integers: element by element, sums, selections, sorting and searching.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf


cdef struct View:
    # A column in memory. `format` is a struct letter: ? B i I q Q.
    const char* data
    int64_t stride    # bytes from one row to the next; may be 0 or negative
    int64_t n
    char format


cdef enum Op:
    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    DIVIDE = 3          # rounds down; the divisor is positive
    SHIFT_LEFT = 4
    SHIFT_RIGHT = 5     # keeps the sign
    SHIFT_UNSIGNED = 6
    AND = 7
    OR = 8
    XOR = 9
    LOWER = 10          # the minimum of two numbers
    HIGHER = 11
    LESS = 12           # from here on, results are 0 or 1
    LESS_EQUAL = 13
    EQUAL = 14
    NOT_EQUAL = 15
    GREATER_EQUAL = 16
    GREATER = 17


cdef struct Totals:
    # Statistics of a column. `least` and `most` are compared as unsigned numbers if it has Qs.
    int64_t sum
    int64_t least
    int64_t most
    int64_t most_at     # the first row with the maximum
    int64_t nonzero
    uint64_t some       # all values, combined by OR
    uint64_t every      # all values, combined by AND


cdef int64_t item_size(char format) noexcept nogil
cdef int64_t item(const View* v, int64_t row) noexcept nogil
cdef void copy_rows(const View* v, char* out, char format) noexcept nogil
cdef void combine(Op op, const View* a, const View* b, bint unsigned,
                  char* out, char format) noexcept nogil
cdef void scale(const View* v, double factor, int64_t* out) noexcept nogil
cdef void reaches(const View* a, double factor, const View* b, char* out) noexcept nogil
cdef void choose(const View* mask, const View* a, const View* b,
                 char* out, char format) noexcept nogil
cdef Totals totals(const View* v) noexcept nogil
cdef void running_sums(const View* v, int64_t* out) noexcept nogil
cdef int64_t highest_less(const View* v, const View* changes, int64_t least) noexcept nogil
cdef int64_t extremes(const View* v, const View* starts, uint32_t* lowest,
                      uint32_t* highest) noexcept nogil
cdef int64_t take(const View* v, const View* rows, char* out, char format) noexcept nogil
cdef int64_t put(char* into, char format, int64_t n, const View* rows,
                 const View* values) noexcept nogil
cdef int64_t add_at(int64_t* into, int64_t n, const View* rows, const View* values) noexcept nogil
cdef void select(const View* v, const View* mask, char* out) noexcept nogil
cdef void put_selected(char* into, char format, const View* mask, const View* values) noexcept nogil
cdef void nonzero(const View* v, uint32_t* out) noexcept nogil
cdef int sorted_order(const View* v, uint32_t* out) noexcept nogil
cdef int places_in(const View* sorted, const View* values, bint right,
                   uint32_t* out) noexcept nogil
cdef int distinct(const View* v, Buf* values, uint32_t* places) noexcept nogil
cdef int members(const View* v, const View* of, char* out) noexcept nogil
cdef void row_distances(const int64_t* rows, int64_t width, const int64_t* own, const View* others,
                        int64_t* out) noexcept nogil
