"""Tells the user's code from libraries and plumbing: a rank a string, for files and functions.

Rank 0 is the user's code, rank 1 that of installed libraries that are not PyTorch. A stack is put
down to a frame of the lowest rank, so ranks over 1 say which plumbing frame tells a reader most
when no frame is of code: the outermost node of autograd, else the outermost operator, else the
innermost of what is left.
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
# Of these a stack is put down to the outermost frame, as only that is what was asked for: the
# innermost operator would nearly always be some kind of `empty`. The engine has the same numbers
# (label.pxd).
OUTERMOST = (NODE, OPERATOR)

# Files of PyTorch, of Python itself, of C and C++, and of generated code. A file that is known only
# as "" or "??" is a frame of C or C++. Plain text is looked for before any expression is compiled.
_NOWHERE = ("", "??")
_GENERATED = ("<frozen ", "<eval_with_key", "<__array_function__", "<torch")
_PYTORCH = ("torch/", "torchgen/", "functorch/", "triton/", "torch_npu/")
# Decorators: they stand between any two functions, and are neither's.
_DECORATORS = ("wrapt/", "decorator.py/", "jaxtyping/", "beartype/", "typeguard/")
_INSTALLED_AS = ("/site-packages/", "/dist-packages/")
_NATIVE = (
    *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".pyx"),
    *(".S", ".o", ".so", ".pyd", ".dylib", ".dll"),
)
_NATIVE_FILES = (
    Late(r"\.so\.[\d.]+$", (".so.",)),
    # Python's own program, where it has the interpreter in it
    Late(
        r"(?:^|/)(?:python|pypy)[\d.]*[dmtu]*(?:-dbg)?(?:\.exe)?$",
        ("python", "pypy"),
    ),
)
_OTHER_FILES = (
    # PyTorch from a source tree, or without the folder it is in, as torch.profiler names files; a
    # user's own folder may be called torch too
    Late(
        r"(?:^|/)torch/(?:_\w+|amp|ao|autograd|backends|compiler|cuda|distributed|fx|jit|nn|optim|utils|xpu)/"
        r"|(?:^|/)torch/(?:_tensor|_ops|_compile|functional|overrides|serialization|storage)\.py$",
        ("torch/",),
    ),
    Late(r"/torchinductor_[^/]*/", ("/torchinductor_",)),
    # memreplay's recorder, which wraps an optimizer's closure and some functions of PyTorch
    Late(r"(?:^|/)memreplay/(?:recording|dryrun|notebook)/", ("memreplay/",)),
    # Python's own library
    Late(r"/lib(?:64)?/python3(?:\.\d+)?/(?!(?:site|dist)-packages/)", ("/python3",)),
    Late(r"\bpython3\d+\.zip/", (".zip/",)),
    *_NATIVE_FILES,
)
# What pip, conda and Debian install.
INSTALLED_FILE = Late(r"(?:^|/)(?:site|dist)-packages/")
BACKWARD_FUNCTION = Late(r"Backward\d*(?:::apply|\b)")
# The allocator, the stack recorder, and tensors being made: on top of every C++ stack, and the same
# there.
ALLOCATOR_NAMES = ("CapturedTraceback", "gather_with_cpp", "CachingAllocator", "at::detail::")
ALLOCATOR_STARTS = ("torch::unwind", "c10::", "at::TensorBase")
# Python's own C functions, and how a thread starts.
INTERPRETER_FUNCTION = Late(
    r"^(?:_?Py[A-Z_]|_?_?libc_|_start$|__?clone\d?$|start_thread$|_?_?pthread_|execute_native_thread|"
    r"(?:cfunction|type|slot|method|object|builtin|tp)_\w+$|(?:wrapper|run|do)_\w+$|main$|"
    r"_(?:wrapped_)?call_impl$|<module>$)"
)
PYTHON_NAME = Late(r"^[\w.<>]+$")
_LONGEST = 160  # characters of a folder in an error


def file_rank(file: str, project: Sequence[str] = ()) -> int:
    """USER for a file of the user's own code, LIBRARY for that of others, OTHER for plumbing.

    The user's is what is not installed; where a project is named, what lies in it, and nothing
    else: a folder (`/home/ana/gpt`), or the end of one (`gpt/models`, `transformers`).
    """
    # Windows writes its own slashes.
    path = file.replace("\\", "/")
    if project and _in_project(path, project):
        return USER
    if _is_plumbing(path):
        return OTHER
    return LIBRARY if project or INSTALLED_FILE.search(path) else USER


def is_native(function: str, file: str) -> bool:
    """Whether a frame is of C or C++: what `stacks="python"` doesn't record."""
    if not function and not file:  # says nothing
        return False
    end = file.replace("\\", "/").removesuffix("\n")
    return (
        "::" in function
        or end in _NOWHERE
        or end.endswith(_NATIVE)
        or any(pattern.search(end) for pattern in _NATIVE_FILES)
    )


def _is_plumbing(path: str) -> bool:
    end = path.removesuffix("\n")  # before which expressions see an end, too
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
    """Of a stack's files the frames that are the user's, and those of libraries.

    Where nothing is the user's, the libraries' stand for it.
    """
    user = tuple(i for i, rank in enumerate(ranks) if rank == USER)
    libraries = tuple(i for i, rank in enumerate(ranks) if rank == LIBRARY)
    return (user, libraries) if user else (libraries, ())


def library_of(file: str) -> str:
    """`einops`: the installed package that a file is of; empty where it is of none."""
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
    """How much a plumbing frame says: an autograd node most, the allocator least."""
    if node_in(function):
        return NODE
    if operator_in(function):
        return OPERATOR
    # Signatures of C++ are long: a plain text is found faster in them than a pattern.
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
    """Which frame a stack is put down to, as the engine's `label_frame`; `user` as in Group."""
    if user:
        return user[0]
    best, best_rank = 0, ALLOCATOR + 1
    for i, frame in enumerate(frames):
        rank = function_rank(frame.function)
        if rank < best_rank or (rank == best_rank and rank in OUTERMOST):
            best, best_rank = i, rank
    return best


def ranks(code: Code, project: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """(rank of each string as a file, rank of each string as a function), one byte a string id.

    Only strings that frames use are looked at; the rest keep rank 0.
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
    """Raises UsageError where there is code, and none of it lies in the project."""
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
    raise UsageError(f"no code is in {named}; there are: {there or 'no folders of code'}")
