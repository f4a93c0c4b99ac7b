"""Tests of explore/app.py: every key does what it says, and numbers on the screen are right."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual import events

import memreplay as mr
from memreplay.commands.explore.app import Explorer
from memreplay.commands.explore.explored import Explored
from memreplay.commands.explore.keys import KEYS
from memreplay.commands.explore.panes import Pane
from memreplay.commands.explore.rows import SegmentRows, TreeRows
from memreplay.render.units import size
from tests.build import SnapshotBuilder, dump
from tests.conftest import ROOT, SNAPSHOTS, corpus_files

GPT = ROOT / "examples" / "recorded_gpt.pkl.gz"
# Keys that ask for a line, write files, or end it.
ASKING = {"colon", "slash", "f", "e", "w", "question_mark", "f1", "q", "ctrl+c", "ctrl+q"}


NAMES = {"/": "slash", ":": "colon"}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's pilot sleeps twice after each key, and looks whether there is work left."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.002)


def explorer(path: Path | bytes = GPT, chars: Any = "braille") -> Explorer:
    snap = mr.open(path)
    explored = Explored(snap)
    name = str(path) if isinstance(path, Path) else "made.pkl"
    look = explored.first_look(snap.devices[0])
    return Explorer([Pane(explored, look, name, chars=chars)], chars)


def play(
    app: Explorer,
    do: Callable[[Any], Awaitable[None]],
    *,
    columns: int = 120,
    lines: int = 40,
) -> None:
    """Runs it in a terminal of that size."""

    async def run() -> None:
        async with app.run_test(size=(columns, lines)) as pilot:
            await pilot.pause()
            player = Player(app, pilot)
            while not app.foot.lines:  # the first screen
                await asyncio.sleep(0.001)
            await do(player)

    asyncio.run(run())


class Player:
    """Presses keys, and waits until what they ask for is done."""

    def __init__(self, app: Explorer, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            typing, focused = self.app.answer, self.app.prompt.has_focus
            await self.pilot.press(key)
            await self.settled()
            end = time.monotonic() + 20
            while time.monotonic() < end and (
                # A line that was sent is answered; one that is asked for takes the letters.
                (key == "enter" and focused and self.app.answer is typing)
                or (
                    typing is None and self.app.answer is not None and not self.app.prompt.has_focus
                )
            ):
                await asyncio.sleep(0.002)
            await self.settled()

    async def sees(self, words: str, line: int = -1) -> None:
        """Waits until a line of the screen has these words."""
        end = time.monotonic() + 10
        while words not in screen(self.app)[line] and time.monotonic() < end:
            await asyncio.sleep(0.005)
        assert words in screen(self.app)[line]

    async def settled(self) -> None:
        """What was posted before is done: messages go from the app to the line, and back."""
        line = self.app.prompt
        up = [line, line, line.parent, self.app.screen] if line.parent else []
        for pump in (self.app, *up, self.app, self.app):
            assert pump is not None
            done = asyncio.Event()
            if not pump.call_later(done.set):
                return  # it has ended
            await asyncio.wait_for(done.wait(), 30)

    async def click(self, where: str, offset: tuple[int, int]) -> None:
        await self.pilot.click(where, offset=offset)
        await self.settled()

    async def resize_terminal(self, columns: int, lines: int) -> None:
        await self.pilot.resize_terminal(columns, lines)
        await self.pilot.pause(0.01)
        await self.settled()


def screen(app: Explorer) -> list[str]:
    """What is on the screen, a line each."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


@pytest.mark.parametrize("name", ["two_gpus", "serving_oom", "cuda_graphs", "rank0"])
def test_every_key_on_examples(name: str) -> None:
    app = explorer(next(path for path in SNAPSHOTS if path.name.startswith(name)))
    keys = [one for key in KEYS for one in key.keys.split(",") if one not in ASKING]

    async def do(pilot: Any) -> None:
        await pilot.press(*keys, *reversed(keys))
        look = app.looked
        low, high = app.bounds
        assert low <= look.first <= look.event <= look.last <= high
        held = app.explored.usage(look).bytes_at(look.event)
        assert size(held) in app.pane.cursor_line.lines[0].text

    play(app, do)
    assert app.return_code in (None, 0)


