"""The blocks in use, the tensors that use them, and who holds these."""

import time

from cpython.list cimport PyList_GetItem, PyList_Size
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from memreplay._core cimport new_seed
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_item
from memreplay.engine.base.hashmap cimport (
    NONE32, Map64, Slot64, map64_at, map64_free, map64_get, map64_init,
)
from memreplay.engine.record._referring cimport Referrers

cdef size_t OFTEN = 256  # tensors between two looks at the clock


cdef struct Block:
    uint64_t address
    int64_t size
    uint32_t group             # the group that holds it; NONE32: not known yet


cdef struct Group:
    int64_t size
    int64_t count
    int64_t small_views        # tensors that use less than half of their block
    bint known                 # whether something in Python holds it


cdef struct Use:
    # A tensor, and the block it uses.
    int64_t size
    uint32_t object
    uint32_t block


cdef int by_address(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const Block*> a).address, y = (<const Block*> b).address
    return (x > y) - (x < y)


cdef int largest_first(const void* a, const void* b) noexcept nogil:
    cdef const Use* x = <const Use*> a
    cdef const Use* y = <const Use*> b
    if x.size != y.size:
        return (x.size < y.size) - (x.size > y.size)
    return (x.object > y.object) - (x.object < y.object)


cdef class Blocks:
    """The blocks in use of PyTorch's segments, and the group that holds each.

    Groups have the numbers that `add_group` returns.
    """

    cdef Buf blocks            # Block, sorted by address
    cdef Buf groups            # Group
    cdef Map64 places          # address -> index in `blocks` + 1
    cdef int64_t size
    cdef size_t without

    def __cinit__(self, segments: object) -> None:
        cdef Block block
        cdef Slot64* slot
        cdef Block* blocks
        cdef size_t i
        buf_init(&self.blocks, sizeof(Block))
        buf_init(&self.groups, sizeof(Group))
        self.size = 0
        if map64_init(&self.places, new_seed()) != 0:
            raise MemoryError
        block.group = NONE32
        for segment in segments:
            at = segment["address"]
            for one in segment["blocks"]:
                size = one["size"]
                if one["state"] == "active_allocated":
                    block.address = one.get("address", at)
                    block.size = one.get("requested_size", size)
                    self.size += block.size
                    if push_item(&self.blocks, &block) != 0:
                        raise MemoryError
                at += size
        self.without = self.blocks.len
        blocks = <Block*> self.blocks.data
        if self.blocks.len:
            qsort(blocks, self.blocks.len, sizeof(Block), by_address)
        for i in range(self.blocks.len):
            slot = map64_at(&self.places, blocks[i].address, 0)
            if slot == NULL:
                raise MemoryError
            slot.value = <uint32_t> i + 1

    def __dealloc__(self) -> None:
        map64_free(&self.places)
        buf_free(&self.blocks)
        buf_free(&self.groups)

    def __contains__(self, address: int) -> bool:
        return map64_get(&self.places, <uint64_t> address, 0) != 0

    @property
    def total_bytes(self) -> int:
        """The bytes of all blocks."""
        return self.size

    @property
    def left(self) -> int:
        """The number of blocks that don't belong to a group yet."""
        return self.without

    def add_group(self, known: bool) -> int:
        """Add a group, and return its number. `known`: whether something in Python holds it."""
        cdef Group group
        group.size = group.count = group.small_views = 0
        group.known = known
        if push_item(&self.groups, &group) != 0:
            raise MemoryError
        return self.groups.len - 1

    def group(self, number: int) -> tuple:
        """Return the bytes, blocks and small views of a group."""
        cdef Group* group = self.group_at(number)
        return group.size, group.count, group.small_views

    def take(self, number: int, addresses: object, used: int = -1) -> int:
        """Give those of these blocks that nothing holds yet to a group. Return their bytes.

        `used`: bytes of the tensor that uses the blocks.
        """
        cdef Group* group = self.group_at(number)
        cdef int64_t before = group.size
        cdef uint32_t at
        for address in addresses:
            at = map64_get(&self.places, <uint64_t> address, 0)
            if at:
                self.take_one(at - 1, number)
        taken = group.size - before
        if used >= 0 and 2 * used < taken:
            group.small_views += 1
        return taken

    def take_rest(self, number: int) -> None:
        """Give all blocks that nothing holds to a group."""
        cdef size_t i
        self.group_at(number)
        for i in range(self.blocks.len):
            self.take_one(i, number)

    def columns(self, order: list) -> tuple:
        """Return the blocks' addresses (uint64) and groups (uint32), sorted by address.

        `order`: the number to write for each group.
        """
        cdef Block* blocks = <Block*> self.blocks.data
        cdef size_t i
        cdef Buf addresses, groups
        cdef uint32_t number
        buf_init(&addresses, sizeof(uint64_t))
        buf_init(&groups, sizeof(uint32_t))
        try:
            for i in range(self.blocks.len):
                if blocks[i].group != NONE32:
                    number = order[blocks[i].group]
                    if push_item(&addresses, &blocks[i].address) or push_item(&groups, &number):
                        raise MemoryError
            return (
                addresses.data[:addresses.len * sizeof(uint64_t)] if addresses.len else b"",
                groups.data[:groups.len * sizeof(uint32_t)] if groups.len else b"",
            )
        finally:
            buf_free(&addresses)
            buf_free(&groups)

    cdef Group* group_at(self, size_t number) except NULL:
        if number >= self.groups.len:
            raise IndexError(number)
        return <Group*> self.groups.data + number

    cdef int64_t take_one(self, size_t at, uint32_t number) noexcept:
        cdef Block* block = <Block*> self.blocks.data + at
        cdef Group* group = <Group*> self.groups.data + number
        if block.group != NONE32:
            return 0
        block.group = number
        group.size += block.size
        group.count += 1
        self.without -= 1
        return block.size


