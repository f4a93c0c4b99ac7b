"""Open a snapshot, or the part of it between two moments."""

from __future__ import annotations

import operator
import os
import stat
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from memreplay.analysis.selecting.parsing import parse_when
from memreplay.errors import UsageError
from memreplay.snapshot.model import Moment, When
from memreplay.snapshot.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.io.container import Source
    from memreplay.io.limits import Limits
    from memreplay.snapshot.model import Edge
    from memreplay.snapshot.snapshot import Progress, Snapshot

Bound = Moment | When | str | int | None

DIRECT = ("event", "elapsed", "time")  # the engine finds these while it reads
SHOWN = 4  # maximum number of devices listed in an error


def open(  # noqa: A001 - memreplay.open is the name people expect
    source: Source,
    *,
    progress: Progress | None = None,
    limits: Limits | None = None,
    salvage: bool = False,
    start: Bound = None,
    stop: Bound = None,
    device: int | None = None,
    project: Sequence[str] = (),
    pick: int | None = None,
) -> Snapshot:
    """Read a snapshot.

    Parameters
    ----------
    source : path, URL, bytes, or binary file object
        A pickle of any protocol, or JSON of the same dict; plain, or (detected by content)
        compressed with gzip, zstandard, xz or bzip2, or the only file in a zip archive. Or the
        folder of a dataset written by `memreplay export`, as parquet or arrow (with pyarrow), or
        a file of it. URLs are read with fsspec. A file object is read from its current position,
        in another thread unless it is a pipe, and not closed.
    progress : callable, optional
        Called occasionally with (bytes done, total bytes or None).
    limits : Limits, optional
        Limits on a file's content.
    salvage : bool, optional
        Read the intact part of a truncated input. `Snapshot.truncation` then has the error.
    start, stop : int, str, When or Moment, optional
        Read only the events from `start` to `stop`. An int is an event's index in its device's
        trace, a str any form of a moment, such as "step:3" (docs/at.md). An event or time as `stop`
        isn't part of the range; a step, annotation, peak or other moment is. Numbers stay exact,
        because memory live at `start` is carried over. The memory needed is proportional to the
        range, unless a bound is neither an event nor a time: then the source is read twice, first
        as a whole.
    device : int, optional
        Read only this device's events.
    project : sequence of str, optional
        The user's code: folders such as `/home/ana/gpt`, or the ends of their paths, such as
        `gpt/models` or `transformers`. By default, all code outside installed packages.
    pick : int, optional
        Which snapshot to read from a file with several, counting from 1. Such a file consists of
        consecutive pickles, holds a list or dict of snapshots, or is a page of PyTorch's viewer
        with several files. Without `pick`, several snapshots are an error.

    Raises
    ------
    OSError
        The source can't be opened or read.
    SnapshotError
        The source isn't a valid snapshot. Subclasses: TruncatedError, UnsafePickleError,
        LimitError.
    MissingExtraError
        Reading the source needs a package that isn't installed.
    UsageError
        The snapshot lacks the device or a moment, or no single time is that moment on all devices.
    """
    read = partial(
        open_snapshot,
        progress=progress,
        limits=limits,
        salvage=salvage,
        device=device,
        project=project,
        pick=pick,
    )
    first, last = _parsed(start, "start"), _parsed(stop, "end")
    if not isinstance(first, When) and not isinstance(last, When):
        return read(source, start=first, stop=last)
    rewind = _rewinding(source)
    whole = read(source)
    first, last = _found(whole, first, starts=True), _found(whole, last, starts=False)
    del whole  # free its memory before the second read
    rewind()
    return read(source, start=first, stop=last)


