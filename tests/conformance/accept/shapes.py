"""Snapshots with few keys, many keys, and unknown keys."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
    "frames are a tuple of none": event(frames=()),
    **{
        f"frames are a tuple of {n}": event(frames=tuple({"name": str(i)} for i in range(n)))
        for n in range(1, 6)
    },
    "frames of a block are a tuple": block(frames=(FRAME, FRAME)),
    "frames of a segment are a tuple": segment(frames=(FRAME,)),
    "a time of a fraction": event(time_us=1_700_000_000_000_000.75),
    "a time below zero, of a fraction": event(time_us=-1.5),
    "a time as a whole float": trace({**EVENT, "time_us": 5.0}, {**EVENT, "time_us": 6}),
    "a time of an annotation as a float": trace(external_annotations=[{"time_us": 7.5}]),
    "one frame many times": event(frames=[FRAME] * 2_500),
    "many events": trace(*({"action": "alloc", "addr": i, "size": i} for i in range(2_001))),
    "a batch of a thousand": trace(*({"action": "alloc", "addr": i} for i in range(1_000))),
    "many blocks": segment(blocks=[{**BLOCK, "address": 4096 + i} for i in range(1_001)]),
}


def _text(snapshot: Any) -> bytes:
    return build.dump(snapshot, 0)


_FRAMES: list[dict[str, Any]] = [FRAME, {"name": "g", "filename": "b.py", "line": 9}]
_NO_FRAMES: list[Any] = []
_BY_NUMBER = {i: {"name": str(i)} for i in range(3)}

# Objects that appear twice, first under an unknown key.
_SHARED: dict[str, Any] = {
    "frames seen before": event(new=_FRAMES[0], frames=_FRAMES),
    "frames seen before, in a dict": event(new={"a": {"b": _FRAMES[1], "c": 1}}, frames=_FRAMES),
    "frames seen before, in a set of keys": event(new=_BY_NUMBER, frames=list(_BY_NUMBER.values())),
    "a frames list seen before": event(new=_FRAMES, frames=_FRAMES),
    "a frames list seen before, many events": {
        "new": {"stacks": [_FRAMES, _FRAMES[:1]], "more": _FRAMES},
        **trace(*[{**EVENT, "frames": _FRAMES} for _ in range(300)]),
    },
    "frames seen before by other traces": {
        "host_traces": [[{"action": "alloc", "frames": [f]} for f in _FRAMES]],
        **trace(*[{**EVENT, "frames": [f]} for f in _FRAMES * 40]),
    },
    "an empty frames list seen before": event(new=_NO_FRAMES, frames=_NO_FRAMES),
    "a frame of nothing seen before": event(new=_NO_FRAMES, frames=[_BY_NUMBER]),
    "a tuple of frames seen before": event(new=[tuple(_FRAMES)], frames=tuple(_FRAMES)),
    "an event twice": trace(*[{**EVENT, "frames": _FRAMES, "time_us": 5}] * 3),
    "an event among others": trace(EVENT, {"action": "oom", "device_free": 7}, EVENT, {}, EVENT),
    "an oom twice": trace(*[EVENT, {"action": "oom", "size": 1, "device_free": 7}] * 3),
    "an event of two devices": {"device_traces": [[EVENT, EVENT], [EVENT], [{}, EVENT]]},
    "an event many times": trace(*[EVENT] * 2_500),
}

_TAGGED = functools.partial(build.dump_cpp, tagged=True)
_WRITERS: dict[str, Callable[[Any], bytes]] = {
    **{f"protocol {p}": functools.partial(build.dump, protocol=p) for p in range(6)},
    "C++": build.dump_cpp,
    "C++, tagged": _TAGGED,
}

CASES: dict[str, bytes] = {
    **{
        f"{name} ({writer})": dump(snapshot)
        for name, snapshot in _SHARED.items()
        for writer, dump in _WRITERS.items()
    },
    **{
        f"{name} ({writer})": dump(build.unshare(snapshot))
        for name, snapshot in _ALL.items()
        for writer, dump in (
            ("Python", build.dump),
            ("protocol 0", _text),
            ("C++", build.dump_cpp),
            ("C++, tagged", _TAGGED),
        )
        if not ("C++" in writer and "address" in name)  # the C++ pickler only writes signed numbers
    },
}
