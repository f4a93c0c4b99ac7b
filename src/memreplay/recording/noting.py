"""What each allocation is for, noted while a program runs: all that listens, begun and ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memreplay.engine.record import _tracker
from memreplay.recording.distributed import Distributed
from memreplay.recording.guarding import Guard, from_a_signal
from memreplay.recording.listening import listen
from memreplay.recording.modules import Modules
from memreplay.recording.optimizers import Optimizers
from memreplay.recording.steps import Steps
from memreplay.recording.tensors import Addresses
from memreplay.recording.writing import noted

_active: list[Noting] = []  # one at most: there is one tracker in a process


class Noting:
    """Notes from when it is made until `stop`.

    Parameters
    ----------
    torch : module
        PyTorch.
    kind : str
        The kind of device: "cuda" or "xpu".
    keep : int, optional
        How many events PyTorch keeps: what ended before these is forgotten.
    models, optimizers : iterable
        Those that are there already; others are found when they run.
    """

    def __init__(
        self,
        torch: Any,
        kind: str,
        *,
        keep: int | None = None,
        models: Iterable[Any] = (),
        optimizers: Iterable[Any] = (),
        guard: Guard | None = None,
    ) -> None:
        for other in tuple(_active):  # a dry run notes, until the program does so by itself
            other.stop()
        self.guard = guard or Guard(torch)
        self.steps = Steps()
        self.keep = 2**62 if keep is None else keep
        self.why_not = ""
        """Why nothing can be noted, in words; empty where it is."""
        try:
            self.begin(torch, kind, models, optimizers)
        except Exception as error:
            if from_a_signal(error):
                self.stop()
                raise
            self.why_not = f"this PyTorch is not as memreplay knows it ({error})"
            self.stop()
        except BaseException:
            self.stop()
            raise

    def begin(
        self, torch: Any, kind: str, models: Iterable[Any], optimizers: Iterable[Any]
    ) -> None:
        """Listens to all that there is. Raises what a PyTorch raises that is not as expected."""
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
        for model in models:
            self.guard.run("looking at a model", self.modules.root, model)
        if self.modules.roots:
            _tracker.resume()  # the program is past its start
        for optimizer in optimizers:
            self.optimizers.look_at(optimizer)

    def look(self) -> int:
        """Looks at all that is known once more, before PyTorch's traces are taken; how many
        allocations are sure to be in them, or older."""
        if not self.why_not:
            self.guard.run("looking for models and optimizers", self.optimizers.again)
            self.guard.run("looking at models", self.modules.again)
        return _tracker.noted()

    def found(self, traces: list[list[dict[str, Any]]], sure: int) -> dict[str, Any]:
        """What was noted of these traces; `sure` as `look` has it. Empty if nothing was."""
        found: dict[str, Any] = {}
        if not self.why_not and self in _active:
            found = self.guard.run("finding what was noted", self.noted, traces, sure) or {}
        failures = self.guard.failures()
        return {**found, "failures": failures} if failures else found

    def noted(self, traces: list[list[dict[str, Any]]], sure: int) -> dict[str, Any]:
        found = noted(traces, sure, self.modules.names, self.steps.ends(), self.keep)
        return {**found, "steps_told": True} if self.steps.told else found

    def stop(self) -> None:
        """Notes no more, and leaves PyTorch as it was."""
        if self in _active:
            _active.remove(self)
        for listening in ("modules", "optimizers", "distributed"):
            if hasattr(self, listening):
                getattr(self, listening).remove()
        _tracker.end()
