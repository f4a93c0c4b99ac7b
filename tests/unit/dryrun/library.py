"""Load and call the library that simulates the GPU, as a program calls NVIDIA's libraries."""

from __future__ import annotations

import ctypes
import os
import shutil
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from memreplay.dryrun.runtime import built

MIB = 1 << 20
GIB = 1 << 30
OUT_OF_MEMORY, INVALID_VALUE, INVALID_DEVICE, NOT_READY, NOT_SUPPORTED = 2, 1, 101, 600, 801
SMALL = 65536
HANDLE = c_void_p(16)


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


def write(gpu: Any, at: int, data: bytes) -> None:
    assert gpu.cudaMemcpy(c_void_p(at), data, c_size_t(len(data)), 1) == 0


def read(gpu: Any, at: int, n_bytes: int) -> bytes:
    out = ctypes.create_string_buffer(b"\xee" * n_bytes, n_bytes)
    assert gpu.cudaMemcpy(out, c_void_p(at), c_size_t(n_bytes), 2) == 0
    return out.raw


def made(function: Any, *arguments: Any) -> c_void_p:
    out = c_void_p()
    assert function(byref(out), *arguments) == 0
    return out


def capturing(gpu: Any, stream: c_void_p) -> bool:
    status = c_int()
    assert gpu.cudaStreamIsCapturing(stream, byref(status)) == 0
    return status.value == 1


CARD = (
    "bytes=25435766784;major=8;minor=6;sms=82;shared_block=49152;shared_block_optin=101376;"
    "shared_sm=102400;threads_sm=1536;blocks_sm=16;regs_sm=65536;l2=6291456;bus_width=384;count=3"
)


def places(gpu: Any) -> list[tuple[str, int]]:
    """Return the counts in order: each operator, and the number of its reads."""
    gpu.memreplay_place.restype = ctypes.c_char_p
    found: list[tuple[str, int]] = []
    times = c_uint64()
    while text := gpu.memreplay_place(len(found), byref(times)):
        found.append((text.decode().partition("\n")[0], times.value))
    return found