cdef class Tensors:
    """The plain tensors that use blocks or have an autograd graph.

    Nothing here runs the program's code.
    """

    cdef Referrers graph
    cdef Blocks blocks
    cdef Buf uses              # Use, the largest first
    cdef readonly dict graphs
    """The last node of each tensor's graph, by the tensor's index in `graph.objects`."""
    cdef readonly list others
    """Tensors to look at in Python, because they have no single storage."""
    cdef readonly list elsewhere
    """Tensors that may be in pinned memory."""

    def __cinit__(self, Referrers graph not None, Blocks blocks not None) -> None:
        buf_init(&self.uses, sizeof(Use))
        self.graph, self.blocks = graph, blocks
        self.graphs, self.others, self.elsewhere = {}, [], []

    def __dealloc__(self) -> None:
        buf_free(&self.uses)

    def look(
        self, list tensors, plain: object, address: object, least: int, until: float
    ) -> bool:
        """Look at tensors. Return False if the time `until` (time.monotonic()) came first.

        Parameters
        ----------
        plain : set of types
            Types of tensors that have one storage.
        address : callable
            Returns the address of a tensor's storage.
        least : int
            Least bytes of a tensor that may be in pinned memory.
        """
        cdef size_t i
        cdef Use use
        cdef int64_t pinned = least
        cdef bint complete = True
        for i in range(PyList_Size(tensors)):
            if i % OFTEN == 0 and time.monotonic() > until:
                complete = False
                break
            one = <object> PyList_GetItem(tensors, i)
            if type(one) not in plain:
                self.others.append(one)
                continue
            try:
                found = address(one)
            except (RuntimeError, NotImplementedError):
                self.others.append(one)
                continue
            use.block = map64_get(&self.blocks.places, <uint64_t> found, 0)
            try:
                node = one.grad_fn
            except (AttributeError, RuntimeError):
                node = None
            if not use.block:
                if found and one.nbytes >= pinned:
                    self.elsewhere.append(one)
                if node is None:
                    continue
            use.object = self.graph.put(<PyObject*> one)
            if node is not None:
                self.graphs[use.object] = node
            if use.block:
                use.block -= 1
                use.size = (<Block*> self.blocks.blocks.data)[use.block].size
                if push_item(&self.uses, &use) != 0:
                    raise MemoryError
        if self.uses.len:
            qsort(self.uses.data, self.uses.len, sizeof(Use), largest_first)
        return complete

    def take(self, named: object, known: bool) -> None:
        """Give blocks to the groups of the tensors that use them, the largest blocks first.

        `named`: returns the number of the group that holds an object. `known`: whether to take
        those of groups that something in Python holds, or the others.
        """
        cdef Use* uses = <Use*> self.uses.data
        cdef Group* group
        cdef size_t i
        cdef uint32_t number
        cdef bint wanted = known
        for i in range(self.uses.len):
            if (<Block*> self.blocks.blocks.data)[uses[i].block].group != NONE32:
                continue
            number = self.graph.name_of(uses[i].object)
            if number == NONE32:
                number = named(uses[i].object)
            group = self.blocks.group_at(number)
            if group.known == wanted:
                self.blocks.take_one(uses[i].block, number)
                if known and 2 * <object> self.graph.objects[uses[i].object].nbytes < uses[i].size:
                    group.small_views += 1

    def with_gradients(self) -> list:
        """Return the indices of the tensors that may have a gradient."""
        cdef Use* uses = <Use*> self.uses.data
        cdef size_t i
        cdef list found = []
        for i in range(self.uses.len):
            one = self.graph.objects[uses[i].object]
            if one.is_leaf or one.retains_grad:
                found.append(uses[i].object)
        return found
