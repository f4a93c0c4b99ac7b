"""Tests of commands/fits/text.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.fits.find import fits_report
from memreplay.commands.fits.result import FitsReport
from memreplay.commands.fits.text import BESIDES, fits_document
from memreplay.render.plain import render_plain
from tests import build
from tests.allocator import GIB, MIB
from tests.unit.analysis.simulating.programs import scattered


def report(capacity: int = 80 * GIB, **asked: Any) -> FitsReport:
    return fits_report(mr.open(build.dump(scattered(capacity))), **asked)


def lines(found: FitsReport, width: int = 100) -> list[str]:
    return render_plain(fits_document(found), width=width).splitlines()


def rows(shown: list[str]) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in shown]


@pytest.mark.parametrize("width", [80, 160])
def test_without_a_card(width: int) -> None:
    shown = lines(report(), width)
    assert all(len(line) <= width for line in shown)
    assert "device 0: needs 290.0 MiB, exact" in shown
    assert "settings  PyTorch's defaults" in shown
    assert "at best   200.0 MiB, 90.0 MiB less, with expandable_segments:True" in shown
    assert not any(line.startswith("recorded") for line in shown)
    assert f"note: {BESIDES}" in " ".join(" ".join(shown).split())


@pytest.mark.parametrize(
    "reasons, events, trust",
    [
        (("recording_begun_late",), 9, "exact"),
        (("ring_overflow",), 9, "exact for the last 9 events"),
        (("unmatched_frees", "not_reproduced"), 9, "not trustworthy"),
    ],
)
def test_the_verdict_is_worded_as_everywhere(
    reasons: tuple[str, ...], events: int, trust: str
) -> None:
    found = report(totals=(GIB,))
    device = replace(found.devices[0], reasons=reasons, events=events)
    shown = lines(replace(found, devices=(device,)))
    assert f"device 0: needs 290.0 MiB, fits on 1.0 GiB, {trust}" in shown


@pytest.mark.parametrize("width", [80, 160])
def test_cards(width: int) -> None:
    shown = lines(report(totals=(GIB, 271 * MIB, 199 * MIB)), width)
    assert all(len(line) <= width for line in shown)
    assert "device 0: needs 290.0 MiB, fits on 1 of 3 cards, exact" in shown
    table = rows(shown)
    assert ["1.0 GiB", "yes", "290.0 MiB", "0"] in table
    assert ["271.0 MiB", "no, event 97 fails", "expandable_segments:True"] in table
    assert any(re.fullmatch(r" +or \d+ others", line) for line in shown)
    (last,) = (row for row in table if row[0] == "199.0 MiB")
    assert last[-1] == "none of some 30"
    assert sum("attention  /srv/model.py:52" in line for line in shown) == 1
    assert "out of memory on 271.0 MiB: 18.0 MiB at event 97, asked by" in shown


def test_who_asked_is_said_once_for_all_cards_on_which_it_fails() -> None:
    shown = lines(report(totals=(271 * MIB, 270 * MIB)))
    assert "out of memory on 271.0 MiB, 270.0 MiB: 18.0 MiB at event 97, asked by" in shown
    assert "device 0: needs 290.0 MiB, fits on none of 2 cards, exact" in shown


def test_one_card_and_all_cards() -> None:
    assert "device 0: needs 290.0 MiB, fits on 1.0 GiB, exact" in lines(report(totals=(GIB,)))
    shown = lines(report(totals=(GIB, 290 * MIB)))
    assert "device 0: needs 290.0 MiB, fits on all 2 cards, exact" in shown
    assert ["card", "fits", "reserved", "retries"] in rows(shown)
    shown = lines(report(totals=(271 * MIB,)))
    assert "device 0: needs 290.0 MiB, does not fit on 271.0 MiB, exact" in shown


def test_settings_that_were_asked_for() -> None:
    shown = lines(report(settings="expandable_segments:True"))
    assert "settings  expandable_segments:True" in shown
    assert "recorded  PyTorch's defaults" in shown
    assert "at best   no less with any of some 30 other settings" in shown


def test_more_at_the_start_than_the_card_has() -> None:
    snap = mr.open(build.dump(scattered()), start=99)
    shown = lines(fits_report(snap, totals=(199 * MIB,)))
    assert any("no, more at the start" in line for line in shown)
    assert any(line.startswith("warning: the recording begins with memory") for line in shown)


def test_what_is_not_the_programs_is_said() -> None:
    shown = " ".join(lines(report(cards=(16 * GIB,))))
    assert "CUDA itself takes 320.1 MiB of each card, which is subtracted (an estimate)" in shown
    shown = " ".join(lines(report(cards=(16 * GIB, 80 * GIB))))
    assert "of these cards, which is subtracted" in shown


def test_what_is_so_for_all_devices_is_said_once() -> None:
    found = report(totals=(GIB,))
    (one,) = found.devices
    shown = " ".join(lines(replace(found, devices=(one, replace(one, device=1)))))
    assert shown.count("CUDA itself takes some hundred MiB") == 1
    assert "device 1: needs" in shown


def test_nothing_to_simulate() -> None:
    empty = FitsReport(file="x.pkl", truncated=False, devices=())
    assert "note: nothing to simulate: the file has neither events nor segments" in lines(empty)
