"""`memreplay.estimate(…)`: estimate a training step's memory without a GPU.

The program runs on fake tensors, which have shapes but no memory.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace, TracebackType
from typing import Any

from memreplay.engine.record import _tracker
from memreplay.errors import UsageError
from memreplay.recording import session
from memreplay.recording.distributed import Distributed
from memreplay.recording.estimate_devices import Devices, as_on_a_gpu
from memreplay.recording.estimate_kernels import Kernels, as_a_gpu_does
from memreplay.recording.estimate_storages import FakeAddresses, Storages
from memreplay.recording.facts import run_facts
from memreplay.recording.guarding import Guard
from memreplay.recording.listening import ask_autograd
from memreplay.recording.modules import Modules
from memreplay.recording.optimizers import Optimizers
from memreplay.recording.steps import Steps
from memreplay.recording.torch_here import find_torch
from memreplay.recording.writing import Replacing, checked, noted, write
from memreplay.snapshot.brief import html_table, value_text
from memreplay.snapshot.snapshot import Snapshot
from memreplay.snapshot.snapshot import open as open_snapshot

# The fields that the repr shows. The snapshot is left out because it would be too long.
_SHOWN = ("peak_bytes", "categories", "phases", "modules", "steps")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A program's estimated GPU memory in requested bytes, as returned by `memreplay.estimate`."""

    peak_bytes: int
    """The peak of all tensors' total size."""
    categories: Mapping[str, int]
    """Bytes per category at the peak, largest first."""
    phases: Mapping[str, int]
    """Bytes per phase at the peak, largest first."""
    modules: Mapping[str, int]
    """Bytes per module at the peak, largest first; "" for memory outside modules."""
    steps: tuple[int, ...]
    """Each step's peak."""
    snapshot: dict[str, Any] = field(repr=False)
    """PyTorch's `_snapshot()` with memreplay's notes (docs/format.md)."""

    def __repr__(self) -> str:
        said = (f"{name}={value_text(getattr(self, name))}" for name in _SHOWN)
        return f"Estimate({', '.join(said)})"

    def _repr_html_(self) -> str:
        return html_table("Estimate", [(name, getattr(self, name)) for name in _SHOWN])

    def open(self) -> Snapshot:
        """Open the snapshot for `memreplay.peak` and other queries."""
        return open_snapshot(pickle.dumps(self.snapshot))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the snapshot, compressed if the name ends with `.gz`, `.zst`, `.xz` or `.bz2`.

        Raises UsageError if the file exists, unless `overwrite` is true.
        """
        name = checked(os.fspath(path))
        if not overwrite and os.path.lexists(name):
            raise UsageError(f"{name} already exists; pass overwrite=True to replace it")
        write(name, self.snapshot, replacing=Replacing(overwrite))


def estimate(
    make: Callable[[], Any],
    *,
    steps: int = 2,
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Estimate:
    """Estimate a training step's GPU memory; needs neither a GPU nor CUDA.

    Parameters
    ----------
    make : callable
        Creates the model and optimizer, and returns a function that runs one step. It may also run
        the whole program itself and return None.
    steps : int, optional
        Number of steps to run. In the first one, the optimizer has no state yet.
    path : path, optional
        Where to write the snapshot.
    overwrite : bool, optional
        Replace an existing file.

    Raises
    ------
    UsageError
        If the program needs tensor values, which fake tensors lack, or uses tensors created outside
        `make`.
    """
    if steps < 1:
        raise UsageError("steps must be at least 1")
    if path is not None and not overwrite and os.path.lexists(checked(os.fspath(path))):
        raise UsageError(f"{os.fspath(path)} already exists; pass overwrite=True to replace it")
    with estimating() as run:
        step = make()
        if callable(step):
            for _ in range(steps):
                step()
        found = run.estimate()
    if path is not None:
        found.save(path, overwrite=overwrite)
    return found


class estimating:  # noqa: N801 - as it is called
    """`with memreplay.estimating() as run:` makes tensors fake; `run.estimate()` returns the
    result.
    """

    path = "an estimate"  # shown in place of a recording's path

    def __init__(self) -> None:
        self.steps = Steps()
        self.undo = contextlib.ExitStack()
        self.found: Estimate | None = None

    def __enter__(self) -> estimating:
        if session._active:
            raise UsageError(f"already recording, to {session._active[0].path}")
        torch, why = find_torch()
        if torch is None:
            raise UsageError(f"memreplay.estimate needs PyTorch, and {why}")
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

        if sys.platform not in ("linux", "darwin"):  # on other systems, phases would be wrong
            raise UsageError("memreplay.estimate needs Linux or macOS")
        self.torch = torch
        with contextlib.ExitStack() as undo:
            ask_autograd(torch, os.path.dirname(torch.__file__))
            _tracker.begin(2**62)
            undo.callback(_tracker.end)
            self.storages = Storages(unseen(torch))
            undo.callback(setattr, self.storages, "on", False)
            devices = Devices(torch, FakeTensor, self.storages)
            self.guard = Guard(torch)
            addresses = FakeAddresses(torch, self.storages, self.guard)
            self.modules = Modules(torch, addresses, self.guard)
            undo.callback(self.modules.remove)
            self.optimizers = Optimizers(torch, self.modules, self.steps)
            undo.callback(self.optimizers.remove)
            distributed = Distributed(addresses)
            undo.callback(distributed.remove)
            self.modules.before = distributed.look
            self.modules.install()
            self.optimizers.install()
            distributed.look()
            mode = FakeTensorMode(allow_non_fake_inputs=True)
            undo.enter_context(as_on_a_gpu(torch, FakeTensor, mode, devices))
            undo.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
            undo.enter_context(resized(torch, self.storages))
            undo.enter_context(mode)
            undo.enter_context(as_a_gpu_does(torch))
            for one in modes(torch, devices, self.storages):
                undo.enter_context(one)
            session._active.append(self)  # type: ignore[arg-type]
            undo.callback(session._active.remove, self)  # type: ignore[arg-type]
            self.undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.estimate()
        finally:
            self.undo.close()
        if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException"):
            raise UsageError(
                f"the program needs tensor values, which fake tensors don't have: {error}"
            ) from error

    def step(self) -> None:
        """Mark the end of a step.

        If this is never called, a step ends when the optimizer steps; with several optimizers, the
        one that steps most often decides.
        """
        self.steps.tell()

    def ran_out(self) -> None:
        """Do nothing, because fake tensors can't run out of memory."""

    def estimate(self) -> Estimate:
        """Return the estimate up to now, or if the block has ended, up to its end."""
        if self.storages.on:
            self.found = estimate_of(self.snapshot())
        assert self.found is not None
        return self.found

    def snapshot(self) -> dict[str, Any]:
        self.guard.run("looking for models and optimizers", self.optimizers.mark_all)
        self.guard.run("looking at models", self.modules.mark_all)
        sure = _tracker.noted()
        place = self.storages.place()
        events = list(self.storages.events[place])
        return {
            "segments": self.storages.segments(place),
            "device_traces": [events],
            "allocator_settings": {},
            "external_annotations": [],
            "memreplay": {
                **({"failures": failures} if (failures := self.guard.failures()) else {}),
                **run_facts(self.torch, SimpleNamespace(device_count=int), None),
                "recorder": "estimate",
                "host": platform.node(),
                "python": platform.python_version(),
                **noted([events], sure, self.modules.names, self.steps.ends(), sys.maxsize),
            },
        }


