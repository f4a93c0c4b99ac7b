"""Tests of explore/rows/allocations.py: an allocation's details match the reports."""

from __future__ import annotations

import gzip
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.explore.explored import Explored
from memreplay.explore.rows.listed import ListRows
from memreplay.render.units import size
from memreplay.snapshot.model import When
from memreplay.snapshot.recorded import UNKNOWN
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.oracle_groups import Groups
from tests.unit.analysis.groups.test_holding import two_lists
from tests.unit.explore.files import FILES

GPT = ROOT / "examples" / "recorded_gpt.pkl.gz"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path != GPT],
    ids=lambda path: path.name.removesuffix(".pkl.gz"),
)
def test_categories_match_the_oracle(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    plain = oracle.load(data)
    explored = Explored(mr.open(data))
    assert explored.snap.recorded is None
    for device in explored.snap.devices:
        groups = Groups(plain, device)
        look = replace(explored.first_look(device), view="list")
        explored.most = 10_000
        for event in {explored.bounds(device)[0], look.event}:
            rows = explored.rows(replace(look, event=event))
            assert isinstance(rows, ListRows)
            wanted: Counter[tuple[int, int, str]] = Counter()  # by label
            for one in groups.replay.live_at(event):
                called = f"{groups.called(one, 'category')} (guessed)"
                wanted[one.alloc_index, one.size, called] += 1
            found: Counter[tuple[int, int, str]] = Counter()
            for at, (index, carried, n_bytes, _) in enumerate(rows.found):
                told = dict(rows.shown(at).pairs)["category"]
                found[-1 if carried else index, n_bytes, told] += 1
            assert found == wanted


def test_recorded_categories_are_kept() -> None:
    explored = Explored(mr.open(GPT))
    noted = explored.snap.recorded
    assert noted is not None
    explored.most = 10_000
    rows = explored.rows(replace(explored.first_look(0), view="list"))
    assert isinstance(rows, ListRows)
    kinds = noted.of_events(explored.snap.replay(0)), noted.of_carried(explored.snap.replay(0))
    checked = 0
    for at, (index, carried, _, _) in enumerate(rows.found):
        kind = kinds[carried][index]
        if kind == UNKNOWN or not (name := noted.categories[noted.kinds[0][kind]]):
            continue
        assert dict(rows.shown(at).pairs)["category"] == f"{name} (recorded)"
        checked += 1
    assert checked > len(rows.found) / 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".pkl.gz"))
def test_categories_add_up_to_those_of_at(path: Path) -> None:
    explored = Explored(mr.open(path))
    for device in explored.snap.devices:
        look = replace(explored.first_look(device), view="list", measure="active")
        look = replace(look, event=explored.peak(look).event_index)
        explored.most = 10_000
        rows = explored.rows(look)
        assert isinstance(rows, ListRows)
        found: Counter[str] = Counter()
        for index, carried, n_bytes, _ in rows.found:
            found[rows.allocations.category(index, carried=carried).rpartition(" (")[0]] += n_bytes
        (at,) = mr.at(
            explored.snap,
            When("event", look.event),
            by="category",
            measure="active",
            device=device,
            top=0,
        ).devices
        assert found == {group.label: group.bytes for group in at.groups}


def test_details_show_size_times_pool_and_stream() -> None:
    builder = SnapshotBuilder().free_completed(1 << 20, 300)
    builder.alloc(512, 100, frames=[("f", "/w/a.py", 1)], stream=7).free_completed(512, 100)
    builder.alloc(2048, 200)
    explored = Explored(mr.open(build.dump(builder.build())))
    look = replace(explored.first_look(0), view="list")

    def told(event: int) -> list[dict[str, str]]:
        rows = explored.rows(replace(look, event=event))
        return [dict(rows.shown(at).pairs) for at in range(len(rows))]

    (before,) = told(explored.bounds(0)[0])
    assert (before["allocated"], before["freed"]) == ("before the first event", "at event 0")
    assert before["age"] == "before"
    assert "stream" not in before
    (first,) = told(1)
    assert (first["allocated"], first["freed"], first["stream"]) == (
        "at event 1",
        "at event 2",
        "7",
    )
    assert first["held"] == f"{size(100)} (100 bytes)"
    (last,) = told(3)
    assert (last["freed"], last["stream"]) == ("never", "default")
    assert last["category"].endswith(" (guessed)")


def test_category_takes_less_time_than_a_key() -> None:
    explored = Explored(mr.open(GPT))
    look = replace(explored.first_look(0), view="list")
    rows = explored.rows(look)
    rows.shown(0)  # the grouper is created once
    begin = time.perf_counter()
    for at in range(len(rows)):
        rows.shown(at)
    assert (time.perf_counter() - begin) / len(rows) < 0.03


def test_details_say_who_holds_an_allocation() -> None:
    explored = Explored(mr.open(build.dump(two_lists())))
    rows = explored.rows(replace(explored.first_look(0), view="list"))
    assert [dict(rows.shown(at).pairs)["held by"] for at in range(3)] == [
        "(freed before the recorder looked)",
        "losses[…] (list) in train() train.py:12",
        "cache[…] (list) in serve() train.py:7",
    ]
    without = Explored(mr.open(GPT))
    shown = without.rows(replace(without.first_look(0), view="list")).shown(0)
    assert "held by" not in dict(shown.pairs)
