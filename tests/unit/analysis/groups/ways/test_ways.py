"""The registry of grouping keys: names, headings, and the places where a new key must appear."""

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
    is_of_parts,
    noun_of,
    pinned_title_of,
    requested_title_of,
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


def test_list_of_keys_is_parsed() -> None:
    assert ways_of("category, file,category") == ("category", "file")
    assert ways_of("compile-context,user-metadata") == ("compile_context", "user_metadata")
    for by in ("file,colour", "colour"):
        with pytest.raises(UsageError, match="'colour' is not one of stack, line, innermost, "):
            ways_of(by)


def test_every_key_has_a_description() -> None:
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
            "requested at, and its callers",
            "blocked by, and its callers",
            "code path",
        ),
        ("line", "line", "requested by", "blocked by line", "line"),
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
def test_each_key_has_its_headings(
    by: str, title: str, asked: str, blocked: str, noun: str
) -> None:
    assert (title_of(by), requested_title_of(by), pinned_title_of(by)) == (title, asked, blocked)
    assert noun_of(by) == noun


def test_several_keys_have_a_combined_heading() -> None:
    assert title_of("compile_context,file") == "compile context, file"
    assert pinned_title_of("stack,file") == "blocked by stack, file"
    assert noun_of("stack,file") == "group"
    assert [by for by in (*WAYS, "pool,file") if is_of_parts(by)] == ["stream", "pool"]


def test_all_keys_based_on_code_support_reserved_memory() -> None:
    for way in WAYS.values():
        assert way.code == NO_CODE or way.key_of is not ByCode.key_of  # type: ignore[attr-defined]


class ByParity(Way):
    """A key that memreplay doesn't have: whether an event's number is even."""

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
    """Create a file with three allocations, and register one more key."""
    monkeypatch.setitem(WAYS, "parity", ByParity)
    builder = SnapshotBuilder().alloc(512, 1).alloc(1024, 20).alloc(2048, 300)
    file = tmp_path / "snap.pickle"
    file.write_bytes(build.dump(builder.build()))
    return str(file)


def test_new_key_is_known_everywhere(parity: str) -> None:
    runner = CliRunner()
    report = mr.peak(parity, by="parity,size")
    assert report.devices[0].groups[0].label == "even, 256 B to 512 B"
    told = runner.invoke(app, ["peak", parity, "--by", "parity", "--config", "none"])
    assert told.exit_code == 0
    assert re.findall(r"^ *(.*\bB) .* (\S+)$", told.stdout, re.MULTILINE)[-2:] == [
        ("301 B", "even"),
        ("20 B", "odd"),
    ]
    assert "even or odd\n" in told.stdout
    for command in ("at", "oom", "leaks", "allocations", "fragmentation", "timeline"):
        words = [command, parity, *(["end"] if command == "at" else []), "--by", "parity,file"]
        assert runner.invoke(app, words).exit_code in (0, 5), command
    diff = runner.invoke(app, ["diff", parity, parity, "--by", "parity", "--unchanged"])
    assert "even or odd" in diff.stdout
    assert "parity" in way_names()


def test_page_has_the_new_key(parity: str) -> None:
    (device,) = Read(mr.open(parity)).data.devices
    (groups,) = (one for one in device.groups if one.way == "parity")
    assert (groups.title, groups.pinned_title) == ("even or odd", "blocked by even or odd")


def test_page_leaves_out_keys_without_data(monkeypatch: pytest.MonkeyPatch, parity: str) -> None:
    monkeypatch.setattr(ByParity, "nothing", frozenset({"even", "odd"}))
    (device,) = Read(mr.open(parity)).data.devices
    assert "parity" not in [one.way for one in device.groups]
