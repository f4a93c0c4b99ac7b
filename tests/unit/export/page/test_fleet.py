"""Tests of export/page/fleet.py: curves become columns, and names are stored once."""

from __future__ import annotations

import json
import zlib

import pytest
from msgspec.structs import replace

from memreplay.errors import LimitError
from memreplay.export.page.coding import Coded
from memreplay.export.page.fleet import Texts, fleet_page
from memreplay.export.page.fleet_records import FleetPage, PageRank, PageShare
from memreplay.render.record_json import render_json
from tests.unit.export.page.reading import decoded


def rank(number: int, **more: object) -> PageRank:
    made = PageRank(
        rank=number,
        file=f"rank{number}.pkl",
        status="ok",
        error=None,
        host=None,
        group=None,
        typical=None,
    )
    return replace(made, **more)


def page_with(ranks: list[PageRank]) -> object:
    def page(curves: Coded, n_bytes: int) -> FleetPage:
        return FleetPage(
            version="1",
            title="run",
            headline="2 ranks",
            doubt="",
            measure="requested",
            noun="rank",
            curve_by="steps",
            texts=(),
            ranks=tuple(ranks),
            groups=(),
            curves=curves,
            bytes=n_bytes,
            report=(),
        )

    return page


def test_curves_are_concatenated() -> None:
    ranks = [rank(0, moments=2), rank(1), rank(2, moments=3)]
    curves = [(5, 3), (), (1 << 50, 0, 7)]
    page, (packed,) = fleet_page(ranks, curves, page_with(ranks))  # type: ignore[arg-type]
    data = zlib.decompress(packed)
    assert len(data) == page.bytes
    assert list(decoded(data, page.curves)) == [5, 3, 1 << 50, 0, 7]
    said = json.loads(render_json(page))
    assert said["schema"] == "memreplay.fleet_page/1"
    assert [one["moments"] for one in said["ranks"]] == [2, 0, 3]


def test_fleet_without_curves_has_an_empty_column() -> None:
    page, (packed,) = fleet_page([], [], page_with([]))  # type: ignore[arg-type]
    assert (page.bytes, page.curves.rows, zlib.decompress(packed)) == (0, 0, b"")


@pytest.mark.parametrize(
    "more",
    [
        {"peak_bytes": 1 << 53},
        {"reserved_bytes": 1 << 60},
        {"headroom_bytes": -(1 << 53)},
        {"categories": (PageShare(0, 1 << 53),)},
        {"holders": (PageShare(0, 1 << 53),)},
    ],
)
def test_numbers_beyond_a_browsers_precision_are_refused(more: dict[str, object]) -> None:
    ranks = [rank(0, **more)]
    with pytest.raises(LimitError, match="more than 53 bits"):
        fleet_page(ranks, [()], page_with(ranks))  # type: ignore[arg-type]
    with pytest.raises(LimitError, match="more than 53 bits"):
        fleet_page([rank(0)], [(1 << 53,)], page_with([]))  # type: ignore[arg-type]


def test_names_are_stored_once() -> None:
    texts = Texts()
    assert texts.shares([("a", 1), ("b", 2)]) == (PageShare(0, 1), PageShare(1, 2))
    assert texts.shares([("b", 3), ("c", 4)]) == (PageShare(1, 3), PageShare(2, 4))
    assert texts.all == ("a", "b", "c")
