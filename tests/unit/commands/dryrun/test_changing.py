"""Tests of commands/dryrun/changing.py, on the facts that processes leave behind."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.commands.dryrun.changing import change_line, changes_of, check_changes
from memreplay.commands.dryrun.result import DryChange
from memreplay.dryrun.changes import parse_change
from memreplay.dryrun.launch import Process
from memreplay.errors import UsageError


def processes(*each: list[dict[str, Any]]) -> list[Process]:
    """Return processes that noted this, for each change."""
    return [
        Process(i, None, {"changed": noted} if noted else {}, "") for i, noted in enumerate(each)
    ]


def noted(*names: str, calls: int = 0, **more: Any) -> dict[str, Any]:
    return {"names": list(names), "calls": calls, **more}


def checked(change: str, *each: dict[str, Any]) -> None:
    check_changes((parse_change(change),), processes(*([one] for one in each)))


def test_all_processes_are_counted_together() -> None:
    changes = parse_change("checkpoint=h.*"), parse_change("fused=on")
    first = [noted("h.0", calls=2, unused=["h.1", "h.2"]), noted("Adam", calls=1)]
    second = [noted("h.1", calls=3, unused=["h.2"]), noted(calls=0)]
    assert changes_of(changes, processes(first, [], second)) == (
        DryChange("checkpoint=h.*", ("h.0", "h.1"), 5, ("h.2",)),
        DryChange("fused=on", ("Adam",), 1),
    )
    assert changes_of((), processes(first)) == ()


@pytest.mark.parametrize(
    "change, words",
    [
        (
            DryChange("checkpoint=h.*", tuple(f"Net.h.{i}" for i in range(12)), 24),
            "checkpointed 12 modules: Net.h.0 … 11 (24 calls)",
        ),
        (
            DryChange("checkpoint=h.*", ("Net.a.0.x", "Net.a.1.x", "Net.b.x", "c"), 1, ("d",)),
            "checkpointed 4 modules: Net.a.0.x … c (1 call); 1 more didn't run in training",
        ),
        (DryChange("checkpoint=A,B", ("A", "B"), 1), "checkpointed 2 modules: A, B (1 call)"),
        (DryChange("fused=on", ("Adam",), 1), "fused turned on in 1 optimizer: Adam"),
        (DryChange("foreach=off", ("A", "B"), 2), "foreach turned off in 2 optimizers: A, B"),
        (
            DryChange("set-to-none=on", ("Adam.zero_grad",), 3),
            "set_to_none=True in 3 calls (set-to-none=on)",
        ),
        (
            DryChange("autocast-cache=off", ("autocast",), 1),
            "its cache turned off in 1 call (autocast-cache=off)",
        ),
    ],
)
def test_changes_are_told_in_a_line(change: DryChange, words: str) -> None:
    assert change_line(change) == words


@pytest.mark.parametrize(
    "change, each, words",
    [
        (
            "checkpoint=h.*",
            [noted(missing=["h.*"], similar=["layers.*", "Layer"])],
            r"^--change checkpoint=h\.\* changed nothing: no module matches h\.\*; similar: layers",
        ),
        ("checkpoint=h,i", [noted("h", calls=1, missing=["i"])], "no module matches i$"),
        (
            "checkpoint=h",
            [noted(missing=[], unused=["h"], already=True)],
            "it matches 1 module, checkpointed by the program itself$",
        ),
        (
            "checkpoint=h",
            [noted(missing=[], unused=["h", "i"], compiled=True)],
            "it matches 2 modules, part of a compiled one, which can't be changed from outside$",
        ),
        (
            "checkpoint=h",
            [noted(missing=[], unused=["h", "i"])],
            r"it matches 2 modules, not run in training \(with gradients\)$",
        ),
        ("foreach=off", [noted()], "no optimizer of the program uses foreach$"),
        ("fused=on", [noted()], "no optimizer of the program has a fused kernel"),
        ("set-to-none", [noted()], r"never calls zero_grad\(set_to_none=False\)$"),
        ("autocast-cache=off", [], "never uses autocast with its cache$"),
    ],
)
def test_change_of_nothing_is_an_error(change: str, each: list[Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        checked(change, *each)
    assert raised.value.exit_code == 2


def test_one_process_in_which_a_change_applies_is_enough() -> None:
    checked("checkpoint=h", noted(missing=["h"]), noted("h", calls=1, missing=[]))
    checked("foreach=off", noted(), noted("Adam", calls=1))
