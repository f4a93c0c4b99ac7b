"""Tests of explore/ranks.py and ranks_app.py: the ranks of a folder, and choosing one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.shared.source import Reading
from memreplay.explore.ranks import Rank, RankRows, odd_ones, ranks_of_folder
from memreplay.explore.ranks_app import Ranks
from memreplay.render.units import signed_size, size
from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "fsdp_ranks"


def test_every_rank_shows_its_peak() -> None:
    ranks, code = ranks_of_folder(str(FOLDER), Reading(), "requested")
    assert code == 0
    assert [one.rank for one in ranks] == [0, 1, 2, 3]
    for one in ranks:
        (device,) = mr.peak(mr.open(one.file)).devices
        assert (one.device, one.peak, one.event) == (
            device.device,
            device.peak_bytes,
            device.peak_event,
        )
        (reserved,) = mr.peak(mr.open(one.file), measure="reserved").devices
        assert one.reserved == reserved.peak_bytes
        assert max(one.highs) == one.peak
    held, _ = ranks_of_folder(str(FOLDER), Reading(), "held")
    assert all(a.peak <= b.peak for a, b in zip(held, ranks, strict=True))


def test_unreadable_rank_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank0.pkl.gz").write_bytes((FOLDER / "rank0.pkl.gz").read_bytes())
    (tmp_path / "rank1.pkl").write_bytes(b"no snapshot")
    (tmp_path / "other.pkl").write_bytes(b"")
    ranks, code = ranks_of_folder(str(tmp_path), Reading(), "requested")
    assert ([one.rank for one in ranks], code) == ([0], 3)
    said = capsys.readouterr().err
    assert "rank1.pkl" in said
    assert "other.pkl is left out" in said
    assert ranks_of_folder(str(tmp_path / "none"), Reading(), "requested") == ([], 3)


def rank(number: int, peak: int) -> Rank:
    curve = [0] * 80, [peak] * 80
    return Rank(number, f"rank{number}.pkl", 0, peak, 7, peak, *curve, {"f a.py:1": peak})


def test_rows_share_a_scale() -> None:
    rows = RankRows([rank(0, 50), rank(1, 100), rank(2, 100)], "blocks", by_peak=True)
    assert [rows.key(at) for at in range(3)] == [1, 2, 0]
    assert rows.line(0).text == "█" * 40 + "  rank1.pkl"
    assert rows.line(2).text == "▄" * 40 + "  rank0.pkl"
    assert rows.line(2).cells == ("0", "50 B", "50 B", "-50 B")
    assert rows.line(1).cells == ("2", "100 B", "100 B", "")
    assert rows.titles[-1] == "outlier"
    assert dict(rows.shown(2).pairs)["outlier"] == ("-50 B compared with rank 1; -50 B in f a.py:1")
    rows = RankRows([rank(1, 1), rank(0, 2)], "ascii", by_peak=False)
    assert [rows.key(at) for at in range(2)] == [0, 1]
    assert rows.line(1).text == "." * 40 + "  rank1.pkl"


@pytest.mark.parametrize("folder", ["fsdp_ranks", "fsdp_odd_ranks"])
def test_odd_ranks_are_those_of_fleet(folder: str) -> None:
    path = str(ROOT / "examples" / folder)
    ranks, _ = ranks_of_folder(path, Reading(), "requested")
    outliers = mr.fleet(path).outliers
    assert outliers
    assert odd_ones(ranks) == {one.rank: replace(one, rows=()) for one in outliers}
    rows = RankRows(ranks, "blocks", by_peak=True)
    for one in outliers:
        (at,) = (i for i in range(len(rows)) if rows.key(i) == one.rank)
        words = dict(rows.shown(at).pairs)["outlier"]
        first = next(row for row in one.rows if row.change_bytes > 0)
        user = [first.frames[at].function for at in first.user]
        code = f"in {user[0]} " if user else first.label
        assert words.startswith(
            f"{signed_size(one.change_bytes)} compared with rank {one.typical_rank};"
            f" {signed_size(first.change_bytes)} {code}"
        )


def test_failed_requests_are_counted(tmp_path: Path) -> None:
    oom = ROOT / "examples" / "serving_oom.pkl.gz"
    (tmp_path / "rank0.pkl.gz").write_bytes(oom.read_bytes())
    ranks, _ = ranks_of_folder(str(tmp_path), Reading(), "requested")
    rows = RankRows(ranks, "blocks", by_peak=True)
    assert rows.line(0).tail == "2 requests failed"
    rows.fit(80)
    assert len(rows.line(0).text) <= 80
    assert "2 requests failed" in dict(rows.shown(0).pairs)["peak"]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_curves_use_the_width(width: int) -> None:
    app = Ranks("run", [rank(0, 100), rank(1, 100), rank(2, 50)], "blocks")

    async def play() -> None:
        async with app.run_test(size=(width, 12)) as pilot:
            await pilot.pause()
            strips = app.screen._compositor.render_strips()
            lines = ["".join(one.text for one in strip) for strip in strips]
            assert lines[0].rstrip().endswith("outliers: rank 2")
            assert lines[-3].startswith(f" rank 0: peak {size(100)} after event 7 on device 0")
            assert len(lines[2].rstrip()) == width
            assert lines[2].rstrip().endswith("█  rank0.pkl")
            colours = {one.style.color for one in strips[4] if one.style and "▄" in one.text}
            assert colours == {app.palette.rose.color}
            await pilot.press("question_mark")
            assert len(app.screen_stack) == 2
            await pilot.press("q")
            assert len(app.screen_stack) == 1

    asyncio.run(play())


def test_enter_chooses_a_rank() -> None:
    app = Ranks("run", [rank(number, 100 + number) for number in range(30)], "blocks")

    async def play() -> None:
        async with app.run_test(size=(100, 12)) as pilot:
            await pilot.pause()
            for key in ("down", "pagedown", "G", "g", "s", "s", "up", "down", "s"):
                await pilot.press(key)
            strips = app.screen._compositor.render_strips()
            text = "\n".join("".join(one.text for one in strip) for strip in strips)
            assert f"30 ranks, peaks {size(100)} to {size(129)}" in text
            await pilot.press("enter")

    asyncio.run(play())
    assert app.return_value is not None
    assert app.return_value.rank == 28


def test_quitting_chooses_no_rank() -> None:
    app = Ranks("run", [rank(0, 1), rank(1, 2)], "ascii", chosen=0)

    async def play() -> None:
        async with app.run_test(size=(60, 6)) as pilot:
            await pilot.pause()
            assert app.found.key(app.rows.row) == 0
            await pilot.press("q")

    asyncio.run(play())
    assert app.return_value is None


def test_o_goes_to_outliers_and_failed_ranks() -> None:
    ranks = [rank(number, 100) for number in range(30)]
    ranks[7] = ranks[7]._replace(failures=1)
    ranks[21] = rank(21, 50)
    app = Ranks("run", ranks, "blocks")

    async def play() -> None:
        async with app.run_test(size=(100, 12)) as pilot:
            await pilot.pause()
            await pilot.press("s")
            for key, number in (("o", 7), ("o", 21), ("o", 7), ("O", 21), ("O", 7)):
                await pilot.press(key)
                assert app.found.key(app.rows.row) == number
            await pilot.press("q")

    asyncio.run(play())
    alike = Ranks("run", [rank(number, 100) for number in range(3)], "blocks")
    alike.action_notable(1)
    assert alike.rows.row == 0
