"""A snapshot. It's read into columns when opened, and replayed per device on demand."""

from __future__ import annotations

import operator
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct
from msgspec.structs import replace

import memreplay._core as _core
from memreplay.engine.base.diagnosis import cut_stream
from memreplay.engine.replay import _timeline
from memreplay.errors import (
    NothingToTellError,
    SnapshotError,
    TruncatedError,
    UsageError,
)
from memreplay.io.container import Source, open_stream
from memreplay.io.dataset_files import find_dataset
from memreplay.io.limits import Limits
from memreplay.io.readahead import ReadAhead, several_cpus
from memreplay.snapshot.alloc_conf import recorded_settings
from memreplay.snapshot.backends import NPU, XPU, Backend, Evidence, likely
from memreplay.snapshot.code import Code
from memreplay.snapshot.model import EventRange, Frame, Moment
from memreplay.snapshot.once import Once, once
from memreplay.snapshot.replay import Noted, Replay
from memreplay.snapshot.staying import Staying

if TYPE_CHECKING:
    from memreplay.snapshot import columns
    from memreplay.snapshot.page_view import PageView
    from memreplay.snapshot.recorded import Recorded
    from memreplay.snapshot.tabular import Batched

Progress = Callable[[int, "int | None"], None]

# Top-level values that are kept unchanged: name in the core -> key in the file.
KEPT = {
    "settings": "allocator_settings",
    "overflowed": "trace_alloc_overflowed",
    "max_entries": "trace_alloc_max_entries",
    "memreplay": "memreplay",
}

# Event keys that reveal which version of PyTorch wrote the events.
EVENT_KEYS = ("compile_context", "user_metadata")


class Origin(Struct, frozen=True):
    """Where a snapshot was read from."""

    file: str
    container: str
    bytes: int | None


class Part(Struct, frozen=True):
    """The part of a file to read: one device or all, and a range of events."""

    device: int | None = None
    range: EventRange = EventRange()


WHOLE = Part()


