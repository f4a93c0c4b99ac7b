# What a file may ask for before reading it ends in an error, whatever its size.
from libc.stdint cimport uint64_t

cdef struct Limits:
    uint64_t depth          # containers (MARKs) that may be open at once
    uint64_t string_bytes   # of one string or bytes object
    uint64_t values         # on the stack
    uint64_t memo           # entries
    uint64_t nodes          # kept values (settings, metadata)
    uint64_t rows           # of one kind: events, segments, blocks, annotations; frames, stacks
    uint64_t devices        # traces; and a segment's device is below it
