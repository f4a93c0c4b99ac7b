"""Writes the lines of a watch for people, in columns that stay as wide as they are."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Literal, NamedTuple

from memreplay.analysis.comparing.dumps import dump_of
from memreplay.analysis.steps.records import StepAt
from memreplay.commands.watch.result import WatchedDevice, WatchLine, WatchTotals
from memreplay.render.fit import cell_width, cut_right, fit_path
from memreplay.render.layout import pad
from memreplay.render.trust import trust_mark
from memreplay.render.units import count, counted, percent, signed_size, size
from memreplay.texts import clean

Level = Literal["plain", "dim", "strong", "over", "warning"]
Styled = tuple[str, Level]

PAST = "!"  # behind a size that is past its limit; others have the marks of render/trust.py
_WIDE = 120  # columns from which on there is room for the day and the step
_SIZE = 10  # of 1023.9 GiB
_LEAST = 24  # for the file and what was largest: else a column has to go
_MOST_FILE = 44
_NUMBERS = ("peak", "reserved", "change")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Column(NamedTuple):
    """A column: its title, its width in cells, how it is aligned."""

    title: str
    width: int
    align: Literal["left", "right"] = "left"


class Columns:
    """The columns of a watch, as they fit into a width."""

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
        """The lines that a snapshot takes, one a device; one of what is none."""
        if line.kind == "not_read":
            return [(f"{self._head(line)}not read: {clean(line.error or '')}", "warning")]
        if not line.devices:
            return [(f"{self._head(line)}nothing was recorded in it", "warning")]
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
            "reserved": size(device.reserved_peak_bytes)
            + (PAST if "max_reserved" in device.past else " "),
            "change": "-" if device.change_bytes is None else signed_size(device.change_bytes),
            "step": _step(device.step),
        }
        if "largest" in self.columns:
            cells["largest"] = _largest(device, self.columns["largest"].width)
        return self._line(cells), "over" if device.past else "plain"

    def _mark(self, device: WatchedDevice) -> str:
        """What is to be known of the peak."""
        if "max_peak" in device.past or (device.past and "reserved" not in self.columns):
            return PAST
        return trust_mark(device) or " "

    def _time(self, time_us: int) -> str:
        try:
            moment = _EPOCH + timedelta(microseconds=time_us)
        except OverflowError:  # a file may have any time
            return "?"
        return (
            f"{moment:%m-%d %H:%M:%S}" if self.columns["time"].width > 8 else f"{moment:%H:%M:%S}"
        )

    def _file(self, line: WatchLine) -> str:
        width = self.columns["file"].width
        name = clean(line.name)
        if line.rank is not None and cell_width(name) > width:
            # The end of a path may be the same in all lines.
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
    """What is left of a line for the file and what was largest."""
    taken = sum(column.width + len(_gap(name)) for name, column in columns.items())
    return width - taken + len(_gap("time"))


def _step(step: StepAt | None) -> str:
    """`3 of 10`."""
    if step is None:
        return "-"
    if step.number > step.of:
        return f"after {count(step.of)}"
    words = f"{count(step.number)} of {count(step.of)}"
    return words if step.inside else f"< {words}"


def _largest(device: WatchedDevice, width: int) -> str:
    """`activations 3.2 GiB (61.5%)`, or as much of it as there is room for."""
    largest = device.largest
    if largest is None:
        return "-"
    name, share = clean(largest.label), percent(largest.share)
    for more in (f" {size(largest.bytes)} ({share})", f" {share}"):
        if cell_width(name) + len(more) <= width:
            return name + more
    return cut_right(name, width)


def totals_words(totals: WatchTotals, *, limited: bool) -> str:
    """`7 snapshots, highest peak 38.4 GiB in rank3.pkl (device 0), 2 past the budget`."""
    whose = f" of {counted(totals.ranks, 'rank')}" if totals.ranks else ""
    found = counted(totals.snapshots, "snapshot") if totals.snapshots else "no snapshot"
    words = [found + whose]
    if totals.peak_bytes is not None:
        where = f"{clean(totals.peak_file or '')} (device {totals.peak_device})"
        words.append(f"highest peak {size(totals.peak_bytes)} in {where}")
    if limited:
        words.append(
            f"{count(totals.past_budget) if totals.past_budget else 'none'} past the budget"
        )
    if totals.not_read:
        words.append(f"{count(totals.not_read)} not read")
    return ", ".join(words)
