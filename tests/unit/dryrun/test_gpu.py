"""Call the library that simulates the GPU as a program calls NVIDIA's libraries."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import struct
import subprocess
import sys
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.dryrun.runtime import built
from tests.unit.dryrun.fake_torch import compile_

MIB = 1 << 20
GIB = 1 << 30
OUT_OF_MEMORY, INVALID_VALUE, INVALID_DEVICE, NOT_READY, NOT_SUPPORTED = 2, 1, 101, 600, 801
SMALL = 65536
HANDLE = c_void_p(16)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Load a copy of the library for these tests. It shares no state with other copies."""
    return load(tmp_path_factory.mktemp("gpu"), "bytes=85899345920;count=2;lag=2")


def load(folder: Path, card: str) -> Any:
    copy = Path(shutil.copy(built("_gpu"), folder / "gpu.so"))
    before = dict(os.environ)
    # ctypes loads it into this process, and C code reads variables set with putenv.
    os.environ["MEMREPLAY_GPU"] = card
    try:
        library = ctypes.CDLL(str(copy))
        library.cudaGetDeviceCount(byref(c_int()))  # which reads them
    finally:
        os.environ.clear()
        os.environ.update(before)
    return library


def malloc(gpu: Any, n_bytes: int) -> int:
    at = c_void_p()
    assert gpu.cudaMalloc(byref(at), c_size_t(n_bytes)) == 0
    return at.value or 0


def free_bytes(gpu: Any) -> int:
    free, total = c_size_t(), c_size_t()
    assert gpu.cudaMemGetInfo(byref(free), byref(total)) == 0
    assert total.value == 80 * GIB
    return free.value


# --- memory --------------------------------------------------------------------------------------


def test_memory_is_allocated_in_pages_and_freed(gpu: Any) -> None:
    before = free_bytes(gpu)
    one, other = malloc(gpu, 1), malloc(gpu, 3 * MIB)
    assert one % (2 * MIB) == other % (2 * MIB) == 0
    assert free_bytes(gpu) == before - 2 * MIB - 4 * MIB
    assert gpu.cudaFree(c_void_p(one)) == 0
    assert gpu.cudaFree(c_void_p(one)) == INVALID_VALUE
    assert gpu.cudaFree(c_void_p(other + 512)) == INVALID_VALUE
    assert gpu.cudaFree(c_void_p(other)) == 0
    assert gpu.cudaFree(None) == 0
    assert free_bytes(gpu) == before
    assert gpu.cudaGetLastError() == INVALID_VALUE
    assert gpu.cudaGetLastError() == 0


def test_full_card_runs_out_of_memory(gpu: Any) -> None:
    at = c_void_p()
    whole = malloc(gpu, free_bytes(gpu) - 2 * MIB)
    assert gpu.cudaMalloc(byref(at), c_size_t(2 * MIB + 1)) == OUT_OF_MEMORY
    assert at.value is None
    assert gpu.cudaMalloc(byref(at), c_size_t(2**64 - 1)) == OUT_OF_MEMORY
    last = malloc(gpu, 2 * MIB)
    assert free_bytes(gpu) == 0
    for one in (whole, last):
        gpu.cudaFree(c_void_p(one))


def test_every_card_has_its_own_memory(gpu: Any) -> None:
    before = free_bytes(gpu)
    assert gpu.cudaSetDevice(1) == 0
    other = malloc(gpu, GIB)
    assert free_bytes(gpu) == 79 * GIB
    assert gpu.cudaSetDevice(0) == 0
    assert free_bytes(gpu) == before
    assert gpu.cudaFree(c_void_p(other)) == 0  # frees a block on card 1
    assert gpu.cudaSetDevice(1) == 0
    assert free_bytes(gpu) == 80 * GIB
    assert gpu.cudaSetDevice(0) == 0
    assert gpu.cudaSetDevice(2) == gpu.cudaSetDevice(-1) == INVALID_DEVICE


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=40))
def test_addresses_never_overlap(gpu: Any, asked: list[tuple[int, int]]) -> None:
    """Each step either frees a live block or allocates one."""
    before = free_bytes(gpu)
    live: dict[int, int] = {}
    for pick, pages in asked:
        if pick < len(live):
            at = sorted(live)[pick]
            assert gpu.cudaFree(c_void_p(at)) == 0
            del live[at]
        else:
            live[malloc(gpu, pages * 2 * MIB)] = pages * 2 * MIB
        spans = sorted(live.items())
        assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(spans))
        assert free_bytes(gpu) == before - sum(live.values())
    for at in live:
        gpu.cudaFree(c_void_p(at))


def test_any_address_in_a_block_belongs_to_the_device(gpu: Any) -> None:
    at = malloc(gpu, 4 * MIB)
    out = (c_char * 88)()
    assert gpu.cudaPointerGetAttributes(out, c_void_p(at + 3 * MIB)) == 0
    assert struct.unpack_from("=iiQQ", out) == (2, 0, at + 3 * MIB, 0)
    assert gpu.cudaPointerGetAttributes(out, c_void_p(4096)) == 0
    assert struct.unpack_from("=iiQQ", out) == (0, 0, 0, 4096)
    gpu.cudaFree(c_void_p(at))


