"""Build the module tree from dotted names: for example, GPT.h.0 is in GPT.h."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_MODULE = 0  # the node for memory outside modules
TOP = -1  # above the models
# Modules nested more deeply are counted as their ancestor at this depth. Real models have about 10
# levels, but in a hostile file, names could consist of dots.
DEEPEST = 32
# Maximum number of nodes. Further modules are counted as their parent.
MOST = 1 << 18


class ModuleTree:
    """The nodes of the tree, by number. Parents have lower numbers than their children."""

    def __init__(self) -> None:
        self.parents = [TOP]
        self.depths = [1]
        self.parts = [""]
        self._numbers: dict[tuple[int, str], int] = {}

    def __len__(self) -> int:
        return len(self.parents)

    def add(self, name: str) -> int:
        """Return a module's node, adding it if it's new. Without a name, return the node for memory
        outside modules.
        """
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
        """Return a node's full name; None for memory outside modules."""
        if node == NO_MODULE:
            return None
        parts = []
        while node != TOP:
            parts.append(self.parts[node])
            node = self.parents[node]
        return ".".join(reversed(parts))

    def summed(self, own: Sequence[Sequence[int]]) -> list[list[int]]:
        """Add each node's values to its ancestors'. `own` has a row per node."""
        found = list(map(list, own))
        # A node's number is larger than its parent's.
        for node in range(len(found) - 1, NO_MODULE, -1):
            if self.depths[node] > 1:
                parent = found[self.parents[node]]
                for at, value in enumerate(found[node]):
                    parent[at] += value
        return found

    def ordered(self, nodes: Sequence[int]) -> list[int]:
        """Return the nodes depth first, with siblings in the given order. Parents must be
        included.
        """
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
