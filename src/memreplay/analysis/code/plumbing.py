"""Distinguish user code from libraries and plumbing by ranking files and functions.

Rank 0 is the user's code, rank 1 an installed library other than PyTorch. A stack is attributed to
a frame of the lowest rank. Higher ranks order plumbing frames by how informative they are: the
outermost autograd node, then the outermost operator, then the innermost of the rest.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.code.late import Late
from memreplay.analysis.code.operators import node_in, operator_in
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.code import Code
    from memreplay.snapshot.model import Frame

USER, LIBRARY, NODE, OPERATOR, BACKWARD, OPERATION, OTHER, ALLOCATOR = range(8)
# A stack with only such frames is attributed to the outermost one, which is the one that the
# program called. The innermost operator is usually some kind of `empty`. The engine uses the same
# numbers (label.pxd).
OUTERMOST = (NODE, OPERATOR)

# Files of PyTorch, Python, C, C++ and generated code. A file named "" or "??" is C or C++. Plain
# substrings are tried first because they need no compiled expression.
_NOWHERE = ("", "??")
_GENERATED = ("<frozen ", "<eval_with_key", "<__array_function__", "<torch")
_PYTORCH = ("torch/", "torchgen/", "functorch/", "triton/", "torch_npu/")
# Decorators can be between any two functions and belong to neither.
_DECORATORS = ("wrapt/", "decorator.py/", "jaxtyping/", "beartype/", "typeguard/")
_INSTALLED_AS = ("/site-packages/", "/dist-packages/")
_NATIVE = (
    *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".pyx"),
    *(".S", ".o", ".so", ".pyd", ".dylib", ".dll"),
)
_NATIVE_FILES = (
    Late(r"\.so\.[\d.]+$", (".so.",)),
    # the Python executable, if the interpreter isn't in a shared library
    Late(
        r"(?:^|/)(?:python|pypy)[\d.]*[dmtu]*(?:-dbg)?(?:\.exe)?$",
        ("python", "pypy"),
    ),
)
_OTHER_FILES = (
    # PyTorch from a source tree, or as torch.profiler names files, without leading folders; users
    # may also have a folder named torch
    Late(
        r"(?:^|/)torch/(?:_\w+|amp|ao|autograd|backends|compiler|cuda|distributed|fx|jit|nn|optim|utils|xpu)/"
        r"|(?:^|/)torch/(?:_tensor|_ops|_compile|functional|overrides|serialization|storage)\.py$",
        ("torch/",),
    ),
    Late(r"/torchinductor_[^/]*/", ("/torchinductor_",)),
    # memreplay's recorder, which wraps optimizers' closures and some PyTorch functions
    Late(r"(?:^|/)memreplay/(?:recording|dryrun|notebook)/", ("memreplay/",)),
    # Python's standard library
    Late(r"/lib(?:64)?/python3(?:\.\d+)?/(?!(?:site|dist)-packages/)", ("/python3",)),
    Late(r"\bpython3\d+\.zip/", (".zip/",)),
    *_NATIVE_FILES,
)
# Packages installed by pip, conda and Debian.
INSTALLED_FILE = Late(r"(?:^|/)(?:site|dist)-packages/")
BACKWARD_FUNCTION = Late(r"Backward\d*(?:::apply|\b)")
# The allocator, the stack recorder and tensor creation, which are the innermost frames of every C++
# stack.
ALLOCATOR_NAMES = ("CapturedTraceback", "gather_with_cpp", "CachingAllocator", "at::detail::")
ALLOCATOR_STARTS = ("torch::unwind", "c10::", "at::TensorBase")
# Python's C functions and thread startup.
INTERPRETER_FUNCTION = Late(
    r"^(?:_?Py[A-Z_]|_?_?libc_|_start$|__?clone\d?$|start_thread$|_?_?pthread_|execute_native_thread|"
    r"(?:cfunction|type|slot|method|object|builtin|tp)_\w+$|(?:wrapper|run|do)_\w+$|main$|"
    r"_(?:wrapped_)?call_impl$|<module>$)"
)
PYTHON_NAME = Late(r"^[\w.<>]+$")
_LONGEST = 160  # maximum length of a folder's name in an error


def file_rank(file: str, project: Sequence[str] = ()) -> int:
    """Classify a file: USER for user code, LIBRARY for other libraries, OTHER for plumbing.

    By default, user code is whatever isn't installed. With `project`, it's exactly the files in
    these folders, given as paths (`/home/ana/gpt`) or ends of paths (`gpt/models`, `transformers`).
    """
    # Windows paths.
    path = file.replace("\\", "/")
    if project and _in_project(path, project):
        return USER
    if _is_plumbing(path):
        return OTHER
    return LIBRARY if project or INSTALLED_FILE.search(path) else USER


def is_native(function: str, file: str) -> bool:
    """Return whether a frame is C or C++, which `stacks="python"` doesn't record."""
    if not function and not file:  # unknown frame
        return False
    end = file.replace("\\", "/").removesuffix("\n")
    return (
        "::" in function
        or end in _NOWHERE
        or end.endswith(_NATIVE)
        or any(pattern.search(end) for pattern in _NATIVE_FILES)
    )


