"""Tests of commands/modules/command.py: options, text and JSON, on a small file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.noted import Kind, with_notes
from tests.unit.render.schemas import check_against

MIB = 1 << 20
KINDS: tuple[tuple[Kind | None, int], ...] = (
    (("parameters", "start", "GPT.h.0"), 8 * MIB),
    (("buffers", "start", "GPT.h.1"), 100),
    (("gradients", "backward", "GPT.h.0"), 8 * MIB),
    (("optimizer state", "optimizer", "GPT.h.0"), 16 * MIB),
    (("activations", "forward", "GPT.h.1"), 3 * MIB // 2),
    (("temporary", "forward", "GPT.head"), 5 * MIB),
    (("inputs", "data", ""), 4096),
    (None, 512),
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Create a file with most kinds of allocations, made by a few modules."""
    builder = SnapshotBuilder()
    for i, (_, n_bytes) in enumerate(KINDS):
        builder.alloc((i + 1) << 32, n_bytes)
    file = tmp_path / "snap.pickle"
    file.write_bytes(build.dump(with_notes(builder.build(), [[kind for kind, _ in KINDS]])))
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    result = runner.invoke(app, ["modules", path, *options])
    assert (result.exit_code, result.stderr) == (0, "")
    return result


def table(result: Result) -> list[str]:
    """Return the table's lines, with one space between cells."""
    return [" ".join(line.split()) for line in result.stdout.split("\n\n")[2].splitlines()]


def names(result: Result) -> list[str]:
    return [line.split(" ")[-1] for line in table(result)[1:]]


def test_text_has_a_row_per_module(runner: CliRunner, path: str) -> None:
    result = ask(runner, path)
    assert "sizes      in MiB; a module's numbers include its submodules" in result.stdout
    assert "not noted  512 B, other memory outside all modules" in result.stdout
    assert table(result) == [
        "params buffers grads state activ. other total peak fwd peak bwd module",
        "8.0 <0.1 8.0 16.0 1.5 5.0 38.5 6.5 8.0 GPT",
        "8.0 <0.1 8.0 16.0 1.5 - 33.5 1.5 8.0 h",
        "8.0 - 8.0 16.0 - - 32.0 - 8.0 0",
        "- <0.1 - - 1.5 - 1.5 1.5 - 1",
        "- - - - - 5.0 5.0 5.0 - head",
        "- - - - - <0.1 <0.1 - - (in no module)",
    ]
    lines = result.stdout.splitlines()
    ends = [next(line for line in lines if line.endswith(f" {one}")) for one in ("GPT", "h", "0")]
    where = [len(line) - len(line.split()[-1]) for line in ends]
    # A module is indented more than its parent.
    assert [at - where[0] for at in where] == [0, 2, 4]


def test_rows_can_be_limited_and_sorted(runner: CliRunner, path: str) -> None:
    result = ask(runner, path, "--top", "2")
    assert names(result) == ["GPT", "h", "module)"]
    assert "note: 3 modules left out (--top 0 shows all)" in result.stdout
    result = ask(runner, path, "--depth", "1")
    assert names(result) == ["GPT", "module)"]
    assert "left out" not in result.stdout
    result = ask(runner, path, "--sort", "peak-forward", "--depth", "2")
    assert names(result) == ["GPT", "head", "h", "module)"]
    result = ask(runner, path, "--sort", "module", "--depth", "2")
    assert names(result) == ["GPT", "h", "head", "module)"]


def test_empty_columns_are_left_out(runner: CliRunner, path: str) -> None:
    result = ask(runner, path, "--at", "1")
    assert "8.0 MiB requested after event 1 of 8" in result.stdout
    assert table(result)[0] == "params buffers total peak fwd peak bwd module"
    assert "sizes    in KiB" in result.stdout
    assert table(result)[1] == "8,192.0 0.1 8,192.1 6,656.0 8,192.0 GPT"
    result = ask(runner, path, "--at", "start", "--only", "min-bytes=1T")
    assert "no allocation passes the filters" in result.stdout


def test_json_has_own_and_total_bytes(runner: CliRunner, path: str) -> None:
    found = json.loads(ask(runner, path, "--format", "json", "--depth", "2").stdout)
    check_against("modules-1.json", found)
    (device,) = found["devices"]
    rows = {row["module"]: row for row in device["modules"]}
    assert list(rows) == ["GPT", "GPT.h", "GPT.head", None]
    assert rows["GPT.h"]["total_bytes"] == 33 * MIB + MIB // 2 + 100
    assert rows["GPT.h"]["own_bytes"] == 0
    assert rows[None]["inputs_bytes"] == 4096
    assert rows[None]["other_bytes"] == device["unknown_bytes"] == 512
    assert rows["GPT.head"]["peak_forward_event"] == 5
    assert rows["GPT.head"]["peak_backward_event"] is None
    assert (found["depth"], found["sort"], device["modules_total"]) == (2, "total", 3)
    assert device["live_bytes"] == rows["GPT"]["total_bytes"] + rows[None]["total_bytes"]


def test_snapshot_without_modules_is_an_error(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "snap.pickle"
    file.write_bytes(build.dump(SnapshotBuilder().alloc(512, 100).build()))
    result = runner.invoke(app, ["modules", str(file)])
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr.count("\n") == 1
    assert "record with memreplay.record" in result.stderr
