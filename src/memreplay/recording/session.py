"""One recording: PyTorch's memory history, plus what each allocation is for."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from logging import ERROR, INFO, WARNING
from types import FrameType, MappingProxyType, TracebackType
from typing import Any, Literal, NamedTuple

from memreplay.errors import MemreplayError, UsageError
from memreplay.recording.continuous import Continuous, Files, Rotation
from memreplay.recording.facts import (
    SYMBOLIZE,
    history_context,
    is_library,
    kept_events,
    library_folders,
    name_frames_quickly,
    run_facts,
    stacks_for,
    statistics_of,
)
from memreplay.recording.guarding import Guard, from_a_signal
from memreplay.recording.holders import SECONDS, TOP, Holders, nothing_collected
from memreplay.recording.logs import Say, log
from memreplay.recording.noting import Given, Noting
from memreplay.recording.ring import ENTRIES, Ring, put_before
from memreplay.recording.source_lines import source_lines
from memreplay.recording.tensors import sizes_of
from memreplay.recording.torch_here import find_torch
from memreplay.recording.unrecorded import accelerator_of
from memreplay.recording.writing import DEFAULT, beside, checked, free_name, moved, write

DEVICES = ("cuda", "xpu")
WITHOUT = "memreplay dryrun and memreplay.estimate() work without one"
MOST_OOM = 3  # maximum number of OOM snapshots, for programs that survive running out of memory

_active: list[Session] = []  # at most one
# device types that have an observer, because PyTorch never removes OOM observers
_observing: list[str] = []


class CannotRecordError(UsageError):
    """There is nothing to record: no device, no PyTorch, or a PyTorch that is too old."""


class Wanted(NamedTuple):
    """What to record, and where to. `Recorder` describes the fields."""

    path: str | os.PathLike[str] | None = None
    model: Any = None
    optimizer: Any = None
    stacks: Literal["auto", "python", "all"] = "auto"
    max_entries: int | None = None
    source: bool = False
    holders: bool = False
    every: int | None = None
    continuous: bool | Mapping[str, Any] = False
    on_signal: bool = True
    overwrite: bool = False
    history: Mapping[str, Any] = MappingProxyType({})
    """Other arguments of `_record_memory_history`."""


class Session:
    """A recording, used by `memreplay.record` (recorder.py) and memreplay's own commands.

    `say` gets each message with a `logging` level. Unlike `Recorder`, a session raises
    CannotRecordError if nothing can be recorded.
    """

    def __init__(self, wanted: Wanted, say: Say = log) -> None:
        for name in ("every", "max_entries"):
            number = getattr(wanted, name)
            if number is not None and (type(number) is not int or number < 1):
                raise UsageError(f"{name}: must be a number, at least 1")
        if "enabled" in wanted.history:
            raise UsageError("enabled can't be changed; everything is recorded")
        if wanted.stacks not in ("auto", "python", "all"):
            raise UsageError('stacks: "auto", "python" or "all"')
        path = wanted.path
        self.continuous = Continuous.asked(wanted.continuous)
        overwrite = wanted.overwrite or path is None or self.continuous is not None
        self.wanted: str = checked(own_path(os.fspath(DEFAULT if path is None else path)))
        self.path = self.wanted  # the file that the recording wrote
        self.models, self.given_optimizers = as_list(wanted.model), as_list(wanted.optimizer)
        self.stacks, self.max_entries = wanted.stacks, wanted.max_entries
        if self.continuous is not None:
            self.max_entries = self.max_entries or ENTRIES
            self.files = Files(self.wanted, self.continuous.keep, self.continuous.keep_size)
        self.rotation: Rotation | None = None  # if the recording is continuous and running
        self.history, self.source = wanted.history, wanted.source
        self.holders = wanted.holders
        self.every, self.on_signal, self.overwrite = wanted.every, wanted.on_signal, overwrite
        self.say = say
        self.ooms: list[str] = []
        self.written: set[str] = set()  # files that this recording wrote
        self.goes_on = False  # PyTorch is recording
        self.set_symbolize = False  # whether we set the variable that chooses how frames are named
        self.counted: list[dict[str, Any]] = []  # PyTorch's counters at the start
        self.old_handler: Any = None
        self.dumping = False  # whether a snapshot is being written because of a signal
        self.of = 0  # process id
        if not overwrite and os.path.lexists(self.wanted):
            raise UsageError(f"{self.wanted} already exists; pass overwrite=True to replace it")

    @property
    def recording(self) -> bool:
        """Whether the recording is running."""
        return self in _active

    # --- begin and end ----------------------------------------------------------------------------

    def __enter__(self) -> Session:
        if _active:
            raise UsageError(f"already recording, to {_active[0].path}")
        check_models(self.models, self.given_optimizers)
        torch, why = find_torch()
        if torch is None:
            raise CannotRecordError(f"memreplay.record needs PyTorch, and {why}")
        self.torch, self.of = torch, os.getpid()
        self.path, self.ooms = self.wanted, []
        self.kind, self.devices = recordable(torch)
        self.guard = Guard(torch, partial(self.say, WARNING))
        self.noting = Noting(
            torch,
            self.kind,
            keep=self.max_entries,
            given=Given(self.models, self.given_optimizers),
            guard=self.guard,
        )
        self.noting.steps.after = self.stepped
        _active.append(self)
        atexit.register(self.finish_unstopped)
        try:
            self.begin_history()
            if self.noting.why_not:
                self.say(WARNING, f"categories aren't recorded: {self.noting.why_not}")
            self.observe()
            self.rotate(self.continuous)
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
            if self.of == os.getpid():  # not in forked children
                self.finish(error)
        except (MemreplayError, OSError, RuntimeError) as failed:
            if error is None:
                raise
            # The program's own exception is more important.
            self.say(ERROR, f"the snapshot is lost: {failed}")
        finally:
            self.stop()

    def finish(self, error: BaseException | None = None) -> None:
        """Write the snapshot and set `path`. `error`: the exception that ended the program."""
        if self.ooms and ran_out(error):
            # This snapshot would contain less than the existing one.
            path = self.wanted if self.rotation is None else self.files.next("oom")
            replaces = self.overwrite and os.path.lexists(path)
            self.path = moved(self.ooms.pop(), path, overwrite=self.overwrite)
            words = ", replacing an earlier run's" if replaces else ""
            self.say(
                WARNING, f"out of memory: wrote a snapshot of that moment to {self.path}{words}"
            )
        elif self.rotation is not None:
            self.path = self.rotation.rotate()
        else:
            self.path = self.dump(self.wanted)

    def finish_unstopped(self) -> None:
        """Finish a recording that the program never stopped."""
        # contains the exception that ended the program, if any
        raised = getattr(sys, "last_value", None)
        try:
            self.__exit__(raised and type(raised), raised, None)
        except (MemreplayError, OSError, RuntimeError) as failed:
            self.say(ERROR, f"the snapshot is lost: {failed}")

    def begin_history(self) -> None:
        """Start PyTorch's recording with the arguments this version accepts."""
        record = self.devices.memory._record_memory_history
        entries = sys.maxsize if self.max_entries is None else self.max_entries
        version = str(self.torch.__version__)
        stacks = stacks_for(self.stacks, os.path.dirname(self.torch.__file__ or ""))
        wanted = {
            # Stacks of frees cost as much as those of allocations, and are rarely needed. Without
            # them, frees have their allocations' stacks.
            "context": history_context(version) if self.continuous is None else "alloc",
            "clear_history": True,
            **self.history,
            "enabled": "all",
            "stacks": stacks,
            "max_entries": entries,
        }
        known = arguments(record, self.devices.memory)
        if not known:
            raise CannotRecordError("this torch is too old to record; upgrade to 2.1 or later")
        unknown = [name for name in self.history if name not in known]
        if unknown:
            raise UsageError(
                f"PyTorch {self.torch.__version__} doesn't know {', '.join(unknown)}; known"
                f" options: {', '.join(sorted(known))}"
            )
        if self.stacks == "auto" and stacks == "all":
            self.set_symbolize = name_frames_quickly()
        asked = {name: value for name, value in wanted.items() if name in known}

        def begin_again() -> None:
            if "clear_history" not in known:  # older versions clear events at the end
                record(enabled=None)
            record(**asked)

        self.begin_again = begin_again
        record(**asked)
        self.counted = statistics_of(self.devices)
        self.goes_on = True
        if (
            history_context(version) != "all"
            and not self.continuous
            and "context" not in self.history
        ):
            self.say(
                WARNING,
                f"stacks of frees aren't recorded, because PyTorch {self.torch.__version__}"
                " loses exceptions with them",
            )

    def stop(self) -> None:
        """Stop recording and restore PyTorch."""
        if self not in _active:
            return
        _active.remove(self)
        atexit.unregister(self.finish_unstopped)
        if self.old_handler is not None:
            # If the handler isn't ours, the program has set its own.
            if signal.getsignal(signal.SIGUSR1) == self.signalled:
                with contextlib.suppress(ValueError):  # only the main thread can do this
                    signal.signal(signal.SIGUSR1, self.old_handler)
            self.old_handler = None
        rotation, self.rotation = self.rotation, None
        if rotation is not None and self.of == os.getpid():  # a forked child has no thread
            rotation.stop()
        self.noting.stop()
        if self.goes_on:
            self.goes_on = False
            self.devices.memory._record_memory_history(enabled=None)
        if self.set_symbolize:
            self.set_symbolize = False
            os.environ.pop(SYMBOLIZE, None)

    def observe(self) -> None:
        """Write snapshots when memory runs out and on SIGUSR1."""
        core = getattr(self.torch, "_C", None)
        attach = getattr(core, f"_{self.kind}_attach_out_of_memory_observer", None)
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

    def rotate(self, wanted: Continuous | None) -> None:
        """Start to write files now and then, if the recording is continuous."""
        if wanted is None:
            return
        ring = Ring(self.devices, self.max_entries or ENTRIES, self.begin_again)
        ring.forget = self.noting.steps.forget
        self.noting.keep = 0  # a file's first step began before the file
        self.rotation = Rotation(
            ring, self.files, wanted, lambda path: bool(self.try_to_dump(path))
        )
        self.rotation.start(self.guard)

    # --- moments ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Mark the end of a step.

        If this is never called, a step ends when the optimizer steps; with several optimizers, the
        one that steps most often decides.
        """
        self.guard.run("noting a step", self.noting.steps.tell)

    def stepped(self) -> None:
        steps = self.noting.steps.count
        if self.every is not None and steps % self.every == 0:
            self.try_to_dump(beside(self.wanted, f".step-{steps}"))
        if self.rotation is not None and self.of == os.getpid():
            self.rotation.stepped()

    def signalled(self, _: int, __: FrameType | None) -> None:
        if self.dumping or self.of != os.getpid():
            return  # the previous snapshot isn't finished, or this is a forked child
        self.dumping = True
        try:
            self.try_to_dump(free_name(beside(self.wanted, ".signal")))
        finally:
            self.dumping = False

    def ran_out(self) -> None:
        """Handle a call from PyTorch's out-of-memory observer, which comes before the error is
        raised.
        """
        if len(self.ooms) < MOST_OOM:
            self.ooms += self.try_to_dump(free_name(beside(self.wanted, ".oom")))

    def try_to_dump(self, path: str) -> list[str]:
        """Write a snapshot and return its path in a list; empty on failure, which mustn't stop the
        program.
        """
        try:
            return [self.dump(path)]
        except MemreplayError as error:
            self.say(ERROR, str(error))
        except Exception as error:
            if from_a_signal(error):
                raise
            self.guard.note("writing a snapshot", error)
        return []

    # --- writing ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return a snapshot of the current state: PyTorch's `_snapshot()` plus the notes."""
        if self.rotation is None or self.of != os.getpid():
            return self.snapshot_now(None)
        with self.rotation.lock:
            return self.snapshot_now(self.rotation.ring)

    def snapshot_now(self, ring: Ring | None) -> dict[str, Any]:
        with nothing_collected() if self.holders else contextlib.nullcontext():
            sure = self.noting.look()
            counted = statistics_of(self.devices)
            take = self.devices.memory._snapshot if ring is None else ring.snapshot
            found: dict[str, Any] = take()
            held = self.held(found["segments"], TOP, SECONDS) if self.holders else {}
        traces = found["device_traces"]
        carried = None if ring is None else ring.cut(found)
        kept = {"max_entries": None, "dropped_events": [0] * len(traces)}
        if carried is None:
            kept = kept_events(
                traces,
                self.max_entries,
                self.counted,
                counted,
                self.history.get("skip_actions") or (),
            )
        lines = self.guard.run("reading lines of source code", self.lines, found) or {}
        facts = self.guard.run("describing the run", self.facts, otherwise={"version": 1})
        notes = self.noting.found(traces, sure)
        if carried is not None:
            put_before(traces, carried, notes)
        found["memreplay"] = {
            **facts,
            "recorder": "record",
            "host": platform.node(),
            "python": platform.python_version(),
            **kept,
            **({"source_lines": lines} if lines else {}),
            **({"holders": held} if held else {}),
            **notes,
        }
        return found

    def who_holds(self, top: int, seconds: float) -> dict[str, Any]:
        """Return who keeps the memory alive that is in use now."""
        with nothing_collected():
            return self.held(self.devices.memory._snapshot()["segments"], top, seconds)

    def held(self, segments: list[dict[str, Any]], top: int, seconds: float) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            return Holders(self.torch, self.kind, sizes_of(segments), seconds=seconds).look(top)

        return self.guard.run("finding who holds memory", look) or {}

    def facts(self) -> dict[str, Any]:
        return run_facts(self.torch, self.devices, ranks_of(self.torch))

    def lines(self, snapshot: dict[str, Any]) -> dict[str, dict[str, str]]:
        """Return those lines of the program's own source that occur in stacks, if requested."""
        if not self.source:
            return {}
        folders = library_folders(os.path.dirname(self.torch.__file__ or ""))
        return source_lines(snapshot, lambda file: is_library(file, folders))

    def dump(self, path: str | os.PathLike[str]) -> str:
        """Write a snapshot now and continue recording. Return its path.

        Without `overwrite`, an existing file is kept and the new one gets another name. Raises
        OSError if it can't be written.
        """
        path = checked(os.fspath(path))
        replaces = self.overwrite and os.path.lexists(path) and path not in self.written
        name, size = write(path, self.snapshot(), overwrite=self.overwrite)
        self.written.add(name)
        words = "; it replaces an earlier run's" if replaces else ""
        self.say(INFO, f"wrote {name} ({size / 1e6:,.1f} MB){words}")
        return name


