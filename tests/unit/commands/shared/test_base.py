"""Tests of commands/shared/base.py: opening a snapshot or a baseline from files and pipes."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.baseline_reading import MAX_BYTES
from memreplay.analysis.comparing.sides import BaselineSide
from memreplay.commands.shared.base import base_for, opened_base
from memreplay.commands.shared.source import Reading
from memreplay.errors import SnapshotError, UsageError
from memreplay.gating.base_lines import render_baseline
from tests import build
from tests.allocator_strategies import record

SNAPSHOT = record(1, steps=40).snapshot
PICKLE = build.dump(SNAPSHOT)
EVENTS = len(SNAPSHOT["device_traces"][0])


def as_json(padding: int = 0) -> bytes:
    text = '{"segments": [], "device_traces": [[]], "x": "' + "y" * padding + '"}'
    return text.encode()


def as_baseline() -> bytes:
    return render_baseline(baseline_of(mr.open(PICKLE))).encode()


def kind_of(path: str) -> str:
    with ExitStack() as until:
        found = opened_base(path, Reading(), until)
        if isinstance(found, BaselineSide):
            assert found.file == path
            return "baseline"
        return f"snapshot of {sum(found.trace_events(one) for one in found.devices)}"


CASES = [
    (PICKLE, f"snapshot of {EVENTS}"),
    (as_baseline(), "baseline"),
    (as_json(), "snapshot of 0"),
    (as_json(MAX_BYTES + 10), "snapshot of 0"),
]


@pytest.mark.parametrize("data, kind", CASES)
def test_kind_of_a_file_is_detected(tmp_path: Path, data: bytes, kind: str) -> None:
    path = tmp_path / "base"
    path.write_bytes(data)
    assert kind_of(str(path)) == kind


@pytest.mark.parametrize("data, kind", CASES)
def test_kind_of_a_pipe_is_detected(tmp_path: Path, data: bytes, kind: str) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    try:
        assert kind_of(str(path)) == kind
    finally:
        writer.join()


def test_other_files_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (b"", b"hello", b'{"schema": "memreplay.baseline/1", '):
        path.write_bytes(data)
        with pytest.raises(SnapshotError):
            kind_of(str(path))
    with pytest.raises(FileNotFoundError):
        kind_of(str(tmp_path / "y"))
    with pytest.raises(IsADirectoryError):
        kind_of(str(tmp_path))


def test_base_in_a_folder_is_found_by_name(tmp_path: Path) -> None:
    assert base_for("a/base.json", "x.pkl") == "a/base.json"
    folder = str(tmp_path)
    for name in ("rank0.json", "rank1.pkl.gz", "rank2.pkl.json"):
        (tmp_path / name).touch()
    assert base_for(folder, "new/rank0.pkl.gz") == str(tmp_path / "rank0.json")
    assert base_for(folder, "new/rank1.pkl.gz") == str(tmp_path / "rank1.pkl.gz")
    assert base_for(folder, "rank2.pkl") == str(tmp_path / "rank2.pkl.json")
    with pytest.raises(UsageError, match="has no base for it; looked for rank3"):
        base_for(folder, "rank3.pkl")
