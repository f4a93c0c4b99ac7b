"""A snapshot: opened and read into columns, replayed device by device when asked."""

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
from memreplay.snapshot.backends import CUDA, NPU, XPU, Backend, Evidence, likely
from memreplay.snapshot.brief import html_table
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

# What is kept of the top level as it is: what the core calls it, and its key there.
KEPT = {
    "settings": "allocator_settings",
    "overflowed": "trace_alloc_overflowed",
    "max_entries": "trace_alloc_max_entries",
    "memreplay": "memreplay",
}

# Keys of events that tell which PyTorch wrote them.
EVENT_KEYS = ("compile_context", "user_metadata")


class Snapshot(Staying):
    """A PyTorch memory snapshot in columns. Made by `memreplay.open`."""

    def __init__(
        self,
        native: _core.Tables,
        file: str,
        kind: str,
        file_bytes: int | None,
        only: int | None = None,
        range: EventRange | None = None,  # noqa: A002 - what it is called
        traits: frozenset[str] = frozenset(),
        project: Sequence[str] = (),
    ) -> None:
        self.native = native
        self.file = file
        """The path or URL that was read; `<bytes>` of bytes."""
        self.container = kind
        """How the file is wrapped: `pickle` for not at all, `gzip`, `zstd`, `xz`, `bzip2`, `zip`,
        `gzip in zip`, …"""
        self.file_bytes = file_bytes
        """Size of the file as it lies there; None where it is not known."""
        self.only = only
        self.range: EventRange = range or EventRange()
        """The `start` and `stop` that were asked for: a Moment each, or None."""
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
        return html_table("Snapshot", rows)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to close: the input is read whole by `open`."""

    # ---- what is in it

    @once
    def devices(self) -> tuple[int, ...]:
        """Devices that have events or segments, ascending.

        Without those of which the trace only says that nothing was on them, as PyTorch's does of
        every device of the machine, unless there are no others.
        """
        idle = set(self.native.idle_devices()).difference(self.native.segment_devices())
        known = tuple(one for one in self._recorded if one not in self.unknown_devices)
        return tuple(one for one in known if one not in idle) or known

    @once
    def unknown_devices(self) -> tuple[int, ...]:
        """Devices whose trace lies behind the place where the file is cut off, ascending.

        Their segments are there, and say how it ended; not what was before, nor whether nothing
        was. They are none of `devices`.
        """
        if self.truncation is None or not self._traits.isdisjoint(("bare_list", "history")):
            return ()
        traces = list(self.native.traces())
        # The last one may have just begun.
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
        """How many events the trace of each device has, those outside of a range too; in the order
        of the file."""
        found: dict[int, int] = {}
        for device, _, _, events in self.native.traces():
            found[device] = found.get(device, 0) + events
        return found

    @once
    def has_events(self) -> bool:
        """Whether any device has events, those outside of a range too."""
        return any(self.events_by_device.values())

    @property
    def range_is_empty(self) -> bool:
        """Whether a range was asked for that no event lies in. Numbers are those at that point."""
        asked = self.range.start is not None or self.range.stop is not None
        return asked and self.native.n_events == 0

    def trace_events(self, device: int) -> int:
        """How many events the device's trace has, those outside of a range too."""
        return self.events_by_device.get(device, 0)

    @property
    def stream_bytes(self) -> int:
        """Size of the plain pickle or JSON, in bytes."""
        return self.native.stream_bytes

    @property
    def protocol(self) -> int:
        """Pickle protocol; of a file that does not say, 0 or 1 by its opcodes; -1 of JSON."""
        return self.native.protocol

    @property
    def truncation(self) -> TruncatedError | None:
        """What a salvaged input would have ended in; None for a whole one."""
        return self.native.truncation

    @once
    def settings(self) -> dict[str, object]:
        """`allocator_settings` as it stands in the file; empty where there is none."""
        found = self.native.kept("settings")
        return found if isinstance(found, dict) else {}

    @once
    def traits(self) -> frozenset[str]:
        """What in the file tells which PyTorch wrote it, but is in no table: keys of events, empty
        or not, "history" of blocks, a "bare_list" of segments."""
        native = self.native
        # A column that is one number everywhere comes as that number.
        found = {name for name in EVENT_KEYS if native.column(name) != _core.ABSENT_ID}
        found |= {"history"} if native.any_history else set()
        found |= {"bare_list"} if native.bare_list else set()
        return self._traits | found

    @once
    def recorder(self) -> dict[str, object]:
        """What memreplay's own recorder says of the run (docs/format.md); empty where another
        recorded, or where it can't be read (`notes_flaw`)."""
        found = self.kept("memreplay")
        return found if isinstance(found, dict) else {}

    @property
    def notes_flaw(self) -> str:
        """Why what stands under memreplay's own key is left out; empty where it isn't."""
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
        """What memreplay's recorder noted of each allocation; None where it noted nothing, or what
        does not fit the events (`recorded_flaw`)."""
        return self._recorded_or_flaw[0]

    @property
    def recorded_flaw(self) -> str:
        """Why what the recorder noted cannot be used; empty where it can, or there is none."""
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
        """The text of lines of source code by file and number, without the white space around it:
        those that the recorder was asked to keep (`record(…, source=True)`)."""
        found = self.recorder.get("source_lines")
        if not found:
            return {}
        from memreplay.snapshot.source_lines import checked_lines  # late: few files have any

        return checked_lines(found)

    @once
    def recorder_failures(self) -> tuple[tuple[str, str, int], ...]:
        """What memreplay's recorder failed to do, by which error, and how often. The program did
        not notice; categories may be wrong for it."""
        found = self.recorder.get("failures")
        return tuple(
            (str(one.get("doing", "")), str(one.get("error", "")), count)
            for one in (found if isinstance(found, list) else ())
            if isinstance(one, dict) and type(count := one.get("count")) is int and count > 0
        )

    @property
    def has_company(self) -> bool:
        """Whether the file holds other data than the snapshot: what it is wrapped in, other
        pickles, or bytes that are no pickle."""
        return self.native.wrapped or self.native.beside

    @property
    def is_followed(self) -> bool:
        """Whether something stands beside the snapshot's pickle that nobody asked about. Zeros and
        white space, which pages and disks fill up with, are nothing."""
        return self.native.beside and self.native.found_snapshots <= 1

    def recorded_steps(self, device: int) -> tuple[int, ...]:
        """How many events of a device there had been where each step ended, as memreplay's recorder
        noted it; before these a 0, where the first step began with the first event. Empty where
        nobody noted steps."""
        steps = self.recorder.get("steps")
        found = steps[device] if isinstance(steps, list) and 0 <= device < len(steps) else None
        if not isinstance(found, list) or not all(type(one) is int for one in found):
            return ()
        last = self.trace_events(device)
        return tuple(one for one in sorted(found) if 0 <= one <= last)

    def card_bytes(self, device: int) -> int | None:
        """The memory of the card, where the recorder noted it; None where nobody did."""
        return _card(self.recorder, device).bytes

    def kept(self, name: str) -> object:
        """What the file says under a key of its own, as plain data; None where it has none.

        `overflowed`: whether the recorder's buffer was full. `max_entries`: how many events it
        holds. `settings`: the allocator's. `memreplay`: what memreplay's recorder noted.
        """
        return self._notes[0] if name == "memreplay" else self.native.kept(name)

    # ---- tables

    @once
    def events(self) -> columns.Events:
        """The events of all devices, a row each."""
        from memreplay.snapshot.columns import Events

        return Events(self.native, self.native.n_events, self._spelled("events"))

    @once
    def ooms(self) -> columns.Ooms:
        """The events that say how much memory the device had free: a row each."""
        from memreplay.snapshot.columns import Ooms

        return Ooms(self.native, self.native.n_ooms, self._spelled("ooms"))

    @once
    def stacks(self) -> columns.Stacks:
        """The call stacks, each once."""
        from memreplay.snapshot.columns import Stacks

        return Stacks(self.native, self.native.n_stacks, self._spelled("stacks"))

    @once
    def frames(self) -> columns.Frames:
        """The frames of stacks, each once."""
        from memreplay.snapshot.columns import Frames

        return Frames(self.native, self.native.n_frames, self._spelled("frames"))

    @once
    def segments(self) -> columns.Segments:
        """The allocator's segments at the dump, a row each."""
        from memreplay.snapshot.columns import Segments

        return Segments(self.native, self.native.n_segments, self._spelled("segments"))

    @once
    def blocks(self) -> columns.Blocks:
        """The blocks of these segments, a row each."""
        from memreplay.snapshot.columns import Blocks

        return Blocks(self.native, self.native.n_blocks, self._spelled("blocks"))

    @once
    def annotations(self) -> columns.Annotations:
        """Where annotations begin and end, a row each."""
        from memreplay.snapshot.columns import Annotations

        return Annotations(self.native, self.native.n_annotations, self._spelled("annotations"))

    @property
    def allocations(self) -> Batched:
        """Every allocation, with its category and module, a row each: `memreplay.table(snap,
        "allocations")`."""
        return _later().table(self, "allocations")

    def _spelled(self, name: str) -> Callable[[], Batched]:
        """Return a function that makes the table of this name. Tables outlive their snapshot, and
        don't refer to it, because it refers to them: later they open another one over the same
        columns."""
        alive = weakref.ref(self)
        again = partial(
            Snapshot,
            self.native,
            self.file,
            self.container,
            self.file_bytes,
            self.only,
            self.range,
            self._traits,
            self.project,
        )
        return lambda: _later().table(alive() or again(), name)

    # ---- ids spelled out

    @once
    def code(self) -> Code:
        """Its frames and stacks, as ids."""
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
        """Whether any event has one of these actions."""
        column = self.native.column("action")
        assert not isinstance(column, int)
        # Found in the column's bytes: a code is one.
        codes = bytes(column)
        return any(_core.ACTIONS.index(name) in codes for name in names)

    @property
    def has_segments(self) -> bool:
        """Whether the file has a list of segments, which may be empty."""
        return self.native.has_segments

    @property
    def events_with_stack(self) -> int:
        """How many events say by which code they came about."""
        return self.native.events_with_stack

    @property
    def segment_count(self) -> int:
        """How many segments there are at the dump."""
        return self.native.n_segments

    @property
    def annotation_count(self) -> int:
        """How many rows annotations have: a start or an end each."""
        return self.native.n_annotations

    def annotation_rows(self, *fields: str) -> Iterator[memoryview]:
        """A column of each of these fields: name, stage, device, time."""
        return (memoryview(self.native.rows("annotation", field)) for field in fields)

    def without_requested_size(self, device: int) -> int:
        """How many of the device's final blocks do not say what was requested."""
        return self.native.blocks_without_requested_size(device)

    def text(self, i: int) -> str | None:
        """String i; None for the id that means there is none (2**32 - 1)."""
        return None if i == _core.ABSENT_ID else self.native.string(i)

    def metadata(self, i: int) -> object:
        """Metadata i: a text as it is, anything else as the data it was (lists, dicts, numbers)."""
        text = self.text(i)
        if text is None or not text.startswith("\0"):
            return text
        import json  # late: few files have such metadata

        data: object = json.loads(text[1:])
        return data

    def frame(self, i: int) -> Frame:
        """Frame i, a row of `frames`. Raises IndexError where there is none."""
        found = self._frames.get(i)
        if found is None:
            function, file, line = self.native.frame(i)
            name, path = self.native.string(function), self.native.string(file)
            text = self.source_lines.get(path, {}).get(line)
            found = Frame(name, path, line, text or UNSET)
            found = self._frames.setdefault(i, found)
        return found

    def stack(self, i: int) -> tuple[Frame, ...]:
        """The frames of stack i, a row of `stacks`, innermost first. Raises IndexError where there
        is none."""
        return tuple(self.frame(f) for f in self.native.stack(i))

    def pool_id(self, i: int) -> tuple[int, int] | None:
        """Pool i: (0, 0) is the default; first not 0: graph capture; second: the program's."""
        return None if i == _core.ABSENT_ID else self.native.pool(i)

    def action_name(self, code: int) -> str | None:
        """The action behind a code of `events.action`; None for an event that has none."""
        return self.native.action_name(code)

    def state_name(self, code: int) -> str:
        """The state behind a code of `blocks.state`. Raises IndexError where there is none."""
        return _core.STATES[code]

    # ---- replay

    def check_device(self, device: int) -> None:
        """Raises UsageError when the device has neither events nor segments, or was not asked
        for."""
        if device in self.unknown_devices:
            raise NothingToTellError(
                f"nothing is known of device {device}: the file is cut off before its trace"
            )
        if device not in self._recorded:
            there = ", ".join(map(str, self.devices)) or "none"
            raise UsageError(f"no device {device}; this snapshot has: {there}")

    def replay(self, device: int | None = None) -> Replay:
        """Replays one device (the first that has any data when None); done once, then remembered.

        Raises UsageError when the device has neither events nor segments.
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
                noted=_text(self.recorder.get("backend")),
            )
        )

    @once
    def backend(self) -> Backend:
        """Whose allocator wrote the file. Where its blocks and stacks don't tell, its traces do."""
        if len(self._backends) == 1:
            return self._backends[0]
        found = [self.replay(device).backend for device in self.devices]
        return next((one for one in found if one is not CUDA), CUDA)

    # ---- for people

    def view(self, after: Snapshot | None = None, *, height: int = 720) -> PageView:
        """The interactive page of this snapshot, or of it and a later one, as `memreplay view`
        makes it: a notebook shows it, `.save("page.html")` writes it.

        `height` is that of the frame in a notebook, in pixels. `memreplay.view` is the same, with
        more choices. Raises LimitError for what is too large for a browser.
        """
        return _later().view(self, after, height=height)


