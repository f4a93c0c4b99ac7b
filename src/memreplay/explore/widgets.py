"""The screen's widgets, drawn line by line: curve, list and text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from memreplay.explore.axis import row_labels, tick_line
from memreplay.explore.curve import FINE, Cells, Chars, picture
from memreplay.explore.palette import Palette
from memreplay.explore.rows.row import Line, Rows
from memreplay.render.document import Place
from memreplay.render.fit import cell_width, cut_left, cut_right, fit_place

if TYPE_CHECKING:
    from textual.events import Click, MouseScrollDown, MouseScrollUp

    from memreplay.explore.explored import Curve, Marks

SCALE = 10  # width of the scale next to a curve
# The marks below a curve, from the least important to the most; with their ASCII versions.
SIGNS = {
    "annotations": ("·", "'"),
    "steps": ("│", "|"),
    "peaks": ("▲", "^"),
    "ooms": ("!", "!"),
}
LEAST_PATH = 10  # minimum width of a path that is cut at the front
LEAST_NAME = 16  # minimum width of a location before one that tells rows apart
LEAST_PLACE = 8  # minimum width of each further location
WHOLE_PLACE = 40  # width of a location that includes its function
MOST_CELLS = 1000  # width of a location that isn't cut


def in_ascii(strip: Strip) -> Strip:
    """Replace non-ASCII characters with question marks on ASCII terminals."""
    return Strip(
        [
            one
            if one.text.isascii()
            else one._replace(text=one.text.replace("…", "~").encode("ascii", "replace").decode())
            for one in strip
        ]
    )


def end_of_change(old: Strip, new: Strip, width: int) -> int:
    """Return the cell after the last segment that differs between two lines. Textual sends a line
    from its start to such a cell.
    """
    if old.cell_length != new.cell_length:
        return width
    end = new.cell_length
    for one, other in zip(reversed([*old]), reversed([*new]), strict=False):
        if one != other:
            break
        end -= one.cell_length
    return min(end, width)


class Text(Widget):
    """Lines of text. `plain`: for ASCII terminals."""

    class Resized(Message):
        """The widget was resized and has to be redrawn."""

    def __init__(self, plain: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plain = plain
        self.lines: list[Strip] = []
        self.base = Style.null()

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    def show(self, lines: Sequence[Strip]) -> None:
        """Draw the parts of lines that changed."""
        before, self.lines = self.lines, [in_ascii(one) if self.plain else one for one in lines]
        width = self.size.width
        for y, (old, new) in enumerate(zip_longest(before, self.lines, fillvalue=Strip([]))):
            if old != new:
                self.refresh(Region(0, y, end_of_change(old, new, width), 1))

    def render_lines(self, crop: Region) -> list[Strip]:
        self.base = self.rich_style  # takes as long as drawing a line
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.base
        if y < len(self.lines):
            return self.lines[y].adjust_cell_length(width).apply_style(base)
        return Strip.blank(width, base)


def fitted(text: str, width: int) -> str:
    """Fit a row's text to a width. The start of the file name is cut first."""
    over = cell_width(text) - width
    if over <= 0:
        return text
    name, slash, path = text.rpartition(" /")
    if slash and cell_width(path) - over >= LEAST_PATH:
        return f"{name} {cut_left(slash[1] + path, width - cell_width(name) - 1)}"
    return cut_right(text, width)


def fitted_places(places: Sequence[Place], width: int) -> str:
    """Fit the first location to a width, and as many others as there is room for.

    If there's little room, the others are cut down to the end of the file name and the line number.
    """
    names = [replace(one, file=one.file.rpartition("/")[2]) for one in places]
    shorts = [_short(one, places[0]) for one in places[1:]]
    # The start of a path matters less than the next location.
    least = cell_width(fit_place(names[0], MOST_CELLS)) + 2
    taken = cell_width(fit_place(shorts[0], MOST_CELLS)) + 2 if shorts else 0
    # If only the next location tells rows apart, even the name matters less.
    tells = len(places) > 1 and places[1].function.startswith("…")
    has_room = least + taken <= width or (tells and width - taken >= LEAST_NAME)
    text = fit_place(places[0], width - taken if has_room else width)
    for place, short in zip(places[1:], shorts, strict=True):
        room = width - cell_width(text) - 2
        if room < min(LEAST_PLACE, cell_width(fit_place(short, MOST_CELLS))):
            break
        text = f"{text}  {fit_place(place if room >= WHOLE_PLACE else short, room)}"
    return text


