"""tree: the names, sums and order of modules."""

from __future__ import annotations

import pytest

from memreplay.commands.modules import tree as tree_of_modules
from memreplay.commands.modules.tree import DEEPEST, NO_MODULE, TOP, ModuleTree


def test_names_are_nested() -> None:
    tree = ModuleTree()
    up, head, again = tree.add("GPT.h.0.up"), tree.add("GPT.head"), tree.add("GPT.h.0.up")
    assert up == again
    assert tree.add("") == NO_MODULE
    assert [tree.name(node) for node in range(len(tree))] == [
        None,
        "GPT",
        "GPT.h",
        "GPT.h.0",
        "GPT.h.0.up",
        "GPT.head",
    ]
    assert (tree.depths[up], tree.depths[head], tree.depths[NO_MODULE]) == (4, 2, 1)
    assert [tree.parents[node] for node in (NO_MODULE, 1, head)] == [TOP, TOP, 1]


def test_sums_include_all_submodules() -> None:
    tree = ModuleTree()
    nodes = [tree.add(name) for name in ("a.b.c", "a.b", "a", "d", "")]
    own = [(0, 0)] * len(tree)
    for i, node in enumerate(nodes):
        own[node] = 10**i, 1
    sums = tree.summed(own)
    found = {tree.name(node): tuple(sums[node]) for node in range(len(tree))}
    assert found == {
        "a.b.c": (1, 1),
        "a.b": (11, 2),
        "a": (111, 3),
        "d": (1000, 1),
        None: (10000, 1),
    }


def test_selected_nodes_are_in_depth_first_order() -> None:
    tree = ModuleTree()
    for name in ("a.x", "a.y.z", "b"):
        tree.add(name)
    numbers = {tree.name(node): node for node in range(1, len(tree))}
    given = [numbers[name] for name in ("b", "a", "a.y", "a.x", "a.y.z")]
    found = [tree.name(node) for node in tree.ordered(given)]
    assert found == ["b", "a", "a.y", "a.y.z", "a.x"]
    assert [tree.name(node) for node in tree.ordered(given[:3])] == ["b", "a", "a.y"]


def test_depth_is_limited() -> None:
    tree = ModuleTree()
    node = tree.add("." * 10_000)
    assert (len(tree), tree.depths[node]) == (DEEPEST + 1, DEEPEST)
    assert tree.add("." * (DEEPEST - 1)) == node


def test_number_of_nodes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_of_modules, "MOST", 4)
    tree = ModuleTree()
    assert tree.name(tree.add("a.b")) == "a.b"
    # There is room for one more node.
    assert tree.name(tree.add("a.c.d")) == "a.c"
    assert tree.name(tree.add("a.b.e")) == "a.b"
    assert tree.add("x.y") == NO_MODULE
    assert tree.name(tree.add("a.c")) == "a.c"
    assert len(tree) == 4
