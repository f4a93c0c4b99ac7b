"""Valid pickles of dicts that aren't structured like a snapshot."""

from __future__ import annotations

from typing import Any

from memreplay import LimitError, SnapshotError
from tests import build
from tests.conformance.cases import (
    BLOCK,
    EVENT,
    FRAME,
    SEGMENT,
    Reject,
    block,
    event,
    segment,
    trace,
)

_OTHERS: list[Any] = [{"name": 5}]  # these aren't frames, although they have all of a frame's keys
_TEXTS = ["a", "b"]


def _type(snapshot: Any, key: str) -> Reject:
    return Reject(
        build.dump(snapshot), SnapshotError, rf"'{key}' has a value of the wrong type \(byte \d+"
    )


def _number(snapshot: Any, key: str) -> Reject:
    return Reject(
        build.dump(snapshot), SnapshotError, rf"a number that does not fit in '{key}' \(byte \d+"
    )


def _shape(snapshot: Any, what: str) -> Reject:
    return Reject(build.dump(snapshot), SnapshotError, f"not built like a memory snapshot: {what}")


CASES: dict[str, Reject] = {
    "segments are a dict": _type({"segments": {}}, "segments"),
    "segments are numbers": _type({"segments": [1]}, "segments"),
    "segments are lists": _type({"segments": [[SEGMENT]]}, "segments"),
    "traces are a dict": _type({"device_traces": {}}, "device_traces"),
    "traces are None": _type({"device_traces": None}, "device_traces"),
    "traces are dicts": _type({"device_traces": [EVENT]}, "device_traces"),
    "events are texts": _type(trace("alloc"), "device_traces"),
    "annotations are a text": _type(trace(external_annotations="x"), "external_annotations"),
    "an annotation is a text": _type(trace(external_annotations=["x"]), "external_annotations"),
    "an action is a number": _type(event(action=1), "action"),
    "an address is a text": _type(event(addr="0x7f"), "addr"),
    "a size is a float": _type(event(size=1.0), "size"),
    "a size is None": _type(event(size=None), "size"),
    "a time is a text": _type(event(time_us="noon"), "time_us"),
    "a stream is a list": _type(event(stream=[]), "stream"),
    "frames are a text": _type(event(frames="f"), "frames"),
    "frames are a tuple of texts": _type(event(frames=("f",)), "frames"),
    "frames are a tuple of frames and none": _type(event(frames=(FRAME, 1)), "frames"),
    "frames are a tuple of lists": _type(event(frames=([FRAME],)), "frames"),
    "frames are a pair": _type(event(frames=(1, 2)), "frames"),
    "frames are unknown data": _type(event(new=_OTHERS, frames=_OTHERS), "frames"),
    "frames are unknown texts": _type(event(new=_TEXTS, frames=_TEXTS), "frames"),
    "a frame is unknown data": _type(event(new=_OTHERS[0], frames=_OTHERS), "frames"),
    "events are a tuple": _type({"device_traces": [(EVENT,)]}, "device_traces"),
    "traces are a tuple": _type({"device_traces": ([EVENT], [])}, "device_traces"),
    "segments are a tuple": _type({"segments": (SEGMENT, SEGMENT)}, "segments"),
    "blocks are a tuple": _type(segment(blocks=(BLOCK,)), "blocks"),
    "a history is a tuple": _type(block(history=({"real_size": 1},)), "history"),
    "a frame is a text": _type(event(frames=["f"]), "frames"),
    "a second frame is a number": _type(event(frames=[FRAME, 5]), "frames"),
    "a line is a text": _type(event(frames=[{"line": "5"}]), "line"),
    "a function is a number": _type(event(frames=[{"name": 5}]), "name"),
    "a pool of three": _type(event(pool_id=(0, 0, 0)), "pool_id"),
    "a pool of one, as a list": _type(event(pool_id=[0]), "pool_id"),
    "a pool of texts": _type(event(pool_id=("0", "1")), "pool_id"),
    "a segment's device is a text": _type(segment(device="cuda"), "device"),
    "blocks are a dict": _type(segment(blocks={}), "blocks"),
    "blocks are numbers": _type(segment(blocks=[7]), "blocks"),
    "a state is a number": _type(block(state=1), "state"),
    "a history is a text": _type(block(history="x"), "history"),
    "a history entry is a text": _type(block(history=["x"]), "history"),
    "a size below zero": _number(event(size=-1), "size"),
    "a size of 2**62": _number(event(size=2**62), "size"),
    "an address of 65 bits": _number(event(addr=2**64), "addr"),
    "a time of 64 bits": _number(event(time_us=2**63), "time_us"),
    "a device of 32 bits": _number(segment(device=2**31), "device"),
    "a block below zero": _number(block(size=-512), "size"),
    "a segment without address": _shape({"segments": [{"total_size": 1}]}, "a segment without"),
    "a segment without size": _shape({"segments": [{"address": 1}]}, "a segment without"),
    "a time that is no number": _number(event(time_us=float("nan")), "time_us"),
    "a time without end": _number(event(time_us=float("inf")), "time_us"),
    "a time of 1e19": _number(event(time_us=1e19), "time_us"),
    "a time of an annotation that is no number": _number(
        trace(external_annotations=[{"time_us": float("nan")}]), "time_us"
    ),
    "an event seen before": _shape(
        {"new": EVENT, "device_traces": [[EVENT]]}, "a part that was under an unknown key"
    ),
    "events seen before": _shape(
        {"new": [EVENT], "device_traces": [[EVENT]]}, "a part that was under an unknown key"
    ),
    "a segment seen before": _shape(
        {"new": SEGMENT, "segments": [SEGMENT]}, "a part that was under an unknown key"
    ),
    "blocks seen before": _shape(
        {"new": SEGMENT["blocks"], "segments": [SEGMENT]}, "a part that was under an unknown key"
    ),
    "a segment twice": _shape({"segments": [SEGMENT] * 2}, "a segment that is listed twice"),
    "a block twice": _shape(segment(blocks=[BLOCK] * 2), "a block that is listed twice"),
    "a trace of two devices": _shape(
        {"device_traces": [[EVENT]] * 2}, "a trace that two devices share"
    ),
    "metadata without end": Reject(
        build.dump(event(user_metadata=["x" * 70_000, 1])), LimitError, "bytes of one metadata is"
    ),
}
