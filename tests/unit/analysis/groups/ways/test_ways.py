"""The registry of ways: names, headings, and every place that one more way reaches."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.analysis.groups.ways import (
    WAYS,
    asked_title_of,
    is_of_parts,
    noun_of,
    pinned_title_of,
    title_of,
    ways_of,
)
from memreplay.analysis.groups.ways.base import NO_CODE, Way
from memreplay.analysis.groups.ways.code import ByCode
from memreplay.analysis.selecting.parsing import way_names
from memreplay.commands.app import app
from memreplay.engine.query import _groups
from memreplay.errors import UsageError
from memreplay.snapshot.model import Label
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.export.page.reading import Read

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Usage


def test_the_ways_that_are_named() -> None:
    assert ways_of("category, file,category") == ("category", "file")
    assert ways_of("compile-context,user-metadata") == ("compile_context", "user_metadata")
    for by in ("file,colour", "colour"):
        with pytest.raises(UsageError, match="'colour' is not one of stack, line, innermost, "):
            ways_of(by)


def test_each_says_what_it_is() -> None:
    for name, way in WAYS.items():
        assert name == way.name
        assert way.help
        assert name.isidentifier()


@pytest.mark.parametrize(
    "by, title, asked, blocked, noun",
    [
        (
            "stack",
            "allocated at, and its callers",
            "asked for at, and its callers",
            "blocked by, and its callers",
            "code path",
        ),
        ("line", "line", "asked for by", "blocked by line", "line"),
        (
            "innermost",
            "innermost frame",
            "innermost frame",
            "blocked by innermost frame",
            "line",
        ),
        ("file", "file", "file", "blocked by file", "file"),
    ],
)
def test_headings(by: str, title: str, asked: str, blocked: str, noun: str) -> None:
    assert (title_of(by), asked_title_of(by), pinned_title_of(by)) == (title, asked, blocked)
    assert noun_of(by) == noun


def test_headings_of_several() -> None:
    assert title_of("compile_context,file") == "compile context, file"
    assert pinned_title_of("stack,file") == "blocked by stack, file"
    assert noun_of("stack,file") == "group"
    assert [by for by in (*WAYS, "pool,file") if is_of_parts(by)] == ["stream", "pool"]


def test_what_is_code_can_say_who_asked_for_reserved_memory() -> None:
    for way in WAYS.values():
        assert way.code == NO_CODE or way.key_of is not ByCode.key_of  # type: ignore[attr-defined]


class ByParity(Way):
    """By whether an event's number is even: a way that no module of memreplay knows of."""

    name = "parity"
    help = "are as odd"
    title = "even or odd"
    nothing = Way.nothing | {"even"}

    def keys(self, usage: Usage) -> Keys:
        numbers = array("I", [i % 2 for i in range(usage.replay.events)])
        return _groups.row_keys(usage.replay.native, numbers, 0)

    def label(self, usage: Usage, name: int) -> Label:
        return Label("odd" if name else "even")


@pytest.fixture
def parity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A file of three allocations; there is one more way."""
    monkeypatch.setitem(WAYS, "parity", ByParity)
    builder = SnapshotBuilder().alloc(512, 1).alloc(1024, 20).alloc(2048, 300)
    file = tmp_path / "snap.pickle"
    file.write_bytes(build.dump(builder.build()))
    return str(file)


def test_one_more_is_known_everywhere(parity: str) -> None:
    runner = CliRunner()
    report = mr.peak(parity, by="parity,size")
    assert report.devices[0].groups[0].label == "even, 256 B to 512 B"
    told = runner.invoke(app, ["peak", parity, "--by", "parity", "--no-config"])
    assert told.exit_code == 0
    assert re.findall(r"^ *(.*\bB) .* (\S+)$", told.stdout, re.MULTILINE)[-2:] == [
        ("301 B", "even"),
        ("20 B", "odd"),
    ]
    assert "even or odd\n" in told.stdout
    for command in ("at", "oom", "leaks", "allocations", "fragmentation", "timeline"):
        words = [command, parity, *(["end"] if command == "at" else []), "--by", "parity,file"]
        assert runner.invoke(app, words).exit_code in (0, 5), command
    diff = runner.invoke(app, ["diff", parity, parity, "--by", "parity", "--all"])
    assert "even or odd" in diff.stdout
    assert "parity" in way_names()


def test_a_page_has_one_more(parity: str) -> None:
    (device,) = Read(mr.open(parity)).data.devices
    (groups,) = (one for one in device.groups if one.way == "parity")
    assert (groups.title, groups.pinned_title) == ("even or odd", "blocked by even or odd")


def test_a_page_leaves_out_what_says_nothing(monkeypatch: pytest.MonkeyPatch, parity: str) -> None:
    monkeypatch.setattr(ByParity, "nothing", frozenset({"even", "odd"}))
    (device,) = Read(mr.open(parity)).data.devices
    assert "parity" not in [one.way for one in device.groups]
