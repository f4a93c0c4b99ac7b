"""`memreplay.estimate(…)`: the memory of a training step, on a machine without any GPU.

The program runs with fake tensors, which have shapes and no memory.
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
from memreplay.recording.writing import checked, noted, write
from memreplay.snapshot.brief import html_table, value_words
from memreplay.snapshot.snapshot import Snapshot
from memreplay.snapshot.snapshot import open as open_snapshot

# What a prompt shows; the snapshot is long.
_SHOWN = ("peak_bytes", "categories", "phases", "modules", "steps")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a program would take on a GPU: requested bytes. Made by `memreplay.estimate`."""

    peak_bytes: int
    """The highest that all tensors had together."""
    categories: Mapping[str, int]
    """The bytes of each category at the peak, the largest first."""
    phases: Mapping[str, int]
    """The same by what the program was at when it made them."""
    modules: Mapping[str, int]
    """The same by module; "" is none."""
    steps: tuple[int, ...]
    """The peak of each step."""
    snapshot: dict[str, Any] = field(repr=False)
    """As PyTorch's `_snapshot()` has it, and what was noted (docs/format.md)."""

    def __repr__(self) -> str:
        said = (f"{name}={value_words(getattr(self, name))}" for name in _SHOWN)
        return f"Estimate({', '.join(said)})"

    def _repr_html_(self) -> str:
        return html_table("Estimate", [(name, getattr(self, name)) for name in _SHOWN])

    def open(self) -> Snapshot:
        """It as memreplay reads it, for `memreplay.peak` and the like."""
        return open_snapshot(pickle.dumps(self.snapshot))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the snapshot, packed if the name ends with `.gz`, `.zst`, `.xz` or `.bz2`. Raises
        UsageError where a file is there already, unless `overwrite` is true."""
        name = checked(os.fspath(path))
        if not overwrite and os.path.lexists(name):
            raise UsageError(f"{name} already exists; pass overwrite=True to replace it")
        write(name, self.snapshot, overwrite=overwrite)


def estimate(
    make: Callable[[], Any],
    *,
    steps: int = 2,
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Estimate:
    """What a training step would take on a GPU; none is needed, and no CUDA.

    Parameters
    ----------
    make : callable
        Makes the model and the optimizer, and returns a function that runs one step. One that
        returns nothing is the whole program.
    steps : int, optional
        How many steps to run. In the first the optimizer has no state yet.
    path : path, optional
        Where to write the snapshot.
    overwrite : bool, optional
        Whether it may write over a file that is there.

    Raises
    ------
    UsageError
        For a program that needs values, which fake tensors have not, or tensors from outside.
    """
    if steps < 1:
        raise UsageError("steps: 1 or more")
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
    """`with memreplay.estimating() as run:` all tensors in it are fake. `run.estimate()` says what
    they would take."""

    path = "an estimate"  # what a recorder calls it

    def __init__(self) -> None:
        self.steps = Steps()
        self.undo = contextlib.ExitStack()
        self.found: Estimate | None = None

    def __enter__(self) -> estimating:
        if session._active:
            raise UsageError(f"a recording goes on already, to {session._active[0].path}")
        torch, why = find_torch()
        if torch is None:
            raise UsageError(f"memreplay.estimate needs PyTorch, and {why}")
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

        if sys.platform not in ("linux", "darwin"):  # else the phases would be wrong
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
                f"the program needs values, which fake tensors have not: {error}"
            ) from error

    def step(self) -> None:
        """A step of the program ends here. If it is never called, a step ends where the optimizer
        has stepped; of several, the one that steps most often."""
        self.steps.tell()

    def ran_out(self) -> None:
        """A session's; of fake tensors there is always enough."""

    def estimate(self) -> Estimate:
        """What there was until now; after the end, until then."""
        if self.storages.on:
            self.found = estimate_of(self.snapshot())
        assert self.found is not None
        return self.found

    def snapshot(self) -> dict[str, Any]:
        self.guard.run("looking for models and optimizers", self.optimizers.again)
        self.guard.run("looking at models", self.modules.again)
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
    """The figures of a snapshot, as memreplay reads them."""
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
    """Files and folders whose frames are no part of a program's stacks."""
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
    """What sees each operator, and what sees Python's functions before it."""
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
    """Storages whose memory is given back and taken again, as FSDP2 does."""
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
