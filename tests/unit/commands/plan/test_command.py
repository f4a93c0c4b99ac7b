"""Tests of commands/plan/: plans as text and JSON, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.plan.result import PlanReport
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.analysis.planning.training import MIB, Block, Operation, trained

EXAMPLES = Path(__file__).parents[4] / "examples"
GPT = EXAMPLES / "recorded_gpt.pkl.gz"
OOM = EXAMPLES / "serving_oom.pkl.gz"
BLOCKS = [Block((Operation(200 * MIB, saved=True),), 8 * MIB)] * 6


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("plan") / "snap.pickle"
    made.write_bytes(trained(BLOCKS).dump())
    return str(made)


def asked(runner: CliRunner, *options: str) -> tuple[int, Any]:
    done = runner.invoke(app, ["plan", *options, "--json"])
    return done.exit_code, json.loads(done.stdout)["devices"][0] if done.stdout else done.stderr


def test_plan_is_to_recompute_as_few_blocks_as_needed(runner: CliRunner, path: str) -> None:
    code, found = asked(runner, path, "--fit", "1200MiB")
    assert code == 0
    first = found["plans"][0]
    assert [one["name"] for one in first["levers"]] == ["checkpoint"]
    assert (first["exactness"], first["reserved_exactness"]) == ("usually_exact", "estimated")
    chosen = frozenset(int(one.split(".")[1]) for one in first["levers"][0]["module_names"])
    assert first["requested_peak_bytes"] == trained(BLOCKS, chosen).peak
    assert first["requested_peak_bytes"] <= found["program_memory_bytes"]
    fewer = trained(BLOCKS, frozenset(sorted(chosen)[1:])).peak
    assert fewer > found["program_memory_bytes"] * 0.97


def test_program_that_fits_needs_no_plan(runner: CliRunner, path: str) -> None:
    code, found = asked(runner, path, "--fit", "8GiB")
    assert (code, found["fits"], found["plans"]) == (0, True, [])
    text = runner.invoke(app, ["plan", path, "--fit", "8GiB"]).stdout
    assert "device 0: fits 8.0 GiB already" in text


def test_nothing_that_fits_is_an_exit_code(runner: CliRunner, tmp_path: Path) -> None:
    made = SnapshotBuilder().alloc(2**40, 2**30, frames=[("__init__", "model.py", 1)])
    path = tmp_path / "snap.pickle"
    path.write_bytes(build.dump(made.finish_segments().build()))
    code, found = asked(runner, str(path), "--fit", "700MiB")
    assert (code, found["fits"], found["plans"]) == (1, False, [])
    done = runner.invoke(app, ["plan", str(path), "--fit", "700MiB"])
    assert done.exit_code == 1
    assert "nothing tried makes it fit 700.0 MiB" in done.stdout
    assert "modules weren't recorded" in done.stdout


def test_lower_bound_names_what_no_lever_changes() -> None:
    found = mr.plan(mr.open(GPT), fit=2**30)
    floor = found.devices[0].floor
    assert sum(floor.category_bytes.values()) == floor.bytes > found.devices[0].program_memory_bytes
    for plan in found.devices[0].plans:
        names = {one.name for one in plan.levers}
        assert names & {"shard", "optimizer", "offload-state"}


def test_plans_are_different_and_sorted_by_cost() -> None:
    found = mr.plan(mr.open(GPT), fit=3 * 2**30)
    names = [{(one.name, one.argument) for one in plan.levers} for plan in found.devices[0].plans]
    assert 1 < len(names) <= 3
    for at, some in enumerate(names):
        assert not any(other <= some for other in names[:at])
    for plan in found.devices[0].plans:
        assert plan.simulated.oom_count == 0
        assert plan.spare_bytes >= 0


def test_text_shows_what_to_type_and_what_is_estimated(runner: CliRunner, path: str) -> None:
    text = runner.invoke(app, ["plan", path, "--fit", "1200MiB", "--all"]).stdout
    assert "memreplay dryrun --change 'checkpoint=layers.*" in text
    assert "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)" in text
    assert "requested (estimated, usually exact), " in text
    assert "device 0: should fit 1.2 GiB with 1 change" in text
    assert "which arguments a module holds is inferred" in text
    assert "note: estimated: recompute layers.*" in text
    assert "activations are assumed to be" in text
    assert "levers" in text


def test_failed_request_is_a_warning(runner: CliRunner) -> None:
    done = runner.invoke(app, ["plan", str(OOM), "--fit", "1GiB"])
    assert "warning: a request failed in the recording" in done.stdout


def test_size_is_needed(runner: CliRunner, path: str) -> None:
    done = runner.invoke(app, ["plan", path])
    assert done.exit_code == 2
    assert "say which card the program should fit, such as --fit 24GiB" in done.stderr


def test_file_without_allocations_has_no_plan(runner: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "snap.pickle"
    path.write_bytes(build.dump(SnapshotBuilder().build()))
    done = runner.invoke(app, ["plan", str(path), "--fit", "1GiB"])
    assert done.exit_code == 5


def test_report_of_several_devices_needs_a_plan_for_each() -> None:
    report = mr.plan(mr.open(GPT), fit=8 * 2**30)
    assert isinstance(report, PlanReport)
    assert report.found
