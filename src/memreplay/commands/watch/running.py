"""The loop of `memreplay watch`: scan, read complete files, write lines, wait."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import replace

from memreplay.analysis.comparing.rank_names import family_of, rank_of
from memreplay.commands.shared.errors import NOT_READABLE, attempt_unreported, say
from memreplay.commands.shared.output import stdout_is_closed, wants_colour, write
from memreplay.commands.shared.progress import Update, reading_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.watch.find import watched_devices
from memreplay.commands.watch.following import File, Following
from memreplay.commands.watch.result import Ending, WatchedDevice, WatchLine, WatchTotals
from memreplay.commands.watch.text import Columns, Level, totals_text
from memreplay.programs.starting import handled
from memreplay.render.record_json import render_json
from memreplay.snapshot.recorded_run import recorded_run
from memreplay.width import terminal_width

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.watch.options import WatchOptions

NAP_S = 0.1  # seconds between checks for signals
PAST_BUDGET = 1
CUT_OFF = 4
# Maximum number of families (series of snapshots) to remember. The oldest are forgotten, because a
# program may give every file a new name.
MOST_FAMILIES = 10_000
_COLOURS = {"over": "red", "warning": "yellow"}


class _StoppedError(Exception):
    """A signal arrived while a file was being read."""


class Clocks(NamedTuple):
    """Functions that return the seconds since some fixed time and since 1970, and a function that
    sleeps.
    """

    clock: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], object]


REAL = Clocks(time.monotonic, time.time, time.sleep)


class Watch:
    """The state of one `memreplay watch`."""

    def __init__(
        self,
        asked: WatchOptions,
        reading: Reading,
        selection: Selection,
        clocks: Clocks = REAL,
    ) -> None:
        self.asked = asked
        self.reading = reading
        self.selection = selection
        self.clock, self.wall, self.sleep = clocks
        self.following = Following(asked, clock=clocks.clock, wall=clocks.wall)
        self.totals = WatchTotals(
            ended="signal",
            snapshot_count=0,
            rank_count=0,
            over_budget_count=0,
            not_read_count=0,
            peak_bytes=None,
            peak_file=None,
            peak_device=None,
        )
        self.stopped = False
        self._ranks: set[tuple[str, int | None]] = set()
        self._last: dict[tuple[str, str, int | None, int], tuple[int, str]] = {}
        self._lines: _Json | _Text = (
            _Json() if asked.as_json else _Text(asked.limited, selection.measure)
        )

    def run(self) -> int:
        """Watch until there is a reason to stop. Return the exit code."""
        by = {signal.SIGINT: self._stop, signal.SIGTERM: self._stop}
        start = self.clock()
        with handled(by):
            self._lines.begin()
            while (ended := self._turn(start)) is None:
                self._rest(start)
        self.totals = replace(self.totals, ended=ended)
        exit_code = self._exit_code()
        self._lines.end(self._line("end", exit_code=exit_code, totals=self.totals))
        return exit_code

    def _stop(self, number: int, _frame: object) -> None:
        if self.stopped:
            os._exit(128 + number)  # a second signal, because stopping took too long
        self.stopped = True

    def _turn(self, start: float) -> Ending | None:
        """Scan, and read all files that are due. Return the reason to stop, or None."""
        looked = self.following.look()
        for note in looked.notes:
            say(note)
        for file in looked.gone:
            self._not_read(file, "it was removed before it was read", NOT_READABLE, gone=True)
        for file in looked.due:
            try:
                self._read(file)
            except _StoppedError:
                return "signal"
            ended = self._ended(start)
            if ended is not None:
                return ended
        ended = self._ended(start)
        if ended is None and self.asked.now:
            return self._now(start)
        return ended

    def _ended(self, start: float) -> Ending | None:
        asked, totals = self.asked, self.totals
        if self.stopped:
            return "signal"
        if asked.over and totals.over_budget_count:
            return "over"
        if asked.count is not None and totals.snapshot_count >= asked.count:
            return "count"
        if asked.timeout is not None and self.clock() - start >= asked.timeout:
            return "timeout"
        return None

    def _now(self, start: float) -> Ending | None:
        """Return the reason to stop once no files are pending. Don't wait for files that keep
        changing.
        """
        left = self.following.pending
        if left and self.clock() - start < self.following.patience:
            return None
        for file in left:
            self._not_read(file, "it's still being written", CUT_OFF)
        return "now"

    def _rest(self, start: float) -> None:
        """Sleep until the next scan, a little at a time, because a signal may not wake the
        process.
        """
        until = self.clock() + self.asked.interval
        if self.asked.timeout is not None:
            until = min(until, start + self.asked.timeout)
        while not self.stopped and (left := until - self.clock()) > 0:
            if stdout_is_closed():
                raise BrokenPipeError
            self.sleep(min(left, NAP_S))

    def _read(self, file: File) -> None:
        """Write a file's line, unless the file is incomplete."""
        sure = self.following.quiet(file) >= self.following.patience

        def work() -> tuple[int | None, tuple[WatchedDevice, ...]]:
            return self._found(file)

        found, exit_code, words = attempt_unreported(work)
        try:
            status = os.stat(file.path)
        except OSError:
            return  # the next scan reports that it was deleted or can't be read
        if file.differs(status):
            file.begin_again(status, self.clock())
        elif found is not None:
            rank, devices = found
            self._snapshot(file, rank, devices)
        elif sure:
            self._not_read(file, words, exit_code)
        else:
            file.tried = True

    def _found(self, file: File) -> tuple[int | None, tuple[WatchedDevice, ...]]:
        """Return a file's rank and devices. The snapshot is freed on return."""

        with opened(file.path, self.reading, self._showing) as snapshot:
            run = recorded_run(snapshot)
            rank = rank_of(file.name)
            if rank is None and run is not None:
                rank = run.rank
            devices = watched_devices(
                snapshot,
                self.selection,
                max_peak=self.asked.max_peak,
                max_reserved=self.asked.max_reserved,
            )
            return rank, devices

    @contextmanager
    def _showing(self, file: str) -> Iterator[Update]:
        """Show the progress bar, and stop reading on a signal."""
        with reading_progress(file) as update:

            def told(done: int, total: int | None) -> None:
                if self.stopped:
                    raise _StoppedError
                if update is not None:
                    update(done, total)

            yield told

    def _snapshot(self, file: File, rank: int | None, devices: tuple[WatchedDevice, ...]) -> None:
        devices = tuple(self._changed(file, rank, device) for device in devices)
        past = any(device.over_limits for device in devices)
        line = self._line("snapshot", file, rank=rank, devices=devices, over_budget=past)
        if len(self._ranks) < MOST_FAMILIES:
            self._ranks.add((file.folder, rank))
        all_have = all(rank is not None for _, rank in self._ranks)
        highest = max(devices, key=lambda one: one.peak_bytes, default=None)
        totals = replace(
            self.totals,
            snapshot_count=self.totals.snapshot_count + 1,
            rank_count=len(self._ranks) if all_have else 0,
            over_budget_count=self.totals.over_budget_count + past,
        )
        if highest is not None and highest.peak_bytes > (
            -1 if totals.peak_bytes is None else totals.peak_bytes
        ):
            totals = replace(
                totals,
                peak_bytes=highest.peak_bytes,
                peak_file=file.path,
                peak_device=highest.device,
            )
        self.totals = totals
        file.done = file.listed = True
        file.error, file.exit_code = "", 0
        self._lines.add(line)

    def _changed(self, file: File, rank: int | None, device: WatchedDevice) -> WatchedDevice:
        """Add each device's change since the last snapshot of the same series."""

        family = (file.folder, family_of(file.name), rank, device.device)
        before = self._last.pop(family, None)
        self._last[family] = (device.peak_bytes, file.path)
        if len(self._last) > MOST_FAMILIES:
            del self._last[next(iter(self._last))]
        if before is None:
            return device
        change = device.peak_bytes - before[0]
        return replace(device, change_bytes=change, changed_since=before[1])

    def _not_read(self, file: File, words: str, exit_code: int, *, gone: bool = False) -> None:
        """Write the line about an unreadable file, unless the same line was written before."""
        said = file.error == words
        file.denied = exit_code == NOT_READABLE
        line = self._line("not_read", file, error=words, exit_code=exit_code)
        if gone:
            line = replace(line, file_bytes=None)
        file.done = file.listed = True
        file.error, file.exit_code = words, exit_code
        if not said:
            self.totals = replace(self.totals, not_read_count=self.totals.not_read_count + 1)
            self._lines.add(line)

    def _line(self, kind: str, file: File | None = None, **values: object) -> WatchLine:

        several = len(self.following.folders) > 1
        of_file: dict[str, object] = {
            "time_us": round(self.wall() * 1e6),
            "folder": None,
            "file": None,
            "file_bytes": None,
            "rank": None,
            "rewritten": False,
        }
        if file is not None:
            of_file = {
                "time_us": file.time_us,
                "folder": file.folder,
                "file": file.path,
                "file_bytes": file.status.st_size,
                "rank": rank_of(file.name),
                "rewritten": file.listed,
                "name": file.path if several else file.name,
            }
        usual: dict[str, object] = {
            "over_budget": False,
            "error": None,
            "exit_code": 0,
            "devices": (),
        }
        every: dict[str, object] = usual | of_file | values
        return WatchLine(kind=kind, measure=self.selection.measure, **every)  # type: ignore[arg-type]

    def _exit_code(self) -> int:
        """Return the exit code for an exceeded limit or, without one, the worst exit code among
        files that still can't be read.
        """
        if self.totals.over_budget_count:
            return PAST_BUDGET
        files = (file for known in self.following.files.values() for file in known.values())
        codes = [file.exit_code for file in files]
        codes += [NOT_READABLE for trouble in self.following.troubles.values() if trouble]
        return max(codes, default=0)


class _Json:
    """Writes lines as JSON."""

    def begin(self) -> None:
        """Write no header."""

    def add(self, line: WatchLine) -> None:
        """Write one object."""
        write(render_json(line, indent=None))

    end = add


class _Text:
    """Writes lines as text."""

    def __init__(self, limited: bool, measure: str) -> None:
        self.limited = limited
        self.columns = Columns(terminal_width(), measure)
        self.coloured = wants_colour()

    def begin(self) -> None:
        """Write the header."""
        self._write(self.columns.header, "dim")

    def add(self, line: WatchLine) -> None:
        """Write the line of a snapshot, or of a file that can't be read."""
        for text, level in self.columns.rows(line):
            self._write(text, level)

    def end(self, line: WatchLine) -> None:
        """Write a line with the totals."""

        assert isinstance(line.totals, WatchTotals)
        self._write(totals_text(line.totals, limited=self.limited), "strong")

    def _write(self, text: str, level: Level) -> None:
        if self.coloured and level != "plain":
            bold, dim = level in ("over", "strong"), level == "dim"
            text = click.style(text, fg=_COLOURS.get(level), bold=bold or None, dim=dim or None)
        write(text)
