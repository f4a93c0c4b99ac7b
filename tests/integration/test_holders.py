"""The holders of programs' memory, in a dry run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.snapshot.recorded_holders import recorded_holders
from tests.conftest import ROOT
from tests.integration.dry import PYTHON, dryrun, marks

pytestmark = marks

PATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
MIB = 1 << 20
# Finding holders has all the time that a slow machine needs.
PATIENT = """
from memreplay.recording import holders
holders.Holders.__init__.__kwdefaults__["seconds"] = 60.0
"""
X = 512 * 512 * 4  # bytes of an activation
# For each leak: its group's kind, name, function and bytes.
LEAKS = {
    "losses": ("variable", "history[…]", "losses", 15 * X),
    "total_loss": ("variable", "total", "total_loss", 15 * X),
    "exception": ("exception", "errors[…] → traceback → fail()", "exception", 16 * MIB),
    "hook": (
        "variable",
        "net._forward_hooks[…] → hook.<locals>.register.<locals>.look().seen",
        "hook",
        8 * MIB,
    ),
    "cycle": ("cycle", "Node", "", 8 * MIB),
    "cached_outputs": ("variable", "computed[…]", "cached_outputs", 8 * MIB),
    "kv_cache": ("variable", "cache.layers['keys'][…]", "kv_cache", 4 * MIB),
    "view": ("variable", "first", "view", 8 * MIB),
    "module_variable": ("variable", "KEPT[…]", "", 8 * MIB),
    "generator": ("variable", "running → prefetched in batches()", "generator", 8 * MIB),
    "attribute": ("variable", "net.last", "attribute", 3 * X),
    "loop": ("variable", "prefetched", "batches", 8 * MIB),
    "linked": ("variable", "newest….before.data", "linked", 1976 * 4096),
    "hostile": ("variable", "many[…].data", "hostile", 3 * MIB),
    "large_dict": ("variable", "kept[…]", "large_dict", 20_000 * 4096),
    "custom_function": ("variable", "output.grad_fn.mask", "custom_function", 8 * MIB),
}
PARAMETERS = 2 * (512 * 512 + 512) * 4
# For each harmless program: the bytes of all its groups by kind and name.
HARMLESS = {
    "clean_training": {
        ("parameters", "net"): PARAMETERS,
        ("gradients", "net"): PARAMETERS,
        ("optimizer state", "optimizer"): 2 * PARAMETERS,
    },
    "clean_zeroed": {
        ("parameters", "net"): PARAMETERS,
        ("optimizer state", "optimizer"): PARAMETERS,
        ("variable", "history[…]"): 8,
        ("variable", "loss"): 4,
    },
    "clean_inference": {("parameters", "net"): PARAMETERS, ("variable", "output"): X},
    "clean_checkpointed": {
        ("parameters", "net"): PARAMETERS,
        ("variable", "x"): X,
        ("variable", "output"): X,
    },
    "clean_buffers": {("parameters", "net"): 4 * 4 * MIB + 8},
    "clean_tied": {("parameters", "net"): PARAMETERS - X},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("held")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, dict[str, Any]]:
    out = folder / "held.json"
    done = dryrun(folder, "--", PYTHON, "-m", "tests.truth.held", str(out), PYTHONPATH=PATH)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, Any]] = json.loads(out.read_text())
    assert set(found) == {*LEAKS, *HARMLESS}
    return found


@pytest.mark.parametrize("name", LEAKS)
def test_leak_names_its_holder(told: dict[str, dict[str, Any]], name: str) -> None:
    kind, words, function, size = LEAKS[name]
    found = [one for one in told[name]["groups"] if one["kind"] == kind and one["name"] == words]
    assert len(found) == 1, told[name]["groups"]
    assert found[0]["function"] == function
    assert size <= found[0]["bytes"] < size + 4096
    if function:
        assert found[0]["file"].endswith("programs.py")
        assert found[0]["line"] > 0


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_program_has_only_what_it_needs(
    told: dict[str, dict[str, Any]], name: str
) -> None:
    groups = {(one["kind"], one["name"]): one["bytes"] for one in told[name]["groups"]}
    assert groups.pop(("unknown", ""), 0) == told[name]["before"]
    assert groups == HARMLESS[name]


@pytest.mark.usefixtures("told")
def test_each_block_of_a_dump_has_its_holder(folder: Path) -> None:
    snap = mr.open(folder / "dumped.pickle")
    noted = recorded_holders(snap)
    assert noted is not None
    assert noted.groups[0].name == "kept[…][…]"
    (device,) = mr.at(snap, "end", holders=True, top=0).devices
    assert device.held_by
    assert (device.held_by.freed_bytes, device.held_by.unknown_bytes) == (0, 0)
    assert [(one.label, one.bytes, one.count) for one in device.held_by.groups] == [
        (one.label, one.bytes, one.count) for one in noted.groups
    ]
    assert sum(one.bytes for one in noted.groups) == noted.total_bytes == device.live_bytes


def test_groups_add_up(told: dict[str, dict[str, Any]]) -> None:
    for found in told.values():
        listed = sum(one["bytes"] for one in found["groups"])
        assert listed + found["other_bytes"] == found["total_bytes"]
        assert found["complete"]


FILLING = """
import torch

def fill():
    kept = []
    try:
        while True:
            kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        return len(kept)

