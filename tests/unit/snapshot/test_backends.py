"""backends: finding a file's backend from its settings, stacks, blocks and trace."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.export.snapshots.cutting import cut
from memreplay.snapshot.backends import (
    CUDA,
    CUDA_2_0,
    NPU,
    NPU_UNPADDED,
    XPU,
    Backend,
    Evidence,
    likely,
)
from memreplay.snapshot.retold import retold
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, KIB, MIB, Settings, Stack

NOTHING = Evidence(frozenset(), False, frozenset(), 0, 0)
STACK: Stack = (("step", "/env/torch_npu/npu/memory.py", 1), ("main", "train.py", 2))
XPU_STACK: Stack = (("step", "/env/torch/xpu/memory.py", 1), ("main", "train.py", 2))


@pytest.mark.parametrize(
    "found, want",
    [
        (NOTHING, (CUDA, NPU)),  # no evidence; only the trace can tell
        (replace(NOTHING, plain=3), (CUDA,)),
        (replace(NOTHING, old=True), (CUDA_2_0, NPU)),
        (replace(NOTHING, old=True, plain=3), (CUDA_2_0,)),
        (replace(NOTHING, old=True, padded=3), (NPU,)),
        (replace(NOTHING, padded=3), (NPU,)),
        (replace(NOTHING, plain=1, padded=3), (NPU,)),
        (replace(NOTHING, settings=frozenset({"max_split_size"}), padded=3), (CUDA,)),
        (replace(NOTHING, settings=frozenset({NPU.variable})), (NPU, NPU_UNPADDED)),
        (replace(NOTHING, npu_actions=True), (NPU, NPU_UNPADDED)),
        (replace(NOTHING, code=frozenset({"/torch_npu/"})), (NPU, NPU_UNPADDED)),
        (replace(NOTHING, code=frozenset({"/torch/xpu/"})), (XPU,)),
        (replace(NOTHING, settings=frozenset({XPU.variable})), (XPU,)),
        (replace(NOTHING, noted="NPU", plain=3), (NPU,)),
        (replace(NOTHING, noted="NPU-unpadded", padded=3), (NPU_UNPADDED,)),
        (replace(NOTHING, noted="CUDA", npu_actions=True), (CUDA,)),
        (replace(NOTHING, noted="a toaster", padded=3), (NPU,)),
    ],
)
def test_evidence_gives_the_likely_backends(found: Evidence, want: tuple[Backend, ...]) -> None:
    assert likely(found) == want


def recorded(settings: Settings, *, freed: bool, stack: Stack = ()) -> dict[str, Any]:
    """Record small and large blocks side by side as torch_npu writes them, without settings and
    times; at the end, all or none of them are freed.
    """
    machine = Machine(settings)
    device = machine.devices[0]
    sizes = (512, 1000, 4 * KIB, 3 * MIB, 2 * MIB, 30 * MIB, 512 * KIB, 2 * MIB + 512, 64)
    blocks = [device.malloc(size, stack=stack) for size in sizes]
    for block in blocks[1::2]:
        assert block is not None
        device.free(block, stack)
    blocks[1::2] = [device.malloc(size, stack=stack) for size in sizes[1::2]]
    for block in blocks if freed else ():
        assert block is not None
        device.free(block, stack)
    snapshot, _ = machine.dump(event_pools=False)
    del snapshot["allocator_settings"]
    for event in snapshot["device_traces"][0]:
        del event["time_us"]
    return snapshot


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("freed", [False, True])
@pytest.mark.parametrize(
    "npu, stack, want",
    [
        (True, STACK, NPU),
        (True, (), NPU),  # shown by the blocks, or by the addresses in the trace
        (False, STACK, NPU_UNPADDED),  # newer chips
        (False, XPU_STACK, XPU),
        (False, (), CUDA),
    ],
)
def test_backend_is_recognized_by_stacks_blocks_or_the_trace(
    npu: bool, stack: Stack, want: Backend, freed: bool, expandable: bool
) -> None:
    settings = Settings(npu=npu, expandable_segments=expandable)
    snap = mr.open(build.dump(recorded(settings, freed=freed, stack=stack)))
    replay = snap.replay(0)
    assert snap.backend == replay.backend == want
    assert (replay.blocks.assumed, replay.blocks.misplaced, replay.blocks.end_misfits) == (0, 0, 0)
    assert replay.settings.expandable is expandable
    assert replay.recorded.reproduced
    assert replay.recorded.own.misplaced == 0


BY_BACKEND = {
    "cuda": (Settings(), (), CUDA),
    "npu": (Settings(npu=True), STACK, NPU),
    "npu by its blocks": (Settings(npu=True), (), NPU),
    "newer npu": (Settings(), STACK, NPU_UNPADDED),
    "xpu": (Settings(), XPU_STACK, XPU),
}


@pytest.mark.parametrize("freed", [False, True])
@pytest.mark.parametrize("kind", BY_BACKEND)
def test_backend_survives_export_without_stacks(kind: str, freed: bool) -> None:
    settings, stack, want = BY_BACKEND[kind]
    snap = mr.open(build.dump(recorded(settings, freed=freed, stack=stack)))
    found = snap.replay(0).simulate("max_split_size_mb:64")
    for one in (snap, retold(snap, {0: found})):
        again = mr.open(b"".join(cut(one, strip="all")[1]))
        assert again.backend == again.replay(0).backend == want
        assert again.replay(0).recorded.reproduced
        # Cut the file once more, so that hardly any evidence is left.
        last = mr.open(b"".join(cut(again, min_bytes=GIB)[1]))
        assert last.backend == want
    simulated = retold(snap, {0: found})
    assert simulated.settings[want.variable] == "max_split_size_mb:64"
    assert simulated.replay(0).settings == found.settings


@pytest.mark.parametrize("backend", [CUDA, XPU, NPU])
def test_settings_come_from_the_variable_of_the_backend(backend: Backend) -> None:
    made = build.SnapshotBuilder().build()
    made["segments"] = build.SnapshotBuilder().segment(2**40, MIB, blocks=[]).build()["segments"]
    made["allocator_settings"] = {backend.variable: "large_segment_size_mb:40"}
    assert mr.open(build.dump(made)).replay(0).settings.large_segment_bytes == 40 * MIB


@pytest.mark.parametrize("own", [{"backend": []}, {"backend": "?"}, [], {"a": [[]] * 200_000}])
def test_invalid_backend_note_is_ignored(own: object) -> None:
    made = {**recorded(Settings(npu=True), freed=False), "memreplay": own}
    assert mr.open(build.dump(made)).backend == NPU


def test_mixed_segments_do_not_show_that_expandable_segments_were_on() -> None:
    b = build.SnapshotBuilder().segment_alloc(2**40, 2 * MIB).segment_map(2**41, 2 * MIB)
    assert not mr.open(build.dump(b.build())).replay(0).settings.expandable


def test_file_without_events_or_segments_counts_as_cuda() -> None:
    assert mr.open(build.dump(build.SnapshotBuilder().build())).backend is CUDA
