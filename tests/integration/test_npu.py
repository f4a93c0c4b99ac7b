"""On the command line, results for snapshots from Ascend NPUs are exact, as for CUDA."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.app import app
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB, Settings
from tests.allocator_strategies import Program
from tests.commanding import command_runner

FRAME = {"name": "apply", "filename": "/env/site-packages/torch_npu/npu/utils.py", "line": 12}


def run(*args: str) -> tuple[int, str]:
    done = command_runner().invoke(app, args, prog_name="memreplay")
    assert not done.stderr, done.stderr
    return done.exit_code, done.stdout


def written(path: Path, settings: Settings, seed: int, *, frames: bool, late: int) -> None:
    """Write a random program's snapshot as torch_npu 2.6 does: without settings, times or pools."""
    machine = Machine(settings, devices=2)
    programs = [
        Program(one, random.Random(seed + at), False) for at, one in enumerate(machine.devices)
    ]
    for program in programs:
        program.run(late)
    machine.begin_recording()
    for program in programs:
        program.run(300)
    snapshot, _ = machine.dump(event_pools=False)
    del snapshot["allocator_settings"]
    for event in [event for trace in snapshot["device_traces"] for event in trace]:
        del event["time_us"]
        event["frames"] = [FRAME, *event.get("frames", [])] if frames else []
    path.write_bytes(build.dump(snapshot))


def check(path: Path) -> list[dict[str, Any]]:
    """Check that each command trusts the file and that each block's size is proven; return the
    devices from summary's JSON.
    """
    code, out = run("summary", "--strict", "--format", "json", str(path))
    assert code == 0, out
    summary = json.loads(out)
    assert summary["generation"] == "torch_npu (Ascend)"
    for device in summary["devices"]:
        assert device["trusted"]
        assert device["blocks_assumed"] == 0
        assert device["blocks_proven"] > 0
        assert all(one["exactness"] == "exact" for one in device["measures"])
    for measure in ("requested", "allocated", "active", "reserved"):
        assert run("peak", "--strict", "--measure", measure, str(path))[0] == 0
    return list(summary["devices"])


@pytest.mark.parametrize("frames", [True, False])
@pytest.mark.parametrize("expandable", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_recording_from_the_start_is_exact(
    tmp_path: Path, seed: int, expandable: bool, frames: bool
) -> None:
    path = tmp_path / "npu.pickle"
    settings = Settings(npu=True, expandable_segments=expandable, capacity=60 * GIB)
    written(path, settings, seed, frames=frames, late=0)
    assert len(check(path)) == 2


def test_peak_matches_the_allocator(tmp_path: Path) -> None:
    """Each of the three requests takes 512 bytes more than with CUDA or, in a segment of its own, 2
    MiB more.
    """
    machine = Machine(Settings(npu=True))
    stack = (("f", "/env/torch_npu/npu/utils.py", 3),)
    for size in (512, 4096, 12 * MIB):
        machine.devices[0].malloc(size, stack=stack)
    snapshot, _ = machine.dump()
    del snapshot["allocator_settings"]
    path = tmp_path / "npu.pickle"
    path.write_bytes(build.dump(snapshot))
    code, out = run("peak", "--strict", "--measure", "active", "--format", "json", str(path))
    assert code == 0
    # 12 MiB and 32 bytes get a segment of 14 MiB, of which more than 1 MiB is split off.
    assert json.loads(out)["devices"][0]["peak_bytes"] == 1024 + 4608 + 12 * MIB + 512
    code, out = run("peak", "--strict", "--measure", "reserved", "--format", "json", str(path))
    assert json.loads(out)["devices"][0]["peak_bytes"] == 2 * MIB + 14 * MIB


def test_suggested_setting_has_its_torch_npu_name(tmp_path: Path) -> None:
    """The last request fails because free memory is fragmented, so `oom` suggests a setting."""
    machine = Machine(Settings(npu=True, capacity=100 * MIB))
    device = machine.devices[0]
    stack = (("f", "/env/torch_npu/npu/utils.py", 3),)
    blocks = [device.malloc(4 * MIB, stack=stack) for _ in range(20)]
    for block in blocks[::2]:
        assert block is not None
        device.free(block, stack)
    assert device.malloc(18 * MIB, stack=stack) is None
    snapshot, _ = machine.dump()
    del snapshot["allocator_settings"]
    path = tmp_path / "npu.pickle"
    path.write_bytes(build.dump(snapshot))
    for command in ("oom", "report"):
        _, out = run(command, str(path))
        assert "PYTORCH_CUDA_ALLOC_CONF" not in out
    assert "PYTORCH_NPU_ALLOC_CONF" in run("oom", str(path))[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, active",
    [
        ("codeasier_MemSnapDump__npu_empty_cache", [616_078_336]),
        ("codeasier_MemSnapDump__npu_expandable", [597_800_960]),
        ("codeasier_MemSnapDump__npu_multi_devices", [597_800_960, 494_000_128]),
    ],
)
def test_real_npu_snapshots_are_exact(corpus: Path, name: str, active: list[int]) -> None:
    path = corpus / f"{name}.pickle"
    devices = check(path)
    assert [device["blocks_proven"] for device in devices] == [3219, 3216][: len(devices)]
    peaks = [{one["measure"]: one["peak_bytes"] for one in d["measures"]} for d in devices]
    assert [one["active"] for one in peaks] == active
    code, out = run("simulate", "--format", "json", str(path))
    assert code == 0
    for device in json.loads(out)["devices"]:
        assert device["exactness"] == "exact", device["reasons"]
        for name, value in device["recorded"].items():
            assert name.endswith("_event") or device["simulated"][name] == value, name


@pytest.mark.slow
def test_real_npu_snapshot_matches_plain_arithmetic(corpus: Path) -> None:
    """In expandable segments, every block's size is its request plus 32 bytes, rounded up to a
    multiple of 512.
    """
    path = corpus / "codeasier_MemSnapDump__npu_expandable.pickle"
    snapshot = pickle.loads(path.read_bytes())
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    live = [block for block in blocks if block["state"] != "inactive"]
    assert all(block["size"] == rounded(block["requested_size"]) for block in live)
    now = sum(block["size"] for block in live)
    series = []
    for event in reversed(snapshot["device_traces"][0]):  # from the last event to the first
        series.append(now)
        if event["action"] == "alloc":
            now -= rounded(event["size"])
        elif event["action"] == "free_completed":
            now += rounded(event["size"])
    with mr.open(path) as snap:
        measured = snap.replay(0).measure("active")
        assert measured.series.tolist() == series[::-1]
        assert measured.start_bytes == now


def rounded(size: int) -> int:
    return -(-(size + 32) // 512) * 512
