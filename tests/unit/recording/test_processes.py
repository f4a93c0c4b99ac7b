"""Lists of the processes on a card, with stand-ins for the vendors' packages."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memreplay.recording import processes as module
from memreplay.recording.processes import AmdSmi, CannotListError, Nvml, Process, lister

GIB = 1 << 30
OWN = os.getpid()


class NVMLError(Exception):
    """NVML's error."""


class NVMLLibraryMismatchError(Exception):
    """Raised if the driver is older than the package."""


class Nvidia(ModuleType):
    """A stand-in for pynvml, with two cards of which torch sees the second."""

    NVMLError, NVMLLibraryMismatchError = NVMLError, NVMLLibraryMismatchError

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.computing = {"GPU-b": [(4711, 3 * GIB), (OWN, 7 * GIB)]}
        self.drawing: dict[str, list[tuple[int, int | None]]] = {"GPU-b": []}
        self.names: dict[int, Any] = {4711: "/usr/bin/python3"}

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> str:
        if uuid.decode() not in self.computing:
            raise NVMLError("Not Found")
        return uuid.decode()

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return ["GPU-a", "GPU-b"][index]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return listed(self.computing[handle])

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:
        return listed(self.drawing[handle])

    def nvmlSystemGetProcessName(self, pid: int) -> Any:
        if pid not in self.names:
            raise NVMLError("Not Found")
        return self.names[pid]

    def nvmlDeviceIsMigDeviceHandle(self, handle: str) -> Any:
        return SimpleNamespace(value=int(handle.startswith("MIG")))


def listed(found: Any) -> list[Any]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=taken) for pid, taken in found]


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> Nvidia:
    made = Nvidia()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def torch(uuid: str | None = "b", hip: str | None = None) -> Any:
    card = SimpleNamespace() if uuid is None else SimpleNamespace(uuid=uuid)
    cuda = SimpleNamespace(
        get_device_properties=lambda _: card,
        _get_nvml_device_index=lambda device: device + 1,
        _get_amdsmi_device_index=lambda device: device + 1,
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))


def test_other_process_is_named(nvidia: Nvidia) -> None:
    found = lister(torch(), "cuda").processes(0)
    assert found == [
        Process(OWN, module.name_of(OWN), 7 * GIB),
        Process(4711, "python3", 3 * GIB),
    ]


@pytest.mark.parametrize("uuid", [None, "unknown"])
def test_card_is_found_without_a_uuid(nvidia: Nvidia, uuid: str | None) -> None:
    assert [one.pid for one in Nvml(torch(uuid)).processes(0)] == [OWN, 4711]


def test_process_that_also_draws_counts_once(nvidia: Nvidia) -> None:
    nvidia.drawing["GPU-b"] = [(4711, 3 * GIB), (50, 1 * GIB)]
    found = {one.pid: one.bytes for one in Nvml(torch()).processes(0)}
    assert found == {OWN: 7 * GIB, 4711: 3 * GIB, 50: 1 * GIB}


def test_process_without_bytes_is_listed(nvidia: Nvidia) -> None:
    """Windows doesn't tell how much a process has."""
    nvidia.drawing["GPU-b"] = [(50, None)]
    assert Nvml(torch()).processes(0)[-1] == Process(50, module.name_of(50), None)


