"""Tests of export/page/pages.py: pages of one snapshot, of two, and of ranks."""

from __future__ import annotations

import json

import memreplay as mr
from memreplay.export.page.building import page_data
from memreplay.export.page.pages import page_of
from memreplay.export.page.records import PageData
from memreplay.io.version import __version__
from memreplay.render.blocks import NoteBlock
from memreplay.render.record_json import render_json
from tests import build
from tests.build import SnapshotBuilder


def data(name: str, size: int) -> tuple[PageData, bytes]:
    made = SnapshotBuilder().alloc(0x1000, size)
    return page_data(mr.open(build.dump(made.build())), name=name)


def test_page_of_one_snapshot_has_its_data() -> None:
    page, columns = page_of([data("a.pkl", 1)])
    assert (page.kind, page.title, page.version, page.diff) == ("one", "a.pkl", __version__, None)
    assert len(page.snapshots) == len(columns) == 1
    said = json.loads(render_json(page))
    assert said["schema"] == "memreplay.page/1"
    assert said["snapshots"][0]["devices"][0]["peaks"]["requested"] == {"bytes": 1, "moment": 1}


def test_page_of_two_snapshots_has_their_diff() -> None:
    made = [data("a.pkl", 1), data("b.pkl", 2)]
    page, columns = page_of(made, kind="compare", diff=(NoteBlock("same", warning=False),))
    assert page.title == "a.pkl and b.pkl"
    assert [one.devices[0].peaks["requested"].bytes for one in page.snapshots] == [1, 2]
    assert columns == [one for _, one in made]
    said = json.loads(render_json(page))["diff"]
    assert said == [{"kind": "note", "text": "same", "warning": False}]


def test_page_of_ranks_names_each_rank() -> None:
    page, _ = page_of([data("0", 1), data("1", 2)], kind="ranks", title="run\x1b")
    assert (page.kind, page.title) == ("ranks", "run\\x1b")
    assert [one.name for one in page.snapshots] == ["0", "1"]
