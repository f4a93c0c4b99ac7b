"""The results of `memreplay dryrun`: whether a program fits, what is not known of it, its peak."""

from __future__ import annotations

from typing import Literal

from memreplay.commands.oom.result import DeviceOoms
from memreplay.commands.peak.result import DevicePeak
from memreplay.render.document import Answer, Document
from memreplay.snapshot.record import Record

Outcome = Literal["ended", "out_of_memory", "failed", "killed", "timed_out", "interrupted"]
Verdict = Literal["fits", "does_not_fit", "over_budget", "not_known"]


class DryCard(Record, frozen=True):
    """A card that is not there."""

    key: str
    """As `--gpu` takes it."""
    name: str
    """As PyTorch says it."""
    total_bytes: int
    """Its memory, as PyTorch sees it."""
    context_bytes: int
    """What CUDA takes of it for itself: [an estimate](dryrun.md#what-is-exact)."""
    count: int
    """How many there were."""


class DryDevice(Record, frozen=True):
    """What one process did to one card."""

    device: int
    reserved_peak_bytes: int
    """The most that was reserved."""
    allocated_peak_bytes: int
    """The most that was allocated."""
    requested_peak_bytes: int
    """The most that was requested."""
    recorded_peak_bytes: int
    """The most that the recording shows as requested; less where it does not have all."""
    ooms: int
    """How many requests failed."""
    retries: int
    """How often the allocator gave its cache back to serve a request."""


class DryProcess(Record, frozen=True):
    """A process that used the cards."""

    pid: int
    """Its number."""
    rank: int | None
    """Its rank, in a distributed run."""
    file: str | None
    """Its snapshot; null where it ended without."""
    last_call: str | None
    """Of a process that ended without a word, the last function of CUDA that it called."""
    not_written: str | None
    """Why its snapshot could not be written; null where it was."""
    replaced: bool
    """Whether it had used the cards before it became another program (exec): what it took then is
    not known."""
    recorded_by_itself: bool
    """Whether the program made a recording of its own, and the snapshot has what it recorded."""
    dumped: tuple[str, ...]
    """The snapshots that the program wrote by itself."""
    devices: tuple[DryDevice, ...]
    """The cards that it used."""

    @property
    def lost(self) -> bool:
        """Whether it ended, or became another program, without saying what it took."""
        return self.replaced or self.last_call is not None


class ValueRead(Record, frozen=True):
    """Values that the program read from the card, where all of them were zeros."""

    operator: str
    """What read them: `item`, `nonzero`, `copy` …"""
    file: str
    """Where in the program; empty if no Python asked."""
    line: int
    """The line there."""
    function: str
    """The function."""
    through: str
    """The line of a library that the program called there, `file:line`; empty for none."""
    count: int
    """How often."""
    sizes: bool
    """Whether the operator makes sizes of them."""


class Unknown(Record, frozen=True):
    """A kind of memory that depends on one of NVIDIA's libraries, or a function that is not
    answered and may say a size."""

    name: str
    """The library, or the function."""
    count: int
    """How often it was asked."""


class DryrunReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.dryrun/1"):
    """What `memreplay dryrun` found."""

    text_only = ("replaced", "stopped_by", "older")

    command: tuple[str, ...]
    """The command that ran."""
    card: DryCard
    """The card that was pretended."""
    settings: str | None
    """The allocator's settings, as `--set` gave them; null for what the environment says."""
    torch: str
    """The version of the torch that ran."""
    outcome: Outcome
    """How the command ended: by itself, with all that it asked for (`ended`), or for want of
    memory, by an error of its own, by a signal, by `--timeout`, by Ctrl-C."""
    status: int
    """The command's exit code; the negative number of a signal."""
    seconds: float
    """How long it ran."""
    error: str | None
    """The exception that ended it, where that is known."""
    cards_asked: int
    """How many cards there would have to be for those that the program asked for by number."""
    verdict: Verdict
    """Whether it fits: not known if it did not run to its end, or if a process that used a card
    ended without saying what it took."""
    peak_bytes: int
    """The most that was reserved on one card, by all processes that used it at one time."""
    spare_bytes: int
    """What was left of that card then, beside `context_bytes`; negative where several processes
    asked for more than there is."""
    shared: bool
    """Whether several processes used one card at one time: their peaks are added up, and what CUDA
    takes for itself for each but the first."""
    budget: str | None
    """The line of the gate where `--max-peak` or `--max-reserved` was given."""
    exact: bool
    """Whether nothing in the run depends on what a dry run does not know: the next three are
    empty, and each process has said what it took. Of a program that did not run to its end, until
    then."""
    reads: tuple[ValueRead, ...]
    """The values that were read, the operators that make sizes of them first."""
    workspaces: tuple[Unknown, ...]
    """Libraries that were asked how much memory they need, which depends on the real ones."""
    unanswered: tuple[Unknown, ...]
    """Functions that were called and gave no answer where one may have been a size."""
    processes: tuple[DryProcess, ...]
    """Those that used the cards, by their ranks."""
    shown: str | None
    """The snapshot that `peak` and `oom` are of: the one with the highest peak, or the first that
    ran out of memory."""
    peak: tuple[DevicePeak, ...]
    """As [memreplay peak](peak.md) has it."""
    oom: tuple[DeviceOoms, ...]
    """As [memreplay oom](oom.md) has it, if it ran out of memory."""
    replaced: bool = False
    """Whether there was a snapshot of that name before."""
    stopped_by: int = 0
    """The signal that ended the run, but for Ctrl-C's; 0 for none."""
    older: tuple[str, ...] = ()
    """Snapshots of earlier runs that lie beside those of this one."""

    def document(self) -> Document:
        from memreplay.commands.dryrun.text import dryrun_document

        return dryrun_document(self)
