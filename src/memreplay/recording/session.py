"""One recording: PyTorch's memory history, plus what each allocation is for."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from logging import ERROR, INFO, WARNING
from types import FrameType, MappingProxyType, TracebackType
from typing import Any, Literal, NamedTuple

from memreplay.errors import MemreplayError, UsageError
from memreplay.io.urls import is_url
from memreplay.recording.answering import Answering
from memreplay.recording.continuous import Continuous, Files, Rotation
from memreplay.recording.ending import at_the_end, no_longer, watch_again
from memreplay.recording.facts import (
    is_library,
    kept_events,
    library_folders,
    run_facts,
    statistics_of,
)
from memreplay.recording.guarding import Guard, from_a_signal
from memreplay.recording.history import Asked, CannotRecordError, History, recordable
from memreplay.recording.holders import Holders, nothing_collected, stored
from memreplay.recording.host_memory import pinned_events
from memreplay.recording.logs import Say, log
from memreplay.recording.memory_samples import Samples
from memreplay.recording.noting import Given, Noting
from memreplay.recording.ring import ENTRIES, Ring, put_before
from memreplay.recording.running_out import Failures, Hooks
from memreplay.recording.source_lines import source_lines
from memreplay.recording.torch_here import find_torch
from memreplay.recording.writing import (
    DEFAULT,
    PACKED,
    Replacing,
    beside,
    checked,
    command,
    exists,
    free_name,
    moved,
    own_path,
    write,
    write_anywhere,
)
from memreplay.render.units import size

LOOKING = "finding who holds memory"

_active: list[Session] = []  # at most one
# device types that have an observer, because PyTorch never removes OOM observers
_observing: list[str] = []


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
    pinned: bool = False
    """Also record pinned memory of the host, if this version can."""
    on_signal: bool = True
    overwrite: bool = False
    at_end: bool = True
    """Also write a snapshot when the recording ends."""
    history: Mapping[str, Any] = MappingProxyType({})
    """Other arguments of `_record_memory_history`."""
    shared: bool = False
    """The program may start its own recordings, which then get this one's events."""


class Way(NamedTuple):
    """How to write a snapshot."""

    packs: bool = False
    """Compress it if it's large, which changes its name."""
    anywhere: bool = False
    """Write it somewhere else if the path can't be written to."""
    failure: bool = False
    """It shows the moment at which memory ran out."""


