"""Tests of analysis/comparing/baseline_reading.py: reading a baseline back, or rejecting it."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import UNSET

import memreplay as mr
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.baseline_reading import MAX_BYTES, is_baseline, parse_baseline
from memreplay.errors import SnapshotError
from memreplay.gating.base_lines import render_baseline
from tests import build
from tests.allocator_strategies import Recording, record, recordings
from tests.build import SnapshotBuilder


def written(recording: Recording) -> bytes:
    snap = mr.open(build.dump(recording.snapshot))
    return render_baseline(baseline_of(snap, top=3)).encode()


@given(recordings(max_steps=60))
def test_baseline_round_trips(recording: Recording) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    assume(snap.devices)
    for top in (0, 1):
        baseline = baseline_of(snap, top=top)
        text = render_baseline(baseline)
        assert text == render_baseline(baseline_of(snap, top=top))
        assert is_baseline(text.encode())
        assert parse_baseline(text.encode()) == baseline


def test_sums_larger_than_any_size_read_back() -> None:
    builder = SnapshotBuilder().segment_alloc(0, 2**62 - 7).segment_alloc(2**62, 2**61)
    baseline = baseline_of(mr.open(build.dump(builder.alloc(512, 9).build())))
    (reserved,) = (one for one in baseline.devices[0].peaks if one.measure == "reserved")
    assert reserved.bytes == 2**62 + 2**61 - 7
    assert parse_baseline(render_baseline(baseline).encode()) == baseline


def test_negative_device_of_a_segment_reads_back() -> None:
    segment = {"device": -1, "address": 1 << 21, "total_size": 1 << 21, "blocks": []}
    snap = mr.open(build.dump({"segments": [segment], "device_traces": [[]]}))
    baseline = baseline_of(snap, top=3)
    assert [one.device for one in baseline.devices] == [-1]
    assert parse_baseline(render_baseline(baseline).encode()) == baseline


WHOLE = json.loads(written(record(3, steps=80)))


def places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to every value in a JSON document."""
    inside: list[tuple[Any, ...]] = []
    if isinstance(found, dict):
        items = list(found.items())
    else:
        items = list(enumerate(found)) if isinstance(found, list) else []
    for key, value in items:
        inside += [(*path, key), *places(value, (*path, key))]
    return inside


PLACES = places(WHOLE)
ODD: tuple[object, ...] = (
    None,
    -1,
    2**62,
    1.5,
    True,
    False,
    "x",
    "held",
    [],
    {},
    [[]],
    "\ud800",
    10**19,
)


