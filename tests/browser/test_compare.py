"""A page with two snapshots shows both in sync, along with their differences."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from tests.browser.conftest import OpenPage
from tests.conftest import ROOT

pytestmark = pytest.mark.browser

BASE, NEW = (ROOT / "examples" / f"transformer_{name}.pkl.gz" for name in ("step", "deeper"))
CURSORS = """() => [...document.querySelectorAll('[data-what=cursors]')]
  .map((one) => Number(one.dataset.at))"""


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
    # The differences from `memreplay diff` are below the graph.
    assert "+317.6 MiB" in page.text()


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


def elapsed(snap: mr.Snapshot, moment: int) -> int:
    """Return the microseconds from the first event to the last event before a moment."""
    times = [snap.replay(0).time_us(event) for event in (0, moment - 1)]
    assert times[0] is not None
    assert times[1] is not None
    return times[1] - times[0]
