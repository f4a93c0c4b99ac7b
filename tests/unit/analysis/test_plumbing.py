"""plumbing: whose code a frame is, and which plumbing frame says most."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis import plumbing
from memreplay.analysis.plumbing import file_rank, function_rank, ranks
from tests import build
from tests.build import SnapshotBuilder

USER_FILES = [
    "/home/ana/gpt/model.py",
    "model.py",
    "/home/ana/torch/train.py",
    "/opt/venv/lib/python3.12/site-packages/transformers/models/llama/modeling_llama.py",
    "/opt/venv/lib/python3.12/site-packages/einops/einops.py",
    "<stdin>",
    "<string>",
    "<ipython-input-3-0a1b>",
    "C:\\work\\train.py",
    "/data/notorch/nn.py",
    "/home/ana/python/train.py",
    "/home/ana/python3-tools",
    "/home/ana/wrapt/model.py",
]
PLUMBING_FILES = [
    "",
    "??",
    "<frozen runpy>",
    "<frozen importlib._bootstrap>",
    "<eval_with_key>.12",
    "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
    "/usr/lib/python3/dist-packages/torch/optim/adam.py",
    "/opt/venv/lib/python3.12/site-packages/triton/runtime/jit.py",
    "/work space/pytorch/torch/nn/functional.py",
    "/src/pytorch/torch/_tensor.py",
    "/tmp/torchinductor_ana/ab/cab.py",
    "/usr/lib/python3.11/threading.py",
    "/opt/conda/lib/python3.9/runpy.py",
    "CUDACachingAllocator.cpp",
    "../sysdeps/nptl/libc_start_call_main.h",
    "thread48.o",
    "/usr/lib/libcudart.so.12",
    "python_variable.cpp",
    "/src/pytorch/torch/amp/autocast_mode.py",
    "/opt/venv/lib/python3.12/site-packages/wrapt/wrappers.py",
    "/opt/venv/lib/python3.12/site-packages/decorator.py",
    "/usr/lib/python3.12/contextlib.py",
    "/root/.pyenv/versions/3.11.7/bin/python3.11",
    "/usr/bin/python3",
    "python3.13t",
    "C:\\Python312\\python.exe",
    "/opt/homebrew/lib/libpython3.12.dylib",
]


@pytest.mark.parametrize("file", USER_FILES)
def test_files_of_the_user(file: str) -> None:
    assert file_rank(file) == plumbing.USER


@pytest.mark.parametrize("file", PLUMBING_FILES)
def test_files_of_the_plumbing(file: str) -> None:
    assert file_rank(file) != plumbing.USER


@pytest.mark.parametrize(
    "function, rank",
    [
        ("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "BACKWARD"),
        ("at::native::empty_strided_cuda(c10::ArrayRef<long>)", "OPERATION"),
        ("at::_ops::sum_dim_IntList::call(at::Tensor const&)", "OPERATION"),
        ("_multi_tensor_adamw", "OPERATION"),
        ("torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&)", "OTHER"),
        ("_call_impl", "OTHER"),
        ("_PyEval_EvalFrameDefault", "OTHER"),
        ("__libc_start_main_impl", "OTHER"),
        ("<module>", "OTHER"),
        ("pthread_condattr_setpshared", "OTHER"),
        ("_start", "OTHER"),
        ("torch::unwind::unwind()", "ALLOCATOR"),
        ("torch::CapturedTraceback::gather(bool, bool, bool)", "ALLOCATOR"),
        ("c10::cuda::CUDACachingAllocator::Native::malloc(void**)", "ALLOCATOR"),
        ("at::detail::empty_strided_cuda(c10::ArrayRef<long>)", "ALLOCATOR"),
        ("??", "ALLOCATOR"),
    ],
)
def test_functions(function: str, rank: str) -> None:
    assert function_rank(function) == getattr(plumbing, rank)


def test_ranks_are_by_string_id() -> None:
    builder = SnapshotBuilder().alloc(1, 2, frames=[("_call_impl", "model.py", 1), ("f", "??", 0)])
    snap = mr.open(build.dump(builder.build()))
    by_file, by_function = ranks(snap.native)
    assert len(by_file) == len(by_function) == snap.native.n_strings
    names = [snap.native.string(i) for i in range(snap.native.n_strings)]
    assert by_file[names.index("model.py")] == plumbing.USER
    assert by_file[names.index("??")] == plumbing.OTHER
    assert by_function[names.index("_call_impl")] == plumbing.OTHER
