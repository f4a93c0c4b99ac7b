"""plumbing: telling the user's code from libraries and plumbing, and choosing the most informative
plumbing frame.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.code import plumbing
from memreplay.analysis.code.plumbing import (
    check_project,
    file_rank,
    function_rank,
    library_of,
    ranks,
)
from memreplay.errors import UsageError
from tests import build
from tests.build import SnapshotBuilder

USER_FILES = [
    "/home/ana/gpt/model.py",
    "model.py",
    "/home/ana/torch/train.py",
    "torch/train.py",
    "pytorch/nn/train.py",
    "<stdin>",
    "<string>",
    "<ipython-input-3-0a1b>",
    "C:\\work\\train.py",
    "/data/notorch/nn.py",
    "/home/ana/python/train.py",
    "/home/ana/python3-tools",
    "/home/ana/wrapt/model.py",
    "/home/ana/memreplay/train.py",
    "/home/ana/notmemreplay/recording/train.py",
]
LIBRARY_FILES = {
    "/opt/venv/lib/python3.12/site-packages/transformers/models/llama/llama.py": "transformers",
    "/opt/venv/lib/python3.12/site-packages/einops/einops.py": "einops",
    "/usr/lib/python3/dist-packages/six.py": "six",
    "C:\\Python312\\Lib\\site-packages\\timm\\layers\\mlp.py": "timm",
}
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
    "torch/nn/modules/module.py",
    "torch/_tensor.py",
    "/tmp/torchinductor_ana/ab/cab.py",
    "/opt/venv/lib/python3.12/site-packages/memreplay/recording/optimizers.py",
    "/home/ana/memreplay/src/memreplay/recording/modules.py",
    "C:\\src\\memreplay\\dryrun\\inside\\memreplay_recording.py",
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
    "C:\\Python312\\Lib\\site-packages\\torch\\nn\\modules\\module.py",
]


# A single expression for the same check, searched by `re`.
PLUMBING_FILE = re.compile(
    r"""
    ^$ | ^\?\?$ | ^<(?:frozen\ |eval_with_key|__array_function__|torch) |
    (?:^|/)(?:site|dist)-packages/(?:torch|torchgen|functorch|triton|torch_npu)/ |
    # PyTorch from a source tree; a user's own folder may be called torch too
    (?:^|/)torch/(?:_\w+|amp|ao|autograd|backends|compiler|cuda|distributed|fx|jit)/ |
    (?:^|/)torch/(?:nn|optim|utils|xpu)/ |
    (?:^|/)torch/(?:_tensor|_ops|_compile|functional|overrides|serialization|storage)\.py$ |
    /torchinductor_[^/]*/ |
    # memreplay's own recorder
    (?:^|/)memreplay/(?:recording|dryrun|notebook)/ |
    # Decorators: they stand between any two functions, and are neither's
    (?:^|/)(?:site|dist)-packages/(?:wrapt|decorator\.py|jaxtyping|beartype|typeguard)(?:/|$) |
    # Python's own library
    /lib(?:64)?/python3(?:\.\d+)?/(?!(?:site|dist)-packages/) | \bpython3\d+\.zip/ |
    \.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|pyx|S|o|so|pyd|dylib|dll)$ | \.so\.[\d.]+$ |
    # Python's own program, where it has the interpreter in it
    (?:^|[/\\])(?:python|pypy)[\d.]*[dmtu]*(?:-dbg)?(?:\.exe)?$
    """,
    re.VERBOSE,
)
PARTS = ["", "/", "\n", "lib", "lib64", "torch", "_inductor", "nn", "functional.py", "triton"]
PARTS += ["/site-packages/", "dist-packages/", "wrapt", "decorator.py", "python", "python3", "3.11"]
PARTS += ["/torchinductor_", "_ops.py", ".zip", ".cpp", ".S", ".exe", "-dbg", "<torch", "<frozen "]
PARTS += ["memreplay/", "recording/", "??", "é", "a", ".so"]


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_engine_and_re_recognize_the_same_files(file: str) -> None:
    assert (file_rank(file) == plumbing.OTHER) == bool(PLUMBING_FILE.search(file))


@pytest.mark.parametrize("file", [*USER_FILES, *LIBRARY_FILES, *PLUMBING_FILES])
def test_known_files_match_the_regular_expression(file: str) -> None:
    path = file.replace("\\", "/")
    assert (file_rank(file) == plumbing.OTHER) == bool(PLUMBING_FILE.search(path))


@pytest.mark.parametrize("file", USER_FILES)
def test_user_files_are_recognized(file: str) -> None:
    assert file_rank(file) == plumbing.USER
    assert library_of(file) == ""


@pytest.mark.parametrize("file, library", LIBRARY_FILES.items())
def test_library_files_are_recognized(file: str, library: str) -> None:
    assert file_rank(file) == plumbing.LIBRARY
    assert library_of(file) == library


@pytest.mark.parametrize("file", PLUMBING_FILES)
def test_plumbing_files_are_recognized(file: str) -> None:
    assert file_rank(file) > plumbing.LIBRARY


@pytest.mark.parametrize(
    "project, inside, outside",
    [
        ("/home/ana/gpt", "/home/ana/gpt/model.py", "/home/ana/gpt2/model.py"),
        ("/home/ana/gpt/", "/home/ana/gpt/a/b.py", "/data/home/ana/gpt/model.py"),
        ("gpt/models", "/home/ana/gpt/models/block.py", "/home/ana/gpt/train.py"),
        ("./gpt", "/gpt/model.py", "/home/ana/mygpt/model.py"),
        ("transformers", "/v/site-packages/transformers/trainer.py", "/home/ana/train.py"),
        ("train.py", "train.py", "/home/ana/my_train.py"),
        ("a/b", "/a/bc/a/b/x.py", "/a/bc/x.py"),
        ("torch", "/v/site-packages/torch/nn/modules/linear.py", "/v/site-packages/six.py"),
        ("C:\\work", "C:\\work\\train.py", "D:\\work\\train.py"),
    ],
)
def test_project_option_decides_which_files_are_user_code(
    project: str, inside: str, outside: str
) -> None:
    assert file_rank(inside, [project]) == plumbing.USER
    assert file_rank(inside, ["elsewhere", project]) == plumbing.USER
    assert file_rank(outside, [project]) == plumbing.LIBRARY
    assert file_rank("/usr/lib/python3.11/threading.py", [project]) == plumbing.OTHER


def test_project_without_user_code_is_rejected() -> None:
    frames = [("f", "/home/ana/gpt/model.py", 1), ("g", "/v/site-packages/torch/x.py", 2)]
    snap = mr.open(build.dump(SnapshotBuilder().alloc(1, 2, frames=frames).build()))
    check_project(snap.code, ["gpt"])
    with pytest.raises(
        UsageError, match=r"no code in bert or a/b; the file has code in: /home/ana/gpt$"
    ):
        check_project(snap.code, ["bert", "a/b"])
    check_project(mr.open(build.dump(SnapshotBuilder().alloc(1, 2).build())).code, ["bert"])
    long = SnapshotBuilder().alloc(1, 2, frames=[("f", "/a" * 10_000 + "/m.py", 1)])
    with pytest.raises(UsageError, match=r"the file has code in: …[a/]+$") as error:
        check_project(mr.open(build.dump(long.build())).code, ["bert"])
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    "function, rank",
    [
        ("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "NODE"),
        ("AddBackward0", "BACKWARD"),
        ("at::native::empty_strided_cuda(c10::ArrayRef<long>)", "OPERATION"),
        ("at::_ops::sum_dim_IntList::call(at::Tensor const&)", "OPERATOR"),
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
def test_plumbing_functions_are_ranked(function: str, rank: str) -> None:
    assert function_rank(function) == getattr(plumbing, rank)


def test_ranks_are_indexed_by_string_id() -> None:
    builder = SnapshotBuilder().alloc(1, 2, frames=[("_call_impl", "model.py", 1), ("f", "??", 0)])
    snap = mr.open(build.dump(builder.build()))
    by_file, by_function = ranks(snap.code)
    assert len(by_file) == len(by_function) == snap.native.n_strings
    names = [snap.native.string(i) for i in range(snap.native.n_strings)]
    assert by_file[names.index("model.py")] == plumbing.USER
    assert by_file[names.index("??")] == plumbing.OTHER
    assert by_function[names.index("_call_impl")] == plumbing.OTHER
