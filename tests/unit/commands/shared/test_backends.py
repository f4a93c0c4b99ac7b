"""Hints name the backend's torch module and variable in every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.report.advice_text import WORDS as ADVICE
from memreplay.render.reasons import KEPT_ONE, REASONS
from memreplay.snapshot.backends import BACKENDS, CUDA_2_0, NPU, XPU, Backend, for_backend
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB, Settings
from tests.build import SnapshotBuilder

COMMANDS = (
    "report",
    "summary",
    "peak",
    "at start",
    "peak --rules",
    "timeline",
    "fragmentation --segments",
    "fragmentation",
    "allocations",
    "oom",
    "simulate --set max_split_size_mb:64",
    "simulate --total-memory 80GiB",
    "leaks --step windows=5",
    "steps",
    "modules",
    "diff FILE",
)
HINTS = re.compile(r"torch\.(\w+)\.(?:memory|empty_cache|set_per)|PYTORCH_(\w+)_ALLOC_CONF=")


def written(path: Path, backend: Backend, kind: str) -> Path:
    settings = Settings(npu=backend is NPU, capacity=200 * MIB if kind == "oom" else 80 * GIB)
    machine = Machine(settings)
    device = machine.devices[0]
    blocks = [device.malloc(size, stack=()) for size in (30 * MIB, 2 * MIB, 512) * 3]
    if kind == "oom":
        device.malloc(GIB, stack=())
    for block in blocks[::2]:
        assert block is not None
        device.free(block, ())
    made, _ = machine.dump()
    made["allocator_settings"] = {backend.variable: ""}
    if kind == "final":
        made["device_traces"] = [[]]
    elif kind == "no segments":
        made["segments"] = []
    elif kind == "ring":
        made["trace_alloc_overflowed"] = True
    path.write_bytes(build.dump(made))
    return path


@pytest.mark.parametrize("backend", [XPU, NPU], ids=lambda one: one.name)
def test_hints_match_the_backend(runner: CliRunner, tmp_path: Path, backend: Backend) -> None:
    hints = []
    for kind in ("oom", "final", "no segments", "ring"):
        path = str(written(tmp_path / f"{kind}.pkl", backend, kind))
        for command in COMMANDS:
            name, *options = [path if word == "FILE" else word for word in command.split(" ")]
            done = runner.invoke(app, [name, path, *options], env={"COLUMNS": "1000"})
            assert done.exit_code in (0, 1, 5), done.output
            hints += [(command, *found) for found in HINTS.findall(done.output)]
    module = backend.module.rpartition(".")[2]
    assert {found for _, found, _ in hints if found} == {module}
    assert {found for *_, found in hints if found} <= {backend.name}
    # Several commands must give a hint for these files, or nothing was tested.
    assert len({command for command, found, _ in hints if found}) > 8


@pytest.mark.parametrize("name", BACKENDS)
def test_text_names_the_backends_module_and_variable(name: str) -> None:
    said = for_backend("torch.cuda.memory, PYTORCH_CUDA_ALLOC_CONF, torch.cudart, CUDA", name)
    one = BACKENDS[name]
    assert said == f"{one.module}.memory, {one.variable}, torch.cudart, CUDA"


def test_hints_for_pytorch_2_0_use_its_arguments(runner: CliRunner, tmp_path: Path) -> None:
    """The current arguments are a TypeError in PyTorch 2.0."""
    builder = SnapshotBuilder()
    past = [(1 << 20, 100, [("main", "train.py", 2)])]
    builder.segment(1 << 20, 2 * MIB, blocks=[builder.legacy_block(512, 100, history=past)])
    builder.top("device_traces", [[]])
    path = tmp_path / "old.pkl"
    path.write_bytes(build.dump(builder.build()))
    for command in ("summary", "peak", "report"):
        said = runner.invoke(app, [command, str(path)], env={"COLUMNS": "1000"}).output
        assert "_record_memory_history(True, trace_alloc_max_entries=100000" in said, said


@pytest.mark.parametrize(
    "text", [*(one.remedy for one in REASONS.values()), KEPT_ONE, *ADVICE.values()]
)
def test_texts_for_pytorch_2_0_have_none_of_the_newer_arguments(text: str) -> None:
    said = for_backend(text, CUDA_2_0.name)
    assert not re.search(r"_record_memory_history\((?!True|False)", said)
    assert not re.search(r"(?<!trace_alloc_)max_entries|enabled=|stacks=", said)
