"""Format watch lines in columns of fixed width."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Literal, NamedTuple

from memreplay.analysis.comparing.dumps import dump_of
from memreplay.analysis.steps.records import StepAt
from memreplay.commands.watch.result import WatchedDevice, WatchLine, WatchTotals
from memreplay.render.fit import cell_width, cut_right, fit_path
from memreplay.render.layout import pad
from memreplay.render.trust import trust_mark
from memreplay.render.units import count, counted, known_size, percent, signed_size, size
from memreplay.texts import clean

Level = Literal["plain", "dim", "strong", "over", "warning"]
Styled = tuple[str, Level]

PAST = "!"  # marks a size that exceeds its limit; render/trust.py has the other marks
_WIDE = 120  # minimum terminal width for the day and step columns
_SIZE = 10  # enough for 1023.9 GiB
# Drop columns rather than make the file and the largest holder narrower than this.
_LEAST = 24
_MOST_FILE = 44
_NUMBERS = ("peak", "reserved", "change")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Column(NamedTuple):
    """A column's title, width in cells, and alignment."""

    title: str
    width: int
    align: Literal["left", "right"] = "left"


class Columns:
    """The columns that fit into a width."""

    def __init__(self, width: int, measure: str) -> None:
        wide = width >= _WIDE
        columns = {
            "time": Column("time (UTC)" if wide else "UTC", 14 if wide else 8),
            "file": Column("file", 0),
            "device": Column("dev", 3, "right"),
            "peak": Column(f"{measure} ", _SIZE + 1, "right"),
            "reserved": Column("reserved ", _SIZE + 1, "right"),
            "change": Column("change", _SIZE + 1, "right"),
            "step": Column("step", 12),
            "largest": Column("largest", 0),
        }
        if not wide:
            del columns["step"]
        if measure == "reserved":
            del columns["reserved"]
        for spare in ("change", "largest", "reserved"):
            if _left(columns, width) < _LEAST:
                columns.pop(spare, None)
        left = max(_left(columns, width), 8)
        file = left
        if "largest" in columns:
            file = min(left * 3 // 5, _MOST_FILE)
            columns["largest"] = Column("largest", left - file)
        columns["file"] = Column("file", file)
        self.columns = columns

    @property
    def header(self) -> str:
        """The titles."""
        return self._line({name: column.title for name, column in self.columns.items()})

    def rows(self, line: WatchLine) -> list[Styled]:
        """Return a snapshot's lines, one per device, or a single line for other kinds."""
        if line.kind == "not_read":
            return [(f"{self._head(line)}not read: {clean(line.error or '')}", "warning")]
        if not line.devices:
            return [(f"{self._head(line)}it has no recorded memory", "warning")]
        return [self._row(line, device) for device in line.devices]

    def _head(self, line: WatchLine) -> str:
        cells = {"time": self._time(line.time_us), "file": self._file(line)}
        return "".join(
            pad(text, self.columns[name].width + 2, "left") for name, text in cells.items()
        )

    def _row(self, line: WatchLine, device: WatchedDevice) -> Styled:
        cells = {
            "time": self._time(line.time_us),
            "file": self._file(line),
            "device": str(device.device),
            "peak": size(device.peak_bytes) + self._mark(device),
            "reserved": known_size(device.reserved_peak_bytes)
            + (PAST if "max_reserved" in device.over_limits else " "),
            "change": "-" if device.change_bytes is None else signed_size(device.change_bytes),
            "step": _step(device.step),
        }
        if "largest" in self.columns:
            cells["largest"] = _largest(device, self.columns["largest"].width)
        return self._line(cells), "over" if device.over_limits else "plain"

    def _mark(self, device: WatchedDevice) -> str:
        """Return the marks to show next to a peak."""
        over = device.over_limits
        if "max_peak" in over or (over and "reserved" not in self.columns):
            return PAST
        return trust_mark(device) or " "

    def _time(self, time_us: int) -> str:
        try:
            moment = _EPOCH + timedelta(microseconds=time_us)
        except OverflowError:  # the file has an impossible time
            return "?"
        return (
            f"{moment:%m-%d %H:%M:%S}" if self.columns["time"].width > 8 else f"{moment:%H:%M:%S}"
        )

    def _file(self, line: WatchLine) -> str:
        width = self.columns["file"].width
        name = clean(line.name)
        if line.rank is not None and cell_width(name) > width:
            # A shortened path would only show its end, which may be the same in all lines.
            name = clean(f"{dump_of(line.name)} rank {line.rank}")
        return fit_path(name, width)

    def _line(self, cells: dict[str, str]) -> str:
        found = ""
        for name, column in self.columns.items():
            found += _gap(name) if found else ""
            found += pad(cells[name], column.width, column.align)
        return found.rstrip()


def _gap(name: str) -> str:
    return " " if name in _NUMBERS else "  "


def _left(columns: dict[str, Column], width: int) -> int:
    """Return the width left for the file and the largest holder together."""
    taken = sum(column.width + len(_gap(name)) for name, column in columns.items())
    return width - taken + len(_gap("time"))


def _step(step: StepAt | None) -> str:
    """Return text such as `3 of 10`."""
    if step is None:
        return "-"
    if step.number > step.of:
        return f"after {count(step.of)}"
    words = f"{count(step.number)} of {count(step.of)}"
    return words if step.inside else f"< {words}"


def _largest(device: WatchedDevice, width: int) -> str:
    """Return text such as `activations 3.2 GiB (61.5%)`, or as much of it as fits."""
    largest = device.largest
    if largest is None:
        return "-"
    name, share = clean(largest.label), percent(largest.share)
    for more in (f" {size(largest.bytes)} ({share})", f" {share}"):
        if cell_width(name) + len(more) <= width:
            return name + more
    return cut_right(name, width)


def totals_text(totals: WatchTotals, *, limited: bool) -> str:
    """Return text such as `7 snapshots, highest peak 38.4 GiB in rank3.pkl (device 0), 2 past the
    budget`.
    """
    whose = f" of {counted(totals.rank_count, 'rank')}" if totals.rank_count else ""
    found = counted(totals.snapshot_count, "snapshot") if totals.snapshot_count else "no snapshot"
    words = [found + whose]
    if totals.peak_bytes is not None:
        where = f"{clean(totals.peak_file or '')} (device {totals.peak_device})"
        words.append(f"highest peak {size(totals.peak_bytes)} in {where}")
    if limited:
        over = totals.over_budget_count
        words.append(f"{count(over) if over else 'none'} above the limit")
    if totals.not_read_count:
        words.append(f"{count(totals.not_read_count)} not read")
    return ", ".join(words)
