"""Helpers of recording/holders.py; a dry run tests the rest (tests/integration/test_holders.py)."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.recording.holders import nothing_collected, saved


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_as_before(enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with nothing_collected():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_only_raw_tensors_of_a_node_are_read() -> None:
    class Node:
        _raw_saved_self = _raw_saved_tensors = _raw_saved_scalar = None

        @property
        def _saved_self(self) -> object:
            raise AssertionError("this calls the program's hooks")

    node: Any = Node()
    node._raw_saved_self = SimpleNamespace(data="a")
    node._raw_saved_tensors = (SimpleNamespace(data="b"), SimpleNamespace(data=None))
    node._raw_saved_scalar = SimpleNamespace()
    assert list(saved(node)) == ["a", "b"]
