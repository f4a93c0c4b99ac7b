"""The explorer's actions, bound to keys."""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from memreplay.errors import MemreplayError
from memreplay.explore import look as looks
from memreplay.explore import typed
from memreplay.explore.commands_for import (
    command_line,
    difference_line,
    filter_options,
    filtered,
)
from memreplay.explore.differences import DifferenceTree
from memreplay.explore.keys import KEYS
from memreplay.explore.look import VIEWS, View
from memreplay.explore.rows.calls import TreeRows
from memreplay.explore.rows.row import MORE, MOST_ROWS
from memreplay.explore.rows.segments import SegmentRows
from memreplay.explore.searching import find, pattern_of
from memreplay.explore.showing import Showing

SEVERAL = 4  # factor by which "more" increases the number of rows
LEAST_SHARE = 1e-6  # calls with a smaller share aren't shown


class Actions(Showing):
    """The explorer with its actions; `keys` binds keys to them."""

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
                # With a time axis, a column may have no events, so go on to the next column that
                # has one.
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
            self.say("the events have no times")
            return
        self.show(replace(self.looked, axis="event" if self.looked.axis == "time" else "time"))

    def action_bound(self, end: str) -> None:
        look = replace(self.looked, **{end: self.looked.event})
        if look.span is None:
            self.show(look)
            self.say("now set the other end of the range: [ starts it, ] ends it")
            return
        self.show(replace(look, view="change"))

    def action_go(self) -> None:
        self.ask("go to", self.go)

    def go(self, text: str) -> None:
        """Go to a moment, spelled as in the options."""
        event = typed.moment_of(self.explored, self.looked, text)
        self.show(looks.moved(self.looked, event, *self.bounds))

    # ---- keys: what

    def action_measure(self, by: int) -> None:
        there = self.explored.measures(self.looked)
        at = there.index(self.looked.measure) if self.looked.measure in there else 0
        self.show(replace(self.looked, measure=there[(at + by) % len(there)]))

    def action_device(self, by: int) -> None:
        devices = self.explored.snap.devices
        if len(devices) < 2:
            self.say("there is only one device")
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
            self.say("set a range first: [ starts it, ] ends it")
            return
        if self.looked.measure == "reserved" and view not in ("groups", "segments"):
            self.say("reserved memory can only be grouped by pool and stream")
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
        self.say(f"showing calls of at least {share:.4%}")

    def action_filter(self) -> None:
        import shlex

        self.ask("filter", self.filter, shlex.join(filter_options(self.looked)))

    def filter(self, text: str) -> None:
        """Filter allocations by options that the user typed."""
        self.explored.root = None
        self.show(filtered(self.looked, text))

    # ---- keys: the other snapshot

    def action_other(self) -> None:
        if self.differences is None:
            self.say("only one snapshot is open; memreplay explore BEFORE AFTER compares two")
            return
        asked = self._alike(*(pane.looked for pane in self.panes))
        self.at = 1 - self.at
        self.pane.looked = self.explored.fitting(asked[self.at])
        self.show(self.pane.looked)

    def action_sync(self) -> None:
        if self.differences is None:
            self.say("only one snapshot is open; memreplay explore BEFORE AFTER compares two")
            return
        there = self.syncs()
        self.sync = there[(there.index(self.sync) + 1) % len(there)]
        self.show(self.looked)

    # ---- keys: rows

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

    def action_focus_call(self) -> None:
        rows = self.shown_rows
        if not isinstance(rows, TreeRows):
            self.say("only a call in the tree of one snapshot can be isolated")
            return
        row = self.rows.row
        if row < len(rows.visible) and rows.visible[row] >= 0:
            self.explored.root = rows.key(row)
            self.rows.row = 0
            self.draw()
            self.say("showing only this call: esc shows all")

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
        """Go to the next row that matches."""
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

    # ---- keys: out

    def command(self) -> str:
        """Return the command line for the current view."""
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
            self.say(f"not copied, because the file name isn't valid text: {command}")
            return
        self.say(f"copied: {command}")

    def action_export(self) -> None:
        self.ask("write to (.json, .txt, .md)", self.export)

    def export(self, name: str) -> None:
        """Export the current view to a file."""
        if not name.strip():
            return
        path = os.path.expanduser(name.strip())
        if self.differences is not None and self.looked.view in ("tree", "groups"):
            said = typed.exported_difference(self.panes[0], self.panes[1], self.looked, path)
        else:
            said = typed.exported(self.explored, self.looked, path)
        self.say(said)

    def action_page_of_view(self) -> None:
        self.say("writing the page …")
        self.run_worker(self._page, thread=True, exclusive=True, exit_on_error=False)

    def _page(self) -> None:
        try:
            said = typed.page_written(self.explored, self.pane.file)
        except (MemreplayError, OSError) as error:
            said = str(error)
        self.call_from_thread(self.say, said)

    def action_leave(self) -> None:
        """Quit, as ctrl+c does. On another screen, q goes back instead."""
        self.exit()

    def action_keys(self) -> None:
        from memreplay.explore.help_screen import KeysScreen

        self.push_screen(KeysScreen(KEYS, self.palette, plain=self.chars == "ascii"))
