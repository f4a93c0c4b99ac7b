"""The result of `memreplay dryrun`: whether a program fits, how high its peak is, and what is
unknown.
"""

from __future__ import annotations

from typing import Literal

from memreplay.commands.oom.result import DeviceOoms
from memreplay.commands.peak.result import DevicePeak
from memreplay.render.document import Answer, Document
from memreplay.snapshot.record import Record

Outcome = Literal["ended", "out_of_memory", "failed", "killed", "timed_out", "interrupted"]
Verdict = Literal["fits", "does_not_fit", "over_budget", "not_known"]


Routing = Literal["even", "same"]


class DryCard(Record, frozen=True):
    """A fake card."""

    key: str
    """Name for `--gpu`."""
    name: str
    """Name that PyTorch reports."""
    total_memory_bytes: int
    """Total memory that PyTorch reports."""
    context_bytes: int
    """Memory used by CUDA itself: [an estimate](dryrun.md#what-is-exact)."""
    count: int
    """Number of cards."""


class DryDevice(Record, frozen=True):
    """One process's use of one card."""

    device: int
    reserved_peak_bytes: int
    """Peak of reserved memory."""
    allocated_peak_bytes: int
    """Peak of allocated memory."""
    requested_peak_bytes: int
    """Peak of requested memory."""
    recorded_peak_bytes: int
    """Peak of requested memory in the recording, which is lower if the recording is incomplete."""
    oom_count: int
    """Number of failed requests."""
    retries: int
    """Number of times that the allocator released its cache to serve a request."""


class DryProcess(Record, frozen=True):
    """A process that used a card."""

    pid: int
    """Process id."""
    rank: int | None
    """Rank in a distributed run."""
    file: str | None
    """The process's snapshot; null if it ended without writing one."""
    last_call: str | None
    """The last CUDA function called by a process that ended silently."""
    not_written: str | None
    """Why the snapshot couldn't be written; null if it was written."""
    replaced: bool
    """Whether the process used cards before calling exec, so that its memory until then is unknown.
    """
    recorded_by_itself: bool
    """Whether the program made its own recording. If so, the snapshot contains that recording."""
    dumped: tuple[str, ...]
    """Snapshots that the program wrote itself."""
    devices: tuple[DryDevice, ...]
    """The cards that the process used."""

    @property
    def lost(self) -> bool:
        """Whether the process ended or called exec without reporting its memory."""
        return self.replaced or self.last_call is not None


class ValueRead(Record, frozen=True):
    """Values that the program read from the card and that a dry run doesn't know."""

    operator: str
    """The operator that read the values: `item`, `nonzero`, `copy` …"""
    file: str
    """The program's source file; "" without a Python caller."""
    line: int
    """Line number."""
    function: str
    """Function."""
    through: str
    """The line of library code that the program's line called, as `file:line`, or ""."""
    count: int
    """Number of reads."""
    makes_sizes: bool
    """Whether the operator uses the values as sizes."""
    random: bool
    """Whether the values come from random numbers, so that they differ in each run."""
    chosen: bool = False
    """Whether the values depend on choices, such as a router's experts, that a dry run assumed: see
    `routing`. If they are neither random nor chosen, they were zero, or computed from zeros."""


class Unknown(Record, frozen=True):
    """An NVIDIA library or an unimplemented function that the program's memory may depend on."""

    name: str
    """The library or function."""
    count: int
    """Number of calls."""


class DryrunReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.dryrun/1"):
    """The result of `memreplay dryrun`."""

    text_only = ("replaced", "stopped_by", "older")

    command: tuple[str, ...]
    """The command that was run."""
    card: DryCard
    """The simulated card."""
    settings: str | None
    """Allocator settings from `--set`; null if they come from the environment."""
    torch: str
    """Version of torch."""
    outcome: Outcome
    """How the command ended: normally with all requests served (`ended`), out of memory, by its own
    error, by a signal, by `--timeout`, or by Ctrl-C.
    """
    exit_code: int
    """The command's exit code, or the negative signal number."""
    seconds: float
    """How long the command ran."""
    error: str | None
    """The exception that ended the command, if known."""
    cards_asked: int
    """Number of cards needed, given the device numbers that the program used."""
    verdict: Verdict
    """Whether the program fits. Unknown if it didn't finish, or if a process that used a card ended
    without reporting its memory.
    """
    peak_bytes: int
    """Most memory reserved on one card at a time, by all processes that use it."""
    spare_bytes: int
    """Memory left on the most used card, after subtracting `context_bytes`; negative if the
    processes together exceed the card.
    """
    shared: bool
    """Whether processes shared a card. If they did, their peaks are added up, with a CUDA context
    for each but the first.
    """
    budget: str | None
    """The line that says whether limits were met. Only with `--max-peak` or `--max-reserved`."""
    exact: bool
    """Whether the numbers are independent of everything that a dry run doesn't know. If true, the
    next three fields are empty, and each process reported its memory. If the program didn't finish,
    this only covers the part that ran.
    """
    reads: tuple[ValueRead, ...]
    """Values that the program read and that a dry run doesn't know. Values used as sizes come
    first.
    """
    workspaces: tuple[Unknown, ...]
    """Libraries that were asked for a workspace size, which only the real libraries know."""
    unanswered: tuple[Unknown, ...]
    """Functions that may return a size but that a dry run doesn't implement."""
    routing: Routing = "even"
    """How choices were assumed: spread evenly, or all the same."""
    no_values: str
    """Why integers, booleans and small floats weren't computed, so that they all read as zeros; ""
    if they were.
    """
    processes: tuple[DryProcess, ...]
    """Processes that used a card, by rank."""
    shown: str | None
    """The snapshot that `peaks` and `ooms` are about: the one with the highest peak, or the first
    that ran out of memory.
    """
    peaks: tuple[DevicePeak, ...]
    """The result of [memreplay peak](peak.md) for the snapshot `shown`."""
    ooms: tuple[DeviceOoms, ...]
    """The result of [memreplay oom](oom.md) for the snapshot `shown`, if the program ran out of
    memory.
    """
    replaced: bool = False
    """Whether an earlier snapshot was replaced."""
    stopped_by: int = 0
    """The signal that ended the run, other than Ctrl-C; 0 if none did."""
    older: tuple[str, ...] = ()
    """Snapshots of earlier runs in the same folder."""

    def document(self) -> Document:
        from memreplay.commands.dryrun.text import dryrun_document

        return dryrun_document(self)