def test_virtual_memory_counts_once_it_is_created(gpu: Any) -> None:
    before = free_bytes(gpu)
    at, handle = c_uint64(), c_uint64()
    assert gpu.cuMemAddressReserve(byref(at), c_size_t(90 * GIB), c_size_t(0), c_uint64(0), 0) == 0
    assert free_bytes(gpu) == before
    assert gpu.cuMemCreate(byref(handle), c_size_t(20 * MIB), None, 0) == 0
    assert free_bytes(gpu) == before - 20 * MIB
    assert gpu.cuMemMap(at, c_size_t(20 * MIB), c_size_t(0), handle, 0) == 0
    assert gpu.cuMemMap(at, c_size_t(20 * MIB), c_size_t(0), c_uint64(9999), 0) == INVALID_VALUE
    assert gpu.cuMemUnmap(at, c_size_t(20 * MIB)) == 0
    assert gpu.cuMemRelease(handle) == 0
    assert gpu.cuMemRelease(handle) == INVALID_VALUE
    assert free_bytes(gpu) == before
    assert gpu.cuMemAddressFree(at, c_size_t(90 * GIB)) == 0
    assert gpu.cuMemCreate(byref(handle), c_size_t(1), None, 0) == INVALID_VALUE
    assert gpu.cuMemCreate(byref(handle), c_size_t(81 * GIB), None, 0) == OUT_OF_MEMORY


def test_memory_is_not_shared_with_other_processes(gpu: Any) -> None:
    """An older torch looks these functions up before it creates an expandable segment."""
    for name in ("ExportToShareableHandle", "ImportFromShareableHandle"):
        assert gpu[f"cuMem{name}"]() == NOT_SUPPORTED
    for name in ("Create", "AddDevice", "BindMem"):
        assert gpu[f"cuMulticast{name}"]() == NOT_SUPPORTED


# --- contents ------------------------------------------------------------------------------------


def write(gpu: Any, at: int, data: bytes) -> None:
    assert gpu.cudaMemcpy(c_void_p(at), data, c_size_t(len(data)), 1) == 0


def read(gpu: Any, at: int, n_bytes: int) -> bytes:
    out = ctypes.create_string_buffer(b"\xee" * n_bytes, n_bytes)
    assert gpu.cudaMemcpy(out, c_void_p(at), c_size_t(n_bytes), 2) == 0
    return out.raw


def test_small_copies_are_returned_and_large_ones_are_zeros(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    write(gpu, at, b"learning rate")
    assert read(gpu, at, 13) == b"learning rate"
    assert read(gpu, at, 14) == bytes(14)  # one of its bytes is unknown
    write(gpu, at, b"x" * SMALL)
    assert read(gpu, at, SMALL) == b"x" * SMALL
    write(gpu, at, b"x" * (SMALL + 1))
    assert read(gpu, at, 10) == bytes(10)
    gpu.cudaFree(c_void_p(at))


def test_reused_block_is_empty(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    for block in (at, at + 512, at + 1024):
        gpu.memreplay_block(c_uint64(block), 1)
        write(gpu, block, b"labels")
    gpu.memreplay_block(c_uint64(at + 512), 0)
    assert [read(gpu, at + i, 6) for i in (0, 512, 1024)] == [b"labels", bytes(6), b"labels"]
    write(gpu, at + 512, b"stale")
    gpu.memreplay_block(c_uint64(at + 512), 1)
    assert read(gpu, at + 512, 5) == bytes(5)
    gpu.cudaFree(c_void_p(at))


STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 60), st.integers(1, 20), st.integers(1, 255)),
    st.tuples(st.just("set"), st.integers(0, 60), st.integers(1, 20), st.integers(0, 255)),
    st.tuples(st.just("copy"), st.integers(0, 60), st.integers(1, 20), st.integers(0, 60)),
    st.tuples(st.just("unknown"), st.integers(0, 60), st.integers(1, 20), st.just(0)),
)


@given(st.lists(STEP, max_size=30), st.lists(st.tuples(st.integers(0, 70), st.integers(1, 10))))
def test_only_written_bytes_are_known(
    gpu: Any, steps: list[tuple[str, int, int, int]], reads: list[tuple[int, int]]
) -> None:
    """Compare with a list of bytes in which None means unknown."""
    at = malloc(gpu, MIB)
    unknown = malloc(gpu, MIB)  # never written
    want: list[int | None] = [None] * 100
    for kind, place, length, value in steps:
        if kind == "write":
            write(gpu, at + place, bytes([value]) * length)
            want[place : place + length] = [value] * length
        elif kind == "set":
            gpu.cudaMemset(c_void_p(at + place), value, c_size_t(length))
            want[place : place + length] = [value] * length
        else:
            source = unknown if kind == "unknown" else at + value
            gpu.cudaMemcpy(c_void_p(at + place), c_void_p(source), c_size_t(length), 3)
            part = [None] * length if kind == "unknown" else want[value : value + length]
            known = all(one is not None for one in part)
            want[place : place + length] = part if known else [None] * length
    for place, length in reads:
        part = want[place : place + length]
        all_known = [one for one in part if one is not None]
        expected = bytes(all_known) if len(all_known) == length else bytes(length)
        assert read(gpu, at + place, length) == expected
    for one in (at, unknown):
        gpu.cudaFree(c_void_p(one))


