"""strip: a slice without some frames matches Python's slice of the whole snapshot without them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.write._slicing import Excerpt, Pickled, Stripped
from tests import build
from tests.strategies import traces

FX = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")


def excerpts(snap: mr.Snapshot, stripped: Stripped | None) -> list[Excerpt]:
    return [
        Excerpt(snap.replay(device).holding, None, None, stripped, 0) for device in snap.devices
    ]


def sliced(snap: mr.Snapshot, stripped: Stripped | None) -> Any:
    from array import array

    pickled = Pickled(snap.native, excerpts(snap, stripped), stripped, array("I"), [], 9)
    made = pickle.loads(b"".join(pickled))
    # The leading events depend on which stacks are equal; test_excerpt.py covers this.
    made["device_traces"] = [
        [event for event in trace if "memreplay_carried" not in event]
        for trace in made["device_traces"]
    ]
    return made


def without(value: Any, keep: Any) -> Any:
    """Return the same data with each list of frames reduced to those that `keep` accepts or, if
    there are none, to its first frame.
    """
    if isinstance(value, dict):
        return {
            key: (
                [frame for frame in item if keep is not None and keep(frame)]
                or (item[:1] if keep is not None else [])
                if key == "frames"
                else without(item, keep)
            )
            for key, item in value.items()
        }
    return [without(item, keep) for item in value] if isinstance(value, list) else value


@given(snapshot=traces(max_events=20), data=st.data())
def test_chosen_frames_are_removed(snapshot: Any, data: st.DataObject) -> None:
    snap = mr.open(build.dump(snapshot))
    n = len(snap.frames)
    drop = bytes(data.draw(st.lists(st.sampled_from([0, 0, 1, 255]), min_size=n, max_size=n)))
    kept = set()
    for i in range(n):
        frame = snap.frame(i)
        if not drop[i]:
            traced = (snap.text(int(getattr(snap.frames, key)[i])) for key in FX)
            kept.add((frame.function, frame.file, frame.line, *traced))
    whole = sliced(snap, None)
    found = sliced(snap, Stripped(snap.native, drop))

    def keep(f: Any) -> bool:
        traced = (f.get(key, "") for key in FX)
        return (f["name"], f["filename"], f["line"], *traced) in kept

    assert found == without(whole, keep)
    assert sliced(snap, Stripped(snap.native, bytes(n))) == whole


@given(snapshot=traces(max_events=20))
def test_all_frames_are_removed(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    stripped = Stripped(snap.native, None)
    assert stripped.tables is snap.native
    assert sliced(snap, stripped) == without(sliced(snap, None), None)


def test_stacks_equal_after_removal_are_written_once() -> None:
    frames = [("a", "a.py", 1), ("b", "b.py", 2), ("c", "c.py", 3)]
    builder = build.SnapshotBuilder().alloc(1, 1, frames=frames[:2]).alloc(2, 1, frames=frames[1:])
    snap = mr.open(build.dump(builder.alloc(3, 1, frames=frames[1:2]).build()))
    names = [snap.frame(i).function for i in range(len(snap.frames))]
    drop = bytes(name in "ac" for name in names)
    first, second, third = sliced(snap, Stripped(snap.native, drop))["device_traces"][0]
    assert first["frames"] is second["frames"] is third["frames"]
    assert [frame["name"] for frame in first["frames"]] == ["b"]


@pytest.mark.parametrize("by", [-1, 1])
def test_drop_needs_one_byte_per_frame(by: int) -> None:
    builder = build.SnapshotBuilder().alloc(1, 1, frames=[("a", "a.py", 1), ("b", "b.py", 2)])
    snap = mr.open(build.dump(builder.build()))
    with pytest.raises(ValueError, match="drop needs one byte per frame"):
        Stripped(snap.native, bytes(len(snap.frames) + by))
