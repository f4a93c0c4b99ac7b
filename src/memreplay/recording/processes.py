"""List the processes that hold memory on a card.

This needs the vendor's Python package: nvidia-ml-py for NVIDIA, amdsmi for AMD.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

MOST = 64  # maximum number of processes per card, the largest ones
LONGEST = 80  # maximum length of a name, in characters
UNKNOWN_NAMES = ("", "N/A", "[Not Found]")


class Process(NamedTuple):
    """A process with memory on a card."""

    pid: int
    name: str
    """"" if it's unknown."""
    bytes: int | None
    """None if the driver doesn't say."""


class CannotListError(Exception):
    """There's no package, library or permission to list processes. The message says which."""


class Lister:
    """Lists a card's processes. Raises CannotListError if that isn't possible on this machine."""

    def processes(self, device: int) -> list[Process]:
        """Return the processes on one of torch's devices, the largest first."""
        raise NotImplementedError

    def is_mig(self, device: int) -> bool:  # noqa: ARG002 - only NVIDIA's cards have parts
        """Return whether this device is a part of a card (MIG)."""
        return False


class Nvml(Lister):
    """NVIDIA's management library."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        try:
            import pynvml
        except ImportError:
            raise CannotListError("install nvidia-ml-py to see other processes") from None
        self.nvml = pynvml
        self.call(pynvml.nvmlInit)
        self.handles: dict[int, Any] = {}

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except (self.nvml.NVMLError, self.nvml.NVMLLibraryMismatchError) as error:
            raise CannotListError(f"NVML: {error}") from None

    def handle(self, device: int) -> Any:
        """Return NVML's handle. NVML numbers all cards of the machine, torch only visible ones."""
        if device not in self.handles:
            self.handles[device] = self.find(device)
        return self.handles[device]

    def find(self, device: int) -> Any:
        uuid = getattr(self.torch.cuda.get_device_properties(device), "uuid", None)
        if uuid is not None:
            for kind in ("GPU", "MIG"):
                with contextlib.suppress(CannotListError):
                    name = f"{kind}-{uuid}".encode()
                    return self.call(self.nvml.nvmlDeviceGetHandleByUUID, name)
        index = self.torch.cuda._get_nvml_device_index(device)
        return self.call(self.nvml.nvmlDeviceGetHandleByIndex, index)

    def processes(self, device: int) -> list[Process]:
        handle = self.handle(device)
        lists = [self.call(self.nvml.nvmlDeviceGetComputeRunningProcesses, handle)]
        with contextlib.suppress(CannotListError):  # not all cards support this
            lists.append(self.call(self.nvml.nvmlDeviceGetGraphicsRunningProcesses, handle))
        found: dict[int, int | None] = {}
        for one in (one for some in lists for one in some):
            taken = one.usedGpuMemory
            before = found.get(one.pid)
            # A process that computes and draws is in both lists, with the same bytes.
            found[one.pid] = before if taken is None else max(before or 0, taken)
        return largest(Process(pid, self.name(pid), taken) for pid, taken in found.items())

    def name(self, pid: int) -> str:
        try:
            return short(self.call(self.nvml.nvmlSystemGetProcessName, pid))
        except (CannotListError, UnicodeDecodeError):
            return name_of(pid)

    def is_mig(self, device: int) -> bool:
        try:
            found = self.call(self.nvml.nvmlDeviceIsMigDeviceHandle, self.handle(device))
        except CannotListError:
            return False
        return bool(getattr(found, "value", found))


class AmdSmi(Lister):
    """AMD's management library."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        try:
            import amdsmi
        except (ImportError, OSError, KeyError):  # the package needs ROCm's library
            raise CannotListError("install amdsmi to see other processes") from None
        self.smi = amdsmi
        self.call(amdsmi.amdsmi_init)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except self.smi.AmdSmiException as error:
            raise CannotListError(f"AMD SMI: {' '.join(str(error).split())}") from None

    def processes(self, device: int) -> list[Process]:
        index = self.torch.cuda._get_amdsmi_device_index(device)
        handle = self.call(self.smi.amdsmi_get_processor_handles)[index]
        found = []
        for one in self.call(self.smi.amdsmi_get_gpu_process_list, handle):
            taken = one.get("memory_usage", {}).get("vram_mem")
            name = short(one.get("name", "")) or name_of(one["pid"])
            found.append(Process(one["pid"], name, taken if isinstance(taken, int) else None))
        return largest(found)


def lister(torch: Any, kind: str) -> Lister:
    """Return what lists processes for this torch. Raises CannotListError."""
    if kind != "cuda":
        raise CannotListError("other processes can't be listed on this kind of device")
    return AmdSmi(torch) if is_rocm(torch) else Nvml(torch)


def is_rocm(torch: Any) -> bool:
    """Return whether this torch's "cuda" is AMD's ROCm."""
    return bool(getattr(getattr(torch, "version", None), "hip", None))


def largest(found: Any) -> list[Process]:
    return sorted(found, key=lambda one: (-(one.bytes or 0), one.pid))[:MOST]


def short(name: object) -> str:
    """Return a program's name without its folder and arguments."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    text = "" if text in UNKNOWN_NAMES else text
    return os.path.basename(text.partition("\0")[0])[:LONGEST]


def name_of(pid: int) -> str:
    """Return the name of one of this machine's processes, as Linux knows it; "" if unknown."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()[:LONGEST]
    except OSError:
        return ""
