"""`with memreplay.record(…)`: record a program from its own code."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from logging import INFO, WARNING
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

from memreplay.errors import UsageError
from memreplay.recording.history import CannotRecordError
from memreplay.recording.holders import SECONDS, TOP
from memreplay.recording.logs import keep_quiet, log
from memreplay.recording.session import Session, Wanted
from memreplay.recording.torch_here import find_torch
from memreplay.recording.unrecorded import used

F = TypeVar("F", bound=Callable[..., Any])


class Recorder:
    """Record the memory of a program's CUDA or XPU devices.

    ``with memreplay.record("snap.pickle", model=model, optimizer=optimizer): train()`` starts
    PyTorch's own recording and also notes what each allocation is for: its category (parameters,
    gradients, optimizer state, activations, …), module and phase. The snapshot is written when the
    block ends, even if an exception ends it. If that is an out-of-memory error, the snapshot shows
    the moment of the error. It's PyTorch's snapshot with the notes under a separate key
    (docs/format.md). A thread also samples who uses the card, and the process's host memory, once
    a second (docs/outside.md).

    Can also be used as a decorator: ``@memreplay.record("snap.pickle")``. Callbacks use `start()`
    and `stop()`. Messages go to the logger `memreplay`.

    Parameters
    ----------
    path : str or path, optional
        The file or URL to write (default: `snapshot.pickle`, which replaces an earlier recording's
        file): `.pickle` or `.pkl`, compressed if the name ends with `.gz`, `.zst`, `.xz` or `.bz2`.
        In a distributed run, `{rank}` is replaced by the rank; without it, `.rankN` is added to the
        names.
    model : torch.nn.Module or list of them, optional
        Models that exist before the recording. Other models are found when they run.
    optimizer : torch.optim.Optimizer or list of them, optional
        The same for optimizers.
    stacks : {"auto", "python", "all"}
        Which frames PyTorch records. C++ frames name operators and the backward pass. "auto"
        records C++ frames if that's cheap, that is, with PyTorch 2.4 or later on x86-64 Linux.
    max_entries : int, optional
        Keep only this many events, the last ones (default: all).
    source : bool
        Store those lines of the program's own source code that occur in stacks (at most 1 MiB), so
        that reports can show them. Anyone who has the file can read them.
    holders : bool
        Store in each snapshot which objects keep the memory alive (variables, modules, optimizers,
        autograd graphs, tracebacks, reference cycles). Looking for them takes at most about two
        seconds each time.
    every : int, optional
        Also write a snapshot after every N steps (e.g. `snap.step-100.pickle`).
    continuous : bool or dict
        Record for days (docs/continuous.md): write a file every ten minutes and when memory rises
        by 2%, each with PyTorch's last `max_entries` events, and keep ten files. A dict changes
        these numbers: `seconds`, `size`, `keep`, `keep_size` and `peak_percent`.
    on_signal : bool
        Also write a snapshot (e.g. `snap.signal.pickle`) when SIGUSR1 is received, and before
        SIGTERM ends the process. If False, or if the program has its own handlers, none are set.
    overwrite : bool
        Replace an existing file. Otherwise, an existing file is an error before anything runs.
    quiet : bool
        Log nothing.
    strict : bool
        Raise an error if there is nothing to record: no device, no PyTorch, or a version before
        2.1. Otherwise, a warning is logged and the program runs without a recording.
    **history
        Further arguments of this PyTorch's `_record_memory_history`, such as `skip_actions`.

    Raises
    ------
    UsageError
        The path can't be written to, or this PyTorch doesn't support an argument.
    """

    __slots__ = ("__weakref__", "_session", "_strict", "_unrecorded", "_warned")

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        model: Any = None,
        optimizer: Any = None,
        stacks: Literal["auto", "python", "all"] = "auto",
        max_entries: int | None = None,
        source: bool = False,
        holders: bool = False,
        every: int | None = None,
        continuous: bool | Mapping[str, float | None] = False,
        on_signal: bool = True,
        overwrite: bool = False,
        quiet: bool = False,
        strict: bool = False,
        **history: Any,
    ) -> None:
        wanted = Wanted(
            path,
            model=model,
            optimizer=optimizer,
            stacks=stacks,
            max_entries=max_entries,
            source=source,
            holders=holders,
            every=every,
            continuous=continuous,
            on_signal=on_signal,
            overwrite=overwrite,
            history=history,
        )
        self._session = Session(wanted, keep_quiet if quiet else log)
        self._strict = strict
        self._warned = False
        self._unrecorded = False  # nothing could be recorded, and the program hasn't ended

    def __repr__(self) -> str:
        return f"<Recorder {self.path}: {'recording' if self.recording else 'not recording'}>"

    def __dir__(self) -> list[str]:
        return sorted(name for name in vars(Recorder) if not name.startswith("_"))

    @property
    def path(self) -> str:
        """The file to write; after the recording, the file that was written."""
        return self._session.path

    @property
    def recording(self) -> bool:
        """Whether a recording is running. Always False without a device."""
        return self._session.recording

    def start(self) -> Recorder:
        """Start recording. Raises UsageError if a recording is already running."""
        try:
            self._session.__enter__()
        except CannotRecordError as error:
            if self._strict:
                raise
            if not self._warned:  # a decorator does this for every call
                self._warned = True
                self._unrecorded = find_torch()[0] is not None
                self._session.say(WARNING, f"nothing is recorded: {error}")
        return self

    def stop(self) -> str | None:
        """Stop recording and write the snapshot. Return its path; None if nothing was recorded.

        If this is called while an exception is being handled (e.g. in `finally`), that exception
        counts as the one that ended the program. Raises MemreplayError if the file can't be
        written.
        """
        if not self.recording:
            self._say_what_was_used()
            return None
        error = sys.exc_info()[1]
        self._session.__exit__(None if error is None else type(error), error, None)
        return self.path

    def step(self) -> None:
        """Mark the end of a step.

        If this is never called, a step ends when the optimizer steps; with several optimizers, the
        one that steps most often decides.
        """
        if self.recording:
            self._session.step()

    def dump(self, path: str | os.PathLike[str]) -> str | None:
        """Write a snapshot now and continue recording. Return its path; None if nothing is being
        recorded.

        Without `overwrite`, an existing file is kept and the new one gets another name. Raises
        MemreplayError if it can't be written.
        """
        return self._session.dump(path) if self.recording else None

    def snapshot(self) -> dict[str, Any]:
        """Return a snapshot of the current state: PyTorch's `_snapshot()` plus the notes.

        Raises UsageError if nothing is being recorded.
        """
        if not self.recording:
            raise UsageError(
                "nothing is being recorded; call snapshot() between start() and stop()"
            )
        return self._session.snapshot()

    def holders(self, top: int = TOP, seconds: float = SECONDS) -> dict[str, Any]:
        """Return which objects keep the memory alive that is in use now.

        Parameters
        ----------
        top : int
            How many groups to return, largest first.
        seconds : float
            How long to look, about. What wasn't found by then is in the group "unknown".

        Returns
        -------
        dict
            As in a snapshot (docs/format.md): `groups`, a list of dicts with the holder's `kind`,
            `name`, `function`, `file` and `line`, and the `bytes` and `count` of its allocations.

        Raises UsageError if nothing is being recorded.
        """
        if not self.recording:
            raise UsageError("nothing is being recorded; call holders() between start() and stop()")
        return self._session.who_holds(top, seconds)

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.recording:
            self._session.__exit__(kind, error, traceback)
        self._say_what_was_used()

    def _say_what_was_used(self) -> None:
        """If nothing could be recorded, log the little that's known, once."""
        if self._unrecorded:
            self._unrecorded = False
            if words := used():
                self._session.say(INFO, words)

    def __call__(self, function: F) -> F:
        """Return the function wrapped to record each call."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **options: Any) -> Any:
                with self:
                    return await function(*args, **options)

            return cast("F", awaited)

        @functools.wraps(function)
        def recorded(*args: Any, **options: Any) -> Any:
            with self:
                return function(*args, **options)

        return cast("F", recorded)
