"""Files with huge numbers of one thing (events, stacks ...) can be read and trusted, and
superlinear growth is reported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import memreplay as mr
import scale
from compare import Command, CommandFailedError, Run
from memreplay.commands.summary.find import summarize

MINE = [kind for kind in scale.KINDS if kind not in ("events", "stacks")]


@pytest.mark.parametrize("kind", MINE)
def test_files_contain_what_their_names_say(kind: str, tmp_path: Path) -> None:
    path = scale.named(kind, 40, tmp_path)
    scale.KINDS[kind][1](40, path)
    snap = mr.open(path)
    counts = {
        "segments": len(snap.segments),
        "devices": len(snap.devices),
        "annotations": len(snap.annotations),
        "pools": len(set(snap.events.pool.tolist())),
    }
    assert counts[kind] == 40
    assert all(device.trusted for device in summarize(snap).devices)


def test_stacks_and_events_are_generated(tmp_path: Path) -> None:
    for kind in ("events", "stacks"):
        path = scale.named(kind, 300, tmp_path)
        scale.KINDS[kind][1](300, path)
        snap = mr.open(path)
        assert 300 <= len(snap.events) < 400
        assert (len(snap.stacks) > 100) == (kind == "stacks")


def test_growth_excludes_the_time_of_an_empty_run() -> None:
    assert scale.above(4.1, 1.1, 0.1, 0.1) == pytest.approx(4)
    assert scale.above(0.11, 0.1, 0.1, 0.1) == 0


@pytest.mark.parametrize("most, code", [("5", 0), ("3", 1)])
def test_superlinear_growth_fails(
    most: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Growth is linear if four times the size takes four times as long."""

    def run(_command: Command, file: Path) -> Run:
        count = int(file.stem.rpartition("-")[2]) if "-" in file.stem else 0
        return Run(count, 1 + count, 10_000_000 + count * 2_000_000)

    monkeypatch.setattr(scale, "run", run)
    monkeypatch.setattr(scale, "own_commands", lambda _python: [Command("peak", ("peak", "FILE"))])
    out = tmp_path / "rows.json"
    asked = ["--of", "devices", "--scale", "0.004", "--most", most, "--json", str(out)]
    assert scale.main(asked) == code
    (row,) = json.loads(out.read_text())
    assert (row["count"], row["seconds"], row["times"], row["memory_times"]) == (40, 41, 4, 4)
    told = capsys.readouterr().out
    assert "devices: 40" in told
    assert ("grows by more than 3 of 4: devices, peak" in told) == bool(code)


def test_failing_command_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = Command("fails", (sys.executable, "-S", "-c", "raise SystemExit('too many')", "FILE"))
    monkeypatch.setattr(scale, "own_commands", lambda _python: [failing])
    with pytest.raises(CommandFailedError, match="too many"):
        scale.main(["--of", "devices", "--scale", "0.001", "--folder", str(tmp_path)])
    capsys.readouterr()
