"""The explorer's actions on rows: select, open, focus and search."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, NamedTuple

from msgspec.structs import replace

from memreplay.errors import MemreplayError
from memreplay.explore.differences import DifferenceTree
from memreplay.explore.rows.calls import TreeRows
from memreplay.explore.rows.row import MORE, MOST_ROWS
from memreplay.explore.rows.segments import SegmentRows
from memreplay.explore.searching import find, pattern_of
from memreplay.explore.showing import Showing

SEVERAL = 4  # factor by which "more" increases the number of rows
LEAST_SHARE = 1e-6  # calls with a smaller share aren't shown


class Before(NamedTuple):
    """The state before a search: the row, the pattern and the open calls."""

    key: Hashable
    pattern: re.Pattern[str] | None
    open: dict[Hashable, bool]


class RowActions(Showing):
    """The actions on rows."""

    before: Before | None = None

    def choose(self, row: int) -> None:
        """Select a row."""
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

    def action_subtree(self, is_open: bool) -> None:
        """Open or close the selected call and all calls below it."""
        rows, row = self.shown_rows, self.rows.row
        if not isinstance(rows, (TreeRows, DifferenceTree)) or not len(rows):
            return
        key = rows.key(row)
        opened = self.explored.open if isinstance(rows, TreeRows) else self.differences_open
        opened.update(dict.fromkeys(rows.keys_below(row), is_open))
        rows.unfold()
        self.keep_row(key)
        self.draw()

    def action_sibling(self, by: int) -> None:
        """Go to the next row with the same caller."""
        rows, row = self.shown_rows, self.rows.row
        level = rows.line(row).level if len(rows) else 0
        at = row + by
        while 0 <= at < len(rows) and rows.line(at).level > level:
            at += by
        if 0 <= at < len(rows) and rows.line(at).level == level:
            self.choose(at)

    def action_caller(self) -> None:
        """Go to the row's caller, or to a block's segment."""
        rows, row = self.shown_rows, self.rows.row
        level = rows.line(row).level if len(rows) else 0
        above = (at for at in range(row - 1, -1, -1) if rows.line(at).level < level)
        self.choose(next(above, row))

    def action_focus_call(self) -> None:
        rows = self.shown_rows
        if not isinstance(rows, TreeRows):
            self.say("only a call in the tree of one snapshot can be isolated")
            return
        row = self.rows.row
        key = rows.key(row)
        is_call = row < len(rows.visible) and rows.visible[row] >= 0
        if is_call and key != self.explored.root:
            self.explored.roots.append(key)
            self.rows.row = 0
            self.draw()
            self.say("showing only this call: esc goes back")

    def action_undo_last(self) -> None:
        if self.answer is not None:
            self.asked()
            if self.before is not None:
                self.end_search(self.before)
        elif self.explored.roots:
            key = self.explored.roots.pop()
            self.keep_row(key)
            self.draw()
        elif self.pattern is not None:
            self.pattern = None
            self.draw()
        elif self.looked.begin is not None or self.looked.end is not None:
            self.show(replace(self.looked, begin=None, end=None))

    def action_search(self) -> None:
        self.before = Before(self.key_of_row(), self.pattern, dict(self.explored.open))
        self.ask("search", self.search, changed=self.search_as_typed)

    def search(self, text: str) -> None:
        """Go to the first row from the current one on that matches."""
        before, self.before = self.before, None
        if before is not None:
            self.end_search(before)
        self.pattern = pattern_of(text) if text else None
        self.action_again(0)

    def search_as_typed(self, text: str) -> None:
        """Show where a search for the text typed so far leads, without messages."""
        before = self.before
        if before is None:
            return
        self.restore(before)
        try:
            self.pattern = pattern_of(text) if text else before.pattern
        except MemreplayError:  # the expression isn't complete yet
            return
        row = None
        if text and self.pattern is not None:
            row = find(self.shown_rows, self.explored.open, self.pattern, self.rows.row, by=0)
        self.words.update("search" if row is not None or not text else "search (no match)")
        if row is not None:
            self.rows.row = row
        self.draw()

    def end_search(self, before: Before) -> None:
        """Return to the row, the open calls and the pattern before a search."""
        self.before = None
        self.restore(before)
        self.draw()

    def restore(self, before: Before) -> None:
        """Restore the state before a search."""
        self.pattern = before.pattern
        if self.explored.open != before.open:
            self.explored.open.clear()
            self.explored.open.update(before.open)
            rows = self.shown_rows
            if isinstance(rows, TreeRows):
                rows.unfold()
        self.keep_row(before.key)

    def action_again(self, by: int) -> None:
        if self.pattern is None:
            self.draw()
            return
        row = find(self.shown_rows, self.explored.open, self.pattern, self.rows.row, by=by)
        if row is None:
            self.draw()
            hidden = self.looked.view == "tree" and not self.looked.whole
            more = "i shows library frames" if hidden else "f filters by it"
            self.say(f"{self.pattern.pattern} isn't in any row; {more}")
            return
        self.choose(row)

    def action_details(self) -> None:
        self.query_one("#body").toggle_class("alone")
        self.call_after_refresh(self.draw)

    def action_details_by(self, by: int) -> None:
        y = self.told.scroll_y + by * max(self.told.size.height // 2, 1)
        self.told.scroll_to(y=y, animate=False, immediate=True)
