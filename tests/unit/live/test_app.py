"""The screen of `memreplay watch --live`, in a simulated terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from memreplay.live import app as module
from memreplay.live.app import Live
from memreplay.live.cards import Driver
from memreplay.live.find import combined
from memreplay.live.result import LiveReport
from tests.unit.live.machine import HOLDER, card, recording

REPORT = combined([card()], "", (recording(), recording(pid=101, name="eval.py")))


class World:
    """The report that the screen sees, and the snapshots that it requested."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.report, self.asked, self.error = REPORT, list[int](), ""
        monkeypatch.setattr(module, "live_report", lambda _: self.report)
        monkeypatch.setattr(module, "ask_for_snapshot", self.ask)
        monkeypatch.setattr(module, "SECONDS", 0.05)
        monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.002)  # of its pilot

    def ask(self, pid: int) -> str:
        self.asked.append(pid)
        if not self.error:
            self.becomes(is_dumping=True)
        return self.error

    def becomes(self, **changes: Any) -> None:
        """Change the first recording."""
        first, *others = self.report.recordings
        self.report = replace(self.report, recordings=(replace(first, **changes), *others))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def play(do: Callable[[Any, Live], Awaitable[None]], *, size: tuple[int, int] = (100, 40)) -> None:
    async def run() -> None:
        app = Live(Driver(), REPORT, plain=False)
        async with app.run_test(size=size) as pilot:
            await sees(app, "NVIDIA H200")
            await do(pilot, app)

    asyncio.run(run())


def screen(app: Live) -> str:
    return "\n".join(strip.text for one in (app.body, app.foot) for strip in one.lines)


async def sees(app: Live, words: str) -> None:
    for _ in range(500):
        if words in screen(app):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{words!r} isn't on the screen:\n{screen(app)}")


def test_screen_follows_the_machine(world: World) -> None:
    async def do(pilot: Any, app: Live) -> None:
        await sees(app, " s, at most 80.0 GiB")
        assert "pid 101 eval.py: allocated by PyTorch" in screen(app)
        world.becomes(step_count=1234)
        await sees(app, "1,234")
        world.report = LiveReport(time_us=0, cards=(), cards_missing="", recordings=())
        await sees(app, "no recording of memreplay is running")
        assert app.history == {}
        world.report = REPORT
        await sees(app, "> pid 100")

    play(do)


def test_snapshot_of_the_chosen_recording(world: World) -> None:
    async def do(pilot: Any, app: Live) -> None:
        await sees(app, "> pid 100")
        await pilot.press("down")
        await sees(app, "> pid 101")
        await pilot.press("up", "d")
        await sees(app, "it's writing a snapshot")
        world.becomes(is_dumping=False, last_file="/x/a.pickle", last_us=5, holders=(HOLDER,))
        await sees(app, "run: memreplay /x/a.pickle")
        await sees(app, "losses[…] (list) in train()")
        assert world.asked == [100]

    play(do)


def test_snapshot_that_fails(world: World) -> None:
    async def do(pilot: Any, app: Live) -> None:
        world.error = "the program handles SIGUSR1 itself"
        await pilot.press("d")
        await sees(app, "pid 100 writes no snapshot: the program handles SIGUSR1 itself")
        world.error = ""
        await pilot.press("d")
        await sees(app, "it's writing a snapshot")
        world.becomes(is_dumping=False)
        await sees(app, "couldn't write a snapshot; its log says why")
        world.report = replace(REPORT, recordings=())
        await sees(app, "no recording of memreplay")
        await pilot.press("d")
        await sees(app, "no recording is running")

    play(do)


@pytest.mark.parametrize("size", [(44, 10), (80, 24), (160, 50)])
def test_every_key_works_at_every_size(world: World, size: tuple[int, int]) -> None:
    async def do(pilot: Any, app: Live) -> None:
        for key in module.KEYS:
            if key.action not in ("quit", "keys", "suspend_process", "dump"):
                await pilot.press(*key.keys.split(","))
        assert max(map(len, screen(app).splitlines())) <= size[0]
        await pilot.resize_terminal(120, 30)
        await sees(app, "q quit")
        await pilot.press("question_mark")
        assert len(app.screen_stack) == 2
        await pilot.press("q")
        assert len(app.screen_stack) == 1
        await pilot.press("q")
        assert app._exit

    play(do, size=size)


def test_many_cards_are_bars(world: World) -> None:
    async def do(pilot: Any, app: Live) -> None:
        world.report = combined([card(number=i, uuid=f"{i}") for i in range(8)], "", ())
        await sees(app, "card 7")
        assert "pid 4711" not in screen(app)
        await pilot.press("pagedown")
        assert app.lines <= app.body.size.height or app.top > 0

    play(do, size=(80, 40))
