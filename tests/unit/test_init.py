"""Tests of the public names in __init__.py, including a function per command."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.commanding import command_runner
from tests.conftest import ROOT

STEP = str(ROOT / "tests/data" / "transformer_step.pkl.gz")
DEEPER = str(ROOT / "tests/data" / "transformer_deeper.pkl.gz")
LEAKY = str(ROOT / "tests/data" / "leaky_training.pkl.gz")
OOM = str(ROOT / "tests/data" / "serving_oom.pkl.gz")

RECORDED = str(ROOT / "tests/data" / "recorded_gpt.pkl.gz")

# Functions whose command has another name.
COMMANDS = {"segments": "fragmentation"}
# A function call, its file, and the equivalent command.
ASKED: dict[str, tuple[Callable[[mr.Snapshot], Any], str, str]] = {
    "allocations": (
        lambda snap: mr.allocations(snap, sort="count", by="file", top=3),
        STEP,
        "--sort count --by file --top 3",
    ),
    "at": (
        lambda snap: mr.at(snap, [mr.When("event", 500), mr.When("end")], top=2, list=True),
        STEP,
        "500 end --top 2 --list",
    ),
    "diff": (lambda snap: mr.diff(mr.open(STEP), snap, top=4), DEEPER, "--top 4"),
    "fragmentation": (
        lambda snap: mr.fragmentation(snap, by="file", top=5),
        STEP,
        "--by file -n 5",
    ),
    "gate": (
        lambda snap: mr.gate(snap, base=mr.open(STEP), max_peak="5GiB", max_growth="2%"),
        DEEPER,
        f"--base {STEP} --max-peak 5GiB --max-growth 2%",
    ),
    "leaks": (lambda snap: mr.leaks(snap, measure="held"), LEAKY, "--measure held"),
    "modules": (
        lambda snap: mr.modules(snap, at=mr.When("end"), depth=3, sort="gradients", top=4),
        RECORDED,
        "--at end --depth 3 --sort gradients --top 4",
    ),
    "oom": (lambda snap: mr.oom(snap, top=3), OOM, "--top 3"),
    "peak": (
        lambda snap: mr.peak(
            snap, by="file", top=5, peaks=2, filters=mr.Filters(exclude=("torch/optim",))
        ),
        STEP,
        "--by file --top 5 --peaks 2 --exclude torch/optim",
    ),
    "plan": (lambda snap: mr.plan(snap, fit=2**29), STEP, "--fit 512MiB"),
    "report": (lambda snap: mr.report(snap, total_memory=2**36), STEP, "--total-memory 64GiB"),
    "segments": (
        lambda snap: mr.segments(snap, top=3, device=0),
        STEP,
        "--segments --top 3 --device 0",
    ),
    "simulate": (
        lambda snap: mr.simulate(snap, set="max_split_size_mb:64", total_memory=2**30),
        OOM,
        "--set max_split_size_mb:64 --total-memory 1GiB",
    ),
    "steps": (
        lambda snap: mr.steps(snap, measure="active", stream=0),
        STEP,
        "--measure active --only stream=0",
    ),
    "summary": (mr.summary, STEP, ""),
    "timeline": (
        lambda snap: mr.timeline(snap, measure="held", by="category", top=3, points=50),
        STEP,
        "--measure held --by category --top 3 --points 50",
    ),
}
# Functions without a selection: a summary covers everything, a gate has its limits.
WITHOUT = ("summary", "gate")


def call(name: str, snap: mr.Snapshot, **options: Any) -> Any:
    first = {"at": ([mr.When("end")],), "diff": (snap,)}.get(name, ())
    return getattr(mr, name)(snap, *first, **options)


@pytest.fixture(scope="module")
def snap() -> mr.Snapshot:
    return mr.open(STEP)


@pytest.mark.parametrize("name", ASKED)
def test_call_gives_what_the_command_writes(name: str) -> None:
    ask, file, options = ASKED[name]
    record = ask(mr.open(file))
    files = [STEP, file] if name == "diff" else [file]
    command = COMMANDS.get(name, name)
    result = command_runner().invoke(app, [command, *files, *options.split(), "--format", "json"])
    assert result.exit_code in (0, 1), result.stderr
    assert json.loads(mr.to_json(record)) == json.loads(result.stdout)
    assert "\n" not in mr.to_json(record, indent=None)


# The command shows more groups than this, or a line above them.
SHOWN_OTHERWISE = ("gate", "segments")


@pytest.mark.parametrize("name", [name for name in ASKED if name not in SHOWN_OTHERWISE])
def test_printed_result_matches_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    ask, file, options = ASKED[name]
    print(ask(mr.open(file)))
    files = [STEP, file] if name == "diff" else [file]
    result = command_runner().invoke(app, [name, *files, *options.split()])
    assert capsys.readouterr().out == result.stdout


@pytest.mark.parametrize("name", ASKED)
def test_result_is_one_line_at_a_prompt_and_a_table_in_a_notebook(name: str) -> None:
    ask, file, _ = ASKED[name]
    record = ask(mr.open(file))
    assert "\n" not in repr(record)
    assert len(str(record).splitlines()) > 5
    assert record._repr_html_().startswith("<div>\n<p><strong>")


def test_baseline_equals_the_file_of_the_command(snap: mr.Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    command_runner().invoke(app, ["gate", STEP, "--save-base", str(path)])
    made = mr.baseline(snap)
    assert mr.to_json(made) + "\n" == path.read_text(encoding="utf-8")
    deeper = mr.open(DEEPER)
    one, two, three = (
        # Messages name the base, which is given as a baseline, a path and a string.
        [
            replace(found, message="")
            for found in mr.gate(deeper, base=base, max_growth="2%").files[0].findings
        ]
        for base in (made, path, str(path))
    )
    assert one == two == three


def test_gate_passes_at_the_limit_and_fails_above(snap: mr.Snapshot) -> None:
    peak = snap.replay().measure("held").peak.bytes
    assert mr.gate(snap, max_peak=peak, forbid_oom=True, device=None).passed
    found = mr.gate(snap, max_peak=peak - 1, name="small")
    assert not found.passed
    (finding,) = found.findings
    assert (finding.rule, finding.limit_bytes, finding.actual_bytes) == ("small", peak - 1, peak)


@pytest.mark.parametrize(
    "limits, words",
    [
        ({}, "the gate sets no limit; give one of "),
        ({"max_peak": "38"}, "has no unit; give 38GiB"),
        ({"max_peak": True}, r"max_peak must be a whole number or text \(SIZE\), not True"),
        ({"max_growth": "2%"}, "the gate limits growth; give the base with base="),
        ({"max_growth": 0.02, "base": "x.json"}, "is not a percentage"),
        ({"forbid_oom": "yes"}, "forbid_oom must be True or False"),
    ],
)
def test_meaningless_budget_is_a_usage_error(
    limits: dict[str, Any], words: str, snap: mr.Snapshot
) -> None:
    with pytest.raises(mr.UsageError, match=words):
        mr.gate(snap, **limits)


def test_base_that_is_not_a_baseline_is_an_error(snap: mr.Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    with pytest.raises(FileNotFoundError):
        mr.gate(snap, base=path, max_growth="2%")
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(mr.SnapshotError):
        mr.gate(snap, base=path, max_growth="2%")


@pytest.mark.parametrize("name", [*ASKED, "baseline"])
def test_unknown_keyword_is_named(name: str, snap: mr.Snapshot) -> None:
    with pytest.raises(TypeError, match="colour"):
        call(name, snap, colour="red")


@pytest.mark.parametrize("name", ["baseline", *(n for n in ASKED if n not in WITHOUT)])
def test_missing_device_is_a_usage_error(name: str, snap: mr.Snapshot) -> None:
    with pytest.raises(mr.UsageError, match="no device 7; this snapshot has: 0"):
        call(name, snap, device=7)


def test_gate_on_a_missing_device_is_a_usage_error(snap: mr.Snapshot) -> None:
    with pytest.raises(mr.UsageError, match="for device 7, which the file doesn't have; it has 0"):
        mr.gate(snap, device=7, forbid_oom=True)


@pytest.mark.parametrize(
    "name",
    [name for name in ASKED if name not in (*WITHOUT, "plan", "report", "simulate", "steps")],
)
def test_negative_number_of_groups_is_a_usage_error(name: str, snap: mr.Snapshot) -> None:
    with pytest.raises(mr.UsageError, match="top must be a whole number of at least 0, not -1"):
        call(name, snap, top=-1)


def test_single_device_is_compared_and_saved() -> None:
    builder = SnapshotBuilder(devices=2).alloc(0x1000, 64).alloc(0x2000, 32, device=1)
    snap = mr.open(build.dump(builder.build()))
    assert [one.device for one in mr.diff(snap, snap).devices] == [0, 1]
    found = mr.diff(snap, snap, device=1)
    assert [one.device for one in found.devices] == [1]
    assert found.only_base == found.only_new == ()
    assert [one.device for one in mr.baseline(snap, device=1).devices] == [1]


def test_single_moment_needs_no_list(snap: mr.Snapshot) -> None:
    assert mr.at(snap, mr.When("end")) == mr.at(snap, [mr.When("end")])


def test_timeline_accepts_one_measure_or_several(snap: mr.Snapshot) -> None:
    alone = mr.timeline(snap, measure="held", points=2).devices
    assert [one.measure for one in alone] == ["held"]
    several = mr.timeline(snap, measure=("active", "held"), points=2).devices
    assert [one.measure for one in several] == ["active", "held"]


def test_selection_is_passed_and_keywords_override_it(snap: mr.Snapshot) -> None:
    asked = mr.Selection(measure="held", by="file", top=2)
    assert mr.peak(snap, asked) == mr.peak(snap, measure="held", by="file", top=2)
    assert mr.peak(snap, asked, top=1) == mr.peak(snap, measure="held", by="file", top=1)
    assert mr.timeline(snap, asked, points=2).devices[0].measure == "held"
    with pytest.raises(AttributeError):
        asked.top = 3  # type: ignore[misc]


# ---- the names


def test_every_name_exists_and_is_listed() -> None:
    assert sorted(mr.__all__) == dir(mr) == sorted(mr._HOME)
    for name in mr.__all__:
        assert getattr(mr, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'peaks'"):
        _ = mr.peaks  # type: ignore[attr-defined]


def test_no_module_hides_a_public_name() -> None:
    """An imported module becomes a name of its package: `memreplay.peak` would be one."""
    modules = {one.name for one in pkgutil.iter_modules(mr.__path__)}
    assert not modules & set(mr.__all__)
    for name in ("commands.peak.find", "io.sources", "snapshot.snapshot", "export.tables.building"):
        importlib.import_module(f"memreplay.{name}")
    from memreplay import open as opened
    from memreplay import peak, table

    assert all(map(callable, (opened, peak, table)))


def test_importing_the_package_loads_no_module() -> None:
    code = (
        "import sys; before = set(sys.modules); import memreplay\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "memreplay.UsageError; print(*sorted({'numpy', 'msgspec', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, heavy = done.stdout.split("\n")[:2]
    assert set(loaded.split()) <= {"memreplay", "__future__"}
    assert heavy == ""


def test_tables_are_methods_of_the_package(snap: mr.Snapshot) -> None:
    pytest.importorskip("pyarrow")
    assert len(mr.table(snap, "events")) == 10_000
    assert "function" in mr.table(snap, "allocations", flat=True).schema.names
    with pytest.raises(mr.UsageError, match="unknown table 'event'"):
        mr.table(snap, "event")
    assert not hasattr(snap, "table")