@given(st.sampled_from(PLACES), st.sampled_from(ODD), st.booleans())
def test_broken_baseline_is_a_one_line_error(
    path: tuple[Any, ...], odd: object, away: bool
) -> None:
    document = copy.deepcopy(WHOLE)
    at = document
    for key in path[:-1]:
        at = at[key]
    if away:
        del at[path[-1]]
    else:
        at[path[-1]] = odd
    refused = None
    try:
        found = parse_baseline(json.dumps(document).encode())
    except SnapshotError as error:
        refused = error
    if refused is None:
        # The changed file is still valid, so it reads back.
        assert parse_baseline(render_baseline(found).encode()) == found
    else:
        assert "\n" not in str(refused)
        assert len(str(refused)) < 300
        assert refused.exit_code == 3


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"schema": "memreplay.baseline/1"', "not valid JSON:"),
        (b'{"schema": "memreplay.baseline/1", "frames": ' + b"[" * 100_000, "not valid JSON:"),
        (b'{"schema": "memreplay.baseline/1", "x": ' + b"9" * 100_000 + b"}", "not valid JSON:"),
        (b'{"schema": "memreplay.peak/1"}', "this is 'memreplay.peak/1', not memreplay.bas"),
        (b'{"schema": "memreplay.baseline/2"}', "not memreplay.baseline/1"),
        (b'{"schema": "memreplay.baseline/1"}', "there is no `file`"),
        (b"[]", "not a JSON object"),
        (b" " * (MAX_BYTES + 1), "too long for a baseline"),
        (b'{"schema": "memreplay.\xff', "not valid JSON:"),
    ],
)
def test_error_says_how_to_save_a_baseline(data: bytes, words: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        parse_baseline(data)
    assert words in str(caught.value)
    assert "memreplay gate --save-base" in str(caught.value)


@pytest.mark.parametrize(
    "path, odd, words",
    [
        (("devices", 0, "device"), -2, "expected `int` >= -1, at devices[0].device"),
        (("devices", 0, "peaks", 1, "bytes"), 1.0, "got `float`, at devices[0].peaks[1].bytes"),
        (("devices", 0, "peaks", 1, "bytes"), 2**63, "int` <= 9223372036854775807, at devices[0]."),
        (("devices", 0, "peaks", 1, "count"), 2**62, "int` <= 4611686018427387903, at devices[0]."),
        (("devices", 0, "peaks", 1, "count"), float("nan"), "got `float`, at devices[0].peaks[1]."),
        (
            ("devices", 0, "peaks", 0, "groups", 0, "frames"),
            [9999],
            "a group refers to a frame that doesn't exist, at devices[0].peaks[0].groups[0]",
        ),
        (
            ("devices", 0, "peaks", 0, "groups", 0, "frames"),
            [-1],
            "expected `int` >= 0, at devices[0].peaks[0].groups[0].frames[0]",
        ),
        (
            ("devices", 0, "reasons"),
            {"day": []},
            "invalid enum value 'day', at key in devices[0].reasons",
        ),
        (("frames", 0), ["f", "a.py"], "expected `array` of length 3, got 2, at frames[0]"),
        (("measure",), "x\n" * 400, "invalid enum value 'x\\nx\\nx\\nx\\n"),
        (("measure",), "\ud800", "a key or measure contains an unpaired surrogate"),
    ],
)
def test_error_names_the_path_to_the_value(path: tuple[Any, ...], odd: object, words: str) -> None:
    document = copy.deepcopy(WHOLE)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    with pytest.raises(SnapshotError, match=re.escape(words)) as caught:
        parse_baseline(json.dumps(document).encode())
    assert len(str(caught.value)) < 300


def test_keys_of_later_versions_are_ignored() -> None:
    document = copy.deepcopy(WHOLE)
    document["later"] = document["devices"][0]["later"] = [float("inf")]
    document["devices"][0]["peaks"][0]["groups"][0]["later"] = {"x": None}
    assert parse_baseline(json.dumps(document).encode()) == parse_baseline(
        json.dumps(WHOLE).encode()
    )


def test_groups_must_add_up_to_the_peak() -> None:
    document = copy.deepcopy(WHOLE)
    document["devices"][0]["peaks"][0]["bytes"] += 1
    with pytest.raises(SnapshotError, match="the groups of a peak don't add up to the peak"):
        parse_baseline(json.dumps(document).encode())


@pytest.mark.parametrize(
    "given, words",
    [
        (None, "expected `object`, got `null`, at range"),
        ([], "expected `object`, got `array`, at range"),
        ({"start": 5}, "expected `object | null`, got `int`, at range.start"),
        ({"stop": {"kind": "day", "value": 1}}, "invalid enum value 'day', at range.stop.kind"),
        ({"stop": {"kind": ["event"], "value": 1}}, "got `array`, at range.stop.kind"),
        ({"start": {"kind": "event", "value": True}}, "got `bool`, at range.start.value"),
        ({"start": {"kind": "event", "value": 2**62}}, r"expected `int` <= \d+, at range.start.v"),
        (
            {"start": {"kind": "time", "value": -(2**62)}},
            r"expected `int` >= -\d+, at range.start.",
        ),
        ({"start": {"kind": "event"}}, "there is no `value`, at range.start"),
    ],
)
def test_invalid_range_is_rejected(given: object, words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        parse_baseline(json.dumps({**WHOLE, "range": given}).encode())


def test_range_may_be_missing() -> None:
    whole = {key: value for key, value in WHOLE.items() if key != "range"}
    assert parse_baseline(json.dumps(whole).encode()).range is UNSET


def test_baseline_is_distinguished_from_a_snapshot() -> None:
    assert is_baseline(json.dumps(WHOLE).encode())
    assert is_baseline(json.dumps(WHOLE, sort_keys=True, indent=4).encode())
    assert is_baseline(b' {"schema": "memreplay.baseline/9", broken')
    for data in (
        b"",
        b"{",
        b'{"segments": [], "device_traces": []}',
        b'{"segments": ["memreplay."]}',
        b'{"x": "memreplay.", ' + b"[" * 100_000,
        build.dump(record(1, steps=5).snapshot),
    ):
        assert not is_baseline(data)


@pytest.mark.parametrize("line", [-1, 2**31 - 1, 2**62, 2**63 - 1, -(2**63)])
def test_odd_lines_and_names_read_back(line: int) -> None:
    builder = SnapshotBuilder()
    builder.alloc(512, 10, frames=[("\ud800", "/é/训练.py", line), ("f\n", "", 1)])
    baseline = baseline_of(mr.open(build.dump(builder.build())))
    assert parse_baseline(render_baseline(baseline).encode()) == baseline
