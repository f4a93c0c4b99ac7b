"""Hints name the backend's own module of torch and variable, whichever command says them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.snapshot.backends import BACKENDS, NPU, XPU, Backend, spoken
from tests import build
from tests.allocator import GIB, MIB, Machine, Settings

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
    "leaks --windows 5",
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
def test_hints_are_those_of_the_backend(
    runner: CliRunner, tmp_path: Path, backend: Backend
) -> None:
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
    # That many commands give one shows that the files are such as need it.
    assert len({command for command, found, _ in hints if found}) > 8


@pytest.mark.parametrize("name", BACKENDS)
def test_text_about_the_allocator(name: str) -> None:
    said = spoken("torch.cuda.memory, PYTORCH_CUDA_ALLOC_CONF, torch.cudart, CUDA", name)
    one = BACKENDS[name]
    assert said == f"{one.module}.memory, {one.variable}, torch.cudart, CUDA"
