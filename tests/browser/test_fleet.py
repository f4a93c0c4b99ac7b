"""A fleet's page in Chromium shows the report's numbers, and names stay plain text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.fleet.page import page_of_fleet
from memreplay.export.page.html import page_html
from memreplay.fleets.result import FleetReport
from tests.browser.conftest import OpenPage
from tests.browser.hostile import LONG, NAMES
from tests.browser.test_hostile import check
from tests.conftest import ROOT
from tests.unit.fleets.rows import MIB, broken, rank, report

pytestmark = pytest.mark.browser

FOLDER = ROOT / "examples" / "fsdp_odd_ranks"
# The page's viridis scale: nine colours, from lowest to highest.
RAMP = (
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
)
ROWS = """() => [...document.querySelectorAll('[role=tabpanel] tr[data-rank]')].map((row) => ({
  rank: row.dataset.rank,
  peak: Number(row.querySelector('[data-what=peak]')?.dataset.bytes ?? NaN),
  reserved: Number(row.querySelector('[data-what=reserved]')?.dataset.bytes ?? NaN),
}))"""
# Returns the colour in the middle of each cell; the margins are those in heat.tsx.
CELLS = """([rows, columns]) => {
  const canvas = document.querySelector('[data-what=heat]');
  const ratio = canvas.width / canvas.getBoundingClientRect().width;
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const [left, top] = [92 * ratio, 72 * ratio];
  const [wide, high] = [canvas.width - left - 10 * ratio, canvas.height - top - 20 * ratio];
  const at = (n, of, size) => Math.floor(((n + 0.5) * size) / of);
  return Array.from({ length: rows }, (_, y) => Array.from({ length: columns }, (_, x) =>
    [...pen.getImageData(left + at(x, columns, wide), top + at(y, rows, high), 1, 1).data]));
}"""


TOP = "(one) => document.querySelector(one).getBoundingClientRect().top"


def saved(found: FleetReport, folder: Path, links: dict[str, str] | None = None) -> Path:
    path = folder / "fleet.html"
    path.write_bytes(b"".join(page_html(*page_of_fleet(found, links=links or {}), "fleet")))
    return path


def shade(share: float) -> list[int]:
    below = min(int(share * 8), 7)
    pairs = zip(RAMP[below], RAMP[below + 1], strict=True)
    return [*(round(a + (b - a) * (share * 8 - below)) for a, b in pairs), 255]


def test_numbers_match_the_report(opened: OpenPage, tmp_path: Path) -> None:
    found = mr.fleet(str(FOLDER), workers=1)
    page = opened(saved(found, tmp_path))
    assert "21.4% over the median" in page.text("[data-what=verdict]")
    rows: list[dict[str, Any]] = page.tab.evaluate(ROWS)
    highest = sorted(found.ranks, key=lambda one: -one.devices[0].peak_bytes)
    assert [(int(one["rank"]), one["peak"], one["reserved"]) for one in rows] == [
        (one.rank, one.devices[0].peak_bytes, one.devices[0].reserved_peak_bytes) for one in highest
    ]
    for place, one in enumerate(found.ranks):
        for moment, n_bytes in enumerate(one.devices[0].curve_bytes):
            page.set(rank=place, moment=moment)
            assert page.bytes("moment-bytes") == n_bytes
            assert page.text("[data-what=details] h2") == f"rank {one.rank}"
    page.set(rank=5)
    details = page.text("[data-what=details]")
    assert "+176.8 MiB keep_history" in details
    assert "unlike any other" in details
    assert "memreplay diff" in details
    page.set(tab="report")
    assert "keep_history" in page.text("[role=tabpanel]")


def test_a_narrow_window_marks_odd_ranks(opened: OpenPage, tmp_path: Path) -> None:
    found = mr.fleet(str(FOLDER), workers=1)
    page = opened(saved(found, tmp_path), viewport={"width": 1000, "height": 800})
    marked = page.tab.evaluate(
        "() => [...document.querySelectorAll('[role=tabpanel] tr[data-rank] .warning')]"
        ".filter((one) => one.checkVisibility() && one.textContent)"
        ".map((one) => [one.closest('tr').dataset.rank, one.title])"
    )
    assert marked == [["5", "unlike any other"]]


def test_colours_match_the_numbers(opened: OpenPage, tmp_path: Path) -> None:
    found = mr.fleet(str(FOLDER), workers=1)
    page = opened(saved(found, tmp_path))
    curves = [one.devices[0].curve_bytes for one in found.ranks]
    low, high = (of(map(of, curves)) for of in (min, max))
    cells = page.tab.evaluate(CELLS, [8, 4])
    for curve, row in zip(curves, cells, strict=True):
        for n_bytes, colour in zip(curve, row, strict=True):
            wanted = shade((n_bytes - low) / (high - low))
            assert all(abs(a - b) <= 1 for a, b in zip(colour, wanted, strict=True))
    page.set(order="peak")
    first = page.tab.evaluate(CELLS, [8, 4])
    assert first[0] == cells[5]
    page.set(colour="median", order="rank")
    assert page.tab.evaluate(CELLS, [8, 4])[5] != cells[5]


def test_keys_select_ranks(opened: OpenPage, tmp_path: Path) -> None:
    page = opened(saved(mr.fleet(str(FOLDER), workers=1), tmp_path), "order=peak")
    page.tab.evaluate("() => document.querySelector('[data-what=heat]').focus()")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.tab.press(key)
    page.settle()
    state = page.state()
    assert (state["rank"], state["moment"]) == (5, 1)
    page.tab.press("Escape")
    page.settle()
    assert page.state()["rank"] is None


def test_ranks_open_their_own_pages(opened: OpenPage, tmp_path: Path) -> None:
    found = mr.fleet(str(FOLDER), workers=1)
    file = found.ranks[5].file
    mr.open(file).view().save(tmp_path / "rank5.html")
    page = opened(saved(found, tmp_path, {file: "rank5.html"}), "rank=5")
    tab: Any = page.tab.page  # type: ignore[attr-defined]
    own = (tmp_path / "rank5.html").as_uri()
    page.tab.pages.append(own)
    assert page.count("[role=tabpanel] tr a") == 1

    def enter() -> None:
        tab.locator("[data-what=heat]").focus()
        page.tab.press("Enter")

    for act in (lambda: tab.click("[role=tabpanel] tr a"), lambda: tab.click(".details a"), enter):
        act()
        tab.wait_for_url(own)
        page.ready()
        assert page.bytes("peak-bytes") == found.ranks[5].devices[0].peak_bytes
        tab.go_back()
        page.ready()
        assert page.state()["rank"] == 5
    # Enter still presses a focused button, and does nothing for a rank without a page.
    page.set(rank=4)
    enter()
    tab.focus("button[aria-label=Help]")
    page.tab.press("Enter")
    page.settle()
    assert page.count("dialog[open]") == 1


def test_details_do_not_move_the_table_and_keys_are_listed(
    opened: OpenPage, tmp_path: Path
) -> None:
    page = opened(saved(mr.fleet(str(FOLDER), workers=1), tmp_path))
    before = page.tab.evaluate(TOP, "[role=tabpanel]")
    page.set(rank=5, moment=3)
    assert page.tab.evaluate(TOP, "[role=tabpanel]") == before
    assert page.tab.evaluate(TOP, ".details") < 100
    # Names of code aren't cut.
    hidden = """() => [...document.querySelectorAll('.details .name')]
      .map((one) => [one.scrollWidth - one.clientWidth, one.innerText])"""
    names = page.tab.evaluate(hidden)
    assert [one for one, _ in names if one > 0] == []
    assert "keep_history metrics.py:10" in [name for _, name in names]
    # The last line of the details is visible.
    assert page.tab.evaluate(TOP, ".details .line:last-child") < 800
    page.tab.press("c")
    page.tab.press("2")
    page.tab.press("?")
    page.settle()
    assert (page.state()["colour"], page.state()["tab"]) == ("median", "report")
    for words in ("previous and next row", "own page", "this list", "double-click"):
        assert words in page.text("dialog[open]")
    page.tab.press("Escape")
    page.settle()
    assert page.count("dialog[open]") == 0
    assert page.state()["rank"] == 5
    page.set(side=500)
    assert page.tab.evaluate("() => document.querySelector('.side').clientWidth") == 500


def test_hostile_names_stay_text(opened: OpenPage, tmp_path: Path) -> None:
    rows = []
    for at, name in enumerate((*NAMES.values(), LONG)):
        held = {name: 100 + at, f"{name}2": 50}
        rows.append(
            replace(rank(at, held, curve_bytes=(at * MIB, MIB)), host=name, file=f"run/{name}")
        )
        rows.append(replace(broken(100 + at, name), file=name))
    page = opened(saved(report(*rows), tmp_path))
    for tab in ("ranks", "report"):
        for place in range(len(rows)):
            page.set(tab=tab, rank=place, moment=0)
            check(page)
    for order in ("peak", "alike", "host"):
        page.set(order=order, sort="host", colour="median")
        check(page)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [broken(0)],
        [rank(0, {"a": 1})],
        [rank(0, {}, curve_bytes=(0, 0)), rank(1, {}, curve_bytes=(0,))],
        [rank(None, {"a": 1}), rank(None, {"b": 1})],
    ],
    ids=["none", "unread", "one", "nothing held", "no ranks"],
)
def test_odd_fleets_show_no_invalid_values(
    opened: OpenPage, tmp_path: Path, rows: list[Any]
) -> None:
    page = opened(saved(report(*rows), tmp_path))
    for tab in ("ranks", "report"):
        for colour in ("bytes", "median"):
            page.set(tab=tab, colour=colour, rank=0, moment=0)
            text = page.text()
            for wrong in ("NaN", "undefined", "Infinity", "[object", "cannot be shown"):
                assert wrong not in text


def test_ten_thousand_ranks_are_shown_without_a_row_for_each(
    opened: OpenPage, tmp_path: Path
) -> None:
    rows = [rank(at, {"code": 100 + at % 7}, curve_bytes=(at * MIB,) * 64) for at in range(10_000)]
    page = opened(saved(report(*rows), tmp_path))
    page.set(rank=9_999, moment=63, order="peak")
    assert page.bytes("moment-bytes") == 9_999 * MIB
    assert page.count("[role=tabpanel] tr[data-rank]") < 200
