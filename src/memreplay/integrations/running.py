"""A framework's recording: when it begins and ends. It never raises an error in the training."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from logging import ERROR, WARNING
from types import TracebackType
from typing import Any, TypeVar, cast

from memreplay.errors import MemreplayError
from memreplay.integrations.options import NAME, options_from
from memreplay.io.urls import is_url
from memreplay.recording.facts import ranks_of_environment
from memreplay.recording.guarding import described, from_a_signal
from memreplay.recording.logs import log
from memreplay.recording.session import Session, Wanted, ranks_of
from memreplay.recording.torch_here import find_torch
from memreplay.recording.writing import beside, checked, exists, own_path, temporary

F = TypeVar("F", bound=Callable[..., Any])


def safely(method: F) -> F:
    """Log a method's errors instead of raising them."""

    @functools.wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except Exception as error:
            if from_a_signal(error):
                raise
            words = str(error) if isinstance(error, MemreplayError) else described(error)
            log(ERROR, f"recording memory: {words}")
            return None

    return cast("F", called)


class Recording:
    """Record a training in any framework; as a context, record what runs in the `with` block.

    ``with Recording(path="run.rank{rank}.pickle", steps=(10, 12)): train()``

    Steps end where the program calls `step()`, otherwise when the optimizer steps. Errors are
    logged and don't stop the training.

    Parameters
    ----------
    **options
        `Options`: path, steps, every, ranks, max_entries, oom_only, stacks, source, holders,
        continuous, pinned, overwrite. Raises UsageError for unknown ones.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options_from(options)
        self.session: Session | None = None
        self.begun = False
        self.told = False  # whether the program calls step()
        self.before = self.done = 0  # steps that had ended at the beginning, and now
        self.folder = ""
        self.given: tuple[Any, Any] = None, None
        self.hook: Any = None  # sees optimizers' steps
        self.waiting: Any = None  # sees the next step's first module
        self.optimizer = 0  # id of the optimizer whose steps are counted
        self.names: set[str] = set()
        self.signals = True  # whether to handle signals

    @property
    def active(self) -> bool:
        """Whether events are being recorded now."""
        return self.session is not None and self.session.recording

    @property
    def path(self) -> str | None:
        """The file that was or will be written; None before the recording begins."""
        return None if self.session is None else self.session.path

    @safely
    def begin(
        self, *, model: Any = None, optimizer: Any = None, folder: str = "", done: int = 0
    ) -> None:
        """Begin, or continue after an error that the framework caught.

        `folder`: where the default file is. `done`: steps that were done before, in a resumed run.
        """
        if self.begun:
            self.done = done
            return
        self.begun, self.optimizer = True, 0
        self.before = self.done = done
        self.folder, self.given = folder, (model, optimizer)
        self.count_optimizer_steps()
        self.look()

    @safely
    def step(self) -> None:
        """Mark the end of a step."""
        if not self.begun:
            return
        if not self.told:
            self.told, self.done = True, self.before  # the optimizer's steps don't count
            self.stop_waiting()
        if self.session is not None and self.active:
            self.session.step()
        self.done += 1
        self.look()

    @safely
    def end(self, error: BaseException | None = None) -> None:
        """Stop, and write the snapshot. `error`: the exception that ended the training."""
        self.begun = False
        if self.hook is not None:
            self.hook.remove()
            self.hook = None
        self.stop_waiting()
        self.close(error)

    @safely
    def handle_signals(self) -> None:
        """Write a snapshot on SIGUSR1 from now on, if the framework has set its own handlers."""
        self.signals = True
        if self.session is not None and self.active and not self.session.on_signal:
            self.session.on_signal = True
            self.session.observe_signal()

    @safely
    def dump(self, path: str | None = None) -> str | None:
        """Write a snapshot now, and continue. Return its path; None if nothing is recorded."""
        if self.session is None or not self.active:
            return None
        return self.session.dump(path or beside(self.session.wanted, ".now"))

    def __enter__(self) -> Recording:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(error)

    # --- the window of steps ----------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether the next step is to be recorded."""
        first, last = self.options.steps or (0, 2**62)
        return first <= self.done + 1 <= last

    def look(self) -> None:
        """Begin or end the session before the next step."""
        if self.wanted and not self.active:
            self.open()
        elif not self.wanted and self.active:
            self.close(None)

    def open(self) -> None:
        """Start recording, if this rank is wanted."""
        torch, _ = find_torch()
        ranks = None if torch is None else ranks_of(torch)
        rank = (ranks or ranks_of_environment())[0] or 0
        if self.options.ranks is not None and rank not in self.options.ranks:
            return
        model, optimizer = self.given
        self.given = None, None  # found when they run, if there's another recording
        wanted = Wanted(
            self.free_path(ranks),
            model=model,
            optimizer=optimizer,
            stacks=self.options.stacks,
            max_entries=self.options.max_entries,
            source=self.options.source,
            holders=self.options.holders,
            every=self.options.every,
            continuous=self.options.continuous,
            pinned=self.options.pinned,
            on_signal=self.signals,
            overwrite=self.options.overwrite,
            at_end=not self.options.oom_only,
        )
        try:
            self.session = Session(wanted).__enter__()
        except MemreplayError as error:
            self.begun = False
            log(WARNING, f"nothing is recorded: {error}")

    def close(self, error: BaseException | None) -> None:
        if self.session is not None and self.active:
            self.session.__exit__(None if error is None else type(error), error, None)

    def free_path(self, ranks: tuple[int, int] | None) -> str:
        """Return the path to write, which doesn't exist yet, or is replaced."""
        path = self.options.path or os.path.join(self.folder, NAME)
        if not is_url(path):
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        try:
            checked(own_path(path, ranks))
        except MemreplayError as error:
            if is_url(path):
                raise
            other = os.path.join(temporary(), os.path.basename(path) or NAME)
            log(WARNING, f"{error}; snapshots are written to {other}")
            path = other
        tries, count = path, 0
        while own_path(tries, ranks) in self.names or (
            not self.options.overwrite and exists(own_path(tries, ranks))
        ):
            count += 1
            tries = beside(path, f"-{count}")
        self.names.add(own_path(tries, ranks))
        return tries

    # --- steps of optimizers ----------------------------------------------------------------------

    def count_optimizer_steps(self) -> None:
        """Count steps by the first optimizer that steps, unless the program marks them itself."""
        if self.told or find_torch()[0] is None:
            return
        # torch.optim deletes the name of this module
        optimizers = sys.modules.get("torch.optim.optimizer")
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register is not None and self.hook is None:
            self.hook = register(self.optimizer_stepped)

    @safely
    def optimizer_stepped(self, optimizer: Any, *_: Any) -> None:
        self.optimizer = self.optimizer or id(optimizer)
        if self.told or not self.begun or id(optimizer) != self.optimizer:
            return
        self.done += 1
        if self.wanted != self.active and self.waiting is None:
            # PyTorch is calling the optimizer's hooks, and none can be added or removed now. So
            # the recording begins or ends when the next step runs a module.
            modules = import_module("torch.nn.modules.module")
            self.waiting = modules.register_module_forward_pre_hook(self.module_called)

    @safely
    def module_called(self, module: Any, *_: Any) -> None:
        self.stop_waiting()
        self.given = self.given[0] or module, self.given[1]
        self.look()

    def stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.remove()
            self.waiting = None


def marked(options: dict[str, Any]) -> Recording:
    """Return a recording whose steps the caller marks, even if optimizers step more often."""
    found = Recording(**options)
    found.told = True
    return found