def _parsed(bound: Bound, edge: Edge) -> Moment | When | None:
    """Return a bound that the engine understands, or a When if the snapshot is needed to find it.

    Steps and annotations mean their `edge` if they don't name one.
    """
    if bound is None or isinstance(bound, Moment):
        return bound
    if not isinstance(bound, str | When):
        return Moment("event", operator.index(bound))
    when = parse_when(bound, edge) if isinstance(bound, str) else bound
    if when.kind == edge:  # from the start, or to the end
        return None
    if when.kind in ("start", "end"):
        side = "before the start" if when.kind == "start" else "after the end"
        raise UsageError(f"the range is empty: there are no events {side}")
    if when.kind in DIRECT:
        return Moment(when.kind, when.value)  # type: ignore[arg-type]
    return when


def _found(whole: Snapshot, bound: Moment | When | None, *, starts: bool) -> Moment | None:
    """Return the event or time that a bound means.

    It applies to all devices, so if they reach it at different events, it's a time that cuts each
    of them at its own event.
    """
    from memreplay.analysis.moments.moments import of_day, resolve  # imported late: rarely needed

    if not isinstance(bound, When):
        return bound
    found: dict[int, Moment] = {}
    errors: list[str] = []
    for device in filter(whole.trace_events, whole.devices):
        replay = whole.replay(device)
        try:
            if bound.kind == "time_of_day":
                found[device] = Moment("time", of_day(replay, bound.value))
            else:
                event = resolve(whole, replay.measure(), bound)
                found[device] = Moment("event", _index(event, bound, starts=starts))
        except UsageError as error:
            errors.append(str(error))
    if not found:
        raise UsageError(errors[0] if errors else "no events were recorded")
    if errors:
        raise UsageError(f"{errors[0]}; choose a device that has it, such as --device {min(found)}")
    if len(set(found.values())) > 1:
        common = _common_time(whole, found)
        if common is not None:
            return common
        there = [f"device {device}: event {one.value}" for device, one in found.items()]
        more = ", …" if len(there) > SHOWN else ""
        raise UsageError(
            f"the range would {'start' if starts else 'stop'} at different events"
            f" ({', '.join(there[:SHOWN])}{more}) and times; choose one device, such as --device"
            f" {min(found)}"
        )
    return next(iter(found.values()))


def _common_time(whole: Snapshot, found: dict[int, Moment]) -> Moment | None:
    """Return a time that divides each device's events before its own event; None if there's none.

    Steps and annotations have such a time, unlike the devices' peaks.
    """
    events = {device: one.value for device, one in found.items() if one.kind == "event"}
    replays = {device: whole.replay(device) for device in events}
    if len(events) < len(found) or not all(one.has_times for one in replays.values()):
        return None
    # The event before the range's edge is earlier than the time on every device.
    before = [replays[device].clock_us(event - 1) for device, event in events.items()]
    time = max((one for one in before if one is not None), default=0) + 1
    if all(replays[device].event_at(time - 1) == event - 1 for device, event in events.items()):
        return Moment("time", time)
    return None


def _index(event: int, when: When, *, starts: bool) -> int:
    """Return the first event of a range that starts at a moment, or the first one after a range
    that stops there. `event` leads to the state at the moment.

    The start and end of a step or annotation lie between two events. Other moments are an event,
    which is part of the range on either side.
    """
    if starts and when.edge in (None, "peak"):
        return max(event, 0)  # -1 is the state before the first event
    if not starts and event < 0:
        raise UsageError("the range is empty: it would stop before the first event")
    return event + 1


def _rewinding(source: Source) -> Callable[[], object]:
    """Return a function after which the source can be read again. Raises UsageError for a pipe."""
    try:
        if hasattr(source, "read"):
            file = cast("BinaryIO", source)
            position = file.tell()
            return partial(file.seek, file.seek(position))
    except OSError:
        raise UsageError(ONCE) from None
    if isinstance(source, str | os.PathLike):
        try:
            mode = os.stat(source).st_mode
        except (OSError, ValueError):  # a URL, or a path that can't be opened either
            return lambda: None
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise UsageError(ONCE)
    return lambda: None


ONCE = (
    "a pipe can be read only once, but finding this moment takes two reads; save the snapshot to a"
    " file, or bound the range by events or times"
)
