"""Opens the snapshot that an argument names, with a progress bar while it is read."""

# Annotations declare options here, which each start reads: they are no text to be evaluated.
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, BinaryIO

from msgspec import Struct

from memreplay.analysis.selecting.parsing import parse_limit, parse_moment
from memreplay.commands.shared.config import ConfigChoice
from memreplay.commands.shared.progress import Showing, reading_progress
from memreplay.declared import Opt
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.model import Moment

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot


class Reading(Struct, frozen=True):
    """What to read of a snapshot: one device or all, a range of events or all, cut off or whole;
    and whose code in it is the user's."""

    device: Annotated[int | None, Opt("Only this device (default: all).", "N", short="-d")] = None
    start: Annotated[
        Moment | None,
        Opt(
            "Start at this moment: an event (1200), a time since the start (1.5s) or a UTC time.",
            "MOMENT",
            flag="--from",
            parse=parse_moment,
            brief="From an event (1200), a time (1.5s) or a UTC time on.",
        ),
    ] = None
    stop: Annotated[
        Moment | None,
        Opt(
            "Stop before this moment.",
            "MOMENT",
            flag="--to",
            parse=parse_moment,
            brief="Up to such a moment.",
        ),
    ] = None
    salvage: Annotated[
        bool, Opt("Read the intact part of a file that is cut off, and say so.", rare=True)
    ] = False
    pick: Annotated[
        int | None,
        Opt(
            "Read the N-th snapshot of a file that holds several (a list or a dict of snapshots,"
            " or pickles one after the other).",
            "N",
            least=1,
            rare=True,
        ),
    ] = None
    limits: Annotated[
        tuple[tuple[str, int], ...],
        Opt(
            "Raise a limit on what a file may ask for, such as string_bytes=128M (memreplay"
            " help library lists the limits).",
            "NAME=N",
            flag="--limit",
            parse=parse_limit,
            rare=True,
        ),
    ] = ()
    config: ConfigChoice = ConfigChoice(no_config=True)

    @property
    def project(self) -> tuple[str, ...]:
        """The folders of the user's code."""
        return self.config.project()

    @property
    def project_asked(self) -> bool:
        """Whether an option names them, and not a configuration that is of many files."""
        return bool(self.config.folders)


@contextmanager
def opened(
    file: str,
    reading: Reading,
    showing: Showing = reading_progress,
    stream: BinaryIO | None = None,
) -> "Iterator[Snapshot]":
    """The snapshot in `file`, or on standard input for `-`, closed afterwards. `stream` is read
    instead of it where it is given. Raises UsageError for a range without any event.

    `showing` makes the bar; a command over many files has one of its own.

    Ask it all questions inside: the bar is gone when this ends, and output may be written.
    """
    from memreplay.io.limits import Limits  # late: these load the native core
    from memreplay.snapshot.snapshot import open as open_snapshot

    source: str | BinaryIO = sys.stdin.buffer if file == "-" else file
    source = stream or source
    with (
        showing(file) as progress,
        open_snapshot(
            source,
            progress=progress,
            limits=Limits(**dict(reading.limits)),
            salvage=reading.salvage,
            start=reading.start,
            stop=reading.stop,
            device=reading.device,
            project=reading.project,
            pick=reading.pick,
        ) as snapshot,
    ):
        if snapshot.unknown_devices:
            _say_unknown(snapshot)
        if snapshot.range_is_empty:
            raise UsageError(_empty_range(snapshot, source, reading))
        if reading.project_asked:
            from memreplay.analysis.code.plumbing import check_project

            check_project(snapshot.code, reading.project)
        yield snapshot


def _say_unknown(snapshot: "Snapshot") -> None:
    """Say of which devices nothing is known. Raises NothingToTellError if there are no others."""
    from memreplay.commands.shared.errors import say
    from memreplay.render.reasons import unknown_words

    words = unknown_words(snapshot.unknown_devices)
    if not snapshot.devices:
        raise NothingToTellError(words)
    say(words)


def _empty_range(snapshot: "Snapshot", source: str | BinaryIO, reading: Reading) -> str:
    """That there is nothing to show, and the range there is: in times where these were asked for,
    which costs reading the file once more."""
    from memreplay.render.ranges import empty_words, times_words

    devices = [(device, snapshot.trace_events(device)) for device in snapshot.devices]
    words = empty_words(snapshot.range, devices)
    kinds = {one.kind for one in (reading.start, reading.stop) if one is not None}
    first = next((one for one in devices if one[1]), None)
    if first is None or kinds <= {"event"} or not isinstance(source, str):
        return words
    from memreplay.io.limits import Limits
    from memreplay.snapshot.snapshot import open as open_snapshot

    device, events = first
    last = open_snapshot(
        source,
        limits=Limits(**dict(reading.limits)),
        salvage=reading.salvage,
        pick=reading.pick,
        start=events - 1,
        device=device,
    ).replay(device)
    return words + times_words(last.origin_us, last.time_us(events - 1))
