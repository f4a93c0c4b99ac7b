"""Tests of explore/showing.py: numbers on the screen are right."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from textual import events

import memreplay as mr
from memreplay.explore.app import Explorer
from memreplay.render.units import size
from tests.build import SnapshotBuilder, dump
from tests.conftest import ROOT
from tests.unit.explore.playing import explorer, play, screen, two
from tests.unit.export.page.test_outside import recorded
from tests.unit.snapshot.test_recorded_memory import GIB, NOW, SECOND

pytestmark = pytest.mark.usefixtures("short_waits")
NAMES = {"/": "slash", ":": "colon"}


def test_first_screen_matches_peak() -> None:
    app = explorer()
    (found,) = mr.peak(app.explored.snap).devices

    async def do(_: Any) -> None:
        text = "\n".join(screen(app))
        assert f"{size(found.peak_bytes)} (100.0% of the peak)" in text
        assert f"event {found.peak_event:,} of {found.trace_events:,}" in text
        assert "requested, exact" in text

    play(app, do)


def test_typed_moments_move_the_cursor() -> None:
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
        await pilot.press("f", *"--only min-bytes=100MiB", "enter")
        assert app.looked.filters is not None
        assert app.looked.filters.min_bytes == 100 << 20
        await pilot.sees("only --only min-bytes", 0)
        await pilot.press("f", "ctrl+u", *"(", "enter")
        await pilot.sees("regular expression")
        assert app.looked.filters.min_bytes == 100 << 20  # as before
        await pilot.press("f", "ctrl+u", "enter")
        assert app.looked.filters is None

    play(app, do)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["/", "f", ":", "e"])
def test_pasted_keys_are_letters_of_the_line(key: str) -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        for one in ("2", key, "q", "2", "j", "b"):  # keys may be pasted, or arrive late
            app.post_message(events.Key(one if one.isalnum() else NAMES[one], one))
        await pilot.settled()
        await pilot.settled()
        assert app.prompt.value == "q2jb"
        assert app.looked.view == "groups"
        await pilot.press("escape")
        assert app.answer is None

    play(app, do)


def test_card_at_the_cursor() -> None:
    times = [NOW, NOW + SECOND, NOW + 2 * SECOND]
    app = explorer(dump(recorded(times, [NOW - 5, NOW + 1_600_000], [GIB, None])))

    async def do(pilot: Any) -> None:
        await pilot.press("end")
        assert app.pane.card_line.lines[0].text.strip() == (
            "card: 79.0 GiB outside PyTorch, including other processes, 2 B free (0.400 s earlier)"
        )
        await pilot.press("home")
        assert any(
            "card: 78.0 GiB outside PyTorch, 1.0 GiB in other processes, 1 B free (5 us earlier)"
            in line
            for line in screen(app)
        )

    play(app, do)


def test_no_line_of_the_card_without_samples() -> None:
    app = explorer()

    async def do(_: Any) -> None:
        assert not app.pane.card_line.display

    play(app, do)


def test_drawing_fits_the_available_size() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        whole = app.pane.cursor_line.lines[0].text
        for columns, lines in ((3, 3), (120, 40)):
            await pilot.resize_terminal(columns, lines)
            await asyncio.sleep(0.2)
            await pilot.settled()
            assert app.pane.cursor_line.lines[0].text == (whole if columns == 120 else "…")

    play(app, do)


def test_cursor_keeps_its_row() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("2", "down", "down")
        name = app.explored.rows(app.looked).line(app.rows.row).text
        await pilot.press("left")
        assert app.explored.rows(app.looked).line(app.rows.row).text == name

    play(app, do)


@pytest.mark.slow
def test_screen_follows_the_terminals_size() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        for columns, lines in ((200, 60), (80, 24), (40, 10), (20, 5), (1, 1), (120, 40)):
            await pilot.resize_terminal(columns, lines)
            for key in ("right", "down", "r", "r", "2", "1"):
                await pilot.press(key)
        assert "of the peak" in "\n".join(screen(app))

    play(app, do)


@pytest.mark.parametrize("chars", ["ascii", "blocks"])
def test_screen_without_unicode_is_ascii(chars: str) -> None:
    app = explorer(chars=chars)

    async def do(pilot: Any) -> None:
        for key in ("1", "2", "3", "4"):
            await pilot.press(key)
            text = "".join(screen(app))
            assert text.isascii() or chars == "blocks", re.findall(r"[^\x00-\x7f]", text)

    play(app, do)


@pytest.mark.slow
def test_two_snapshots_stay_in_sync() -> None:
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


@pytest.mark.slow
def test_devices_without_steps_and_times_sync_by_event() -> None:
    plain = SnapshotBuilder(2, times=False)
    plain.alloc(512, 100).alloc(1024, 700, device=1).alloc(2048, 800, device=1)
    for sync in ("step", "time"):
        first = explorer(ROOT / "examples" / "two_gpus.pkl.gz")
        second = explorer(dump(plain.build()))
        app = Explorer([first.pane, second.pane])
        app.sync = sync  # as on the previous device

        async def do(pilot: Any, app: Explorer = app) -> None:
            await pilot.press("left", "d", "home", "backslash", "end", "d", "left")
            assert app.sync == "event"
            for pane in app.panes:
                low, high = pane.explored.bounds(pane.looked.device)
                assert low <= pane.looked.event <= high

        play(app, do)


def colour_of(app: Explorer, words: str) -> str | None:
    """Return the colour in which a text is drawn."""
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if words in segment.text:
                assert segment.style is not None
                return segment.style.color and segment.style.color.name
    raise AssertionError(f"{words} isn't on the screen")


def test_increases_are_red_and_decreases_blue() -> None:
    builder = SnapshotBuilder(1)
    builder.segment_alloc(0, 4 << 20)
    builder.alloc(0, 1 << 20, frames=[("kept", "/a.py", 1)])
    builder.alloc(1 << 20, 2 << 20, frames=[("gone", "/a.py", 2)])
    builder.free(1 << 20, 2 << 20)
    builder.alloc(3 << 20, 1 << 20, frames=[("new", "/a.py", 3)])
    app = explorer(dump(builder.build()))
    rose, fell = (app.palette.tone(one).color for one in ("rose", "fell"))
    assert rose is not None
    assert fell is not None

    async def do(pilot: Any) -> None:
        await pilot.press("home", *["full_stop"] * 3, "left_square_bracket")
        await pilot.press("end", "right_square_bracket")
        assert colour_of(app, "-2.0 MiB") == fell.name
        assert colour_of(app, "+1.0 MiB") == rose.name
        await pilot.press("4", "enter")
        assert colour_of(app, "....") == fell.name
        assert colour_of(app, "####") == rose.name

    play(app, do)
    compared = two()

    async def see(_: Any) -> None:
        assert colour_of(compared, "+236.5 MiB") == rose.name

    play(compared, see)


@pytest.mark.parametrize("lines", [23, 24, 25, 26, 40])
def test_two_curves_with_one_scale_have_the_same_height(lines: int) -> None:
    app = two()

    async def do(pilot: Any) -> None:
        first, second = (pane.curve.size.height for pane in app.panes)
        assert first == second > 0
        await pilot.resize_terminal(100, lines + 3)
        first, second = (pane.curve.size.height for pane in app.panes)
        assert first == second > 0

    play(app, do, lines=lines)
