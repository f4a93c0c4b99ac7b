"""The driver's cards, with a stand-in for NVIDIA's package."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memreplay.live.cards import Card, Driver
from memreplay.recording.processes import Process

GIB = 1 << 30


class NVMLError(Exception):
    """NVML's error."""


class Nvidia(ModuleType):
    """A stand-in for pynvml, with two cards."""

    NVMLError = NVMLLibraryMismatchError = NVMLError

    def __init__(self, text: Any = str) -> None:
        super().__init__("pynvml")
        self.text, self.lost, self.denied = text, False, False

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> Any:
        return self.text("NVIDIA H200")

    def nvmlDeviceGetUUID(self, handle: int) -> Any:
        return self.text(f"GPU-{handle}")

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        if self.lost:
            raise NVMLError("GPU is lost")
        return SimpleNamespace(total=140 * GIB, free=(140 - handle) * GIB, used=handle * GIB)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        if self.denied:
            raise NVMLError("Insufficient Permissions")
        return [SimpleNamespace(pid=4711, usedGpuMemory=GIB)] * handle

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:
        return []

    def nvmlSystemGetProcessName(self, pid: int) -> Any:
        return self.text("/usr/bin/python")


@pytest.mark.parametrize("text", [str, str.encode])
def test_all_cards(monkeypatch: pytest.MonkeyPatch, text: Any) -> None:
    """Older versions of the package return bytes."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvidia(text))
    driver = Driver()
    assert driver.cards() == [
        Card(0, "NVIDIA H200", "GPU-0", 140 * GIB, 140 * GIB, [], ""),
        Card(1, "NVIDIA H200", "GPU-1", 140 * GIB, 139 * GIB, [Process(4711, "python", GIB)], ""),
    ]
    assert driver.missing == ""


def test_cards_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia = Nvidia()
    nvidia.denied = True
    monkeypatch.setitem(sys.modules, "pynvml", nvidia)
    assert [one.missing for one in Driver().cards()] == ["NVML: Insufficient Permissions"] * 2


def test_lost_card_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia = Nvidia()
    monkeypatch.setitem(sys.modules, "pynvml", nvidia)
    driver = Driver()
    nvidia.lost = True
    assert (driver.cards(), driver.missing) == ([], "NVML: GPU is lost")
    nvidia.lost = False
    assert (len(driver.cards()), driver.missing) == (2, "")


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    driver = Driver()
    assert driver.cards() == []
    assert "pip install" in driver.missing
    assert "nvidia-ml-py" in driver.missing


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia = Nvidia()

    def no_library() -> None:
        raise NVMLError("NVML Shared Library Not Found")

    monkeypatch.setattr(nvidia, "nvmlInit", no_library)
    monkeypatch.setitem(sys.modules, "pynvml", nvidia)
    assert Driver().missing == "NVML: NVML Shared Library Not Found"
