"""`with memreplay.record(…)`: a program's recording, as its own code starts and stops it."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from logging import WARNING
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

from memreplay.errors import UsageError
from memreplay.recording.logs import keep_quiet, log
from memreplay.recording.session import CannotRecordError, Session

F = TypeVar("F", bound=Callable[..., Any])


class Recorder:
    """Records what a program does to the memory of its CUDA or XPU devices.

    ``with memreplay.record("snap.pickle", model=model, optimizer=optimizer): train()`` begins
    PyTorch's own recording, and notes beside it what each allocation is for: its category
    (parameters, gradients, optimizer state, activations, …), its module and its phase. The snapshot
    is written where the block ends, by an exception too; if that is for want of memory, it is the
    snapshot of that moment. It has all that PyTorch's has, and the notes under a separate key
    (docs/format.md).

    It is a decorator, too: ``@memreplay.record("snap.pickle")``. A callback calls `start()` and
    `stop()`. Messages go to the logger `memreplay`.

    Parameters
    ----------
    path : str or path, optional
        The file to write (default: `snapshot.pickle`, which replaces that of an earlier
        recording): `.pickle` or `.pkl`, packed if it ends with `.gz`, `.zst`, `.xz` or
        `.bz2`. `{rank}` stands for the rank of a distributed run; its files get `.rankN` where it
        is missing.
    model : torch.nn.Module or list of them, optional
        Models that are there before the recording. Others are found when they run.
    optimizer : torch.optim.Optimizer or list of them, optional
        Likewise.
    stacks : {"auto", "python", "all"}
        Which frames PyTorch records. Those of C++ name operators and the backward pass. "auto"
        records them where that is cheap: PyTorch 2.4 or later on x86-64 Linux.
    max_entries : int, optional
        Keep only the last events, this many; default: all.
    source : bool
        Put the text of the program's own lines that stacks name into the snapshot, a MiB at most,
        so that reports show it. Whoever has the file can read it.
    every : int, optional
        Also write a snapshot after every so-many-th step: `snap.step-100.pickle`.
    on_signal : bool
        Write one when SIGUSR1 comes: `snap.signal.pickle`.
    overwrite : bool
        Replace a file that exists; else that is an error before anything runs.
    quiet : bool
        Log nothing.
    strict : bool
        Raise an error where there is nothing to record: no device, no PyTorch, or one before 2.1.
        Without it a warning is logged, and the program runs without a recording.
    **history
        Further arguments of this PyTorch's `_record_memory_history`, such as `skip_actions`.

    Raises
    ------
    UsageError
        For a path that cannot be written to, and for arguments that this PyTorch does not know.
    """

    __slots__ = ("__weakref__", "_session", "_strict", "_warned")

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        model: Any = None,
        optimizer: Any = None,
        stacks: Literal["auto", "python", "all"] = "auto",
        max_entries: int | None = None,
        source: bool = False,
        every: int | None = None,
        on_signal: bool = True,
        overwrite: bool = False,
        quiet: bool = False,
        strict: bool = False,
        **history: Any,
    ) -> None:
        self._session = Session(
            path,
            model=model,
            optimizer=optimizer,
            stacks=stacks,
            max_entries=max_entries,
            source=source,
            every=every,
            on_signal=on_signal,
            overwrite=overwrite,
            say=keep_quiet if quiet else log,
            **history,
        )
        self._strict = strict
        self._warned = False

    def __repr__(self) -> str:
        return f"<Recorder {self.path}: {'recording' if self.recording else 'not recording'}>"

    def __dir__(self) -> list[str]:
        return sorted(name for name in vars(Recorder) if not name.startswith("_"))

    @property
    def path(self) -> str:
        """The file; when the recording has ended, where it was written."""
        return self._session.path

    @property
    def recording(self) -> bool:
        """Whether it records now. Where there is no device it never does."""
        return self._session.recording

    def start(self) -> Recorder:
        """Begin to record. Raises UsageError if a recording goes on already."""
        try:
            self._session.__enter__()
        except CannotRecordError as error:
            if self._strict:
                raise
            if not self._warned:  # a decorator comes here each time
                self._warned = True
                self._session.say(WARNING, f"nothing is recorded: {error}")
        return self

    def stop(self) -> str | None:
        """End the recording, and write the snapshot. Returns where; None if nothing was recorded.

        Called while an exception is handled (in `finally`, say), it takes that for what ended the
        program. Raises MemreplayError if the file cannot be written.
        """
        if not self.recording:
            return None
        error = sys.exc_info()[1]
        self._session.__exit__(None if error is None else type(error), error, None)
        return self.path

    def step(self) -> None:
        """Note that a step of the program ends here. If it is never called, a step ends where the
        optimizer has stepped; of several, the one that steps most often."""
        if self.recording:
            self._session.step()

    def dump(self, path: str | os.PathLike[str]) -> str | None:
        """Write a snapshot of this moment; the recording goes on. Returns where it was written:
        without `overwrite` a file that is there is not written over, and this one has another name.
        None if nothing is recorded.

        Raises MemreplayError if it cannot be written.
        """
        return self._session.dump(path) if self.recording else None

    def snapshot(self) -> dict[str, Any]:
        """Return the snapshot of this moment, as PyTorch's `_snapshot()` has it, and what was
        noted. Raises UsageError if nothing is recorded."""
        if not self.recording:
            raise UsageError("nothing is recorded now: call snapshot() between start() and stop()")
        return self._session.snapshot()

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

    def __call__(self, function: F) -> F:
        """Return the function with each call of it recorded."""
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
