"""Tests of commands/shared/when.py."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.shared.when import WhenType
from memreplay.snapshot.model import When


@pytest.mark.parametrize(
    "text, when",
    [
        ("peak", When("peak", 1)),
        ("peak:3", When("peak", 3)),
        ("start", When("start")),
        (" end ", When("end")),
        ("1200", When("event", 1200)),
        ("1.5s", When("elapsed", 1_500_000)),
        (".25s", When("elapsed", 250_000)),
        ("@1768990500.25", When("time", 1_768_990_500_250_000)),
        ("2026-01-21T10:15:00", When("time", 1_768_990_500_000_000)),
        ("ProfilerStep#3", When("annotation", name="ProfilerStep#3")),
        ("step#-1:end", When("annotation", name="step#-1", edge="end")),
        ("a b:peak", When("annotation", name="a b", edge="peak")),
        ("fwd:layer:start", When("annotation", name="fwd:layer")),
        ("fwd:layer", When("annotation", name="fwd:layer")),
        ("peaks", When("annotation", name="peaks")),
        ("peak:x", When("annotation", name="peak:x")),
    ],
)
def test_moments(text: str, when: When) -> None:
    assert WhenType().convert(text, None, None) == when
    assert WhenType().convert(when, None, None) is when


@pytest.mark.parametrize("text", ["", "-1", "12x", "@", "1.5"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a moment"):
        WhenType().convert(text, None, None)