def estimate_of(snapshot: dict[str, Any]) -> Estimate:
    """Compute a snapshot's figures with memreplay's own reports."""
    from memreplay.analysis.groups.grouping import Grouper

    snap = open_snapshot(pickle.dumps(snapshot))
    if not snap.devices:
        return Estimate(0, {}, {}, {}, (), snapshot)
    usage = snap.replay().measure("requested")
    peak = usage.peak
    of = {}
    for by in ("category", "phase", "module"):
        groups, *_ = Grouper(snap, by).groups(usage, peak.event_index, 0)
        of[by] = {group.label: group.bytes for group in groups}
    ends = snapshot["memreplay"]["steps"][0]
    series = usage.series
    peaks = [int(series[a:b].max()) for a, b in zip([0, *ends], ends, strict=False) if b > a]
    return Estimate(peak.bytes, of["category"], of["phase"], of["module"], tuple(peaks), snapshot)


def unseen(torch: Any) -> tuple[str, ...]:
    """Return the files and folders whose frames are left out of stacks."""
    folder = os.path.dirname(torch.__file__)
    inside = (
        "_compile.py",
        "_decomp",
        "_dynamo",
        "_library",
        "_meta_registrations.py",
        "_ops.py",
        "_prims",
        "_refs",
        "_subclasses",
        "overrides.py",
        "utils/_device.py",
        "utils/_python_dispatch.py",
        "utils/_stats.py",
    )
    return (
        os.path.join(os.path.dirname(__file__), "estimate"),
        *(os.path.join(folder, *one.split("/")) for one in inside),
    )


def modes(torch: Any, devices: Devices, storages: Storages) -> tuple[Any, Any]:
    """Return two modes: one intercepts operators; the other intercepts Python functions, before the
    operators run.
    """
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    kernels = Kernels(torch)
    without = torch._C.DisableTorchFunction
    tensor = torch.Tensor

    class Operators(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            with without():
                kwargs = kwargs or {}
                flat = [one for one in tree_leaves((args, kwargs)) if isinstance(one, tensor)]
                result, place = devices.operator(func, args, kwargs, flat)
                least = kernels.least(func, args)
                for one in tree_leaves(result):
                    if isinstance(one, tensor) and devices.counts(one):
                        storages.see(one.untyped_storage(), place, least)
                workspace = kernels.workspace(func, args)
                if workspace:
                    storages.pass_by(workspace, place)
                return result

    class Functions(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            return devices.function(func, args, kwargs or {})

    seen = Functions()
    devices.again = lambda: seen
    return Operators(), seen


@contextlib.contextmanager
def resized(torch: Any, storages: Storages) -> Any:
    """Follow storages that are freed and resized in place, as FSDP2 does."""
    theirs = torch.UntypedStorage.resize_

    def resize(storage: Any, size: int) -> Any:
        result = theirs(storage, size)
        block = storages.known(storage)
        if block is not None:
            storages.see(storage, block.place)
        return result

    torch.UntypedStorage.resize_ = resize
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = theirs
