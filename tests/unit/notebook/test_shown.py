"""IPython displays every public object as one short line, and as HTML of bounded size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from xml.etree import ElementTree

import pytest

import memreplay as mr
from memreplay.recording.estimate import Estimate
from memreplay.snapshot.brief import MOST_LINE, MOST_ROWS
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT

IPython = pytest.importorskip("IPython")
EXAMPLES = ROOT / "examples"
NAME = "</td><script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture(scope="module")
def hostile() -> mr.Snapshot:
    """Build a snapshot with many names, all of them hostile."""
    builder = SnapshotBuilder()
    for i in range(300):
        builder.alloc(i << 20, 1 << 19, frames=[(f"{NAME}{i}", f"{NAME}.py", i + 1)])
    return mr.open(build.dump(builder.build()), project=(NAME,))


ASKED: dict[str, Callable[[mr.Snapshot], Any]] = {
    "snapshot": lambda snap: snap,
    "events": lambda snap: snap.events,
    "ooms": lambda snap: snap.ooms,
    "stacks": lambda snap: snap.stacks,
    "frames": lambda snap: snap.frames,
    "segments": lambda snap: snap.segments,
    "blocks": lambda snap: snap.blocks,
    "annotations": lambda snap: snap.annotations,
    "frame": lambda snap: snap.stack(int(snap.events.stack[0]))[0],
    "replay": lambda snap: snap.replay(),
    "usage": lambda snap: snap.replay().measure("held"),
    "point": lambda snap: snap.replay().peak,
    "lifetimes": lambda snap: snap.replay().lifetimes,
    "live set": lambda snap: snap.replay().live_at(event=200),
    "simulated": lambda snap: snap.replay().simulate("expandable_segments:True"),
    "recorded": lambda snap: snap.replay().recorded,
    "table": lambda snap: mr.table(snap, "usage"),
    "flat table": lambda snap: mr.table(snap, "allocations", flat=True),
    "selection": lambda snap: mr.Selection(by="file", rules=(mr.Rule(NAME, NAME),) * 60),
    "moment": lambda snap: mr.Moment("event", 5),
    "when": lambda snap: mr.When("annotation", name=NAME * 100),
    "filters": lambda snap: mr.Filters(include=(NAME,) * 100),
    "estimate": lambda snap: Estimate(
        1 << 30, {NAME: 5}, {}, {f"layer.{i}": i for i in range(1_000)}, tuple(range(1_000)), {}
    ),
    "peak": lambda snap: mr.peak(snap, top=0),
    "peak's device": lambda snap: mr.peak(snap, top=0).devices[0],
    "peak's group": lambda snap: mr.peak(snap, top=0).devices[0].groups[0],
    "at": lambda snap: mr.at(snap, mr.When("end"), list=True, top=0),
    "timeline": lambda snap: mr.timeline(snap, by="line", top=0, points=300),
    "allocations": lambda snap: mr.allocations(snap, top=0),
    "diff": lambda snap: mr.diff(mr.open(EXAMPLES / "serving_oom.pkl.gz"), snap, top=0),
    "report": mr.report,
    "summary": mr.summary,
    "segments report": mr.segments,
    "fragmentation": lambda _: mr.fragmentation(EXAMPLES / "serving_oom.pkl.gz"),
    "oom": mr.oom,
    "simulate": lambda snap: mr.simulate(snap, set="expandable_segments:True"),
    "gate": lambda snap: mr.gate(snap, max_peak="1MiB", allow_untrusted=True),
    "baseline": lambda snap: mr.baseline(mr.open(EXAMPLES / "serving_oom.pkl.gz")),
    "leaks": lambda snap: mr.leaks(mr.open(EXAMPLES / "leaky_training.pkl.gz")),
    "steps": lambda snap: mr.steps(mr.open(EXAMPLES / "leaky_training.pkl.gz")),
    "modules": lambda snap: mr.modules(mr.open(EXAMPLES / "recorded_gpt.pkl.gz"), depth=9),
    "fleet": lambda snap: mr.fleet([str(EXAMPLES / "serving_oom.pkl.gz")]),
}


@pytest.mark.parametrize("name", ASKED)
def test_ipython_displays_objects_as_one_line_and_html(name: str, hostile: mr.Snapshot) -> None:
    from IPython.core.formatters import DisplayFormatter

    value = ASKED[name](hostile)
    line = repr(value)
    assert len(line) <= MOST_LINE
    assert "\n" not in line
    shown, _ = cast("Any", DisplayFormatter)().format(value)
    html = shown["text/html"]
    ElementTree.fromstring(html)  # every tag is closed, all text escaped
    html.encode()
    assert "<script" not in html
    assert not {"\x1b", "\u202e"} & set(html + line)
    assert html.startswith(("<table>", "<div>"))
    assert len(html) < 60_000
    # Each nested table shows a few rows.
    assert all(
        len(table.findall("tr")) <= 40 for table in ElementTree.fromstring(html).iter("table")
    )
    assert all(
        len(inner.findall("tr")) <= MOST_ROWS + 2
        for inner in ElementTree.fromstring(html).iterfind(".//td/table")
    )


def test_table_shows_its_first_rows(hostile: mr.Snapshot) -> None:
    html = mr.table(hostile, "usage")._repr_html_()
    rows = ElementTree.fromstring(html).findall("tr")
    assert len(rows) == 1 + MOST_ROWS + 1
    assert [row[1].text for row in rows[1:4]] == ["None", "0", "1"]  # the start, then events
    assert rows[-1][0].text == f"… {301 - MOST_ROWS} more"


def test_numbers_and_texts_are_formatted(hostile: mr.Snapshot) -> None:
    html = mr.peak(hostile, by="file").devices[0]._repr_html_()
    assert f"<td>{300 << 19:,}</td>" in html
    assert "<td>1</td>" in html  # the share is shown as 1, not 1.0
    assert "<td>&#x27;" not in html
    peak = mr.Replay._repr_html_(hostile.replay())
    assert "<th>event_index</th>" in peak


def test_every_public_class_is_covered() -> None:
    """Objects without a table are short text from the user, or an error."""
    plain = {"Limits", "PageView", "Rule"}
    for name in mr.__all__:
        value = getattr(mr, name)
        if not isinstance(value, type) or issubclass(value, Exception):
            continue
        if name not in plain | {"record", "estimating"}:
            assert hasattr(value, "_repr_html_"), name
    for one in (mr.Limits(), mr.Rule("a", frames="b")):
        assert len(repr(one)) < MOST_LINE


def test_recording_shows_its_target() -> None:
    assert repr(mr.record("snap.pickle")) == "<Recorder snap.pickle: not recording>"
