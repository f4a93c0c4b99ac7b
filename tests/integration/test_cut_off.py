"""For a truncated file with several devices, every command says that everything after the cut is
unknown.
"""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.app import app
from memreplay.io.dataset_files import FORMATS
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB
from tests.commanding import command_runner
from tests.fuzz.datasets import exported, unpacked

UNKNOWN = "devices 1, 2 unknown"


def run(*args: str) -> tuple[int, str, str]:
    done = command_runner().invoke(app, args, prog_name="memreplay")
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def whole() -> bytes:
    """Create a snapshot in which device 1 has by far the highest peak, and almost nothing at the
    end.
    """
    machine = Machine(devices=3)
    for at, device in enumerate(machine.devices):
        for _ in range(100):
            block = device.malloc(3 * MIB)
            assert block is not None
            device.free(block)
        device.malloc(5 * MIB)
        high = device.malloc(70 * GIB if at == 1 else MIB)
        assert high is not None
        device.free(high)
    return build.dump(machine.dump()[0])


def opened(data: bytes) -> mr.Snapshot:
    return mr.open(io.BytesIO(data), salvage=True)


@pytest.fixture(scope="module")
def part(whole: bytes) -> bytes:
    """Truncate the snapshot in device 0's trace."""
    size = next(
        size
        for size in range(0, len(whole), 500)
        if size > 2000 and opened(whole[:size]).events_by_device.get(0, 0) > 50
    )
    return whole[:size]


def test_devices_before_the_cut_are_read(whole: bytes) -> None:
    """This holds wherever the file is cut."""
    seen = set()
    for size in range(1000, len(whole), 997):
        try:
            snap = opened(whole[:size])
        except mr.SnapshotError:
            continue
        assert set(snap.devices).isdisjoint(snap.unknown_devices)
        assert all(snap.trace_events(device) for device in snap.devices)
        seen.add(snap.unknown_devices)
        for device in snap.unknown_devices:
            with pytest.raises(mr.UsageError, match=f"device {device} unknown"):
                snap.replay(device)
    assert {(1, 2), (2,), ()} <= seen
    assert opened(whole).unknown_devices == ()


@pytest.mark.parametrize(
    "command",
    [
        *("summary", "report", "peak", "oom", "simulate", "timeline"),
        *("allocations", "leaks", "steps", "fragmentation"),
        *("at", "export"),
    ],
)
def test_every_command_mentions_the_truncation(tmp_path: Path, part: bytes, command: str) -> None:
    path = tmp_path / "cut.pickle"
    path.write_bytes(part)
    more = {"at": ["5"], "export": ["--format", "txt"]}.get(command, [])
    words = [command, "--salvage", str(path), *more]
    _, out, err = run(*words)
    assert UNKNOWN in err
    assert "device 1" not in out
    if command == "export":
        return
    _, out, _ = run(*words, "--format", "json")
    found: dict[str, Any] = json.loads(out)
    assert found["unknown_devices"] == [1, 2]
    assert {one["device"] for one in found["devices"]} <= {0}


def test_selecting_an_unknown_device_is_an_error(tmp_path: Path, part: bytes) -> None:
    path = tmp_path / "cut.pickle"
    path.write_bytes(part)
    code, _, err = run("peak", "--salvage", "--device", "1", str(path))
    assert code == 5
    assert "device 1 unknown" in err


def test_gate_does_not_judge_missing_data(tmp_path: Path, part: bytes) -> None:
    path = tmp_path / "cut.pickle"
    path.write_bytes(part)
    words = ["gate", "--salvage", "--allow-untrusted", "--max-peak", "1GiB", str(path)]
    code, out, _ = run(*words)
    assert code == 1
    assert "max-peak on device 1 couldn't be checked: the file is cut off before its trace" in out
    assert run(*words[:-1], "--device", "0", str(path))[0] == 0


def test_diff_fleet_and_page_list_unknown_devices(
    tmp_path: Path, whole: bytes, part: bytes
) -> None:
    (tmp_path / "base.pickle").write_bytes(whole)
    path = tmp_path / "cut_rank0.pickle"
    path.write_bytes(part)
    code, out, _ = run(
        "diff", "--salvage", str(tmp_path / "base.pickle"), str(path), "--format", "json"
    )
    assert code == 0
    found = json.loads(out)
    assert found["unknown_devices"] == [1, 2]
    assert found["only_base"] == [1, 2]
    (tmp_path / "cut_rank1.pickle").write_bytes(part)
    _, out, _ = run("fleet", "--salvage", str(path), str(tmp_path / "cut_rank1.pickle"))
    assert "device 1, 2 unknown" in out
    page = tmp_path / "page.html"
    code, _, err = run("view", "--salvage", str(path), "-o", str(page))
    assert code == 0, err
    assert UNKNOWN in page.read_text()


@pytest.mark.slow
def test_truncated_real_file_shows_nothing_of_the_missing_device(
    tmp_path: Path, corpus: Path
) -> None:
    """Device 1, with 78.3 GiB and a failed request, is missing if the file is cut at 60%."""
    data = (corpus / "Constructor-Sun_code_location__memory_snapshot.pickle").read_bytes()
    path = tmp_path / "cut.pickle"
    path.write_bytes(data[: len(data) * 6 // 10])
    for command in ("summary", "report", "peak", "oom"):
        _, out, err = run(command, "--salvage", str(path))
        assert UNKNOWN in err
        assert "384.8" not in out


def test_truncated_bare_list_has_its_devices() -> None:
    segments: list[dict[str, Any]] = [
        {"device": device, "address": 4096, "total_size": 2 * MIB, "blocks": []}
        for device in (0, 1)
    ]
    data = pickle.dumps(segments)
    snap = opened(data[:-1])
    assert (snap.devices, snap.unknown_devices) == ((0, 1), ())


@pytest.mark.parametrize("fmt", FORMATS)
def test_dataset_of_a_truncated_old_snapshot_has_the_same_devices(tmp_path: Path, fmt: str) -> None:
    """In PyTorch 2.0, blocks have a history, and the traces follow the segments."""
    history = [{"addr": 4096, "real_size": 500, "frames": []}]
    block = {"size": 512, "requested_size": 500, "state": "active_allocated", "history": history}
    segment = {"device": 0, "address": 4096, "total_size": 2 * MIB, "blocks": [block]}
    data = pickle.dumps({"segments": [segment], "device_traces": []})
    snap = opened(data[: data.index(b"device_traces")])
    assert (snap.devices, snap.unknown_devices) == ((), (0,))
    unpacked(exported(snap, fmt), str(tmp_path))
    again = mr.open(tmp_path)
    assert (again.devices, again.unknown_devices) == ((), (0,))
