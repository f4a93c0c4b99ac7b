"""The objects in a graph. An object that appears twice is one node; a list or dict may contain
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

Kind = Literal["list", "tuple", "set", "frozenset"]


class Node:
    """One object."""

    def parts(self) -> Iterator[Node]:
        """Return the nodes that this object refers to."""
        return iter(())


class Atom(Node):
    """None, a bool, a number, text or bytes."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Items(Node):
    """A list, a tuple or a set."""

    def __init__(self, kind: Kind, items: list[Node]) -> None:
        self.kind = kind
        self.items = items

    def parts(self) -> Iterator[Node]:
        return iter(self.items)


class Pairs(Node):
    """A dict, with keys in the order they're set. If a key is repeated, its last value wins."""

    def __init__(self, items: list[tuple[Node, Node]] | None = None) -> None:
        self.items = items or []

    def parts(self) -> Iterator[Node]:
        for pair in self.items:
            yield from pair


class Code(Node):
    """An import or a call: opcodes that push one value and that no data reader may execute."""

    def __init__(self, opcodes: bytes) -> None:
        self.opcodes = opcodes


def count_references(root: Node) -> tuple[dict[int, int], set[int]]:
    """Return how often each node is referred to, by its id(), and which nodes contain
    themselves.
    """
    counts = {id(root): 1}
    order: dict[int, int] = {}  # when it was first visited
    lowest: dict[int, int] = {}  # the earliest visited node that this node leads back to
    path: list[int] = []  # nodes whose cycle isn't known yet
    on_path: set[int] = set()
    cyclic: set[int] = set()
    work: list[tuple[Node, Iterator[Node]]] = []

    def enter(node: Node) -> None:
        order[id(node)] = lowest[id(node)] = len(order)
        path.append(id(node))
        on_path.add(id(node))
        work.append((node, node.parts()))

    enter(root)
    while work:
        node, parts = work[-1]
        at = id(node)
        part = next(parts, None)
        if part is not None:
            counts[id(part)] = counts.get(id(part), 0) + 1
            if id(part) not in order:
                enter(part)
            elif id(part) in on_path:
                lowest[at] = min(lowest[at], order[id(part)])
                if id(part) == at:
                    cyclic.add(at)
            continue
        work.pop()
        if work:
            above = id(work[-1][0])
            lowest[above] = min(lowest[above], lowest[at])
        if lowest[at] == order[at]:
            circle = path[path.index(at) :]
            del path[path.index(at) :]
            on_path.difference_update(circle)
            if len(circle) > 1:
                cyclic.update(circle)
    return counts, cyclic


def reaches(node: Node) -> list[Node]:
    """Return all nodes reachable from a node."""
    found: dict[int, Node] = {}
    waiting = list(node.parts())
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting.extend(one.parts())
    return list(found.values())
