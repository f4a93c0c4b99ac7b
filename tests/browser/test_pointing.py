"""The picture and its legend mark each other's groups, and a search marks a flame graph's boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("transformer_step"))
FAILED = next(one for one in EXAMPLES if one.name.startswith("serving_oom"))
DEEPER = next(one for one in EXAMPLES if one.name.startswith("transformer_deeper"))
LEGEND = """() => [...document.querySelectorAll('.legend > ul:not(.absent) > li')].map((one) => ({
  group: Number(one.dataset.group),
  bytes: Number(one.querySelector('[data-what=legend-bytes]').dataset.bytes),
  pointed: one.querySelector('.pointed') !== null,
}))"""


def mouse(page: Viewed) -> Any:
    return page.tab.page.mouse  # type: ignore[attr-defined]


def box_of(page: Viewed, selector: str) -> dict[str, float]:
    found: dict[str, float] = page.tab.evaluate(
        "(one) => document.querySelector(one).getBoundingClientRect().toJSON()", selector
    )
    return found


def test_group_of_one_allocation_has_its_details(opened: OpenPage) -> None:
    page = opened(FAILED)
    rows = page.tab.evaluate(
        "() => [...document.querySelectorAll('[role=tabpanel] tr[data-group]')]"
        ".map((one) => [Number(one.dataset.group), Number(one.cells[2].textContent)])"
    )
    single = next(group for group, count in rows if count == 1)
    several = next(group for group, count in rows if count > 1)
    row = "[role=tabpanel] tr[data-group='{}']"
    for group, shown in ((single, 1), (several, 0), (single, 1), (single, 0)):
        page.tab.page.click(row.format(group))  # type: ignore[attr-defined]
        page.settle()
        assert page.count(".details [data-what=allocation]") == shown
    page.tab.page.click(row.format(single))  # type: ignore[attr-defined]
    page.settle()
    state = page.state()
    groups = page.engine("allocation", where(page)["place"], state["pin"])["groups"]
    assert groups["stack"] == single == state["group"]
    page.tab.press("Escape")
    page.settle()
    assert (page.state()["pin"], page.state()["group"]) == (None, None)


def test_legend_is_in_the_order_of_the_stack(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    rows = page.tab.evaluate(LEGEND)
    assert all(one["bytes"] > 0 for one in rows)
    # From the top of the stack down, by the mean height of each group's bytes at the cursor.
    groups = page.tab.evaluate(
        """async () => {
          const { place, measure } = memreplay.picture().query;
          return Array.from(await memreplay.engine.groups(place, measure, 'category'));
        }"""
    )
    sums: dict[int, tuple[int, float]] = {}
    height = 0
    ids = page.engine("live", {**where(page), "limit": 10_000})["rows"]
    for one in sorted(ids, key=lambda row: row["id"]):
        bytes_, weighted = sums.get(groups[one["id"]], (0, 0.0))
        middle = height + one["requested"] / 2
        height += one["requested"]
        sums[groups[one["id"]]] = (
            bytes_ + one["requested"],
            weighted + one["requested"] * middle,
        )
    levels = {group: weighted / bytes_ for group, (bytes_, weighted) in sums.items() if bytes_}
    wanted = sorted(levels, key=lambda group: -levels[group])
    assert [one["group"] for one in rows] == wanted
    assert {one["group"]: one["bytes"] for one in rows} == {g: sums[g][0] for g in levels}
    # Groups that aren't live at the cursor keep their colour below, without numbers.
    assert page.count(".legend .absent li") == 1
    page.set(at=0)
    assert page.count(".legend .absent li") > 1


def where(page: Viewed) -> dict[str, Any]:
    return {
        "place": {"snapshot": 0, "device": 0},
        "measure": "requested",
        "moment": page.moment(),
        "filter": None,
        "sort": "bytes",
        "descending": True,
        "offset": 0,
    }


def test_picture_and_legend_mark_each_other(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    picture = page.picture()
    canvas = box_of(page, "[data-what=picture]")
    # Point at an allocation: its group's row is marked.
    x, y = 0.3, 0.9
    id_ = int(picture.ids[int(y * picture.ids.shape[0]), int(x * picture.ids.shape[1])])
    group = page.engine("allocation", {"snapshot": 0, "device": 0}, id_)["groups"]["category"]
    mouse(page).move(canvas["x"] + x * canvas["width"], canvas["y"] + y * canvas["height"], steps=3)
    page.settle()
    assert [one["group"] for one in page.tab.evaluate(LEGEND) if one["pointed"]] == [group]
    # Point at a row: its allocations keep their colour, the others are faded.
    row = box_of(page, f".legend li[data-group='{group}'] button")
    mouse(page).move(row["x"] + 20, row["y"] + 8, steps=3)
    page.settle()
    assert page.picture().query["highlight"] == {"way": "category", "group": group}
    mouse(page).move(row["x"] + 20, row["y"] + 400, steps=3)
    page.settle()
    assert page.picture().query["highlight"] is None
    # The same by keyboard.
    page.tab.evaluate("(one) => document.querySelector(one).focus()", ".legend li button")
    page.settle()
    assert page.picture().query["highlight"]["way"] == "category"
    # By allocation, a row outlines its allocation.
    page.set(colour="allocation")
    before = page.picture(drawn=True).drawn
    row = box_of(page, ".legend li[data-id] button")
    mouse(page).move(row["x"] + 20, row["y"] + 8, steps=3)
    page.settle()
    assert (page.picture(drawn=True).drawn != before).any()


def test_search_marks_boxes_of_the_flame_graph(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "tab=flame&colour=category")
    total = page.bytes("total")
    before = page.tab.evaluate("() => document.querySelector('.mr-flame canvas').toDataURL()")
    page.set(search="train.py")
    assert page.bytes("total") == total
    found = mr.at(mr.open(EXAMPLE), mr.When("event", page.moment() - 1), include="train.py")
    assert page.bytes("matched") == found.devices[0].live_bytes
    after = page.tab.evaluate("() => document.querySelector('.mr-flame canvas').toDataURL()")
    assert after != before
    assert "--include" not in page.text("code.command")
    # The key names the boxes' files.
    assert "model.py" in page.text(".key")
    assert page.count(".key .swatch") == 2


def test_tooltips_fit_into_the_window(opened: OpenPage, tmp_path: Path) -> None:
    """Even if they have many frames with long names, as the backward pass does."""
    path = tmp_path / "both.html"
    mr.open(EXAMPLE).view(mr.open(DEEPER)).save(str(path))
    page = opened(path, viewport={"width": 1440, "height": 900})
    seen, copies = 0, None
    for which in (0, 1):
        left, top, width, height = page.tab.evaluate(
            "(one) => { const { left, top, width, height } = document"
            ".querySelectorAll('[data-what=picture]')[one].getBoundingClientRect();"
            " return [left, top, width, height]; }",
            which,
        )
        for part in (0.45, 0.5, 0.55, 0.6, 0.65):
            at = left + 0.635 * width, top + part * height
            mouse(page).move(*at)
            page.settle()
            if "_to_copy" in page.text(".tooltip"):
                copies = at
            box = page.tab.evaluate(
                "() => document.querySelector('.tooltip:has(.frames)')"
                "?.getBoundingClientRect().toJSON()"
            )
            if box:
                seen += 1
                assert box["top"] >= 0
                assert box["bottom"] <= 900
    assert seen > 2
    # Frames whose names aren't known are left out of stacks without code.
    assert copies
    mouse(page).click(*copies)
    page.settle()
    frames = page.text(".details .frames")
    assert "_to_copy" in frames
    assert "??" not in frames


def test_links_keep_the_flame_graphs_zoom(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "tab=flame&colour=category")
    box = box_of(page, ".mr-flame canvas")
    mouse(page).click(box["x"] + 100, box["y"] + 50)
    page.settle()
    zoom = page.state()["zoom"]
    assert zoom.startswith("flame.")
    assert page.count("[data-what=zoomed]") == 1
    page.tab.page.reload()  # type: ignore[attr-defined]
    page.ready()
    assert page.state()["zoom"] == zoom
    assert page.count("[data-what=zoomed]") == 1
    # The button is beside the graph, not on top of it.
    assert page.count(".mr-flame button") == 0
    page.tab.evaluate("() => document.querySelector('[data-what=zoomed]').click()")
    page.settle()
    assert page.state()["zoom"] == ""


def test_lanes_take_no_room_where_nothing_is_annotated(opened: OpenPage) -> None:
    page = opened(FAILED)
    assert page.count(".mr-lanes") == 1
    page.set(**{"from": 1000, "to": 1200})
    assert page.count(".mr-lanes") == 0
    page.set(**{"from": None, "to": None})
    assert page.count(".mr-lanes") == 1


def test_measures_are_explained(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    for place in (".curves button", ".fields option[title]"):
        said = page.tab.evaluate(
            "(one) => [...document.querySelectorAll(one)].map((each) => each.title)", place
        )
        assert len(set(said)) == 5
        assert "until the program releases them" in said[1]
    page.tab.press("?")
    page.settle()
    assert "until the program releases them" in page.text("dialog")


def test_a_range_does_not_tint_colours(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    page.set(at=1000, other=4000)
    clip = page.tab.page.locator("[data-what=picture]").bounding_box()  # type: ignore[attr-defined]
    shot = {
        "x": clip["x"] + clip["width"] * 0.2,
        "y": clip["y"] + clip["height"] * 0.8,
        "width": 40,
        "height": 20,
    }
    between = page.tab.page.screenshot(clip=shot)  # type: ignore[attr-defined]
    page.set(other=None)
    assert page.tab.page.screenshot(clip=shot) == between  # type: ignore[attr-defined]
