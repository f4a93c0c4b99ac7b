"""Filters as text and as JSON, and the message of a report without matches."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.peak.text import peak_document
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.plain import render_plain
from memreplay.render.record_json import plain
from tests.unit.commands.results import PEAK

ALL = Filters(("a", "b"), ("c",), 1 << 20, only_live_at_end=True, only_carried_over=True)


@pytest.mark.parametrize("filters", [None, Filters()])
def test_no_filters_add_no_text(filters: Filters | None) -> None:
    assert filter_pairs(filters) == []


def test_every_filter_is_in_the_text_and_the_json() -> None:
    ((name, words),) = filter_pairs(ALL)
    assert name == "only"
    assert words == (
        "frames with a or b, no frame with c, 1.0 MiB or more, live at the end, carried over"
    )
    assert plain(ALL) == {
        "include": ("a", "b"),
        "exclude": ("c",),
        "min_bytes": 1 << 20,
        "only_live_at_end": True,
        "only_carried_over": True,
        "no_carried_over": False,
    }


def test_report_lists_its_filters() -> None:
    text = render_plain(peak_document(replace(PEAK, filters=ALL)), width=120)
    assert "only          frames with a or b" in text
    assert NOTHING_LEFT not in text
    devices = tuple(replace(one, peak_bytes=0) for one in PEAK.devices)
    text = render_plain(peak_document(replace(PEAK, filters=ALL, devices=devices)), width=120)
    assert NOTHING_LEFT in text
