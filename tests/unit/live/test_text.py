"""Test the text that `memreplay watch --live` prints."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.live.find import combined
from memreplay.live.result import LiveReport
from memreplay.live.text import MARKS, Drawn, bar, key_of, live_document, rounded
from memreplay.render.plain import render_plain
from tests.unit.live.machine import GIB, HOLDER, card, device, recording

REPORT = combined([card()], "", (recording(),))


def text(report: LiveReport = REPORT, **drawn: Any) -> str:
    made = Drawn(80)._replace(**drawn)
    return render_plain(live_document(report, made), width=made.width)


def test_whole_text() -> None:
    report = combined([card()], "", (recording(last_file="/home/ana/a.pickle", holders=(HOLDER,)),))
    assert text(report).splitlines()[:8] == [
        "card 0: NVIDIA H200, 80.0 GiB of 140.0 GiB in use",
        "█" * 23 + "▓▓▓" + "░" * 19 + "▚" + "·" * 34,
        "█   40.0 GiB   28.6%  pid 100 train.py: allocated by PyTorch",
        "▓    5.0 GiB    3.6%  pid 100 train.py: reserved by PyTorch, not allocated",
        "▒    1.0 GiB    0.7%  pid 100 train.py: outside PyTorch: context, libraries",
        "░   33.0 GiB   23.6%  pid 4711 python",
        "▚    1.0 GiB    0.7%  the driver, and processes that it doesn't list",
        "·   60.0 GiB   42.9%  free",
    ]


@pytest.mark.parametrize("width", [40, 80, 100, 160, 300])
@pytest.mark.parametrize("plain", [False, True])
def test_everything_fits(width: int, plain: bool) -> None:
    ranks = [
        recording(
            device(uuid=f"{pid}"),
            pid=pid,
            rank=pid,
            name="a-long-name-of-a-script.py",
            holders=(HOLDER,),
        )
        for pid in range(3)
    ]
    report = combined([card()], "no", tuple(ranks))
    history = {key_of(report.cards[0]): list(range(0, 140 * GIB, GIB))}
    lines = text(report, width=width, plain=plain, chosen=1, history=history).splitlines()
    assert max(map(len, lines)) <= width
    if plain:
        assert all(line.replace("…", "").isascii() for line in lines)
    assert any("> pid 1" in line for line in lines)
    assert any("a-long-name" in line for line in lines)


@pytest.mark.parametrize("width", [20, 79, 120])
def test_bar_has_each_parts_share(width: int) -> None:
    (one,) = REPORT.cards
    cells = "".join(part for part, _ in bar(one, Drawn(width)))
    assert len(cells) == width
    for part in one.parts:
        share = cells.count(MARKS[part.kind][0]) / width
        assert share == pytest.approx(part.bytes / one.total_bytes, abs=1 / width)


def test_line_over_time_has_the_highest_use() -> None:
    history = {key_of(REPORT.cards[0]): [0, 140 * GIB, 70 * GIB]}
    assert "▁█▅  last 3 s, at most 140.0 GiB" in text(history=history)
    assert "last" not in text(history={key_of(REPORT.cards[0]): [1]})


def test_cards_of_dry_runs_are_told_apart() -> None:
    ranks = tuple(recording(pid=pid, is_dryrun=True) for pid in (100, 101))
    report = combined([], "", ranks)
    first, second = report.cards
    found = text(report, history={key_of(first): [GIB] * 2, key_of(second): [2 * GIB] * 2})
    assert "fake GPU NVIDIA H200 of pid 100, 80.0 GiB of 140.0 GiB in use" in found
    assert "fake GPU NVIDIA H200 of pid 101, 80.0 GiB of 140.0 GiB in use" in found
    assert found.index("at most 1.0 GiB") < found.index("at most 2.0 GiB")


def test_bars_without_parts() -> None:
    found = text(detail="bars")
    assert "·" * 34 in found
    assert "pid 4711" not in found


def test_details_of_the_only_recording() -> None:
    one = recording(
        start_us=0,
        last_file="/home/ana/a.pickle",
        last_us=40_000_000,
        holders=(HOLDER,),
        is_dumping=True,
    )
    report = LiveReport(time_us=100_000_000, cards=(), cards_missing="", recordings=(one,))
    found = " ".join(text(report).split())
    assert "recording pid 100, for 2 min" in found
    assert "writes /home/ana/snap.pickle, at its end" in found
    assert "wrote /home/ana/a.pickle, 60 s ago" in found
    assert "13.0 GiB 445 losses[…] (list) in train() /home/ana/train.py:12" in found
    assert "it's writing a snapshot" in found


def test_unknown_parts_are_named() -> None:
    found = text(combined([card(processes=[], missing="NVML: Permission")], "", (recording(),)))
    assert "outside PyTorch: context, libraries, other processes" in found
    assert "other processes aren't listed: NVML: Permission" in found


def test_names_from_other_programs_are_inert() -> None:
    hostile = recording(name="\x1b[2J::error::x", file="/tmp/\x1b[31m")
    found = text(combined([card(name="a\x1b]0;b\x07")], "", (hostile,)))
    assert "\x1b" not in found
    assert "\x07" not in found


def test_no_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    report = combined([card()], "", ())
    monkeypatch.setattr("sys.platform", "linux")
    assert "no recording of memreplay is running on this machine" in text(report)
    monkeypatch.setattr("sys.platform", "win32")
    assert "no recording of memreplay is listed: needs Linux" in text(report)


def test_rounded_times() -> None:
    minutes = 60_000_000
    times = [0, 99_900_000, 100_000_000, 99 * minutes, 100 * minutes, 185 * minutes, -5]
    assert [*map(rounded, times)] == [
        "0 s",
        "99 s",
        "2 min",
        "99 min",
        "1 h 40 min",
        "3 h 05 min",
        "0 s",
    ]
