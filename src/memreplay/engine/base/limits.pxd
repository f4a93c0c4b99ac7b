# Limits on a file's content. A file that exceeds a limit isn't read, however small the file is.
from libc.stdint cimport uint64_t

cdef struct Limits:
    uint64_t depth          # nested containers (open MARKs)
    uint64_t string_bytes   # per string or bytes object
    uint64_t values         # on the stack
    uint64_t memo           # entries
    uint64_t nodes          # kept values (settings, metadata)
    uint64_t rows           # per table: events, segments, blocks, annotations, frames, stacks
    uint64_t devices        # traces; a segment's device index must be lower
