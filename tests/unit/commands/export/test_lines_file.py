"""Tests of commands/export/lines_file.py."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(SnapshotBuilder().alloc(0x1000, 64).build()))
    return made


def test_txt_has_a_line_per_event(runner: CliRunner, path: Path) -> None:
    result = runner.invoke(app, ["export", str(path), "--format", "txt"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[2].startswith("event 0 device=0 action=alloc addr=0x1000 ")


def test_ndjson_starts_with_a_header(runner: CliRunner, path: Path) -> None:
    result = runner.invoke(app, ["export", str(path), "--format", "ndjson"])
    assert result.exit_code == 0
    header, trace, event = map(json.loads, result.stdout.splitlines())
    assert (header["schema"], header["file"]) == ("memreplay.export/1", str(path))
    assert (trace["table"], event["addr"]) == ("traces", 0x1000)


def test_file_has_the_same_lines_as_stdout(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    result = runner.invoke(app, ["export", str(path), "-o", str(out)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"memreplay: wrote {out}: every row as txt, ")
    text = runner.invoke(app, ["export", str(path), "--format", "txt"]).stdout
    assert out.read_text() == text
    again = runner.invoke(app, ["export", str(path), "-o", str(out), "--format", "ndjson"])
    assert again.exit_code == 2
    assert again.stderr == (f"memreplay: error: {out} already exists; give --force to replace it\n")
    assert out.read_text().startswith("snapshot ")
    forced = ["export", str(path), "-o", str(out), "--format", "ndjson", "--force"]
    assert runner.invoke(app, forced).exit_code == 0
    assert out.read_text().startswith("{")
    packed = tmp_path / "out.txt.gz"
    assert runner.invoke(app, ["export", str(path), "-o", str(packed)]).exit_code == 0
    assert gzip.decompress(packed.read_bytes()).decode() == text


def test_terminal_is_rejected_before_reading(
    runner: CliRunner, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    class System:
        stdout = Terminal()

    monkeypatch.setattr("memreplay.commands.shared.output.sys", System)
    result = runner.invoke(app, ["export", "nowhere.pkl", "--format", "txt"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "memreplay: error: the output is long and stdout is a terminal; "
    )
    assert len(result.stderr.splitlines()) == 1
    assert runner.invoke(app, ["export", str(path), "--format", "txt", "-o", "-"]).exit_code == 2
    monkeypatch.setattr("memreplay.commands.shared.output.sys", sys)
    assert runner.invoke(app, ["export", str(path), "--format", "txt", "--force"]).exit_code == 0


def test_unreadable_file_leaves_no_output(runner: CliRunner, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pkl"
    bad.write_bytes(b"nothing")
    result = runner.invoke(app, ["export", str(bad), "-o", str(tmp_path / "out.txt")])
    assert result.exit_code == 3
    assert [p.name for p in tmp_path.iterdir()] == ["bad.pkl"]


def test_only_the_range_is_written(runner: CliRunner, path: Path) -> None:
    path.write_bytes(build.dump(SnapshotBuilder().alloc(0x1000, 64).alloc(0x2000, 64).build()))
    result = runner.invoke(
        app, ["export", str(path), "--format", "txt", "--from", "1", "--device", "0"]
    )
    assert "event 0" not in result.stdout
    assert "events=2 first_event=1 events_read=1" in result.stdout
