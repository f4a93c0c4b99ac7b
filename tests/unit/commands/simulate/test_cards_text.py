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
from tests.allocator_blocks import GIB, MIB
from tests.unit.analysis.simulating.programs import scattered


def report(capacity: int = 80 * GIB, **asked: Any) -> SimulateReport:
    return simulate_report(mr.open(build.dump(scattered(capacity))), **asked)


def lines(found: SimulateReport, width: int = 100) -> list[str]:
    return render_plain(simulate_document(found), width=width).splitlines()


def rows(shown: list[str]) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in shown]


@pytest.mark.parametrize("width", [80, 160])
def test_needed_memory_is_shown_without_a_card(width: int) -> None:
    shown = lines(report(search="card"), width)
    assert all(len(line) <= width for line in shown)
    assert "device 0: reserves 290.0 MiB at its peak, the same as recorded" in shown
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
def test_verdict_is_worded_as_in_other_commands(
    reasons: tuple[str, ...], events: int, trust: str
) -> None:
    found = report(program_memory=(GIB,))
    device = replace(found.devices[0], reasons=reasons, events=events)
    shown = lines(replace(found, devices=(device,)))
    assert shown[2].startswith("device 0: fits on 1.0 GiB, reserves 290.0 MiB")
    assert f"result     {trust}" in shown


@pytest.mark.parametrize("width", [80, 160])
def test_cards_are_rows_of_a_table(width: int) -> None:
    shown = lines(report(program_memory=(GIB, 271 * MIB, 199 * MIB)), width)
    assert all(len(line) <= width for line in shown)
    assert shown[2].startswith("device 0: fits on 1 of 3 cards, reserves 290.0 MiB")
    table = rows(shown)
    assert ["1.0 GiB", "yes", "290.0 MiB", "0"] in table
    assert ["271.0 MiB", "no, event 97 fails", "expandable_segments:True"] in table
    assert any(re.fullmatch(r" +or \d+ others", line) for line in shown)
    (last,) = (row for row in table if row[0] == "199.0 MiB")
    assert last[-1] == "none of about 30"
    assert sum("attention  /srv/model.py:52" in line for line in shown) == 1
    assert "out of memory on 271.0 MiB: 18.0 MiB at event 97, requested at" in shown


def test_caller_is_named_once_for_all_cards_it_fails_on() -> None:
    shown = lines(report(program_memory=(271 * MIB, 270 * MIB)))
    assert "out of memory on 271.0 MiB, 270.0 MiB: 18.0 MiB at event 97, requested at" in shown
    assert shown[2].startswith("device 0: fits on none of 2 cards, out of memory at event 97")


def test_first_line_says_which_cards_fit() -> None:
    shown = lines(report(program_memory=(GIB,)))
    assert shown[2].startswith("device 0: fits on 1.0 GiB, ")
    shown = lines(report(program_memory=(GIB, 290 * MIB)))
    assert shown[2].startswith("device 0: fits on all 2 cards, ")
    assert ["card", "fits", "reserved", "retries"] in rows(shown)
    shown = lines(report(program_memory=(271 * MIB,)))
    assert shown[2].startswith("device 0: does not fit on 271.0 MiB, ")


def test_requested_settings_are_shown() -> None:
    shown = lines(report(set="expandable_segments:True", search="card"))
    assert "simulated  expandable_segments:True" in shown
    assert "recorded   PyTorch's defaults" in shown
    assert "at best    no less with any of about 30 other settings" in shown


def test_card_may_be_too_small_for_the_memory_at_the_start() -> None:
    snap = mr.open(build.dump(scattered()), start=99)
    shown = lines(simulate_report(snap, program_memory=(199 * MIB,)))
    assert any("no, more at the start" in line for line in shown)
    assert any(line.startswith("warning: memory was already reserved") for line in shown)


def test_overhead_is_listed_separately() -> None:
    shown = " ".join(lines(report(total_memory=(16 * GIB, 16 * GIB + 1))))
    assert "CUDA itself takes 320.1 MiB of each card, which is subtracted (an estimate)" in shown
    shown = " ".join(lines(report(total_memory=(16 * GIB, 80 * GIB))))
    assert "of these cards, which is subtracted" in shown


def test_facts_shared_by_all_devices_are_printed_once() -> None:
    found = report(program_memory=(GIB, 2 * GIB))
    (one,) = found.devices
    shown = " ".join(lines(replace(found, devices=(one, replace(one, device=1)))))
    assert shown.count("a few hundred MiB for the CUDA context") == 1
    assert "device 1: fits on all 2 cards" in shown


def test_report_says_that_there_is_nothing_to_simulate() -> None:
    empty = SimulateReport(file="x.pkl", truncated=False, devices=())
    assert "note: nothing to simulate: the file has neither events nor segments" in lines(empty)
