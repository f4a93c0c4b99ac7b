"""history: each rank's growth from dump to dump, as numbers and as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import UNSET

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.app import app
from memreplay.commands.fleet.options import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.executing import Workers
from memreplay.commands.shared.source import Reading
from memreplay.errors import UsageError
from memreplay.fleets.history_text import history_blocks
from memreplay.fleets.result import FleetReport, RankHistory
from memreplay.render.plain import render_plain
from tests.commanding import command_runner
from tests.conftest import ROOT
from tests.layouts import MIB, put_snapshot


def ran(*sources: Path, **asked: object) -> FleetReport:
    named = tuple(map(str, sources))
    fleet = Fleet(sources=named, readers=Workers(1), **asked)  # type: ignore[arg-type]
    return run_fleet(fleet, Reading(), Selection())


def history(report: FleetReport) -> tuple[RankHistory, ...]:
    assert report.history is not UNSET
    return report.history


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Create torchtitan's layout: rank 1 keeps 10 MiB more in each dump; rank 0's last dump is
    broken.
    """
    for step in (10, 9, 20):
        for rank in (0, 1):
            path = tmp_path / f"iteration_{step}" / f"rank{rank}_memory_snapshot.pickle"
            put_snapshot(path, 50, kept=step * rank)
    (tmp_path / "iteration_20" / "rank0_memory_snapshot.pickle").write_bytes(b"nothing")
    return tmp_path


def test_dumps_of_each_rank_are_in_order(run: Path) -> None:
    report = ran(run, dump="each")
    assert [(one.rank, one.status) for one in report.ranks] == [(0, "unreadable"), (1, "ok")]
    first, second = history(report)
    assert [one.name for one in second.dumps] == ["iteration_9", "iteration_10", "iteration_20"]
    # The numbers are the same as without the earlier dumps: the kept memory, and 50 MiB above it.
    assert [one.end_bytes for one in second.dumps] == [9 * MIB, 10 * MIB, 20 * MIB]
    assert [one.peak_bytes for one in second.dumps] == [59 * MIB, 60 * MIB, 70 * MIB]
    assert (second.end_change_bytes, second.peak_change_bytes) == (11 * MIB, 11 * MIB)
    assert [one.end_bytes for one in first.dumps] == [0, 0, None]
    assert first.end_change_bytes == 0
    assert "not a memory snapshot" in (first.dumps[2].error or "")


def test_rest_of_the_report_uses_the_newest_dump(run: Path) -> None:
    each, newest = ran(run, dump="each"), ran(run)
    assert newest.history is UNSET
    assert each.ranks == newest.ranks
    assert (each.peak, each.worst, each.file_count) == (
        newest.peak,
        newest.worst,
        newest.file_count,
    )


def test_against_option_compares_the_newest_dumps(run: Path) -> None:
    report = ran(run, dump="each", base=(str(run),))
    assert report.against is not None
    assert [(one.rank, one.change_bytes) for one in report.against.ranks] == [(1, 0)]


def test_every_device_of_one_process_is_a_rank(tmp_path: Path) -> None:
    for step in (1, 2):
        put_snapshot(tmp_path / f"step_{step}.pickle", 50, 70, kept=step)
    report = ran(tmp_path, dump="each")
    assert report.rank_source == "devices"
    found = [(one.rank, one.device, one.end_change_bytes) for one in history(report)]
    assert found == [(0, 0, MIB), (1, 1, MIB)]


def test_every_device_of_every_rank_has_a_history(tmp_path: Path) -> None:
    for step in (1, 2):
        for rank in (0, 1):
            put_snapshot(tmp_path / f"step_{step}" / f"rank{rank}.pickle", 50, 70, kept=step)
    report = ran(tmp_path, dump="each")
    found = [(one.rank, one.device) for one in history(report)]
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1)]
    shown = lines(report, 160)
    assert any(line.startswith("0, device 0  step_1") for line in shown)


def test_history_continues_on_another_card_after_a_restart(tmp_path: Path) -> None:
    examples = ROOT / "examples" / "fsdp_odd_ranks"
    for step, source in ((10, "rank4"), (20, "rank5")):
        path = tmp_path / f"iteration_{step}" / "rank1_memory_snapshot.pickle.gz"
        path.parent.mkdir()
        path.symlink_to(examples / f"{source}.pkl.gz")
    (one,) = history(ran(tmp_path, dump="each"))
    assert (one.rank, one.device) == (1, 5)
    assert None not in [dump.end_bytes for dump in one.dumps]


def test_single_dump_has_no_history(tmp_path: Path) -> None:
    put_snapshot(tmp_path / "rank0.pickle", 5)
    report = ran(tmp_path, dump="each")
    assert history(report) == ()
    assert lines(report, 80) == ["note: no rank has several dumps to compare"]


def test_dumps_are_grouped_by_a_rank_pattern(tmp_path: Path) -> None:
    for step in (9, 10):
        for rank in (0, 3):
            put_snapshot(tmp_path / f"step_{step}" / f"card{rank}.pkl", step + rank)
    report = ran(tmp_path, rank_pattern="card([0-9]+)")
    peaks = [(one.rank, one.devices[0].peak_bytes // MIB) for one in report.ranks]
    assert peaks == [(0, 10), (3, 13)]
    report = ran(tmp_path, rank_pattern="card([0-9]+)", dump="each")
    found = [(one.rank, [dump.name for dump in one.dumps]) for one in history(report)]
    assert found == [(0, ["step_9", "step_10"]), (3, ["step_9", "step_10"])]


def test_dataset_has_one_dump(run: Path) -> None:
    with pytest.raises(
        UsageError, match="--dump each reads all dumps, but -o DIR holds one of each rank; name one"
    ):
        ran(run, dump="each", output=str(run / "data"))


def lines(report: FleetReport, width: int) -> list[str]:
    blocks = tuple(history_blocks(history(report), 20, "rank"))
    return render_plain(blocks, width=width).splitlines()


@pytest.mark.parametrize("width", [80, 160])
def test_each_dump_has_its_own_row(run: Path, width: int) -> None:
    shown = lines(ran(run, dump="each"), width)
    assert all(len(line) <= width for line in shown)
    words = " ".join(" ".join(shown[:3]).split())
    assert "rank 1 holds 11.0 MiB more at the end of iteration_20 than of iteration_9" in words
    table = [re.split(r"  +", line.strip()) for line in shown]
    at = next(n for n, row in enumerate(table) if row[:2] == ["1", "iteration_9"])
    assert table[at][2] == "59.0 MiB"
    assert table[at + 1][:3] == ["iteration_10", "60.0 MiB", "+1.0 MiB"]
    assert table[at + 2][-2:] == ["20.0 MiB", "+10.0 MiB"]
    assert table[at + 3][:2] == ["0", "iteration_9"]  # largest growth first
    assert table[at + 5] == ["iteration_20", "not read"]


def test_unreadable_older_dump_is_a_warning(run: Path) -> None:
    broken = run / "iteration_9" / "rank1_memory_snapshot.pickle"
    broken.write_bytes(b"nothing")
    report = ran(run, dump="each")
    assert history(report)[1].end_change_bytes == 10 * MIB
    words = " ".join(" ".join(lines(report, 160)).split())
    assert f"warning: not read: {broken}: not a memory snapshot" in words
    assert "rank 1 holds 10.0 MiB more at the end of iteration_20 than of iteration_10" in words
    args = ["fleet", str(run), "--dump", "each", "--workers", "1"]
    assert command_runner().invoke(app, args).exit_code == 3
