"""A generated fleet's files match the peaks it claims, and never vary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import make_fleet
import memreplay as mr
from tests import oracle

FLEET = make_fleet.Fleet(ranks=24, kb=(60, 150), stages=3, broken=5)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("fleet")
    return folder, make_fleet.make_fleet(folder, FLEET)


def test_peaks_match_the_oracle_and_memreplay(made: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = made
    whole = [row for row in truth["ranks"] if not row["broken"]]
    assert len(whole) == 19
    for row in whole:
        data = (folder / row["file"]).read_bytes()
        told = oracle.replay(oracle.load(data), row["device"])
        assert (told.reconciliation_bytes, told.double_allocs, told.unmatched_frees) == (0, 0, 0)
        assert (told.carried_over_bytes, told.peak_bytes) == (0, row["peak_bytes"])
        snap = mr.open(data)
        assert snap.devices == (row["device"],)
        (device,) = mr.peak(snap).devices
        assert (device.peak_bytes, device.trusted) == (row["peak_bytes"], True)
        (device,) = mr.peak(snap, measure="reserved").devices
        assert (device.peak_bytes, device.trusted) == (row["reserved_bytes"], True)
        (steps,) = mr.steps(snap, annotation="ProfilerStep").devices
        assert len(steps.steps) == row["steps"]


def test_peaks_differ_more_between_stages_than_within_a_stage(
    made: tuple[Path, dict[str, Any]],
) -> None:
    peaks: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for row in made[1]["ranks"]:
        if not row["broken"] and row["rank"] != FLEET.odd_rank:
            peaks[row["stage"]].append(row["peak_bytes"])
    for stage in (1, 2):
        assert max(peaks[stage]) < 0.95 * min(peaks[stage - 1])
    for of_stage in peaks.values():
        assert 1 < max(of_stage) / min(of_stage) < 1.05


def test_diff_of_the_odd_rank_names_the_code_that_keeps_memory(
    made: tuple[Path, dict[str, Any]],
) -> None:
    folder, truth = made
    odd = truth["odd"]
    rows = truth["ranks"]
    (one,) = (row for row in rows if row["rank"] == odd["rank"])
    beside = next(
        row for row in rows if not row["broken"] and row["stage"] == one["stage"] and row is not one
    )
    assert 1.2 < one["peak_bytes"] / beside["peak_bytes"] < 1.35
    base, new = (mr.open(folder / row["file"]) for row in (beside, one))
    (device,) = mr.diff(base, new).devices
    first = device.rows[0].frames[0]
    assert (first.function, first.file) == (odd["function"], odd["file"])


def test_broken_files_cannot_be_read(made: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = made
    assert sorted(truth["broken"].values()) == sorted(make_fleet.BROKEN)
    for rank, kind in truth["broken"].items():
        row = truth["ranks"][int(rank)]
        assert (row["rank"], row["broken"]) == (int(rank), kind)
        assert "peak_bytes" not in row
        with pytest.raises(mr.MemreplayError):
            mr.open(folder / row["file"])


def test_same_arguments_give_the_same_bytes(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    asked = ["--ranks", "24", "--kb", "60,150", "--stages", "3", "--broken", "5", "--nested"]
    told = tmp_path / "truth.json"
    assert make_fleet.main([str(tmp_path / "again"), *asked, "--truth", str(told)]) == 0
    folder, truth = made
    again = json.loads(told.read_text(encoding="utf-8"))
    for one, other in zip(truth["ranks"], again["ranks"], strict=True):
        assert other["file"] == f"host{one['rank'] // 8}/{one['file']}"
        data = (tmp_path / "again" / other["file"]).read_bytes()
        assert data == (folder / one["file"]).read_bytes()
        assert one | {"file": ""} == other | {"file": ""}


@pytest.mark.parametrize("kb", [60, 150, 600])
def test_file_sizes_match_the_argument(kb: int) -> None:
    data = make_fleet.template(1, kb, 3).of(512 << 20)
    assert 0.8 < len(data) / (kb * 1000) < 1.25


@pytest.mark.parametrize(
    "fleet",
    [
        make_fleet.Fleet(ranks=3, stages=4),
        make_fleet.Fleet(ranks=5, broken=5),
        make_fleet.Fleet(ranks=5, odd=5),
        make_fleet.Fleet(kb=()),
    ],
)
def test_impossible_options_are_rejected(fleet: make_fleet.Fleet, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rank"):
        make_fleet.make_fleet(tmp_path, fleet)
