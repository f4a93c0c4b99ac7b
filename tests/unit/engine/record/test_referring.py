"""Tests of _referring.pyx: who refers to an object, as gc.get_referrers says."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections import Counter, deque
from itertools import pairwise
from types import ModuleType
from typing import Any, cast

import pytest

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
    assert graph.widen(0, {id(objects), id(wanted)})
    found = Counter(
        (place, id(graph.objects[parent])) for place in places for parent in graph.referrers(place)
    )
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
    assert graph.widen(0, set())
    assert sys.getrefcount(node) == before + 1
    assert [type(graph.objects[parent]) for parent in graph.referrers(place)] == [list]
    assert len(graph.objects) == 2
    assert graph.widen(1, set())
    assert graph.referrers(1) == [place, place]
    assert len(graph.objects) == 2
    del graph
    assert sys.getrefcount(node) == before


def test_ignored_objects_are_no_referrers() -> None:
    node, holder = Node(), [object()]
    holder.append(node)
    graph = Referrers()
    place = graph.add(node)
    assert graph.widen(0, {id(holder)})
    assert graph.referrers(place) == []
    assert (graph.parent(place), graph.root(place)) == (-1, -1)


def test_time_may_run_out() -> None:
    graph = Referrers()
    graph.add(Node())
    assert graph.widen(0, set(), time.monotonic() - 1)


def lengths_from(root: list[Any]) -> dict[int, int]:
    """Return how many references lead from an object to each other one at least, by id."""
    found = {id(root): 0}
    queue = deque([root])
    while queue:
        at = queue.popleft()
        for other in at:
            if id(other) not in found:
                found[id(other)] = found[id(at)] + 1
                queue.append(other)
    return found


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_ways_lead_from_variables(seed: int, many: bool) -> None:
    """A random graph of lists; the slow way is a search from each variable.

    The way to a single object is the shortest one. Of many, some are found on another's way.
    """
    rng = random.Random(seed)
    objects: list[Any] = [[] for _ in range(60)]
    for at in range(1, 60):
        for one in rng.sample(objects[:at], k=min(at, rng.choice((0, 1, 1, 2)))):
            one.append(objects[at])
    wanted = objects[-15:] if many else objects[-1:]
    roots = local, other = rng.sample(objects[:-15], k=2)
    graph = Referrers([id(local)], [id(other)])
    places = [graph.add(one) for one in wanted]
    graph.connect()
    first, known = 0, -1
    while known != len(graph.objects):
        known = len(graph.objects)
        graph.widen(first, {id(objects), id(wanted), id(roots)})
        first = known
    lengths = [lengths_from(one) for one in roots]
    for place, one in zip(places, wanted, strict=True):
        shortest = min((found[id(one)] for found in lengths if id(one) in found), default=-1)
        if shortest < 0:
            assert graph.root(place) == -1
            continue
        way = [place]
        while way[-1] != graph.root(place):
            way.append(graph.parent(way[-1]))
        lead = graph.objects[way[-1]]
        assert lead is local or lead is other
        for child, parent in pairwise(way):
            assert any(item is graph.objects[child] for item in cast("Any", graph.objects[parent]))
        assert len(way) - 1 >= shortest
        assert many or len(way) - 1 == shortest


def test_classes_and_modules_are_roots() -> None:
    value, value_of_module = [object()], [object()]
    holder = type("Holder", (), {"kept": value})
    module = ModuleType("module")
    module.__dict__["kept"] = value_of_module
    graph = Referrers()
    places = [graph.add(value), graph.add(value_of_module)]
    graph.connect()
    here = {id(sys._getframe())}
    graph.widen(0, here)
    graph.widen(2, here)
    roots = [graph.objects[graph.root(place)] for place in places]
    assert roots[0] is holder
    assert roots[1] is module


def test_neighbours_may_have_one_name() -> None:
    values = [Node(), Node(), Node()]
    graph = Referrers([id(values)])
    places = [graph.add(one) for one in values]
    graph.connect()
    graph.widen(0, set())
    assert [graph.named(place) for place in places] == [-1, -1, -1]
    graph.name(places[0], 7, False)
    assert [graph.named(place) for place in places] == [7, -1, -1]
    graph.name(places[1], 8, True)
    assert [graph.named(place) for place in places] == [7, 8, 8]
    graph.name(graph.add(object()), 9, True)  # it has no parent