fill()
last = {"small": torch.empty(1 << 20, dtype=torch.uint8, device="cuda")}
"""


def test_dry_run_looks_when_memory_first_runs_out(tmp_path: Path) -> None:
    program = tmp_path / "filling.py"
    program.write_text(FILLING)
    options = ("--holders", "--gpu", "t4", "--total-memory", "1GiB")
    done = dryrun(tmp_path, *options, "--", PYTHON, str(program), PYTHONPATH=PATH)
    snap = mr.open(tmp_path / "out.pickle")
    noted = recorded_holders(snap)
    assert noted is not None, done.stdout + done.stderr
    assert noted.when == "oom"
    (group,) = noted.groups
    assert (group.name, group.function) == ("kept[…]", "fill")
    assert group.bytes == noted.total_bytes == group.count * 64 * MIB
    (peak,) = mr.at(snap, "oom", holders=True).devices
    assert peak.held_by
    assert (peak.held_by.after_events, peak.held_by.freed_bytes) == (0, 0)
    assert [(one.name, one.bytes) for one in peak.held_by.groups] == [("kept[…]", peak.live_bytes)]
    (end,) = mr.at(snap, "end", holders=True).devices
    assert end.held_by
    assert (end.held_by.groups, end.held_by.allocated_after_bytes) == ((), MIB)
    words = " ".join(str(mr.at(snap, "end", holders=True)).split())
    assert "earlier, when memory first ran out" in words


def test_dry_run_looks_at_the_end_if_memory_suffices(tmp_path: Path) -> None:
    program = tmp_path / "filling.py"
    program.write_text(FILLING.replace("\nfill()", ""))
    done = dryrun(tmp_path, "--holders", "--", PYTHON, str(program), PYTHONPATH=PATH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "last['small'] (dict)  " in done.stdout
    noted = recorded_holders(mr.open(tmp_path / "out.pickle"))
    assert noted is not None
    (group,) = noted.groups
    assert (group.name, group.file, noted.when) == ("last['small']", str(program), "end")


def run(folder: Path, code: str) -> None:
    """Run a program that records itself, in this folder."""
    program = folder / "program.py"
    program.write_text(f"{PATIENT}import os; os.chdir({str(folder)!r})\n{code}")
    done = dryrun(folder, "--", PYTHON, str(program), PYTHONPATH=PATH)
    assert done.returncode == 0, done.stdout + done.stderr


WAITING = """
import os, signal, threading, time
import torch
import memreplay

def work(stop):
    mine = [torch.ones(1 << 20, dtype=torch.uint8, device="cuda")]
    started.set()
    stop.wait()

def stop_after(file):
    while not os.path.exists(file):
        time.sleep(0.05)
    stop.set()

with memreplay.record("run.pickle", holders=True):
    torch.ones(1, device="cuda")
    started, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    started.wait()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    threading.Thread(target=stop_after, args=("run.signal.pickle",)).start()
    thread.join()
"""


def test_signal_is_handled_while_the_program_waits_for_a_thread(tmp_path: Path) -> None:
    run(tmp_path, WAITING)
    noted = recorded_holders(mr.open(tmp_path / "run.signal.pickle"))
    assert noted is not None
    assert (noted.groups[0].name, noted.groups[0].function) == ("mine[…]", "work")
    assert noted.groups[0].bytes == MIB


POOLS = """
import torch
import memreplay

def main():
    x = torch.ones(1024, 1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x.relu()
    del y
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        y = torch.ones(1024, 1024, device="cuda")
    del y
    recorder.dump("run.pickle")

with memreplay.record("end.pickle", holders=True) as recorder:
    main()
"""


def test_private_pools_have_holders(tmp_path: Path) -> None:
    run(tmp_path, POOLS)
    snap = mr.open(tmp_path / "run.pickle")
    noted = recorded_holders(snap)
    assert noted is not None
    assert {(one.name, one.type_name, one.function, one.pool[0] > 0) for one in noted.pools} == {
        ("graph", "CUDAGraph", "main", True),
        ("pool", "MemPool", "main", False),
    }
    reserved = {
        (one.pool, one.reserved_bytes)
        for one in mr.at(snap, "end", by="pool").devices[0].parts
        if one.pool != (0, 0)
    }
    assert {(one.pool, one.bytes) for one in noted.pools} == reserved


PINNED = """
import torch
from torch.utils.data import DataLoader
import memreplay

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, at):
        return torch.zeros(1 << 18)

def main():
    kept, held = [], torch.empty(1 << 20, device="cuda")
    for batch in DataLoader(Samples(), batch_size=2, pin_memory=True):
        kept.append(batch)
    small, plain = torch.empty(64).pin_memory(), torch.empty(1 << 20)
    recorder.dump("run.pickle")

with memreplay.record("end.pickle", holders=True) as recorder:
    main()
"""


def test_pinned_batches_have_a_holder(tmp_path: Path) -> None:
    run(tmp_path, PINNED)
    noted = recorded_holders(mr.open(tmp_path / "run.pickle"))
    assert noted is not None
    assert {(one.name, one.function) for one in noted.pinned} == {
        ("kept[…]", "main"),
        ("batch", "main"),
    }
    assert sum(one.bytes for one in noted.pinned) == 3 * 2 * MIB
    assert sum(one.count for one in noted.pinned) == 3
