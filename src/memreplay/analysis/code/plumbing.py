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

from memreplay.analysis.code.patterns import regexes
from memreplay.engine.query._regex import NONE_FOUND
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.code import Code
    from memreplay.snapshot.model import Frame

USER, LIBRARY, NODE, OPERATOR, BACKWARD, OPERATION, OTHER, ALLOCATOR = range(8)
# A stack with only such frames is attributed to the outermost one, which is the one that the
# program called. The innermost operator is usually some kind of `empty`. The engine uses the same
# numbers (label.pxd).
OUTERMOST = (NODE, OPERATOR)

# Files of C and C++, which have no name at all if it's "" or "??", and the Python executable, if
# the interpreter isn't in a shared library.
_NATIVE_FILE = (
    r"^(?:\?\?)?$|\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|pyx|S|o|so|pyd|dylib|dll)$|\.so\.[\d.]+$"
    r"|(?:^|/)(?:python|pypy)[\d.]*[dmtu]*(?:-dbg)?(?:\.exe)?$"
)
_IS_PLUMBING, _IS_INSTALLED = 1, 2
PLUMBING_FILES = (
    _NATIVE_FILE,
    # Generated code.
    r"^<(?:frozen |eval_with_key|__array_function__|torch)|/torchinductor_[^/]*/",
    # PyTorch and its parts. Decorators can be between any two functions and belong to neither.
    (
        r"(?:^|/)(?:site|dist)-packages/(?:(?:torch|torchgen|functorch|triton|torch_npu)/"
        r"|(?:wrapt|decorator\.py|jaxtyping|beartype|typeguard)(?:/|$))"
    ),
    # PyTorch from a source tree, or as torch.profiler names files, without leading folders; users
    # may also have a folder named torch.
    (
        r"(?:^|/)torch/(?:(?:_\w+|amp|ao|autograd|backends|compiler|cuda|distributed|fx|jit|nn|optim"
        r"|utils|xpu)/|(?:_tensor|_ops|_compile|functional|overrides|serialization|storage)\.py$)"
    ),
    # memreplay's recorder and dry runs, which wrap optimizers' closures and some PyTorch functions.
    r"(?:^|/)memreplay/(?:recording|dryrun|notebook|programs)/",
    # Python's standard library.
    r"/lib(?:64)?/python3(?:\.\d+)?/(?!(?:site|dist)-packages/)|\bpython3\d+\.zip/",
)
_FILES = regexes(
    *((_IS_PLUMBING, pattern) for pattern in PLUMBING_FILES),
    # Packages installed by pip, conda and Debian.
    (_IS_INSTALLED, r"(?:^|/)(?:site|dist)-packages/"),
)
_NATIVE = regexes((1, _NATIVE_FILE))
# A file's rank by the lowest bit found.
_FILE_RANKS = (OTHER, LIBRARY)
_INSTALLED_AS = ("/site-packages/", "/dist-packages/")
# Each rank's functions; the first expression found decides.
OF_FUNCTIONS = (
    (NODE, r"torch::autograd::(?:generated::)?\w+::apply\b"),
    (OPERATOR, r"at::_ops::\w+::(?:call|redispatch)\b"),
    (BACKWARD, r"Backward\d*(?:::apply|\b)"),
    # The allocator, the stack recorder and tensor creation, which are the innermost frames of every
    # C++ stack.
    (
        ALLOCATOR,
        (
            r"^(?:\?\?)?\Z|^(?:torch::unwind|c10::|at::TensorBase)"
            r"|CapturedTraceback|gather_with_cpp|CachingAllocator|at::detail::"
        ),
    ),
    # Python's C functions and thread startup.
    (
        OTHER,
        (
            r"_vectorcall|^(?:_?Py[A-Z_]|_?_?libc_|_start$|__?clone\d?$|start_thread$|_?_?pthread_"
            r"|execute_native_thread|(?:cfunction|type|slot|method|object|builtin|tp)_\w+$"
            r"|(?:wrapper|run|do)_\w+$|main$|_(?:wrapped_)?call_impl$|<module>$)"
        ),
    ),
    (OPERATION, r"^at::native::|^[\w.<>]+$"),
)
_FUNCTIONS = regexes(*((1 << i, pattern) for i, (_, pattern) in enumerate(OF_FUNCTIONS)))
_FUNCTION_RANKS = tuple(rank for rank, _ in OF_FUNCTIONS)
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
    found = _FILES.search(path)
    if found & _IS_PLUMBING:
        return OTHER
    return LIBRARY if project or found else USER


def is_native(function: str, file: str) -> bool:
    """Return whether a frame is C or C++, which `stacks="python"` doesn't record."""
    if not function and not file:  # unknown frame
        return False
    return "::" in function or _NATIVE.search(file.replace("\\", "/")) != 0


def code_of(ranks: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the indices of user frames and of library frames, given a stack's files.

    If there are no user frames, the libraries' frames take their place.
    """
    user = tuple(i for i, rank in enumerate(ranks) if rank == USER)
    libraries = tuple(i for i, rank in enumerate(ranks) if rank == LIBRARY)
    return (user, libraries) if user else (libraries, ())


def library_of(file: str) -> str:
    """Return the installed package that a file belongs to, such as `einops`, or ""."""
    path = "/" + file.replace("\\", "/")
    first = max((path.partition(one)[2] for one in _INSTALLED_AS), key=len)
    return first.partition("/")[0].removesuffix(".py")


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
    found = _FUNCTIONS.search(function)
    return _FUNCTION_RANKS[(found & -found).bit_length() - 1] if found else OTHER


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
    folders = tuple(project)
    found: tuple[bytes, bytes] = code.classified.get(
        ("ranks", folders), lambda: _ranks(code, folders)
    )
    return found


def _ranks(code: Code, project: tuple[str, ...]) -> tuple[bytes, bytes]:
    by_function = _FUNCTIONS.of_names(code.native, True).translate(_numbers(_FUNCTION_RANKS, OTHER))
    by_file = _FILES.of_names(code.native, False).translate(_numbers(_FILE_RANKS, USER))
    if project:
        in_project = bytearray(by_file)
        for i in code.names()[0]:
            in_project[i] = file_rank(code.string(i), project)
        by_file = bytes(in_project)
    return by_file, by_function


def _numbers(ranks: Sequence[int], otherwise: int) -> bytes:
    """Return the rank for each result of `of_names`."""
    found = bytearray(256)
    found[: len(ranks)] = bytes(ranks)
    found[NONE_FOUND] = otherwise
    return bytes(found)


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
