"""Libraries take memory outside the program's allocator when they're first used."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.cards import environment, find
from memreplay.snapshot.cards import Outside
from tests.unit.dryrun.library import HANDLE, MIB, OUT_OF_MEMORY, load, made, malloc

H200 = find("H200")
HALF, FLOAT = 2, 0  # cudaDataType
PARTS = len(Outside._fields)


@pytest.fixture
def gpu(tmp_path: Path) -> Any:
    return load(tmp_path, environment(H200, cuda=13, count=2)["MEMREPLAY_GPU"])


def outside(gpu: Any) -> float:
    """Return the card's memory that isn't free, in MiB."""
    free, total = c_size_t(), c_size_t()
    assert gpu.cudaMemGetInfo(byref(free), byref(total)) == 0
    assert total.value == H200.bytes
    return round((total.value - free.value) / MIB, 1)


def launch(gpu: Any) -> None:
    one = c_int64(1)
    assert gpu.cudaLaunchKernel(HANDLE, one, 1, one, 1, byref(HANDLE), c_size_t(0), None) == 0


def product(gpu: Any, kind: int) -> None:
    at, zero = c_void_p(), c_int64(0)
    arguments = [zero] * 7 + [at, kind] + [zero] * 5 + [at, kind] + [zero] * 3
    assert gpu.cublasGemmEx(*arguments) == 0


def counts(gpu: Any) -> list[list[int]]:
    return [list(one) for one in (c_uint32 * PARTS * 2).in_dll(gpu, "memreplay_outside")]


def most(gpu: Any) -> int:
    gpu.memreplay_outside_bytes.restype = c_uint64
    return int(gpu.memreplay_outside_bytes(0))


def test_kernels_of_the_probe_of_values_are_not_the_first_ones(gpu: Any) -> None:
    for _ in range(2):
        launch(gpu)
        gpu.memreplay_forget_kernels()
        assert (outside(gpu), counts(gpu)[0][0], most(gpu)) == (526.8, 0, 552402944)
    gpu.memreplay_forget_kernels()
    launch(gpu)
    assert (outside(gpu), counts(gpu)[0][0]) == (528.8, 1)


def test_steps_are_those_of_a_real_h200(gpu: Any) -> None:
    """The figures were measured with torch.cuda.mem_get_info()."""
    assert outside(gpu) == 526.8
    launch(gpu)
    assert outside(gpu) == 528.8
    made(gpu.cublasCreate_v2)
    product(gpu, FLOAT)
    assert outside(gpu) == 594.8
    product(gpu, HALF)
    assert outside(gpu) == 684.8
    made(gpu.cudnnCreate)
    assert outside(gpu) == 692.8
    made(gpu.cusolverDnCreate)
    assert outside(gpu) == 790.8
    plan = c_int()
    assert gpu.cufftCreate(byref(plan)) == 0
    assert outside(gpu) == 798.8
    # Nothing more is taken by what has been used before.
    launch(gpu)
    product(gpu, HALF)
    made(gpu.cusolverDnCreate)
    assert gpu.cufftCreate(byref(plan)) == 0
    assert outside(gpu) == 798.8
    assert counts(gpu) == [[1, 1, 1, 1, 1, 1, 0], [0] * PARTS]
    assert round(most(gpu) / MIB, 1) == 798.8


def test_backward_pass_takes_its_own_handles(gpu: Any) -> None:
    """Without cuDNN, a training program on the card had 750.8 MiB; with cuDNN, 766.8 MiB."""
    launch(gpu)
    for _ in range(2):
        made(gpu.cublasCreate_v2)
        product(gpu, FLOAT)
    assert outside(gpu) == 750.8
    for _ in range(2):
        made(gpu.cudnnCreate)
    assert outside(gpu) == 766.8 == round(H200.training_bytes / MIB, 1)


def launches_with_handle(gpu: Any) -> int:
    one = c_int64(1)
    launched: int = gpu["__cudaLaunchKernel"](
        HANDLE, one, 1, one, 1, byref(HANDLE), c_size_t(0), None
    )
    return launched


def launches_by_driver(gpu: Any) -> int:
    no = c_int(1)
    launched: int = gpu.cuLaunchKernel(HANDLE, no, no, no, no, no, no, 0, None, None, byref(HANDLE))
    return launched


@pytest.mark.parametrize("launched", [launches_with_handle, launches_by_driver])
def test_each_way_to_launch_a_kernel_counts(gpu: Any, launched: Any) -> None:
    assert launched(gpu) == 0
    assert launched(gpu) == 0
    assert outside(gpu) == 528.8


def test_lt_product_loads_more_kernels(gpu: Any) -> None:
    made(gpu.cublasCreate_v2)
    at = c_void_p()
    assert gpu.cublasLtMatmul(*[at] * 16) == 0
    assert outside(gpu) == 682.8


def test_strided_product_in_half_precision_loads_more_kernels(gpu: Any) -> None:
    zero = c_int64(0)
    for kind, expected in ((FLOAT, 526.8), (HALF, 616.8)):
        assert gpu.cublasGemmStridedBatchedEx(*[zero] * 8, kind, *[zero] * 14) == 0
        assert outside(gpu) == expected


def test_each_device_is_counted_separately(gpu: Any) -> None:
    made(gpu.cublasCreate_v2)
    assert gpu.cudaSetDevice(1) == 0
    try:
        assert outside(gpu) == 526.8
        launch(gpu)
        assert outside(gpu) == 528.8
    finally:
        gpu.cudaSetDevice(0)
    assert counts(gpu) == [[0, 1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]


def test_communicators_take_memory_until_they_are_destroyed(gpu: Any) -> None:
    at = (c_void_p * 2)()
    assert gpu.ncclCommInitAll(at, 2, None) == 0
    nccl = H200.outside.nccl / MIB
    assert outside(gpu) == 526.8 + nccl
    assert counts(gpu) == [[0] * 6 + [1], [0] * 6 + [1]]
    assert gpu.ncclCommDestroy(c_void_p(at[0])) == 0
    assert outside(gpu) == 526.8
    # The maximum isn't forgotten.
    assert most(gpu) == H200.context_bytes + H200.outside.nccl
    assert counts(gpu)[0] == [0] * 6 + [1]
    gpu.ncclCommDestroy(c_void_p(at[1]))
    # A communicator of one rank needs no buffers.
    assert gpu.ncclCommInitAll(at, 1, None) == 0
    assert outside(gpu) == 526.8


def test_request_fails_once_libraries_have_taken_the_rest(tmp_path: Path) -> None:
    said = environment(H200, cuda=13, bytes=1000 * MIB)["MEMREPLAY_GPU"]
    gpu = load(tmp_path, said)
    at = malloc(gpu, 400 * MIB)
    made(gpu.cublasCreate_v2)
    # 1,000 MiB minus 400 MiB, 526.8 MiB for CUDA and 66 MiB for cuBLAS
    out = c_void_p()
    assert gpu.cudaMalloc(byref(out), c_size_t(8 * MIB)) == OUT_OF_MEMORY
    made(gpu.cublasCreate_v2)  # the card is too full for this
    free, total = c_size_t(7), c_size_t()
    assert gpu.cudaMemGetInfo(byref(free), byref(total)) == 0
    assert free.value == 0
    assert gpu.cudaFree(c_void_p(at)) == 0
    assert gpu.cudaMalloc(byref(out), c_size_t(8 * MIB)) == 0


def test_more_communicators_take_more(gpu: Any) -> None:
    at = [(c_void_p * 2)() for _ in range(3)]
    for one in at:
        assert gpu.ncclCommInitAll(one, 2, None) == 0
    assert outside(gpu) == 526.8 + 3 * H200.outside.nccl / MIB
    assert ctypes.sizeof(at[0]) == 16
