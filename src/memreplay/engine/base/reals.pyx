"""Read and write floats as Python and JSON do, in any locale."""

from libc.math cimport isfinite
from libc.stdint cimport uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtod
from libc.string cimport memcmp, memcpy, strlen

cdef inline uint64_t skip_digits(const uint8_t* p, uint64_t i, uint64_t n) noexcept nogil:
    while i < n and 48 <= p[i] <= 57:
        i += 1
    return i


cdef bint is_real(const uint8_t* p, uint64_t n, bint of_json) noexcept nogil:
    # [-+] digits [. digits] [e [-+] digits]. JSON doesn't allow "+1", "01", ".5" or "1.".
    cdef uint64_t i = 1 if n and (p[0] == 45 or (p[0] == 43 and not of_json)) else 0
    cdef uint64_t whole = i
    cdef uint64_t digits, start
    i = skip_digits(p, i, n)
    digits = i - whole
    if of_json and (digits == 0 or (digits > 1 and p[whole] == 48)):
        return False
    if i < n and p[i] == 46:
        start = i + 1
        i = skip_digits(p, start, n)
        if of_json and i == start:
            return False
        digits += i - start
    if digits == 0:
        return False
    if i < n and (p[i] | 32) == 101:
        i += 1
        if i < n and (p[i] == 45 or p[i] == 43):
            i += 1
        start = i
        i = skip_digits(p, start, n)
        if i == start:
            return False
    return i == n


cdef inline bint is_word(const uint8_t* p, uint64_t n, const char* word) noexcept nogil:
    # Compare with a lower-case word, ignoring case.
    cdef uint64_t i
    if n != strlen(word):
        return False
    for i in range(n):
        if p[i] | 32 != <uint8_t> word[i]:
            return False
    return True


cdef bint is_named_real(const uint8_t* p, uint64_t n) noexcept nogil:
    # inf, infinity or nan, with or without a sign, as Python's repr writes them.
    cdef uint64_t i = 1 if n and (p[0] == 45 or p[0] == 43) else 0
    return (is_word(p + i, n - i, b"inf") or is_word(p + i, n - i, b"infinity")
            or is_word(p + i, n - i, b"nan"))


cdef bint is_json_name(const uint8_t* p, uint64_t n) noexcept nogil:
    # json.dump writes NaN, Infinity and -Infinity although JSON doesn't have them.
    return ((n == 3 and memcmp(p, b"NaN", 3) == 0) or (n == 8 and memcmp(p, b"Infinity", 8) == 0)
            or (n == 9 and memcmp(p, b"-Infinity", 9) == 0))


cdef double real_of(const uint8_t* p, uint64_t n) noexcept nogil:
    # Parse a number that is_real() or is_named_real() accepted; n is at most REAL_LIMIT.
    cdef char[REAL_LIMIT + 16] text
    cdef char[16] half
    cdef char* stop = NULL
    cdef double real
    cdef uint64_t point = 0
    cdef uint64_t wide
    memcpy(text, p, n)
    text[n] = 0
    real = strtod(text, &stop)
    if stop == text + n:
        return real
    # The locale's decimal point isn't "."; print 0.5 to find out what it is.
    snprintf(half, sizeof(half), b"%.1f", 0.5)
    wide = strlen(half) - 2
    while point < n and p[point] != 46:
        point += 1
    if point < n and wide < 8:
        memcpy(text + point, half + 1, wide)
        memcpy(text + point + wide, p + point + 1, n - point - 1)
        text[n + wide - 1] = 0
    return strtod(text, NULL)


cdef void put_real(char* out, double real) noexcept nogil:
    # Write the shortest text that reads back as the same number, with a point or an exponent, as
    # Python does; "null" if it isn't finite. At most 32 characters.
    cdef char[40] text
    cdef int digits = 15
    cdef int i = 0
    cdef int n = 0
    cdef bint whole = True
    if not isfinite(real):
        memcpy(out, b"null", 5)
        return
    snprintf(text, sizeof(text), b"%.15g", real)
    while digits < 17 and strtod(text, NULL) != real:
        digits += 1
        snprintf(text, sizeof(text), b"%.*g", digits, real)
    while text[i] != 0 and n < 29:
        if (48 <= text[i] <= 57) or text[i] == 45 or text[i] == 43 or text[i] == 101:
            whole = whole and text[i] != 101
            out[n] = text[i]
            n += 1
        elif whole:
            # Skip the locale's decimal point, which may be several bytes.
            whole = False
            out[n] = 46
            n += 1
        i += 1
    if whole:
        memcpy(out + n, b".0", 2)
        n += 2
    out[n] = 0
