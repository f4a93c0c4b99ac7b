"""memreplay: exact replays of PyTorch memory snapshots, without torch and without a GPU.

    import memreplay as mr

    snap = mr.open("snap.pkl")
    peak = snap.replay(device=0).peak      # bytes, event_index, time_us

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself takes longer to load than all of this package's start

if TYPE_CHECKING:
    from memreplay.errors import (
        LimitError,
        MemreplayError,
        MissingExtraError,
        NothingToTellError,
        SnapshotError,
        TruncatedError,
        UnsafePickleError,
        UsageError,
    )
    from memreplay.export.tables import Table
    from memreplay.io.limits import Limits
    from memreplay.io.version import __version__
    from memreplay.snapshot.model import Frame, Lifetimes, LiveSet, PeakPoint
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot, open  # noqa: A004
    from memreplay.snapshot.usage import Usage

_HOME = {
    "LimitError": "errors",
    "MemreplayError": "errors",
    "MissingExtraError": "errors",
    "NothingToTellError": "errors",
    "SnapshotError": "errors",
    "TruncatedError": "errors",
    "UnsafePickleError": "errors",
    "UsageError": "errors",
    "Frame": "snapshot.model",
    "Lifetimes": "snapshot.model",
    "Limits": "io.limits",
    "LiveSet": "snapshot.model",
    "PeakPoint": "snapshot.model",
    "Replay": "snapshot.replay",
    "Usage": "snapshot.usage",
    "Snapshot": "snapshot.snapshot",
    "__version__": "io.version",
    "open": "snapshot.snapshot",
}

__all__ = [
    "Frame",
    "Lifetimes",
    "LimitError",
    "Limits",
    "LiveSet",
    "MemreplayError",
    "MissingExtraError",
    "NothingToTellError",
    "PeakPoint",
    "Replay",
    "Snapshot",
    "SnapshotError",
    "TruncatedError",
    "UnsafePickleError",
    "Usage",
    "UsageError",
    "__version__",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'memreplay' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"memreplay.{_HOME[name]}")
    if _HOME[name] == "snapshot.snapshot":
        vars(module)["make_table"] = _table
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def _table(snapshot: Snapshot, name: str, *, flat: bool = False) -> Table:
    """What `Snapshot.table` gives; loaded when one is asked for."""
    from memreplay.export.tables import table

    return table(snapshot, name, flat=flat)


def __dir__() -> list[str]:
    return sorted(__all__)