# --- streams, events, capture --------------------------------------------------------------------


def made(function: Any, *arguments: Any) -> c_void_p:
    out = c_void_p()
    assert function(byref(out), *arguments) == 0
    return out


def capturing(gpu: Any, stream: c_void_p) -> bool:
    status = c_int()
    assert gpu.cudaStreamIsCapturing(stream, byref(status)) == 0
    return status.value == 1


def test_streams_are_distinct(gpu: Any) -> None:
    assert len({made(gpu.cudaStreamCreate).value for _ in range(100)}) == 100


def test_events_complete_after_some_queries(gpu: Any) -> None:
    event, stream = made(gpu.cudaEventCreate), made(gpu.cudaStreamCreate)
    for _ in range(2):
        assert gpu.cudaEventRecord(event, stream) == 0
        assert [gpu.cudaEventQuery(event) for _ in range(4)] == [NOT_READY, NOT_READY, 0, 0]
    gpu.cudaEventRecord(event, stream)
    assert gpu.cudaEventSynchronize(event) == gpu.cudaEventQuery(event) == 0
    gpu.cudaEventDestroy(event)


def test_capture_includes_waiting_streams(gpu: Any) -> None:
    first, second, third = (made(gpu.cudaStreamCreate) for _ in range(3))
    event = made(gpu.cudaEventCreate)
    assert gpu.cudaStreamBeginCapture(first, 0) == 0
    assert [capturing(gpu, one) for one in (first, second, third)] == [True, False, False]
    gpu.cudaEventRecord(event, first)
    gpu.cudaStreamWaitEvent(second, event, 0)
    assert [capturing(gpu, one) for one in (first, second, third)] == [True, True, False]
    graph = c_void_p()
    assert gpu.cudaStreamEndCapture(second, byref(graph)) == INVALID_VALUE  # it started elsewhere
    assert gpu.cudaStreamEndCapture(first, byref(graph)) == 0
    assert graph.value
    assert not any(capturing(gpu, one) for one in (first, second, third))
    gpu.cudaStreamWaitEvent(third, event, 0)  # an event of a finished capture
    assert not capturing(gpu, third)


def test_captures_are_numbered(gpu: Any) -> None:
    stream, graph, numbers = made(gpu.cudaStreamCreate), c_void_p(), []
    for _ in range(2):
        gpu.cudaStreamBeginCapture(stream, 0)
        status, number = c_int(), c_ulonglong()
        gpu.cudaStreamGetCaptureInfo_v2(stream, byref(status), byref(number), None, None, None)
        assert status.value == 1
        numbers.append(number.value)
        gpu.cudaStreamEndCapture(stream, byref(graph))
    assert numbers[0]
    assert numbers[1] > numbers[0]


# --- the card ------------------------------------------------------------------------------------

CARD = (
    "bytes=25435766784;major=8;minor=6;sms=82;shared_block=49152;shared_block_optin=101376;"
    "shared_sm=102400;threads_sm=1536;blocks_sm=16;regs_sm=65536;l2=6291456;bus_width=384;count=3"
)
# Offsets and values of the fields in cudaDeviceProp, in CUDA 11 and 12, and in 13 (driver_types.h).
FIELDS = {
    "totalGlobalMem": (288, 288, "Q", 25435766784),
    "major": (360, 360, "i", 8),
    "minor": (364, 364, "i", 6),
    "multiProcessorCount": (388, 384, "i", 82),
    "warpSize": (308, 308, "i", 32),
    "maxThreadsPerBlock": (320, 320, "i", 1024),
    "textureAlignment": (368, 368, "Q", 512),
    "canMapHostMemory": (400, 392, "i", 1),
    "concurrentKernels": (576, 560, "i", 1),
    "asyncEngineCount": (600, 584, "i", 3),
    "unifiedAddressing": (604, 588, "i", 1),
    "streamPrioritiesSupported": (628, 608, "i", 1),
    "cooperativeLaunch": (688, 668, "i", 1),
    "pciBusID": (584, 568, "i", 3),
    "memoryBusWidth": (612, 592, "i", 384),
    "l2CacheSize": (616, 596, "i", 6291456),
    "maxThreadsPerMultiProcessor": (624, 604, "i", 1536),
    "sharedMemPerMultiprocessor": (640, 624, "Q", 102400),
    "regsPerMultiprocessor": (648, 632, "i", 65536),
    "sharedMemPerBlockOptin": (696, 672, "Q", 101376),
    "maxBlocksPerMultiProcessor": (712, 688, "i", 16),
    "reservedSharedMemPerBlock": (720, 696, "Q", 1024),
}


