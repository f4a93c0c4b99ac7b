"""Start and stop all parts of the recorder that note what a program's allocations are for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from memreplay.engine.record import _tracker
from memreplay.recording.distributed import Distributed
from memreplay.recording.guarding import Guard, from_a_signal
from memreplay.recording.listening import listen
from memreplay.recording.modules import Modules
from memreplay.recording.optimizers import Optimizers
from memreplay.recording.steps import Steps
from memreplay.recording.tensors import Addresses
from memreplay.recording.writing import noted

_active: list[Noting] = []  # the running instance, if any; a process has only one tracker


class Given(NamedTuple):
    """The models and optimizers that the program named."""

    models: Iterable[Any] = ()
    optimizers: Iterable[Any] = ()


NONE = Given()


class Noting:
    """Notes what allocations are for, from construction until `stop`.

    Parameters
    ----------
    torch : module
        PyTorch.
    kind : str
        The kind of device: "cuda" or "xpu".
    keep : int, optional
        How many events PyTorch keeps. Allocations that were freed before these are forgotten.
    given : Given, optional
        Models and optimizers that already exist; others are found when they run.
    """

    def __init__(
        self,
        torch: Any,
        kind: str,
        *,
        keep: int | None = None,
        given: Given = NONE,
        guard: Guard | None = None,
    ) -> None:
        # During a dry run, notes are taken until the program starts its own recording.
        for other in tuple(_active):
            other.stop()
        self.guard = guard or Guard(torch)
        self.steps = Steps()
        self.keep = 2**62 if keep is None else keep
        self.why_not = ""
        """Why nothing can be noted; empty if it can."""
        try:
            self.begin(torch, kind, given)
        except Exception as error:
            if from_a_signal(error):
                self.stop()
                raise
            self.why_not = f"memreplay doesn't know this version of PyTorch ({error})"
            self.stop()
        except BaseException:
            self.stop()
            raise

    def begin(self, torch: Any, kind: str, given: Given) -> None:
        """Start all listeners. Raises PyTorch's own error if its version isn't as expected."""
        _tracker.begin(self.keep)
        self.why_not = listen(torch)
        addresses = Addresses(torch, kind, self.guard)
        self.modules = Modules(torch, addresses, self.guard)
        self.optimizers = Optimizers(torch, self.modules, self.steps)
        self.distributed = Distributed(addresses)
        self.modules.before = self.distributed.look
        if self.why_not:
            return
        _active.append(self)
        self.modules.install()
        self.optimizers.install()
        self.distributed.look()
        self.give(given)

    def give(self, given: Given) -> None:
        """Look at models and optimizers that the program named."""
        if self.why_not:
            return
        for model in given.models:
            self.guard.run("looking at a model", self.modules.root, model)
        if self.modules.roots:
            _tracker.resume()  # the program has finished starting up
        for optimizer in given.optimizers:
            self.optimizers.look_at(optimizer)

    def look(self) -> int:
        """Mark everything again before PyTorch's traces are read.

        Returns how many allocations are certain to be in the traces or to predate them.
        """
        if not self.why_not:
            self.guard.run("looking for models and optimizers", self.optimizers.mark_all)
            self.guard.run("looking at models", self.modules.mark_all)
        return _tracker.noted()

    def found(self, traces: list[list[dict[str, Any]]], sure: int) -> dict[str, Any]:
        """Return the notes for these traces, or an empty dict. `sure`: the result of `look`."""
        found: dict[str, Any] = {}
        if not self.why_not and self in _active:
            found = self.guard.run("finding what was noted", self.noted, traces, sure) or {}
        failures = self.guard.failures()
        return {**found, "failures": failures} if failures else found

    def noted(self, traces: list[list[dict[str, Any]]], sure: int) -> dict[str, Any]:
        found = noted(traces, sure, self.modules.names, self.steps.ends(), self.keep)
        return {**found, "steps_told": True} if self.steps.told else found

    def stop(self) -> None:
        """Stop taking notes and restore PyTorch."""
        if self in _active:
            _active.remove(self)
        for listening in ("modules", "optimizers", "distributed"):
            if hasattr(self, listening):
                getattr(self, listening).remove()
        _tracker.end()
