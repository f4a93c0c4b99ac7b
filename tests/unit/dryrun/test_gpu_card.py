"""Calls that ask for the card's properties, and the record of the last call."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.runtime import built
from tests.unit.dryrun.library import (
    CARD,
    GIB,
    HANDLE,
    INVALID_DEVICE,
    INVALID_VALUE,
    MIB,
    OUT_OF_MEMORY,
    load,
    malloc,
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


def test_context_takes_its_share_of_the_card(tmp_path: Path) -> None:
    gpu = load(tmp_path, f"bytes={GIB};context={300 * MIB}")
    free, total, at = c_size_t(), c_size_t(), c_void_p()
    gpu.cudaMemGetInfo(byref(free), byref(total))
    assert (free.value, total.value) == (724 * MIB, GIB)
    assert gpu.cudaMalloc(byref(at), c_size_t(725 * MIB)) == OUT_OF_MEMORY
    assert gpu.cudaMalloc(byref(at), c_size_t(724 * MIB)) == 0


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