def _is_plumbing(path: str) -> bool:
    end = path.removesuffix("\n")  # because `$` also matches before a final newline
    if end in _NOWHERE or path.startswith(_GENERATED) or end.endswith(_NATIVE):
        return True
    if "-packages/" in path:
        whole = f"/{path}"
        ended = f"/{end}/"
        for installed in _INSTALLED_AS:
            if installed in whole and (
                any(installed + name in whole for name in _PYTORCH)
                or any(installed + name in ended for name in _DECORATORS)
            ):
                return True
    return any(pattern.search(path) for pattern in _OTHER_FILES)


def code_of(ranks: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the indices of user frames and of library frames, given a stack's files.

    If there are no user frames, the libraries' frames take their place.
    """
    user = tuple(i for i, rank in enumerate(ranks) if rank == USER)
    libraries = tuple(i for i, rank in enumerate(ranks) if rank == LIBRARY)
    return (user, libraries) if user else (libraries, ())


def library_of(file: str) -> str:
    """Return the installed package that a file belongs to, such as `einops`, or ""."""
    path = file.replace("\\", "/")
    found = INSTALLED_FILE.search(path)
    return path[found.end() :].partition("/")[0].removesuffix(".py") if found else ""


def _in_project(path: str, project: Sequence[str]) -> bool:
    for one in project:
        folder = one.replace("\\", "/").removeprefix("./").rstrip("/")
        whole = folder if folder.startswith("/") or folder[1:2] == ":" else f"/{folder}"
        inside = path if whole == folder else f"/{path}"
        at = inside.find(whole)
        while at >= 0 and inside[at + len(whole) : at + len(whole) + 1] not in ("", "/"):
            at = inside.find(whole, at + 1)
        if at == 0 or (at > 0 and whole != folder):
            return True
    return False


def function_rank(function: str) -> int:
    """Rank a plumbing frame's function by how informative it is: autograd nodes most, the allocator
    least.
    """
    if node_in(function):
        return NODE
    if operator_in(function):
        return OPERATOR
    # C++ signatures are long, and a substring search is faster than a pattern.
    if "Backward" in function and BACKWARD_FUNCTION.search(function):
        return BACKWARD
    if function in ("", "??") or function.startswith(ALLOCATOR_STARTS):
        return ALLOCATOR
    if any(name in function for name in ALLOCATOR_NAMES):
        return ALLOCATOR
    if "_vectorcall" in function or INTERPRETER_FUNCTION.search(function):
        return OTHER
    if function.startswith("at::native::") or PYTHON_NAME.search(function):
        return OPERATION
    return OTHER


def shown_frame(frames: Sequence[Frame], user: Sequence[int]) -> int:
    """Return the frame that a stack is attributed to, like the engine's `label_frame`. `user` is as
    in Group.
    """
    if user:
        return user[0]
    best, best_rank = 0, ALLOCATOR + 1
    for i, frame in enumerate(frames):
        rank = function_rank(frame.function)
        if rank < best_rank or (rank == best_rank and rank in OUTERMOST):
            best, best_rank = i, rank
    return best


def ranks(code: Code, project: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """Return each string's rank as a file name and as a function name, one byte per string id.

    Only strings used by frames are ranked; the rest keep rank 0.
    """
    files, functions = code.names()
    by_file = bytearray(code.strings)
    by_function = bytearray(code.strings)
    for i in files:
        by_file[i] = file_rank(code.string(i), project)
    for i in functions:
        by_function[i] = function_rank(code.string(i))
    return bytes(by_file), bytes(by_function)


def check_project(code: Code, project: Sequence[str]) -> None:
    """Raise UsageError if the recording has code, but none of it in the project."""
    files = [text for i in code.names()[0] if (text := code.string(i))]
    if not files or any(_in_project(file.replace("\\", "/"), project) for file in files):
        return
    folders = Counter(
        posixpath.dirname(file.replace("\\", "/"))
        for file in sorted(files)
        if file_rank(file) <= LIBRARY
    )
    there = ", ".join(
        folder if len(folder) <= _LONGEST else f"…{folder[1 - _LONGEST :]}"
        for folder, _ in folders.most_common(4)
        if folder
    )
    named = " or ".join(project)
    raise UsageError(f"no code in {named}; the file has code in: {there or 'no folders of code'}")
