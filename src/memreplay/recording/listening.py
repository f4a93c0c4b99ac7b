"""PyTorch's allocator tells the tracker of each block."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
from typing import Any

from memreplay.engine.record import _tracker
from memreplay.recording.facts import header, tracing_slots

# c10::impl::GPUTrace::set_trace(const PyInterpreter*), and what it sets
SET_TRACE = "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE"
TRACE = "_ZN3c104impl8GPUTrace13gpuTraceStateE"
# torch::autograd::get_current_graph_task_id(), get_current_node(); at::sequence_number::peek()
TASK = "_ZN5torch8autograd25get_current_graph_task_idEv"
NODE = "_ZN5torch8autograd16get_current_nodeEv"
SEQUENCE = "_ZN2at15sequence_number4peekEv"
CARD = "MEMREPLAY_DRYRUN_CARD"
HEAD = object.__basicsize__  # of a Python object

_told: list[str] = []  # by whom: once in a process, as PyTorch takes no second one


def listen(torch: Any) -> str:
    """Let the tracker be told of each block from now on. Why that cannot be done, in words; empty
    where it was."""
    folder = os.path.dirname(torch.__file__)
    ask_autograd(torch, folder)
    if _told:
        return ""
    card = os.environ.get(CARD)
    if card:  # of a dry run, whose card is told of blocks already
        ctypes.CDLL(card).memreplay_also(*map(ctypes.c_void_p, _tracker.functions()))
        _told.append("a dry run")
        return ""
    slots = tracing_slots(folder)
    core = library(folder, "c10")
    if sys.platform != "linux" or slots is None or core is None or not hasattr(core, SET_TRACE):
        return "this PyTorch does not tell of its blocks"
    if hasattr(core, TRACE) and ctypes.c_void_p.in_dll(core, TRACE).value:
        return "something else, such as the CUDA sanitizer, is told of PyTorch's blocks"
    begin = getattr(core, SET_TRACE)
    begin.argtypes, begin.restype = (ctypes.c_void_p,), None
    taken, let_go, kind = slots
    begin(_tracker.interpreter(taken, let_go, bool(kind)))
    _told.append("PyTorch")
    return ""


def library(folder: str, name: str) -> ctypes.CDLL | None:
    """One of PyTorch's own, as it is loaded."""
    ending = "dylib" if sys.platform == "darwin" else "so"
    try:
        return ctypes.CDLL(os.path.join(folder, "lib", f"lib{name}.{ending}"))
    except OSError:
        return None


def ask_autograd(torch: Any, folder: str) -> None:
    """Let the tracker ask autograd which backward pass, and which node, a thread is in."""
    core = library(folder, "torch_cpu")
    task, sequence, node = (address(core, name) for name in (TASK, SEQUENCE, NODE))
    shared, at = shares_and_sequence(torch, folder)
    _tracker.use_torch(task, sequence, 0 if at is None else node, shared, at or 0)


def address(library: ctypes.CDLL | None, name: str) -> int:
    """Where a function is; 0 where there is none."""
    found = getattr(library, name, None)
    return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0


def shares_and_sequence(torch: Any, folder: str) -> tuple[bool, int | None]:
    """Whether a node of autograd is held by std::shared_ptr, else c10::intrusive_ptr, and where in
    it its number is; None where that is not sure.

    A header declares the first. The second is looked for, in nodes of which Python knows the
    numbers: a Python object of a node has its head, and then where the node is.
    """
    parts = ("torch", "csrc", "autograd")
    text = header(folder, *parts, "node.h") + header(folder, *parts, "function.h")
    held = re.search(r"(shared_ptr|intrusive_ptr)<Node>\s+get_current_node\(\)", text)
    if held is None or sys.implementation.name != "cpython" or sys.byteorder != "little":
        return False, None
    with torch.enable_grad():
        one = torch.ones((), requires_grad=True)
        nodes = [(one * one).grad_fn for _ in range(4)]
    places = set(range(1, 8))
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            for node in nodes:
                # So, and not by ctypes: a place that is none is an error, and no crash.
                (base,) = struct.unpack("Q", os.pread(memory.fileno(), 8, id(node) + HEAD))
                found = os.pread(memory.fileno(), 64, base)
                words = struct.unpack("8Q", found)
                places = {i for i in places if words[i] == node._sequence_nr()}
                if held[1] == "intrusive_ptr" and not 0 < words[1] & 0xFFFFFFFF < 100:
                    return False, None
    except (OSError, AttributeError, struct.error, OverflowError):
        return False, None
    return held[1] == "shared_ptr", places.pop() * 8 if len(places) == 1 else None
