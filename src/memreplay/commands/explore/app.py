"""The explorer in the terminal: keys change what is looked at, and the engine says what is there.

Needs Textual; what it imports of memreplay works without.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from rich.segment import Segment
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Horizontal
from textual.strip import Strip
from textual.widgets import Input, Label

from memreplay.commands.explore import asking
from memreplay.commands.explore import look as looks
from memreplay.commands.explore.commands_for import command_line, filter_words, filtered
from memreplay.commands.explore.curve import Chars
from memreplay.commands.explore.explored import Explored
from memreplay.commands.explore.keys import KEYS, first_key, spelled
from memreplay.commands.explore.look import VIEWS, Look, View
from memreplay.commands.explore.palette import Palette, palette_of
from memreplay.commands.explore.rows import MORE, MOST_ROWS, TreeRows
from memreplay.commands.explore.searching import find, pattern_of
from memreplay.commands.explore.telling import Teller
from memreplay.commands.explore.widgets import CurveView, RowsView, Text
from memreplay.errors import MemreplayError
from memreplay.render.fit import clean

if TYPE_CHECKING:
    import re

    from textual.events import Key as KeyPressed
    from textual.screen import Screen

NARROW = 96  # cells below which there is no room for details beside the list
SEVERAL = 4  # times as many rows where somebody wants more
LEAST_SHARE = 1e-6  # of calls that are shown


class Explorer(App[None]):
    """One snapshot, explored."""

    TITLE = "memreplay"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    Screen { layout: vertical; }
    #head, #cursor, #foot { height: 1; }
    #curve { height: 1fr; min-height: 5; }
    #body { height: 2fr; }
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
    BINDINGS: ClassVar[list[Any]] = [
        Binding(key.keys, key.action, key.words, show=False, priority=key.action == "quit")
        for key in KEYS
    ]

    def __init__(
        self,
        explored: Explored,
        look: Look,
        *,
        file: str,
        read: tuple[str, ...] = (),
        chars: Chars = "braille",
    ) -> None:
        super().__init__()
        self.explored, self.looked, self.file, self.read = explored, look, file, read
        self.chars: Chars = chars
        self.teller = Teller(explored, plain=chars == "ascii")
        self.said = ""
        self.pattern: re.Pattern[str] | None = None
        self.answer: Callable[[str], None] | None = None
        plain = chars == "ascii"
        self.head, self.cursor_line = Text(plain, id="head"), Text(plain, id="cursor")
        self.curve, self.rows = CurveView(chars, id="curve"), RowsView(plain, id="rows")
        self.told, self.foot = Text(plain, id="told"), Text(plain, id="foot")
        self.words, self.prompt = Label(id="words", markup=False), Input(id="prompt")
        self.prompt.can_focus = False

    # ---- the screen

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.curve
        yield self.cursor_line
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

        self.call_after_refresh(self.begin_chores)

    def begin_chores(self) -> None:
        """What is likely asked for is made beside the keys."""
        self.run_worker(self._chores, thread=True, exit_on_error=False)

    def _chores(self) -> None:
        for chore in self.explored.chores(self.looked):
            if not self.is_running:
                return
            with self.explored.lock, contextlib.suppress(MemreplayError):
                chore()
            time.sleep(0.02)  # a key that waits for the lock comes first

    def on_resize(self) -> None:
        self.query_one("#body").set_class(self.size.width < NARROW, "narrow")
        self.call_after_refresh(self.draw)

    @property
    def palette(self) -> Palette:
        """That of the theme."""
        return palette_of(dark=self.current_theme.dark, plain=self.chars == "ascii")

    def draw(self) -> None:
        """All that is shown; what is as before costs nothing on the line."""
        with self.explored.lock:
            self._draw()

    def _draw(self) -> None:
        if not self.is_running or not self.curve.size.width:
            return
        look, palette = self.looked, self.palette
        explored = self.explored
        width = self.size.width
        self.head.show([self.line(self.teller.head(look, self.file, width), palette.title)])
        columns = self.curve.columns
        curve = explored.curve(look, columns)
        span = None
        if look.begin is not None or look.end is not None:
            bounds = [one for one in (look.begin, look.end) if one is not None]
            cells = [
                explored.column(look, columns, min(max(one, look.first), look.last))
                for one in bounds
            ]
            span = min(cells), max(cells)
        self.curve.draw(
            curve,
            max(explored.usage(look).peak.bytes, 1),
            explored.marks(look),
            explored.column(look, columns, look.event),
            span,
            self.teller.ends(look),
            palette,
        )
        self.cursor_line.show([self.line(self.teller.cursor(look, width), palette.own)])
        rows = explored.rows(look)
        pattern = self.pattern
        self.rows.draw(
            rows,
            self.teller.title(look),
            palette,
            (lambda _: None) if pattern is None else pattern.search,
        )
        self.draw_told()
        self.draw_foot()

    def draw_told(self) -> None:
        """What is told of the row."""
        width, height = self.told.size.width, self.told.size.height
        if width <= 0 or not height:
            return
        rows, palette = self.explored.rows(self.looked), self.palette
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
        segments, room = [], self.size.width
        for key in KEYS:
            if not key.footer:
                continue
            name = first_key(key.keys)
            room -= len(name) + len(key.footer) + 3
            if room < 0:
                break
            segments += [
                Segment(f" {name}", palette.own),
                Segment(f" {key.footer} ", palette.dim),
            ]
        self.foot.show([Strip(segments)])

    def line(self, text: str, style: Any) -> Strip:
        return Strip([Segment(text, style)])

    # ---- what is looked at

    def show(self, look: Look) -> None:
        """Looks at something else; what cannot be shown is said, and nothing changes."""
        before = self.looked
        try:
            with self.explored.lock:
                look = self.explored.fitting(look)
                self.explored.usage(look)
                self.explored.rows(look)
        except MemreplayError as error:
            self.say(str(error))
            return
        kept = self.key_of_row() if look.view == before.view and look.by == before.by else None
        self.looked, self.said = look, ""
        self.keep_row(kept)
        self.draw()

    def key_of_row(self) -> Any:
        rows = self.explored.rows(self.looked)
        return rows.key(self.rows.row) if 0 <= self.rows.row < len(rows) else None

    def keep_row(self, key: Any) -> None:
        """The same row as before, wherever it is now."""
        rows = self.explored.rows(self.looked)
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

    # ---- keys: rows

    def choose(self, row: int) -> None:
        """Another row."""
        self.said = ""
        self.rows.row = max(min(row, len(self.explored.rows(self.looked)) - 1), 0)
        self.draw()

    def action_row(self, by: int) -> None:
        self.choose(self.rows.row + by)

    def action_page(self, by: int) -> None:
        self.choose(self.rows.row + by * self.rows.page)

    def action_last_row(self, by: int) -> None:
        self.choose(0 if by < 0 else self.rows.count - 1)

    def action_open_row(self) -> None:
        explored = self.explored
        rows, row = explored.rows(self.looked), self.rows.row
        if not len(rows):
            return
        key = rows.key(row)
        if isinstance(rows, TreeRows) and row < len(rows.visible) and rows.visible[row] >= 0:
            at = rows.visible[row]
            if rows.can_open(at):
                explored.open[key] = not rows.opened(at)
                rows.unfold()
        elif isinstance(rows, TreeRows):
            explored.share = max(explored.share / 10, LEAST_SHARE)
        elif key == MORE:
            explored.most = min(explored.most * SEVERAL, MOST_ROWS)
        self.draw()

    def action_all(self, is_open: bool) -> None:
        rows = self.explored.rows(self.looked)
        if isinstance(rows, TreeRows):
            key = self.key_of_row()
            self.explored.open = dict.fromkeys(rows.keys, is_open)
            rows.is_open = self.explored.open.get
            rows.unfold()
            self.keep_row(key)
            self.draw()

    def action_focus_call(self) -> None:
        rows = self.explored.rows(self.looked)
        row = self.rows.row
        if isinstance(rows, TreeRows) and row < len(rows.visible) and rows.visible[row] >= 0:
            self.explored.root = rows.key(row)
            self.rows.row = 0
            self.draw()
            self.say("this call alone: esc shows all")

    def action_undo_last(self) -> None:
        if self.explored.root is not None:
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
        row = find(self.explored, self.looked, self.pattern, self.rows.row, forward=by > 0)
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
        return command_line(self.file, self.looked, self.read, self.explored.share)

    def action_copy(self) -> None:
        self.copy_to_clipboard(self.command())
        self.say(f"copied: {self.command()}")

    def action_export(self) -> None:
        self.ask("write to (.json, .txt, .md)", self.export)

    def export(self, name: str) -> None:
        """What is shown, into a file."""
        if name.strip():
            self.say(asking.exported(self.explored, self.looked, name.strip()))

    def action_page_of_view(self) -> None:
        self.say("making the page …")
        self.run_worker(self._page, thread=True, exclusive=True, exit_on_error=False)

    def _page(self) -> None:
        try:
            said = asking.page_written(self.explored.snap, self.file)
        except (MemreplayError, OSError) as error:
            said = str(error)
        self.call_from_thread(self.say, said)

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
        self.prompt.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        answer = self.answer
        self.asked()
        if answer is not None:
            try:
                answer(event.value)
            except (MemreplayError, OSError) as error:
                self.say(str(error))

    def asked(self) -> None:
        """The line goes away."""
        self.answer = None
        self.screen.remove_class("asked")
        self.prompt.can_focus = False
        self.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """While a line is typed, keys are letters."""
        return self.answer is None or action in ("quit", "undo_last", "command_palette")

    def on_key(self, event: KeyPressed) -> None:
        if self.answer is not None and event.key == "escape":
            event.stop()
            event.prevent_default()
            self.asked()

    # ---- mouse

    def on_curve_view_chosen(self, message: CurveView.Chosen) -> None:
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
