"""Connect PyTorch's allocator to the tracker."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
from typing import Any

from memreplay.engine.record import _tracker
from memreplay.recording.facts import header, tracing_slots

# c10::impl::GPUTrace::set_trace(const PyInterpreter*), and the variable that it sets
SET_TRACE = "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE"
TRACE = "_ZN3c104impl8GPUTrace13gpuTraceStateE"
# torch::autograd::get_current_graph_task_id(), get_current_node(); at::sequence_number::peek()
TASK = "_ZN5torch8autograd25get_current_graph_task_idEv"
NODE = "_ZN5torch8autograd16get_current_nodeEv"
SEQUENCE = "_ZN2at15sequence_number4peekEv"
CARD = "MEMREPLAY_DRYRUN_CARD"
HEAD = object.__basicsize__  # size of a Python object's header

_told: list[str] = []  # the object registered so far; PyTorch accepts only one per process


def listen(torch: Any) -> str:
    """Register the tracker with the allocator. Return "" or the reason it can't be done."""
    folder = os.path.dirname(torch.__file__)
    ask_autograd(torch, folder)
    if _told:
        return ""
    card = os.environ.get(CARD)
    if card:  # in a dry run, the card already reports its blocks
        ctypes.CDLL(card).memreplay_also(*map(ctypes.c_void_p, _tracker.functions()))
        _told.append("a dry run")
        return ""
    slots = tracing_slots(folder)
    core = library(folder, "c10")
    if sys.platform != "linux" or slots is None or core is None or not hasattr(core, SET_TRACE):
        return "this PyTorch doesn't report its blocks"
    if hasattr(core, TRACE) and ctypes.c_void_p.in_dll(core, TRACE).value:
        return "another tool, such as the CUDA sanitizer, already listens to PyTorch's blocks"
    begin = getattr(core, SET_TRACE)
    begin.argtypes, begin.restype = (ctypes.c_void_p,), None
    taken, let_go, kind = slots
    begin(_tracker.interpreter(taken, let_go, bool(kind)))
    _told.append("PyTorch")
    return ""


def library(folder: str, name: str) -> ctypes.CDLL | None:
    """Return one of PyTorch's libraries that is already loaded."""
    ending = "dylib" if sys.platform == "darwin" else "so"
    try:
        return ctypes.CDLL(os.path.join(folder, "lib", f"lib{name}.{ending}"))
    except OSError:
        return None


def ask_autograd(torch: Any, folder: str) -> None:
    """Let the tracker ask autograd for a thread's current backward pass and node."""
    core = library(folder, "torch_cpu")
    task, sequence, node = (address(core, name) for name in (TASK, SEQUENCE, NODE))
    shared, at = shares_and_sequence(torch, folder)
    _tracker.use_torch(task, sequence, 0 if at is None else node, shared, at or 0)


def address(library: ctypes.CDLL | None, name: str) -> int:
    """Return a function's address, or 0 if it doesn't exist."""
    found = getattr(library, name, None)
    return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0


def shares_and_sequence(torch: Any, folder: str) -> tuple[bool, int | None]:
    """Return whether std::shared_ptr holds autograd nodes, and the offset of their sequence number.

    A header file shows whether nodes are held by std::shared_ptr or by c10::intrusive_ptr. The
    offset is None if uncertain. To find it, nodes with known numbers are searched: a Python node
    object consists of the object header and a pointer to the C++ node.
    """
    parts = ("torch", "csrc", "autograd")
    text = header(folder, *parts, "node.h") + header(folder, *parts, "function.h")
    held = re.search(r"(shared_ptr|intrusive_ptr)<Node>\s+get_current_node\(\)", text)
    if held is None or sys.implementation.name != "cpython" or sys.byteorder != "little":
        return False, None
    with torch.enable_grad():
        one = torch.ones((), requires_grad=True)
        nodes = [(one + one).grad_fn for _ in range(4)]  # saves nothing, so calls no hooks
    places = set(range(1, 8))
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            for node in nodes:
                # Read through /proc instead of ctypes, because a bad address then raises an error
                # instead of crashing the process.
                (base,) = struct.unpack("Q", os.pread(memory.fileno(), 8, id(node) + HEAD))
                found = os.pread(memory.fileno(), 64, base)
                words = struct.unpack("8Q", found)
                places = {i for i in places if words[i] == node._sequence_nr()}
                if held[1] == "intrusive_ptr" and not 0 < words[1] & 0xFFFFFFFF < 100:
                    return False, None
    except (OSError, AttributeError, struct.error, OverflowError):
        return False, None
    return held[1] == "shared_ptr", places.pop() * 8 if len(places) == 1 else None
