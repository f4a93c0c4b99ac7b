"""Tests of explore/app.py: all keys, the mouse, and unusual files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memreplay.explore.app import Explorer
from memreplay.explore.keys import KEYS
from memreplay.render.units import size
from tests.build import SnapshotBuilder, dump
from tests.conftest import SNAPSHOTS, corpus_files
from tests.unit.explore.playing import ASKING, explorer, play, screen, two

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two_gpus", "serving_oom", "cuda_graphs", "fsdp_ranks/rank0"])
def test_every_key_works_on_examples(name: str) -> None:
    app = explorer(next(path for path in SNAPSHOTS if path.match(f"{name}*")))
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


def test_every_key_works_on_real_files(corpus: Path) -> None:
    """The files are small and large recordings by other people."""
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


@pytest.mark.slow
def test_every_key_leaves_a_consistent_screen() -> None:
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


@pytest.mark.slow
def test_q_closes_the_key_list_and_ctrl_c_exits() -> None:
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


def test_help_lists_all_keys() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("question_mark")
        text = "\n".join(screen(app))
        assert "a column earlier" in text
        await pilot.press("escape")
        assert "a column earlier" not in "\n".join(screen(app))

    play(app, do, lines=100)


def test_mouse_moves_the_cursor_and_selects_rows() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.click("CurveView", offset=(12, 3))
        assert app.looked.event <= app.explored.curve(app.looked, app.curve.columns).bounds[4]
        await pilot.click("#rows", offset=(5, 2))
        assert app.rows.row == 1

    play(app, do)


def test_click_on_the_other_curve_keeps_the_view() -> None:
    app = two()

    async def do(pilot: Any) -> None:
        await pilot.press("2", "b", "b")
        by = app.looked.by
        await pilot.click("Pane:first-child CurveView", (40, 2))
        assert app.pane is app.panes[0]
        assert (app.looked.view, app.looked.by) == ("groups", by)

    play(app, do)


@pytest.mark.slow
def test_every_key_works_with_two_snapshots() -> None:
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


def odd(kind: str) -> bytes:
    """Create unusual files."""
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one event", "no events", "hostile", "devices"])
def test_every_key_works_with_unusual_files(kind: str) -> None:
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
