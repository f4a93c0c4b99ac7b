# The functions that a pickle may name. They are only data: the reader checks their arguments and
# never calls them.
from libc.stdint cimport uint32_t

cdef enum Inert:
    # TorchScript's C++ pickler once tagged its containers with calls of the first two functions,
    # which return their first argument. Protocols 0 to 2 have no opcode for bytes, so pickle writes
    # them as calls of the last two functions.
    RESTORE_TYPE_TAG = 0    # (container, text)
    BUILD_INTLIST = 1       # (list,)
    CODECS_ENCODE = 2       # (text, 'latin1')
    EMPTY_BYTES = 3         # ()
    INERTS = 4


cdef inline const char* inert_global(uint32_t which) noexcept nogil:
    # the opcode that names the function
    if which == BUILD_INTLIST:
        return b"ctorch.jit._pickle\nbuild_intlist\n"
    if which == CODECS_ENCODE:
        return b"c_codecs\nencode\n"
    if which == EMPTY_BYTES:
        return b"c__builtin__\nbytes\n"
    return b"ctorch.jit._pickle\nrestore_type_tag\n"