class Snapshot(Staying):
    """A PyTorch memory snapshot in columns. Returned by `memreplay.open`."""

    def __init__(
        self,
        native: _core.Tables,
        origin: Origin,
        part: Part = WHOLE,
        *,
        traits: frozenset[str] = frozenset(),
        project: Sequence[str] = (),
    ) -> None:
        self.native = native
        self.origin = origin
        self.file = origin.file
        """The path or URL that was read; `<bytes>` of bytes."""
        self.container = origin.container
        """How the file is wrapped: `pickle` for not at all, `gzip`, `zstd`, `xz`, `bzip2`, `zip`,
        `gzip in zip`, …"""
        self.file_bytes = origin.bytes
        """Size of the file as stored; None if unknown."""
        self.only = part.device
        self.range: EventRange = part.range
        """The requested `start` and `stop`: a Moment each, or None."""
        self._traits = traits
        self.project = tuple(project)
        self._replays: Once[int, Replay] = Once()
        self._frames: dict[int, Frame] = {}

    def __repr__(self) -> str:
        return f"<Snapshot {self.file}: {self.native.n_events} events, devices {self.devices}>"

    def _repr_html_(self) -> str:
        rows = [
            ("file", self.file),
            ("container", self.container),
            ("devices", self.devices),
            ("events", self.native.n_events),
            ("segments", self.native.n_segments),
            ("stacks", self.native.n_stacks),
            ("annotations", self.native.n_annotations),
        ]
        from memreplay.snapshot.brief import html_table  # imported late: only for notebooks

        return html_table("Snapshot", rows)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: `open` reads the whole input."""

    # ---- contents

    @once
    def devices(self) -> tuple[int, ...]:
        """Devices with events or segments, in ascending order.

        PyTorch lists every device in the machine, so unused devices are left out unless there are
        no others.
        """
        idle = set(self.native.idle_devices()).difference(self.native.segment_devices())
        known = tuple(one for one in self._recorded if one not in self.unknown_devices)
        return tuple(one for one in known if one not in idle) or known

    @once
    def unknown_devices(self) -> tuple[int, ...]:
        """Devices whose trace was cut off because the file is truncated, in ascending order.

        Their segments are present and show the final state, but any events are missing. They aren't
        in `devices`.
        """
        if self.truncation is None or "bare_list" in self.traits:
            return ()  # a bare list of segments has no traces that could be missing
        traces = list(self.native.traces())
        # The file may have been cut just after the last device's trace began.
        begun = {device for device, *_ in traces[:-1]} | {
            device for device, _, _, events in traces[-1:] if events
        }
        return tuple(one for one in self._recorded if one not in begun)

    @once
    def _recorded(self) -> tuple[int, ...]:
        with_events = {device for device, events in self.events_by_device.items() if events}
        return tuple(
            device
            for device in sorted(with_events.union(self.native.segment_devices()))
            if self.only in (None, device)
        )

    @once
    def events_by_device(self) -> dict[int, int]:
        """Number of events in each device's trace, including those outside the range, in file
        order.
        """
        found: dict[int, int] = {}
        for device, _, _, events in self.native.traces():
            found[device] = found.get(device, 0) + events
        return found

    @once
    def has_events(self) -> bool:
        """Whether any device has events, including those outside the range."""
        return any(self.events_by_device.values())

    @property
    def range_is_empty(self) -> bool:
        """Whether the requested range has no events. If it has none, all numbers are those at the
        range's position.
        """
        asked = self.range.start is not None or self.range.stop is not None
        return asked and self.native.n_events == 0

    def trace_events(self, device: int) -> int:
        """Return the number of events in the device's trace, including those outside the range."""
        return self.events_by_device.get(device, 0)

    @property
    def stream_bytes(self) -> int:
        """Size of the plain pickle or JSON, in bytes."""
        return self.native.stream_bytes

    @property
    def protocol(self) -> int:
        """Pickle protocol; if the file doesn't state it, 0 or 1 depending on its opcodes; -1 for
        JSON.
        """
        return self.native.protocol

    @property
    def truncation(self) -> TruncatedError | None:
        """The error that made salvaging necessary; None if the input is complete."""
        return self.native.truncation

    @once
    def settings(self) -> dict[str, object]:
        """`allocator_settings` as in the file; empty if missing."""
        found = self.native.kept("settings")
        return found if isinstance(found, dict) else {}

    @once
    def traits(self) -> frozenset[str]:
        """Features of the file that no table contains but that reveal which version of PyTorch
        wrote it.

        These are event keys (even if empty), "history" if blocks have one, and "bare_list" for a
        plain list of segments.
        """
        native = self.native
        # A constant column is returned as a single number.
        found = {name for name in EVENT_KEYS if native.column(name) != _core.ABSENT_ID}
        found |= {"history"} if native.any_history else set()
        found |= {"bare_list"} if native.bare_list else set()
        return self._traits | found

    @once
    def recorder(self) -> dict[str, object]:
        """The notes that memreplay's recorder made about the run (docs/format.md).

        Empty if another recorder wrote the file, or if the notes can't be read (`notes_flaw`).
        """
        found = self.kept("memreplay")
        return found if isinstance(found, dict) else {}

    @property
    def notes_flaw(self) -> str:
        """Why the value under memreplay's own key was ignored; empty if it wasn't ignored."""
        return self._notes[1]

    @once
    def _notes(self) -> tuple[object, str]:
        try:
            found = self.native.kept("memreplay")
        except SnapshotError as error:
            return None, error.message
        if self.native.has_notes and not isinstance(found, dict):
            return found, "it isn't a dict"
        return found, ""

    @once
    def recorded(self) -> Recorded | None:
        """The recorder's notes on each allocation; None if missing or unusable
        (`recorded_flaw`).
        """
        return self._recorded_or_flaw[0]

    @property
    def recorded_flaw(self) -> str:
        """Why the recorder's notes can't be used; empty if they can be used or are missing."""
        return self._recorded_or_flaw[1]

    @once
    def _recorded_or_flaw(self) -> tuple[Recorded | None, str]:
        if "allocations" not in self.recorder:
            return None, ""
        from memreplay.snapshot.recorded import FlawError, Recorded

        try:
            return Recorded(self.recorder, self.events_by_device, self.native.n_blocks), ""
        except FlawError as flaw:
            return None, str(flaw)

    @once
    def source_lines(self) -> Mapping[str, Mapping[int, str]]:
        """Source lines by file and line number, stripped.

        Only available if the recorder was told to keep them (`record(…, source=True)`).
        """
        found = self.recorder.get("source_lines")
        if not found:
            return {}
        # imported late, because few files have any
        from memreplay.snapshot.source_lines import checked_lines

        return checked_lines(found)

    @once
    def recorder_failures(self) -> tuple[tuple[str, str, int], ...]:
        """Failures of memreplay's recorder:

        (action, error, count).

        The program wasn't affected, but categories may be wrong.
        """
        found = self.recorder.get("failures")
        return tuple(
            (str(one.get("doing", "")), str(one.get("error", "")), count)
            for one in (found if isinstance(found, list) else ())
            if isinstance(one, dict) and type(count := one.get("count")) is int and count > 0
        )

    @property
    def has_other_data(self) -> bool:
        """Whether the file has other data: containers around the snapshot, other pickles, or other
        bytes.
        """
        return self.native.wrapped or self.native.beside

    @property
    def is_followed_by_data(self) -> bool:
        """Whether other data follows the snapshot's pickle and was ignored.

        Padding (zeros and white space) doesn't count.
        """
        return self.native.beside and self.native.found_snapshots <= 1

    def recorded_steps(self, device: int) -> tuple[int, ...]:
        """For each step that memreplay's recorder noted, return how many of the device's events had
        occurred at its end.

        Starts with 0 if the first step began with the first event. Empty if no steps were noted.
        """
        steps = self.recorder.get("steps")
        found = steps[device] if isinstance(steps, list) and 0 <= device < len(steps) else None
        if not isinstance(found, list) or not all(type(one) is int for one in found):
            return ()
        last = self.trace_events(device)
        return tuple(one for one in sorted(found) if 0 <= one <= last)

    def card_bytes(self, device: int) -> int | None:
        """Return the card's memory; None if the recorder didn't note it."""
        return _card(self.recorder, device).bytes

    def kept(self, name: str) -> object:
        """Return a top-level key's value as plain data; None if missing.

        `overflowed`: whether PyTorch's buffer was full. `max_entries`: the buffer's size in events.
        `settings`: the allocator's settings. `memreplay`: the notes that memreplay's recorder made.
        """
        return self._notes[0] if name == "memreplay" else self.native.kept(name)

    # ---- tables

    @once
    def events(self) -> columns.Events:
        """All devices' events, one row each."""
        from memreplay.snapshot.columns import Events

        return Events(self.native, self.native.n_events, self._spelled("events"))

    @once
    def ooms(self) -> columns.Ooms:
        """The oom events, which say how much memory was free on the device, one row each."""
        from memreplay.snapshot.columns import Ooms

        return Ooms(self.native, self.native.n_ooms, self._spelled("ooms"))

    @once
    def stacks(self) -> columns.Stacks:
        """The distinct call stacks."""
        from memreplay.snapshot.columns import Stacks

        return Stacks(self.native, self.native.n_stacks, self._spelled("stacks"))

    @once
    def frames(self) -> columns.Frames:
        """The distinct frames in stacks."""
        from memreplay.snapshot.columns import Frames

        return Frames(self.native, self.native.n_frames, self._spelled("frames"))

    @once
    def segments(self) -> columns.Segments:
        """The allocator's segments when the snapshot was dumped, one row each."""
        from memreplay.snapshot.columns import Segments

        return Segments(self.native, self.native.n_segments, self._spelled("segments"))

    @once
    def blocks(self) -> columns.Blocks:
        """The blocks of these segments, one row each."""
        from memreplay.snapshot.columns import Blocks

        return Blocks(self.native, self.native.n_blocks, self._spelled("blocks"))

    @once
    def annotations(self) -> columns.Annotations:
        """The starts and ends of annotations, one row each."""
        from memreplay.snapshot.columns import Annotations

        return Annotations(self.native, self.native.n_annotations, self._spelled("annotations"))

    @property
    def allocations(self) -> Batched:
        """All allocations, with their category and module: `memreplay.table(snap,
        "allocations")`.
        """
        return _later().table(self, "allocations")

    def _spelled(self, name: str) -> Callable[[], Batched]:
        """Return a function that creates the table with this name.

        A table can outlive its snapshot. The table doesn't refer to the snapshot, because the
        snapshot already refers to the table. If the snapshot is gone, the table opens another
        snapshot with the same columns.
        """
        alive = weakref.ref(self)
        again = partial(
            Snapshot,
            self.native,
            self.origin,
            Part(self.only, self.range),
            traits=self._traits,
            project=self.project,
        )
        return lambda: _later().table(alive() or again(), name)

    # ---- values of ids

    @once
    def code(self) -> Code:
        """Frames and stacks by id."""
        return Code(self.native)

    @property
    def has_times(self) -> bool:
        """Whether any event has a time."""
        return self.native.any_time

    @property
    def has_annotations(self) -> bool:
        """Whether the file has a list of annotations, which may be empty."""
        return self.native.has_annotations

    def has_action(self, *names: str) -> bool:
        """Return whether any event has one of these actions."""
        column = self.native.column("action")
        assert not isinstance(column, int)
        # Search the column's bytes, because each code is one byte.
        codes = bytes(column)
        return any(_core.ACTIONS.index(name) in codes for name in names)

    @property
    def has_segments(self) -> bool:
        """Whether the file has a list of segments, which may be empty."""
        return self.native.has_segments

    @property
    def events_with_stack(self) -> int:
        """Number of events with a stack."""
        return self.native.events_with_stack

    @property
    def segment_count(self) -> int:
        """Number of segments when the snapshot was dumped."""
        return self.native.n_segments

    @property
    def annotation_count(self) -> int:
        """Number of annotation rows: one per start or end."""
        return self.native.n_annotations

    def annotation_rows(self, *fields: str) -> Iterator[memoryview]:
        """Return the annotations' columns: name, stage, device, time."""
        return (memoryview(self.native.rows("annotation", field)) for field in fields)

    def without_requested_size(self, device: int) -> int:
        """Return the number of the device's final blocks without a requested size."""
        return self.native.blocks_without_requested_size(device)

    def text(self, i: int) -> str | None:
        """Return string i; None for the id 2**32 - 1 (none)."""
        return None if i == _core.ABSENT_ID else self.native.string(i)

    def metadata(self, i: int) -> object:
        """Return metadata i: text, or the original data (lists, dicts, numbers)."""
        text = self.text(i)
        if text is None or not text.startswith("\0"):
            return text
        import json  # imported late, because few files have such metadata

        data: object = json.loads(text[1:])
        return data

    def frame(self, i: int) -> Frame:
        """Return frame i, a row of `frames`. Raises IndexError."""
        found = self._frames.get(i)
        if found is None:
            function, file, line = self.native.frame(i)
            name, path = self.native.string(function), self.native.string(file)
            lines = self.source_lines.get(path)
            found = Frame(name, path, line, (lines and lines.get(line)) or UNSET)
            found = self._frames.setdefault(i, found)
        return found

    def stack(self, i: int) -> tuple[Frame, ...]:
        """Return the frames of stack i, a row of `stacks`, innermost first. Raises IndexError."""
        return tuple(self.frame(f) for f in self.native.stack(i))

    def pool_id(self, i: int) -> tuple[int, int] | None:
        """Return pool i as two numbers.

        (0, 0) is the default pool; the first number is nonzero for a graph capture's pool, the
        second for a user's pool.
        """
        return None if i == _core.ABSENT_ID else self.native.pool(i)

    def action_name(self, code: int) -> str | None:
        """Return the action for a code of `events.action`; None for an event without action."""
        return self.native.action_name(code)

    def state_name(self, code: int) -> str:
        """Return the state for a code of `blocks.state`. Raises IndexError."""
        return _core.STATES[code]

    # ---- replay

    def check_device(self, device: int) -> None:
        """Raise UsageError if the device has no events or segments, or wasn't selected."""
        if device in self.unknown_devices:
            raise NothingToTellError(
                f"device {device} unknown: the file is cut off before its trace"
            )
        if device not in self._recorded:
            there = ", ".join(map(str, self.devices)) or "none"
            raise UsageError(f"no device {device}; this snapshot has: {there}")

    def replay(self, device: int | None = None) -> Replay:
        """Replay one device (None: the first one that has data).

        The result is cached.

        Raises UsageError if the device has no events or segments.
        """
        if device is None:
            device = self.devices[0] if self.devices else 0
        return self._replays.get(device, partial(self._replayed, device))

    def _replayed(self, device: int) -> Replay:
        self.check_device(device)
        native = _timeline.Replay(self.native, device)
        settings = recorded_settings(self.settings)
        if "expandable_segments" not in self.settings:
            growing, fixed = native.tally()["expandable"]
            settings = replace(settings, expandable=growing > 0 and not fixed)
        return Replay(
            native,
            settings,
            partial(_card, self.recorder, device),
            self._backends,
        )

    @once
    def _backends(self) -> tuple[Backend, ...]:
        plain, padded = _timeline.rounding(self.native, NPU.pad_bytes)
        codes = [one.code for one in (NPU, XPU) if one.code is not None]
        return likely(
            Evidence(
                settings=frozenset(self.settings),
                npu_actions=self.has_action("workspace_snapshot", "empty_cache"),
                code=frozenset(
                    one for one in codes if _timeline.names_file(self.native, one.encode())
                ),
                plain=plain,
                padded=padded,
                old=bool(self.native.any_history),
                noted=_text(self.recorder.get("backend")),
            )
        )

    @once
    def backend(self) -> Backend:
        """The allocator's backend, according to the blocks and stacks or, if these don't show it,
        to the traces.
        """
        if len(self._backends) == 1:
            return self._backends[0]
        found = [self.replay(device).backend for device in self.devices]
        return next((one for one in found if not one.is_cuda), self._backends[0])

    # ---- pages

    def view(self, after: Snapshot | None = None, *, height: int = 720) -> PageView:
        """Return an interactive page for this snapshot, or for this one and a later one.

        A notebook shows the page, and `.save("page.html")` writes it. `height` is the height of the
        frame in a notebook, in pixels. `memreplay.view` does the same with more options. Raises
        LimitError if the page is too large for a browser.
        """
        return _later().view(self, after, height=height)