def _short(place: Place, first: Place) -> Place:
    """Return a further location without its function, and without the first one's file."""
    if place.file == first.file:
        return Place(f"… :{place.line}")
    return replace(place, function="", file=place.file.rpartition("/")[2])


class Plot(NamedTuple):
    """A curve whose lower and upper edge are at `low` and `top` bytes. `first` is the first event
    of the window. `cursor` and `span` are columns, or -1 if they aren't in the window. `ticks` are
    columns with labels.
    """

    curve: Curve
    first: int
    low: int
    top: int
    ticks: list[tuple[int, str]]
    marks: Marks
    cursor: int
    span: tuple[int, int] | None


class CurveView(Text):
    """A measure over the window with marks, cursor and range."""

    class Chosen(Message):
        """A column was clicked."""

        def __init__(self, view: CurveView, column: int) -> None:
            super().__init__()
            self.view, self.column = view, column

    class Wheeled(Message):
        """The mouse wheel was turned."""

        def __init__(self, view: CurveView, by: int) -> None:
            super().__init__()
            self.view, self.by = view, by

    def __init__(self, chars: Chars, **kwargs: Any) -> None:
        super().__init__(chars == "ascii", **kwargs)
        self.chars: Chars = chars
        # what was drawn: everything except the cursor, the cursor, and the picture
        self.drawn: tuple[object, int] | None = None
        self.cached: tuple[object, list[Cells]] | None = None

    @property
    def cells(self) -> int:
        """Width of the plot in cells."""
        return max(self.size.width - SCALE - 1, 1)

    @property
    def columns(self) -> int:
        """Width of the plot in columns."""
        return self.cells * FINE[self.chars]

    def draw(self, plot: Plot, palette: Palette) -> None:
        """Draw the curve, or only what changed."""
        curve, _, low, top, ticks, _, cursor, span = plot
        height = max(self.size.height - 2, 1)
        fine = FINE[self.chars]
        ground = plot._replace(cursor=0), palette, self.size
        before, self.drawn = self.drawn, (ground, cursor // fine)
        if before == self.drawn:
            return
        lines = []
        labels = row_labels(low, top, height)
        for y, row in enumerate(self._picture(curve, low, top, height)):
            lines.append(
                Strip(
                    [
                        Segment(f"{labels.get(y, ''):>{SCALE}} ", palette.dim),
                        *self._segments(row.text, row.always, cursor // fine, span, palette),
                    ]
                )
            )
        lines.append(self._marked(plot, palette))
        sign = "`" if self.chars == "ascii" else "╵"
        axis = tick_line([(at // fine, label) for at, label in ticks], self.cells, sign)
        lines.append(Strip([Segment(" " * (SCALE + 1)), Segment(axis, palette.dim)]))
        if before is None or before[0] != ground:
            self.show(lines)
            return
        self.lines = [in_ascii(one) if self.plain else one for one in lines]
        for cell in (before[1], cursor // fine):  # only the cursor moved
            if cell >= 0:
                self.refresh(Region(SCALE + 1 + cell, 0, 1, self.size.height))

    def _picture(self, curve: Curve, low: int, top: int, height: int) -> list[Cells]:
        """Return the plot's lines, which are the same while the window stays."""
        key = curve, low, top, height
        if self.cached is None or self.cached[0] != key:
            lows, highs = ([one - low for one in values] for values in (curve.lows, curve.highs))
            self.cached = key, picture(lows, highs, top - low, height, self.chars)
        return self.cached[1]

    def _segments(
        self,
        text: str,
        always: Sequence[bool],
        cursor: int,
        span: tuple[int, int] | None,
        palette: Palette,
    ) -> list[Segment]:
        """Merge neighbouring cells with the same style."""
        fine = FINE[self.chars]
        low, high = (-1, -1) if span is None else (span[0] // fine, span[1] // fine)
        found: list[Segment] = []
        begin, current = 0, None
        for at in range(len(text) + 1):
            style = None
            if at < len(text):
                style = palette.sure if always[at] else palette.high
                if low <= at <= high and span is not None:
                    style = style + palette.ranged
                if at == cursor:
                    style = style + palette.cursor
            if style is not current or at == len(text):
                if current is not None:
                    found.append(Segment(text[begin:at], current))
                begin, current = at, style
        return found

    def _marked(self, plot: Plot, palette: Palette) -> Strip:
        """Return the line of marks below the plot."""
        fine, cells = FINE[self.chars], [" "] * self.cells
        ascii_only = self.chars == "ascii"
        bounds, cursor = plot.curve.bounds, plot.cursor
        for kind, signs in SIGNS.items():
            events, sign = getattr(plot.marks, kind), signs[ascii_only]
            first = bisect_left(events, plot.first)
            last = bisect_right(events, bounds[-1] - 1)
            for event in events[first:last]:
                at = max(bisect_right(bounds, event) - 1, 0) // fine
                cells[min(at, len(cells) - 1)] = sign
        styles = [palette.oom if sign == "!" else palette.mark for sign in cells]
        if cursor >= 0:
            styles[cursor // fine] += palette.cursor
        segments = [Segment(" " * (SCALE + 1))]
        for style, run in groupby(range(len(cells)), styles.__getitem__):
            segments.append(Segment("".join(cells[at] for at in run), style))
        return Strip(segments)

    def on_click(self, event: Click) -> None:
        column = (event.x - SCALE - 1) * FINE[self.chars]
        if column >= 0:
            self.post_message(self.Chosen(self, column))

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Wheeled(self, 1))

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Wheeled(self, -1))


class RowsView(Text):
    """Rows with a selection."""

    class Chosen(Message):
        """A row was clicked."""

        def __init__(self, view: RowsView, row: int) -> None:
            super().__init__()
            self.view, self.row = view, row

    def __init__(self, plain: bool = False, **kwargs: Any) -> None:
        super().__init__(plain, **kwargs)
        self.top = 0
        self.row = 0
        self.count = 0

    @property
    def page(self) -> int:
        """Number of rows that fit below the title."""
        return max(self.size.height - 1, 1)

    def draw(self, rows: Rows, title: str, palette: Palette, found: Callable[[str], Any]) -> None:
        """Draw the rows. `found` returns whether a row's text matches the search."""
        self.count = len(rows)
        self.row = max(min(self.row, self.count - 1), 0)
        self.top = max(min(self.top, self.row, self.count - self.page), 0)
        self.top = max(self.top, self.row - self.page + 1)
        there = range(self.top, min(self.top + self.page, self.count))
        lines = [rows.line(at) for at in there]
        widths = [
            max([len(name), 7, *(len(line.cells[i]) for line in lines)])
            for i, name in enumerate(rows.titles)
        ]
        heads = "".join(f"{name:>{wide}}  " for name, wide in zip(rows.titles, widths, strict=True))
        drawn = [Strip([Segment(f" {heads}{title}", palette.title)])]
        if not lines:
            drawn.append(Strip([Segment(f" {rows.note}", palette.dim)]))
        for at, line in zip(there, lines, strict=True):
            drawn.append(self._drawn(line, widths, palette, at == self.row, found))
        self.show(drawn)

    def _drawn(
        self,
        line: Line,
        widths: Sequence[int],
        palette: Palette,
        chosen: bool,
        found: Callable[[str], Any],
    ) -> Strip:
        numbers = "".join(
            f"{cell:>{wide}}  " for cell, wide in zip(line.cells, widths, strict=False)
        )
        style = palette.dim if line.dim else palette.heat(line.share)
        if line.change:
            style = palette.rose if line.change > 0 else palette.fell
        room = max(self.size.width - len(numbers) - 1, 1)
        deep = min(line.level, max(room // 2 - 4, 0) // 2)
        lead = "  " * deep + (f"{palette.signs[line.sign]} " if line.sign else "  ") * (
            line.level > 0 or bool(line.sign)
        )
        spans = [Segment(text, palette.tone(tone)) for text, tone in line.lead]
        tail = f"  {line.tail}" if line.tail else ""
        taken = len(lead) + sum(map(len, (span.text for span in spans)))
        width = max(room - taken - len(tail), 1)
        text = fitted_places(line.places, width) if line.places else fitted(line.name, width)
        own = palette.plain if not line.dim else palette.dim
        if found(line.text):
            own = own + palette.found
        more = palette.chosen if chosen else Style.null()
        parts = [
            Segment(f" {numbers}", style + more),
            Segment(lead, palette.dim + more),
            *(Segment(span.text, (span.style or own) + more) for span in spans),
            Segment(text, own + more),
            Segment(tail, palette.dim + more),
            Segment(" " * max(room - taken - cell_width(text) - len(tail), 0), more),
        ]
        return Strip([part for part in parts if part.text])

    def on_click(self, event: Click) -> None:
        row = self.top + event.y - 1
        if event.y >= 1 and row < self.count:
            self.post_message(self.Chosen(self, row))

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Chosen(self, min(self.row + 3, self.count - 1)))

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Chosen(self, max(self.row - 3, 0)))
