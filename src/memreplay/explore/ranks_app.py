"""The list of ranks, from which one is selected to explore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.strip import Strip

from memreplay.explore.curve import Chars
from memreplay.explore.foot import Foot
from memreplay.explore.help_screen import KeysScreen
from memreplay.explore.keys import RANK_KEYS
from memreplay.explore.palette import Palette, palette_of
from memreplay.explore.ranks import Rank, RankRows
from memreplay.explore.terminal import redraw_when_resumed, terminal_is_gone
from memreplay.explore.widgets import RowsView, Text, fitted
from memreplay.render.ranks import rank_list_text
from memreplay.render.units import counted, size
from memreplay.texts import clean


class Ranks(App[Rank]):
    """Shows a run's ranks. Returns the selected rank, or None."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head, #foot { height: 1; }
    #told { height: 2; }
    #rows { height: 1fr; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding(one, "leave" if one == "q" else key.action, key.words, show=False, priority=True)
        for key in RANK_KEYS
        for one in key.keys.split(",")
    ]

    def __init__(
        self, folder: str, ranks: Sequence[Rank], chars: Chars, chosen: int | None = None
    ) -> None:
        super().__init__()
        plain = chars == "ascii"
        self.folder, self.ranks, self.chars, self.by_peak = folder, ranks, chars, True
        self.head, self.rows = Text(plain, id="head"), RowsView(plain, id="rows")
        self.told = Text(plain, id="told")
        self.foot = Foot(plain, keys=RANK_KEYS, id="foot")
        self.found = RankRows(ranks, chars, by_peak=True)
        self.rows.row = next((i for i in range(len(ranks)) if self.found.key(i) == chosen), 0)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.rows
        yield self.told
        yield self.foot

    def on_mount(self) -> None:
        if not self.is_headless:
            self.set_interval(3, self.end_with_the_terminal)
        redraw_when_resumed(self)

    def end_with_the_terminal(self) -> None:
        if terminal_is_gone():
            self.exit(return_code=1)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def on_text_resized(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Redraw everything."""
        if not self.is_running or not self.rows.size.width:
            return
        palette = self.palette
        self.found.fit(self.rows.size.width)
        peaks = [one.peak for one in self.ranks]
        words = f" {clean(self.folder)}  {counted(len(peaks), 'rank')}"
        if peaks:
            words += f", peaks {size(min(peaks))} to {size(max(peaks))}"
        failed = tuple(sorted(one.rank for one in self.ranks if one.failures))
        words += f", out of memory on {rank_list_text(failed)}" if failed else ""
        if self.found.odd:
            words += f", outliers: {rank_list_text(tuple(sorted(self.found.odd)))}"
        self.head.show([Strip([Segment(words, palette.title)])])
        self.rows.draw(self.found, "over time, same scale", palette, lambda _: None)
        self.draw_told(palette)
        self.foot.draw("", palette)

    def draw_told(self, palette: Palette) -> None:
        """Describe the selected rank."""
        width = self.told.size.width
        if not len(self.found):
            return
        shown = self.found.shown(self.rows.row)
        pairs = dict(shown.pairs)
        why = pairs.get("outlier", "")
        lines = [f" {shown.title}{', outlier' if why else ''}: peak {pairs['peak']}", f" {why}"]
        self.told.show([Strip([Segment(fitted(one, width), palette.own)]) for one in lines])

    @property
    def palette(self) -> Palette:
        """The theme's palette."""
        return palette_of(dark=self.current_theme.dark, plain=self.chars == "ascii")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable actions on another screen."""
        return action == "quit" or len(self.screen_stack) == 1

    def move(self, row: int) -> None:
        self.rows.row = max(min(row, len(self.found) - 1), 0)
        self.draw()

    def action_row(self, by: int) -> None:
        self.move(self.rows.row + by)

    def action_page(self, by: int) -> None:
        self.move(self.rows.row + by * self.rows.page)

    def action_edge(self, by: int) -> None:
        self.move(0 if by < 0 else len(self.found) - 1)

    def action_notable(self, by: int) -> None:
        """Go to the next outlier or rank that ran out of memory, wrapping around."""
        count, row = len(self.found), self.rows.row
        there = ((row + by * i) % count for i in range(1, count))
        self.move(next((at for at in there if self.found.is_notable(at)), row))

    def action_sort(self) -> None:
        chosen = self.found.key(self.rows.row)
        self.by_peak = not self.by_peak
        self.found = RankRows(self.ranks, self.chars, by_peak=self.by_peak)
        self.move(next(i for i in range(len(self.found)) if self.found.key(i) == chosen))

    def action_leave(self) -> None:
        """Quit, as ctrl+c does. On another screen, q goes back instead."""
        self.exit()

    def action_keys(self) -> None:
        self.push_screen(KeysScreen(RANK_KEYS, self.palette, plain=self.chars == "ascii"))

    def action_choose(self) -> None:
        self.exit(self.found.ranks[self.rows.row])

    def on_rows_view_chosen(self, message: RowsView.Chosen) -> None:
        if message.row == self.rows.row:
            self.action_choose()
        else:
            self.move(message.row)
