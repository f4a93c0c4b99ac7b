"""The blocks in use, the tensors that use them, and who holds these."""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from typing_extensions import Self, disjoint_base

from memreplay.engine.record._referring import Referrers

@disjoint_base
class Blocks:
    """The blocks in use of PyTorch's segments, and the group that holds each.

    Groups have the numbers that `add_group` returns.
    """

    def __new__(cls, segments: Iterable[Mapping[str, Any]]) -> Self: ...
    def __contains__(self, address: int, /) -> bool: ...
    @property
    def total_bytes(self) -> int:
        """The bytes of all blocks."""

    @property
    def left(self) -> int:
        """The number of blocks that don't belong to a group yet."""

    def add_group(self, known: bool) -> int:
        """Add a group, and return its number. `known`: whether something in Python holds it."""

    def group(self, number: int) -> tuple[int, int, int]:
        """Return the bytes, blocks and small views of a group."""

    def take(self, number: int, addresses: Iterable[int], used: int = -1) -> int:
        """Give those of these blocks that nothing holds yet to a group. Return their bytes.

        `used`: bytes of the tensor that uses the blocks.
        """

    def take_rest(self, number: int) -> None:
        """Give all blocks that nothing holds to a group."""

    def columns(self, order: list[int]) -> tuple[bytes, bytes]:
        """Return the blocks' addresses (uint64) and groups (uint32), sorted by address.

        `order`: the number to write for each group.
        """

@disjoint_base
class Tensors:
    """The plain tensors that use blocks or have an autograd graph.

    Nothing here runs the program's code.
    """

    def __new__(cls, graph: Referrers, blocks: Blocks) -> Self: ...
    @property
    def graphs(self) -> dict[int, Any]:
        """The last node of each tensor's graph, by the tensor's index in `graph.objects`."""

    @property
    def others(self) -> list[Any]:
        """Tensors to look at in Python, because they have no single storage."""

    @property
    def elsewhere(self) -> list[Any]:
        """Tensors that may be in pinned memory."""

    def look(
        self,
        tensors: list[Any],
        plain: Container[type],
        address: Callable[[Any], int],
        least: int,
        until: float,
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

    def take(self, named: Callable[[int], int], known: bool) -> None:
        """Give blocks to the groups of the tensors that use them, the largest blocks first.

        `named`: returns the number of the group that holds an object. `known`: whether to take
        those of groups that something in Python holds, or the others.
        """

    def with_gradients(self) -> list[int]:
        """Return the indices of the tensors that may have a gradient."""