def test_every_key_on_real_files(corpus: Path) -> None:
    """Some of other people's recordings, small ones and large."""
    files = sorted((path for path in corpus_files() if _size(path) < 30 << 20), key=_size)
    for path in files[:: max(len(files) // 4, 1)][:4]:
        app = explorer(path)
        keys = [key.keys.split(",")[0] for key in KEYS if key.keys.split(",")[0] not in ASKING]

        async def do(pilot: Any, app: Explorer = app, keys: list[str] = keys) -> None:
            await pilot.press(*keys)
            look = app.looked
            held = app.explored.usage(look).bytes_at(look.event)
            assert size(held) in app.pane.cursor_line.lines[0].text

        play(app, do)
        assert app.return_code in (None, 0), path


def _size(path: Path) -> int:
    return path.stat().st_size


def test_every_key_leaves_a_screen_that_is_right() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        for key in KEYS:
            if key.keys.split(",")[0] in ASKING:
                continue
            await pilot.press(key.keys.split(",")[0])
            low, high = app.bounds
            look = app.looked
            assert low <= look.first <= look.event <= look.last <= high, key
            held = app.explored.usage(look).bytes_at(look.event)
            assert size(held) in app.pane.cursor_line.lines[0].text, key
            assert len(app.explored.rows(look)) == app.rows.count, key

    play(app, do)


def test_the_first_screen_says_what_peak_says() -> None:
    app = explorer()
    (found,) = mr.peak(app.explored.snap).devices

    async def do(_: Any) -> None:
        text = "\n".join(screen(app))
        assert f"{size(found.peak_bytes)} (100.0% of the peak)" in text
        assert f"event {found.event_index:,} of {found.trace_events:,}" in text
        assert "requested, exact" in text

    play(app, do)


def test_moves_in_time() -> None:
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
        assert peak in seen  # where a column is highest, no move passes it by
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


def test_a_line_is_typed() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("colon", *"1000", "enter")
        assert app.looked.event == 1000
        await pilot.press("colon", *"end", "enter")
        assert app.looked.event == app.bounds[1]
        await pilot.press("colon", *"peak", "enter")
        assert app.looked.event == app.explored.usage(app.looked).peak.event_index
        await pilot.press("colon", *"99999", "enter")
        await pilot.sees("99")
        await pilot.press("colon", *"q1", "escape")  # letters, not keys
        assert app.answer is None
        assert app.looked.event == app.explored.usage(app.looked).peak.event_index
        await pilot.press("f", *"--min-bytes 100MiB", "enter")
        assert app.looked.filters is not None
        assert app.looked.filters.min_bytes == 100 << 20
        await pilot.sees("only --min-bytes", 0)
        await pilot.press("f", "ctrl+u", *"(", "enter")
        await pilot.sees("regular expression")
        assert app.looked.filters.min_bytes == 100 << 20  # as before
        await pilot.press("f", "ctrl+u", "enter")
        assert app.looked.filters is None

    play(app, do)


@pytest.mark.parametrize("key", ["/", "f", ":", "e"])
def test_keys_that_come_at_once_are_letters_of_the_line(key: str) -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        for one in ("2", key, "q", "2", "j", "b"):  # as when they are pasted, or come late
            app.post_message(events.Key(one if one.isalnum() else NAMES[one], one))
        await pilot.settled()
        await pilot.settled()
        assert app.prompt.value == "q2jb"
        assert app.looked.view == "groups"
        await pilot.press("escape")
        assert app.answer is None

    play(app, do)


def test_what_is_drawn_is_of_the_size_that_there_is() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        whole = app.pane.cursor_line.lines[0].text
        for columns, lines in ((3, 3), (120, 40)):
            await pilot.resize_terminal(columns, lines)
            await asyncio.sleep(0.2)
            await pilot.settled()
            assert app.pane.cursor_line.lines[0].text == (whole if columns == 120 else "…")

    play(app, do)


def test_a_name_that_is_no_text_is_not_copied() -> None:
    app = explorer()
    app.pane.file = "a\udcff.pkl"

    async def do(pilot: Any) -> None:
        await pilot.press("y")
        assert "not copied, as the file's name is no text" in screen(app)[-1]

    play(app, do)


def test_q_closes_the_keys_and_ctrl_c_ends_it() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        for key in ("q", "escape", "enter"):
            await pilot.press("question_mark")
            assert len(app.screen_stack) == 2
            await pilot.press("m", "2", key)
            assert (len(app.screen_stack), app.looked.measure) == (1, "requested")
            assert app.is_running
            assert app.looked.view == "tree"
        await pilot.press("question_mark", "ctrl+c")
        assert not app.is_running or app._exit

    play(app, do)


def test_search_finds_what_is_not_seen() -> None:
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
        await pilot.sees("nowhere is in no row here")
        await pilot.press("slash", *"(", "enter")
        await pilot.sees("no regular expression")
        await pilot.press("2", "slash", *"train_gpt.py:30", "enter")
        assert "train_gpt.py:30" in app.explored.rows(app.looked).line(app.rows.row).text

    play(app, do)


def test_calls_open_and_close() -> None:
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


def test_a_range_says_what_changed() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("5")
        await pilot.sees("first a range")
        await pilot.press("home", "left_square_bracket", "s", "right_square_bracket")
        assert app.looked.view == "change"
        assert app.looked.span == (app.bounds[0], app.looked.event)
        assert any("change  " in line and "came" in line and "went" in line for line in screen(app))
        await pilot.press("z")
        assert (app.looked.first, app.looked.last) == app.looked.span
        await pilot.press("escape")
        again = app.looked
        assert (again.span, again.view) == (None, "tree")

    play(app, do)


def test_a_segment_opens_into_its_blocks() -> None:
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
        assert app.rows.count > len(there.order)  # it is open at any event
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


def test_the_cursor_keeps_its_row() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("2", "down", "down")
        name = app.explored.rows(app.looked).line(app.rows.row).text
        await pilot.press("left")
        assert app.explored.rows(app.looked).line(app.rows.row).text == name

    play(app, do)


def test_what_is_shown_is_copied_and_written(
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
        await pilot.sees("is there already")
        await pilot.press("e", *"a.pdf", "enter")
        await pilot.sees("end it with")
        await pilot.press("e", *"no/a.txt", "enter")
        assert app.is_running
        await pilot.press("e", *"a.txt", "enter", "e", *"a.md", "enter")

    play(app, do)
    assert "device 0" in (tmp_path / "a.txt").read_text()
    assert (tmp_path / "a.md").read_text().startswith("#")
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".txt", ".md"}


def test_the_page_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("w")
        await app.workers.wait_for_complete()
        await pilot.settled()
        await pilot.sees("wrote recorded_gpt.html; there is no display")

    play(app, do)
    assert (tmp_path / "recorded_gpt.html").read_bytes().startswith(b"<!doctype html")


def test_help_has_all_keys() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("question_mark")
        text = "\n".join(screen(app))
        assert "a column earlier" in text
        await pilot.press("escape")
        assert "a column earlier" not in "\n".join(screen(app))

    play(app, do, lines=100)


def test_the_mouse() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.click("CurveView", offset=(12, 3))
        assert app.looked.event <= app.explored.curve(app.looked, app.curve.columns).bounds[4]
        await pilot.click("#rows", offset=(5, 2))
        assert app.rows.row == 1

    play(app, do)


def test_the_terminal_is_resized() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        for columns, lines in ((200, 60), (80, 24), (40, 10), (20, 5), (1, 1), (120, 40)):
            await pilot.resize_terminal(columns, lines)
            for key in ("right", "down", "r", "r", "2", "1"):
                await pilot.press(key)
        assert "of the peak" in "\n".join(screen(app))

    play(app, do)


@pytest.mark.parametrize("chars", ["ascii", "blocks"])
def test_without_unicode(chars: str) -> None:
    app = explorer(chars=chars)

    async def do(pilot: Any) -> None:
        for key in ("1", "2", "3", "4"):
            await pilot.press(key)
            text = "".join(screen(app))
            assert text.isascii() or chars == "blocks", re.findall(r"[^\x00-\x7f]", text)

    play(app, do)


def two(
    first: str = "transformer_step",
    second: str = "transformer_deeper",
    devices: tuple[int, int] = (0, 0),
) -> Explorer:
    panes = []
    for name, device in zip((first, second), devices, strict=True):
        explored = Explored(mr.open(ROOT / "examples" / f"{name}.pkl.gz"))
        panes.append(Pane(explored, explored.first_look(device), f"{name}.pkl.gz"))
    return Explorer(panes)


def test_two_are_in_sync() -> None:
    app = two()

    async def do(pilot: Any) -> None:
        base, new = app.panes
        assert app.pane is new
        text = "\n".join(screen(app))
        assert "transformer_step.pkl.gz" in text
        assert "transformer_deeper.pkl.gz" in text
        assert "in sync by step" in text
        await pilot.press("home")
        assert (base.looked.event, new.looked.event) == (-1, -1)
        await pilot.press("u", "u", "colon", *"2000", "enter")
        assert app.sync == "event"
        assert (base.looked.event, new.looked.event) == (2000, 2000)
        await pilot.press("backslash", "full_stop")
        assert app.pane is base
        assert (base.looked.event, new.looked.event) == (2001, 2001)
        await pilot.press("m")
        assert (base.looked.measure, new.looked.measure) == ("held", "held")
        await pilot.press("plus", "plus", "z")
        assert (base.looked.first, base.looked.last) == base.explored.bounds(0)
        assert (new.looked.first, new.looked.last) == new.explored.bounds(0)

    play(app, do)


def test_another_device_has_no_steps_and_no_times() -> None:
    plain = SnapshotBuilder(2, times=False)
    plain.alloc(512, 100).alloc(1024, 700, device=1).alloc(2048, 800, device=1)
    for sync in ("step", "time"):
        first = explorer(ROOT / "examples" / "two_gpus.pkl.gz")
        second = explorer(dump(plain.build()))
        app = Explorer([first.pane, second.pane])
        app.sync = sync  # as the devices before had them

        async def do(pilot: Any, app: Explorer = app) -> None:
            await pilot.press("left", "d", "home", "backslash", "end", "d", "left")
            assert app.sync == "event"
            for pane in app.panes:
                low, high = pane.explored.bounds(pane.looked.device)
                assert low <= pane.looked.event <= high

        play(app, do)


def test_reserved_memory_of_two_has_views_of_its_own() -> None:
    app = two()

    async def do(pilot: Any) -> None:
        for view in ("3", "1", "2", "4"):
            # The one that keys are not for stays in this view, until keys are for it.
            await pilot.press("backslash", view, "backslash", "2")
            app.panes[0].looked = replace(app.panes[0].looked, view="list")
            await pilot.press("m", "m", "m", "m", "backslash")
            assert [pane.looked.measure for pane in app.panes] == ["reserved", "reserved"]
            assert {pane.looked.view for pane in app.panes} <= {"groups", "segments"}
            await pilot.press("m")

    play(app, do)


def test_a_click_into_the_other_curve_keeps_the_view() -> None:
    app = two()

    async def do(pilot: Any) -> None:
        await pilot.press("2", "b", "b")
        by = app.looked.by
        await pilot.click("Pane:first-child CurveView", (40, 2))
        assert app.pane is app.panes[0]
        assert (app.looked.view, app.looked.by) == ("groups", by)

    play(app, do)


def test_no_command_says_what_differs_between_other_devices() -> None:
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


def test_every_key_with_two() -> None:
    app = two("recorded_gpt", "transformer_step")
    keys = [one for key in KEYS for one in key.keys.split(",") if one not in ASKING]

    async def do(pilot: Any) -> None:
        await pilot.press(*keys, "backslash", *keys[::2])
        for pane in app.panes:
            low, high = pane.explored.bounds(pane.looked.device)
            look = pane.looked
            assert low <= look.first <= look.event <= look.last <= high

    play(app, do)
    assert app.return_code in (None, 0)


def test_what_differs_is_copied_and_written(
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
        await pilot.sees("no one command says that")

    play(app, do)


def odd(kind: str) -> bytes:
    """Files that are not as others."""
    builder = SnapshotBuilder(2 if kind == "devices" else 1)
    if kind == "one event":
        builder.alloc(512, 100)
    elif kind == "no events":
        builder.finish_segments(extra_live=[(0, 512, 100)])
    elif kind == "hostile":
        frames = [("\x1b[31mname\x1b]0;title\x07", "/a\nb\u202e.py", 2**30), ("[red]m[/]", "", 0)]
        builder.alloc(512, 100, frames=frames).alloc(2**40, 2**36, frames=frames)
    elif kind == "devices":
        builder.alloc(512, 100)
        builder.alloc(1024, 700, device=1)
    return dump(builder.build())


@pytest.mark.parametrize("kind", ["one event", "no events", "hostile", "devices"])
def test_files_that_are_not_as_others(kind: str) -> None:
    app = explorer(odd(kind))
    keys = [one for key in KEYS for one in key.keys.split(",") if one not in ASKING]

    async def do(pilot: Any) -> None:
        for at in range(0, len(keys), 6):
            await pilot.press(*keys[at : at + 6])
            text = "".join(screen(app))
            assert "\x1b" not in text
            assert "\u202e" not in text
        if kind == "devices":
            await pilot.press("d")
            assert "device 1 of 2" in screen(app)[0] or "device 0 of 2" in screen(app)[0]

    play(app, do)
