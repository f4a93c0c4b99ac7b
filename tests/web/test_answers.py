"""The page in a browser gives the same answers as the native command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from tests.conftest import ROOT
from tests.web.app import App
from tests.web.conftest import OpenApp, native

pytestmark = pytest.mark.browser

EXAMPLES = sorted(ROOT.glob("examples/*.pkl.gz"))
NAMES = [one.name[:-7] for one in EXAMPLES]
TABS = ("Report", "Summary", "Peak", "Timeline", "Out of memory", "Leaks", "Steps", "Fragmentation")


@pytest.fixture(params=EXAMPLES, ids=NAMES)
def example(request: pytest.FixtureRequest) -> Path:
    """Return each example."""
    path: Path = request.param
    return path


def test_page_and_report_of_an_example(empty: App, example: Path) -> None:
    check(empty, example)


def test_page_and_report_of_a_real_file(empty: App, corpus_file: Path) -> None:
    check(empty, corpus_file)


def first_peak(file: Path) -> int:
    """Return the peak of the device that a page starts with: the first that ran out of memory, or
    the first.
    """
    with mr.open(file) as snap:
        replays = [snap.replay(device) for device in snap.devices]
        return next((one for one in replays if len(one.events_of("oom"))), replays[0]).peak.bytes


def check(app: App, file: Path) -> None:
    """Open a file; compare the page's peak with Python's, and each command with a terminal."""
    app.open(file)
    assert "error:" not in app.said
    shown = app.frame().get_attribute("[data-what=peak-bytes]", "data-bytes")
    assert int(shown or -1) == first_peak(file)
    for tab in TABS:
        app.press(tab)
        assert app.text + app.said == native(app.line, file.parent, app.columns).rstrip(), tab


def test_two_files_are_compared(empty: App) -> None:
    base, new = (ROOT / "examples" / f"transformer_{name}.pkl.gz" for name in ("step", "deeper"))
    empty.open(base, new)
    assert "transformer_step" in empty.frame().title()
    empty.press("Differences")
    assert empty.line == "memreplay diff transformer_step.pkl.gz transformer_deeper.pkl.gz"
    assert empty.text == native(empty.line, base.parent, empty.columns).rstrip()


def test_many_files_are_ranks(empty: App) -> None:
    ranks = sorted(ROOT.glob("examples/fsdp_odd_ranks/*.pkl.gz"))
    empty.open(*ranks)
    assert empty.frame().title()
    empty.press("Ranks")
    assert empty.text == native(empty.line, ranks[0].parent, empty.columns).rstrip()


def test_site_gives_the_same(started: OpenApp, site: str) -> None:
    app = started(site)
    app.open(EXAMPLES[0])
    app.press("Report")
    assert app.text == native(app.line, EXAMPLES[0].parent, app.columns).rstrip()
