"""diff's first line names the category that changed most, and the code behind the change."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import assume, given

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.diff.find import diff_report
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import FrameSpec, SnapshotBuilder
from tests.oracle_groups import Groups

MIB = 1 << 20
TORCH = "/v/lib/python3.12/site-packages/torch"
MAIN = ("main", "/home/ana/train.py", 9)
CAST: list[FrameSpec] = [
    ("at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)", "autocast.cpp", 0),
    ("at::_ops::linear::call(at::Tensor const&)", "??", 0),
]
LOAD: list[FrameSpec] = [("cuda", f"{TORCH}/nn/modules/module.py", 900), MAIN]


def forward(line: int) -> list[FrameSpec]:
    return [("forward", "/home/ana/model.py", line), MAIN]


def exit_of_autocast(builder: SnapshotBuilder, address: int, n_bytes: int) -> None:
    frames = [("__exit__", f"{TORCH}/amp/autocast_mode.py", 371), MAIN]
    builder.free(address, n_bytes, frames=frames)


def training(*, cast: bool) -> bytes:
    """Build 64 MiB of weights and 40 MiB of activations. Autocast halves the activations and adds
    casts.
    """
    builder = SnapshotBuilder()
    builder.alloc(1 << 32, 64 * MIB, frames=LOAD)
    if cast:
        builder.alloc(2 << 32, 32 * MIB, frames=[*CAST, *forward(7)])
    for i, line in enumerate((3, 5)):
        n_bytes = (i + 1) * 10 * MIB + 10 * MIB
        builder.alloc((i + 3) << 32, n_bytes // (2 if cast else 1), frames=forward(line))
    if cast:
        exit_of_autocast(builder, 2 << 32, 32 * MIB)
    return build.dump(builder.finish_segments().build())


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    for name in ("fp32", "bf16"):
        (tmp_path / f"{name}.pkl").write_bytes(training(cast=name == "bf16"))
    return str(tmp_path / "fp32.pkl"), str(tmp_path / "bf16.pkl")


def test_first_line_names_autocast_casts(runner: CliRunner, files: tuple[str, str]) -> None:
    said = " ".join(runner.invoke(app, ["diff", *files]).stdout.split())
    assert (
        "peak 114.0 MiB -> 121.0 MiB requested, +7.0 MiB (+6.1%), both in the forward pass,"
        " +32.0 MiB weights (cast) in forward model.py:7"
    ) in said
    said = " ".join(runner.invoke(app, ["diff", *reversed(files)]).stdout.split())
    # If the total shrank, the largest decrease comes first. Here the line that shrank most is in
    # another category.
    assert (
        "-32.0 MiB weights (cast) in forward model.py:7,"
        " +25.0 MiB activations (+15.0 MiB in forward model.py:5)"
    ) in said


def with_operators(n_bytes: int) -> bytes:
    """Build a line whose two operators are in rows of their own."""
    builder = SnapshotBuilder()
    builder.alloc(1 << 32, 64 * MIB, frames=LOAD)
    for i, operator in enumerate(("softmax", "dropout")):
        ran: list[FrameSpec] = [(f"at::_ops::{operator}::call(at::Tensor const&)", "??", 0)]
        builder.alloc((i + 2) << 32, n_bytes * (4 - 3 * i), frames=[*ran, *forward(7)])
    return build.dump(builder.finish_segments().build())


@pytest.mark.parametrize("top", [0, 1])
def test_first_line_says_how_many_rows_its_line_has(
    runner: CliRunner, tmp_path: Path, top: int
) -> None:
    for name, n_bytes in (("base", MIB), ("new", 2 * MIB)):
        (tmp_path / name).write_bytes(with_operators(n_bytes))
    words = ["diff", str(tmp_path / "base"), str(tmp_path / "new"), "--top", str(top)]
    (device,) = json.loads(runner.invoke(app, [*words, "--json"]).stdout)["devices"]
    rows = [one["change_bytes"] for one in device["rows"]]
    assert rows == [4 * MIB, MIB][: top or 2]
    said = " ".join(runner.invoke(app, words).stdout.split())
    count = "2 rows" if top == 0 else "several rows"
    assert f"+5.0 MiB activations in forward model.py:7 ({count})" in said
    # rows by line need no explanation
    said = " ".join(runner.invoke(app, [*words, "--by", "line"]).stdout.split())
    assert "+5.0 MiB activations in forward model.py:7 measure" in said


def test_json_has_every_change(runner: CliRunner, files: tuple[str, str]) -> None:
    result = runner.invoke(app, ["diff", *files, "--json"])
    (device,) = json.loads(result.stdout)["devices"]
    found = [
        (one["category"], one["change_bytes"], one["line_change_bytes"], one["frames"][0]["line"])
        for one in device["categories"]
    ]
    assert found == [
        ("weights (cast)", 32 * MIB, 32 * MIB, 7),
        ("activations", -25 * MIB, -15 * MIB, 5),
    ]


@given(recordings(max_steps=60), recordings(max_steps=60))
def test_categories_match_the_oracle(base: Recording, new: Recording) -> None:
    before, after = mr.open(build.dump(base.snapshot)), mr.open(build.dump(new.snapshot))
    assume(set(before.devices) & set(after.devices))
    report = diff_report(before, after)
    assume(not report.fewer)  # the oracle keeps frames that one side lacks
    for device in report.devices:
        carried = before.replay(device.base_device).carried_over_bytes
        if carried or after.replay(device.device).carried_over_bytes:
            continue  # the report adds likely members, but the oracle doesn't
        expected: Counter[str] = Counter()
        for sign, recording, number, side in (
            (-1, base, device.base_device, device.base),
            (1, new, device.device, device.new),
        ):
            groups = Groups(recording.snapshot, number)
            for (category,), (n_bytes, _) in groups.sums(side.event_index, ["category"]).items():
                expected[category] += sign * n_bytes
        found = {one.category: one.change_bytes for one in device.categories}
        assert found == {name: change for name, change in expected.items() if change}
        for one in device.categories:
            assert one.change_bytes == one.new_bytes - one.base_bytes


@pytest.mark.parametrize("boiled", [False, True])
def test_gate_names_the_category_and_its_code(
    runner: CliRunner, files: tuple[str, str], tmp_path: Path, boiled: bool
) -> None:
    base = files[0]
    if boiled:
        base = str(tmp_path / "base.json")
        assert runner.invoke(app, ["gate", files[0], "--save-base", base]).exit_code == 0
    arguments = ["gate", files[1], "--base", base, "--max-growth", "2%", "--config", "none"]
    first = runner.invoke(app, arguments).stdout.splitlines()[0]
    assert "+32.0 MiB weights (cast); +32.0 MiB in forward model.py:7" in first
    found = json.loads(runner.invoke(app, [*arguments, "--format", "json"]).stdout)
    (finding,) = found["findings"]
    assert (finding["grown_category"], finding["grown_category_bytes"]) == (
        "weights (cast)",
        32 * MIB,
    )
    assert finding["grown_category_cause"]["line"] == 7
