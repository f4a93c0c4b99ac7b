"""Tests of commands/view/options.py: options with which a command reads the same data."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.commands.shared.config import ConfigChoice
from memreplay.commands.shared.source import Reading
from memreplay.commands.view.options import given_options, project_options, range_options_of
from tests import build
from tests.build import SnapshotBuilder


def data() -> bytes:
    builder = SnapshotBuilder(devices=2)
    for i in range(10):
        builder.alloc(0x1000 * (i + 1), 64, device=i % 2)
    return build.dump(builder.build())


def test_whole_file_needs_no_options() -> None:
    assert range_options_of(mr.open(data())) == ()
    assert given_options(Reading(config=ConfigChoice())) == ()
    assert project_options(()) == ()


@pytest.mark.parametrize(
    "start, stop",
    [("1", None), (None, "3"), ("1", "2us"), ("@1700000000.000002", "300ms"), ("peak", "peak")],
)
def test_range_options_give_the_same_range(start: str | None, stop: str | None) -> None:
    snap = mr.open(data(), start=start, stop=stop, device=1)
    words = range_options_of(snap)
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert said.pop("--device") == "1"
    again = mr.open(data(), start=said.pop("--from", None), stop=said.pop("--to", None), device=1)
    assert (again.range, said) == (snap.range, {})


def test_truncated_file_needs_salvage() -> None:
    assert range_options_of(mr.open(data()[:-200], salvage=True)) == ("--salvage",)


def test_limits_and_configuration_are_repeated() -> None:
    config = ConfigChoice("a b.toml", folders=("src/x", "y"))
    reading = Reading(limits=(("rows", 5), ("devices", 7)), config=config)
    assert given_options(reading) == (
        *("--limit", "rows=5", "--limit", "devices=7"),
        *("--config", "a b.toml", "--project", "src/x", "--project", "y"),
    )
    assert given_options(Reading(config=ConfigChoice("none"))) == ("--config", "none")
