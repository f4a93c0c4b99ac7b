"""The loop of `memreplay watch`: looks, reads what is whole, writes a line, waits."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from memreplay.analysis.comparing.rank_names import family_of, rank_of
from memreplay.commands.shared.errors import NOT_READABLE, say, untold
from memreplay.commands.shared.output import stdout_is_closed, wants_colour, write
from memreplay.commands.shared.progress import Update, reading_progress
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.summary.run import recorded_run
from memreplay.commands.watch.find import watched_devices
from memreplay.commands.watch.following import File, Following
from memreplay.commands.watch.result import Ending, WatchedDevice, WatchLine, WatchTotals
from memreplay.commands.watch.text import Columns, Level, totals_words
from memreplay.programs.starting import handled
from memreplay.render.record_json import render_json
from memreplay.width import terminal_width

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.watch.asked import WatchOptions

NAP_S = 0.1  # a signal is heard after so long
PAST_BUDGET = 1
CUT_OFF = 4
# Of more families than these the oldest are forgotten: a program may give every file a new name.
MOST_FAMILIES = 10_000
_COLOURS = {"over": "red", "warning": "yellow"}


class _StoppedError(Exception):
    """A signal came while a file was read."""


class Watch:
    """One watch. The clocks and `sleep` are those of `time` but in tests."""

    def __init__(
        self,
        asked: WatchOptions,
        reading: Reading,
        selection: Selection,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.asked = asked
        self.reading = reading
        self.selection = selection
        self.clock = clock
        self.wall = wall
        self.sleep = sleep
        self.following = Following(
            asked.folders,
            settle=asked.settle,
            deep=asked.recursive,
            new=asked.new,
            clock=clock,
            wall=wall,
        )
        self.totals = WatchTotals(
            ended="signal",
            snapshots=0,
            ranks=0,
            past_budget=0,
            not_read=0,
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
        """Watch until there is a reason to end; the exit code."""
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
            os._exit(128 + number)  # it did not come soon enough
        self.stopped = True

    def _turn(self, start: float) -> Ending | None:
        """Look, and read all that is due; why to end, None to go on."""
        looked = self.following.look()
        for note in looked.notes:
            say(note)
        for file in looked.gone:
            self._not_read(file, "it is gone, and was not read", NOT_READABLE, gone=True)
        for file in looked.due:
            try:
                self._read(file)
            except _StoppedError:
                return "signal"
            ended = self._ended(start)
            if ended is not None:
                return ended
        ended = self._ended(start)
        if ended is None and self.asked.once:
            return self._once(start)
        return ended

    def _ended(self, start: float) -> Ending | None:
        asked, totals = self.asked, self.totals
        if self.stopped:
            return "signal"
        if asked.until_over and totals.past_budget:
            return "until_over"
        if asked.count is not None and totals.snapshots >= asked.count:
            return "count"
        if asked.timeout is not None and self.clock() - start >= asked.timeout:
            return "timeout"
        return None

    def _once(self, start: float) -> Ending | None:
        """Ends when nothing is left; of what never stays unchanged that is not waited for."""
        left = self.following.pending
        if left and self.clock() - start < self.following.patience:
            return None
        for file in left:
            self._not_read(file, "it is still being written", CUT_OFF)
        return "once"

    def _rest(self, start: float) -> None:
        """Wait for the next look. Naps, as a signal's handler may wake nobody."""
        until = self.clock() + self.asked.every
        if self.asked.timeout is not None:
            until = min(until, start + self.asked.timeout)
        while not self.stopped and (left := until - self.clock()) > 0:
            if stdout_is_closed():
                raise BrokenPipeError
            self.sleep(min(left, NAP_S))

    def _read(self, file: File) -> None:
        """A line of a file, unless it is not whole yet."""
        sure = self.following.quiet(file) >= self.following.patience

        def work() -> tuple[int | None, tuple[WatchedDevice, ...]]:
            return self._found(file)

        found, exit_code, words = untold(work)
        try:
            status = os.stat(file.path)
        except OSError:
            return  # the next look says that it is gone, or what else is wrong
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
        """Its rank and devices; the snapshot is closed and gone when this ends."""

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
        """The bar; and what ends reading when a signal has come."""
        with reading_progress(file) as update:

            def told(done: int, total: int | None) -> None:
                if self.stopped:
                    raise _StoppedError
                if update is not None:
                    update(done, total)

            yield told

    def _snapshot(self, file: File, rank: int | None, devices: tuple[WatchedDevice, ...]) -> None:
        devices = tuple(self._changed(file, rank, device) for device in devices)
        past = any(device.past for device in devices)
        line = self._line("snapshot", file, rank=rank, devices=devices, past_budget=past)
        if len(self._ranks) < MOST_FAMILIES:
            self._ranks.add((file.folder, rank))
        all_have = all(rank is not None for _, rank in self._ranks)
        highest = max(devices, key=lambda one: one.peak_bytes, default=None)
        totals = replace(
            self.totals,
            snapshots=self.totals.snapshots + 1,
            ranks=len(self._ranks) if all_have else 0,
            past_budget=self.totals.past_budget + past,
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
        if past and self.asked.bell and sys.stderr.isatty():
            click.echo("\a", nl=False, err=True)

    def _changed(self, file: File, rank: int | None, device: WatchedDevice) -> WatchedDevice:
        """With what it is more than the last one of its family."""

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
        """A line of a file that cannot be read; not the same one twice."""
        said = file.error == words
        file.denied = exit_code == NOT_READABLE
        line = self._line("not_read", file, error=words, exit_code=exit_code)
        if gone:
            line = replace(line, file_bytes=None)
        file.done = file.listed = True
        file.error, file.exit_code = words, exit_code
        if not said:
            self.totals = replace(self.totals, not_read=self.totals.not_read + 1)
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
            "past_budget": False,
            "error": None,
            "exit_code": 0,
            "devices": (),
        }
        every: dict[str, object] = usual | of_file | values
        return WatchLine(kind=kind, measure=self.selection.measure, **every)  # type: ignore[arg-type]

    def _exit_code(self) -> int:
        """That of a broken budget; else the worst of what cannot be read as it is now."""
        if self.totals.past_budget:
            return PAST_BUDGET
        files = (file for known in self.following.files.values() for file in known.values())
        codes = [file.exit_code for file in files]
        codes += [NOT_READABLE for trouble in self.following.troubles.values() if trouble]
        return max(codes, default=0)


class _Json:
    """Lines for programs."""

    def begin(self) -> None:
        """Nothing comes before them."""

    def add(self, line: WatchLine) -> None:
        """One object."""
        write(render_json(line, indent=None))

    end = add


class _Text:
    """Lines for people."""

    def __init__(self, limited: bool, measure: str) -> None:
        self.limited = limited
        self.columns = Columns(terminal_width(), measure)
        self.coloured = wants_colour()

    def begin(self) -> None:
        """The titles."""
        self._write(self.columns.header, "dim")

    def add(self, line: WatchLine) -> None:
        """A snapshot, or what is none."""
        for text, level in self.columns.rows(line):
            self._write(text, level)

    def end(self, line: WatchLine) -> None:
        """All of it in a line."""

        assert isinstance(line.totals, WatchTotals)
        self._write(totals_words(line.totals, limited=self.limited), "strong")

    def _write(self, text: str, level: Level) -> None:
        if self.coloured and level != "plain":
            bold, dim = level in ("over", "strong"), level == "dim"
            text = click.style(text, fg=_COLOURS.get(level), bold=bold or None, dim=dim or None)
        write(text)
