"""Tests of commands/shared/moment.py."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.shared.moment import MomentType
from memreplay.snapshot.model import Moment


@pytest.mark.parametrize(
    "text, moment",
    [
        ("0", Moment("event", 0)),
        ("1200", Moment("event", 1200)),
        ("1.5s", Moment("elapsed", 1_500_000)),
        ("+300ms", Moment("elapsed", 300_000)),
        ("7us", Moment("elapsed", 7)),
        (".25s", Moment("elapsed", 250_000)),
        ("2min", Moment("elapsed", 120_000_000)),
        ("@1768990500.25", Moment("time", 1_768_990_500_250_000)),
        ("@-0.000001", Moment("time", -1)),
        ("2026-01-21T10:15:00", Moment("time", 1_768_990_500_000_000)),
        ("2026-01-21 10:15:00.000001Z", Moment("time", 1_768_990_500_000_001)),
        ("2026-01-21T11:15:00+01:00", Moment("time", 1_768_990_500_000_000)),
    ],
)
def test_moments(text: str, moment: Moment) -> None:
    assert MomentType().convert(text, None, None) == moment
    assert MomentType().convert(moment, None, None) is moment


@pytest.mark.parametrize(
    "text", ["", "-1", "x", "1.5", "5 s later", "@", "s", "2026-13-01", "1e9s"]
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a moment"):
        MomentType().convert(text, None, None)