ASKED, END = Way(), Way(anywhere=True)
REGULAR, FAILURE = Way(packs=True), Way(packs=True, anywhere=True, failure=True)


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
        self.asked = os.fspath(DEFAULT if path is None else path)
        if self.continuous is not None and is_url(self.asked):
            raise UsageError("continuous: files are only written to this machine, not to a URL")
        self.torch: Any = None  # once the recording begins
        self.known_ranks: tuple[int, int] | None = None
        self.path = checked(self.wanted)  # the file that the recording wrote
        self.models, self.given_optimizers = as_list(wanted.model), as_list(wanted.optimizer)
        self.stacks, self.max_entries = wanted.stacks, wanted.max_entries
        if self.continuous is not None:
            self.max_entries = self.max_entries or ENTRIES
        self.rotation: Rotation | None = None  # if the recording is continuous and running
        self.shared, self.pinned = wanted.shared, wanted.pinned
        self.host: Session | None = None  # the recording in which this one takes part
        self.guests: list[Session] = []  # those that take part in this one
        self.told = False  # whether the program knows that
        self.others, self.source = wanted.history, wanted.source
        self.holders, self.at_end = wanted.holders, wanted.at_end
        self.every, self.on_signal, self.overwrite = wanted.every, wanted.on_signal, overwrite
        self.say = say
        self.written: set[str] = set()  # files that this recording wrote
        self.old_handler: Any = None
        self.dumping = False  # whether a snapshot is being written because of a signal
        self.of = 0  # process id
        self.answering = Answering(self)
        if not overwrite and exists(self.path):
            raise UsageError(f"{self.path} already exists; pass overwrite=True to replace it")

    def ranks(self) -> tuple[int, int] | None:
        """Return this process's rank and the world size. Once known, they don't change."""
        if self.known_ranks is None and self.torch is not None:
            self.known_ranks = ranks_of(self.torch)
        return self.known_ranks

    @property
    def wanted(self) -> str:
        """The file to write, with the process's rank in its name if there are several."""
        return own_path(self.asked, self.ranks())

    @property
    def recording(self) -> bool:
        """Whether the recording is running."""
        return self in _active or (self.host is not None and self.host.recording)

    # --- begin and end ----------------------------------------------------------------------------

    def __enter__(self) -> Session:
        check_models(self.models, self.given_optimizers)
        torch, why = find_torch()
        if torch is None:
            raise CannotRecordError(f"memreplay.record needs PyTorch, and {why}")
        kind, devices = recordable(torch)
        begin_outside()
        if _active and _active[0].of != os.getpid():
            _active.clear()  # this process was forked from the one that was recorded
        if _active:
            return self.join(_active[0])
        self.torch, self.of, self.known_ranks = torch, os.getpid(), None
        self.began_ns = time.time_ns()
        self.path = self.wanted
        self.failures = Failures(self.save_failure)
        self.kind, self.devices = kind, devices
        self.history = History(torch, self.devices, self.say)
        self.guard = Guard(torch, partial(self.say, WARNING))
        self.noting = Noting(
            torch,
            self.kind,
            keep=self.max_entries,
            given=Given(self.models, self.given_optimizers),
            guard=self.guard,
        )
        self.noting.steps.after = self.stepped
        self.samples = Samples(torch, self.kind, self.guard)
        self.hooks = Hooks(self.uncaught)
        _active.append(self)
        at_the_end(self.finish_unstopped, signals=self.on_signal)
        try:
            self.history.begin(
                Asked(
                    stacks=self.stacks,
                    max_entries=self.max_entries,
                    continuous=self.continuous is not None,
                    pinned=self.pinned,
                    others=self.others,
                )
            )
            self.samples.start()
            if self.noting.why_not:
                self.say(WARNING, f"categories aren't recorded: {self.noting.why_not}")
            self.observe()
            self.rotate(self.continuous)
            self.observe_signal()
            self.answering.start()
        except BaseException:
            self.stop()
            raise
        return self

    def join(self, host: Session) -> Session:
        """Take part in a recording that was started from outside the program."""
        if not host.shared or self.recording:
            raise UsageError(f"already recording, to {host.path}")
        self.host, self.of, self.known_ranks = host, os.getpid(), None
        self.began_ns = time.time_ns()
        self.torch, self.guard, self.failures = host.torch, host.guard, host.failures
        self.path = self.wanted
        if not host.guests and not host.told:
            host.told = True
            self.say(
                WARNING,
                f"memreplay record is recording already, to {host.path}; the program's own"
                f" recording, {self.path}, gets the same events",
            )
        host.guests.append(self)
        host.noting.give(Given(self.models, self.given_optimizers))
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
        for guest in tuple(self.guests):
            guest.finish_unstopped()
        if self.failures.has(error) and self.host is None:
            # Another snapshot would contain less than the existing one.
            self.path = self.renamed(self.failures.saved.pop())
        elif self.rotation is not None:
            self.path = self.rotation.rotate()
        elif self.at_end:
            self.path = self.save(self.wanted, self.overwrite, END)

    def renamed(self, file: str) -> str:
        """Give the last failure's snapshot the name that the user chose, and return its name."""
        path = self.wanted if self.rotation is None else self.files.next("oom")
        if file.endswith(PACKED) and not path.endswith(PACKED):
            path += PACKED
        if is_url(path) or os.path.dirname(file) != os.path.dirname(path):
            return file
        replaces = self.overwrite and os.path.lexists(path)
        name = moved(file, path, replacing=self.replacing(path, self.overwrite))
        note_in_dry_run(self.torch, name, instead=file)
        words = ", replacing an earlier run's" if replaces and name == path else ""
        self.say(
            WARNING,
            f"out of memory: the snapshot of that moment, {file}, is now {name}{words};"
            f" run: {command(name)}",
        )
        return name

    def finish_unstopped(self) -> None:
        """Finish a recording that the program never stopped."""
        if not self.recording:
            return
        # contains the exception that ended the program, if any
        raised = getattr(sys, "last_value", None)
        try:
            self.__exit__(raised and type(raised), raised, None)
        except (MemreplayError, OSError, RuntimeError) as failed:
            self.say(ERROR, f"the snapshot is lost: {failed}")

    def stop(self) -> None:
        """Stop recording and restore PyTorch."""
        if self.host is not None:
            self.host.guests.remove(self)
            self.host = None
        if self not in _active:
            return
        _active.remove(self)
        self.hooks.remove()
        no_longer(self.finish_unstopped)
        if self.old_handler is not None:
            # If the handler isn't ours, the program has set its own.
            if signal.getsignal(signal.SIGUSR1) == self.signalled:
                with contextlib.suppress(ValueError):  # only the main thread can do this
                    signal.signal(signal.SIGUSR1, self.old_handler)
            self.old_handler = None
        self.answering.stop()
        self.samples.stop()
        rotation, self.rotation = self.rotation, None
        if rotation is not None and self.of == os.getpid():  # a forked child has no thread
            rotation.stop()
        self.noting.stop()
        self.history.end()

    def observe(self) -> None:
        """Write snapshots when memory runs out."""
        core = getattr(self.torch, "_C", None)
        attach = getattr(core, f"_{self.kind}_attach_out_of_memory_observer", None)
        if attach is not None and self.kind not in _observing:
            self.guard.run("watching for failed requests", attach, out_of_memory)
            _observing.append(self.kind)

    def observe_signal(self) -> None:
        """Write snapshots on SIGUSR1, unless the program has its own handler."""
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
        ring = Ring(self.devices, self.max_entries or ENTRIES, self.history.begin_again)
        ring.forget = self.noting.steps.forget
        self.noting.keep = 0  # a file's first step began before the file
        self.files = Files(lambda: self.wanted, wanted.keep, wanted.keep_size)
        self.rotation = Rotation(ring, self.files, wanted, self.try_to_save)
        self.rotation.start(self.guard)

    # --- moments ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Mark the end of a step.

        If this is never called, a step ends when the optimizer steps; with several optimizers, the
        one that steps most often decides.
        """
        noting = (self.host or self).noting
        self.guard.run("noting a step", noting.steps.tell)

    def stepped(self) -> None:
        self.ranks()  # the program may destroy the process group before the next file is written
        watch_again()
        steps = self.noting.steps.count
        for one in (self, *self.guests):
            if one.every is not None and steps % one.every == 0:
                one.try_to_save(beside(one.wanted, f".step-{steps}"))
        if self.rotation is not None and self.of == os.getpid():
            self.rotation.stepped()

    def signalled(self, _: int, __: FrameType | None) -> None:
        if self.dumping or self.of != os.getpid():
            return  # the previous snapshot isn't finished, or this is a forked child
        self.dumping = True
        try:
            self.try_to_save(free_name(beside(self.wanted, ".signal")))
        finally:
            self.dumping = self.answering.asked = False

    def failed(self) -> None:
        """Handle a failed request, before its error is raised."""
        self.failures.failed()
        if not self.failures.has_last:
            self.samples.take()  # otherwise the snapshot has a sample

    def uncaught(self, error: BaseException | None) -> None:
        """Handle an exception that ends the program or a thread."""
        if self.of == os.getpid():
            self.guard.run("noting an error", self.failures.uncaught, error)

    def save_failure(self, replaces: str | None) -> str | None:
        """Save the moment at which memory runs out. Return the file; None on failure."""
        found = []
        with self.trying():
            path = beside(self.wanted, ".oom")
            if replaces is None:
                found.append(self.save(free_name(path), self.overwrite, FAILURE))
            else:
                packed = replaces.endswith(PACKED) and not path.endswith(PACKED)
                path = replaces.removesuffix(PACKED) if packed else replaces
                found.append(self.save(path, True, FAILURE))
                if found != [replaces] and not is_url(replaces):
                    os.unlink(replaces)
                    note_in_dry_run(self.torch, found[0], instead=replaces)
        return found[0] if found else None

    def try_to_save(self, path: str) -> str | None:
        """Write a snapshot and return its path; None on failure, which mustn't stop the program."""
        found = []
        with self.trying():
            found.append(self.save(path, self.overwrite, REGULAR))
        return found[0] if found else None

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """Log errors instead of raising them in the program."""
        try:
            yield
        except MemreplayError as error:
            self.say(ERROR, str(error))
        except Exception as error:
            if from_a_signal(error):
                raise
            self.guard.note("writing a snapshot", error)

    # --- writing ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return a snapshot of the current state: PyTorch's `_snapshot()` plus the notes."""
        if self.host is not None:
            return self.host.snapshot()
        self.samples.take()
        if self.rotation is None or self.of != os.getpid():
            return self.snapshot_now(None)
        with self.rotation.lock:
            return self.snapshot_now(self.rotation.ring)

    def snapshot_now(self, ring: Ring | None) -> dict[str, Any]:
        holders = self.holders or self.answering.asked
        with nothing_collected() if holders else contextlib.nullcontext():
            sure = self.noting.look()
            counted = statistics_of(self.devices)
            take = self.devices.memory._snapshot if ring is None else ring.snapshot
            found: dict[str, Any] = take()
            held: dict[str, Any] = {}
            if holders:
                segments = found["segments"]
                look = partial(stored, self.torch, self.kind, segments, self.guard)
                held = self.guard.run(LOOKING, look) or {}
                self.answering.held(held)
        traces = found["device_traces"]
        carried = None if ring is None else ring.cut(found)
        kept = {"max_entries": None, "dropped_events": [0] * len(traces)}
        if carried is None:
            kept = kept_events(
                traces,
                self.max_entries,
                self.history.counted,
                counted,
                self.others.get("skip_actions") or (),
            )
        lines = self.guard.run("reading lines of source code", self.lines, found) or {}
        facts = self.guard.run("describing the run", self.facts, otherwise={"version": 1})
        notes = self.noting.found(traces, sure)
        if carried is not None:
            put_before(traces, carried, notes)
        events = self.guard.run("counting events of the host", pinned_events, found)
        found["memreplay"] = {
            **facts,
            "recorder": "record",
            "host": platform.node(),
            "python": platform.python_version(),
            **kept,
            **({"source_lines": lines} if lines else {}),
            **({"holders": held} if held else {}),
            **self.guard.run("describing memory", self.samples.notes, events, otherwise={}),
            **notes,
        }
        return found

    def who_holds(self, top: int, seconds: float) -> dict[str, Any]:
        """Return who keeps the memory alive that is in use now."""
        if self.host is not None:
            return self.host.who_holds(top, seconds)

        def look() -> dict[str, Any]:
            segments = self.devices.memory._snapshot()["segments"]
            looking = Holders(self.torch, self.kind, segments, seconds=seconds, guard=self.guard)
            return looking.look(top)

        with nothing_collected():
            return self.guard.run(LOOKING, look) or {}

    def facts(self) -> dict[str, Any]:
        found = run_facts(self.torch, self.devices, self.ranks())
        for device, card in enumerate(found["cards"]):
            taken = self.samples.own_outside(device)
            if taken is not None:
                card["context_bytes"] = taken
        return found

    def lines(self, snapshot: dict[str, Any]) -> dict[str, dict[str, str]]:
        """Return those lines of the program's own source that occur in stacks, if requested."""
        if not self.source:
            return {}
        folders = library_folders(os.path.dirname(self.torch.__file__ or ""))
        return source_lines(snapshot, lambda file: is_library(file, folders))

    def dump(self, path: str | os.PathLike[str]) -> str:
        """Write a snapshot now and continue recording. Return its path.

        Without `overwrite`, an existing file is kept and the new one gets another name. Raises
        MemreplayError if it can't be written.
        """
        return self.save(os.fspath(path), self.overwrite, ASKED)

    def replacing(self, path: str, wanted: bool) -> Replacing:
        """Return whether to replace a file, but not one that another process of this run wrote:
        processes that don't know their ranks have the same names.
        """
        ours = path in self.written or path + PACKED in self.written
        return Replacing(wanted, None if ours else self.began_ns)

    def save(self, path: str, overwrite: bool, way: Way) -> str:
        """Write a snapshot and log it. Return its path. Raises MemreplayError."""
        replacing = self.replacing(path, overwrite)
        replaces = overwrite and exists(path) and path not in self.written
        to = write_anywhere if way.anywhere else write
        path = path if way.anywhere else checked(path)
        found = to(path, self.snapshot(), replacing=replacing, packs=way.packs)
        self.written |= {path, found.name}
        note_in_dry_run(self.torch, found.name)
        self.answering.wrote(found.name)
        words = f"wrote {found.name} ({size(found.size)})"
        if replaces and found.name == path:
            words += "; it replaces an earlier run's"
        if found.why:
            words = f"{path}: {found.why}; {words} instead"
        if way.failure:
            words = f"out of memory: {words}; run: {command(found.name)}"
        self.say(WARNING if way.failure or found.why else INFO, words)
        return found.name


