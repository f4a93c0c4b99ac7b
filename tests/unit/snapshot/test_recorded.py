"""Tests of snapshot/recorded.py: the recorder's notes, none of which are trusted."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.trust.trust import device_verdict, verdict
from memreplay.commands.peak.find import peak_report
from memreplay.commands.peak.text import peak_document
from memreplay.commands.summary.find import summarize
from memreplay.commands.summary.text import summary_document
from memreplay.export.snapshots.cutting import cut
from memreplay.render.plain import render_plain
from memreplay.render.reasons import REASONS
from memreplay.snapshot.model import By
from memreplay.snapshot.recorded import SPARE, UNKNOWN, packed
from tests import build
from tests.build import SnapshotBuilder
from tests.strategies import column

WAYS: tuple[By, ...] = ("category", "phase", "module")


def u4(*numbers: int) -> str:
    return column(np.array(numbers, "<u4"))


def simple() -> Any:
    """Build two allocations and a carried-over block."""
    builder = SnapshotBuilder().alloc(0x1000, 64).free(0x3000, 8).alloc(0x2000, 32)
    whole = builder.finish_segments().build()
    whole["memreplay"] = {
        "allocations": {
            "categories": ["", "activations", "gradients"],
            "phases": ["forward", "backward"],
            "modules": ["", "GPT", "GPT.0"],
            "kinds": u4(1, 0, 1, 2, 1, 2),
            "events": [u4(1, 0, 0, 2)],
            "before": {"addresses": column(np.array([0x3000], "<u8")), "kinds": u4(2)},
        }
    }
    assert [one["action"] for one in whole["device_traces"][0]] == [
        "alloc",
        "free_requested",
        "free_completed",
        "alloc",
    ]
    return whole


def opened(whole: Any) -> mr.Snapshot:
    return mr.open(build.dump(whole))


def test_notes_give_the_kinds_of_allocations() -> None:
    snap = opened(simple())
    assert snap.recorded is not None
    assert snap.recorded_flaw == ""
    assert [one.tolist() for one in snap.recorded.kinds] == [[1, 2], [0, 1], [1, 2]]
    replay = snap.replay(0)
    assert snap.recorded.of_events(replay).tolist() == [0, UNKNOWN, UNKNOWN, 1]
    assert snap.recorded.of_carried(replay).tolist() == [1]
    assert "notes_disagree" not in device_verdict(snap, replay).reasons
    # For a range, the kinds of earlier events' allocations are known as well.
    part = mr.open(build.dump(simple()), start=3)
    assert part.recorded is not None
    assert part.recorded.of_events(part.replay(0)).tolist() == [1]
    assert part.recorded.of_carried(part.replay(0)).tolist() == [0]


def test_file_without_notes_has_no_flaw() -> None:
    whole = simple()
    others: list[Any] = [None, {}, {"recorder": "dryrun"}, [], "x", 3]
    for key in others:
        whole["memreplay"] = key
        snap = opened(whole)
        assert (snap.recorded, snap.recorded_flaw) == (None, "")


def put(*path: Any) -> Callable[[Any], None]:
    """Replace the value at this path in the notes."""

    def change(whole: Any) -> None:
        *keys, last, value = path
        at = whole["memreplay"]["allocations"]
        for key in keys:
            at = at[key]
        at[last] = value

    return change


def without(*path: Any) -> Callable[[Any], None]:
    def change(whole: Any) -> None:
        at = whole["memreplay"]["allocations"]
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return change


def more_events(whole: Any) -> None:
    whole["device_traces"][0].append(dict(whole["device_traces"][0][0]))


def fewer_events(whole: Any) -> None:
    del whole["device_traces"][0][0]


def another_device(whole: Any) -> None:
    whole["device_traces"].append([dict(event) for event in whole["device_traces"][0]])


MANY = column(np.zeros(SPARE + 1_000, "<u8"))
FLAWS: dict[str, tuple[Callable[[Any], None], str]] = {
    "no form": (lambda whole: whole["memreplay"].update(allocations=[1]), "the recorder's format"),
    "no categories": (without("categories"), "the recorder's format"),
    "categories that are no list": (put("categories", "abc"), "the recorder's format"),
    "a category that is no text": (put("categories", 1, None), "the recorder's format"),
    "no kinds": (without("kinds"), "the recorder's format"),
    "no before": (without("before"), "the recorder's format"),
    "bytes": (put("kinds", [1, 2, 3]), "the recorder's format"),
    "no base64": (put("kinds", "!!!!"), "damaged"),
    "not of ASCII": (put("kinds", "é" * 8), "damaged"),
    "not packed": (put("kinds", base64.b64encode(b"abcdefgh").decode()), "damaged"),
    "packed and cut off": (
        put("events", 0, base64.b64encode(zlib.compress(b"\0" * 16)[:-3]).decode()),
        "damaged",
    ),
    "half a number": (put("events", 0, base64.b64encode(zlib.compress(b"123")).decode()), "damag"),
    "two of three": (put("kinds", u4(1, 0)), "different lengths"),
    "kinds too many": (put("kinds", u4(*range(3 * (SPARE + 50)))), "more rows than events"),
    "addresses too many": (put("before", "addresses", MANY), "more rows than events"),
    "an address more": (put("before", "kinds", u4(1, 2)), "different lengths"),
    "a category that is not there": (put("kinds", u4(3, 0, 0)), "an unknown category"),
    "a module that is not there": (put("kinds", u4(0, 0, 2**32 - 1)), "an unknown category"),
    "a kind that is not there": (put("events", 0, u4(3, 0, 0, 0)), "an unknown kind"),
    "the highest kind": (put("before", "kinds", u4(2**32 - 1)), "an unknown kind"),
    "events that are no list": (put("events", {}), "no event columns"),
    "a column that is none": (put("events", 0, 7), "the recorder's format"),
    "no column": (put("events", []), "no notes on device 0"),
    "a short column": (put("events", 0, u4(1)), "1 events of device 0, which has 4"),
    "a long column": (put("events", 0, u4(1, 0, 0, 2, 0)), "more rows than events"),
    "events more": (more_events, "4 events of device 0, which has 5"),
    "events fewer": (fewer_events, "more rows than events"),
    "a device more": (another_device, "no notes on device 1"),
}


@pytest.mark.parametrize("name", FLAWS)
def test_inconsistent_notes_are_reported_and_kinds_guessed(name: str) -> None:
    change, words = FLAWS[name]
    whole = simple()
    change(whole)
    snap = opened(whole)
    assert snap.recorded is None
    assert words in snap.recorded_flaw
    plain = copy.deepcopy(whole)
    del plain["memreplay"]
    replay = snap.replay(0)
    found = verdict(snap, replay.measure("requested"))
    other = opened(plain)
    there = verdict(other, other.replay(0).measure("requested"))
    assert set(found.reasons) - set(there.reasons) == {"notes_disagree"}
    assert (found.trusted, found.exact) == (there.trusted, there.exact)
    # Reports mention the flaw, and otherwise match those on a file without notes.
    for by in WAYS:
        report = peak_report(snap, by=by, top=0)
        groups = peak_report(other, by=by, top=0).devices[0].groups
        assert report.devices[0].groups == groups
        said = " ".join(render_plain(peak_document(report), width=100).split())
        assert REASONS["notes_disagree"].what in said
    said = " ".join(render_plain(summary_document(summarize(snap)), width=100).split())
    assert REASONS["notes_disagree"].what in said
    # A slice drops unreadable notes.
    sliced = pickle.loads(b"".join(cut(snap)[1]))
    assert "allocations" not in sliced["memreplay"]


def test_last_of_duplicate_addresses_counts() -> None:
    whole = simple()
    addresses = column(np.array([0x3000, 0x3000], "<u8"))
    whole["memreplay"]["allocations"]["before"] = {"addresses": addresses, "kinds": u4(2, 1)}
    snap = opened(whole)
    assert snap.recorded is not None
    assert snap.recorded.of_carried(snap.replay(0)).tolist() == [1]


def test_decompression_bomb_takes_no_memory() -> None:
    whole = simple()
    bomb = base64.b64encode(zlib.compress(b"\0" * (64 << 20), 9)).decode()
    for key in ("kinds", "events"):
        whole["memreplay"]["allocations"][key] = [bomb] if key == "events" else bomb
        snap = opened(whole)
        tracemalloc.start()
        assert snap.recorded is None
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 2 << 20
        whole = simple()


def test_columns_are_packed_like_the_recorders() -> None:
    from memreplay.io.packing import as_text

    numbers = np.arange(100, dtype="<u4")
    assert packed(numbers.data) == as_text(numbers.tobytes())


# --- arbitrary values anywhere in the notes -------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from([u4(), u4(0), u4(1, 1, 1), u4(9, 9), column(np.array([0x1000], "<u8"))]),
    st.sampled_from(["\x1b[31m", "\0", "a\nb", "unknown", "(in no module)"]),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.dictionaries(st.text(max_size=3), inside, max_size=3)
    ),
    max_leaves=5,
)


def places(of: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to each value, and to each nested one."""
    inside = of.items() if isinstance(of, dict) else enumerate(of) if isinstance(of, list) else ()
    return [path, *(place for key, value in inside for place in places(value, (*path, key)))]


