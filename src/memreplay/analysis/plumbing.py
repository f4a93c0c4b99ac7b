"""Tells the user's code from plumbing: a rank a string, for files and for functions.

Rank 0 is the user's code (and third-party libraries that are not PyTorch). A stack is put down to
its innermost frame of the lowest rank, so ranks over 0 say which plumbing frame tells a reader most
when no frame is the user's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay._core import Tables

USER, BACKWARD, OPERATION, OTHER, ALLOCATOR = range(5)

# Files of PyTorch, of Python itself, of C and C++, and of generated code. A file that is known only
# as "" or "??" is a frame of C or C++.
PLUMBING_FILE = re.compile(
    r"""
    ^$ | ^\?\?$ | ^<(?:frozen\ |eval_with_key|__array_function__|torch) |
    (?:^|/)(?:site|dist)-packages/(?:torch|torchgen|functorch|triton|torch_npu)/ |
    # PyTorch from a source tree; a user's own folder may be called torch too
    /torch/(?:_\w+|amp|ao|autograd|backends|compiler|cuda|distributed|fx|jit|nn|optim|utils|xpu)/ |
    /torch/(?:_tensor|_ops|_compile|functional|overrides|serialization|storage)\.py$ |
    /torchinductor_[^/]*/ |
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
BACKWARD_FUNCTION = re.compile(r"Backward\d*(?:::apply|\b)")
# The allocator, the stack recorder, and tensors being made: on top of every C++ stack, and the same
# there.
ALLOCATOR_FUNCTION = re.compile(
    r"^torch::unwind|CapturedTraceback|gather_with_cpp|CachingAllocator|^c10::|"
    r"at::detail::|^at::TensorBase|^\?\?$|^$"
)
# Python's own C functions, and how a thread starts.
INTERPRETER_FUNCTION = re.compile(
    r"^_?Py[A-Z_]|^_?_?libc_|^_start$|^__?clone\d?$|^start_thread$|^_?_?pthread_|"
    r"^execute_native_thread|_vectorcall|"
    r"^(?:cfunction|type|slot|method|object|builtin|tp)_\w+$|^(?:wrapper|run|do)_\w+$|^main$|"
    r"^_(?:wrapped_)?call_impl$|^<module>$"
)
PYTHON_NAME = re.compile(r"^[\w.<>]+$")


def file_rank(file: str) -> int:
    """USER for a file of the user's own code, OTHER for plumbing."""
    return OTHER if PLUMBING_FILE.search(file) else USER


def function_rank(function: str) -> int:
    """How much a plumbing frame says: an autograd node most, the allocator least."""
    if BACKWARD_FUNCTION.search(function):
        return BACKWARD
    if ALLOCATOR_FUNCTION.search(function):
        return ALLOCATOR
    if INTERPRETER_FUNCTION.search(function):
        return OTHER
    if function.startswith(("at::native::", "at::_ops::")) or PYTHON_NAME.match(function):
        return OPERATION
    return OTHER


def ranks(tables: Tables) -> tuple[bytes, bytes]:
    """(rank of each string as a file, rank of each string as a function), one byte a string id.

    Only strings that frames use are looked at; the rest keep rank 0.
    """
    files, functions = tables.frame_strings()
    by_file = bytearray(tables.n_strings)
    by_function = bytearray(tables.n_strings)
    for i in files:
        by_file[i] = file_rank(tables.string(i))
    for i in functions:
        by_function[i] = function_rank(tables.string(i))
    return bytes(by_file), bytes(by_function)
