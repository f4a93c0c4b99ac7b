"""Tests of commands/at/command.py, on a small file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import START_US, SnapshotBuilder
from tests.unit.render.schemas import check_against


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Create a file with 900 bytes live from 0 to 2 s, 700 bytes live from 4 s on, and a step from
    3 to 5 s.
    """
    builder = SnapshotBuilder()
    frames = [("forward", "model.py", 7)]
    builder.alloc(512, 900, frames=frames, time_us=START_US)
    builder.free_completed(512, 900, frames=frames, time_us=START_US + 2_000_000)
    builder.alloc(1024, 700, frames=frames, time_us=START_US + 4_000_000)
    builder.annotation("step", "START", START_US + 3_000_000)
    builder.annotation("step", "END", START_US + 5_000_000)
    builder.annotation("odd:end", "START", START_US + 1_000_000)
    builder.annotation("odd:end", "END", START_US + 3_000_000)
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(builder.build()))
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    return runner.invoke(app, ["at", path, *options])


@pytest.mark.parametrize(
    "options, events",
    [
        (["0"], [0]),
        (["start"], [-1]),
        (["1.5s", "3s"], [0, 1]),
        (["step"], [1]),
        (["step#1:end"], [2]),
        (["step:peak"], [2]),
        (["step:end"], [2]),
        (["annotation:odd:end:start"], [0]),
        (["odd:end:end"], [1]),
        (["peak:2", "peak:1"], [2, 0]),
        (["end", "start"], [2, -1]),
        (["peak", "step:end", "1"], [0, 2, 1]),
        (["2023-11-14T22:13:20Z", "22:13:22.5", "@1700000004"], [0, 1, 2]),
    ],
)
def test_moments_select_events(
    runner: CliRunner, path: str, options: list[str], events: list[int]
) -> None:
    result = ask(runner, path, *options, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    check_against("at-1.json", found)
    assert found["schema"] == "memreplay.at/1"
    assert [device["event_index"] for device in found["devices"]] == events
    bytes_after = {-1: 0, 0: 900, 1: 0, 2: 700}
    assert [one["live_bytes"] for one in found["devices"]] == [bytes_after[e] for e in events]


@pytest.mark.parametrize(
    "options, words",
    [
        ([], "give a moment: an event (1200), a time since the start"),
        (["1.5"], "'1.5' is not a moment; give an event (1200)"),
        (["9"], "device 0 has no event 9; its events: 0 to 2"),
        (["stop"], "no annotation 'stop'; known: odd:end, step"),
        (["peak:0"], "peaks are numbered from 1, the highest; there is no peak"),
        (["oom"], "device 0: no allocation failed in the events that were read"),
        (["end", "--measure", "reserved", "--list"], "no allocations to list"),
        (["end", "--measure", "reserved", "--by", "size"], "grouped by pool or stream"),
        (["end", "--inverted"], "--inverted only applies to --tree; add --tree"),
    ],
)
def test_usage_errors_are_reported(
    runner: CliRunner, path: str, options: list[str], words: str
) -> None:
    result = ask(runner, path, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_list_shows_each_allocation(runner: CliRunner, path: str) -> None:
    plain = ask(runner, path, "0")
    assert "device 0: 900 B requested after event 0 of 3" in plain.stdout
    assert "forward  model.py:7" in plain.stdout
    assert "0x200" not in plain.stdout
    listed = ask(runner, path, "0", "--list")
    assert "900 B    0x200" in listed.stdout
    (device,) = json.loads(ask(runner, path, "0", "--list", "--format", "json").stdout)["devices"]
    assert [(one["address"], one["free_event"]) for one in device["allocations"]] == [(512, 1)]


def test_strict_fails_if_memory_is_missing(runner: CliRunner, path: str) -> None:
    assert ask(runner, path, "end", "--strict").exit_code == 1  # 700 bytes missing
    assert ask(runner, path, "end").exit_code == 0


def test_annotations_are_listed_with_their_peaks(runner: CliRunner, path: str) -> None:
    result = ask(runner, path, "--annotations")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["+1.000", "s", "2.000", "s", "900", "B", "900", "B", "0", "B", "odd:end"] in rows
    assert ["+3.000", "s", "2.000", "s", "0", "B", "700", "B", "700", "B", "step"] in rows
    found = json.loads(ask(runner, path, "--annotations", "end", "--format", "json").stdout)
    check_against("at-1.json", found)
    assert [one["peak_bytes"] for one in found["annotations"][0]["annotations"]] == [900, 700]
    assert len(found["devices"]) == 1
    result = ask(runner, path, "--annotations", "--top", "1")
    assert "1 more, none higher (--top 0 shows all)" in result.stdout


@pytest.mark.parametrize(
    "address, event, lived",
    [
        ("0x200", 0, "from event 0 to event 1, 2.000 s"),
        ("512#1", 0, "from event 0 to event 1"),
        ("1000#1", 0, "from event 0 to event 1"),
        ("0x400#-1", 2, "from event 2 to the end"),
        ("0x400", 0, "from event 0 to event 1"),
    ],
)
def test_address_selects_an_allocation(
    runner: CliRunner, path: str, address: str, event: int, lived: str
) -> None:
    result = ask(runner, path, address)
    assert (result.exit_code, result.stderr) == (0, "")
    assert lived in result.stdout
    found = json.loads(ask(runner, path, address, "--format", "json").stdout)
    check_against("at-1.json", found)
    (device,) = found["devices"]
    assert device["event_index"] == device["allocation"]["alloc_event"] == event


@pytest.mark.parametrize(
    "address, words",
    [
        ("0x100", ": no selected allocation contains the address 0x100"),
        ("0x200#3", "0x200 is allocated once, numbered from 1"),
        ("0x400#0", "0x400 is allocated 2 times, numbered from 1"),
        ("0x1ffffffffffffffff", "is not an address"),
        ("99999999999999999999", "is not an address"),
        ("s7f064c000000_0", "is a segment in PyTorch's viewer"),
    ],
)
def test_unknown_address_is_an_error(
    runner: CliRunner, path: str, address: str, words: str
) -> None:
    result = ask(runner, path, address)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
