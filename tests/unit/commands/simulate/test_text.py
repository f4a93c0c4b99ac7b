"""Tests of commands/simulate/text.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.simulate.find import simulate_report
from memreplay.commands.simulate.result import SimulateReport
from memreplay.commands.simulate.text import simulate_document
from memreplay.render.plain import render_plain
from tests import build
from tests.allocator_blocks import GIB, MIB
from tests.unit.analysis.simulating.programs import scattered

EXPANDABLE = "expandable_segments:True"


def report(capacity: int = 80 * GIB, **asked: Any) -> SimulateReport:
    return simulate_report(mr.open(build.dump(scattered(capacity))), **asked)


def lines(found: SimulateReport, width: int = 100, top: int = 20) -> list[str]:
    return render_plain(simulate_document(found, top=top), width=width).splitlines()


def words(found: SimulateReport, width: int = 100, top: int = 20) -> str:
    return " ".join(" ".join(lines(found, width, top)).split())


@pytest.mark.parametrize(
    "changed, trust",
    [
        ({}, "exact"),
        ({"reasons": ("ring_overflow",), "events": 9}, "exact for the last 9 events"),
        ({"reasons": ("not_reproduced",), "exactness": "estimated"}, "estimated"),
        ({"reasons": ("not_reproduced", "unmatched_frees")}, "not trustworthy"),
    ],
)
def test_verdict_is_worded_as_in_other_commands(changed: dict[str, Any], trust: str) -> None:
    found = report(set=EXPANDABLE, program_memory=(GIB,))
    device = replace(found.devices[0], **changed)
    assert f"result     {trust}" in lines(replace(found, devices=(device,)))


def test_a_simulation_without_changes_says_so() -> None:
    note = "note: nothing was changed, so this simulates the recording itself; give --set,"
    assert note in words(report())
    for asked in ({"set": EXPANDABLE}, {"program_memory": (GIB,)}, {"search": "settings"}):
        assert note not in words(report(**asked))


@pytest.mark.parametrize("width", [80, 160])
def test_recording_and_simulation_are_side_by_side(width: int) -> None:
    shown = lines(report(set=EXPANDABLE, program_memory=(GIB,)), width)
    assert all(len(line) <= width for line in shown)
    assert shown[2].startswith("device 0: fits on 1.0 GiB, reserves 200.0 MiB at its peak,")
    assert "recorded   PyTorch's defaults" in shown
    assert f"simulated  {EXPANDABLE}, with 1.0 GiB for the program" in shown
    assert "result     exact" in shown
    table = [re.split(r"  +", line.strip()) for line in shown]
    assert ["recorded", "simulated", "change"] in table
    assert ["peak reserved", "290.0 MiB", "200.0 MiB", "-90.0 MiB"] in table
    assert ["unused", "90.0 MiB", "0 B", "-90.0 MiB"] in table
    assert ["peak active", "200.0 MiB", "200.0 MiB", "same"] in table
    assert ["segments at the end", "15", "1", "-14"] in table
    assert ["driver allocs", "15", "10", "-5"] in table
    assert ["driver frees", "0", "0", "same"] in table
    assert ["retries", "0", "0", "same"] in table
    assert ["failed requests", "0", "0", "same"] in table
    assert not any("note:" in line or "warning:" in line for line in shown)


def test_peak_may_be_the_same_or_higher() -> None:
    assert "device 0: reserves 290.0 MiB at its peak, the same as recorded" in lines(report())
    more = words(report(set="roundup_power2_divisions:2"))
    assert re.search(r"reserves \d+\.\d MiB at its peak, \d+\.\d MiB more than recorded", more)


@pytest.mark.parametrize("width", [80, 160])
def test_early_end_is_not_compared(width: int) -> None:
    found = report(program_memory=(271 * MIB,))
    at = found.devices[0].stopped_event
    shown = lines(found, width)
    assert all(len(line) <= width for line in shown)
    assert f"device 0: does not fit on 271.0 MiB, out of memory at event {at} of 100," in shown[2]
    table = [re.split(r"  +", line.strip()) for line in shown]
    assert ["recorded", "up to there"] in table
    assert ["peak reserved", "290.0 MiB", "254.0 MiB"] in table
    assert f"out of memory: 18.0 MiB at event {at}, requested at" in shown
    assert "attention  /srv/model.py:52" in shown
    assert "note: the simulation ends there: what the program does next can't be known" in words(
        found
    )


def test_failed_requests_come_first() -> None:
    found = report(240 * MIB)
    assert "device 0: 3 requests fail as recorded, reserves" in words(found)
    found = report(240 * MIB, set=EXPANDABLE)
    assert "device 0: no request fails (recorded: 3), reserves" in words(found)
    assert "warning: a request that failed in the recording succeeds" in words(found)
    (one,) = report(240 * MIB, set=EXPANDABLE).devices
    fewer = replace(one, simulated=replace(one.simulated, oom_count=1))
    assert "device 0: 1 request fails (recorded: 3)" in words(replace(found, devices=(fewer,)))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_search_shows_whole_settings(width: int) -> None:
    found = report(search="settings")
    shown = lines(found, width, top=0)
    assert all(len(line) <= width for line in shown)
    assert not any("…" in line for line in shown)
    joined = "".join(line.strip() for line in shown).replace(" ", "")
    for one in found.devices[0].candidates or ():
        assert (one.settings or "PyTorch'sdefaults") in joined
    assert "device 0: at best reserves 200.0 MiB" in words(found, width)
    assert "failed" not in next(line for line in shown if line.endswith("settings"))
    narrow = width == 80
    assert any(re.match(r" *reserved +unused  allocs", line) for line in shown) != narrow


def test_search_shows_the_best_and_the_recorded_settings() -> None:
    found = report(search="settings")
    shown = lines(found, top=2)
    rows = [line for line in shown if re.match(r" *~?\d+\.\d MiB ", line)]
    assert len(rows) == 3
    assert rows[-1].endswith("PyTorch's defaults")
    assert shown[shown.index(rows[-1]) + 1].strip() == "of the recording"
    tried = len(found.devices[0].candidates or ())
    assert f"note: {tried - 3} more settings tried (--top 0 shows all)" in shown
    assert not any("more setting" in line for line in lines(found, top=0))


def test_search_marks_estimates_and_failures() -> None:
    whole = words(report(240 * MIB, search="settings"), top=0)
    assert "retries failed settings" in whole
    assert "~" in whole
    assert "note: ~ marks estimates" in whole
    whole = words(report(program_memory=(205 * MIB,), search="settings"), top=0)
    assert re.search(r"out of memory at event \d+", whole)


def test_report_says_that_there_is_nothing_to_simulate() -> None:
    empty = SimulateReport(file="x.pkl", truncated=False, devices=())
    assert "note: nothing to simulate: the file has neither events nor segments" in lines(empty)
    found = report()
    (one,) = found.devices
    none = replace(one, events=0, reasons=("no_events",), trusted=False)
    shown = lines(replace(found, devices=(none,)))
    assert "device 0: no events, so there is nothing to simulate" in shown
    assert not any("reserved" in line for line in shown)
    assert any(line.startswith("warning: no events were recorded") for line in shown)
    # A dump's own event says nothing about the program.
    none = replace(one, events=1, reasons=("no_allocations",), trusted=False)
    shown = lines(replace(found, devices=(none,)))
    assert "device 0: no allocation was recorded, so there is nothing to simulate" in shown
    assert not any("peak reserved" in line for line in shown)