class Later(Struct, frozen=True):
    """Functions of later layers, for callers of the library (`memreplay.opening`)."""

    table: Callable[[Snapshot, str], Batched]
    view: Callable[..., PageView]


_offered: list[Later] = []  # one at most


def offer(later: Later) -> None:
    """Let all snapshots use these functions."""
    _offered[:] = [later]


def _later() -> Later:
    if not _offered:
        raise UsageError("to make a table or a page of a snapshot, open it with memreplay.open")
    return _offered[0]


# How _core.read() spells the kinds of Moment.
_KINDS = {"event": 1, "elapsed": 2, "time": 3}


def _text(found: object) -> str | None:
    return found if isinstance(found, str) else None


def _card(recorder: Mapping[str, object], device: int) -> Noted:
    """What the recorder noted of a card."""
    cards = recorder.get("cards")
    card = cards[device] if isinstance(cards, list) and 0 <= device < len(cards) else None
    if not isinstance(card, dict):
        return Noted()
    size, name, context = (card.get(key) for key in ("total_bytes", "name", "context_bytes"))
    known = type(size) is int and 0 < size <= 2**61  # a bool is no size
    taken = known and type(context) is int and context >= 0
    return Noted(
        size if known else None,
        _text(name),
        context if taken else None,
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
            raise UsageError(f"no kind of moment is called {moment.kind!r}")
        # What 64 bits do not hold is before or after everything.
        numbers += [_KINDS[moment.kind], max(-(2**63) + 1, min(2**63 - 1, moment.value))]
    # A segment may be of device -1.
    if device is not None and not -1 <= device < 2**31:
        raise UsageError(f"no device {device}: devices count from 0")
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
    """Reads a snapshot.

    Parameters
    ----------
    source : path, URL, bytes, or binary file object
        A pickle of any protocol, or JSON of the same dict; plain, or (by content) compressed with
        gzip, zstandard, xz or bzip2, or alone in a zip archive. Or the folder of a dataset that
        `memreplay export` wrote, as parquet or arrow (with pyarrow), or a file of it. A URL is read
        with fsspec. A file object is read from where it stands, on another thread where it is no
        pipe, and not closed.
    progress : callable, optional
        Called now and then with (bytes done, bytes in all or None).
    limits : Limits, optional
        What a file may ask for.
    salvage : bool, optional
        Read what is whole of an input that is cut off; `Snapshot.truncation` then says where.
    start, stop : Moment or int, optional
        Read only the events from `start` up to and not including `stop` (an int is an event's index
        in its device's trace). Numbers stay exact: what is live at `start` is carried over. Memory
        is that of the range.
    device : int, optional
        Read only this device's events.
    project : sequence of str, optional
        Which code is the user's: the folders that it lies in, as `/home/ana/gpt`, or the ends of
        them, as `gpt/models` or `transformers`. By default it is what is not installed.
    pick : int, optional
        Which snapshot of a file that holds several, from 1: pickles one after the other, a list or
        a dict of snapshots, a page of PyTorch's viewer with several files. Without it, a file with
        more than one is an error that says how many there are.

    Raises
    ------
    OSError
        The path or the URL can't be opened or read.
    SnapshotError
        It is no snapshot; TruncatedError, UnsafePickleError and LimitError are kinds of it.
    MissingExtraError
        It needs a package that is not installed.
    """
    limit = limits or Limits()
    span = EventRange(_moment(start), _moment(stop))
    if pick is not None and pick < 1:
        raise UsageError(f"no snapshot {pick}: snapshots in a file count from 1")
    dataset = find_dataset(source)
    if dataset is not None:
        from memreplay.io.dataset import read_dataset  # late: most sources are none

        path = os.fsdecode(source)  # type: ignore[arg-type]
        native, size, keys = read_dataset(dataset, limit, _bounds(start, stop, device))
        return _checked(Snapshot(native, path, dataset.fmt, size, device, span, keys, project))
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
            from memreplay.io.profiled import read_profile  # late: few files are one

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
        if not native.has_segments and not native.has_traces:
            if native.truncation is not None:
                raise native.truncation
            raise SnapshotError(
                "not a memory snapshot: a dict with neither 'segments' nor 'device_traces'",
                hint="record one with torch.cuda.memory._dump_snapshot(path)",
            )
    except SnapshotError as error:
        from memreplay.io.foreign import told  # late: for what is no snapshot alone

        foreign = told(stream.head)
        if foreign is None:
            raise
        raise SnapshotError(
            f"not a memory snapshot, but {foreign.what}", offset=error.offset, hint=foreign.hint
        ) from error
    finally:
        ahead.close()
    return _checked(
        Snapshot(native, stream.name, stream.kind, stream.total, device, span, project=project)
    )


def _is_profile(head: bytes) -> bool:
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    from memreplay.io.foreign import is_profile

    return is_profile(head)


def _checked(snap: Snapshot) -> Snapshot:
    """The same. Raises UsageError where it does not have the device or the times asked for."""
    if snap.only is not None and snap.only not in snap.devices:
        there = Snapshot(snap.native, snap.file, snap.container, snap.file_bytes)
        there.check_device(snap.only)
    if snap.native.range_without_times:
        raise UsageError("this snapshot has no times; give the range in events")
    return snap
