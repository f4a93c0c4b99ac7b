"""bench/compare.py runs all commands in turn, reports each, and fails if any of them fails."""

from __future__ import annotations

import json
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import compare
from memreplay.commands.shared.listed import COMMANDS
from tests import build
from tests.build import SnapshotBuilder

QUICK = compare.Command("quick", (sys.executable, "-S", "-c", "pass", "FILE"))
HOG = compare.Command("hog", (sys.executable, "-S", "-c", "b = b'x' * (64 << 20)", "FILE"))
WRONG = compare.Command("wrong", (sys.executable, "-S", "-c", "raise SystemExit('no such thing')"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "snap.pkl"
    path.write_bytes(bytes(1000))
    return path


def use(monkeypatch: pytest.MonkeyPatch, *commands: compare.Command) -> None:
    monkeypatch.setattr(compare, "commands", lambda _python: list(commands))


def test_json_is_written_next_to_the_table(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, QUICK, HOG)
    output = file.with_suffix(".json")
    assert compare.main([str(file), "--rounds", "2", "--json", str(output)]) == 0
    table = capsys.readouterr().out
    assert "snap.pkl" in table
    assert "hog" in table
    (measured,) = json.loads(output.read_text())
    quick, hog = measured["results"]
    assert measured["file_bytes"] == 1000
    assert quick["ratio"] == 1
    assert len(hog["runs_s"]) == 2
    assert hog["peak_rss_bytes"] > 64 << 20


def test_json_to_stdout_replaces_the_table(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, QUICK)
    assert compare.main([str(file), "--rounds", "1", "--json"]) == 0
    (measured,) = json.loads(capsys.readouterr().out)
    assert [result["command"] for result in measured["results"]] == ["quick"]


def test_failing_command_is_an_error(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, QUICK, WRONG)
    assert compare.main([str(file), "--rounds", "1"]) == 1
    assert "wrong ended with 1 on snap.pkl: no such thing" in capsys.readouterr().err


def test_missing_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, QUICK)
    assert compare.main(["nowhere.pkl", "--rounds", "1"]) == 1
    assert "nowhere.pkl" in capsys.readouterr().err


def test_each_run_of_a_peer_gets_a_new_link_to_the_file(file: Path) -> None:
    script = (
        "import os, sys; p = sys.argv[1]; cache = p + '.cache';"
        "sys.exit(os.path.exists(cache) or open(cache, 'w').close())"
    )
    peer = compare.Command("peer", (sys.executable, "-S", "-c", script, "FILE"), fresh_link=True)
    compare.run(peer, file)
    compare.run(peer, file)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_command_list_starts_with_memreplay_and_its_yardsticks() -> None:
    names = [command.name for command in compare.commands(sys.executable)]
    assert names[:5] == [
        "memreplay peak",
        "memreplay.open *",
        "read in 1 MiB chunks",
        "pickle.load",
        "pickle.load, gc off",
    ]


def test_every_memreplay_command_is_compared_or_excluded() -> None:
    names = [command.name for command in compare.own_commands(sys.executable)]
    assert names[:2] == ["peak", "peak --measure held"]
    assert {name.split()[0] for name in names} == set(COMMANDS) - {
        "completion",
        "dryrun",
        "explore",  # in a terminal: see bench/explore.py
        "help",
        "mcp",  # a server
        "modules",  # needs a file from memreplay's recorder
        "record",
        "watch",  # waits
    }
    (at,) = (one for one in compare.own_commands(sys.executable) if one.name.startswith("at "))
    assert at.arguments[1:] == ("-m", "memreplay", "at", "FILE", "end", "--list")


def test_memreplay_commands_that_fail_are_left_out(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "own_commands", lambda _python: [QUICK, WRONG])
    assert compare.main([str(file), "--rounds", "1", "--commands"]) == 0
    shown = capsys.readouterr()
    assert "quick" in shown.out
    assert "wrong" not in shown.out
    assert shown.err == "left out: wrong ended with 1 on snap.pkl: no such thing\n"


def test_comparison_fails_if_its_first_tool_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "own_commands", lambda _python: [WRONG, QUICK])
    assert compare.main(["nowhere.pkl", "--rounds", "1", "--commands"]) == 1
    assert capsys.readouterr().err.startswith("wrong ended with 1")


def test_command_can_report_its_own_time(file: Path) -> None:
    script = "import sys; print('words', 0.125, sep=chr(10), file=sys.stderr)"
    clock = compare.Command("clock", (sys.executable, "-S", "-c", script), times_itself=True)
    assert compare.run(clock, file)[0] == 0.125


WRITERS = {
    "protocol 0": lambda: build.dump(snapshot(), 0),
    "protocol 2": lambda: build.dump(snapshot(), 2),
    "protocol 4": lambda: build.dump(snapshot(), 4),
    "cpp": lambda: build.dump_cpp(snapshot()),
}


def snapshot() -> Any:
    # Long strings, so that values and opcodes cross window boundaries.
    builder = SnapshotBuilder()
    for i in range(900):
        builder.alloc(i * 7919, i, frames=[(f"{i}" * 999, "a.py", i)])
    return builder.build()


@pytest.mark.parametrize("writer", WRITERS)
def test_walk_in_limits_c_knows_every_opcode(writer: str, tmp_path: Path) -> None:
    program = compare.compiled(compare.HERE / "limits.c")
    if program is None:
        pytest.skip("no C compiler")
    data = WRITERS[writer]()
    assert len(data) > 2 << 20
    path = tmp_path / "snap.pkl"
    path.write_bytes(data)
    done = subprocess.run([program, "walk", path], capture_output=True, text=True, check=True)
    assert int(done.stdout) == sum(1 for _ in pickletools.genops(data))
    path.write_bytes(data[:-1])
    assert subprocess.run([program, "walk", path], check=False).returncode == 1


def test_median_is_right_for_odd_and_even_counts() -> None:
    assert compare.median([3.0, 1.0, 2.0]) == 2.0
    assert compare.median([4.0, 1.0, 2.0, 3.0]) == 2.5


def test_every_way_to_pass_a_snapshot_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(SnapshotBuilder().alloc(0x1000, 64).build()))
    found = [compare.run(way, path) for way in compare.ways_in(sys.executable)]
    assert len(found) == len(compare.WAYS) > 5
    assert all(one.seconds > 0 and one.peak_rss_bytes > 0 for one in found)
