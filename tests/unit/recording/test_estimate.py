"""Tests of estimates that don't need torch; the others are in tests/recording."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.engine.record import _tracker
from memreplay.errors import UsageError
from memreplay.recording.estimate import estimate_of
from memreplay.recording.estimate_kernels import listed
from memreplay.recording.estimate_storages import CARD, HOST, Stacks, Storages
from memreplay.recording.writing import noted


class Storage:
    """One of torch's storages."""

    def __init__(self, size: int) -> None:
        self.size = size

    def nbytes(self) -> int:
        return self.size


def events(storages: Storages, place: int) -> list[tuple[str, int]]:
    return [(one["action"], one["size"]) for one in storages.events[place]]


def test_storage_is_a_block_while_alive() -> None:
    storages = Storages(())
    one = Storage(1000)
    storages.see(one, CARD)
    storages.see(one, HOST)  # the storage stays on the card
    assert storages.place() == CARD
    assert events(storages, CARD) == [("segment_alloc", 1024), ("alloc", 1000)]
    (segment,) = storages.segments(CARD)
    assert (segment["total_size"], segment["requested_size"]) == (1024, 1000)
    address = segment["address"]
    one.size = 3000
    storages.see(one, CARD)
    one.size = 0
    storages.see(one, CARD)
    assert storages.segments(CARD) == []
    one.size = 10
    storages.see(one, HOST)
    del one
    ends = ["free_requested", "free_completed", "segment_free"]
    begins = ["segment_alloc", "alloc"]
    assert [name for name, _ in events(storages, CARD)] == (begins + ends) * 3
    again = Storage(513)
    storages.see(again, CARD)
    assert storages.segments(CARD)[0]["address"] == address
    assert events(storages, HOST) == []
    storages.on = False
    del again
    assert events(storages, CARD)[-1] == ("alloc", 513)


def test_storage_may_be_larger_than_its_reported_size() -> None:
    storages = Storages(())
    one = Storage(4)
    storages.see(one, HOST, least=4000)
    storages.see(one, HOST)
    storages.pass_by(77, HOST)
    sizes = [size for name, size in events(storages, HOST) if name == "alloc"]
    assert (sizes, storages.place()) == ([4000, 77], HOST)


def test_stacks_skip_internal_files() -> None:
    here = Stacks(()).now()
    assert here[0]["name"] == "test_stacks_skip_internal_files"
    assert here[0]["filename"] == __file__
    assert __file__ not in {frame["filename"] for frame in Stacks((str(Path(__file__)),)).now()}


def test_estimated_snapshot_has_the_tracked_sizes() -> None:
    _tracker.begin(1 << 62)
    try:
        storages = Storages(())
        one, two = Storage(1000), Storage(500)
        storages.see(one, CARD)
        end = storages.events[CARD][-1]["time_us"] + 1
        storages.events[CARD][-1]["time_us"] -= 1
        storages.see(two, CARD)
        for event in storages.events[CARD][2:]:
            event["time_us"] += 2
        trace = storages.events[CARD]
        own = noted([trace], _tracker.noted(), [""], [end, end + 10**9], 1000)
    finally:
        _tracker.end()
    found = estimate_of(
        {
            "segments": storages.segments(CARD),
            "device_traces": [trace],
            "memreplay": {"version": 1, "recorder": "estimate", **own},
        }
    )
    assert (found.peak_bytes, found.steps) == (1500, (1000, 1500))
    assert (found.categories, found.phases) == ({"other": 1500}, {"start": 1500})


HEADER = """
#define AT_FORALL_LOWER_PRECISION_FP(_)  \\
  _(_convolution, deprecated)            \\
  _(mm)

#define AT_FORALL_FP32(_) \\
  _(exp)

#define AT_FORALL_OTHER(_) \\
  _(nothing)
"""


def test_autocast_lists_are_read_from_a_header() -> None:
    assert list(listed(HEADER)) == [
        ("_convolution.deprecated", "lower"),
        ("mm", "lower"),
        ("exp", "float"),
    ]
    assert list(listed("")) == []


def test_wrong_usage_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there.pickle"
    there.write_bytes(b"")
    with pytest.raises(UsageError, match="steps must be at least 1"):
        mr.estimate(lambda: None, steps=0)
    with pytest.raises(UsageError, match="already exists"):
        mr.estimate(lambda: None, path=there)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="torch is not installed"):
        mr.estimate(lambda: None)
    assert there.read_bytes() == b""
