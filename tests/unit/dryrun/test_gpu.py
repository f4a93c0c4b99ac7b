"""Call the library that simulates the GPU as a program calls NVIDIA's libraries."""

from __future__ import annotations

import ctypes
import itertools
import struct
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dryrun.library import (
    GIB,
    HANDLE,
    INVALID_DEVICE,
    INVALID_VALUE,
    MIB,
    NOT_READY,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    SMALL,
    capturing,
    free_bytes,
    load,
    made,
    malloc,
    places,
    read,
    write,
)

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
