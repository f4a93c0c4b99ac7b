"""Calls of libraries with their own kernels, and questions about compiled kernels."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.runtime import built
from tests.unit.dryrun.library import load, made


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
        ("cudnnGetCTCLossWorkspaceSize_v8", 5),
    ],
)
def test_unknown_sizes_are_counted(gpu: Any, function: str, arguments: int) -> None:
    asked, n_bytes = c_uint64.in_dll(gpu, "memreplay_workspaces"), c_size_t(99)
    before = asked.value
    assert gpu[function](*[None] * arguments, byref(n_bytes)) == 0
    assert (n_bytes.value, asked.value) == (0, before + 1)


@pytest.mark.parametrize(
    "function, between",
    [
        ("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", 6),
        ("cudnnGetBatchNormalizationBackwardExWorkspaceSize", 8),
        ("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", 3),
    ],
)
def test_normalization_of_each_channel_needs_nothing(gpu: Any, function: str, between: int) -> None:
    """CUDNN_BATCHNORM_SPATIAL is 1."""
    asked, n_bytes = c_uint64.in_dll(gpu, "memreplay_workspaces"), c_size_t(99)
    before = asked.value
    assert gpu[function](None, 1, *[None] * between, byref(n_bytes)) == 0
    assert (n_bytes.value, asked.value) == (0, before)


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
