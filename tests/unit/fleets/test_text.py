"""text: a fleet as people read it."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.steps.records import StepAt
from memreplay.fleets.find import Explained, difference
from memreplay.fleets.result import CardFit, FleetReport
from memreplay.fleets.text import fleet_document
from memreplay.render.plain import render_plain
from tests.conftest import ROOT
from tests.unit.fleets.rows import MIB, broken, device, rank, report

SAME = {"weights": 100, "activations": 50}


def lines(found: FleetReport, width: int = 160) -> list[str]:
    return render_plain(fleet_document(found), width=width).splitlines()


def table(shown: list[str]) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in shown]


@pytest.mark.parametrize("width", [80, 160])
def test_ranks_that_are_alike(width: int) -> None:
    shown = lines(report(*(rank(at, SAME) for at in range(4))), width)
    assert all(len(line) <= width for line in shown)
    assert "4 ranks: highest peak 150.0 MiB requested on rank 0, as all of them, exact" in shown
    assert "ranks      by the files' names" in shown
    assert "peak       150.0 MiB on all" in shown
    words = "imbalance 1.00, the highest rank by the median one, on average over time"
    assert words in " ".join(" ".join(shown).split())
    assert not any("alike" in line for line in shown)
    assert ["3", "150.0 MiB", "152.0 MiB", "2.0 MiB"] in table(shown)


def test_a_rank_with_several_devices_says_so() -> None:
    made = rank(0, SAME)
    others = tuple(device({"weights": n}, device=n) for n in (3, 1, 2))
    several = replace(made, devices=(*made.devices, *others[:2]))
    shown = "\n".join(lines(report(several, rank(1, SAME))))
    assert "also 1.0 MiB on device 1, 3.0 MiB on device 3" in shown
    shown = "\n".join(lines(report(replace(made, devices=(*made.devices, *others)))))
    assert "also 1.0 MiB on device 1, 2.0 MiB on device 2, 1 more device" in shown


def test_an_odd_rank() -> None:
    folder = ROOT / "examples" / "fsdp_ranks"
    with (
        mr.open(folder / "rank1.pkl.gz") as base,
        mr.open(folder / "rank3.pkl.gz", device=3) as new,
    ):
        why = Explained(difference(base, new, Selection()))
    rows = [rank(at, SAME | ({"keep_history": 90} if at == 3 else {})) for at in range(6)]
    shown = lines(report(*rows, explained=why))
    assert "odd        rank 3, see below" in shown
    assert ["ranks 0 to 2, 4, 5", "150.0 MiB"] in table(shown)
    assert ["rank 3", "240.0 MiB", "+90.0 MiB keep_history"] in table(shown)
    assert "rank 3: 240.0 MiB, +90.0 MiB beside rank 2" in shown
    assert ["change", "rank 2", "rank 3", "asked by"] in table(shown)
    assert any("train_step  /workspace/fsdp/train.py" in line for line in shown)
    gone = lines(report(*rows, explained=Explained(error="the file is gone")))
    assert "note: what makes the difference could not be told: the file is gone" in gone


def test_what_is_wrong_with_a_rank() -> None:
    step = StepAt(annotation=None, found="recorder", number=4, of=9, inside=True, by="", name="")
    rows = [
        rank(0, SAME),
        rank(1, SAME, ooms=2, leak_bytes_per_step=3 * MIB, exactness="estimated", step=step),
    ]
    shown = lines(report(*rows))
    assert "2 ranks: highest peak 150.0 MiB requested on rank 0, as all of them," in shown[2]
    assert "out of memory on rank 1" in " ".join(shown[2:4])
    (row,) = (row for row in table(shown) if row[:2] == ["1", "150.0 MiB"])
    assert row[2] == "4 of 9"
    assert row[-1] == "2 requests failed, leaks 3.0 MiB a step, estimated"


def test_files_that_were_not_read() -> None:
    rows = [rank(0, SAME), *(broken(at, f"error {at}") for at in range(1, 14)), rank(16, SAME)]
    shown = lines(report(*rows))
    assert "warning: rank 1 not read: rank1.pkl: error 1" in shown
    assert "warning: 3 more files not read" in shown
    assert "warning: no file of ranks 14, 15" in shown
    assert "1 rank: nothing was read" in lines(report(broken(0)))


def test_cards() -> None:
    cards = [
        tuple(
            CardFit(n << 30, fits, "exact") for n, fits in ((24, False), (40, at > 1), (80, True))
        )
        for at in range(4)
    ]
    shown = lines(report(*(rank(at, SAME, cards=one) for at, one in enumerate(cards))))
    assert "on 24.0 GiB  none fits" in shown
    assert "on 40.0 GiB  ranks 0, 1 would run out of memory" in shown
    assert "on 80.0 GiB  all fit" in shown


def test_more_ranks_than_are_shown() -> None:
    rows = [rank(at, {"code": 100 + at}) for at in range(30)]
    shown = lines(report(*rows, top=5))
    assert ["29", "129.0 MiB", "131.0 MiB", "2.0 MiB"] in table(shown)
    assert any("25 more ranks (--top 0 shows all)" in line for line in shown)


def test_why_numbers_are_inexact_is_said_once_for_all_ranks() -> None:
    lost = {"exactness": "estimated", "reasons": ("unmatched_frees",), "trusted": False}
    rows = [rank(at, SAME, **lost) for at in (0, 1, 2)]
    shown = " ".join(" ".join(lines(report(*rows))).split())
    assert shown.count("warning: all ranks:") == 1
    assert "warning: ranks 0 to 2:" in " ".join(lines(report(*rows, rank(3, SAME))))
