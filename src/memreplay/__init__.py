"""memreplay: exact replays of PyTorch memory snapshots, without torch and without a GPU.

    import memreplay as mr

    snap = mr.open("snap.pkl")
    peak = snap.replay(device=0).peak          # bytes, event_index, time_us
    report = mr.peak(snap, by="file", top=5)   # who held it, like `memreplay peak`

Names are imported lazily, so that importing the package is cheap.
"""

from __future__ import annotations

# Maps each public name to its module, and to its name in that module if it differs.
_HOME = {
    "Estimate": "recording.estimate",
    "Filters": "analysis.selecting.selection",
    "Frame": "snapshot.model",
    "Lifetimes": "snapshot.model",
    "LimitError": "errors",
    "Limits": "io.limits",
    "LiveSet": "snapshot.model",
    "MemreplayError": "errors",
    "MissingExtraError": "errors",
    "Moment": "snapshot.model",
    "NothingToTellError": "errors",
    "PageView": "snapshot.page_view",
    "PeakPoint": "snapshot.model",
    "Replay": "snapshot.replay",
    "Rule": "analysis.categories.rules",
    "Selection": "analysis.selecting.selection",
    "Snapshot": "opening",
    "SnapshotError": "errors",
    "TruncatedError": "errors",
    "UnsafePickleError": "errors",
    "Usage": "snapshot.replay",
    "UsageError": "errors",
    "When": "snapshot.model",
    "__version__": "io.version",
    "allocations": "commands.allocations.find:allocations_report",
    "at": "commands.at.find:at_report",
    "baseline": "analysis.comparing.baseline:baseline_of",
    "diff": "commands.diff.find:diff_report",
    "estimate": "recording.estimate",
    "estimating": "recording.estimate",
    "fleet": "commands.fleet.calling",
    "fragmentation": "commands.fragmentation.find:fragmentation_report",
    "gate": "gating.calling",
    "leaks": "commands.leaks.find:leaks_report",
    "modules": "commands.modules.find:modules_report",
    "oom": "commands.oom.find:oom_report",
    "open": "opening",
    "peak": "commands.peak.find:peak_report",
    "plan": "commands.plan.find:plan_report",
    "record": "recording.recorder:Recorder",
    "report": "commands.report.find:overview",
    "segments": "commands.fragmentation.segments_find:segments_report",
    "retold": "snapshot.retold:retold",
    "simulate": "commands.simulate.find:simulate_report",
    "steps": "commands.steps.find:steps_report",
    "summary": "commands.summary.find:summarize",
    "table": "export.tables.building",
    "timeline": "commands.timeline.find:timeline_report",
    "to_json": "commands.result_json",
    "view": "commands.view.find",
}

__all__ = [
    "Estimate",
    "Filters",
    "Frame",
    "Lifetimes",
    "LimitError",
    "Limits",
    "LiveSet",
    "MemreplayError",
    "MissingExtraError",
    "Moment",
    "NothingToTellError",
    "PageView",
    "PeakPoint",
    "Replay",
    "Rule",
    "Selection",
    "Snapshot",
    "SnapshotError",
    "TruncatedError",
    "UnsafePickleError",
    "Usage",
    "UsageError",
    "When",
    "__version__",
    "allocations",
    "at",
    "baseline",
    "diff",
    "estimate",
    "estimating",
    "fleet",
    "fragmentation",
    "gate",
    "leaks",
    "modules",
    "oom",
    "open",
    "peak",
    "plan",
    "record",
    "report",
    "retold",
    "segments",
    "simulate",
    "steps",
    "summary",
    "table",
    "timeline",
    "to_json",
    "view",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'memreplay' has no attribute {name!r}")
    from importlib import import_module

    home, _, there = _HOME[name].partition(":")
    value: object = getattr(import_module(f"memreplay.{home}"), there or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: object) -> None:
    """Handle `%load_ext memreplay`, which adds commands for notebook cells (docs/notebooks.md)."""
    from memreplay.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Handle `%unload_ext memreplay`."""
    from memreplay.notebook.extension import unload

    unload(shell)
