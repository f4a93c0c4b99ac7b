"""The fake GPU's NVML: other processes on the cards, and parts of cards."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.dryrun.cards import environment, find
from memreplay.recording.processes import CannotListError, Nvml, name_of
from memreplay.recording.processes import Process as Recorded
from tests.unit.dryrun.library import GIB, OUT_OF_MEMORY, load, malloc

H200 = find("H200")
INSUFFICIENT_SIZE, NOT_FOUND, INVALID = 7, 6, 2


class Process(ctypes.Structure):
    """nvmlProcessInfo_t."""

    _fields_ = [("pid", c_uint), ("bytes", c_ulonglong), ("gpu", c_uint), ("compute", c_uint)]


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    def loaded(processes: str, mig: str = "0") -> Any:
        monkeypatch.setenv("MEMREPLAY_GPU_PROCESSES", processes)
        monkeypatch.setenv("MEMREPLAY_GPU_MIG", mig)
        return load(tmp_path, environment(H200, cuda=13, count=2)["MEMREPLAY_GPU"])

    return loaded


def free_of(gpu: Any) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert gpu.cudaMemGetInfo(byref(free), byref(total)) == 0
    assert total.value == H200.bytes
    return free.value


def handle_of(gpu: Any, index: int) -> c_void_p:
    handle = c_void_p()
    assert gpu.nvmlDeviceGetHandleByIndex_v2(index, byref(handle)) == 0
    return handle


def processes(gpu: Any, index: int = 0) -> list[tuple[int, int]]:
    handle, count = handle_of(gpu, index), c_uint(0)
    get = gpu.nvmlDeviceGetComputeRunningProcesses_v3
    assert get(handle, byref(count), None) == INSUFFICIENT_SIZE
    made = (Process * count.value)()
    assert get(handle, byref(count), made) == 0
    return [(one.pid, one.bytes) for one in made[: count.value]]


def test_other_processes_take_their_memory(gpu: Callable[[str], Any]) -> None:
    card = gpu("4711 python 10737418240;50 serve 1073741824")
    whole = H200.bytes - H200.context_bytes
    assert free_of(card) == whole - 11 * GIB
    malloc(card, 4 * GIB)
    assert free_of(card) == whole - 15 * GIB
    own = H200.context_bytes + 4 * GIB
    assert processes(card) == [(4711, 10 * GIB), (50, GIB), (os.getpid(), own)]
    assert processes(card, 1)[-1] == (os.getpid(), H200.context_bytes)
    at = c_void_p()
    assert card.cudaMalloc(byref(at), ctypes.c_size_t(whole - 14 * GIB)) == OUT_OF_MEMORY


def test_processes_have_names(gpu: Callable[[str], Any]) -> None:
    card = gpu("4711 python 1")
    name = ctypes.create_string_buffer(64)
    assert card.nvmlSystemGetProcessName(4711, name, 64) == 0
    assert name.value == b"/usr/bin/python"
    assert card.nvmlSystemGetProcessName(1, name, 64) == NOT_FOUND


@pytest.mark.parametrize("given", ["", "nonsense", "1 a", ";;", "x y 5"])
def test_invalid_descriptions_are_no_process(gpu: Callable[[str], Any], given: str) -> None:
    card = gpu(given)
    assert free_of(card) == H200.bytes - H200.context_bytes
    assert processes(card) == [(os.getpid(), H200.context_bytes)]


def test_others_have_at_most_the_card(gpu: Callable[[str], Any]) -> None:
    assert free_of(gpu("1 a 999999999999999")) == 0


@pytest.mark.parametrize("mig", [False, True])
def test_handles_by_uuid(gpu: Callable[..., Any], mig: bool) -> None:
    card = gpu("", str(int(mig)))
    kind, handle = ("MIG" if mig else "GPU"), c_void_p()
    rest = "0000-0000-0000-0000-000000000000"
    find_it = card.nvmlDeviceGetHandleByUUID
    assert find_it(c_char_p(f"{kind}-6d01{rest}".encode()), byref(handle)) == 0
    assert handle.value == handle_of(card, 1).value
    assert find_it(c_char_p(f"{kind}-6d07{rest}".encode()), byref(handle)) == INVALID
    other = "GPU" if mig else "MIG"
    assert find_it(c_char_p(f"{other}-6d01{rest}".encode()), byref(handle)) == NOT_FOUND
    is_part = c_uint()
    assert card.nvmlDeviceIsMigDeviceHandle(handle, byref(is_part)) == 0
    assert is_part.value == mig


def test_number_of_devices(gpu: Callable[[str], Any]) -> None:
    card = gpu("")
    count = c_int()
    assert card.nvmlInitWithFlags(0) == 0
    assert card.nvmlDeviceGetCount_v2(byref(count)) == 0
    assert count.value == 2
    assert card.nvmlDeviceGetHandleByIndex_v2(2, byref(c_void_p())) == INVALID


# --- with NVIDIA's own Python package -------------------------------------------------------------


class Without:
    """The library without some functions, as of another driver."""

    def __init__(self, library: Any, *missing: str) -> None:
        self.library, self.missing = library, missing

    def __getattr__(self, name: str) -> Any:
        if name in self.missing:
            raise AttributeError(name)
        return getattr(self.library, name)


def torch(uuid: str) -> Any:
    """Return a torch that sees the second card."""
    card = SimpleNamespace(uuid=uuid)
    cuda = SimpleNamespace(
        get_device_properties=lambda _: card, _get_nvml_device_index=lambda device: device + 1
    )
    return SimpleNamespace(cuda=cuda)


UUID = "6d010000-0000-0000-0000-000000000000"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Let the package use a library. Its caches of functions are emptied before and after."""
    import pynvml

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)

    def use(library: Any) -> Nvml:
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        return Nvml(torch(UUID))

    return use


@pytest.mark.parametrize("mig", [False, True])
def test_package_lists_processes(
    gpu: Callable[..., Any], package: Callable[..., Any], mig: bool
) -> None:
    found = package(gpu("4711 python 10737418240;50 serve 1073741824", str(int(mig))))
    assert found.is_mig(0) == mig
    own = Recorded(os.getpid(), name_of(os.getpid()), H200.context_bytes)
    assert found.processes(0) == [
        Recorded(4711, "python", 10 * GIB),
        Recorded(50, "serve", GIB),
        own,
    ]


def test_package_finds_the_card_by_its_index(
    gpu: Callable[[str], Any], package: Callable[..., Any]
) -> None:
    library = Without(gpu("4711 python 1"), "nvmlDeviceGetHandleByUUID")
    assert [one.pid for one in package(library).processes(0)] == [os.getpid(), 4711]


@pytest.mark.parametrize(
    "missing, words",
    [
        ("nvmlInitWithFlags", "Function Not Found"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "."),
    ],
)
def test_missing_function_is_a_reason(
    gpu: Callable[[str], Any], package: Callable[..., Any], missing: str, words: str
) -> None:
    with pytest.raises(CannotListError, match=f"NVML: .*{words}"):
        package(Without(gpu(""), missing)).processes(0)


def test_missing_library_is_a_reason(
    package: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pynvml

    def fails(_: str) -> None:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", fails)
    with pytest.raises(CannotListError, match="NVML: NVML Shared Library Not Found"):
        package(None)
