"""Start and stop PyTorch's own recording of memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from logging import WARNING
from typing import Any, NamedTuple

from memreplay.errors import UsageError
from memreplay.recording.facts import (
    ALL_THREADS,
    SYMBOLIZE,
    arguments,
    history_context,
    name_frames_quickly,
    stacks_for,
    statistics_of,
)
from memreplay.recording.guarding import described
from memreplay.recording.logs import Say
from memreplay.recording.unrecorded import accelerator_of

DEVICES = ("cuda", "xpu")
PINNED = "record_pinned_host_memory"
WITHOUT = "memreplay dryrun and memreplay.estimate() work without one"


class CannotRecordError(UsageError):
    """There is nothing to record: no device, no PyTorch, or a PyTorch that is too old."""


class Asked(NamedTuple):
    """How PyTorch should record."""

    stacks: str
    max_entries: int | None
    continuous: bool
    pinned: bool
    """Also pinned memory of the host, if this version can."""
    others: Mapping[str, Any]
    """Other arguments of `_record_memory_history`."""


class History:
    """PyTorch's recording on one kind of device.

    Parameters
    ----------
    torch : module
        PyTorch.
    devices : module
        torch.cuda or torch.xpu.
    say : callable
        Gets messages with their level.
    """

    def __init__(self, torch: Any, devices: Any, say: Say) -> None:
        self.torch, self.devices, self.say = torch, devices, say
        self.goes_on = False
        self.set_symbolize = False  # whether we set the variable that chooses how frames are named
        self.counted: list[dict[str, Any]] = []  # PyTorch's counters at the start
        self.arguments: dict[str, Any] = {}
        self.clears = True  # whether PyTorch can discard earlier events

    def begin(self, asked: Asked) -> None:
        """Start with the arguments that this version accepts.

        Raises UsageError for unknown arguments, and CannotRecordError if PyTorch can't record.
        """
        memory, version = self.devices.memory, str(self.torch.__version__)
        stacks = stacks_for(asked.stacks, os.path.dirname(self.torch.__file__ or ""))
        wanted = {
            # Stacks of frees cost as much as those of allocations, and are rarely needed. Without
            # them, frees have their allocations' stacks.
            "context": "alloc" if asked.continuous else history_context(version),
            "clear_history": True,
            ALL_THREADS: True,
            **({PINNED: True} if asked.pinned else {}),
            **asked.others,
            "enabled": "all",
            "stacks": stacks,
            "max_entries": sys.maxsize if asked.max_entries is None else asked.max_entries,
        }
        known = arguments(memory._record_memory_history, memory)
        if not known:
            raise CannotRecordError("this torch is too old to record; upgrade to 2.1 or later")
        if asked.pinned and PINNED not in known:
            self.say(WARNING, f"PyTorch {version} can't record pinned memory of the host")
        unknown = [name for name in asked.others if name not in known]
        if unknown:
            raise UsageError(
                f"PyTorch {version} doesn't know {', '.join(unknown)}; known"
                f" options: {', '.join(sorted(known))}"
            )
        if asked.stacks == "auto" and stacks == "all":
            self.set_symbolize = name_frames_quickly()
        self.arguments = {name: value for name, value in wanted.items() if name in known}
        self.clears = "clear_history" in known
        try:
            memory._record_memory_history(**self.arguments)
        except RuntimeError as error:  # e.g. with PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
            raise CannotRecordError(f"PyTorch can't record: {described(error)}") from None
        self.counted = statistics_of(self.devices)
        self.goes_on = True
        if wanted["context"] == "alloc" and not ("context" in asked.others or asked.continuous):
            self.say(
                WARNING,
                f"stacks of frees aren't recorded, because PyTorch {version}"
                " loses exceptions with them",
            )

    def begin_again(self) -> None:
        """Discard the events, and go on."""
        record = self.devices.memory._record_memory_history
        if not self.clears:  # older versions clear events at the end
            record(enabled=None)
        record(**self.arguments)

    def end(self) -> None:
        """Stop, and restore the environment."""
        if self.goes_on:
            self.goes_on = False
            self.devices.memory._record_memory_history(enabled=None)
        if self.set_symbolize:
            self.set_symbolize = False
            os.environ.pop(SYMBOLIZE, None)


def recordable(torch: Any) -> tuple[str, Any]:
    """Return the machine's device type and its torch module. Raises CannotRecordError."""
    other = accelerator_of(torch)  # such as mps, or one of another package
    for kind in (*DEVICES, *([other] if other not in DEVICES else [])):
        module = getattr(torch, kind, None) if kind else None
        if module is not None and module.is_available():
            memory = getattr(module, "memory", None)
            if not hasattr(memory, "_record_memory_history"):
                raise CannotRecordError(
                    f"PyTorch {torch.__version__} can't record {kind} memory; memreplay dryrun and"
                    " memreplay.estimate() show what a CUDA device would need"
                )
            return kind, module
    raise CannotRecordError(f"no CUDA or XPU device found; {WITHOUT}")
