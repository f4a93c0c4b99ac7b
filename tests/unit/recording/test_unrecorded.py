"""Tests of recording/unrecorded.py: machines whose memory PyTorch can't record."""

from __future__ import annotations

import logging
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import memreplay as mr
from memreplay.errors import UsageError
from memreplay.recording import unrecorded
from memreplay.recording.history import recordable
from memreplay.recording.unrecorded import accelerator_of, accelerator_peak, host_peak, used
from tests.unit.recording.stand_in import Torch

MIB = 1 << 20


def with_accelerator(kind: str, peak: int | None = None) -> Torch:
    """Return a PyTorch whose accelerator is neither CUDA nor XPU."""
    torch: Any = Torch(())

    def max_memory_allocated() -> int:
        if peak is None:
            raise RuntimeError("this allocator doesn't count")
        return peak

    torch.accelerator = SimpleNamespace(
        is_available=lambda: bool(kind),
        current_accelerator=lambda: SimpleNamespace(type=kind) if kind else None,
        max_memory_allocated=max_memory_allocated,
    )
    found: Torch = torch
    return found


def test_accelerator_is_named_by_pytorch() -> None:
    assert accelerator_of(with_accelerator("mps")) == "mps"
    assert accelerator_of(with_accelerator("")) == ""
    older: Any = Torch(())  # before torch.accelerator
    assert accelerator_of(older) == ""
    older.backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True))
    assert accelerator_of(older) == "mps"


def test_accelerator_that_records_is_recorded() -> None:
    torch: Any = with_accelerator("npu")
    torch.npu = torch.devices(True)
    assert recordable(torch) == ("npu", torch.npu)


def test_accelerator_that_cannot_be_recorded_is_named() -> None:
    torch: Any = with_accelerator("mps")
    torch.mps = SimpleNamespace(is_available=lambda: True)  # it has no memory module
    with pytest.raises(UsageError, match=r"can't record mps memory; memreplay dryrun and"):
        recordable(torch)


def test_memory_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memreplay")
    torch: Any = with_accelerator("mps", 3 * MIB)
    torch.mps = SimpleNamespace(is_available=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(unrecorded, "host_peak", lambda: 512 * MIB)
    recorder = mr.record(tmp_path / "snap.pickle").start()
    assert recorder.stop() is None
    assert recorder.stop() is None
    warning, told = (record.getMessage() for record in caplog.records)
    assert warning.startswith("nothing is recorded: PyTorch 9.9 can't record mps memory")
    assert told == (
        "the process used at most 512.0 MiB of host memory and 3.0 MiB allocated on mps"
    )
    assert not list(tmp_path.iterdir())


def test_unknown_numbers_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accelerator_peak(with_accelerator("mps")) is None
    assert accelerator_peak(Torch(())) is None
    monkeypatch.setitem(sys.modules, "torch", with_accelerator("mps"))
    monkeypatch.setattr(unrecorded, "host_peak", lambda: None)
    assert used() == ""


def test_host_peak_is_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(sys, "platform", "linux")
    assert usage * 1024 <= (host_peak() or 0) < (usage + 102400) * 1024
    monkeypatch.setattr(sys, "platform", "darwin")
    assert usage <= (host_peak() or 0) < usage + 102400
    monkeypatch.setitem(sys.modules, "resource", None)  # Windows
    assert host_peak() is None
