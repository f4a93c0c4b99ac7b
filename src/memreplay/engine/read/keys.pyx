"""How the names in keys.pxd are spelled."""

from libc.stdint cimport uint32_t
from libc.string cimport strlen
from memreplay.engine.base.hashmap cimport spans_intern
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.read.tables cimport Tables

ctypedef const char* Name

# Constant after import.
cdef Name[S_KNOWN] NAMES = [
    b"",
    b"action", b"addr", b"size", b"stream", b"time_us", b"frames", b"compile_context",
    b"user_metadata", b"pool_id", b"device_free", b"memreplay_carried", b"device", b"address",
    b"total_size", b"allocated_size", b"active_size", b"requested_size", b"segment_type",
    b"segment_pool_id", b"is_expandable", b"blocks", b"state", b"history", b"real_size",
    b"filename", b"line", b"name", b"fx_node_op", b"fx_node_name", b"fx_node_target",
    b"fx_original_trace", b"segments", b"device_traces", b"allocator_settings",
    b"external_annotations", b"trace_alloc_overflowed", b"trace_alloc_max_entries", b"stage",
    b"memreplay",
    b"alloc", b"free_requested", b"free_completed",
    b"segment_alloc", b"segment_free", b"segment_map", b"segment_unmap", b"oom", b"snapshot",
    b"user_defined", b"annotate", b"workspace_snapshot", b"empty_cache", b"inactive",
    b"active_allocated", b"active_pending_free", b"active_awaiting_free",
]


cdef const char* key_name(uint32_t key) noexcept nogil:
    return NAMES[key if key < S_KNOWN else 0]


cdef int keys_init(Tables* t) noexcept nogil:
    # Intern the known names, so that a name's string id equals its keys.Key.
    cdef uint32_t i
    for i in range(S_KNOWN):
        if spans_intern(&t.strings, NAMES[i], strlen(NAMES[i])) != i:
            return fail(&t.status, ERR_MEMORY, "strings")
    return OK
