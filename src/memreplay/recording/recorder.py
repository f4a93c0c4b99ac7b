"""`with memreplay.record(…)`: PyTorch's history of memory, and what each allocation was for."""

from __future__ import annotations

import inspect
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any, Literal

from memreplay.engine.record import _tracker
from memreplay.errors import MemreplayError, UsageError
from memreplay.recording.distributed import Distributed
from memreplay.recording.facts import run_facts
from memreplay.recording.listening import listen
from memreplay.recording.modules import Modules
from memreplay.recording.optimizers import Optimizers
from memreplay.recording.tensors import Addresses
from memreplay.recording.writing import beside, checked, free_name, noted, write

DEVICES = ("cuda", "xpu")
MOST_OOM = 3  # snapshots of a program that goes on after it was out of memory

_active: list[Recorder] = []  # one at most
_observing: list[str] = []  # kinds of devices: PyTorch keeps its observers of ooms for ever


class Recorder:
    """One recording; made by `memreplay.record`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        model: Any = None,
        optimizer: Any = None,
        stacks: Literal["python", "all"] = "python",
        max_entries: int | None = None,
        every: int | None = None,
        on_signal: bool = True,
        overwrite: bool = False,
        quiet: bool = False,
        **history: Any,
    ) -> None:
        if every is not None and every < 1:
            raise UsageError("every: a number of steps, 1 or more")
        self.path = checked(own_path(os.fspath(path)))
        self.models, self.given_optimizers = as_list(model), as_list(optimizer)
        self.stacks, self.max_entries, self.history = stacks, max_entries, history
        self.every, self.on_signal, self.overwrite, self.quiet = every, on_signal, overwrite, quiet
        self.steps: list[int] = []  # when each ended, in microseconds
        self.counts_itself = False
        self.ooms: list[str] = []
        self.why_not = ""
        self.old_handler: Any = None
        if not overwrite and os.path.lexists(self.path):
            raise UsageError(f"{self.path} is there already; overwrite=True writes over it")

    # --- begin and end ----------------------------------------------------------------------------

    def __enter__(self) -> Recorder:
        if _active:
            raise UsageError(f"a recording goes on already, to {_active[0].path}")
        try:
            import torch
        except ImportError:
            raise UsageError("memreplay.record needs PyTorch, and torch is not installed") from None
        self.torch = torch
        self.kind, self.devices = recordable(torch)
        _tracker.begin(2**62 if self.max_entries is None else self.max_entries)
        self.why_not = listen(torch)
        addresses = Addresses(torch, self.kind)
        self.modules = Modules(torch, addresses)
        self.optimizers = Optimizers(torch, self.modules, self.stepped)
        self.distributed = Distributed(addresses)
        self.modules.before = self.distributed.look
        _active.append(self)
        try:
            self.begin_history()
            if self.why_not:
                self.say(f"categories are not recorded: {self.why_not}")
            else:
                self.modules.install()
                self.optimizers.install()
                self.distributed.look()
                for model in self.models:
                    self.modules.root(model)
                if self.models:
                    _tracker.resume()
                for optimizer in self.given_optimizers:
                    self.optimizers.parameters(optimizer)
                    self.optimizers.mark(optimizer)
            self.observe()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self.ooms and ran_out(error):
                # What is left now says less than what there was then.
                last = self.ooms.pop()
                path = self.path if self.overwrite else free_name(self.path)
                os.replace(last, path)
                self.say(f"out of memory: the snapshot of that moment is {path}")
            else:
                self.dump(self.path if self.overwrite else free_name(self.path))
        except MemreplayError as failed:
            if error is None:
                raise
            self.say(str(failed))
        finally:
            self.stop()

    def begin_history(self) -> None:
        """PyTorch's own recording, with the arguments that this version has."""
        record = self.devices.memory._record_memory_history
        entries = sys.maxsize if self.max_entries is None else self.max_entries
        wanted = {
            "context": "all",
            "clear_history": True,
            **self.history,
            "enabled": "all",
            "stacks": self.stacks,
            "max_entries": entries,
        }
        known = arguments(record, self.devices.memory)
        unknown = [name for name in self.history if known and name not in known]
        if unknown:
            raise UsageError(
                f"PyTorch {self.torch.__version__} does not record with {', '.join(unknown)};"
                f" it has: {', '.join(sorted(known))}"
            )
        record(**{name: value for name, value in wanted.items() if not known or name in known})

    def stop(self) -> None:
        """Records no more, and leaves PyTorch as it was."""
        if self not in _active:
            return
        _active.remove(self)
        if self.old_handler is not None:
            signal.signal(signal.SIGUSR1, self.old_handler)
            self.old_handler = None
        self.modules.remove()
        self.optimizers.remove()
        self.distributed.remove()
        self.devices.memory._record_memory_history(enabled=None)
        _tracker.end()

    def observe(self) -> None:
        """Writes a snapshot when PyTorch is out of memory, and when SIGUSR1 comes."""
        attach = getattr(self.torch._C, f"_{self.kind}_attach_out_of_memory_observer", None)
        if attach is not None and self.kind not in _observing:
            attach(out_of_memory)
            _observing.append(self.kind)
        usable = (
            self.on_signal
            and hasattr(signal, "SIGUSR1")
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
        )
        if usable:
            self.old_handler = signal.signal(signal.SIGUSR1, self.signalled)

    # --- moments ----------------------------------------------------------------------------------

    def step(self) -> None:
        """A step of the program ends here. Without it, it ends where the first optimizer has
        stepped."""
        if not self.counts_itself:
            self.counts_itself = True
            self.steps.clear()
        self.ended()

    def stepped(self) -> None:
        if not self.counts_itself:
            self.ended()

    def ended(self) -> None:
        self.steps.append(time.time_ns() // 1000)
        _tracker.step()
        if self.every is not None and len(self.steps) % self.every == 0:
            self.dump(free_name(beside(self.path, f".step-{len(self.steps)}")))

    def signalled(self, _: int, __: FrameType | None) -> None:
        self.dump(free_name(self.path if self.overwrite else beside(self.path, ".signal")))

    def ran_out(self) -> None:
        """PyTorch is about to say that it is out of memory."""
        if len(self.ooms) < MOST_OOM:
            path = free_name(beside(self.path, ".oom"))
            try:
                self.dump(path)
            except MemreplayError as error:
                self.say(str(error))
            else:
                self.ooms.append(path)

    # --- writing ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The snapshot of this moment, as PyTorch's `_snapshot()` has it, and what was noted."""
        if not self.why_not:
            self.optimizers.again()
            self.modules.again()
        sure = _tracker.noted()
        found: dict[str, Any] = self.devices.memory._snapshot()
        found["memreplay"] = self.own(found["device_traces"], sure)
        return found

    def own(self, traces: list[list[dict[str, Any]]], sure: int) -> dict[str, Any]:
        distributed = sys.modules.get("torch.distributed")
        ranks = None
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            ranks = distributed.get_rank(), distributed.get_world_size()
        known = {} if self.why_not else noted(traces, sure, self.modules.names, self.steps)
        return {
            **run_facts(self.torch, self.devices, ranks),
            "recorder": "record",
            "host": platform.node(),
            "python": platform.python_version(),
            **known,
        }

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Writes a snapshot of this moment; the recording goes on."""
        written = write(os.fspath(path), self.snapshot())
        self.say(f"wrote {os.fspath(path)} ({written / 1e6:,.1f} MB)")

    def say(self, words: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"memreplay: {words}\n")


def out_of_memory(*_: object) -> None:
    """PyTorch's observer."""
    for recorder in _active:
        recorder.ran_out()


def ran_out(error: BaseException | None) -> bool:
    """Whether an exception is that of no memory, or comes from one that is."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if type(error).__name__ == "OutOfMemoryError":
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def recordable(torch: Any) -> tuple[str, Any]:
    """The kind of device that this machine has, and its module in torch. Raises UsageError."""
    for kind in DEVICES:
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            if not hasattr(module.memory, "_record_memory_history"):
                raise UsageError(f"PyTorch {torch.__version__} cannot record the memory of {kind}")
            return kind, module
    raise UsageError(
        "no CUDA or XPU device here; memreplay dryrun records without one (memreplay help dryrun)"
    )


def arguments(record: Callable[..., Any], memory: Any) -> set[str]:
    """What PyTorch's function takes; empty where its signature does not say."""
    for function in (record, getattr(memory, "_record_memory_history_impl", None)):
        if function is None:
            continue
        parameters = inspect.signature(function).parameters.values()
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "args"}
        if "stacks" in named:
            return named
    return set()


def own_path(path: str) -> str:
    """Of each rank its own: {rank} stands for its number, and is put in where it is missing."""
    rank = os.environ.get("RANK", "0")
    if "{rank}" in path:
        return path.replace("{rank}", rank)
    several = os.environ.get("WORLD_SIZE", "1") not in ("", "1")
    return beside(path, f".rank{rank}") if several else path


def as_list(given: Any) -> list[Any]:
    """Nothing, one or several."""
    if given is None:
        return []
    return list(given) if isinstance(given, Iterable) and not callable(given) else [given]