@pytest.mark.parametrize(
    "cuda, function, size",
    [
        (11, "cudaGetDeviceProperties", 728),
        (12, "cudaGetDeviceProperties_v2", 1032),
        (13, "cudaGetDeviceProperties", 1008),
    ],
)
def test_properties_have_the_layout_of_each_cuda_version(
    tmp_path: Path, cuda: int, function: str, size: int
) -> None:
    gpu = load(tmp_path, f"{CARD};cuda={cuda}")
    out = (c_char * 2048).from_buffer_copy(b"\xee" * 2048)
    assert gpu[function](out, 2) == 0
    assert out.raw[size:] == b"\xee" * (2048 - size)  # nothing follows the properties
    assert out.raw[size - 4 : size] == bytes(4)
    for name, (before_13, from_13, kind, value) in FIELDS.items():
        at = from_13 if cuda == 13 else before_13
        assert struct.unpack_from(f"={kind}", out.raw, at) == (value,), name
    assert gpu[function](out, 3) == INVALID_DEVICE


def test_attributes_match_the_properties(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    value = c_int()
    for attribute, want in ((16, 82), (75, 8), (76, 6), (81, 102400), (97, 101376), (39, 1536)):
        assert gpu.cudaDeviceGetAttribute(byref(value), attribute, 0) == 0
        assert value.value == want
    assert gpu.cudaDeviceGetAttribute(byref(value), 16, 3) == INVALID_DEVICE


@pytest.mark.parametrize(
    "threads, shared, blocks",
    [(256, 0, 6), (1024, 0, 1), (32, 0, 16), (33, 0, 16), (128, 50000, 2), (1536, 0, 1)],
)
def test_occupancy_depends_on_threads_and_shared_memory(
    tmp_path: Path, threads: int, shared: int, blocks: int
) -> None:
    gpu = load(tmp_path, CARD)
    found = c_int()
    gpu.cudaOccupancyMaxActiveBlocksPerMultiprocessor(byref(found), None, threads, c_size_t(shared))
    assert found.value == blocks


def test_last_call_survives_the_process(tmp_path: Path) -> None:
    code = (
        "import ctypes, os, sys\n"
        "gpu = ctypes.CDLL(sys.argv[1])\n"
        "gpu.cudaStreamCreate(ctypes.byref(ctypes.c_void_p()))\n"
        "gpu.cudaDeviceSynchronize()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(built("_gpu"))],
        env=os.environ | {"MEMREPLAY_GPU_CALLS": str(tmp_path)},
        check=False,
    )
    (calls,) = tmp_path.glob("*.calls")
    name, count = struct.unpack_from("=64sQ", calls.read_bytes())
    assert name.rstrip(b"\0") == b"cudaDeviceSynchronize"
    assert count == 2


def test_forked_process_has_its_own_calls(tmp_path: Path) -> None:
    code = (
        "import ctypes, os, sys\n"
        "gpu = ctypes.CDLL(sys.argv[1])\n"
        "gpu.cudaDeviceSynchronize()\n"
        "if not os.fork():\n"
        "    gpu.cudaStreamCreate(ctypes.byref(ctypes.c_void_p()))\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(built("_gpu"))],
        env=os.environ | {"MEMREPLAY_GPU_CALLS": str(tmp_path)},
        check=True,
    )
    pages = [struct.unpack_from("=64sQ", one.read_bytes()) for one in tmp_path.glob("*.calls")]
    assert sorted((name.rstrip(b"\0"), count) for name, count in pages) == [
        (b"cudaDeviceSynchronize", 1),
        (b"cudaStreamCreate", 1),
    ]


def places(gpu: Any) -> list[tuple[str, int]]:
    """Return the counts in order: each operator, and the number of its reads."""
    gpu.memreplay_place.restype = ctypes.c_char_p
    found: list[tuple[str, int]] = []
    times = c_uint64()
    while text := gpu.memreplay_place(len(found), byref(times)):
        found.append((text.decode().partition("\n")[0], times.value))
    return found


def test_reads_of_unknown_values_are_counted(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, here = malloc(gpu, MIB), ctypes.create_string_buffer(b"12345678", 8)
    back = ctypes.create_string_buffer(8)

    def read(from_: int) -> bytes:
        gpu.cudaMemcpy(back, c_void_p(from_), c_size_t(8), 2)
        return back.raw

    gpu.cudaMemcpy(c_void_p(at), here, c_size_t(8), 1)
    assert (read(at), places(gpu)) == (b"12345678", [])
    assert (read(at + 8), read(at + 4)) == (bytes(8), bytes(8))  # the first half of at + 4 is known
    assert places(gpu) == [("read", 2)]
    gpu.memreplay_count_places(0)
    assert (read(at + 8), places(gpu)) == (bytes(8), [("read", 2)])
    gpu.memreplay_count_places(1)
    assert places(gpu) == []


def test_read_is_reported_with_its_stack(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)
    source = "\n" * 6 + "def inner():\n    read()\ninner()\n"
    names = {"read": lambda: gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)}
    exec(compile(source, "/me/a file.py", "exec"), names)
    gpu.memreplay_place.restype = ctypes.c_char_p
    operator, sizes, *frames = gpu.memreplay_place(0, byref(c_uint64())).decode().split("\n")
    assert (operator, sizes) == ("read", "0")
    assert frames[0] == __file__
    assert frames[3:9] == ["/me/a file.py", "8", "inner", "/me/a file.py", "9", "<module>"]
    assert len(frames) % 3 == 0


def test_frame_without_a_line_number_is_reported(tmp_path: Path) -> None:
    """CPython reports line -1 for such code."""
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)
    names = {"read": lambda: gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)}
    code = compile("read()", "/me/made.py", "exec")
    # Make a table in which no code has a position (Objects/locations.md). Before Python 3.11, the
    # table has pairs of a length and -128.
    length = len(code.co_code)
    units = length // 2
    table = bytes([0xF8 | (n - 1) for n in [8] * (units // 8) + [units % 8] if n])
    if sys.version_info < (3, 11):
        table = bytes([length, 0x80])
    exec(code.replace(co_linetable=table), names)
    gpu.memreplay_place.restype = ctypes.c_char_p
    _, _, *frames = gpu.memreplay_place(0, byref(c_uint64())).decode().split("\n")
    assert frames[3:6] == ["/me/made.py", "0", "<module>"]


def test_call_sites_beyond_the_limit_are_counted_together(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)
    names = {"read": lambda: gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)}
    for i in range(5000):
        exec(compile("read()", f"{i}.py", "exec"), names)
    found = places(gpu)
    assert len(found) <= 4096
    assert sum(times for _, times in found) == 5000


def test_no_python_code_runs_for_a_read(tmp_path: Path) -> None:
    """Otherwise a signal handler might run, and its exception would be lost."""
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)

    class UpError(Exception):
        pass

    def up(*_: object) -> None:
        raise UpError

    before = signal.signal(signal.SIGALRM, up)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(UpError):  # noqa: PT012 - it comes at any of them
            while True:
                gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)
    finally:
        signal.signal(signal.SIGALRM, before)


