"""Infer the PyTorch version of a snapshot from its keys, and list non-default settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

# CUDAAllocatorConfig's defaults, named as in torch.cuda.memory._snapshot()["allocator_settings"].
# Settings not listed are off by default.
DEFAULTS: dict[str, object] = {
    "max_split_size": -1,
    "max_round_threshold": -1,
    "max_cached_size": -1,
    "garbage_collection_threshold": 0.0,
    "pinned_num_register_threads": 1,
}
# Keys that describe the recording, not the allocator.
RECORDING = frozenset({"trace_alloc_overflowed", "trace_alloc_max_entries"})


def generation(snap: Snapshot) -> str:
    """Describe which version of PyTorch wrote the file, based on keys that later versions added."""
    if snap.backend.written_by is not None:
        return snap.backend.written_by
    if "bare_list" in snap.traits:
        return "PyTorch, version unknown (a bare list of segments)"
    if "history" in snap.traits:
        return "PyTorch 2.0"
    if "user_metadata" in snap.traits:
        return "PyTorch 2.10 or later"
    if "compile_context" in snap.traits:
        return "PyTorch 2.7 or later"
    if snap.has_annotations:
        return "PyTorch 2.5 or later"
    if snap.kept("settings") is not None:
        return "PyTorch 2.3 or 2.4"
    if snap.has_times:
        # The other keys come after the traces, so truncated files lack them.
        return "PyTorch 2.1 or 2.2" if snap.truncation is None else "PyTorch 2.1 or later"
    return "PyTorch, version unknown"


def changed_settings(settings: dict[str, object]) -> dict[str, object]:
    """Return settings that differ from PyTorch's defaults."""
    return {
        name: value
        for name, value in settings.items()
        if name not in RECORDING and not _is_default(name, value)
    }


def _is_default(name: str, value: object) -> bool:
    if name in DEFAULTS:
        return value == DEFAULTS[name]
    if isinstance(value, dict):
        return not any(value.values())
    return not value
