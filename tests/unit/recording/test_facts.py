"""Facts about a PyTorch version, and a run's own notes."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from memreplay.recording.facts import (
    OLD_SYMBOLIZE,
    SYMBOLIZE,
    kept_events,
    name_frames_quickly,
    stacks_for,
    statistics_of,
    tracing_slots,
)
from tests.unit.dryrun.fake_torch import HEADER
from tests.unit.recording.stand_in import make_torch


@pytest.mark.parametrize(
    "header, slots",
    [
        (HEADER, (4, 5, 1)),
        (HEADER.replace("c10::DeviceType device_type,", ""), (4, 5, 0)),
        (HEADER.replace("_deallocation", "_something"), None),
        (HEADER.replace("PyInterpreterVTable", "Another"), None),
        ("", None),
    ],
)
def test_tracing_functions_are_found_in_the_header(
    tmp_path: Path, header: str, slots: tuple[int, int, int] | None
) -> None:
    path = tmp_path / "include/c10/core/impl/PyInterpreter.h"
    assert tracing_slots(str(tmp_path)) is None
    path.parent.mkdir(parents=True)
    path.write_text(header)
    assert tracing_slots(str(tmp_path)) == slots


def test_cpp_frames_are_recorded_where_cheap(linux: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = make_torch(tmp_path)
    assert stacks_for("auto", torch) == "all"
    assert stacks_for("python", torch) == "python"
    # Versions before 2.4 call addr2line, which takes minutes.
    old = make_torch(tmp_path / "old", "std::vector<Frame> symbolize(const std::vector<void*>&);")
    assert stacks_for("auto", old) == "python"
    assert stacks_for("auto", str(tmp_path / "no headers")) == "python"
    assert stacks_for("all", old) == "all"


@pytest.mark.parametrize("system, machine", [("win32", "AMD64"), ("linux", "aarch64")])
def test_no_cpp_frames_on_platforms_that_cannot_unwind(
    linux: pytest.MonkeyPatch, tmp_path: Path, system: str, machine: str
) -> None:
    linux.setattr(sys, "platform", system)
    linux.setattr(platform, "machine", lambda: machine)
    assert stacks_for("auto", make_torch(tmp_path)) == "python"


@pytest.mark.parametrize(
    "name, value, stacks",
    [
        (SYMBOLIZE, "dladdr", "all"),
        (SYMBOLIZE, "fast", "all"),
        (SYMBOLIZE, "addr2line", "python"),
        (OLD_SYMBOLIZE, "1", "all"),
        (OLD_SYMBOLIZE, "0", "python"),
    ],
)
def test_users_symbolizer_settings_are_kept(
    linux: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, stacks: str
) -> None:
    linux.setenv(name, value)
    assert stacks_for("auto", make_torch(tmp_path)) == stacks
    assert not name_frames_quickly()
    assert os.environ[name] == value


def test_frames_are_symbolized_in_the_process(linux: pytest.MonkeyPatch) -> None:
    assert name_frames_quickly()
    assert os.environ[SYMBOLIZE] == "dladdr"


def counted(made: int = 0, freed: int = 0, done: int = 0) -> dict[str, int]:
    return {
        "allocation.all.allocated": made,
        "allocation.all.freed": freed,
        "active.all.freed": done,
    }


def traced(*actions: str) -> list[dict[str, Any]]:
    return [{"action": action} for action in actions]


def test_dropped_events_are_counted() -> None:
    """The number is PyTorch's count of these events since the start, minus those in the trace."""
    traces = [
        traced("free_completed", "segment_alloc", "alloc", "snapshot"),
        traced("alloc", "free_requested", "free_completed"),
        traced("alloc"),  # a device without counters
    ]
    before = [counted(made=5, freed=2, done=2), counted()]
    now = [counted(made=9, freed=4, done=4), counted(made=1, freed=1, done=1)]
    found = kept_events(traces, 4, before, now)
    assert found == {"max_entries": 4, "dropped_events": [4 + 2 + 2 - 2, 0, 0]}
    # Events that aren't recorded aren't missing.
    found = kept_events(traces, None, before, now, ["free_requested"])
    assert found == {"max_entries": None, "dropped_events": [4 + 2 - 2, 0, 0]}


def test_counters_reset_by_the_program_start_from_zero() -> None:
    before, now = [counted(made=100, freed=90, done=90)], [counted(made=7, freed=5, done=5)]
    assert kept_events([traced("alloc")], 1, before, now)["dropped_events"] == [7 + 5 + 5 - 1]
    assert kept_events([traced("alloc")], 1, [], [])["dropped_events"] == [0]


def test_torch_without_counters_gives_no_statistics() -> None:
    class Old:
        def device_count(self) -> int:
            return 2

    class Failing(Old):
        def memory_stats(self, _: int) -> Any:
            raise RuntimeError("an allocator of the program's own")

    class Counting(Old):
        def memory_stats(self, device: int) -> dict[str, int]:
            return {"device": device}

    assert statistics_of(Old()) == statistics_of(Failing()) == []
    assert statistics_of(Counting()) == [{"device": 0}, {"device": 1}]
