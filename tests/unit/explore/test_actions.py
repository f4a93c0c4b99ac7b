"""Tests of explore/actions.py: keys perform their documented actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.explore.rows.calls import TreeRows
from memreplay.explore.rows.segments import SegmentRows
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.explore.playing import explorer, play, screen, two

pytestmark = pytest.mark.usefixtures("short_waits")


def test_keys_move_in_time() -> None:
    app = explorer()
    low, high = app.bounds

    async def do(pilot: Any) -> None:
        peak = app.looked.event
        marks = app.explored.marks(app.looked)
        await pilot.press("home")
        assert app.looked.event == low
        await pilot.press("full_stop", "full_stop")
        assert app.looked.event == low + 2
        await pilot.press("comma")
        assert app.looked.event == low + 1
        await pilot.press("end")
        assert app.looked.event == high
        await pilot.press("home", "p")
        assert app.looked.event == marks.peaks[0]
        await pilot.press("s")
        assert app.looked.event == min(one for one in marks.steps if one > marks.peaks[0])
        await pilot.press("home", "P")
        assert app.looked.event == low
        await pilot.sees("no peak before this event")
        seen = set()
        await pilot.press("home")
        for _ in range(app.curve.columns + 5):
            seen.add(app.looked.event)
            await pilot.press("right")
        assert len(seen) >= app.curve.columns - 2
        assert peak in seen  # no move skips the event at which a column is highest
        assert app.looked.event == high

    play(app, do, columns=60, lines=20)


def test_zooming_shows_single_events() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        event = app.looked.event
        await pilot.press(*["plus"] * 12)
        assert app.looked.last - app.looked.first == 16
        await pilot.press("right")
        assert app.looked.event == event + 1
        await pilot.press("left", "left")
        assert app.looked.event == event - 1
        await pilot.press("z")
        assert (app.looked.first, app.looked.last) == app.bounds
        await pilot.press("x", "plus", "right", "left")
        assert app.looked.axis == "time"

    play(app, do)


def test_search_finds_hidden_rows() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("underscore")
        assert app.rows.count <= 3
        await pilot.press("slash", *"train_gpt.py:34", "enter")
        rows = app.explored.rows(app.looked)
        assert "train_gpt.py:34" in rows.texts(app.rows.row)[-1]
        first = app.rows.row
        await pilot.press("n", "N")
        assert app.rows.row == first
        await pilot.press("slash", *"nowhere", "enter")
        await pilot.sees("nowhere isn't in any row; ")
        await pilot.press("slash", *"(", "enter")
        await pilot.sees("isn't a regular expression:")
        await pilot.press("2", "slash", *"train_gpt.py:30", "enter")
        assert "train_gpt.py:30" in app.explored.rows(app.looked).line(app.rows.row).text

    play(app, do)


def test_calls_expand_and_collapse() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        rows = app.explored.rows(app.looked)
        assert isinstance(rows, TreeRows)
        before = app.rows.count
        await pilot.press("enter")
        assert app.rows.count < before
        await pilot.press("space")
        assert app.rows.count == before
        await pilot.press("asterisk")
        assert app.rows.count > before
        await pilot.press("g", "down", "c")
        assert app.explored.root == app.explored.rows(app.looked).key(0)
        await pilot.press("escape")
        assert app.explored.root is None
        await pilot.press("i")
        assert app.looked.whole
        assert len(app.explored.rows(app.looked)) > 0
        await pilot.press("i", "t")
        assert app.looked.inverted

    play(app, do)


def test_range_shows_what_changed() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("5")
        await pilot.sees("set a range first: [ starts it, ] ends it")
        await pilot.press("home", "left_square_bracket", "s", "right_square_bracket")
        assert app.looked.view == "change"
        assert app.looked.span == (app.bounds[0], app.looked.event)
        assert any(
            "change  " in line and "allocated" in line and "freed" in line for line in screen(app)
        )
        await pilot.press("z")
        assert (app.looked.first, app.looked.last) == app.looked.span
        await pilot.press("escape")
        again = app.looked
        assert (again.span, again.view) == (None, "tree")

    play(app, do)


def test_segment_expands_into_its_blocks() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("4")
        closed = app.rows.count
        rows = app.shown_rows
        assert isinstance(rows, SegmentRows)
        address, *_, tiles, _ = rows.map.segment(rows.order[0])
        await pilot.press("enter")
        assert app.rows.count == closed + tiles
        block = rows.block(rows.visible[1][1] or 0)
        assert any(f"{block.address:x}  " in line for line in screen(app)[3:])
        await pilot.press("down")
        assert any("requested" in line or "free block" in line for line in screen(app))
        await pilot.press("enter")  # a block has nothing below it
        assert app.rows.count == closed + tiles
        await pilot.press("comma")
        there = app.shown_rows
        assert isinstance(there, SegmentRows)
        assert app.rows.count > len(there.order)  # the segment stays open at other events
        app.choose(next(at for at in range(len(there)) if there.key(at) == address))
        await pilot.press("enter")
        assert app.rows.count == len(there.order)

        app.explored.most = 2
        app.explored.opened = {rows.map.segment(one)[0] for one in rows.order}
        await pilot.press("period")
        cut = app.shown_rows
        assert isinstance(cut, SegmentRows)
        app.choose(next(at for at in range(len(cut)) if cut.is_rest(at)))
        await pilot.press("enter")
        assert app.explored.most == 8
        assert app.rows.count > len(cut)

    play(app, do)


@pytest.mark.slow
def test_keys_copy_and_write_the_command_of_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json
    import shlex
    import subprocess
    import sys

    monkeypatch.chdir(tmp_path)
    app = explorer()

    async def do(pilot: Any) -> None:
        for view, key in (("tree", "1"), ("groups", "2"), ("list", "3"), ("segments", "4")):
            await pilot.press(key, "y")
            command = app.clipboard
            await pilot.sees(f"copied: {command}"[:60])
            await pilot.press("e", *f"{view}.json", "enter")
            await pilot.sees(f"wrote {view}.json")
            words = shlex.split(command)
            assert words[0] == "memreplay"
            done = subprocess.run(
                [sys.executable, "-m", "memreplay", *words[1:], "--format", "json"],
                capture_output=True,
                text=True,
                check=True,
            )
            written = json.loads((tmp_path / f"{view}.json").read_text())
            said = json.loads(done.stdout)
            one, other = written["devices"][0], said["devices"][0]
            for name in ("live_bytes", "event_index", "groups", "allocations", "tree", "map"):
                assert one.get(name) == other.get(name), (view, name)
        await pilot.press("e", *"tree.json", "enter")
        await pilot.sees("already exists; choose another name")
        await pilot.press("e", *"a.pdf", "enter")
        await pilot.sees(": end the name with .json, .txt or .md")
        await pilot.press("e", *"no/a.txt", "enter")
        assert app.is_running
        await pilot.press("e", *"a.txt", "enter", "e", *"a.md", "enter")

    play(app, do)
    assert "device 0" in (tmp_path / "a.txt").read_text()
    assert (tmp_path / "a.md").read_text().startswith("#")
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".txt", ".md"}


def test_name_that_is_not_text_is_not_copied() -> None:
    app = explorer()
    app.pane.file = "a\udcff.pkl"

    async def do(pilot: Any) -> None:
        await pilot.press("y")
        assert "not copied, because the file name isn't valid text:" in screen(app)[-1]

    play(app, do)


def test_key_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("w")
        await app.workers.wait_for_complete()
        await pilot.settled()
        await pilot.sees(
            "wrote recorded_gpt.html; no display to open it on; copy it to your machine:"
        )

    play(app, do)
    assert (tmp_path / "recorded_gpt.html").read_bytes().startswith(b"<!doctype html")


def test_difference_between_two_devices_has_no_command() -> None:
    app = two("two_gpus", "two_gpus", devices=(0, 1))

    async def do(pilot: Any) -> None:
        await pilot.press("y")
        assert "device 0 is compared with device 1" in screen(app)[-1]
        await pilot.press("e", *"a.json", "enter")
        assert "device 0 is compared with device 1" in screen(app)[-1]
        await pilot.press("d", "home", "y")
        assert app.clipboard.startswith("memreplay diff two_gpus.pkl.gz")
        assert "--device 0" in app.clipboard

    play(app, do)


def test_keys_copy_and_write_the_diff_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json
    import shlex

    monkeypatch.chdir(tmp_path)
    app = two()

    async def do(pilot: Any) -> None:
        await pilot.press("2", "y")
        assert shlex.split(app.clipboard)[:4] == [
            "memreplay", "diff", "transformer_step.pkl.gz", "transformer_deeper.pkl.gz",
        ]  # fmt: skip
        await pilot.press("e", *"a.json", "enter")
        (device,) = json.loads((tmp_path / "a.json").read_text())["devices"]
        (found,) = mr.diff(
            app.panes[0].explored.snap, app.panes[1].explored.snap, top=0, exact=False
        ).devices
        assert device["change_bytes"] == found.change_bytes
        await pilot.press("left", "y")
        await pilot.sees("no single command shows this: the two")

    play(app, do)


@pytest.mark.slow
def test_reserved_memory_of_two_snapshots_has_its_own_views() -> None:
    app = two()

    async def do(pilot: Any) -> None:
        for view in ("3", "1", "2", "4"):
            # The curve without focus stays in this view until it gets the focus.
            await pilot.press("backslash", view, "backslash", "2")
            app.panes[0].looked = replace(app.panes[0].looked, view="list")
            await pilot.press("m", "m", "m", "m", "backslash")
            assert [pane.looked.measure for pane in app.panes] == ["reserved", "reserved"]
            assert {pane.looked.view for pane in app.panes} <= {"groups", "segments"}
            await pilot.press("m")

    play(app, do)


@pytest.mark.parametrize("name", ["transformer_step", "recorded_gpt", "leaky_training"])
def test_annotation_key_lands_inside_the_annotation_it_names(name: str) -> None:
    app = explorer(ROOT / "examples" / f"{name}.pkl.gz")

    async def do(pilot: Any) -> None:
        await pilot.press("home")
        for _ in range(4):
            before = app.looked.event
            await pilot.press("a")
            event = app.looked.event
            assert event > before
            said = app.said.removeprefix("annotation ").removesuffix(" begins here").split(", ")
            for name in said:
                starts = [
                    one
                    for one in app.explored.spans(app.looked)
                    if one.name == name and one.start_event in (event - 1, event)
                ]
                assert starts
                if any(one.start_event != one.end_event for one in starts):
                    assert name in app.explored.where(app.looked)

    play(app, do, columns=160)


def test_vertical_zoom_shows_a_small_part() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("K")
        await pilot.sees("zoom in vertically first")
        await pilot.press(*["right_parenthesis"] * 3)
        low, high = app.looked.lens or (0, 0)
        peak = app.pane.peak
        assert (high, high - low) == (peak, round(round(round(peak / 2) / 2) / 2))
        label = next(line for line in screen(app)[1:] if line.split()[:1])
        assert "GiB" in label
        await pilot.press("J")
        lower = app.looked.lens or (0, 0)
        assert lower[1] < high
        assert lower[1] - lower[0] == high - low
        await pilot.press(*["J"] * 40)
        assert (app.looked.lens or (1, 1))[0] == 0
        await pilot.press("left_parenthesis", "left_parenthesis", "left_parenthesis")
        assert app.looked.lens is None
        await pilot.press("right_parenthesis", "m")
        assert app.looked.lens is None  # another measure has another height
        await pilot.press("right_parenthesis", "z")
        assert app.looked.lens is None

    play(app, do)


def test_another_device_starts_at_its_first_failure() -> None:
    builder = SnapshotBuilder(devices=2)
    for device in (0, 1):
        builder.alloc(1 << 32, 4096 * (2 - device), device)
        builder.free(1 << 32, 4096 * (2 - device), device)
    builder.oom(1 << 40, 0, 1)
    builder.alloc(2 << 32, 512, 1)
    app = explorer(build.dump(builder.finish_segments().build()))
    (failed,) = app.explored.marks(replace(app.looked, device=1)).ooms

    async def do(pilot: Any) -> None:
        assert (app.looked.device, app.looked.event) == (0, 0)  # the peak
        await pilot.press("d")
        assert (app.looked.device, app.looked.event) == (1, failed)
        await pilot.press("d")
        assert (app.looked.device, app.looked.event) == (0, 0)

    play(app, do)
