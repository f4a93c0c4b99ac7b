"""Runs in every Python process of a dry run, before the program: records what it allocates.

Python imports a module of this name at its start. It needs nothing of memreplay, which need not be
installed where the program runs. What it is told is in the environment:

MEMREPLAY_DRYRUN         the folder to write to: of each process PID.pickle, and PID.json beside it
MEMREPLAY_DRYRUN_CARD    the library that stands for the card
MEMREPLAY_DRYRUN_MORE    that of the functions that do nothing, which counts their calls
MEMREPLAY_DRYRUN_STACKS, MEMREPLAY_DRYRUN_ENTRIES    arguments of the recording
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTIONS = 4096  # of gpu/unanswered.c


class Recording:
    """What one process allocates, from its first allocation to its end."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.folder = os.environ["MEMREPLAY_DRYRUN"]
        self.own = True  # not the program's
        self.written_by = 0  # the process that has written it

    def prepare(self) -> None:
        """Record as soon as torch has initialized CUDA, if it does."""
        memory = self.torch.cuda.memory
        begin = memory._record_memory_history

        def recorded_by_itself(*args: Any, **kwargs: Any) -> Any:
            """The program records by itself: what it asks for is done, and nothing else."""
            self.own = False
            return begin(*args, **kwargs)

        memory._record_memory_history = recorded_by_itself
        self.torch.cuda._lazy_call(lambda: self.begin(begin))

    def begin(self, begin: Any) -> None:
        if self.own:
            begin(
                stacks=os.environ.get("MEMREPLAY_DRYRUN_STACKS", "python"),
                max_entries=int(os.environ.get("MEMREPLAY_DRYRUN_ENTRIES", sys.maxsize)),
            )
        self.tell_of_blocks()
        self.write_at_the_end()

    def tell_of_blocks(self) -> None:
        """Say to the card which blocks are let go: what was in them is in them no more."""
        activate = getattr(self.torch._C, "_activate_gpu_trace", None)
        if activate is None:  # an older torch: values may be those of a block that was here before
            return
        import ctypes

        block = ctypes.CDLL(os.environ["MEMREPLAY_DRYRUN_CARD"]).memreplay_block
        block.argtypes = (ctypes.c_uint64, ctypes.c_int)
        block.restype = None
        from torch.cuda import _gpu_trace

        activate()
        _gpu_trace.register_callback_for_memory_allocation(lambda at: block(at, 1))
        _gpu_trace.register_callback_for_memory_deallocation(lambda at: block(at, 0))

    def workspaces(self) -> int:
        """How often a library was asked how much memory it needs, which is not known here."""
        import ctypes

        card = ctypes.CDLL(os.environ["MEMREPLAY_DRYRUN_CARD"])
        return ctypes.c_uint64.in_dll(card, "memreplay_workspaces").value

    def write_at_the_end(self) -> None:
        """However the process ends, but for SIGKILL and a crash."""
        import atexit
        import contextlib
        import signal
        from multiprocessing import util

        atexit.register(self.write)
        # The processes of multiprocessing end without atexit.
        util.Finalize(None, self.write, exitpriority=100)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            # Only the main thread may; elsewhere the process ends as ever.
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, self.terminated)

    def terminated(self, number: int, _: FrameType | None) -> None:
        import signal

        self.write()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def write(self) -> None:
        """The snapshot, then what is known besides: the one without the other is not whole."""
        import json

        if self.written_by == os.getpid():
            return
        self.written_by = os.getpid()
        begun = os.path.join(self.folder, str(self.written_by))
        cuda = self.torch.cuda
        cuda.memory._dump_snapshot(f"{begun}.pickle")
        found = {
            "rank": os.environ.get("RANK"),
            "world_size": os.environ.get("WORLD_SIZE"),
            "arguments": sys.argv,
            "torch": self.torch.__version__,
            "recorded_by_itself": not self.own,
            "statistics": [dict(cuda.memory_stats(i)) for i in range(cuda.device_count())],
            "unanswered": calls(),
            "workspaces_not_known": self.workspaces(),
        }
        with open(f"{begun}.json.part", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.rename(f"{begun}.json.part", f"{begun}.json")


def calls() -> dict[int, int]:
    """How often each function was called that does nothing, by its number."""
    import ctypes

    path = os.environ.get("MEMREPLAY_DRYRUN_MORE")
    if not path:
        return {}
    counts = (ctypes.c_uint32 * FUNCTIONS).in_dll(ctypes.CDLL(path), "memreplay_counts")
    return {i: count for i, count in enumerate(counts) if count}


class AfterTorch:
    """Finds torch as ever, and lets the recording be prepared once it is imported."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(cls)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                prepare_after(spec.loader)
                return spec
        return None


def prepare_after(loader: Loader) -> None:
    """Change one loader, which is torch's alone."""
    execute = loader.exec_module

    def executed(module: ModuleType) -> None:
        execute(module)
        Recording(module).prepare()

    loader.exec_module = executed  # type: ignore[method-assign]


def import_the_other() -> None:
    """The sitecustomize that would have been imported without this one."""
    spec = PathFinder.find_spec(
        "sitecustomize", [one for one in sys.path if os.path.abspath(one) != HERE]
    )
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "MEMREPLAY_DRYRUN" in os.environ:
    sys.meta_path.insert(0, AfterTorch)
import_the_other()