# --- memory that a kernel may have written


def launch(gpu: Any, *arguments: Any) -> None:
    """Launch a kernel with these arguments, as nvcc's host code does."""
    values = [ctypes.pointer(one) for one in arguments]
    given = (c_void_p * len(values))(*(ctypes.cast(one, c_void_p).value for one in values))
    assert (
        gpu.cudaLaunchKernel(c_void_p(16), c_uint64(1), 1, c_uint64(1), 1, given, c_size_t(0), None)
        == 0
    )


def test_arguments_of_an_unknown_kernel_become_unknown(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, here = malloc(gpu, MIB), ctypes.create_string_buffer(b"12345678", 8)
    back = ctypes.create_string_buffer(8)
    gpu.cudaMemcpy(c_void_p(at), here, c_size_t(8), 1)
    launch(gpu, ctypes.c_int(3))  # on the heap, where the other arguments are unknown
    gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)
    assert (back.raw, places(gpu)) == (b"12345678", [("read", 1)])
    gpu.cudaMemcpy(c_void_p(at), here, c_size_t(8), 1)  # known again
    gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)
    assert places(gpu) == [("read", 1)]


LAUNCHES = """
#include <stdio.h>
#include <string.h>
typedef unsigned long u64;
int cudaLaunchKernel(const void *, u64, unsigned, u64, unsigned, void **, u64, void *);
int cudaGraphLaunch(void *, void *), cudaMalloc(void **, u64);
int cudaMemcpy(void *, const void *, u64, int);
void memreplay_count_places(int), memreplay_block(u64, int), memreplay_touch(const u64 *, u64);
const char *memreplay_place(int, u64 *);
struct given { char before[40]; void *one; };
/* As nvcc makes it: the arguments' values are this function's own. */
__attribute__((noinline)) static void kernel(int n, struct given by) {
    void *arguments[] = {&n, &by};
    cudaLaunchKernel((void *)16, 1, 1, 1, 1, arguments, 0, 0);
}
static u64 doubts(void *at) {
    static u64 before;
    u64 value, count = 0, all = 0;
    cudaMemcpy(&value, at, 8, 2);
    for (int i = 0; memreplay_place(i, &count); i++)
        all += count;
    u64 more = all - before;
    before = all;
    return more;
}
static void *pool; /* and no address of a block stays on the stack of main */
static char *at(int i) { return (char *)pool + 512 * i; }
static u64 value = 7;
__attribute__((noinline)) static void know(void) {
    for (int i = 0; i < 3; i++)
        cudaMemcpy(at(i), &value, 8, 1);
}
__attribute__((noinline)) static void launch(void) {
    struct given by = {.one = at(1) + 64}; /* within the second block */
    kernel(5, by);
}
__attribute__((noinline)) static void say(void) {
    u64 one = doubts(at(0)), two = doubts(at(1));
    printf("%lu%lu%lu ", one, two, doubts(at(2)));
}
int main(void) {
    memreplay_count_places(1);
    cudaMalloc(&pool, 2 << 20);
    for (int i = 0; i < 3; i++)
        memreplay_block((u64)at(i), 1);
    know();
    launch();
    say();
    know();
    u64 words[] = {1, (u64)at(2), 3};
    memreplay_touch(words, 3);
    say();
    cudaMemcpy(at(2), &value, 8, 1);
    cudaMemcpy(at(1), at(2), 8, 3);
    say();
    cudaGraphLaunch(0, 0);
    cudaMemcpy(at(0), &value, 8, 1);
    cudaMemcpy(at(1), at(2), 8, 3); /* a copy of what is in doubt is, too */
    say();
    return 0;
}
"""


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
def test_blocks_passed_to_a_kernel_become_unknown(tmp_path: Path, optimized: str) -> None:
    made = compile_(tmp_path, LAUNCHES, "launches", optimized, str(built("_gpu")))
    # Without Python, the call site of a read is unknown, but the read is counted.
    done = subprocess.run(
        [made],
        env={**os.environ, "LD_PRELOAD": str(built("_gpu"))},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "010 001 000 011 "


def test_context_takes_its_share_of_the_card(tmp_path: Path) -> None:
    gpu = load(tmp_path, f"bytes={GIB};context={300 * MIB}")
    free, total, at = c_size_t(), c_size_t(), c_void_p()
    gpu.cudaMemGetInfo(byref(free), byref(total))
    assert (free.value, total.value) == (724 * MIB, GIB)
    assert gpu.cudaMalloc(byref(at), c_size_t(725 * MIB)) == OUT_OF_MEMORY
    assert gpu.cudaMalloc(byref(at), c_size_t(724 * MIB)) == 0


def test_ranks_know_the_world_size(gpu: Any) -> None:
    class Id(ctypes.Structure):
        _fields_ = [("bytes", c_char * 128)]

    one, value = c_void_p(), c_int()
    gpu.ncclCommInitRank.argtypes = [c_void_p, c_int, Id, c_int]
    assert gpu.ncclCommInitRank(byref(one), 8, Id(), 5) == 0
    assert gpu.ncclCommCount(one, byref(value)) == 0
    assert value.value == 8
    assert gpu.ncclCommUserRank(one, byref(value)) == 0
    assert value.value == 5
    assert gpu.ncclCommDestroy(one) == 0


@pytest.mark.parametrize("version, parts", [("92607", (9, 26, 7)), ("8907", (8, 9, 7))])
def test_cudnn_reports_its_configured_version(
    tmp_path: Path, version: str, parts: tuple[int, int, int]
) -> None:
    code = (
        "import ctypes, sys\n"
        "gpu, value = ctypes.CDLL(sys.argv[1]), ctypes.c_int()\n"
        "print(gpu.cudnnGetVersion())\n"
        "for which in range(3):\n"
        "    gpu.cudnnGetProperty(which, ctypes.byref(value))\n"
        "    print(value.value)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(built("_gpu"))],
        env=os.environ | {"MEMREPLAY_CUDNN": version},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [version, *map(str, parts)]


def test_any_convolution_gets_one_engine(gpu: Any) -> None:
    """In cudnn_graph.h, 202 stands for the results of a heuristic and 402 for the bytes that a plan
    needs.
    """
    descriptor = made(lambda out: gpu.cudnnBackendCreateDescriptor(4, out))
    asked = c_uint64.in_dll(gpu, "memreplay_workspaces")
    before, count, values = asked.value, ctypes.c_int64(-1), (ctypes.c_int64 * 2)(7, 7)
    get = gpu.cudnnBackendGetAttribute
    get.argtypes = (c_void_p, c_int, c_int, ctypes.c_int64, c_void_p, c_void_p)
    assert get(descriptor, 202, 15, 0, byref(count), None) == 0
    assert count.value == 1
    assert get(descriptor, 1303, 11, 0, byref(count), None) == 0  # notes: none
    assert (count.value, asked.value) == (0, before)
    assert get(descriptor, 402, 3, 1, byref(count), values) == 0
    assert (count.value, list(values), asked.value) == (1, [0, 7], before + 1)
    assert get(descriptor, 402, 3, 1, None, values) == 0
    assert gpu.cudnnBackendDestroyDescriptor(descriptor) == 0


@pytest.mark.parametrize(
    "function, arguments",
    [
        ("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", 8),
        ("cudnnGetBatchNormalizationBackwardExWorkspaceSize", 10),
        ("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", 5),
        ("cudnnDropoutGetStatesSize", 1),
    ],
)
def test_unknown_sizes_are_counted(gpu: Any, function: str, arguments: int) -> None:
    asked, n_bytes = c_uint64.in_dll(gpu, "memreplay_workspaces"), c_size_t(99)
    before = asked.value
    assert gpu[function](*[None] * arguments, byref(n_bytes)) == 0
    assert (n_bytes.value, asked.value) == (0, before + 1)


def test_any_matrix_product_gets_one_plan(gpu: Any) -> None:
    results, found = (c_char * 192).from_buffer_copy(b"\xee" * 192), c_int()
    nothing = [None] * 7
    assert gpu.cublasLtMatmulAlgoGetHeuristic(*nothing, 2, results, byref(found)) == 0
    assert found.value == 1
    assert results.raw == bytes(96) + b"\xee" * 96  # one cublasLtMatmulHeuristicResult_t


PTX, BINARY = 1, 2


def module_of(*images: tuple[int, int]) -> ctypes.Array[c_char]:
    """Return images as nvcc embeds them in a program, each with a kind and a compute capability."""
    # The header of newer compilers is longer; the contents of an image are ignored.
    each = b"".join(
        struct.pack("<HHIQ3II", kind, 257, 64 + 40 * (of >= 100), 24, 0, 0, 0, of)
        + bytes(32 + 40 * (of >= 100) + 24)
        for kind, of in images
    )
    inside = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(each)) + each
    kept = ctypes.create_string_buffer(inside, len(inside))
    module = struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(kept), 0)
    found = ctypes.create_string_buffer(module, len(module))
    found.kept = kept  # type: ignore[attr-defined]
    return found


