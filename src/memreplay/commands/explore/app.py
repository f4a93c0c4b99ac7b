"""The explorer in the terminal: keys change what is looked at, and the engine says what is there.

Needs Textual; what it imports of memreplay works without.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from rich.segment import Segment
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.strip import Strip
from textual.widgets import Input, Label

from memreplay.commands.explore import asking
from memreplay.commands.explore import look as looks
from memreplay.commands.explore.commands_for import (
    command_line,
    difference_line,
    filter_words,
    filtered,
)
from memreplay.commands.explore.curve import Chars
from memreplay.commands.explore.differences import Differences, DifferenceTree
from memreplay.commands.explore.explored import Explored
from memreplay.commands.explore.keys import KEYS, first_key, spelled
from memreplay.commands.explore.look import VIEWS, Look, View
from memreplay.commands.explore.palette import Palette, palette_of
from memreplay.commands.explore.panes import Pane
from memreplay.commands.explore.rows import MORE, MOST_ROWS, Rows, SegmentRows, TreeRows
from memreplay.commands.explore.searching import find, pattern_of
from memreplay.commands.explore.syncing import Sync, same_moment, syncs
from memreplay.commands.explore.telling import Teller
from memreplay.commands.explore.terminal import terminal_is_gone
from memreplay.commands.explore.widgets import CurveView, RowsView, Text
from memreplay.errors import MemreplayError
from memreplay.render.fit import clean

if TYPE_CHECKING:
    import re

    from textual.screen import Screen

NARROW = 96  # cells below which there is no room for details beside the list
SEVERAL = 4  # times as many rows where somebody wants more
LEAST_SHARE = 1e-6  # of calls that are shown


class Prompt(Input):
    """A line to type; Enter hands it over at once, so that keys after it are no part of it."""

    def __init__(self, done: Callable[[str], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.done = done

    async def action_submit(self) -> None:
        self.done(self.value)


class Explorer(App[None]):
    """One snapshot, explored, or two side by side."""

    TITLE = "memreplay"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    Screen { layout: vertical; }
    #foot { height: 1; }
    #panes { height: 1fr; min-height: 6; }
    #body { height: 2fr; }
    #panes.two { height: 1fr; }
    .two #body { height: 1fr; }
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
    # With priority each is done before the next key is looked at: after / that one is a letter,
    # however fast both come.
    BINDINGS: ClassVar[list[Any]] = [
        Binding(one, "leave" if one == "q" else key.action, key.words, show=False, priority=True)
        for key in KEYS
        for one in key.keys.split(",")
    ]

    def __init__(self, panes: Sequence[Pane], chars: Chars = "braille") -> None:
        super().__init__()
        self.panes, self.at = list(panes), len(panes) - 1
        self.chars: Chars = chars
        self.said = ""
        self.pattern: re.Pattern[str] | None = None
        self.answer: Callable[[str], None] | None = None
        plain = chars == "ascii"
        self.rows, self.told = RowsView(plain, id="rows"), Text(plain, id="told")
        self.foot = Text(plain, id="foot")
        self.words, self.prompt = Label(id="words", markup=False), Prompt(self.typed, id="prompt")
        self.prompt.can_focus = False
        self.lock = threading.RLock()  # of who asks for anything beside the keys
        self._rows: tuple[object, Rows] | None = None
        self.differences: Differences | None = None
        self.sync: Sync = "event"
        if len(panes) == 2:
            first, second = panes
            self.differences = Differences(first.explored, second.explored)
            self.sync = self.syncs()[0]

    # ---- the snapshot that keys are for

    @property
    def pane(self) -> Pane:
        return self.panes[self.at]

    @property
    def explored(self) -> Explored:
        return self.pane.explored

    @property
    def teller(self) -> Teller:
        return self.pane.teller

    @property
    def curve(self) -> CurveView:
        return self.pane.curve

    @property
    def looked(self) -> Look:
        return self.pane.looked

    @property
    def shown_rows(self) -> Rows:
        """What the list shows: of two snapshots what differs, where that can be said."""
        if self.differences is not None and self.looked.view in ("tree", "groups"):
            with self.lock:
                found = self.panes[0].looked, self.panes[1].looked
                if self._rows is None or self._rows[0] != (found, self.at):
                    self._rows = (found, self.at), self.differences.rows(*self._alike(*found))
                return self._rows[1]
        return self.explored.rows(self.looked)

    def _alike(self, base: Look, new: Look) -> tuple[Look, Look]:
        """Both looks, with what is asked of the one that keys are for."""
        asked = ("view", "by", "measure", "inverted", "whole", "pool", "stream", "filters")
        changes = {name: getattr(self.looked, name) for name in asked}
        return replace(base, **changes), replace(new, **changes)

    def syncs(self) -> tuple[Sync, ...]:
        """What the two have in common."""
        first, second = self.panes
        return syncs(first.explored, first.looked, second.explored, second.looked)

    # ---- the screen

    def compose(self) -> ComposeResult:
        with Vertical(id="panes"):
            yield from self.panes
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
        self.call_after_refresh(self.begin_chores)

    def end_with_the_terminal(self) -> None:
        """A terminal that was closed without a word (a session of its own gets no SIGHUP) would be
        asked for keys for ever."""
        if terminal_is_gone():
            self.exit(return_code=1)

    def begin_chores(self) -> None:
        """What is likely asked for is made beside the keys."""
        self.run_worker(self._chores, thread=True, exit_on_error=False)

    def _chores(self) -> None:
        for pane in self.panes:
            for chore in pane.explored.chores(pane.looked):
                if not self.is_running:
                    return
                with self.lock, contextlib.suppress(MemreplayError):
                    chore()
                time.sleep(0.02)  # a key that waits for the lock comes first

    def on_resize(self) -> None:
        self.query_one("#body").set_class(self.size.width < NARROW, "narrow")
        self.call_after_refresh(self.draw)

    def on_text_resized(self) -> None:
        self.draw()

    @property
    def palette(self) -> Palette:
        """That of the theme."""
        return palette_of(dark=self.current_theme.dark, plain=self.chars == "ascii")

    def draw(self) -> None:
        """All that is shown; what is as before costs nothing on the line."""
        if not self.is_running or not self.curve.size.width:
            return
        with self.lock:
            palette = self.palette
            top = max(pane.peak for pane in self.panes)
            for pane in self.panes:
                pane.draw(palette, top, active=pane is self.pane)
            pattern = self.pattern
            self.rows.draw(
                self.shown_rows,
                self.title_of_rows(),
                palette,
                (lambda _: None) if pattern is None else pattern.search,
            )
            self.draw_told()
            self.draw_foot()

    def title_of_rows(self) -> str:
        """What the rows are."""
        words = self.teller.title(self.looked)
        if self.differences is not None and self.looked.view in ("tree", "groups"):
            return f"in sync by {self.sync}: {words}"
        return words

    def draw_told(self) -> None:
        """What is told of the row."""
        width, height = self.told.size.width, self.told.size.height
        if width <= 0 or not height:
            return
        rows, palette = self.shown_rows, self.palette
        if not len(rows):
            self.told.show([])
            return
        styles = {"": palette.plain, "dim": palette.dim, "title": palette.own}
        self.told.show(
            [
                Strip([Segment(text, styles[style])])
                for text, style in self.teller.told(rows, self.rows.row, width, height)
            ]
        )

    def draw_foot(self) -> None:
        """The keys that matter, or what there is to say."""
        palette = self.palette
        if self.said:
            self.foot.show([self.line(f" {self.said}", palette.own)])
            return
        named = [(first_key(key.keys), key.footer) for key in KEYS if key.footer]
        last, room = named[-2:], self.size.width  # help, and the way out, are always there
        room -= sum(len(name) + len(word) + 3 for name, word in last)
        shown = []
        for name, word in named[:-2]:
            room -= len(name) + len(word) + 3
            if room < 0:
                break
            shown.append((name, word))
        segments = [
            segment
            for name, word in (*shown, *last)
            for segment in (Segment(f" {name}", palette.own), Segment(f" {word} ", palette.dim))
        ]
        self.foot.show([Strip(segments)])

    def line(self, text: str, style: Any) -> Strip:
        return Strip([Segment(text, style)])

    # ---- what is looked at

    def show(self, look: Look) -> None:
        """Looks at something else; what cannot be shown is said, and nothing changes."""
        before = [pane.looked for pane in self.panes]
        kept = self.key_of_row()
        try:
            with self.lock:
                look = self.explored.fitting(look)
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
        """The other snapshot's cursor and window go where this one's are."""
        if self.differences is None:
            return
        other, look = self.panes[1 - self.at], self.looked
        there = self.syncs()
        if self.sync not in there:  # another device has no steps, or no times
            self.sync = there[0]

        def moment(event: int) -> int:
            return same_moment(self.explored, look, event, other.explored, other.looked, self.sync)

        event, first, last = moment(look.event), moment(look.first), moment(look.last)
        if look.event == self.explored.peak(look).event_index:
            theirs = replace(
                other.looked,
                measure=look.measure,
                pool=look.pool,
                stream=look.stream,
                filters=look.filters,
            )
            event = other.explored.peak(theirs).event_index  # peaks are compared
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
        """The same row as before, wherever it is now."""
        rows = self.shown_rows
        self.rows.row = next((at for at in range(len(rows)) if rows.key(at) == key), 0)

    def say(self, words: str) -> None:
        """A word in the last line, until the next key."""
        self.said = clean(words)
        self.draw_foot()

    # ---- keys: time

    def action_column(self, by: int) -> None:
        look, columns = self.looked, self.curve.columns
        at = self.explored.column(look, columns, look.event)
        curve = self.explored.curve(look, columns)
        low, high = self.explored.bounds(look.device)
        event = look.event + by
        target = at + by
        if 0 <= target < columns:
            wanted = self.explored.event_of(look, columns, target)
            if (wanted - look.event) * by > 0:
                event = wanted
            elif curve.bounds[at + 1] - curve.bounds[at] <= 1:
                event = look.event + by
            else:
                # By time columns may have no event of their own: on to the next one that has.
                event = curve.bounds[at + 1] if by > 0 else curve.bounds[at] - 1
        elif look.event not in (look.first, look.last):
            event = look.last if by > 0 else look.first
        self.show(looks.moved(look, event, low, high))

    def action_event(self, by: int) -> None:
        self.show(looks.moved(self.looked, self.looked.event + by, *self.bounds))

    def action_pan(self, by: int) -> None:
        self.show(looks.panned(self.looked, by / 2, *self.bounds))

    def action_edge(self, by: int) -> None:
        low, high = self.bounds
        self.show(looks.moved(self.looked, low if by < 0 else high, low, high))

    def action_mark(self, kind: str, by: int) -> None:
        events: list[int] = getattr(self.explored.marks(self.looked), kind)
        now = self.looked.event
        there = [one for one in events if (one - now) * by > 0]
        if not there:
            names = {"ooms": "failed request", "steps": "step", "peaks": "peak"}
            where = "after" if by > 0 else "before"
            self.say(f"no {names.get(kind, kind[:-1])} {where} this event")
            return
        self.show(looks.moved(self.looked, there[0] if by > 0 else there[-1], *self.bounds))

    def action_zoom(self, by: float) -> None:
        self.show(looks.zoomed(self.looked, by, *self.bounds))

    def action_fit(self) -> None:
        low, high = self.looked.span or self.bounds
        if (self.looked.first, self.looked.last) == (low, high):
            low, high = self.bounds
        event = min(max(self.looked.event, low), high)
        self.show(replace(self.looked, first=low, last=high, event=event))

    def action_axis(self) -> None:
        if self.explored.replay(self.looked).clock is None:
            self.say("the events have no times that differ")
            return
        self.show(replace(self.looked, axis="event" if self.looked.axis == "time" else "time"))

    def action_bound(self, end: str) -> None:
        look = replace(self.looked, **{end: self.looked.event})
        if look.span is None:
            self.show(look)
            self.say("now the other end of the range: [ begins it, ] ends it")
            return
        self.show(replace(look, view="change"))

    def action_go(self) -> None:
        self.ask("go to", self.go)

    def go(self, text: str) -> None:
        """To a moment, as options name it."""
        event = asking.moment_of(self.explored, self.looked, text)
        self.show(looks.moved(self.looked, event, *self.bounds))

    @property
    def bounds(self) -> tuple[int, int]:
        """Of the events."""
        return self.explored.bounds(self.looked.device)

    # ---- keys: what

    def action_measure(self, by: int) -> None:
        there = self.explored.measures(self.looked)
        at = there.index(self.looked.measure) if self.looked.measure in there else 0
        self.show(replace(self.looked, measure=there[(at + by) % len(there)]))

    def action_device(self, by: int) -> None:
        devices = self.explored.snap.devices
        if len(devices) < 2:
            self.say("there is one device")
            return
        device = devices[(devices.index(self.looked.device) + by) % len(devices)]
        first = self.explored.first_look(device, self.looked.measure)
        changes = {name: getattr(self.looked, name) for name in ("view", "by", "inverted", "whole")}
        view = changes["view"] if changes["view"] != "change" else "tree"
        self.explored.root = None
        self.show(replace(first, **{**changes, "view": view}))

    def action_view(self, by: int) -> None:
        there = [view for view in VIEWS if view != "change" or self.looked.span is not None]
        at = there.index(self.looked.view)
        self.action_views(there[(at + by) % len(there)])

    def action_views(self, view: View) -> None:
        if view == "change" and self.looked.span is None:
            self.say("first a range: [ begins it, ] ends it")
            return
        if self.looked.measure == "reserved" and view not in ("groups", "segments"):
            self.say("reserved memory consists of segments: it has pools and streams alone")
            return
        self.show(replace(self.looked, view=view))

    def action_way(self, by: int) -> None:
        ways = self.explored.ways(self.looked)
        at = ways.index(self.looked.by) if self.looked.by in ways else -by
        if self.looked.view in ("groups", "change"):
            self.show(replace(self.looked, by=ways[(at + by) % len(ways)]))
        else:
            self.show(replace(self.looked, view="groups"))

    def action_turn(self) -> None:
        self.explored.root = None
        self.show(replace(self.looked, view="tree", inverted=not self.looked.inverted))

    def action_internal(self) -> None:
        self.explored.root = None
        self.show(replace(self.looked, whole=not self.looked.whole))

    def action_finer(self, by: float) -> None:
        share = min(max(self.explored.share * by, LEAST_SHARE), 0.1)
        self.explored.share = share
        self.show(self.looked)
        self.say(f"calls of at least {share:.4%} are shown")

    def action_filter(self) -> None:
        import shlex

        self.ask("filter", self.filter, shlex.join(filter_words(self.looked)))

    def filter(self, text: str) -> None:
        """Allocations, by options as they are typed."""
        self.explored.root = None
        self.show(filtered(self.looked, text))

    # ---- keys: the other snapshot

    def action_other(self) -> None:
        if self.differences is None:
            self.say("there is one snapshot; memreplay explore BEFORE AFTER compares two")
            return
        asked = self._alike(*(pane.looked for pane in self.panes))
        self.at = 1 - self.at
        self.pane.looked = self.explored.fitting(asked[self.at])
        self.show(self.pane.looked)

    def action_sync(self) -> None:
        if self.differences is None:
            self.say("there is one snapshot; memreplay explore BEFORE AFTER compares two")
            return
        there = self.syncs()
        self.sync = there[(there.index(self.sync) + 1) % len(there)]
        self.show(self.looked)

    # ---- keys: rows

    def choose(self, row: int) -> None:
        """Another row."""
        self.said = ""
        self.rows.row = max(min(row, len(self.shown_rows) - 1), 0)
        self.draw()

    def action_row(self, by: int) -> None:
        self.choose(self.rows.row + by)

    def action_page(self, by: int) -> None:
        self.choose(self.rows.row + by * self.rows.page)

    def action_last_row(self, by: int) -> None:
        self.choose(0 if by < 0 else self.rows.count - 1)

    def action_open_row(self) -> None:
        explored = self.explored
        rows, row = self.shown_rows, self.rows.row
        if not len(rows):
            return
        key = rows.key(row)
        if isinstance(rows, DifferenceTree):
            assert self.differences is not None
            self.differences.open[key] = not rows.opened(rows.visible[row])
            rows.unfold()
        elif isinstance(rows, TreeRows) and row < len(rows.visible) and rows.visible[row] >= 0:
            at = rows.visible[row]
            if rows.can_open(at):
                explored.open[key] = not rows.opened(at)
                rows.unfold()
        elif isinstance(rows, TreeRows):
            explored.share = max(explored.share / 10, LEAST_SHARE)
        elif isinstance(rows, SegmentRows):
            if rows.is_rest(row):
                explored.most = min(explored.most * SEVERAL, MOST_ROWS)
            else:
                rows.toggle(row)
        elif key == MORE:
            explored.most = min(explored.most * SEVERAL, MOST_ROWS)
        self.draw()

    def action_all(self, is_open: bool) -> None:
        rows = self.shown_rows
        if isinstance(rows, (TreeRows, DifferenceTree)):
            key = self.key_of_row()
            opened = self.explored.open if isinstance(rows, TreeRows) else self.differences_open
            opened.clear()
            opened.update(dict.fromkeys(rows.all_keys(), is_open))
            rows.unfold()
            self.keep_row(key)
            self.draw()

    @property
    def differences_open(self) -> dict[Any, bool]:
        return {} if self.differences is None else self.differences.open

    def action_focus_call(self) -> None:
        rows = self.shown_rows
        if not isinstance(rows, TreeRows):
            self.say("only a call in the tree of one snapshot is shown alone")
            return
        row = self.rows.row
        if row < len(rows.visible) and rows.visible[row] >= 0:
            self.explored.root = rows.key(row)
            self.rows.row = 0
            self.draw()
            self.say("this call alone: esc shows all")

    def action_undo_last(self) -> None:
        if self.answer is not None:
            self.asked()
        elif self.explored.root is not None:
            key, self.explored.root = self.explored.root, None
            self.keep_row(key)
            self.draw()
        elif self.pattern is not None:
            self.pattern = None
            self.draw()
        elif self.looked.begin is not None or self.looked.end is not None:
            self.show(replace(self.looked, begin=None, end=None))

    def action_search(self) -> None:
        self.ask("search", self.search)

    def search(self, text: str) -> None:
        """The next row with it."""
        self.pattern = pattern_of(text) if text else None
        self.action_again(1)

    def action_again(self, by: int) -> None:
        if self.pattern is None:
            self.draw()
            return
        row = find(self.shown_rows, self.explored.open, self.pattern, self.rows.row, forward=by > 0)
        if row is None:
            self.draw()
            hidden = self.looked.view == "tree" and not self.looked.whole
            more = "i shows frames that are not yours" if hidden else "f filters all by it"
            self.say(f"{self.pattern.pattern} is in no row here; {more}")
            return
        self.choose(row)

    def action_details(self) -> None:
        self.query_one("#body").toggle_class("alone")
        self.call_after_refresh(self.draw)

    # ---- keys: out

    def command(self) -> str:
        """The command line that says what is shown."""
        if self.differences is not None and self.looked.view in ("tree", "groups"):
            return difference_line(self.panes[0], self.panes[1], self.looked)
        return command_line(self.pane.file, self.looked, self.pane.read, self.explored.share)

    def action_copy(self) -> None:
        try:
            command = self.command()
        except MemreplayError as error:
            self.say(str(error))
            return
        try:
            self.copy_to_clipboard(command)
        except UnicodeEncodeError:
            self.say(f"not copied, as the file's name is no text: {command}")
            return
        self.say(f"copied: {command}")

    def action_export(self) -> None:
        self.ask("write to (.json, .txt, .md)", self.export)

    def export(self, name: str) -> None:
        """What is shown, into a file."""
        if not name.strip():
            return
        path = os.path.expanduser(name.strip())
        if self.differences is not None and self.looked.view in ("tree", "groups"):
            said = asking.exported_difference(self.panes[0], self.panes[1], self.looked, path)
        else:
            said = asking.exported(self.explored, self.looked, path)
        self.say(said)

    def action_page_of_view(self) -> None:
        self.say("making the page …")
        self.run_worker(self._page, thread=True, exclusive=True, exit_on_error=False)

    def _page(self) -> None:
        try:
            said = asking.page_written(self.explored, self.pane.file)
        except (MemreplayError, OSError) as error:
            said = str(error)
        self.call_from_thread(self.say, said)

    def action_leave(self) -> None:
        """As ctrl+c, but on another screen: there q goes back."""
        self.exit()

    def action_keys(self) -> None:
        from memreplay.commands.explore.help_screen import KeysScreen

        self.push_screen(KeysScreen())

    # ---- questions

    def ask(self, words: str, answer: Callable[[str], None], value: str = "") -> None:
        """A line to type, in place of the last one."""
        self.answer = answer
        self.words.update(words)
        self.prompt.value = value
        self.prompt.can_focus = True
        self.screen.add_class("asked")
        self.set_focus(self.prompt)  # at once: keys that wait already are letters of the line

    def typed(self, text: str) -> None:
        """The line is as it should be."""
        answer = self.answer
        self.asked()
        if answer is not None:
            try:
                answer(text)
            except (MemreplayError, OSError) as error:
                self.say(str(error))

    def asked(self) -> None:
        """The line goes away."""
        self.answer = None
        self.screen.remove_class("asked")
        self.prompt.can_focus = False
        self.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """While a line is typed, keys are letters; on another screen they are that one's."""
        if action == "quit":
            return True
        if len(self.screen_stack) > 1:
            return False
        return self.answer is None or action in ("undo_last", "command_palette")

    # ---- mouse

    def on_curve_view_chosen(self, message: CurveView.Chosen) -> None:
        if message.view is not self.curve:
            self.action_other()
        look = self.looked
        event = self.explored.event_of(look, self.curve.columns, message.column)
        self.show(looks.moved(look, event, *self.bounds))

    def on_curve_view_wheeled(self, message: CurveView.Wheeled) -> None:
        self.action_zoom(2 if message.by > 0 else 0.5)

    def on_rows_view_chosen(self, message: RowsView.Chosen) -> None:
        if message.row == self.rows.row:
            self.action_open_row()
        else:
            self.choose(message.row)

    # ---- palette

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:  # noqa: ARG002
        for key in KEYS:
            words = f"{key.words[0].upper()}{key.words[1:]}"
            yield SystemCommand(words, spelled(key.keys), self._does(key.action))
        dark = self.current_theme.dark
        yield SystemCommand(
            "Light colours" if dark else "Dark colours", "the theme", self.action_theme
        )

    def _does(self, action: str) -> Callable[[], Any]:
        async def do() -> None:
            await self.run_action(action)

        return lambda: self.call_later(do)

    def action_theme(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"
        self.call_after_refresh(self.draw)
