"""Tests of explore/typed.py: parsing typed moments."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import Rule
from memreplay.errors import UsageError
from memreplay.explore.explored import Explored
from memreplay.explore.typed import moment_of, page_written
from tests.build import SnapshotBuilder, dump


@pytest.fixture(scope="module")
def explored() -> Explored:
    builder = SnapshotBuilder()
    for i in range(1500):
        builder.alloc(0x10000 + 512 * i, 512)
    return Explored(mr.open(dump(builder.build())))


def test_numbers_may_have_commas(explored: Explored) -> None:
    look = explored.first_look(0)
    assert moment_of(explored, look, "1,200") == moment_of(explored, look, "1200") == 1200


def test_annotations_keep_their_commas() -> None:
    builder = SnapshotBuilder().alloc(512, 100).alloc(1024, 100)
    builder.annotation("load, then train", "START").alloc(2048, 100)
    builder.annotation("load, then train", "END")
    explored = Explored(mr.open(dump(builder.build())))
    look = explored.first_look(0)
    assert moment_of(explored, look, "load, then train") == 1


@pytest.mark.parametrize("text", ["", "0x", "1,2x", "-7", "nothing"])
def test_invalid_moments_are_refused(explored: Explored, text: str) -> None:
    with pytest.raises(UsageError):
        moment_of(explored, explored.first_look(0), text)


def test_page_uses_the_configured_rules(
    explored: Explored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: tuple[Rule, ...] = ()
    given = []

    def one_page(_: object, *words: object) -> tuple[None, tuple[()]]:
        given.append(words)
        return None, ()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("memreplay.commands.view.find.one_page", one_page)
    monkeypatch.setattr("memreplay.export.page.html.page_html", lambda *_: (b"page",))
    monkeypatch.setattr("memreplay.commands.view.browser.open_or_explain", lambda _: "")
    page_written(Explored(explored.snap, rules), "a.pkl")
    assert given == [(rules,)]
