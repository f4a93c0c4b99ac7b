"""The process's host memory and PyTorch's pinned memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.recording import host_memory as module
from memreplay.recording.host_memory import host_memory, of_process, pinned, pinned_events

STATUS = """Name:\tpython
VmPeak:\t  9000 kB
VmHWM:\t  5000 kB
VmRSS:\t  4000 kB
RssAnon:\t  2500 kB
RssShmem:\t   500 kB
Threads:\t7
"""


def devices(found: dict[str, int], *, initialized: bool = True) -> Any:
    return SimpleNamespace(host_memory_stats=lambda: found, is_initialized=lambda: initialized)


def test_status_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "status"
    path.write_text(STATUS)
    monkeypatch.setattr(module, "STATUS", str(path))
    assert of_process() == (4000 << 10, 500 << 10, 5000 << 10)
    path.write_text("Name:\tpython\n")
    assert of_process() == (None, None, None)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_resident_memory_grows_with_the_process() -> None:
    before, _, _ = of_process()
    data = b"\1" * (64 << 20)
    after, _, most = of_process()
    assert before is not None
    assert after is not None
    assert most is not None
    assert 60 << 20 <= after - before <= 80 << 20
    assert most >= after - (1 << 20)
    del data


@pytest.mark.skipif(os.name != "posix", reason="resource is missing on Windows")
def test_only_the_peak_is_known_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STATUS", "/nowhere/status")
    now, shared, most = of_process()
    assert now is None
    assert shared is None
    assert most is not None
    assert most > 10 << 20
    monkeypatch.setattr(os, "name", "nt")
    assert of_process() == (None, None, None)


def test_pinned_memory() -> None:
    found = {
        "active_bytes.current": 3,
        "active_bytes.peak": 4,
        "allocated_bytes.current": 5,
        "allocated_bytes.peak": 6,
    }
    assert pinned(devices(found)) == (3, 5, 6)
    assert pinned(devices(found, initialized=False)) == (None, None, None)
    assert host_memory(devices(found))[3:] == (3, 5, 6)


def test_pinned_memory_in_earlier_versions() -> None:
    found = {
        "allocated_bytes.current": 3,
        "allocated_bytes.peak": 4,
        "reserved_bytes.current": 5,
        "reserved_bytes.peak": 6,
    }
    assert pinned(devices(found)) == (3, 5, 6)
    assert pinned(SimpleNamespace()) == (None, None, None)
    assert pinned(devices({})) == (None, None, None)


@pytest.mark.parametrize(
    "traces, count",
    [(None, 0), ([], 0), ([{}, {}], 2), ([[{}, {}], [{}]], 3)],
)
def test_events_of_pinned_memory_are_counted(traces: Any, count: int) -> None:
    assert pinned_events({"host_traces": traces}) == count


WRONG = "stats_.active_bytes_bucket_stats[index].decrease(size);  // -1"
RIGHT = "pool.active_bytes_bucket_stats[index].decrease(size);"


@pytest.mark.parametrize("line, used", [(WRONG, None), (RIGHT, 3)])
def test_wrong_counter_is_not_read(tmp_path: Path, line: str, used: int | None) -> None:
    path = tmp_path / "include/ATen/core/CachingHostAllocator.h"
    path.parent.mkdir(parents=True)
    path.write_text(f"void process_events(size_t size = -1) {{ {line}\n }}")
    found = {"active_bytes.current": 3, "allocated_bytes.current": 5, "allocated_bytes.peak": 6}
    made = devices(found)
    made.__file__ = str(tmp_path / "cuda" / "__init__.py")
    assert pinned(made) == (used, 5, 6)
