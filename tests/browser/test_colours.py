"""Every pixel of the stacked picture has the right colour: that of its group in the legend, faded
unless highlighted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memreplay as mr
from memreplay.analysis.selecting.filters import Filtering
from memreplay.texts import clean
from tests import build, oracle
from tests.browser.conftest import OpenPage
from tests.browser.painter import Colouring, colours, edges
from tests.browser.test_picture import numbers_of
from tests.browser.viewed import Viewed
from tests.oracle_ways import Named
from tests.views import everything

pytestmark = pytest.mark.browser

WAYS: tuple[str, ...] = ("category", "file", "pool", "size", "annotation")
LEGEND = """() => [...document.querySelectorAll('.legend li[data-colour]')].map((one) => ({
  group: Number(one.dataset.group),
  colour: parseInt(one.dataset.colour.slice(1), 16),
  name: one.querySelector('[title]').title,
}))"""
SMALL = {"width": 620, "height": 480}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_pixel_has_its_groups_colour(opened: OpenPage, scheme: str) -> None:
    snapshot = everything()
    page = opened(snapshot, viewport=SMALL, color_scheme=scheme)
    for way in WAYS:
        page.set(colour=way)
        check(page, snapshot, way)


def test_only_highlighted_allocations_keep_their_full_colour(opened: OpenPage) -> None:
    snapshot = everything()
    page = opened(snapshot, "colour=file", viewport=SMALL)
    for shown in (
        {"group": 0, "of": "file"},
        {"group": 1, "of": "file", "search": "train"},
        {"group": None, "search": "train"},
        {"search": "functional.py:5$"},
        {"search": "py:Block.forward"},
        {"search": "nothing like it"},
        {"search": "", "pin": 1},
    ):
        page.set(**shown)
        check(page, snapshot, "file")


def check(page: Viewed, snapshot: dict[str, Any], way: str) -> None:
    """Check the first device, by requested bytes."""
    names = names_of(snapshot, way)
    groups = groups_of(page, way)
    assert len(names) == len(groups)
    # A group includes everything with its name in the legend.
    called = dict(zip(groups, names, strict=True))
    assert list(map(called.__getitem__, groups)) == names
    assert len(set(called.values())) == len(called)
    legend = page.tab.evaluate(LEGEND)
    for one in legend:
        # The page truncates very long names at the front.
        assert called[one["group"]].endswith(one["name"].lstrip("…"))
    picture = page.picture(drawn=True)
    asked = picture.query["colour"]
    by = Colouring(
        groups.__getitem__,
        stands_out(page, snapshot, picture.query["highlight"]),
        dict(asked["colours"]),
        asked["others"],
        asked["background"],
    )
    # Pinned groups keep their place in the legend.
    assert not legend or {one["group"] for one in legend} >= set(by.own)
    for one in legend:
        assert one["colour"] == by.own.get(one["group"]) or one["colour"] in asked["others"]
    expected = np.array(colours(picture.ids.tolist(), by), dtype=np.uint8)
    if (pin := page.state()["pin"]) is not None:
        # A pinned group has an outline in a colour that nothing else has.
        line = np.array(edges(picture.ids.tolist(), pin))
        ink = {tuple(one) for one in picture.drawn[line][:, :3].tolist()}
        assert len(ink) == 1
        assert not ink & {tuple(one) for one in expected[line].tolist()}
        expected[line] = picture.drawn[line][:, :3]
    other = np.argwhere((picture.drawn[..., :3] != expected).any(axis=2))
    assert len(other) == 0, (
        f"{len(other)} pixels differ, of {set(picture.ids[tuple(other.T)].tolist())}:"
        f" by {way}, {picture.query['highlight']}"
    )
    assert (picture.drawn[..., 3] == 255).all()


def groups_of(page: Viewed, way: str) -> list[int]:
    """Return each allocation's group number."""
    found: list[int] = page.tab.evaluate(
        """async (way) => {
          const { place, measure } = memreplay.picture().query;
          return Array.from(await memreplay.engine.groups(place, measure, way));
        }""",
        way,
    )
    return found


def names_of(snapshot: dict[str, Any], way: str) -> list[str]:
    """Return each allocation's displayed group name."""
    snap = mr.open(build.dump(snapshot))
    replay = snap.replay(0)
    named = Named(snapshot, snap, replay.measure("requested"))
    before = [clean(named.label(way, row, carried=True)) for row in range(replay.carried_blocks)]
    return before + [clean(named.label(way, row)) for row in made(snapshot)]


def made(snapshot: dict[str, Any]) -> list[int]:
    events = oracle.trace_of(snapshot, 0)
    return [row for row, event in enumerate(events) if event["action"] == "alloc"]


def stands_out(page: Viewed, snapshot: dict[str, Any], asked: dict[str, Any] | None) -> Any:
    """Return whether an allocation matches the search, `--include` and the selected group."""
    if asked is None:
        return lambda _: True
    groups = groups_of(page, asked["way"]) if "way" in asked else []
    met = included(snapshot, asked["include"]) if "include" in asked else None

    def found(owner: int) -> bool:
        if groups and groups[owner] != asked["group"]:
            return False
        return met is None or owner in met

    return found


def included(snapshot: dict[str, Any], pattern: str) -> set[int]:
    """Return the allocations that pass `--include`."""
    snap = mr.open(build.dump(snapshot))
    replay = snap.replay(0)
    numbers = numbers_of(replay)
    usage = Filtering(snap, mr.Filters(include=(pattern,))).filtered(replay.measure("requested"))
    found = usage.lifetimes
    return {
        numbers[key] for key in zip(found.alloc_event.tolist(), found.address.tolist(), strict=True)
    }
