"""A page with two snapshots shows both in sync, along with their differences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from tests.browser.conftest import OpenPage
from tests.browser.test_layout import STICKING_OUT, wide
from tests.browser.test_saving import saved
from tests.browser.viewed import Viewed
from tests.conftest import ROOT

pytestmark = pytest.mark.browser

BASE, NEW = (ROOT / "examples" / f"transformer_{name}.pkl.gz" for name in ("step", "deeper"))
CURSORS = """() => [...document.querySelectorAll('[data-what=cursors]')]
  .map((one) => Number(one.dataset.at))"""

BOTTOM = "(one) => document.querySelector(one).getBoundingClientRect().bottom"
SPAN = """(snapshot) => {
  const { from, to } = memreplay.picture(snapshot).query.span;
  return [from, to];
}"""
# Zooms in with the wheel over the second picture.
WHEEL = """() => {
  const one = document.querySelectorAll('.picture')[1];
  const { left, width } = one.getBoundingClientRect();
  const at = { clientX: left + width / 4, deltaY: -300, bubbles: true, cancelable: true };
  one.dispatchEvent(new WheelEvent('wheel', at));
}"""
# Returns the legend's colours by name; other groups share muted colours.
LEGEND = """() => {
  const rows = [...document.querySelectorAll('.legend li[data-colour]')];
  return Object.fromEntries(
    rows.map((row) => [row.querySelector('button').title, row.dataset.colour]));
}"""
ONLY = "() => [...document.querySelectorAll('.legend li:has(.dim) .rest')].map((one) => one.title)"
COLOURS = """(snapshot) => memreplay.picture(snapshot).query.colour.colours
  .map(([, colour]) => '#' + colour.toString(16).padStart(6, '0'))"""
# Returns what the picture shows at a point: pointers aren't exact to the pixel.
AT = """([snapshot, x, y]) => {
  const { ids, moments, width } = memreplay.picture(snapshot);
  const left = 72;
  const near = [y - 1, y, y + 1].map((row) => ids[row * width + x - left]);
  return { near, moment: moments[x - left] };
}"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compared") / "both.html"
    mr.open(BASE).view(mr.open(NEW)).save(path)
    return path


def test_both_snapshots_are_shown_with_their_differences(opened: OpenPage, compared: Path) -> None:
    page = opened(compared)
    peaks = [mr.open(path).replay(0).peak for path in (BASE, NEW)]
    assert page.tab.evaluate("() => document.querySelectorAll('.picture').length") == 2
    assert page.tab.evaluate(CURSORS) == [one.event_index + 1 for one in peaks]
    assert page.bytes("difference") == peaks[1].bytes - peaks[0].bytes
    # The differences from `memreplay diff` are beside the graph, which says how wide boxes are,
    # which line grew, and by how much.
    assert "+317.6 MiB" in page.text()
    assert "the larger of A and B" in page.text("[data-what=widths]")
    flame = saved(page, ".toolbar", "SVG").read_text()
    assert re.search(r"model\.py:28</text>.*\+120\.0 MiB</text>", flame)
    assert ":29</text>" in flame


def test_cursors_move_together(opened: OpenPage, compared: Path) -> None:
    page = opened(compared)
    base, new = mr.open(BASE), mr.open(NEW)
    for moment in (100, 2_000, 4_000):
        page.set(at=moment)
        first, second = page.tab.evaluate(CURSORS)
        assert first == moment
        # Both snapshots contain the same step, so both cursors are at about the same fraction of
        # it.
        assert abs(second / 5_400 - moment / 4_973) < 0.1
        held = [
            snap.replay(0).measure("requested").bytes_at(at - 1)
            for snap, at in ((base, first), (new, second))
        ]
        assert page.bytes("difference") == held[1] - held[0]
    # On the time axis, the other cursor is at the last moment that started within the same elapsed
    # time.
    page.set(axis="time", at=2_000)
    first, second = page.tab.evaluate(CURSORS)
    assert elapsed(new, second) <= elapsed(base, first) < elapsed(new, second + 1)


def test_cursors_are_synchronised_by_step_time_or_event(opened: OpenPage, compared: Path) -> None:
    page = opened(compared, "sync=event&at=1999")
    base, new = mr.open(BASE), mr.open(NEW)
    assert page.tab.evaluate(CURSORS) == [2_000, 2_000]
    choose(page, "sync", "time")
    first, second = page.tab.evaluate(CURSORS)
    assert elapsed(new, second) <= elapsed(base, first) < elapsed(new, second + 1)
    choose(page, "sync", "step")
    # Both first steps start at event 0; they end at events 4,974 and 5,378.
    assert page.tab.evaluate(CURSORS) == [2_000, round(2_000 / 4_974 * 5_378)]
    # Moving the view in one picture moves both, on either axis, and doesn't switch to the other.
    for axis in ("event", "time"):
        for sync in ("step", "time", "event"):
            page.set(axis=axis, sync=sync)
            page.tab.evaluate(WHEEL)
            page.settle()
            spans = [page.tab.evaluate(SPAN, which) for which in (0, 1)]
            assert page.state()["snapshot"] == 0
            assert page.state()["from"] is not None
            if axis == sync:
                assert spans[0] == pytest.approx(spans[1], abs=0.1)
            page.set(**{"from": None, "to": None})