def begin_outside() -> None:
    """Begin the recording of `memreplay record` (outside.py), which waits for a device."""
    for outside in getattr(sys.modules.get("memreplay_outside"), "prepared", ()):
        outside.begin()


def note_in_dry_run(torch: Any, path: str, instead: str = "") -> None:
    """Let a dry run name a file that its program wrote, in place of `instead`."""
    dump = getattr(torch.cuda.memory, "_dump_snapshot", None)
    files = getattr(dump, "memreplay_files", None)  # memreplay_recording.py
    if files is not None:
        name, old = (one if is_url(one) else os.path.abspath(one) for one in (path, instead))
        files[:] = [one for one in files if one not in (name, old)]
        files.append(name)  # the last one comes last


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
        recorder.guard.run("noting a failed request", recorder.failed)


def check_models(models: list[Any], optimizers: list[Any]) -> None:
    """Raise UsageError for arguments that aren't models or optimizers."""
    for name, given, words in (
        ("model", models, ("named_modules", "a torch.nn.Module, or a list of them")),
        ("optimizer", optimizers, ("param_groups", "a torch.optim.Optimizer, or a list of them")),
    ):
        for one in given:
            if not hasattr(one, words[0]):
                raise UsageError(f"{name}: must be {words[1]}, not of type {type(one).__name__}")


def as_list(given: Any) -> list[Any]:
    """Return a list of the given objects: none for None, one, or several."""
    if given is None:
        return []
    return list(given) if isinstance(given, Iterable) and not callable(given) else [given]
