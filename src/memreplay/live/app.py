"""The screen of `memreplay watch --live`, which is drawn again each second.

Needs Textual, unlike the memreplay modules that it imports.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.strip import Strip

from memreplay.explore.foot import Foot
from memreplay.explore.help_screen import KeysScreen
from memreplay.explore.keys import Key
from memreplay.explore.palette import Palette, palette_of
from memreplay.explore.terminal import (
    chars_of,
    on_terminal,
    redraw_when_resumed,
    terminal_is_gone,
)
from memreplay.explore.widgets import Text
from memreplay.live.cards import Driver
from memreplay.live.find import live_report
from memreplay.live.recordings import ask_for_snapshot
from memreplay.live.result import LiveRecording, LiveReport
from memreplay.live.text import Drawn, key_of, live_document
from memreplay.render.document import Hue, Line
from memreplay.render.layout import lay_out

SECONDS = 1.0
REMEMBERED = 300  # seconds of use that are drawn
SAID = 8  # seconds for which a message is shown

KEYS: tuple[Key, ...] = (
    Key("up,k", "choose(-1)", "the recording above", "Live", "recording", 2),
    Key("down,j", "choose(1)", "the recording below", "Live"),
    Key("d", "dump", "ask it for a snapshot, with who holds the memory", "Live", "snapshot", 3),
    Key("b", "bars", "only the bars, or all parts of each card", "Live", "bars", 1),
    Key("pageup,ctrl+b", "page(-1)", "a page up", "Live"),
    Key("pagedown,ctrl+f", "page(1)", "a page down", "Live"),
    Key("question_mark,f1", "keys", "all keys", "Live", "keys"),
    Key("ctrl+z", "suspend_process", "suspend; fg in the shell returns", "Live"),
    Key("q,ctrl+c,ctrl+q", "quit", "quit", "Live", "quit"),
)

_STYLES: dict[Hue, Style] = {
    "plain": Style(),
    "strong": Style(bold=True),
    "dim": Style(dim=True),
    "warning": Style(bold=True, color="yellow"),
    **{
        f"hue{i}": Style(color=colour)  # type: ignore[misc]
        for i, colour in enumerate(("cyan", "yellow", "green", "magenta", "red", "blue"), 1)
    },
}


class Live(App[None]):
    """Shows the report, and asks for a new one each second."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #body { height: 1fr; }
    #foot { height: 1; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding(one, "leave" if one == "q" else key.action, key.words, show=False, priority=True)
        for key in KEYS
        for one in key.keys.split(",")
    ]

    def __init__(self, driver: Driver, report: LiveReport, *, plain: bool) -> None:
        super().__init__()
        self.driver, self.report, self.plain = driver, report, plain
        self.body, self.foot = Text(plain, id="body"), Foot(plain, keys=KEYS, id="foot")
        self.history: dict[str, list[int]] = {}
        self.chosen: int | None = None
        self.only_bars, self.top, self.lines = False, 0, 0
        self.said, self.said_until = "", 0.0
        self.to_ask: LiveRecording | None = None  # the recording to ask for a snapshot
        self.asked: LiveRecording | None = None  # the one that got the request, as it was before
        self.remember()

    def compose(self) -> ComposeResult:
        yield self.body
        yield self.foot

    def on_mount(self) -> None:
        if not self.is_headless:
            self.set_interval(3, self.end_with_the_terminal)
        self.set_interval(SECONDS, self.ask)
        redraw_when_resumed(self)

    def end_with_the_terminal(self) -> None:
        if terminal_is_gone():
            self.exit(return_code=1)

    def ask(self) -> None:
        """Ask in a thread, because a driver may hang. A report that takes long isn't asked for
        twice.
        """
        if not any(one.group == "ask" and one.is_running for one in self.workers):
            self.run_worker(self.ask_now, thread=True, group="ask")

    def ask_now(self) -> None:
        one, self.to_ask = self.to_ask, None
        error = "" if one is None else ask_for_snapshot(one.pid)
        if one is not None and error:
            self.call_from_thread(self.say, f"pid {one.pid} writes no snapshot: {error}")
        elif one is not None:
            self.asked = one
        self.call_from_thread(self.seen, live_report(self.driver))

    def seen(self, report: LiveReport) -> None:
        """Draw a new report."""
        self.report = report
        self.remember()
        self.say_what_was_written()
        self.draw()

    def remember(self) -> None:
        """Keep each card's use, and forget cards that have disappeared."""
        used = {key_of(one): one.total_bytes - one.free_bytes for one in self.report.cards}
        self.history = {
            key: [*self.history.get(key, ())[-REMEMBERED + 1 :], n_bytes]
            for key, n_bytes in used.items()
        }
        pids = [one.pid for one in self.report.recordings]
        if self.chosen not in pids:
            self.chosen = pids[0] if pids else None

    def on_text_resized(self) -> None:
        self.draw()

    @property
    def palette(self) -> Palette:
        """The theme's palette."""
        return palette_of(dark=self.current_theme.dark, plain=self.plain)

    def draw(self) -> None:
        """Draw everything. If cards don't fit on the screen, only their bars are drawn."""
        width, height = self.body.size.width - 2, self.body.size.height
        if not self.is_running or width < 1:
            return
        lines = self.laid_out(width, only_bars=self.only_bars)
        if len(lines) > height and len(self.report.cards) > 1:
            lines = self.laid_out(width, only_bars=True)
        self.lines = len(lines)
        self.top = max(min(self.top, self.lines - height), 0)
        self.body.show([strip_of(one) for one in lines[self.top : self.top + height]])
        said = self.said if time.monotonic() < self.said_until else ""
        self.foot.draw(said, self.palette)

    def laid_out(self, width: int, *, only_bars: bool) -> list[Line]:
        drawn = Drawn(width, self.plain, "bars" if only_bars else "all", self.chosen, self.history)
        return lay_out(live_document(self.report, drawn), width)

    def say(self, words: str) -> None:
        """Show a message for a while."""
        self.said, self.said_until = words, time.monotonic() + SAID
        self.draw()

    # --- actions ----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable actions on another screen."""
        return action == "quit" or len(self.screen_stack) == 1

    def action_choose(self, by: int) -> None:
        pids = [one.pid for one in self.report.recordings]
        if self.chosen in pids:
            at = pids.index(self.chosen) + by
            self.chosen = pids[max(min(at, len(pids) - 1), 0)]
            self.draw()

    def action_page(self, by: int) -> None:
        self.top += by * max(self.body.size.height - 1, 1)
        self.draw()

    def action_bars(self) -> None:
        self.only_bars = not self.only_bars
        self.draw()

    def action_dump(self) -> None:
        """Ask the chosen recording for a snapshot."""
        one = self.recording(self.chosen)
        if one is None:
            self.say("no recording is running")
        elif self.to_ask is None and self.asked is None:
            self.to_ask = one
            self.say(f"pid {one.pid} is asked for a snapshot …")
            self.ask()

    def recording(self, pid: int | None) -> LiveRecording | None:
        return next((one for one in self.report.recordings if one.pid == pid), None)

    def say_what_was_written(self) -> None:
        """Say how a recording that was asked for a snapshot has answered."""
        if self.asked is None:
            return
        pid = self.asked.pid
        one = self.recording(pid)
        if one is None:
            words = f"pid {pid} has ended"
        elif one.is_dumping:
            return
        elif one.last_us != self.asked.last_us:
            words = f"run: memreplay {one.last_file}"
        else:
            words = f"pid {pid} couldn't write a snapshot; its log says why"
        self.asked = None
        self.say(words)

    def action_leave(self) -> None:
        """Quit, as ctrl+c does. On another screen, q goes back instead."""
        self.exit()

    def action_keys(self) -> None:
        self.push_screen(KeysScreen(KEYS, self.palette, plain=self.plain))


def strip_of(line: Line) -> Strip:
    return Strip([Segment(" "), *(Segment(text, _STYLES[hue]) for text, hue in line)])


def live(driver: Driver, report: LiveReport) -> int:
    """Show the report until the user leaves. Return the exit code."""
    app = Live(driver, report, plain=chars_of("auto") == "ascii")
    with on_terminal():
        app.run()
    return app.return_code or 0