def compiled_for(gpu: Any, function: int) -> tuple[int, int, int]:
    """Return the library's results: the error, and the capabilities of the PTX and the binary."""
    out = (c_char * 144)()
    error = gpu.cudaFuncGetAttributes(out, c_void_p(function))
    ptx, binary = struct.unpack_from("<ii", out.raw, 32)
    return error, ptx, binary


USUAL = tuple((BINARY, of) for of in (75, 80, 86, 90, 100, 120))


@pytest.mark.parametrize(
    "capability, images, want",
    [
        ((8, 6), USUAL, (0, 86, 86)),
        ((8, 9), USUAL, (0, 86, 86)),
        ((10, 3), USUAL, (0, 100, 100)),
        ((10, 3), (*USUAL, (BINARY, 103)), (0, 103, 103)),
        ((12, 1), USUAL, (0, 120, 120)),
        ((8, 9), (*USUAL, (BINARY, 89)), (0, 89, 89)),
        # PTX of an older capability is compiled for the card if no binary fits.
        ((9, 0), ((BINARY, 80), (PTX, 80)), (0, 80, 90)),
        ((8, 6), ((BINARY, 80), (PTX, 75)), (0, 80, 80)),
        ((7, 5), ((PTX, 80), (PTX, 70), (PTX, 50)), (0, 70, 75)),
        # This is a CUDA 13 build on a V100.
        ((7, 0), USUAL, (209, 0, 70)),
        ((8, 0), ((BINARY, 86), (PTX, 90)), (209, 0, 80)),
    ],
)
def test_compiled_kernel_reports_its_architecture(
    tmp_path: Path,
    capability: tuple[int, int],
    images: tuple[tuple[int, int], ...],
    want: tuple[int, int, int],
) -> None:
    gpu = load(tmp_path, f"major={capability[0]};minor={capability[1]};cuda=13")
    register = gpu.__cudaRegisterFatBinary
    register.restype = c_void_p
    other, module = module_of((BINARY, 10)), module_of(*images)
    for i, function in enumerate((0x7000, 0x5000, 0x6000)):
        handle = register(module if i == 1 else other)
        gpu.__cudaRegisterFunction(c_void_p(handle), c_void_p(function))
    assert compiled_for(gpu, 0x5000) == want
    text = ctypes.c_char_p
    gpu.cudaGetErrorString.restype = gpu.cudaGetErrorName.restype = text
    if want[0]:
        assert gpu.cudaGetErrorName(want[0]) == b"cudaErrorNoKernelImageForDevice"
        assert gpu.cudaGetErrorString(want[0]).startswith(b"no kernel image is available")


