"""Tests of _referring.pyx: who refers to an object, as gc.get_referrers says."""

from __future__ import annotations

import gc
import random
import sys
from collections import Counter
from typing import Any

from memreplay.engine.record._referring import Referrers


class Node:
    """An object of the program."""

    held: object
    other: object

    def __eq__(self, _: object) -> bool:
        raise AssertionError("the program's code was run")

    __hash__ = None  # type: ignore[assignment]


def test_referrers_are_those_of_the_garbage_collector() -> None:
    rng = random.Random(5)
    objects: list[Any] = [[] if i % 2 else {} for i in range(300)]
    for one in objects:
        for at in rng.choices(range(300), k=3):
            if type(one) is list:
                one.append(objects[at])
            else:
                one[at] = objects[at]
    wanted = objects[:7]
    graph = Referrers()
    places = [graph.add(one) for one in wanted]
    pairs = graph.widen(places, {id(objects), id(wanted)})
    found = Counter((child, id(graph.objects[parent])) for child, parent in pairs)
    real: Counter[tuple[int, int]] = Counter()
    for place, one in zip(places, wanted, strict=True):
        for referrer in gc.get_referrers(one):
            if any(referrer is other for other in objects):
                real[place, id(referrer)] = sum(
                    other is one for other in gc.get_referents(referrer)
                )
    assert {key: n for key, n in found.items() if key in real} == real
    assert all(key in real for key in found)


def test_objects_are_held_once_and_nothing_remains() -> None:
    node = Node()
    node.held = node.other = [node]
    graph = Referrers()
    before = sys.getrefcount(node)
    place = graph.add(node)
    assert graph.add(node) == place
    for _ in range(3):
        pairs = graph.widen([place], set())
    assert sys.getrefcount(node) == before + 1
    assert Counter(type(graph.objects[parent]) for _, parent in pairs) == {list: 1}
    assert len(graph.objects) == 2
    assert graph.widen([1], set()) == [(1, place), (1, place)]
    del graph
    assert sys.getrefcount(node) == before


def test_ignored_objects_are_no_referrers() -> None:
    node, holder = Node(), [object()]
    holder.append(node)
    graph = Referrers()
    assert graph.widen([graph.add(node)], {id(holder)}) == []