@pytest.mark.parametrize(
    "name, shown",
    [
        ("/opt/My Program/server", "server"),
        (b"/usr/bin/python3\0-m\0serve", "python3"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("x" * 500, "x" * 80),
        ("[Not Found]", ""),
    ],
)
def test_names_are_short(nvidia: Nvidia, name: Any, shown: str) -> None:
    nvidia.names[4711] = name
    assert Nvml(torch()).processes(0)[1].name == shown


def test_parts_of_a_card(nvidia: Nvidia) -> None:
    nvidia.computing["MIG-c"] = nvidia.computing["GPU-b"]
    nvidia.drawing["MIG-c"] = []
    assert Nvml(torch("c")).is_mig(0)
    assert len(Nvml(torch("c")).processes(0)) == 2
    assert not Nvml(torch("b")).is_mig(0)


def test_missing_functions_leave_out_what_needs_them(
    nvidia: Nvidia, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise NVMLError("Function Not Found")

    for name in ("GetGraphicsRunningProcesses", "IsMigDeviceHandle"):
        monkeypatch.setattr(nvidia, f"nvmlDevice{name}", fails)
    found = Nvml(torch())
    assert len(found.processes(0)) == 2
    assert not found.is_mig(0)
    monkeypatch.setattr(nvidia, "nvmlDeviceGetComputeRunningProcesses", fails)
    with pytest.raises(CannotListError, match="NVML: Function Not Found"):
        found.processes(0)


@pytest.mark.parametrize(
    "error", [NVMLError("NVML Shared Library Not Found"), NVMLLibraryMismatchError("older")]
)
def test_missing_library_is_a_reason(nvidia: Nvidia, error: Exception) -> None:
    def fails() -> None:
        raise error

    nvidia.nvmlInit = fails  # type: ignore[method-assign]
    with pytest.raises(CannotListError, match=f"NVML: {error}"):
        Nvml(torch())


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(CannotListError, match="install nvidia-ml-py"):
        lister(torch(), "cuda")
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(CannotListError, match="install amdsmi"):
        lister(torch(hip="7.1"), "cuda")


def test_other_kinds_of_devices_have_no_list() -> None:
    with pytest.raises(CannotListError, match="this kind of device"):
        lister(torch(), "xpu")


class AmdError(Exception):
    """AMD SMI's error."""


class Amd(ModuleType):
    """A stand-in for amdsmi, with the dicts that its documentation shows."""

    AmdSmiException = AmdError

    def __init__(self) -> None:
        super().__init__("amdsmi")
        self.begun = 0

    def amdsmi_init(self) -> None:
        self.begun += 1

    def amdsmi_get_processor_handles(self) -> list[str]:
        return ["a", "b"]

    def amdsmi_get_gpu_process_list(self, handle: str) -> list[dict[str, Any]]:
        assert handle == "b"
        usage = {"gtt_mem": 1, "cpu_mem": 2, "vram_mem": 5 * GIB}
        return [
            {"name": "N/A", "pid": 1 << 30, "mem": 0, "memory_usage": {"vram_mem": "N/A"}},
            {"name": "rccl-tests", "pid": 4711, "mem": 6 * GIB, "memory_usage": usage},
        ]


def test_amd_lists_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Amd()
    monkeypatch.setitem(sys.modules, "amdsmi", made)
    found = lister(torch(hip="7.1"), "cuda")
    assert isinstance(found, AmdSmi)
    assert made.begun == 1
    assert found.processes(0) == [
        Process(4711, "rccl-tests", 5 * GIB),
        Process(1 << 30, "", None),
    ]
    assert not found.is_mig(0)


def test_amd_without_permission_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Amd()

    def fails(_: str) -> list[dict[str, Any]]:
        raise AmdError("Error code:\n\t10 | AMDSMI_STATUS_NO_PERM")

    monkeypatch.setattr(made, "amdsmi_get_gpu_process_list", fails)
    monkeypatch.setitem(sys.modules, "amdsmi", made)
    with pytest.raises(CannotListError, match=r"AMD SMI: Error code: 10 \| AMDSMI_STATUS_NO_PERM"):
        lister(torch(hip="7.1"), "cuda").processes(0)


def test_at_most_64_processes_are_listed() -> None:
    many = [Process(pid, "", pid) for pid in range(1000)]
    found = module.largest(many)
    assert [one.pid for one in found] == list(range(999, 935, -1))


@pytest.mark.skipif(not os.path.exists("/proc/self/comm"), reason="only Linux has /proc")
def test_names_of_own_machine() -> None:
    assert module.name_of(OWN)
    assert module.name_of(2**30) == ""
