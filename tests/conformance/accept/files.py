"""Whole files as each generation of writers produces them."""

from __future__ import annotations

from typing import Any

from tests import build
from tests.build import FrameSpec, SnapshotBuilder

STACK: list[FrameSpec] = [("empty", "??", 0), ("forward", "model.py", 7), ("main", "train.py", 3)]


def _recorded(**kind: Any) -> Any:
    builder = SnapshotBuilder(2, **kind)
    for device in range(2):
        builder.segment_alloc(2**40, 2**21, device, frames=STACK)
        for i in range(20):
            addr = 2**40 + 4096 * (i % 5)
            builder.alloc(addr, 1000 + i, device, frames=STACK[i % 3 :], pool_id=(0, 0))
            builder.free(addr, 1000 + i, device, frames=STACK[i % 3 :], pool_id=(0, 0))
        builder.alloc(2**40, 5, device, frames=STACK)
        builder.oom(2**30, 2**20, device, frames=STACK).snapshot_event(5, device)
    builder.finish_segments([(0, 2**44, 77)]).annotation("step", "START").annotation("step", "END")
    return builder.settings(expandable_segments=True, max_split_size=-1).build()


def _of_2_0() -> Any:
    builder = SnapshotBuilder()
    blocks = [
        builder.legacy_block(512, None, history=[(8192, 500, STACK[:1]), (8192, 400, None)]),
        builder.legacy_block(1024, 1000, "inactive"),
        builder.legacy_block(512, None),
    ]
    return builder.segment(8192, 2048, legacy=True, blocks=blocks).build()


def _of_npu() -> Any:
    builder = SnapshotBuilder(times=False).alloc(1, 2).event("workspace_snapshot", 0, 5)
    return builder.event("empty_cache", 0, 5).build()


_NOW = _recorded(compile_context="N/A", user_metadata="")

CASES: dict[str, bytes] = {
    **{f"protocol {p}": build.dump(_NOW, p) for p in range(6)},
    "by the C++ pickler": build.dump_cpp(_NOW),
    "by the C++ pickler, all memoised": build.dump_cpp(_NOW, memoise_all=True),
    "by the C++ pickler, tagged": build.dump_cpp(_NOW, tagged=True),
    "by the C++ pickler, tagged, all memoised": build.dump_cpp(_NOW, True, tagged=True),
    "by the C++ pickler, PyTorch 2.0, tagged": build.dump_cpp(_of_2_0(), tagged=True),
    "optimised by pickletools": build.dump_optimized(_NOW),
    "nothing shared": build.dump_unshared(_NOW),
    "no frames of bytes": build.unframe(build.dump(_NOW)),
    "a frame an opcode": build.reframe(build.dump(_NOW), 1),
    "lists of frames shared": build.dump(_recorded(shared_lists=True)),
    "no times": build.dump(_recorded(times=False)),
    "no stacks": build.dump(_recorded(stacks=False)),
    "fx fields": build.dump(_recorded(fx=True)),
    "metadata dicts": build.dump(_recorded(user_metadata={"step": "3", "rank": 0})),
    "PyTorch 2.0": build.dump(_of_2_0()),
    "PyTorch 2.0, segments only": build.dump(_of_2_0()["segments"], 2),
    "torch_npu": build.dump(_of_npu()),
    "followed by something else": build.dump(_NOW) + b"\x80\x04N.",
}
