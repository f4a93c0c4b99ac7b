"""Tests of explore/failed.py: `o` shows what `memreplay oom` says."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.oom.text import cause_text, remedy_text
from memreplay.render.units import size
from tests.conftest import ROOT
from tests.unit.explore.playing import explorer, play, screen

pytestmark = pytest.mark.usefixtures("short_waits")
SERVING = ROOT / "examples" / "serving_oom.pkl.gz"


def test_failed_request_shows_size_code_and_verdict() -> None:
    app = explorer(SERVING)
    (device,) = mr.oom(mr.open(SERVING), oom=0).devices

    async def do(pilot: Any) -> None:
        assert not app.failed.display
        await pilot.press("home")
        for oom in device.ooms:
            await pilot.press("o")
            assert app.looked.event == oom.event_index
            await app.workers.wait_for_complete()
            await pilot.settled()
            text = " ".join(" ".join(screen(app)).split())
            code = oom.asked_by.label.replace(" ", "  ", 1)
            assert f"! {size(oom.request_bytes)} request failed ({oom.number} of 2) at" in text
            assert " ".join(code.split()) in text
            assert cause_text(oom) in text
            for remedy in oom.remedies:
                assert remedy_text(remedy, oom) in text
        await pilot.press("O", "comma")
        assert not app.failed.display

    play(app, do)


def test_narrow_terminals_show_the_request() -> None:
    app = explorer(SERVING)

    async def do(pilot: Any) -> None:
        await pilot.press("home", "o")
        await app.workers.wait_for_complete()
        await pilot.settled()
        text = "\n".join(screen(app))
        assert "196.0 MiB request failed (1 of 2)" in text
        assert "attention" in text
        await pilot.press("down")
        assert app.rows.size.height >= 3

    play(app, do, columns=40, lines=24)


@pytest.mark.parametrize("size", [(1, 1), (2, 10), (10, 3)])
def test_tiny_terminals_show_a_failure_without_failing(size: tuple[int, int]) -> None:
    app = explorer(SERVING)

    async def do(pilot: Any) -> None:
        await pilot.resize_terminal(*size)
        await pilot.press("home", "o")
        await app.workers.wait_for_complete()
        await pilot.settled()
        assert app.looked.event in app.explored.marks(app.looked).ooms
        await pilot.resize_terminal(120, 40)
        await pilot.settled()
        assert "196.0 MiB request failed (1 of 2)" in "\n".join(screen(app))

    play(app, do)
