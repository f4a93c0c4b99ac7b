"""text: the readable report of a fleet."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.steps.records import StepAt
from memreplay.commands.diff.between_ranks import difference
from memreplay.fleets.history_text import history_blocks
from memreplay.fleets.outliers import Explained
from memreplay.fleets.result import CardFit, FleetReport, RankDump, RankHistory
from memreplay.fleets.text import fleet_document
from memreplay.render.plain import render_plain
from tests.conftest import ROOT
from tests.unit.fleets.rows import MIB, broken, device, rank, report

SAME = {"weights": 100, "activations": 50}


def lines(found: FleetReport, width: int = 160) -> list[str]:
    return render_plain(fleet_document(found), width=width).splitlines()


def table(shown: list[str]) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in shown]


def test_heading_counts_further_sources() -> None:
    shown = lines(replace(report(rank(0, SAME)), input="run/a.pkl, run/b.pkl, run/c.pkl"))
    assert shown[0] == "run/a.pkl  and 2 more"


@pytest.mark.parametrize("width", [80, 160])
def test_similar_ranks_are_summarized_in_one_line(width: int) -> None:
    shown = lines(report(*(rank(at, SAME) for at in range(4))), width)
    assert all(len(line) <= width for line in shown)
    assert "4 ranks: highest peak 150.0 MiB requested on rank 0, the same on all, exact" in shown
    assert "ranks      from the file names" in shown
    assert "peak       150.0 MiB on all" in shown
    words = "imbalance 1.00: highest rank over the median, averaged over time"
    assert words in " ".join(" ".join(shown).split())
    assert not any("similar" in line for line in shown)
    assert ["3", "150.0 MiB", "152.0 MiB", "2.0 MiB"] in table(shown)


def test_headline_says_how_exact_the_numbers_are() -> None:
    final = {"trusted": False, "reasons": ("no_events",)}
    (_, _, first, *_) = lines(report(*(rank(at, SAME, **final) for at in range(2))))
    assert first.endswith(", exact for the final state")
    (_, _, first, *_) = lines(report(rank(0, SAME), rank(1, SAME, **final)))
    assert first.endswith(", exact except on rank 1")
    ring = {"trusted": False, "reasons": ("unmatched_frees",), "exactness": "estimated"}
    (_, _, first, *_) = lines(report(*(rank(at, SAME, **ring) for at in range(2))))
    assert first.endswith(", not trustworthy")


@pytest.mark.parametrize("width", [80, 160])
def test_differences_name_code_as_other_reports_do(width: int) -> None:
    node = "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)"
    step = f"step /home/{'ana/' * 20}optimizers.py:82"
    odd = rank(4, {"weights": 100, node: 90, step: 80})
    shown = lines(report(*(rank(at, SAME) for at in range(4)), odd), width)
    assert all(len(line) <= width for line in shown)
    rows = [line for line in shown if "+90.0 MiB" in line or "+80.0 MiB" in line]
    assert rows[0].endswith("+90.0 MiB BmmBackward0 (autograd)")
    assert rows[1].endswith("optimizers.py:82")
    assert "+80.0 MiB step" in rows[1]


def test_row_mentions_the_other_devices_of_its_rank() -> None:
    made = rank(0, SAME)
    others = tuple(device({"weights": n}, device=n) for n in (3, 1, 2))
    several = replace(made, devices=(*made.devices, *others[:2]))
    shown = "\n".join(lines(report(several, rank(1, SAME))))
    assert "also 1.0 MiB on device 1, 3.0 MiB on device 3" in shown
    shown = "\n".join(lines(report(replace(made, devices=(*made.devices, *others)))))
    assert "also 1.0 MiB on device 1, 2.0 MiB on device 2, 1 more device" in shown


def test_outlier_is_shown_with_the_code_behind_it() -> None:
    folder = ROOT / "examples" / "fsdp_ranks"
    with (
        mr.open(folder / "rank1.pkl.gz") as base,
        mr.open(folder / "rank3.pkl.gz", device=3) as new,
    ):
        why = Explained(difference(base, new, Selection()))
    rows = [rank(at, SAME | ({"keep_history": 90} if at == 3 else {})) for at in range(6)]
    shown = lines(report(*rows, explained=why))
    assert "outliers   rank 3 (see below)" in shown
    assert ["ranks 0 to 2, 4, 5", "150.0 MiB"] in table(shown)
    assert ["rank 3", "240.0 MiB", "+90.0 MiB keep_history"] in table(shown)
    assert "rank 3: 240.0 MiB, +90.0 MiB compared with rank 2" in shown
    assert ["change", "rank 2", "rank 3", "allocated at, and its callers"] in table(shown)
    assert any("train_step  /workspace/fsdp/train.py" in line for line in shown)
    gone = lines(report(*rows, explained=Explained(error="the file is gone")))
    assert "note: can't compare them: the file is gone" in gone


def test_row_shows_the_problems_of_its_rank() -> None:
    step = StepAt(annotation=None, found_by="recorder", number=4, of=9, inside=True, by="", name="")
    rows = [
        rank(0, SAME),
        rank(1, SAME, oom_count=2, leak_bytes_per_step=3 * MIB, exactness="estimated", step=step),
    ]
    shown = lines(report(*rows))
    assert "2 ranks: highest peak 150.0 MiB requested on rank 0, the same on all," in shown[2]
    assert "out of memory on rank 1" in " ".join(shown[2:4])
    (row,) = (row for row in table(shown) if row[:2] == ["1", "150.0 MiB"])
    assert row[2] == "4 of 9"
    assert row[-1] == "2 requests failed, leaks 3.0 MiB a step, estimated"


def test_unread_files_are_warnings() -> None:
    rows = [rank(0, SAME), *(broken(at, f"error {at}") for at in range(1, 14)), rank(16, SAME)]
    shown = lines(report(*rows))
    assert "warning: rank 1 not read: rank1.pkl: error 1" in shown
    assert "warning: 3 more files not read" in shown
    assert "warning: no file for ranks 14, 15" in shown
    assert "1 rank: no file was read" in lines(report(broken(0)))


def test_cards_list_the_ranks_that_do_not_fit() -> None:
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


def test_ranks_beyond_the_limit_are_counted() -> None:
    rows = [rank(at, {"code": 100 + at}) for at in range(30)]
    shown = lines(report(*rows, top=5))
    assert ["29", "129.0 MiB", "131.0 MiB", "2.0 MiB"] in table(shown)
    assert any("25 more ranks (--top 0 shows all)" in line for line in shown)


def test_reason_for_inexact_numbers_is_printed_once() -> None:
    lost = {"exactness": "estimated", "reasons": ("unmatched_frees",), "trusted": False}
    rows = [rank(at, SAME, **lost) for at in (0, 1, 2)]
    shown = " ".join(" ".join(lines(report(*rows))).split())
    assert shown.count("warning: all ranks:") == 1
    assert "warning: ranks 0 to 2:" in " ".join(lines(report(*rows, rank(3, SAME))))


def dump(name: str, **changes: Any) -> RankDump:
    made = RankDump(
        name=name,
        file=f"{name}.pickle",
        status="ok",
        error=None,
        peak_bytes=300 * MIB,
        reserved_peak_bytes=400 * MIB,
        end_bytes=200 * MIB,
        oom_count=0,
        exactness="exact",
        reasons=(),
    )
    return replace(made, **changes)


def history(*dumps: RankDump) -> RankHistory:
    changes = dict.fromkeys(("peak_change_bytes", "reserved_change_bytes", "end_change_bytes"), 0)
    return RankHistory(rank=0, device=0, **changes, dumps=dumps)


@pytest.mark.parametrize("width", [72, 80, 100, 160])
def test_long_names_of_dumps_leave_room_for_remarks(width: int) -> None:
    names = [f"llama3-8b-fsdp-run-42.window-{at:06}" for at in range(2)]
    last = dump(f"{names[1]}-oom", oom_count=1)
    blocks = history_blocks([history(*map(dump, names), last)], 10, "rank")
    shown = render_plain(tuple(blocks), width=width).splitlines()
    assert max(map(len, shown)) <= width
    assert shown[-1].split()[0].endswith("run-42.window-000001-oom")
    assert shown[-1].endswith("1 request failed")


def test_names_of_dumps_without_a_common_start_stay() -> None:
    names = ["a" * 40, "b" * 40, "short"]
    shown = render_plain(tuple(history_blocks([history(*map(dump, names))], 10, "rank")), width=160)
    assert all(name in shown for name in names)
