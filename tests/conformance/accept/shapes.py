"""Snapshots with little, with much, and with what nobody knows."""

from __future__ import annotations

from typing import Any

from tests import build
from tests.conformance.cases import BLOCK, EVENT, FRAME, SEGMENT, block, event, segment, trace

_ALL: dict[str, Any] = {
    "nothing in it": {"segments": [], "device_traces": []},
    "segments only": {"segments": [SEGMENT]},
    "traces only": {"device_traces": [[EVENT]]},
    "a bare list": [SEGMENT],
    "a bare empty list": [],
    "devices without events": {"segments": [], "device_traces": [[], [EVENT], [], []]},
    "traces before segments": {"device_traces": [[EVENT]], "segments": [SEGMENT]},
    "an event of nothing": trace({}),
    "a segment of little": {"segments": [{"address": 1, "total_size": 2}]},
    "a block of nothing": segment(blocks=[{}]),
    "a frame of nothing": event(frames=[{}]),
    "no annotations": trace(EVENT, external_annotations=None),
    "frames are None": event(frames=None),
    "time is None": event(time_us=None),
    "pool as a list": event(pool_id=[0, 1]),
    "pool of a segment as a list": segment(segment_pool_id=[0, 1]),
    "stream of 64 bits": event(stream=2**64 - 512),
    "address of 64 bits": event(addr=2**63 + 512),
    "signed address": event(addr=-4096),
    "an action nobody knows": trace({**EVENT, "action": "defragment"}),
    "metadata of all kinds": event(user_metadata={"a": [1, 2.5, None, True, {"b": []}, "x"]}),
    "keys nobody knows": {
        "new": {"segments_like": [{"address": 1}], "n": (1, 2, 3)},
        **trace({**EVENT, "category": 3, "forward_frames": ["a", "b"]}),
        "host_segments": [{"address": 1, "blocks": [{"size": 1}]}],
        "host_traces": [[{"action": "alloc", "frames": [{"name": "f"}]}]],
    },
    "strings of any kind": event(frames=[{"filename": "/é/训练.py", "name": "\ud800", "line": -1}]),
    "2.0: history without frames": block(history=[{"addr": 1, "real_size": 3}]),
    "2.0: an empty history": block(history=[]),
    "a state nobody knows": block(state="melted"),
    "one frame many times": event(frames=[FRAME] * 2_500),
    "many events": trace(*({"action": "alloc", "addr": i, "size": i} for i in range(2_001))),
    "a batch of a thousand": trace(*({"action": "alloc", "addr": i} for i in range(1_000))),
    "many blocks": segment(blocks=[{**BLOCK, "address": 4096 + i} for i in range(1_001)]),
}


def _text(snapshot: Any) -> bytes:
    return build.dump(snapshot, 0)


CASES: dict[str, bytes] = {
    f"{name} ({writer})": dump(build.unshare(snapshot))
    for name, snapshot in _ALL.items()
    for writer, dump in (("Python", build.dump), ("protocol 0", _text), ("C++", build.dump_cpp))
    if not (writer == "C++" and "address" in name)  # it writes none but signed numbers
}
