"""Tests of commands/fragmentation/command.py with --segments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.commands.fragmentation.test_segments_find import MIB, A, builder, held


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(builder().build()))
    return str(made)


def test_segments_are_shown_as_text_and_json(runner: CliRunner, path: str) -> None:
    done = runner.invoke(app, ["fragmentation", "--segments", path])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "peak 26.0 MiB reserved" in done.stdout
    found = json.loads(
        runner.invoke(app, ["fragmentation", "--segments", path, "--format", "json"]).stdout
    )
    assert found["schema"] == "memreplay.segments/1"
    assert found["devices"][0]["changes"]["bytes"] == [20 * MIB, 2 * MIB, -20 * MIB]


def test_range_continues_from_the_events_before_it(runner: CliRunner, path: str) -> None:
    done = runner.invoke(
        app, ["fragmentation", "--segments", path, "--from", "2", "--format", "json"]
    )
    (device,) = json.loads(done.stdout)["devices"]
    assert (device["start_bytes"], device["end_bytes"]) == (26 * MIB, 6 * MIB)
    assert device["changes"]["event_index"] == [2]


def test_strict_fails_for_untrusted_numbers(runner: CliRunner, path: str, tmp_path: Path) -> None:
    assert runner.invoke(app, ["fragmentation", "--segments", path, "--strict"]).exit_code == 0
    # The segment is freed in the trace, but still exists at the end.
    odd = held(builder(), A, 20 * MIB)
    bad = tmp_path / "bad.pkl"
    bad.write_bytes(build.dump(odd.build()))
    done = runner.invoke(app, ["fragmentation", "--segments", str(bad), "--strict"])
    assert done.exit_code == 1
    assert "warning:" in done.stdout
    assert runner.invoke(app, ["fragmentation", "--segments", str(bad)]).exit_code == 0


def test_segments_are_shown_without_events(runner: CliRunner, tmp_path: Path) -> None:
    bare = tmp_path / "bare.pkl"
    bare.write_bytes(build.dump(held(SnapshotBuilder(), A, 2 * MIB).build()))
    done = runner.invoke(app, ["fragmentation", "--segments", str(bare)])
    assert done.exit_code == 0
    assert "2.0 MiB in 1 segment" in done.stdout


def test_user_code_is_marked(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SnapshotBuilder()
    stack = [("take", "/home/ana/lib/pool.py", 7), ("main", "/home/ana/gpt/train.py", 3)]
    made.event("segment_alloc", A, 2 * MIB, frames=stack)
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(made.build()))

    def places(*options: str) -> list[str]:
        done = runner.invoke(
            app, ["fragmentation", "--segments", str(path), "--format", "json", *options]
        )
        (device,) = json.loads(done.stdout)["devices"]
        at_peak = [group["frames"][group["user"][0]] for group in device["at_peak"]]
        places = (*at_peak, *(one["frame"] for one in device["reserved_by"]))
        return [place["file"] for place in places]

    assert places() == [stack[0][1]] * 2
    assert places("--project", "gpt") == [stack[1][1]] * 2
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memreplay.toml").write_text('project = ["gpt"]\n')
    assert places() == [stack[1][1]] * 2
    assert places("--config", "none") == [stack[0][1]] * 2


@pytest.mark.parametrize(
    "options, words",
    [
        (["--segments", "--map"], "leave out --map, --at and --by"),
        (["--segments", "--at", "peak"], "leave out --map, --at and --by"),
        (["--segments", "--format", "png"], "leave out --map, --at and --by"),
        (["--list"], "--list only applies to --segments; add --segments"),
    ],
)
def test_incompatible_options_are_rejected(
    runner: CliRunner, path: str, options: list[str], words: str
) -> None:
    done = runner.invoke(app, ["fragmentation", path, *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