@given(st.data())
def test_any_value_in_any_field_is_tolerated(data: st.DataObject) -> None:
    whole = simple()
    whole["memreplay"] |= {"steps": [[1, 2]], "cards": [{"total_bytes": 1 << 30}]}
    holder = {"key": whole["memreplay"]}
    for place in data.draw(st.lists(st.sampled_from(places(holder)[1:]), min_size=1, max_size=2)):
        at: Any = holder
        try:
            for key in place[:-1]:
                at = at[key]
            at[place[-1]] = data.draw(ANYTHING)
        except (KeyError, IndexError, TypeError):
            continue
    whole["memreplay"] = holder["key"]
    for form in (build.dump(whole), json.dumps(whole).encode()):
        snap = mr.open(form)
        assert (snap.recorded is None) or not snap.recorded_flaw
        assert snap.recorded_flaw.isprintable()
        assert snap.card_bytes(0) is None or snap.card_bytes(0)
        for by in WAYS:
            report = peak_report(snap, by=by, top=0)
            device = report.devices[0]
            assert sum(group.bytes for group in device.groups) == device.peak_bytes
            assert "\x1b" not in render_plain(peak_document(report), width=100)
        again = mr.open(b"".join(cut(snap)[1]))
        assert again.recorded_flaw == ""


def test_recorders_failures_become_a_note() -> None:
    whole = simple()
    whole["memreplay"]["failures"] = [
        {"doing": "noting a parameter", "error": "ValueError: no", "count": 3},
        *({}, None, {"count": "x"}, {"count": True}),  # from an edited file
    ]
    snap = opened(whole)
    assert snap.recorder_failures == (("noting a parameter", "ValueError: no", 3),)
    found = verdict(snap, snap.replay(0).measure("requested"))
    there = opened(simple())
    before = verdict(there, there.replay(0).measure("requested"))
    assert set(found.reasons) - set(before.reasons) == {"recorder_failed"}
    assert (found.trusted, found.exact) == (before.trusted, before.exact)
    said = " ".join(render_plain(summary_document(summarize(snap)), width=100).split())
    assert REASONS["recorder_failed"].what in said
    assert opened({**simple(), "memreplay": {"failures": 5}}).recorder_failures == ()
