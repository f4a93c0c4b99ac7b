"""diff and gate on a training step that changed in a phase other than the one with the peak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from tests import build
from tests.build import FrameSpec, SnapshotBuilder

MIB = 1 << 20
TORCH = "/v/lib/python3.12/site-packages/torch"
MAIN = ("main", "/home/ana/train.py", 9)
FORWARD: list[FrameSpec] = [("forward", "/home/ana/model.py", 3), MAIN]
ENGINE: list[FrameSpec] = [("torch::autograd::Engine::evaluate_function", "engine.cpp", 0)]
ADAM: list[FrameSpec] = [("_foreach_sqrt", f"{TORCH}/optim/adam.py", 1), MAIN]


def step(activations: int) -> bytes:
    """Build a step with activations, 20 MiB of gradients, and 40 MiB of optimizer temporaries."""
    builder = SnapshotBuilder()
    builder.alloc(1 << 30, activations * MIB, frames=FORWARD)
    builder.alloc(2 << 30, 20 * MIB, frames=ENGINE)
    builder.free(1 << 30, activations * MIB, frames=ENGINE)
    builder.alloc(3 << 30, 40 * MIB, frames=ADAM)
    builder.free(3 << 30, 40 * MIB, frames=ADAM)
    builder.free(2 << 30, 20 * MIB, frames=[MAIN])
    return build.dump(builder.finish_segments().build())


class Files(NamedTuple):
    base: str
    doubled: str
    moved: str
    inference: str


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.chdir(tmp_path)  # without a configuration
    inference = SnapshotBuilder().alloc(1 << 30, MIB, frames=[MAIN]).finish_segments()
    made = {
        "base": step(15),
        "doubled": step(30),
        "moved": step(60),
        "inference": build.dump(inference.build()),
    }
    for name, data in made.items():
        (tmp_path / f"{name}.pkl").write_bytes(data)
    return Files(*(str(tmp_path / f"{name}.pkl") for name in made))


@pytest.fixture(params=["snapshot", "baseline"])
def base(request: pytest.FixtureRequest, runner: CliRunner, files: Files, tmp_path: Path) -> str:
    if request.param == "snapshot":
        return files.base
    path = str(tmp_path / "base.json")
    assert runner.invoke(app, ["gate", files.base, "--save-base", path]).exit_code == 0
    return path


# ---- gate


def found(result: Any) -> dict[str | None, tuple[str, int]]:
    report = json.loads(result.stdout)
    every = [*report["findings"], *report["kept"], *report["not_judged"]]
    return {
        one["phase"]: (one["outcome"], one["actual_bytes"])
        for one in every
        if one["kind"] == "max_growth"
    }


def test_phase_budget_fails_where_the_total_passes(
    runner: CliRunner, files: Files, base: str
) -> None:
    limits = ["--base", base, "--max-growth", "2%"]
    result = runner.invoke(app, ["gate", files.doubled, *limits])
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "the peak within the forward pass grew by 15.0 MiB (100.0%), more than" in said
    assert "30.0 MiB +15.0 MiB forward pass 50.0 MiB +15.0 MiB backward pass" in said
    assert "60.0 MiB 0 B optimizer step" in said

    result = runner.invoke(app, ["gate", files.doubled, *limits, "--phase", "each"])
    assert result.exit_code == 1
    first, _, rest = result.stdout.partition("\n")
    assert first.startswith("FAIL peak held in the ")
    assert "grew by 15.0 MiB (" in first
    assert "), more than the limit of 2%" in first
    assert "in forward model.py:3" in first
    assert "more than the limit on the whole" not in rest

    result = runner.invoke(
        app, ["gate", files.doubled, *limits, "--phase", "each", "--format", "json"]
    )
    assert found(result) == {
        None: ("passed", 60 * MIB),
        "forward": ("failed", 30 * MIB),
        "backward": ("failed", 50 * MIB),
        "optimizer": ("passed", 60 * MIB),
    }
    phases = json.loads(result.stdout)["files"][0]["phases"]
    assert [(one["phase"], one["bytes"], one["change_bytes"]) for one in phases] == [
        ("forward", 30 * MIB, 15 * MIB),
        ("backward", 50 * MIB, 15 * MIB),
        ("optimizer", 60 * MIB, 0),
    ]


def test_phase_is_set_by_option_or_table(runner: CliRunner, files: Files, tmp_path: Path) -> None:
    result = runner.invoke(
        app, ["gate", files.doubled, "--max-peak", "20MiB", "--phase", "forward", "--forbid", "oom"]
    )
    assert result.exit_code == 1
    assert result.stdout.startswith(
        "FAIL peak held in the forward pass 30.0 MiB > 20 MiB (most of it: 30.0 MiB in forward"
    )
    assert "forbid-oom" in result.stdout
    config = tmp_path / "own.toml"
    config.write_text('[[gate]]\nphase = "forward"\nmax_peak = "20MiB"\n')
    result = runner.invoke(app, ["gate", files.doubled, "--config", str(config)])
    assert result.stdout.startswith("FAIL peak held in the forward pass 30.0 MiB > 20 MiB")
    result = runner.invoke(app, ["gate", files.base, "--config", str(config)])
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--forbid", "oom", "--phase", "each"], "--phase needs a limit on the peak"),
        (["--max-peak", "1GiB", "--phase", "forward"], "is for the forward pass, which device 0"),
        (["--max-peak", "1GiB", "--phase", "each"], "show no forward pass, backward pass or"),
    ],
)
def test_missing_phase_is_wrong_usage(
    runner: CliRunner, files: Files, arguments: list[str], words: str
) -> None:
    result = runner.invoke(app, ["gate", files.inference, *arguments])
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "table, words",
    [
        ('phase = "sideways"\nmax_peak = "1GiB"', "no phase is called 'sideways'"),
        ('phase = "each"\nforbid_oom = true', "forbid_oom applies to all memory, not to one phase"),
        (
            'phase = "each"\nannotation = "a"\nmax_peak = "1B"',
            ": give either an annotation or a phase",
        ),
    ],
)
def test_meaningless_table_is_wrong_usage(
    runner: CliRunner, files: Files, tmp_path: Path, table: str, words: str
) -> None:
    config = tmp_path / "own.toml"
    config.write_text(f"[[gate]]\n{table}\n")
    result = runner.invoke(app, ["gate", files.base, "--config", str(config)])
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_older_baseline_has_no_phases(runner: CliRunner, files: Files, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    assert runner.invoke(app, ["gate", files.base, "--save-base", str(path)]).exit_code == 0
    written = json.loads(path.read_text())
    for device in written["devices"]:
        device["peaks"] = [one for one in device["peaks"] if not one.pop("phase")]
    path.write_text(json.dumps(written))
    result = runner.invoke(
        app,
        ["gate", files.doubled, "--base", str(path), "--max-growth", "2%", "--phase", "each"],
    )
    assert result.exit_code == 0
    assert "the base has no such forward pass" in " ".join(result.stdout.split())


# ---- diff


def test_diff_reports_that_the_peak_moved(runner: CliRunner, files: Files, base: str) -> None:
    measure = ["--measure", "held"]
    text = runner.invoke(app, ["diff", base, files.moved, *measure]).stdout
    said = " ".join(text.split())
    assert (
        "device 0: peak 60.0 MiB -> 80.0 MiB held, +20.0 MiB (+33.3%), base in the optimizer step,"
        " new in the backward pass"
    ) in said
    assert "within the backward pass: 35.0 MiB -> 80.0 MiB held, +45.0 MiB (+128.6%)" in said
    result = runner.invoke(app, ["diff", base, files.moved, *measure, "--json"])
    (device,) = json.loads(result.stdout)["devices"]
    assert (device["base"]["phase"], device["new"]["phase"]) == ("optimizer", "backward")
    phases = {one["phase"]: one for one in device["phases"]}
    changes = {name: one["change_bytes"] for name, one in phases.items()}
    assert changes == {"forward": 45 * MIB, "backward": 45 * MIB, "optimizer": 0}
    for name, one in phases.items():
        shown = sum(row["change_bytes"] for row in one["rows"]) + one["rest_change_bytes"]
        assert shown == (one["change_bytes"] if name == "backward" else 0)


def test_diff_within_a_phase_does_not_repeat_rows(runner: CliRunner, files: Files) -> None:
    result = runner.invoke(app, ["diff", files.base, files.doubled])
    said = " ".join(result.stdout.split())
    assert "0 B, both in the optimizer step" in said
    assert "within the" not in said.replace("peak within", "")
    assert "+15.0 MiB 15.0 MiB 30.0 MiB forward pass" in said
    assert "in the" not in runner.invoke(app, ["diff", files.inference, files.inference]).stdout
    # At another moment there are no peaks to compare.
    result = runner.invoke(app, ["diff", files.base, files.doubled, "--at", "0", "--json"])
    (device,) = json.loads(result.stdout)["devices"]
    assert (device["phases"], device["base"]["phase"]) == ([], "forward")