class Later(Struct, frozen=True):
    """Functions from higher layers that library callers use (`memreplay.opening`)."""

    table: Callable[[Snapshot, str], Batched]
    view: Callable[..., PageView]


_offered: list[Later] = []  # at most one


def offer(later: Later) -> None:
    """Make these functions available to all snapshots."""
    _offered[:] = [later]


def _later() -> Later:
    if not _offered:
        raise UsageError("tables and pages need a snapshot opened with memreplay.open")
    return _offered[0]


# The number that stands for each kind of Moment in _core.read().
_KINDS = {"event": 1, "elapsed": 2, "time": 3}


def _text(found: object) -> str | None:
    return found if isinstance(found, str) else None


def _card(recorder: Mapping[str, object], device: int) -> Noted:
    """Return the recorder's notes about a card."""
    cards = recorder.get("cards")
    card = cards[device] if isinstance(cards, list) and 0 <= device < len(cards) else None
    if not isinstance(card, dict):
        return Noted()
    size, name, context = (card.get(key) for key in ("total_bytes", "name", "context_bytes"))
    known = type(size) is int and 0 < size <= 2**61  # a bool isn't accepted
    taken = known and type(context) is int and context >= 0
    return Noted(
        size if known else None,
        _text(name),
        context if taken else None,
        measured=taken and recorder.get("recorder") == "record",
    )


