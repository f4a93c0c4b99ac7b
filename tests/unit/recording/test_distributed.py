"""Tests of recording/distributed.py, without PyTorch: functions are wrapped, and restored."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memreplay.engine.record import _tracker
from memreplay.recording.distributed import FSDP, Distributed
from memreplay.recording.guarding import Guard


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fakes of FSDP2's functions, which report their results."""
    group: Any = ModuleType("group")
    group.foreach_reduce = lambda: _tracker.give(0)

    class FSDPParam:
        def init_unsharded_param(self) -> int:
            return _tracker.give(0)

    for name, module in (
        ("_fsdp_param_group", group),
        ("_fsdp_param", SimpleNamespace(FSDPParam=FSDPParam)),
    ):
        monkeypatch.setitem(sys.modules, f"{FSDP[0]}.{name}", module)
    return SimpleNamespace(group=group, Param=FSDPParam)


def test_allocations_of_wrapped_functions_get_a_category(package: Any) -> None:
    addresses: Any = SimpleNamespace(guard=Guard())
    theirs = package.group.foreach_reduce, package.Param.init_unsharded_param
    distributed = Distributed(addresses)
    distributed.look()
    assert package.group.foreach_reduce() == _tracker.COMMUNICATION
    assert package.Param().init_unsharded_param() == _tracker.UNSHARDED
    assert _tracker.give(0) == 0
    distributed.remove()
    assert (package.group.foreach_reduce, package.Param.init_unsharded_param) == theirs
    assert package.group.foreach_reduce() == 0


def test_wrappers_of_the_program_are_kept(package: Any) -> None:
    addresses: Any = SimpleNamespace(guard=Guard())
    distributed = Distributed(addresses)
    distributed.look()
    ours = package.group.foreach_reduce
    around: Any = lambda: ours() + 100  # noqa: E731
    package.group.foreach_reduce = around
    distributed.remove()
    assert package.group.foreach_reduce is around
    assert around() == 100  # nothing is reported any more