def test_kernel_without_metadata_reports_the_cards_architecture(tmp_path: Path) -> None:
    gpu = load(tmp_path, "major=8;minor=9;cuda=13")
    assert compiled_for(gpu, 0x5000) == (0, 89, 89)
    strange = ctypes.create_string_buffer(64)
    gpu.__cudaRegisterFunction(strange, c_void_p(0x5000))
    assert compiled_for(gpu, 0x5000) == (0, 89, 89)
    # If a library is loaded where another was unloaded, the later one wins.
    module = module_of((BINARY, 80))
    gpu.__cudaRegisterFunction(module, c_void_p(0x5000))
    assert compiled_for(gpu, 0x5000) == (0, 80, 80)
    damaged = module_of((BINARY, 80), (BINARY, 86))
    damaged.kept[16 + 4 : 16 + 8] = bytes(4)  # type: ignore[attr-defined]
    gpu.__cudaRegisterFunction(damaged, c_void_p(0x5000))
    assert compiled_for(gpu, 0x5000) == (0, 89, 89)


def test_many_kernels_can_be_found(tmp_path: Path) -> None:
    gpu = load(tmp_path, "major=9;minor=0;cuda=12")
    modules = [module_of((BINARY, of)) for of in (80, 90)]
    functions = [(i * 7919) % 5003 + 1 for i in range(5000)]
    for function in functions:
        gpu.__cudaRegisterFunction(modules[function % 2], c_void_p(function << 4))
    for function in functions[::97]:
        error = compiled_for(gpu, function << 4)[0]
        assert error == (0 if function % 2 else 209)


