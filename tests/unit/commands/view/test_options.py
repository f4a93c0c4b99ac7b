"""Tests of commands/view/options.py: a command with these words reads the same."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.selecting.parsing import parse_moment
from memreplay.commands.shared.config import ConfigChoice
from memreplay.commands.shared.source import Reading
from memreplay.commands.view.options import asked_words, project_words, read_words
from tests import build
from tests.build import SnapshotBuilder


def data() -> bytes:
    builder = SnapshotBuilder(devices=2)
    for i in range(10):
        builder.alloc(0x1000 * (i + 1), 64, device=i % 2)
    return build.dump(builder.build())


def test_a_whole_file_needs_none() -> None:
    assert read_words(mr.open(data())) == ()
    assert asked_words(Reading(config=ConfigChoice())) == ()
    assert project_words(()) == ()


@pytest.mark.parametrize(
    "start, stop", [("1", None), (None, "3"), ("1", "2us"), ("@1700000000.000002", "300ms")]
)
def test_a_part_of_it(start: str | None, stop: str | None) -> None:
    bounds = [None if one is None else parse_moment(one) for one in (start, stop)]
    snap = mr.open(data(), start=bounds[0], stop=bounds[1], device=1)
    words = read_words(snap)
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert said.pop("--device") == "1"
    assert {name: parse_moment(one) for name, one in said.items()} == {
        name: bound
        for name, bound in zip(("--from", "--to"), bounds, strict=True)
        if bound is not None
    }


def test_what_is_cut_off() -> None:
    assert read_words(mr.open(data()[:-200], salvage=True)) == ("--salvage",)


def test_what_a_snapshot_does_not_know() -> None:
    config = ConfigChoice("a b.toml", folders=("src/x", "y"))
    reading = Reading(limits=(("rows", 5), ("devices", 7)), config=config)
    assert asked_words(reading) == (
        *("--limit", "rows=5", "--limit", "devices=7"),
        *("--config", "a b.toml", "--project", "src/x", "--project", "y"),
    )
    assert asked_words(Reading(config=ConfigChoice(no_config=True))) == ("--no-config",)
