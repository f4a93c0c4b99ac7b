"""The results of `memreplay report`: those of the other commands, side by side, and advice."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.caught.records import RulesCaught
from memreplay.commands.fragmentation.result import DeviceFragmentation, UnusedPoint
from memreplay.commands.leaks.result import DeviceLeaks
from memreplay.commands.oom.result import DeviceOoms
from memreplay.commands.peak.result import DevicePeak
from memreplay.commands.steps.result import DeviceSteps
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, Frame, OfBackend
from memreplay.snapshot.record import Record


class Advice(Record, frozen=True):
    """One thing to do, and the number that speaks for it."""

    text_only = ("word", "command", "setting")

    name: str
    """Its [name](report.md#what-to-do-next), which never changes."""
    text: str = ""
    """What to do, in words."""
    bytes: int = 0
    """The bytes that it is about."""
    of_bytes: int = 0
    """What these are a part of; 0 for of nothing."""
    saved_bytes: int = 0
    """By how much the peak of requested bytes falls, or of reserved ones for a setting, as far as
    the recording tells; 0 if it does not."""
    count: int = 0
    """The steps or events that it speaks of, else 0."""
    frame: Frame | None = None
    """The code; null if it is no single place."""
    word: str = ""
    """A detail: a reason's or a remedy's name."""
    command: str = ""
    """The memreplay command, without the file, that shows more; empty for none."""
    setting: str = ""
    """The allocator's setting, as it stands in the environment; empty for none."""


class PeakStep(Record, frozen=True):
    """The step that the peak lies in."""

    index: int
    """The step's number, from 1."""
    name: str
    """Its annotation, or empty."""


class Unused(UnusedPoint, frozen=True):
    """What was reserved at most and never needed: the peak of reserved bytes, less that of active
    ones; `event_index` is that of the former."""

    text_only = ("name",)


class DeviceOverview(OfBackend, frozen=True, kw_only=True):
    """One device: what each command says of it, with `--top 5` of `peak` and `oom`, `--top 3` of
    the others, and the first event alone of `oom`. What is null has no answer in the file."""

    device: int
    trusted: bool
    """Whether nothing speaks against the numbers, as in `memreplay summary`:
    [trusted](numbers.md#exact-estimated-trusted)."""
    exactness: Exactness
    """Whether the peak of requested bytes is exact."""
    reasons: tuple[str, ...]
    ran_out: bool
    """Whether a request failed."""
    peak_bytes: int
    """The peak of requested bytes."""
    reserved_peak_bytes: int
    """The peak of reserved bytes."""
    reserved_peak_event: int
    """The first event after which that is reached."""
    reserved_exactness: Exactness
    """Whether it is exact."""
    total_bytes: int | None
    total_known: bool
    usable_bytes: int | None
    """What of that the program can have: the rest is CUDA's own. Null if nothing is known."""
    annotations: tuple[str, ...]
    """The annotations that are open at the peak, the outermost first."""
    step: PeakStep | None
    """The step that the peak lies in."""
    category: str
    """The category of the allocation that made the peak; `unknown` for none."""
    unused: Unused | None
    """What was reserved and never needed."""
    advice: tuple[Advice, ...] = ()
    """What to do, the most pressing first."""
    commands: tuple[str, ...] = ()
    """What to run next: the two commands that fit this file."""
    command_reasons: tuple[str, ...] = ()
    """What each of `commands` shows."""
    missing: dict[str, str]
    """Why, by the name of each part that is null, or that says nothing (`leaks` of too few
    steps)."""
    peak: DevicePeak
    """What `memreplay peak` says of the device."""
    categories: RulesCaught | None
    """What `memreplay peak --rules` says of it."""
    fragmentation: DeviceFragmentation | None
    """What `memreplay fragmentation` says of it."""
    steps: DeviceSteps | None
    """What `memreplay steps` says of it."""
    leaks: DeviceLeaks | None
    """What `memreplay leaks` says of it."""
    oom: DeviceOoms | None
    """What `memreplay oom` says of it."""

    @property
    def leaks_judged(self) -> bool:
        """Whether there were steps enough to judge leaks by."""
        return self.leaks is not None and self.leaks.judged


class Overview(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.report/1"):
    """What `memreplay report` found."""

    file: str
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceOverview, ...]
    """One for each device, the worst first."""

    def document(self) -> Document:
        from memreplay.commands.report.text import report_document

        return report_document(self)
