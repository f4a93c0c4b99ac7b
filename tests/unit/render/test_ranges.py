"""Tests of render/ranges.py."""

from __future__ import annotations

import pytest

from memreplay.analysis.selecting.parsing import parse_when
from memreplay.render.ranges import ranges_text
from memreplay.snapshot.model import EventRange, Moment

RANGES = [
    (EventRange(), "all events"),
    (EventRange(Moment("event", 1200)), "--from 1200"),
    (EventRange(None, Moment("elapsed", 1_500_000)), "--to 1500ms"),
    (EventRange(Moment("elapsed", 7), Moment("elapsed", 2_000_000)), "--from 7us --to 2s"),
    (EventRange(Moment("time", 1_768_990_500_250_000)), "--from @1768990500.250000"),
    (
        EventRange(Moment("time", -1_000_001), Moment("time", -1)),
        "--from @-1.000001 --to @-0.000001",
    ),
]


@pytest.mark.parametrize("found, words", RANGES)
def test_wording_matches_the_options(found: EventRange, words: str) -> None:
    assert ranges_text(EventRange(), found) == f"the base covers all events, this covers {words}"
    parts = words.split()
    if parts[0].startswith("--"):
        spelled = dict(zip(parts[::2], parts[1::2], strict=True))
        whens = {key: parse_when(text) for key, text in spelled.items()}
        read = {key: Moment(one.kind, one.value) for key, one in whens.items()}  # type: ignore[arg-type]
        assert EventRange(read.get("--from"), read.get("--to")) == found


def test_ranges_are_not_different_if_only_their_times_differ() -> None:
    event, elapsed = Moment("event", 5), Moment("elapsed", 5)
    early, late = Moment("time", 5), Moment("time", 6)
    assert not EventRange(event, late).differs(EventRange(event, early))
    assert EventRange(event).differs(EventRange())
    assert EventRange().differs(EventRange(None, event))
    assert EventRange(event).differs(EventRange(elapsed))
    assert EventRange(early).differs(EventRange(event))
    assert EventRange(event).differs(EventRange(Moment("event", 6)))
