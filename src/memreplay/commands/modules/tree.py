"""The tree of modules that their names make: GPT.h.0 is in GPT.h."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

NO_MODULE = 0  # the node of what is in none
TOP = -1  # what is above a model
# Modules that are deeper count as their module of this depth. Real ones have about 10; a file may
# have names of nothing but dots.
DEEPEST = 32
# Nodes. When there are so many, modules that would need another one count as those they are in.
MOST = 1 << 18


class ModuleTree:
    """Nodes by numbers, each after the one that it is in."""

    def __init__(self) -> None:
        self.parents = [TOP]
        self.depths = [1]
        self.parts = [""]
        self._numbers: dict[tuple[int, str], int] = {}

    def __len__(self) -> int:
        return len(self.parents)

    def add(self, name: str) -> int:
        """The node of a module; of no name that of no module."""
        if not name:
            return NO_MODULE
        at = TOP
        for depth, part in enumerate(name.split(".", DEEPEST)[:DEEPEST], 1):
            found = self._numbers.get((at, part))
            if found is None:
                if len(self.parents) >= MOST:
                    return max(at, NO_MODULE)
                found = self._numbers[at, part] = len(self.parents)
                self.parents.append(at)
                self.depths.append(depth)
                self.parts.append(part)
            at = found
        return at

    def name(self, node: int) -> str | None:
        """Its whole name; None of what is in no module."""
        if node == NO_MODULE:
            return None
        parts = []
        while node != TOP:
            parts.append(self.parts[node])
            node = self.parents[node]
        return ".".join(reversed(parts))

    def summed(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of numbers, one a node, each with those of all nodes below it."""
        import numpy as np

        found: NDArray[np.int64] = own.copy()
        parents, depths = np.array(self.parents), np.array(self.depths)
        order = np.argsort(depths, kind="stable")
        bounds = np.searchsorted(depths[order], np.arange(depths.max() + 2))
        for depth in range(int(depths.max()), 1, -1):
            nodes = order[bounds[depth] : bounds[depth + 1]]
            np.add.at(found, parents[nodes], found[nodes])
        return found

    def ordered(self, nodes: Sequence[int]) -> list[int]:
        """Some of the nodes depth first, those below one in the order given; with each node the one
        that it is in is among them."""
        below: dict[int, list[int]] = {}
        for node in nodes:
            below.setdefault(self.parents[node], []).append(node)
        found: list[int] = []
        waiting = below.get(TOP, [])[::-1]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += below.get(node, [])[::-1]
        return found
