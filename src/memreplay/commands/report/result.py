"""The result of `memreplay report`: the other commands' results and advice."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.caught.records import RulesCaught
from memreplay.analysis.leaks.records import DeviceLeaks
from memreplay.commands.fragmentation.result import DeviceFragmentation, UnusedPoint
from memreplay.commands.oom.result import DeviceOoms
from memreplay.commands.peak.result import DevicePeak
from memreplay.commands.steps.result import DeviceSteps
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, Frame, OfBackend
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_holders import RecordedHolders
from memreplay.snapshot.recorded_memory import CardUse, HostUse


class Advice(Record, frozen=True):
    """A piece of advice, and the number that supports it."""

    text_only = ("word", "command", "setting")

    name: str
    """The advice's stable [name](report.md#what-to-do-next)."""
    text: str = ""
    """What to do, in a sentence."""
    bytes: int = 0
    """The bytes that the advice is about."""
    of_bytes: int = 0
    """The total that `bytes` is a part of; 0 if there is none."""
    saved_bytes: int = 0
    """How far the peak falls, according to the recording: the peak of reserved bytes for a setting,
    otherwise of requested bytes. 0 if it doesn't fall. For a remedy of a failed request at the
    peak, the remedy's bytes.
    """
    count: int = 0
    """Number of steps or events that the advice is about; otherwise 0."""
    frame: Frame | None = None
    """The line of code that holds the most of `bytes`; null without a line."""
    frame_bytes: int = 0
    """How many of `bytes` are held by the line in `frame`; 0 without a line, or if `bytes` is a
    rate.
    """
    word: str = ""
    """A detail: the name of a reason or a remedy."""
    command: str = ""
    """The memreplay command that shows more, without the file name; empty if there is none."""
    setting: str = ""
    """The allocator setting, as written in the environment; empty if there is none."""


class PeakStep(Record, frozen=True):
    """The step at the peak."""

    number: int
    """Number of the step, from 1."""
    name: str
    """The step's annotation, or ""."""


class Unused(UnusedPoint, frozen=True):
    """The peak of reserved bytes minus the peak of active bytes. `event_index` belongs to the
    reserved peak.
    """

    text_only = ("name",)


class DeviceOverview(OfBackend, frozen=True, kw_only=True):
    """The other commands' results for one device, with `--top 5` for `peak` and `oom`, `--top 3`
    for the others, and only the first failed request. Null means that the file doesn't have the
    data.
    """

    device: int
    trusted: bool
    """Whether the numbers can be [trusted](numbers.md#exact-estimated-trusted), judged as by
    `memreplay summary`."""
    exactness: Exactness
    """Whether the requested peak is exact."""
    reasons: tuple[str, ...]
    ran_out: bool
    """Whether a request failed."""
    peak_bytes: int
    """Peak of requested memory."""
    reserved_peak_bytes: int | None
    """Peak of reserved memory. Like the next two fields, null if the file doesn't show reserved
    memory.
    """
    reserved_peak_event: int | None
    """The first event after which reserved bytes are at their peak."""
    reserved_exactness: Exactness | None
    """Whether the peak of reserved bytes is exact."""
    total_memory_bytes: int | None
    total_memory_known: bool
    usable_bytes: int | None
    """The part of `total_memory_bytes` that the program can use; CUDA itself uses the rest. Null if
    unknown.
    """
    open_annotations: tuple[str, ...]
    """The annotations open at the peak, outermost first."""
    step: PeakStep | None
    """The step at the peak."""
    category: str
    """Category of the allocation that reached the peak; `unknown` if there is none."""
    unused: Unused | None
    """Peak reserved minus peak active bytes."""
    advice: tuple[Advice, ...] = ()
    """What to do, most urgent first."""
    commands: tuple[str, ...] = ()
    """The two commands to run next for this file."""
    command_reasons: tuple[str, ...] = ()
    """What each of `commands` shows."""
    missing_parts: dict[str, str]
    """For each part that is null or has no result, the reason (for example, too few steps for
    `leaks`).
    """
    peak: DevicePeak
    """The device's part of `memreplay peak`."""
    caught: RulesCaught | None
    """The device's part of `memreplay peak --rules`."""
    fragmentation: DeviceFragmentation | None
    """The device's part of `memreplay fragmentation`."""
    steps: DeviceSteps | None
    """The device's part of `memreplay steps`."""
    leaks: DeviceLeaks | None
    """The device's part of `memreplay leaks`."""
    oom: DeviceOoms | None
    """The device's part of `memreplay oom`."""

    @property
    def leaks_judged(self) -> bool:
        """Whether there were enough steps to judge leaks."""
        return self.leaks is not None and self.leaks.judged


class Overview(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.report/1"):
    """The result of `memreplay report`."""

    file: str
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    held_by: RecordedHolders | None = None
    """Which Python objects held the memory; null if that wasn't recorded."""
    card_memory: tuple[CardUse, ...] = ()
    """How much of each card this process and others used; empty if that wasn't recorded."""
    host_memory: HostUse | None = None
    """The process's host memory; null if that wasn't recorded."""
    devices: tuple[DeviceOverview, ...]
    """One entry per device, worst first."""

    def document(self) -> Document:
        from memreplay.commands.report.text import report_document

        return report_document(self)
