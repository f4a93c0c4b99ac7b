"""generation: finding the PyTorch version from the keys, and listing settings that aren't its
defaults.
"""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.trust.generation import changed_settings, generation
from tests import build
from tests.build import SnapshotBuilder


def legacy() -> Any:
    builder = SnapshotBuilder()
    blocks = [builder.legacy_block(512, 9, history=[(1, 9, None)])]
    return builder.segment(1, 512, legacy=True, blocks=blocks).build()


def npu() -> Any:
    return SnapshotBuilder(times=False).alloc(1, 2).event("workspace_snapshot", 0, 3).build()


def with_settings() -> Any:
    return SnapshotBuilder().alloc(1, 2).settings(max_split_size=-1).build()


@pytest.mark.parametrize(
    "snapshot, words",
    [
        (SnapshotBuilder(compile_context="N/A", user_metadata="").alloc(1, 2).build(), "2.10"),
        (SnapshotBuilder(compile_context="0/0").alloc(1, 2).build(), "2.7"),
        (SnapshotBuilder().alloc(1, 2).annotation("a", "START").build(), "2.5"),
        (with_settings(), "2.3"),
        (SnapshotBuilder().alloc(1, 2).build(), "2.1"),
        (legacy(), "2.0"),
        (legacy()["segments"], "PyTorch, version unknown (a bare list of segments)"),
        (npu(), "torch_npu"),
        (SnapshotBuilder(times=False).alloc(1, 2).build(), "unknown"),
    ],
)
def test_keys_identify_the_allocator_version(snapshot: Any, words: str) -> None:
    data = dict(snapshot) if isinstance(snapshot, dict) else snapshot
    if isinstance(data, dict) and not data.get("external_annotations"):
        data.pop("external_annotations", None)
    assert words in generation(mr.open(build.dump(data)))


def test_changed_settings_are_listed() -> None:
    settings: dict[str, object] = {
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "max_split_size": -1,
        "max_round_threshold": -1,  # PyTorch 2.15
        "max_cached_size": -1,
        "garbage_collection_threshold": 0.0,
        "expandable_segments": False,
        "pinned_num_register_threads": 1,
        "roundup_power2_divisions": {"1": 0, "2": 0},
        "something_new": False,
        "trace_alloc_max_entries": 100,
    }
    assert changed_settings(settings) == {}
    changed = {
        "max_split_size": 134217728,
        "expandable_segments": True,
        "roundup_power2_divisions": {"1": 0, "2": 8},
        "something_new": "on",
    }
    assert changed_settings({**settings, **changed}) == changed
