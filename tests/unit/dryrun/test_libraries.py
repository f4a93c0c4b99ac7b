"""The simulated NVIDIA libraries: unknown sizes, descriptors and weights."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

import pytest

from tests.unit.dryrun.library import load, made


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tmp_path_factory.mktemp("libraries"), "cuda=13")


def asked(gpu: Any) -> dict[str, int]:
    """Return the number of queries for an unknown size, by library."""
    names = ctypes.string_at(ctypes.addressof(c_char.in_dll(gpu, "memreplay_libraries")))
    libraries = names.decode().split(",")
    counts = (c_uint64 * len(libraries)).in_dll(gpu, "memreplay_workspaces_of")
    assert sum(counts) == c_uint64.in_dll(gpu, "memreplay_workspaces").value
    return dict(zip(libraries, counts, strict=True))


# The number of arguments before the size, according to the libraries' headers.
SIZES = [
    ("cuSOLVER", "cusolverDnSpotrf_bufferSize", 5, c_int),
    ("cuSOLVER", "cusolverDnZgetrf_bufferSize", 5, c_int),
    ("cuSOLVER", "cusolverDnDsytrf_bufferSize", 4, c_int),
    ("cuSOLVER", "cusolverDnSgesvd_bufferSize", 3, c_int),
    ("cuSOLVER", "cusolverDnCgesvdj_bufferSize", 12, c_int),
    ("cuSOLVER", "cusolverDnSgesvdjBatched_bufferSize", 11, c_int),
    ("cuSOLVER", "cusolverDnDgesvdaStridedBatched_bufferSize", 16, c_int),
    ("cuSOLVER", "cusolverDnZheevd_bufferSize", 7, c_int),
    ("cuSOLVER", "cusolverDnSsyevjBatched_bufferSize", 7, c_int),
    ("cuSOLVER", "cusolverDnCunmqr_bufferSize", 11, c_int),
    ("cuFFT", "cufftXtMakePlanMany", 12, c_size_t),
    ("cuSPARSE", "cusparseSpMV_bufferSize", 9, c_size_t),
    ("cuSPARSE", "cusparseSpMM_bufferSize", 10, c_size_t),
    ("cuSPARSE", "cusparseSpGEMM_compute", 11, c_size_t),
    ("cuSPARSE", "cusparseScsrgeam2_bufferSizeExt", 19, c_size_t),
    ("cuSPARSE", "cusparseDbsrsm2_bufferSize", 13, c_int),
    ("cuSPARSE", "cusparseXcoosort_bufferSizeExt", 6, c_size_t),
    ("cuSPARSELt", "cusparseLtMatmulGetWorkspace", 2, c_size_t),
    ("cuDNN", "cudnnGetCTCLossWorkspaceSize", 8, c_size_t),
    ("cuDNN", "cudnnGetConvolutionForwardWorkspaceSize", 6, c_size_t),
]


@pytest.mark.parametrize("library, function, before, kind", SIZES)
def test_unknown_size_is_zero_and_counted(
    gpu: Any, library: str, function: str, before: int, kind: Any
) -> None:
    sizes, counts = (kind * 2)(99, 99), asked(gpu)
    assert gpu[function](*[c_int64(-1)] * before, sizes) == 0
    assert list(sizes) == [0, 99]
    assert asked(gpu) == counts | {library: counts[library] + 1}


@pytest.mark.parametrize(
    "function, before",
    [
        ("cusolverDnXgeqrf_bufferSize", 10),
        ("cusolverDnXsyevd_bufferSize", 11),
        ("cusolverDnXgeev_bufferSize", 17),
        ("cusparseLtSpMMACompressedSize2", 2),
    ],
)
def test_only_one_of_two_sizes_is_queried(gpu: Any, function: str, before: int) -> None:
    one, other = c_size_t(99), c_size_t(99)
    assert gpu[function](*[None] * before, byref(one), byref(other)) == 0
    assert (one.value, other.value) == (0, 0)
    assert gpu[function](*[None] * before, byref(one), None) == 0


def test_sparse_product_has_a_shape_and_an_unknown_number_of_elements(
    gpu: Any,
) -> None:
    it = c_void_p()
    sizes = [c_int64(-1) for _ in range(3)]
    assert gpu.cusparseCreateCsr(byref(it), c_int64(30), c_int64(1 << 40), c_int64(7)) == 0
    before = asked(gpu)["cuSPARSE"]
    assert gpu.cusparseSpMatGetSize(it, *map(byref, sizes)) == 0
    assert [one.value for one in sizes] == [30, 1 << 40, 7]
    assert asked(gpu)["cuSPARSE"] == before + 1
    assert gpu.cusparseDestroySpMat(it) == 0


# --- compiled kernels ----------------------------------------------------------------------------


def test_compiled_kernel_is_empty(gpu: Any) -> None:
    program, size, name = made(gpu.nvrtcCreateProgram), c_size_t(), c_char_p()
    text = ctypes.create_string_buffer(b"??")
    assert gpu.nvrtcCompileProgram(program, 0, None) == 0
    assert gpu.nvrtcGetPTXSize(program, byref(size)) == 0
    assert size.value == 1
    assert gpu.nvrtcGetPTX(program, text) == 0
    assert text.value == b""
    assert gpu.nvrtcGetLoweredName(program, b"scale<float>", byref(name)) == 0
    assert name.value == b"scale<float>"
    major, minor = c_int(), c_int()
    assert gpu.nvrtcVersion(byref(major), byref(minor)) == 0
    assert major.value == 13


# --- cuDNN's recurrent networks ------------------------------------------------------------------

RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
FLOAT, DOUBLE, HALF = range(3)
BFLOAT16 = 9
BYTES = {FLOAT: 4, DOUBLE: 8, HALF: 2, BFLOAT16: 2}
NO_BIAS, INPUT_BIAS, DOUBLE_BIAS = range(3)
BASE = 1 << 40


class Network:
    def __init__(
        self,
        gpu: Any,
        mode: int = LSTM,
        bias: int = DOUBLE_BIAS,
        directions: int = 1,
        kind: int = FLOAT,
        projected: int = 40,
        layers: int = 2,
    ) -> None:
        self.gpu, self.kind, self.it = gpu, kind, made(gpu.cudnnCreateRNNDescriptor)
        arguments = (0, mode, bias, directions - 1, 0, kind, kind, 0, 24, 40, projected, layers)
        assert gpu.cudnnSetRNNDescriptor_v8(self.it, *arguments, None, 0) == 0

    def n_bytes(self) -> int:
        size = c_size_t()
        assert self.gpu.cudnnGetRNNWeightSpaceSize(None, self.it, byref(size)) == 0
        return size.value

    def weight(
        self, layer: int, number: int, *, bias: bool = False
    ) -> tuple[int, list[int]] | None:
        """Return a weight's offset in elements, and its dimensions."""
        tensor, at = made(self.gpu.cudnnCreateTensorDescriptor), c_void_p(7)
        nothing = (None, None)
        both = (*nothing, tensor, byref(at)) if bias else (tensor, byref(at), *nothing)
        arguments = (layer, c_size_t(self.n_bytes()), c_void_p(BASE), number)
        assert self.gpu.cudnnGetRNNWeightParams(None, self.it, *arguments, *both) == 0
        kind, n, dimensions, strides = c_int(), c_int(), (c_int * 4)(), (c_int * 4)()
        get = self.gpu.cudnnGetTensorNdDescriptor
        assert get(tensor, 3, byref(kind), byref(n), dimensions, strides) == 0
        assert kind.value == self.kind
        self.gpu.cudnnDestroyTensorDescriptor(tensor)
        if at.value is None:
            assert n.value == 0
            return None
        assert n.value == 3
        assert (at.value - BASE) % BYTES[self.kind] == 0
        return (at.value - BASE) // BYTES[self.kind], list(dimensions[:3])


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("bias", [NO_BIAS, INPUT_BIAS, DOUBLE_BIAS])
@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("projected", [16, 40])
def test_weights_are_contiguous(
    gpu: Any, mode: int, directions: int, bias: int, kind: int, projected: int
) -> None:
    """No two weights overlap, and together they fill the space."""
    it, gates = Network(gpu, mode, bias, directions, kind, projected), GATES[mode]
    want, found = [], []
    for layer in range(2 * directions):
        input_size = 24 if layer < directions else directions * projected
        want += [[1, 40, input_size]] * gates + [[1, 40, projected]] * gates
        want += [[1, projected, 40]] * (projected != 40)
        found += [one for i in range(2 * gates + 1) if (one := it.weight(layer, i))]
    for layer in range(2 * directions):
        want += [[1, 40, 1]] * bias * gates
        found += [one for i in range(2 * gates) if (one := it.weight(layer, i, bias=True))]
    end = 0
    for (place, dimensions), expected in zip(found, want, strict=True):
        assert (place, dimensions) == (end, expected)
        end += dimensions[1] * dimensions[2]
    assert it.n_bytes() == end * BYTES[kind]


