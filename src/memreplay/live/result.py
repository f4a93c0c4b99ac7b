"""The result of `memreplay watch --live`: who uses the cards now, and which recordings run."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_holders import HeldBy

Text = Annotated[str, Meta(max_length=4096)]
Bytes = Annotated[int, Meta(ge=0, lt=2**62)]
Number = Annotated[int, Meta(ge=0, lt=2**31)]
PartKind = Literal["allocated", "unused", "outside", "process", "rest", "free"]


class CardPart(Record, frozen=True):
    """A part of a card's memory."""

    kind: PartKind
    """`allocated`, `unused` and `outside` belong to a recorded process: what PyTorch's allocator
    gave to tensors, what it reserved in addition, and what the process has outside that allocator.
    `process`: another process. `rest`: in use, but the driver lists no process for it. `free`.
    """
    bytes: int
    """Bytes of this part."""
    pid: int | None
    """The process; null for the rest and for free memory."""
    name: str
    """The process's name; "" if unknown."""


class LiveCard(Record, frozen=True, kw_only=True):
    """A card, and who uses its memory."""

    index: int | None
    """The driver's number of the card; null if only a recording knows the card."""
    name: str
    """The card's model."""
    uuid: str
    """The card's unique id; "" if unknown."""
    is_dryrun: bool
    """Whether it's the card of a dry run."""
    total_bytes: int
    """The card's memory."""
    free_bytes: int
    """Free memory."""
    parts: tuple[CardPart, ...]
    """Parts that add up to `total_bytes`: recorded processes, other processes by size, the rest,
    free memory.
    """
    recorded_pids: tuple[int, ...]
    """The recorded processes that use it."""
    processes_missing: str
    """Why other processes aren't listed; "" if they are."""


class LiveProcess(Record, frozen=True):
    """A process on a card."""

    pid: Annotated[int, Meta(ge=0, lt=2**32)]
    """Its process id. In a container, it's that of the host."""
    name: Text
    """The program's name without its folder; "" if unknown."""
    bytes: Bytes | None
    """Its memory on the card; null if the driver doesn't say."""


class RecordedDevice(Record, frozen=True):
    """A device of a recorded process, as its PyTorch sees it."""

    device: Number
    name: Text
    """The card's model."""
    uuid: Text
    """The card's unique id; "" if this PyTorch doesn't tell."""
    total_bytes: Bytes
    """The card's memory."""
    free_bytes: Bytes
    """Free memory on the card."""
    allocated_bytes: Bytes
    """`torch.cuda.memory_allocated()`."""
    allocated_peak_bytes: Bytes
    """`torch.cuda.max_memory_allocated()`."""
    reserved_bytes: Bytes
    """`torch.cuda.memory_reserved()`."""
    reserved_peak_bytes: Bytes
    """`torch.cuda.max_memory_reserved()`."""
    processes: Annotated[tuple[LiveProcess, ...], Meta(max_length=1024)]
    """The processes on the card, as the driver lists them for the recorder, the largest first."""
    processes_missing: Text
    """Why none are listed; "" if they are."""


class LiveRecording(Record, frozen=True, kw_only=True):
    """A recording that is running, as its process describes it."""

    pid: Annotated[int, Meta(ge=0, lt=2**32)]
    """The process id."""
    name: Text
    """The program: its script or module."""
    rank: Number | None
    """The rank; null in a program that isn't distributed."""
    step_count: Number
    """Number of steps that have ended."""
    file: Text
    """The file that the recording writes at its end, or now and then if it's continuous."""
    start_us: Bytes
    """When the recording began."""
    is_dryrun: bool
    """Whether the program runs on a fake GPU."""
    is_continuous: bool
    """Whether it writes files now and then."""
    can_dump: bool
    """Whether it can be asked for a snapshot."""
    is_dumping: bool
    """Whether it has been asked for one that isn't written yet."""
    last_file: Text
    """The last file that it wrote; "" if there's none."""
    last_us: Bytes
    """When it wrote that file; 0 if there's none."""
    holders: Annotated[tuple[HeldBy, ...], Meta(max_length=20)]
    """The largest holders in the last snapshot that has any."""
    devices: Annotated[tuple[RecordedDevice, ...], Meta(max_length=1024)]
    """One entry per device that the process uses."""


class LiveReport(
    Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.watch-live/1"
):
    """The result of `memreplay watch --live --json`."""

    time_us: int
    """When this was measured."""
    cards: tuple[LiveCard, ...]
    """The cards: those of the machine by number, then those that only recordings know."""
    cards_missing: str
    """Why the driver can't list cards; "" if it can."""
    recordings: tuple[LiveRecording, ...]
    """This user's recordings, by process id."""
