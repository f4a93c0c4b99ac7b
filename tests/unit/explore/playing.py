"""Drive the explorer in a simulated terminal: press keys and read the screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.events import MouseScrollDown

import memreplay as mr
from memreplay.explore.app import Explorer
from memreplay.explore.explored import Explored
from memreplay.explore.panes import Pane
from tests.conftest import ROOT

GPT = ROOT / "examples" / "recorded_gpt.pkl.gz"
# These keys open a prompt, write files or exit.
ASKING = {"colon", "slash", "f", "e", "w", "question_mark", "f1", "q", "ctrl+c", "ctrl+q"}


def explorer(path: Path | bytes = GPT, chars: Any = "blocks") -> Explorer:
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
    """Run the explorer in a terminal of this size."""

    async def run() -> None:
        async with app.run_test(size=(columns, lines)) as pilot:
            await pilot.pause()
            player = Player(app, pilot)
            while not app.foot.lines:  # the first screen
                await asyncio.sleep(0.001)
            await do(player)

    asyncio.run(run())


class Player:
    """Press keys, and wait until they are handled."""

    def __init__(self, app: Explorer, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            typing, focused = self.app.answer, self.app.prompt.has_focus
            await self.pilot.press(key)
            await self.settled()
            end = time.monotonic() + 20
            while time.monotonic() < end and (
                # A submitted line is handled; an open prompt takes the letters.
                (key == "enter" and focused and self.app.answer is typing)
                or (
                    typing is None and self.app.answer is not None and not self.app.prompt.has_focus
                )
                or self.shows_a_line_that_is_gone()
            ):
                await asyncio.sleep(0.002)
            await self.settled()

    def shows_a_line_that_is_gone(self) -> bool:
        """Return whether a line was submitted and the screen hasn't been laid out since."""
        app = self.app
        if not app.is_running or app.answer is not None or len(app.screen_stack) > 1:
            return False
        return app.query_one("#asking").region.height > 0

    async def sees(self, words: str, line: int = -1) -> None:
        """Wait until a line on the screen contains this text."""
        end = time.monotonic() + 10
        while words not in screen(self.app)[line] and time.monotonic() < end:
            await asyncio.sleep(0.005)
        assert words in screen(self.app)[line]

    async def settled(self) -> None:
        """Wait until earlier messages are handled, which go from the app to the prompt and back."""
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

    async def wheel(self, where: str) -> None:
        """Turn the mouse wheel down over a widget."""
        await self.pilot._post_mouse_events([MouseScrollDown], where, button=0)
        await self.settled()

    async def resize_terminal(self, columns: int, lines: int) -> None:
        await self.pilot.resize_terminal(columns, lines)
        await self.pilot.pause(0.01)
        await self.settled()


def screen(app: Explorer) -> list[str]:
    """Return the screen, one string per line."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


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