def _moment(bound: Moment | int | None) -> Moment | None:
    if bound is None or isinstance(bound, Moment):
        return bound
    return Moment("event", operator.index(bound))


def _bounds(
    start: Moment | int | None, stop: Moment | int | None, device: int | None
) -> tuple[int, int, int, int, int] | None:
    if start is None and stop is None and device is None:
        return None
    numbers = []
    for moment in (_moment(start), _moment(stop)):
        if moment is None:
            numbers += [0, 0]
            continue
        if moment.kind not in _KINDS:
            raise UsageError(f"unknown kind of moment: {moment.kind!r}")
        # A moment that doesn't fit in 64 bits is before or after all events.
        numbers += [_KINDS[moment.kind], max(-(2**63) + 1, min(2**63 - 1, moment.value))]
    # -1 is allowed because a segment's device can be -1.
    if device is not None and not -1 <= device < 2**31:
        raise UsageError(f"no device {device}: device numbers start at 0")
    only = _core.ALL_DEVICES if device is None else device
    return numbers[0], numbers[1], numbers[2], numbers[3], only


def open(  # noqa: A001 - memreplay.open is the name people expect
    source: Source,
    *,
    progress: Progress | None = None,
    limits: Limits | None = None,
    salvage: bool = False,
    start: Moment | int | None = None,
    stop: Moment | int | None = None,
    device: int | None = None,
    project: Sequence[str] = (),
    pick: int | None = None,
) -> Snapshot:
    """Read a snapshot, or its events from one event or time up to another (exclusive).

    `memreplay.open` has the same parameters and describes them.
    """
    limit = limits or Limits()
    span = EventRange(_moment(start), _moment(stop))
    if pick is not None and pick < 1:
        raise UsageError(f"no snapshot {pick}: snapshot numbers start at 1")
    dataset = find_dataset(source)
    if dataset is not None:
        # imported late, because most sources aren't datasets
        from memreplay.io.dataset import read_dataset

        path = os.fsdecode(source)  # type: ignore[arg-type]
        native, size, keys = read_dataset(dataset, limit, _bounds(start, stop, device))
        origin = Origin(path, dataset.fmt, size)
        return _checked(Snapshot(native, origin, Part(device, span), traits=keys, project=project))
    stream = open_stream(source, limit.decompression_ratio)
    ahead = ReadAhead(stream.readinto, stream.close)

    def advance(_done: int) -> None:
        assert progress is not None
        progress(stream.position(), stream.total)

    show = advance if progress is not None else None
    bounds = _bounds(start, stop, device)
    following = ahead.next if stream.slow and several_cpus() else None
    try:
        if _is_profile(stream.head):
            # imported late, because few files are profiler traces
            from memreplay.io.profiled import read_profile

            native = read_profile(stream.readinto, limit, show, bounds, following)
        else:
            native = _core.read(
                stream.readinto,
                limit.numbers(),
                show,
                salvage,
                bounds,
                following,
                pick=pick or 0,
            )
        if native.truncation is None:
            try:
                stream.check_end(ahead.read_on)
            except TruncatedError as error:
                native.truncation = cut_stream(error, native.n_events, native.n_segments)
                if not salvage:
                    raise
        if native.truncation is not None and (
            not (native.has_segments or native.has_traces) or _is_other_type(stream.head)
        ):
            raise native.truncation
        if not native.has_segments and not native.has_traces:
            raise SnapshotError(
                "not a memory snapshot: a dict with neither 'segments' nor 'device_traces'",
                hint="record one with torch.cuda.memory._dump_snapshot(path)",
            )
    except SnapshotError as error:
        # imported late, because it's only needed for errors
        from memreplay.io.foreign import other_file_type

        foreign = other_file_type(stream.head)
        if foreign is None:
            raise
        raise SnapshotError(
            f"not a memory snapshot, but {foreign.what}", offset=error.offset, hint=foreign.hint
        ) from error
    finally:
        ahead.close()
    return _checked(
        Snapshot(
            native,
            Origin(stream.name, stream.kind, stream.total),
            Part(device, span),
            project=project,
        )
    )


def _is_other_type(head: bytes) -> bool:
    """Return whether a truncated file isn't a snapshot, although it could be read as one."""
    from memreplay.io.foreign import other_file_type

    return other_file_type(head) is not None


def _is_profile(head: bytes) -> bool:
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    from memreplay.io.foreign import is_profile

    return is_profile(head)


def _checked(snap: Snapshot) -> Snapshot:
    """Return the snapshot after checking it. Raises UsageError if it lacks the selected device or
    times.
    """
    if snap.only is not None and snap.only not in snap.devices:
        there = Snapshot(snap.native, snap.origin)
        there.check_device(snap.only)
    if snap.native.range_without_times:
        raise UsageError("this snapshot has no times; specify the range in events")
    return snap
