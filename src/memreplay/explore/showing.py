"""Draw the view of one snapshot, or of two side by side, and the input line."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Label

from memreplay.errors import MemreplayError
from memreplay.explore.curve import Chars
from memreplay.explore.describing import Describer
from memreplay.explore.details import Details
from memreplay.explore.differences import Differences
from memreplay.explore.explored import Explored
from memreplay.explore.failed import explained, failed_at, failed_lines
from memreplay.explore.foot import Foot
from memreplay.explore.legend import Chosen, Legend
from memreplay.explore.look import Look, counted
from memreplay.explore.palette import Palette, palette_of
from memreplay.explore.panes import Pane
from memreplay.explore.prompt import Prompt
from memreplay.explore.rows.row import Rows
from memreplay.explore.rows.segments import SegmentRows
from memreplay.explore.syncing import Side, Sync, same_moment, syncs
from memreplay.explore.terminal import redraw_when_resumed, terminal_is_gone
from memreplay.explore.widgets import CurveView, RowsView
from memreplay.texts import clean

if TYPE_CHECKING:
    import re

NARROW = 96  # terminals narrower than this show no details next to the list


class Showing(App[None]):
    """One snapshot, or two side by side."""

    TITLE = "memreplay"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    Screen { layout: vertical; }
    #panes { height: 1fr; min-height: 6; }
    #body { height: 2fr; }
    .two #body { height: 1fr; }
    #failed { display: none; max-height: 30%; }
    .failed #failed { display: block; }
    #rows { width: 2fr; }
    #told { width: 1fr; border-left: solid $surface-lighten-2; padding-left: 1; }
    #body.narrow #told, #body.alone #told { display: none; }
    #body.narrow.alone #told { display: block; border-left: none; }
    #body.narrow.alone #rows { display: none; }
    #asking { display: none; height: 1; }
    .asked #asking { display: block; }
    .asked #foot { display: none; }
    #words { width: auto; padding: 0 1; }
    #prompt { width: 1fr; height: 1; border: none; padding: 0; }
    """

    def __init__(self, panes: Sequence[Pane], chars: Chars = "blocks") -> None:
        super().__init__()
        self.animation_level = "none"  # each step would be sent over ssh
        self.panes, self.at = list(panes), len(panes) - 1
        self.chars: Chars = chars
        self.said, self.quits = "", False
        self.pattern: re.Pattern[str] | None = None
        self.answer: Callable[[str], None] | None = None
        self.changed: Callable[[str], None] | None = None
        plain = chars == "ascii"
        self.rows, self.told = RowsView(plain, id="rows"), Details(plain, id="told")
        self.failed, self.explaining = Details(plain, id="failed"), set[tuple[int, int]]()
        self.legend, self.foot = Legend(plain, id="legend"), Foot(plain, id="foot")
        self.all_panes = Vertical(id="panes")
        self.words, self.prompt = Label(id="words", markup=False), Prompt(self.typed, id="prompt")
        self.prompt.can_focus = False
        self.lock = threading.RLock()  # held while code outside the key handlers runs
        self._rows: tuple[object, Rows] | None = None
        self.differences: Differences | None = None
        self.sync: Sync = "event"
        if len(panes) == 2:
            first, second = panes
            self.differences = Differences(first.explored, second.explored)
            self.sync = self.syncs()[0]

    # ---- the snapshot that keys apply to

    @property
    def pane(self) -> Pane:
        return self.panes[self.at]

    @property
    def explored(self) -> Explored:
        return self.pane.explored

    @property
    def describer(self) -> Describer:
        return self.pane.describer

    @property
    def curve(self) -> CurveView:
        return self.pane.curve

    @property
    def looked(self) -> Look:
        return self.pane.looked

    @property
    def shown_rows(self) -> Rows:
        """The list's rows. For two snapshots, these are the differences if they can be compared."""
        if self.differences is not None and self.looked.view in ("tree", "groups"):
            with self.lock:
                found = self.panes[0].looked, self.panes[1].looked
                if self._rows is None or self._rows[0] != (found, self.at):
                    self._rows = (found, self.at), self.differences.rows(*self._alike(*found))
                return self._rows[1]
        return self.explored.rows(self.looked)

    def _alike(self, base: Look, new: Look) -> tuple[Look, Look]:
        """Return both views, with the settings of the one that has the focus."""
        asked = ("view", "by", "measure", "inverted", "whole", "pool", "stream", "filters")
        changes = {name: getattr(self.looked, name) for name in asked}
        return replace(base, **changes), replace(new, **changes)

    def syncs(self) -> tuple[Sync, ...]:
        """The ways in which the two snapshots can be synchronized."""
        first, second = self.panes
        return syncs(first.explored, first.looked, second.explored, second.looked)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and last event."""
        return self.explored.bounds(self.looked.device)

    @property
    def top(self) -> int:
        """The highest peak in bytes, which the curves have in common."""
        return max(pane.peak for pane in self.panes)

    # ---- the screen

    def compose(self) -> ComposeResult:
        with self.all_panes:
            yield from self.panes
        yield self.failed
        yield self.legend
        with Horizontal(id="body"):
            yield self.rows
            yield self.told
        yield self.foot
        with Horizontal(id="asking"):
            yield self.words
            yield self.prompt

    def on_mount(self) -> None:
        if self.chars == "ascii":
            self.told.styles.border_left = ("ascii", "gray")
        self.screen.set_class(len(self.panes) == 2, "two")
        if not self.is_headless:
            self.set_interval(3, self.end_with_the_terminal)
        redraw_when_resumed(self)
        self.call_after_refresh(self.begin_chores)

    def end_with_the_terminal(self) -> None:
        """Exit when the terminal is closed without a SIGHUP, as in a separate session, because
        reading keys would then loop forever.
        """
        if terminal_is_gone():
            self.exit(return_code=1)

    def begin_chores(self) -> None:
        """Compute likely results in the background."""
        self.run_worker(self._chores, thread=True, exit_on_error=False)

    def _chores(self) -> None:
        for pane in self.panes:
            for chore in pane.explored.chores(pane.looked):
                if not self.is_running:
                    return
                with self.lock, contextlib.suppress(MemreplayError):
                    chore()
                time.sleep(0.02)  # so that a waiting key gets the lock first

    def on_resize(self) -> None:
        self.query_one("#body").set_class(self.size.width < NARROW, "narrow")
        self.call_after_refresh(self.draw)

    def on_text_resized(self) -> None:
        self.draw()

    @property
    def palette(self) -> Palette:
        """The theme's palette."""
        return palette_of(dark=self.current_theme.dark, plain=self.chars == "ascii")

    def draw(self) -> None:
        """Draw everything. Unchanged lines aren't sent to the terminal."""
        if not self.is_running or not self.curve.size.width:
            return
        self.even_out()
        with self.lock:
            palette = self.palette
            for pane in self.panes:
                pane.draw(palette, self.top, active=pane is self.pane)
            pattern, rows = self.pattern, self.shown_rows
            if isinstance(rows, SegmentRows):
                rows.fit(self.rows.size.width)
            self.rows.draw(
                rows,
                self.title_of_rows(),
                palette,
                (lambda _: None) if pattern is None else pattern.search,
            )
            marks = self.explored.marks(self.looked)
            self.legend.draw(Chosen(self.looked.view, marks), palette)
            self.draw_failed()
            self.draw_details()
            self.draw_foot()

    def even_out(self) -> None:
        """Give two curves the same height, because they have the same scale."""
        if len(self.panes) == 2:
            room = self.size.height - 2 - self.failed.size.height * self.failed.display
            least = 5 if room > 3 * 5 else 3  # a pane of 5 lines has all but a tall curve
            self.all_panes.styles.height = 2 * max(-(-room // 4), least)

    def title_of_rows(self) -> str:
        """Return the list's title."""
        words = self.describer.title(self.looked)
        if self.differences is not None and self.looked.view in ("tree", "groups"):
            return f"in sync by {self.sync}: {words}"
        return words

    def draw_details(self) -> None:
        """Draw the selected row's details."""
        rows, row, width = self.shown_rows, self.rows.row, self.told.room
        if width <= 0:
            return
        there = len(rows) > 0
        lines = self.describer.details(rows, row, width) if there else []
        self.told.draw(rows.key(row) if there else None, lines, self.palette)

    def draw_failed(self) -> None:
        """Describe the failed request at the cursor, if any."""
        found = failed_at(self.explored, self.looked)
        self.screen.set_class(found is not None, "failed")
        if found is None:
            return
        key = self.looked.device, self.looked.event
        oom = self.explored.causes.get(key)
        if oom is None and key not in self.explaining:
            self.explaining.add(key)
            explain = partial(self._explain, self.explored, self.looked, found.number)
            self.run_worker(explain, thread=True, exit_on_error=False)
        lines = failed_lines(found, oom, self.size.width - 1)
        self.failed.styles.height = len(lines)
        self.failed.draw(key, lines, self.palette)

    def _explain(self, explored: Explored, look: Look, number: int) -> None:
        with self.lock:
            explored.causes[look.device, look.event] = explained(explored, look, number)
        self.call_from_thread(self.draw)

    def draw_foot(self) -> None:
        """Draw the most important keys, or a message."""
        self.foot.draw(self.said, self.palette)

    # ---- the view

    def show(self, look: Look) -> None:
        """Change the view. If the new one can't be shown, say why and keep the old one."""
        before = [pane.looked for pane in self.panes]
        kept = self.key_of_row()
        try:
            with self.lock:
                look = self.explored.fitting(look)
                if counted(look) != counted(self.looked):
                    look = replace(look, lens=None)
                self.explored.usage(look)
                self.pane.looked = look
                self.follow()
                _ = self.shown_rows
        except MemreplayError as error:
            for pane, old in zip(self.panes, before, strict=True):
                pane.looked = old
            self.say(str(error))
            return
        old = before[self.at]
        self.said = ""
        if look.view == old.view and look.by == old.by:
            self.keep_row(kept)
        else:
            self.rows.row = 0
        self.draw()

    def follow(self) -> None:
        """Move the other snapshot's cursor and window to match this one's."""
        if self.differences is None:
            return
        other, look = self.panes[1 - self.at], self.looked
        there = self.syncs()
        if self.sync not in there:  # another device may have no steps or no times
            self.sync = there[0]

        def moment(event: int) -> int:
            theirs = Side(other.explored, other.looked)
            return same_moment(Side(self.explored, look), event, theirs, self.sync)

        event, first, last = moment(look.event), moment(look.first), moment(look.last)
        if look.event == self.explored.peak(look).event_index:
            theirs = replace(
                other.looked,
                measure=look.measure,
                pool=look.pool,
                stream=look.stream,
                filters=look.filters,
            )
            event = other.explored.peak(theirs).event_index  # compare peaks
        low, high = other.explored.bounds(other.looked.device)
        first, last = min(first, event), max(last, event, first)
        if (look.first, look.last) == self.bounds:
            first, last = low, high
        moved = replace(
            other.looked,
            event=event,
            first=first,
            last=last,
            measure=look.measure,
            axis=look.axis,
            lens=look.lens,
            pool=look.pool,
            stream=look.stream,
            filters=look.filters,
        )
        other.looked = other.explored.fitting(moved)
        other.explored.usage(other.looked)

    def key_of_row(self) -> Any:
        rows = self.shown_rows
        return rows.key(self.rows.row) if 0 <= self.rows.row < len(rows) else None

    def keep_row(self, key: Any) -> None:
        """Keep the same row selected at its new position."""
        rows = self.shown_rows
        self.rows.row = next((at for at in range(len(rows)) if rows.key(at) == key), 0)

    def say(self, words: str) -> None:
        """Show a message in the last line until the next key."""
        self.said = clean(words)
        self.draw_foot()

    # ---- questions

    def ask(
        self,
        words: str,
        answer: Callable[[str], None],
        value: str = "",
        changed: Callable[[str], None] | None = None,
    ) -> None:
        """Show an input line in place of the last line. `changed` gets the text as it's typed."""
        self.answer, self.changed = answer, changed
        self.words.update(words)
        self.prompt.value = value
        self.prompt.can_focus = True
        self.screen.add_class("asked")
        # do this at once, because keys that are already waiting are part of the text
        self.set_focus(self.prompt)

    def typed(self, text: str) -> None:
        """Accept the typed text."""
        answer = self.answer
        self.asked()
        if answer is not None:
            try:
                answer(text)
            except (MemreplayError, OSError) as error:
                self.say(str(error))

    def on_input_changed(self, message: Prompt.Changed) -> None:
        if self.answer is not None and self.changed is not None:
            self.changed(message.value)

    def asked(self) -> None:
        """Close the input line."""
        self.answer = self.changed = None
        self.screen.remove_class("asked")
        self.prompt.can_focus = False
        self.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable actions while typing or on another screen."""
        if action == "quit":
            return True
        if len(self.screen_stack) > 1:
            return False
        return self.answer is None or action in ("undo_last", "command_palette")
