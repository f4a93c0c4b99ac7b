"""`export --host` writes what a device's snapshot of the same segments and events has."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import memreplay as mr
from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder

NAME = 'f "device":-1 \\"device\\": -1'  # which is no key


def pinned() -> dict[str, Any]:
    """Return a snapshot of pinned memory, as if it were a device's."""
    builder = SnapshotBuilder()
    for i in range(4):
        frames = [(NAME, "load.py", i), ("main", "train.py", 3)]
        builder.segment_alloc(4096 * (i + 1), 4096).alloc(4096 * (i + 1), 4096, frames=frames)
    for action in ("free_requested", "free_completed"):
        builder.event(action, 8192, 4096)
    return dict(builder.finish_segments().build())


def with_host(*, nested: bool = False) -> dict[str, Any]:
    """Return a snapshot with other device memory, and this host memory."""
    own = pinned()
    (trace,) = own["device_traces"]
    return {
        **SnapshotBuilder().alloc(4096, 512).build(),
        "host_segments": [{**one, "device": -1} for one in own["segments"]],
        "more": {"device": -1},
        "host_traces": [trace] if nested else trace,
    }


def exported(path: Path, *options: str) -> Result:
    out = path.with_name("out.pickle")
    return CliRunner().invoke(app, ["export", str(path), "--host", "-o", str(out), *options])


def numbers(snap: mr.Snapshot) -> tuple[Any, ...]:
    report = mr.peak(snap)
    (found,) = report.devices
    groups = [(one.label, one.bytes, one.count) for one in found.groups]
    (summary,) = mr.summary(snap).devices
    return found.peak_bytes, found.peak_event, groups, summary.measures, summary.states


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("form", ["pickle", "gzip", "json"])
def test_host_memory_is_written_as_a_device(tmp_path: Path, form: str, nested: bool) -> None:
    made = with_host(nested=nested)
    data = json.dumps(made).encode() if form == "json" else build.dump(made)
    path = tmp_path / "snap.pkl"
    path.write_bytes(gzip.compress(data) if form == "gzip" else data)
    done = exported(path)
    assert done.exit_code == 0, done.output
    found = mr.open(tmp_path / "out.pickle")
    assert numbers(found) == numbers(mr.open(build.dump(pinned())))
    assert NAME in found.stack(1)[0].function
    # The device's own memory is left out.
    assert found.devices == (0,)


def test_frames_may_be_stripped(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(with_host()))
    assert exported(path, "--strip-frames", "all").exit_code == 0
    assert mr.open(tmp_path / "out.pickle").code.frames == 1


@pytest.mark.parametrize(
    "more",
    [{}, {"host_segments": [], "host_traces": []}, {"other": 5}, {"host_traces": [[]]}],
)
def test_files_without_host_memory_say_how_to_record_it(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump({**SnapshotBuilder().alloc(1, 2).build(), **more}))
    done = exported(path)
    assert done.exit_code == 5
    assert "record_pinned_host_memory=True" in done.output
    assert not (tmp_path / "out.pickle").exists()


@pytest.mark.parametrize(
    "more",
    [
        {"host_traces": [5]},
        {"host_traces": 5},
        {"host_traces": "x"},
        {"host_segments": {"a": 1}},
        {"host_segments": [{"blocks": 5}]},
        {"host_segments": [{"address": -1, "total_size": "x"}]},
    ],
)
def test_invalid_host_memory_is_an_error(tmp_path: Path, more: dict[str, Any]) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump({**SnapshotBuilder().alloc(1, 2).build(), **more}))
    done = exported(path)
    assert done.exit_code in (3, 5)
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("option", [("--device", "0"), ("--from", "1"), ("--to", "2")])
def test_ranges_are_rejected(tmp_path: Path, option: tuple[str, str]) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(with_host()))
    done = exported(path, *option)
    assert done.exit_code == 2
    assert "cut the file that it writes" in " ".join(done.output.split())


def test_standard_input_is_rejected() -> None:
    done = CliRunner().invoke(app, ["export", "-", "--host", "-o", "x.pkl"], input=b"")
    assert done.exit_code == 2
    assert "standard input" in done.output
