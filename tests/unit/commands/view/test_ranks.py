"""Tests of commands/view/ranks.py: the page of a run names the outliers of `memreplay fleet`."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from memreplay.commands.shared.source import Reading
from memreplay.commands.view.ranks import page_of_folder
from memreplay.fleets.text import fleet_document, outlier_line
from memreplay.render.blocks import blocks_of
from memreplay.render.units import signed_size, size
from tests.conftest import ROOT


@pytest.mark.parametrize("name", ["fsdp_odd_ranks", "fsdp_ranks"])
def test_page_and_command_name_the_outliers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ROOT / "examples" / name)
    report = mr.fleet(folder)
    (odd,) = report.outliers
    made, code = page_of_folder(folder, Reading(), None)
    assert (made is not None, code) == (True, 0)
    assert made is not None
    first = next(row for row in odd.rows if row.change_bytes > 0)
    user = [first.frames[at].function for at in first.user]
    where = f"in {user[0]} " if user else first.label
    words = (
        f"rank {odd.rank}: {size(odd.peak_bytes)}, {signed_size(odd.change_bytes)} compared with"
        f" rank {odd.typical_rank}; {signed_size(first.change_bytes)} {where}"
    )
    said = capsys.readouterr().err
    assert f"memreplay: outlier: {words}" in said
    assert said.count("outlier") == 1
    listed = blocks_of(fleet_document(report))
    for rank, one in enumerate(made[0].snapshots):
        assert one.name == f"rank {rank}" + " (outlier)" * (rank == odd.rank)
        assert one.report is not None
        (device,) = one.devices
        line = f"rank {rank}, device {device.device}; outlier: {outlier_line(odd)}"
        assert list(one.report.verdicts.values()) == [line]
        _, *blocks = one.report.blocks
        at = listed.index(blocks[0])
        assert list(listed[at : at + len(blocks)]) == blocks


def test_similar_ranks_have_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(3):
        source = ROOT / "examples" / "fsdp_odd_ranks" / f"rank{rank}.pkl.gz"
        (tmp_path / source.name).write_bytes(source.read_bytes())
    made, _ = page_of_folder(str(tmp_path), Reading(), None)
    assert made is not None
    assert [one.report for one in made[0].snapshots] == [None] * 3
    assert capsys.readouterr().err == ""