def test_lstm_size_matches_pytorch(gpu: Any) -> None:
    """The sizes are those of sum(p.numel() for p in torch.nn.LSTM(24, 40, 2, ...).parameters())."""
    assert Network(gpu).n_bytes() == 4 * 23680
    assert Network(gpu, directions=2).n_bytes() == 4 * 60160
    assert Network(gpu, projected=16).n_bytes() == 4 * 13440
    assert Network(gpu, GRU, layers=1).n_bytes() == 4 * 7920


def test_descriptors_keep_their_settings(gpu: Any) -> None:
    tensor, filters = made(gpu.cudnnCreateTensorDescriptor), made(gpu.cudnnCreateFilterDescriptor)
    sizes, strides = (c_int * 4)(2, 3, 5, 7), (c_int * 4)(105, 35, 7, 1)
    assert gpu.cudnnSetTensorNdDescriptor(tensor, HALF, 4, sizes, strides) == 0
    assert gpu.cudnnSetFilterNdDescriptor(filters, DOUBLE, 1, 4, sizes) == 0
    kind, form, n, read, steps = c_int(), c_int(), c_int(), (c_int * 4)(), (c_int * 4)()
    assert gpu.cudnnGetTensorNdDescriptor(tensor, 3, byref(kind), byref(n), read, steps) == 0
    assert (kind.value, n.value, list(read), list(steps)) == (
        HALF,
        4,
        [2, 3, 5, 0],
        [105, 35, 7, 0],
    )
    assert gpu.cudnnGetFilterNdDescriptor(filters, 4, byref(kind), byref(form), byref(n), read) == 0
    assert (kind.value, form.value, list(read)) == (DOUBLE, 1, [2, 3, 5, 7])
    assert gpu.cudnnSetTensorNdDescriptor(tensor, HALF, 9, sizes, strides) != 0
    for one in (tensor, filters):
        gpu.cudnnDestroyTensorDescriptor(one)