def ranks_of(torch: Any) -> tuple[int, int] | None:
    """Return this process's rank and the world size; None if torch.distributed isn't
    initialized.
    """
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def out_of_memory(*_: object) -> None:
    """PyTorch's out-of-memory observer."""
    for recorder in _active:
        recorder.guard.run("noting a failed request", recorder.ran_out)


def ran_out(error: BaseException | None) -> bool:
    """Return whether an exception, or one that caused it, means that memory ran out."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if type(error).__name__ == "OutOfMemoryError":
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


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


def check_models(models: list[Any], optimizers: list[Any]) -> None:
    """Raise UsageError for arguments that aren't models or optimizers."""
    for name, given, words in (
        ("model", models, ("named_modules", "a torch.nn.Module, or a list of them")),
        ("optimizer", optimizers, ("param_groups", "a torch.optim.Optimizer, or a list of them")),
    ):
        for one in given:
            if not hasattr(one, words[0]):
                raise UsageError(f"{name}: must be {words[1]}, not of type {type(one).__name__}")


def arguments(record: Callable[..., Any], memory: Any) -> set[str]:
    """Return the parameter names of PyTorch's function; empty if it has no signature."""
    for function in (record, getattr(memory, "_record_memory_history_impl", None)):
        if function is None:
            continue
        parameters = inspect.signature(function).parameters.values()
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "args"}
        if "stacks" in named:
            return named
    return set()


def own_path(path: str) -> str:
    """Return the path for this rank: fill in {rank}, or add it."""
    rank = os.environ.get("RANK", "0")
    if "{rank}" in path:
        return path.replace("{rank}", rank)
    several = os.environ.get("WORLD_SIZE", "1") not in ("", "1")
    return beside(path, f".rank{rank}") if several else path


def as_list(given: Any) -> list[Any]:
    """Return a list of the given objects: none for None, one, or several."""
    if given is None:
        return []
    return list(given) if isinstance(given, Iterable) and not callable(given) else [given]
