"""Snapshots in folders and under names that trainers use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import build
from tests.allocator import Machine

MIB = 1 << 20


def put_snapshot(path: Path, *peaks: int, kept: int = 0) -> Path:
    """Write a snapshot in which each device keeps `kept` MiB, and temporarily holds that much
    more.
    """
    machine = Machine(devices=len(peaks))
    for device, peak in zip(machine.devices, peaks, strict=True):
        if kept:
            device.malloc(kept * MIB, stack=(("collect", "metrics.py", 9),))
        block = device.malloc(peak * MIB, stack=(("forward", "model.py", 3),))
        assert block is not None
        device.free(block)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build.dump(machine.dump()[0]))
    return path


def refuse_folder(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make listing folders with this name fail. Permissions can't do this, because root can list
    any folder.
    """
    scandir = os.scandir

    def refuse(path: str = ".") -> object:
        if os.path.basename(path) == name:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    access = os.access

    def may(path: str, mode: int) -> bool:
        return os.path.basename(path.rstrip("/")) != name and access(path, mode)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "access", may)