def test_differences_are_visible_at_once_with_both_peaks(opened: OpenPage, compared: Path) -> None:
    page = opened(compared, viewport={"width": 1440, "height": 900})
    peaks = [mr.open(path).replay(0).peak.bytes for path in (BASE, NEW)]
    assert page.text("[role=tab]") == "Diff"
    assert page.tab.evaluate(BOTTOM, "[role=tabpanel] [data-what=difference]") < 700
    assert page.tab.evaluate(BOTTOM, "[role=tabpanel] .report tbody tr td") < 900
    shown = [page.bytes(what) for what in ("peak-0", "peak-1", "peak-difference")]
    assert shown == [*peaks, peaks[1] - peaks[0]]
    # The key `m` returns both cursors to their peaks.
    page.set(at=10)
    page.tab.press("m")
    page.settle()
    assert page.bytes("difference") == peaks[1] - peaks[0]


def test_names_of_the_snapshots_are_not_cut(opened: OpenPage, compared: Path) -> None:
    for width in (1000, 1440):
        page = opened(compared, viewport={"width": width, "height": 700})
        names = page.tab.evaluate(
            "() => [...document.querySelectorAll('.picker .name')]"
            ".map((one) => [one.innerText, one.scrollWidth - one.clientWidth])"
        )
        assert names == [["…step.pkl.gz", 0], ["…deeper.pkl.gz", 0]]


def test_comparison_fits_a_narrow_window(opened: OpenPage, compared: Path) -> None:
    page = opened(compared, viewport={"width": 390, "height": 844})
    assert wide(page) <= 0
    assert page.tab.evaluate(STICKING_OUT) == []


def test_equal_groups_have_equal_colours(opened: OpenPage, compared: Path) -> None:
    page = opened(compared)
    for way in ("category", "stack", "file"):
        found: list[dict[str, str]] = []
        for snapshot in (0, 1):
            page.set(colour=way, snapshot=snapshot)
            found.append(page.tab.evaluate(LEGEND))
            # The legend's colours are those of its snapshot's picture.
            drawn = page.tab.evaluate(COLOURS, snapshot)
            assert drawn
            assert set(drawn) <= set(found[-1].values())
        both = found[0].keys() & found[1].keys()
        assert len(both) > 2
        assert {name: found[0][name] for name in both} == {name: found[1][name] for name in both}


def test_ranks_have_equal_colours(opened: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "ranks.html"
    command = ["view", str(ROOT / "examples" / "fsdp_odd_ranks"), "-o", str(path)]
    assert CliRunner().invoke(app, command).exit_code == 0
    page = opened(path)
    seen: dict[str, str] = {}
    for rank in (5, 0, 3, 5):
        page.set(snapshot=rank)
        found = page.tab.evaluate(LEGEND)
        assert len(found) > 4
        assert len(set(found.values())) == len(found)
        assert {name: seen.get(name, colour) for name, colour in found.items()} == found
        seen |= found


def test_legend_lists_the_colours_of_the_other_picture(opened: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "different.html"
    mr.open(BASE).view(mr.open(ROOT / "examples" / "serving_oom.pkl.gz")).save(path)
    page = opened(path)
    found: list[set[str]] = []
    only: list[set[str]] = []
    for snapshot in (0, 1):
        page.set(snapshot=snapshot)
        found.append(set(page.tab.evaluate(LEGEND)) - {"unknown"})
        only.append(set(page.tab.evaluate(ONLY)))
    assert "KV cache" in only[0]
    assert only == [found[1] - found[0], found[0] - found[1]]


def test_header_legend_and_tabs_show_either_snapshot(opened: OpenPage, compared: Path) -> None:
    # Another event of B corresponds to the same event of A, so B's has to be remembered.
    page = opened(compared, "snapshot=1&at=1005&tab=holders")
    snaps = [mr.open(BASE), mr.open(NEW)]
    before = page.state()
    for snapshot in (0, 1, 0):
        page.tab.press("b")
        page.settle()
        at = page.tab.evaluate(CURSORS)[snapshot]
        held = snaps[snapshot].replay(0).measure("requested").bytes_at(at - 1)
        assert page.bytes("cursor-bytes") == held
        assert page.bytes("total") == held
        if snapshot:
            assert page.state() == before
            assert "snapshot=1" in page.tab.evaluate("() => location.hash")
    page.tab.page.click("[data-what=picker] button:nth-of-type(2)")  # type: ignore[attr-defined]
    page.settle()
    assert page.state() == before


def test_click_selects_in_either_picture(opened: OpenPage, compared: Path) -> None:
    page = opened(compared)
    for snapshot in (1, 0):
        page.tab.page.click(  # type: ignore[attr-defined]
            f".picture[data-snapshot='{snapshot}']", position={"x": 400, "y": 60}
        )
        page.settle()
        state = page.state()
        assert state["snapshot"] == snapshot
        picture = page.tab.evaluate(AT, [snapshot, 400, 60])
        assert state["pin"] in picture["near"]
        assert state["at"] == picture["moment"]
        assert page.tab.evaluate(CURSORS)[snapshot] == state["at"]
        assert page.text(".details .headline")


def choose(page: Viewed, what: str, value: str) -> None:
    """Choose from a list, and wait until the page shows it."""
    page.tab.page.select_option(f"[data-what={what}]", value)  # type: ignore[attr-defined]
    page.settle()


def elapsed(snap: mr.Snapshot, moment: int) -> int:
    """Return the microseconds from the first event to the last event before a moment."""
    times = [snap.replay(0).time_us(event) for event in (0, moment - 1)]
    assert times[0] is not None
    assert times[1] is not None
    return times[1] - times[0]