@pytest.mark.parametrize(
    "function, before",
    [
        ("cudnnGetConvolutionForwardAlgorithm_v7", 5),
        ("cudnnFindConvolutionBackwardFilterAlgorithmEx", 8),
    ],
)
def test_any_convolution_gets_one_algorithm(gpu: Any, function: str, before: int) -> None:
    found, results = c_int(), (c_char * 96).from_buffer_copy(b"\xee" * 96)
    assert gpu[function](*[None] * before, 2, byref(found), results) == 0
    assert found.value == 1
    assert results.raw[48:] == b"\xee" * 48  # one cudnnConvolutionFwdAlgoPerf_t
    assert results.raw[4:8] == bytes(4)  # CUDNN_STATUS_SUCCESS


def test_every_engine_exists_and_uses_no_shared_memory(gpu: Any) -> None:
    """In cudnn_graph.h, 802 is the number of engines and 304 their shared memory; 3 is int64, 23
    int32.

    A frontend reads an unset value as more shared memory than any card has.
    """
    values = (c_int * 4)(7, 7, 7, 7)
    get = gpu.cudnnBackendGetAttribute
    get.argtypes = (c_void_p, c_int, c_int, c_int64, c_void_p, c_void_p)
    assert get(None, 304, 23, 1, None, values) == 0
    assert list(values) == [0, 7, 7, 7]
    assert get(None, 802, 3, 1, None, values) == 0
    assert (values[0] > 100, list(values[1:])) == (True, [0, 7, 7])


@pytest.mark.parametrize(
    "function, before",
    [("cublasSgeqrfBatched", 6), ("cublasZgelsBatched", 9), ("cublasDgetrsBatched", 9)],
)
def test_arguments_of_batched_matrix_calls_are_valid(gpu: Any, function: str, before: int) -> None:
    info = c_int(-7)
    assert gpu[function](*[None] * before, byref(info)) == 0
    assert info.value == 0


@pytest.mark.parametrize("function", ["cublasCreate_v2", "cublasLtCreate", "cudnnCreate"])
def test_handles_are_distinct(gpu: Any, function: str) -> None:
    """PyTorch before 2.15 keeps a workspace for each cuBLAS handle and stream. Each thread has its
    own handle, including the thread of the backward pass.
    """
    handles = [c_void_p() for _ in range(5)]
    for one in handles:
        assert gpu[function](byref(one)) == 0
    assert len({one.value for one in handles} - {None}) == len(handles)
