"""Open a snapshot argument with a progress bar."""

# The type annotations declare options and are read on every start, so they aren't stored as text.
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, BinaryIO

from msgspec import Struct

from memreplay.analysis.selecting.parsing import WHEN_FORMS, parse_limit, parse_stop, parse_when
from memreplay.commands.shared.config import NONE, ConfigChoice
from memreplay.commands.shared.progress import Showing, reading_progress
from memreplay.declared import Opt
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.model import When

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.snapshot.snapshot import Snapshot


class Reading(Struct, frozen=True):
    """Options for what to read (devices, a range of events, truncated files), and for which code
    counts as the user's.
    """

    device: Annotated[int | None, Opt("Read only this device (default: all).", "N", short="-d")] = (
        None
    )
    start: Annotated[
        When | None,
        Opt(
            f"Start at this moment: {WHEN_FORMS}.",
            "WHEN",
            flag="--from",
            parse=parse_when,
            brief="Start at a moment: 1200, 1.5s, peak, step:3, …",
        ),
    ] = None
    stop: Annotated[
        When | None,
        Opt(
            "Stop before this event or time, or at the end of this step, annotation or other"
            " moment.",
            "WHEN",
            flag="--to",
            parse=parse_stop,
            brief="Stop at a moment.",
        ),
    ] = None
    salvage: Annotated[bool, Opt("Read the intact part of a truncated file.", rare=True)] = False
    pick: Annotated[
        int | None,
        Opt(
            "Read the N-th snapshot of a file that holds several (a list or dict of snapshots, or"
            " concatenated pickles).",
            "N",
            least=1,
            rare=True,
        ),
    ] = None
    limits: Annotated[
        tuple[tuple[str, int], ...],
        Opt(
            "Raise one of the reader's safety limits, such as string_bytes=128M (listed in"
            " memreplay help library).",
            "NAME=N",
            flag="--limit",
            parse=parse_limit,
            rare=True,
        ),
    ] = ()
    config: ConfigChoice = ConfigChoice(NONE)

    @property
    def project(self) -> tuple[str, ...]:
        """The folders of user code."""
        return self.config.project()

    @property
    def project_option_given(self) -> bool:
        """Whether the folders come from an option rather than from the configuration, which can
        apply to many files.
        """
        return bool(self.config.folders)


# Set by a program that runs many commands in one process, to return a snapshot that it has kept
# instead of reading the file again.
keep: "Callable[[str, Reading, Callable[[], Snapshot]], Snapshot] | None" = None


def _opener(reading: Reading) -> "Callable[..., Snapshot]":
    """Return the function that opens the snapshot: the simpler one if it's read whole."""
    if reading.start is None and reading.stop is None:
        from memreplay.snapshot.snapshot import open as read

        return read
    from memreplay.analysis.moments.opening import open as read_range

    return read_range


@contextmanager
def opened(
    file: str,
    reading: Reading,
    showing: Showing = reading_progress,
    stream: BinaryIO | None = None,
) -> "Iterator[Snapshot]":
    """Open the snapshot `file` (`-` is standard input), or read `stream` instead. The snapshot is
    closed afterwards.

    `showing` makes the progress bar; commands that read many files have their own. Do all work
    within the block, because the bar is removed at the end of the block, and output must come
    later. Raises UsageError for a range without events.
    """
    # Imported late: these load the native core
    from memreplay.io.limits import Limits

    open_snapshot = _opener(reading)
    source: str | BinaryIO = sys.stdin.buffer if file == "-" else file
    source = stream or source
    with showing(file) as progress:
        read = partial(
            open_snapshot,
            source,
            progress=progress,
            limits=Limits(**dict(reading.limits)),
            salvage=reading.salvage,
            start=reading.start,
            stop=reading.stop,
            device=reading.device,
            project=reading.project,
            pick=reading.pick,
        )
        snapshot = read() if keep is None else keep(file, reading, read)
        if snapshot.unknown_devices:
            _say_unknown(snapshot)
        if snapshot.range_is_empty:
            raise UsageError(_empty_range(snapshot, source, reading))
        if reading.project_option_given:
            from memreplay.analysis.code.plumbing import check_project

            check_project(snapshot.code, reading.project)
        yield snapshot


def _say_unknown(snapshot: "Snapshot") -> None:
    """Print which devices are unknown. Raises NothingToTellError if there are no others."""
    from memreplay.commands.shared.errors import say
    from memreplay.render.reasons import unknown_text

    words = unknown_text(snapshot.unknown_devices)
    if not snapshot.devices:
        raise NothingToTellError(words)
    say(words)


def _empty_range(snapshot: "Snapshot", source: str | BinaryIO, reading: Reading) -> str:
    """Describe the selected range, which has no events, and the available range. To show times, the
    file has to be read again.
    """
    from memreplay.render.ranges import empty_text, times_text

    devices = [(device, snapshot.trace_events(device)) for device in snapshot.devices]
    words = empty_text(snapshot.range, devices)
    bounds = (snapshot.range.start, snapshot.range.stop)
    kinds = {one.kind for one in bounds if one is not None}
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
    return words + times_text(last.origin_us, last.time_us(events - 1))
