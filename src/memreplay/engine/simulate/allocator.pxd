# PyTorch's caching allocator, which chooses a block for each request.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.simulate.heap cimport Allocator

cdef int take(Allocator* a, uint32_t owner, int64_t requested, uint64_t stream, uint32_t pool,
              bint private_pool, bint retries, uint32_t* block) noexcept nogil
cdef int request_free(Allocator* a, uint32_t block) noexcept nogil
cdef int complete(Allocator* a, uint32_t block) noexcept nogil
cdef int empty_cache(Allocator* a, uint32_t pool) noexcept nogil
cdef int release_pool(Allocator* a, uint32_t pool) noexcept nogil
