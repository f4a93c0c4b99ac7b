"""Compute with columns of integers of any type, in chunks that stay in the CPU's cache.

Each chunk is widened to 64 bits, so every operation is written once. Sums and products wrap around
at 64 bits.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from memreplay.engine.base.growbuf cimport Buf, buf_reserve
from memreplay.engine.base.status cimport ERR_MEMORY, OK

cdef enum:
    CHUNK = 1024        # rows
    DIGITS = 8          # bytes of a number
    BUCKETS = 256
    # With fewer distinct values than this, or than a few times the rows, a table replaces sorting.
    SMALL_TABLE = 1 << 16
    TABLE_SHARE = 4


cdef inline uint64_t sign() noexcept nogil:
    return <uint64_t> 1 << 63


cdef int64_t item_size(char format) noexcept nogil:
    if format == c"?" or format == c"B":
        return 1
    return 4 if format == c"i" or format == c"I" else 8


cdef inline int64_t read(const char* at, char format) noexcept nogil:
    if format == c"q" or format == c"Q":
        return (<const int64_t*> at)[0]
    if format == c"I":
        return (<const uint32_t*> at)[0]
    if format == c"i":
        return (<const int32_t*> at)[0]
    return (<const uint8_t*> at)[0]


cdef int64_t item(const View* v, int64_t row) noexcept nogil:
    return read(v.data + row * v.stride, v.format)


cdef inline const int64_t* widened(const View* v, int64_t first, int64_t n,
                                   int64_t* room) noexcept nogil:
    # Return n rows as 64-bit numbers: in place if they are, else copied to `room`.
    cdef const char* at = v.data + first * v.stride
    cdef int64_t i
    cdef int64_t stride = v.stride
    if v.format == c"q" or v.format == c"Q":
        if stride == 8:
            return <const int64_t*> at
        for i in range(n):
            room[i] = (<const int64_t*> (at + i * stride))[0]
    elif v.format == c"I":
        if stride == 4:
            for i in range(n):
                room[i] = (<const uint32_t*> at)[i]
        else:
            for i in range(n):
                room[i] = (<const uint32_t*> (at + i * stride))[0]
    elif v.format == c"i":
        for i in range(n):
            room[i] = (<const int32_t*> (at + i * stride))[0]
    elif stride == 1:
        for i in range(n):
            room[i] = (<const uint8_t*> at)[i]
    else:
        for i in range(n):
            room[i] = (<const uint8_t*> (at + i * stride))[0]
    return room


cdef inline void narrowed(const int64_t* values, int64_t n, char* out, char format) noexcept nogil:
    # Store n numbers in a format's size.
    cdef int64_t i
    if format == c"q" or format == c"Q":
        if <const char*> values != out:
            memcpy(out, values, n * 8)
    elif format == c"i" or format == c"I":
        for i in range(n):
            (<uint32_t*> out)[i] = <uint32_t> values[i]
    else:
        for i in range(n):
            (<uint8_t*> out)[i] = <uint8_t> values[i]


cdef void copy_rows(const View* v, char* out, char format) noexcept nogil:
    # Store a column in another format, in order.
    cdef int64_t[CHUNK] room
    cdef int64_t at = 0
    cdef int64_t n
    while at < v.n:
        n = min(CHUNK, v.n - at)
        narrowed(widened(v, at, n, room), n, out + at * item_size(format), format)
        at += n


# ---- element by element

cdef inline const int64_t* comparable(const int64_t* values, int64_t n,
                                      int64_t* room) noexcept nogil:
    # Return unsigned numbers as signed ones in the same order.
    cdef int64_t i
    for i in range(n):
        room[i] = <int64_t> (<uint64_t> values[i] ^ sign())
    return room


cdef inline void arithmetic(Op op, const int64_t* x, const int64_t* y, int64_t n,
                            int64_t* out) noexcept nogil:
    cdef int64_t i
    if op == ADD:
        for i in range(n):
            out[i] = <int64_t> (<uint64_t> x[i] + <uint64_t> y[i])
    elif op == SUBTRACT:
        for i in range(n):
            out[i] = <int64_t> (<uint64_t> x[i] - <uint64_t> y[i])
    elif op == MULTIPLY:
        for i in range(n):
            out[i] = <int64_t> (<uint64_t> x[i] * <uint64_t> y[i])
    elif op == DIVIDE:
        for i in range(n):
            out[i] = x[i] // y[i] - (x[i] < 0 and x[i] % y[i] != 0)
    elif op == SHIFT_LEFT:
        for i in range(n):
            out[i] = <int64_t> (<uint64_t> x[i] << y[i])
    elif op == SHIFT_RIGHT:
        for i in range(n):
            out[i] = x[i] >> y[i]
    elif op == SHIFT_UNSIGNED:
        for i in range(n):
            out[i] = <int64_t> (<uint64_t> x[i] >> y[i])
    elif op == AND:
        for i in range(n):
            out[i] = x[i] & y[i]
    elif op == OR:
        for i in range(n):
            out[i] = x[i] | y[i]
    elif op == XOR:
        for i in range(n):
            out[i] = x[i] ^ y[i]
    elif op == LOWER:
        for i in range(n):
            out[i] = x[i] if x[i] < y[i] else y[i]
    elif op == HIGHER:
        for i in range(n):
            out[i] = x[i] if x[i] > y[i] else y[i]


cdef inline void comparison(Op op, const int64_t* x, const int64_t* y, int64_t n,
                            uint8_t* out) noexcept nogil:
    cdef int64_t i
    if op == LESS:
        for i in range(n):
            out[i] = x[i] < y[i]
    elif op == LESS_EQUAL:
        for i in range(n):
            out[i] = x[i] <= y[i]
    elif op == EQUAL:
        for i in range(n):
            out[i] = x[i] == y[i]
    elif op == NOT_EQUAL:
        for i in range(n):
            out[i] = x[i] != y[i]
    elif op == GREATER_EQUAL:
        for i in range(n):
            out[i] = x[i] >= y[i]
    elif op == GREATER:
        for i in range(n):
            out[i] = x[i] > y[i]


cdef void combine_flags(Op op, const View* a, const View* b, uint8_t* out) noexcept nogil:
    # Combine contiguous columns of flags, without widening them.
    cdef const uint8_t* x = <const uint8_t*> a.data
    cdef const uint8_t* y = <const uint8_t*> b.data
    cdef int64_t i
    if op == AND:
        for i in range(a.n):
            out[i] = x[i] & y[i]
    elif op == OR:
        for i in range(a.n):
            out[i] = x[i] | y[i]
    else:
        for i in range(a.n):
            out[i] = x[i] ^ y[i]


cdef void combine(Op op, const View* a, const View* b, bint unsigned,
                  char* out, char format) noexcept nogil:
    # Combine two columns of the same length. `unsigned`: whether to compare them as unsigned.
    cdef int64_t[CHUNK] room_a
    cdef int64_t[CHUNK] room_b
    cdef int64_t[CHUNK] found
    cdef const int64_t* x
    cdef const int64_t* y
    cdef int64_t at = 0
    cdef int64_t n
    if format == c"?" and AND <= op <= XOR and a.stride == 1 and b.stride == 1:
        combine_flags(op, a, b, <uint8_t*> out)
        return
    while at < a.n:
        n = min(CHUNK, a.n - at)
        x = widened(a, at, n, room_a)
        y = widened(b, at, n, room_b)
        if unsigned:
            x = comparable(x, n, room_a)
            y = comparable(y, n, room_b)
        if op >= LESS:
            comparison(op, x, y, n, <uint8_t*> out + at)
        else:
            arithmetic(op, x, y, n, found)
            if unsigned:
                comparable(found, n, found)
            narrowed(found, n, out + at * item_size(format), format)
        at += n


cdef void scale(const View* v, double factor, int64_t* out) noexcept nogil:
    # Multiply by a factor, and cut off the fraction.
    cdef int64_t i
    for i in range(v.n):
        out[i] = <int64_t> (<double> item(v, i) * factor)


cdef void reaches(const View* a, double factor, const View* b, char* out) noexcept nogil:
    # Compare each number with a multiple of another one: a >= factor * b.
    cdef int64_t i
    for i in range(a.n):
        out[i] = <double> item(a, i) >= factor * <double> item(b, i)


cdef void choose(const View* mask, const View* a, const View* b,
                 char* out, char format) noexcept nogil:
    # Take each row from `a` if the mask is set, else from `b`.
    cdef int64_t[CHUNK] room_mask
    cdef int64_t[CHUNK] room_a
    cdef int64_t[CHUNK] room_b
    cdef int64_t[CHUNK] found
    cdef const int64_t* flag
    cdef const int64_t* x
    cdef const int64_t* y
    cdef int64_t at = 0
    cdef int64_t i, n
    while at < mask.n:
        n = min(CHUNK, mask.n - at)
        flag = widened(mask, at, n, room_mask)
        x = widened(a, at, n, room_a)
        y = widened(b, at, n, room_b)
        for i in range(n):
            found[i] = x[i] if flag[i] else y[i]
        narrowed(found, n, out + at * item_size(format), format)
        at += n


# ---- whole columns

cdef Totals totals(const View* v) noexcept nogil:
    cdef Totals t
    cdef int64_t[CHUNK] room
    cdef const int64_t* x
    cdef uint64_t flip = sign() if v.format == c"Q" else 0
    cdef uint64_t sum = 0
    cdef int64_t most = INT64_MIN
    cdef int64_t least = INT64_MAX
    cdef int64_t at = 0
    cdef int64_t i, n, high, low
    memset(&t, 0, sizeof(Totals))
    t.every = ~(<uint64_t> 0)
    while at < v.n:
        n = min(CHUNK, v.n - at)
        x = widened(v, at, n, room)
        high = INT64_MIN
        low = INT64_MAX
        for i in range(n):
            sum += <uint64_t> x[i]
            t.nonzero += x[i] != 0
            t.some |= <uint64_t> x[i]
            t.every &= <uint64_t> x[i]
        for i in range(n):
            high = max(high, <int64_t> (<uint64_t> x[i] ^ flip))
            low = min(low, <int64_t> (<uint64_t> x[i] ^ flip))
        if high > most or at == 0:
            most = high
            for i in range(n):
                if <int64_t> (<uint64_t> x[i] ^ flip) == high:
                    t.most_at = at + i
                    break
        least = min(least, low)
        at += n
    t.sum = <int64_t> sum
    t.most = <int64_t> (<uint64_t> most ^ flip)
    t.least = <int64_t> (<uint64_t> least ^ flip)
    return t


cdef void running_sums(const View* v, int64_t* out) noexcept nogil:
    cdef int64_t[CHUNK] room
    cdef const int64_t* x
    cdef uint64_t sum = 0
    cdef int64_t at = 0
    cdef int64_t i, n
    while at < v.n:
        n = min(CHUNK, v.n - at)
        x = widened(v, at, n, room)
        for i in range(n):
            sum += <uint64_t> x[i]
            out[at + i] = <int64_t> sum
        at += n


cdef int64_t highest_less(const View* v, const View* changes, int64_t least) noexcept nogil:
    # Return the highest number after subtracting the running sums of `changes`, but no less than
    # `least`. Needs no memory for the sums and the differences.
    cdef int64_t[CHUNK] room
    cdef int64_t[CHUNK] other_room
    cdef const int64_t* x
    cdef const int64_t* y
    cdef uint64_t sum = 0
    cdef int64_t at = 0
    cdef int64_t i, n
    while at < v.n:
        n = min(CHUNK, v.n - at)
        x = widened(v, at, n, room)
        y = widened(changes, at, n, other_room)
        for i in range(n):
            sum += <uint64_t> y[i]
            least = max(least, <int64_t> (<uint64_t> x[i] - sum))
        at += n
    return least


cdef int64_t extremes(const View* v, const View* starts, uint32_t* lowest,
                      uint32_t* highest) noexcept nogil:
    # Store the first rows with the minimum and the maximum of each part. Return the first part
    # that doesn't exist or is empty, else -1.
    cdef uint64_t flip = sign() if v.format == c"Q" else 0
    cdef int64_t part, row, end, value, low, high
    for part in range(starts.n):
        row = item(starts, part)
        end = item(starts, part + 1) if part + 1 < starts.n else v.n
        if not 0 <= row < end <= v.n:
            return part
        low = high = <int64_t> (<uint64_t> item(v, row) ^ flip)
        lowest[part] = highest[part] = <uint32_t> row
        for row in range(row + 1, end):
            value = <int64_t> (<uint64_t> item(v, row) ^ flip)
            if value < low:
                low = value
                lowest[part] = <uint32_t> row
            elif value > high:
                high = value
                highest[part] = <uint32_t> row
    return -1


# ---- rows by number

cdef inline int64_t in_range(int64_t row, int64_t n) noexcept nogil:
    # Return the row, counted from the end if it's negative; -1 if there's no such row.
    if row < 0:
        row += n
    return row if 0 <= row < n else -1


cdef int64_t take(const View* v, const View* rows, char* out, char format) noexcept nogil:
    # Store the rows with these numbers. Return the position of the first wrong number, else -1.
    cdef int64_t[CHUNK] room
    cdef int64_t[CHUNK] found
    cdef const int64_t* number
    cdef int64_t at = 0
    cdef int64_t i, n, row
    cdef int64_t size = item_size(format)
    while at < rows.n:
        n = min(CHUNK, rows.n - at)
        number = widened(rows, at, n, room)
        for i in range(n):
            row = in_range(number[i], v.n)
            if row < 0:
                return at + i
            found[i] = read(v.data + row * v.stride, v.format)
        narrowed(found, n, out + at * size, format)
        at += n
    return -1


cdef int64_t put(char* into, char format, int64_t n, const View* rows,
                 const View* values) noexcept nogil:
    # Set rows in order. Return the position of the first wrong number, else -1.
    cdef int64_t i, row, value
    cdef int64_t size = item_size(format)
    for i in range(rows.n):
        row = in_range(item(rows, i), n)
        if row < 0:
            return i
        value = item(values, i)
        narrowed(&value, 1, into + row * size, format)
    return -1


cdef int64_t add_at(int64_t* into, int64_t n, const View* rows, const View* values) noexcept nogil:
    # Add each value to its row. Return the position of the first wrong number, else -1.
    cdef int64_t[CHUNK] room_a
    cdef int64_t[CHUNK] room_b
    cdef const int64_t* number
    cdef const int64_t* value
    cdef int64_t at = 0
    cdef int64_t i, row, part
    while at < rows.n:
        part = min(CHUNK, rows.n - at)
        number = widened(rows, at, part, room_a)
        value = widened(values, at, part, room_b)
        for i in range(part):
            row = in_range(number[i], n)
            if row < 0:
                return at + i
            into[row] = <int64_t> (<uint64_t> into[row] + <uint64_t> value[i])
        at += part
    return -1


# ---- rows by flag

cdef void select(const View* v, const View* mask, char* out) noexcept nogil:
    # Store the rows whose flag is set. There must be room for all of them.
    cdef int64_t size = item_size(v.format)
    cdef const char* at = v.data
    cdef int64_t i
    for i in range(mask.n):
        if mask.data[i * mask.stride]:
            if size == 8:
                (<int64_t*> out)[0] = (<const int64_t*> at)[0]
            elif size == 4:
                (<int32_t*> out)[0] = (<const int32_t*> at)[0]
            else:
                out[0] = at[0]
            out += size
        at += v.stride


cdef void put_selected(char* into, char format, const View* mask,
                       const View* values) noexcept nogil:
    # Set the rows whose flag is set, in order. There must be a value for each.
    cdef int64_t size = item_size(format)
    cdef int64_t i, value
    cdef int64_t at = 0
    for i in range(mask.n):
        if mask.data[i * mask.stride]:
            value = item(values, at)
            narrowed(&value, 1, into + i * size, format)
            at += 1


cdef void nonzero(const View* v, uint32_t* out) noexcept nogil:
    # Store the numbers of the rows that aren't 0.
    cdef int64_t[CHUNK] room
    cdef const int64_t* x
    cdef int64_t at = 0
    cdef int64_t found = 0
    cdef int64_t i, n
    while at < v.n:
        n = min(CHUNK, v.n - at)
        x = widened(v, at, n, room)
        for i in range(n):
            if x[i]:
                out[found] = <uint32_t> (at + i)
                found += 1
        at += n


# ---- sorting and searching

cdef void ordered_keys(const View* v, uint64_t* out) noexcept nogil:
    # Store the numbers as unsigned ones in the same order.
    cdef int64_t[CHUNK] room
    cdef const int64_t* x
    cdef uint64_t flip = 0 if v.format == c"Q" else sign()
    cdef int64_t at = 0
    cdef int64_t i, n
    while at < v.n:
        n = min(CHUNK, v.n - at)
        x = widened(v, at, n, room)
        for i in range(n):
            out[at + i] = <uint64_t> x[i] ^ flip
        at += n


cdef bint sort_by_digit(uint64_t** keys, uint32_t** rows, int64_t n, int digit) noexcept nogil:
    # Sort from keys[0] to keys[1] by one byte, and swap them. Does nothing if all have the same.
    cdef uint64_t[BUCKETS] ends
    cdef uint64_t sum = 0
    cdef uint64_t count, place
    cdef int64_t i
    cdef int shift = 8 * digit
    memset(ends, 0, sizeof(ends))
    for i in range(n):
        ends[(keys[0][i] >> shift) & 0xFF] += 1
    if ends[(keys[0][0] >> shift) & 0xFF] == <uint64_t> n:
        return False
    for i in range(BUCKETS):
        count = ends[i]
        ends[i] = sum
        sum += count
    for i in range(n):
        place = ends[(keys[0][i] >> shift) & 0xFF]
        ends[(keys[0][i] >> shift) & 0xFF] += 1
        keys[1][place] = keys[0][i]
        rows[1][place] = rows[0][i]
    keys[0], keys[1] = keys[1], keys[0]
    rows[0], rows[1] = rows[1], rows[0]
    return True


cdef int sorted_order(const View* v, uint32_t* out) noexcept nogil:
    # Store the row numbers in ascending order of the numbers; equal numbers keep their order.
    cdef uint64_t* all_keys = <uint64_t*> malloc(2 * v.n * sizeof(uint64_t) + 1)
    cdef uint32_t* more_rows = <uint32_t*> malloc(v.n * sizeof(uint32_t) + 1)
    cdef (uint64_t*)[2] keys
    cdef (uint32_t*)[2] rows
    cdef int64_t i
    cdef int digit
    if all_keys == NULL or more_rows == NULL:
        free(all_keys)
        free(more_rows)
        return ERR_MEMORY
    keys[0] = all_keys
    keys[1] = all_keys + v.n
    rows[0] = out
    rows[1] = more_rows
    ordered_keys(v, keys[0])
    for i in range(v.n):
        out[i] = <uint32_t> i
    if v.n:
        for digit in range(DIGITS):
            sort_by_digit(keys, rows, v.n, digit)
    if rows[0] != out:
        memcpy(out, rows[0], v.n * sizeof(uint32_t))
    free(all_keys)
    free(more_rows)
    return OK


cdef inline int64_t place_of(const uint64_t* sorted, int64_t n, uint64_t value, bint right,
                             int64_t near) noexcept nogil:
    # Return how many numbers are less than the value (`right`: or equal), searching outwards from
    # row `near`, because consecutive values are often close together.
    cdef int64_t low = near
    cdef int64_t high = near
    cdef int64_t step = 1
    cdef int64_t middle
    while high < n and (sorted[high] < value or (right and sorted[high] == value)):
        low = high + 1
        high = min(n, high + step)
        step *= 2
    if low == near:
        while low > 0 and not (sorted[low - 1] < value or (right and sorted[low - 1] == value)):
            high = low - 1
            low = max(0, low - step)
            step *= 2
    while low < high:
        middle = low + (high - low) // 2
        if sorted[middle] < value or (right and sorted[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


cdef int places_in(const View* sorted, const View* values, bint right,
                   uint32_t* out) noexcept nogil:
    # Store for each value how many of the sorted numbers are less (`right`: or equal).
    cdef uint64_t[CHUNK] room
    cdef View part = values[0]
    cdef uint64_t* keys = <uint64_t*> malloc(sorted.n * sizeof(uint64_t) + 1)
    cdef int64_t near = 0
    cdef int64_t at = 0
    cdef int64_t i
    if keys == NULL:
        return ERR_MEMORY
    ordered_keys(sorted, keys)
    while at < values.n:
        part.data = values.data + at * values.stride
        part.n = min(CHUNK, values.n - at)
        ordered_keys(&part, room)
        for i in range(part.n):
            near = place_of(keys, sorted.n, room[i], right, near)
            out[at + i] = <uint32_t> near
        at += part.n
    free(keys)
    return OK


cdef uint64_t table_size(const Totals* t, int64_t n) noexcept nogil:
    # Return how many entries a table needs with one for each possible value; 0 if that's too many.
    cdef uint64_t size = <uint64_t> t.most - <uint64_t> t.least
    if n == 0 or size >= <uint64_t> max(SMALL_TABLE, TABLE_SHARE * n):
        return 0
    return size + 1


cdef int distinct(const View* v, Buf* values, uint32_t* places) noexcept nogil:
    # Store the distinct numbers in ascending order, as i64, and each row's place among them.
    cdef Totals t = totals(v)
    cdef uint64_t size = table_size(&t, v.n)
    cdef uint32_t* table
    cdef uint64_t i
    cdef int64_t row
    if v.n == 0:
        return OK
    if size == 0:
        return distinct_by_sorting(v, values, places)
    table = <uint32_t*> calloc(size, sizeof(uint32_t))
    if table == NULL:
        return ERR_MEMORY
    for row in range(v.n):
        table[<uint64_t> item(v, row) - <uint64_t> t.least] = 1
    for i in range(size):
        if table[i]:
            if values.len == values.cap and buf_reserve(values, 1) < 0:
                free(table)
                return ERR_MEMORY
            (<uint64_t*> values.data)[values.len] = <uint64_t> t.least + i
            table[i] = <uint32_t> values.len
            values.len += 1
    for row in range(v.n):
        places[row] = table[<uint64_t> item(v, row) - <uint64_t> t.least]
    free(table)
    return OK


cdef int distinct_by_sorting(const View* v, Buf* values, uint32_t* places) noexcept nogil:
    cdef uint32_t* order = <uint32_t*> malloc(v.n * sizeof(uint32_t) + 1)
    cdef int64_t* found
    cdef int64_t i, value
    if order == NULL or sorted_order(v, order) != OK:
        free(order)
        return ERR_MEMORY
    for i in range(v.n):
        value = item(v, order[i])
        found = <int64_t*> values.data
        if values.len == 0 or found[values.len - 1] != value:
            if values.len == values.cap and buf_reserve(values, 1) < 0:
                free(order)
                return ERR_MEMORY
            (<int64_t*> values.data)[values.len] = value
            values.len += 1
        places[order[i]] = <uint32_t> (values.len - 1)
    free(order)
    return OK


cdef int members(const View* v, const View* of, char* out) noexcept nogil:
    # Store whether each number is among those in `of`, which is sorted.
    cdef Totals t = totals(of)
    cdef uint64_t size = table_size(&t, v.n + of.n)
    cdef uint32_t* places
    cdef char* table
    cdef uint64_t at
    cdef int64_t row
    if of.n == 0:
        memset(out, 0, v.n)
        return OK
    if size:
        table = <char*> calloc(size, 1)
        if table == NULL:
            return ERR_MEMORY
        for row in range(of.n):
            table[<uint64_t> item(of, row) - <uint64_t> t.least] = 1
        for row in range(v.n):
            at = <uint64_t> item(v, row) - <uint64_t> t.least
            out[row] = table[at] if at < size else 0
        free(table)
        return OK
    places = <uint32_t*> malloc(v.n * sizeof(uint32_t) + 1)
    if places == NULL or places_in(of, v, False, places) != OK:
        free(places)
        return ERR_MEMORY
    for row in range(v.n):
        out[row] = places[row] < of.n and item(of, places[row]) == item(v, row)
    free(places)
    return OK


cdef void row_distances(const int64_t* rows, int64_t width, const int64_t* own, const View* others,
                        int64_t* out) noexcept nogil:
    # Store the sum of absolute differences between one row and each of `others`.
    cdef const int64_t* row
    cdef int64_t at, i
    cdef uint64_t sum
    for at in range(others.n):
        row = rows + item(others, at) * width
        sum = 0
        for i in range(width):
            sum += (<uint64_t> max(row[i], own[i])) - <uint64_t> min(row[i], own[i])
        out[at] = <int64_t> sum
