"""Tests of commands/report/command.py, on small files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.commands.oom.test_find import fail, machine, scattered
from tests.unit.render.schemas import check_against

MIB = 1 << 20
EXAMPLE = str(ROOT / "tests/data" / "transformer_step.pkl.gz")


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(scattered().dump()[0]))
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    return runner.invoke(app, ["report", path, *options])


def test_text_names_the_next_command(runner: CliRunner, path: str) -> None:
    done = ask(runner, path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "device 0: peak" in done.stdout
    assert f"\nmemreplay oom {path}\n" in done.stdout


def test_json_fits_its_schema(runner: CliRunner, path: str) -> None:
    done = ask(runner, path, "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    check_against("report-1.json", json.loads(done.stdout))


def test_markdown_has_lists_and_tables(runner: CliRunner) -> None:
    done = ask(runner, EXAMPLE, "--format", "markdown")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("### ")
    assert "- **trust**: Exact: the snapshot is consistent." in done.stdout
    assert "| ---: | ---: | ---: | --- |" in done.stdout


@pytest.mark.parametrize("fmt", ["text", "markdown", "json"])
def test_output_file_matches_stdout(runner: CliRunner, path: str, fmt: str, tmp_path: Path) -> None:
    out = tmp_path / "report.out"
    done = ask(runner, path, "--format", fmt, "-o", str(out))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert out.read_text(encoding="utf-8") == ask(runner, path, "--format", fmt).stdout
    again = ask(runner, path, "--format", fmt, "-o", str(out))
    assert again.exit_code == 2
    assert "already exists; give --force to replace it" in again.stderr
    assert ask(runner, path, "-o", str(out), "--force").exit_code == 0
    over = ask(runner, path, "-o", path, "--force")
    assert over.exit_code == 2
    assert ": it's the input snapshot" in over.stderr


def test_card_smaller_than_the_usage_is_an_error(runner: CliRunner, tmp_path: Path) -> None:
    made, device = machine(200 * MIB)
    fail(device, 300 * MIB)
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(made.dump()[0]))
    assert ask(runner, str(file), "--total-memory", "1GiB").exit_code == 0
    done = ask(runner, str(file), "--total-memory", "100MiB")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--total-memory is below what device 0 had" in done.stderr


def test_strict_fails_for_untrusted_numbers(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(SnapshotBuilder().free_completed(0x1000, 512).build()))
    done = ask(runner, str(file))
    assert done.exit_code == 0
    assert "exact for the final state" in done.stdout
    assert ask(runner, str(file), "--strict").exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        {"segments": [], "device_traces": []},
        {"segments": [], "device_traces": [[]]},
        SnapshotBuilder(times=False, stacks=False).alloc(0x1000, 512).build(),
        SnapshotBuilder().oom(MIB).build(),
        SnapshotBuilder(devices=3).alloc(0x1000, 512, 2).annotation("x", "START").build(),
        [{"device": 0, "address": 4096, "total_size": 512, "blocks": []}],
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": 2**63 + 7, "size": 0}]]},
        {"segments": [], "device_traces": [[{"action": "what"}]]},
    ],
)
@pytest.mark.parametrize("fmt", ["text", "markdown", "json"])
def test_odd_files_have_a_report(runner: CliRunner, tmp_path: Path, made: object, fmt: str) -> None:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(made))
    done = ask(runner, str(file), "--format", fmt)
    assert (done.exit_code, done.stderr, done.exception) == (0, "", None)
    if fmt == "json":
        check_against("report-1.json", json.loads(done.stdout))


def test_json_snapshots_ranges_and_truncated_files_are_read(
    runner: CliRunner, tmp_path: Path
) -> None:
    made = SnapshotBuilder().alloc(0x1000, 512).alloc(0x2000, MIB).free(0x1000, 512)
    file = tmp_path / "snap.json"
    file.write_text(json.dumps(made.build()), encoding="utf-8")
    assert ask(runner, str(file)).exit_code == 0
    part = ask(runner, str(file), "--from", "1", "--to", "2")
    assert part.exit_code == 0
    assert "event 1 of 4" in part.stdout
    cut = tmp_path / "cut.pkl"
    cut.write_bytes(build.dump(made.build())[:-40])
    assert ask(runner, str(cut)).exit_code == 4
    salvaged = ask(runner, str(cut), "--salvage")
    assert salvaged.exit_code == 0
    assert "the file is cut off" in salvaged.stdout


def test_missing_file_is_an_error(runner: CliRunner, tmp_path: Path) -> None:
    done = ask(runner, str(tmp_path / "none.pkl"))
    assert (done.exit_code, done.stdout) == (3, "")
    assert "no such file" in done.stderr


def test_custom_categories_are_used(runner: CliRunner, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text('[[category]]\nname = "all of it"\nframes = "."\n', encoding="utf-8")
    done = ask(runner, EXAMPLE, "--config", str(config))
    assert done.exit_code == 0
    assert "all of it (75.9%)" in done.stdout
