"""The explorer's actions, bound to keys."""

from __future__ import annotations

import os

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
from memreplay.explore.keys import KEYS
from memreplay.explore.look import VIEWS, View
from memreplay.explore.row_actions import LEAST_SHARE, RowActions


class Actions(RowActions):
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
        if kind == "annotations":
            begun = self.explored.annotations_at(self.looked)
            self.say(f"annotation {', '.join(begun)} begins here")

    def action_zoom(self, by: float) -> None:
        self.show(looks.zoomed(self.looked, by, *self.bounds))

    def action_height(self, by: float) -> None:
        look = self.looked
        held = self.explored.usage(look).bytes_at(look.event)
        self.show(looks.heightened(look, by, self.top, held))

    def action_lift(self, by: int) -> None:
        if self.looked.lens is None:
            self.say("zoom in vertically first: ) shows less of the height")
            return
        self.show(looks.lifted(self.looked, by / 2, self.top))

    def action_fit(self) -> None:
        low, high = self.looked.span or self.bounds
        if (self.looked.first, self.looked.last) == (low, high):
            low, high = self.bounds
        event = min(max(self.looked.event, low), high)
        self.show(replace(self.looked, first=low, last=high, event=event, lens=None))

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
        failed = self.explored.first_failure(device)
        if failed is not None and self.differences is None:
            first = replace(first, event=failed)
        changes = {name: getattr(self.looked, name) for name in ("view", "by", "inverted", "whole")}
        view = changes["view"] if changes["view"] != "change" else "tree"
        self.explored.roots.clear()
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
        self.explored.roots.clear()
        self.show(replace(self.looked, view="tree", inverted=not self.looked.inverted))

    def action_internal(self) -> None:
        self.explored.roots.clear()
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
        self.explored.roots.clear()
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
        """Leave this snapshot. On another screen, q goes back instead."""
        self.exit()

    async def action_quit(self) -> None:
        """End the program, even if a list of ranks started this."""
        self.quits = True
        self.exit()

    def action_keys(self) -> None:
        from memreplay.explore.help_screen import KeysScreen

        self.push_screen(KeysScreen(KEYS, self.palette, plain=self.chars == "ascii"))
