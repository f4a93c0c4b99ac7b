"""Tests of noted.py: a slice keeps only the notes on its own events."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from typing import Any

import memreplay as mr
from memreplay.export.snapshots.cutting import cut
from tests import build
from tests.holding import held, with_holders
from tests.unit.snapshot.test_recorded import simple, u4


def own(data: bytes) -> Any:
    return pickle.loads(data)["memreplay"]


def sliced(whole: Any, *, strip: Any = None, min_bytes: int = 0, **range_: Any) -> bytes:
    snap = mr.open(build.dump(whole), **range_)
    return b"".join(cut(snap, strip=strip, min_bytes=min_bytes)[1])


def numbers(text: str, item: int = 4) -> list[int]:
    plain = zlib.decompress(base64.b64decode(text))
    return [int.from_bytes(plain[i : i + item], "little") for i in range(0, len(plain), item)]


def test_source_lines_follow_their_frames() -> None:
    whole = simple()
    whole["memreplay"]["source_lines"] = lines = {"a.py": {"3": "x = y"}}
    assert own(sliced(whole, start=3))["source_lines"] == lines
    assert own(sliced(whole, strip="plumbing"))["source_lines"] == lines
    assert "source_lines" not in own(sliced(whole, strip="all"))


def test_holders_are_of_the_end_of_the_recording() -> None:
    whole = with_holders(simple(), (held("losses[…]"),), {0x1000: 0})
    assert own(sliced(whole, start=3))["holders"] == whole["memreplay"]["holders"]
    assert "holders" not in own(sliced(whole, stop=2))
    assert "holders" in own(sliced(whole, strip="plumbing"))
    assert "holders" not in own(sliced(whole, strip="all"))  # they name code


def test_moment_of_the_holders_moves_with_its_event() -> None:
    whole = with_holders(simple(), (held("losses[…]"),), {0x1000: 0})
    whole["memreplay"]["holders"]["events"] = [3]
    assert own(sliced(whole))["holders"]["events"] == [3]
    assert own(sliced(whole, stop=3))["holders"]["events"] == [3]
    assert own(sliced(whole, start=3))["holders"]["events"] == [0]
    assert "holders" not in own(sliced(whole, stop=2))
    whole["memreplay"]["holders"]["events"] = "x"
    assert "holders" not in own(sliced(whole))


def test_kinds_and_modules_are_those_of_the_remaining_events() -> None:
    whole = simple()
    found = own(sliced(whole, start=3))["allocations"]
    assert [numbers(one) for one in found["events"]] == [[2]]
    assert numbers(found["kinds"]) == [1, 0, 0, 2, 1, 1]
    assert found["modules"] == ["GPT", "GPT.0"]
    assert found["categories"] == whole["memreplay"]["allocations"]["categories"]
    # Memory allocated by an earlier event is carried over.
    assert numbers(found["before"]["addresses"], 8) == [0x1000]
    assert numbers(found["before"]["kinds"]) == [1]
    # Only one of the two kinds is left.
    found = own(sliced(whole, start=3, min_bytes=40))["allocations"]
    assert [numbers(one) for one in found["events"]] == [[]]
    assert numbers(found["kinds"]) == [1, 0, 0]
    assert found["modules"] == ["GPT"]


def test_carried_over_notes_are_kept() -> None:
    found = own(sliced(simple()))["allocations"]
    assert numbers(found["before"]["addresses"], 8) == [0x3000]
    assert numbers(found["before"]["kinds"]) == [2]
    # The block's free isn't in the range, so the slice starts with an event for the block.
    found = own(sliced(simple(), stop=1))["allocations"]
    assert [numbers(one) for one in found["events"]] == [[2, 1]]
    assert numbers(found["before"]["addresses"], 8) == []


def test_many_kinds_do_not_outgrow_a_small_slice() -> None:
    whole = simple()
    noted = whole["memreplay"]["allocations"]
    count = 20_000
    trace = whole["device_traces"][0]
    whole["device_traces"][0] = [dict(event) for _ in range(count) for event in trace]
    noted["modules"] = [f"GPT.{i}" for i in range(count)]
    noted["kinds"] = u4(*(n for i in range(count) for n in (1, 0, i)))
    noted["events"] = [u4(*(n for i in range(count) for n in (i + 1, 0, 0, i + 1)))]
    data = sliced(whole, start=4 * count - 4)
    snap = mr.open(data)
    assert snap.recorded is not None
    assert len(own(data)["allocations"]["modules"]) < 5
    assert len(data) < 10_000


def test_steps_are_those_of_the_remaining_events() -> None:
    whole = simple()
    whole["memreplay"]["steps"] = [[0, 1, 3, 4]]
    assert own(sliced(whole))["steps"] == [[0, 1, 3, 4]]
    assert own(sliced(whole, start=1))["steps"] == [[0, 2, 3]]
    # The slice starts with one event for the live set.
    assert own(sliced(whole, stop=1))["steps"] == [[1, 2]]
    for steps in ([["x", None, 2.5, 2**70, -1, 2]], ["no"], [], [[2], [3]]):
        whole["memreplay"]["steps"] = steps
        assert own(sliced(whole))["steps"] in ([[2]], [[]])
    whole["memreplay"]["steps"] = "no list"
    assert "steps" not in own(sliced(whole))


def test_other_notes_are_kept() -> None:
    whole = simple()
    whole["memreplay"] |= {"host": "here", "cards": [{"total_bytes": 5}]}
    found = own(sliced(whole, start=2, strip="all"))
    assert (found["host"], found["cards"]) == ("here", [{"total_bytes": 5}])
    del whole["memreplay"]["allocations"]
    assert own(sliced(whole)) == {"host": "here", "cards": [{"total_bytes": 5}]}
    assert json.dumps(own(sliced(whole)))
