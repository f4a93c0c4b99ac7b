"""Which PyTorch wrote a snapshot, judged by the keys it uses, and which settings are not its
defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

# CUDAAllocatorConfig's defaults, as torch.cuda.memory._snapshot()["allocator_settings"] spells
# them. Settings that are not listed are taken to be off by default.
DEFAULTS: dict[str, object] = {
    "max_split_size": -1,
    "max_round_threshold": -1,
    "max_cached_size": -1,
    "garbage_collection_threshold": 0.0,
    "pinned_num_register_threads": 1,
}
# About the recording, not about the allocator.
RECORDING = frozenset({"trace_alloc_overflowed", "trace_alloc_max_entries"})


def generation(snap: Snapshot) -> str:
    """Who wrote the file, in words for people: later keys tell later versions."""
    if snap.backend.written_by is not None:
        return snap.backend.written_by
    if "bare_list" in snap.traits:
        return "PyTorch (a list of segments, which doesn't show the version)"
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
        # Later keys stand behind the traces: of a file that is cut off, nobody knows.
        return "PyTorch 2.1 or 2.2" if snap.truncation is None else "PyTorch 2.1 or later"
    return "unknown (no keys that tell it)"


def changed_settings(settings: dict[str, object]) -> dict[str, object]:
    """Those allocator settings that differ from PyTorch's defaults."""
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
