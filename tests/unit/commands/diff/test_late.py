"""diff and gate compare a program recorded from its start with the same program recorded later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from tests import build
from tests.build import FrameSpec, SnapshotBuilder

TORCH = "/v/lib/python3.12/site-packages/torch"
MAIN = ("main", "/home/a/train.py", 9)
LOAD = [("cuda", f"{TORCH}/nn/modules/module.py", 900), ("load", "/home/a/train.py", 3)]
FORWARD = [("forward", f"{TORCH}/nn/modules/linear.py", 134), MAIN]
ENGINE: list[FrameSpec] = [("torch::autograd::Engine::evaluate_function", "engine.cpp", 0)]
ADAM = [("_init_group", f"{TORCH}/optim/adam.py", 5), ("step", f"{TORCH}/optim/adam.py", 1), MAIN]
ZERO = [("zero_grad", f"{TORCH}/optim/optimizer.py", 1000), MAIN]
WEIGHTS = (65536, 32768)


def training(*, late: bool, more: int = 0) -> bytes:
    """Record two training steps with AdamW, or, with `late`, only the second."""
    builder = SnapshotBuilder()
    here = iter(range(1 << 30, 1 << 40, 1 << 20))
    before: list[tuple[int, int, int]] = []

    def keep(n_bytes: int, frames: list[FrameSpec]) -> None:
        address = next(here)
        if late:
            before.append((0, address, n_bytes))
        else:
            builder.alloc(address, n_bytes, frames=frames)

    def step() -> None:
        activation = next(here)
        builder.alloc(activation, 900_000, frames=FORWARD)
        gradients = [(next(here), n_bytes) for n_bytes in WEIGHTS]
        for one in gradients:
            builder.alloc(*one, frames=ENGINE)
        builder.free(activation, 900_000, frames=ENGINE)
        passing = next(here)
        builder.alloc(passing, 700, frames=ADAM)
        builder.free(passing, 700, frames=ADAM)
        for one in gradients:
            builder.free(*one, frames=ZERO)

    for n_bytes in WEIGHTS:
        keep(n_bytes + more, LOAD)
    if not late:
        step()
    for n_bytes in WEIGHTS:
        keep(n_bytes + more, ADAM)
        keep(n_bytes + more, ADAM)
    step()
    return build.dump(builder.finish_segments(extra_live=before).build())


class Files(NamedTuple):
    start: str
    late: str
    grown: str


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = {
        "start": training(late=False),
        "late": training(late=True),
        "grown": training(late=False, more=65536),
    }
    for name, data in made.items():
        (tmp_path / f"{name}.pkl").write_bytes(data)
    return Files(*(str(tmp_path / f"{name}.pkl") for name in made))


def test_no_category_appears_new_or_gone(runner: CliRunner, files: Files) -> None:
    for pair in ((files.start, files.late), (files.late, files.start)):
        for by in ("category", "phase"):
            result = runner.invoke(app, ["diff", *pair, "--by", by, "--unchanged", "--json"])
            (device,) = json.loads(result.stdout)["devices"]
            assert device["statuses"] == {"same": len(device["rows"])}
            assert not any("likely" in row["label"] for row in device["rows"])
            if by == "category":
                guessed = {row["label"] for row in device["rows"] if row["guessed"]}
                assert guessed == {"parameters", "optimizer state"}
    text = runner.invoke(app, ["diff", files.start, files.late, "--by", "category", "--unchanged"])
    assert "(partly guessed)" in text.stdout


def test_recorded_categories_are_not_guessed(runner: CliRunner, files: Files) -> None:
    result = runner.invoke(
        app, ["diff", files.start, files.grown, "--by", "category", "--unchanged", "--json"]
    )
    (device,) = json.loads(result.stdout)["devices"]
    assert not any(row["guessed"] for row in device["rows"])
    changed = {row["label"]: row["change_bytes"] for row in device["rows"] if row["change_bytes"]}
    assert changed == {"parameters": 2 * 65536, "optimizer state": 4 * 65536}


@pytest.mark.parametrize("name", ["parameters", "parameters (likely)"])
@pytest.mark.parametrize("boiled", [False, True])
def test_budget_counts_likely_categories(
    runner: CliRunner, files: Files, tmp_path: Path, boiled: bool, name: str
) -> None:
    config = tmp_path / "memreplay.toml"
    config.write_text(f'[[gate]]\ncategory = "{name}"\nmax_growth = "0%"\nmax_peak = "96KiB"\n')
    base = files.late
    if boiled:
        base = str(tmp_path / "base.json")
        made = ["gate", files.late, "--save-base", base, "--config", str(config)]
        assert runner.invoke(app, made).exit_code == 0
    result = runner.invoke(
        app, ["gate", files.late, "--base", base, "--config", str(config), "--format", "json"]
    )
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    found = [(one["actual_bytes"], one["guessed"]) for one in report["kept"] if one["category"]]
    assert found == [(sum(WEIGHTS), True)] * 2
    result = runner.invoke(app, ["gate", files.grown, "--base", base, "--config", str(config)])
    assert result.exit_code == 1


def test_diff_by_stack_has_a_note_on_unmatched_memory(runner: CliRunner, files: Files) -> None:
    said = " ".join(runner.invoke(app, ["diff", files.start, files.late]).stdout.split())
    assert f"more of {files.late} was allocated before its recording began" in said
    said = " ".join(runner.invoke(app, ["diff", files.late, files.start]).stdout.split())
    assert f"more of {files.late} was allocated before its recording began" in said
    assert (
        "before its recording" not in runner.invoke(app, ["diff", files.start, files.grown]).stdout
    )