def test_elapsed_time_is_unknown(tmp_path: Path) -> None:
    gpu = load(tmp_path, "")
    took = ctypes.c_float()
    assert gpu.cudaEventElapsedTime(byref(took), HANDLE, HANDLE) == 0
    gpu.memreplay_count_places(1)
    assert gpu.cudaEventElapsedTime_v2(byref(took), HANDLE, HANDLE) == 0
    assert (took.value, places(gpu)) == (1, [("elapsed_time", 1)])


def test_freed_addresses_are_merged(tmp_path: Path) -> None:
    """Otherwise a program with many sizes would run out of addresses."""
    gpu = load(tmp_path, "bytes=85094825984")
    for i in range(1, 1500):
        at = malloc(gpu, (40 << 30) + (i << 21))
        assert gpu.cudaFree(c_void_p(at)) == 0
    # Do the same next to other blocks that stay allocated.
    kept = []
    for i in range(1, 300):
        at = malloc(gpu, 3 * i * MIB)
        kept.append((malloc(gpu, 2 * MIB), 2 * MIB))
        assert gpu.cudaFree(c_void_p(at)) == 0
    ends = sorted((at, at + size) for at, size in kept)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))


def test_host_memory_is_locked(tmp_path: Path) -> None:
    gpu = load(tmp_path, "cuda=12")
    at, kind = c_void_p(), (ctypes.c_int * 6)()
    assert gpu.cudaHostAlloc(byref(at), c_size_t(100), 0) == 0
    assert at.value

    def of(address: int) -> int:
        assert gpu.cudaPointerGetAttributes(kind, c_void_p(address)) == 0
        return int(kind[0])

    assert [of(at.value), of(at.value + 99), of(at.value + 100), of(16)] == [1, 1, 0, 0]
    here = ctypes.create_string_buffer(64)
    assert gpu.cudaHostRegister(here, c_size_t(64), 0) == 0
    assert of(ctypes.addressof(here)) == 1
    assert gpu.cudaHostUnregister(here) == 0
    assert of(ctypes.addressof(here)) == 0
    where = at.value
    assert gpu.cudaFreeHost(at) == 0
    assert of(where) == 0


def test_driver_queries_of_triton_are_answered(gpu: Any) -> None:
    at, out = malloc(gpu, 4 * MIB), c_uint64(7)
    device_pointer, ordinal = 3, 9
    assert gpu.cuPointerGetAttribute(byref(out), device_pointer, c_uint64(at + 5)) == 0
    assert out.value == at + 5
    assert gpu.cuPointerGetAttribute(byref(out), device_pointer, c_uint64(4096)) == INVALID_VALUE
    number = c_int(7)
    assert gpu.cuPointerGetAttribute(byref(number), ordinal, c_uint64(at)) == 0
    assert number.value == 0
    gpu.cudaFree(c_void_p(at))
    stream, graph, status = c_void_p(), c_void_p(), c_int(7)
    gpu.cudaStreamCreate(byref(stream))
    assert (gpu.cuStreamIsCapturing(stream, byref(status)), status.value) == (0, 0)
    gpu.cudaStreamBeginCapture(stream, 0)
    assert (gpu.cuStreamIsCapturing(stream, byref(status)), status.value) == (0, 1)
    gpu.cudaStreamEndCapture(stream, byref(graph))
    printed = c_size_t()
    assert gpu.cuCtxGetLimit(byref(printed), 1) == gpu.cuCtxSetLimit(1, printed) == 0
    assert printed.value == MIB
    clusters = c_int()
    assert gpu.cuOccupancyMaxActiveClusters(byref(clusters), HANDLE, None) == 0
    assert clusters.value == 108


@pytest.mark.parametrize(
    "visible, seen",
    [
        ("0,1,2", 3),
        ("2", 1),
        ("", 0),
        ("-1", 0),
        ("1,7,2", 1),
        ("3", 0),
        ("x", 0),
        (" 1, 0", 2),
        ("GPU-8a6b2c,GPU-1f", 2),
        ("0,1,2,0", 3),
    ],
)
def test_only_visible_cards_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, seen: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    count = c_int(7)
    error = load(tmp_path, "count=3").cudaGetDeviceCount(byref(count))
    assert (count.value, error) == (seen, 0 if seen else 100)
