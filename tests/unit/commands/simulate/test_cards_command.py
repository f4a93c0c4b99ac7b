"""Tests of commands/simulate/command.py with cards, on small files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import memreplay as mr
from memreplay.commands.app import app
from memreplay.snapshot.cards import context_bytes
from tests import build
from tests.allocator_blocks import GIB, MIB
from tests.unit.analysis.simulating.programs import scattered
from tests.unit.render.schemas import check_against

CONTEXT = context_bytes(290 * MIB)  # the CUDA context on a card of about this size


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(scattered()))
    return str(file)


def ask(runner: CliRunner, *options: str, data: bytes | None = None) -> Result:
    return runner.invoke(app, ["simulate", *options], input=data)


@pytest.mark.parametrize(
    "options, code",
    [
        ((), 0),
        (("--total-memory", f"{290 * MIB + CONTEXT}B"), 0),
        (("--total-memory", f"{290 * MIB + CONTEXT - 1}B"), 1),
        (("--total-memory", "290MiB"), 1),  # the CUDA context takes some of the card
        (("--total-memory", "1MiB"), 1),
        (("--total-memory", f"1GiB,{289 * MIB + CONTEXT}B"), 1),
        (("--total-memory", "1GiB", "--total-memory", "2GiB"), 0),
        (("--total-memory", "1GiB", "--total-memory", "200MiB"), 1),
        (
            ("--total-memory", f"{200 * MIB + CONTEXT}B", "--set", "expandable_segments:True"),
            0,
        ),
        (("--total-memory", "1GiB, 2GiB", "--strict"), 0),
    ],
)
def test_exit_code_says_whether_it_fits(
    runner: CliRunner, path: str, options: tuple[str, ...], code: int
) -> None:
    for fmt in ("text", "json"):
        done = ask(runner, path, *options, "--format", fmt)
        assert (done.exit_code, done.stderr) == (code, "")
        assert done.stdout


def test_json_matches_the_report(runner: CliRunner, path: str) -> None:
    done = ask(runner, path, "--total-memory", "1GiB,271MiB", "--format", "json")
    found = json.loads(done.stdout)
    check_against("simulate-1.json", found)
    assert found == json.loads(
        mr.to_json(mr.simulate(mr.open(path), total_memory=(GIB, 271 * MIB)))
    )
    assert [card["fits"] for card in found["devices"][0]["cards"]] == [True, False]


@pytest.mark.parametrize(
    "options, message",
    [
        (("--set", "nothing:1"), "no allocator setting 'nothing'"),
        (("--set", "max_split_size_mb:19"), "max_split_size_mb must be at least 20, not '19'"),
        (("--total-memory", "1GiB,"), "is not a size"),
        (("--total-memory", "1GiB,0"), "0 is below 1"),
        (("--total-memory", "much"), "is not a size"),
        (("--device", "3"), "no device 3; this snapshot has: 0"),
    ],
)
def test_usage_error_takes_one_line(
    runner: CliRunner, path: str, options: tuple[str, ...], message: str
) -> None:
    done = ask(runner, path, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    (error,) = [line for line in done.stderr.splitlines() if "rror: " in line]
    assert message in error


def test_standard_input_is_read(runner: CliRunner) -> None:
    done = ask(
        runner, "-", "--total-memory", "100MiB", "--search", "card", data=build.dump(scattered())
    )
    assert done.exit_code == 1
    assert "device 0: does not fit on 100.0 MiB, " in done.stdout
    assert "needs      290.0 MiB for the program" in done.stdout


def test_truncated_file_needs_salvage(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "cut.pkl"
    whole = build.dump(scattered())
    file.write_bytes(whole[: len(whole) // 2])
    done = ask(runner, str(file), "--total-memory", "1MiB")
    assert (done.exit_code, done.stdout) == (4, "")
    done = ask(runner, str(file), "--salvage")
    assert done.exit_code == 0
    assert "warning: the file is cut off" in done.stdout
    assert ask(runner, str(file), "--salvage", "--strict").exit_code == 1
    assert ask(runner, str(tmp_path / "nothing.pkl")).exit_code == 3


def test_file_without_events_cannot_be_judged(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "none.pkl"
    file.write_bytes(build.dump({"segments": [], "device_traces": []}))
    done = ask(runner, str(file))
    assert (done.exit_code, "note: nothing to simulate" in done.stdout) == (5, True)
    done = ask(runner, str(file), "--total-memory", "1MiB")
    assert (done.exit_code, done.stdout) == (5, "")
    assert "the file has no events, so whether the program fits can't be known" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 160])
def test_real_recordings_fit_on_a_screen(
    runner: CliRunner, corpus_file: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    options = ["--total-memory", "8GiB,1GiB"]
    done = ask(runner, str(corpus_file), *options)
    if done.exit_code == 5:  # some files have no events
        assert "no events" in done.stderr
        return
    assert done.exit_code in (0, 1)
    assert not done.stderr
    assert all(len(line) <= width for line in done.stdout.splitlines())
    if width == 160:  # JSON isn't limited to a width
        return
    found = json.loads(ask(runner, str(corpus_file), *options, "--format", "json").stdout)
    check_against("simulate-1.json", found)
