"""brief: a record is one short line at a prompt, and an HTML table in a notebook."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec import Struct, field

import memreplay
import memreplay as mr
from memreplay.commands.peak.find import peak_report
from memreplay.commands.summary.find import summarize
from memreplay.declared import Options
from memreplay.snapshot import model
from memreplay.snapshot.brief import MOST_LINE, MOST_ROWS, value_text
from memreplay.snapshot.record import Record
from tests import build
from tests.build import SnapshotBuilder


class Inner(Record, frozen=True):
    name: str
    n_bytes: int = 0


class Outer(Record, frozen=True):
    text: str
    inner: tuple[Inner, ...] = ()
    numbers: tuple[int, ...] = ()
    known: bool = False
    settings: dict[str, int] = field(default_factory=dict)


def snapshot(allocations: int = 2_000) -> mr.Snapshot:
    builder = SnapshotBuilder()
    for i in range(allocations):
        builder.alloc(i << 9, 512, frames=[(f"f{i}<script>", "a&b.py", i + 1)])
    return mr.open(build.dump(builder.build()))


PACKAGE = Path(memreplay.__path__[0])
RECORDS = ("result", "ranks_result", "records", "baseline_record", "tree")


def classes() -> list[type]:
    modules = [
        import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        for path in PACKAGE.rglob("*.py")
        if path.stem in RECORDS
    ]
    return [
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, Struct)
        and one.__module__ == module.__name__
        and not issubclass(one, Options)  # an option, not a result
    ]


def test_every_result_is_a_record() -> None:
    found = classes()
    assert len(found) > 50
    assert [one for one in found if not issubclass(one, Record)] == []
    for one in (model.Group, model.Label, model.Lifetimes, model.LiveSet, model.SegmentChanges):
        assert issubclass(one, Record)


def test_repr_of_a_record_fits_one_line() -> None:
    assert repr(Inner("a")) == "Inner(name='a')"
    assert repr(Inner("a", 5)) == "Inner(name='a', n_bytes=5)"
    assert repr(Outer("x", (Inner("a"),) * 3, (1, 2), known=True, settings={"a": 1})) == (
        "Outer(text='x', inner=<tuple of 3 Inner>, numbers=(1, 2), known=True,"
        " settings=<dict of 1>)"
    )
    assert (
        repr(Outer("x", numbers=tuple(range(100)))) == "Outer(text='x', numbers=<tuple of 100 int>)"
    )
    assert repr(Outer("y" * 500)) == f"Outer(text='{'y' * 77}…')"
    assert Outer("x") == Outer("x")
    assert hash(Inner("a")) == hash(Inner("a"))


@pytest.mark.parametrize(
    "value, words",
    [
        (np.zeros(5), "<5 float64>"),
        (np.zeros((2, 3), dtype=np.int8), "<2x3 int8>"),
        (np.int64(5), "<one int64>"),
        ([1, "a", None], "[1, 'a', None]"),
        ([1, Inner("a")], "<list of 2>"),
        ((), "()"),
        (b"z" * 200, "b'" + "z" * 76 + "…'"),
        (Inner("a" * 90), "Inner(…)"),
    ],
)
def test_values_are_shown_as_short_text(value: object, words: str) -> None:
    assert value_text(value) == words


def test_repr_of_a_snapshot_and_its_parts_is_short() -> None:
    snap = snapshot()
    replay = snap.replay()
    usage = replay.measure()
    report = peak_report(snap, top=0)
    for one in (
        snap,
        snap.events,
        snap.stacks,
        snap.frames,
        replay,
        usage,
        usage.peak,
        replay.lifetimes,
        replay.live_at(event=1_500),
        usage.buckets(500),
        report,
        *report.devices,
        *report.devices[0].groups[:3],
        summarize(snap),
    ):
        assert len(repr(one)) <= MOST_LINE
        assert "\n" not in repr(one)


def test_tables_in_a_notebook_are_short_and_escaped() -> None:
    snap = snapshot(50)
    replay = snap.replay()
    live = replay.live_at(event=40)
    (device,) = peak_report(snap, top=30).devices
    for one in (snap, snap.events, snap.segments, replay, replay.measure(), live, device):
        html = one._repr_html_()
        ElementTree.fromstring(html)  # every name is escaped, every tag closed
        assert "<script>" not in html
    assert live._repr_html_().count("<tr>") == 1 + MOST_ROWS + 1
    assert f"{41 - MOST_ROWS} more" in live._repr_html_()
    assert "f0&lt;script&gt;" in device._repr_html_()
    assert "more" not in snapshot(3).replay().live_at(event=2)._repr_html_()


HOSTILE = "</td><script>alert(1)</script>\x1b[31m\u202e\ud800 &amp; \n"


def test_hostile_text_is_escaped() -> None:
    class Named(Record, frozen=True):
        text: str
        many: tuple[Inner, ...] = ()

    html = Named(HOSTILE, (Inner(HOSTILE),) * 3)._repr_html_()
    ElementTree.fromstring(html)
    html.encode()  # a lone surrogate couldn't be sent to a browser
    assert "<script" not in html
    assert not {"\x1b", "\u202e"} & set(html)
    shown = "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e\\ud800 &amp;amp; \\n"
    assert html.count(shown) == 1 + 3
    assert repr(Named(HOSTILE)).isprintable()


def test_long_text_takes_linear_time() -> None:
    # Count the reads instead of measuring the time.
    class Seen(tuple):  # type: ignore[type-arg]
        __slots__ = ()

        def __repr__(self) -> str:
            raise AssertionError("all of it was spelled")

    assert value_text(Seen(range(100_000))) == "<tuple of 100000 int>"
    assert len(value_text("x" * 10_000_000)) == 80
    assert len(value_text(b"x" * 10_000_000)) < 85
