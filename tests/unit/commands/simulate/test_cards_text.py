"""Tests of commands/simulate/cards_text.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.simulate.cards_text import BESIDES
from memreplay.commands.simulate.find import simulate_report
from memreplay.commands.simulate.result import SimulateReport
from memreplay.commands.simulate.text import simulate_document
from memreplay.render.plain import render_plain
from tests import build
from tests.allocator import GIB, MIB
from tests.unit.analysis.simulating.programs import scattered


def report(capacity: int = 80 * GIB, **asked: Any) -> SimulateReport:
    return simulate_report(mr.open(build.dump(scattered(capacity))), **asked)


def lines(found: SimulateReport, width: int = 100) -> list[str]:
    return render_plain(simulate_document(found), width=width).splitlines()


def rows(shown: list[str]) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in shown]


@pytest.mark.parametrize("width", [80, 160])
def test_without_a_card(width: int) -> None:
    shown = lines(report(smallest=True), width)
    assert all(len(line) <= width for line in shown)
    assert "device 0: reserves 290.0 MiB at the peak, as much as recorded" in shown
    assert "needs      290.0 MiB for the program, with these settings" in shown
    assert "at best    200.0 MiB, 90.0 MiB less, with expandable_segments:True" in shown
    assert "result     exact" in shown
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
    found = report(program_memory=(GIB,))
    device = replace(found.devices[0], reasons=reasons, events=events)
    shown = lines(replace(found, devices=(device,)))
    assert shown[2].startswith("device 0: fits on 1.0 GiB, reserves 290.0 MiB")
    assert f"result     {trust}" in shown


@pytest.mark.parametrize("width", [80, 160])
def test_cards(width: int) -> None:
    shown = lines(report(program_memory=(GIB, 271 * MIB, 199 * MIB)), width)
    assert all(len(line) <= width for line in shown)
    assert shown[2].startswith("device 0: fits on 1 of 3 cards, reserves 290.0 MiB")
    table = rows(shown)
    assert ["1.0 GiB", "yes", "290.0 MiB", "0"] in table
    assert ["271.0 MiB", "no, event 97 fails", "expandable_segments:True"] in table
    assert any(re.fullmatch(r" +or \d+ others", line) for line in shown)
    (last,) = (row for row in table if row[0] == "199.0 MiB")
    assert last[-1] == "none of some 30"
    assert sum("attention  /srv/model.py:52" in line for line in shown) == 1
    assert "out of memory on 271.0 MiB: 18.0 MiB at event 97, asked by" in shown


def test_who_asked_is_said_once_for_all_cards_on_which_it_fails() -> None:
    shown = lines(report(program_memory=(271 * MIB, 270 * MIB)))
    assert "out of memory on 271.0 MiB, 270.0 MiB: 18.0 MiB at event 97, asked by" in shown
    assert shown[2].startswith("device 0: fits on none of 2 cards, out of memory at event 97")


def test_one_card_and_all_cards() -> None:
    shown = lines(report(program_memory=(GIB,)))
    assert shown[2].startswith("device 0: fits on 1.0 GiB, ")
    shown = lines(report(program_memory=(GIB, 290 * MIB)))
    assert shown[2].startswith("device 0: fits on all 2 cards, ")
    assert ["card", "fits", "reserved", "retries"] in rows(shown)
    shown = lines(report(program_memory=(271 * MIB,)))
    assert shown[2].startswith("device 0: does not fit on 271.0 MiB, ")


def test_settings_that_were_asked_for() -> None:
    shown = lines(report(settings="expandable_segments:True", smallest=True))
    assert "simulated  expandable_segments:True" in shown
    assert "recorded   PyTorch's defaults" in shown
    assert "at best    no less with any of some 30 other settings" in shown


def test_more_at_the_start_than_the_card_has() -> None:
    snap = mr.open(build.dump(scattered()), start=99)
    shown = lines(simulate_report(snap, program_memory=(199 * MIB,)))
    assert any("no, more at the start" in line for line in shown)
    assert any(line.startswith("warning: the recording begins with memory") for line in shown)


def test_what_is_not_the_programs_is_said() -> None:
    shown = " ".join(lines(report(total_memory=(16 * GIB, 16 * GIB + 1))))
    assert "CUDA itself takes 320.1 MiB of each card, which is subtracted (an estimate)" in shown
    shown = " ".join(lines(report(total_memory=(16 * GIB, 80 * GIB))))
    assert "of these cards, which is subtracted" in shown


def test_what_is_so_for_all_devices_is_said_once() -> None:
    found = report(program_memory=(GIB, 2 * GIB))
    (one,) = found.devices
    shown = " ".join(lines(replace(found, devices=(one, replace(one, device=1)))))
    assert shown.count("a few hundred MiB for the CUDA context") == 1
    assert "device 1: fits on all 2 cards" in shown


def test_nothing_to_simulate() -> None:
    empty = SimulateReport(file="x.pkl", truncated=False, devices=())
    assert "note: nothing to simulate: the file has neither events nor segments" in lines(empty)
