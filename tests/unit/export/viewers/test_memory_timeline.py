"""memory_timeline matches torch.profiler's own writer for the same allocations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from memreplay.export.viewers import digits, memory_timeline
from memreplay.export.viewers.memory_timeline import render_coalesced, render_raw
from memreplay.export.viewers.torch_categories import COLUMNS, category_events
from tests import oracle, views
from tests.build import START_US, FrameSpec, SnapshotBuilder
from tests.strategies import traces
from tests.torch_parts import torch_part

OPTIMIZER: FrameSpec = ("step", "/site-packages/torch/optim/adamw.py", 1)
BACKWARD: FrameSpec = ("backward", "/home/u/x.py", 2)
LOADING: FrameSpec = ("get_batch", "/home/u/data.py", 3)
MINE: FrameSpec = ("main", "/home/u/main.py", 4)


def raw(snapshot: Any) -> list[list[int]]:
    found: list[list[int]] = json.loads(b"".join(render_raw(category_events(snapshot))))
    return found


def coalesced(snapshot: Any) -> tuple[list[int], list[list[int]]]:
    found = json.loads(b"".join(render_coalesced(category_events(snapshot))))
    assert len(found) == 2
    return found[0], found[1]


def slow(rows: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Compute the coalesced form of raw rows, following PyTorch's docs and files."""
    times: list[int] = []
    sizes: list[list[int]] = []
    first = min((t // 1000 for t, *_ in rows if t >= 0), default=-1)
    last: int | None = None
    for t, _, n_bytes, category in rows:
        at = t if t == -1 else t // 1000
        if at != last:
            times.append(first if at == -1 else at)
            sizes.append(list(sizes[-1]) if sizes else [0] * 9)
            last = at
        sizes[-1][1 + category] += n_bytes
    return times, sizes


@given(traces(max_devices=1))
def test_rows_match_the_lifetimes(snapshot: Any) -> None:
    snap = views.opened(snapshot)
    if len(snap.devices) != 1:
        return
    rows = raw(snap)
    usage = snap.replay().measure()
    assert sum(n for t, _, n, _ in rows if t == -1) == usage.start_bytes
    assert sum(n for _, _, n, _ in rows) == usage.end_bytes
    if snap.has_events:
        lifetimes = oracle.replay(snapshot, snap.devices[0]).lifetimes
        carried = [one for one in lifetimes if one.alloc_index < 0]
        assert [action for _, action, _, _ in rows].count(1) == len(carried)
        assert [action for _, action, _, _ in rows].count(2) == len(lifetimes) - len(carried)
        ended = [one for one in lifetimes if one.free_index is not None]
        assert [action for _, action, _, _ in rows].count(4) == len(ended)
    assert coalesced(snap) == slow(rows)


def test_rows_do_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    snap = views.opened(example(SnapshotBuilder()).build())
    whole = raw(snap), coalesced(snap)
    for rows in (1, 2, 3):
        monkeypatch.setattr(digits, "ROWS", rows)
        assert (raw(snap), coalesced(snap)) == whole


def test_snapshot_without_allocations_has_no_rows() -> None:
    made = SnapshotBuilder().event("user_defined", 0, 0).build()
    snap = views.opened(made)
    assert raw(snap) == []
    assert coalesced(snap) == ([], [])


def test_columns_match_torch() -> None:
    assert len(COLUMNS) == memory_timeline.COLUMNS


def example(made: SnapshotBuilder) -> SnapshotBuilder:
    """Build a carried-over allocation, five categories, events that share a microsecond, and some
    without a size.
    """
    made.alloc(0x1000, 100, frames=[LOADING, MINE], time_us=START_US)
    made.alloc(0x2000, 200, frames=[BACKWARD, MINE], time_us=START_US)
    made.free_completed(0x9000, 50, time_us=START_US + 1)
    made.alloc(0x3000, 300, frames=[OPTIMIZER, MINE], time_us=START_US + 1)
    made.free_completed(0x1000, 100, time_us=START_US + 3)
    made.alloc(0x4000, 7, frames=[views.FORWARD, MINE], time_us=START_US + 3)
    made.alloc(0x5000, 0, frames=[MINE], time_us=START_US + 4)
    made.free_completed(0x5000, 0, time_us=START_US + 9)
    made.free_completed(0x2000, 200, time_us=START_US + 9)
    return made.finish_segments()


def torchs(tmp_path: Path, ending: str, times: list[int]) -> Any:
    """Return torch.profiler's own timeline of the example's allocations."""
    profiler = torch_part("torch.profiler._memory_profiler")
    import torch

    device = torch.device("cuda:0")
    of = {
        LOADING: profiler.Category.INPUT,
        BACKWARD: profiler.Category.GRADIENT,
        OPTIMIZER: profiler.Category.OPTIMIZER_STATE,
        views.FORWARD: profiler.Category.ACTIVATION,
    }
    categories = profiler.CategoryDict()
    timeline: list[Any] = []
    keys: dict[int, Any] = {}

    def key_of(addr: int, category: Any) -> Any:
        number = len(keys)
        key = profiler.TensorKey(device, number, profiler._Storage(addr, number))
        if category is not None:
            categories.set_by_id(key, category)
        keys[addr] = key
        return key

    action = profiler.Action
    timeline.append((-1, action.PREEXISTING, (key_of(0x9000, None), 0), 50))
    clock = iter(times)
    for entry in example(SnapshotBuilder()).build()["device_traces"][0]:
        if entry["action"] == "alloc":
            frame = entry["frames"][0]
            spec = (frame["name"], frame["filename"], frame["line"])
            key = key_of(entry["addr"], of.get(spec))
            timeline.append((next(clock), action.CREATE, (key, 0), entry["size"]))
        else:
            key = keys[entry["addr"]]
            timeline.append((next(clock), action.DESTROY, (key, 0), entry["size"]))

    class Profile:
        def __init__(self) -> None:
            self.timeline = timeline
            self._categories = categories

    writer = profiler.MemoryProfileTimeline(Profile())
    path = tmp_path / f"torch{ending}"
    if ending == ".json":
        writer.export_memory_timeline(str(path), "cuda:0")
    else:
        writer.export_memory_timeline_raw(str(path), "cuda:0")
    return json.loads(path.read_text())


@pytest.mark.viewers
@pytest.mark.filterwarnings("ignore")
def test_rows_match_torchs_writer(tmp_path: Path) -> None:
    snap = views.opened(example(SnapshotBuilder()).build())
    rows = raw(snap)
    times = [t for t, *_ in rows if t != -1]
    assert torchs(tmp_path, ".raw.json", times) == rows
    assert torchs(tmp_path, ".json", times) == list(coalesced(snap))


@pytest.mark.viewers
@pytest.mark.filterwarnings("ignore")
def test_order_of_columns_and_actions_matches_torch() -> None:
    profiler = torch_part("torch.profiler._memory_profiler")
    names = [
        "unknown" if one is None else one.name.lower().replace("_", " ")
        for one in profiler._CATEGORY_TO_INDEX
    ]
    assert tuple(names) == COLUMNS
    actions = {one.name: number for one, number in profiler._ACTION_TO_INDEX.items()}
    assert actions["PREEXISTING"] == memory_timeline.PREEXISTING
    assert actions["CREATE"] == memory_timeline.CREATE
    assert actions["DESTROY"] == memory_timeline.DESTROY


def test_small_example_matches_torchs_recorded_output() -> None:
    """This needs no torch, because its writer's output was recorded once."""
    snap = views.opened(example(SnapshotBuilder()).build())
    t = START_US
    assert coalesced(snap) == (
        [t, t, t + 1, t + 3, t + 4, t + 9],
        [
            [0, 0, 0, 0, 0, 0, 0, 0, 50],
            [0, 0, 0, 100, 0, 0, 200, 0, 50],
            [0, 0, 300, 100, 0, 0, 200, 0, 0],
            [0, 0, 300, 0, 0, 7, 200, 0, 0],
            [0, 0, 300, 0, 0, 7, 200, 0, 0],
            [0, 0, 300, 0, 0, 7, 0, 0, 0],
        ],
    )
    assert raw(snap)[:3] == [[-1, 1, 50, 7], [t * 1000, 2, 100, 2], [t * 1000 + 500, 2, 200, 5]]
